"""``gensmooth evaluate RUN``: how good is a policy, and how sure is that."""

from dataclasses import fields
from pathlib import Path

from gensmooth.cli.common import REPORT, Out, choose_out, report, running
from gensmooth.cli.options import Given, Sets, Shell, command


def _zoo() -> list[str]:
    from gensmooth.rl.zoo_catalogue import PREFIX, zoo

    return [f"{PREFIX}{each.name}" for each in zoo()]


RUN = Shell(
    name="run",
    type=str,  # a path would forget that ./zoo:hopper is a file
    how="Such as RUN, RUN/policy-last or zoo:hopper; gensmooth zoo lists the last kind.",
    argument=True,
    complete=_zoo,
)


@command(
    Sets("gensmooth.rl.evaluation:evaluate"),
    REPORT,
    shell={"policy": RUN, "environment": Shell(type=str)},
)
def evaluate(given: Given) -> None:
    """Run a policy from fresh starts: mean return, deviation, confidence interval."""
    import gensmooth as gs

    out = choose_out(given, Path()) if given["out"] else Out(None, None)
    with running(out):
        found = gs.rl.evaluate(**given.arguments("gensmooth.rl.evaluation:evaluate"))
    every = {field.name: getattr(found, field.name) for field in fields(found)}
    arrays = {name: every.pop(name).tolist() for name in ("returns", "lengths")}
    level = f"{found.confidence:.3g}".removeprefix("0.")
    shown = {name: value for name, value in every.items() if name not in ("low", "high")}
    shown["interval"] = f"{found.low:.6g} … {found.high:.6g} ({level.ljust(2, '0')} %)"
    shown = {name: value for name, value in shown.items() if value is not None}
    report(every | arrays, shown, file=out.file, out=given["out"], as_json=bool(given["json"]))
