# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
r"""The estimate :math:`\frac{1}{cL}\sum_l \delta_l\,\epsilon_l` on a pytree, inside ``jit``.

Directions are not kept: they are made at their addresses when the objective is evaluated and made
again when the estimate is summed, so that memory is that of one perturbed copy of the parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, final, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gensmooth import checks, streams
from gensmooth.jax.directions import MOST_ENTRIES, Place, entries
from gensmooth.models import Law, Stream, choose_law

Array = jax.Array
EstimatorName = Literal["forward", "antithetic", "one-point"]


class Estimate(NamedTuple):
    """What one step's evaluations say.

    Attributes:
        gradient: Like the parameters.
        value: The mean of the objective at the parameters (forward differences: its value there;
            else the mean over the points around them).
        failures: How many directions were left out because a value was not finite. If all were,
            the gradient is zero.
    """

    gradient: Any
    value: Array
    failures: Array


@final
@dataclass(frozen=True)
class EstimateChoices:
    """How gradients are estimated: what :func:`estimate` and its callers have in common."""

    num_directions: int = 8
    spacing: float = 1e-3
    directions: Any = "bes"
    estimator: EstimatorName = "forward"
    seed: int = 0
    batch_size: int | None = None

    def __post_init__(self) -> None:
        checks.one_of("estimator", self.estimator, get_args(EstimatorName))
        checks.settle(
            self,
            num_directions=checks.count("num_directions", self.num_directions),
            spacing=checks.positive("spacing", self.spacing),
            seed=streams.check_seed(self.seed),
            batch_size=checks.optional(checks.count, "batch_size", self.batch_size),
        )

    def law(self, dim: int) -> Law:
        """How the entries of directions are made for so many parameters."""
        return choose_law(self.directions, dim, self.num_directions)


def gradient(
    fun: Callable[..., Any],
    *,
    num_directions: int = 8,
    spacing: float = 1e-3,
    directions: Any = "bes",
    estimator: EstimatorName = "forward",
    seed: int = 0,
    batch_size: int | None = None,
) -> Callable[..., Any]:
    """Like ``jax.grad``, from values alone.

    Args:
        fun: ``fun(params, *args, **kwargs)``, a scalar.
        num_directions: L, directions per estimate.
        spacing: c, how far the points are from the parameters.
        directions: ``"bes"``, ``"gs"``, their shrunk kinds, ``"low-rank"``, ``"sparse"``, or an
            object: ``gs.shrunk(gs.Bernoulli())``, ``gs.models.LowRank(rank=4)``.
        estimator: ``"forward"`` (L + 1 values), ``"antithetic"`` (2 L) or ``"one-point"`` (L).
        seed: Of the directions.
        batch_size: How many directions are evaluated at once (with ``vmap``); one after the other
            if not given, which needs the memory of one copy of the parameters.

    Returns:
        A function of the parameters (and the further arguments of ``fun``) that returns its
        gradient, a pytree like them. Its keyword ``step`` chooses the directions: another one for
        each estimate.
    """
    choices = EstimateChoices(num_directions, spacing, directions, estimator, seed, batch_size)
    checks.function("fun", fun)

    def estimated(params: Any, *args: Any, step: Any = 0, **kwargs: Any) -> Any:
        return estimate(lambda at: fun(at, *args, **kwargs), params, step, choices).gradient

    return estimated


def estimate(
    fun: Callable[[Any], Any], params: Any, step: Any, choices: EstimateChoices
) -> Estimate:
    """The estimate of one step; pure, and can be traced in ``params`` and ``step``.

    Args:
        fun: Of the parameters, a scalar.
        params: A pytree of floating-point arrays.
        step: The number of the step.
        choices: How.
    """
    parameters, structure = _named(params)
    law = choices.law(sum(leaf.size for _, leaf in parameters))
    placed = [
        (Stream(streams.named_seed(choices.seed, name), law), leaf) for name, leaf in parameters
    ]

    def value(at: Any) -> Array:
        found = jnp.asarray(fun(at))
        if found.shape or not jnp.issubdtype(found.dtype, jnp.floating):
            raise TypeError(
                "The objective must return a scalar, but returned an array of shape "
                f"{found.shape} and dtype {found.dtype}."
            )
        return found.astype(jnp.promote_types(found.dtype, jnp.float32))

    def moved(index: Any, side: float) -> Any:
        return jax.tree.unflatten(
            structure,
            [
                _rounded(
                    leaf,
                    side * choices.spacing * law.scale,
                    entries(stream, Place(step, index), leaf.shape),
                )
                for stream, leaf in placed
            ],
        )

    numbers = jnp.arange(choices.num_directions, dtype=jnp.uint32)

    def over(one: Callable[[Any], Array]) -> Array:
        return jax.lax.map(one, numbers, batch_size=choices.batch_size)

    plus = over(lambda index: value(moved(index, 1.0)))
    if choices.estimator == "forward":
        center = value(params)
        differences = plus - center
    elif choices.estimator == "antithetic":
        minus = over(lambda index: value(moved(index, -1.0)))
        differences, center = (plus - minus) / 2, _mean((plus + minus) / 2)
    else:
        differences, center = plus, _mean(plus)
    fine = jnp.isfinite(differences)
    number = jnp.maximum(fine.sum(), 1)
    weights = jnp.where(fine, differences, 0) * (law.factor * law.scale / choices.spacing) / number
    return Estimate(
        jax.tree.unflatten(
            structure, [_combined(placed, at, step, numbers, weights) for at in range(len(placed))]
        ),
        center,
        jnp.asarray(choices.num_directions - fine.sum(), jnp.int32),
    )


def _combined(placed: Any, at: int, step: Any, numbers: Array, weights: Array) -> Array:
    """Σ_l w_l ε_l for one parameter, in the order of the directions."""
    stream, leaf = placed[at]
    wide = _wide(leaf)

    def add(total: Array, one: tuple[Array, Array]) -> tuple[Array, None]:
        index, weight = one
        return total + weight.astype(wide) * entries(stream, Place(step, index), leaf.shape), None

    total, _ = jax.lax.scan(add, jnp.zeros(leaf.shape, wide), (numbers, weights))
    return total.astype(leaf.dtype)


def _rounded(leaf: Array, amount: float, direction: Array) -> Array:
    """The sum x + c ε, made in float32 (in float64 for a float64) and rounded once."""
    wide = _wide(leaf)
    return (leaf.astype(wide) + wide.type(amount) * direction.astype(wide)).astype(leaf.dtype)


def _wide(leaf: Array) -> Any:
    return np.dtype(np.float64 if leaf.dtype == jnp.float64 else np.float32)


def _mean(values: Array) -> Array:
    """Of those that are finite."""
    fine = jnp.isfinite(values)
    return jnp.where(fine.any(), jnp.where(fine, values, 0).sum() / fine.sum(), jnp.nan)


def _named(params: Any) -> tuple[list[tuple[str, Array]], Any]:
    """The arrays of a pytree with their paths as names, checked; and its structure."""
    found, structure = jax.tree_util.tree_flatten_with_path(params)
    if not found:
        raise ValueError(f"`params` must hold at least one array, but is {checks.shown(params)}.")
    named: list[tuple[str, Array]] = []
    for path, leaf in found:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        array = jnp.asarray(leaf)
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise TypeError(
                f"Parameters must be floating-point arrays, but {name or 'the one given'!r} has "
                f"dtype {array.dtype}. Leave it out of what is differentiated (for instance "
                "with a closure)."
            )
        if array.size > MOST_ENTRIES:
            raise ValueError(f"A parameter may have 2^34 entries, but {name!r} has {array.size}.")
        named.append((name, array))
    return named, structure
