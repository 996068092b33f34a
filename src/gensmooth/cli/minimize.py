"""``gensmooth minimize module:function``: minimise a function on the Python path."""

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer


def minimize(
    objective: Annotated[
        str, typer.Argument(help="The objective as module:function, found from this folder on.")
    ],
    x0: Annotated[
        str,
        typer.Option(
            "--x0", help="Start: numbers such as 1,2.5,-3; zeros:100; ones:100; or a .npy file."
        ),
    ],
    method: Annotated[str, typer.Option("--method", "-m", help="See `gensmooth methods`.")] = "bes",
    num_directions: Annotated[
        int | None, typer.Option("--num-directions", "-L", help="L; by default 4 + 3 ln d.")
    ] = None,
    spacing: Annotated[
        float, typer.Option("--spacing", "-c", help="How far apart evaluations are.")
    ] = 0.1,
    estimator: Annotated[
        Literal["forward", "antithetic", "one-point"], typer.Option(help="The estimator.")
    ] = "forward",
    optimizer: Annotated[
        Literal["adam", "momentum", "sgd"], typer.Option(help="What the estimate does to x.")
    ] = "adam",
    learning_rate: Annotated[
        float | None,
        typer.Option(
            "--learning-rate",
            "-r",
            help="Constant rate; without it Adam falls from 0.1 to 0 over the budget.",
        ),
    ] = None,
    budget: Annotated[int, typer.Option("--budget", "-b", help="Evaluations to spend.")] = 10_000,
    target: Annotated[float | None, typer.Option(help="Stop at this value.")] = None,
    samples: Annotated[
        Literal["shared", "paired", "independent"] | None,
        typer.Option(help="The function is fun(x, rng) and draws its noise from rng."),
    ] = None,
    num_samples: Annotated[
        int, typer.Option("--num-samples", "-N", help="Samples averaged at each point.")
    ] = 1,
    bounds: Annotated[
        str | None, typer.Option(help="lower,upper for all parameters, such as -1,1.")
    ] = None,
    maximize: Annotated[bool, typer.Option("--maximize", help="Maximise instead.")] = False,
    vectorized: Annotated[
        bool, typer.Option("--vectorized", help="The function takes stacked points.")
    ] = False,
    on_failure: Annotated[
        Literal["raise", "drop"], typer.Option(help="On NaN or an exception.")
    ] = "raise",
    seed: Annotated[int | None, typer.Option(help="Makes the run repeatable.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the result here, as JSON.")
    ] = None,
) -> None:
    """Minimise a function on the Python path.

    For example, with a file model.py that defines loss(x):

        gensmooth minimize model:loss --x0 zeros:10 --budget 20000
    """
    import gensmooth as gs

    if optimizer != "adam" and learning_rate is None:
        raise ValueError(f"`--optimizer {optimizer}` needs a `--learning-rate`.")
    made = {"adam": gs.adam, "momentum": gs.momentum, "sgd": gs.sgd}[optimizer]
    estimators: dict[str, Any] = {
        "forward": gs.ForwardDifference(),
        "antithetic": gs.Antithetic(),
        "one-point": gs.OnePoint("others"),
    }
    result = gs.minimize(
        find_function(objective),
        parse_start(x0),
        method=method,
        num_directions=num_directions,
        spacing=spacing,
        estimator=estimators[estimator],
        optimizer=None if learning_rate is None else made(learning_rate),
        budget=budget,
        target=target,
        samples=samples,
        num_samples=num_samples,
        bounds=None if bounds is None else _pair(bounds),
        maximize=maximize,
        vectorized=vectorized,
        on_failure=on_failure,
        seed=seed,
    )
    report = {
        "x": result.x.tolist(),
        "fun": result.fun,
        "best_x": result.best_x.tolist(),
        "best_fun": result.best_fun,
        "nfev": result.nfev,
        "nit": result.nit,
        "success": result.success,
        "status": result.status,
        "message": result.message,
        "dropped": result.dropped,
        "seed": result.seed,
    }
    if out is not None:
        out.write_text(json.dumps(report, indent=2) + "\n")
    _show(report, out)
    if result.status == "interrupted":
        raise typer.Exit(130)
    if not result.success:
        raise typer.Exit(1)


def find_function(name: str) -> Callable[..., Any]:
    """The function called ``module:function``, looked for in this folder too."""
    module_name, colon, function_name = name.partition(":")
    if not colon or not module_name or not function_name:
        raise ValueError(
            f"The objective must be module:function, such as model:loss, not {name!r}."
        )
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.split(".")[0]:
            raise
        raise ValueError(
            f"There is no module {module_name!r} in {Path.cwd()} or on the Python path."
        ) from None
    for part in function_name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"Module {module_name!r} has no {function_name!r}.")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"{name} is not a function, but {type(found).__name__}.")
    return found


def parse_start(text: str) -> Any:
    """The starting point from its words."""
    import numpy as np

    kind, colon, number = text.partition(":")
    if colon and kind in ("zeros", "ones") and number.isdigit() and int(number) > 0:
        return np.zeros(int(number)) if kind == "zeros" else np.ones(int(number))
    if text.endswith(".npy"):
        return np.load(text, allow_pickle=False)
    try:
        return np.array([float(part) for part in text.replace(",", " ").split()])
    except ValueError:
        raise ValueError(
            f"`--x0` must be numbers such as 1,2.5,-3, or zeros:100, ones:100, or a .npy file, "
            f"but is {text!r}."
        ) from None


def _pair(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"`--bounds` must be lower,upper, such as -1,1, not {text!r}.") from None
    return low, high


def _show(report: dict[str, Any], out: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None)
    for key, value in report.items():
        text = f"{value:.8g}" if isinstance(value, float) else str(value)
        if isinstance(value, list) and len(text) > 200:
            where = out if out is not None else "--out result.json has them"
            text = f"{text[:100]}… ({where})"
        table.add_row(key, text)
    Console().print(table)
