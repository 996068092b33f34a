"""Write docs/coco.md from the results on COCO's problems.

python -m benchmarks.coco_page [--results FILE.json] [--page FILE.md]
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.coco import load
from benchmarks.coco_methods import CONTROLS, METHODS
from benchmarks.coco_scores import (
    behind,
    by_group,
    columns,
    difference_rows,
    ranges,
    runs,
    said,
    share_rows,
)

RESULTS, PAGE = Path("docs/results/coco.json"), Path("docs/coco.md")
CHOSEN = range(1, 6)  # instances on which the default was tuned
NOISES = ("none", "relative", "additive")

HEAD = """\
# COCO: the default call beside other optimisers

Numbers on this page come from `docs/results/coco.json`; `python -m benchmarks.coco_page` writes it.

[COCO](https://coco-platform.org)'s suites are 24 functions in many dimensions and instances
(rotations, shifts, optimal values). A number is the share of 51 targets that a method has reached
after 10 d, 30 d … evaluations: precision f − f* of 1e2, 1e1.8 … 1e-8, averaged over functions and
instances. ± is one standard error over instances, and the best of a column has a star. Differences
are paired: our share minus theirs, on the same problems from the same starts.

- All methods start at the same point, which is drawn for each problem, uniform in [−4, 4]^d. None
  gets bounds. Methods that need a step size get 2. A method that stops is restarted at another such
  point if restarting is left to its user; otherwise it keeps its best value.
- Values are COCO's, optimal value included, unless a table says otherwise. Noise is drawn here,
  normal: *relative* 0.1 multiplies f − f* by 1 + 0.1 z, *additive* 1 adds z. A target counts as
  reached when a method evaluates a point whose noise-free value is that good, whether or not the
  method can know.
- All evaluations up to the budget count, including those for finite differences.
- Our default was chosen on instances {chosen}; the ones reported here are {reported}. There is one
  exception: a result at d = 10 on the reported instances prompted us to begin with L-BFGS. How long
  it is used was chosen on 1–3.
- The line below a table names the commit. bbob-largescale at d = 160 and 320 was measured with an
  earlier default, which had a diagonal metric there.
- A run ends when its last target is reached. A dash means that a method was not run that long.
- µs is the CPU time of an evaluation in microseconds, that of the objective included.

To repeat it (`make bench` does the same; `--workers` is the number of processes, `--observer NAME`
also writes COCO's own output for its post-processing):

```sh
pip install -e . coco-experiment cma cmaes scipy nlopt nevergrad
{commands}
python -m benchmarks.coco_page
```

| method | called as |
|---|---|
{methods}"""

TRAILING = """
## Where the default trails

Every budget after which some method of this page has a larger share than the default, and every
group of functions in which one has after the largest budget. Differences are paired, ± one standard
error.

"""


def page(tables: Sequence[Mapping[str, Any]]) -> str:
    """The page, with a section for each suite and noise, and subsections for the dimensions."""
    tables = sorted(tables, key=_place)
    used = dict.fromkeys(name for table in tables for name in table["methods"])
    known = METHODS | CONTROLS
    instances = {instance for table in tables for instance in table["instances"]}
    commands = [m["command"] for table in tables for m in table["methods"].values()]
    text = HEAD.format(
        chosen=ranges(CHOSEN),
        reported=ranges(sorted(instances)),
        commands="\n".join(dict.fromkeys(commands)),
        methods="".join(f"| {name} | {known[name].words} |\n" for name in known if name in used),
    )
    if trailing := [row for table in tables for row in behind(table)]:
        text += TRAILING + _table(
            ["problems", "after", "functions", "best", "ours minus it"], trailing
        )
    section = ""
    for table in tables:
        heading = f"{table['suite']}, {said(table['noise'])}"
        if heading != section:
            section = heading
            text += f"\n## {heading}\n"
        text += _section(table)
    return text


def _place(table: Mapping[str, Any]) -> tuple[Any, ...]:
    kind, _, size = table["noise"].partition(":")
    return (
        table["suite"],
        NOISES.index(kind),
        float(size or 0),
        table["dimension"],
        table["shifted"],
    )


def _section(table: Mapping[str, Any]) -> str:
    """Shares, differences, groups of functions, and the origin of the numbers."""
    methods = table["methods"]
    rows = [[*row, f"{methods[row[0]]['microseconds']:.3g}"] for row in share_rows(table)]
    text = f"\n### d = {table['dimension']}\n\n{runs(table)}.\n\n"
    text += _table(["share of targets", *columns(table), "µs"], rows)
    if differences := difference_rows(table):
        text += "\n" + _table(["ours minus …", *columns(table)], differences)
    longest = {name for name in methods if len(methods[name]["best"]) == len(columns(table))}
    groups = {name: by_group(table, name) for name in methods if name in longest}
    names = list(next(iter(groups.values()), {}))
    if len(names) > 1:
        cells = [
            [name, *(f"{each[group]:.3f}" for group in names)] for name, each in groups.items()
        ]
        text += f"\nBy group of functions, after {columns(table)[-1]}:\n\n"
        text += _table(["", *names], cells)
    for name, method in methods.items():
        if method["failed"]:
            text += (
                f"\n{name}: {method['failed']} runs ended with an error ({method['failure']}).\n"
            )
    keys = ("date", "commit", "command", "machine")
    origins: dict[tuple[str, ...], list[str]] = {}
    for name, method in methods.items():
        origins.setdefault(tuple(method[key] for key in keys), []).append(name)
    for (day, commit, how, where), of in origins.items():
        whose = "" if len(origins) == 1 else f" ({', '.join(of)})"
        text += f"\nMeasured {day} at commit {commit} with `{how}` on {where}{whose}.\n"
    return text


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(c.replace(' *', ' ★') for c in line)} |\n" for line in lines)


def main() -> None:
    """Read, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coco_page", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    tables = load(options.results)
    if not tables:
        sys.exit(f"{options.results} has no tables; python -m benchmarks.coco --out makes them")
    options.page.write_text(page(tables), encoding="utf-8")
    print(f"wrote {options.page}")


if __name__ == "__main__":
    main()
