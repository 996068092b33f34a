"""``gensmooth reproduce``: run the paper's studies and write the report."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer


def reproduce(
    study: Annotated[
        str, typer.Argument(help="linreg, dfo, rl, timing, several with commas, or all.")
    ],
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
        int | None, typer.Option(min=1, help="Seeds of the reported runs, instead of 5.")
    ] = None,
    hyperparameters: Annotated[
        Literal["search", "paper"] | None,
        typer.Option(
            help="Search the paper's grids, or use the paper's tables. By default they are "
            "searched, but not in rl's quick profile."
        ),
    ] = None,
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
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", help="rl: an environment; may be given several times."),
    ] = None,
    num_directions: Annotated[
        list[int] | None,
        typer.Option("--num-directions", "-L", min=1, help="rl: a value of L, instead of all."),
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(help="rl: main, mlp or antithetic (the ablations), instead of all."),
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="rl: iterations of a run, instead of 1000.")
    ] = None,
    test_trials: Annotated[
        int | None, typer.Option(min=1, help="rl: test episodes a round, instead of 1000.")
    ] = None,
    resets: Annotated[
        Literal["independent", "paired"] | None,
        typer.Option(
            help="rl: a start and goal for each trajectory of training, or one for the two of a "
            "direction; by default independent."
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Run on Ray: a cluster's address, `auto`, or `local` to start one."),
    ] = None,
    piece: Annotated[
        str | None,
        typer.Option(help="I/N: make only every N-th run, from the I-th on, as one of N machines."),
    ] = None,
    no_run: Annotated[
        bool,
        typer.Option("--no-run", help="Make no runs: report on those that are there."),
    ] = False,
) -> None:
    """Run the paper's studies and write a report that judges its claims one by one.

    Runs what is missing: the same command again continues what was interrupted, and a larger
    study reuses the runs it shares with a smaller one. Runs that were made apart, with --piece or
    with other options, are merged by copying their `runs` folders together.
    """
    from gensmooth.report import write_report
    from gensmooth.studies import paper
    from gensmooth.studies.registry import STUDIES, find_study
    from gensmooth.studies.run import run_study
    from gensmooth.studies.spec import Options

    names = STUDIES if study == "all" else tuple(study.split(","))
    found = [find_study(name) for name in names]  # an unknown one is an error before anything runs
    for each in found if not no_run else ():
        if each.unavailable is not None and (why := each.unavailable()):
            if study != "all":
                raise ImportError(why)
            names = tuple(name for name in names if name != each.name)
            typer.echo(f"{each.name} is left out: {why}", err=True)
    folder = out if out is not None else Path("out") / profile
    options = Options(
        profile=profile,
        seeds=seeds,
        hyperparameters=hyperparameters,
        methods=_methods(methods),
        offline=offline,
        objectives=None if objective is None else tuple(objective.split(",")),
        environments=tuple(env) if env else None,
        parts=tuple(part) if part else None,
        num_directions=tuple(num_directions) if num_directions else None,
        iterations=iterations,
        test_trials=test_trials,
        resets=resets,
    )
    if workers is None and ray is None:
        from gensmooth.evaluators import cores

        workers = cores()
    try:
        concluded = [
            run_study(
                name,
                options,
                folder / name,
                workers=workers,
                ray=ray,
                piece=_piece(piece),
                make=not no_run,
                say=lambda line: typer.echo(line, err=True),
            )
            for name in names
        ]
    except KeyboardInterrupt:
        typer.echo("Interrupted. What is finished is kept: the same command continues.", err=True)
        raise typer.Exit(130) from None
    outcomes = [outcome for outcome in concluded if outcome is not None]
    if not outcomes:  # a piece, of which alone nothing can be said
        return
    command = shlex.join(["gensmooth", *sys.argv[1:]])
    page = write_report(outcomes, folder, command=command, paper_times=paper.TIMES)
    claims = [row for outcome in outcomes for row in outcome.claims]
    for row in claims:
        if row.verdict != "not run":
            typer.echo(f"{row.verdict:14} {row.claim}")
    if unjudged := sum(row.verdict == "not run" for row in claims):
        typer.echo(f"{'not run':14} {unjudged} more, which need runs that are not there")
    typer.echo(f"\nreport: {page}")


def _piece(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, slash, of = text.partition("/")
    if not (slash and first.isdigit() and of.isdigit() and 1 <= int(first) <= int(of)):
        raise ValueError(f"--piece must be such as 2/5, the second of five, but is {text!r}.")
    return int(first), int(of)


def _methods(text: str | None) -> tuple[str, ...] | None:
    from gensmooth.methods import METHODS, method

    if text is None:
        return None
    names = tuple(METHODS) if text == "every" else tuple(text.split(","))
    for name in names:
        method(name)  # an unknown method is an error that lists the known ones
    return names
