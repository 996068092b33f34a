"""``gensmooth compare model:loss --methods auto,bes,gs``: methods on one function, and a page."""

import shlex
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import typer

from gensmooth.cli.common import JSON, Out, report, running
from gensmooth.cli.minimize import check_call
from gensmooth.cli.options import Given, Sets, Shell, command
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
    from gensmooth.comparisons import Comparison, Sweep

TARGET = "gensmooth.comparisons.comparing:compare"


def read_problem(text: str) -> Any:
    """A built-in problem as it is; a function of the user's by ``module:function``."""
    from gensmooth.comparisons import BUILT_IN

    return text if text.partition(":")[0] in BUILT_IN else as_module(text)


def read_seeds(text: str) -> int | list[int]:
    """A number of seeds, or seeds with commas."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError(
            f"`--seeds` must be a number of seeds, or seeds such as 3,5,8, but is {text!r}."
        ) from None
    return numbers if "," in text else numbers[0]


# What describes a problem, for the commands that run several methods on it.
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
def compare(given: Given) -> None:
    """Compare methods on a function: equal evaluations, the same seeds, a page with verdicts.

    For example, with a file model.py that defines loss(x):

        gensmooth compare model:loss --x0 zeros:12 --methods auto,bes,gs --seeds 10 --budget 20000
        gensmooth compare noisy:sphere:100 --methods auto,bes-shrinkage

    Runs what is missing: the same command continues what was interrupted.
    """
    from gensmooth.comparisons.comparing import run_comparison

    arguments = all_arguments(given, TARGET)
    with kept():
        found = run_comparison(
            arguments.pop("fun"), arguments.pop("x0"), arguments, command=typed()
        )
    told(found, given, {"standings": found.standings, "pairs": found.pairs})


def told(found: "Comparison | Sweep", given: Given, rows: dict[str, Sequence[Any]]) -> None:
    """Print what came of it: as a terminal shows it, or these rows as JSON."""
    if given["json"]:
        where = {"page": str(found.page), "runs": str(found.csv)}
        words = {name: [each._asdict() for each in every] for name, every in rows.items()}
        report(words | where, {}, as_json=True)
        return
    typer.echo(str(found))
    typer.echo(f"\npage: {found.page}\nruns: {found.csv}")


def all_arguments(given: Given, target: str) -> dict[str, Any]:
    """Every parameter of a function: as given, or its default; workers are one per core."""
    import inspect

    from gensmooth.evaluators import cores

    found = given.arguments(target)
    function = Sets(target).find()
    every = {name: each.default for name, each in inspect.signature(function).parameters.items()}
    every |= found
    if "workers" not in found and every.get("ray") is None:
        every["workers"] = cores()
    elif "workers" not in found:
        every["workers"] = None
    fun = every["fun"]
    if isinstance(fun, str) and not is_built_in(fun):
        with suppress(ValueError):  # what is not there is told by the comparison
            fun = read_function(fun)
            every["fun"] = fun
        if callable(fun):
            check_call(fun, given["objective"], sampled=every["samples"] is not None)
    return every


def is_built_in(text: str) -> bool:
    """Whether a text names a built-in problem."""
    from gensmooth.comparisons import BUILT_IN

    return text.partition(":")[0] in BUILT_IN


def typed() -> str:
    """What the user has typed."""
    return shlex.join(["gensmooth", *sys.argv[1:]])


@contextmanager
def kept() -> Generator[None]:
    """While runs are made: what user code prints goes to standard error; Ctrl-C keeps what is."""
    try:
        with running(Out(None, None)):
            yield
    except KeyboardInterrupt:
        typer.echo("Interrupted. What is finished is kept: the same command continues.", err=True)
        raise typer.Exit(130) from None
