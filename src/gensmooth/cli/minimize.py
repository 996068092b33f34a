"""``gensmooth minimize module:function``: minimise a function on the Python path."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gensmooth.cli.common import (
    EveryOption,
    MLflowOption,
    OutOption,
    ProgressOption,
    RayOption,
    RetriesOption,
    TensorBoardOption,
    TimeoutOption,
    WandBOption,
    WorkersOption,
    check_out,
    chosen_trackers,
    finish,
    local_workers,
    ray_evaluator,
)


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
        Literal["raise", "drop", "retry"],
        typer.Option(help="On NaN, an exception, a time-out or a dead worker."),
    ] = "raise",
    workers: WorkersOption = None,
    ray: RayOption = None,
    timeout: TimeoutOption = None,
    retries: RetriesOption = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="A folder for the run. The same command goes on with it if it was interrupted."
        ),
    ] = None,
    every: EveryOption = None,
    progress: ProgressOption = None,
    tensorboard: TensorBoardOption = None,
    mlflow: MLflowOption = None,
    wandb: WandBOption = None,
    seed: Annotated[int | None, typer.Option(help="Makes the run repeatable.")] = None,
    out: OutOption = None,
) -> None:
    """Minimise a function on the Python path.

    For example, with a file model.py that defines loss(x):

        gensmooth minimize model:loss --x0 zeros:10 --budget 20000
    """
    import gensmooth as gs
    from gensmooth.naming import find_function

    check_out(out)
    if optimizer != "adam" and learning_rate is None:
        raise ValueError(f"`--optimizer {optimizer}` needs a `--learning-rate`.")
    made = {"adam": gs.adam, "momentum": gs.momentum, "sgd": gs.sgd}[optimizer]
    estimators: dict[str, Any] = {
        "forward": gs.ForwardDifference(),
        "antithetic": gs.Antithetic(),
        "one-point": gs.OnePoint("others"),
    }
    on_ray = ray is not None
    if on_ray and on_failure == "retry" and retries is None:
        retries = 2
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
        workers=ray_evaluator(ray, workers, timeout, retries) if on_ray else local_workers(workers),
        timeout=None if on_ray else timeout,
        retries=0 if on_ray else retries or 0,
        checkpoint=checkpoint,
        every=every,
        progress=progress,
        trackers=chosen_trackers(tensorboard, mlflow, wandb),
        seed=seed,
    )
    finish(result, out)


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
