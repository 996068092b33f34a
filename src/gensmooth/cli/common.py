"""Shared parts of the commands: evaluators, trackers and the output of results."""

import json
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import typer

from gensmooth.cli.options import ParsedOptions, Sets, users_code

if TYPE_CHECKING:
    from gensmooth import Result
    from gensmooth.observe import Lines, Progress, Start

LONG_RUN_SECONDS = 10.0  # without a terminal, a run that takes longer prints lines
RESULT = "result.json"
STANDARD_OUTPUT = Path("-")
# The fields to print; `fun` is shown with its error and noise, and `message` has the warnings.
_PRINTED_FIELDS = (
    *("x", "fun", "best_x", "best_fun", "nfev", "nit", "success", "status", "reason", "message"),
    *("dropped", "faults", "seed"),
)
RESULT_SUFFIXES = (".json", ".txt")
REPORT = Sets("gensmooth.cli.common:report", {"out": "out", "as_json": "json"})
JSON = Sets("gensmooth.cli.common:report", {"as_json": "json"})


def open_streams() -> None:
    """Connect standard streams that the shell has closed to the null device.

    Otherwise, the next files to be opened would get their numbers, and output would go to them.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)  # usually the same number
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            stream = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def add_evaluator_and_trackers(arguments: dict[str, Any], parsed: ParsedOptions) -> None:
    """Set ``workers`` to the cluster of ``--ray``, and add the trackers that options select.

    Where there is no terminal, a long run prints a line from time to time.
    """
    options = parsed.values
    trackers = arguments["trackers"] = list(arguments.get("trackers", ()))
    stream: Any = sys.stderr  # None if the shell has closed it
    if arguments.get("progress") is None and stream is not None and not stream.isatty():
        trackers.append(LateLines())
    for name in ("TensorBoard", "MLflow", "WandB"):
        if name.lower() in options:
            from gensmooth import observe

            trackers.append(getattr(observe, name)(options[name.lower()]))
    if "ray" not in options:
        return
    from gensmooth.evaluators import Ray

    retries = 0
    if arguments.get("on_failure") == "retry":
        retries = arguments.pop("retries", 2)
    arguments["workers"] = Ray(
        None if options["ray"] == "local" else options["ray"],
        num_workers=arguments.pop("workers", None),
        timeout=arguments.pop("timeout", None),
        retries=retries,
    )


class LateLines:
    """Prints lines like :class:`gensmooth.observe.Lines`, beginning after ten seconds."""

    _lines: "Lines | None" = None

    def start(self, start: "Start") -> None:
        """See :class:`~gensmooth.observe.Tracker`."""
        self._start = start._replace(message="")

    def step(self, progress: "Progress") -> None:
        """See :class:`~gensmooth.observe.Tracker`."""
        if self._lines is None and progress.seconds >= LONG_RUN_SECONDS:
            from gensmooth.observe import Lines

            self._lines = Lines()
            self._lines.start(self._start)
        if self._lines is not None:
            self._lines.step(progress)

    def end(self, summary: Mapping[str, Any]) -> None:
        """See :class:`~gensmooth.observe.Tracker`."""
        if self._lines is not None:
            self._lines.end(summary)
        elif summary["reason"] == "terminated":  # the command ends without a result
            typer.echo(summary["message"], err=True)


class Out(NamedTuple):
    """Where a command writes its result.

    Attributes:
        folder: The run's folder, if there is one.
        file: The file for the result, if there is one.
        reserved: A folder that was created only for this file.
    """

    folder: Path | None
    file: Path | None
    reserved: Path | None = None


def choose_out(parsed: ParsedOptions, folder: Path | None, *, stem: str | None = None) -> Out:
    """Choose where to write the result, and check before the run that this is possible.

    Args:
        parsed: The options.
        folder: The run's folder, if there is one.
        stem: The name of a new folder under ``runs``, used if nothing else is specified.
    """
    out: Path | None = parsed["out"]
    if out is None:
        if folder is not None or stem is None:
            return Out(folder, None if folder is None else folder / RESULT)
        reserved = new_folder(stem)
        return Out(None, None if reserved is None else reserved / RESULT, reserved)
    if out == STANDARD_OUTPUT:
        return Out(folder, None)
    if out.suffix not in RESULT_SUFFIXES:
        raise ValueError(
            f"`--out` must be a file for the result, such as {RESULT}, but is {str(out)!r}. For "
            f"the folder of a run, use `--folder {out}`."
        )
    try:
        if out.is_dir() or not out.parent.is_dir():
            problem = "is a folder" if out.is_dir() else "is in a folder that does not exist"
            raise ValueError(f"`--out` must be a file for the result, but {out} {problem}.")
        from gensmooth.runs.files import check_writable

        check_writable(out)
    except OSError as error:
        raise ValueError(f"`--out` cannot be written: {error.strerror}: {out}") from None
    return Out(folder, out)


def new_folder(stem: str) -> Path | None:
    """Create the first of ``runs/STEM-1``, ``runs/STEM-2``, … that does not exist.

    Returns ``None`` if no folder can be created; the result is then printed in full and not saved.
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
    """Run the user's code with its output on standard error; a failure leaves no empty folder."""
    try:
        with users_code():
            yield
    finally:
        if out.reserved is not None and sys.exc_info()[0] is not None:
            with suppress(OSError):  # the folder is not empty
                out.reserved.rmdir()
                out.reserved.parent.rmdir()


@contextmanager
def many_runs() -> Generator[None]:
    """Make several runs with the user's output on standard error.

    On Ctrl-C and SIGTERM, the workers end first; then a message says how to continue.
    """
    terminated = False

    def terminate(*_: object) -> None:
        nonlocal terminated
        terminated = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a process group may get it twice
        raise KeyboardInterrupt

    if handles := _is_unhandled(signal.SIGTERM):
        signal.signal(signal.SIGTERM, terminate)
    try:
        with users_code():
            yield
    except KeyboardInterrupt:
        how = "Ended by the signal SIGTERM" if terminated else "Interrupted"
        typer.echo(f"{how}. Finished runs are kept: repeat the same command to continue.", err=True)
        if terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        raise typer.Exit(130) from None
    finally:
        if handles:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _is_unhandled(number: signal.Signals) -> bool:
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(number) is signal.SIG_DFL


def report(
    full: dict[str, Any],
    shown: dict[str, Any],
    *,
    file: Path | None = None,
    out: Path | None = None,
    as_json: bool = False,
) -> None:
    """Print the result of a command and write it to a file.

    Args:
        full: The complete result.
        shown: The part to print as a table.
        file: The file for the result.
        out: A .json file for the result, or - for standard output.
        as_json: Print the result as JSON instead of a table.
    """
    text = json.dumps(_plain(full), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    if file is not None:
        try:
            from gensmooth.runs.files import make_folder, write_named, write_text

            if file == out:
                write_named(file, text)
            else:  # a run's folder may come from someone else: do not follow links
                make_folder(file.parent)
                write_text(file, text)
        except OSError as error:
            typer.echo(
                f"The result could not be written to a file: {error}. It is printed here instead.",
                err=True,
            )
            file, as_json = None, True
    if as_json or out == STANDARD_OUTPUT:
        typer.echo(text, nl=False)
        if file is not None:
            typer.echo(f"result: {file}", err=True)
    else:
        show(shown | ({} if file is None else {"result": str(file)}), cut=file is not None)


def result_file(out: Out, seed: int) -> Path | None:
    """Return the file for the result of the run with this seed.

    Returns ``None`` if the folder was removed or replaced during the run.
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
    """Report the result of a minimisation, and exit with the status for the shell.

    Args:
        result: The result.
        file: The file for the result.
        out: As in :func:`report`.
        as_json: As in :func:`report`.
        failed: Whether the caller will report an error; this function then does not exit.
    """
    full = result.as_json()
    shown = {name: full[name] for name in _PRINTED_FIELDS}
    if result.error or result.noise:
        error = f" ± {result.error:.2g}" if result.error else ""
        noise = f", noise {result.noise:.2g}" if result.noise else ""
        shown["fun"] = f"{result.fun:.8g}{error}{noise}"
    report(full, shown, file=file, out=out, as_json=as_json)
    if not failed:
        exit_with_status(result.reason, success=result.success)


def run_and_finish(run: Callable[[], "Result"], out: Out, parsed: ParsedOptions) -> None:
    """Run a minimisation and report its result; if it fails, report the result so far."""
    from gensmooth.evaluators import EvaluationError

    output: dict[str, Any] = {"out": parsed["out"], "as_json": bool(parsed["json"])}
    try:
        with running(out):
            result = run()
    except EvaluationError as error:
        if error.result is not None and error.result.nit:
            finish(error.result, result_file(out, error.result.seed), failed=True, **output)
        raise
    finish(result, result_file(out, result.seed), **output)


def exit_with_status(reason: str, *, success: bool) -> None:
    """Exit with status 130 if a run was interrupted, or 1 if it was not successful."""
    if reason == "interrupted":
        raise typer.Exit(130)
    if not success:
        raise typer.Exit(1)


def _plain(value: Any) -> Any:
    """Convert a value for JSON; infinities and NaN, which JSON lacks, become strings."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in cast(dict[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast(list[Any], value)]
    return value


def print_columns(rows: Iterable[Sequence[str]]) -> None:
    """Print rows with their cells aligned at the left."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


def show(values: dict[str, Any], *, cut: bool = False) -> None:
    """Print names and values; with ``cut``, long values are shortened on a terminal."""
    texts = {
        name: f"{value:.8g}" if isinstance(value, float) else str(value)
        for name, value in values.items()
    }
    if not sys.stdout.isatty():  # for a file or a program: one full line per value
        print_columns(texts.items())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None)
    for name, text in texts.items():
        long = cut and isinstance(values[name], list) and len(text) > 200
        table.add_row(name, f"{text[:100]}… (complete in the result file)" if long else text)
    Console().print(table, markup=False)
