"""Measures, fine-tunes, and writes tables; started again, it makes only what is missing.

    python -m examples.network_theory [--out out/network] [--quick] [--tables docs/results]

Takes about ten minutes on one core. Each measurement and each run is a file of its own in `--out`.
Figures and page are made from the tables: python -m examples.network_theory.page.
"""

import argparse
import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from examples.network_theory import errors, finetune
from examples.network_theory.settings import QUICK, Settings
from examples.network_theory.tasks import Task, pretrain
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Rows = list[dict[str, Any]]


class Folder:
    """Finished pieces, one JSON file each."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        ours, file = json.loads(json.dumps(asdict(settings))), path / "settings.json"
        if not file.exists():
            self.write("settings", ours)
        elif (theirs := json.loads(file.read_text())) != ours:
            differ = ", ".join(name for name in ours if ours[name] != theirs.get(name))
            sys.exit(f"{path} was begun with other settings ({differ}): choose another --out.")

    def has(self, name: str) -> bool:
        """Whether a piece is finished."""
        return (self.path / f"{name}.json").exists()

    def read(self, name: str) -> Any:
        """A finished piece."""
        return json.loads((self.path / f"{name}.json").read_text())

    def write(self, name: str, found: Any) -> None:
        """Write a piece and rename it: it is there as a whole or not at all."""
        file = self.path / f"{name}.json"
        part = file.with_suffix(".part")
        part.write_text(json.dumps(found))
        os.replace(part, file)


def measure(folder: Folder, settings: Settings, progress: Progress) -> None:
    """Errors of estimates along the training of each network, and where its fine-tuning begins."""
    work = progress.add_task("errors", total=sum(len(t.checkpoints) + 1 for t in settings.tasks()))
    for task in settings.tasks():
        places = [(step, False) for step in task.checkpoints] + [(task.steps, True)]
        parameters: dict[int, Any] = {}
        for i, (step, shifted) in enumerate(places):
            name = f"errors-{task.name}-{step}{'-shifted' if shifted else ''}"
            if not folder.has(name):
                parameters = parameters or trained(task)
                landscape, rows = errors.at_checkpoint(
                    task, parameters[step], settings, shifted=shifted, first_seed=100_000 * i
                )
                place = {"task": task.name, "step": step, "shifted": shifted}
                folder.write(name, [place | landscape, [place | found for found in rows]])
            progress.advance(work)


def trained(task: Task) -> dict[int, Any]:
    """The parameters at each checkpoint of the training by backpropagation."""
    return dict(pretrain(task, task.steps, keep=task.checkpoints))


def tune(folder: Folder, settings: Settings, progress: Progress) -> None:
    """All fine-tunings: the grid first, then what it chose, on other seeds."""
    for task in settings.tasks():
        start: dict[str, Any] = {}

        def make(
            runs: Sequence[finetune.Run], title: str, task: Task = task, start: Any = start
        ) -> None:
            work = progress.add_task(f"{task.name}, {title}", total=len(runs))
            for run in runs:
                if not folder.has(run.name):
                    start.update(start or trained(task)[task.steps])
                    folder.write(run.name, finetune.train(task, start, run, settings))
                progress.advance(work)

        make(finetune.tuning_runs(task, settings), "learning rates")
        make(reporting(folder, task, settings), "fine-tuning")


def reporting(folder: Folder, task: Task, settings: Settings) -> list[finetune.Run]:
    """The runs that are reported, by what the grid says."""
    return finetune.reporting_runs(task, settings, lambda run: folder.read(run.name)["score"])


# --- tables --------------------------------------------------------------------------------------

ERRORS = (
    *("task", "step", "shifted", "what", "part", "directions", "dim", "num_directions", "spacing"),
    *("samples", "estimator", "dtype", "repetitions", "measured", "standard_error", "predicted"),
    *("ratio", "z"),
)
LANDSCAPE = (
    *("task", "step", "shifted", "dim", "loss", "gradient_norm2", "noise_trace"),
    *("trace", "trace_error", "frobenius2", "diagonal2", "along", "noise_along"),
)
RUNS = ["use", "task", "method", "num_directions", "rate", "learning_rate", "seed", "score"]
CURVES = ["task", "method", "num_directions", "seed", "passes", "loss", "accuracy"]


def write_tables(folder: Folder, settings: Settings, out: Path) -> None:
    """Everything that was found, as four CSV files."""
    landscape: Rows = []
    found: Rows = []
    runs: Rows = []
    curves: Rows = []
    for task in settings.tasks():
        for step, end in [*((step, "") for step in task.checkpoints), (task.steps, "-shifted")]:
            place, rows = folder.read(f"errors-{task.name}-{step}{end}")
            landscape.append(place)
            found += rows
        uses: list[tuple[str, Callable[[], Iterable[finetune.Run]]]] = [
            ("tuning", lambda task=task: finetune.tuning_runs(task, settings)),
            ("reporting", lambda task=task: reporting(folder, task, settings)),
        ]
        for use, which in uses:
            for run in which():
                piece = folder.read(run.name)
                runs.append({"use": use} | piece)
                if use == "reporting":
                    keys = ("passes", "loss", "accuracy")
                    curves += [piece | dict(zip(keys, r, strict=True)) for r in piece["curve"]]
    out.mkdir(parents=True, exist_ok=True)
    tables = (("errors", ERRORS, found), ("landscape", LANDSCAPE, landscape))
    for name, columns, rows in (*tables, ("runs", RUNS, runs), ("curves", CURVES, curves)):
        with (out / f"network-{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([_short(row.get(column, "")) for column in columns] for row in rows)


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def main(arguments: Sequence[str] | None = None) -> None:
    """Make what is missing, then the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.network_theory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("out/network"), help="folder of pieces")
    parser.add_argument("--tables", type=Path, help="folder of the tables; default: --out")
    parser.add_argument("--quick", action="store_true", help="seconds, to see that it works")
    options = parser.parse_args(arguments)
    settings = QUICK if options.quick else Settings()
    torch.set_num_threads(1)  # the networks are small: threads would wait for each other
    folder = Folder(options.out, settings)
    bars = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), *bars) as progress:
        measure(folder, settings, progress)
        tune(folder, settings, progress)
    write_tables(folder, settings, options.tables or options.out)
    print(f"wrote network-*.csv to {options.tables or options.out}")


if __name__ == "__main__":
    main()
