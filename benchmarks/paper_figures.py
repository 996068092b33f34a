"""Draw the figures of docs/paper.md from the tables in docs/results.

    python -m benchmarks.paper_figures

It makes no runs; half a minute. Curves are means of the seeds. Intervals are drawn at a few rounds
only, side by side, because six overlapping bands cannot be told apart.
"""

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
import numpy as np

from gensmooth.lab.experiments.statistics import interval
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.paper.rl.settings import ENVIRONMENTS
from gensmooth.lab.report.style import method_style, method_title

DOCS = Path(__file__).parents[1] / "docs"
RESULTS, FIGURES = DOCS / "results", DOCS / "figures"
AT = (10, 30, 50, 70, 90)  # rounds at which intervals are drawn


def read(name: str) -> list[dict[str, str]]:
    """The rows of a table of docs/results."""
    with (RESULTS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def save(figure: Any, name: str, methods: Iterable[str]) -> None:
    """Add the legend of the methods, and write the figure."""
    handles = [
        plt.Line2D([], [], color=method_style(m).color, label=method_title(m)) for m in methods
    ]
    width, height = figure.get_size_inches()
    columns = len(handles) if width > 8 else 3
    figure.legend(handles=handles, loc="lower center", ncols=columns, frameon=False)
    figure.tight_layout(rect=(0, 0.25 * -(-len(handles) // columns) / height, 1, 1))
    figure.savefig(FIGURES / f"{name}.png", dpi=110)
    plt.close(figure)


def line(axes: Any, method: str, number: int, mean: Any, low: Any, high: Any) -> None:
    """A curve, with its intervals at a few rounds; ``number`` moves them beside the others."""
    color, rounds = method_style(method).color, np.arange(1, len(mean) + 1)
    axes.plot(rounds, mean, color=color, lw=1.3)
    at = [r + number for r in AT if r + number <= len(mean)]
    rows = np.array(at) - 1
    axes.vlines(at, np.asarray(low)[rows], np.asarray(high)[rows], color=color, lw=1.6)


def curves(
    source: str, panels: Sequence[tuple[str, Callable[[dict[str, str]], bool]]], column: str
) -> list[tuple[str, dict[str, list[tuple[int, float, float]]]]]:
    """Mean and deviation at each round, by panel and method."""
    rows, found = read(source), []
    for title, here in panels:
        by_method: dict[str, list[tuple[int, float, float]]] = defaultdict(list)
        for row in rows:
            if here(row) and row[f"{column}_mean"]:
                values = (row[f"{column}_mean"], row[f"{column}_sd"] or "nan")
                by_method[row["method"]].append((int(row["round"]), *map(float, values)))
        found.append((title, by_method))
    return found


def drawn(name: str, found: Any, columns: int, methods: Sequence[str], ylabel: str) -> None:
    """Panels of means with one standard deviation, logarithmic."""
    rows = -(-len(found) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(3.3 * columns, 2.4 * rows), squeeze=False)
    for axes, (title, by_method) in zip(grid.flat, found, strict=False):
        for number, method in enumerate(methods):
            points = sorted(by_method.get(method, ()))
            if points:
                rounds, mean, sd = np.array(points).T
                color = method_style(method).color
                axes.plot(rounds, mean, color=color, lw=1.3)
                at = [int(np.abs(rounds - (r + number)).argmin()) for r in AT]
                low = np.maximum(mean - sd, mean * 0.05)  # a logarithmic axis has no 0
                axes.vlines(rounds[at], low[at], (mean + sd)[at], color=color, lw=1.6)
        missing = [method_title(m) for m in methods if m not in by_method]
        if missing:
            text = "every choice of the grid diverged:\n" + "\n".join(missing)
            axes.text(0.5, 0.95, text, transform=axes.transAxes, ha="center", va="top", fontsize=7)
        if not by_method:
            axes.set_xticks([])
            axes.set_yticks([])
            axes.minorticks_off()
            axes.set_title(title, fontsize=9)
            continue
        axes.set_yscale("log")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("round")
        axes.set_ylabel(ylabel)
    save(figure, name, methods)


def lemma() -> None:
    """Measured over predicted error, by the Lemma and by our formula; and the Lemma's terms."""
    rows, methods = read("runs-linreg.csv"), paper.METHODS[:4]
    settings = [(L, N) for N in (5, 15, 50) for L in (2, 6, 20)]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.4), sharey=True)
    for axes, column, title in (
        (left, "over_lemma", "over the Lemma’s"),
        (right, "over_exact", "over the one for shared samples (ours)"),
    ):
        for number, method in enumerate(methods):
            for place, (L, N) in enumerate(settings):
                sample = [
                    float(row[column])
                    for row in rows
                    if (row["method"], row["num_directions"], row["num_samples"])
                    == (method, str(L), str(N))
                ]
                mean, low, high = interval(sample)
                x, color = place + 0.16 * (number - 1.5), method_style(method).color
                axes.vlines(x, low, high, color=color)
                axes.plot(x, mean, "o", color=color, ms=3)
        axes.axhline(1, color="gray", lw=0.8)
        axes.set_xticks(range(9), [f"{L}, {N}" for L, N in settings], fontsize=7)
        axes.set_xlabel("L, N")
        axes.set_title(f"Measured MSE {title}", fontsize=10)
    save(figure, "paper-lemma", methods)


def first_term() -> None:
    """The two terms of the Lemma for GS at the start of the regression."""
    from gensmooth.directions import named
    from gensmooth.lab.paper.linreg.mse import lemma as terms
    from gensmooth.lab.paper.linreg.mse import minimizer, noise_trace_of

    gradient2, noise = 100 * (1 + minimizer(100) ** 2), noise_trace_of(100, 0.0, 100.0)
    figure, axes = plt.subplots(figsize=(5, 2.8))
    for place, N in enumerate((5, 15, 50)):
        found = terms(named("gs"), dim=100, num_directions=20, num_samples=N)
        heights = (found.gradient * gradient2, found.noise * noise)
        for shift, height, label, color in zip(
            (-0.2, 0.2), heights, ("first term", "second term"), ("#4c72b0", "#dd8452"), strict=True
        ):
            axes.bar(place + shift, height, 0.36, color=color, label=label if not place else None)
    axes.set_xticks(range(3), ["N = 5", "N = 15", "N = 50"])
    axes.set_ylabel("part of the MSE")
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(FIGURES / "paper-first-term.png", dpi=110)
    plt.close(figure)


def returns(name: str, **where: str) -> dict[str, Any]:
    """Test returns by method, one row per seed."""
    found: dict[str, list[list[float]]] = defaultdict(list)
    for row in read(name):
        if all(row[key] == value for key, value in where.items()):
            tests = [float(v) for key, v in row.items() if key.startswith("test ") and v]
            found[row["method"]].append(tests)
    return {method: np.array(tests) for method, tests in found.items()}


def row_environment(source: str) -> str:
    """The environment of a table of returns."""
    return Path(source).stem.removeprefix("returns-rl-")


def learning(name: str, panels: Sequence[tuple[str, str, dict[str, str]]], columns: int) -> None:
    """Mean test return with its 95 % interval over the seeds; cells without runs are empty."""
    rows = -(-len(panels) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(3.3 * columns, 2.3 * rows), squeeze=False)
    for axes, (title, source, where) in zip(grid.flat, panels, strict=False):
        found = returns(source, **where) if (RESULTS / source).exists() else {}
        bottom, top = np.inf, -np.inf
        for number, method in enumerate(paper.METHODS):
            if method in found:
                ends = np.array([interval(column) for column in found[method].T]).T
                line(axes, method, number, *ends)
                bottom = min(bottom, np.quantile(ends[0], 0.03))
                top = max(top, ends[0].max())
        if found:
            known = ENVIRONMENTS[row_environment(source)]
            bottom = max(bottom, known.still - 2 * (known.learned - known.still))  # then arrowheads
            room = 0.1 * (top - bottom)
            axes.set_ylim(bottom - room, top + room)
            lost = [method_title(m) for m in paper.METHODS if m not in found]
            below = [m for m in found if found[m].mean(0).min() < bottom - room]
            for i, m in enumerate(below):
                color = method_style(m).color
                axes.plot(2 + 4 * i, bottom - 0.7 * room, "v", color=color, ms=5)
            note = f"missing: {', '.join(lost)}" if lost else ""
        else:
            note = "not run"
        axes.text(0.98, 0.25, note, transform=axes.transAxes, ha="right", fontsize=7)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("round")
        axes.set_ylabel("test return")
    save(figure, name, paper.METHODS)


def main() -> None:
    """Draw every figure."""
    lemma()
    first_term()
    settings = [(L, N) for N in (5, 15, 50) for L in (2, 6, 20)]

    def at(L: int, N: int) -> Callable[[dict[str, str]], bool]:
        return lambda row: (row["num_directions"], row["num_samples"]) == (str(L), str(N))

    panels = [(f"L = {L}, N = {N}", at(L, N)) for L, N in settings]
    found = curves("curves-linreg.csv", panels, "loss")
    drawn("paper-linreg-loss", found, 3, paper.METHODS[:4], "test loss")

    def on(name: str, d: int, L: int) -> Callable[[dict[str, str]], bool]:
        wanted = (name, str(d), str(L))
        return lambda row: (row["objective"], row["dim"], row["num_directions"]) == wanted

    sizes = ((10, 1), (100, 10), (100, 100))
    objectives = ("sphere", "rosenbrock", "hm", "cigar")
    panels = [(f"{o}, d = {d}, L = {L}", on(o, d, L)) for o in objectives for d, L in sizes]
    found = curves("curves-dfo.csv", panels, "objective")
    drawn("paper-dfo", found, 3, paper.METHODS, "objective")
    cheetah = "returns-rl-HalfCheetahRandVel.csv"
    learning(
        "paper-readings",
        [
            (f"{words}, L = {L}", f"{folder}/{cheetah}", {"num_directions": str(L)})
            for words, folder in (
                ("one goal, two starts", "rl-shared-goal"),
                ("two goals, two starts", "rl-independent"),
                ("one goal, one start", "rl-paired"),
            )
            for L in paper.RL_DIRECTIONS
        ],
        3,
    )
    ant = "rl-paired/returns-rl-Ant.csv"
    learning(
        "paper-ant",
        [
            (f"Ant, L = {L}", ant, {"num_directions": str(L), "part": "main"})
            for L in paper.RL_DIRECTIONS
        ],
        3,
    )
    learning(
        "paper-ablations",
        [
            (f"Ant, L = 20, {words}", ant, {"part": part})
            for words, part in (("network", "mlp"), ("antithetic", "antithetic"))
        ],
        2,
    )


if __name__ == "__main__":
    main()
