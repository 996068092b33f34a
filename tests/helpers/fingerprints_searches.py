"""Results that must not change by a bit: the searches that `fingerprints.py` leaves out.

These are the newer families of directions, the rank-based estimators, the algorithms of the
literature, and the pilot. Each case is small: a few steps in a few dimensions.
"""

import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import gensmooth as gs
from fingerprints import (
    DTYPES,
    ESTIMATORS,
    METHODS,
    SAMPLES,
    STEP,
    Fingerprint,
    bowl,
    digest,
    holes,
    lead,
    noisies,
    noisy,
    of_lines,
    of_results,
)

Cases = Iterator[tuple[str, Callable[[], Fingerprint]]]

NEWER = [
    "sparse-gs",
    "sparse-bes",
    "block-gs",
    "block-bes",
    "sparse-gs-shrinkage",
    "sparse-bes-shrinkage",
    "block-gs-shrinkage",
    "block-bes-shrinkage",
    "low-rank",
    "low-rank-bes",
    "lmrs",
]
RANKS: dict[str, Callable[[], Any]] = {
    "ranked": gs.Ranked,
    "centered-ranks": gs.CenteredRanks,
    "best-pairs": lambda: gs.BestPairs(2),
}
EVERY_ESTIMATOR = {**ESTIMATORS, **RANKS}
# Algorithms that accept any estimator; and those below, which adapt a distribution.
ESTIMATING: dict[str, dict[str, Any]] = {
    "ars": {"num_directions": 3},
    "ars-v1": {"num_directions": 3},
    "ars-v1-t": {"num_directions": 3},
    "openai-es": {"num_directions": 3},
    "spsa": {"num_directions": 2, "max_steps": 6},
    "spsa-1": {"num_directions": 2, "max_steps": 6},
}
POPULATIONS = ["snes", "xnes", "cma-es"]
ALGORITHMS = [*ESTIMATING, "stars", *POPULATIONS]
TRAINING_ONLY = ["ars-v2", "ars-v2-t", "islands"]  # run by `ask` and `tell`
STARS = {"noise": 0.05, "learning_rate": 0.01}


def minimized(method: str, samples: Any = None, dtype: str = "float64", **options: Any) -> Any:
    """A short run of a named method."""
    shape = options.pop("shape", (2, 3))
    fun = options.pop("fun", bowl if samples is None else noisy)
    lower = 0.1 if "log_scale" in options else -1.0
    x0 = np.linspace(lower, 1.5, int(np.prod(shape))).reshape(shape).astype(dtype)
    more: dict[str, Any] = STARS if method == "stars" else {}
    options = {"budget": 60, "seed": 7, **more, **options}
    return gs.minimize(fun, x0, method=method, samples=samples, **options)


def run_of(*runs: dict[str, Any], chaotic: bool = False) -> Callable[[], Fingerprint]:
    """Several runs in one fingerprint."""

    def run() -> Fingerprint:
        found = of_results(minimized(**each) for each in runs)
        return {**found, "lead": []} if chaotic else found

    return run


def newer(method: str) -> Cases:
    """Estimators × samples in float64, one estimator in float32, and several tiles with threads."""
    options: dict[str, Any] = {"num_directions": 4, "max_steps": 3}
    shrunk = method.endswith("-shrinkage")  # differs from its family by a factor alone
    estimators = ("forward", "antithetic") if shrunk else EVERY_ESTIMATOR
    for estimator, samples, dtype in product(estimators, SAMPLES, DTYPES):
        if dtype == "float64" or estimator == "antithetic":
            case = {"method": method, "samples": samples, "dtype": dtype, **options}
            number = 1 if samples is None else 2

            def run(estimator: str = estimator, case: Any = case, number: int = number):
                found = minimized(
                    **case,
                    estimator=EVERY_ESTIMATOR[estimator](),
                    num_samples=number,
                    optimizer=gs.momentum(0.01),
                )
                return of_results([found])

            yield f"{method}/{estimator}/{samples}/{dtype}", run
    large = {"method": method, "shape": (3, 1001), "num_directions": 3, "max_steps": 2}
    yield f"{method}/sizes", run_of(large, {**large, "threads": 2, "dtype": "float32"})


def ranks() -> Cases:
    """Rank-based estimators with the directions of `fingerprints.METHODS`."""
    for method, estimator in product(METHODS, RANKS):

        def run(method: str = method, estimator: str = estimator) -> Fingerprint:
            return of_results(
                minimized(
                    method,
                    samples,
                    estimator=RANKS[estimator](),
                    num_directions=4,
                    max_steps=3,
                )
                for samples in SAMPLES
            )

        yield f"{method}/{estimator}", run


def algorithm(name: str) -> Cases:
    """Estimators (where there is a choice) × samples × dtypes; and options one by one."""
    own = ESTIMATING.get(name, {})
    for samples, dtype in product(SAMPLES, DTYPES):
        yield (
            f"{name}/{samples}/{dtype}",
            run_of(
                {"method": name, "samples": samples, "dtype": dtype},
                {"method": name, "samples": samples, "dtype": dtype, "shape": (9,), "budget": 90},
            ),
        )
    if name in ESTIMATING and name != "ars-v1-t":  # "ars" is another name for it
        for estimator, samples in product(EVERY_ESTIMATOR, SAMPLES):

            def run(estimator: str = estimator, samples: Any = samples) -> Fingerprint:
                chosen = EVERY_ESTIMATOR[estimator]()
                return of_results([minimized(name, samples, estimator=chosen, **own)])

            yield f"{name}/{estimator}/{samples}", run
    cases: dict[str, dict[str, Any]] = {
        "bounds": {"bounds": (-0.8, 1.2)},
        "maximize": {"maximize": True, "bounds": (-2.0, 2.0)},
        "max_steps": {"max_steps": 3},
        "target": {"target": 4.0, "budget": 200},
        "tolerance": {"tolerance": 1e-1, "budget": 200},
        "drop": {"fun": holes, "on_failure": "drop", "min_fraction": 0.1},
        "vectorized": {"fun": noisies, "samples": "independent", "vectorized": 3},
        "large": {"shape": (40,), "budget": 90},
        "one parameter": {"shape": (1,), "fun": square, "budget": 40},
    }
    if name in ("spsa", "spsa-1", "stars"):
        cases["drop"]["max_steps"] = 1  # it has few directions, and not all may be dropped
        cases["drop"]["num_directions"] = 9
    if name != "stars":
        cases["rate"] = {"learning_rate": 0.03}
    if name in POPULATIONS:
        cases["rate"] = {"x_scale": 0.5}
        cases["units"] = {"x_scale": np.linspace(0.5, 2.0, 6).reshape(2, 3), "population": 10}
        limits = (0.01, 100.0)
        cases["log scale"] = {"log_scale": True, "fun": logs, "bounds": limits, "shape": (6,)}
    elif name != "stars":
        cases["spacing"] = {"spacing": 0.2, "num_directions": 5}
    for case, options in cases.items():
        yield f"{name}/{case}", run_of({"method": name, **options})


def square(x):
    """A bowl with one side."""
    return float(np.asarray(x, np.float64)[0] ** 2)


def logs(x):
    """A bowl on a log scale."""
    return bowl(np.log(np.asarray(x, np.float64)))


def asked_and_told(name: str) -> Fingerprint:
    """The states of an algorithm that is for training only, or of the pilot as in training."""
    x = np.linspace(-1.0, 1.5, 5)
    search: Any
    if name in TRAINING_ONLY:
        search = gs.search(name, x, samples="independent", maximize=True, max_steps=20)
    else:
        search = gs.Pilot(
            budget=400, samples="independent", maximize=True, x_scale=0.1, **PILOTS[name]
        )
    state = search.init(x, seed=7)
    parts: list[Any] = []
    for step in range(6 if name in TRAINING_ONLY else 15):
        batch = search.ask(state)
        values = [
            -bowl(point) + 0.1 * np.sin(37 * i + step) for i, point in enumerate(batch.points())
        ]
        state, info = search.tell(state, batch, values)
        parts += [state.x, info.value, info.best_value, info.gradient_norm, info.step_size]
    return {"hash": digest(parts), "lead": lead([parts[-4], *state.x])}


PILOTS: dict[str, dict[str, Any]] = {
    "pilot, widest": {"widest": 3.0, "num_directions": 5},
    "pilot, by rank": {"by_rank": True, "most_directions": 4},
}


# The pilot. Its phases have cases of their own: quasi-Newton steps where values are exact and
# smooth, the evolution strategy where they are not, descent where there are many parameters.


def curved(x):
    """A narrow valley that bends: line searches and quasi-Newton updates."""
    flat = np.asarray(x, np.float64).ravel()
    return float((100 * (flat[1:] - flat[:-1] ** 2) ** 2 + (1 - flat[:-1]) ** 2).sum())


def waves(x):
    """Many local minima: the evolution strategy, and its restarts."""
    flat = np.asarray(x, np.float64).ravel()
    return float((flat**2 + 3 * (1 - np.cos(2 * np.pi * flat))).sum())


def kinks(x):
    """Edges where nothing can be differentiated, and unequal units."""
    flat = np.asarray(x, np.float64).ravel()
    return float((10.0 ** np.linspace(0, 2, flat.size) * np.abs(flat)).sum())


def steps(x):
    """Plateaus."""
    return float(np.floor(3 * np.abs(np.asarray(x, np.float64))).sum())


def constant(x):
    """Nothing to find."""
    return 1.5 + 0.0 * float(np.asarray(x).ravel()[0])


def measured(x, rng):
    """A noisy value and its standard error."""
    return bowl(x) + 0.1 * float(rng.standard_normal()), 0.1


def very_noisy(x, rng):
    """Noise that outweighs the bowl."""
    return bowl(x) + 2.0 * float(rng.standard_normal())


def rugged(x, rng):
    """Values that are noisy in place: with common samples descent is possible."""
    return waves(np.asarray(x) + 0.05 * rng.standard_normal(np.shape(x)))


def cliffs(x, rng):
    """Walls so steep that steps of descent must be taken back."""
    flat = np.asarray(x, np.float64).ravel() + 0.01 * float(rng.standard_normal())
    return float((flat**2 + 1e3 * np.maximum(np.abs(flat) - 1.0, 0.0) ** 4).sum())


def bursts(x, rng):
    """Values that are a thousand times as large now and then: steps of descent are taken back."""
    return bowl(x) * (1000.0 if rng.random() < 0.05 else 1.0)


def walled(x, rng):
    """Noisy, and defined in a narrow tube alone."""
    flat = np.asarray(x, np.float64).ravel()
    far = np.abs(flat - np.linspace(-1.0, 1.5, flat.size)).max() > 1e-3
    return float("nan") if far else kinks(x) + 1e-3 * float(rng.standard_normal())


def far_holes(x):
    """Edges, defined nowhere near the start but on a few stripes."""
    flat = np.asarray(x, np.float64).ravel()
    near = np.abs(flat - np.linspace(-1.0, 1.5, flat.size)).max() < 0.05
    return float("nan") if near else kinks(x)


def branched(x):
    """The bowl of a structure of arrays."""
    return bowl(np.concatenate([np.ravel(x["w"]), np.ravel(x["b"])]))


_TREE = {"w": np.linspace(-1.0, 1.0, 6).reshape(2, 3), "b": np.array([0.5, -0.5])}
PILOT: dict[str, dict[str, Any]] = {
    "bowl": {"budget": 150},
    "curved": {"fun": curved, "shape": (5,), "budget": 700},
    "curved, short": {"fun": curved, "shape": (5,), "budget": 40},
    "curved, large": {"fun": curved, "shape": (60,), "budget": 1500},
    "waves": {"fun": waves, "shape": (3,), "budget": 1500},
    "kinks": {"fun": kinks, "shape": (8,), "budget": 900},
    "waves, restarts": {"fun": waves, "shape": (2,), "budget": 3000},
    "kinks, large": {"fun": kinks, "shape": (150,), "budget": 1200, "x_scale": 0.3, "threads": 2},
    "kinks, large, units": {
        "fun": kinks,
        "shape": (150,),
        "budget": 1200,
        "x_scale": np.linspace(0.5, 2.0, 150),
    },
    "kinks, bounds": {"fun": kinks, "shape": (20,), "bounds": (-0.8, 1.2), "budget": 400},
    "large": {"shape": (700,), "budget": 500},
    "large, units": {"shape": (700,), "budget": 300, "x_scale": np.linspace(0.5, 2.0, 700)},
    "steps": {"fun": steps, "shape": (4,), "budget": 400},
    "constant": {"fun": constant, "budget": 150},
    "one parameter": {"shape": (1,), "fun": square, "budget": 60},
    "noise returned": {"fun": measured, "noise": "returned", "samples": "independent"},
    "noise told": {"samples": "independent", "noise": 0.1, "budget": 300},
    "very noisy": {"fun": very_noisy, "samples": "independent", "budget": 800},
    "very noisy, shared": {"fun": very_noisy, "samples": "shared", "budget": 300},
    "rugged, shared": {"fun": rugged, "samples": "shared", "budget": 800, "num_samples": 2},
    "rugged, paired": {"fun": rugged, "samples": "paired", "budget": 800},
    "descent": {"samples": "shared", "shape": (60,), "budget": 900},
    "descent, paired": {"samples": "paired", "shape": (30,), "budget": 900, "num_directions": 6},
    "descent, few steps": {"samples": "shared", "shape": (300,), "budget": 200},
    "descent, cliffs": {"fun": cliffs, "samples": "shared", "shape": (30,), "budget": 900},
    "descent, bursts": {"fun": bursts, "samples": "shared", "shape": (30,), "budget": 1500},
    "descent, nothing": {"fun": lambda x, rng: 1.0, "samples": "shared", "budget": 100},  # noqa: ARG005
    "walled": {"fun": walled, "samples": "independent", "on_failure": "drop", "budget": 200},
    "noisy, bounds": {"samples": "independent", "shape": (20,), "bounds": (-0.8, 1.2)},
    "start fails": {"fun": far_holes, "on_failure": "drop", "budget": 300},
    "bounds": {"fun": curved, "shape": (4,), "bounds": (-0.8, 0.6), "budget": 300},
    "bounds, noisy": {"samples": "paired", "bounds": (-0.8, 1.2), "budget": 300},
    "a parameter held": {"bounds": [(0.0, 1.0), (0.5, 0.5), (-2.0, 2.0)], "shape": (3,)},
    "maximize": {"maximize": True, "bounds": (-2.0, 2.0), "budget": 200},
    "units": {"fun": kinks, "x_scale": np.linspace(0.5, 2.0, 6).reshape(2, 3), "budget": 300},
    "log scale": {"log_scale": True, "fun": logs, "bounds": (0.01, 100.0), "budget": 200},
    "number": {"fun": waves, "num_directions": 9, "budget": 400},
    "drop": {"fun": holes, "on_failure": "drop", "min_fraction": 0.1, "budget": 300},
    "drop, descent": {
        "fun": lambda x, rng: holes(x),  # noqa: ARG005
        "samples": "shared",
        "shape": (40,),
        "on_failure": "drop",
        "min_fraction": 0.1,
        "budget": 300,
    },
    "vectorized": {"fun": noisies, "samples": "independent", "vectorized": 3, "budget": 120},
    "target": {"fun": curved, "shape": (5,), "target": 1.0, "budget": 700},
    "tolerance": {"fun": kinks, "tolerance": 1e-2, "budget": 700},
    "max_steps": {"fun": kinks, "max_steps": 5},
    "tight": {"fun": kinks, "shape": (20,), "budget": 7},
}


def pilot() -> Cases:
    """Samples × dtypes, and the cases above."""
    for samples, dtype in product(SAMPLES, DTYPES):
        yield (
            f"{samples}/{dtype}",
            run_of(
                {"method": "auto", "samples": samples, "dtype": dtype, "budget": 200}, chaotic=True
            ),
        )
    for case, options in PILOT.items():
        yield case, run_of({"method": "auto", **options}, chaotic=True)

    def tree() -> Fingerprint:
        found = gs.minimize(branched, _TREE, budget=120, seed=7)
        return {"hash": digest([found.x["w"], found.x["b"], found.fun, found.nfev]), "lead": []}

    yield "a structure of arrays", tree


def metrics() -> Cases:
    """The metrics files of runs of algorithms and of the pilot."""
    for method in ("auto", *ALGORITHMS, "lmrs", "low-rank"):

        def run(method: str = method) -> Fingerprint:
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "run"
                minimized(method, "independent", budget=120, folder=out)
                found = of_lines(out / "metrics.jsonl", STEP)
            return {**found, "lead": []} if method == "auto" else found

        yield f"metrics/{method}", run


# Each of these has the same fingerprint with every kind and number of workers.
WORKERS: dict[str, dict[str, Any]] = {
    "auto": {"method": "auto", "budget": 120},
    "auto, curved": {"method": "auto", "fun": curved, "shape": (4,), "budget": 120},
    "auto, descent": {"method": "auto", "samples": "shared", "shape": (30,), "budget": 300},
    "auto, noisy": {"method": "auto", "samples": "independent", "budget": 120},
    "auto, kinks": {"method": "auto", "fun": kinks, "dtype": "float32", "budget": 200},
    **{name: {"method": name, "samples": "independent"} for name in ALGORITHMS},
    "lmrs": {"method": "lmrs", "samples": "paired", "num_directions": 4},
    "low-rank": {"method": "low-rank", "num_directions": 4, "dtype": "float32"},
    "sparse-gs": {"method": "sparse-gs", "samples": "shared", "num_directions": 4},
}


def worked(name: str, workers: Any) -> Fingerprint:
    """A run by workers, or by one process."""
    return run_of({**WORKERS[name], "workers": workers}, chaotic=name.startswith("auto"))()


def points() -> Cases:
    """Searches that are asked for one point at a time, as by Nevergrad and Optuna."""
    from gensmooth.points import PointByPoint, make_search
    from gensmooth.searches.wanted import Wanted

    for name in ("auto", "bes", "gs-shrinkage", "guided-es", *ESTIMATING, *POPULATIONS):
        for workers in (1, 5):

            def run(name: str = name, workers: int = workers) -> Fingerprint:
                search = make_search(4, Wanted(method=name, budget=90, workers=workers))
                found = PointByPoint(search, np.linspace(-1.0, 1.5, 4), seed=7)
                parts: list[Any] = []
                for _ in range(90 // workers):
                    asked = [found.ask() for _ in range(workers)]
                    for ticket, x in reversed(asked):
                        found.tell(ticket, bowl(x))
                        parts.append(np.array(x))
                return {"hash": digest([*parts, found.best()[0]]), "lead": []}

            yield f"{name}/{workers}", run


def scipys() -> Cases:
    """Runs through SciPy's front end."""
    import scipy.optimize

    for name in ("auto", "bes-shrinkage", "spsa", "cma-es"):

        def run(name: str = name) -> Fingerprint:
            found: Any = scipy.optimize.minimize(
                bowl,
                np.linspace(-1.0, 1.5, 4),
                method=gs.scipy.method(name),
                bounds=[(-1.2, 2.0)] * 4,
                options={"maxfev": 90, "seed": 7},
            )
            return {"hash": digest([found.x, found.fun, found.nfev, found.nit]), "lead": []}

        yield f"scipy/{name}", run


def cases() -> dict[str, dict[str, Callable[[], Fingerprint]]]:
    """The cases of this file, in groups: each group is a test."""
    return {
        **{f"minimize {name}": dict(newer(name)) for name in NEWER},
        "ranks": dict(ranks()),
        **{f"algorithm {name}": dict(algorithm(name)) for name in ALGORITHMS},
        "asked and told": {
            name: lambda name=name: asked_and_told(name) for name in (*TRAINING_ONLY, *PILOTS)
        },
        "pilot": dict(pilot()),
        "metrics of algorithms": dict(metrics()),
        "workers of algorithms": {name: lambda name=name: worked(name, 1) for name in WORKERS},
        "points": dict(points()),
        "scipy": dict(scipys()),
    }
