"""A policy's file, evaluation and film: the same policy comes back, and troubles are told."""

import ctypes.util
import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

import gensmooth as gs
from gensmooth.rl import rendering
from gensmooth.rl.evaluation import interval
from gensmooth.rl.normalize import Statistics
from gensmooth.rl.policies import MLP
from gensmooth.rl.policy_file import TrainedPolicy
from gensmooth.rl.rollouts import test_rngs as rngs_of
from gensmooth.runs import container

pytest.importorskip("gymnasium")
from rl_cases import SLIDER

OPTIONS = {
    "num_directions": 4,
    "spacing": 0.1,
    "learning_rate": 0.05,
    "max_steps": 6,
    "test_every": 3,
    "test_episodes": 5,
    "seed": 7,
}


@pytest.fixture
def trained():
    rng = np.random.default_rng(0)
    policy = MLP((3,)).policy(6, 2)
    return TrainedPolicy(
        environment=SLIDER,
        policy=policy,
        parameters=rng.standard_normal(policy.num_parameters),
        statistics=Statistics(1000, rng.standard_normal(6), 1000 * rng.random(6)),
        standardize=True,
        method="bes-shrinkage",
        seed=2**64 - 1,
        step=41,
        mean_return=-math.inf,
    )


# --- files ---------------------------------------------------------------------------------------


def test_what_is_saved_is_loaded_to_the_last_bit(trained, tmp_path):
    trained.save(tmp_path / "policy")
    found = gs.rl.load_policy(tmp_path / "policy", environment=SLIDER)
    assert found.parameters.tobytes() == trained.parameters.tobytes()
    assert found.statistics.m2.tobytes() == trained.statistics.m2.tobytes()
    for name in ("environment", "policy", "standardize", "method", "seed", "step", "mean_return"):
        assert getattr(found, name) == getattr(trained, name), name
    observation = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(found(observation), trained(observation))
    assert (tmp_path / "policy").stat().st_size < 2000


def test_a_policy_standardises_what_it_sees(trained):
    observation = np.linspace(-1, 2, 6)
    deviation = np.sqrt(trained.statistics.m2 / 999)
    used = (observation - trained.statistics.mean) / deviation
    expected = trained.policy.act(trained.parameters, used)
    np.testing.assert_allclose(trained(observation), expected, rtol=1e-12)


def test_another_environment_is_refused(trained, tmp_path):
    trained.save(tmp_path / "policy")
    words = "trained in rl_cases:Slider-v0 and cannot run in Pendulum-v1"
    with pytest.raises(ValueError, match=words):
        gs.rl.load_policy(tmp_path / "policy", environment="Pendulum-v1")
    with pytest.raises(ValueError, match=words):
        gs.rl.evaluate(trained, environment="Pendulum-v1")


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": [6, 4, 2]},
        {"sizes": "6"},
        {"sizes": [6.0, 2]},
        {"biases": 1},
        {"seed": -1},
        {"seed": 0.5},
        {"environment": None},
        {"observations": "many"},
        {"step": -1},
        {"mean_return": []},
    ],
    ids=str,
)
def test_a_file_that_says_something_else_is_no_policy(change, trained, tmp_path):
    path = tmp_path / "policy"
    trained.save(path)
    meta, arrays = container.read(path)
    container.write(path, meta | change, arrays)
    with pytest.raises(gs.CheckpointError, match="is not a policy"):
        gs.rl.load_policy(path)


def test_files_that_are_none(trained, tmp_path):
    with pytest.raises(gs.CheckpointError, match="has no policy yet"):
        gs.rl.load_policy(tmp_path)
    with pytest.raises(gs.CheckpointError, match="does not exist"):
        gs.rl.load_policy(tmp_path / "nothing")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(gs.CheckpointError, match="is not a gensmooth checkpoint"):
        gs.rl.load_policy(tmp_path / "text")
    trained.save(tmp_path / "policy")
    spoilt = bytearray((tmp_path / "policy").read_bytes())
    spoilt[-1] ^= 1
    (tmp_path / "policy").write_bytes(spoilt)
    with pytest.raises(gs.CheckpointError, match="checksum"):
        gs.rl.load_policy(tmp_path / "policy")
    gs.rl.train(SLIDER, folder=tmp_path / "run", **OPTIONS)
    with pytest.raises(gs.CheckpointError, match="is not a policy"):
        gs.rl.load_policy(tmp_path / "run" / "checkpoint")


# --- evaluation ----------------------------------------------------------------------------------


def test_the_interval_is_students():
    values = np.random.default_rng(0).normal(3, 2, 12)
    mean, deviation, half = interval(values, 0.9)
    low, high = scipy.stats.t.interval(0.9, 11, values.mean(), scipy.stats.sem(values))
    np.testing.assert_allclose((mean - half, mean + half), (low, high), rtol=1e-12)
    assert deviation == values.std(ddof=1)
    assert interval(values[:1], 0.9)[2] == math.inf


def test_evaluation_repeats_and_sees_fresh_starts(tmp_path):
    result = gs.rl.train(SLIDER, folder=tmp_path / "run", **OPTIONS)
    one = gs.rl.evaluate(tmp_path / "run", episodes=40)
    assert np.array_equal(one.returns, gs.rl.evaluate(result.best, episodes=40).returns)
    other = gs.rl.evaluate(tmp_path / "run", episodes=40, seed=7)
    assert not np.isin(one.returns, other.returns).any()
    last = gs.rl.evaluate(tmp_path / "run" / "policy-last", episodes=5, seed=7)
    assert last.mean_return != result.tests[-1].mean_return  # same seed, but not the same starts
    assert one.low < one.mean_return < one.high
    assert one.success is None
    np.testing.assert_allclose(one.mean_return, one.returns.mean())


def test_an_episode_that_breaks_down(trained):
    broken = replace(trained, environment="rl_cases:SliderRaise-v0")
    with pytest.raises(gs.EvaluationError, match="failed in episode") as raised:
        gs.rl.evaluate(broken, episodes=40)
    assert str(raised.value.__cause__) == "the belt broke"
    found = gs.rl.evaluate(broken, episodes=40, on_failure="drop")
    assert found.failed + found.episodes == 40
    assert found.failed > 0
    assert math.isfinite(found.mean_return)


def test_bad_settings(trained):
    for options in ({"episodes": 0}, {"confidence": 1.0}):
        with pytest.raises(ValueError, match="must be"):
            gs.rl.evaluate(trained, **options)


# --- films ---------------------------------------------------------------------------------------

FILM = """
import sys
import imageio.v3
import numpy as np
import gensmooth as gs
policy = gs.rl.load_policy(sys.argv[1])
film = gs.rl.render(policy, sys.argv[2], episodes=2, max_steps=12, skip=3)
seen = imageio.v3.imread(film.path)
assert len(seen) == film.frames == 10, (seen.shape, film)  # a start and four of twelve steps, twice
assert seen.std() > 5, "all of one colour"
assert not np.array_equal(seen[0], seen[4]), "nothing moves"
print(film.fps, *film.returns)
"""


@pytest.mark.extended("films")
@pytest.mark.parametrize("kind", ["mp4", "gif"])
@pytest.mark.parametrize("name", ["Hopper-v5", "HalfCheetahRandVel"])
def test_a_film_shows_the_episodes_of_the_evaluation(name, kind, tmp_path):
    pytest.importorskip("mujoco")
    pytest.importorskip("imageio")
    if not (ctypes.util.find_library("OSMesa") or ctypes.util.find_library("EGL")):
        pytest.skip("needs libOSMesa or libEGL")
    result = gs.rl.train(name, **OPTIONS | {"max_steps": 0})
    x = 0.01 * np.random.default_rng(0).standard_normal(result.policy.parameters.size)
    policy = replace(result.policy, parameters=x)
    policy.save(tmp_path / "policy")
    film = tmp_path / f"film.{kind}"
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "MUJOCO_GL")}
    done = subprocess.run(
        [sys.executable, "-c", FILM, str(tmp_path / "policy"), str(film)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    fps, *returns = map(float, done.stdout.split())
    simulator = gs.rl.make(name)
    trace = simulator.trace(
        policy.policy,
        np.tile(x, (2, 1)),
        policy.scaling,
        simulator.starts(rngs_of(0, 0, 2)),
        steps=12,
    )
    np.testing.assert_allclose(returns, np.nansum(trace.rewards, axis=1), rtol=1e-9)
    assert fps == {"Hopper-v5": 125, "HalfCheetahRandVel": 20}[name] / 3


FOLLOWED = """
import sys
from gensmooth.rl.rendering import make_drawable, use_software_rendering
use_software_rendering()
environment = make_drawable(sys.argv[1])
environment.reset(seed=0)
for place in (0.0, 30.0):
    own = environment.unwrapped
    qpos = own.data.qpos.copy()
    qpos[0] = place
    own.set_state(qpos, own.data.qvel)
    frame = environment.render().astype(int)
    print((frame[..., 0] > frame[..., 2] + 40).sum())  # the robot is brown, all else is not
environment.close()
"""


@pytest.mark.extended("films")
def test_the_camera_follows_the_robot():
    pytest.importorskip("mujoco")
    if not (ctypes.util.find_library("OSMesa") or ctypes.util.find_library("EGL")):
        pytest.skip("needs libOSMesa or libEGL")
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "MUJOCO_GL")}
    done = subprocess.run(
        [sys.executable, "-c", FOLLOWED, "Hopper-v5"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    here, far_away = map(int, done.stdout.split())
    assert here > 1000
    assert far_away > 0.5 * here


@pytest.mark.parametrize("where", ["nowhere/film.mp4", "file/film.mp4", "folder.mp4"])
def test_a_place_that_cannot_be_written_is_found_before_anything_is_drawn(
    where, trained, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.mp4").mkdir()
    monkeypatch.setattr(rendering, "use_software_rendering", lambda: pytest.fail("too late"))
    with pytest.raises(OSError, match=r"^The video .* cannot be written: [\w ]+\.$"):
        gs.rl.render(trained, tmp_path / where)


def test_looking_whether_a_film_can_be_written_changes_nothing(tmp_path):
    rendering._check_writable(tmp_path / "new.gif")
    assert not (tmp_path / "new.gif").exists()
    (tmp_path / "old.gif").write_text("film")
    rendering._check_writable(tmp_path / "old.gif")
    assert (tmp_path / "old.gif").read_text() == "film"


class Writer:
    """Takes three frames, then fails as imageio does when ffmpeg ends."""

    def __init__(self):
        self.frames = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def append_data(self, _):
        self.frames += 1
        if self.frames > 3:
            raise OSError("[Errno 32] Broken pipe\n\nFFMPEG COMMAND:\nffmpeg -y -f rawvideo")


def test_a_writer_that_fails_dumps_no_command_line(tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg")
    monkeypatch.setattr("imageio.v2.get_writer", lambda *_, **__: Writer())
    frames = iter(np.zeros((5, 8, 8, 3), np.uint8))
    with pytest.raises(OSError, match=r"cannot be written: \[Errno 32\] Broken pipe\.$"):
        rendering._write(tmp_path / "film.mp4", frames, 30.0, lambda *_: None)


def test_drawing_shows_progress_if_wanted(tmp_path, monkeypatch, capsys):
    pytest.importorskip("imageio")
    frames = np.random.default_rng(0).integers(0, 255, (6, 8, 8, 3), np.uint8)

    def said(shown, terminal=False):
        monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
        report = rendering._reporter(20, shown)
        rendering._write(tmp_path / "film.gif", iter(frames), 30.0, report)
        return capsys.readouterr().err

    assert said(None) == said(False) == said(False, terminal=True) == ""
    assert said(True) == "Frames rendered: 6\n"  # done before the first line was due
    monkeypatch.setattr(rendering, "_EVERY", 0.0)
    lines = said(True).splitlines()
    assert lines[:2] == ["Frames rendered: 1 of at most 20", "Frames rendered: 2 of at most 20"]
    assert lines[-1] == "Frames rendered: 6"
    assert said(None, terminal=True) == "\rFrames rendered: 6\x1b[K\n"


def test_films_that_cannot_be_made(trained, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"a \.mp4 or \.gif file"):
        gs.rl.render(trained, tmp_path / "film.avi")
    with pytest.raises(ValueError, match="`skip` must be a whole number of at least 1"):
        gs.rl.render(trained, tmp_path / "film.gif", skip=0)
    with pytest.raises(RuntimeError, match="cannot be rendered"):
        gs.rl.render(trained, tmp_path / "film.gif")
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setattr("ctypes.util.find_library", lambda _: None)
    with pytest.raises(ImportError, match="apt-get install libosmesa6"):
        gs.rl.render(trained, tmp_path / "film.gif")


CARTPOLE = {**OPTIONS, "max_steps": 0}


@pytest.mark.extended("films")
def test_classic_control_is_filmed(tmp_path):
    pytest.importorskip("pygame")
    pytest.importorskip("imageio")
    if not (ctypes.util.find_library("OSMesa") or ctypes.util.find_library("EGL")):
        pytest.skip("needs libOSMesa or libEGL")
    policy = gs.rl.train("CartPole-v1", **CARTPOLE).policy
    film = gs.rl.render(policy, tmp_path / "film.gif", max_steps=5)
    assert film.frames == 6
    assert film.path.stat().st_size > 0


def test_a_package_that_the_frames_need_is_named_and_no_file_is_left(tmp_path, monkeypatch):
    pytest.importorskip("imageio")
    monkeypatch.setattr(rendering, "use_software_rendering", lambda: None)
    monkeypatch.setitem(sys.modules, "pygame", None)
    policy = gs.rl.train("CartPole-v1", **CARTPOLE).policy
    with pytest.raises(ImportError, match=r"Rendering CartPole-v1 needs .*pip install"):
        gs.rl.render(policy, tmp_path / "film.gif")
    assert not list(tmp_path.iterdir())
