"""``gensmooth report DIR``: write the page of a folder, once or while the run continues."""

import typer

from gensmooth.cli import common
from gensmooth.cli.common import JSON
from gensmooth.cli.options import ParsedOptions, Sets, Shell, command

TARGET = "gensmooth.lab.overview:overview"


@command(Sets(TARGET), JSON, shell={"folder": Shell(argument=True)})
def report(parsed: ParsedOptions) -> None:
    """Write the page of a run, a training, a comparison, a sweep or a study.

    For example:

        gensmooth report runs/model-loss-1
        gensmooth report hopper --live

    The page begins with the answer (x, its value and error, the noise, why the run ended) and the
    command that repeats it. Curves, failures and the configuration follow.
    """
    from gensmooth.lab.overview import overview

    path = overview(**parsed.arguments(TARGET))
    if parsed["json"]:
        common.report({"page": str(path)}, {}, as_json=True)
    else:
        typer.echo(f"page: {path}")
