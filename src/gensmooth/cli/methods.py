"""``gensmooth methods``: what there is, and the error that theory predicts for it."""

import json
from typing import Annotated, Any

import typer


def methods(
    modules: Annotated[
        list[str] | None,
        typer.Argument(help="Modules of your own, imported first: the methods they register."),
    ] = None,
    dim: Annotated[int, typer.Option("--dim", "-d", min=1, help="Number of parameters d.")] = 100,
    num_directions: Annotated[
        int, typer.Option("--num-directions", "-L", min=1, help="Directions a step, L.")
    ] = 20,
    num_samples: Annotated[
        int, typer.Option("--num-samples", "-N", min=1, help="Samples averaged at each point, N.")
    ] = 1,
    noise: Annotated[
        float,
        typer.Option(min=0.0, help="tr Var[∇f] / ‖∇F‖²: the noise of a sample's own gradient."),
    ] = 0.0,
    samples: Annotated[
        str, typer.Option(help="How samples are drawn: paired or shared.")
    ] = "paired",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the methods with the relative error E‖estimate − ∇F‖² / ‖∇F‖² predicted for each."""
    from gensmooth.naming import load_module

    for module in modules or ():
        load_module(module)
    rows = [_row(name, dim, num_directions, num_samples, noise, samples) for name in _names()]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    from gensmooth import theory

    limit = theory.information_limit(dim, num_directions)
    table = Table(
        title=f"d = {dim}, L = {num_directions}, N = {num_samples}, noise {noise:g} ({samples})",
        caption=f"No estimate from {num_directions} directional derivatives of an unknown gradient "
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


def _names() -> list[str]:
    from gensmooth.methods import METHODS

    return list(METHODS)


def _row(
    name: str, dim: int, num_directions: int, num_samples: int, noise: float, samples: str
) -> dict[str, Any]:
    from gensmooth import theory
    from gensmooth.directions import NoClosedForm
    from gensmooth.methods import METHODS, method

    if samples not in ("paired", "shared"):
        raise ValueError(f"`--samples` must be 'paired' or 'shared', but is {samples!r}.")
    entry = METHODS[name]
    row: dict[str, Any] = {
        "method": name,
        "title": entry.title,
        "distribution": entry.distribution,
        "in_paper": entry.in_paper,
    }
    directions = method(name, dim=dim, num_directions=num_directions)
    try:
        kurtosis = directions.kurtosis(dim, num_directions)
    except NoClosedForm:
        kurtosis = None
    try:
        moments = directions.moments(dim, num_directions)
    except NoClosedForm:
        return row | {"variance": None, "kurtosis": kurtosis, "bias": None, "relative_mse": None}
    return row | {
        "variance": moments.mean,
        "kurtosis": kurtosis,
        "bias": theory.relative_bias(moments),
        "relative_mse": theory.mse(
            moments,
            gradient_norm2=1.0,
            noise_trace=noise,
            num_samples=num_samples,
            samples="shared" if samples == "shared" else "paired",
        ),
    }
