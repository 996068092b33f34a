"""Draws the figures and writes the tables of docs/network.md, from the tables of results.

    python -m examples.network_theory.page [--tables FOLDER] [--page FILE] [--check]

Needs Matplotlib, not torch. `--check` only says whether the page's tables are those of the results.
"""

import argparse
import csv
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from examples.network_theory.landscape import greedy_rate, widest_spacing

from gensmooth.lab.report.style import drawing, method_style, method_title

Row = dict[str, str]
FAMILIES = ("gs", "bes", "gs-shrinkage", "bes-shrinkage", "orthogonal", "low-rank")
TASKS = ("transformer", "convnet")
L, BATCH = 32, 32  # of the errors; of a forward pass of the fine-tuning


def read(tables: Path, name: str) -> list[Row]:
    """The rows of network-NAME.csv."""
    with (tables / f"network-{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def only(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The rows that have these values."""
    return [r for r in rows if all(r[key] == str(value) for key, value in wanted.items())]


def numbers(rows: Iterable[Row], key: str) -> np.ndarray:
    """One column."""
    return np.array([float(r[key]) for r in rows])


def place(row: Row) -> str:
    """Where in the training a row was measured."""
    return "shifted task" if row["shifted"] == "True" else f"step {row['step']}"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# --- tables --------------------------------------------------------------------------------------


def errors_table(tables: Path) -> str:
    """Predicted error of each family, and measured over predicted, over all checkpoints."""
    found = only(read(tables, "errors"), what="limit")
    rows: list[list[str]] = []
    for part, words in (("all", "all parameters"), ("head.weight", "the head")):
        for family in FAMILIES:
            number = only(found, part=part)[0]["num_directions"]
            name = method_title(family) if family != "low-rank" else "low-rank, rank 1"
            cells = [f"{words}, L = {number}", name]
            for task in TASKS:
                here = only(found, part=part, directions=family, task=task)
                predicted, ratio = numbers(here, "predicted"), numbers(here, "ratio")
                error = numbers(here, "standard_error") / predicted
                low, high = f"{predicted.min():.4g}", f"{predicted.max():.4g}"
                mean_error = math.sqrt(np.square(error).sum()) / len(here)
                cells += [low if low == high else f"{low}–{high}", _plus(ratio.mean(), mean_error)]
            rows.append(cells)
    heading = ["", "directions"]
    for task in TASKS:
        heading += [f"{task}: predicted", "measured / predicted"]
    return table(heading, rows)


def _plus(mean: float, error: float) -> str:
    """A number and its standard error, to the digits that the error leaves."""
    digits = max(0, 1 - math.floor(math.log10(error))) if error > 0 else 3
    return f"{mean:.{min(digits, 6)}f} ± {error:.{min(digits, 6)}f}"


def z_table(tables: Path) -> str:
    """How many of the measurements lie how far from their predictions."""
    found = read(tables, "errors")
    groups: list[tuple[str, list[Row]]] = [
        ("all families, limit of small spacings", only(found, what="limit")),
        ("minibatch, shared by all points", only(found, samples="shared")),
        ("minibatch, one for each direction", only(found, samples="paired")),
    ]
    spaced = only(found, what="spacing")
    for estimator, dtype in (("forward", "float64"), ("antithetic", "float64")):
        these = only(spaced, estimator=estimator, dtype=dtype)
        for c in dict.fromkeys(r["spacing"] for r in these):
            groups.append((f"{estimator}, c = {c}", only(these, spacing=c)))
    single = only(spaced, dtype="float32")
    for c in dict.fromkeys(r["spacing"] for r in single):
        groups.append((f"forward in float32, c = {c}", only(single, spacing=c)))
    rows: list[list[str]] = []
    for words, these in groups:
        z, ratio = numbers(these, "z"), numbers(these, "ratio")
        far = int((np.abs(z) > 3).sum())
        spread = f"{ratio.min():.3g} … {np.median(ratio):.3g} … {ratio.max():.3g}"
        rows.append([words, str(len(these)), spread, f"{far} of {len(z)}"])
    return table(
        ["", "measurements", "measured / predicted: least, median, most", "beyond 3 σ"], rows
    )


def landscape_table(tables: Path) -> str:
    """What backpropagation says of each place, and what follows for spacing and step."""
    rows: list[list[str]] = []
    for r in read(tables, "landscape"):
        f = {key: float(value) for key, value in r.items() if key not in ("task", "shifted")}
        G = f["gradient_norm2"]
        rows.append(
            [
                r["task"],
                place(r),
                f"{f['loss']:.3g}",
                f"{G:.3g}",
                f"{f['noise_trace'] / BATCH / G:.2g}",
                f"{f['trace']:.0f} ± {f['trace_error']:.0f}",
                f"{widest_spacing(f, L):.1g}",
            ]
        )
    heading = [
        "",
        "",
        "loss",
        "‖g‖²",
        "tr V/(N‖g‖²), N = 32",
        "tr H",
        "spacing that doubles the error",
    ]
    return table(heading, rows)


def finetune_table(tables: Path) -> str:
    """The end of every fine-tuning."""
    runs, curves = read(tables, "runs"), read(tables, "curves")
    landscape = {r["task"]: r for r in only(read(tables, "landscape"), shifted=True)}
    rows: list[list[str]] = []
    for task in TASKS:
        facts = {k: float(v) for k, v in landscape[task].items() if k not in ("task", "shifted")}
        for method, number in arms(runs):
            ours = only(runs, use="reporting", task=task, method=method, num_directions=number)
            scores = numbers(ours, "score")
            ends = [
                only(curves, task=task, method=method, num_directions=number, seed=r["seed"])[-1]
                for r in ours
            ]
            zeroth = method in ("gs", "bes")
            rate = (
                "finds its own" if method == "pilot" else f"{float(ours[0]['learning_rate']):.2g}"
            )
            greedy = greedy_rate(facts, int(number), BATCH) if zeroth else None
            error = scores.std(ddof=1) / math.sqrt(scores.size)
            rows.append(
                [
                    task,
                    title(method, number),
                    f"{float(ours[0]['rate']):g}" if zeroth else "",
                    rate,
                    f"{greedy:.2g}" if greedy else ("none" if zeroth else ""),
                    f"{scores.mean():.3f} ± {error:.3f}",
                    f"{100 * numbers(ends, 'accuracy').mean():.1f} %",
                ]
            )
    heading = ["", "", "κ chosen", "learning rate", "greedy rate", "loss", "right answers"]
    return table(heading, rows)


def arms(runs: list[Row]) -> list[tuple[str, str]]:
    """Methods and their L, in order."""
    reported = only(runs, use="reporting")
    return list(dict.fromkeys((r["method"], r["num_directions"]) for r in reported))


def title(method: str, number: str) -> str:
    """What an arm is called."""
    if method == "backprop":
        return "backpropagation, Adam"
    return "pilot" if method == "pilot" else f"{method_title(method)}, L = {number}"


def differences_table(tables: Path) -> str:
    """Differences of the final loss between arms on the same seeds, in standard errors."""
    runs = only(read(tables, "runs"), use="reporting")

    def scores(task: str, method: str, number: int) -> np.ndarray:
        these = only(runs, task=task, method=method, num_directions=number)
        return numbers(sorted(these, key=lambda r: r["seed"]), "score")

    pairs = [((m, 8), (m, 1)) for m in ("gs", "bes")]
    pairs += [((m, 32), (m, 8)) for m in ("gs", "bes")]
    pairs += [(("bes", n), ("gs", n)) for n in (1, 8, 32)]
    pairs += [(("pilot", 0), (m, 32)) for m in ("gs", "bes")]
    rows: list[list[str]] = []
    for one, other in pairs:
        cells = [" − ".join(title(m, str(n)) for m, n in (one, other))]
        for task in TASKS:
            gap = scores(task, *one) - scores(task, *other)
            cells.append(f"{gap.mean():+.3f} ± {gap.std(ddof=1) / math.sqrt(gap.size):.3f}")
        rows.append(cells)
    return table(["loss of … minus loss of …", *TASKS], rows)


# --- figures -------------------------------------------------------------------------------------


def draw_errors(tables: Path, axes: Any) -> None:
    """Measured over predicted, by family and checkpoint."""
    found = only(read(tables, "errors"), what="limit")
    for i, task in enumerate(TASKS):
        for j, (part, words) in enumerate((("all", "all parameters"), ("head.weight", "the head"))):
            axis = axes[j][i]
            axis.axhline(1, color="#5f6670", linewidth=0.8)
            for k, family in enumerate(FAMILIES):
                these = only(found, task=task, part=part, directions=family)
                ratio, style = numbers(these, "ratio"), method_style(family)
                error = 2 * numbers(these, "standard_error") / numbers(these, "predicted")
                at = np.arange(len(these)) + (k - 2.5) * 0.13
                label = "low-rank" if family == "low-rank" else method_title(family)
                axis.errorbar(
                    at, ratio, error, fmt=style.marker, color=style.color, ms=3, lw=1, label=label
                )
            axis.set_xticks(range(len(these)), [place(r) for r in these], fontsize=6.5)
            axis.set_title(f"{task}, {words}")
            axis.set_ylabel("measured / predicted")


def draw_spacing(tables: Path, axes: Any) -> None:
    """Errors over the spacing: measured, and the Lemma with and without the quadratic term."""
    found = only(read(tables, "errors"), what="spacing")
    series = (
        ("forward", "float64", "#0072b2", "s"),
        ("antithetic", "float64", "#c44a10", "^"),
        ("forward", "float32", "#5f6670", "o"),
    )
    for j, task in enumerate(TASKS):
        places = list(dict.fromkeys(place(r) for r in only(found, task=task)))
        for i, where in enumerate([places[0], places[-2], places[-1]]):
            axis = axes[j][i]
            here = [r for r in only(found, task=task) if place(r) == where]
            for estimator, dtype, color, marker in series:
                these = only(here, estimator=estimator, dtype=dtype)
                c, error = numbers(these, "spacing"), 2 * numbers(these, "standard_error")
                axis.errorbar(
                    c,
                    numbers(these, "measured"),
                    error,
                    fmt=marker,
                    color=color,
                    ms=3.5,
                    lw=1,
                    label=f"{estimator}, {dtype}",
                )
                axis.plot(c, numbers(these, "predicted"), color=color, lw=1)
            axis.set(xscale="log", yscale="log", xlabel="spacing c", title=f"{task}, {where}")
            axis.set_ylabel("MSE / ‖g‖²")


def draw_finetune(tables: Path, axes: Any) -> None:
    """Held-out loss over forward passes, mean and two standard errors over the seeds."""
    curves = read(tables, "curves")
    dashes = {"1": (1.2, 1.2), "8": (4, 1.5), "32": (), "0": ()}
    colors = {"backprop": "#7a828c"}
    for axis, task in zip(axes, TASKS, strict=True):
        known = dict.fromkeys((r["method"], r["num_directions"]) for r in curves)
        for method, number in known:
            these = only(curves, task=task, method=method, num_directions=number)
            seeds = list(dict.fromkeys(r["seed"] for r in these))
            runs = [only(these, seed=seed) for seed in seeds]
            length = min(map(len, runs))
            loss = np.stack([numbers(run[:length], "loss") for run in runs])
            passes = numbers(runs[0][:length], "passes")
            error = 2 * loss.std(0, ddof=1) / math.sqrt(len(runs))
            color = colors.get(method) or method_style(method).color
            axis.plot(
                passes,
                loss.mean(0),
                color=color,
                lw=1.4,
                dashes=dashes[number] or (None, None),
                label=title(method, number),
            )
            axis.fill_between(
                passes, loss.mean(0) - error, loss.mean(0) + error, color=color, alpha=0.12, lw=0
            )
        axis.set(yscale="log", xlabel="forward passes", ylabel="held-out loss", title=task)
        low, high = axis.get_ylim()
        ticks = [m * 10.0**e for e in range(-3, 3) for m in (1, 2, 5)]
        shown = [tick for tick in ticks if low <= tick <= high]
        axis.set_yticks(shown, [f"{tick:g}" for tick in shown])
        axis.set_yticks([], minor=True)


FIGURES: tuple[tuple[str, Callable[[Path, Any], None], tuple[int, int]], ...] = (
    ("network-errors", draw_errors, (2, 2)),
    ("network-spacing", draw_spacing, (2, 3)),
    ("network-finetune", draw_finetune, (1, 2)),
)
TABLES: dict[str, Callable[[Path], str]] = {
    "errors": errors_table,
    "z": z_table,
    "landscape": landscape_table,
    "finetune": finetune_table,
    "differences": differences_table,
}


def draw(tables: Path, folder: Path) -> None:
    """Draw all figures."""
    from matplotlib.figure import Figure

    for name, make, (rows, columns) in FIGURES:
        with drawing():
            figure = Figure(figsize=(3.4 * columns, 2.5 * rows + 0.4), layout="constrained")
            axes = figure.subplots(rows, columns)
            make(tables, axes)
            handles, labels = np.ravel(axes)[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5))
            figure.savefig(folder / f"{name}.png", dpi=110)


def with_tables(text: str, tables: Path) -> str:
    """The page with each table between its marks made anew."""
    for name, make in TABLES.items():
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        made = make(tables)
        text = mark.sub(lambda m, made=made: f"{m[1]}\n{made}\n{m[2]}", text)
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw and write, or check."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.network_theory.page",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tables", type=Path, default=Path("docs/results"))
    parser.add_argument("--page", type=Path, default=Path("docs/network.md"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    text = options.page.read_text(encoding="utf-8")
    made = with_tables(text, options.tables)
    if options.check:
        sys.exit(0 if made == text else f"{options.page} differs from {options.tables}.")
    draw(options.tables, options.page.parent / "figures")
    options.page.write_text(made, encoding="utf-8")
    print(f"wrote {options.page} and {len(FIGURES)} figures")


if __name__ == "__main__":
    main()
