"""``gensmooth resume FOLDER``: continue a training, or a run whose objective has a name."""

from functools import partial

from gensmooth.cli.common import (
    REPORT,
    add_evaluator_and_trackers,
    choose_out,
    run_and_finish,
    running,
)
from gensmooth.cli.options import ParsedOptions, Sets, Shell, command
from gensmooth.cli.train import finish_training
from gensmooth.cli.values import RAY, SHELL, TRACKERS, read_function, read_object


@command(
    Sets("gensmooth.optimize:resume"),
    Sets("gensmooth.rl.front:resume"),
    RAY,
    *TRACKERS,
    REPORT,
    shell=SHELL
    | {
        "folder": Shell(argument=True, how="Or to `train`."),
        "fun": Shell(
            name="objective",
            type=str,
            read=read_function,
            how="In a shell: module:function or file.py:function.",
        ),
        "optimizer": Shell(
            type=str,
            read=partial(read_object, option="optimizer"),
            how='In a shell: "adam(0.01, b1=0.8)" as in Python, or module:name.',
        ),
        "x0": Shell(
            type=str, read=partial(read_object, option="x0"), how="In a shell: module:name."
        ),
    },
    common=(
        *("objective", "budget", "max_steps", "max_seconds", "target", "workers", "trust"),
        *("out", "json"),
    ),
)
def resume(parsed: ParsedOptions) -> None:
    """Continue an interrupted run, or a finished one with larger limits.

    A minimisation needs its objective: name it with --objective, or pass --trust, and the function
    that the folder's config.json names is imported and called. Check that file first if the folder
    is not yours.
    """
    import gensmooth as gs
    from gensmooth.runs import kind_of

    folder = parsed["folder"]
    training = kind_of(folder) == "training"
    target = "gensmooth.rl.front:resume" if training else "gensmooth.optimize:resume"
    for name in parsed.foreign(target):
        option = name.replace("_", "-")
        kind, other = ("training", "minimisation") if training else ("minimisation", "training")
        raise ValueError(f"{folder} holds a {kind}, but `--{option}` is only for a {other}.")
    arguments = parsed.arguments(target)
    add_evaluator_and_trackers(arguments, parsed)
    out = choose_out(parsed, folder)
    if not training:
        run_and_finish(lambda: gs.resume(**arguments), out, parsed)
        return
    with running(out):
        trained = gs.rl.resume(**arguments)
    finish_training(trained, out, parsed)
