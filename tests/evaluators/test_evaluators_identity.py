"""The same x to the last bit, whoever evaluates."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import gensmooth as gs
from evaluator_cases import (
    Outcome,
    Shuffled,
    check_context_and_extras,
    run,
    search_of,
    spread_sleep,
    wavy,
    wavy_block,
)
from gensmooth.evaluators import Evaluator, MapLike, Processes, Serial, Threads

ESTIMATORS = [gs.OnePoint("others"), gs.ForwardDifference(), gs.Antithetic()]
SAMPLES = [None, "shared", "paired", "independent"]
STEPS = 13  # Guided ES leans on its history, of 10 at this size, from the 11th


@cache
def configurations(method: str) -> list[tuple[gs.RandomSearch, Outcome]]:
    """Searches with every estimator and sample mode, and what serial evaluation makes of them."""
    found: list[tuple[gs.RandomSearch, Outcome]] = []
    for estimator, samples in product(ESTIMATORS, SAMPLES):
        number = 1 if samples is None else 2
        search = search_of(method, estimator=estimator, samples=samples, num_samples=number)
        found.append((search, run(Serial(), search, wavy, STEPS)))
    return found


@pytest.fixture(scope="module", params=["threads", "2 processes", "5 processes", "shuffled", "map"])
def evaluator(request: pytest.FixtureRequest) -> Iterator[Evaluator]:
    match request.param:
        case "threads":
            yield Threads(3)
        case "shuffled":
            yield Shuffled()
        case "map":
            with ThreadPoolExecutor(2) as pool:
                yield MapLike(pool.map)
        case processes:
            with Processes(int(processes[0])) as pool:
                yield pool


@pytest.mark.parametrize("method", gs.directions.METHODS)
def test_every_method_estimator_and_sample_mode(evaluator: Evaluator, method: str) -> None:
    for search, expected in configurations(method):
        found = run(evaluator, search, wavy, STEPS)
        assert found.x.tobytes() == expected.x.tobytes(), (search.estimator, search.samples)
        assert not found.faults


@pytest.mark.parametrize("vectorized", [True, 3])
@pytest.mark.parametrize("samples", [None, "independent"])
def test_vectorized(evaluator: Evaluator, vectorized: int, samples: Any) -> None:
    search = search_of(samples=samples, num_directions=10)
    expected = run(Serial(), search, wavy_block, vectorized=vectorized)
    found = run(evaluator, search, wavy_block, vectorized=vectorized)
    assert found.x.tobytes() == expected.x.tobytes()


@pytest.mark.parametrize("method", ["bes", "guided-es", "orthogonal-es"])
def test_shapes_types_bounds_and_many_tiles(evaluator: Evaluator, method: str) -> None:
    search = search_of(method, bounds=(-0.9, 0.9))
    for x0 in (
        np.full((3, 2), 0.85, np.float32),
        np.linspace(-1, 1, 5001),
        np.array([0.5]),
        np.linspace(-1, 1, 5001, dtype=np.float32),
    ):
        expected = run(Serial(), search, wavy, x0=x0)
        found = run(evaluator, search, wavy, x0=x0)
        assert found.x.shape == x0.shape
        assert found.x.dtype == x0.dtype
        assert found.x.tobytes() == expected.x.tobytes()


def test_results_in_any_order(evaluator: Evaluator) -> None:
    search = search_of(num_directions=30)
    expected = run(Serial(), search, wavy)
    found = run(evaluator, search, spread_sleep)
    assert found.x.tobytes() == expected.x.tobytes()


def test_many_runs_in_one_session(evaluator: Evaluator) -> None:
    """A session follows whatever state it is given: back in time, or of another run."""
    from evaluator_cases import steps
    from gensmooth.evaluators import Objective

    search = search_of("guided-es")
    with Serial().session(search, Objective(wavy)) as session:
        early = steps(session, search, 11)
        late = steps(session, search, 3, state=early.state)
        other = steps(session, search, 12, x0=np.ones(60))
    with evaluator.session(search, Objective(wavy)) as session:
        first = steps(session, search, 11)
        for _ in range(2):
            again = steps(session, search, 3, state=first.state)
            assert again.x.tobytes() == late.x.tobytes()
        assert steps(session, search, 12, x0=np.ones(60)).x.tobytes() == other.x.tobytes()
        again = steps(session, search, 3, state=early.state)
        assert again.x.tobytes() == late.x.tobytes()


def test_news_leads_from_one_state_to_the_next() -> None:
    """What a worker is sent in place of Guided ES's whole history."""
    guided = gs.Guided(history=3)
    rng = np.random.default_rng(0)
    states = [guided.init(4, np.dtype(np.float64))]
    estimates = rng.standard_normal((20, 4))
    for estimate in estimates:
        states.append(guided.update(states[-1], estimate))
    for i in range(20):
        latest = guided.latest_gradient(states[i], states[i + 1])
        assert latest is not None
        assert (latest == estimates[i]).all()
        for other in {0, 1, i - 1, i, i + 2, 20} - {i + 1}:
            if 0 <= other <= 20:
                assert guided.latest_gradient(states[i], states[other]) is None, (i, other)
    branch = guided.update(states[5], estimates[0])
    assert guided.latest_gradient(states[5], branch) is not None
    assert guided.latest_gradient(states[6], guided.update(branch, estimates[1])) is None
    shrunk = gs.shrunk(gs.Bernoulli())
    assert shrunk.latest_gradient((), ()) is None


def test_part_of_a_batch(evaluator: Evaluator) -> None:
    """The value at the last iterate is asked for with a plan of its own."""
    from gensmooth.estimators import Plan
    from gensmooth.evaluators import Objective

    search = search_of(samples="independent", num_samples=3)
    state = search.init(np.ones(5), seed=3)
    centre = search_of(num_directions=1, samples="shared", num_samples=3)
    batch = centre.ask(state)
    batch = batch.planned(Plan(*(part[:3] for part in batch.plan.arrays)))
    with Serial().session(search, Objective(wavy, sampled=True)) as session:
        expected = session.evaluate(state, batch).values
    with evaluator.session(search, Objective(wavy, sampled=True)) as session:
        assert session.evaluate(state, batch).values.tobytes() == expected.tobytes()


def test_context_and_extras(evaluator: Evaluator) -> None:
    check_context_and_extras(evaluator)


def test_context_and_extras_here() -> None:
    check_context_and_extras(Serial())


@pytest.mark.parametrize(("found", "vectorized"), [(1.0, False), ([1.0, 2.0], False), (None, True)])
def test_extras_that_are_not_there(found: Any, vectorized: bool) -> None:
    from gensmooth.evaluators import EvaluationError, Objective

    search = search_of()
    state = search.init(np.ones(5), seed=3)
    objective = Objective(lambda _: np.ones(4) if vectorized else found, False, vectorized, 2)
    with (
        Serial().session(search, objective) as session,
        pytest.raises(EvaluationError, match=r"must return (3 numbers|5 rows of 3 numbers)"),
    ):
        session.evaluate(state, search.ask(state))
