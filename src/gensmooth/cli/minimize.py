"""``gensmooth minimize model:loss --x0 zeros:10``: minimise a function."""

import inspect
from collections.abc import Callable
from typing import Any

from gensmooth.cli.common import REPORT, add_evaluator_and_trackers, choose_out, run_and_finish
from gensmooth.cli.options import ParsedOptions, Sets, Shell, command
from gensmooth.cli.values import (
    POINTS,
    RAY,
    SHELL,
    TRACKERS,
    read_budget,
    read_function,
    read_scale,
)


@command(
    Sets("gensmooth.optimize:minimize"),
    RAY,
    *TRACKERS,
    REPORT,
    shell=SHELL
    | POINTS
    | {
        "fun": Shell(
            name="objective",
            type=str,
            read=read_function,
            how="In a shell: module:function or file.py:function, looked up from this folder.",
            argument=True,
        ),
        "x_scale": Shell(
            type=str,
            read=read_scale,
            how="In a shell: a number; numbers such as 1,10,0.5; or a .npy file.",
        ),
        "budget": Shell(type=str, read=read_budget, how="In a shell: a whole number; or none."),
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
        block: The number of points that a vectorised function receives per call.
    """
    import gensmooth as gs

    arguments = parsed.arguments("gensmooth.optimize:minimize")
    extra = len(arguments.get("args", ()))
    check_call(arguments["fun"], parsed["objective"], sampled="samples" in arguments, extra=extra)
    if block is not None:
        arguments["vectorized"] = block
    add_evaluator_and_trackers(arguments, parsed)
    out = choose_out(parsed, parsed["folder"], stem=parsed["objective"])
    run_and_finish(lambda: gs.minimize(**arguments), out, parsed)


def check_call(fun: Callable[..., Any], name: str, *, sampled: bool, extra: int = 0) -> None:
    """Check that a function takes the arguments it will get, with or without a generator.

    Args:
        fun: The function.
        name: The name that the user typed.
        sampled: Whether it is called with a generator.
        extra: The number of extra arguments, ``args``.

    Raises:
        ValueError: If it needs a generator and gets none, or gets one that it does not take.
    """
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):  # a built-in function: the first call will tell
        return
    plain, with_generator = (_binds(signature, number + extra) for number in (1, 2))
    others = ", *args" if extra else ""
    if not sampled and with_generator and not plain:
        raise ValueError(
            f"{name}{signature} is called as fun(x{others}), which lacks an argument. If its noise "
            f"comes from a generator, fun(x, rng{others}), choose how samples are drawn: "
            "`--samples independent` (or shared, or paired)."
        )
    if sampled and plain and not with_generator:
        raise ValueError(
            f"{name}{signature} is called as fun(x, rng{others}) because of `--samples`: add the "
            "argument `rng` and draw the noise from it."
        )


def _binds(signature: inspect.Signature, number: int) -> bool:
    try:
        signature.bind(*range(number))
    except TypeError:
        return False
    return True
