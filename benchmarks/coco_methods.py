"""What is run on COCO's problems: our default call, and its rivals as their users call them.

A method is called with an objective that raises when the budget is spent, a start, the budget and
a seed. Who needs a step size gets 2; who stops early starts again at a random point.
"""

from collections.abc import Callable
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
        words: How it is called, for the page.
    """

    run: Run
    package: str
    words: str


def start(rng: np.random.Generator, dim: int) -> np.ndarray:
    """A point to start from."""
    return rng.uniform(-START, START, dim)


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
    while True:
        own = {"verbose": -9, "seed": int(rng.integers(1, 2**31)), "CMA_diagonal": diagonal}
        search = cma.CMAEvolutionStrategy(x0, SIGMA, own)
        while not search.stop():
            points = search.ask()
            search.tell(points, [fun(x) for x in points])
        x0 = start(rng, x0.size)


def sep_cma(fun: Objective, x0: np.ndarray, _budget: int, seed: int) -> None:
    """Separable CMA-ES of ``cmaes`` with its own stopping rules."""
    from cmaes import SepCMA

    rng = np.random.default_rng(seed)
    while True:
        search = SepCMA(mean=x0, sigma=SIGMA, seed=int(rng.integers(2**31)))
        while not search.should_stop():
            points = [search.ask() for _ in range(search.population_size)]
            search.tell([(x, fun(x)) for x in points])
        x0 = start(rng, x0.size)


def l_bfgs_b(fun: Objective, x0: np.ndarray, budget: int, seed: int) -> None:
    """Gradients by SciPy's own finite differences, whose evaluations count."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(seed)
    while True:
        minimize(fun, x0, method="L-BFGS-B", options={"maxfun": budget, "maxiter": budget})
        x0 = start(rng, x0.size)


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
    "nevergrad-ngopt": Method(
        partial(nevergrad, name="NGOpt"), "nevergrad", "`NGOpt` with the budget, σ = 2"
    ),
    "nevergrad-tbpsa": Method(
        partial(nevergrad, name="TBPSA"), "nevergrad", "`TBPSA`, made for noise, σ = 2"
    ),
    "nevergrad-spsa": Method(partial(nevergrad, name="SPSA"), "nevergrad", "`SPSA`, σ = 2"),
}
# On request; "optimum" is replaced by a run that evaluates the optimum and nothing else.
CONTROLS = {
    "random": Method(at_random, "numpy", "uniform in [−5, 5]^d"),
    "optimum": Method(at_random, "numpy", "the optimum: a check of the targets"),
}
