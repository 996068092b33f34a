"""``gensmooth render RUN -o film.mp4``: watch a policy."""

from gensmooth.cli.common import JSON, Out, report, running
from gensmooth.cli.evaluate import RUN
from gensmooth.cli.options import Given, Sets, Shell, command


@command(
    Sets("gensmooth.rl.rendering:render"),
    JSON,
    shell={"policy": RUN, "path": Shell(name="out", how="A .mp4 or .gif file.")},
)
def render(given: Given) -> None:
    """Film a policy, without a screen."""
    import gensmooth as gs

    with running(Out(None, None)):
        film = gs.rl.render(**given.arguments("gensmooth.rl.rendering:render"))
    found = film._asdict() | {"path": str(film.path)}
    shown = {
        "film": str(film.path),
        "frames": film.frames,
        "seconds": film.frames / film.fps,
        "returns": ", ".join(f"{value:.6g}" for value in film.returns),
    }
    report(found, shown, as_json=bool(given["json"]))
