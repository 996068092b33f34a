"""``gensmooth report DIR``: a page of any folder, once or for as long as the run goes on."""

import typer

from gensmooth.cli import common
from gensmooth.cli.common import JSON
from gensmooth.cli.options import Given, Sets, Shell, command

TARGET = "gensmooth.overview:overview"


@command(Sets(TARGET), JSON, shell={"folder": Shell(argument=True)})
def report(given: Given) -> None:
    """Write the page of a run, a training, a comparison, a sweep or a study.

    For example:

        gensmooth report runs/model-loss-1
        gensmooth report hopper --live

    The page has the curve, the estimate's norm and standard error, signal to noise, steps, speed,
    failures, the configuration, and the command that repeats it.
    """
    from gensmooth.overview import overview

    path = overview(**given.arguments(TARGET))
    if given["json"]:
        common.report({"page": str(path)}, {}, as_json=True)
    else:
        typer.echo(f"page: {path}")
