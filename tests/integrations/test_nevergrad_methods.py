"""gensmooth in Nevergrad's registry."""

import pickle
import warnings
from concurrent import futures

import numpy as np
import pytest

from gensmooth import Antithetic, Pilot, RandomSearch
from gensmooth.points import PointByPoint, Ticket, make_search, usable
from gensmooth.searches.wanted import Wanted

ng = pytest.importorskip("nevergrad")
ours = pytest.importorskip("gensmooth.nevergrad")
registry = ng.optimizers.registry
NAMES = ["auto", "bes", "guided-es", "orthogonal-shrinkage"]


def bowl(x):
    return float(((np.asarray(x) - 0.5) ** 2).sum())


def in_half(x):
    return x[0] >= 0.2


def made(name, budget=200, num_workers=1, parametrization=None):
    optimizer = registry[name](
        ng.p.Array(shape=(3,)) if parametrization is None else parametrization,
        budget=budget,
        num_workers=num_workers,
    )
    optimizer.parametrization.random_state.seed(12)
    return optimizer


def test_every_method_is_registered():
    for name in usable():
        assert ours.registered_name(name) in registry
    assert registry["GensmoothAuto"].name == "GensmoothAuto"
    assert made("GensmoothBES").name == "GensmoothBES"


def test_a_name_in_the_registry_needs_no_more_than_a_number_of_parameters():
    assert {"auto", "gs", "bes-shrinkage", "lmrs", "ars", "spsa", "snes", "cma-es"} <= set(usable())
    assert not {"stars", "low-rank", "ars-v2"} & set(usable())  # noise, a matrix, observations


@pytest.mark.parametrize("method", ["cma-es", "snes", "spsa"])
def test_whole_algorithms_run_there_too(method):
    def failing(x):
        return np.nan if x[0] > 1.8 else bowl(x)

    optimizer = made(ours.registered_name(method), budget=600)
    assert bowl(optimizer.minimize(bowl).value) < 0.01 * bowl(np.zeros(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Nevergrad's, on losses that are no numbers
        made(ours.registered_name(method), budget=60).minimize(failing)
        made(ours.registered_name(method), budget=40).minimize(lambda _: np.nan)


@pytest.mark.parametrize("method", ["auto", "bes", "snes"])
def test_what_constraints_forbid_is_not_recommended(method):
    def right(x):
        return bool(x[0] >= 1)

    space = ng.p.Array(shape=(2,))
    space.register_cheap_constraint(right)
    space.random_state.seed(0)
    found = registry[ours.registered_name(method)](space, budget=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Nevergrad's, on points that it asks for in vain
        best = found.minimize(lambda x: float((x**2).sum())).value
    assert best[0] >= 1
    assert (best**2).sum() < 1.6


@pytest.mark.parametrize("name", NAMES)
def test_it_minimises_in_nevergrads_loop(name):
    optimizer = made(ours.registered_name(name), budget=400)
    found = optimizer.minimize(bowl)
    assert optimizer.num_ask == optimizer.num_tell == 400
    assert bowl(found.value) < 0.1 * bowl(np.zeros(3))


def test_point_by_point_is_ask_and_tell():
    """One point at a time, in any order, is the batch: the same states, bit for bit."""
    for method in ("auto", "bes"):
        search = make_search(3, Wanted(method=method, budget=300))
        points = PointByPoint(search, np.zeros(3), seed=5)
        state = search.init(np.zeros(3), seed=5)
        rng = np.random.default_rng(0)
        for _ in range(12):
            batch = search.ask(state)
            state, _ = search.tell(state, batch, [bowl(x) for x in batch.points()])
            asked = [points.ask() for _ in range(len(batch))]
            assert len({ticket for ticket, _ in asked}) == len(batch)
            for i in rng.permutation(len(batch)):
                ticket, x = asked[i]
                points.tell(ticket, bowl(x))
            assert points.step == state.step
            assert points.state.x.tolist() == state.x.tolist()


def test_asking_for_more_than_there_are_gives_what_is_waited_for():
    search = make_search(2, Wanted(method="bes", num_directions=2))
    points = PointByPoint(search, np.zeros(2), seed=0)
    asked = [points.ask() for _ in range(7)]  # a batch has three
    assert [ticket.place for ticket, _ in asked] == [0, 1, 2, 0, 1, 2, 0]
    assert asked[0][1].tolist() == asked[3][1].tolist()
    for ticket, x in asked[:3]:
        assert points.first_pending() == ticket
        points.tell(ticket, bowl(x))
    assert points.step == 1
    before = points.state
    for ticket, _ in asked[3:]:
        points.tell(ticket, -1e9)  # too late: the first value counted
    points.tell(Ticket(1, 99), -1e9)
    assert points.state is before
    assert points.best()[1] > -1e9


def test_values_that_there_are_not():
    for method in ("auto", "bes"):
        search = make_search(2, Wanted(method=method, budget=90))
        points = PointByPoint(search, np.zeros(2), seed=0)
        for number in range(60):
            ticket, x = points.ask()
            points.tell(ticket, np.nan if number % 3 or number < 12 else bowl(x))
        assert np.isfinite(points.state.x).all()
        assert np.isfinite(points.best()[1])


def test_batches_are_large_enough_for_the_workers():
    for workers in (1, 7, 30):
        search = make_search(3, Wanted(method="bes", workers=workers))
        assert isinstance(search, RandomSearch)
        assert len(search.plan) >= workers
    search = make_search(3, Wanted(method="auto", workers=30))
    assert isinstance(search, Pilot)
    assert search.num_directions == 15


@pytest.mark.filterwarnings("ignore:Ignoring since timer")  # Nevergrad's own
@pytest.mark.parametrize("workers", [4, 20])
def test_workers(workers):
    optimizer = made("GensmoothBES", budget=400, num_workers=workers)
    with futures.ThreadPoolExecutor(workers) as executor:
        found = optimizer.minimize(bowl, executor=executor, batch_mode=True)
    assert bowl(found.value) < 0.2 * bowl(np.zeros(3))


def test_the_parametrisation_is_nevergrads():
    parametrization = ng.p.Instrumentation(
        ng.p.Log(lower=1e-4, upper=1.0),
        y=ng.p.Scalar(lower=-3, upper=2).set_integer_casting(),
        kind=ng.p.Choice(["a", "b"]),
    )
    seen = []

    def loss(x, y, kind):
        seen.append((x, y, kind))
        return abs(np.log10(x) + 2) + abs(y + 1) + (kind == "a")

    optimizer = made("GensmoothAuto", budget=300, parametrization=parametrization)
    best = optimizer.minimize(loss)
    assert all(1e-4 <= x <= 1 and y in range(-3, 3) and kind in "ab" for x, y, kind in seen)
    args, kwargs = best.value
    assert loss(*args, **kwargs) < 0.5


def test_losses_that_are_no_numbers_suggestions_and_constraints():
    optimizer = made("GensmoothAuto", budget=150)
    optimizer.suggest(np.full(3, 0.4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the loss is clipped
        found = optimizer.minimize(lambda x: np.inf if x[0] > 1.5 else bowl(x))
    assert bowl(found.value) < 0.01
    bounded = made("GensmoothBES", budget=150)
    bounded.parametrization.register_cheap_constraint(in_half)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = bounded.minimize(bowl)
    assert bounded.num_tell == 150
    assert bounded._points.step > 5


def test_the_same_seed_is_the_same_run_and_a_dump_goes_on(tmp_path):
    first, second = made("GensmoothAuto", 120), made("GensmoothAuto", 120)
    for number in range(120):
        one, two = first.ask(), second.ask()
        assert one.value.tolist() == two.value.tolist()
        first.tell(one, bowl(one.value))
        second.tell(two, bowl(two.value))
        if number == 50:
            second.dump(tmp_path / "dumped")
            second = registry["GensmoothAuto"].load(tmp_path / "dumped")
    points = first._points
    again = pickle.loads(pickle.dumps(points))
    assert again.ask()[1].tolist() == points.ask()[1].tolist()


def test_numbers_of_ones_own():
    made_by = ours.Gensmooth(method="bes", spacing=0.3, learning_rate=0.2, estimator=Antithetic())
    optimizer = made_by(ng.p.Array(shape=(2,)), budget=100)
    assert optimizer._search.spacing == 0.3
    assert optimizer.minimize(bowl) is not None
    with pytest.raises(ValueError, match="method='auto' chooses `spacing` itself"):
        ours.Gensmooth(spacing=0.3)
    with pytest.raises(ValueError, match="There is no method 'cma'"):
        ours.Gensmooth(method="cma")


def test_with_noise_the_recommendation_is_the_centre():
    rng = np.random.default_rng(0)
    optimizer = made("GensmoothAuto", budget=600)
    optimizer.parametrization.function.deterministic = False
    found = optimizer.minimize(lambda x: bowl(x) + rng.standard_normal())
    assert found.value.tolist() == optimizer._points.state.x.tolist()
    assert bowl(found.value) < 0.5
