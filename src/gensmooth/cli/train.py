"""``gensmooth train ENV``: train a policy, in a folder that holds all of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gensmooth.cli.common import (
    EveryOption,
    MLflowOption,
    ProgressOption,
    RayOption,
    RetriesOption,
    TensorBoardOption,
    TimeoutOption,
    WandBOption,
    WorkersOption,
    chosen_trackers,
    local_workers,
    ray_evaluator,
    show,
)

if TYPE_CHECKING:
    from gensmooth.rl import TrainResult


def train(
    environment: Annotated[
        str,
        typer.Argument(
            help="Hopper-v5, Walker2d-v5, Ant, HalfCheetahRandVel, ML1-Reach, ML1-Push, …, or any "
            "id of Gymnasium.",
            show_default=False,
        ),
    ],
    method: Annotated[str, typer.Option("--method", "-m", help="See `gensmooth methods`.")] = "bes",
    num_directions: Annotated[
        int, typer.Option("--num-directions", "-L", help="L; an iteration runs 2L episodes.")
    ] = 20,
    spacing: Annotated[
        float | None,
        typer.Option("--spacing", "-c", help="c; by default chosen for the environment."),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option("--learning-rate", "-r", help="η; by default chosen for the environment."),
    ] = None,
    policy: Annotated[Literal["linear", "mlp"], typer.Option(help="The policy.")] = "linear",
    hidden: Annotated[
        str | None,
        typer.Option(help="Sizes of an mlp's hidden layers, such as 64,64; by default 32."),
    ] = None,
    estimator: Annotated[
        Literal["forward", "antithetic", "one-point"],
        typer.Option(help="The estimator; the paper's is forward."),
    ] = "antithetic",
    paired_resets: Annotated[
        bool, typer.Option("--paired-resets", help="Both episodes of a direction start alike.")
    ] = False,
    standardize: Annotated[
        bool, typer.Option("--standardize/--raw", help="Standardise observations.")
    ] = True,
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", "-n", help="By default chosen for the environment."),
    ] = None,
    test_every: Annotated[int, typer.Option(help="Iterations between tests.")] = 10,
    test_episodes: Annotated[int, typer.Option(help="Episodes of a test.")] = 50,
    target: Annotated[
        float | None, typer.Option(help="Stop when a test's mean return reaches this.")
    ] = None,
    on_failure: Annotated[
        Literal["raise", "drop"], typer.Option(help="On an episode that breaks down.")
    ] = "raise",
    threads: Annotated[
        int | None, typer.Option(help="Threads of a fast simulator; by default one a core.")
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
    seed: Annotated[int | None, typer.Option(help="Makes the training repeatable.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="A folder for the training; by default a new one under runs/. The same command "
            "goes on with it if it was interrupted.",
        ),
    ] = None,
) -> None:
    """Train a policy by random search.

    For example:

        gensmooth train Hopper-v5 --seed 0 --out hopper
        gensmooth evaluate hopper
        gensmooth render hopper -o hopper.mp4
    """
    import gensmooth as gs

    on_ray = ray is not None
    folder = new_folder(environment) if out is None else out
    result = gs.rl.train(
        environment,
        method=method,
        num_directions=num_directions,
        spacing=spacing,
        learning_rate=learning_rate,
        policy=policy,
        hidden=None if hidden is None else _sizes(hidden),
        estimator=estimator,
        paired_resets=paired_resets,
        standardize=standardize,
        iterations=iterations,
        test_every=test_every,
        test_episodes=test_episodes,
        target=target,
        on_failure=on_failure,
        threads=threads,
        workers=ray_evaluator(ray, workers, timeout, retries) if on_ray else local_workers(workers),
        timeout=None if on_ray else timeout,
        retries=0 if on_ray else retries or 0,
        out=folder,
        every=every,
        progress=progress,
        trackers=chosen_trackers(tensorboard, mlflow, wandb),
        seed=seed,
    )
    finish_training(result, folder)


def finish_training(result: "TrainResult", folder: Path) -> None:
    """Show what came of a training, and leave with what it means for a shell."""
    report: dict[str, Any] = {
        "environment": result.policy.environment,
        "status": result.status,
        "message": result.message,
        "iterations": result.iterations,
        "trajectories": result.trajectories,
        "environment steps": result.env_steps,
    }
    if result.tests:
        report |= {
            "last test": f"{result.tests[-1].mean_return:.6g}",
            "best test": f"{result.best.mean_return:.6g} after {result.best.step} iterations",
        }
    report |= {"faults": dict(result.faults), "seed": result.seed, "folder": str(folder)}
    show(report)
    if result.status == "interrupted":
        raise typer.Exit(130)
    if not result.success:
        raise typer.Exit(1)


def new_folder(environment: str) -> Path:
    """The first of ``runs/ENV-1``, ``runs/ENV-2``, … that is not there."""
    stem = environment.replace("/", "-").replace(":", "-")
    number = 1
    while (folder := Path("runs") / f"{stem}-{number}").exists():
        number += 1
    return folder


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"`--hidden` must be sizes such as 32 or 64,64, not {text!r}.") from None
