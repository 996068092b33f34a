"""``gensmooth evaluate RUN``: estimate the mean return of a policy."""

from dataclasses import fields
from pathlib import Path

from gensmooth.cli.common import REPORT, Out, choose_out, report, running
from gensmooth.cli.options import ParsedOptions, Sets, Shell, command


def _zoo() -> list[str]:
    from gensmooth.rl.zoo_catalogue import PREFIX, zoo

    return [f"{PREFIX}{policy.name}" for policy in zoo()]


RUN = Shell(
    name="run",
    type=str,  # a Path would drop the ./ of ./zoo:hopper, which makes it a file
    how="Such as RUN, RUN/policy-last or zoo:hopper; gensmooth zoo lists the policies of the zoo.",
    argument=True,
    complete=_zoo,
)


@command(
    Sets("gensmooth.rl.evaluation:evaluate"),
    REPORT,
    shell={"policy": RUN, "environment": Shell(type=str)},
)
def evaluate(parsed: ParsedOptions) -> None:
    """Run a policy from new starts; print its mean return, deviation and confidence interval."""
    import gensmooth as gs

    out = choose_out(parsed, Path()) if parsed["out"] else Out(None, None)
    with running(out):
        evaluation = gs.rl.evaluate(**parsed.arguments("gensmooth.rl.evaluation:evaluate"))
    values = {field.name: getattr(evaluation, field.name) for field in fields(evaluation)}
    arrays = {name: values.pop(name).tolist() for name in ("returns", "lengths")}
    shown = {name: value for name, value in values.items() if name not in ("low", "high")}
    level = f"{100 * evaluation.confidence:.4g} %"
    shown["interval"] = f"{evaluation.low:.6g} … {evaluation.high:.6g} ({level})"
    shown = {name: value for name, value in shown.items() if value is not None}
    report(values | arrays, shown, file=out.file, out=parsed["out"], as_json=bool(parsed["json"]))
