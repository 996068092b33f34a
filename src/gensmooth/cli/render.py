"""``gensmooth render RUN -o film.mp4``: watch a policy."""

from gensmooth.cli.common import show
from gensmooth.cli.evaluate import RUN
from gensmooth.cli.options import Given, Sets, Shell, command


@command(
    Sets("gensmooth.rl:render"),
    shell={"policy": RUN, "path": Shell(name="out", how="A .mp4 or .gif file.")},
)
def render(given: Given) -> None:
    """Film a policy, without a screen."""
    import gensmooth as gs

    film = gs.rl.render(**given.arguments("gensmooth.rl:render"))
    show(
        {
            "film": str(film.path),
            "frames": film.frames,
            "seconds": film.frames / film.fps,
            "returns": ", ".join(f"{value:.6g}" for value in film.returns),
        }
    )
