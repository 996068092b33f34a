"""Train, measure and film the policies of the zoo, and write the table of docs/zoo.md.

python -m benchmarks.zoo --runs FOLDER [NAME ...]

Each policy is the best one of a training with one seed and the default options; only the number of
iterations was chosen. Its return is measured afterwards, in episodes that neither the training nor
its tests have seen. Trainings in FOLDER are not repeated, and policies that are not named stay as
they are. --page only writes the table.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from PIL import Image

import gensmooth as gs
from benchmarks.record import fill, markdown
from gensmooth.rl.zoo_catalogue import FOLDER, SUFFIX, ZooPolicy

PAGE, FILMS = Path("docs/zoo.md"), Path("docs/zoo")
SEED = 0
EPISODES = 100
WIDTH = 160  # pixels
MOST = 150_000  # bytes


class Plan(NamedTuple):
    """How long a policy is trained, and which steps its film shows."""

    environment: str
    iterations: int
    steps: int  # of the film
    skip: int


PLANS = {
    "cart-pole": Plan("CartPole-v1", 100, 250, 5),
    "inverted-pendulum": Plan("InvertedPendulum-v5", 100, 100, 2),
    "inverted-double-pendulum": Plan("InvertedDoublePendulum-v5", 100, 120, 2),
    "swimmer": Plan("Swimmer-v5", 100, 200, 4),
    "acrobot": Plan("Acrobot-v1", 100, 100, 1),
    "hopper": Plan("Hopper-v5", 80, 240, 6),
    "half-cheetah": Plan("HalfCheetah-v5", 60, 40, 1),
}


def command_of(plan: Plan) -> list[str]:
    """The arguments of the command that trains."""
    return [
        *("train", plan.environment, "--seed", str(SEED)),
        *("--max-steps", str(plan.iterations)),
    ]


def train(name: str, plan: Plan, runs: Path) -> ZooPolicy:
    """Train, keep the best policy, and measure it."""
    folder = runs / plan.environment
    words = command_of(plan)
    line = [sys.executable, "-m", "gensmooth", *words, "--folder", str(folder), "--json"]
    summary = json.loads(subprocess.run(line, check=True, stdout=subprocess.PIPE).stdout)
    file = FOLDER / f"{name}{SUFFIX}"
    shutil.copyfile(folder / "policy-best", file)
    policy = gs.rl.load_policy(file, environment=plan.environment)
    result = gs.rl.evaluate(policy, episodes=EPISODES)
    return ZooPolicy(
        name=name,
        environment=policy.environment,
        command=" ".join(["gensmooth", *words, "--folder", name]),
        seed=policy.seed,
        iterations=policy.step,
        training_episodes=summary["trajectories"],
        num_parameters=policy.parameters.size,
        mean_return=result.mean_return,
        low=result.low,
        high=result.high,
        confidence=result.confidence,
        deviation=result.deviation,
        episodes=result.episodes,
        evaluation_seed=result.seed,
    )


def film(name: str, plan: Plan) -> Path:
    """A small film: one palette of few colours without dithering, so still parts take no space."""
    path = FILMS / f"{name}.gif"
    with TemporaryDirectory() as folder:
        large = Path(folder) / "film.gif"
        made = gs.rl.render(f"zoo:{name}", large, max_steps=plan.steps, skip=plan.skip)
        with Image.open(large) as source:
            frames = []
            for index in range(source.n_frames):
                source.seek(index)
                height = round(source.height * WIDTH / source.width)
                size = (WIDTH, height)
                frames.append(source.convert("RGB").resize(size, Image.Resampling.BOX))
    for colors in (64, 32, 16, 8):
        palette = frames[len(frames) // 2].quantize(colors, Image.Quantize.MAXCOVERAGE)
        few = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
        hold = round(1000 / made.fps / 10) * 10  # whole hundredths of a second
        few[0].save(path, save_all=True, append_images=few[1:], duration=hold, loop=0)
        if path.stat().st_size <= MOST:
            return path
    raise ValueError(f"{path} has {path.stat().st_size} bytes: show fewer steps.")


def table(rows: list[ZooPolicy]) -> str:
    """The table of the page."""
    head = ("", "policy", "environment", "d", "mean return (95 % interval)", "trained by")
    lines: list[tuple[str, ...]] = []
    for row in rows:
        between = f"{row.low:,.1f} … {row.high:,.1f}"
        cells = (
            f"![The policy at work in {row.environment}](zoo/{row.name}.gif)",
            f"`zoo:{row.name}`",
            row.environment,
            str(row.num_parameters),
            f"{row.mean_return:,.1f} ({between})".replace("-", "−"),
            f"`{row.command}`: {row.training_episodes:,} episodes, best after {row.iterations} "
            "steps",
        )
        lines.append(cells)
    return markdown(head, lines)


def main() -> None:
    """Train, measure, film, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="by default all")
    parser.add_argument("--runs", type=Path, default=Path("runs/zoo"))
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    unknown = set(options.names) - set(PLANS)
    if unknown:
        parser.error(f"no plan for {', '.join(unknown)}; there are {', '.join(PLANS)}")
    index = FOLDER / "zoo.json"
    rows = {row.name: row for row in gs.rl.zoo()} if index.exists() else {}
    for name in [] if options.page else options.names or PLANS:
        FOLDER.mkdir(exist_ok=True)
        FILMS.mkdir(exist_ok=True)
        rows[name] = train(name, PLANS[name], options.runs)
        listed = [rows[known]._asdict() for known in PLANS if known in rows]
        index.write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
        print(rows[name], film(name, PLANS[name]).stat().st_size, "bytes of film")
    fill(PAGE, {"policies": table([rows[name] for name in PLANS if name in rows])})


if __name__ == "__main__":
    main()
