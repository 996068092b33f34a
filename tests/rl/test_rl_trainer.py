"""An iteration by hand: directions, division, ascent, statistics; and what a test may change."""

from dataclasses import replace

import numpy as np
import pytest

import gensmooth as gs
from gensmooth.rl.policies import MLP, Linear
from gensmooth.rl.trainer import Trainer, reward_deviation

pytest.importorskip("gymnasium")
from rl_cases import Formula

SIZE, ACTIONS, L, SPACING, RATE = 5, 2, 4, 0.3, 0.7


def trainer_of(method="bes", estimator=None, policy=None, rate=RATE, **options):
    policy = policy or Linear().policy(SIZE, ACTIONS)
    search = gs.RandomSearch(
        method=method,
        num_directions=L,
        spacing=SPACING,
        estimator=estimator or gs.ForwardDifference(),
        optimizer=gs.sgd(rate),
        samples="independent",
        maximize=True,
        **options,
    )
    search = replace(search, directions=search.directions.resolve(policy.num_parameters, L))
    return Trainer(Formula.info(SIZE, ACTIONS), policy, search)


def rough(x, i):
    """A return with curvature and noise of its own for each episode."""
    return float(np.sin(x).sum() + 0.3 * (x**2).sum() + 40 * np.cos(7 * i)) - 3.0


METHODS = ["gs", "bes", "gs-shrinkage", "bes-shrinkage", "orthogonal-es", "guided-es"]


@pytest.mark.parametrize("policy", [Linear(), MLP((3,))], ids=["linear", "mlp"])
@pytest.mark.parametrize("method", METHODS)
def test_the_update_is_the_papers_forward_difference(method, policy):
    trainer = trainer_of(method, policy=policy.policy(SIZE, ACTIONS))
    state = trainer.init(11)
    for _ in range(2):
        x = state.search.x
        epsilon = (trainer.search.ask(state.search).block(0, 2 * L)[::2] - x) / SPACING
        rewards = np.array([rough(p, i) for i, p in enumerate(_points(x, epsilon, (1, 0)))])
        # eq. fdempirical, divided by the deviation of the 2L rewards; then ascent
        difference = rewards[::2] - rewards[1::2]
        estimate = (difference[:, None] * epsilon).sum(axis=0) / (L * SPACING) / rewards.std()
        after, iteration = trainer.step(state, Formula(rough, SIZE))
        np.testing.assert_allclose(after.search.x, x + RATE * estimate, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(iteration.deviation, rewards.std())
        np.testing.assert_allclose(iteration.info.value, rewards[1::2].mean())
        np.testing.assert_allclose(iteration.info.best_value, rewards.max())
        assert iteration.info.evaluations == after.search.evaluations
        state = after


def test_the_update_is_the_antithetic_estimate():
    trainer = trainer_of(estimator=gs.Antithetic())
    state = trainer.init(3)
    x = state.search.x
    epsilon = (trainer.search.ask(state.search).block(0, 2 * L)[::2] - x) / SPACING
    rewards = np.array([rough(p, i) for i, p in enumerate(_points(x, epsilon, (1, -1)))])
    estimate = ((rewards[::2] - rewards[1::2])[:, None] * epsilon).sum(axis=0)
    estimate /= 2 * SPACING * L * rewards.std()
    after, _ = trainer.step(state, Formula(rough, SIZE))
    np.testing.assert_allclose(after.search.x, x + RATE * estimate, rtol=1e-9, atol=1e-12)


def _points(x, epsilon, sides):
    return [x + SPACING * side * e for e in epsilon for side in sides]


def test_the_survival_bonus_is_no_reward_in_training_and_is_one_in_tests():
    """Formula's bonus differs from episode to episode: it would change every update."""
    trainer = trainer_of()
    state = trainer.init(0)
    rollouts = Formula(rough, SIZE)
    _, iteration = trainer.step(state, rollouts)
    points = trainer.search.ask(state.search).block(0, 2 * L)
    rewards = np.array([rough(p, i) for i, p in enumerate(points)])
    np.testing.assert_allclose(iteration.info.value, rewards[1::2].mean())
    _, test = trainer.test(state, rollouts, 3)
    expected = [rough(state.search.x, i) + 5.0 for i in range(3)]
    np.testing.assert_allclose(test.mean_return, np.mean(expected))
    np.testing.assert_allclose(test.deviation, np.std(expected, ddof=1))


def test_statistics_are_frozen_within_an_iteration_and_pooled_after_it():
    trainer = trainer_of()
    state, rollouts = trainer.init(0), Formula(rough, SIZE)
    for _ in range(3):
        state, _ = trainer.step(state, rollouts)
    first, second, third = rollouts.scalings
    one, two, three = rollouts.observations
    assert not first.mean.any()
    assert (first.inverse == 1).all()
    for scaling, parts in ((second, one), (third, [*one, *two])):
        every = np.vstack(parts)
        np.testing.assert_allclose(scaling.mean, every.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(1 / scaling.inverse, every.std(axis=0, ddof=1), rtol=1e-12)
    assert state.env_steps == state.statistics.seen == sum(map(len, [*one, *two, *three]))


def test_without_standardising_the_policy_sees_what_there_is():
    trainer = replace(trainer_of(), standardize=False)
    state, rollouts = trainer.init(0), Formula(rough, SIZE)
    for _ in range(2):
        state, _ = trainer.step(state, rollouts)
    assert all((s.inverse == 1).all() and not s.mean.any() for s in rollouts.scalings)
    assert state.statistics.seen > 0  # they are kept all the same


def test_a_test_changes_nothing_but_the_best_policy():
    trainer = trainer_of()
    rollouts = Formula(rough, SIZE)
    state, _ = trainer.step(trainer.init(0), rollouts)
    tested, test = trainer.test(state, rollouts, 7)
    assert tested._replace(best=state.best) == state
    assert tested.best.mean_return == test.mean_return
    assert tested.best.parameters is state.search.x
    assert tested.best.statistics is state.statistics
    assert (test.step, test.trajectories, test.env_steps) == (1, 2 * L, state.env_steps)
    scaling = rollouts.scalings[-1]
    assert np.array_equal(scaling.mean, state.statistics.scaling().mean)
    # with and without tests in between, training is the same to the last bit
    with_test, _ = trainer.step(tested, Formula(rough, SIZE))
    without, _ = trainer.step(state, Formula(rough, SIZE))
    assert with_test.search.x.tobytes() == without.search.x.tobytes()


def test_a_worse_test_leaves_the_best_policy():
    trainer = trainer_of()
    state, _ = trainer.test(trainer.init(0), Formula(lambda *_: 9.0, SIZE), 3)
    after, _ = trainer.test(state, Formula(lambda *_: 8.0, SIZE), 3)
    assert after.best is state.best
    better, _ = trainer.test(state, Formula(lambda *_: 10.0, SIZE), 3)
    assert better.best.mean_return == 15.0


@pytest.mark.parametrize("level", [0.0, 1.0, -3e7])
def test_rewards_that_are_all_the_same_move_nothing(level):
    trainer = trainer_of()
    state = trainer.init(0)
    after, iteration = trainer.step(state, Formula(lambda *_: level, SIZE))
    assert iteration.deviation == 1.0
    assert np.array_equal(after.search.x, state.search.x)
    # rounding is not blown up into a step: without the guard it would be of length 1
    noise = np.random.default_rng(0).standard_normal(2 * L) * 1e-14
    after, _ = trainer.step(state, Formula(lambda _, i: level * (1 + noise[i]), SIZE))
    assert np.abs(after.search.x).max() <= 1e-5


def test_the_deviation_counts_what_is_finite():
    rewards = np.array([1.0, np.nan, 3.0, np.inf])
    assert reward_deviation(rewards) == 1.0  # of 1 and 3
    assert reward_deviation(np.array([1.0, np.nan, 5.0])) == 2.0
    assert reward_deviation(np.array([np.nan, np.nan])) == 1.0


def test_an_episode_that_breaks_down_ends_the_training_or_costs_its_direction():
    def broken(x, i):
        return float("nan") if i == 3 else rough(x, i)

    trainer = trainer_of()
    with pytest.raises(gs.EvaluationError, match=r"Formula failed in evaluation 3 of 8.*drop"):
        trainer.step(trainer.init(0), Formula(broken, SIZE))
    trainer = trainer_of(on_failure="drop")
    state = trainer.init(0)
    x = state.search.x
    epsilon = (trainer.search.ask(state.search).block(0, 2 * L)[::2] - x) / SPACING
    after, iteration = trainer.step(state, Formula(broken, SIZE))
    rewards = np.array([broken(p, i) for i, p in enumerate(_points(x, epsilon, (1, 0)))])
    kept = [0, 2, 3]
    difference = (rewards[::2] - rewards[1::2])[kept]
    estimate = (difference[:, None] * epsilon[kept]).sum(axis=0) / (3 * SPACING)
    estimate /= np.nanstd(rewards)
    np.testing.assert_allclose(after.search.x, x + RATE * estimate, rtol=1e-9, atol=1e-12)
    assert iteration.info.dropped == 1


def test_too_few_directions_end_the_training_as_other_failures_do():
    trainer = trainer_of(on_failure="drop")
    with pytest.raises(
        gs.EvaluationError, match=r"Too many episodes of Formula failed: Only 0 of"
    ) as told:
        trainer.step(trainer.init(0), Formula(lambda _x, _i: float("nan"), SIZE))
    assert (told.value.step, told.value.index) == (0, 0)


def test_a_test_that_breaks_down():
    def broken(_, i):
        return float("nan") if i == 1 else 2.0

    trainer = trainer_of()
    with pytest.raises(gs.EvaluationError, match="failed in test episode 1"):
        trainer.test(trainer.init(0), Formula(broken, SIZE), 3)
    _, test = trainer_of(on_failure="drop").test(trainer.init(0), Formula(broken, SIZE), 3)
    assert (test.episodes, test.mean_return) == (2, 7.0)


def test_episodes_that_broke_down_count_nowhere_in_a_test():
    from gensmooth.rl.environments.base import Episodes
    from gensmooth.rl.trainer import summary

    found = Episodes(
        returns=np.array([1.0, np.nan, 3.0]),
        bonuses=np.zeros(3),
        lengths=np.array([10, 0, 30]),
        successes=np.array([1.0, 0.0, 0.0]),
    )
    test = summary(found, 5, 50, 500)
    assert (test.episodes, test.mean_return, test.mean_length, test.success) == (2, 2.0, 20.0, 0.5)
