"""What ``minimize`` and ``resume`` share: where to evaluate, who follows, and the report."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gensmooth.observe import Tracker
    from gensmooth.optimize import Result

WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", "-w", help="Processes to evaluate in; -1 is one a core."),
]
RayOption = Annotated[
    str | None,
    typer.Option("--ray", help="Evaluate on a Ray cluster: its address, or 'local' to start one."),
]
TimeoutOption = Annotated[
    float | None, typer.Option(help="Seconds an evaluation may take; needs --workers or --ray.")
]
RetriesOption = Annotated[
    int | None, typer.Option(help="How often a failed evaluation is tried again.")
]
EveryOption = Annotated[
    str | None,
    typer.Option(help="Checkpoint every so often: 100 (steps), 30s, 5m, or both as 100,30s."),
]
ProgressOption = Annotated[
    bool | None,
    typer.Option("--progress/--no-progress", help="A table on a terminal, lines elsewhere."),
]
TensorBoardOption = Annotated[
    Path | None, typer.Option("--tensorboard", help="Write TensorBoard's files to this folder.")
]
MLflowOption = Annotated[
    str | None, typer.Option("--mlflow", help="Log to this MLflow tracking URI.")
]
WandBOption = Annotated[
    str | None, typer.Option("--wandb", help="Log to this Weights & Biases project.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", help="Write the result here, as JSON.")
]


def local_workers(given: int | None) -> int:
    """``--workers``, or 1; a 0 is passed on, to be complained about."""
    return 1 if given is None else given


def ray_evaluator(
    address: str, workers: int | None, timeout: float | None, retries: int | None
) -> Any:
    """The evaluator for ``--ray``."""
    from gensmooth.evaluators import Ray

    return Ray(
        None if address == "local" else address,
        num_workers=workers,
        timeout=timeout,
        retries=retries or 0,
    )


def chosen_trackers(
    tensorboard: Path | None, mlflow: str | None, wandb: str | None
) -> "list[Tracker]":
    """The trackers that were asked for."""
    from gensmooth import observe

    found: list[Tracker] = []
    if tensorboard is not None:
        found.append(observe.TensorBoard(tensorboard))
    if mlflow is not None:
        found.append(observe.MLflow(mlflow))
    if wandb is not None:
        found.append(observe.WandB(wandb))
    return found


def check_out(out: Path | None) -> None:
    """Refuse a file that cannot be written before the run, not when its result would be lost."""
    if out is None:
        return
    if out.is_dir() or not out.parent.is_dir():
        what = "a folder" if out.is_dir() else "in a folder that does not exist"
        raise ValueError(f"`--out` must be a file to write the result to, but {out} is {what}.")


def finish(result: "Result", out: Path | None) -> None:
    """Show a result, write it to ``out``, and leave with what it means for a shell."""
    report = {
        "x": result.x.tolist(),
        "fun": result.fun,
        "best_x": result.best_x.tolist(),
        "best_fun": result.best_fun,
        "nfev": result.nfev,
        "nit": result.nit,
        "success": result.success,
        "status": result.status,
        "message": result.message,
        "dropped": result.dropped,
        "faults": dict(result.faults),
        "seed": result.seed,
    }
    show(report, out)
    if out is not None:
        from gensmooth.describe import plain

        words = {k: plain(v) if isinstance(v, float) else v for k, v in report.items()}
        out.write_text(json.dumps(words, indent=2, allow_nan=False) + "\n")
    if result.status == "interrupted":
        raise typer.Exit(130)
    if not result.success:
        raise typer.Exit(1)


def show(report: dict[str, Any], out: Path | None = None) -> None:
    """Print names and values; ``out`` is where long ones can be read."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None)
    for key, value in report.items():
        text = f"{value:.8g}" if isinstance(value, float) else str(value)
        if isinstance(value, list) and len(text) > 200:
            where = out if out is not None else "--out result.json has them"
            text = f"{text[:100]}… ({where})"
        table.add_row(key, text)
    Console().print(table)
