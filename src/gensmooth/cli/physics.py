"""``gensmooth physics compare MODEL``: compare a model's step with MuJoCo's, term by term."""

import json
from typing import Any

import typer

from gensmooth.cli.common import JSON, print_columns
from gensmooth.cli.options import ParsedOptions, Sets, Shell, command

COMPARE = "gensmooth.physics.compare:compare"

app = typer.Typer(
    name="physics",
    help="Check the physics of a robot against MuJoCo.",
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

    comparison = compared(**parsed.arguments(COMPARE))
    if parsed["json"]:
        typer.echo(json.dumps(_as_json(comparison), indent=2))
    else:
        _print(comparison)
    if comparison.first is not None:
        raise typer.Exit(1)


compare.add_to(app)


def _as_json(comparison: Any) -> dict[str, Any]:
    return {
        "model": comparison.name,
        "states": comparison.steps,
        "first": None if comparison.first is None else comparison.first.term.name,
        "left_out": comparison.left_out,
        "untouched": list(comparison.untouched),
        "terms": [
            {
                "name": each.term.name,
                "largest": each.largest,
                "tolerance": each.term.tolerance,
                "agrees": each.agrees,
                "state": each.step,
                "entry": each.entry,
                "where": each.where,
                "ours": each.ours,
                "mujoco": each.theirs,
                "active": list(each.active),
                "entries": each.size,
                "places": each.term.places,
            }
            for each in comparison.differences
        ],
    }


def _print(comparison: Any) -> None:
    lines: list[tuple[str, ...]] = [("term", "largest difference", "", "what it is")]
    for each in comparison.differences:
        shown = f"{each.largest:.1e}" if each.size else "did not occur"
        mark = "" if each.agrees else "DIFFERS"
        lines.append((each.term.name, shown, mark, each.term.meaning))
    print_columns(lines)
    typer.echo(
        f"\n{comparison.steps} states of {comparison.name}. Differences are relative to a term's "
        "largest entry."
    )
    if comparison.left_out is not None:
        typer.echo(f"Left out: {comparison.left_out}")
    if comparison.untouched:
        shown = "; ".join(comparison.untouched[:3])
        more = "; …" if len(comparison.untouched) > 3 else ""
        typer.echo(
            f"Not tested, because they never touched: {len(comparison.untouched)} pairs of geoms "
            f"({shown}{more}). Use more --steps or another --seed."
        )
    if comparison.first is None:
        typer.echo("All terms agree with MuJoCo up to rounding.")
    else:
        _print_first(comparison, comparison.first)


def _print_first(comparison: Any, first: Any) -> None:
    """Print where the first difference is, and which functions compute the term."""
    active = ", ".join(first.active) or "none"
    typer.echo(
        f"\nThe first term that differs is {first.term.name} ({first.term.meaning}).\n"
        f"In state {first.step}, the simplest in which it differs:\n"
        f"  {first.where}: ours {first.ours:.6g}, MuJoCo's {first.theirs:.6g}\n"
        f"  active limits and contacts: {active}\n"
        "These functions compute it:"
    )
    for place, agreeing in comparison.suspects(first):
        shared = f"; also used for terms that agree: {', '.join(agreeing)}" if agreeing else ""
        typer.echo(f"  {place}{shared}")
    typer.echo("Terms after it may differ only because this one does.")
