"""``gensmooth reproduce``: run the paper's studies, or your own, and write the report."""

import json

import typer

from gensmooth.cli.common import JSON
from gensmooth.cli.options import Given, Sets, Shell, command, users_code


def _names(text: str) -> list[str]:
    return text.split(",")


def _methods(text: str) -> list[str]:
    from gensmooth.methods import METHODS, method

    names = list(METHODS) if text == "every" else text.split(",")
    for name in names:
        method(name)  # an unknown method is an error that lists the known ones
    return names


def _studies() -> list[str]:
    from gensmooth.studies import STUDIES

    return [*STUDIES, "all"]


@command(
    Sets("gensmooth.studies:reproduce"),
    JSON,
    shell={
        "study": Shell(argument=True, complete=_studies),
        "methods": Shell(type=str, read=_methods, how="With commas, or `every`."),
        "objectives": Shell(name="objective", type=str, read=_names, how="With commas."),
        "environments": Shell(
            name="env", type=list[str], flags=("--env", "-e"), how="May be given several times."
        ),
        "num_directions": Shell(type=list[int], how="May be given several times."),
        "parts": Shell(name="part", type=list[str], how="May be given several times."),
        "claims": Shell(name="claim", type=list[str], how="May be given several times."),
    },
)
def reproduce(given: Given) -> None:
    """Run the paper's studies and write a report that judges its claims one by one.

    Runs what is missing: the same command again continues what was interrupted, and a larger
    study reuses the runs it shares with a smaller one. Runs that were made apart, with --piece or
    with other options, are merged by copying their `runs` folders together.
    """
    from gensmooth import studies

    arguments = given.arguments("gensmooth.studies:reproduce")
    try:
        with users_code():
            found = studies.reproduce(**arguments)
    except KeyboardInterrupt:
        typer.echo("Interrupted. What is finished is kept: the same command continues.", err=True)
        raise typer.Exit(130) from None
    if given["json"]:
        page = None if found.page is None else str(found.page)
        claims = [row._asdict() for row in found.claims]
        words = json.dumps({"claims": claims, "report": page}, indent=2, ensure_ascii=False)
        typer.echo(words)
        return
    for row in found.claims:
        if row.verdict != "not run":
            typer.echo(f"{row.verdict:14} {row.claim}")
    smaller = [outcome for outcome in found.outcomes if outcome.smaller and outcome.claims]
    for outcome in smaller:
        typer.echo(f"{'not judged':14} {outcome.title}: {outcome.smaller}, too little to judge by")
    hidden = {row.id for outcome in smaller for row in outcome.claims}
    if unjudged := sum(row.verdict == "not run" and row.id not in hidden for row in found.claims):
        typer.echo(f"{'not run':14} {unjudged} more, which need runs that are not there")
    if found.page is not None:
        typer.echo(f"\nreport: {found.page}")
