"""The compiled environments against Gymnasium's own, step by step.

The physics is chaotic: rounding in the last digit of an action grows to 1e-3 within 50 steps of
HalfCheetah. So Gymnasium is driven by the very actions of the compiled path, and these are
compared with what the policy says at the same observation.
"""

import os
import pickle
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

for package in ("gymnasium", "mujoco"):
    pytest.importorskip(package, reason="pip install 'gensmooth[rl]'")

from gymnasium.utils import seeding  # noqa: E402
from numba.extending import register_jitable  # noqa: E402

from gensmooth.physics import mujoco_calls  # noqa: E402
from gensmooth.physics.robots import legged  # noqa: E402
from gensmooth.physics.robots.hopper import hopper  # noqa: E402
from gensmooth.rl.environments import base, catalogue, compiled  # noqa: E402
from gensmooth.rl.environments.catalogue import make  # noqa: E402
from gensmooth.rl.environments.gymnasium import make_environment  # noqa: E402
from gensmooth.rl.normalize import Scaling, Statistics, identity, statistics  # noqa: E402
from gensmooth.rl.policies import MLP, Linear, Policy  # noqa: E402
from gensmooth.streams import Purpose, generator  # noqa: E402

catalogue.names()  # every robot's file has been imported
NAMES = list(legged.ROBOTS)
FALLING = [name for name in NAMES if legged.ROBOTS[name].bonus]
ENDLESS = ("HalfCheetah", "Swimmer")  # their episodes end at the horizon only
SCALE = {"Humanoid": 0.003}  # it observes inertias and forces of hundreds
LAST_BIT = {"InvertedDoublePendulum": 2.0**-53}  # of a sine, by NumPy and by the C library
STEPS = 50


def starts_of(simulator, number, first=0):
    rngs = [generator(first + i, Purpose.SAMPLE) for i in range(number)]
    return simulator.starts(rngs)


def policies_of(simulator, number, *, seed=0, scale=0.3, architecture=None):
    """A shape and random parameters: actions of about the size of their range."""
    info = simulator.info
    policy = (architecture or Linear()).policy(info.observation_size, info.action_size)
    parameters = np.random.default_rng(seed).standard_normal((number, policy.num_parameters))
    return policy, scale * parameters


def scaling_of(simulator, seed=1):
    rng = np.random.default_rng(seed)
    size = simulator.info.observation_size
    return Scaling(rng.normal(0, 0.1, size), rng.uniform(0.5, 1.5, size))


class Comparison(NamedTuple):
    """The largest differences from Gymnasium, and how many episodes ended."""

    observation: float
    reward: float
    ends: int


def compare_with_gymnasium(simulator, name, *, seeds=20, steps=STEPS, scale=0.3):
    """Step by step; an assertion fails when one says that the episode ended and the other not."""
    policy, parameters = policies_of(simulator, seeds, scale=scale)
    scaling, starts = scaling_of(simulator), starts_of(simulator, seeds)
    trace = simulator.trace(policy, parameters, scaling, starts, steps=steps)
    environment = make_environment(catalogue.reference(name))
    observation, reward, ends = 0.0, 0.0, 0
    for i in range(seeds):
        environment.unwrapped.np_random = generator(i, Purpose.SAMPLE)
        seen, _ = environment.reset()
        observation = max(observation, np.abs(seen - trace.observations[i, 0]).max())
        for t in range(trace.episodes.lengths[i]):
            wanted = policy.act(parameters[i], scaling(seen))
            np.testing.assert_allclose(trace.actions[i, t], wanted, rtol=1e-9, atol=1e-9)
            seen, gained, ended, _, _ = environment.step(trace.actions[i, t])
            observation = max(observation, np.abs(seen - trace.observations[i, t + 1]).max())
            reward = max(reward, abs(gained - trace.rewards[i, t]))
            assert ended == trace.ended[i, t]
        ends += trace.ended[i].any()
        assert trace.ended[i].any() or trace.episodes.lengths[i] == steps
    return Comparison(observation, reward, ends)


@pytest.mark.parametrize("name", NAMES)
def test_steps_equal_gymnasiums(name):
    found = compare_with_gymnasium(make(name), name, scale=SCALE.get(name[:-3], 0.3))
    assert found.observation <= LAST_BIT.get(name[:-3], 0)  # the same physics, in every bit
    assert found.reward <= 1e-12  # the order of a sum may be another
    assert (found.ends > 0) != name.startswith(ENDLESS)  # falls are among what was compared


@pytest.mark.parametrize("name", NAMES)
def test_starts_equal_gymnasiums_reset_with_the_same_generator(name):
    simulator, environment = make(name), make_environment(catalogue.reference(name))
    for seed, start in enumerate(starts_of(simulator, 5)):
        environment.unwrapped.np_random = generator(seed, Purpose.SAMPLE)
        environment.reset()
        goal = [environment.unwrapped.goal] if name == "HalfCheetahRandVel" else []
        np.testing.assert_array_equal(
            start, np.concatenate((environment.unwrapped.state_vector(), goal))
        )


def test_arrays_that_have_travelled_compile_nothing():
    """Arrays from a message or a file are read-only; compiling for them took seconds."""
    simulator = make("Hopper-v5")
    policy, parameters = policies_of(simulator, 2, scale=0.1)
    given = [parameters, *scaling_of(simulator), starts_of(simulator, 2)]
    returns = []
    for writable in (True, False):
        for array in given:
            array.flags.writeable = writable
        x, mean, inverse, starts = given
        found = simulator.rollout(policy, x, Scaling(mean, inverse), starts)
        returns.append(found.returns.tolist())
    assert returns[0] == returns[1]
    assert len(simulator._run.signatures) == 1


def test_a_cart_that_runs_against_the_end_of_its_rail_feels_it_as_in_gymnasium():
    name = "InvertedDoublePendulum-v5"
    simulator = make(name)
    policy, parameters = policies_of(simulator, 20, scale=30)
    scaling, starts = scaling_of(simulator), starts_of(simulator, 20)
    trace = simulator.trace(policy, parameters, scaling, starts, steps=STEPS)
    assert np.nanmax(np.abs(trace.observations[:, :, 8])) == 10
    found = compare_with_gymnasium(simulator, name, scale=30)
    assert max(found.observation, found.reward) <= 1e-12


WHOLE = (
    *("Hopper-v4", "Hopper-v5", "Walker2d-v5", "Ant", "Ant-v5", "Humanoid-v4", "Humanoid-v5"),
    *("InvertedPendulum-v4", "InvertedPendulum-v5"),
    *("InvertedDoublePendulum-v4", "InvertedDoublePendulum-v5"),
)


@pytest.mark.parametrize("name", WHOLE)
def test_whole_episodes_equal_the_slow_path(name):
    fast, slow = make(name), make(name, fast=False)
    assert (fast.info.fast, slow.info.fast) == (True, False)
    assert replace(slow.info, name=name, fast=True) == fast.info
    policy, parameters = policies_of(fast, 8)
    scaling = identity(fast.info.observation_size)
    seeds = slow.starts([generator(i, Purpose.TEST) for i in range(8)])
    starts = fast.starts([seeding.np_random(int(seed))[0] for seed in seeds[:, 0]])
    ours = fast.rollout(policy, parameters, scaling, starts, observe=True)
    theirs = slow.rollout(policy, parameters, scaling, seeds, observe=True)
    short = theirs.lengths <= STEPS  # chaos has not yet set in
    assert short.sum() >= 4
    np.testing.assert_array_equal(ours.lengths[short], theirs.lengths[short])
    for a, b in zip(ours[:2], theirs[:2], strict=True):
        np.testing.assert_allclose(a[short], b[short], atol=1e-6)
    for a, b in zip(ours.moments, theirs.moments, strict=True):
        np.testing.assert_allclose(a[short], b[short], atol=1e-6)


@pytest.mark.parametrize("name", FALLING)
def test_the_survival_bonus_counts_the_step_of_the_fall_in_v4_alone(name):
    simulator = make(name)
    policy, parameters = policies_of(simulator, 10)
    scaling = identity(simulator.info.observation_size)
    episodes = simulator.rollout(policy, parameters, scaling, starts_of(simulator, 10))
    fell = episodes.lengths < 1000
    assert fell.any()
    last = 1 if name.endswith("v5") else 0
    bonus = simulator.info.survival_bonus
    np.testing.assert_array_equal(episodes.bonuses, bonus * (episodes.lengths - last * fell))


def test_without_survival_there_is_no_bonus_and_no_early_end():
    simulator = make("HalfCheetahRandVel")
    policy, parameters = policies_of(simulator, 3)
    episodes = simulator.rollout(policy, parameters, identity(17), starts_of(simulator, 3))
    assert (episodes.bonuses == 0).all()
    assert (episodes.lengths == 200).all()


# --- wrong twins: the comparison must see one wrong detail --------------------------------------


@register_jitable
def hopper_with_a_wide_angle(state, action):
    reward, bonus, ended, success = hopper(state, action)
    return reward, bonus, ended and abs(state.qpos[2]) > 0.22, success


@pytest.mark.parametrize(
    "wrong",
    [
        {"frames": 5},
        {"falling": 0.0},
        {"observe": legged.observe},
        {"step": hopper_with_a_wide_angle},
    ],
    ids=["frame skip", "bonus of the fall", "velocities not clipped", "healthy angle"],
)
def test_a_wrong_detail_is_seen(wrong):
    robot = replace(legged.ROBOTS["Hopper-v4"], **wrong)
    twin = compiled.CompiledSimulator(robot.environment("Hopper-v4"), (int, ()))
    try:
        found = compare_with_gymnasium(twin, "Hopper-v4", seeds=40)
    except AssertionError:
        return  # it does not end when Gymnasium's does, or acts on something else
    assert max(found.observation, found.reward) > 1e-3


# --- the engine ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Hopper-v4", "HalfCheetahRandVel", "Ant"])
def test_any_number_of_threads_gives_the_same_bits(name):
    simulator = make(name)
    policy, parameters = policies_of(simulator, 23, scale=0.1)
    starts = starts_of(simulator, 23)
    first, *others = (
        simulator.rollout(
            policy, parameters, scaling_of(simulator), starts, observe=True, threads=threads
        )
        for threads in (1, 2, 5)
    )
    for other in others:
        for a, b in zip((*first[:3], *first.moments), (*other[:3], *other.moments), strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_order_of_the_batch_and_what_ran_before_do_not_matter():
    simulator = make("Walker2d-v4")
    policy, parameters = policies_of(simulator, 12)
    starts, scaling = starts_of(simulator, 12), scaling_of(simulator)
    every = simulator.rollout(policy, parameters, scaling, starts, observe=True)
    order = np.random.default_rng(0).permutation(12)
    mixed = simulator.rollout(policy, parameters[order], scaling, starts[order], observe=True)
    for a, b in zip((*every[:3], *every.moments), (*mixed[:3], *mixed.moments), strict=True):
        np.testing.assert_array_equal(a[order], b)
    for i in range(12):
        alone = make("Walker2d-v4").rollout(
            policy, parameters[i : i + 1], scaling, starts[i : i + 1]
        )
        assert alone.returns[0] == every.returns[i]


def test_moments_are_those_of_the_observations_acted_upon():
    simulator = make("Ant")
    policy, parameters = policies_of(simulator, 6)
    trace = simulator.trace(policy, parameters, identity(111), starts_of(simulator, 6), steps=40)
    together: Statistics = statistics(111).merged(trace.episodes.moments)
    seen = [trace.observations[i, :length] for i, length in enumerate(trace.episodes.lengths)]
    seen = np.concatenate(seen)
    assert together.seen == len(seen)
    np.testing.assert_allclose(together.mean, seen.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(together.deviation(), seen.std(axis=0, ddof=1), atol=1e-12)
    constant = np.ptp(seen, axis=0) == 0
    assert constant.any()  # the forces on the world
    assert (together.m2[constant] == 0).all()


@pytest.mark.parametrize("policy", [MLP((32,)), MLP((7, 40, 5)), MLP((4,), biases=False)], ids=str)
def test_policies_with_hidden_layers_act_as_in_numpy(policy):
    simulator = make("Hopper-v4")
    policy, parameters = policies_of(simulator, 4, architecture=policy)
    scaling = scaling_of(simulator)
    trace = simulator.trace(policy, parameters, scaling, starts_of(simulator, 4), steps=20)
    for i, length in enumerate(trace.episodes.lengths):
        for seen, action in zip(trace.observations[i, :length], trace.actions[i], strict=False):
            np.testing.assert_allclose(
                action, policy.act(parameters[i], scaling(seen)), rtol=1e-12, atol=1e-12
            )


@pytest.mark.parametrize("name", ["HalfCheetah-v4", "Hopper-v4", "Ant"])
def test_a_simulation_that_breaks_down_is_nan_and_leaves_no_trace(name, tmp_path, capfd):
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        simulator = make(name)
        policy, parameters = policies_of(simulator, 6)
        starts = starts_of(simulator, 6)
        starts[2, 4] = 1e12  # MuJoCo warns and begins again from its own start
        starts[3, -1] = np.nan
        parameters[4] = np.nan
        scaling = identity(simulator.info.observation_size)
        episodes = simulator.rollout(policy, parameters, scaling, starts, observe=True)
    finally:
        os.chdir(before)
    broken = [2, 3, 4]
    assert np.isnan(episodes.returns[broken]).all()
    assert np.isnan(episodes.bonuses[broken]).all()
    assert (episodes.moments.counts[broken] == 0).all()
    whole = [0, 1, 5]
    assert np.isfinite(episodes.returns[whole]).all()
    assert list(tmp_path.iterdir()) == []  # MuJoCo would write MUJOCO_LOG.TXT
    assert capfd.readouterr() == ("", "")
    clean = simulator.rollout(policy, parameters[whole], scaling, starts_of(simulator, 6)[whole])
    np.testing.assert_array_equal(clean.returns, episodes.returns[whole])


def test_an_interrupt_ends_a_rollout_soon(monkeypatch):
    simulator = make("HalfCheetah-v4")
    policy, parameters = policies_of(simulator, 2000)
    starts = starts_of(simulator, 2000)
    join, calls = threading.Thread.join, []

    def interrupted(thread, timeout=None):
        calls.append(thread)
        if len(calls) == 1:
            raise KeyboardInterrupt
        join(thread, timeout)

    simulator.rollout(policy, parameters[:1], identity(17), starts[:1])  # compiled now
    monkeypatch.setattr(compiled.threading.Thread, "join", interrupted)
    begin = time.process_time()
    with pytest.raises(KeyboardInterrupt):
        simulator.rollout(policy, parameters, identity(17), starts, threads=2)
    assert time.process_time() - begin < 10  # all of it takes a minute of CPU time
    assert not any(thread.is_alive() for thread in calls)


def test_simulators_travel_to_other_processes():
    simulator = pickle.loads(pickle.dumps(make("HalfCheetahRandVel")))
    assert simulator.info == make("HalfCheetahRandVel").info
    policy, parameters = policies_of(simulator, 2)
    starts = starts_of(simulator, 2)
    assert (
        simulator.rollout(policy, parameters, identity(17), starts).returns
        == make("HalfCheetahRandVel").rollout(policy, parameters, identity(17), starts).returns
    ).all()


# --- names and errors ---------------------------------------------------------------------------


def test_the_papers_names_mean_the_papers_layouts():
    sizes = {
        "Hopper": (11, 3, 1000),
        "Walker2d": (17, 6, 1000),
        "Ant": (111, 8, 1000),
        "HalfCheetahRandVel": (17, 6, 200),
        "Ant-v4": (27, 8, 1000),
        "Ant-v5": (105, 8, 1000),
    }
    for name, expected in sizes.items():
        info = make(name).info
        assert (info.observation_size, info.action_size, info.horizon) == expected
    assert make("Hopper").info == make("Hopper-v4").info


def test_an_unknown_name_names_near_ones():
    with pytest.raises(base.UnknownEnvironmentError, match="Hopper"):
        make("Hoper")
    with pytest.raises(base.UnknownEnvironmentError, match="CartPole-v1"):
        make("CartPol-v1")
    with pytest.raises(base.UnknownEnvironmentError, match="'Walker2d' has the same observations"):
        make("Walker2d-v2")


def test_the_documentation_runs_and_names_every_environment():
    text = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        if not block.startswith("# my_robots.py"):  # those have tests of their own
            exec(compile(block, "environments.md", "exec"), {})
    for name in catalogue.names():
        assert f"`{name}`" in text or name.startswith("ML1-") or ":" in name


USE = """
import pickle
import numpy as np
import gensmooth as gs
slow, fast = gs.rl.make("my_robots:SlowHopper"), gs.rl.make("Hopper-v4")
assert slow.info.fast
again = pickle.loads(pickle.dumps(slow))
x, scaling = np.zeros((3, 33)), gs.rl.Scaling(np.zeros(11), np.ones(11))
starts = slow.starts([np.random.default_rng(i) for i in range(3)])
policy = gs.rl.Policy((11, 3))
found, same, other = (s.rollout(policy, x, scaling, starts) for s in (slow, again, fast))
assert (found.returns == same.returns).all()
assert (found.lengths < other.lengths).all()  # twice the time per step: it falls in half as many
print("well")
"""


def test_a_robot_in_a_module_of_ones_own_is_one_file(tmp_path):
    """The page's own example, in a folder where nothing else is."""
    text = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()
    (block,) = re.findall(r"```python\n(# my_robots\.py\nfrom.*?)```", text, flags=re.DOTALL)
    (tmp_path / "my_robots.py").write_text(block)
    (tmp_path / "use.py").write_text(USE)
    done = subprocess.run(
        [sys.executable, "use.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "well\n", done.stderr


def test_every_file_of_the_folder_registers_itself():
    folder = Path(legged.__file__).parent
    assert {"hopper.py", "walker2d.py", "half_cheetah.py", "ant.py"} <= set(os.listdir(folder))
    tables = Path(base.__file__).parent, folder.parent
    source = "".join(path.read_text() for each in tables for path in each.glob("*.py"))
    for name in catalogue.names():  # no other file has a robot's name in a table
        assert f'"{name}"' not in source.replace('``"Hopper-v4"``', "")


LOADED = """
import sys
from gensmooth.rl.environments.catalogue import canonical
folders = "gensmooth.physics.robots.", "gensmooth.rl.environments.metaworld."
for name in ("Hopper", "gensmooth/ML1-Reach-v1", "HalfCheetahRandVel"):
    files = sorted(each.rpartition(".")[2] for each in sys.modules if each.startswith(folders))
    print(*files, canonical(name))
"""


@pytest.mark.usefixtures("fresh_interpreters")
def test_only_the_robot_that_is_named_is_loaded():
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "Hopper-v4",
        "hopper legged ML1-Reach",
        "hopper legged ml1_reach sawyer HalfCheetahRandVel",
    ]


def test_arguments_that_do_not_fit_are_refused():
    simulator = make("Hopper-v4")
    policy, parameters = policies_of(simulator, 3)
    starts, scaling = starts_of(simulator, 3), identity(11)
    with pytest.raises(ValueError, match="11 observations and 3"):
        simulator.rollout(Policy((17, 6)), parameters, scaling, starts)
    with pytest.raises(ValueError, match="one row of 33"):
        simulator.rollout(policy, parameters[:, :32], scaling, starts)
    with pytest.raises(ValueError, match=r"`starts` must have shape \(3, 12\)"):
        simulator.rollout(policy, parameters, scaling, starts[:2])
    with pytest.raises(ValueError, match="`scaling` must have 11"):
        simulator.rollout(policy, parameters, identity(12), starts)
    with pytest.raises(ValueError, match="`threads` must be a whole number of at least 1"):
        simulator.rollout(policy, parameters, scaling, starts, threads=0)


def test_a_mujoco_that_cannot_be_called_is_named(monkeypatch):
    mujoco_calls.load_mujoco.cache_clear()
    monkeypatch.delattr("mujoco.MjData")
    try:
        with pytest.raises(ImportError, match=r"MuJoCo \d.*pip install 'gensmooth\[rl\]'"):
            make("Hopper-v4")
    finally:
        mujoco_calls.load_mujoco.cache_clear()
