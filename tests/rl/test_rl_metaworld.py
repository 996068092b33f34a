"""ML1-Reach and ML1-Push, compiled, against Meta-World's own environments, step by step.

Meta-World is driven by the very actions of the compiled path, and these are compared with what
the policy says at the same observation: rounding in an action would grow with every contact.
"""

import doctest
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

for package in ("gymnasium", "mujoco", "metaworld"):
    pytest.importorskip(package, reason="pip install 'gensmooth[rl]'")

import mujoco  # noqa: E402
from scipy.spatial.transform import Rotation  # noqa: E402

from gensmooth.physics import mujoco_calls  # noqa: E402
from gensmooth.rl.environments import base, catalogue  # noqa: E402
from gensmooth.rl.environments.catalogue import make  # noqa: E402
from gensmooth.rl.environments.compiled import CompiledSimulator  # noqa: E402
from gensmooth.rl.environments.gymnasium import make_environment  # noqa: E402
from gensmooth.rl.environments.metaworld import ml1_push, ml1_reach, sawyer  # noqa: E402
from gensmooth.rl.normalize import Scaling, identity, statistics  # noqa: E402
from gensmooth.rl.policies import MLP, Policy  # noqa: E402
from gensmooth.streams import Purpose, generator  # noqa: E402

TASKS = {**ml1_reach.TASKS, **ml1_push.TASKS}
NAMES = list(TASKS)
POLICY = Policy((39, 4), biases=True)
TOLERANCE = 1e-9


def starts_of(simulator, number):
    return simulator.starts([generator(i, Purpose.SAMPLE) for i in range(number)])


def random_policies(number, *, seed=0, scale=0.7):
    """Linear in the observation; actions of about their range, often beyond."""
    parameters = scale * np.random.default_rng(seed).standard_normal((number, 160))
    parameters[:, 156:] = 0.0
    return parameters


def steered_policies(starts, name, *, gain=30.0):
    """Policies that know the goal: reaching goes there, pushing grasps the object and leaves.

    The ways to push differ, so that objects are also pushed without a grasp, and tumble.
    """
    rows = []
    for i, start in enumerate(starts):
        weights, bias = np.zeros((4, 39)), np.zeros(4)
        for k in range(3):
            weights[k, k] = -gain
        if "Reach" in name:
            bias[:3] = gain * (start[3:] + np.array((0.0, 0.0, 0.045)))
        else:
            for k in range(3):
                weights[k, 4 + k] = gain
            way = start[3:5] - start[:2]
            bias[:2] = (0.2, 0.5)[i % 2] * way / np.linalg.norm(way)
            bias[2] = gain * (0.03, 0.05)[i // 2 % 2]
            weights[3, 2], bias[3] = -60.0, (7.2, -60.0)[i // 4 % 2]  # shut when low, or never
        rows.append(np.concatenate((weights.ravel(), bias)))
    return np.array(rows)


def difference_from_metaworld(simulator, name, parameters, starts, *, steps, scaling=None):
    """The largest difference in observation, reward and success, and the trace."""
    scaling = scaling or identity(39)
    trace = simulator.trace(POLICY, parameters, scaling, starts, steps=steps)
    assert (trace.episodes.lengths == steps).all()
    assert not trace.ended.any()
    environment = make_environment(catalogue.reference(name))
    error = 0.0
    for i, start in enumerate(starts):
        seen, _ = environment.reset(options={"start": start})
        error = max(error, np.abs(seen - trace.observations[i, 0]).max())
        success = 0.0
        for t in range(steps):
            wanted = POLICY.act(parameters[i], scaling(trace.observations[i, t]))
            np.testing.assert_allclose(trace.actions[i, t], wanted, rtol=1e-12, atol=1e-12)
            seen, reward, ended, truncated, info = environment.step(trace.actions[i, t])
            error = max(error, np.abs(seen - trace.observations[i, t + 1]).max())
            error = max(error, abs(reward - trace.rewards[i, t]))
            success = max(success, info["success"])
            assert not ended
            assert truncated == (t + 1 == simulator.info.horizon)
        error = max(error, abs(success - trace.episodes.successes[i]))
    return error, trace


@pytest.mark.parametrize("name", NAMES)
def test_steps_equal_metaworlds(name):
    simulator, rng = make(name), np.random.default_rng(5)
    starts = starts_of(simulator, 20)
    scaling = Scaling(rng.normal(0, 0.1, 39), rng.uniform(0.5, 1.5, 39))
    error, trace = difference_from_metaworld(
        simulator, name, random_policies(20), starts, steps=50, scaling=scaling
    )
    assert error <= TOLERANCE
    assert (np.abs(trace.actions[:, :, :3]) > 1).any()
    assert np.ptp(trace.observations[:, :, 3]) > 0.5  # grippers opened and closed


@pytest.mark.parametrize("name", NAMES)
def test_whole_episodes_that_do_the_task_equal_metaworlds(name):
    simulator = make(name)
    starts = starts_of(simulator, 16)
    error, trace = difference_from_metaworld(
        simulator, name, steered_policies(starts, name), starts, steps=150
    )
    assert error <= TOLERANCE
    assert trace.episodes.successes.any()
    if "Push" in name:
        assert not trace.episodes.successes.all()
        largest = np.abs(trace.observations[:, :, 7:11]).argmax(axis=2)
        assert {0, 1, 3} <= set(largest.ravel())  # an object tumbled
    if name == "ML1-Push":
        near = trace.rewards > 0
        assert near.any()
        assert not near.all()
    if name == "ML1-Push-v3":  # the object caged, held, and at the target
        assert (trace.rewards > 1.9).any()
        assert (trace.rewards > 5).any()
        assert (trace.rewards == 10).any()


@pytest.mark.parametrize("name", NAMES)
def test_starts_equal_metaworlds_reset_with_the_same_generator(name):
    simulator = make(name)
    own = make_environment(catalogue.reference(name)).unwrapped
    own.seeded_rand_vec, own._freeze_rand_vec = True, False
    again = 0
    for seed, start in enumerate(starts_of(simulator, 30)):
        own.np_random = generator(seed, Purpose.SAMPLE)
        mujoco.mj_resetData(own.model, own.data)
        own.reset_model()
        np.testing.assert_array_equal(start[:3], own.obj_init_pos)
        np.testing.assert_array_equal(start[3:], own._target_pos)
        first = generator(seed, Purpose.SAMPLE).uniform(0.6, 0.7, 6)
        again += not np.isclose(first[1], start[1], atol=1e-12)
    assert again > 0  # object and goal too near each other: drawn once more


def test_a_reset_of_the_reference_draws_a_new_task_and_a_seed_repeats_it():
    environment = make_environment(catalogue.reference("ML1-Push"))
    own = environment.unwrapped
    goals = []
    for seed in (3, None, 3):
        environment.reset(seed=seed)
        goals.append(own._target_pos)
    np.testing.assert_array_equal(goals[0], goals[2])
    assert (goals[0][:2] != goals[1][:2]).all()


def test_whole_episodes_equal_the_slow_path():
    fast, slow = make("ML1-Reach"), make("ML1-Reach", fast=False)
    assert (fast.info.fast, slow.info.fast) == (True, False)
    seeds = slow.starts([generator(i, Purpose.TEST) for i in range(3)])
    starts = fast.starts([np.random.default_rng(int(seed)) for seed in seeds[:, 0]])
    parameters = random_policies(3, scale=0.1)
    ours = fast.rollout(POLICY, parameters, identity(39), starts, observe=True)
    theirs = slow.rollout(POLICY, parameters, identity(39), seeds, observe=True)
    np.testing.assert_array_equal(ours.lengths, theirs.lengths)
    np.testing.assert_allclose(ours.returns, theirs.returns, rtol=1e-6)
    for a, b in zip(ours.moments, theirs.moments, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert (ours.bonuses == 0).all()


def test_quaternions_are_scipys():
    turns = Rotation.random(500, rng=np.random.default_rng(0)).as_matrix()
    halves = Rotation.from_euler("xyz", [[180, 0, 0], [0, 180, 0], [0, 0, 180], [90, 0, 90]], True)
    found = np.empty(4)
    largest = set()
    for turn in (*turns, *halves.as_matrix(), np.eye(3)):
        sawyer._quaternion(turn.ravel(), found)
        np.testing.assert_allclose(found, Rotation.from_matrix(turn).as_quat(), atol=1e-14)
        largest.add(int(np.abs(found).argmax()))
    assert largest == {0, 1, 2, 3}


# --- wrong twins: the comparison must see one wrong detail --------------------------------------


def wrong_scale(own):
    return RIGHT["read_limits"](own)._replace(scale=own.action_scale * (1 + 1e-6))


def wrong_frames(own):
    return RIGHT["read_limits"](own)._replace(frames=own.frame_skip - 1)


def wrong_settling(own):
    arm = RIGHT["settle"](own)
    return arm._replace(tip=arm.tip + np.array((0.0, 0.0, 1e-6)))


def wrong_pose(own):
    arm = RIGHT["settle"](own)
    arrays = arm.arrays._replace(qvel=np.zeros_like(arm.arrays.qvel))
    return arm._replace(arrays=arrays)


RIGHT = {name: getattr(sawyer, name) for name in ("read_limits", "settle")}


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("read_limits", wrong_scale),
        ("read_limits", wrong_frames),
        ("settle", wrong_settling),
        ("settle", wrong_pose),
    ],
    ids=["action scale", "frame skip", "distance at the start", "arm at rest at the start"],
)
def test_a_wrong_detail_is_seen(monkeypatch, part, wrong):
    monkeypatch.setattr(sawyer, part, wrong)
    twin = make("ML1-Reach")
    starts = starts_of(twin, 4)
    parameters = steered_policies(starts, "ML1-Reach")
    error, _ = difference_from_metaworld(twin, "ML1-Reach", parameters, starts, steps=50)
    assert error > 100 * TOLERANCE


def test_a_wrong_reward_is_seen():
    twin = CompiledSimulator(sawyer.make("ML1-Push-v3", TASKS["ML1-Push"]), (int, ()))
    starts = starts_of(twin, 2)
    parameters = random_policies(2)
    error, _ = difference_from_metaworld(twin, "ML1-Push-v3", parameters, starts, steps=5)
    assert error > 0.01


# --- the compiled loop with this arm -------------------------------------------------------------


def same_bits(one, other, order=slice(None)):
    ours, theirs = (*one[:3], *one.moments, one.successes), other
    theirs = (*theirs[:3], *theirs.moments, theirs.successes)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a[order], b)


@pytest.mark.parametrize("name", NAMES)
def test_threads_order_and_shortcut_do_not_change_a_bit(name):
    simulator = make(name)
    starts = starts_of(simulator, 16)
    parameters = np.concatenate((random_policies(8), steered_policies(starts[8:], name)))
    first, *others = (
        simulator.rollout(POLICY, parameters, identity(39), starts, observe=True, threads=threads)
        for threads in (1, 2, 5)
    )
    for other in others:
        same_bits(first, other)
    order = np.random.default_rng(0).permutation(16)
    mixed = simulator.rollout(POLICY, parameters[order], identity(39), starts[order], observe=True)
    same_bits(first, mixed, order)
    plain = CompiledSimulator(sawyer.make(name, TASKS[name], resume=False), (int, ()))
    same_bits(first, plain.rollout(POLICY, parameters, identity(39), starts, observe=True))


def test_the_hidden_goal_and_the_padding_never_vary():
    simulator = make("ML1-Push")
    episodes = simulator.rollout(
        POLICY, random_policies(3), identity(39), starts_of(simulator, 3), observe=True
    )
    constant = [*range(11, 18), *range(29, 39)]
    together = statistics(39).merged(episodes.moments)
    assert (together.m2[constant] == 0).all()
    assert (together.mean[constant] == 0).all()
    others = np.setdiff1d(np.arange(39), constant)
    assert (together.m2[others] > 0).all()


def test_policies_with_a_hidden_layer_act():
    simulator = make("ML1-Reach")
    policy = MLP((8,)).policy(39, 4)
    parameters = np.random.default_rng(0).normal(scale=0.3, size=(1, policy.num_parameters))
    trace = simulator.trace(policy, parameters, identity(39), starts_of(simulator, 1), steps=10)
    for seen, action in zip(trace.observations[0], trace.actions[0], strict=False):
        np.testing.assert_allclose(action, policy.act(parameters[0], seen), atol=1e-12)


@pytest.mark.parametrize("entry", range(4))
def test_an_action_that_is_not_a_number_makes_its_episode_nan_alone(entry):
    simulator = make("ML1-Push")
    starts, parameters = starts_of(simulator, 3), random_policies(3)
    clean = simulator.rollout(POLICY, parameters, identity(39), starts)
    parameters[1, 156 + entry] = np.nan
    episodes = simulator.rollout(POLICY, parameters, identity(39), starts, observe=True, threads=1)
    assert np.isnan(episodes.returns[1])
    assert episodes.moments.counts[1] == 0
    np.testing.assert_array_equal(episodes.returns[[0, 2]], clean.returns[[0, 2]])


def test_simulators_travel_to_other_processes():
    simulator = make("ML1-Reach")
    other = pickle.loads(pickle.dumps(simulator))
    starts, parameters = starts_of(simulator, 2), random_policies(2)
    assert other.info == simulator.info
    np.testing.assert_array_equal(other.starts([generator(0, Purpose.SAMPLE)]), starts[:1])
    for a, b in zip(
        simulator.rollout(POLICY, parameters, identity(39), starts)[:3],
        other.rollout(POLICY, parameters, identity(39), starts)[:3],
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


# --- names and errors ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_what_is_known_of_them(name):
    info = make(name).info
    assert info == base.EnvironmentInfo(name, 39, 4, 150, 0.0, fast=True, goal=True)


def test_the_documentation_runs():
    page = Path(__file__).parents[2] / "docs" / "environments-metaworld.md"
    assert doctest.testfile(str(page), module_relative=False).failed == 0


def test_an_unknown_task_names_near_ones():
    with pytest.raises(base.UnknownEnvironmentError, match="ML1-Push"):
        make("ML1-Pusch")


def test_a_mujoco_that_metaworld_cannot_use_is_named(monkeypatch):
    monkeypatch.setattr(mujoco_calls.load_mujoco(), "__version__", "4.0.0")
    for fast in (True, False):
        with pytest.raises(ImportError, match=r"MuJoCo 3\.3\.0.*4\.0\.0.*'mujoco==3\.3\.0'"):
            make("ML1-Reach", fast=fast)


def test_a_missing_metaworld_names_the_extra_or_the_python(monkeypatch):
    monkeypatch.setitem(sys.modules, "metaworld.envs", None)
    with pytest.raises(ImportError, match=r"metaworld.*pip install 'gensmooth\[rl\]'"):
        make("ML1-Reach")
    monkeypatch.setattr(sys, "version_info", (3, 14, 0, "final", 0))
    with pytest.raises(ImportError, match=r"Python up to 3\.13, but this is Python 3\.14"):
        make("ML1-Reach")
