"""``gensmooth zoo``: the trained policies that come with the package."""

import json

import typer

from gensmooth.cli.common import JSON, print_columns
from gensmooth.cli.options import ParsedOptions, command


@command(JSON)
def zoo(parsed: ParsedOptions) -> None:
    """List the trained policies that come with the package, with their mean returns.

    For example:

    gensmooth evaluate zoo:hopper
    gensmooth render zoo:hopper -o hopper.mp4

    Args:
        parsed: The options.
    """
    from gensmooth.rl.zoo_catalogue import zoo as policies

    rows = policies()
    if parsed["json"]:
        typer.echo(json.dumps([row._asdict() for row in rows], indent=2))
        return
    lines: list[tuple[str, ...]] = [("name", "environment", "mean return", "d")]
    for row in rows:
        mean = f"{row.mean_return:.6g} ± {(row.high - row.low) / 2:.3g}"
        lines.append((row.name, row.environment, mean, str(row.num_parameters)))
    print_columns(lines)
    episodes = ", ".join(map(str, sorted({row.episodes for row in rows})))
    level = ", ".join(f"{100 * c:g} %" for c in sorted({row.confidence for row in rows}))
    typer.echo(
        f"\nMeans over {episodes} episodes not used in training, ± half of the {level} interval."
        "\nTo run one: gensmooth evaluate zoo:NAME. To see how each was trained: --json."
    )
