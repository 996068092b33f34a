"""``gensmooth reproduce``: run the paper's studies, or a custom one, and write the report."""

import json

import typer

from gensmooth.cli.common import JSON, many_runs
from gensmooth.cli.options import ParsedOptions, Sets, Shell, command


def _names(text: str) -> list[str]:
    return text.split(",")


def _methods(text: str) -> list[str]:
    from gensmooth.directions import METHODS, named

    names = list(METHODS) if text == "every" else _names(text)
    for name in names:
        named(name)  # raises an error that lists the known names
    return names


def _studies() -> list[str]:
    from gensmooth.lab import STUDIES

    return [*STUDIES, "all"]


@command(
    Sets("gensmooth.lab.paper.reproduce:reproduce"),
    JSON,
    shell={
        "study": Shell(argument=True, complete=_studies),
        "methods": Shell(type=str, read=_methods, how="With commas, or `every`."),
        "objectives": Shell(name="objective", type=str, read=_names, how="With commas."),
        "environments": Shell(
            name="env", type=list[str], flags=("--env", "-e"), how="May be repeated."
        ),
        "num_directions": Shell(type=list[int], how="May be repeated."),
        "parts": Shell(name="part", type=list[str], how="May be repeated."),
        "claims": Shell(name="claim", type=list[str], how="May be repeated."),
    },
    common=(
        *("profile", "workers", "folder", "seeds", "methods", "objective", "env"),
        *("num_directions", "part", "device", "ray", "piece", "no_run", "json"),
    ),
)
def reproduce(parsed: ParsedOptions) -> None:
    """Run the paper's studies and write a report that judges its claims one by one.

    Only missing runs are made: the same command continues after an interruption, and a larger study
    reuses the runs that it shares with a smaller one. To merge runs that were made separately, with
    --piece or with other options, copy their `runs` folders together. The help below has, in
    parentheses, the studies that an option belongs to; a study rejects the options of the others.
    """
    from gensmooth import lab

    arguments = parsed.arguments("gensmooth.lab.paper.reproduce:reproduce")
    with many_runs():
        report = lab.reproduce(**arguments)
    if parsed["json"]:
        page = None if report.page is None else str(report.page)
        claims = [row._asdict() for row in report.claims]
        typer.echo(json.dumps({"claims": claims, "report": page}, indent=2, ensure_ascii=False))
        return
    for row in report.claims:
        if row.verdict != "not run":
            typer.echo(f"{row.verdict:14} {row.claim}")
    smaller = [outcome for outcome in report.outcomes if outcome.smaller and outcome.claims]
    for outcome in smaller:
        typer.echo(f"{'not judged':14} {outcome.title}: {outcome.smaller}, too small to judge")
    hidden = {row.id for outcome in smaller for row in outcome.claims}
    if unjudged := sum(row.verdict == "not run" and row.id not in hidden for row in report.claims):
        typer.echo(f"{'not run':14} {unjudged} more, whose runs are missing")
    if report.page is not None:
        typer.echo(f"\nreport: {report.page}")
