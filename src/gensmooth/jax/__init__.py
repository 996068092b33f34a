"""Zeroth-order gradients in JAX, for pytrees, ``jit`` and Optax.

>>> import jax.numpy as jnp
>>> import gensmooth as gs
>>> def loss(params):
...     return jnp.sum((params["w"] - 1.0) ** 2) + params["b"] ** 2
>>> params = {"w": jnp.zeros(3), "b": jnp.array(2.0)}
>>> estimate = gs.jax.gradient(loss, num_directions=2000, seed=0)(params)
>>> bool(abs(estimate["b"] - 4.0) < 0.3)
True
"""

try:
    import jax as _  # noqa: F401
except ImportError:
    raise ImportError("gensmooth.jax needs JAX: pip install 'gensmooth[jax]'.") from None

from gensmooth.jax.estimates import Estimate, estimate, gradient
from gensmooth.jax.transform import ZerothOrderState, zeroth_order

__all__ = ["Estimate", "ZerothOrderState", "estimate", "gradient", "zeroth_order"]
