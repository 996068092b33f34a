"""The pilot: the same bits whoever evaluates and wherever it stops; what it must not depend on;
what it must find with nothing but an objective and a start.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import gensmooth as gs
import theory_literal as literal
from gensmooth.evaluators import Processes, Threads
from gensmooth.searches import descent, evolution, quasi_newton
from gensmooth.searches.adaptive import PointRequest, RequestKind
from gensmooth.searches.pilot import Control, Trial


def valley(x, rng=None) -> float:
    """Rosenbrock's function: curved, so that every phase has something to do."""
    x = np.asarray(x, np.float64).reshape(-1)
    value = float((100 * (x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x) ** 2).sum())
    return value if rng is None else value + 0.3 * float(rng.standard_normal())


def kinks(x, rng=None) -> float:
    """No gradient leads to its minimum."""
    x = np.asarray(x, np.float64).reshape(-1)
    value = float(np.abs(x - np.linspace(0.5, 2, x.size)).sum() + np.abs(x.sum()) ** 1.5)
    return value if rng is None else value + 0.3 * float(rng.standard_normal())


def powers(x) -> float:
    """Flatter and flatter towards the minimum: quasi-Newton is slow, but right."""
    return float((np.abs(x - 1) ** np.linspace(2, 9, x.size)).sum())


def bowl(x, rng=None) -> float:
    x = np.asarray(x, np.float64).reshape(-1)
    value = float((np.arange(1, x.size + 1) * (x - 1) ** 2).sum())
    return value if rng is None else value + float(rng.standard_normal())


# Between them they pass through every phase, the trial and its end either way, and a restart.
RUNS = {
    "valley": (valley, {"x0": np.full(3, -1.0), "budget": 500}),
    "kinks": (kinks, {"x0": np.zeros(3), "budget": 600}),
    "flat": (lambda _: 3.0, {"x0": np.ones(2), "budget": 700}),
    "powers": (powers, {"x0": np.full(3, -3.0), "budget": 700}),
    "many": (valley, {"x0": np.full(51, -1.0), "budget": 1300}),
    "little": (bowl, {"x0": np.zeros((2, 3)), "budget": 100}),
    "single": (bowl, {"x0": np.zeros(4, np.float32), "budget": 300}),
    "bounded": (bowl, {"x0": np.zeros(3), "bounds": [(-1, 0.5), (-1, 2), (0, 9)], "budget": 400}),
    "independent": (bowl, {"x0": np.zeros(4), "samples": "independent", "budget": 500}),
    "averaged": (
        bowl,
        {"x0": np.zeros(4), "samples": "independent", "num_samples": 3, "budget": 700},
    ),
    "shared": (valley, {"x0": -np.ones(4), "samples": "shared", "num_samples": 2, "budget": 400}),
    "paired": (bowl, {"x0": np.zeros(4), "samples": "paired", "x_scale": 0.5, "budget": 400}),
    "upward": (lambda x: -kinks(x), {"x0": np.zeros(3), "maximize": True, "budget": 500}),
}  # fmt: skip
each_run = pytest.mark.parametrize("name", RUNS)


def same(a: gs.Result, b: gs.Result) -> None:
    assert a.x.tobytes() == b.x.tobytes()
    assert a.best_x.tobytes() == b.best_x.tobytes()
    for name in ("fun", "best_fun", "nfev", "nit", "status", "reason", "error", "noise", "dropped"):
        assert a[name] == b[name], name
    for one, other in zip(a.history[:-1], b.history[:-1], strict=True):
        np.testing.assert_array_equal(one, other)


class Passed:
    """A callback that keeps what each step was for."""

    def __init__(self) -> None:
        self.steps: list[tuple[RequestKind, int, int]] = []

    def __call__(self, now) -> None:
        control = now.state.kept.memory
        self.steps.append((now.state.sent.kind, control.trial, control.evolution.restarts))


@cache
def whole(name: str) -> tuple[gs.Result, list[tuple[RequestKind, int, int]]]:
    fun, options = RUNS[name]
    passed = Passed()
    return gs.minimize(fun, seed=5, callback=passed, **options), passed.steps


def test_the_runs_pass_through_everything_there_is():
    steps = {step for name in RUNS for step in whole(name)[1]}
    assert {phase for phase, _, _ in steps} | {RequestKind.START} == set(RequestKind)
    assert {trial for _, trial, _ in steps} == {0, 1, 2}
    assert {restarts > 0 for _, _, restarts in steps} == {False, True}
    after_trial = {phase for phase, trial, _ in steps if trial == 2}
    assert {
        RequestKind.FORWARD_DIFFERENCES,
        RequestKind.MIRRORED_PAIRS,
    } <= after_trial  # either won one


# --- the same bits -----------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["threads", "processes"])
def evaluator(request) -> Iterator[Threads | Processes]:
    if request.param == "threads":
        yield Threads(3)
        return
    with Processes(2) as pool:
        yield pool


@each_run
def test_whoever_evaluates(name, evaluator):
    fun, options = RUNS[name]
    same(gs.minimize(fun, seed=5, workers=evaluator, **options), whole(name)[0])


def test_threads_of_the_kernels_change_nothing():
    options = {"x0": np.zeros(5000), "samples": "independent", "budget": 300, "seed": 1}
    one, three = (gs.minimize(bowl, threads=threads, **options) for threads in (1, 3))
    same(one, three)


@each_run
def test_stopped_and_resumed_in_every_phase(name, tmp_path):
    fun, options = RUNS[name]
    expected, steps = whole(name)
    changes = [i for i in range(1, len(steps)) if steps[i] != steps[i - 1]]
    first = {steps[i]: i for i in reversed(changes)}  # where each kind of step comes up first
    for at in {0, len(steps) // 2, *first.values()}:
        folder = tmp_path / str(at)

        def stop(now, at=at):
            if now.info.step == at:
                raise KeyboardInterrupt

        part = gs.minimize(fun, seed=5, folder=folder, callback=stop, **options)
        assert (part.reason, part.nit) == ("interrupted", at + 1)
        same(gs.resume(folder, fun), expected)


@each_run
def test_by_hand(name):
    fun, options = RUNS[name]
    options = dict(options)
    pilot = gs.Pilot(**{key: value for key, value in options.items() if key != "x0"})
    state = pilot.init(options["x0"], seed=5)
    expected = whole(name)[0]
    for value in expected.history.value:
        batch = pilot.ask(state)
        again = pilot.ask(state)
        assert [p.tobytes() for p in batch.points()] == [p.tobytes() for p in again.points()]
        assert len(batch) == pilot.next_evaluations(state)
        if options.get("samples") is None:
            values = [fun(x) for x in batch.points()]
        else:
            values = [fun(x, rng) for x, rng in zip(batch.points(), batch.rngs(), strict=True)]
        before = state
        state, info = pilot.tell(state, batch, values)
        assert info.value == value == pilot.value_at(before, np.array(values))
    assert (state.step, state.evaluations) == (expected.nit, expected.history.evaluations[-1])
    assert pilot.recommend(state).tobytes() == expected.x.tobytes()
    assert pilot.noise(state) == expected.noise


def test_telling_leaves_the_old_state_as_it_was():
    pilot = gs.Pilot(budget=500)
    states = [pilot.init(np.full(3, -1.0), seed=0)]
    told = []
    while states[-1].evaluations < 400:
        batch = pilot.ask(states[-1])
        told.append([valley(x) for x in batch.points()])
        states.append(pilot.tell(states[-1], batch, told[-1])[0])
    for before, values, after in zip(states[:-1], told, states[1:], strict=True):
        again, _ = pilot.tell(before, pilot.ask(before), values)
        assert again.x.tobytes() == after.x.tobytes()
        for one, other in zip(flat(again), flat(after), strict=True):
            assert np.array_equal(one, other)


def flat(state) -> list:
    """All numbers of a state."""
    found = []
    todo = [state.kept, state.sent]
    while todo:
        item = todo.pop()
        if isinstance(item, tuple):
            todo += item
        else:
            found.append(item)
    return found


def test_a_batch_is_told_once_and_whole():
    pilot = gs.Pilot(budget=500)
    first = pilot.init(np.zeros(3), seed=0)
    batch = pilot.ask(first)
    second, _ = pilot.tell(first, batch, [1.0, 1.0])
    with pytest.raises(ValueError, match="to `tell` once"):
        pilot.tell(second, batch, [1.0, 1.0])
    with pytest.raises(ValueError, match="needs 2 values, but `tell` got 3"):
        pilot.tell(first, batch, [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"evaluation 1 of 2 .* has the value nan"):
        pilot.tell(first, batch, [1.0, math.nan])


# --- what it does not depend on ----------------------------------------------------------------


def coarse(x, rng=None) -> float:
    """Values that have few bits, so that they can be scaled and shifted without rounding."""
    return round(kinks(x, rng) * 2.0**20) / 2.0**20


@pytest.mark.parametrize("samples", [None, "independent"])
def test_the_objectives_units_do_not_matter_to_ranks(samples):
    # Single precision has no quasi-Newton phase: ranks alone.
    options = {"x0": np.zeros(4, np.float32), "samples": samples, "budget": 1500, "seed": 2}
    plain = gs.minimize(coarse, **options)
    for factor, shift in ((4.0, 0.0), (1 / 1024, 0.0), (1.0, 3.0), (2.0, -100.0)):

        def changed(x, *rng, factor=factor, shift=shift):
            return factor * coarse(x, *rng) + shift

        found = gs.minimize(changed, **options)
        assert found.x.tobytes() == plain.x.tobytes()
        assert found.nfev == plain.nfev
        assert found.fun == pytest.approx(factor * plain.fun + shift, rel=1e-12)
        assert found.noise == pytest.approx(factor * plain.noise, rel=1e-12)
    squared = gs.minimize(lambda x, *rng: coarse(x, *rng) ** 3, **options)
    if samples is None:  # nor does anything that keeps the order, where there is no noise
        assert squared.x.tobytes() == plain.x.tobytes()
    other = gs.minimize(lambda x, *rng: coarse(x, *rng) + 0.1 * x[0], **options)
    assert other.x.tobytes() != plain.x.tobytes()


@pytest.mark.parametrize(("factor", "shift"), [(4.0, 0.0), (3.0, 0.0), (1e-3, 1e-3), (1e6, 7.0)])
def test_the_objectives_units_do_not_matter_to_quasi_newton(factor, shift):
    options = {"x0": np.full(4, -0.3), "budget": 120, "seed": 2}  # a quadratic takes no more

    def hill(x):
        return 1.0 + bowl(x)

    plain = gs.minimize(hill, **options)
    found = gs.minimize(lambda x: factor * hill(x) + shift, **options)
    np.testing.assert_allclose(found.x, plain.x, rtol=1e-6)
    np.testing.assert_allclose(plain.x, 1.0, rtol=1e-6)


@pytest.mark.parametrize("samples", ["shared", "paired"])
def test_the_objectives_units_do_not_matter_to_descent(samples):
    options = {"x0": np.full(4, -0.3), "samples": samples, "budget": 1000, "seed": 2}
    plain = gs.minimize(bowl, **options)
    found = gs.minimize(lambda x, rng: 1000 * bowl(x, rng) + 7, **options)
    np.testing.assert_allclose(found.x, plain.x, rtol=1e-6)


@pytest.mark.parametrize("name", ["valley", "kinks", "independent", "shared", "paired"])
@pytest.mark.parametrize("each", [False, True])
def test_a_parameters_unit_does_not_matter_with_its_scale(name, each):
    fun, options = RUNS[name]
    options = options | {"seed": 5}
    start = options.pop("x0") + 0.25
    own = 0.5 if not each else np.linspace(0.5, 2, start.size)
    options["x_scale"] = own
    plain = gs.minimize(fun, start, **options)
    unit = 2.0 ** np.arange(-10, 30, 9)[: start.size] if each else 2.0**-10

    def in_units(x, *rng):
        return fun(x / unit, *rng)

    found = gs.minimize(in_units, start * unit, **options | {"x_scale": own * unit})
    assert found.x.tobytes() == (plain.x * unit).tobytes()
    assert (found.fun, found.nfev) == (plain.fun, plain.nfev)
    without = gs.minimize(in_units, start * unit, **options)
    assert without.x.tobytes() != (plain.x * unit).tobytes()


@pytest.mark.parametrize("bounds", [None, (-1.0, 3.0)])
def test_nor_without_one_if_start_or_bounds_tell_it(bounds):
    start, unit = np.array([0.5, -0.25, 1.0]), 1024.0
    plain = gs.minimize(valley, start, bounds=bounds, budget=600, seed=0)
    wide = None if bounds is None else tuple(limit * unit for limit in bounds)
    found = gs.minimize(lambda x: valley(x / unit), start * unit, bounds=wide, budget=600, seed=0)
    assert found.x.tobytes() == (plain.x * unit).tobytes()


@each_run
def test_maximising_is_minimising_the_negative(name):
    fun, options = RUNS[name]
    up = gs.minimize(
        lambda *given: -fun(*given),
        seed=5,
        **options | {"maximize": not options.get("maximize", False)},
    )
    down = whole(name)[0]
    assert up.x.tobytes() == down.x.tobytes()
    assert (up.fun, up.best_fun, up.error, up.noise) == (
        -down.fun, -down.best_fun, down.error, down.noise,
    )  # fmt: skip
    assert np.array_equal(up.history.value, -down.history.value)


@pytest.mark.parametrize("frequency", [0, 2], ids=["one optimum", "many"])
def test_without_restarts_a_run_is_the_beginning_of_the_one_with_them(frequency, tmp_path):
    """It ends when the other one continues elsewhere, or has nothing to gain where it is."""

    def hilly(x):
        return float((x**2).sum() - frequency * np.cos(7 * x).sum())

    how = {"budget": 6_000, "seed": 0}
    whole = gs.minimize(hilly, np.full(3, 0.8), **how)
    part = gs.minimize(hilly, np.full(3, 0.8), **how, restarts=False, folder=tmp_path / "run")
    assert (whole.reason, part.reason) == ("budget", "converged")
    assert part.success
    assert "with restarts=True" in part.message
    steps = len(part.history.value)
    assert part.history.value.tolist() == whole.history.value[:steps].tolist()
    assert part.fun == part.best_fun == whole.history.best_value[:steps].min()
    assert part.nfev < 3_000
    pilot = gs.Pilot(budget=6_000, restarts=False)
    again = gs.minimize(hilly, np.full(3, 0.8), **how, search=pilot)
    assert np.array_equal(again.x, part.x)
    assert again.nfev == part.nfev
    assert np.array_equal(gs.resume(tmp_path / "run", hilly).x, part.x)


def test_noisy_values_have_nothing_to_converge_to():
    result = gs.minimize(
        lambda x, rng: bowl(x) + float(rng.standard_normal()),
        np.zeros(3),
        samples="independent",
        budget=2_000,
        seed=0,
        restarts=False,
    )
    assert result.reason == "budget"


def test_only_the_pilot_restarts():
    for how in ({"method": "snes"}, {"method": "bes"}, {"spacing": 0.1}):
        with pytest.raises(ValueError, match="`restarts` is for the default search"):
            gs.minimize(bowl, np.zeros(3), restarts=False, **how)


def test_looking_around_is_no_short_step():
    def cone(x):
        return float(np.sqrt(np.abs(x - 1).sum()))

    for scale in (1.0, 1e6, 1e9):  # far too long a step at first, which is shortened many times
        res = gs.minimize(cone, np.zeros(3), x_scale=scale, tolerance=1e-6, seed=0)
        assert res.fun < 0.01
    assert res.reason == "tolerance"


def test_auto_names_the_default():
    same(gs.minimize(kinks, np.zeros(3), method="auto", budget=300, seed=0),
         gs.minimize(kinks, np.zeros(3), budget=300, seed=0))  # fmt: skip


# --- what it must find -------------------------------------------------------------------------

SCALES = np.logspace(-4, 3, 12)
TURN = np.linalg.qr(np.eye(12) + 0.3 * np.random.default_rng(0).standard_normal((12, 12)))[0]
EXAMPLES = {
    "tiny": (lambda x: float((((x - 1e-3) / 1e-3) ** 2).sum()), {"x0": np.zeros(5)}),
    "far": (lambda x: float(((x - 1000) ** 2).sum()), {"x0": np.zeros(5)}),
    "rounded": (lambda x: float((np.round(x - 3) ** 2).sum()), {"x0": np.zeros(5)}),
    "twelve": (
        lambda x: float((np.logspace(0, 2, 12) * (TURN @ (x / SCALES - 0.3)) ** 2).sum()),
        {"x0": np.zeros(12), "bounds": [(-scale, scale) for scale in SCALES]},
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_number_is_needed(name):
    fun, options = EXAMPLES[name]
    for seed in range(2):
        res = gs.minimize(fun, seed=seed, **options)
        assert res.fun <= 0.01 * fun(options["x0"])
        assert res.nfev <= 10_000


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_every_shape_and_precision(shape, dtype):
    res = gs.minimize(bowl, np.full(shape, 4.0, dtype), budget=1500, seed=0)
    assert (res.x.shape, res.x.dtype) == (shape, dtype)
    assert (res.best_x.shape, res.best_x.dtype) == (shape, dtype)
    np.testing.assert_allclose(res.x, 1, atol=1e-2)


def test_many_parameters_take_coins():
    d = 2500
    pilot = gs.Pilot(budget=10_000)
    state = pilot.init(np.zeros(d), seed=0)
    start = pilot.ask(state)
    state, _ = pilot.tell(state, start, [0.0, 0.0])
    batch = pilot.ask(state)
    points = np.array(list(batch.points()))
    assert np.ptp(np.abs(points)) == 0 < np.abs(points[0, 0])
    assert np.array_equal(points[0:6:2], -points[1:6:2])  # mirrored
    res = gs.minimize(
        lambda x: float(((x - 1) ** 2).sum()), np.zeros(d), x_scale=0.1, budget=4000, seed=0
    )
    assert res.fun < 0.8 * d


def test_it_falls_back_on_ranks_where_a_gradient_is_too_dear():
    def phases(**options) -> set[RequestKind]:
        passed = Passed()
        given = {"x0": np.zeros(6), "budget": 30_000, "max_steps": 3} | options
        gs.minimize(bowl, callback=passed, seed=0, **given)
        return {phase for phase, _, _ in passed.steps}

    for dear in ({"budget": 19 * 6}, {"x0": np.zeros(6, np.float32)}, {"x0": np.zeros(1001)}):
        assert RequestKind.FORWARD_DIFFERENCES not in phases(**dear)
    for cheap in ({}, {"budget": 20 * 6}, {"x0": np.zeros(1000)}):
        assert RequestKind.FORWARD_DIFFERENCES in phases(**cheap)


# --- bounds ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["valley", "kinks", "independent", "shared", "paired", "single"])
def test_no_evaluation_leaves_the_bounds(name):
    fun, options = RUNS[name]
    dim = options["x0"].size
    low = np.array([-0.25, -math.inf, 0.125, -2.0])[:dim].astype(options["x0"].dtype)
    high = np.array([0.25, 0.5, math.inf, 2.0])[:dim].astype(options["x0"].dtype)
    points = []

    def counted(x, *rng):
        points.append(np.array(x))
        return fun(x, *rng)

    start = np.array([0.0, 9.0, 0.0, 0.0])[:dim].astype(options["x0"].dtype)
    res = gs.minimize(
        counted, **options | {"x0": start, "bounds": gs.Bounds(low, high), "budget": 1000}, seed=5
    )
    assert len(points) == res.nfev
    assert np.all((low <= points) & (points <= high))
    assert np.all((low <= res.x) & (res.x <= high))
    assert np.all((low <= res.best_x) & (res.best_x <= high))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_optimum_at_a_limit_is_found(dtype):
    res = gs.minimize(
        bowl, np.zeros(4, dtype), bounds=[(-1, 0.5), (-1, 3), (-1, 0.25), (2, 3)], budget=2000,
        seed=0,
    )  # fmt: skip
    np.testing.assert_allclose(res.x, [0.5, 1, 0.25, 2], atol=1e-3)
    linear = gs.minimize(
        lambda x: float(x @ [1.0, -2.0, 3.0]), np.zeros(3, dtype), bounds=(-1, 1), seed=0,
        budget=1000,
    )  # fmt: skip
    np.testing.assert_allclose(linear.x, [-1, 1, -1], atol=1e-3)


# --- failures ----------------------------------------------------------------------------------


def half(x, *rng) -> float:
    """Not a number where the first parameter is below a half; smallest just beside that."""
    return math.nan if x[0] < 0.5 else bowl(x, *rng)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_half_space_of_failures(dtype):
    start = np.array([3.0, 3.0, 3.0], dtype)
    res = gs.minimize(half, start, on_failure="drop", budget=2000, seed=0)
    np.testing.assert_allclose(res.x, 1, atol=1e-2)
    noisy = gs.minimize(half, start, on_failure="drop", samples="independent", seed=0)
    assert half(noisy.x) < 0.1 * half(start)
    assert noisy.dropped > 0
    assert noisy.faults["non-finite"] > 0
    with pytest.raises(gs.EvaluationError, match="returned nan"):
        gs.minimize(half, start, seed=0, samples="independent")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_failure_at_the_start(dtype):
    start = np.array([0.25, 3.0, 3.0], dtype)
    res = gs.minimize(half, start, on_failure="drop", budget=2000, seed=0)
    np.testing.assert_allclose(res.x, 1, atol=1e-2)
    assert res.noise == 0.0
    assert res.fun == res.best_fun
    noisy = gs.minimize(half, start, on_failure="drop", samples="independent", seed=0)
    assert half(noisy.x) < 0.1 * half(np.array([0.5, 3.0, 3.0]))
    rng = np.random.default_rng(0)
    hidden = gs.minimize(lambda x: half(x, rng), start, on_failure="drop", seed=0)
    assert hidden.noise == pytest.approx(1.0, rel=0.5)


def test_failures_among_the_final_values_are_left_out():
    calls = []

    def flaky(x, rng):
        calls.append(x)
        return math.nan if len(calls) % 7 == 0 else bowl(x, rng)

    res = gs.minimize(
        flaky, np.zeros(3), samples="independent", on_failure="drop", budget=4000, seed=0
    )
    finals = 4000 // 200
    failed = sum(call % 7 == 0 for call in range(res.nfev - finals + 1, res.nfev + 1))
    assert failed > 0
    assert res.fun == pytest.approx(bowl(res.x), abs=5 * res.error)
    assert res.error == pytest.approx(1 / math.sqrt(finals - failed), rel=0.6)


def test_failures_everywhere_are_an_error_that_keeps_the_run():
    with pytest.raises(gs.EvaluationError, match=r"No value of the last .* is finite") as caught:
        gs.minimize(lambda _: math.nan, np.ones(3), on_failure="drop", seed=0)
    assert np.array_equal(caught.value.result.x, np.ones(3))


@pytest.mark.parametrize("samples", [None, "independent"])
def test_a_run_that_ends_before_it_has_a_value_is_no_success(samples):
    def fun(*_):
        raise RuntimeError("not today")

    res = gs.minimize(fun, np.ones(3), on_failure="drop", samples=samples, budget=50, seed=0)
    assert (res.success, res.reason) == (False, "budget")
    assert f"None of the {res.nfev - 1} evaluations gave a finite value" in res.message
    assert "same" not in res.message


# --- noise -------------------------------------------------------------------------------------


@cache
def noisy_runs(sampled: bool) -> list[gs.Result]:
    runs = []
    for seed in range(40):
        own = np.random.default_rng(seed)
        fun = bowl if sampled else lambda x, own=own: bowl(x, own)
        samples = "independent" if sampled else None
        runs.append(gs.minimize(fun, np.zeros(3), samples=samples, budget=1000, seed=seed))
    return runs


@pytest.mark.parametrize("sampled", [True, False])
def test_the_noise_is_found(sampled):
    found = np.array([run.noise**2 for run in noisy_runs(sampled)])
    assert abs(literal.z_score(found, 1.0)) < 4
    assert abs(literal.z_score(found, 2.0)) > 6  # that of a difference


@pytest.mark.parametrize("sampled", [True, False])
def test_the_error_bar_covers_the_truth(sampled):
    runs = noisy_runs(sampled)
    n = 1000 // 200  # final values
    errors = np.array([(run.fun - bowl(run.x)) / run.error for run in runs])
    level = scipy.stats.t.ppf(0.95, n - 1)
    covered = np.count_nonzero(np.abs(errors) < level)  # nine in ten
    assert scipy.stats.binomtest(int(covered), len(runs), 0.9).pvalue > 1e-3
    narrow = np.count_nonzero(np.abs(errors) < level / 3)
    assert scipy.stats.binomtest(int(narrow), len(runs), 0.9).pvalue < 1e-6


def test_exact_values_have_no_noise_and_common_samples_are_not_measured():
    exact = gs.minimize(bowl, np.zeros(3), budget=300, seed=0)
    assert (exact.noise, exact.error) == (0.0, None)
    assert exact.fun == exact.best_fun == bowl(exact.x)
    shared = gs.minimize(bowl, np.zeros(3), samples="shared", budget=300, seed=0)
    assert shared.noise is None


def test_noise_is_found_that_the_start_does_not_show():
    rng = np.random.default_rng(0)

    def beyond(x):
        return bowl(x) + (rng.standard_normal() if np.abs(x).max() > 1e-3 else 0.0)

    res = gs.minimize(beyond, np.zeros(3), seed=0)
    assert res.noise == pytest.approx(1.0, rel=0.5)


def test_more_noise_makes_more_directions():
    def pairs(noise):
        def fun(x, rng):
            return bowl(x) + noise * rng.standard_normal()

        res = gs.minimize(
            fun, np.zeros(40), samples="independent", budget=20_000, seed=0,
            callback=lambda now: now.info.evaluations > 2000,
        )  # fmt: skip
        return res.state.kept.memory.evolution.pairs

    assert pairs(1e3) > 2 * pairs(1e-6)


# --- little budget, wide starts ----------------------------------------------------------------


@pytest.mark.parametrize("budget", [3, 5, 15, 40, 99, 100])
@pytest.mark.parametrize("dim", [2, 20])
def test_no_budget_is_left_over_nor_overdrawn(budget, dim):
    """Noisy: whatever no step can use goes into the final value. Exact: the last step is cut."""
    rng = np.random.default_rng(0)
    calls = []

    def noisy(x):
        calls.append(1)
        return bowl(x) + float(rng.standard_normal())

    res = gs.minimize(noisy, np.zeros(dim), budget=budget, seed=0)
    assert res.nfev == len(calls) == budget
    assert res.error > 0
    exact = gs.minimize(kinks, np.full(dim, 3.0), budget=budget, seed=0)
    assert budget - dim - 1 < exact.nfev <= budget  # a gradient takes d
    if budget < 20 * dim:
        assert exact.nfev >= budget - 1


def test_a_budget_without_a_step_is_named():
    res = gs.minimize(bowl, np.zeros(1), budget=3, seed=0)
    assert "too small for a step" in res.message


def test_few_values_have_an_honest_error():
    """With the noise measured on the way: the final values alone would have no error, or none."""
    runs = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        runs.append(
            gs.minimize(
                lambda x, rng=rng: bowl(x, rng), np.zeros(3), samples=None, budget=90, seed=seed
            )
        )
    errors = np.array([(run.fun - bowl(run.x)) / run.error for run in runs])
    covered = np.count_nonzero(np.abs(errors) < scipy.stats.t.ppf(0.95, 4))  # nine in ten
    assert scipy.stats.binomtest(int(covered), len(runs), 0.9).pvalue > 1e-3
    narrow = np.count_nonzero(np.abs(errors) < scipy.stats.t.ppf(0.95, 4) / 4)
    assert scipy.stats.binomtest(int(narrow), len(runs), 0.9).pvalue < 1e-6


def test_the_spacing_does_not_grow_forever_where_every_value_is_worse():
    """A slope without an end, whose values are all worse, or all better, than the one at the start.

    On a steeper slope, the worse values would become infinite, which ends a run.
    """

    def last_spacing(start_value: float) -> float:
        search = gs.MirroredES(budget=10**6)
        state = search.init(np.zeros(5), seed=0)
        memory = state.kept.memory._replace(start_value=start_value)
        state = state._replace(kept=state.kept._replace(memory=memory))
        for _ in range(60):
            batch = search.ask(state)
            values = [1e9 - x[0] for x in batch.points()]
            state, _ = search.tell(state, batch, values)
        return state.kept.memory.spacing

    assert 5 < last_spacing(0.0) <= 10
    assert last_spacing(2e9) > 100


@pytest.mark.parametrize("target", [1.0, 0.05])
def test_a_first_spread_that_is_too_wide_is_found_out(target):
    def far(x):
        return float(np.square(x - target).sum())

    res = gs.minimize(far, np.zeros(2500), budget=20_000, seed=0)
    assert res.fun < 0.2 * far(np.zeros(2500))


def test_a_spacing_that_fits_stays():
    """On a sphere the law's own spacing is left alone, and any wider one is brought there."""
    rng, d, away = np.random.default_rng(0), 3000, 7.0
    k = evolution.constants(d, 14)
    z = np.repeat(rng.choice([-1.0, 1.0], (14, d)), 2, axis=0)
    z[1::2] *= -1
    x = np.full(d, away / math.sqrt(d))
    best = 0.8 * k.effective * away / d
    begun = evolution.initial_evolution(d, np.dtype(np.float64), learns_metric=False)
    for factor in (0.1, 1.0, 1.5, 5.0, 50.0):
        values = np.square(x + factor * best * z).sum(axis=1)
        now = begun._replace(spacing=factor * best)
        found = evolution.shorter_first_spacing(now, values, away**2, k)
        wanted = now.spacing if factor < 2 else best
        assert found == pytest.approx(wanted, rel=0.5)
        assert (found == now.spacing) == (factor < 2)


def test_a_bound_on_the_directions_holds():
    def asked(most):
        pilot = gs.Pilot(
            budget=100_000, num_directions=4, most_directions=most, samples="independent"
        )
        state, numbers = pilot.init(np.ones(4), seed=0), []
        rng = np.random.default_rng(0)
        for _ in range(60):
            batch = pilot.ask(state)
            numbers.append(state.sent.number)
            state, _ = pilot.tell(state, batch, rng.standard_normal(len(batch)))
        return max(numbers)

    assert asked(None) > 10
    assert asked(10) == 10
    assert asked(3) == 3
    with pytest.raises(ValueError, match="`most_directions` must be"):
        gs.Pilot(budget=10, most_directions=1)


# --- checkpoints -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["valley", "independent", "shared"])
def test_a_damaged_checkpoint_is_refused(name, tmp_path):
    fun, options = RUNS[name]
    folder = tmp_path / "run"

    def stop(now):
        if now.info.step == 12:
            raise KeyboardInterrupt

    gs.minimize(fun, seed=5, folder=folder, callback=stop, **options)
    (folder / "checkpoint.previous").unlink(missing_ok=True)
    sound = (folder / "checkpoint").read_bytes()
    rng = np.random.default_rng(0)
    for at in rng.integers(len(sound), size=40).tolist():
        damaged = bytearray(sound)
        damaged[at] ^= 1 << int(rng.integers(8))
        (folder / "checkpoint").write_bytes(damaged)
        with pytest.raises(gs.CheckpointError):
            gs.resume(folder, fun)
    (folder / "checkpoint").write_bytes(sound[: len(sound) // 2])
    with pytest.raises(gs.CheckpointError):
        gs.resume(folder, fun)
    (folder / "checkpoint").write_bytes(sound)
    same(gs.resume(folder, fun), whole(name)[0])


def test_a_state_that_is_not_the_pilots_is_refused():
    pilot = gs.Pilot(budget=500)
    x = np.zeros(3)
    asked: PointRequest = pilot.init(x, seed=0).sent
    for change in (
        {"kind": 9},
        {"kind": 7},
        {"number": 0},
        {"number": 2**40},
        {"repeats": -1},
        {"repeats": 3},
        {"spacing": math.nan},
        {"scale": np.ones(4)},
        {"line": np.array([1.0, math.inf, 0.0])},
        {"kind": RequestKind.FORWARD_DIFFERENCES},
        {"kind": RequestKind.LINE_SEARCH},
        {"kind": RequestKind.EXPLORATION},
    ):
        packed = pilot.wire.pack(asked._replace(**change))
        with pytest.raises((ValueError, TypeError)):
            pilot.wire.unpack(packed, 3, x.dtype)
    packed = pilot.wire.pack(asked)
    assert pilot.wire.unpack(packed, 3, x.dtype).kind == asked.kind


def test_a_larger_budget_lets_it_go_on(tmp_path: Path):
    short = gs.minimize(valley, np.full(3, -1.0), budget=200, folder=tmp_path / "run", seed=0)
    long = gs.resume(tmp_path / "run", valley, budget=2000)
    assert long.nit > short.nit
    assert long.fun < 1e-3 * short.fun
    assert np.array_equal(long.history.value[: short.nit], short.history.value)


@pytest.mark.parametrize("samples", ["shared", "paired"])
def test_descent_ends_below_where_it_began(samples):
    res = gs.minimize(valley, np.zeros(4), samples=samples, budget=3000, seed=0)
    assert valley(res.x) < valley(np.zeros(4))


@pytest.mark.parametrize("samples", ["shared", "paired"])
@pytest.mark.parametrize("seed", range(200, 205))
def test_few_evaluations_are_enough_for_descent_to_arrive(samples, seed):
    def shaken(x, rng):
        return ((x - 3 - 0.3 * rng.standard_normal(6)) ** 2).sum()

    res = gs.minimize(shaken, np.zeros(6), samples=samples, num_samples=2, budget=400, seed=seed)
    assert ((res.x - 3) ** 2).sum() < 1  # from 54


@pytest.mark.parametrize("samples", ["shared", "paired"])
def test_descent_takes_fewer_directions_for_the_sake_of_more_steps(samples):
    def steps(budget, **more):
        pilot = gs.Pilot(budget=budget, samples=samples, num_samples=5, **more)
        return budget / pilot.next_evaluations(pilot.init(np.zeros(100), seed=0))

    assert 24 < steps(2500) < 40  # the first step has no probe
    assert steps(2500, num_directions=17) == 2500 / (5 * (18 if samples == "shared" else 34))
    assert steps(500_000) == 500_000 / (5 * (18 if samples == "shared" else 34))


def test_descent_that_is_wrong_about_what_is_usual_goes_on():
    """A first estimate that is nearly zero by chance must not make all others mistakes."""
    now = descent.initial_descent(4, np.dtype(float))
    slopes = np.ones(4)
    now, change = descent.adapt(now, 1e-6 * slopes, 1e-6 * slopes, None)
    now, back = descent.adapt(now, slopes, slopes, None)
    assert np.array_equal(back, -change)
    now, on = descent.adapt(now, slopes, slopes, None)
    np.testing.assert_allclose(on, -0.1 * slopes)  # as a first step is
    _, on = descent.adapt(now, slopes, slopes, None)
    assert (on < 0).all()


def test_the_scale_is_part_of_the_run(tmp_path: Path):
    options = {"x0": np.zeros(3), "budget": 300, "seed": 0, "folder": tmp_path / "run"}
    first = gs.minimize(kinks, x_scale=[1.0, 2.0, 4.0], **options)
    same(gs.minimize(kinks, x_scale=[1, 2, 4], **options), first)
    with pytest.raises(gs.CheckpointError, match="`x_scale`"):
        gs.minimize(kinks, x_scale=[1.0, 2.0, 5.0], **options)
    with pytest.raises(gs.CheckpointError, match="`x_scale`"):
        gs.minimize(kinks, **options)


# --- log scales and known noise ----------------------------------------------------------------

SOME = np.array([True, False, True])


def decades(x, rng=None) -> float:
    """Smallest at (1e-4, 2, 1e3), and as steep per decade of the first and the last."""
    at = np.array([np.log10(x[0]) + 4, x[1] - 2, np.log10(x[2]) - 3])
    return float((at**2).sum()) + (0.0 if rng is None else 0.1 * float(rng.standard_normal()))


def test_a_log_scale_is_the_search_of_the_logarithm():
    start = np.array([1.0, 0.5, 1.0])

    def of_logarithms(x):
        return decades(np.where(SOME, np.exp(np.where(SOME, x, 0)), x))

    options = {"x_scale": [2.0, 1.0, 2.0], "budget": 700, "seed": 0}
    found = gs.minimize(decades, start, log_scale=SOME, **options)
    plain = gs.minimize(of_logarithms, [0.0, 0.5, 0.0], **options)
    assert (
        found.x.tobytes() == np.where(SOME, np.exp(np.where(SOME, plain.x, 0)), plain.x).tobytes()
    )
    assert (found.fun, found.nfev) == (plain.fun, plain.nfev)
    np.testing.assert_allclose(found.x, [1e-4, 2, 1e3], rtol=1e-3)
    assert decades(found.best_x) == found.best_fun


@pytest.mark.parametrize("samples", [None, "independent", "shared"])
def test_log_scales_across_workers_and_interruptions(samples, tmp_path):
    options = {"x0": np.array([1.0, 0.5, 1.0]), "log_scale": SOME, "samples": samples}
    options |= {"budget": 300, "seed": 3}
    expected = gs.minimize(decades, **options)
    same(gs.minimize(decades, workers=Threads(2), **options), expected)

    def stop(now):
        if now.info.step == 4:
            raise KeyboardInterrupt

    part = gs.minimize(decades, folder=tmp_path / "run", callback=stop, **options)
    assert (part.x[SOME] > 0).all()
    same(gs.resume(tmp_path / "run", decades), expected)
    with pytest.raises(gs.CheckpointError, match="`log_scale`"):
        gs.minimize(decades, folder=tmp_path / "run", **options | {"log_scale": None})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_evaluation_leaves_bounds_on_a_log_scale(dtype):
    rng = np.random.default_rng(0)
    for low, high in rng.uniform(1, 1000, (20, 2)).astype(dtype) / [4000, 1]:
        low, high, points = dtype(low), dtype(high), []

        def rising(x, points=points):
            points.append(x.copy())
            return float(np.log(x[0]) - np.log(x[1]))

        start = np.sqrt(np.array([low * high] * 2, dtype))
        res = gs.minimize(rising, start, log_scale=True, bounds=(low, high), budget=150, seed=0)
        points = np.array([*points, res.x, res.best_x])
        assert ((low <= points) & (points <= high)).all()
        np.testing.assert_allclose(res.x, [low, high], rtol=1e-3)


def with_error(x, rng=None):
    """A value, and its standard error: the values of large first parameters are the worst."""
    error = 0.1 + abs(float(x[0]))
    return bowl(x) + (0.0 if rng is None else error * float(rng.standard_normal())), error


def test_noise_that_is_returned_across_workers_and_interruptions(tmp_path):
    options = {"x0": np.full(4, 2.0), "noise": "returned", "samples": "independent"}
    options |= {"budget": 800, "seed": 3}
    expected = gs.minimize(with_error, **options)
    same(gs.minimize(with_error, workers=Threads(2), **options), expected)

    def stop(now):
        if now.info.step == 4:
            raise KeyboardInterrupt

    gs.minimize(with_error, folder=tmp_path / "run", callback=stop, **options)
    same(gs.resume(tmp_path / "run", with_error), expected)
    assert bowl(expected.x) < 0.1 * bowl(options["x0"])
    assert expected.noise == pytest.approx(0.1 + abs(expected.x[0]), rel=0.5)


@pytest.mark.parametrize("noise", [None, 1.0])
def test_nothing_is_measured_twice_where_the_noise_is_known(noise):
    points = []

    def fun(x, rng):
        points.append(x.tobytes())
        return bowl(x, rng)

    options = {"samples": "independent", "budget": 600, "seed": 0}
    res = gs.minimize(fun, np.zeros(4), noise=noise, **options)
    finals = res.nfev - int(res.history.evaluations[-1])
    assert (len(set(points[:-finals])) == len(points) - finals) == (noise is not None)
    assert noise is None or res.noise == noise


def test_errors_of_zero_are_exact_values():
    options = {"x0": np.full(3, -1.0), "budget": 100, "seed": 0}
    exact = gs.minimize(valley, **options)
    for known in ({"noise": 0.0}, {"noise": "returned"}):
        fun = valley if known["noise"] == 0.0 else lambda x: (valley(x), 0.0)
        found = gs.minimize(fun, **options, **known)
        assert found.error == 0.0
        same(replace(found, error=None), exact)


@pytest.mark.parametrize("returned", [1.0, (1.0, -1.0), (1.0, 2.0, 3.0), (1.0, "a"), None])
def test_what_is_no_value_and_its_error_is_refused(returned):
    with pytest.raises(gs.EvaluationError):
        gs.minimize(lambda _: returned, np.zeros(2), noise="returned", seed=0)


def test_log_scales_with_a_method_of_ones_own():
    def far(x):
        return float((np.log(x[0]) - 3) ** 2)

    found = gs.minimize(far, [1.0], log_scale=True, method="bes", budget=2000, seed=0)
    assert np.log(found.x[0]) == pytest.approx(3, abs=0.1)


def test_bounds_tell_the_unit_on_a_log_scale():
    """A quarter of the range of the logarithm, and of the other parameters' own ranges."""
    seen: dict[str, np.ndarray] = {}

    def keep(now):
        seen.setdefault("units", now.state.kept.known.units)

    bounds = gs.Bounds([1e-6, 0.0, -1.0, 1e-3], [1e2, np.inf, 3.0, 5.0])
    gs.minimize(
        lambda x: float(np.square(np.log(x[[0, 1, 3]])).sum() + x[2] ** 2), [1.0, 7.0, 2.0, 1.0],
        log_scale=[True, True, False, True], bounds=bounds, budget=50, seed=0, callback=keep,
    )  # fmt: skip
    wanted = [np.log(1e8) / 4, 1.0, 1.0, np.log(5e3) / 4]
    np.testing.assert_allclose(seen["units"], wanted, rtol=1e-6)


# --- the quasi-Newton search, and restarts elsewhere --------------------------------------------


@pytest.mark.parametrize("d", [8, 20, 60])
def test_quasi_newton_solves_an_ill_conditioned_quadratic_that_its_axes_do_not_show(d):
    """Curvatures of 1 to 1e6 along random axes, within 120 d evaluations."""
    rotation, _ = np.linalg.qr(np.random.default_rng(4).standard_normal((d, d)))
    curvatures = np.logspace(0, 6, d)

    def ellipsoid(x):
        return float((curvatures * (rotation @ (x - 1)) ** 2).sum())

    search = gs.QuasiNewton(budget=120 * d)
    res = gs.minimize(ellipsoid, np.full(d, 3.0), search=search, budget=120 * d, seed=0)
    assert res.best_fun < 1e-4 < 1e5 < ellipsoid(np.full(d, 3.0))


def newton_after(steps, changes):
    """Return the memory after these steps and changes of the gradient, the newest last."""
    number, d = steps.shape
    newton = quasi_newton.initial_newton(np.zeros(d), 1.0, np.ones(d))
    memories = [np.zeros((quasi_newton.MEMORY, d)) for _ in range(2)]
    for memory, rows in zip(memories, (steps, changes), strict=True):
        memory[-number:] = rows
    return newton._replace(steps=memories[0], changes=memories[1], stored=number, evaluations=1)


@pytest.mark.parametrize("early", [True, False])
def test_the_direction_is_that_of_bfgs_with_a_dense_matrix(early):
    """Nocedal & Wright (2006), equation 6.17, from the first matrix of ``unknown_inverse``."""
    rng, d = np.random.default_rng(0), 6
    factor = rng.standard_normal((d, d))
    steps = rng.standard_normal((9, d))
    changes = steps @ (factor @ factor.T + np.eye(d))
    newton = newton_after(steps, changes)
    if not early:  # few parameters: unknown directions count as flat after 10 d evaluations
        newton = newton._replace(evaluations=10 * d)
    first = quasi_newton.unknown_inverse(newton)
    s, y = (steps[-1], changes[-1]) if early else (steps[0], changes[0])
    assert first == pytest.approx(s @ s / (s @ y) if early else 1e6 * (s @ y) / (y @ y), rel=1e-12)
    dense = first * np.eye(d)
    for s, y in zip(steps, changes, strict=True):
        rho = 1 / (s @ y)
        left = np.eye(d) - rho * np.outer(s, y)
        dense = left @ dense @ left.T + rho * np.outer(s, s)
    gradient = rng.standard_normal(d)
    values = gradient * quasi_newton.DIFFERENCE + 1.0
    newton = quasi_newton.take_gradient(newton, values, None)
    _, line = quasi_newton.start_line(newton, None)
    np.testing.assert_allclose(line, -dense @ gradient, rtol=1e-6)


def test_unknown_directions_count_as_flat_not_as_steep():
    """The estimate lies between the inverse curvatures, above that of L-BFGS's usual factor."""
    rng = np.random.default_rng(1)
    curvatures = np.logspace(0, 6, 30)
    steps = rng.standard_normal((3, 30))
    newton = newton_after(steps, steps * curvatures)
    s, y = newton.steps[-1], newton.changes[-1]
    usual = (s @ y) / (y @ y)
    assert 1e-6 < usual < 0.5 * quasi_newton.unknown_inverse(newton) < 1


def two_steep_directions(d=40):
    """A memory of two steps along two steep directions of a rotated quadratic, and its Hessian."""
    rng = np.random.default_rng(2)
    rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
    hessian = rotation.T @ (np.array([3e6, 1e6, *np.full(d - 2, 2.0)])[:, None] * rotation)
    steps = rng.standard_normal((2, d)) @ hessian
    gradient = hessian @ rng.standard_normal(d)
    return newton_after(steps, steps @ hessian)._replace(gradient=gradient), hessian


def test_one_value_measures_the_curvature_that_the_steps_do_not_show():
    """Rotated curvatures: 2 along most directions, much more along those of the first steps."""
    newton, hessian = two_steep_directions()
    scale = np.logspace(-3, 3, 40)  # the gradient and the Hessian are per scale, the line is not
    newton = newton._replace(scale=scale)
    gradient = newton.gradient
    assert quasi_newton.unknown_inverse(newton) < 2e-6
    newton, line = quasi_newton.explore(newton, None)
    along = line / scale
    assert abs(newton.changes[-2:] @ along).max() < 1e-9 * abs(newton.changes[-2:]).max()
    assert newton.slope == pytest.approx(gradient @ along, rel=1e-9)
    assert newton.length * np.linalg.norm(along) == pytest.approx(1)

    def value(curvature):
        step = newton.length * along
        return 1.0 + gradient @ step + curvature * step @ hessian @ step / 2

    measured = quasi_newton.explored(newton, value(1.0))
    wanted = (along @ along) / (along @ hessian @ along)
    assert wanted == pytest.approx(0.5, rel=1e-3)
    assert measured == pytest.approx(wanted, rel=1e-3)
    for unchanged in (value(1e6), math.inf):  # not much flatter than assumed; not defined
        assert quasi_newton.explored(newton, unchanged) == quasi_newton.unknown_inverse(newton)
    concave = quasi_newton.explored(newton, value(-1.0))  # at most ten times the length tried
    assert concave == pytest.approx(10 * newton.length / -newton.slope)
    free = np.linalg.svd(newton.changes[-2:])[2][-1]  # orthogonal to the changes
    newton = newton._replace(gradient=free)
    _, line = quasi_newton.start_line(newton, None, measured)
    assert free @ (line / scale) == pytest.approx(-measured)  # plus what the steps are known for


@pytest.mark.parametrize("factor", [2.0**-560, 2.0**500])
def test_exploring_does_not_depend_on_the_unit_of_the_values(factor):
    newton, _ = two_steep_directions()
    scaled = newton._replace(gradient=factor * newton.gradient, changes=factor * newton.changes)
    (one, line), (other, same) = (quasi_newton.explore(n, None) for n in (newton, scaled))
    assert (same == line).all()
    assert (other.length, other.slope) == (one.length, factor * one.slope)


def test_an_assumed_scale_that_is_long_makes_the_exploring_step_as_long():
    """Gradients of length 0.01 and 1 with the inverse curvature 1000; 3√d is the longest step."""
    d = 40
    steps = 1000 * np.eye(d)[:1]
    for size, length in ((0.01, 10.0), (1.0, 3 * math.sqrt(d))):
        newton = newton_after(steps, steps / 1000)._replace(gradient=size * np.eye(d)[1])
        assert quasi_newton.explore(newton, None)[0].length == pytest.approx(length)


def test_where_unknown_directions_are_not_explored():
    newton, _ = two_steep_directions()
    assert quasi_newton.explore(newton, None)
    known = newton.changes[-1] / np.linalg.norm(newton.changes[-1])
    noise = 1e-8 * np.linalg.norm(newton.gradient)
    for not_explored in (
        newton._replace(probed=True),
        newton._replace(stored=0),
        newton._replace(stored=5),
        newton._replace(gradient=known),
        newton._replace(gradient=1e9 * known + noise),
        two_steep_directions(d=10)[0]._replace(stored=1),
        two_steep_directions(d=19)[0],
    ):
        assert quasi_newton.explore(not_explored, None) is None
    assert two_steep_directions(d=20)[0].stored == 2
    assert quasi_newton.explore(two_steep_directions(d=20)[0], None)
    wide, narrow = (gs.Bounds(newton.x - r, newton.x + r) for r in (1.0, 0.01))
    assert quasi_newton.explore(newton, wide)
    assert quasi_newton.explore(newton, narrow) is None


def test_changes_that_are_equal_up_to_rounding_count_once():
    newton, _ = two_steep_directions()
    noise = 1e-12 * np.random.default_rng(3).standard_normal(40)
    newton.changes[-2] = newton.changes[-1] * (1 + noise)
    _, line = quasi_newton.explore(newton, None)
    _, alone = quasi_newton.explore(newton._replace(stored=1), None)
    np.testing.assert_allclose(line, alone, rtol=1e-9)


@pytest.mark.parametrize("d", [40, 80])
def test_a_function_of_one_combination_is_not_explored(d):
    """Its gradient has one direction; the rest of a difference is its own error."""
    rng = np.random.default_rng(1)
    x0, a = rng.standard_normal((2, d))

    def ridge(x):
        return float(np.log(np.cosh(a @ x)))

    res = gs.minimize(ridge, x0, search=gs.QuasiNewton(budget=25 * d), budget=25 * d, seed=0)
    assert res.nfev < 12 * d
    assert res.best_fun < 1e-10


@pytest.mark.parametrize("d", [40, 80])
def test_two_steep_axes_do_not_keep_steps_along_the_others_short(d):
    """With the scale of the last step alone, 183 and 467 are left of 410,000."""
    rng = np.random.default_rng(0)
    curvatures = np.concatenate([10.0 ** rng.uniform(5, 6, 2), np.ones(d - 2)])
    x0 = 3 * rng.standard_normal(d)

    def discus(x):  # not quite a quadratic, so that the steep axes take several steps
        return float((curvatures * np.where(x > 1, 1.0, 0.5) * (x - 1) ** 2).sum())

    res = gs.minimize(discus, x0, search=gs.QuasiNewton(budget=9 * d), budget=9 * d, seed=0)
    assert res.best_fun < 10 < 4e5 < discus(x0)


@pytest.mark.parametrize("d", [2, 5, 10, 20])
def test_values_that_fall_towards_0_for_ever_do_not_divide_by_0(d):
    """Squares of changes of the gradient round to 0 long before the changes do."""
    budget = 600 * d
    search = gs.QuasiNewton(budget=budget)
    for fall in (lambda x: float((x**30).sum()), lambda x: float(np.exp(-x).sum())):
        res = gs.minimize(fall, np.full(d, 1.3), search=search, budget=budget, seed=0)
        assert 0 <= res.best_fun < 1e-100


@pytest.mark.parametrize("d", [3, 5])
def test_the_first_step_may_be_longer_than_the_square_root_of_the_largest_number(d):
    bump = gs.minimize(
        lambda x: -math.exp(-((x - 9) ** 2).sum()), np.ones(d), budget=50 * d, seed=0
    )
    assert bump.best_fun <= -math.exp(-64 * d)
    small = gs.minimize(lambda x: 1e-146 * valley(x), np.zeros(d), budget=50 * d, seed=0)
    assert small.best_fun < 1e-146 * valley(np.zeros(d))


def search_line(phi, first, d):
    """Let ``try_length`` search φ from a first length; return the lengths and values it tried."""
    slope = (phi(1e-7) - phi(-1e-7)) / 2e-7
    newton = quasi_newton.initial_newton(np.zeros(d), phi(0.0), np.ones(d))
    newton, tried, ended = newton._replace(slope=slope, length=first), [], False
    while not ended:
        tried.append((newton.length, phi(newton.length)))
        newton, ended = quasi_newton.try_length(newton, tried[-1][1])
    assert (newton.best_length, newton.best_value) == min(tried, key=lambda pair: pair[1])
    return tried


@pytest.mark.parametrize("d", [2, 20, 200])
def test_a_length_is_tried_if_its_gain_is_worth_its_cost(d):
    """On a parabola, a share (1 − α)² of the decrease is left at the length α times the minimum."""
    share = math.sqrt(0.25 / (d + 1))
    for first, evaluations in [(1 - 1.01 * share, 2), (1 - 0.99 * share, 1), (1.0, 1), (1.5, 1)]:
        tried = search_line(lambda t: (t - 1) ** 2, first, d)
        assert len(tried) == evaluations
    tried = search_line(lambda t: (t - 1) ** 2, 0.2, d)
    assert [length for length, _ in tried] == pytest.approx([0.2, 1.0])  # the second is exact


def test_a_step_that_is_a_million_times_too_short_is_lengthened():
    tried = search_line(lambda t: (t - 1) ** 2, 1e-6, 20)
    assert [length for length, _ in tried] == pytest.approx([*np.logspace(-6, -1, 6), 1.0])


def test_a_line_search_copes_with_cliffs_and_slopes_without_end():
    cliff = search_line(lambda t: (t - 1) ** 2 if t < 0.3 else math.inf, 0.01, 20)
    assert [length for length, _ in cliff] == pytest.approx([0.01, 0.1, 1.0])  # the last is beyond
    endless = search_line(lambda t: -t, 1.0, 20)
    assert len(endless) == 12


def test_no_first_try_of_a_line_is_farther_than_a_few_units():
    """So an objective that overflows far away is not evaluated there."""
    x0, seen = np.full(6, 2.0), []

    def steep(x):
        seen.append(np.abs(x).max())
        return float((np.logspace(0, 3, 6) * x**2).sum() + (x**4).sum())

    gs.minimize(steep, x0, search=gs.QuasiNewton(budget=600), budget=600, seed=0)
    assert max(seen) < 100


def two_basins(x):
    """The start leads to the worse of two optima, 0.5 above the better one."""
    x = np.asarray(x)
    return float(min((x + 1).dot(x + 1) + 0.5, 4 * (x - 1).dot(x - 1)))


@pytest.mark.parametrize(
    ("x_scale", "bounds", "least", "most"),
    [
        (None, None, -np.sqrt(3), np.sqrt(3)),  # the size of x0 is the unit; the cube is around 0
        (0.5, None, -1 - np.sqrt(3) / 2, -1 + np.sqrt(3) / 2),  # around x0
        (None, [(-1.5, 4.0)] * 4, -1.5, 4.0),
        (None, [(-1.5, np.inf)] * 4, -1.5, np.sqrt(3)),
    ],
)
def test_restarts_begin_elsewhere(x_scale, bounds, least, most):
    starts = []

    def look(now):
        if now.state.sent.kind is RequestKind.START:
            starts.append(now.state.x.copy())

    options = {"x_scale": x_scale, "bounds": bounds, "budget": 20_000, "seed": 1}
    gs.minimize(two_basins, np.full(4, -1.0), callback=look, **options)
    starts = np.array(starts)
    assert len(starts) >= 5
    assert starts.min() >= least
    assert starts.max() <= most
    width = most - least
    assert starts.min() < least + 0.35 * width
    assert starts.max() > most - 0.35 * width
    assert len({start.tobytes() for start in starts}) == len(starts)


class Phases:
    """A callback that keeps what the pilot remembers after each step."""

    def __init__(self) -> None:
        self.controls: list[Control] = []
        self.kinds: list[RequestKind] = []

    def __call__(self, now) -> None:
        self.controls.append(now.state.kept.memory)
        self.kinds.append(now.state.sent.kind)

    def starts_before_evolution(self) -> int:
        """Return the number of random starts before MirroredES takes over for good."""
        ranked = RequestKind.MIRRORED_PAIRS
        return min(
            control.starts
            for control, kind in zip(self.controls, self.kinds, strict=True)
            if kind is ranked and control.trial is Trial.OVER
        )


def test_quasi_newton_starts_elsewhere_as_long_as_its_optima_differ():
    """It has 1000 evaluations per parameter; a single optimum is found twice and no more."""
    d, one, two, steep = 4, Phases(), Phases(), Phases()
    how = {"budget": 1500 * d, "seed": 0}

    def roots(x):  # its slope at the minimum is infinite
        return float(np.sqrt(np.abs(x - [0.3, 0.7, 1.1, 1.5])).sum())

    gs.minimize(bowl, np.full(d, 2.0), callback=one, **how)
    gs.minimize(two_basins, np.full(d, 1.5), callback=two, **how)
    gs.minimize(roots, np.full(d, 2.0), callback=steep, **how)
    assert (one.starts_before_evolution(), steep.starts_before_evolution()) == (1, 0)
    assert not one.controls[-1].several
    assert two.starts_before_evolution() > 10
    explored = [
        control.newton_spent
        for control, kind in zip(two.controls, two.kinds, strict=True)
        if kind is RequestKind.START and not control.evolution.restarts
    ]
    assert max(explored) < 1000 * d


def test_evolution_continues_where_quasi_newton_has_stalled():
    """Curvatures that differ by 1e6, and jump with the sign, mislead differences of any spacing."""
    d, rng = 6, np.random.default_rng(0)
    rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
    curvatures = 10.0 ** np.linspace(0, 6, d)

    def jagged(x, jump):
        z = rotation @ (x - 1)
        return float((curvatures * z * z * np.where(z > 0, 1 + jump, 1)).sum()) - 50

    starts = {}
    for jump in (0.0, 0.5):
        phases = Phases()
        res = gs.minimize(
            partial(jagged, jump=jump), np.zeros(d), budget=1500 * d, seed=0, callback=phases
        )
        assert res.best_fun < -50 + 1e-9
        starts[jump] = phases.starts_before_evolution()
    assert starts[0.0] > 0  # converged: QuasiNewton looks elsewhere
    assert starts[0.5] == 0


def test_only_the_best_optimum_is_refined():
    """A restart that leads to a worse optimum ends before its central differences."""
    phases = Phases()
    gs.minimize(two_basins, np.full(4, 1.5), budget=3000, seed=1, callback=phases)
    central = [
        control
        for control, kind in zip(phases.controls, phases.kinds, strict=True)
        if kind is RequestKind.CENTRAL_DIFFERENCES
    ]
    worse = [control for control in phases.controls if control.newton.value > 0.4]
    assert any(control.newton.finished for control in worse)
    assert central
    assert all(control.newton.value < 0.4 for control in central)


def test_a_restart_finds_the_better_optimum():
    res = gs.minimize(two_basins, np.full(4, -1.0), budget=4000, seed=1)
    assert res.best_fun < 1e-9
    np.testing.assert_allclose(res.x, 1.0, atol=1e-4)


@pytest.mark.parametrize(
    ("dim", "full", "period"),
    [(10, True, 1_000), (20, True, 2_000), (40, True, 16_000), (40, False, 4_000)],
)
@pytest.mark.parametrize("larger", [1, 3])
def test_the_population_grows_by_a_factor_of_sqrt_2_in_a_period(dim, full, period, larger):
    pairs = larger * evolution.default_pairs(dim)  # as after a restart
    first = evolution.initial_evolution(dim, np.dtype(float), learns_metric=True, pairs=pairs)
    later = evolution.adapt_population(
        first._replace(evaluations=larger * period), noisy=False, full=full, left=math.inf
    )
    assert later.pairs == pytest.approx(math.sqrt(2) * pairs)
