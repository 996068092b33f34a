"""The methods run on COCO's problems: our default call, and rivals as their users call them.

A method is called with an objective that raises when the run is over, a start, the budget and a
seed. A method that needs a step size gets 2. One that stops early starts again at a random point.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

START, SIGMA = 4.0, 2.0  # starts are uniform in [−START, START]^d
Objective = Callable[[np.ndarray], float]
Run = Callable[[Objective, np.ndarray, int, int], object]


class Method(NamedTuple):
    """A method of a library.

    Attributes:
        run: Spends the budget.
        package: What must be installed.
        words: The call, as the page shows it.
        up_to: The largest budget divided by d, for a method that is too slow for larger ones.
    """

    run: Run
    package: str
    words: str
    up_to: int | None = None


def start(rng: np.random.Generator, dim: int) -> np.ndarray:
    """A point to start from."""
    return rng.uniform(-START, START, dim)


def starts(x0: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The given start, then random ones without end: the objective ends the run."""
    while True:
        yield x0
        x0 = start(rng, x0.size)


def ours(fun: Objective, x0: np.ndarray, budget: int, seed: int) -> None:
    """The default call: no other argument."""
    import gensmooth as gs

    gs.minimize(fun, x0, budget=budget, seed=seed)


def pycma(
    fun: Objective, x0: np.ndarray, _budget: int, seed: int, *, diagonal: bool = False
) -> None:
    """CMA-ES with its own stopping rules."""
    import cma

    rng = np.random.default_rng(seed)
    for x in starts(x0, rng):
        options = {"verbose": -9, "seed": int(rng.integers(1, 2**31)), "CMA_diagonal": diagonal}
        search = cma.CMAEvolutionStrategy(x, SIGMA, options)
        while not search.stop():
            points = search.ask()
            search.tell(points, [fun(x) for x in points])


def bipop_cma(fun: Objective, x0: np.ndarray, _budget: int, seed: int) -> None:
    """CMA-ES restarted with small and large populations in turn; it restarts by itself."""
    import cma

    again = starts(x0, np.random.default_rng(seed))
    options = {"verbose": -9, "seed": seed}
    cma.fmin2(fun, lambda: next(again), SIGMA, options, restarts=1000, bipop=True)


def lq_cma(fun: Objective, x0: np.ndarray, _budget: int, seed: int) -> None:
    """CMA-ES with a linear or quadratic model of the objective; it restarts by itself."""
    import cma

    again = starts(x0, np.random.default_rng(seed))
    options = {"verbose": -9, "seed": seed}
    cma.fmin_lq_surr2(fun, lambda: next(again), SIGMA, options, restarts=1000)


def sep_cma(fun: Objective, x0: np.ndarray, _budget: int, seed: int) -> None:
    """Separable CMA-ES of ``cmaes`` with its own stopping rules."""
    from cmaes import SepCMA

    rng = np.random.default_rng(seed)
    for x in starts(x0, rng):
        search = SepCMA(mean=x, sigma=SIGMA, seed=int(rng.integers(2**31)))
        while not search.should_stop():
            points = [search.ask() for _ in range(search.population_size)]
            search.tell([(x, fun(x)) for x in points])


def scipy(
    fun: Objective, x0: np.ndarray, budget: int, seed: int, *, name: str, **options: float
) -> None:
    """A method of SciPy with SciPy's finite differences, whose evaluations count."""
    from scipy.optimize import minimize

    for x in starts(x0, np.random.default_rng(seed)):
        minimize(fun, x, method=name, options={"maxiter": budget, **options})


def l_bfgs_b(fun: Objective, x0: np.ndarray, budget: int, seed: int) -> None:
    """SciPy's L-BFGS-B, whose limit on evaluations must also be raised."""
    scipy(fun, x0, budget, seed, name="L-BFGS-B", maxfun=budget)


def cobyqa(fun: Objective, x0: np.ndarray, budget: int, seed: int) -> None:
    """SciPy's COBYQA: quadratic models in a trust region."""
    scipy(fun, x0, budget, seed, name="COBYQA", initial_tr_radius=SIGMA, maxfev=budget)


def nlopt(fun: Objective, x0: np.ndarray, _budget: int, seed: int, *, name: str) -> None:
    """A method of NLopt, with a tolerance near the rounding error."""
    import nlopt as library

    def wrapped(x: np.ndarray, _gradient: np.ndarray) -> float:
        return fun(x)

    for x in starts(x0, np.random.default_rng(seed)):
        search = library.opt(getattr(library, name), x0.size)
        search.set_min_objective(wrapped)
        search.set_initial_step(SIGMA)
        search.set_xtol_rel(1e-12)
        with contextlib.suppress(library.RoundoffLimited):
            search.optimize(x)


def nevergrad(fun: Objective, x0: np.ndarray, budget: int, seed: int, *, name: str) -> None:
    """A method of Nevergrad's registry by ask and tell, one point at a time."""
    import nevergrad as ng

    array = ng.p.Array(init=x0).set_mutation(sigma=SIGMA)
    array.random_state.seed(seed)
    search = ng.optimizers.registry[name](parametrization=array, budget=budget, num_workers=1)
    for _ in range(budget):
        candidate = search.ask()
        search.tell(candidate, fun(candidate.value))


def at_random(fun: Objective, x0: np.ndarray, budget: int, seed: int) -> None:
    """Random points of the domain: what any method should beat."""
    rng = np.random.default_rng(seed)
    for _ in range(budget):
        fun(rng.uniform(-5, 5, x0.size))


METHODS = {
    "gensmooth": Method(ours, "gensmooth", "`gs.minimize(fun, x0, budget=…, seed=…)`"),
    "pycma": Method(pycma, "cma", "`cma.CMAEvolutionStrategy(x0, 2)`, the full matrix"),
    "pycma-diagonal": Method(
        partial(pycma, diagonal=True), "cma", "the same with `CMA_diagonal=True` throughout"
    ),
    "cmaes-sep": Method(sep_cma, "cmaes", "`cmaes.SepCMA(x0, 2)`"),
    "scipy-lbfgsb": Method(
        l_bfgs_b, "scipy", '`scipy.optimize.minimize(method="L-BFGS-B")`, its own differences'
    ),
    "slsqp": Method(
        partial(scipy, name="SLSQP", ftol=1e-12),
        "scipy",
        '`scipy.optimize.minimize(method="SLSQP")`, `ftol=1e-12`, its own differences',
    ),
    "bfgs": Method(
        partial(scipy, name="BFGS", gtol=1e-8),
        "scipy",
        '`scipy.optimize.minimize(method="BFGS")`, `gtol=1e-8`, its own differences',
    ),
    "newuoa": Method(
        partial(nlopt, name="LN_NEWUOA"), "nlopt", "NLopt's `LN_NEWUOA`, first step 2"
    ),
    "bobyqa": Method(
        partial(nlopt, name="LN_BOBYQA"), "nlopt", "NLopt's `LN_BOBYQA`, first step 2"
    ),
    "cobyqa": Method(
        cobyqa,
        "scipy",
        '`scipy.optimize.minimize(method="COBYQA")`, first trust region 2, up to 300 d',
        up_to=300,
    ),
    "bipop-cma": Method(bipop_cma, "cma", "`cma.fmin2(fun, start, 2, restarts=1000, bipop=True)`"),
    "lq-cma": Method(
        lq_cma, "cma", "`cma.fmin_lq_surr2(fun, start, 2, restarts=1000)`, up to 300 d", up_to=300
    ),
    "nevergrad-ngopt": Method(
        partial(nevergrad, name="NGOpt"), "nevergrad", "`NGOpt` with the budget, σ = 2"
    ),
    "nevergrad-tbpsa": Method(
        partial(nevergrad, name="TBPSA"), "nevergrad", "`TBPSA`, made for noise, σ = 2"
    ),
    "nevergrad-spsa": Method(partial(nevergrad, name="SPSA"), "nevergrad", "`SPSA`, σ = 2"),
}
# Run on request only. For "optimum", `solve` evaluates nothing but the optimum.
CONTROLS = {
    "random": Method(at_random, "numpy", "uniform in [−5, 5]^d"),
    "optimum": Method(at_random, "numpy", "the optimum: a check of the targets"),
}
