"""Islands: several searches side by side, of which the better ones spread."""

import numpy as np
import pytest
from scipy import stats

import gensmooth as gs
from gensmooth.searches.algorithms import islands
from gensmooth.searches.algorithms.islands import Islands, Places

D = 5
X0 = np.linspace(-1, 1, D)


def bowl(x):
    return float(((x - 0.5) ** 2).sum())


def make(**given):
    return Islands(**{"population": 96, "islands": 8, "x_scale": 0.5, **given})


def run(search, number, fun=bowl, seed=3):
    state = search.init(X0, seed=seed)
    for _ in range(number):
        batch = search.ask(state)
        state, _ = search.tell(state, batch, [fun(x) for x in batch.points()])
    return state


def test_points_are_the_islands_own_places_and_pairs_around_them():
    search = make(population=100)  # not the same number for each
    state = run(search, 2)
    points = search.ask(state).block(0, 100)
    places = state.sent
    seen = 0
    for island, (first, looks, pairs) in enumerate(search._shares(D)):
        seen += looks + 2 * pairs
        here = places.x[island]
        assert np.allclose(points[first : first + looks], here, rtol=0, atol=1e-15)
        both = points[first + looks : first + looks + 2 * pairs] - here
        assert np.allclose(both[0::2], -both[1::2], rtol=0, atol=1e-15)
        assert np.allclose(np.abs(both), places.spacings[island] * 0.5, rtol=0, atol=1e-14)
    assert seen == 100
    signs = np.sign(points - np.repeat(places.x, [13, 13, 13, 13, 12, 12, 12, 12], axis=0)).round()
    assert len(np.unique(signs[np.abs(signs).all(axis=1)], axis=0)) > 20  # islands differ in coins


def test_a_step_is_the_equation():
    search = make(islands=2, population=40)
    state = search.init(X0, seed=1)
    batch = search.ask(state)
    values = np.array([bowl(x) for x in batch.points()])
    after, _ = search.tell(state, batch, values)
    points = batch.block(0, 40)
    for island, (first, looks, pairs) in enumerate(search._shares(D)):
        begin = first + looks
        both = values[begin : begin + 2 * pairs]
        ranks = (stats.rankdata(both) - 1) / (len(both) - 1)
        found = np.zeros(D)
        for pair in range(pairs):
            coin = np.sign(points[begin + 2 * pair] - X0)
            found += (ranks[2 * pair + 1] - ranks[2 * pair]) * coin
        c, s = state.sent.spacings[island], state.sent.strides[island]
        step = s * c * np.sqrt(D) * 0.5 * found / np.linalg.norm(found)
        assert np.allclose(after.sent.x[island], X0 + step, rtol=1e-13)
        assert not np.allclose(after.sent.x[island], X0 - step, rtol=1e-3)  # uphill
    assert np.isclose(np.linalg.norm(after.sent.x[1] - X0), np.linalg.norm(step))


def test_it_goes_by_ranks_and_maximises_alike():
    plain = run(make(), 7)
    scaled = run(make(), 7, lambda x: 1e6 * bowl(x) - 3e5)
    assert np.allclose(plain.x, scaled.x)
    upside = run(make(maximize=True), 7, lambda x: -bowl(x))
    assert np.array_equal(plain.x, upside.x)
    assert bowl(plain.x) < 0.5 * bowl(X0)


def test_asking_is_a_pure_function_and_x_is_the_best_place():
    search = make()
    state = run(search, 4)
    one, two = search.ask(state), search.ask(state)
    assert np.array_equal(one.block(0, 96), two.block(0, 96))
    batch, values = one, np.array([bowl(x) for x in one.points()])
    after, _ = search.tell(state, batch, values)
    scores = [bowl(x) for x in state.sent.x]
    assert np.array_equal(after.x, state.sent.x[int(np.argmin(scores))])


def test_the_worst_become_copies_of_the_best_and_only_if_that_is_sure():
    search = make()
    state = search.init(X0, seed=0)
    state = state._replace(step=2)  # the step that exchanges
    x = np.tile(X0, (8, 1)) + np.arange(8)[:, None]
    places = state.sent._replace(x=x)
    scores = np.arange(8.0)

    def exchanged(errors):
        given = Places(*(each.copy() for each in places))
        search._exchange(state, given, scores.copy(), np.full(8, errors))
        return given

    sure = exchanged(0.01)
    assert np.array_equal(sure.x[7], x[0])
    assert np.array_equal(sure.x[6], x[1])
    assert np.array_equal(sure.x[:6], x[:6])
    ratios = sure.spacings[[7, 6]] / places.spacings[[0, 1]]
    assert np.allclose(np.abs(np.log(ratios)), islands._CHANGE)
    assert np.array_equal(exchanged(100.0).x, x)  # nobody knows who is better


@pytest.mark.parametrize("dim", [islands.LARGE, islands.LARGE + 1])
def test_with_many_parameters_islands_have_one_spacing_and_keep_it(dim):
    search = make(population=64)
    state = search.init(np.zeros(dim), seed=0)
    before = Places(*(each.copy() for each in state.sent))
    after = state.sent
    search._exchange(state, after, np.arange(8.0), np.zeros(8))
    kept = dim > islands.LARGE
    assert (len(set(before.spacings)) == 1) == kept
    spacing, stride = after.spacings[7] / before.spacings[0], after.strides[7] / before.strides[0]
    assert np.isclose(abs(np.log(stride)), islands._CHANGE)
    assert np.isclose(abs(np.log(spacing)), 0.0 if kept else islands._CHANGE)


def test_broken_episodes_are_left_out():
    search = make(on_failure="drop")
    state = search.init(X0, seed=0)
    batch = search.ask(state)
    values = np.array([bowl(x) for x in batch.points()])
    values[[5, 20]] = np.nan
    after, info = search.tell(state, batch, values)
    assert info.dropped == 2
    assert np.isfinite(after.sent.x).all()
    with pytest.raises(ValueError, match="has the value"):
        make().tell(state, batch, values)


def test_a_damaged_state_is_refused():
    search = make()
    state = run(search, 3)
    arrays = search.wire.pack(state.sent)
    again = search.wire.unpack(arrays, D, X0.dtype)
    assert all(np.array_equal(a, b) for a, b in zip(again, state.sent, strict=True))
    for key in arrays:
        for wrong in (arrays[key][:-1], arrays[key] * np.nan):
            with pytest.raises(ValueError, match="not a valid state"):
                search.wire.unpack({**arrays, key: wrong}, D, X0.dtype)


def test_islands_are_as_many_as_have_enough_points():
    numbers = {4032: 32, 1024: 8, 100: 4, 100_000: 64}
    assert {n: Islands(population=n).count(D) for n in numbers} == numbers
    assert Islands(population=100, islands=5).count(D) == 5
    assert Islands(population=8064).count(5916) == 4  # Humanoid's
    assert Islands(population=8064).count(2001) == 12
    assert Islands().number(D) == 4 * 16


def test_bad_numbers():
    with pytest.raises(ValueError, match="at least 32"):
        Islands(population=20, islands=8)
    with pytest.raises(ValueError, match="at least 16"):
        Islands(population=15)
    with pytest.raises(ValueError, match="islands"):
        Islands(islands=0)
    with pytest.raises(ValueError, match="in memory"):
        gs.search("islands", np.zeros(10_000_000))
    with pytest.raises(ValueError, match="only for training"):
        gs.minimize(bowl, X0, method="islands")
    with pytest.raises(ValueError, match="its own step"):
        gs.rl.train("Pendulum-v1", method="islands", learning_rate=0.1, max_steps=1)


def test_training_stops_and_resumes_to_the_same_bits(tmp_path):
    given = {
        "method": "islands",
        "population": 40,
        "max_steps": 5,
        "test_every": 2,
        "test_episodes": 3,
        "target": None,
        "seed": 1,
        "env_args": {"max_episode_steps": 20},
    }
    whole = gs.rl.train("Pendulum-v1", **given)
    part = gs.rl.train("Pendulum-v1", **given, folder=tmp_path, callback=lambda now: now.nit == 3)
    assert part.nit == 3
    found = gs.rl.resume(tmp_path)
    assert np.array_equal(found.policy.parameters, whole.policy.parameters)
    assert [t.mean_return for t in found.tests] == [t.mean_return for t in whole.tests]
    both = gs.rl.train("Pendulum-v1", **given, workers=2)
    assert np.array_equal(both.policy.parameters, whole.policy.parameters)
