"""Runs that are killed with SIGKILL, in forks of one warm process; prints the outcome.

python runs_kills.py lines FOLDER     at every line of the code that writes files
python runs_kills.py random FOLDER    at random instants, with both cores kept busy
"""

import mmap
import os
import random
import shutil
import signal
import struct
import sys
import time
from pathlib import Path

import numpy as np

import gensmooth as gs
from gensmooth.runs import container

WRITERS = tuple(f"runs/{name}.py" for name in ("loop", "folder", "files", "container"))


def objective(x, rng):
    return float(((x - 1) ** 2).sum()) + 0.1 * float(rng.standard_normal())


def fork(work) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException as error:
        print(f"child failed: {type(error).__name__}: {error}", flush=True)
        os._exit(1)
    os._exit(0)


def finish(child: int) -> int:
    return os.waitpid(child, 0)[1]


def contents(folder: Path) -> tuple[bytes, bytes, bytes]:
    """The metrics, the last iterate and the best point in a run's folder."""
    found = container.read(folder / "checkpoint")
    assert found.meta["end"] is not None
    metrics = (folder / "metrics.jsonl").read_bytes()
    return metrics, found.arrays["x"].tobytes(), found.arrays["best_x"].tobytes()


def at_every_line(where: Path) -> None:
    def run(folder: Path) -> None:
        gs.minimize(
            objective,
            np.zeros(40),
            method="guided-es",
            num_directions=3,
            samples="paired",
            optimizer=gs.adam(0.1),
            max_steps=14,
            every=4,
            seed=9,
            folder=folder,
        )

    def killed(folder: Path, line: int) -> None:
        left = [line]

        def trace(frame, event, _):
            if not frame.f_code.co_filename.endswith(WRITERS):
                return None
            if event == "line":
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        run(folder)
        sys.settrace(None)
        (folder.parent / "lines").write_text(str(line - left[0]))

    run(where / "whole")
    expected = contents(where / "whole")
    assert finish(fork(lambda: killed(where / "counted", 10**9))) == 0
    lines = int((where / "lines").read_text())
    shutil.rmtree(where / "counted")
    wanted, kills = int(os.environ.get("KILLS", "250")), 0
    for line in random.Random(0).sample(range(1, lines + 1), lines):
        folder = where / "run"
        status = finish(fork(lambda f=folder, n=line: killed(f, n)))
        # On a busy machine a run has more lines, because the journal stores slow evaluations. So
        # this run may end before it comes to the line.
        assert status in (0, signal.SIGKILL), f"line {line}"
        kills += status == signal.SIGKILL
        assert finish(fork(lambda f=folder: run(f))) == 0, f"line {line}"
        assert contents(folder) == expected, f"line {line}"
        assert not list(folder.glob(".*.new")), f"line {line}"
        shutil.rmtree(folder)
        if kills == wanted:
            break
    print(f"{kills} kills at {lines} lines")


def at_random(where: Path) -> None:
    every, rng = 3, random.Random(1)
    shown = mmap.mmap(-1, 8)  # the child's last step; a kill cannot tear these eight bytes

    def run(folder: Path) -> None:
        gs.minimize(
            objective,
            np.zeros(60_000),
            num_directions=2,
            samples="independent",
            optimizer=gs.momentum(1e-3),
            max_steps=300,
            every=every,
            seed=5,
            folder=folder,
            callback=lambda now: shown.__setitem__(slice(0, 8), struct.pack("<Q", now.nit)),
        )

    us = os.getpid()

    def burn() -> None:
        while os.getppid() == us:  # if we are killed, they must not hold our output open for ever
            sum(range(10_000))

    run(where / "whole")
    expected = contents(where / "whole")
    shown[:] = bytes(8)
    burners = [fork(burn) for _ in range(2)]
    folder, kills, status = where / "run", 0, 1
    try:
        while status or kills < 60:
            if not status:  # it ended before the kill: start again
                shutil.rmtree(folder)
                shown[:] = bytes(8)
            child = fork(lambda: run(folder))
            time.sleep(rng.uniform(0.0, 0.1))
            if kills < 60:
                os.kill(child, signal.SIGKILL)
            status = finish(child)
            assert status in (0, signal.SIGKILL), status
            kills += status == signal.SIGKILL
            made = struct.unpack("<Q", shown[:])[0]
            kept = 0
            if (folder / "checkpoint").exists():
                kept = container.read(folder / "checkpoint").meta["step"]
            assert made - kept <= every, f"{made} steps were made, {kept} are kept"
            shown[:] = struct.pack("<Q", kept)
    finally:
        for burner in burners:
            os.kill(burner, signal.SIGKILL)
            finish(burner)
    assert contents(folder) == expected
    print(f"{kills} kills at random instants")


if __name__ == "__main__":
    gs.minimize(objective, np.zeros(3), samples="paired", max_steps=2, method="guided-es", seed=0)
    {"lines": at_every_line, "random": at_random}[sys.argv[1]](Path(sys.argv[2]))
