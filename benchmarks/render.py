"""The time of a film, compared with Gymnasium's drawing of its frames alone.

    python -m benchmarks.render

The two take turns in one process, and CPU times are compared.
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
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        policy = gs.rl.train(options.environment, max_steps=1, num_directions=2, seed=0).policy
        for kind in ("mp4", "gif"):
            ratios = []
            for _ in range(options.repeats):
                began = time.process_time()
                film = gs.rl.render(
                    policy, Path(folder) / f"film.{kind}", max_steps=options.frames, progress=False
                )
                filmed = time.process_time() - began
                environment = rendering.make_drawable(options.environment)
                environment.reset(seed=0)
                environment.render()  # the first frame includes the setup
                began = time.process_time()
                for _ in range(film.frames):
                    environment.render()
                ratios.append(filmed / (time.process_time() - began))
                environment.close()
            print(f"{kind}: {statistics.median(ratios):.2f} × the drawing of {film.frames} frames")


if __name__ == "__main__":
    main()
