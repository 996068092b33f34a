"""``gensmooth minimize module:function``: minimise a function on the Python path."""

from gensmooth.cli.common import (
    OUT,
    choose_evaluator,
    choose_optimizer,
    choose_out,
    choose_trackers,
    finish,
)
from gensmooth.cli.options import Given, Sets, Shell, command
from gensmooth.cli.values import RAY, SHELL, TRACKERS, read_bounds, read_function, read_start


@command(
    Sets("gensmooth:minimize"),
    RAY,
    *TRACKERS,
    OUT,
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
        "vectorized": Shell(type=bool, how="See --block."),
    },
)
def minimize(given: Given, *, learning_rate: float | None = None, block: int | None = None) -> None:
    """Minimise a function on the Python path.

    For example, with a file model.py that defines loss(x):

        gensmooth minimize model:loss --x0 zeros:10 --budget 20000

    Args:
        given: The options that are :func:`gensmooth.minimize`'s.
        learning_rate: A constant learning rate; without it Adam's falls from 0.1 to 0 over the
            budget.
        block: The number of points that a vectorised function takes at once.
    """
    import gensmooth as gs

    folder, out = choose_out(given, given["checkpoint"])
    arguments = given.arguments("gensmooth:minimize")
    if folder is not None:
        arguments["checkpoint"] = folder
    if block is not None:
        arguments["vectorized"] = block
    choose_optimizer(arguments, learning_rate)
    choose_evaluator(arguments, given)
    choose_trackers(arguments, given)
    finish(gs.minimize(**arguments), out)
