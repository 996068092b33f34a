"""A robot of a user's: his functions compiled equal his functions as they are."""

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs the extra rl")

import gensmooth as gs
from gensmooth.physics import custom
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.base import UnsupportedEnvironmentError
from gensmooth.rl.normalize import identity

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_robot.py"


@pytest.fixture(scope="module")
def cart(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("own")
    shutil.copy(EXAMPLE, folder)
    sys.path.insert(0, str(folder))
    yield gs.rl.make("own_robot:Cart")
    sys.path.remove(str(folder))


def rollouts(cart: Any) -> Any:
    policy = gs.rl.Linear().policy(4, 1)
    starts = cart.starts([np.random.default_rng(i) for i in range(6)])
    weights = np.random.default_rng(1).standard_normal((6, 4))
    return policy, weights, identity(4), starts


def test_what_is_known_of_it(cart: Any):
    info = cart.info
    assert (info.name, info.observation_size, info.action_size) == ("own_robot:Cart", 4, 1)
    assert (info.horizon, info.survival_bonus, info.fast) == (300, 0.0, True)


def unknown_to_numba(robot: Any) -> Any:
    return np.array([np.clip(robot.qpos[0], -1.0, 1.0)])


def plain_reward(robot: Any, action: Any) -> float:  # noqa: ARG001
    return 0.0


def test_what_numba_does_not_know_is_said_plainly(cart: Any):
    line = inspect.getsourcelines(unknown_to_numba)[1] + 1
    name = gs.rl.register_robot(
        "Unknown",
        custom.definition_of(cart.info.name).model,
        observation=unknown_to_numba,
        reward=plain_reward,
    )
    found, policy = gs.rl.make(name), gs.rl.Linear().policy(1, 1)
    starts = found.starts([np.random.default_rng(0)])
    words = rf"Unknown cannot be compiled for the CPU: Numba.*test_rl_own.py, line {line},"
    with pytest.raises(UnsupportedEnvironmentError, match=words):
        found.rollout(policy, np.zeros((1, policy.num_parameters)), identity(1), starts)


def test_compiled_steps_are_those_of_the_plain_functions(cart: Any):
    import gymnasium

    policy, weights, scaling, starts = rollouts(cart)
    trace = cart.trace(policy, weights, scaling, starts, steps=60)
    assert trace.ended.any()
    plain: Any = gymnasium.make(catalogue.reference("own_robot:Cart")).unwrapped
    for episode in range(len(starts)):
        plain.reset()
        plain.set_state(starts[episode, :2], starts[episode, 2:])
        for step in range(int(trace.episodes.lengths[episode])):
            seen, reward, ended, _, _ = plain.step(trace.actions[episode, step])
            assert np.array_equal(seen, trace.observations[episode, step + 1])
            assert reward == trace.rewards[episode, step]
            assert ended == trace.ended[episode, step]
    plain.close()


def test_a_reset_draws_the_start_of_the_simulator(cart: Any):
    import gymnasium

    plain: Any = gymnasium.make(catalogue.reference("own_robot:Cart"))
    seen, _ = plain.reset(seed=3)
    (start,) = cart.starts([np.random.default_rng(3)])
    assert np.array_equal(seen, start)
    plain.close()


def test_threads_change_no_bit(cart: Any):
    one, two = (cart.rollout(*rollouts(cart), threads=threads) for threads in (1, 2))
    assert one.returns.tobytes() == two.returns.tobytes()


def test_it_is_trained_by_its_name_in_a_folder_of_the_users(tmp_path: Path):
    shutil.copy(EXAMPLE, tmp_path)
    command = [sys.executable, "-m", "gensmooth", "train", "own_robot:Cart", "--max-steps", "2"]
    done = subprocess.run(
        [*command, "--seed", "2", "--folder", "cart"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "own_robot:Cart" in done.stdout


# --- the survival bonus, and what is refused ----------------------------------------------------

MODEL = """
<mujoco><worldbody><body><joint type="slide" axis="1 0 0"/><geom size="0.1"/></body></worldbody>
{}</mujoco>
"""
MOTOR = '<actuator><motor joint="joint" gear="1"/></actuator>'
FULL = MODEL.format(MOTOR).replace('<joint type="slide"', '<joint name="joint" type="slide"')


def seen(robot):
    return np.concatenate((robot.qpos, robot.qvel))


def paid(robot, action):  # noqa: ARG001
    return (robot.qpos[0] - robot.before[0]) / robot.dt


def far(robot):
    return robot.qpos[0] > 0.05


def pair(robot):  # noqa: ARG001
    return np.zeros((2, 2))


def whole(robot):  # noqa: ARG001
    return np.zeros(2, np.int64)


def several(robot, action):  # noqa: ARG001
    return robot.qpos


def number(robot):  # noqa: ARG001
    return 0.5


def nowhere(model, rng):  # noqa: ARG001
    return np.zeros(7)


def test_the_bonus_is_paid_in_every_step_but_the_one_that_ends():
    name = gs.rl.register_robot(
        "Slider", FULL, observation=seen, reward=paid, terminated=far, survival_bonus=2.0
    )
    assert name == f"{__name__}:Slider"
    slider = gs.rl.make(name)
    policy = gs.rl.Linear().policy(2, 1)
    starts = np.array([[0.0, 1.0]])
    trace: Any = slider.trace(policy, np.zeros((1, 2)), identity(2), starts, steps=50)
    length = int(trace.episodes.lengths[0])
    assert 1 < length < 50
    assert trace.episodes.bonuses[0] == 2.0 * (length - 1)
    moved = np.diff(trace.observations[0, : length + 1, 0]) / (5 * 0.002)
    expected = moved + np.where(np.arange(length) < length - 1, 2.0, 0.0)
    np.testing.assert_allclose(trace.rewards[0, :length], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"model": 3}, TypeError, "path of an XML file"),
        ({"model": "missing.xml"}, ValueError, "missing.xml"),
        ({"model": "<mujoco><nonsense/></mujoco>"}, ValueError, "not a MuJoCo model"),
        ({"model": MODEL.format("")}, ValueError, "no actuator"),
        ({"observation": pair}, TypeError, "one-dimensional"),
        ({"observation": whole}, TypeError, "float64"),
        ({"observation": lambda robot: robot.qpos}, TypeError, "top level"),
        ({"reward": several}, TypeError, "must return a number"),
        ({"reward": None}, TypeError, "reward"),
        ({"terminated": number}, TypeError, "True or False"),
        ({"start": nowhere}, ValueError, "1 positions and 1 velocities"),
        ({"frame_skip": 0}, ValueError, "frame_skip"),
        ({"horizon": 2.5}, (TypeError, ValueError), "horizon"),
        ({"survival_bonus": -1.0}, ValueError, "survival_bonus"),
    ],
)
def test_bad_robots_are_refused(change: dict[str, Any], error: Any, words: str):
    given = {"name": "Bad", "model": FULL, "observation": seen, "reward": paid, **change}
    with pytest.raises(error, match=words):
        _begin(**given)


def _begin(name: str, model: Any, **given: Any) -> Any:
    return gs.rl.make(gs.rl.register_robot(name, model, **given)).starts([np.random.default_rng(0)])


def test_a_model_in_a_file_is_found_beside_the_module(tmp_path: Path, monkeypatch: Any):
    monkeypatch.setattr(sys.modules[__name__], "__file__", str(tmp_path / "robot.py"))
    (tmp_path / "slider.xml").write_text(FULL)
    name = gs.rl.register_robot("Filed", "slider.xml", observation=seen, reward=paid)
    assert custom.definition_of(name).model == tmp_path / "slider.xml"
    assert gs.rl.make(name).info.observation_size == 2


TWO_ROBOTS = """
import sys

import numpy as np
from own_robot import MODEL

import gensmooth as gs
from gensmooth.rl.normalize import identity
from gensmooth.rl.policies import Linear


def little(robot):
    return np.concatenate((0.0 * robot.qpos + 1.0, 0.0 * robot.qvel))


def much(robot):
    return np.concatenate((0.0 * robot.qpos + 100.0, 0.0 * robot.qvel))


def reward(robot, action):
    return action[0]


for name, seen in (("Poor", little), ("Rich", much)):
    gs.rl.register_robot(name, MODEL, observation=seen, reward=reward, horizon=3)
for name in sys.argv[1:]:
    made = gs.rl.make(name)
    policy = Linear().policy(made.info.observation_size, made.info.action_size)
    starts = made.starts([np.random.default_rng(0)])
    x = np.ones((1, policy.num_parameters))
    print(name, made.rollout(policy, x, identity(policy.sizes[0]), starts).returns[0])
"""


@pytest.mark.usefixtures("fresh_interpreters")
@pytest.mark.extended("soak tests and fuzzers")
def test_robots_that_two_processes_compiled_do_not_mix_in_a_third(tmp_path):
    """Numba numbers the functions of a process anew: what it keeps on disk may share a name."""
    shutil.copy(EXAMPLE, tmp_path)
    (tmp_path / "two_robots.py").write_text(TWO_ROBOTS)

    def run(*names: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "two_robots.py", *names],
            cwd=tmp_path,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept")},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    alone = run("Poor") + run("Rich")
    assert alone == ["Poor 6.0", "Rich 600.0"]
    assert run("Poor", "Rich") == alone
