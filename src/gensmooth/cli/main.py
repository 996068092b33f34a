"""The command's entry: sub-commands, and errors in plain words."""

import json
import re
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import Annotated

import typer

from gensmooth.cli.common import JSON, open_streams
from gensmooth.cli.compare import compare
from gensmooth.cli.evaluate import evaluate
from gensmooth.cli.methods import methods
from gensmooth.cli.minimize import minimize
from gensmooth.cli.options import Given, command
from gensmooth.cli.render import render
from gensmooth.cli.report import report
from gensmooth.cli.reproduce import reproduce
from gensmooth.cli.resume import resume
from gensmooth.cli.sweep import sweep
from gensmooth.cli.train import train
from gensmooth.cli.zoo import zoo

app = typer.Typer(
    name="gensmooth",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(wanted: bool) -> None:
    if wanted:
        from gensmooth import __version__

        typer.echo(f"gensmooth {__version__}")
        raise typer.Exit


@app.callback()
def gensmooth(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_say_version, is_eager=True),
    ] = False,
) -> None:
    """Derivative-free optimisation by random search: minimise any black box."""


@command(JSON)
def version(given: Given, *, verbose: bool = False) -> None:
    """Print the version.

    Args:
        given: The other options.
        verbose: Also those of Python and of the packages that results depend on.
    """
    from gensmooth import __version__

    found = {"gensmooth": __version__}
    if verbose:
        import platform
        from importlib.metadata import version as of

        found["Python"] = f"{platform.python_version()} on {platform.platform()}"
        found |= {package: of(package) for package in ("numpy", "numba")}
    if given["json"]:
        typer.echo(json.dumps(found, indent=2))
    else:
        typer.echo("\n".join(f"{name} {each}" for name, each in found.items()))


for each in (
    *(minimize, compare, sweep, report, train, evaluate, render, resume),
    *(methods, zoo, reproduce, version),
):
    each.add_to(app)


def main() -> None:
    """Run the command; an error is a line on stderr, after the place in the user's own code."""
    open_streams()
    try:
        app()
    except Exception as error:
        where, what = explain(error)
        if where:
            typer.echo(where.rstrip(), err=True)
        typer.secho(f"Error: {what}", err=True, fg=typer.colors.RED)
        sys.exit(1)


# --- errors ------------------------------------------------------------------------------------

_PLAIN = (ValueError, TypeError, RuntimeError, OSError, ImportError)  # what we raise, with words
_IN_SHELL = (  # what our errors advise in Python, as a shell says it
    (re.compile(r"workers=gs\.evaluators\.(\w+\([^()]*\))"), r'--workers "\1"'),
    (re.compile(r"gs\.resume\(folder, fun\)"), "--objective module:function"),
    (re.compile(r"use gs\.(?:rl\.)?resume\b"), "use `gensmooth resume` with that folder"),
)


def explain(error: Exception) -> tuple[str, str]:
    """Where an error was raised, if in the user's own code, and what it says.

    Args:
        error: What ended the command.

    Returns:
        A traceback, or nothing; and a line.
    """
    from gensmooth.evaluators import EvaluationError

    what = str(error)
    if isinstance(error, EvaluationError):  # raised by the user's function, perhaps in a worker
        cause = error.__cause__
        found = None if cause is None or error.traceback else _in_the_users_code(cause)
        return error.traceback if found is None else found[0], what
    if isinstance(error, SyntaxError):
        shown = "".join(traceback.format_exception_only(error))
        return shown, f"{error.filename} is not Python: {error.msg} in line {error.lineno}."
    found = _in_the_users_code(error)
    if found is not None:
        shown, place = found
        return shown, f"{type(error).__name__} in {place}: {what}"
    if not isinstance(error, _PLAIN):  # ours, and not foreseen
        return "".join(traceback.format_exception(error)), f"{type(error).__name__}: {what}"
    for pattern, words in _IN_SHELL:
        what = pattern.sub(words, what)
    return "", what


def _in_the_users_code(error: BaseException) -> tuple[str, str] | None:
    """The traceback from where it enters the user's code, and the last place there; or nothing."""
    trace = error.__traceback__
    while trace is not None and not _is_the_users(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    if trace is None:
        return None
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]
    file, line = [place for place in places if _is_the_users(place[0])][-1]
    shown = "".join(traceback.format_exception(type(error), error, trace, chain=False))
    return shown, f"{file}, line {line}"


def _is_the_users(file: str) -> bool:
    """Whether a file is neither ours, nor Python's, nor an installed package's."""
    ours = Path(__file__).parents[1]
    stdlib = sysconfig.get_path("stdlib")
    path = Path(file)
    return not (
        file.startswith("<")
        or path.is_relative_to(ours)
        or path.is_relative_to(stdlib)
        or {"site-packages", "dist-packages"} & set(path.parts)
        or path == Path(sys.argv[0])  # the script that called us
    )
