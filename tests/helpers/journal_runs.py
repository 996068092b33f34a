"""A run to be killed, with an objective that counts its calls in a file.

python journal_runs.py KIND FOLDER COUNTS    KIND: serial, threads, processes, map, ray, train, ...

Each call appends the digest of its point to COUNTS, when it begins and when it returns. The last
line of the output is the fingerprint of the result.
"""

import hashlib
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import gensmooth as gs

SECONDS = 0.02
COUNTS = Path(os.environ["COUNTS"]) if "COUNTS" in os.environ else None


def note(word, x):
    if COUNTS is not None:
        line = f"{word} {hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()}\n"
        handle = os.open(COUNTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(handle, line.encode())
        os.close(handle)


def loss(x):
    note("began", x)
    time.sleep(SECONDS)
    value = float(((x - 1) ** 2).sum())
    note("ended", x)
    return value


def digest(*arrays):
    return hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in arrays)).hexdigest()


def minimize(folder, workers):
    how = {"optimizer": gs.adam(0.1), "num_directions": 7, "method": "guided-es"}
    result = gs.minimize(
        loss, np.zeros(4), budget=100, seed=3, folder=folder, workers=workers, **how
    )
    return digest(result.x, result.best_x, result.fun, result.nfev, result.history.value)


def serial(folder):
    return minimize(folder, 1)


def pilot(folder):
    result = gs.minimize(loss, np.zeros(4), budget=100, seed=3, folder=folder)
    return digest(result.x, result.best_x, result.fun, result.nfev, result.history.value)


def threads(folder):
    return minimize(folder, gs.evaluators.Threads(3))


def processes(folder):
    return minimize(folder, 3)


def map_(folder):
    with ProcessPoolExecutor(3) as executor:
        return minimize(folder, executor.map)


def ray(folder):
    return minimize(folder, gs.evaluators.Ray("local", num_workers=2))


def train(folder, workers=1):
    result = gs.rl.train(
        "rl_cases:SlowSlider-v0",
        num_directions=3,
        spacing=0.1,
        learning_rate=0.05,
        max_steps=12,
        test_every=4,
        test_episodes=3,
        seed=3,
        folder=folder,
        workers=workers,
    )
    return digest(result.state.search.x, result.best.parameters, *result.state.statistics[1:])


def train_by_workers(folder):
    return train(folder, 2)


KINDS = {
    "train": train,
    "train-workers": train_by_workers,
    "serial": serial,
    "pilot": pilot,
    "threads": threads,
    "processes": processes,
    "map": map_,
    "ray": ray,
}

if __name__ == "__main__":
    print(KINDS[sys.argv[1]](Path(sys.argv[2])), flush=True)
