"""Runs that tests send signals to, each in a process of its own.

    python run_programs.py KIND FOLDER      KIND: counter, minimize, train or study

Each prints ``step`` after every step, and the fingerprint of its result when it has ended.
"""

import hashlib
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gensmooth as gs
from gensmooth.runs import End, Program, run

STEPS = 60


@dataclass(frozen=True)
class Counter(Program[tuple[int, float], dict[str, float], float]):
    """A user-defined program: it counts, and sums the numbers."""

    until: int
    pause: float = 0.0

    kind = "counter"

    def init(self):
        return 0, 0.0

    def step(self, state, _):
        count, total = state
        time.sleep(self.pause)
        told("step")
        return (count + 1, total + np.sin(count)), {"total": total}

    def stop(self, state, _):
        return End("counted") if state[0] == self.until else None

    def settings(self, _):
        return {"until": self.until}

    def pack(self, state):
        return {"count": state[0]}, {"total": np.array(state[1])}

    def unpack(self, meta, arrays):
        return meta["count"], float(arrays["total"])

    def result(self, state, records, _):
        assert len(records) == state[0]
        return state[1]


steps = 0


def told(what):
    """Print the step; from the 20th on pause, so that a signal arrives before the end."""
    global steps
    print(what, flush=True)
    steps += 1
    time.sleep(float(os.environ.get("PAUSE", "0")) if steps >= 20 else 0.0)


def counter(folder):
    return run(Counter(until=STEPS, pause=0.02), folder=folder, every="1h").hex()


def loss(x):
    time.sleep(0.002)
    return float(((x - 1) ** 2).sum())


def minimize(folder):
    result = gs.minimize(
        loss,
        np.zeros(8),
        method="guided-es",
        num_directions=3,
        max_steps=STEPS,
        seed=3,
        folder=folder,
        every="1h",
        callback=lambda *_: told("step"),
    )
    return digest(result.x, result.best_x, np.array([result.fun, result.nfev]))


def train(folder):
    from rl_cases import SLIDER

    def callback(*_):
        told("step")
        time.sleep(0.01)

    result = gs.rl.train(
        SLIDER,
        num_directions=3,
        spacing=0.1,
        learning_rate=0.05,
        max_steps=STEPS,
        test_every=7,
        test_episodes=2,
        seed=3,
        folder=folder,
        every="1h",
        callback=callback,
    )
    return digest(result.state.search.x, result.best.parameters)


def study_in_a_worker(folder, lines):
    """The study's run in a worker process, which writes its steps to a file."""

    def tell(what):
        with open(lines, "a") as file:
            file.write(f"{what}\n")

    return study(folder, tell)


def study(folder, told=told):
    from dataclasses import replace

    from gensmooth.lab.paper.rl import run as rl_run
    from gensmooth.lab.paper.rl import settings as rl_settings
    from rl_records import PAPER

    advance = rl_run.advance

    def slow(*arguments):
        told("step")
        time.sleep(0.02)
        return advance(*arguments)

    rl_run.advance = slow
    profile = replace(PAPER, iterations=40, test_trials=3)
    setting = rl_settings.Setting("HalfCheetahRandVel", 2, "main")
    config = rl_settings.config_of(profile, setting, "guided-es")
    config = {**config, "spacing": 0.1, "learning_rate": 0.01, "seed": 1001}
    record = rl_run.execute(config, folder)
    return digest(*(np.array(series) for series in record.series.values()))


def digest(*arrays):
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


PROGRAMS = {"counter": counter, "minimize": minimize, "train": train, "study": study}

if __name__ == "__main__":
    told(PROGRAMS[sys.argv[1]](Path(sys.argv[2])))
