"""Draw the figures of docs/paper.md and docs/results from the tables in docs/results.

    python -m benchmarks.paper_figures

It makes no runs; a minute. The figures are those of the report, drawn by its functions, and four
more: ``paper-lemma``, ``paper-first-term``, ``paper-readings`` and ``paper-ant``.
"""

import csv
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from gensmooth.directions import named
from gensmooth.lab.experiments.spec import Outcome, RunRecord
from gensmooth.lab.experiments.statistics import interval
from gensmooth.lab.experiments.store import StudyStore
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.paper.dfo import figures as dfo
from gensmooth.lab.paper.linreg import figures as linreg
from gensmooth.lab.paper.linreg.mse import lemma, minimizer, noise_trace_of
from gensmooth.lab.paper.rl import figures as rl
from gensmooth.lab.paper.rl.settings import ENVIRONMENTS, PARTS, RlOptions, samples_of
from gensmooth.lab.report.axes import label_axes
from gensmooth.lab.report.curves import Band, Curve, Drawn, legend
from gensmooth.lab.report.figure import Figure, LegendItem, Panel, method_item, write_figure
from gensmooth.lab.report.style import MUTED, method_style
from gensmooth.lab.report.tables import Cell

DOCS = Path(__file__).parents[1] / "docs"
RESULTS, FIGURES = DOCS / "results", DOCS / "figures"
READINGS = {
    "shared-goal": "one goal, two starts",
    "independent": "two goals, two starts",
    "paired": "one goal, one start",
}
SETTINGS = [(L, N) for N in (5, 15, 50) for L in (2, 6, 20)]
DIM = 100


def read(name: str) -> list[dict[str, str]]:
    """Return the rows of a table of docs/results."""
    with (RESULTS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def save(figure: Figure, name: str = "") -> None:
    """Write a figure as PNG."""
    svg, _ = write_figure(figure._replace(name=name or figure.name), FIGURES)
    svg.unlink()


def curves_of(study: str, keys: Sequence[str], series: Sequence[str]) -> list[Curve]:
    """Return the curves of a study from its table."""
    groups: dict[tuple[Any, ...], list[dict[str, str]]] = defaultdict(list)
    for row in read(f"curves-{study}.csv"):
        setting = tuple(row[k] if k == "objective" else int(row[k]) for k in keys)
        groups[setting, row["method"]].append(row)
    found: list[Curve] = []
    for (setting, method), rows in groups.items():
        n = np.array([int(row["n"]) for row in rows])
        bands: dict[str, Band] = {}
        for name in series:
            if rows[0][f"{name}_mean"]:
                mean, sd = ([float(r[f"{name}_{k}"]) for r in rows] for k in ("mean", "sd"))
                bands[name] = Band(np.array(mean), np.array(sd), n)
        number = int(rows[0]["num_directions"])
        lost = int(rows[0]["left_out"])
        found.append(
            Curve(setting, method, bands, int(rows[0]["iterations"]), number, n[0] + lost, lost)
        )
    return found


def cells_of(study: str) -> list[Cell]:
    """Return the choices of a grid search from their table."""

    def pair(row: dict[str, str], *names: str) -> tuple[float, float] | None:
        a, b = (row[name] for name in names)
        return (float(a), float(b)) if a else None

    return [
        Cell(
            row["setting"],
            row["method"],
            pair(row, "spacing", "learning_rate"),
            pair(row, "paper_spacing", "paper_learning_rate"),
            float("nan"),
        )
        for row in read(f"hyperparameters-{study}.csv")
    ]


def records_of(resets: str) -> list[RunRecord]:
    """Return the runs under a reading of the resets, as far as the figures need them."""
    found: list[RunRecord] = []
    for name, known in ENVIRONMENTS.items():
        table = f"rl-{samples_of(resets, name)}/returns-rl-{name}.csv"
        for row in read(table) if (RESULTS / table).exists() else ():
            if row["part"] == "momentum":  # the paper has no figure of it
                continue
            tests = [float(v) for key, v in row.items() if key.startswith("test ") and v]
            config = {
                "environment": known.name,
                **PARTS[row["part"]],
                "num_directions": int(row["num_directions"]),
                "method": row["method"],
                "seed": int(row["seed"]),
                "rounds": paper.RL_ROUNDS,
                "iterations": paper.RL_ITERATIONS,
                "test_trials": int(row["test_trials"]),
                "device": row.get("device", "cpu"),
            }
            found.append(RunRecord(config, {"return": tests}, -tests[-1], False, 0.0))
    return found


def archived(folder: str) -> list[RunRecord]:
    """Return the runs in the archives of a folder."""
    with tempfile.TemporaryDirectory() as out:
        for path in sorted((RESULTS / folder / "runs").glob("*.tar.xz")):
            with tarfile.open(path) as archive:
                archive.extractall(out, filter="data")
        return list(StudyStore(Path(out) / "rl", "rl").everything().records.values())


def twenty_seeds() -> None:
    """Draw the figures of the runs with 20 seeds."""
    cheetah = "HalfCheetahRandVel"
    for folder, resets, names in (
        ("rl-20-seeds", "paired", ("Walker2d", cheetah, "Hopper")),
        ("rl-shared-goal-20-seeds", "shared-goal", ("Walker2d", cheetah, "Hopper")),
    ):
        options = RlOptions(profile="paper", resets=resets, parts=("main",), environments=names)
        for figure in rl.draw(Outcome("rl", "", "", archived(folder), options)).figures:
            save(figure, figure.name.replace("rl", folder, 1))


def learning() -> None:
    """Draw the figures of reinforcement learning, and those of single findings."""
    drawn: dict[str, Drawn] = {}
    for resets in READINGS:
        records = records_of(resets)
        options = RlOptions(profile="paper", resets=resets)  # pyright: ignore[reportArgumentType]
        drawn[resets] = rl.draw(Outcome("rl", "", "", records, options))
        for figure in drawn[resets].figures:
            if (resets, figure.name) != ("independent", "rl-ablations"):  # drawn under shared-goal
                save(figure, figure.name.replace("rl", f"rl-{resets}", 1))
    name = ENVIRONMENTS["HalfCheetahRandVel"].name
    settings = [(name, *PARTS["main"].values(), L) for L in paper.RL_DIRECTIONS]
    panels = [
        rl.panel_of(drawn[resets].curves, setting, cut=False)._replace(
            title=f"{words}, L = {setting[-1]}"
        )
        for (resets, words), setting in product(READINGS.items(), settings)
    ]
    items = legend([c for c in drawn["paired"].curves if c.setting in settings])
    title = "HalfCheetahRandVel: test return under three readings of the resets"
    save(Figure("paper-readings", title, "", "", 3, panels, items, left=0.16, right=0.93))
    ant = next(f for f in drawn["shared-goal"].figures if f.name == "rl")
    save(ant._replace(title="Ant: test return", panels=ant.panels[:3]), "paper-ant")


def measured_over_predicted() -> None:
    """Draw the measured over the predicted error, by the Lemma and by our formula."""
    rows, methods = read("runs-linreg.csv"), paper.METHODS[:4]

    def draw(ax: Any, column: str) -> None:
        for (number, method), (place, (L, N)) in product(enumerate(methods), enumerate(SETTINGS)):
            wanted = (method, str(L), str(N))
            sample = [
                float(row[column])
                for row in rows
                if (row["method"], row["num_directions"], row["num_samples"]) == wanted
            ]
            mean, low, high = interval(sample)
            x, style = place + 0.16 * (number - 1.5), method_style(method)
            ax.vlines(x, low, high, color=style.color, lw=1.1)
            ax.plot(x, mean, style.marker, color=style.color, ms=3.6, mew=0)
        ax.axhline(1, color=MUTED, lw=0.8)
        ax.set_ylim(0.9, 1.3)
        ax.set_xticks(range(9), [f"{L}, {N}" for L, N in SETTINGS], fontsize=7)
        label_axes(ax, "L, N", "measured ÷ predicted")

    panels = [
        Panel(title, "n = 20", "", partial(draw, column=column))
        for column, title in (
            ("over_lemma", "the Lemma’s"),
            ("over_exact", "ours, for shared samples"),
        )
    ]
    bar = LegendItem("95 % interval of the mean", "marker", marker="|", hollow=True)
    items = [*map(method_item, methods), bar]
    title = "Linear regression: measured over predicted MSE"
    save(Figure("paper-lemma", title, "", "", 2, panels, items))


def first_term() -> None:
    """Draw the two terms of the Lemma for GS at the start of the regression."""
    gradient2 = DIM * (1 + minimizer(DIM) ** 2)
    noise = noise_trace_of(DIM, 0.0, float(DIM))
    colors = {"first term": method_style("gs").color, "second term": method_style("bes").color}

    def draw(ax: Any) -> None:
        for place, N in enumerate((5, 15, 50)):
            terms = lemma(named("gs"), dim=DIM, num_directions=20, num_samples=N)
            heights = (terms.gradient * gradient2, terms.noise * noise)
            for shift, height, color in zip((-0.2, 0.2), heights, colors.values(), strict=True):
                ax.bar(place + shift, height, 0.36, color=color)
                ax.text(place + shift, height, f"{height:,.0f}", ha="center", va="bottom", size=7)
        ax.set_xticks(range(3), ["N = 5", "N = 15", "N = 50"])
        label_axes(ax, "samples per iteration", "part of the MSE")

    items = [LegendItem(words, "marker", color, marker="s") for words, color in colors.items()]
    panel = Panel("GS, L = 20", "", "", draw)
    title = "The Lemma’s two terms at the start"
    save(Figure("paper-first-term", title, "", "", 1, [panel], items, left=0.16))


def main() -> None:
    """Draw every figure."""
    measured_over_predicted()
    first_term()
    for figure in linreg.figures(curves_of("linreg", linreg.KEYS, linreg.SERIES), ()):
        save(figure)
    save(dfo.figure(curves_of("dfo", dfo.KEYS, ("objective",)), cells_of("dfo")))
    learning()
    twenty_seeds()


if __name__ == "__main__":
    main()
