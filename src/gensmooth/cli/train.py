"""``gensmooth train ENV``: train a policy; its folder contains everything."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gensmooth.cli.common import (
    REPORT,
    Out,
    add_evaluator_and_trackers,
    choose_out,
    exit_with_status,
    new_folder,
    report,
    result_file,
    running,
)
from gensmooth.cli.options import ParsedOptions, Sets, Shell, command
from gensmooth.cli.values import (
    RAY,
    SHELL,
    TRACKERS,
    read_policy,
    read_settings,
    read_sizes,
    read_target,
)

if TYPE_CHECKING:
    from gensmooth.rl import TrainResult


@command(
    Sets("gensmooth.rl.front:train"),
    RAY,
    *TRACKERS,
    REPORT,
    shell=SHELL
    | {
        "environment": Shell(type=str, argument=True),
        "policy": Shell(
            read=read_policy,
            how='Or an object: "MLP(hidden=(64, 64))".',
            complete=lambda: ["linear", "mlp"],
        ),
        "hidden": Shell(type=str, read=read_sizes, how="In a shell: 64,64."),
        "standardize": Shell(flags=("--standardize/--raw",)),
        "env_args": Shell(
            name="env_arg",
            type=list[str],
            read=read_settings,
            how="In a shell: name=value, such as g=5.0; may be repeated.",
        ),
        "target": Shell(
            type=str,
            read=read_target,
            how="In a shell: a number, threshold or none.",
            complete=lambda: ["threshold", "none"],
        ),
        "folder": Shell(how="By default a new folder under runs/; it also holds result.json."),
    },
    common=(
        *("env_arg", "policy", "hidden", "method", "num_directions", "spacing", "learning_rate"),
        *("estimator", "max_steps", "max_seconds", "target", "test_every"),
        *("test_episodes", "device", "workers", "on_failure", "folder", "seed", "out", "json"),
    ),
)
def train(parsed: ParsedOptions) -> None:
    """Train a policy by random search.

    For example:

        gensmooth train Hopper-v5 --seed 0 --folder hopper
        gensmooth evaluate hopper
        gensmooth render hopper -o hopper.mp4
    """
    from gensmooth.rl import front as training

    arguments = parsed.arguments("gensmooth.rl.front:train")
    add_evaluator_and_trackers(arguments, parsed)
    out = choose_out(parsed, arguments.get("folder"), stem=arguments["environment"])
    if out.folder is None:
        folder = out.reserved or new_folder(arguments["environment"])
        if folder is None:
            raise ValueError(
                f"No folder can be created in {Path.cwd()}: choose one with `--folder`."
            )
        out = Out(folder, out.file, folder)
    arguments["folder"] = out.folder
    with running(out):
        result = training.train(**arguments)
    finish_training(result, out, parsed)


def finish_training(result: "TrainResult", out: Out, parsed: ParsedOptions) -> None:
    """Report the result of a training, and exit with the status for the shell."""
    full: dict[str, Any] = {
        "environment": result.policy.environment,
        "success": result.success,
        "status": result.status,
        "reason": result.reason,
        "message": result.message,
        "nit": result.nit,
        "nfev": result.nfev,
        "env_steps": result.env_steps,
        "faults": dict(result.faults),
        "seed": result.seed,
        "folder": str(out.folder),
    }
    tests = [{"step": test.step, "mean_return": test.mean_return} for test in result.tests]
    best = {"step": result.best.step, "mean_return": result.best.mean_return}
    shown = {name.replace("env_", "environment "): value for name, value in full.items()}
    if tests:
        shown["last test"] = f"{tests[-1]['mean_return']:.6g}"
        shown["best test"] = f"{best['mean_return']:.6g} after {best['step']} steps"
    full |= {"best": best if tests else None, "tests": tests}
    file = result_file(out, result.seed)
    report(full, shown, file=file, out=parsed["out"], as_json=bool(parsed["json"]))
    exit_with_status(result.reason, success=result.success)
