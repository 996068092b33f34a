"""The slow path: episodes equal a loop written out, spaces are read, troubles are told."""

import pickle

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

import rl_cases  # noqa: E402
from gensmooth.rl.environments.base import (  # noqa: E402
    UnknownEnvironmentError,
    UnsupportedEnvironmentError,
)
from gensmooth.rl.environments.gymnasium import UNLIMITED, GymnasiumSimulator  # noqa: E402
from gensmooth.rl.normalize import Scaling, identity  # noqa: E402
from gensmooth.rl.policies import MLP, Linear  # noqa: E402


def policy_of(simulator, architecture=None):
    info = simulator.info
    return (architecture or Linear()).policy(info.observation_size, info.action_size)


def rollout(simulator, policy, number=6, scale=1.0, scaling=None, seed=0, **options):
    rngs = [np.random.default_rng([seed, i]) for i in range(number)]
    x = scale * np.random.default_rng(seed).standard_normal((number, policy.num_parameters))
    scaling = scaling or identity(simulator.info.observation_size)
    return x, simulator.rollout(policy, x, scaling, simulator.starts(rngs), **options)


def literal(name, policy, x, scaling, seed, to_action):
    """One episode by Gymnasium's API, written out; observations acted upon are returned too."""
    environment = gymnasium.make(name, disable_env_checker=True)
    seen, _ = environment.reset(seed=seed)
    observations, total, over = [], 0.0, False
    while not over:
        observations.append(np.asarray(seen, np.float64).ravel())
        action = to_action(environment, policy.act(x, scaling(observations[-1])))
        seen, reward, terminated, truncated, _ = environment.step(action)
        total += reward
        over = terminated or truncated
    return total, np.array(observations)


def box(environment, output):
    space = environment.action_space
    return np.clip(output, space.low, space.high).astype(space.dtype)


@pytest.mark.parametrize(
    ("name", "to_action"),
    [
        (rl_cases.SLIDER, box),
        ("Pendulum-v1", box),
        ("CartPole-v1", lambda _, output: int(np.argmax(output))),
    ],
)
def test_episodes_are_those_of_the_api(name, to_action):
    simulator = GymnasiumSimulator(name)
    policy = policy_of(simulator, MLP((5,)))
    rng = np.random.default_rng(1)
    size = simulator.info.observation_size
    scaling = Scaling(rng.standard_normal(size), np.exp(rng.standard_normal(size)))
    x, found = rollout(simulator, policy, scaling=scaling, observe=True)
    rngs = [np.random.default_rng([0, i]) for i in range(len(x))]
    seeds = simulator.starts(rngs)[:, 0].astype(int)
    for i in range(len(x)):
        total, seen = literal(name, policy, x[i], scaling, int(seeds[i]), to_action)
        np.testing.assert_allclose(found.returns[i], total, rtol=1e-12)
        assert found.lengths[i] == len(seen) == found.moments.counts[i]
        np.testing.assert_allclose(found.moments.means[i], seen.mean(axis=0), rtol=1e-10, atol=1e-9)
        m2 = ((seen - seen.mean(axis=0)) ** 2).sum(axis=0)
        np.testing.assert_allclose(found.moments.m2[i], m2, rtol=1e-9, atol=1e-9)


def test_the_survival_bonus_is_told_apart():
    simulator = GymnasiumSimulator(rl_cases.SLIDER)
    assert simulator.info.survival_bonus == 0.5
    _, found = rollout(simulator, policy_of(simulator), scale=9.0, number=20)
    fell = found.lengths < simulator.info.horizon
    assert fell.any()
    assert not fell.all()
    # a step that falls earns no bonus
    np.testing.assert_array_equal(found.bonuses, 0.5 * (found.lengths - fell))


def test_mujocos_own_survival_bonus():
    pytest.importorskip("mujoco")
    simulator = GymnasiumSimulator("Hopper-v5")
    assert (simulator.info.survival_bonus, simulator.info.horizon) == (1.0, 1000)
    _, found = rollout(simulator, policy_of(simulator))
    np.testing.assert_array_equal(found.bonuses, found.lengths - 1)


def test_coordinates_that_never_vary_have_no_m2():
    simulator = GymnasiumSimulator(rl_cases.SLIDER)
    _, found = rollout(simulator, policy_of(simulator), observe=True)
    never = [1, 3, 5]
    assert not found.moments.m2[:, never].any()
    np.testing.assert_array_equal(found.moments.means[:, never], [[7.0, 0.1, 0.0]] * 6)
    assert (np.delete(found.moments.m2, never, axis=1) > 0).all()


def test_an_episode_does_not_depend_on_the_others():
    simulator = GymnasiumSimulator(rl_cases.SLIDER)
    policy = policy_of(simulator)
    x, together = rollout(simulator, policy, observe=True)
    for i in reversed(range(len(x))):
        starts = simulator.starts([np.random.default_rng([0, i])])
        alone = simulator.rollout(policy, x[i : i + 1], identity(6), starts, observe=True)
        assert alone.returns[0] == together.returns[i]
        assert alone.moments.m2.tobytes() == together.moments.m2[i : i + 1].tobytes()


def test_it_travels():
    simulator = GymnasiumSimulator(rl_cases.SLIDER, horizon=7)
    there = pickle.loads(pickle.dumps(simulator))
    assert there.info == simulator.info
    _, here = rollout(simulator, policy_of(simulator))
    _, away = rollout(there, policy_of(there))
    assert np.array_equal(here.returns, away.returns)
    assert (here.lengths <= 7).all()


def test_spaces_and_limits():
    simulator = GymnasiumSimulator("rl_cases:Endless-v0", horizon=30)
    info = simulator.info
    assert (info.observation_size, info.action_size, info.discrete) == (4, 3, True)
    _, found = rollout(simulator, policy_of(simulator), observe=True)
    assert (found.lengths == 30).all()
    assert set(found.returns) <= {90.0, 120.0, 150.0}  # actions are 3, 4, 5
    np.testing.assert_array_equal(found.moments.means, 9.0)
    assert GymnasiumSimulator("rl_cases:Endless-v0").info.horizon == UNLIMITED
    assert (
        GymnasiumSimulator(rl_cases.SLIDER, horizon=1000).info.horizon == 25
    )  # its own limit stays
    assert GymnasiumSimulator(rl_cases.SLIDER).info.name == rl_cases.SLIDER


def test_raw_actions_are_handed_over_as_they_are():
    simulator = GymnasiumSimulator("Pendulum-v1", raw_actions=True)
    clipped = GymnasiumSimulator("Pendulum-v1")
    action = simulator._actions.choose(np.array([5.0]))
    assert action.dtype == np.float64
    assert action == [5.0]
    assert clipped._actions.choose(np.array([5.0])) == [2.0]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("Raise", "raised RuntimeError: the belt broke"),
        ("Reward", "the reward of step 3 is nan"),
        ("Observation", "the observation of step 4 is not finite"),
    ],
)
def test_an_episode_that_breaks_down_is_nan_and_told(kind, words, caplog):
    simulator = GymnasiumSimulator(f"rl_cases:Slider{kind}-v0")
    _, found = rollout(simulator, policy_of(simulator), scale=0.1, number=20, observe=True)
    _, fine = rollout(
        GymnasiumSimulator(rl_cases.SLIDER), policy_of(simulator), scale=0.1, number=20
    )
    bad = np.isnan(found.returns)
    assert 0 < bad.sum() < 20
    assert np.array_equal(np.isnan(found.bonuses), bad)
    assert np.array_equal(found.returns[~bad], fine.returns[~bad])
    assert not found.moments.counts[bad].any()
    assert words in caplog.text
    assert (found.failure is not None) == (kind == "Raise")


def test_what_an_environment_raises_is_logged_with_its_traceback_once(caplog):
    simulator = GymnasiumSimulator("rl_cases:SliderRaise-v0")
    _, found = rollout(simulator, policy_of(simulator), scale=0.1, number=40)
    assert np.isnan(found.returns).sum() > 1
    (record,) = caplog.records
    assert record.exc_info[1] is found.failure
    assert "Traceback" in caplog.text
    assert 'raise RuntimeError("the belt broke")' in caplog.text  # the line in the user's file
    assert "rl_cases.py" in caplog.text


def test_what_there_is_not():
    with pytest.raises(UnknownEnvironmentError, match="Did you mean 'CartPole-v1'"):
        GymnasiumSimulator("Cartpole-v1")
    with pytest.raises(UnsupportedEnvironmentError, match=r"observations in Dict.*a Box"):
        GymnasiumSimulator("rl_cases:Dictionary-v0")
    with pytest.raises(UnsupportedEnvironmentError, match="actions in MultiDiscrete"):
        GymnasiumSimulator("rl_cases:Many-v0")
    with pytest.raises(ValueError, match="`horizon` must be a whole number of at least 1"):
        GymnasiumSimulator(rl_cases.SLIDER, horizon=0)
    simulator = GymnasiumSimulator(rl_cases.SLIDER)
    with pytest.raises(ValueError, match="made for 3 and 2"):
        simulator.rollout(Linear().policy(3, 2), np.zeros((1, 6)), identity(3), np.zeros((1, 1)))


def test_without_gymnasium_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gymnasium", None)
    with pytest.raises(ImportError, match=r"pip install 'gensmooth\[rl\]'"):
        GymnasiumSimulator("CartPole-v1")
