"""Results that must not change by a bit: simulated robots, and steps with torch and JAX.

Every robot of the catalogue is trained for an iteration or two: by MuJoCo (``cpu``) and by fused
physics (``warp-cpu``), whose kernels Warp compiles first, in about two minutes for all of them.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

import gensmooth as gs
from fingerprints import Fingerprint, digest, lead, of_training
from gensmooth.models import SparseTiles

ROBOTS = [
    "Ant",
    "Ant-v4",
    "Ant-v5",
    "HalfCheetah-v4",
    "HalfCheetah-v5",
    "HalfCheetahRandVel",
    "Hopper-v4",
    "Hopper-v5",
    "Humanoid-v4",
    "Humanoid-v5",
    "InvertedDoublePendulum-v4",
    "InvertedDoublePendulum-v5",
    "InvertedPendulum-v4",
    "InvertedPendulum-v5",
    "Swimmer-v4",
    "Swimmer-v5",
    "Walker2d-v4",
    "Walker2d-v5",
]
# Meta-World's arms run on the CPU only. The paper's arms are in `fingerprints.TRAININGS`.
ARMS = ["ML1-Push-v3", "ML1-Reach-v3"]
SIMULATED = [*(name for name in ROBOTS if name not in ("Ant", "HalfCheetahRandVel")), *ARMS]
_ANTITHETIC = {"estimator": "antithetic", "num_directions": 3}
# Searches other than the paper's methods.
TRAINED: dict[str, tuple[str, dict[str, Any]]] = {
    "auto": ("Hopper-v5", {"num_directions": 5}),
    "auto, paired": ("InvertedPendulum-v5", {"num_directions": 3, "resets": "paired"}),
    "auto, mlp": ("InvertedPendulum-v4", {"policy": "mlp", "hidden": (4,), "x_scale": 0.3}),
    **{
        name: ("InvertedDoublePendulum-v5", {"method": name, "num_directions": 4})
        for name in ("ars", "ars-v1", "ars-v1-t", "ars-v2", "ars-v2-t", "openai-es", "spsa")
    },
    **{
        name: ("InvertedPendulum-v5", {"method": name, "population": 6})
        for name in ("snes", "xnes", "cma-es")
    },
    "islands": ("InvertedPendulum-v5", {"method": "islands", "population": 64}),
    "ranked": ("Walker2d-v5", {"method": "bes", "estimator": "ranked", "num_directions": 3}),
    "low-rank": ("Hopper-v5", {"method": "low-rank", **_ANTITHETIC, "policy": "mlp"}),
    "adam": ("Hopper-v5", {"optimizer": gs.adam(0.01), "spacing": 0.05, **_ANTITHETIC}),
}
ON_WARP: dict[str, tuple[str, dict[str, Any]]] = {
    "islands": ("InvertedPendulum-v5", {"population": 64}),
    "auto": ("Hopper-v5", {"method": "auto", "num_directions": 4}),
    "mlp": ("Hopper-v5", {"method": "gs", **_ANTITHETIC, "policy": "mlp", "hidden": (4,)}),
}


def robot(name: str, **options: Any) -> Fingerprint:
    """The shortest training: five episodes."""
    usual: dict[str, Any] = {"method": "bes-shrinkage", "num_directions": 1}
    usual |= {"estimator": "antithetic", "test_episodes": 1, "threads": 1}
    if name.startswith(("Ant-", "HalfCheetah-", "Swimmer")):  # their episodes are long
        usual["max_steps"] = 1
    return of_training(name, **{**usual, **options})


def trained(case: tuple[str, dict[str, Any]], **more: Any) -> Fingerprint:
    """A training by another search, or by another policy."""
    name, options = case
    return of_training(name, test_episodes=1, threads=1, **options, **more)


# Models, in torch and in JAX.

DIRECTIONS: dict[str, dict[str, Any]] = {
    **{
        name: {"method": name}
        for name in ("bes", "gs", "bes-shrinkage", "gs-shrinkage", "low-rank", "sparse")
    },
    "LowRank(3)": {"directions": gs.LowRank(rank=3)},
    "SparseTiles, normal": {"directions": SparseTiles(density=0.5, entries="normal")},
    "shrunk, estimate": {"directions": gs.shrunk(gs.Bernoulli(), scale="estimate")},
}
ESTIMATORS = ("forward", "antithetic", "one-point", "ranked")
VARIANTS: dict[str, dict[str, Any]] = {
    "momentum and decay": {"momentum": 0.5, "weight_decay": 0.1},
    "maximize": {"maximize": True, "lr": 1e-3},
    "spread": {"normalize": "spread", "estimator": "antithetic"},
    "copy": {"mode": "copy"},
    "in-place": {"mode": "in-place"},
    "paired": {"samples": "paired", "estimator": "antithetic"},
    "independent": {"samples": "independent"},
    "centered-ranks": {"estimator": gs.CenteredRanks()},
    "best-pairs": {"estimator": gs.BestPairs(2)},
}


def torch_steps(dtype: str = "float32", **options: Any) -> Fingerprint:
    """Three steps on a small network with dropout: losses and parameters."""
    import torch

    from torch_cases import perceptron, square_loss

    layers = perceptron(getattr(torch, dtype))
    model = torch.nn.Sequential(layers[0], layers[1], torch.nn.Dropout(0.2), layers[2])
    usual: dict[str, Any] = {"seed": 3, "num_directions": 4, "lr": 0.02, "spacing": 0.05}
    search = gs.torch.ZerothOrder(model, **{**usual, **options})
    losses = [float(search.step(square_loss(model))) for _ in range(3)]
    weights = [weight.detach().double().numpy() for weight in model.parameters()]
    return {"hash": digest([losses, *weights]), "lead": [] if dtype != "float32" else lead(losses)}


_JAX = {  # compiling each takes longer than all the rest
    "gs-shrinkage": ("antithetic", 2),
}


def jax_steps(name: str) -> Fingerprint:
    """Three steps on a structure of arrays: values and parameters."""
    import jax
    import jax.numpy as jnp
    import optax

    def loss(params: Any) -> Any:
        return jnp.sum((params["w"] - 1) ** 2) + 3 * params["b"] ** 2

    estimator, batch_size = _JAX[name]
    search = gs.jax.zeroth_order(
        0.01,
        num_directions=4,
        spacing=0.05,
        **DIRECTIONS[name],
        estimator=estimator,
        seed=3,
        batch_size=batch_size,
    )
    params: Any = {
        "w": jnp.asarray(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)),
        "b": jnp.float32(0.5),
    }

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        updates, state = search.update(None, state, params, obj_fn=loss)
        return optax.apply_updates(params, updates), state

    state, values = search.init(params), []
    for _ in range(3):
        params, state = step(params, state)
        values.append(float(state.value))
    return {
        "hash": digest([values, np.asarray(params["w"]), np.asarray(params["b"])]),
        "lead": lead(values),
    }


def cases() -> dict[str, dict[str, Callable[[], Fingerprint]]]:
    """Every case, in groups."""
    torch: dict[str, Callable[[], Fingerprint]] = {
        f"{name}/{estimator}": lambda name=name, estimator=estimator: torch_steps(
            **DIRECTIONS[name], estimator=estimator
        )
        for name, estimator in product(DIRECTIONS, ESTIMATORS)
    }
    torch |= {
        name: lambda options=options: torch_steps(**options) for name, options in VARIANTS.items()
    }
    torch |= {
        f"{dtype}/{name}": lambda dtype=dtype, name=name: torch_steps(
            dtype, method=name, estimator="antithetic"
        )
        for dtype, name in product(("float16", "bfloat16", "float64"), ("bes", "gs"))
    }
    return {
        "train robots": {name: lambda name=name: robot(name) for name in SIMULATED},
        "train searches": {name: lambda case=case: trained(case) for name, case in TRAINED.items()},
        "warp-cpu": {
            **{name: lambda name=name: robot(name, device="warp-cpu") for name in ROBOTS},
            **{
                name: lambda case=case: trained(case, device="warp-cpu")
                for name, case in ON_WARP.items()
            },
        },
        "torch": torch,
        "JAX": {name: lambda name=name: jax_steps(name) for name in _JAX},
    }
