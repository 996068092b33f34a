"""Write docs/benchmarks.md, and the tables of training-results.md and pilot-results.md.

python -m benchmarks.page [--results FOLDER] [--docs FOLDER]

The numbers come from files in docs/results.
"""

import argparse
import json
import re
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import training
from benchmarks.peers import BARS, FASTEST
from benchmarks.record import Row, digits, fill, load, markdown

HEAD = """\
# Benchmarks

This page compares gensmooth with plain NumPy and with other libraries. Its first sections are about
speed, and the last two about [the error of estimates](#errors-of-estimates) and about results in
[Nevergrad's benchmark loop](#nevergrads-benchmark-loop).

Measures of speed are ratios of CPU times on one core, in one thread, with L = 20 directions. In
each repeat, every competitor runs once, in turn. A number is the median of the ratios, with the
quartiles in parentheses.

To repeat the first two groups of measurements (`make bench` repeats everything):

```sh
python -m venv .venv-peers
.venv-peers/bin/pip install -e . evosax evotorch torch==2.13.0 nevergrad pypop7 cma
.venv-peers/bin/python -m benchmarks.core --out docs/results/benchmarks-core.json
.venv-peers/bin/python -m benchmarks.page
```

`--rows bernoulli,guided` measures only some groups, and `--quick` uses few repeats. Libraries that
are not installed are marked as missing. The other libraries need about 9 GB of memory at d =
1,000,000.
"""

CORE = """
## Against plain NumPy

A number is our time divided by NumPy's, in float32. A block has the shape (20, d) and is written
into a reused buffer, by NumPy too (`standard_normal(out=...)`, PCG64); "as a new array" means that
both allocate it. Our time includes generating the random numbers. Guided ES has a full history of
50 estimates. NumPy's estimate is a loop over directions with reused buffers. Memory is the peak of
the process beyond the caller's x, including the result.
"""

PEERS = """
## ask + tell against other libraries

A number is the library's time divided by ours, to create all points of a step and to process all
values, without an objective.

Each library is compared with gensmooth at the same d, number of evaluations and precision: 20
directions and 21 evaluations (20 if the library needs an even number), or 10 antithetic pairs if it
uses pairs. Guided ES is compared with Guided ES, and the required ratio does not apply to
it. We create points one by one and discard them, as an objective would. Libraries that create the
whole population at once do so here too.

Part of the difference is due to the directions: ours are random signs (BeS), which are faster to
draw than the normal numbers of nearly all other libraries. Guided ES has normal directions on both
sides.
"""

METHODS = """
## Algorithms by name, against other libraries

A number is the time of another library's implementation of an [algorithm](methods.md#algorithms),
divided by that of ours, to create all points of a step and to process all values, without an
objective. Both sides have the same d, number of points (10 pairs or 20 points), pairing and
precision. Bold ratios are below the goal, which is 5 at d = 100 and 10 above.

gensmooth is faster everywhere, but with normal directions by less than the goal, because normal
numbers are expensive: 1.4 ns each in float32 (a fifth of NumPy's time) and 3 ns in float64.
Generating them once takes more than half of a step. Up to two million of them are kept between the
points and the estimate. Beyond that, they are generated twice, so that no step stores L × d
numbers. Random signs, which SPSA and BeS use, cost a tenth. (The machine was also doing other work;
on an idle machine, the ratios at d = 1,000,000 were up to 1.5 times as large.)

```sh
OMP_NUM_THREADS=1 XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1" \\
    python -m benchmarks.methods --out docs/results/benchmarks-methods.json
```
"""

REGRESSION = """
## Linear regression, against sampling its data literally

A run of the [regression](problems.md#exact-data-in-od) is compared with only sampling its 50,000
data points as the model says, each with a special orthogonal matrix V of its own. There are three
ways to draw x: from N(0, Q) by NumPy, with a Cholesky factor of Q, and as V(√γ ∘ z), without
forming Q.
"""

ERRORS = """
## Errors of estimates

```sh
python -m benchmarks.errors --out docs/results/benchmarks-errors.json
```

Numbers are means, with one standard error on either side in parentheses.

### Directions in a learned subspace

[LMRS](directions.md#lmrs-directions-in-a-learned-subspace) (`gs.Learned`) is compared with
[Guided ES](glossary.md) and with Gaussian directions. The objective is a function of 3 combinations
of its 60 parameters. The table shows cos² of the angle between the estimate and the gradient, for 5
antithetic pairs per step, averaged over steps 50 to 150 of 12 seeds. Larger is better.
"""

SHRUNK = """
### Shrinkage by an estimated noise share

The table shows the MSE of [a shrunk estimate](pilot.md#the-best-length-of-a-noisy-estimate) divided
by the squared norm of the gradient, for 4,000 gradients, random signs and antithetic differences.
An estimate of zero has an MSE of 1. ρ is the noise in a slope over its signal. The share of noise
comes from the slopes of one step and one repeated value, from the mean of ten such shares, or is
known.
"""

NEVERGRAD = """
## Nevergrad's benchmark loop

gensmooth's [methods in Nevergrad](integrations.md#nevergrad) run in Nevergrad's own benchmark loop,
on rotated and shifted functions of 10 parameters, with 1,000 evaluations and one worker. A number
is the noise-free loss of the recommended point, the median of five seeds; the smallest is bold. The
ranks are those of the medians, and 1 is the best. No method of ours was tuned on these functions.

```sh
python -m benchmarks.nevergrad_loop --out docs/results/benchmarks-nevergrad.json
```
"""


def main() -> None:
    """Read, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    options = parser.parse_args()
    page = options.docs / "benchmarks.md"
    page.write_text(_benchmarks(options.results), encoding="utf-8")
    print(f"wrote {page}")
    for name in ("training", "pilot"):
        path = options.results / f"{name}-experiments.json"
        records = json.loads(path.read_text(encoding="utf-8"))
        tables = {each: _drawn(record) for each, record in records.items()}
        if name == "training":  # some are computed from every test
            tables |= training.page_tables(options.results, records)
        fill(options.docs / f"{name}-results.md", tables)


def _benchmarks(results: Path) -> str:
    """The page of benchmarks, with a section for each file of results."""
    groups = load(results / "benchmarks-core.json")
    peers = groups.pop("peers", None)
    text = HEAD
    if groups:
        rows = [row for group in groups.values() for row in group["rows"]]
        text += CORE + "\n" + _table(rows) + "\n" + _origin(list(groups.values()))
    if peers:
        fastest = [row for row in peers["rows"] if row.what.startswith(FASTEST)]
        text += PEERS + "\n" + _table(fastest) + "\n" + _pivot(peers["rows"]) + "\n"
        text += _origin([peers])
    if methods := load(results / "benchmarks-methods.json").get("methods"):
        text += METHODS + "\n" + _pivot(methods["rows"]) + "\n" + _origin([methods])
    if regression := load(results / "benchmarks-regression.json").get("regression"):
        text += REGRESSION + "\n" + _table(regression["rows"]) + "\n" + _origin([regression])
    if errors := load(results / "benchmarks-errors.json"):
        learned, shrunk = errors["learned"], errors["shrunk"]
        text += ERRORS + "\n" + _matrix(learned["rows"], "directions")
        text += SHRUNK + "\n" + _matrix(shrunk["rows"], "MSE") + "\n" + _origin([learned, shrunk])
    if nevergrad := load(results / "benchmarks-nevergrad.json").get("nevergrad"):
        text += NEVERGRAD + "\n" + _losses(nevergrad["rows"]) + "\n" + _origin([nevergrad])
    return text


def _table(rows: list[Row]) -> str:
    return markdown(["what", "measured", "must reach", "ok"], [row.cells() for row in rows]) + "\n"


def _pivot(rows: list[Row]) -> str:
    """A table with a row for each peer and a column for each d; our own times come first."""
    dims = [f"{dim:,}" for dim in BARS]
    cells: dict[str, dict[str, Row]] = {}
    for row in rows:
        name, dim = row.what.rsplit(", d = ", 1)
        if name != FASTEST:
            cells.setdefault(name, {})[dim] = row
    columns = ["time of … over our time", *(f"d = {dim}" for dim in dims), "compared with"]
    lines: list[list[str]] = []
    for name, at in cells.items():
        numbers = [_number(at[dim]) if dim in at else "" for dim in dims]
        measured = [row for row in at.values() if row.measured and row.note]
        note = measured[0].note if measured else ""
        lines.append([name, *numbers, note])
    return markdown(columns, lines) + "\n"


def _matrix(rows: list[Row], corner: str) -> str:
    """A table with a row for each thing and a column for each way, from rows "thing: way"."""
    cells = _cells(rows)
    columns = list(next(iter(cells.values())))
    lines = [[what, *(_number(at[name]) for name in columns)] for what, at in cells.items()]
    return markdown([corner, *columns], lines) + "\n"


def _losses(rows: list[Row]) -> str:
    """Median losses with the smallest in bold, and the mean rank of each optimiser."""
    cells = _cells(rows)
    names = list(next(iter(cells.values())))
    lines: list[list[str]] = []
    ranks: list[list[float]] = []
    for what, at in cells.items():
        medians = [row.measured.median for row in at.values() if row.measured is not None]
        shown = [
            f"**{value:.2g}**" if value == min(medians) else f"{value:.2g}" for value in medians
        ]
        lines.append([what, *shown])
        below = [sum(other < value for other in medians) for value in medians]
        ranks.append([b + (medians.count(v) + 1) / 2 for b, v in zip(below, medians, strict=True)])
    means = [f"{statistics.mean(column):.2f}" for column in zip(*ranks, strict=True)]
    lines.append([f"mean rank of {len(names)}", *means])
    return markdown(["function", *names], lines) + "\n"


def _cells(rows: list[Row]) -> dict[str, dict[str, Row]]:
    """Rows "thing: way" by thing and way; without a way, it is the unit."""
    cells: dict[str, dict[str, Row]] = {}
    for row in rows:
        what, _, way = row.what.partition(": ")
        cells.setdefault(what, {})[way or row.unit] = row
    return cells


def _number(row: Row) -> str:
    if row.measured is None:
        return row.note
    median, low, high = (digits(value) for value in row.measured)
    unit = " µs" if row.unit.startswith("µs") else ""
    shown = f"**{median}**" if row.ok is False else f"{median}{unit}"
    return f"{shown} ({low}–{high})"


def _origin(groups: list[dict[str, Any]]) -> str:
    """Command, date and machine; groups that were measured together share a line."""
    keys = ("date", "commit", "command", "machine")
    seen = dict.fromkeys(tuple(group[key] for key in keys) for group in groups)
    return "\n".join(
        f"Measured {day} at commit {commit} with `{how}` on {where}.\n"
        for day, commit, how, where in seen
    )


def _drawn(record: Mapping[str, Any]) -> str:
    """The table of an experiment; its format is one for all numbers, or one for each column."""
    kinds = record.get("format", ",")
    kinds = [kinds] * len(record["columns"]) if isinstance(kinds, str) else kinds
    rows = [[_cell(*pair) for pair in zip(row, kinds, strict=True)] for row in record["rows"]]
    return markdown(record["columns"], rows)


def _cell(value: Any, kind: str) -> str:
    """A word, a number, several numbers, or a difference with its standard error."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(_cell(each, kind) for each in value)
    if isinstance(value, dict):
        sign = "+" if value["mean"] > 0 else ""
        return f"{sign}{_cell(value['mean'], kind)} ± {_cell(value['error'], kind)}"
    if kind == "share":  # .128
        return re.sub(r"\b0\.", ".", _cell(value, ".3f"))
    return f"{value:{kind}}".replace("-", "−")


if __name__ == "__main__":
    main()
