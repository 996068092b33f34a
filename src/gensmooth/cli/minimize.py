"""``gensmooth minimize model:loss --x0 zeros:10``: minimise a function."""

import inspect
from collections.abc import Callable
from typing import Any

from gensmooth.cli.common import (
    REPORT,
    choose_evaluator,
    choose_out,
    choose_trackers,
    run_and_finish,
)
from gensmooth.cli.options import ParsedOptions, Sets, Shell, command
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
            how="In the shell module:function or file.py:function, looked up from this folder.",
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
            how="In the shell lower,upper for all parameters, such as -1,1 (leave one empty for no "
            "limit); repeat it to set each parameter; or a .npy file with a row for each.",
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
    common=(
        *("x0", "bounds", "maximize", "samples"),
        *("method", "num_directions", "spacing", "learning_rate", "estimator"),
        *("budget", "max_steps", "max_seconds", "target"),
        *("workers", "on_failure", "folder", "seed", "out", "json"),
    ),
)
def minimize(parsed: ParsedOptions, *, block: int | None = None) -> None:
    """Minimise a function on the Python path.

    For example, with a file model.py that defines loss(x):

        gensmooth minimize model:loss --x0 zeros:10 --budget 20000

    Args:
        parsed: The options of :func:`gensmooth.minimize`.
        block: The number of points that a vectorised function takes at once.
    """
    import gensmooth as gs

    arguments = parsed.arguments("gensmooth.optimize:minimize")
    more = len(arguments.get("args", ()))
    check_call(arguments["fun"], parsed["objective"], sampled="samples" in arguments, more=more)
    if block is not None:
        arguments["vectorized"] = block
    choose_evaluator(arguments, parsed)
    choose_trackers(arguments, parsed)
    out = choose_out(parsed, parsed["folder"], stem=parsed["objective"])
    run_and_finish(lambda: gs.minimize(**arguments), out, parsed)


def check_call(fun: Callable[..., Any], name: str, *, sampled: bool, more: int = 0) -> None:
    """Check that a function takes the arguments it will get, with or without a generator.

    Args:
        fun: The function.
        name: The name that the user typed.
        sampled: Whether it is called with a generator.
        more: The number of extra arguments.

    Raises:
        ValueError: If the generator is missing, or one too many.
    """
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):  # a built-in function: the first call will show
        return
    takes = {number for number in (1, 2) if _binds(signature, number + more)}
    if not sampled and takes == {2}:
        raise ValueError(
            f"{name}{signature} takes two arguments, but is called with x alone. If its noise "
            "comes from a generator, fun(x, rng), choose how samples are drawn: `--samples "
            "independent` (or shared, or paired)."
        )
    if sampled and takes == {1}:
        raise ValueError(
            f"{name}{signature} takes one argument, but with `--samples` it is called as "
            "fun(x, rng): add the argument `rng` and draw the noise from it."
        )


def _binds(signature: inspect.Signature, number: int) -> bool:
    try:
        signature.bind(*range(number))
    except TypeError:
        return False
    return True
