"""``gensmooth methods``: list the methods and their predicted errors."""

import json
import os
import sys
from typing import Any

import typer

from gensmooth.cli.common import JSON
from gensmooth.cli.options import ParsedOptions, Sets, Shell, command, users_code
from gensmooth.naming import load_module

# In order of importance: if there is not enough room, the last columns are dropped first.
COLUMNS = {
    "method": "method",
    "relative_mse": "MSE",
    "bias": "bias",
    "variance": "var",
    "kurtosis": "kurt",
    "distribution": "directions",
}
_MIN_NAME_WIDTH = 8
ORDER = ("method", "distribution", "variance", "kurtosis", "bias", "relative_mse")


@command(
    Sets("gensmooth.directions:predictions"),
    JSON,
    shell={"modules": Shell(type=list[str], argument=True)},
)
def methods(parsed: ParsedOptions, *, modules: list[str] | None = None) -> None:
    """List the methods with their predicted relative error E‖estimate − ∇F‖² / ‖∇F‖².

    Args:
        parsed: The options of :func:`gensmooth.directions.predictions`.
        modules: Your modules, as MODULE or MODULE:NAME; their methods are listed too.
    """
    from gensmooth import theory
    from gensmooth.directions import METHODS, predictions
    from gensmooth.directions.base import PLACE_OF_USERS
    from gensmooth.searches import algorithms

    with users_code():
        for name in modules or ():
            load_module(name.partition(":")[0])
    arguments = parsed.arguments("gensmooth.directions:predictions")
    predicted = predictions(**arguments)
    users = [row for row in predicted if METHODS[row["method"]].place >= PLACE_OF_USERS]
    rows = [row for row in predicted if row not in users] + algorithms.rows(**arguments) + users
    if parsed["json"]:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    dim, number = parsed.all["dim"], parsed.all["num_directions"]
    title = (
        f"d = {dim}, L = {number}, N = {parsed.all['num_samples']}, noise {parsed.all['noise']:g} "
        f"({parsed.all['samples']})"
    )
    caption = (
        f"No estimate from {number} directional derivatives of an unknown gradient has an MSE "
        f"below {theory.information_limit(dim, number):.4g}. MSE and bias are relative to ‖∇F‖² "
        "and ∇F. • marks the paper's methods. Those from `ars` on are complete algorithms with "
        "their own settings (docs/methods.md). The default of `minimize` and `train` is not in "
        "this list: it is `auto`, the pilot, which needs no settings."
    )
    print_table([_cells(row) for row in rows], title, caption)


def _cells(row: dict[str, Any]) -> dict[str, str]:
    numbers = {
        key: "–" if row[key] is None else f"{row[key]:.4g}"
        for key in ("variance", "kurtosis", "bias", "relative_mse")
    }
    name = f"{row['method']} •" if row["in_paper"] else row["method"]
    return numbers | {"method": name, "distribution": row["distribution"]}


def print_table(rows: list[dict[str, str]], title: str, caption: str) -> None:
    """Print the columns that fit; numbers and words are never truncated."""
    from rich.console import Console
    from rich.table import Table

    fits = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    console = Console(width=None if fits else 200)
    widths = {key: max(len(row[key]) for row in [*rows, COLUMNS]) for key in COLUMNS}
    room = console.width - widths["relative_mse"] - 7  # borders, and a space on either side
    folded = _MIN_NAME_WIDTH <= room < widths["method"]
    if folded:  # wrap long names rather than drop the numbers
        widths["method"] = room
    kept: list[str] = []
    used = 1
    for key in COLUMNS:
        used += widths[key] + 3
        if used > console.width and kept:
            break
        kept.append(key)
    left_out = [COLUMNS[key] for key in COLUMNS if key not in kept]
    if left_out:
        caption += f" No room for: {', '.join(left_out)}; use --json to see them."
    table = Table(title=title, caption=caption)
    for key in ORDER:
        if key in kept:
            textual = key in ("method", "distribution")
            wraps = key == "method" and (folded or kept == [key])
            table.add_column(
                COLUMNS[key],
                justify="left" if textual else "right",
                no_wrap=not wraps,
                overflow="fold",
                min_width=None if wraps else widths[key],
            )
    for row in rows:
        table.add_row(*(row[key] for key in ORDER if key in kept))
    console.print(table)
