"""``gensmooth methods``: what there is, and the error that theory predicts for it."""

import json
import os
import sys
from typing import Any

import typer

from gensmooth.cli.common import JSON
from gensmooth.cli.options import Given, Sets, Shell, command
from gensmooth.naming import load_module

# From the one that is last to go where there is no room to the one that goes first.
COLUMNS = {
    "method": "method",
    "relative_mse": "MSE",
    "bias": "bias",
    "variance": "var",
    "kurtosis": "kurt",
    "distribution": "directions",
}
ORDER = ("method", "distribution", "variance", "kurtosis", "bias", "relative_mse")


@command(
    Sets("gensmooth.methods:predictions"),
    JSON,
    shell={"modules": Shell(type=list[str], argument=True)},
)
def methods(given: Given, *, modules: list[str] | None = None) -> None:
    """List the methods with the relative error E‖estimate − ∇F‖² / ‖∇F‖² predicted for each.

    Args:
        given: The options that are :func:`gensmooth.methods.predictions`'s.
        modules: Modules of your own, imported first: their methods are listed too.
    """
    from gensmooth import algorithms, theory
    from gensmooth.directions.base import OF_USERS
    from gensmooth.methods import METHODS, predictions

    for name in modules or ():
        load_module(name)
    arguments = given.arguments("gensmooth.methods:predictions")
    known = predictions(**arguments)
    own = [row for row in known if METHODS[row["method"]].place >= OF_USERS]
    rows = [row for row in known if row not in own] + algorithms.rows(**arguments) + own
    if given["json"]:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    dim, number = given.all["dim"], given.all["num_directions"]
    title = (
        f"d = {dim}, L = {number}, N = {given.all['num_samples']}, noise {given.all['noise']:g} "
        f"({given.all['samples']})"
    )
    caption = (
        f"No estimate from {number} directional derivatives of an unknown gradient has an MSE "
        f"below {theory.information_limit(dim, number):.4g}. MSE and bias are relative to ‖∇F‖² "
        "and ∇F. • marks the paper's methods. Those from `ars` on are whole algorithms with "
        "numbers of their own (docs/methods.md). The default of `minimize` and `train` is none of "
        "them but `auto`, the pilot, which needs no numbers; name a method to have it."
    )
    print_table([_words(row) for row in rows], title, caption)


def _words(row: dict[str, Any]) -> dict[str, str]:
    found = {
        key: "–" if row[key] is None else f"{row[key]:.4g}"
        for key in ("variance", "kurtosis", "bias", "relative_mse")
    }
    name = f"{row['method']} •" if row["in_paper"] else row["method"]
    return found | {"method": name, "distribution": row["distribution"]}


def print_table(rows: list[dict[str, str]], title: str, caption: str) -> None:
    """Print the columns that there is room for: whole words and digits, or not at all."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else _wide())
    widths = {key: max(len(row[key]) for row in [*rows, COLUMNS]) for key in COLUMNS}
    kept: list[str] = []
    used = 1
    for key in COLUMNS:
        used += widths[key] + 3  # a border and a space on either side
        if used > console.width and kept:
            break
        kept.append(key)
    left_out = [COLUMNS[key] for key in COLUMNS if key not in kept]
    if left_out:
        caption += f" No room for: {', '.join(left_out)}; --json has them."
    table = Table(title=title, caption=caption)
    for key in ORDER:
        if key in kept:
            words = key in ("method", "distribution")
            table.add_column(
                COLUMNS[key], justify="left" if words else "right", no_wrap=True,
                min_width=widths[key],
            )  # fmt: skip
    for row in rows:
        table.add_row(*(row[key] for key in ORDER if key in kept))
    console.print(table)


def _wide() -> int | None:
    """Where there is no terminal there is room, unless ``COLUMNS`` says how much."""
    return None if os.environ.get("COLUMNS", "").isdigit() else 200
