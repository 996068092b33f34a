"""``gensmooth resume FOLDER``: go on with a training, or a run whose objective has a name."""

from pathlib import Path
from typing import Annotated

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
    ray_evaluator,
)
from gensmooth.cli.train import finish_training


def resume(
    folder: Annotated[
        Path,
        typer.Argument(help="The folder given as --checkpoint, or to train.", show_default=False),
    ],
    objective: Annotated[
        str | None,
        typer.Option(help="module:function, if it is no longer where config.json says."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", "-b", help="Evaluations in all, instead of before's.")
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(help="Steps in all; of a training, iterations.")
    ] = None,
    target: Annotated[float | None, typer.Option(help="Stop at this value.")] = None,
    threads: Annotated[
        int | None, typer.Option(help="Of a training: threads of a fast simulator.")
    ] = None,
    workers: WorkersOption = None,
    ray: RayOption = None,
    timeout: TimeoutOption = None,
    retries: RetriesOption = None,
    every: EveryOption = None,
    progress: ProgressOption = None,
    tensorboard: TensorBoardOption = None,
    mlflow: MLflowOption = None,
    wandb: WandBOption = None,
    out: OutOption = None,
) -> None:
    """Go on with an interrupted run, or with one that has ended under larger limits.

    The objective is the function that the folder's config.json names; it is imported and called,
    so look there first if the folder is not yours.
    """
    import gensmooth as gs
    from gensmooth.naming import find_function
    from gensmooth.runs import kind_of

    check_out(out)
    on_ray = ray is not None
    evaluator = ray_evaluator(ray, workers, timeout, retries) if on_ray else workers
    timeout, retries = (None, None) if on_ray else (timeout, retries)
    trackers = chosen_trackers(tensorboard, mlflow, wandb)
    if kind_of(folder) == "training":
        for name, value in (("--objective", objective), ("--budget", budget), ("--out", out)):
            if value is not None:
                raise ValueError(f"{folder} holds a training, which takes no `{name}`.")
        trained = gs.rl.resume(
            folder,
            iterations=max_steps,
            target=target,
            threads=threads,
            workers=evaluator,
            timeout=timeout,
            retries=retries,
            every=every,
            progress=progress,
            trackers=trackers,
        )
        finish_training(trained, folder)
        return
    if threads is not None:
        raise ValueError(f"{folder} holds no training, so there is no use for `--threads`.")
    result = gs.resume(
        folder,
        None if objective is None else find_function(objective),
        budget=budget,
        max_steps=max_steps,
        target=target,
        workers=evaluator,
        timeout=timeout,
        retries=retries,
        every=every,
        progress=progress,
        trackers=trackers,
    )
    finish(result, out)
