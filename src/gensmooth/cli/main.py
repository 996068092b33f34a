"""The entry point of the command: subcommands and error messages."""

import json
import logging
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
from gensmooth.cli.options import ParsedOptions, command
from gensmooth.cli.physics import app as physics_app
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


def _print_version(requested: bool) -> None:
    if requested:
        from gensmooth import __version__

        typer.echo(f"gensmooth {__version__}")
        raise typer.Exit


@app.callback()
def gensmooth(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Derivative-free optimisation by random search: minimise any black-box function."""


@command(JSON)
def version(parsed: ParsedOptions, *, verbose: bool = False) -> None:
    """Print the version.

    Args:
        parsed: The other options.
        verbose: Also print the versions of Python and of the packages that results depend on.
    """
    from gensmooth import __version__

    versions = {"gensmooth": __version__}
    if verbose:
        import platform
        from importlib.metadata import version as version_of

        versions["Python"] = f"{platform.python_version()} on {platform.platform()}"
        versions |= {package: version_of(package) for package in ("numpy", "numba")}
    if parsed["json"]:
        typer.echo(json.dumps(versions, indent=2))
    else:
        typer.echo("\n".join(f"{name} {number}" for name, number in versions.items()))


for _command in (
    *(minimize, compare, sweep, report, train, evaluate, render, resume),
    *(methods, zoo, reproduce, version),
):
    _command.add_to(app)
app.add_typer(physics_app)


def main() -> None:
    """Run the command; print an error as one line on stderr, after any traceback in user code."""
    open_streams()
    logging.getLogger("gensmooth").addFilter(_advise_in_shell)
    try:
        app()
    except Exception as error:
        shown, message = explain(error)
        if shown:
            typer.echo(shown.rstrip(), err=True)
        typer.secho(f"Error: {message}", err=True, fg=typer.colors.RED)
        sys.exit(1)


# --- errors ------------------------------------------------------------------------------------

# The types that we raise on purpose; any other error in our code is a bug.
_EXPECTED = (ValueError, TypeError, RuntimeError, OSError, ImportError)
_SHELL_ADVICE = (  # advice for Python in our messages, and the same advice for a shell
    (re.compile(r"workers=gs\.evaluators\.(\w+\([^()]*\))"), r'--workers "\1"'),
    (re.compile(r"gs\.resume\(folder, fun\)"), "--objective module:function"),
    (re.compile(r"use gs\.(?:rl\.)?resume\b"), "use `gensmooth resume`"),
    (re.compile(r"such as np\.(zeros|ones)\((\d+)\)"), r"such as `--x0 \1:\2`"),
    (re.compile(r"without `folder`"), "without `--folder`"),
)


def explain(error: Exception) -> tuple[str, str]:
    """Return the part of the traceback that lies in the user's code, if any, and a message."""
    from gensmooth.evaluators import EvaluationError

    message = str(error)
    if isinstance(error, EvaluationError):  # raised by the user's function, perhaps in a worker
        cause = error.__cause__
        location = None if cause is None or error.traceback else _users_traceback(cause)
        return error.traceback if location is None else location[0], message
    if isinstance(error, SyntaxError):
        shown = "".join(traceback.format_exception_only(error))
        return shown, f"{error.filename} is not valid Python: {error.msg} in line {error.lineno}."
    location = _users_traceback(error)
    if location is not None:
        shown, place = location
        return shown, f"{type(error).__name__} in {place}: {message}"
    if not isinstance(error, _EXPECTED):
        return "".join(traceback.format_exception(error)), f"{type(error).__name__}: {message}"
    return "", _for_shell(message)


def _for_shell(message: str) -> str:
    for pattern, advice in _SHELL_ADVICE:
        message = pattern.sub(advice, message)
    return message


def _advise_in_shell(record: logging.LogRecord) -> bool:
    """Adapt the advice in a log message, as that in an error."""
    record.msg, record.args = _for_shell(record.getMessage()), ()
    return True


def _users_traceback(error: BaseException) -> tuple[str, str] | None:
    """Return the traceback from where it enters the user's code, and the last line in it."""
    trace = error.__traceback__
    while trace is not None and not _is_user_file(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    if trace is None:
        return None
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]
    file, line = [place for place in places if _is_user_file(place[0])][-1]
    shown = "".join(traceback.format_exception(type(error), error, trace, chain=False))
    return shown, f"{file}, line {line}"


def _is_user_file(file: str) -> bool:
    """Whether a file is the user's: not ours, Python's or an installed package's."""
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
