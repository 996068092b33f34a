"""Make docs/figures/learning.webp, the film on the front page.

python -m benchmarks.learning_film --runs FOLDER

Each robot is trained once, with seed 0 and the default options. The film shows policies after
several numbers of steps, side by side, from the same initial state; a robot that has fallen stays
where it fell.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import imageio.v3 as iio
from PIL import Image, ImageDraw

import gensmooth as gs

PATH = Path("docs/figures/learning.webp")
ROBOTS = {"Hopper-v5": (1, 50, 70), "HalfCheetah-v5": (1, 10, 60)}  # steps of training
SIZE = (272, 204)
LABEL = 60  # height of the two lines above a panel, which must be legible on a phone
SECONDS = 4
RATE = 15  # frames per second
FRAMES = SECONDS * RATE
STEPS_PER_SECOND = {"Hopper-v5": (125, 8), "HalfCheetah-v5": (20, 1)}  # and steps per frame


def stages(environment: str, runs: Path) -> list[gs.rl.TrainedPolicy]:
    """The policies of one training after these numbers of steps."""
    folder = runs / environment
    first, *rest = ROBOTS[environment]
    policy = gs.rl.train(environment, seed=0, max_steps=first, target=None, folder=folder).policy
    return [policy, *(gs.rl.resume(folder, max_steps=steps).policy for steps in rest)]


def panel(policy: gs.rl.TrainedPolicy, folder: Path) -> list[Image.Image]:
    """The labelled frames of one policy's film."""
    rate, skip = STEPS_PER_SECOND[policy.environment]
    path = folder / "film.mp4"
    gs.rl.render(policy, path, max_steps=SECONDS * rate, skip=skip)
    frames = list(iio.imiter(path))
    last = len(frames) - 1
    shown = [frames[min(last, round(k * rate / skip / RATE))] for k in range(FRAMES)]
    name = policy.environment.removesuffix("-v5")
    text = f"{name}, step {policy.step}\nreturn {round(policy.mean_return):,}"
    return [_labelled(Image.fromarray(frame), text) for frame in shown]


def _labelled(frame: Image.Image, text: str) -> Image.Image:
    labelled = Image.new("RGB", (SIZE[0], SIZE[1] + LABEL), "white")
    height = frame.width * SIZE[1] // SIZE[0]
    top = (frame.height - height) // 2
    cut = frame.crop((0, top, frame.width, top + height))
    labelled.paste(cut.resize(SIZE, Image.Resampling.LANCZOS), (0, LABEL))
    ImageDraw.Draw(labelled).multiline_text((6, 2), text, fill="black", font_size=24)
    return labelled


def main() -> None:
    """Train, film, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning_film", description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/learning"))
    options = parser.parse_args()
    width, height = SIZE[0], SIZE[1] + LABEL
    with TemporaryDirectory() as folder:
        rows = [
            [panel(policy, Path(folder)) for policy in stages(environment, options.runs)]
            for environment in ROBOTS
        ]
    film = []
    for moment in range(FRAMES):
        image = Image.new("RGB", (width * 3, height * len(rows)), "white")
        for y, row in enumerate(rows):
            for x, frames in enumerate(row):
                image.paste(frames[moment], (x * width, y * height))
        film.append(image)
    hold = round(1000 / RATE)
    film[0].save(PATH, save_all=True, append_images=film[1:], duration=hold, loop=0, quality=55)
    print(f"{PATH}: {PATH.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
