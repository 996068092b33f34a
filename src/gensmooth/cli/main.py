"""The command's entry: sub-commands, and errors as one plain line."""

import sys
import traceback
from typing import Annotated

import typer

from gensmooth.cli.evaluate import evaluate
from gensmooth.cli.methods import methods
from gensmooth.cli.minimize import minimize
from gensmooth.cli.render import render
from gensmooth.cli.reproduce import reproduce
from gensmooth.cli.resume import resume
from gensmooth.cli.train import train

app = typer.Typer(
    name="gensmooth",
    help="Derivative-free optimisation by random search: minimise any black box.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(minimize)
app.command()(train)
app.command()(evaluate)
app.command()(render)
app.command()(resume)
app.command()(methods)
app.command()(reproduce)


@app.command()
def version(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also Python and NumPy.")
    ] = False,
) -> None:
    """Print the version."""
    from gensmooth import __version__

    typer.echo(f"gensmooth {__version__}")
    if verbose:
        import platform
        from importlib.metadata import version as of

        typer.echo(f"Python {platform.python_version()} on {platform.platform()}")
        for package in ("numpy", "numba"):
            typer.echo(f"{package} {of(package)}")


def main() -> None:
    """Run the command; what a user can mend is one line on stderr, not a traceback."""
    try:
        app()
    except (ValueError, TypeError, RuntimeError, OSError, ImportError) as error:
        from gensmooth.checkpoint import CheckpointError

        cause = error.__cause__
        if cause is not None and not isinstance(error, ImportError | CheckpointError):
            # The user's own function raised: show where.
            traceback.print_exception(cause)
        typer.secho(f"Error: {error}", err=True, fg=typer.colors.RED)
        sys.exit(1)
