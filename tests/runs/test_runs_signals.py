"""Every kind of run ends well when it is told to: SIGTERM, and SIGKILL; also a stranger's own."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

import gensmooth as gs
import run_programs
from gensmooth.runs import STOPPED, End, Program, container, run
from gensmooth.runs.loop import Interrupts
from patience import LONG, wait_until
from run_programs import Counter

HELPERS = Path(__file__).parents[1] / "helpers"
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
KINDS = ["counter", "minimize", "train", "study"]


def command(kind, folder):
    if kind in ("train", "study"):
        pytest.importorskip("gymnasium")
        pytest.importorskip("mujoco")
    return [sys.executable, HELPERS / "run_programs.py", kind, folder]


def to_the_end(kind, folder):
    """The fingerprint of a run that is made, or gone on with, to its end; and its steps."""
    done = subprocess.run(
        command(kind, folder), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    *steps, fingerprint = done.stdout.split()
    return fingerprint, len(steps)


def signalled(kind, folder, number, after=20):
    """Send a signal to a run after some steps; gives the steps it made, and how it left."""
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    how |= {"env": {**os.environ, "PAUSE": "0.25"}}
    running = subprocess.Popen(command(kind, folder), **how)
    assert running.stdout is not None
    steps = 0
    while steps < after:
        line = running.stdout.readline()
        assert line == "step\n", line + running.stderr.read()
        steps += 1
    running.send_signal(number)
    out, err = running.communicate(timeout=120)
    assert "Traceback" not in err, err
    return steps + out.count("step"), running.returncode


def steps_kept(kind, folder):
    found = container.read(folder / "checkpoint")
    if kind != "study":
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        assert len(lines) == found.meta["step"] == found.meta["metrics"]["lines"]
        assert found.meta["end"] is None
        return found.meta["step"]
    return found.meta["state"]["step"] + len(found.meta["series"].get("return", []))


@POSIX
@pytest.mark.parametrize("kind", KINDS)
def test_sigterm_writes_a_last_checkpoint_and_ends_the_process(kind, tmp_path):
    """No checkpoint was due yet, and still nothing that was whole is lost."""
    whole, steps = to_the_end(kind, tmp_path / "whole")
    made, status = signalled(kind, tmp_path / "run", signal.SIGTERM)
    assert status == -signal.SIGTERM  # what a shell calls 143
    kept = steps_kept(kind, tmp_path / "run")
    assert 20 - 1 <= kept <= made < steps  # the step that the signal fell into is not whole
    assert made - kept <= 1
    again, rest = to_the_end(kind, tmp_path / "run")
    assert again == whole
    assert kept + rest == steps


@POSIX
def test_a_studys_worker_writes_a_last_checkpoint_when_its_parent_is_gone(tmp_path):
    pytest.importorskip("mujoco")
    from gensmooth.lab.experiments import workers

    context = multiprocessing.get_context("spawn")
    watched, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(1, context, initializer=workers._prepare, initargs=(watched,))
    try:
        lines = tmp_path / "lines"
        future = pool.submit(run_programs.study_in_a_worker, tmp_path / "run", lines)
        wait_until(lambda: lines.exists() and lines.read_text().count("step") >= 12)
        held.close()  # as when the parent is killed
        with pytest.raises(BrokenProcessPool):
            future.result(timeout=60)
    finally:
        pool.shutdown()
        watched.close()
    made = lines.read_text().count("step")
    assert 11 <= made - 1 <= steps_kept("study", tmp_path / "run") <= made


@POSIX
def test_a_strangers_program_survives_a_kill(tmp_path):
    """What was not kept is made again, to the same end."""
    folder = tmp_path / "run"
    whole, steps = to_the_end("counter", tmp_path / "whole")
    for _ in range(2):
        made, status = signalled("counter", folder, signal.SIGKILL)
        assert status == -signal.SIGKILL
        assert made < steps
    _, status = signalled("counter", folder, signal.SIGTERM)
    kept = steps_kept("counter", folder)
    _, status = signalled("counter", folder, signal.SIGKILL, after=5)
    assert to_the_end("counter", folder) == (whole, steps - kept)


def test_a_strangers_program_is_compared_told_again_and_refused(tmp_path):
    folder = tmp_path / "run"
    first = run(Counter(until=5), folder=folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert run(Counter(until=5), folder=folder) == first
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    with pytest.raises(gs.CheckpointError, match=r"configuration: `until` \(there 5, here 6\)"):
        run(Counter(until=6), folder=folder)
    with pytest.raises(gs.CheckpointError, match="holds a counter, not a minimisation"):
        gs.minimize(abs, [1.0], folder=folder)


class Signalled(Program[int, dict[str, int], int]):
    """Sends itself a signal in its third step."""

    kind = "signalled"

    def __init__(self, number):
        self.number = number

    def init(self):
        return 0

    def step(self, state, _):
        if state == 2:
            os.kill(os.getpid(), self.number)
            time.sleep(0.05)
        return state + 1, {}

    def stop(self, state, _):
        return End("done") if state == 5 else None

    def pack(self, _):
        return {}, {}

    def unpack(self, meta, _):
        return meta["step"]

    def result(self, state, _, end):
        return state if end.reason in STOPPED else -state


@POSIX
def test_a_handler_of_the_users_own_is_left_alone(tmp_path):
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("term"))
    try:
        assert run(Signalled(signal.SIGTERM), folder=tmp_path / "term") == -5
        signal.signal(signal.SIGINT, lambda *_: heard.append("int"))
        assert run(Signalled(signal.SIGINT), folder=tmp_path / "int") == -5
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert heard == ["term", "int"]


@POSIX
def test_handlers_are_given_back_and_another_thread_takes_none(tmp_path):
    seen = []

    class Looking(Signalled):
        def step(self, state, _):
            handlers = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
            seen.append(handlers == (signal.default_int_handler, signal.SIG_DFL))
            return state + 1, {}

    run(Looking(0), folder=tmp_path / "here")
    assert not any(seen)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    seen.clear()
    thread = threading.Thread(target=lambda: run(Looking(0), folder=tmp_path / "there"))
    thread.start()
    thread.join()
    assert len(seen) == 5
    assert all(seen)


@POSIX
def test_ctrl_c_within_a_step_leaves_the_state_before_it(tmp_path):
    folder = tmp_path / "run"
    assert run(Signalled(signal.SIGINT), folder=folder) == 2
    assert steps_kept("signalled", folder) == 2


@POSIX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_llvm_has_returned(number):
    """LLVM calls Python while it compiles; an exception there crashed the process."""
    interrupts, returned = Interrupts(), []
    space = {"__name__": "llvmlite.binding.executionengine", "send": signal.raise_signal}
    exec("def callback(number):\n    send(number)\n    return True", space)
    with interrupts.watch(terminate=True):
        try:
            with interrupts.allowed():
                returned.append(space["callback"](number))
                time.sleep(LONG)
        except KeyboardInterrupt:
            returned.append("interrupted")
    assert returned == [True, "interrupted"]
    assert not interrupts.urgent
    assert interrupts.terminated == (number == signal.SIGTERM)
