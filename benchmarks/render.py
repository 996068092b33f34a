"""How long a film takes, beside the drawing of its frames alone: python -m benchmarks.render.

CPU times of one process, side by side and in turn; the drawing is Gymnasium's own ``render()``.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import gensmooth as gs
from gensmooth.rl import rendering


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", default="Hopper-v5")
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        policy = gs.rl.train(given.environment, max_steps=1, num_directions=2, seed=0).policy
        for kind in ("mp4", "gif"):
            ratios = []
            for _ in range(given.repeats):
                began = time.process_time()
                film = gs.rl.render(
                    policy, Path(folder) / f"film.{kind}", max_steps=given.frames, progress=False
                )
                filmed = time.process_time() - began
                environment = rendering.make_drawable(given.environment)
                environment.reset(seed=0)
                environment.render()  # the first frame sets things up
                began = time.process_time()
                for _ in range(film.frames):
                    environment.render()
                ratios.append(filmed / (time.process_time() - began))
                environment.close()
            print(f"{kind}: {statistics.median(ratios):.2f} × the drawing of {film.frames} frames")


if __name__ == "__main__":
    main()
