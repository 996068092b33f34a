"""``gensmooth compare model:loss --methods auto,bes,gs``: compare methods on a function."""

import shlex
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import typer

from gensmooth.cli.common import JSON, Out, report, running
from gensmooth.cli.minimize import check_call
from gensmooth.cli.options import ParsedOptions, Sets, Shell, command
from gensmooth.cli.values import (
    as_module,
    method_names,
    read_bounds,
    read_function,
    read_noise,
    read_start,
    read_truths,
)

if TYPE_CHECKING:
    from gensmooth.lab.compare import Comparison
    from gensmooth.lab.sweep import Sweep

TARGET = "gensmooth.lab.compare:compare"


def read_problem(text: str) -> Any:
    """Return a built-in problem's name unchanged, or a user's function as ``module:function``."""
    from gensmooth.lab.trials.problems import BUILT_IN

    return text if text.partition(":")[0] in BUILT_IN else as_module(text)


def read_seeds(text: str) -> int | list[int]:
    """Return a number of seeds, or a list of comma-separated seeds."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError(
            f"`--seeds` must be a number of seeds, or seeds such as 3,5,8, but is {text!r}."
        ) from None
    return numbers if "," in text else numbers[0]


# The options that describe a problem, for commands that run several methods on it.
PROBLEM = {
    "fun": Shell(
        name="objective",
        type=str,
        read=read_problem,
        how="In the shell module:function or file.py:function, or a problem by its name.",
        argument=True,
    ),
    "x0": Shell(
        type=str,
        read=read_start,
        how="In the shell numbers such as 1,2.5,-3; zeros:100; ones:100; or a .npy file.",
    ),
    "seeds": Shell(type=str, read=read_seeds, how="In the shell 10, or 3,5,8."),
    "score": Shell(type=str, read=read_function, how="In the shell module:function."),
    "bounds": Shell(
        type=list[str],
        read=read_bounds,
        how="In the shell lower,upper for all parameters, or once for each; or a .npy file.",
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
    "vectorized": Shell(type=bool),
    "workers": Shell(type=int, how="In the shell by default one per core."),
    "ray": Shell(how="In the shell local starts one.", complete=lambda: ["auto", "local"]),
}


@command(
    Sets(TARGET),
    JSON,
    shell=PROBLEM
    | {
        "methods": Shell(
            type=str,
            how='In the shell with commas: auto,bes,"gs(spacing=0.5)".',
            complete=method_names,
        ),
    },
)
def compare(parsed: ParsedOptions) -> None:
    """Compare methods on a function with equal budgets and seeds, and write a page.

    For example, with a file model.py that defines loss(x):

        gensmooth compare model:loss --x0 zeros:12 --methods auto,bes,gs --seeds 10 --budget 20000
        gensmooth compare noisy:sphere:100 --methods auto,bes-shrinkage

    Only missing runs are made, so the same command continues an interrupted comparison.
    """
    from gensmooth.lab.compare import run_comparison

    arguments = all_arguments(parsed, TARGET)
    with kept():
        result = run_comparison(
            arguments.pop("fun"), arguments.pop("x0"), arguments, command=typed()
        )
    print_result(result, parsed, {"standings": result.standings, "pairs": result.pairs})


def print_result(
    result: "Comparison | Sweep", parsed: ParsedOptions, rows: dict[str, Sequence[Any]]
) -> None:
    """Print a result: as text, or these rows as JSON."""
    if parsed["json"]:
        where = {"page": str(result.page), "runs": str(result.csv)}
        words = {name: [each._asdict() for each in every] for name, every in rows.items()}
        report(words | where, {}, as_json=True)
        return
    typer.echo(str(result))
    typer.echo(f"\npage: {result.page}\nruns: {result.csv}")


def all_arguments(parsed: ParsedOptions, target: str) -> dict[str, Any]:
    """Every parameter of a function: its value or default; by default one worker per core."""
    import inspect

    from gensmooth.evaluators import cores

    passed = parsed.arguments(target)
    parameters = inspect.signature(Sets(target).find()).parameters
    arguments = {name: parameter.default for name, parameter in parameters.items()} | passed
    if "workers" not in passed and arguments.get("ray") is None:
        arguments["workers"] = cores()
    elif "workers" not in passed:
        arguments["workers"] = None
    fun = arguments["fun"]
    if isinstance(fun, str) and not is_built_in(fun):
        with suppress(ValueError):  # the comparison reports a missing function
            fun = read_function(fun)
            arguments["fun"] = fun
        if callable(fun):
            check_call(fun, parsed["objective"], sampled=arguments["samples"] is not None)
    return arguments


def is_built_in(text: str) -> bool:
    """Whether a text names a built-in problem."""
    from gensmooth.lab.trials.problems import BUILT_IN

    return text.partition(":")[0] in BUILT_IN


def typed() -> str:
    """Return the command line that the user typed."""
    return shlex.join(["gensmooth", *sys.argv[1:]])


@contextmanager
def kept() -> Generator[None]:
    """Make runs with the user's output on standard error; Ctrl-C keeps the finished ones."""
    try:
        with running(Out(None, None)):
            yield
    except KeyboardInterrupt:
        typer.echo(
            "Interrupted. Finished runs are kept: repeat the same command to continue.", err=True
        )
        raise typer.Exit(130) from None
