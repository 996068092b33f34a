# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
r"""The estimate :math:`\frac{1}{cL}\sum_l \delta_l\,\epsilon_l` on a pytree, inside ``jit``.

Directions are not stored: they are generated from their addresses for the evaluations and again for
the sum. The memory needed is that of one perturbed copy of the parameters.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from gensmooth import checks, streams
from gensmooth.directions import Directions
from gensmooth.estimators import Antithetic, Estimator, ForwardDifference, OnePoint, as_estimator
from gensmooth.jax.directions import MAX_ENTRIES, StreamPlace, entries
from gensmooth.models import Law, SparseTiles, Stream, choose_law, choose_model_directions

Array = jax.Array
Differences = tuple[Array, Array]


class Estimate(NamedTuple):
    """The estimate of one step.

    Attributes:
        gradient: The gradient, a pytree like the parameters.
        value: The objective at the parameters for forward differences; otherwise its mean over the
            evaluated points.
        failures: The number of directions dropped because a value was not finite. If all were
            dropped, the gradient is zero.
    """

    gradient: Any
    value: Array
    failures: Array


@final
@dataclass(frozen=True, kw_only=True)
class EstimateChoices:
    """The options of :func:`estimate`; see :func:`gradient`."""

    num_directions: int = 8
    spacing: float = 1e-3
    method: str | None = None
    directions: Directions | SparseTiles | None = None
    estimator: str | Estimator = "forward"
    seed: int = 0
    batch_size: int | None = None

    def __post_init__(self) -> None:
        choose_model_directions(self.method, self.directions)
        estimator = as_estimator(self.estimator)
        if type(estimator) not in _SUPPORTED:
            raise ValueError(
                "`estimator` must be 'forward', 'antithetic' or 'one-point' in JAX, or an object "
                f"of one of these kinds, but is {checks.shown(self.estimator)}."
            )
        checks.settle(
            self,
            estimator=estimator,
            num_directions=checks.count("num_directions", self.num_directions),
            spacing=checks.positive("spacing", self.spacing),
            seed=streams.check_seed(self.seed),
            batch_size=checks.optional(checks.count, "batch_size", self.batch_size),
        )

    def law(self, dim: int) -> Law:
        """Return the law of the directions' entries for ``dim`` parameters."""
        directions = choose_model_directions(self.method, self.directions)
        return choose_law(directions, dim, self.num_directions)


@checks.explains_unknown
def gradient(
    fun: Callable[..., Any],
    *,
    num_directions: int = 8,
    spacing: float = 1e-3,
    method: str | None = None,
    directions: Directions | SparseTiles | None = None,
    estimator: str | Estimator = "forward",
    seed: int = 0,
    batch_size: int | None = None,
) -> Callable[..., Any]:
    """Like ``jax.grad``, but estimated from function values only.

    Args:
        fun: ``fun(params, *args, **kwargs)``, which returns a scalar.
        num_directions: L, the directions per estimate; a mirrored pair is one.
        spacing: c, the distance of the points from the parameters, in units of a direction.
        method: The directions by name: ``"bes"`` (the default), ``"gs"``, ``"bes-shrinkage"``,
            ``"gs-shrinkage"``, ``"low-rank"`` or ``"sparse"``.
        directions: The directions as an object, instead of a method: ``gs.shrunk(gs.Bernoulli())``
            or ``gs.LowRank(rank=4)``.
        estimator: ``"forward"`` (L + 1 values), ``"antithetic"`` (2 L) or ``"one-point"`` (L), or
            an object such as ``gs.OnePoint(baseline=0.5)``.
        seed: The seed of the directions.
        batch_size: How many directions to evaluate at once with ``vmap``. By default one at a time,
            which needs the memory of one copy of the parameters.

    Returns:
        A function of the parameters and the other arguments of ``fun``. It returns the estimated
        gradient, a pytree like the parameters. Its keyword ``step`` selects the directions: pass a
        different one for each estimate.
    """
    choices = EstimateChoices(**{k: v for k, v in locals().items() if k != "fun"})
    checks.function("fun", fun)

    def estimated(params: Any, *args: Any, step: Any = 0, **kwargs: Any) -> Any:
        return estimate(
            lambda at: fun(at, *args, **kwargs), params, step=step, choices=choices
        ).gradient

    return estimated


def estimate(
    fun: Callable[[Any], Any], params: Any, *, step: Any, choices: EstimateChoices
) -> Estimate:
    """Estimate the gradient for one step; pure, and traceable in ``params`` and ``step``.

    Args:
        fun: A scalar function of the parameters.
        params: A pytree of floating-point arrays.
        step: The step's number.
        choices: The options.
    """
    parameters, structure = _named(params)
    law = choices.law(sum(leaf.size for _, leaf in parameters))
    placed = [
        (Stream(streams.named_seed(choices.seed, name), law), leaf) for name, leaf in parameters
    ]

    def value(at: Any) -> Array:
        result = jnp.asarray(fun(at))
        if result.shape or not jnp.issubdtype(result.dtype, jnp.floating):
            raise TypeError(
                "The objective must return a floating-point scalar, but returned an array of shape "
                f"{result.shape} and dtype {result.dtype}."
            )
        return result.astype(jnp.promote_types(result.dtype, jnp.float32))

    def moved(index: Any, side: float) -> Any:
        amount = side * choices.spacing * law.scale
        leaves = [
            _rounded(leaf, amount, entries(stream, StreamPlace(step, index), leaf.shape))
            for stream, leaf in placed
        ]
        return jax.tree.unflatten(structure, leaves)

    numbers = jnp.arange(choices.num_directions, dtype=jnp.uint32)

    def over(one: Callable[[Any], Array]) -> Array:
        return jax.lax.map(one, numbers, batch_size=choices.batch_size)

    def values(side: float) -> Array:
        return over(lambda index: value(moved(index, side)))

    estimator = as_estimator(choices.estimator)
    differences, center = _SUPPORTED[type(estimator)](estimator, values, lambda: value(params))
    finite = jnp.isfinite(differences)
    number = jnp.maximum(finite.sum(), 1)
    weights = (
        jnp.where(finite, differences, 0) * (law.factor * law.scale / choices.spacing) / number
    )
    return Estimate(
        jax.tree.unflatten(
            structure, [_combined(stream, leaf, step, numbers, weights) for stream, leaf in placed]
        ),
        center,
        jnp.asarray(choices.num_directions - finite.sum(), jnp.int32),
    )


# Each returns the differences δ and the estimate's value, as in `gensmooth.estimators`.
# `values(side)` evaluates all directions on one side, `center()` the parameters themselves.


def _forward(estimator: Any, values: Any, center: Any) -> Differences:  # noqa: ARG001
    plus, middle = values(1.0), center()
    return plus - middle, middle


def _antithetic(estimator: Any, values: Any, center: Any) -> Differences:  # noqa: ARG001
    plus, minus = values(1.0), values(-1.0)
    return (plus - minus) / 2, _mean((plus + minus) / 2)


def _one_point(estimator: OnePoint, values: Any, center: Any) -> Differences:  # noqa: ARG001
    plus = values(1.0)
    mean = _mean(plus)
    if estimator.baseline is None:
        return plus, mean
    if isinstance(estimator.baseline, str):  # v_l − mean of the others
        n = jnp.isfinite(plus).sum()
        return (plus - mean) * (n / jnp.maximum(n - 1, 1)), mean
    return plus - estimator.baseline, mean


_SUPPORTED: Mapping[type[Estimator], Callable[[Any, Any, Any], Differences]] = {
    ForwardDifference: _forward,
    Antithetic: _antithetic,
    OnePoint: _one_point,
}


def _combined(stream: Stream, leaf: Array, step: Any, numbers: Array, weights: Array) -> Array:
    """Compute Σ_l w_l ε_l for one parameter, in the order of the directions."""
    wide = _wide(leaf)

    def add(total: Array, one: tuple[Array, Array]) -> tuple[Array, None]:
        index, weight = one
        direction = entries(stream, StreamPlace(step, index), leaf.shape)
        return total + weight.astype(wide) * direction, None

    total, _ = jax.lax.scan(add, jnp.zeros(leaf.shape, wide), (numbers, weights))
    return total.astype(leaf.dtype)


def _rounded(leaf: Array, amount: float, direction: Array) -> Array:
    """Return the sum x + c ε, computed in float32 (float64 if x is float64) and rounded once."""
    wide = _wide(leaf)
    return (leaf.astype(wide) + wide.type(amount) * direction.astype(wide)).astype(leaf.dtype)


def _wide(leaf: Array) -> Any:
    return np.dtype(np.float64 if leaf.dtype == jnp.float64 else np.float32)


def _mean(values: Array) -> Array:
    """Return the mean of the finite values; NaN if there are none."""
    finite = jnp.isfinite(values)
    return jnp.where(finite.any(), jnp.where(finite, values, 0).sum() / finite.sum(), jnp.nan)


def _named(params: Any) -> tuple[list[tuple[str, Array]], Any]:
    """Return the arrays of a pytree, checked and named by their paths, and its structure."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    if not leaves:
        raise ValueError(
            f"`params` must contain at least one array, but is {checks.shown(params)}."
        )
    named: list[tuple[str, Array]] = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        array = jnp.asarray(leaf)
        label = repr(name) if name else "the array"
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise TypeError(
                f"Parameters must be floating-point arrays, but {label} has dtype {array.dtype}. "
                "Remove it from the parameters, for example by using a closure."
            )
        if array.size > MAX_ENTRIES:
            raise ValueError(
                f"A parameter may have at most 2^34 entries, but {label} has {array.size}."
            )
        named.append((name, array))
    return named, structure
