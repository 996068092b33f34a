"""One step of each library, as its own documentation drives it: make the points, take the values.

A maker gets d and returns a function that makes one step. The objective costs nothing: its values
are given. Where a library leaves a choice that costs time, its faster way is taken.
"""

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gensmooth as gs

Step = Callable[[], object]
RATE, SPACING = 1e-3, 0.1


def _values(number: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(number)


def ours(method: str, estimator: Any, num_directions: int, dtype: str, dim: int) -> Step:
    """gensmooth, points one by one."""
    search = gs.RandomSearch(
        directions=gs.directions.named(method),
        num_directions=num_directions,
        spacing=SPACING,
        estimator=estimator,
        optimizer=gs.sgd(RATE),
    )
    state = search.init(np.zeros(dim, dtype), seed=0)
    values = _values(len(search.ask(state)))

    def step() -> None:
        nonlocal state
        batch = search.ask(state)
        for _ in batch.points():
            pass
        state, _ = search.tell(state, batch, values)

    for _ in range(51 if method == "guided-es" else 1):  # until the history is full
        step()
    return step


def evosax_open_es(dim: int, *, antithetic: bool) -> Step:
    """Evosax's Open_ES, with or without antithetic pairs."""
    import jax
    import jax.numpy as jnp
    import optax
    from evosax.algorithms import Open_ES

    es = Open_ES(
        population_size=20,
        solution=jnp.zeros(dim),
        use_antithetic_sampling=antithetic,
        optimizer=optax.sgd(RATE),
        std_schedule=optax.constant_schedule(SPACING),
    )
    return _evosax(jax, es, dim, lambda old, new: new)  # noqa: ARG005


def evosax_guided_es(dim: int) -> Step:
    """Evosax's Guided ES, with the last 50 moves of the mean, which the caller must set."""
    import jax
    import jax.numpy as jnp
    import optax
    from evosax.algorithms import GuidedES

    es = GuidedES(
        population_size=20,
        solution=jnp.zeros(dim),
        subspace_dims=50,
        optimizer=optax.sgd(RATE),
        std_schedule=optax.constant_schedule(SPACING),
    )
    return _evosax(jax, es, dim, lambda old, new: new.replace(grad=old.mean - new.mean))


def _evosax(jax: Any, es: Any, dim: int, after: Callable[[Any, Any], Any]) -> Step:
    """A jitted step: ask includes the splitting of keys, and unused metrics are compiled away."""
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # it would be slower with one thread
    params = es.default_params
    values = _values(20).astype(np.float32)

    @jax.jit
    def ask(key: Any, state: Any) -> tuple[Any, Any, Any]:
        key, subkey = jax.random.split(key)
        return key, *es.ask(subkey, state, params)

    @jax.jit
    def tell(key: Any, points: Any, values: Any, state: Any) -> Any:
        return after(state, es.tell(key, points, values, state, params)[0])

    key = jax.random.key(0)
    state = es.init(key, jax.numpy.zeros(dim), params)

    def step() -> None:
        nonlocal key, state
        key, points, state = ask(key, state)
        points.block_until_ready()
        state = tell(key, points, values, state)
        jax.block_until_ready(state.mean)

    return step


def evotorch_snes(dim: int) -> Step:
    """The class, with a vectorised objective."""
    import torch
    from evotorch import Problem
    from evotorch.algorithms import SNES

    torch.set_num_threads(1)
    values = torch.as_tensor(_values(21), dtype=torch.float32)
    problem = Problem(
        "min",
        lambda points: values,  # noqa: ARG005
        solution_length=dim,
        initial_bounds=(-1, 1),
        dtype=torch.float32,
        vectorized=True,
    )
    return SNES(problem, stdev_init=SPACING, popsize=21).step


def evotorch_pgpe(dim: int, *, antithetic: bool) -> Step:
    """The functional interface, leaner than the class."""
    import torch
    from evotorch.algorithms.functional import pgpe, pgpe_ask, pgpe_tell

    torch.set_num_threads(1)
    number = 20 if antithetic else 21
    values = torch.as_tensor(_values(number), dtype=torch.float32)
    state = pgpe(
        center_init=torch.zeros(dim),
        center_learning_rate=RATE,
        stdev_learning_rate=RATE,
        stdev_init=SPACING,
        objective_sense="min",
        optimizer="sgd",
        symmetric=antithetic,
    )

    def step() -> None:
        nonlocal state
        points = pgpe_ask(state, popsize=number)
        state = pgpe_tell(state, points, values)

    return step


def pypop7(dim: int, name: str) -> Step:
    """GS and BES: one call of ``iterate``, which makes the points and takes their values."""
    from pypop7.optimizers.rs import bes, gs

    values = itertools.cycle(_values(21).tolist())
    problem = {
        "fitness_function": lambda x: next(values),  # noqa: ARG005
        "ndim_problem": dim,
        "lower_boundary": np.full(dim, -1.0),
        "upper_boundary": np.full(dim, 1.0),
    }
    options = {"n_individuals": 20, "x": np.zeros(dim), "seed_rng": 0, "lr": RATE, "c": SPACING}
    optimizer = {"GS": gs.GS, "BES": bes.BES}[name](problem, options)
    optimizer.start_time = time.time()  # what its ``optimize`` sets before the first iteration
    x, y = optimizer.initialize()

    def step() -> None:
        nonlocal x, y
        x, y = optimizer.iterate(x, y)

    return step


def pycma(dim: int, *, diagonal: bool) -> Step:
    """CMA-ES, with a full or a diagonal covariance."""
    import cma

    values = _values(21).tolist()
    options = {"popsize": 21, "seed": 1, "verbose": -9, "CMA_diagonal": diagonal}
    es = cma.CMAEvolutionStrategy(np.zeros(dim), SPACING, options)
    return lambda: es.tell(es.ask(), values)


def nevergrad(dim: int, name: str, number: int) -> Step:
    """One candidate after the other."""
    import nevergrad as ng

    values = _values(number).tolist()
    parametrization = ng.p.Array(shape=(dim,))
    optimizer = ng.optimizers.registry[name](parametrization=parametrization, budget=10**9)

    def step() -> None:
        for value in values:
            candidate = optimizer.ask()
            candidate.value  # noqa: B018 (makes the point)
            optimizer.tell(candidate, value)

    return step
