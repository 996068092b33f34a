"""docs/contributing/environment.md and physics-bug.md, followed to the letter."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco")
pytest.importorskip("gymnasium")

import gensmooth as gs
from gensmooth.physics import registry
from gensmooth.physics.compare import compare
from gensmooth.physics.mujoco_calls import load_mujoco, physics
from gensmooth.physics.robots import legged
from gensmooth.rl.environments.gymnasium import make_environment
from gensmooth.rl.normalize import identity

PAGES = Path(__file__).parents[2] / "docs" / "contributing"


def blocks(page, language="python"):
    text = (PAGES / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.M | re.S)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A folder with the modules of environment.md, on the path."""
    for code in blocks("environment.md"):
        (tmp_path / re.match(r"# (\w+\.py)\n", code)[1]).write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for module, robot in (("swing", "swing:Swing"), ("humanoid_standup", "HumanoidStandup-v5")):
        sys.modules.pop(module, None)
        registry._entries.pop(robot, None)
        legged.ROBOTS.pop(robot, None)


def test_a_robot_in_a_module_is_compared_and_run(written):
    comparing, training, on_device = blocks("environment.md", "sh")[0].splitlines()
    words = comparing.partition("#")[0].split()
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=written,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "All terms agree with MuJoCo up to rounding." in done.stdout
    assert training.split()[:3] == on_device.split()[:3] == ["gensmooth", "train", "swing:Swing"]
    swing = gs.rl.make("swing:Swing")
    starts = swing.starts([np.random.default_rng(k) for k in range(2)])
    episodes = swing.rollout(gs.rl.Policy((3, 1)), np.zeros((2, 3)), identity(3), starts)
    assert np.isfinite(episodes.returns).all()
    assert (episodes.lengths == 200).all()


def test_the_robot_for_the_package_equals_gymnasiums(written):  # noqa: ARG001
    import humanoid_standup  # noqa: F401

    robot = registry.make("HumanoidStandup-v5")
    environment = make_environment("HumanoidStandup-v5").unwrapped
    environment.reset(seed=3)
    model = robot.model()
    data = load_mujoco().MjData(model)
    state, seen = robot.state(model, data, physics(model, data)), np.empty(348)
    robot.begin(state, robot.start(model, np.random.default_rng(0)))
    environment.set_state(data.qpos.copy(), data.qvel.copy())
    rng = np.random.default_rng(1)
    for _ in range(10):
        action = rng.uniform(-0.4, 0.4, 17)
        reward, bonus, ended, _ = robot.step(state, action)
        robot.observe(state, seen)
        theirs, paid, terminated, _, _ = environment.step(action)
        np.testing.assert_allclose(seen, theirs, rtol=1e-9, atol=1e-9)
        assert reward == pytest.approx(paid, rel=1e-12)
        assert (bonus, ended) == (0.0, terminated)


def test_its_physics_is_covered(written):  # noqa: ARG001
    import humanoid_standup  # noqa: F401

    assert compare("HumanoidStandup-v5", steps=2).first is None


def test_the_code_of_the_page_on_bugs_runs():
    for code in blocks("physics-bug.md"):
        exec(compile(code, "physics-bug.md", "exec"), {"__name__": "__page__"})
