# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
"""Zeroth-order gradients as an Optax transformation: ``update`` takes the objective."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gensmooth import checks
from gensmooth.jax.estimates import EstimateChoices, EstimatorName, estimate

Array = jax.Array


class ZerothOrderState(NamedTuple):
    """What the next step needs, and what a reader wants.

    Attributes:
        step: The number of the next step: the address of its directions.
        value: The objective's mean at the last step's parameters; NaN before the first.
        failures: Directions left out so far because a value was not finite.
    """

    step: Array
    value: Array
    failures: Array


def zeroth_order(
    learning_rate: float | None = None,
    *,
    num_directions: int = 8,
    spacing: float = 1e-3,
    directions: Any = "bes",
    estimator: EstimatorName = "forward",
    seed: int = 0,
    batch_size: int | None = None,
) -> Any:
    """An ``optax.GradientTransformationExtraArgs`` that needs no gradient.

    Its ``update(updates, state, params, obj_fn=...)`` evaluates ``obj_fn(params)`` at points around
    the parameters and returns the estimated gradient, for the next transformation of a chain:
    ``optax.chain(gs.jax.zeroth_order(seed=0), optax.adam(1e-3))``. What is given as ``updates`` is
    not looked at.

    Args:
        learning_rate: If given, the updates are ``−learning_rate`` times the estimate: to be used
            alone.
        num_directions: L, directions per step.
        spacing: c, how far the points are from the parameters.
        directions: As for :func:`gensmooth.jax.gradient`.
        estimator: ``"forward"``, ``"antithetic"`` or ``"one-point"``.
        seed: Of the directions.
        batch_size: How many directions are evaluated at once.
    """
    try:
        import optax
    except ImportError:
        raise ImportError(
            "gs.jax.zeroth_order is an Optax transformation: pip install 'gensmooth[jax]'."
        ) from None
    choices = EstimateChoices(num_directions, spacing, directions, estimator, seed, batch_size)
    factor = 1.0 if learning_rate is None else -checks.positive("learning_rate", learning_rate)

    def init(params: Any) -> ZerothOrderState:
        choices.law(
            max(sum(jnp.size(leaf) for leaf in jax.tree.leaves(params)), 1)
        )  # checked early
        return ZerothOrderState(
            jnp.zeros((), jnp.uint32), jnp.full((), jnp.nan, jnp.float32), jnp.zeros((), jnp.int32)
        )

    def update(
        updates: Any, state: Any, params: Any = None, **extra: Any
    ) -> tuple[Any, ZerothOrderState]:
        del updates
        if params is None or "obj_fn" not in extra:
            missing = "`params`" if params is None else "`obj_fn`"
            raise ValueError(
                f"zeroth_order needs {missing}: call "
                "`update(None, state, params, obj_fn=loss)`, where loss(params) is a scalar."
            )
        found = estimate(checks.function("obj_fn", extra["obj_fn"]), params, state.step, choices)
        moves = found.gradient
        if factor != 1.0:
            moves = jax.tree.map(lambda leaf: (factor * leaf).astype(leaf.dtype), moves)
        return moves, ZerothOrderState(
            state.step + jnp.uint32(1),
            found.value.astype(state.value.dtype),
            state.failures + found.failures,
        )

    return optax.GradientTransformationExtraArgs(init, update)
