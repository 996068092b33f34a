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

HERE = Path(__file__).parent
GENSMOOTH = Path(sys.executable).with_name("gensmooth")
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and forks are POSIX's")

MODEL = """
import time

def slow(x):
    time.sleep(0.002)
    return float(((x - 1) ** 2).sum())

def stubborn(x):  # does not let the first Ctrl-C through
    try:
        print("evaluating", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        print("shrugs", flush=True)
        time.sleep(60)
    return 0.0
"""


@POSIX
@pytest.mark.parametrize("when", ["lines", "random"])
def test_a_kill_at_any_instant_costs_no_more_than_the_steps_since_the_checkpoint(when, tmp_path):
    memory = "/dev/shm" if when == "lines" and Path("/dev/shm").is_dir() else tmp_path
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        done = subprocess.run(
            [sys.executable, HERE / "checkpoint_kills.py", when, folder],
            capture_output=True,
            text=True,
            timeout=150,
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

    def begin(line):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        running.append(subprocess.Popen(line, cwd=tmp_path, start_new_session=True, **pipes))
        return running[-1]

    yield begin
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@POSIX
@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_writes_a_checkpoint_and_returns_what_was_found(workers, start, tmp_path):
    words = ("--workers", workers, "--checkpoint", "run", "--every", "1h", "--out", "part.json")
    running = start(command(tmp_path, *words))
    metrics = tmp_path / "run" / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: the workers get it too
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130, out + err
    assert "Traceback" not in err
    part = json.loads((tmp_path / "part.json").read_text())
    assert part["status"] == "interrupted"
    assert 0 < part["nit"] == len(metrics.read_text().splitlines())
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)  # nobody is left
    resume = [GENSMOOTH, "resume", "run", "--out", "whole.json"]
    subprocess.run(resume, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    line = command(tmp_path, "--workers", "2", "--out", "alone.json")
    subprocess.run(line, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    whole = json.loads((tmp_path / "whole.json").read_text())
    assert whole == json.loads((tmp_path / "alone.json").read_text())
    assert whole["nit"] > part["nit"]


@POSIX
def test_a_second_ctrl_c_leaves_at_once(start, tmp_path):
    running = start(command(tmp_path, "--checkpoint", "run", objective="model:stubborn"))
    assert running.stderr is not None
    assert running.stderr.readline() == "evaluating\n"
    os.killpg(running.pid, signal.SIGINT)
    assert running.stderr.readline() == "shrugs\n"
    began = time.monotonic()
    os.killpg(running.pid, signal.SIGINT)
    running.communicate(timeout=20)
    assert time.monotonic() - began < 10
    assert running.returncode != 0
