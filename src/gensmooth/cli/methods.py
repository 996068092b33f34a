"""``gensmooth methods``: what there is, and the error that theory predicts for it."""

import json

import typer

from gensmooth.cli.options import Given, Sets, Shell, command


@command(Sets("gensmooth.methods:predictions"), shell={"as_json": Shell(flags=("--json",))})
def methods(given: Given, *, as_json: bool = False) -> None:
    """List the methods with the relative error E‖estimate − ∇F‖² / ‖∇F‖² predicted for each.

    Args:
        given: The options that are :func:`gensmooth.methods.predictions`'s.
        as_json: Print JSON instead of a table.
    """
    from gensmooth.methods import predictions

    rows = predictions(**given.arguments("gensmooth.methods:predictions"))
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    from gensmooth import theory

    dim, number = given.all["dim"], given.all["num_directions"]
    limit = theory.information_limit(dim, number)
    table = Table(
        title=f"d = {dim}, L = {number}, N = {given.all['num_samples']}, noise "
        f"{given.all['noise']:g} ({given.all['samples']})",
        caption=f"No estimate from {number} directional derivatives of an unknown gradient "
        f"has an MSE below {limit:.4g}. MSE and bias are relative to ‖∇F‖² and ∇F. "
        "• marks the paper's methods.",
    )
    table.add_column("method", no_wrap=True)
    table.add_column("directions", no_wrap=True)
    for column in ("var", "kurt", "bias", "MSE"):
        table.add_column(column, justify="right")
    for row in rows:
        numbers = [row[key] for key in ("variance", "kurtosis", "bias", "relative_mse")]
        shown = ["–" if number is None else f"{number:.4g}" for number in numbers]
        name = f"{row['method']} •" if row["in_paper"] else row["method"]
        table.add_row(name, row["distribution"], *shown)
    Console().print(table)
