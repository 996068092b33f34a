"""Objectives and worlds that mean harm: forks, frozen workers, garbage on the channel."""

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluator_cases import DIM, FAILURES, run, search_of, steps, wavy
from gensmooth.evaluators import (
    EvaluationError,
    Evaluator,
    MapLike,
    Objective,
    Processes,
    Serial,
    Threads,
)
from gensmooth.evaluators import processes as processes_module

HELPERS = Path(__file__).parents[1] / "helpers"
LINUX = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads Linux's /proc")


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes_module, "_SILENCE", 2.0)


# --- objectives that fork ----------------------------------------------------------------------

FORKING = """
import ctypes, os, sys
import numpy as np
import gensmooth as gs

how, folder = sys.argv[1:]
calls, codes = 0, []

def loss(x):
    global calls
    calls += 1
    if calls % 5 == 0:
        child = ctypes.PyDLL(None).fork() if how == "in C" else os.fork()
        if child == 0:
            if how == "exit":
                sys.exit(7)
            if how == "raise":
                raise ValueError("in the child")
            if how == "interrupt":
                raise KeyboardInterrupt
            return -1e9
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return float(((x - 3) ** 2).sum())

def block(X):
    return [loss(x) for x in X]

fun, vectorized = (block, 4) if how == "block" else (loss, False)
res = gs.minimize(
    fun, np.zeros(4), budget=100, seed=0, folder=folder, every=1, vectorized=vectorized
)
print(res.x.tobytes().hex(), res.nfev, sorted(set(codes)))
"""


@pytest.mark.parametrize(
    ("how", "code"),
    [("return", 1), ("exit", 7), ("raise", 1), ("interrupt", 1), ("block", 1), ("in C", 1)],
)
def test_a_fork_of_the_objective_does_not_become_a_second_optimiser(
    how: str, code: int, tmp_path: Path
) -> None:
    import gensmooth as gs

    found = subprocess.run(
        [sys.executable, "-c", FORKING, how, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    expected = gs.minimize(lambda x: float(((x - 3) ** 2).sum()), np.zeros(4), budget=100, seed=0)
    assert found.returncode == 0, found.stderr
    (line,) = found.stdout.splitlines()  # of one process
    assert line == f"{expected.x.tobytes().hex()} {expected.nfev} [{code}]"


def forks(x: Any) -> float:
    """Forks now and then; the children do what they should not."""
    now = time.perf_counter_ns() % 3
    child = os.fork() if time.perf_counter_ns() // 1000 % 4 == 0 else None
    if child == 0:
        if now == 0:
            sys.exit(3)
        if now == 1:
            raise ValueError("in the child")
        return -1e9
    if child:
        os.waitpid(child, 0)
    return wavy(x)


@pytest.mark.filterwarnings("ignore")  # of forks in a process with threads
@pytest.mark.parametrize("name", ["processes", "threads", "map"])
def test_a_fork_does_not_speak_for_its_worker(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    search = search_of("guided-es", num_directions=30)
    evaluators: dict[str, Evaluator] = {
        "processes": Processes(2),
        "threads": Threads(2),
        "map": MapLike(map),
    }
    found = run(evaluators[name], search, forks, 4)
    assert found.x.tobytes() == run(Serial(), search, wavy, 4).x.tobytes()
    assert not found.faults
    assert "the objective forked and the child process returned" in capfd.readouterr().err


class ForksOnArrival:
    """Forks where it is unpickled, as what its module imports might; the child goes on too."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __call__(self, x: Any) -> float:
        return wavy(x)

    def __reduce__(self) -> tuple[Any, ...]:
        return arrive, (self.how,)


def arrive(how: str) -> ForksOnArrival:
    if os.fork() == 0:
        if how == "exit":
            sys.exit(3)
        if how == "raise":
            raise ValueError("in the child")
    return ForksOnArrival(how)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", ["return", "exit", "raise"])
def test_a_fork_made_on_arrival_does_not_speak_for_its_worker(how: str) -> None:
    search = search_of("guided-es", num_directions=10)
    found = run(Processes(2), search, ForksOnArrival(how), 6)
    assert found.x.tobytes() == run(Serial(), search, wavy, 6).x.tobytes()
    assert not found.faults


# --- workers that are frozen -------------------------------------------------------------------


def slow(x: Any) -> float:
    time.sleep(0.005)
    return wavy(x)


@pytest.mark.parametrize("method", ["guided-es", "bes"])
@pytest.mark.parametrize("timeout", [None, 5.0])
def test_a_worker_frozen_between_evaluations(method: str, timeout: float | None) -> None:
    """With Guided ES it does not take a step in, with BeS it does not begin on its work."""
    search = search_of(method)
    expected = run(Serial(), search, wavy, 16)
    with Processes(2, timeout=timeout) as pool, pool.session(search, Objective(slow)) as session:
        early = steps(session, search, 12)
        while session.workers < 2:
            time.sleep(0.01)
            session.evaluate(early.state, search.ask(early.state))
        frozen = pool.pids[0]
        os.kill(frozen, signal.SIGSTOP)
        began = time.monotonic()
        late = steps(session, search, 4, state=early.state)
        assert time.monotonic() - began < 30
        assert frozen not in pool.pids
    assert late.x.tobytes() == expected.x.tobytes()
    assert late.faults == {"died": 1}


def test_a_worker_frozen_inside_an_evaluation() -> None:
    search = search_of()
    mark = np.zeros(1)

    def freezes(x: Any) -> float:
        if os.getpid() % 2 == 0 and not mark[0]:  # the arrays of a worker are its own
            mark[0] = 1
            os.kill(os.getpid(), signal.SIGSTOP)
        return wavy(x)

    with Processes(2, timeout=1.0, retries=20) as pool:
        while all(pid % 2 for pid in pool.pids):
            run(pool, search, wavy, 1)
            if all(pid % 2 for pid in pool.pids):
                os.kill(pool.pids[0], signal.SIGKILL)
        found = run(pool, search, freezes, 4)
    assert found.x.tobytes() == run(Serial(), search, wavy, 4).x.tobytes()
    assert set(found.faults) <= {"timeout", "died"}


def test_workers_frozen_again_and_again() -> None:
    search = search_of("guided-es", num_directions=20)
    expected = run(Serial(), search, wavy, 30)
    done = threading.Event()
    rng = np.random.default_rng(0)
    with Processes(3, retries=50, timeout=2.0) as pool:

        def freeze() -> None:
            # If all are frozen before one has started, the run ends: that is `start_timeout`.
            while not any(worker.proven for worker in pool._pool.workers) and not done.wait(0.01):
                pass
            for _ in range(5):
                if done.wait(rng.uniform(0, 0.5)):
                    return
                if pids := pool.pids:
                    os.kill(int(rng.choice(pids)), signal.SIGSTOP)

        thread = threading.Thread(target=freeze)
        thread.start()
        try:
            found = run(pool, search, slow, 30)
        finally:
            done.set()
            thread.join()
    assert found.x.tobytes() == expected.x.tobytes()


def test_a_worker_frozen_between_runs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes_module.ProcessPool, "silence", lambda *_: 3.0)  # not 60 s
    search = search_of()
    with Processes(1) as pool:
        expected = run(pool, search, wavy)
        frozen = pool.pids[0]
        os.kill(frozen, signal.SIGSTOP)
        found = run(pool, search, wavy)
        assert pool.pids != [frozen]
    assert found.x.tobytes() == expected.x.tobytes()
    assert found.faults == {"died": 1}


def test_a_worker_that_does_not_read() -> None:
    """A message that does not fit into the kernel's buffer would wait for ever."""
    search = search_of()

    def fun(x: Any, context: Any) -> float:
        return wavy(x) + context[-1]

    with (
        Processes(1, start_timeout=3.0) as pool,
        pool.session(search, Objective(fun)) as session,
    ):
        assert pool._pool is not None
        pool._pool.start_timeout = 60.0  # a start may take longer than a message
        state = search.init(np.ones(DIM), seed=3)
        batch = search.ask(state).with_context(np.arange(10.0))
        session.evaluate(state, batch)
        os.kill(pool.pids[0], signal.SIGSTOP)
        found = session.evaluate(state, search.ask(state).with_context(np.arange(1e6)))
        assert found.faults == {"died": 1}
        assert (found.values == [wavy(p) + 1e6 - 1 for p in batch.points()]).all()


def long_pause(x: Any) -> float:
    """Waits without computing, inside of the objective, for longer than may be outside."""
    time.sleep(2.5)
    return wavy(x)


def test_an_objective_that_waits_is_not_frozen() -> None:
    search = search_of(num_directions=1)
    assert not run(Processes(2), search, long_pause, 1).faults


# --- garbage on the channel --------------------------------------------------------------------


def answer(number: int, rows: int) -> bytes:
    body = struct.pack("<qdqq", number, 0.0, rows, 0) + bytes(8 * rows)
    return struct.pack("<IB", len(body), ord("v")) + body


GARBAGE = {
    "noise": b"\xff" * 64,
    "text": b"hello, this is a progress bar: 100 %\n",
    "swallows": struct.pack("<IB", 1 << 20, ord("v")),
    "cut": b"\x00",
    "short": struct.pack("<IB", 3, ord("v")) + b"abc",
    "wrong number": answer(10**6, 1),
    "wrong rows": answer(1, 99),
    "hello": struct.pack("<IB", 0, ord("h")),
    "parent's": struct.pack("<IB", 0, ord("C")),
    "bad failures": struct.pack("<IB", 34, ord("v")) + struct.pack("<qdqq", 1, 0, 0, 0) + b"[]",
}


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    """Started once: each case ends a worker, and the others go on."""
    with Processes(2, retries=2) as started:
        yield started


@LINUX
@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_on_the_channel(name: str, tmp_path: Path, two: Processes) -> None:
    """An objective can write to any descriptor; not a bit of the result changes."""
    search = search_of("guided-es", num_directions=6)
    marker = tmp_path / "done"

    def writes(x: Any) -> float:
        if not marker.exists():
            marker.touch()
            for fd in map(int, os.listdir("/proc/self/fd")):
                try:
                    end = socket.socket(fileno=os.dup(fd))
                except OSError:
                    continue
                end.send(GARBAGE[name])
                end.close()
        return wavy(x)

    found = run(two, search, writes, 4)
    assert marker.exists()
    assert found.x.tobytes() == run(Serial(), search, wavy, 4).x.tobytes()
    assert set(found.faults) <= {"died"}
    assert found.faults.total() >= 1


# --- parents that are killed -------------------------------------------------------------------


@LINUX
def test_ignoring_signals_does_not_outlive_the_parent() -> None:
    """A C call that never returns, in a worker that ignores all signals that can be ignored."""
    script = (
        "import sys\n"
        f"sys.path[:0] = {[str(Path(__file__).parent), str(HELPERS)]}\n"
        "from test_evaluators_hostile import ignores\n"
        "from evaluator_cases import search_of, steps\n"
        "from gensmooth.evaluators import Objective, Processes\n"
        "with Processes(2) as pool:\n"
        "    with pool.session(search_of(), Objective(ignores)) as session:\n"
        "        print(*pool.pids, flush=True)\n"
        "        steps(session, search_of(), 1)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout is not None
        pids = list(map(int, p.stdout.readline().split()))
        assert _soon(lambda: all(_ignores_io(pid) for pid in pids))
        p.kill()
        p.wait(20)
        assert _soon(lambda: not any(map(_alive, pids)))


def ignores(x: Any) -> float:  # noqa: ARG001
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    return FAILURES["timeout"]()


def _ignores_io(pid: int) -> bool:
    lines = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(lines["SigIgn"], 16) >> (signal.SIGIO - 1) & 1)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _soon(condition: Any, seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


# --- exceptions that cannot be shown -----------------------------------------------------------


class NoWords(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Exits(NoWords):
    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class BadNotes(Exception):  # noqa: N818
    @property
    def __notes__(self) -> Any:
        raise SystemExit(4)


class BadPosition(SyntaxError):  # noqa: N818
    def __init__(self) -> None:
        super().__init__("bad", ("file", "one", object(), 3))


class BadCause(Exception):  # noqa: N818
    def __getattribute__(self, name: str) -> Any:
        if name in ("__cause__", "__context__", "__suppress_context__"):
            raise MemoryError
        return super().__getattribute__(name)


class BadTrace(Exception):  # noqa: N818
    @property
    def __traceback__(self) -> Any:
        raise RuntimeError("no trace")


class Nameless(type):
    def __getattribute__(cls, name: str) -> Any:
        if name == "__name__" and sys._getframe(1).f_code.co_filename.endswith("objective.py"):
            raise ValueError("no name")
        return super().__getattribute__(name)


class BadName(NoWords, metaclass=Nameless):
    pass


class NotText(Exception):  # noqa: N818
    def __str__(self) -> Any:
        return 7


SHY = [NoWords, Exits, BadNotes, BadPosition, BadCause, BadTrace, BadName, NotText]


@pytest.fixture(scope="module", params=["serial", "processes"])
def evaluator(request: pytest.FixtureRequest) -> Iterator[Evaluator]:
    if request.param == "serial":
        yield Serial()
    else:
        with Processes(1) as started:
            yield started


@pytest.mark.parametrize("kind", SHY)
def test_an_exception_that_cannot_be_shown_follows_the_policy(
    kind: Any, evaluator: Evaluator
) -> None:
    search = search_of(on_failure="drop", num_directions=8)
    bad = search.ask(search.init(np.linspace(-1, 1, DIM), seed=11)).point(3)

    def fun(x: Any) -> float:
        if np.array_equal(x, bad):
            raise kind
        return wavy(x)

    found = run(evaluator, search, fun, 2)
    assert found.faults == {"exception": 1}
    assert found.dropped == 1


def test_words_without_end_are_cut() -> None:
    search = search_of()

    def fun(x: Any) -> float:  # noqa: ARG001
        raise ValueError("a" * 10**7)

    with pytest.raises(EvaluationError, match="The objective raised ValueError: aaa") as caught:
        run(Serial(), search, fun, 1)
    assert len(str(caught.value)) < 20_000
