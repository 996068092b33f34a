"""``gensmooth sweep model:loss --spacing 0.01,0.1,1``: options side by side, and a page."""

from typing import Any

from gensmooth.cli.common import JSON
from gensmooth.cli.compare import PROBLEM, all_arguments, kept, read_seeds, told, typed
from gensmooth.cli.options import Given, Sets, Shell, command
from gensmooth.cli.values import method_names

TARGET = "gensmooth.comparisons.sweeping:sweep"
_VALUES = "In the shell 0.01,0.1,1 or 0.01:1:log5."


def _read_vary(texts: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals:
            raise ValueError(
                f"`--vary` must be name=values, such as tolerance=0.1,1, not {text!r}."
            )
        found[name.strip().replace("-", "_")] = values
    return found


@command(
    Sets(TARGET),
    JSON,
    shell=PROBLEM
    | {
        "method": Shell(type=str, how="In the shell with commas: bes,gs.", complete=method_names),
        **{
            name: Shell(type=str, how=_VALUES)
            for name in ("spacing", "optimizer", "num_directions", "x_scale")
        },
        "vary": Shell(
            type=list[str], read=_read_vary, how="In the shell name=values, perhaps several times."
        ),
        "fresh_seeds": Shell(type=str, read=read_seeds, how="In the shell 10, or 31,32."),
        "search": Shell(complete=lambda: ["grid", "optuna"]),
    },
)
def sweep(given: Given) -> None:
    """Try options of methods on a function, and judge the best of them on fresh seeds.

    For example, with a file model.py that defines loss(x):

        gensmooth sweep model:loss --x0 zeros:12 --method bes,gs --spacing 0.01,0.1,1
        gensmooth sweep model:loss --x0 zeros:12 --optimizer 0.01:1:log5 --search optuna

    Runs what is missing: the same command continues what was interrupted.
    """
    from gensmooth.comparisons.sweeping import run_sweep

    arguments = all_arguments(given, TARGET)
    with kept():
        found = run_sweep(arguments.pop("fun"), arguments.pop("x0"), arguments, command=typed())
    told(found, given, {"best": found.best, "cells": found.cells})
