"""``gensmooth zoo``: the trained policies that come with the package."""

import json

import typer

from gensmooth.cli.common import JSON
from gensmooth.cli.options import Given, command

HEAD = ("name", "environment", "mean return", "d")


@command(JSON)
def zoo(given: Given) -> None:
    """List the trained policies that come with the package, and how good they are.

    For example:

    gensmooth evaluate zoo:hopper
    gensmooth render zoo:hopper -o hopper.mp4

    Args:
        given: The options.
    """
    from gensmooth.rl.zoo_catalogue import zoo as policies

    rows = policies()
    if given["json"]:
        typer.echo(json.dumps([row._asdict() for row in rows], indent=2))
        return
    lines: list[tuple[str, ...]] = [HEAD]
    for row in rows:
        found = f"{row.mean_return:.6g} ± {(row.high - row.low) / 2:.3g}"
        lines.append((row.name, row.environment, found, str(row.num_parameters)))
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
    episodes = ", ".join(str(each) for each in sorted({row.episodes for row in rows}))
    level = ", ".join(f"{100 * each:g} %" for each in sorted({row.confidence for row in rows}))
    typer.echo(
        f"\nOver {episodes} episodes that training has not seen, ± half of the {level} interval."
        "\nRun one: gensmooth evaluate zoo:NAME. How each was trained: --json."
    )
