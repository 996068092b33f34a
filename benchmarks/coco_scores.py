"""Shares of targets from the best values of runs, their standard errors, and paired differences.

A table comes from a JSON file of :mod:`benchmarks.coco`: it has the runs, in the same order for
every method, and for each method the best precision (value minus optimum) after each budget.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

TARGETS = 10.0 ** np.linspace(2, -8, 51)
OURS, CHECK = "gensmooth", "optimum"  # neither is a rival
GROUPS = {
    "separable": range(1, 6),
    "moderate": range(6, 10),
    "ill-conditioned": range(10, 15),
    "multimodal": range(15, 20),
    "weak structure": range(20, 25),
}


class Estimate(NamedTuple):
    """A mean over functions and instances.

    Attributes:
        mean: The mean.
        error: Its standard error; NaN where every function has one instance only.
    """

    mean: float
    error: float

    def words(self, sign: str = "") -> str:
        """The mean with three decimals, and ± the error."""
        around = "" if np.isnan(self.error) else f" ± {self.error:.3f}"
        return f"{self.mean:{sign}.3f}{around}".replace("-", "−")


def shares(best: Any) -> np.ndarray:
    """The share of targets that each best precision reaches; 0 for a missing one.

    >>> shares([100, 1e-8, 0, 1, None]).round(3).tolist()
    [0.02, 1.0, 1.0, 0.216, 0.0]
    """
    precisions = np.asarray(best, dtype=float)
    return (precisions[..., None] <= TARGETS * (1 + 1e-12)).mean(-1)


def estimate(values: np.ndarray, functions: Sequence[int], instances: Sequence[int]) -> Estimate:
    """The mean of runs and its standard error over instances.

    The functions are fixed, and the instances of each are a sample; runs on the same instance with
    different seeds are averaged first.
    """
    by_function: dict[int, dict[int, list[float]]] = {}
    for value, function, instance in zip(values.tolist(), functions, instances, strict=True):
        by_function.setdefault(function, {}).setdefault(instance, []).append(value)
    samples = [[np.mean(runs) for runs in group.values()] for group in by_function.values()]
    mean = float(np.mean([np.mean(sample) for sample in samples]))
    if min(map(len, samples)) < 2:
        return Estimate(mean, float("nan"))
    squares = [np.var(sample, ddof=1) / len(sample) for sample in samples]
    return Estimate(mean, float(np.sqrt(np.sum(squares)) / len(samples)))


def of_method(table: Mapping[str, Any], name: str) -> list[Estimate]:
    """A method's share after each budget."""
    return [
        estimate(shares(best), table["functions"], table["instances"])
        for best in table["methods"][name]["best"]
    ]


def against(table: Mapping[str, Any], name: str) -> list[Estimate]:
    """Our share minus a rival's after each budget, compared problem by problem."""
    ours, theirs = (table["methods"][each]["best"] for each in (OURS, name))
    return [
        estimate(shares(a) - shares(b), table["functions"], table["instances"])
        for a, b in zip(ours, theirs, strict=False)  # one of them may have fewer budgets
    ]


def last_compared(table: Mapping[str, Any]) -> int:
    """The index of the last budget that two methods were run with; of the last, if none was."""
    lengths = sorted(len(method["best"]) for method in table["methods"].values())
    return lengths[max(len(lengths) - 2, 0)] - 1


def by_group(table: Mapping[str, Any], name: str, k: int) -> dict[str, float]:
    """A method's share after the budget with this index in COCO's groups of functions."""
    functions = np.array(table["functions"])
    last = shares(table["methods"][name]["best"][k])
    chosen = {group: np.isin(functions, list(of)) for group, of in GROUPS.items()}
    return {group: float(last[where].mean()) for group, where in chosen.items() if where.any()}


def title(table: Mapping[str, Any]) -> str:
    """Suite, dimension and noise."""
    return f"{table['suite']}, d = {table['dimension']}, {said(table['noise'])}"


def said(noise: str) -> str:
    """A noise in words.

    >>> said("relative:0.1"), said("none")
    ('relative noise 0.1', 'noise-free')
    """
    kind, _, size = noise.partition(":")
    return f"{kind} noise {size}" if size else "noise-free"


def runs(table: Mapping[str, Any]) -> str:
    """How many runs a number is the mean of, and whether the methods saw f − f*."""
    counts = {
        name: len(dict.fromkeys(table[key]))
        for name, key in (("function", "functions"), ("instance", "instances"), ("seed", "seeds"))
    }
    words = [f"{n} {name}{'s' * (n > 1)}" for name, n in counts.items()]
    shown = ", methods are shown f − f*" if table["shifted"] else ""
    return f"{words[0]} × {words[1]} ({ranges(table['instances'])}) × {words[2]}{shown}"


def ranges(numbers: Sequence[int]) -> str:
    """Numbers, with consecutive ones as ranges.

    >>> ranges([6, 7, 8, 10])
    '6–8, 10'
    """
    groups: list[list[int]] = []
    for number in sorted(set(numbers)):
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(f"{r[0]}–{r[-1]}" if len(r) > 1 else str(r[0]) for r in groups)


def columns(table: Mapping[str, Any]) -> list[str]:
    """The budgets, as headings."""
    return [f"{multiplier} d" for multiplier in table["multipliers"]]


def share_rows(table: Mapping[str, Any]) -> list[list[str]]:
    """Methods and their shares; the best is marked at each budget that two were run with."""
    scores = {name: of_method(table, name) for name in table["methods"]}
    compared = [score for name, score in scores.items() if name != CHECK]
    top = [max(s[k].mean for s in compared if k < len(s)) for k in _budgets(table, compared)]
    rows: list[list[str]] = []
    last = last_compared(table)
    for name, score in scores.items():
        best = [
            name != CHECK and k <= last and e.mean >= most
            for k, (e, most) in enumerate(zip(score, top, strict=False))
        ]
        cells = [e.words() + " *" * mark for e, mark in zip(score, best, strict=False)]
        rows.append([name, *cells, *["–"] * (len(table["multipliers"]) - len(cells))])
    return rows


def _budgets(table: Mapping[str, Any], methods: Sequence[Sequence[Estimate]]) -> range:
    """The indices of the budgets that some method was run with."""
    return range(min(len(table["multipliers"]), max(map(len, methods), default=0)))


def difference_rows(table: Mapping[str, Any]) -> list[list[str]]:
    """For each rival our share minus its share; last, our share divided by the best rival's."""
    rivals = [name for name in table["methods"] if name not in (OURS, CHECK)]
    if OURS not in table["methods"] or not rivals:
        return []
    missing = ["–"] * len(table["multipliers"])
    rows: list[list[str]] = []
    for name in rivals:
        cells = [e.words("+") for e in against(table, name)]
        rows.append([name, *cells, *missing[len(cells) :]])
    others = [of_method(table, name) for name in rivals]
    ratios: list[str] = []
    ours = of_method(table, OURS)
    for k in _budgets(table, [ours]):
        top = max((each[k].mean for each in others if k < len(each)), default=0.0)
        ratios.append(f"{ours[k].mean / top:.2f} ×" if top else "–")
    return [*rows, ["ours over the best of these", *ratios, *missing[len(ratios) :]]]


def behind(table: Mapping[str, Any]) -> list[list[str]]:
    """The cases where a rival has a larger share: budget, group, best rival and difference.

    Groups of functions are compared after the last budget that two methods were run with.
    """
    rivals = [name for name in table["methods"] if name not in (OURS, CHECK)]
    if OURS not in table["methods"] or not rivals:
        return []
    functions, instances = np.array(table["functions"]), np.array(table["instances"])
    budgets, last = columns(table), last_compared(table)
    places = [(k, "all", np.full(len(functions), True)) for k in range(last + 1)]
    places += [(last, group, np.isin(functions, list(of))) for group, of in GROUPS.items()]
    rows: list[list[str]] = []
    for k, group, where in places:
        ours = table["methods"][OURS]["best"]
        differences = {
            name: estimate(
                (shares(ours[k]) - shares(best[k]))[where],
                functions[where].tolist(),
                instances[where].tolist(),
            )
            for name in rivals
            for best in [table["methods"][name]["best"]]
            if where.any() and k < min(len(ours), len(best))
        }
        name = min(differences, key=lambda name: differences[name].mean, default="")
        if name and differences[name].mean < 0:
            rows.append([title(table), budgets[k], group, name, differences[name].words("+")])
    return rows


def show(table: Mapping[str, Any]) -> None:
    """Print shares and differences."""
    console = Console(width=None if os.isatty(1) else 140)
    shown = Table(title=f"{title(table)}: share of 51 targets reached", title_justify="left")
    for name in ("method", *columns(table), "µs an evaluation", "failed"):
        shown.add_column(name, overflow="fold")
    for row in share_rows(table):
        method = table["methods"][row[0]]
        failed = f"{method['failed']}: {method['failure']}" if method["failed"] else ""
        shown.add_row(*row, f"{method['microseconds']:.3g}", failed)
    console.print(shown)
    if differences := difference_rows(table):
        paired = Table(title="ours minus theirs, problem by problem", title_justify="left")
        for name in ("rival", *columns(table)):
            paired.add_column(name, overflow="fold")
        for row in differences:
            paired.add_row(*row)
        console.print(paired)
    console.print(f"{runs(table)}; ± one standard error over instances; * the best.")
