"""``gensmooth reproduce``: run the paper's studies and write the report."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer


def reproduce(
    study: Annotated[str, typer.Argument(help="linreg, dfo, timing, or all.")],
    profile: Annotated[
        Literal["quick", "paper"],
        typer.Option(help="The size: quick takes about a minute, paper is the paper's own."),
    ] = "quick",
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", min=1, help="Processes; by default all cores.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for runs and report; by default out/PROFILE."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=2, help="Seeds of the reported runs, instead of 5.")
    ] = None,
    hyperparameters: Annotated[
        Literal["search", "paper"],
        typer.Option(help="Search the paper's grids, or use the paper's tables."),
    ] = "search",
    methods: Annotated[
        str | None,
        typer.Option(help="Comma-separated methods instead of the paper's, or `every`."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="linreg: a fixed data set and mini-batches.")
    ] = False,
    objective: Annotated[
        str | None,
        typer.Option(help="dfo: comma-separated objectives, such as sphere,nevergrad:rastrigin."),
    ] = None,
) -> None:
    """Run the paper's studies and write a report that judges its claims one by one.

    Runs what is missing: the same command again continues what was interrupted, and a larger
    study reuses the runs it shares with a smaller one.
    """
    from gensmooth.report import write_report
    from gensmooth.studies import paper
    from gensmooth.studies.registry import STUDIES, find_study
    from gensmooth.studies.run import run_study
    from gensmooth.studies.spec import Options

    names = STUDIES if study == "all" else (study,)
    for name in names:
        find_study(name)  # an unknown study is an error before anything runs
    folder = out if out is not None else Path("out") / profile
    options = Options(
        profile=profile,
        seeds=seeds,
        hyperparameters=hyperparameters,
        methods=_methods(methods),
        offline=offline,
        objectives=None if objective is None else tuple(objective.split(",")),
    )
    try:
        outcomes = [
            run_study(
                name,
                options,
                folder / name,
                workers=workers if workers is not None else (os.cpu_count() or 1),
                say=lambda line: typer.echo(line, err=True),
            )
            for name in names
        ]
    except KeyboardInterrupt:
        typer.echo("Interrupted. What is finished is kept: the same command continues.", err=True)
        raise typer.Exit(130) from None
    command = shlex.join(["gensmooth", *sys.argv[1:]])
    page = write_report(outcomes, folder, command=command, paper_times=paper.TIMES)
    for outcome in outcomes:
        for row in outcome.claims:
            typer.echo(f"{row.verdict:14} {row.claim}")
    typer.echo(f"\nreport: {page}")


def _methods(text: str | None) -> tuple[str, ...] | None:
    from gensmooth.methods import METHODS, method

    if text is None:
        return None
    names = tuple(METHODS) if text == "every" else tuple(text.split(","))
    for name in names:
        method(name)  # an unknown method is an error that lists the known ones
    return names
