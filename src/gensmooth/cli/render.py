"""``gensmooth render RUN -o film.mp4``: watch a policy."""

from pathlib import Path
from typing import Annotated

import typer

from gensmooth.cli.common import show
from gensmooth.cli.evaluate import RunArgument


def render(
    run: RunArgument,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The film, .mp4 or .gif.", show_default=False)
    ],
    episodes: Annotated[int, typer.Option("--episodes", "-n", help="How many.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the starts, as in `gensmooth evaluate`.")] = 0,
    max_steps: Annotated[int | None, typer.Option(help="Steps of an episode to show.")] = None,
    skip: Annotated[int, typer.Option(help="Draw every so many steps.")] = 1,
) -> None:
    """Film a policy, without a screen."""
    import gensmooth as gs

    film = gs.rl.render(run, out, episodes=episodes, seed=seed, max_steps=max_steps, skip=skip)
    show(
        {
            "film": str(film.path),
            "frames": film.frames,
            "seconds": film.frames / film.fps,
            "returns": ", ".join(f"{value:.6g}" for value in film.returns),
        }
    )
