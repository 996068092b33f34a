"""Ray: a real cluster on this machine, whose nodes and actors are really killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, count, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gensmooth as gs
from evaluator_cases import (
    DIM,
    Fails,
    NeverArrives,
    check_context_and_extras,
    run,
    search_of,
    spread_sleep,
    steps,
    wavy,
    wavy_block,
)
from gensmooth.evaluators import EvaluationError, Objective, Ray, Serial, WorkerError
from gensmooth.evaluators.ray import RayPool
from patience import LONG, alive, wait_until

ray: Any = pytest.importorskip("ray", reason="Ray is not installed: pip install 'gensmooth[ray]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, of unclosed files and sockets

TIMEOUT = 4.0  # an evaluation that does not hang takes microseconds, but may have to wait its turn


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    # Others on this machine may use its memory up; Ray would kill our actors for it.
    os.environ["RAY_memory_monitor_refresh_ms"] = "0"  # noqa: SIM112
    from ray.cluster_utils import Cluster

    handler = signal.getsignal(signal.SIGTERM)  # which Ray takes over, and does not give back
    started = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False}
    )
    ray.init(address=started.address, logging_level="ERROR", log_to_driver=False)
    yield started
    ray.shutdown()
    started.shutdown()
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(scope="module")
def three(cluster: Any) -> Iterator[Ray]:  # noqa: ARG001
    with Ray(num_workers=3, start_timeout=LONG) as actors:
        yield actors


@pytest.fixture
def pool(three: Ray) -> Ray:
    three.retries = 0
    return three


def test_context_and_extras(pool: Ray) -> None:
    check_context_and_extras(pool)


def of_structure(p: Any) -> float:
    return float(np.square(p["w"]).sum() + np.square(p["deep"][0] - 1))


def test_parameters_in_a_structure(pool: Ray) -> None:
    x0 = {"w": np.ones((2, 3)), "deep": [0.5]}
    alone = gs.minimize(of_structure, x0, budget=60, seed=0)
    found = gs.minimize(of_structure, x0, budget=60, seed=0, workers=pool)
    assert found.x["w"].tobytes() == alone.x["w"].tobytes()
    assert found.x["deep"] == alone.x["deep"]


@pytest.mark.parametrize("method", gs.directions.METHODS)
def test_bit_identical_with_three(pool: Ray, method: str) -> None:
    for estimator, samples in product(
        [gs.OnePoint("others"), gs.ForwardDifference(), gs.Antithetic()],
        [None, "shared", "paired", "independent"],
    ):
        number = 1 if samples is None else 2
        search = search_of(method, estimator=estimator, samples=samples, num_samples=number)
        count = 12 if method == "guided-es" else 2
        expected = run(Serial(), search, wavy, count)
        found = run(pool, search, wavy, count)
        assert found.x.tobytes() == expected.x.tobytes(), (estimator, samples)
        assert not found.faults


def test_bit_identical_with_one(cluster: Any) -> None:
    searches = [search_of(method) for method in gs.directions.METHODS]
    with Ray(cluster.address, num_workers=1) as one:
        for search in searches:
            expected = run(Serial(), search, wavy)
            assert run(one, search, wavy).x.tobytes() == expected.x.tobytes()


def test_vectorized_and_any_order(pool: Ray) -> None:
    search = search_of(num_directions=20)
    expected = run(Serial(), search, wavy_block, vectorized=3)
    assert run(pool, search, wavy_block, vectorized=3).x.tobytes() == expected.x.tobytes()
    found = run(pool, search, spread_sleep)
    assert found.x.tobytes() == run(Serial(), search, wavy).x.tobytes()


def point(search: gs.RandomSearch, step: int, index: int) -> Any:
    state = search.init(np.linspace(-1, 1, DIM), seed=11)
    with Serial().session(search, Objective(wavy)) as session:
        state = steps(session, search, step).state if step else state
    return search.ask(state).point(index)


@pytest.mark.extended("faults on a Ray cluster")
@pytest.mark.parametrize("how", ["exception", "non-finite", "timeout", "died"])
def test_faults(how: str, cluster: Any, tmp_path: Path) -> None:  # noqa: ARG001
    """Raise, drop and retry, and the actors go on afterwards."""
    timeout = TIMEOUT if how == "timeout" else None
    search = search_of("gs", estimator=gs.Antithetic())
    dropping = search_of("gs", estimator=gs.Antithetic(), on_failure="drop")
    bad = point(search, 1, 3)
    with Ray(num_workers=2, timeout=timeout) as actors:
        expected_error = ValueError if how == "non-finite" else EvaluationError
        with pytest.raises(expected_error, match=r"evaluation 3 of 8 in step 1 \(−direction 1\)"):
            run(actors, search, Fails(how, bad))
        dropped = run(actors, dropping, Fails(how, bad), 2)
        assert dropped.dropped == 1
        # Ray cannot tell which of several evaluations took an actor down: it is asked again.
        assert dropped.faults in ({how: 1}, {"died": 2})
        actors.retries = 2
        found = run(actors, search, Fails(how, bad, tmp_path / "failed"))
        assert found.faults == {how: 1}
        assert found.x.tobytes() == run(Serial(), search, wavy).x.tobytes()


@pytest.mark.extended("faults on a Ray cluster")
def test_the_evaluation_that_ends_its_actor_is_found_among_short_ones(cluster: Any) -> None:  # noqa: ARG001
    """Actors have work ahead: an answer may be lost with the actor that ends in the next one."""
    search = search_of("gs", estimator=gs.Antithetic(), on_failure="drop", num_directions=20)
    bad = point(search, 1, 13)
    expected = run(Serial(), search, Fails("exception", bad), 2)
    with Ray(num_workers=2) as actors:
        found = run(actors, search, Fails("died", bad), 2)
    assert found.dropped == expected.dropped == 1
    assert found.faults in ({"died": 1}, {"died": 2})
    assert found.x.tobytes() == expected.x.tobytes()


def test_traceback_of_an_actor(pool: Ray) -> None:
    search = search_of()
    with pytest.raises(EvaluationError, match="ZeroDivisionError") as e:
        run(pool, search, Fails("exception", point(search, 0, 2)))
    assert "return 1 / 0" in e.value.traceback


def test_objective_that_does_not_arrive(pool: Ray) -> None:
    with pytest.raises(WorkerError, match="this does not travel well"):
        run(pool, search_of(), NeverArrives())
    run(pool, search_of(), wavy)


def test_actors_that_find_no_room(cluster: Any) -> None:  # noqa: ARG001
    greedy = Ray(num_workers=1, actor_options={"num_cpus": 100}, start_timeout=1)
    with pytest.raises(WorkerError, match=r"No worker started within 1 s\. The cluster has"):
        run(greedy, search_of(), wavy)


def slow(x: Any) -> float:
    time.sleep(0.01)
    return wavy(x)


def test_an_actor_is_killed(pool: Ray, tmp_path: Path) -> None:
    """Guided ES, so that the new actor must be sent the whole history."""
    pids = tmp_path / "pids"
    pids.mkdir()

    def tell_pid(x: Any) -> float:
        (pids / str(os.getpid())).touch()
        return slow(x)

    search = search_of("guided-es")
    pool.retries = 3
    with pool.session(search, Objective(tell_pid)) as session:
        early = steps(session, search, 12)
        victim = int(min(os.listdir(pids)))
        killer = threading.Timer(0.02, os.kill, (victim, signal.SIGKILL))
        killer.start()
        late, faults = early, early.faults
        while not faults:  # until it is killed, and missed
            late = steps(session, search, 1, state=late.state)
            faults += late.faults
        killer.join()
        late = steps(session, search, 4, state=late.state)
    assert late.x.tobytes() == run(Serial(), search, wavy, late.state.step).x.tobytes()
    assert faults + late.faults == {"died": 1}


@pytest.mark.extended("faults on a Ray cluster")
def test_a_node_is_lost(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each actor that is lost counts once; Ray may start the next on a node it still trusts."""
    started: list[tuple[RayPool, Any]] = []
    send = RayPool._send_payload

    def counted(pool: RayPool, worker: Any) -> None:
        started.append((pool, worker))
        send(pool, worker)

    monkeypatch.setattr(RayPool, "_send_payload", counted)
    nodes = [cluster.add_node(num_cpus=1, resources={"far": 1}) for _ in range(2)]
    cluster.wait_for_nodes()
    search = search_of("guided-es", num_directions=10)
    options = {"num_cpus": 0, "resources": {"far": 1}}  # so that each node has one
    with (
        Ray(num_workers=2, retries=3, actor_options=options) as actors,
        actors.session(search, Objective(slow)) as session,
    ):
        early = steps(session, search, 12)
        while session.workers < 2:
            early = steps(session, search, 1, state=early.state)
        killer = threading.Timer(0.03, cluster.remove_node, nodes[:1], {"allow_graceful": False})
        killer.start()
        late = steps(session, search, 1, state=early.state)
        faults = early.faults + late.faults
        while session.workers == 2:
            late = steps(session, search, 1, state=late.state)
            faults += late.faults
        killer.join()
        lost = len({id(worker) for _, worker in started}) - len(started[0][0].workers)
        assert lost > 0
        assert faults == {"died": lost}
        late = steps(session, search, 2, state=late.state)
        assert session.workers == 1
    cluster.remove_node(nodes[1])
    expected = run(Serial(), search, wavy, late.state.step)
    assert late.x.tobytes() == expected.x.tobytes()


@pytest.mark.extended("faults on a Ray cluster")
@pytest.mark.parametrize("method", ["guided-es", "bes"])
def test_a_frozen_actor_is_replaced_and_does_not_stay(
    method: str,
    cluster: Any,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    """It does not take a step in; nor would it end when Ray asks it to."""

    def tell_pid(x: Any) -> float:
        (tmp_path / str(os.getpid())).touch()
        return slow(x)

    search = search_of(method)
    expected = run(Serial(), search, wavy, 16)
    options = {"num_cpus": 0.25}  # other tests keep actors of theirs
    actors = Ray(num_workers=2, timeout=10, actor_options=options)
    with actors, actors.session(search, Objective(tell_pid)) as session:
        early = steps(session, search, 12)
        while len(os.listdir(tmp_path)) < 2:
            session.evaluate(early.state, search.ask(early.state))
        frozen, other = map(int, os.listdir(tmp_path))
        began = time.monotonic()
        os.kill(frozen, signal.SIGSTOP)
        late = steps(session, search, 4, state=early.state)
        # Of the order of the time-out, and far from `start_timeout`, which is 120 s.
        assert time.monotonic() - began < 80
        os.kill(other, signal.SIGSTOP)  # and this one has nothing to do when the run ends
    assert late.x.tobytes() == expected.x.tobytes()
    assert late.faults == {"died": 1}
    assert wait_until(lambda: not alive(frozen))
    assert wait_until(lambda: not alive(other))


@pytest.mark.extended("faults on a Ray cluster")
def test_a_frozen_actor_is_ended_also_where_the_clock_leaps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine a process may sleep through the time in which it had meant to look."""
    from gensmooth.evaluators import ray as module

    actor = subprocess.Popen(["sleep", "1000"])
    try:
        os.kill(actor.pid, signal.SIGSTOP)
        frozen = module.ProcessIdentity.of(actor.pid)
        closed: list[int] = []
        pool = module.RayPool.__new__(module.RayPool)
        pool.__dict__ |= {
            "workers": [],
            "_ending": [(0.0, frozen)],
            "_ended_elsewhere": [],
            "_connection": SimpleNamespace(close=lambda: closed.append(1)),
        }
        ticks = chain([0.0, 0.1, 0.2], count(50.0, 0.01))
        clock = SimpleNamespace(monotonic=lambda: next(ticks), sleep=time.sleep)
        monkeypatch.setattr(module, "time", clock)
        pool.close()
        assert closed == [1]
        assert not alive(actor.pid)
    finally:
        actor.kill()
        actor.wait()


LOCAL = """
import os, time
import numpy as np
import gensmooth as gs

def tell_pid(x):
    print(os.getpid(), file=open({told!r}, "a"))
    time.sleep(0.01)
    return float((x**2).sum())

actors = gs.evaluators.Ray("local", num_workers=2, timeout=60)
gs.minimize(tell_pid, np.ones(9), method="bes", max_steps=10**6, workers=actors, seed=0)
"""
AGENTS = (b"DashboardAgent", b"RuntimeEnvAgent", b"dashboard/agent.py", b"agent/main.py")


def in_session(session: int) -> dict[int, bytes]:
    """The processes of a session, with their commands."""
    found: dict[int, bytes] = {}
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            if fields[0] not in "ZX" and int(fields[3]) == session:
                found[int(entry.name)] = (entry / "cmdline").read_bytes()
        except (OSError, IndexError, ValueError):
            continue
    return found


@pytest.mark.usefixtures("fresh_interpreters")
@pytest.mark.extended("faults on a Ray cluster")
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_killed_run_takes_its_ray_with_it_and_its_frozen_actor(tmp_path: Path) -> None:
    """But for two agents of Ray's own, which wait a minute for the server that was killed."""
    told = tmp_path / "pids"
    with subprocess.Popen(
        [sys.executable, "-c", LOCAL.format(told=str(told))],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    ) as driver:
        try:
            assert wait_until(lambda: told.exists() and len(set(told.read_text().split())) == 2)
            frozen = int(told.read_text().split()[0])
            assert frozen in in_session(driver.pid)
            os.kill(frozen, signal.SIGSTOP)
        finally:
            driver.kill()

    def others() -> dict[int, bytes]:
        left = in_session(driver.pid).items()
        return {pid: words for pid, words in left if not any(word in words for word in AGENTS)}

    try:
        assert wait_until(lambda: not others()), others()
    finally:
        for pid in in_session(driver.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_fork_in_an_actor(pool: Ray) -> None:
    search = search_of("guided-es", num_directions=10)

    def forks(x: Any) -> float:
        if child := os.fork():
            os.waitpid(child, 0)
            return wavy(x)
        raise ValueError("in the child")

    found = run(pool, search, forks, 3)
    assert not found.faults
    assert found.x.tobytes() == run(Serial(), search, wavy, 3).x.tobytes()


def test_no_cluster_is_told_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance. " + "Do this. " * 50)

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(WorkerError, match="Could not connect to Ray at 'auto'") as e:
        gs.minimize(wavy, np.zeros(3), workers=Ray("auto"), budget=10)
    assert "Do this" not in str(e.value)
    assert "`ray start --head`" in str(e.value)
    with pytest.raises(WorkerError, match=r"Could not connect to Ray at '127\.0\.0\.1:1'"):
        Ray("127.0.0.1:1").__enter__()


def test_a_ray_that_starts_late_is_told_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine; what Ray raises then is of no class of its own."""

    def init(**_: Any) -> None:
        raise Exception("The current node timed out during startup. This could happen because")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    words = r"Could not start Ray on this machine \(Exception: The current node timed out .*\)"
    with pytest.raises(WorkerError, match=words):
        Ray("local").__enter__()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal is Linux's")
def test_an_actor_is_ended_with_its_raylet_by_the_kernel(pool: Ray) -> None:
    def signal_at_the_parents_death(x: Any) -> float:  # noqa: ARG001
        import ctypes

        number = ctypes.c_int()
        ctypes.CDLL(None).prctl(2, ctypes.byref(number), 0, 0, 0)  # PR_GET_PDEATHSIG
        return float(number.value)

    with pool.session(search_of(), Objective(signal_at_the_parents_death)) as session:
        state = search_of().init(np.zeros(DIM), seed=0)
        values = session.evaluate(state, search_of().ask(state)).values
    assert set(values) == {float(signal.SIGKILL)}


@pytest.mark.extended("documentation, examples and packaging")
def test_the_example_of_the_docs(tmp_path: Path) -> None:
    """A local Ray is started for it, and stopped afterwards."""
    from test_evaluators_docs import BLOCKS

    script = next(code for name, code in BLOCKS if not name)
    script += next(code for name, code in BLOCKS if name == "ray")
    script += "import ray\nprint(res.nfev > 190, ray.is_initialized())"
    (tmp_path / "example.py").write_text(script)
    environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    found = subprocess.run(
        [sys.executable, "example.py"],
        capture_output=True,
        text=True,
        timeout=LONG,
        env=environment,
        cwd=tmp_path,
    )
    assert found.stdout.splitlines()[-1:] == ["True False"], found.stderr
