"""``gensmooth evaluate RUN``: how good is a policy, and how sure is that."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gensmooth.cli.common import OutOption, show

RunArgument = Annotated[
    Path,
    typer.Argument(
        help="A training's folder (its best policy) or a policy's file, such as RUN/policy-last.",
        show_default=False,
    ),
]


def evaluate(
    run: RunArgument,
    episodes: Annotated[int, typer.Option("--episodes", "-n", help="How many.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the starts.")] = 0,
    confidence: Annotated[float, typer.Option(help="Of the interval of the mean.")] = 0.95,
    environment: Annotated[
        str | None, typer.Option(help="Refuse a policy that was trained in another one.")
    ] = None,
    on_failure: Annotated[
        Literal["raise", "drop"], typer.Option(help="On an episode that breaks down.")
    ] = "raise",
    threads: Annotated[
        int | None, typer.Option(help="Threads of a fast simulator; by default one a core.")
    ] = None,
    out: OutOption = None,
) -> None:
    """Run a policy from fresh starts: mean return, deviation, confidence interval."""
    import gensmooth as gs

    found = gs.rl.evaluate(
        run,
        episodes=episodes,
        seed=seed,
        confidence=confidence,
        environment=environment,
        on_failure=on_failure,
        threads=threads,
    )
    arrays = ("returns", "lengths")
    report: dict[str, Any] = {
        field.name: getattr(found, field.name)
        for field in fields(found)
        if field.name not in arrays
    }
    if out is not None:
        every = {name: getattr(found, name).tolist() for name in arrays}
        out.write_text(json.dumps(report | every, indent=2) + "\n")
    level = f"{found.confidence:.3g}".removeprefix("0.")
    shown = {name: value for name, value in report.items() if name not in ("low", "high")}
    shown["interval"] = f"{found.low:.6g} … {found.high:.6g} ({level.ljust(2, '0')} %)"
    show({name: value for name, value in shown.items() if value is not None})
