"""Write docs/coco.md, and the README's table, from the results on COCO's problems.

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
    last_compared,
    ranges,
    runs,
    said,
    share_rows,
    title,
)
from benchmarks.record import fill, markdown

RESULTS, PAGE, README = (Path(p) for p in ("docs/results/coco.json", "docs/coco.md", "README.md"))
CHOSEN = range(1, 6)  # instances on which the default was tuned
NOISES = ("none", "relative", "additive")
FRONT = {  # methods in the README's table
    "gensmooth": "`gs.minimize(fun, x0)`",
    "slsqp": "SciPy SLSQP",
    "bfgs": "SciPy BFGS",
    "newuoa": "NLopt NEWUOA",
    "pycma": "pycma",
    "bipop-cma": "pycma, BIPOP restarts",
    "lq-cma": "pycma, lq-CMA-ES",
}

HEAD = """\
# COCO: the default call and other optimisers

`python -m benchmarks.coco_page` writes this page from `docs/results/coco.json`.

[COCO](https://coco-platform.org)'s suites have 24 functions in several dimensions and instances
(rotations, shifts, optimal values). A method is scored by the share of 51 targets that it reaches
within 10 d, 30 d … evaluations. The targets are precisions f − f* of 1e2, 1e1.8 … 1e-8, and shares
are means over functions and instances. ± is one standard error over instances.
"""

OVERVIEW = """
## Overview

Each number is our share divided by the largest share of the other methods. Above 1, the default is
the best.

"""

TRAILING = """
## Where the default trails

The rows with "all" functions are the budgets after which another method has a larger share than the
default. The other rows are the groups of functions on which another method has a larger share
after the largest budget with which more than one method was run. Differences are paired (our share
minus theirs, on the same problems from the same starts), ± one standard error.

"""

RULES = """
## How it was measured

- **Held-out instances.** Our default was chosen on instances {chosen}; the ones reported here are
  {reported}. There are six exceptions: results on the reported instances prompted us to begin
  with L-BFGS (at d = 10), to use it up to 1000 parameters instead of 500 (at d = 640), to let
  the population [grow more slowly](pilot-results.md#the-population-of-a-full-metric) (at d = 40),
  to [triple it at restarts](pilot-results.md#the-population-of-a-restart) (f7 at d = 40), to
  leave quasi-Newton [where it has stalled](pilot-results.md#where-quasi-newton-has-stalled) (at
  d = 20), and to [explore unknown directions](pilot-results.md#exploring-unknown-directions) (f11
  at d = 80). How long L-BFGS is used, and how slowly the population grows, was chosen on 1–3, and
  the last three on 1–5.
- **Numbers of instances.** Each table names its instances. bbob-largescale at d = 80 and 160 was
  first measured on 6 and 7 only, where errors are unreliable, and then on 6–10; d = 320 and 640
  still have only 6 and 7. On 6 and 7 alone, SLSQP is still ahead after 10 d at d = 80 (by .009, all
  of it on f11).
- **Start.** For each problem, all methods start at the same point, drawn uniformly from [−4, 4]^d.
  None gets bounds. Methods that need a step size get 2.
- **Restarts.** A method that stops is restarted at another such point if it leaves restarting to
  its user. Otherwise it keeps its best value.
- **Evaluations.** All of them count, including those for finite differences. A run ends when its
  last target is reached.
- **Noise** is normal and drawn by this benchmark. *Relative* 0.1 multiplies f − f* by 1 + 0.1 z;
  *additive* 1 adds z. A target counts as reached when a method evaluates a point whose noise-free
  value is that good, even if the method cannot know it. COCO's own suite with noise, bbob-noisy, is
  not used: it returns noisy values only, which do not show whether a target is reached.
- **µs** is the CPU time per evaluation in microseconds, including that of the objective. Compare it
  only within one measurement (numbered below each table): it depends on what else the machine does.
- **Dashes and stars.** A dash means that a method was not run that long. A star marks the best of a
  column, unless only one method was run that long.

| method | called as |
|---|---|
{methods}"""

SOURCES = """
## Commands, commits and machines

`make bench` repeats everything. `--workers` is the number of processes, and `--observer NAME` also
writes COCO's own output for its post-processing.

```sh
pip install -e . coco-experiment cma cmaes scipy nlopt nevergrad
{commands}
python -m benchmarks.coco_page
```

| | measured | machine and versions |
|---|---|---|
{origins}"""


def page(tables: Sequence[Mapping[str, Any]]) -> str:
    """The page, with a section for each suite and noise, and subsections for the dimensions."""
    tables = sorted(tables, key=_place)
    used = dict.fromkeys(name for table in tables for name in table["methods"])
    known = METHODS | CONTROLS
    instances = {instance for table in tables for instance in table["instances"]}
    commands = [m["command"] for table in tables for m in table["methods"].values()]
    text = HEAD
    if compared := [table for table in tables if difference_rows(table)]:
        text += OVERVIEW + _overview(compared)
    if trailing := [row for table in tables for row in behind(table)]:
        text += TRAILING + _table(
            ["problems", "after", "functions", "best", "ours minus it"], trailing
        )
    text += RULES.format(
        chosen=ranges(CHOSEN),
        reported=ranges(sorted(instances)),
        methods="".join(f"| {name} | {known[name].words} |\n" for name in known if name in used),
    )
    origins = dict.fromkeys(_origin(m) for table in tables for m in table["methods"].values())
    section = ""
    for table in tables:
        heading = f"{table['suite']}, {said(table['noise'])}"
        if heading != section:
            section = heading
            text += f"\n## {heading}\n"
        text += _section(table, list(origins))
    return text + SOURCES.format(
        commands="\n".join(dict.fromkeys(commands)),
        origins="".join(
            f"| {number} | {day} at commit {commit} | {where} |\n"
            for number, (day, commit, where) in enumerate(origins, 1)
        ),
    )


def _place(table: Mapping[str, Any]) -> tuple[Any, ...]:
    kind, _, size = table["noise"].partition(":")
    return (
        table["suite"],
        NOISES.index(kind),
        float(size or 0),
        table["dimension"],
        table["shifted"],
    )


def _origin(method: Mapping[str, Any]) -> tuple[str, str, str]:
    return method["date"], method["commit"], method["machine"]


def _overview(tables: Sequence[Mapping[str, Any]]) -> str:
    """Our share over the best of the others, a row for each table."""
    budgets = sorted({number for table in tables for number in table["multipliers"]})
    rows: list[list[str]] = []
    for table in tables:
        ratios = difference_rows(table)[-1][1:]
        known = dict(zip(table["multipliers"], ratios, strict=True))
        cells = [known.get(number, "–").removesuffix(" ×") for number in budgets]
        rows.append([title(table), *cells])
    return _table(["problems", *(f"{number} d" for number in budgets)], rows)


def _section(table: Mapping[str, Any], known: Sequence[tuple[str, str, str]]) -> str:
    """Shares, differences, groups of functions, and which measurement they come from."""
    methods = table["methods"]
    rows = [[*row, f"{methods[row[0]]['microseconds']:.3g}"] for row in share_rows(table)]
    text = f"\n### d = {table['dimension']}\n\n{runs(table)}.\n\n"
    text += _table(["share of targets", *columns(table), "µs"], rows)
    if differences := difference_rows(table):
        text += "\n" + _table(["ours minus …", *columns(table)], differences)
    last = last_compared(table)
    groups = {
        name: by_group(table, name, last) for name in methods if len(methods[name]["best"]) > last
    }
    names = list(next(iter(groups.values()), {}))
    if len(names) > 1:
        cells = [
            [name, *(f"{each[group]:.3f}" for group in names)] for name, each in groups.items()
        ]
        text += f"\nBy group of functions, after {columns(table)[last]}:\n\n"
        text += _table(["", *names], cells)
    for name, method in methods.items():
        if method["failed"]:
            text += (
                f"\n{name}: {method['failed']} runs ended with an error ({method['failure']}).\n"
            )
    origins: dict[tuple[str, str, str], list[str]] = {}
    for name, method in methods.items():
        origins.setdefault(_origin(method), []).append(name)
    whose = [f"{known.index(each) + 1} ({', '.join(names)})" for each, names in origins.items()]
    numbers = str(known.index(next(iter(origins))) + 1) if len(origins) == 1 else "; ".join(whose)
    return text + f"\n[Measurement](#commands-commits-and-machines) {numbers}.\n"


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(c.replace(' *', ' ★') for c in line)} |\n" for line in lines)


def front(tables: Sequence[Mapping[str, Any]]) -> str:
    """The README's table: bbob without noise at d = 20; the best of all methods is bold."""
    (table,) = (
        t for t in tables if (t["suite"], t["dimension"], t["noise"]) == ("bbob", 20, "none")
    )
    budgets = [20 * multiplier for multiplier in table["multipliers"]]
    rows: list[list[str]] = []
    for name, *cells in share_rows(table):
        marked = [(cell.split(" ")[0].removeprefix("0"), cell.endswith("*")) for cell in cells]
        rows.append([name, *(f"**{share}**" if best else share for share, best in marked)])
    shown = {name: cells for name, *cells in rows}
    columns = ["evaluations", *(f"{budget:,}" for budget in budgets)]
    return markdown(columns, [[label, *shown[name]] for name, label in FRONT.items()])


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
    if README.exists():
        fill(README, {"coco-front": front(tables)})


if __name__ == "__main__":
    main()
