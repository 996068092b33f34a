"""ask + tell of the algorithms with other libraries' names, against those libraries' own.

    python -m benchmarks.methods [--quick] [--out FILE.json]

Each pair has the same d, number of evaluations, pairing and precision, and one thread. The
objective costs nothing: its values are given.
"""

import argparse
import itertools
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import gensmooth as gs
from benchmarks import rivals
from benchmarks.record import Row, commit, save, show
from benchmarks.rivals import Step
from benchmarks.timing import FULL, QUICK, Effort, interleave, spread

PACKAGES = ["evosax", "jax", "evotorch", "torch", "pypop7", "nevergrad"]
BARS = {100: 5, 10_000: 10, 1_000_000: 10}
PAIRS, POINTS = 10, 20


def ours(name: str, number: int, dtype: str, dim: int) -> Step:
    """gensmooth, points one by one."""
    x0 = np.zeros(dim, dtype)
    size = {"population" if name == "snes" else "num_directions": number}
    search = gs.search(name, x0, spacing=rivals.SPACING, **size)
    state = search.init(x0, seed=0)
    values = np.random.default_rng(0).standard_normal(len(search.ask(state)))

    def step() -> None:
        nonlocal state
        batch = search.ask(state)
        for _ in batch.points():
            pass
        state, _ = search.tell(state, batch, values)

    return step


def evosax(name: str, dim: int) -> Step:
    """ARS with gradient descent, Open_ES with Adam and weight decay, or SNES."""
    import jax
    import jax.numpy as jnp
    import optax
    from evosax.algorithms import ARS, SNES, Open_ES

    common: dict[str, object] = {"population_size": POINTS, "solution": jnp.zeros(dim)}
    constant = optax.constant_schedule(rivals.SPACING)
    if name == "ARS":
        es = ARS(**common, optimizer=optax.sgd(0.02), std_schedule=constant)
    elif name == "Open_ES":
        adam = optax.chain(optax.add_decayed_weights(0.005), optax.adam(0.01))
        es = Open_ES(**common, optimizer=adam, std_schedule=constant)
    else:
        es = SNES(**common)
    return rivals._evosax(jax, es, dim, lambda old, new: new)  # noqa: ARG005


def evotorch_pgpe(dim: int) -> Step:
    """Symmetric PGPE with centred ranks and Adam: EvoTorch's closest method to OpenAI-ES."""
    import torch
    from evotorch.algorithms.functional import pgpe, pgpe_ask, pgpe_tell

    torch.set_num_threads(1)
    values = torch.as_tensor(rivals._values(POINTS), dtype=torch.float32)
    state = pgpe(
        center_init=torch.zeros(dim),
        center_learning_rate=0.01,
        stdev_learning_rate=0.0,
        stdev_init=rivals.SPACING,
        objective_sense="min",
        optimizer="adam",
        symmetric=True,
    )

    def step() -> None:
        nonlocal state
        points = pgpe_ask(state, popsize=POINTS)
        state = pgpe_tell(state, points, values)

    return step


def evotorch_snes(dim: int) -> Step:
    """EvoTorch's class SNES with a vectorised objective."""
    import torch
    from evotorch import Problem
    from evotorch.algorithms import SNES

    torch.set_num_threads(1)
    values = torch.as_tensor(rivals._values(POINTS), dtype=torch.float32)
    problem = Problem(
        "min",
        lambda points: values,  # noqa: ARG005
        solution_length=dim,
        initial_bounds=(-1, 1),
        dtype=torch.float32,
        vectorized=True,
    )
    return SNES(problem, stdev_init=rivals.SPACING, popsize=POINTS).step


def pypop7_snes(dim: int) -> Step:
    """PyPop7's SNES: a step is one ``iterate``, which makes and evaluates points, and an update."""
    from pypop7.optimizers.nes.snes import SNES

    values = itertools.cycle(rivals._values(POINTS).tolist())
    problem = {
        "fitness_function": lambda x: next(values),  # noqa: ARG005
        "ndim_problem": dim,
        "lower_boundary": np.full(dim, -1.0),
        "upper_boundary": np.full(dim, 1.0),
    }
    options = {"n_individuals": POINTS, "mean": np.zeros(dim), "sigma": rivals.SPACING}
    optimizer = SNES(problem, {**options, "seed_rng": 0, "max_function_evaluations": np.inf})
    optimizer.start_time = time.time()  # what its ``optimize`` sets before the first iteration
    s, y, mean, d = optimizer.initialize()

    def step() -> None:
        nonlocal s, y, mean, d
        s, y = optimizer.iterate(s, y, mean, d)
        mean, d = optimizer._update_distribution(s, y, mean, d)

    return step


class Peer(NamedTuple):
    """A method of another library, and our method that it is compared with."""

    name: str
    ours: str
    make: Callable[[int], Step]


OURS: dict[str, Callable[[int], Step]] = {
    "ARS V1-t, 10 pairs, float32": partial(ours, "ars-v1-t", PAIRS, "float32"),
    "OpenAI-ES, 10 pairs, float32": partial(ours, "openai-es", PAIRS, "float32"),
    "SNES, 20 points, float32": partial(ours, "snes", POINTS, "float32"),
    "SNES, 20 points, float64": partial(ours, "snes", POINTS, "float64"),
    "SPSA, 1 pair, float64": partial(ours, "spsa", 1, "float64"),
}
_ARS, _OPENAI, _SNES, _SNES_64, _SPSA = OURS
PEERS = [
    Peer("evosax ARS", _ARS, partial(evosax, "ARS")),
    Peer("evosax Open_ES", _OPENAI, partial(evosax, "Open_ES")),
    Peer("EvoTorch PGPE, Adam", _OPENAI, evotorch_pgpe),
    Peer("evosax SNES", _SNES, partial(evosax, "SNES")),
    Peer("EvoTorch SNES", _SNES, evotorch_snes),
    Peer("PyPop7 SNES", _SNES_64, pypop7_snes),
    Peer("Nevergrad SPSA", _SPSA, partial(rivals.nevergrad, name="SPSA", number=2)),
]


def methods(effort: Effort, dims: list[int] | None = None) -> list[Row]:
    """How many times faster we are than each, at each d."""
    rows: list[Row] = []
    for dim, bar in BARS.items():
        if dims and dim not in dims:
            continue
        steps = {name: make(dim) for name, make in OURS.items()}
        missing: dict[str, str] = {}
        for peer in PEERS:
            print(f"  d = {dim:,}: {peer.name} …", file=sys.stderr, flush=True)
            try:
                steps[peer.name] = peer.make(dim)
                steps[peer.name]()
            except ModuleNotFoundError:
                missing[peer.name] = "not installed"
            except Exception as error:  # an error in a peer must not end the benchmark
                steps.pop(peer.name, None)
                missing[peer.name] = f"fails: {type(error).__name__}: {error}"[:100]
        repeats = effort.repeats if dim < 1_000_000 else max(5, effort.repeats // 4)
        times = interleave(steps, effort._replace(repeats=repeats))
        for name in OURS:
            rows.append(Row(f"{name}, d = {dim:,}", spread(1e6 * times[name]), "µs a step"))
        for peer in PEERS:
            found = None
            if peer.name in times:
                found = spread(times[peer.name] / times[peer.ours])
            note = missing.get(peer.name, peer.ours)
            what = f"{peer.name}, d = {dim:,}"
            rows.append(Row(what, found, "× our time", bar, at_least=True, note=note))
    return rows


def main() -> int:
    """Measure, print, save; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.methods", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repeats, to see that it works")
    parser.add_argument("--out", type=Path, help="JSON file to add the results to")
    parser.add_argument("--dims", type=int, nargs="*", help="of these numbers of parameters only")
    options = parser.parse_args()
    before = commit()
    rows = methods(QUICK if options.quick else FULL, options.dims)
    show(rows, "ask + tell: time of other libraries over ours, one thread")
    if options.out:
        command = " ".join(["python -m benchmarks.methods", *sys.argv[1:]])
        packages = ["gensmooth", "numpy", "numba", *PACKAGES]
        save(options.out, {"methods": rows}, command, packages, before)
    return int(any(row.ok is False for row in rows))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
