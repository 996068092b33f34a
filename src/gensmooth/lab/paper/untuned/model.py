r"""The pilot on the problems of two studies, with their starts, budgets and scores.

A run is a call of :func:`gensmooth.minimize` with its defaults. It only passes what every user
knows: whether evaluations share their samples, how many are averaged, and the budget. At the end of
each round's share of the budget, the recommended point is scored as in the study, without noise or
on its test set; the search does not see these scores.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.batch import Batch
from gensmooth.estimators import Plan
from gensmooth.evaluators import Evaluated, EvaluationError, Objective, Session
from gensmooth.lab.paper import protocol
from gensmooth.lab.paper.dfo.model import noisy_objective
from gensmooth.lab.paper.linreg.model import Data, draw_data
from gensmooth.lab.paper.protocol import RunResult
from gensmooth.optimize import minimize
from gensmooth.results import IntermediateResult
from gensmooth.searches import Search, SearchState
from gensmooth.streams import Purpose, check_seed

__all__ = ["OncePerSample", "benchmark", "point_losses", "regression"]

Array = NDArray[np.float64]


def benchmark(
    objective: str,
    *,
    seed: int,
    num_directions: int,
    dim: int,
    rounds: int = 100,
    iterations: int = 10,
    noise_level: float = 0.1,
) -> RunResult:
    """Run the pilot on a noisy function, with the evaluations of a run of the study ``dfo``.

    Args:
        objective: One of the study's functions, or ``nevergrad:NAME``.
        seed: The seed of everything random; θ₀ is that of the study's run.
        num_directions: L of the runs it is compared with, which have 2L evaluations per iteration.
        dim: d.
        rounds: How many rounds.
        iterations: Iterations per round.
        noise_level: λ.

    Returns:
        Series: ``objective``, its value without noise after each round, which is the score too.
    """
    fun = noisy_objective(objective, dim=dim, noise_level=noise_level)
    return _run(
        fun,
        protocol.start(check_seed(seed), dim),
        lambda x: float(fun.oracle(x)),
        name="objective",
        rounds=rounds,
        per_round=iterations * 2 * num_directions,
        samples="independent",
        seed=seed,
    )


def regression(
    *,
    seed: int,
    num_directions: int,
    num_samples: int,
    dim: int = 100,
    rounds: int = 100,
    iterations: int = 10,
    test_size: int = 1000,
) -> RunResult:
    """Run the pilot on linear regression, with the evaluations of a run of the study ``linreg``.

    Args:
        seed: The seed of everything random; θ₀ and the test set are those of the study's run. Data
            have the same distribution, and are drawn anew for each step.
        num_directions: L of the runs it is compared with, which have (L + 1)N evaluations per
            iteration.
        num_samples: N, data points per step.
        dim: d.
        rounds: How many rounds.
        iterations: Iterations per round.
        test_size: Points of the test set.

    Returns:
        Series: ``loss``, the test loss after each round, which is the score too.
    """
    kernels: Any = import_module("gensmooth.lab.paper.linreg.kernels")
    test = draw_data(test_size, dim=dim, seed=check_seed(seed), purpose=Purpose.TEST)
    return _run(
        point_losses,
        protocol.start(seed, dim),
        lambda x: float(kernels.loss(*test, x)),
        name="loss",
        rounds=rounds,
        per_round=iterations * (num_directions + 1) * num_samples,
        samples="shared",
        num_samples=num_samples,
        workers=OncePerSample(),
        seed=seed,
    )


def _run(
    fun: Callable[..., Any],
    x0: Array,
    score: Callable[[Array], float],
    *,
    name: str,
    rounds: int,
    per_round: int,
    **how: Any,
) -> RunResult:
    """Run ``minimize`` with rounds × ``per_round`` evaluations, and score the end of each round."""
    scores: list[float] = []
    recommended = x0

    def score_until(evaluations: int) -> None:
        while (len(scores) + 1) * per_round <= evaluations:
            scores.append(score(recommended))

    def follow(now: IntermediateResult) -> None:
        nonlocal recommended
        score_until(now.nfev - 1)  # these rounds ended before the step did
        recommended = now.search.recommend(now.state)

    diverged = False
    try:
        options: dict[str, Any] = {"vectorized": True, "callback": follow, "progress": False, **how}
        result = minimize(fun, x0, budget=rounds * per_round, **options)
        diverged = result.reason == "diverged"
        score_until((rounds - 1) * per_round)
        scores.append(score(result.x))
    except EvaluationError as error:
        if error.kind != "non-finite":
            raise
        diverged = True
    diverged = diverged or not np.isfinite(scores).all()
    scores = [] if diverged else scores
    count = np.arange(1, len(scores) + 1)
    series = {name: np.array(scores)} if scores else {}
    final = np.inf if diverged else scores[-1]
    return RunResult(count, count * per_round, series, diverged, final)


# --- linear regression, many points at a time -----------------------------------------------------


def point_losses(theta: Array, rngs: Sequence[np.random.Generator]) -> Array:
    """:func:`~gensmooth.lab.paper.linreg.model.point_loss` of stacked points, for ``vectorized``.

    >>> from gensmooth.lab.paper.linreg.model import point_loss
    >>> points, seeds = np.arange(6.0).reshape(2, 3), (1, 2)
    >>> many = point_losses(points, [np.random.default_rng(seed) for seed in seeds])
    >>> one = [point_loss(x, np.random.default_rng(s)) for x, s in zip(points, seeds)]
    >>> bool(np.allclose(many, one, rtol=1e-13))
    True
    """
    return _losses(theta, _drawn(rngs, theta.shape[-1]))


def _losses(theta: Array, data: Data) -> Array:
    return 0.5 * (data.y - np.einsum("ij,ij->i", theta, data.x)) ** 2


def _drawn(rngs: Sequence[np.random.Generator], dim: int) -> Data:
    """Return a data point from each generator, the numbers in the order of ``point_loss``."""
    data = Data(np.empty((len(rngs), dim)), np.empty(len(rngs)))
    for i, rng in enumerate(rngs):
        gamma, u = rng.uniform(0.0, 2.0, dim), rng.standard_normal(dim)
        length2 = gamma @ rng.standard_normal(dim) ** 2
        data.x[i] = np.sqrt(length2 / (u @ u)) * u
        noise = np.sqrt(rng.uniform(0.0, 2.0)) * rng.standard_normal()
        data.y[i] = gamma @ data.x[i] + noise
    return data


@final
class OncePerSample:
    """Evaluates :func:`point_losses` at points that share samples: draws each sample once.

    The values equal those of any other evaluator to the last bit.
    """

    @contextmanager
    def session(self, search: Search, objective: Objective) -> Generator[Session]:  # noqa: ARG002
        """See :class:`~gensmooth.evaluators.Evaluator`."""
        yield _OnData()


@final
class _OnData:
    workers = 1

    def evaluate(self, state: SearchState, batch: Batch) -> Evaluated:  # noqa: ARG002
        direction, side, sample = batch.plan.arrays
        _, first, which = np.unique(sample, return_index=True, return_inverse=True)
        x, y = _drawn([batch.rng(int(index)) for index in first], batch.dim)
        _, first, point = np.unique(3 * direction + side, return_index=True, return_inverse=True)
        once = batch.planned(Plan(direction[first], side[first], sample[first]))
        theta = once.block(0, len(once))[point]
        return Evaluated(_losses(theta, Data(x[which], y[which])), {})
