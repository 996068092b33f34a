"""``gensmooth compare model:loss --methods auto,bes,gs``: compare methods on a function."""

import inspect
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from gensmooth.cli.common import JSON, many_runs, report
from gensmooth.cli.minimize import check_call
from gensmooth.cli.options import ParsedOptions, Sets, Shell, command
from gensmooth.cli.values import POINTS, as_module, method_names, read_function

if TYPE_CHECKING:
    from gensmooth.lab.compare import Comparison
    from gensmooth.lab.sweep import Sweep

TARGET = "gensmooth.lab.compare:compare"


def read_problem(text: str) -> Any:
    """Return a built-in problem's name unchanged, or a user's function as ``module:function``."""
    return text if _is_built_in(text) else as_module(text)


def _is_built_in(text: str) -> bool:
    from gensmooth.lab.trials.problems import BUILT_IN

    return text.partition(":")[0] in BUILT_IN


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
PROBLEM = POINTS | {
    "fun": Shell(
        name="objective",
        type=str,
        read=read_problem,
        how="In a shell: module:function or file.py:function, or a problem by its name.",
        argument=True,
    ),
    "seeds": Shell(type=str, read=read_seeds, how="In a shell: 10, or 3,5,8."),
    "score": Shell(type=str, read=read_function, how="In a shell: module:function."),
    "vectorized": Shell(type=bool),
    "workers": Shell(type=int | None, default=None, how="By default one per core."),
    "ray": Shell(complete=lambda: ["auto", "local"]),
}


@command(
    Sets(TARGET),
    JSON,
    shell=PROBLEM
    | {
        "methods": Shell(
            type=str, how='In a shell: auto,bes,"gs(spacing=0.5)".', complete=method_names
        )
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
    with many_runs():
        result = run_comparison(
            arguments.pop("fun"), arguments.pop("x0"), arguments, command=command_line()
        )
    print_result(result, parsed, {"standings": result.standings, "pairs": result.pairs})


def print_result(
    result: "Comparison | Sweep", parsed: ParsedOptions, tables: dict[str, Sequence[Any]]
) -> None:
    """Print a result as text, or with ``--json`` these tables and the paths of its files."""
    if parsed["json"]:
        files = {"page": str(result.page), "runs": str(result.csv)}
        plain = {name: [row._asdict() for row in table] for name, table in tables.items()}
        report(plain | files, {}, as_json=True)
        return
    typer.echo(str(result))
    typer.echo(f"\npage: {result.page}\nruns: {result.csv}")


def all_arguments(parsed: ParsedOptions, target: str) -> dict[str, Any]:
    """Return all arguments of a function, with defaults; by default, one worker per core."""
    from gensmooth.evaluators import cores

    passed = parsed.arguments(target)
    parameters = inspect.signature(Sets(target).find()).parameters
    arguments = {name: parameter.default for name, parameter in parameters.items()} | passed
    if "workers" not in passed:
        arguments["workers"] = cores() if arguments.get("ray") is None else None
    fun = arguments["fun"]
    if isinstance(fun, str) and not _is_built_in(fun):
        with suppress(ValueError):  # the comparison reports a missing function
            fun = read_function(fun)
            arguments["fun"] = fun
        if callable(fun):
            check_call(fun, parsed["objective"], sampled=arguments["samples"] is not None)
    return arguments


def command_line() -> str:
    """Return the command line that the user typed."""
    return shlex.join(["gensmooth", *sys.argv[1:]])
