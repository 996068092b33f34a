"""``gensmooth sweep model:loss --spacing 0.01,0.1,1``: compare settings on a function."""

from typing import Any

from gensmooth.cli.common import JSON, many_runs
from gensmooth.cli.compare import (
    COMMON,
    PROBLEM,
    all_arguments,
    command_line,
    print_result,
    read_seeds,
)
from gensmooth.cli.options import ParsedOptions, Sets, Shell, command
from gensmooth.cli.values import method_names

TARGET = "gensmooth.lab.sweep:sweep"
_VALUES = "In a shell: 0.01,0.1,1 or 0.01:1:log5."
_COUNTS = "In a shell: 5,10,20 or 5:80:log5."


def _read_vary(texts: list[str]) -> dict[str, Any]:
    varied: dict[str, Any] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals:
            raise ValueError(
                f"`--vary` must be name=values, such as tolerance=0.1,1, but is {text!r}."
            )
        varied[name.strip().replace("-", "_")] = values
    return varied


@command(
    Sets(TARGET),
    JSON,
    shell=PROBLEM
    | {
        "method": Shell(type=str, how="In a shell: bes,gs.", complete=method_names),
        **{name: Shell(type=str, how=_VALUES) for name in ("spacing", "learning_rate", "x_scale")},
        **{name: Shell(type=str, how=_COUNTS) for name in ("num_directions", "population")},
        "vary": Shell(
            type=list[str], read=_read_vary, how="In a shell: name=values; may be repeated."
        ),
        "fresh_seeds": Shell(type=str, read=read_seeds, how="In a shell: 10, or 31,32."),
        "search": Shell(complete=lambda: ["grid", "optuna"]),
    },
    common=(
        *("x0", "method", "spacing", "learning_rate", "num_directions", "vary", "search"),
        *COMMON,
    ),
)
def sweep(parsed: ParsedOptions) -> None:
    """Try settings of methods on a function, and test the best of them on new seeds.

    For example, with a file model.py that defines loss(x):

        gensmooth sweep model:loss --x0 zeros:12 --method bes,gs --spacing 0.01,0.1,1
        gensmooth sweep model:loss --x0 zeros:12 --learning-rate 0.01:1:log5 --search optuna

    Only missing runs are made, so the same command continues an interrupted sweep.
    """
    from gensmooth.lab.sweep import run_sweep

    arguments = all_arguments(parsed, TARGET)
    with many_runs():
        result = run_sweep(
            arguments.pop("fun"), arguments.pop("x0"), arguments, command=command_line()
        )
    print_result(result, parsed, {"best": result.best, "cells": result.cells})
