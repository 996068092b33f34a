"""What the commands share: who evaluates, who follows, and what is left of the result."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from gensmooth.cli.options import Given, Sets

if TYPE_CHECKING:
    from gensmooth import Result

RESULT = "result.json"
FILES = (".json", ".txt")  # how the name of a file for the result ends; others are folders
OUT = Sets("gensmooth.cli.common:finish", {"out": "out"})


def choose_evaluator(arguments: dict[str, Any], given: Given) -> None:
    """Make ``workers`` what ``--ray`` says, with the options that a cluster takes."""
    if given["ray"] is None:
        return
    from gensmooth.evaluators import Ray

    retries = arguments.pop("retries", 0)
    if arguments.get("on_failure") == "retry" and retries == 0:
        retries = 2
    arguments["workers"] = Ray(
        None if given["ray"] == "local" else given["ray"],
        num_workers=arguments.pop("workers", None),
        timeout=arguments.pop("timeout", None),
        retries=retries,
    )


def choose_trackers(arguments: dict[str, Any], given: Given) -> None:
    """Add ``--tensorboard``, ``--mlflow`` and ``--wandb`` to the trackers."""
    from gensmooth import observe

    found: list[Any] = list(arguments.get("trackers", ()))
    if given["tensorboard"] is not None:
        found.append(observe.TensorBoard(given["tensorboard"]))
    if given["mlflow"] is not None:
        found.append(observe.MLflow(given["mlflow"]))
    if given["wandb"] is not None:
        found.append(observe.WandB(given["wandb"]))
    arguments["trackers"] = found


def choose_optimizer(arguments: dict[str, Any], rate: float | None) -> None:
    """Make an optimiser of its short name and ``--learning-rate``."""
    import gensmooth as gs

    name = arguments.get("optimizer")
    if name is not None and not isinstance(name, str):
        if rate is not None:
            raise ValueError("Give either `--learning-rate` or an `--optimizer` that has one.")
        return
    if rate is not None:
        arguments["optimizer"] = getattr(gs, name or "adam")(rate)
    elif name == "adam":
        del arguments["optimizer"]
    elif name is not None:
        raise ValueError(f"`--optimizer {name}` needs a `--learning-rate`.")


def choose_out(given: Given, folder: Path | None) -> tuple[Path | None, Path | None]:
    """The run's folder and the result's file, from ``--out``; a bad one is refused before the run.

    Args:
        given: The options.
        folder: The run's folder if another option has said it; then ``--out`` is a file.
    """
    out: Path | None = given["out"]
    if out is None:
        return folder, None
    if folder is None and out.suffix not in FILES:
        return out, out / RESULT
    if out.is_dir() or not out.parent.is_dir():
        what = "a folder" if out.is_dir() else "in a folder that does not exist"
        raise ValueError(f"`--out` must be a file to write the result to, but {out} is {what}.")
    return folder, out


def finish(result: "Result", out: Path | None = None) -> None:
    """Show a result, write it to ``out``, and leave with what it means for a shell.

    Args:
        result: The result.
        out: Where to leave the result: a .json file; or a folder for the whole run, which has
            the result in result.json, beside configuration, metrics and checkpoint.
    """
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
        write(report, out)
    leave(result)


def leave(result: Any) -> None:
    """Leave with what the end of a run means for a shell."""
    if result.status == "interrupted":
        raise typer.Exit(130)
    if not result.success:
        raise typer.Exit(1)


def write(report: dict[str, Any], out: Path) -> None:
    """Write a report as JSON, in which numbers that are not finite are words."""
    out.write_text(json.dumps(_plain(report), indent=2, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in cast(dict[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast(list[Any], value)]
    return value


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
