"""``gensmooth render RUN -o film.mp4``: film a policy."""

from gensmooth.cli.common import JSON, Out, report, running
from gensmooth.cli.evaluate import RUN
from gensmooth.cli.options import ParsedOptions, Sets, Shell, command


@command(
    Sets("gensmooth.rl.rendering:render"),
    JSON,
    shell={"policy": RUN, "path": Shell(name="out", how="A .mp4 or .gif file.")},
)
def render(parsed: ParsedOptions) -> None:
    """Film a policy; no screen is needed."""
    import gensmooth as gs

    with running(Out(None, None)):
        film = gs.rl.render(**parsed.arguments("gensmooth.rl.rendering:render"))
    full = film._asdict() | {"path": str(film.path)}
    shown = {
        "film": str(film.path),
        "frames": film.frames,
        "seconds": film.frames / film.fps,
        "returns": ", ".join(f"{value:.6g}" for value in film.returns),
    }
    report(full, shown, as_json=bool(parsed["json"]))
