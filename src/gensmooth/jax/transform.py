# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
"""Zeroth-order gradients as an Optax transformation whose ``update`` takes the objective."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gensmooth import checks
from gensmooth.directions import Directions
from gensmooth.estimators import Estimator
from gensmooth.jax.estimates import EstimateChoices, estimate
from gensmooth.models import SparseTiles

Array = jax.Array


class ZerothOrderState(NamedTuple):
    """The state of :func:`zeroth_order`.

    Attributes:
        step: The number of the next step, which selects its directions.
        value: The value of the last step's :class:`~gensmooth.jax.Estimate`; NaN before the first.
        failures: The number of directions dropped so far because a value was not finite.
    """

    step: Array
    value: Array
    failures: Array


@checks.explains_unknown
def zeroth_order(
    learning_rate: float | None = None,
    *,
    num_directions: int = 8,
    spacing: float = 1e-3,
    method: str | None = None,
    directions: Directions | SparseTiles | None = None,
    estimator: str | Estimator = "forward",
    seed: int = 0,
    batch_size: int | None = None,
) -> Any:
    """Return an ``optax.GradientTransformationExtraArgs`` that needs no gradient.

    Its ``update(updates, state, params, obj_fn=...)`` evaluates ``obj_fn`` at points around the
    parameters and returns the estimated gradient for the next transformation in a chain:
    ``optax.chain(gs.jax.zeroth_order(seed=0), optax.adam(1e-3))``. The argument ``updates`` is
    ignored.

    Args:
        learning_rate: If set, the updates are ``−learning_rate`` times the estimate, for use
            without another transformation.
        num_directions: L, the directions per step; a mirrored pair is one.
        spacing: c, the distance of the points from the parameters, in units of a direction.
        method: As for :func:`gensmooth.jax.gradient`.
        directions: As for :func:`gensmooth.jax.gradient`.
        estimator: As for :func:`gensmooth.jax.gradient`.
        seed: The seed of the directions.
        batch_size: How many directions to evaluate at once.
    """
    choices = EstimateChoices(**{k: v for k, v in locals().items() if k != "learning_rate"})
    try:
        import optax
    except ImportError:
        raise ImportError(
            "gs.jax.zeroth_order needs Optax: pip install 'gensmooth[jax]'."
        ) from None
    factor = 1.0 if learning_rate is None else -checks.positive("learning_rate", learning_rate)

    def init(params: Any) -> ZerothOrderState:
        dim = sum(jnp.size(leaf) for leaf in jax.tree.leaves(params))
        choices.law(max(dim, 1))  # checks the directions before the first step
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
                "`update(None, state, params, obj_fn=loss)`, where loss(params) returns a scalar."
            )
        result = estimate(
            checks.function("obj_fn", extra["obj_fn"]), params, step=state.step, choices=choices
        )
        moves = result.gradient
        if factor != 1.0:
            moves = jax.tree.map(lambda leaf: (factor * leaf).astype(leaf.dtype), moves)
        return moves, ZerothOrderState(
            state.step + jnp.uint32(1),
            result.value.astype(state.value.dtype),
            state.failures + result.failures,
        )

    return optax.GradientTransformationExtraArgs(init, update)
