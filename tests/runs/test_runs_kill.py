"""Pulling the plug is boring: SIGKILL at any instant, and Ctrl-C once and twice."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from patience import LONG, wait_until

HELPERS = Path(__file__).parents[1] / "helpers"
GENSMOOTH = Path(sys.executable).with_name("gensmooth")
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and forks are POSIX's")

MODEL = """
import os
import time

def slow(x):
    time.sleep(float(os.environ.get("SECONDS_EACH", "0")))
    return float(((x - 1) ** 2).sum())

def stubborn(x):  # does not let the first Ctrl-C through
    try:
        print("evaluating", flush=True)
        time.sleep(1000)
    except KeyboardInterrupt:
        print("shrugs", flush=True)
        time.sleep(1000)
    return 0.0
"""


@POSIX
@pytest.mark.parametrize(
    "when",
    ["lines", pytest.param("random", marks=pytest.mark.extended("soak tests and fuzzers"))],
)
def test_a_kill_at_any_instant_costs_no_more_than_the_steps_since_the_checkpoint(when, tmp_path):
    memory = "/dev/shm" if when == "lines" and Path("/dev/shm").is_dir() else tmp_path
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        done = subprocess.run(
            [sys.executable, HELPERS / "runs_kills.py", when, folder],
            capture_output=True,
            text=True,
            timeout=2 * LONG,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    kills = int(done.stdout.split()[0])
    assert kills >= {"lines": 250, "random": 60}[when]


def command(tmp_path, *words, objective="model:slow"):
    (tmp_path / "model.py").write_text(MODEL)
    options = ["--x0", "zeros:20", "--seed", "1", "--budget", "1500", *words]
    return [GENSMOOTH, "minimize", objective, *options]


@pytest.fixture
def start(tmp_path):
    """Starts a command in a session of its own, and sees to it that none is left."""
    running = []

    def begin(line, **environment):
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        how |= {"env": {**os.environ, **environment}, "cwd": tmp_path}
        running.append(subprocess.Popen(line, start_new_session=True, **how))
        return running[-1]

    yield begin
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def is_gone(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@POSIX
@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_writes_a_checkpoint_and_returns_what_was_found(workers, start, tmp_path):
    words = ("--workers", workers, "--folder", "run", "--every", "1h", "--out", "part.json")
    # Slow enough that it cannot be over before we interrupt it, however late we are.
    running = start(command(tmp_path, *words), SECONDS_EACH="0.05")
    metrics = tmp_path / "run" / "metrics.jsonl"
    assert wait_until(lambda: metrics.exists() and metrics.stat().st_size > 0)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: the workers get it too
    out, err = running.communicate(timeout=LONG)
    assert running.returncode == 130, out + err
    assert "Traceback" not in err
    part = json.loads((tmp_path / "part.json").read_text())
    assert part["reason"] == "interrupted"
    assert 0 < part["nit"] == len(metrics.read_text().splitlines())
    assert wait_until(lambda: is_gone(running.pid))  # nobody is left
    resume = [GENSMOOTH, "resume", "run", "--trust", "--out", "whole.json"]
    subprocess.run(resume, cwd=tmp_path, check=True, capture_output=True, timeout=LONG)
    line = command(tmp_path, "--workers", "2", "--out", "alone.json")
    subprocess.run(line, cwd=tmp_path, check=True, capture_output=True, timeout=LONG)
    whole = json.loads((tmp_path / "whole.json").read_text())
    assert whole == json.loads((tmp_path / "alone.json").read_text())
    assert whole["nit"] > part["nit"]


@POSIX
def test_a_second_ctrl_c_leaves_at_once(start, tmp_path):
    running = start(command(tmp_path, "--folder", "run", objective="model:stubborn"))
    assert running.stderr is not None
    assert running.stderr.readline() == "evaluating\n"
    os.killpg(running.pid, signal.SIGINT)
    assert running.stderr.readline() == "shrugs\n"
    began = time.monotonic()
    os.killpg(running.pid, signal.SIGINT)
    running.communicate(timeout=LONG)
    assert time.monotonic() - began < 60  # of 1000
    assert running.returncode != 0
