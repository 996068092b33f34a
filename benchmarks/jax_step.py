"""A jitted zeroth-order step of gs.jax against the same step with ``jax.random.normal``.

    python -m benchmarks.jax_step [--dim 1000000] [--quick] [--out FILE.json]

Forward differences with 20 directions on a sphere; CPU times, in turns, ratios turn by turn.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import gensmooth as gs
from benchmarks.record import Row, commit, save, show
from benchmarks.timing import FULL, QUICK, interleave, ratio, spread

NUMBER, SPACING, RATE = 20, 0.1, 1e-3
BAR = 5.0


def sphere(x: Any) -> Any:
    """The sum of squares, which costs one pass over x."""
    return jnp.sum(x * x)


def ours(method: str) -> Any:
    """One step of gradient descent with our estimate."""
    estimate = gs.jax.gradient(
        sphere, num_directions=NUMBER, spacing=SPACING, method=method, seed=0
    )
    return jax.jit(lambda x, step: x - RATE * estimate(x, step=step))


def with_random_normal() -> Any:
    """The same step as usually written: each direction has a key, and is drawn twice, not kept."""

    def direction(x: Any, step: Any, index: Any) -> Any:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), step), index)
        return jax.random.normal(key, x.shape)

    @jax.jit
    def step(x: Any, number: Any) -> Any:
        indices, center = jnp.arange(NUMBER), sphere(x)
        differences = jax.lax.map(
            lambda i: sphere(x + SPACING * direction(x, number, i)) - center, indices
        )

        def add(total: Any, one: Any) -> Any:
            index, difference = one
            return total + difference * direction(x, number, index), None

        total, _ = jax.lax.scan(add, jnp.zeros_like(x), (indices, differences))
        return x - RATE / (NUMBER * SPACING) * total

    return step


def main() -> int:
    """Measure, print, save; 1 when the bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jax_step", description=__doc__)
    parser.add_argument("--dim", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="few repeats, to see that it works")
    parser.add_argument("--out", type=Path, help="JSON file to add the results to")
    options = parser.parse_args()
    before, x = commit(), jnp.ones(options.dim)
    steps = {"coin": ours("bes"), "normal": ours("gs"), "theirs": with_random_normal()}
    times = interleave(
        {name: lambda call=call: call(x, 1).block_until_ready() for name, call in steps.items()},
        QUICK if options.quick else FULL,
    )
    what = f"one step, d = {options.dim:.0e}, L = {NUMBER}"
    rows = [
        Row(f'{what}: method="bes"', ratio(times, "theirs", "coin"), "× as fast", BAR, True),
        Row(f'{what}: method="gs"', ratio(times, "theirs", "normal"), "× as fast"),
        Row("  jax.random.normal takes", spread(1e3 * times["theirs"]), "ms"),
    ]
    show(rows, "A jitted step in JAX, against the same with jax.random.normal")
    if options.out:
        command = " ".join(["python -m benchmarks.jax_step", *sys.argv[1:]])
        save(options.out, {"jax": rows}, command, ["gensmooth", "numpy", "jax"], before)
    return int(any(row.ok is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
