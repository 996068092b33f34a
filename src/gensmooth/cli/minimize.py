"""``gensmooth minimize model:loss --x0 zeros:10``: minimise a function on the Python path."""

import inspect
from collections.abc import Callable
from typing import Any

from gensmooth.cli.common import (
    REPORT,
    choose_evaluator,
    choose_optimizer,
    choose_out,
    choose_trackers,
    run_and_finish,
)
from gensmooth.cli.options import Given, Sets, Shell, command
from gensmooth.cli.values import (
    RAY,
    SHELL,
    TRACKERS,
    read_bounds,
    read_function,
    read_noise,
    read_scale,
    read_start,
    read_truths,
)


@command(
    Sets("gensmooth.optimize:minimize"),
    RAY,
    *TRACKERS,
    REPORT,
    shell=SHELL
    | {
        "fun": Shell(
            name="objective",
            type=str,
            read=read_function,
            how="In the shell module:function or file.py:function, found from this folder on.",
            argument=True,
        ),
        "x0": Shell(
            type=str,
            read=read_start,
            how="In the shell numbers such as 1,2.5,-3; zeros:100; ones:100; or a .npy file.",
        ),
        "bounds": Shell(
            type=list[str],
            read=read_bounds,
            how="In the shell lower,upper for all parameters, such as -1,1 or 0, without an upper "
            "limit; given once for each, for each its own; or a .npy file with a row for each.",
        ),
        "x_scale": Shell(
            type=str,
            read=read_scale,
            how="In the shell a number; numbers such as 1,10,0.5; or a .npy file.",
        ),
        "log_scale": Shell(
            type=str,
            read=read_truths,
            how="In the shell all; 1 or 0 for each, such as 1,0,1; or a .npy file.",
        ),
        "noise": Shell(
            type=str,
            read=read_noise,
            how="In the shell a number or returned.",
            complete=lambda: ["returned"],
        ),
        "vectorized": Shell(type=bool, how="See --block."),
    },
)
def minimize(given: Given, *, learning_rate: float | None = None, block: int | None = None) -> None:
    """Minimise a function on the Python path.

    For example, with a file model.py that defines loss(x):

        gensmooth minimize model:loss --x0 zeros:10 --budget 20000

    Args:
        given: The options that are :func:`gensmooth.minimize`'s.
        learning_rate: A constant learning rate for --optimizer, by default Adam; without it, and
            with a method of the paper, Adam's falls from 0.1 to 0 over the budget.
        block: The number of points that a vectorised function takes at once.
    """
    import gensmooth as gs

    arguments = given.arguments("gensmooth.optimize:minimize")
    more = len(arguments.get("args", ()))
    check_call(arguments["fun"], given["objective"], sampled="samples" in arguments, more=more)
    if block is not None:
        arguments["vectorized"] = block
    choose_optimizer(arguments, learning_rate, falling=0.1)
    choose_evaluator(arguments, given)
    choose_trackers(arguments, given)
    out = choose_out(given, given["checkpoint"], stem=given["objective"])
    if out.folder is not None:
        arguments["checkpoint"] = out.folder
    run_and_finish(lambda: gs.minimize(**arguments), out, given)


def check_call(fun: Callable[..., Any], name: str, *, sampled: bool, more: int = 0) -> None:
    """Explain a function that cannot be called as it would be: with or without a generator.

    Args:
        fun: The function.
        name: What the user called it.
        sampled: Whether it is called with a generator.
        more: How many arguments of the user's it is called with.
    """
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):  # built in: calling it will tell
        return
    takes = {number for number in (1, 2) if _binds(signature, number + more)}
    if not sampled and takes == {2}:
        raise ValueError(
            f"{name}{signature} takes two arguments, but is called with x alone. If its noise "
            "comes from a generator, fun(x, rng), say how its samples are drawn: `--samples "
            "independent` (or shared, or paired)."
        )
    if sampled and takes == {1}:
        raise ValueError(
            f"{name}{signature} takes one argument, but with `--samples` it is called as "
            "fun(x, rng): take the generator, and draw the noise from it."
        )


def _binds(signature: inspect.Signature, number: int) -> bool:
    try:
        signature.bind(*range(number))
    except TypeError:
        return False
    return True
