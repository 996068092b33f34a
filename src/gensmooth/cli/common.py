"""What the commands share: who evaluates, who follows, and what is left of the result."""

import json
import math
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import typer

from gensmooth.cli.options import Given, Sets

if TYPE_CHECKING:
    from gensmooth import Result

RESULT = "result.json"
STANDARD_OUTPUT = Path("-")
# Of a result; error, noise and warnings are in the words on fun, and in the message.
_SHOWN = (
    *("x", "fun", "best_x", "best_fun", "nfev", "nit", "success", "status", "message"),
    *("dropped", "faults", "seed"),
)
FILES = (".json", ".txt")  # how the name of a file for the result ends; others are folders
REPORT = Sets("gensmooth.cli.common:report", {"out": "out", "as_json": "json"})
JSON = Sets("gensmooth.cli.common:report", {"as_json": "json"})


def open_streams() -> None:
    """Open those of the three standard streams that the shell has closed, to nothing.

    Otherwise the next files that are opened would take their numbers, and what is printed.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)  # the same number, most likely
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            stream = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


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


def choose_optimizer(
    arguments: dict[str, Any], rate: float | None, *, falling: float | None = None
) -> None:
    """Make an optimiser of its short name and ``--learning-rate``.

    Args:
        arguments: What the function is called with.
        rate: The learning rate, if it was given.
        falling: Where Adam's rate begins to fall if it was not, of a function that lets it fall.
    """
    import gensmooth as gs

    name = arguments.get("optimizer")
    if name is not None and not isinstance(name, str):
        if rate is not None:
            raise ValueError("Give either `--learning-rate` or an `--optimizer` that has one.")
        return
    if name == "greedy":
        if rate is not None:
            raise ValueError("`--optimizer greedy` finds its own learning rate: give none.")
        arguments["optimizer"] = gs.greedy()
    elif rate is not None:
        arguments["optimizer"] = getattr(gs, name or "adam")(rate)
    elif name == "adam" and falling is not None:
        arguments["optimizer"] = falling
    elif name is not None:
        raise ValueError(f"`--optimizer {name}` needs a `--learning-rate`.")


class Out(NamedTuple):
    """Where what comes of a command goes.

    Attributes:
        folder: The run's folder, if it has one.
        file: The file for the result, if it has one.
        reserved: A folder that was made for the file alone.
    """

    folder: Path | None
    file: Path | None
    reserved: Path | None = None


def choose_out(given: Given, folder: Path | None, *, stem: str | None = None) -> Out:
    """Where the result goes; what cannot be written is refused before the run.

    Args:
        given: The options.
        folder: The run's folder if another option has said it; then ``--out`` is a file.
        stem: What a folder under ``runs`` is named after, if there is no other place.
    """
    out: Path | None = given["out"]
    if out is None:
        if folder is not None or stem is None:
            return Out(folder, None if folder is None else folder / RESULT)
        reserved = new_folder(stem)
        return Out(None, None if reserved is None else reserved / RESULT, reserved)
    if out == STANDARD_OUTPUT:
        return Out(folder, None)
    if folder is None and out.suffix not in FILES:
        return Out(out, out / RESULT)
    try:
        if out.is_dir() or not out.parent.is_dir():
            what = "a folder" if out.is_dir() else "in a folder that does not exist"
            raise ValueError(f"`--out` must be a file to write the result to, but {out} is {what}.")
        new = not out.exists()
        with out.open("a"):
            pass
        if new:
            out.unlink()
    except OSError as error:
        raise ValueError(f"`--out` cannot be written: {error.strerror}: {out}") from None
    return Out(folder, out)


def new_folder(stem: str) -> Path | None:
    """Make the first of ``runs/STEM-1``, ``runs/STEM-2``, … that is not there.

    ``None`` where nothing can be made: then the result is printed in full, and not kept.
    """
    stem = stem.replace("/", "-").replace(":", "-")
    number = 1
    while True:
        folder = Path("runs") / f"{stem}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError:
            return None
        else:
            return folder


@contextmanager
def running(out: Out) -> Generator[None]:
    """While the user's code runs: what it prints goes to standard error; a failure leaves nothing.

    Standard output is the result's alone, also for worker processes, which inherit it.
    """
    sys.stdout.flush()
    kept = None
    with suppress(OSError, ValueError):  # not a file, as in a test
        if sys.stdout.fileno() == 1:
            kept = os.dup(1)
            os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)
        if out.reserved is not None and sys.exc_info()[0] is not None:
            with suppress(OSError):  # they hold something
                out.reserved.rmdir()
                out.reserved.parent.rmdir()


def report(
    full: dict[str, Any],
    shown: dict[str, Any],
    *,
    file: Path | None = None,
    out: Path | None = None,
    as_json: bool = False,
) -> None:
    """Print what came of a command, and write it down.

    Args:
        full: All of it.
        shown: What a person wants to see of it.
        file: The file for it.
        out: Where to leave the result: a .json file; or a folder for the whole run, which has
            the result in result.json, beside configuration, metrics and checkpoint; or - for
            standard output.
        as_json: Print the result as JSON instead of a table.
    """
    text = json.dumps(_plain(full), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    if file is not None:
        try:
            _write(file, text, chosen=file == out)
        except OSError as error:
            typer.echo(f"The result could not be written: {error}. Here it is.", err=True)
            file, as_json = None, True
    if as_json or out == STANDARD_OUTPUT:
        typer.echo(text, nl=False)
        if file is not None:
            typer.echo(f"result: {file}", err=True)
    else:
        show(shown | ({} if file is None else {"result": str(file)}), cut=file is not None)


def _write(file: Path, text: str, *, chosen: bool) -> None:
    """Write a result: to the very file that was chosen, or into a folder that may be a stranger's.

    There, no link is followed.
    """
    from gensmooth.runs.files import write_text

    if chosen:
        file.write_text(text, encoding="utf-8")
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, text)


def kept(out: Out, seed: int) -> Path | None:
    """The file for the result of a run with this seed.

    ``None`` if its folder was removed or replaced while it ran, and so is not the run's any more.
    """
    from gensmooth.runs import CheckpointError
    from gensmooth.runs.folder import seed_in

    if out.folder is None or out.file is None or out.file.parent != out.folder:
        return out.file
    try:
        return out.file if seed_in(out.folder) == seed else None
    except CheckpointError:
        return None


def finish(
    result: "Result",
    file: Path | None = None,
    *,
    out: Path | None = None,
    as_json: bool = False,
    failed: bool = False,
) -> None:
    """Report a minimisation, and leave with what it means for a shell.

    Args:
        result: The result.
        file: The file for it.
        out: As in :func:`report`.
        as_json: As in :func:`report`.
        failed: Whether an error is still to be told.
    """
    found = result.as_json()
    shown = {name: found[name] for name in _SHOWN}
    shown["fun"] = _with_error(result)
    report(found, shown, file=file, out=out, as_json=as_json)
    if not failed:
        leave(result)


def _with_error(result: "Result") -> float | str:
    """The value found, with its error bar and the noise of a single value where there is any."""
    if not (result.error or result.noise):
        return result.fun
    words = f"{result.fun:.8g}"
    if result.error:
        words += f" ± {result.error:.2g}"
    return f"{words}, noise {result.noise:.2g}" if result.noise else words


def run_and_finish(run: Callable[[], "Result"], out: Out, given: Given) -> None:
    """Run a minimisation and report it; of one that fails, what was found until then."""
    from gensmooth.evaluators import EvaluationError

    how: dict[str, Any] = {"out": given["out"], "as_json": bool(given["json"])}
    try:
        with running(out):
            result = run()
    except EvaluationError as error:
        if error.result is not None and error.result.nit:
            finish(error.result, kept(out, error.result.seed), failed=True, **how)
        raise
    finish(result, kept(out, result.seed), **how)


def leave(result: Any) -> None:
    """Leave with what the end of a run means for a shell."""
    if result.status == "interrupted":
        raise typer.Exit(130)
    if not result.success:
        raise typer.Exit(1)


def _plain(value: Any) -> Any:
    """For JSON, which has no infinity and no NaN: those are words."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in cast(dict[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast(list[Any], value)]
    return value


def show(values: dict[str, Any], *, cut: bool = False) -> None:
    """Print names and values; on a terminal long ones are cut if ``cut``, elsewhere none is."""
    words = {
        name: f"{value:.8g}" if isinstance(value, float) else str(value)
        for name, value in values.items()
    }
    if not sys.stdout.isatty():  # for a file or a program: one line each, and all of it
        width = max(map(len, words))
        for name, text in words.items():
            typer.echo(f"{name:{width}}  {text}")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None)
    for name, text in words.items():
        long = cut and isinstance(values[name], list) and len(text) > 200
        table.add_row(name, f"{text[:100]}… (all in the result's file)" if long else text)
    Console().print(table, markup=False)
