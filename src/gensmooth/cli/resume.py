"""``gensmooth resume FOLDER``: go on with a training, or a run whose objective has a name."""

from functools import partial

from gensmooth.cli.common import (
    REPORT,
    choose_evaluator,
    choose_out,
    choose_trackers,
    run_and_finish,
    running,
)
from gensmooth.cli.options import Given, Sets, Shell, command
from gensmooth.cli.train import finish_training
from gensmooth.cli.values import RAY, SHELL, TRACKERS, read_function, read_object


@command(
    Sets("gensmooth.optimize:resume"),
    Sets("gensmooth.rl.training:resume"),
    RAY,
    *TRACKERS,
    REPORT,
    shell=SHELL
    | {
        "folder": Shell(argument=True),
        "fun": Shell(
            name="objective",
            type=str,
            read=read_function,
            how="In the shell module:function or file.py:function.",
        ),
        "optimizer": Shell(
            type=str,
            read=partial(read_object, option="optimizer"),
            how='In the shell written as in Python, "adam(0.01, b1=0.8)", or as module:name.',
        ),
        "x0": Shell(
            type=str,
            read=partial(read_object, option="x0"),
            how="In the shell module:name.",
        ),
        "iterations": Shell(how="Of a training; --max-steps does the same."),
    },
)
def resume(given: Given) -> None:
    """Go on with an interrupted run, or with one that has ended under larger limits.

    The objective is the function that the folder's config.json names; it is imported and called,
    so look there first if the folder is not yours.
    """
    import gensmooth as gs
    from gensmooth.runs import kind_of

    folder = given["folder"]
    training = kind_of(folder) == "training"
    if training and given["max_steps"] is not None:
        given.values.setdefault("iterations", given.values.pop("max_steps"))
    target = "gensmooth.rl.training:resume" if training else "gensmooth.optimize:resume"
    for name in given.foreign(target):
        holds = "a training, which takes" if training else "no training, which alone takes"
        option = name.replace("_", "-")
        raise ValueError(f"{folder} holds {holds} {'no ' if training else ''}`--{option}`.")
    arguments = given.arguments(target)
    choose_evaluator(arguments, given)
    choose_trackers(arguments, given)
    out = choose_out(given, folder)
    if not training:
        run_and_finish(lambda: gs.resume(**arguments), out, given)
        return
    with running(out):
        trained = gs.rl.resume(**arguments)
    finish_training(trained, out, given)
