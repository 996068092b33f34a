"""Training as a new user meets it."""

import json
import logging
import os
import subprocess
import sys

import numpy as np
import pytest

import gensmooth as gs
from gensmooth.rl.environments.catalogue import reward_threshold
from gensmooth.rl.program import _no_progress
from gensmooth.rl.trainer import PolicyTest
from gensmooth.runs import End

gymnasium = pytest.importorskip("gymnasium")
SMALL = {"num_directions": 2, "test_every": 1, "test_episodes": 2, "seed": 0}


def shell(folder, *words, **environment):
    line = [sys.executable, "-m", "gensmooth", *map(str, words)]
    env = {**os.environ, **environment}
    return subprocess.run(line, capture_output=True, text=True, check=False, cwd=folder, env=env)


class Counting(gymnasium.Env):
    """Pays 1 per step for ten steps, whatever is done."""

    def __init__(self, pay=1.0):
        self.observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float64)
        self.pay = pay

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2), self.pay, self.steps >= 10, False, {}


@pytest.fixture
def solved():
    """An environment that Gymnasium calls solved at 9.5, and one at 99."""
    for name, threshold in (("FrontSolved-v0", 9.5), ("FrontUnsolved-v0", 99.0)):
        gymnasium.register(name, Counting, reward_threshold=threshold, max_episode_steps=20)
    yield
    for name in ("FrontSolved-v0", "FrontUnsolved-v0"):
        del gymnasium.registry[name]


# --- the target ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("solved")
def test_it_stops_where_gymnasium_calls_it_solved_and_says_so():
    assert reward_threshold("CartPole-v1") == 475
    assert reward_threshold("Hopper-v5") == 3800
    assert reward_threshold("Pendulum-v1") is None
    assert reward_threshold("CartPole-v1(sutton_barto_reward=True)") is None
    result = gs.rl.train("FrontSolved-v0", max_steps=5, **SMALL)
    assert (result.reason, result.nit, result.success) == ("target", 1, True)
    assert "9.5, at which Gymnasium considers FrontSolved-v0 solved" in result.message
    on = gs.rl.train("FrontSolved-v0", max_steps=3, target=None, **SMALL)
    assert (on.reason, on.nit) == ("max_steps", 3)
    own = gs.rl.train("FrontSolved-v0", max_steps=3, target=10.0, **SMALL)
    assert own.message == "A test reached the target."
    below = gs.rl.train("FrontUnsolved-v0", max_steps=2, **SMALL)
    assert below.reason == "max_steps"


@pytest.mark.usefixtures("solved")
def test_a_folder_from_before_goes_on_without_a_target(tmp_path):
    how = {"max_steps": 3, "folder": tmp_path / "old", **SMALL}
    gs.rl.train("FrontSolved-v0", target=None, callback=lambda *_: True, **how)
    again = gs.rl.train("FrontSolved-v0", **how)  # the default; the folder has none
    assert (again.reason, again.nit) == ("max_steps", 3)


@pytest.mark.usefixtures("solved")
def test_a_target_that_an_earlier_test_has_reached_ends_a_training_that_is_resumed(tmp_path):
    gs.rl.train("FrontUnsolved-v0", max_steps=2, folder=tmp_path / "run", **SMALL)
    further = gs.rl.resume(tmp_path / "run", max_steps=50, target=10.0)
    assert (further.reason, further.nit) == ("target", 2)


def test_targets_in_the_shell(tmp_path):
    words = ["train", "CartPole-v1", "-L", 2, "-n", 1, "--test-episodes", 2, "--seed", 0]
    for text, kept in (("threshold", 475.0), ("none", None), ("20", 20.0)):
        done = shell(tmp_path, *words, "--target", text, "--folder", text)
        assert done.returncode == 0, done.stderr
        assert (
            json.loads((tmp_path / text / "config.json").read_text())["schedule"]["target"] == kept
        )
    done = shell(tmp_path, *words, "--target", "high")
    assert "`--target` must be a number, threshold or none" in done.stderr


# --- names and arguments ------------------------------------------------------------------------


def test_a_name_without_a_version_says_which_one_it_means(caplog):
    pytest.importorskip("mujoco")
    how = {**SMALL, "max_steps": 0}
    gs.rl.train("Hopper", **how)
    assert [record.message for record in caplog.records] == [
        "Hopper means Hopper-v4; name another version in full."
    ]
    assert caplog.records[0].levelno == logging.WARNING
    caplog.clear()
    for name in ("Hopper-v4", "Hopper-v5", "CartPole-v1", "Pendulum-v1(g=5.0)"):
        gs.rl.train(name, **how)
    assert not caplog.records


def test_arguments_of_an_environment(tmp_path):
    how = {**SMALL, "max_steps": 1}
    named = gs.rl.train("Pendulum-v1(g=5.0)", **how)
    given = gs.rl.train("Pendulum-v1", env_args={"g": 5.0}, **how)
    assert given.policy.environment == "Pendulum-v1(g=5.0)"
    assert given.tests == named.tests
    words = ["train", "Pendulum-v1", "-L", 2, "-n", 1, "--test-every", 1, "--test-episodes", 2]
    done = shell(tmp_path, *words, "--seed", 0, "--env-arg", "g=5.0", "--json")
    found = json.loads(done.stdout)
    assert found["environment"] == "Pendulum-v1(g=5.0)"
    assert found["best"]["mean_return"] == named.best.mean_return
    refused = shell(tmp_path, *words, "--env-arg", "5.0")
    assert "`--env-arg` must be name=value" in refused.stderr
    with pytest.raises(ValueError, match="must be None if `environment` is not a name"):
        gs.rl.train(Counting, env_args={"pay": 2.0})


def test_a_policy_of_ones_own_says_what_to_do():
    with pytest.raises(
        ValueError, match=r"To train a custom policy, write an objective.*gs.minimize\(fun"
    ):
        gs.rl.train("CartPole-v1", policy=lambda x, seen: x @ seen)
    with pytest.raises(ValueError, match=r"but is 'cnn'\.$"):
        gs.rl.train("CartPole-v1", policy="cnn")


def test_words_of_others():
    with pytest.raises(TypeError, match="has no argument `n_jobs`: use `workers`"):
        gs.rl.train("CartPole-v1", n_jobs=2)


# --- what is said afterwards --------------------------------------------------------------------


def test_another_number_of_steps_points_to_the_command(tmp_path):
    words = ["train", "CartPole-v1", "-L", 2, "--test-episodes", 2, "--seed", 0, "--folder", "run"]
    assert shell(tmp_path, *words, "-n", 1).returncode == 0
    done = shell(tmp_path, *words, "-n", 2)
    assert "`max_steps` (there 1, here 2)" in done.stderr
    assert "use `gensmooth resume` to continue that training" in done.stderr
    assert shell(tmp_path, "resume", "run", "--max-steps", 2).returncode == 0


@pytest.mark.usefixtures("solved")
def test_a_result_shows_its_returns():
    result = gs.rl.train("FrontUnsolved-v0", max_steps=2, **SMALL)
    rows = dict(line.split(": ", 1) for line in str(result).splitlines())
    rows = {name.strip(): value for name, value in rows.items()}
    assert (rows["environment"], rows["reason"], rows["nit"]) == (
        "FrontUnsolved-v0",
        "max_steps",
        "2",
    )
    assert (rows["fun"], rows["best_fun"]) == ("10", "10 after 1 steps")
    assert result["fun"] == result.fun == result.tests[-1].mean_return == result.best_fun
    assert result.x is result.policy.parameters


@pytest.mark.usefixtures("solved")
def test_a_callback_gets_the_result_so_far_and_may_stop():
    seen = []

    def stop(intermediate_result):
        seen.append(intermediate_result)
        if intermediate_result.nit == 2:
            raise StopIteration

    result = gs.rl.train("FrontUnsolved-v0", max_steps=5, callback=stop, **SMALL)
    assert (result.reason, result.status, result.success, result.nit) == ("callback", 99, False, 2)
    assert [now.nfev for now in seen] == [info.info.evaluations for info in result.history]
    assert [now.test for now in seen] == list(result.tests)
    assert seen[-1].x.tobytes() == result.x.tobytes()
    with pytest.raises(TypeError, match="is called with one argument"):
        gs.rl.train("FrontUnsolved-v0", callback=lambda _iteration, _test: True, **SMALL)


@pytest.mark.usefixtures("solved")
def test_seconds_end_a_training_which_then_goes_on(tmp_path):
    how = {"max_steps": 3, "folder": tmp_path / "run", **SMALL}
    part = gs.rl.train("FrontUnsolved-v0", max_seconds=1e-9, **how)
    assert (part.reason, part.success, part.nit) == ("max_seconds", True, 1)
    whole = gs.rl.train("FrontUnsolved-v0", **how)
    assert (whole.reason, whole.nit) == ("max_steps", 3)
    with pytest.raises(ValueError, match="`retries` is for on_failure='retry'"):
        gs.rl.train("FrontUnsolved-v0", retries=2, **SMALL)


def test_no_progress_is_said_and_progress_is_not():
    def tests(*means):
        return [PolicyTest(i, 0, 0, 50, mean, 10.0, 1.0, None) for i, mean in enumerate(means)]

    end = End("max_steps")
    assert "'mlp'" in _no_progress(tests(0, 1, -1, 2), end)  # an error of 1.4 each
    assert _no_progress(tests(0, 1, -1, 9), end) == ""
    assert _no_progress(tests(0, 1), end) == ""
    assert _no_progress(tests(0, 1, -1, 2), End("target")) == ""


@pytest.mark.parametrize("workers", [1, 2])
def test_an_environment_that_raises_shows_its_traceback(workers, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import gymnasium\nimport numpy as np\n\n\n"
        "class Mine(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float64)\n"
        "    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float64)\n"
        "    def reset(self, *, seed=None, options=None):\n        return np.zeros(2), {}\n"
        "    def step(self, action):\n        raise KeyError('friction')\n\n\n"
        "gymnasium.register('Mine-v0', Mine)\n"
    )
    done = shell(tmp_path, "train", "mine:Mine-v0", "-L", 2, "-n", 1, "--workers", workers)
    assert done.returncode == 1
    assert "mine.py" in done.stderr
    assert "raise KeyError('friction')" in done.stderr


@pytest.mark.usefixtures("solved")
def test_every_step_of_a_film_is_drawn_once(tmp_path, monkeypatch):
    """What a film costs beyond its frames is an episode, and the file."""
    pytest.importorskip("imageio")
    drawn = []

    def render(self):
        drawn.append(self.steps)
        return np.zeros((8, 8, 3), np.uint8)

    monkeypatch.setattr(Counting, "render", render, raising=False)
    monkeypatch.setattr(Counting, "metadata", {"render_modes": ["rgb_array"], "render_fps": 30})
    monkeypatch.setattr(Counting, "render_mode", "rgb_array", raising=False)
    monkeypatch.setattr(Counting, "__init__", _init)
    gs.rl.train("FrontUnsolved-v0", max_steps=1, folder=tmp_path / "run", **SMALL)
    film = gs.rl.render(tmp_path / "run", tmp_path / "film.gif", progress=True)
    assert film.frames == len(drawn) == 11


def _init(self, render_mode=None):
    assert render_mode in (None, "rgb_array")
    self.observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float64)
    self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float64)
    self.pay = 1.0
