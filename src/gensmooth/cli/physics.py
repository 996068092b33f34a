"""``gensmooth physics compare MODEL``: our step beside MuJoCo's, term by term."""

import json
from typing import Any

import typer

from gensmooth.cli.common import JSON
from gensmooth.cli.options import ParsedOptions, Sets, Shell, command

COMPARE = "gensmooth.physics.compare:compare"
HEAD = ("term", "largest difference", "", "what it is")

app = typer.Typer(
    name="physics",
    help="Look into the physics of robots.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@command(Sets(COMPARE), JSON, shell={"model": Shell(type=str, argument=True)})
def compare(parsed: ParsedOptions) -> None:
    """Compare a model's step with MuJoCo's, term by term, and name the first that differs.

    For example:

    gensmooth physics compare Hopper-v4
    gensmooth physics compare my_robot.xml --steps 100

    Args:
        parsed: The options.
    """
    from gensmooth.physics.compare import compare as compared

    found = compared(**parsed.arguments(COMPARE))
    if parsed["json"]:
        typer.echo(json.dumps(_plain(found), indent=2))
    else:
        _print(found)
    if found.first is not None:
        raise typer.Exit(1)


compare.add_to(app)


def _plain(found: Any) -> dict[str, Any]:
    return {
        "model": found.name,
        "states": found.steps,
        "first": None if found.first is None else found.first.term.name,
        "left_out": found.left_out,
        "terms": [
            {
                "name": each.term.name,
                "largest": each.largest,
                "tolerance": each.term.tolerance,
                "agrees": each.agrees,
                "state": each.step,
                "entry": each.entry,
                "entries": each.size,
                "places": each.term.places,
            }
            for each in found.differences
        ],
    }


def _print(found: Any) -> None:
    lines: list[tuple[str, ...]] = [HEAD]
    for each in found.differences:
        shown = f"{each.largest:.1e}" if each.size else "none there"
        mark = "" if each.agrees else "DIFFERS"
        lines.append((each.term.name, shown, mark, each.term.meaning))
    widths = [max(len(line[k]) for line in lines) for k in range(len(HEAD))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
    typer.echo(
        f"\n{found.steps} states of {found.name}. Differences are relative to a term's largest "
        "entry."
    )
    if found.left_out is not None:
        typer.echo(f"Left out: {found.left_out}")
    first = found.first
    if first is None:
        typer.echo("All terms agree with MuJoCo up to rounding.")
        return
    typer.echo(
        f"\nThe first term that differs is {first.term.name} ({first.term.meaning}), by "
        f"{first.largest:.3g}: entry {first.entry} in state {first.step}. It is computed here:"
    )
    for place in first.term.places:
        typer.echo(f"  {place}")
    typer.echo("Terms after it may differ only because this one does.")
