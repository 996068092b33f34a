"""Faults: counted, tried again, let go or raised; and nothing is left of them afterwards."""

import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gensmooth as gs
from evaluator_cases import DIM, Fails, NeverArrives, run, search_of, steps, wavy, wavy_block
from gensmooth.evaluators import (
    EvaluationError,
    Evaluator,
    MapLike,
    Objective,
    Processes,
    Serial,
    Threads,
    WorkerError,
)
from gensmooth.evaluators.session import process_state
from patience import LONG, wait_until

SERIAL_KINDS = ["exception", "non-finite"]
KINDS = [*SERIAL_KINDS, "timeout", "died"]
TIMEOUT = 2.0  # an evaluation that does not hang takes microseconds, but may have to wait its turn


def point(search: gs.RandomSearch, step: int, index: int) -> Any:
    """The point of an evaluation of a run that nothing happens to."""
    state = search.init(np.linspace(-1, 1, DIM), seed=11)
    with Serial().session(search, Objective(wavy)) as session:
        if step:
            state = steps(session, search, step).state
    return search.ask(state).point(index)


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes(2, timeout=TIMEOUT) as started:
        yield started


@pytest.fixture
def pool(processes: Processes) -> Processes:
    processes.retries = 0
    return processes


def made(name: str, retries: int, pool: Processes) -> Evaluator:
    if name == "processes":
        pool.retries = retries
        return pool
    if name == "map":
        return MapLike(map, retries=retries)
    return Serial(retries=retries) if name == "serial" else Threads(2, retries=retries)


CASES = [
    *[(name, kind) for name in ("serial", "threads", "map") for kind in SERIAL_KINDS],
    *[("processes", kind) for kind in [*KINDS, "child", "exit", "infinite"]],
]
COUNTED = {"child": "timeout", "exit": "died", "infinite": "non-finite"}


@pytest.mark.parametrize(("name", "how"), CASES)
def test_retry_leaves_no_trace(name: str, how: str, tmp_path: Path, pool: Processes) -> None:
    search = search_of("guided-es")
    expected = run(Serial(), search, wavy, 4)
    fun = Fails(how, point(search, 2, 3), tmp_path / "failed")
    found = run(made(name, 2, pool), search, fun, 4)
    assert found.x.tobytes() == expected.x.tobytes()
    assert found.faults == {COUNTED.get(how, how): 1}
    assert found.dropped == 0


@pytest.mark.parametrize(("name", "how"), CASES)
@pytest.mark.parametrize("retries", [0, 1])
def test_drop_leaves_the_direction_out(name: str, how: str, retries: int, pool: Processes) -> None:
    search = search_of("gs", on_failure="drop", estimator=gs.Antithetic())
    state = run(Serial(), search, wavy, 2).state
    batch = search.ask(state)
    with Serial().session(search, Objective(wavy)) as session:
        values = session.evaluate(state, batch).values
    values[3] = np.nan
    expected, info = search.tell(state, batch, values)
    fun = Fails(how, batch.point(3))
    found = run(made(name, retries, pool), search, fun, 3)
    assert found.x.tobytes() == expected.x.tobytes()
    assert found.dropped == info.dropped == 1
    assert found.faults == {COUNTED.get(how, how): 1 + retries}
    assert np.isfinite(found.x).all()


@pytest.mark.parametrize("how", ["exception", "timeout", "died", "child", "exit"])
def test_raise_tells_where_and_leaves_the_workers_usable(how: str, pool: Processes) -> None:
    search = search_of("gs", estimator=gs.Antithetic())
    fun = Fails(how, point(search, 2, 5))
    began = time.monotonic()
    with pytest.raises(EvaluationError) as caught:
        run(pool, search, fun, 4)
    assert time.monotonic() - began < LONG  # the objective would have slept for 1000 s
    error = caught.value
    assert (error.step, error.index, error.kind) == (2, 5, COUNTED.get(how, how))
    assert "evaluation 5 of 8 in step 2 (−direction 2)" in str(error)
    expected = run(Serial(), search, wavy, 4)
    assert run(pool, search, wavy, 4).x.tobytes() == expected.x.tobytes()


def test_a_session_goes_on_after_a_failed_call(pool: Processes, tmp_path: Path) -> None:
    search = search_of("guided-es")
    fun = Fails("exception", point(search, 2, 3), tmp_path / "failed")
    with pool.session(search, Objective(fun)) as session:
        state = steps(session, search, 2).state
        with pytest.raises(EvaluationError):
            steps(session, search, 1, state=state)
        found = steps(session, search, 12, state=state)
    assert found.x.tobytes() == run(Serial(), search, wavy, 14).x.tobytes()


def test_traceback_of_the_worker(pool: Processes) -> None:
    search = search_of()
    with pytest.raises(EvaluationError, match="raised ZeroDivisionError: division by zero") as e:
        run(pool, search, Fails("exception", point(search, 0, 2)))
    assert "return 1 / 0" in e.value.traceback
    assert "return 1 / 0" in "".join(traceback.format_exception(e.value))


def test_traceback_in_this_process() -> None:
    search = search_of()
    with pytest.raises(EvaluationError) as e:
        run(Serial(), search, Fails("exception", point(search, 0, 2)))
    assert isinstance(e.value.__cause__, ZeroDivisionError)
    assert e.value.traceback.startswith("Traceback")
    assert "objective.py" not in e.value.traceback


@pytest.mark.parametrize("name", ["serial", "threads", "map", "processes"])
def test_non_finite_raises_in_tell(name: str, pool: Processes) -> None:
    search = search_of()
    with pytest.raises(ValueError, match=r"evaluation 2 of 5 in step 0 .* has the value nan"):
        run(made(name, 0, pool), search, Fails("non-finite", point(search, 0, 2)))


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "returned None"),
        ("1.0", "must return a number, but returned '1.0'"),
        (np.ones(3), r"returned an array of shape \(3,\) \(for many points"),
        (10**400, r"OverflowError: int too large"),
    ],
)
@pytest.mark.parametrize("name", ["serial", "threads", "map", "processes"])
def test_no_number_is_an_error_under_every_policy(
    name: str, returned: Any, words: str, pool: Processes
) -> None:
    search = search_of(on_failure="drop")
    with pytest.raises(EvaluationError, match=words):
        run(made(name, 1, pool), search, lambda x: returned)  # noqa: ARG005


def test_numbers_of_any_kind() -> None:
    search = search_of()
    expected = run(Serial(), search, wavy).x
    for kind in (np.float64, np.array, lambda v: np.array([[v]]), lambda v: [v]):
        assert run(Serial(), search, lambda x, k=kind: k(wavy(x))).x.tobytes() == expected.tobytes()


@pytest.mark.parametrize("vectorized", [True, 3])
def test_vectorized_failures(pool: Processes, vectorized: int) -> None:
    def bad(X: Any) -> Any:  # noqa: ARG001
        raise KeyError("no")

    search = search_of(num_directions=10)
    with pytest.raises(EvaluationError, match="raised KeyError") as e:
        run(pool, search, bad, vectorized=vectorized)
    assert e.value.index in (0, 3, 6, 9)
    with pytest.raises(EvaluationError, match=r"must return .* values for .* points"):
        run(pool, search, lambda X: X, vectorized=vectorized)


def test_vectorized_block_with_a_nan_is_dropped_and_counted(pool: Processes) -> None:
    search = search_of(num_directions=10, on_failure="drop")

    def two_nans(X: Any) -> Any:
        values = wavy_block(X)
        values[[1, 2]] = np.nan
        return values

    found = run(pool, search, two_nans, 1, vectorized=True)
    assert found.faults == {"non-finite": 2}
    assert found.dropped == 2


def test_too_many_failures(pool: Processes) -> None:
    search = search_of(on_failure="drop", min_fraction=0.9)
    with pytest.raises(ValueError, match="fewer than min_fraction"):
        run(pool, search, Fails("exception", point(search, 0, 2)))


def test_faults_are_logged_once_a_kind(pool: Processes, caplog: pytest.LogCaptureFixture) -> None:
    def fun(x: Any) -> float:
        if x[0] > -1:
            raise ValueError("too large")
        return float("nan") if x[1] > -2 / 3 else wavy(x)

    search = search_of(on_failure="drop", min_fraction=0.01, num_directions=40)
    with caplog.at_level(logging.WARNING, "gensmooth"):
        found = run(pool, search, fun, 1)
    assert found.faults["exception"] > 5
    assert found.faults["non-finite"] > 5
    assert len(caplog.records) == 2
    assert "too large, at evaluation" in caplog.text


def test_a_worker_killed_while_idle_is_replaced() -> None:
    search = search_of("guided-es")
    with Processes(2) as pool, pool.session(search, Objective(wavy)) as session:
        early = steps(session, search, 12)
        while session.workers < 2:
            early = steps(session, search, 1, state=early.state)
        for pid in pool.pids:
            os.kill(pid, signal.SIGKILL)
        late = steps(session, search, 3, state=early.state)
        assert late.faults == {"died": 2}
        expected = run(Serial(), search, wavy, late.state.step)
        assert late.x.tobytes() == expected.x.tobytes()
        assert session.workers >= 1


def test_workers_killed_again_and_again() -> None:
    """Random kills under load; with retries, not a bit changes."""
    search = search_of("guided-es", num_directions=20)
    expected = run(Serial(), search, wavy, 40)
    done = threading.Event()
    rng = np.random.default_rng(0)
    kills = 8

    def slow(x: Any) -> float:
        time.sleep(0.005)
        return wavy(x)

    with Processes(3, retries=50) as pool:

        def killer() -> None:
            for _ in range(kills):
                if done.wait(rng.uniform(0, 0.8)):
                    return
                if pids := pool.pids:
                    with suppress(ProcessLookupError):
                        os.kill(int(rng.choice(pids)), signal.SIGKILL)

        thread = threading.Thread(target=killer)
        with pool.session(search, Objective(slow)) as session:
            state = steps(session, search, 2).state  # they have started, and work
            thread.start()
            try:
                found = steps(session, search, 38, state=state)
            finally:
                done.set()
                thread.join()
    assert found.x.tobytes() == expected.x.tobytes()
    assert found.faults["died"] > 0


@pytest.mark.parametrize("how", ["timeout", "died", "exception"])
def test_one_among_many_short_ones(how: str, pool: Processes, tmp_path: Path) -> None:
    """Short evaluations travel in company and ahead; the right one is found out all the same."""
    search = search_of("guided-es", num_directions=300)
    expected = run(Serial(), search, wavy, 3)
    fun = Fails(how, point(search, 1, 100), tmp_path / "failed")
    pool.retries = 1
    found = run(pool, search, fun, 3)
    assert found.x.tobytes() == expected.x.tobytes()
    assert found.faults == {how: 1}
    pool.retries = 0
    with pytest.raises(EvaluationError) as e:
        run(pool, search, Fails(how, point(search, 1, 100)), 3)
    assert (e.value.step, e.value.index, e.value.kind) == (1, 100, how)


@pytest.mark.skipif(sys.platform != "linux", reason="states are read from /proc")
def test_only_a_worker_that_waits_for_something_else_than_the_machine_can_be_silent() -> None:
    with Processes(1) as pool:
        run(pool, search_of(), wavy, 1)
        (pid,) = pool.pids
        assert wait_until(lambda: process_state(pid) == "S")
        os.kill(pid, signal.SIGSTOP)
        assert wait_until(lambda: process_state(pid) == "T")
        os.kill(pid, signal.SIGCONT)
    assert process_state(os.getpid()) == "R"
    assert process_state(pid) == ""


def test_processes_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(WorkerError, match=r"cannot be started: .*No such file"):
        run(Processes(2), search_of(), wavy)


@pytest.mark.usefixtures("fresh_interpreters")  # sitecustomize is read once
def test_workers_that_cannot_start(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; os.write(2, b'no!'); os._exit(3)")
    broken = Processes(2, environment={"PYTHONPATH": str(tmp_path)})
    with pytest.raises(WorkerError, match="cannot start: the last one ended with exit code 3"):
        run(broken, search_of(), wavy)
    assert "no!" in capfd.readouterr().err


@pytest.mark.usefixtures("fresh_interpreters")  # sitecustomize is read once
def test_workers_that_are_slow_to_start(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(100)")
    slow = Processes(1, environment={"PYTHONPATH": str(tmp_path)}, start_timeout=0.5)
    with pytest.raises(WorkerError, match=r"No worker started within 0\.5 s"):
        run(slow, search_of(), wavy)


def test_unpicklable_objective() -> None:
    lock = threading.Lock()

    def locked(x: Any) -> float:
        with lock:
            return wavy(x)

    with pytest.raises(WorkerError, match=r"cannot be sent to another process: .*lock.*Threads"):
        run(Processes(2), search_of(), locked)
    assert (
        run(Threads(2), search_of(), locked).x.tobytes()
        == run(Serial(), search_of(), wavy).x.tobytes()
    )


def test_objective_that_does_not_arrive(pool: Processes) -> None:
    with pytest.raises(WorkerError, match="cannot load the objective") as e:
        run(pool, search_of(), NeverArrives())
    assert "this does not travel well" in str(e.value)
    run(pool, search_of(), wavy)


def test_broken_executor() -> None:
    # spawn: a fork of a process with threads, such as JAX's of another test, may deadlock
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        search = search_of()
        with pytest.raises(WorkerError, match="BrokenProcessPool"):
            run(MapLike(executor.map), search, Fails("died", point(search, 0, 2)))


def test_not_a_map() -> None:
    with pytest.raises(WorkerError, match="must return one result of"):
        run(MapLike(lambda function, items: [1.0]), search_of(), wavy)  # noqa: ARG005


def test_a_thread_that_fails_stops_the_others() -> None:
    calls: list[int] = []

    def fun(x: Any) -> float:
        calls.append(1)
        if len(calls) == 4:
            raise ValueError
        time.sleep(0.02)
        return wavy(x)

    with pytest.raises(EvaluationError):
        run(Threads(2), search_of(num_directions=100), fun)
    assert len(calls) < 60


def test_pool_of_threads_is_map_like() -> None:
    search = search_of()
    with ThreadPoolExecutor(2) as executor:
        found = run(MapLike(executor.map), search, wavy)
    assert found.x.tobytes() == run(Serial(), search, wavy).x.tobytes()
