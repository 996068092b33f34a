"""What an environment may be given as, and what is imported because of it."""

import os
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import gensmooth as gs

gymnasium = pytest.importorskip("gymnasium")

import rl_cases  # noqa: E402
from gensmooth.rl.environments.catalogue import (  # noqa: E402
    canonical,
    join_name,
    make,
    split_name,
)
from gensmooth.rl.environments.gymnasium import GymnasiumSimulator  # noqa: E402
from gensmooth.rl.normalize import identity, statistics  # noqa: E402
from gensmooth.rl.policy_file import TrainedPolicy  # noqa: E402

MODULE = """
from pathlib import Path
Path(__file__).with_name("imported").write_text("")
import gymnasium
from gymnasium.envs.classic_control.pendulum import PendulumEnv
gymnasium.register(id="Mine-v0", entry_point=PendulumEnv, max_episode_steps=5)
"""
SHORT = {
    "num_directions": 2,
    "spacing": 0.1,
    "learning_rate": 0.05,
    "max_steps": 2,
    "test_every": 2,
    "test_episodes": 2,
    "seed": 1,
}


def returns_of(simulator, seed=0):
    info = simulator.info
    policy = gs.rl.Linear().policy(info.observation_size, info.action_size)
    x = np.random.default_rng(seed).standard_normal((3, policy.num_parameters))
    starts = simulator.starts([np.random.default_rng(i) for i in range(3)])
    return simulator.rollout(policy, x, identity(info.observation_size), starts).returns


# --- a file is data from a stranger --------------------------------------------------------------


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A policy's file whose environment lies in a module that tells when it is imported."""
    name = f"module_{os.getpid()}_{len(sys.modules)}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    policy = gs.rl.Linear().policy(3, 1)
    TrainedPolicy(
        environment=f"{name}:Mine-v0",
        policy=policy,
        parameters=np.zeros(3),
        statistics=statistics(3),
        standardize=True,
        method="bes",
        seed=0,
        step=1,
        mean_return=0.0,
    ).save(tmp_path / "policy")
    yield tmp_path
    sys.modules.pop(name, None)
    gymnasium.registry.pop("Mine-v0", None)


def test_nothing_is_imported_because_a_file_says_so(stranger):
    policy = gs.rl.load_policy(stranger / "policy")
    for use in (
        lambda: gs.rl.evaluate(stranger / "policy", episodes=2),
        lambda: gs.rl.evaluate(policy, episodes=2),
        lambda: gs.rl.evaluate(policy, environment="CartPole-v1"),
        lambda: gs.rl.render(stranger / "policy", stranger / "film.gif"),
    ):
        with pytest.raises(ValueError, match=r"would be imported and run|cannot run in"):
            use()
    with pytest.raises(ValueError, match=policy.environment):  # the stored name is shown
        gs.rl.evaluate(policy)
    assert not (stranger / "imported").exists()
    assert not (stranger / "film.gif").exists()


def test_a_training_of_a_stranger_imports_nothing_either(stranger):
    name = gs.rl.load_policy(stranger / "policy").environment
    gs.rl.train(name, **SHORT, folder="run")
    (stranger / "imported").unlink()
    sys.modules.pop(name.partition(":")[0])
    gymnasium.registry.pop("Mine-v0")
    with pytest.raises(ValueError, match=f"{name}.*would be imported and run"):
        gs.rl.resume("run", max_steps=3)
    assert not (stranger / "imported").exists()
    assert gs.rl.resume("run", max_steps=3, trust=True).nit == 3
    assert (stranger / "imported").exists()


def test_trust_or_naming_it_lets_it_run(stranger):
    assert gs.rl.evaluate(stranger / "policy", episodes=2, trust=True).episodes == 2
    assert (stranger / "imported").exists()


def test_trust_in_the_shell(stranger):
    def shell(*words):
        command = "from gensmooth.cli.main import main; main()"
        return subprocess.run(
            [sys.executable, "-P", "-c", command, *words, "policy", "--episodes=2"],
            cwd=stranger,
            capture_output=True,
            text=True,
            check=False,
        )

    refused = shell("evaluate")
    assert refused.returncode == 1
    assert "--trust" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (stranger / "imported").exists()
    done = shell("evaluate", "--trust")
    assert done.returncode == 0, done.stderr


def test_naming_the_environment_is_trust(stranger):
    name = gs.rl.load_policy(stranger / "policy").environment
    assert gs.rl.evaluate(stranger / "policy", episodes=2, environment=name).episodes == 2
    assert gs.rl.evaluate(stranger / "policy", episodes=2).episodes == 2  # imported by now


# --- modules in the current folder ---------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_module_in_the_current_folder_is_found(workers, tmp_path):
    (tmp_path / "my_env.py").write_text(MODULE)
    words = (
        f"train my_env:Mine-v0 -L2 -n1 --test-episodes=2 --workers={workers} --folder run".split()
    )
    command = "from gensmooth.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", command, *words],  # -P: as the installed command starts
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert gs.rl.load_policy(tmp_path / "run").environment == "my_env:Mine-v0"


def test_a_module_that_is_not_there_or_is_broken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"There is no module 'nowhere' in .*"):
        make("nowhere:Mine-v0")
    with pytest.raises(gs.rl.UnknownEnvironmentError, match="not the name of a module"):
        make(":Mine-v0")
    (tmp_path / "needs_more.py").write_text("import something_that_is_not_there")
    with pytest.raises(ModuleNotFoundError, match="something_that_is_not_there"):
        make("needs_more:Mine-v0")  # not "there is no module needs_more"


def test_our_own_slow_environments_travel_to_a_fresh_process(tmp_path):
    pytest.importorskip("mujoco")
    simulator = make("HalfCheetahRandVel", fast=False)
    (tmp_path / "simulator").write_bytes(pickle.dumps(simulator))
    code = "import pickle; print(pickle.load(open('simulator', 'rb')).info.name)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{simulator.info.name}\n", done.stderr


# --- arguments, objects, functions ---------------------------------------------------------------


def test_arguments_are_part_of_the_name():
    name = "Pendulum-v1(g=3.0, max_episode_steps=7)"
    simulator = make("Pendulum-v1", env_args={"max_episode_steps": 7, "g": 3.0})
    assert simulator.info.name == name
    assert simulator.info.horizon == 7
    literal = gymnasium.make("Pendulum-v1", g=3.0, max_episode_steps=7)
    np.testing.assert_array_equal(returns_of(simulator), returns_of(make(literal)))
    np.testing.assert_array_equal(returns_of(simulator), returns_of(make(name)))
    usual = make("Pendulum-v1", env_args={"max_episode_steps": 7})
    assert (returns_of(simulator) != returns_of(usual)).all()


@pytest.mark.parametrize(
    ("name", "id", "arguments"),
    [
        ("CartPole-v1", "CartPole-v1", {}),
        ("A-v0(a=1)", "A-v0", {"a": 1}),
        ("m:A-v0(b='x, (y)', a=[1, None])", "m:A-v0", {"a": [1, None], "b": "x, (y)"}),
    ],
)
def test_names_with_arguments_are_read_and_written_alike(name, id, arguments):
    assert split_name(name) == (id, arguments)
    assert split_name(join_name(id, arguments)) == (id, arguments)
    assert canonical(name) == join_name(id, arguments)


@pytest.mark.parametrize(
    "words",
    ["1", "a=f()", "a=1", "**{}", "a=__import__('os').system('true')", "(" * 900, "a=1)+(2"],
)
def test_other_arguments_are_refused(words):
    name = f"Pendulum-v1({words}" + ("" if words == "a=1" else ")")
    with pytest.raises(gs.rl.UnknownEnvironmentError, match="Arguments must be plain values"):
        make(name)


def test_arguments_that_the_environment_does_not_take():
    with pytest.raises(gs.rl.UnsupportedEnvironmentError, match="unexpected keyword argument 'h'"):
        make("Pendulum-v1(h=1)")
    with pytest.raises(ValueError, match="`env_args` must be None if `environment` is not a name"):
        make(gymnasium.make("Pendulum-v1"), env_args={"g": 1.0})


def test_an_aliased_robot_with_arguments_is_gymnasiums_own():
    pytest.importorskip("mujoco")
    info = make("Hopper", env_args={"ctrl_cost_weight": 0.5}).info
    assert (info.name, info.fast) == ("Hopper-v4(ctrl_cost_weight=0.5)", False)
    ant = make("Ant(ctrl_cost_weight=0.5)").info
    assert ant.observation_size == 111
    assert make(ant.name).info == ant


@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
def test_an_environment_as_gymnasium_makes_it(render_mode):
    given = gymnasium.make("Pendulum-v1", g=5.0, render_mode=render_mode)
    simulator = make(given)
    assert simulator.info.name == "Pendulum-v1(g=5.0)"
    np.testing.assert_array_equal(returns_of(simulator), returns_of(make("Pendulum-v1(g=5.0)")))
    assert simulator._idle[0].render_mode is None


def test_a_robot_of_gymnasiums_is_compiled():
    pytest.importorskip("mujoco")
    assert make(gymnasium.make("Hopper-v5")).info == make("Hopper-v5").info
    assert not make(gymnasium.make("Hopper-v5", frame_skip=8)).info.fast


def test_a_wrapped_environment_is_made_again_with_its_wrappers():
    wrapped = gymnasium.wrappers.TimeAwareObservation(gymnasium.make("CartPole-v1"))
    simulator = make(wrapped)
    assert simulator.info.observation_size == 5
    assert simulator.info.name == "CartPole-v1+TimeAwareObservation (given)"
    again = pickle.loads(pickle.dumps(simulator))
    np.testing.assert_array_equal(returns_of(again), returns_of(simulator))
    with pytest.raises(gs.rl.UnknownEnvironmentError, match="was passed as an object"):
        make(simulator.info.name)


class Forgetful(gymnasium.Wrapper):
    """A wrapper that does not say how it was made."""


def forgetful():
    return Forgetful(rl_cases.Slider())


def test_a_function_makes_what_cannot_be_made_again():
    with pytest.raises(gs.rl.UnsupportedEnvironmentError, match="Pass a function that makes it"):
        make(forgetful())
    simulator = make(forgetful)
    assert simulator.info.name == "Slider (given)"
    again = pickle.loads(pickle.dumps(simulator))
    assert isinstance(again, GymnasiumSimulator)
    np.testing.assert_array_equal(returns_of(again), returns_of(simulator))


def test_what_is_no_environment():
    with pytest.raises(TypeError, match="`environment` must be a name, a Gymnasium environment"):
        make(3)
    with pytest.raises(TypeError, match="must return a Gymnasium environment, but returned int"):
        make(lambda: 3)
    simulator = make("CartPole-v1")
    assert make(simulator) is simulator


def test_a_given_environment_is_trained_and_evaluated(tmp_path):
    given = gymnasium.make("Pendulum-v1", g=5.0, max_episode_steps=20)
    result = gs.rl.train(given, **SHORT, folder=tmp_path / "run")
    named = gs.rl.train("Pendulum-v1(g=5.0, max_episode_steps=20)", **SHORT)
    np.testing.assert_array_equal(result.policy.parameters, named.policy.parameters)
    gs.rl.resume(tmp_path / "run", max_steps=3)  # by its name
    assert gs.rl.evaluate(tmp_path / "run", episodes=2, environment=given).episodes == 2

    made = gs.rl.train(forgetful, **SHORT, folder=tmp_path / "made")
    again = gs.rl.train(forgetful, **SHORT, folder=tmp_path / "made")
    np.testing.assert_array_equal(made.policy.parameters, again.policy.parameters)
    assert gs.rl.evaluate(made.policy, environment=forgetful, episodes=2).episodes == 2
    for use in (
        lambda: gs.rl.evaluate(made.policy),
        lambda: gs.rl.resume(tmp_path / "made", max_steps=3),
    ):
        with pytest.raises(ValueError, match="was passed as an object or a function"):
            use()
    with pytest.raises(ValueError, match="trained in Slider"):
        gs.rl.evaluate(replace(made.policy), environment=given)
