"""``gensmooth evaluate RUN``: how good is a policy, and how sure is that."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from gensmooth.cli.common import OUT, choose_out, show, write
from gensmooth.cli.options import Given, Sets, Shell, command

RUN = Shell(name="run", how="Such as RUN or RUN/policy-last.", argument=True)


@command(Sets("gensmooth.rl:evaluate"), OUT, shell={"policy": RUN})
def evaluate(given: Given) -> None:
    """Run a policy from fresh starts: mean return, deviation, confidence interval."""
    import gensmooth as gs

    _, out = choose_out(given, Path())
    found = gs.rl.evaluate(**given.arguments("gensmooth.rl:evaluate"))
    arrays = ("returns", "lengths")
    report: dict[str, Any] = {
        field.name: getattr(found, field.name)
        for field in fields(found)
        if field.name not in arrays
    }
    if out is not None:
        write(report | {name: getattr(found, name).tolist() for name in arrays}, out)
    level = f"{found.confidence:.3g}".removeprefix("0.")
    shown = {name: value for name, value in report.items() if name not in ("low", "high")}
    shown["interval"] = f"{found.low:.6g} … {found.high:.6g} ({level.ljust(2, '0')} %)"
    show({name: value for name, value in shown.items() if value is not None})
