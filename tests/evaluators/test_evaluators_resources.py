"""Small traffic, nothing left behind, and Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gensmooth as gs
from evaluator_cases import run, search_of, steps, wavy
from gensmooth.estimators import Plan
from gensmooth.evaluators import Objective, Processes, Serial, as_evaluator
from gensmooth.evaluators.maplike import MapLike
from gensmooth.evaluators.processes import Traffic
from gensmooth.evaluators.worker import Step, Worker
from gensmooth.kernels import laws, signs
from patience import LONG, alive, wait_until

HELPERS = Path(__file__).parents[1] / "helpers"
LINUX = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads Linux's /proc")


def children() -> set[int]:
    tasks = Path("/proc/self/task").glob("*/children")
    return {int(pid) for task in tasks for pid in task.read_text().split()}


def handles(pid: int | str = "self") -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def moved_bytes(pid: int) -> int:
    """Bytes through read and write, by the kernel's count: all but sockets and mapped memory."""
    lines = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(lines["rchar"]) + int(lines["wchar"])


def shared_memory(pid: int | str = "self") -> set[str]:
    """What a process maps that others can map too, and that is no file on a disk."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    names = {line.split(maxsplit=5)[5] for line in lines if len(line.split()) > 5}
    return {name for name in names if "/dev/shm" in name or "memfd" in name or "SYSV" in name}


def first(x: Any) -> float:
    return float(x[0])


@LINUX
@pytest.mark.parametrize(
    "directions",
    [gs.Bernoulli(), gs.Guided(history=3), gs.shrunk(gs.OrthogonalBernoulli())],
    ids=["bes", "guided", "hadamard"],
)
def test_bytes_an_evaluation_do_not_grow_with_d(directions: gs.Directions) -> None:
    search = search_of(directions=directions, num_directions=8)
    found: dict[int, float] = {}
    with Processes(2) as pool:
        for dim in (10, 1_000_000):
            with pool.session(search, Objective(first)) as session:
                state = steps(session, search, 3, x0=np.zeros(dim)).state
                while session.workers < 2:
                    state = steps(session, search, 1, state=state).state
                state = steps(session, search, 5, state=state).state
                pids = pool.pids
                for _ in range(10):
                    before, kernel = pool.traffic, sum(map(moved_bytes, pids))
                    state = steps(session, search, 10, state=state).state
                    after, after_kernel = pool.traffic, sum(map(moved_bytes, pids))
                    if after_kernel - kernel <= 1000:
                        break  # otherwise a worker has just read its compiled functions
                assert after_kernel - kernel <= 1000
                assert pool.pids == pids
            found[dim] = (sum(after) - sum(before)) / (10 * len(search.plan))
    assert found[1_000_000] <= 120
    assert found[1_000_000] <= found[10] + 70  # messages of one evaluation instead of several


def test_a_map_carries_the_points() -> None:
    """The exemption that the documentation tells of."""
    import pickle

    sizes: list[int] = []

    def carrying(function: Any, items: Any) -> Any:
        sizes.extend(len(pickle.dumps(item)) for item in items)
        return map(function, items)

    for dim in (10, 10_000):
        run(MapLike(carrying), search_of(), first, 1, x0=np.zeros(dim))
    assert sizes[-1] - sizes[0] == pytest.approx(8 * (10_000 - 10), abs=100)


@pytest.mark.parametrize("method", ["gs", "bes", "orthogonal-es"])
def test_a_plan_that_has_travelled_compiles_nothing(method: str) -> None:
    # It would count as the objective's time on Ray, at the end of every run.
    search = search_of(method)
    x = np.zeros(5)
    search.ask(search.init(x, seed=0)).point(0)
    compiled = _signatures()
    plan = Plan(*np.frombuffer(bytes(3 * 8), np.int64).reshape(3, 1))
    assert not plan.direction.flags.writeable
    worker = Worker(search, Objective(first))
    worker.step(Step(0, 0, plan), x)
    assert worker.evaluate(0, 1).values == [0.0]
    assert _signatures() == compiled


def _signatures() -> int:
    return len(laws.perturb.signatures) + len(signs.perturb.signatures)


@pytest.mark.usefixtures("fresh_interpreters")
@LINUX
def test_ten_thousand_steps_leave_nothing_behind() -> None:
    search = search_of("guided-es", num_directions=1)
    before = handles(), children(), shared_memory()
    counts: Counter[tuple[int, ...]] = Counter()
    with Processes(2) as pool:
        with pool.session(search, Objective(first)) as session:
            state = steps(session, search, 50).state
            while session.workers < 2:
                state = steps(session, search, 1, state=state).state
            for _ in range(10):
                state = steps(session, search, 1000, state=state).state
                counts[handles(), *map(handles, pool.pids)] += 1
            assert state.step >= 10_000
        assert len(counts) == 1, counts
        # No name in the file system: it cannot outlive the processes, whatever ends them.
        for pid in ("self", *pool.pids):
            assert shared_memory(pid) - before[2] == {"/memfd:gensmooth (deleted)"}
    assert (handles(), children(), shared_memory()) == before


@pytest.mark.usefixtures("fresh_interpreters")
@LINUX
def test_sessions_leave_nothing_behind() -> None:
    before = handles(), children()
    for _ in range(2):
        run(Processes(2), search_of(), wavy)
        assert (handles(), children()) == before
    with Processes(2) as pool:
        search = search_of()
        with pool.session(search, Objective(wavy)) as session:
            state = steps(session, search, 3).state
            while session.workers < 2:
                state = steps(session, search, 1, state=state).state
        pids, count = pool.pids, handles()
        for _ in range(20):
            run(pool, search_of(), wavy)
        assert pool.pids == pids
        assert handles() == count
    assert (handles(), children()) == before


SCRIPT = """
import os, sys
sys.path.insert(0, {here!r})
import numpy as np
from evaluator_cases import FAILURES, search_of, steps
from gensmooth.evaluators import Objective, Processes
def hang(x):
    open(f"{hung}/{{os.getpid()}}", "w").close()
    return FAILURES[{how!r}]()
with Processes(2) as pool:
    try:
        search = search_of()
        with pool.session(search, Objective(hang)) as session:
            print(*pool.pids, flush=True)
            steps(session, search, 1)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
print("end", flush=True)
"""


def descendants(pid: int) -> set[int]:
    try:
        kids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return {int(k) for k in kids}.union(*[descendants(int(k)) for k in kids])


FORKING = """
import os, sys, time
import numpy as np
import gensmooth as gs
from gensmooth.evaluators import Processes

def callback(now):
    if now.info.step == 0:
        child = os.fork()  # as a library may that prepares data, or serves
        if child == 0:
            time.sleep(60)
            os._exit(0)
        print(child, *pool.pids, flush=True)

with Processes(2) as pool:
    gs.minimize(lambda x: x[0], np.zeros(2), workers=pool, callback=callback, budget=10**9, seed=0)
"""


@pytest.mark.usefixtures("fresh_interpreters")
@LINUX
def test_a_fork_of_a_killed_parent_does_not_keep_the_workers() -> None:
    with subprocess.Popen([sys.executable, "-c", FORKING], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child, *workers = map(int, parent.stdout.readline().split())
        try:
            parent.kill()
            assert wait_until(lambda: not any(alive(pid) for pid in workers))
            assert alive(child)
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.usefixtures("fresh_interpreters")
@LINUX
@pytest.mark.parametrize("how", ["timeout", "child"])
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_and_sudden_death(how: str, ending: signal.Signals, tmp_path: Path) -> None:
    """Workers hang in C, or wait for a program of their own; either way they are gone."""
    script = SCRIPT.format(here=str(HELPERS), how=how, hung=tmp_path)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout is not None
        pids = list(map(int, p.stdout.readline().split()))
        assert len(pids) == 2
        # In the hung call, and with a child where they have one.
        assert wait_until(lambda: {path.name for path in tmp_path.iterdir()} == {*map(str, pids)})
        assert wait_until(lambda: len(descendants(p.pid)) == (4 if how == "child" else 2))
        everyone = descendants(p.pid)
        began = time.monotonic()
        p.send_signal(ending)
        rest = p.stdout.read()
        p.wait(LONG)
        if ending == signal.SIGINT:
            assert rest.split() == ["interrupted", "end"]
            assert p.returncode == 0
        assert wait_until(lambda: not any(map(alive, everyone)))
        assert time.monotonic() - began < 60  # of 1000


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    """Functions of ``__main__``, no ``if __name__``, threads running: as a notebook has it."""
    script = tmp_path / "script.py"
    script.write_text(
        "import threading, numpy as np, gensmooth as gs\n"
        "from gensmooth.evaluators import Objective, Processes\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "shift = 2.0\n"
        "def fun(x):\n"
        "    return float(((x - shift) ** 2).sum())\n"
        "search = gs.RandomSearch(\n"
        "    method='bes', num_directions=4, spacing=0.1, learning_rate=0.05\n"
        ")\n"
        "state = search.init(np.zeros(3), seed=0)\n"
        "with Processes(2).session(search, Objective(fun)) as session:\n"
        "    for _ in range(50):\n"
        "        batch = search.ask(state)\n"
        "        state, info = search.tell(state, batch, session.evaluate(state, batch).values)\n"
        "print(np.abs(state.x - 2).max() < 0.3)\n"
    )
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=LONG)
    assert (found.stdout, found.stderr) == ("True\n", "")


def test_environment_of_workers() -> None:
    def fun(x: Any) -> float:  # noqa: ARG001
        return float(os.environ["GENSMOOTH_TEST"])

    search = search_of()
    state = search.init(np.zeros(2), seed=0)
    pool = Processes(1, environment={"GENSMOOTH_TEST": "7"})
    with pool.session(search, Objective(fun)) as session:
        assert set(session.evaluate(state, search.ask(state)).values) == {7.0}


def test_one_run_at_a_time() -> None:
    with Processes(1) as pool, pool.session(search_of(), Objective(wavy)):
        with (
            pytest.raises(RuntimeError, match="already in use by another run"),
            pool.session(search_of(), Objective(wavy)),
        ):
            pass
        with pytest.raises(RuntimeError, match="already in use"), pool:
            pass


def test_traffic_needs_a_context() -> None:
    with pytest.raises(RuntimeError, match="available only inside"):
        _ = Processes(1).traffic
    with Processes(1) as pool:
        assert pool.traffic == Traffic(0, 0)


@pytest.mark.parametrize(
    ("workers", "options", "kind"),
    [
        (1, {}, "Serial"),
        (np.int64(1), {"retries": 2}, "Serial"),
        (np.int64(3), {"timeout": np.float32(2.0), "retries": np.int64(2)}, "Processes"),
        (3, {"timeout": 2.0}, "Processes"),
        (-1, {}, "Processes"),
        (map, {"retries": 1}, "MapLike"),
        (Serial(), {}, "Serial"),
    ],
)
def test_workers_argument(workers: Any, options: Any, kind: str) -> None:
    found: Any = as_evaluator(workers, **options)
    assert type(found).__name__ == kind
    assert found.retries == options.get("retries", 0)
    if kind == "Processes":
        assert found.num_workers == (len(os.sched_getaffinity(0)) if workers == -1 else 3)


@pytest.mark.parametrize(
    ("workers", "options", "words"),
    [
        (0, {}, "at least 1, or -1 for all cores, but is 0"),
        (-2, {}, "but is -2"),
        (True, {}, "must be a number, a map-like callable"),
        ("4", {}, "such as gs.evaluators.Processes"),
        (1, {"timeout": 3}, "workers=1 evaluates in this process.*Processes.1, timeout=3"),
        (map, {"timeout": 3}, "a map-like callable manages its own workers"),
        (Serial(), {"retries": 3}, "set them on the evaluator itself"),
        (2, {"retries": -1}, "`retries` must be a whole number of at least 0"),
        (2, {"timeout": True}, "`timeout` must be a number, but is True"),
        (2, {"timeout": 0}, "`timeout` must be positive, but is 0"),
    ],
)
def test_workers_argument_refused(workers: Any, options: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        as_evaluator(workers, **options)


@pytest.mark.usefixtures("fresh_interpreters")
def test_nothing_heavy_is_imported_unasked() -> None:
    code = (
        "import sys, gensmooth as gs\n"
        "gs.evaluators.Serial(), gs.evaluators.as_evaluator(1)\n"
        "heavy = {'ray', 'multiprocessing', 'subprocess', 'cloudpickle', 'numba', 'socket'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
