"""Kill runs at random instants, resume them, and compare every bit with the undisturbed run.

python -m benchmarks.soak [--points 1000] [--seed 0] [--ray] [--out FILE.json]

A *point* is one blow: the run is killed (SIGKILL) or ended (SIGTERM), one of its workers is killed
or frozen (SIGSTOP, and never woken), the disk is full for a while, or the clock jumps by days. The
full disk is a small file system, for which the user must be allowed to mount one. ``--blows``
selects some of them. After the blows the run is resumed until it has ended.
Its result and its files must then equal those of the undisturbed run, and nothing may be left: no
process, no open file, no temporary file, no shared memory. The exit code is 1 if anything differs
or is left. Ctrl-C stops, and reports the results so far. With ``--out``, trials are stored beside
that file (``FILE.jsonl``) until all are complete, and the same command continues. ``--part 1``,
``--part 2``, … run other trials, of ``--points`` points each, and may run at the same time; the
command without ``--part`` adds their trials to its own. ``--again`` repeats the trials with a
problem, once it is fixed; the result also lists the earlier problem.

Ray's agents, two processes, outlive a program that started Ray and was killed: they try for a
minute to report to the dead server. They are given time to end, but must end.

Runs are forks of this process, which has loaded everything, and so are their worker processes
(tests/helpers/warm_python.py). Those of Ray and of PyTorch are started as everywhere.
"""

import argparse
import contextlib
import csv
import ctypes
import gc
import hashlib
import importlib
import importlib.util
import itertools
import json
import multiprocessing.util
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from importlib.util import find_spec
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import gensmooth as gs
from benchmarks.record import commit, machine
from gensmooth.lab import reproduce
from gensmooth.lab.experiments.registry import find_study
from gensmooth.lab.experiments.study import run_study

MARK = "GENSMOOTH_SOAK"  # an environment variable that identifies all processes of a run
# Seconds that an evaluation may take: what a frozen worker costs. The first episode in a new worker
# includes loading the simulator.
TIMEOUT = {"minimize": 1.5, "train": 10.0}
PATIENT = "GENSMOOTH_SOAK_PATIENT"  # an environment variable that lifts this limit
PATIENCE = 600.0  # seconds after which a run counts as hung
GOING = 20.0  # seconds within which processes must end after their parent was killed
AGENTS_GOING = 120.0  # the same for Ray's agents, which wait for 60 seconds first
AGENTS = (b"ray::DashboardAgent", b"ray::RuntimeEnvAgent", b"dashboard/agent.py", b"agent/main.py")
MEETING = 15.0  # seconds after which a rank of torch ends if the other one does not answer
BLOWS = 3  # at most, to one run
LATE_STARTS = 5  # attempts to start Ray, which gives up after 30 s; a busy machine may take longer

LOADED = (
    *("gymnasium", "mujoco", "imageio.v3", "jinja2", "cloudpickle", "scipy.stats", "torch"),
    *("matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg"),
    *("gensmooth.evaluators.worker", "gensmooth.evaluators.processes", "gensmooth.runs.folder"),
    *("gensmooth.rl.front", "gensmooth.physics.robots", "gensmooth.physics.mujoco_calls"),
    *("gensmooth.lab.compare", "gensmooth.lab.report.page", "gensmooth.lab.paper.rl.run"),
    *("gensmooth.torch", "gensmooth.searches.algorithms", "torch.distributed", "torch._dynamo"),
)
_PARENT_DEATH_SIGNAL, _SUBREAPER = 1, 36  # PR_SET_PDEATHSIG, … of <linux/prctl.h>

KINDS = "minimize,train,study,compare,sweep,reproduce,torch"
KILLED = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM}
TO_WORKERS = ("worker killed", "worker frozen", "worker frozen, then SIGKILL")
FULL, JUMP = "full disk", "clock jump"
BLOW_NAMES = (*KILLED, *TO_WORKERS, FULL, JUMP)
DISK = "size=64m"  # of the file system that is filled
JUMPS = 30 * 86_400.0  # seconds, in both directions


class Case(NamedTuple):
    """A run that can be started and continued.

    Attributes:
        kind: The function that is called; see ``KINDS``.
        name: A description.
        means: ``serial``, ``processes`` or ``ray``.
        blows: The possible blows.
        run: Executes the run, or the rest of it, in a folder; returns its result as bytes. The
            second argument is whether to continue by ``resume`` instead of repeating the call.
    """

    kind: str
    name: str
    means: str
    blows: tuple[str, ...]
    run: Callable[[Path, bool], bytes]


class Trial(NamedTuple):
    """The outcome of one disturbed run.

    Attributes:
        case: The run.
        blows: The blows that it got.
        problems: The problems afterwards.
        seconds: Its duration.
        number: The trial's number, which determines the blows together with the seed.
    """

    case: Case
    blows: list[str]
    problems: list[str]
    seconds: float
    number: int = 0


class Left(NamedTuple):
    """A process that is still there when its run has ended."""

    pid: int
    started: str
    since: float

    def exists(self) -> bool:
        status = _status(self.pid)
        return status is not None and status.started == self.started


# --- the runs ------------------------------------------------------------------------------------


def loss(x, rng):
    time.sleep(0.001)
    return float(((x - 1) ** 2).sum()) + 0.1 * float(rng.standard_normal())


def exact_loss(x):
    time.sleep(0.001)
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x) ** 2).sum())


def _workers(means: str, kind: str) -> Any:
    limits: dict[str, Any] = {"timeout": TIMEOUT[kind], "retries": 100}
    if PATIENT in os.environ:
        limits = {}
    if means == "processes":
        return gs.evaluators.Processes(2, **limits)
    if means == "ray":
        return gs.evaluators.Ray("local", num_workers=2, **limits)
    return 1


def _metrics(folder: Path) -> bytes:
    """The contents of ``metrics.jsonl`` without the faults, which count lost workers."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return json.dumps([{**json.loads(line), "faults": None} for line in lines]).encode()


def _minimize(means: str, **settings: Any) -> Callable[[Path, bool], bytes]:
    settings = dict(settings)
    dim, fun = settings.pop("dim"), settings.pop("fun", loss)

    def run(folder: Path, resume: bool) -> bytes:
        workers = _workers(means, "minimize")
        if resume and (folder / "config.json").exists():
            result = gs.resume(folder, fun, workers=workers)
        else:
            x0 = np.zeros(dim)
            result = gs.minimize(fun, x0, folder=folder, workers=workers, **settings)
        numbers = np.array([result.fun, result.best_fun, result.nfev, result.nit])
        parts = [result.x.tobytes(), result.best_x.tobytes(), numbers.tobytes()]
        return b"".join([*parts, _metrics(folder)])

    return run


def _train(means: str, **settings: Any) -> Callable[[Path, bool], bytes]:
    def run(folder: Path, resume: bool) -> bytes:
        workers = _workers(means, "train")
        if resume and (folder / "config.json").exists():
            result = gs.rl.resume(folder, workers=workers, threads=1)
        else:
            result = gs.rl.train(folder=folder, workers=workers, threads=1, **settings)
        arrays = [result.state.search.x, result.state.statistics.m2, result.best.parameters]
        files = [(folder / name).read_bytes() for name in ("policy-best", "policy-last")]
        return b"".join([*(a.tobytes() for a in arrays), *files, _metrics(folder)])

    return run


def _study(means: str, name: str) -> Callable[[Path, bool], bytes]:
    chosen = {"hyperparameters": "paper", "methods": ("gs", "bes")}
    options = find_study(name).options(profile="quick", seeds=1, **chosen)

    def run(folder: Path, _: bool) -> bytes:
        workers: dict[str, Any] = {"workers": 1 if means == "serial" else 2}
        if means == "ray":
            workers["ray"] = "local"
        outcome = run_study(name, options, folder, say=lambda _: None, **workers)
        assert outcome is not None
        records = [record._replace(seconds=0.0) for record in outcome.records]
        return json.dumps(records, sort_keys=True).encode()

    return run


def _long_run(folder: Path, _: bool) -> bytes:
    """One long run of the reinforcement-learning study, with a checkpoint after every iteration."""
    from gensmooth.lab.paper.rl import run as long_run
    from gensmooth.lab.paper.rl import settings

    long_run._EVERY = 0.0
    profile = settings.RlOptions(
        profile="paper", hyperparameters="paper", iterations=10, test_trials=2
    )
    setting = settings.Setting("HalfCheetahRandVel", 2, "main")
    config = settings.config_of(profile, setting, "guided-es")
    config = {**config, "spacing": 0.1, "learning_rate": 0.01, "seed": 1001}
    return json.dumps(long_run.execute(config, folder).series).encode()


TRIALS: dict[str, dict[str, Any]] = {
    "compare": {"methods": ["bes", "auto"], "seeds": 2, "budget": 60, "values": 5},
    "sweep": {"spacing": [0.1, 1.0], "seeds": 2, "fresh_seeds": 2, "budget": 60, "values": 5},
}


def _trials(kind: str, workers: int) -> Callable[[Path, bool], bytes]:
    def run(folder: Path, _: bool) -> bytes:
        call: Callable[..., Any] = getattr(gs, kind)
        call(exact_loss, np.full(4, 0.5), folder=folder, workers=workers, **TRIALS[kind])
        return _tables(folder)

    return run


def _tables(folder: Path) -> bytes:
    """The runs in the tables of a page, without times and places."""
    rows: list[Any] = []
    for path in sorted((folder / "tables").glob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                rows.append(
                    {name: v for name, v in row.items() if not re.search("second|[µm]s per", name)}
                )
    assert rows
    return json.dumps(rows, sort_keys=True).encode()


def _reproduce(workers: int) -> Callable[[Path, bool], bytes]:
    options = {"hyperparameters": "paper", "methods": ("gs", "bes"), "objectives": ("sphere",)}

    def run(folder: Path, _: bool) -> bytes:
        reproduce("dfo", folder=folder, workers=workers, seeds=1, **options)
        return _tables(folder)

    return run


def _torch(ranks: int) -> Callable[[Path, bool], bytes]:
    """An optimiser with a log; the second of two ranks is a fork of the first."""

    def run(folder: Path, _: bool) -> bytes:
        import torch

        torch.set_num_threads(1)
        folder.mkdir(exist_ok=True)
        rank, options = 0, dict[str, Any]()
        if ranks > 1:
            store = f"file://{folder.parents[1]}/result/ranks-{os.getpid()}"
            rank = 0 if os.fork() else 1
            if rank:  # it ends with the first one, as with torchrun
                ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            words = {"init_method": store, "rank": rank, "world_size": ranks}
            # By default, a rank waits half an hour for one that was killed before they met.
            patience = timedelta(seconds=MEETING)
            torch.distributed.init_process_group("gloo", timeout=patience, **words)
            options["ranks"] = "directions"
        code = 1
        try:
            weights = _zeroth_order(folder / "run.log", **options)
            code = 0
        except BaseException:
            if rank:
                traceback.print_exc()
            raise
        finally:
            if rank:
                os._exit(code)
        if ranks > 1:
            os.wait()
            torch.distributed.destroy_process_group()
        return weights

    return run


def _zeroth_order(path: Path, **options: Any) -> bytes:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))

    def closure() -> Any:
        time.sleep(0.001)
        return sum((w**2).sum() for w in model.parameters())

    with gs.torch.Log(path) as log:
        options |= {"lr": 1e-2, "num_directions": 4, "seed": 0}
        optimizer = gs.torch.ZerothOrder(model, log=log, **options)
        while optimizer.steps_done < 60:
            optimizer.step(closure)
    return b"".join(w.detach().numpy().tobytes() for w in model.parameters())


def cases(*, ray: bool = False) -> dict[Case, float]:
    """The runs, with weights for how often each is chosen."""
    serial, workers = (*KILLED, FULL, JUMP), (*KILLED, *TO_WORKERS)
    weights: dict[Case, float] = {}
    for dim, method, optimizer, samples, every in (
        (10, "bes", gs.sgd(0.05), "paired", 1),
        (40, "guided-es", gs.adam(0.1), "independent", 3),
        (1_000, "orthogonal", gs.momentum(1e-2), "paired", 2),
        (20_000, "gs-shrinkage", gs.adam(0.01), "independent", 1),  # x0 is in a file of its own
        (300_000, "bes-shrinkage", gs.momentum(1e-3), "paired", 1),
    ):
        settings: dict[str, Any] = {"dim": dim, "method": method, "optimizer": optimizer}
        settings |= {"samples": samples, "every": every, "num_directions": 3, "seed": 9}
        settings |= {"max_steps": 40 if dim < 100_000 else 12}
        name = f"{method}, d = {dim:,}"
        run = _minimize("serial", **settings)
        weights[Case("minimize", name, "serial", serial, run)] = 2.0
        if dim < 100_000:
            run = _minimize("processes", **settings)
            weights[Case("minimize", name, "processes", workers, run)] = 0.5
        if ray and dim in (40, 20_000):
            run = _minimize("ray", **settings)
            weights[Case("minimize", name, "ray", workers, run)] = 0.5
    # The default, which has no method: the pilot.
    for name, settings in (
        ("pilot, exact", {"fun": exact_loss, "dim": 6, "budget": 600}),  # quasi-Newton, evolution
        ("pilot, noisy", {"dim": 8, "samples": "independent", "x_scale": 0.5, "max_steps": 40}),
        ("pilot, paired", {"dim": 30, "samples": "paired", "max_steps": 40}),  # descent
    ):
        settings |= {"seed": 9, "every": 1}
        for means, blows, weight in (("serial", serial, 2.0), ("processes", workers, 0.5)):
            run = _minimize(means, **settings)
            weights[Case("minimize", name, means, blows, run)] = weight
        if ray and name != "pilot, paired":
            run = _minimize("ray", **settings)
            weights[Case("minimize", name, "ray", workers, run)] = 0.5
    for environment, method, iterations in (
        ("Hopper-v5", "bes", 12),
        ("HalfCheetah-v5", "guided-es", 4),
        ("Hopper-v5", None, 10),
    ):
        settings = {"environment": environment, "method": method, "max_steps": iterations}
        settings |= {"test_every": 2, "test_episodes": 1, "every": 1, "seed": 3}
        settings |= {"num_directions": 2}
        name = f"{environment}, {method or 'pilot'}"
        run = _train("serial", **settings)
        weights[Case("train", name, "serial", serial, run)] = 1.0
        run = _train("processes", **settings)
        weights[Case("train", name, "processes", workers, run)] = 0.3
        if ray and method != "guided-es":
            run = _train("ray", **settings)
            weights[Case("train", name, "ray", workers, run)] = 0.3
    weights[Case("study", "rl, one run", "serial", serial, _long_run)] = 0.5
    for name in ("dfo", "linreg"):
        weights[Case("study", name, "serial", serial, _study("serial", name))] = 1.0
        # No frozen workers: a study has no time limit for its runs, so it would wait for ever.
        blows = (*KILLED, "worker killed")
        weights[Case("study", name, "processes", blows, _study("processes", name))] = 0.3
        if ray:
            weights[Case("study", name, "ray", blows, _study("ray", name))] = 0.3
    blows = (*KILLED, "worker killed")
    for means, workers, weight in (("serial", 1, 2.0), ("processes", 2, 0.5)):
        allowed = serial if means == "serial" else blows
        for kind in TRIALS:
            run = _trials(kind, workers)
            weights[Case(kind, "BeS and others", means, allowed, run)] = weight
        weights[Case("reproduce", "dfo", means, allowed, _reproduce(workers))] = weight
        if find_spec("torch") is not None:
            name = "ZerothOrder"
            weights[Case("torch", name, means, allowed, _torch(workers))] = weight
    return weights


# --- one run -------------------------------------------------------------------------------------


class Fork:
    """A run in a process of its own, with its own folder for temporary files."""

    def __init__(self, case: Case, where: Path, *, resume: bool) -> None:
        self.case, self.where = case, where
        self.status: int | None = None
        self.was_full = False  # whether it ended on a full disk
        for name in ("tmp", "result", "disk"):
            (where / name).mkdir(exist_ok=True)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            with contextlib.suppress(BaseException):
                code = _inside(case, where, resume)
            os._exit(code)
        self._ended = os.pidfd_open(self.pid)

    def wait(self, seconds: float) -> bool:
        """Whether it ends within this many seconds."""
        if self.status is None:
            if not select.select([self._ended], [], [], seconds)[0]:
                return False
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            os.close(self._ended)
        return True

    def workers(self) -> list[int]:
        """The processes that it has started, or that Ray has started for it."""
        all_of_it = _started(self.where, [self.pid])
        started = {pid: (parent, _command(pid)) for pid, parent in all_of_it}
        if self.case.means == "ray":
            # Idle ones belong to no run, and without its agents Ray itself ends.
            ray = [pid for pid, (_, words) in started.items() if words.startswith(b"ray::")]
            others = (b"IDLE", b"Agent")
            return [pid for pid in ray if not any(word in started[pid][1] for word in others)]
        ours = [pid for pid, (parent, _) in started.items() if parent == self.pid]
        if _forks_workers(self.case):
            file = self.where / "result" / "starter"
            run, starter = map(int, file.read_text().split()) if file.exists() else (0, 0)
            if run != self.pid:
                return []  # it has no worker yet: what forks them comes first
            ours = [pid for pid in ours if pid != starter]
        return [pid for pid in ours if b"resource_tracker" not in started[pid][1]]

    def log(self) -> str:
        lines = (self.where / "log").read_text(errors="replace").strip().splitlines()
        words = " / ".join(lines[-3:])[-600:]
        return re.sub(r'"/[^"]*/(site-packages|gensmooth)/', r'"\1/', words)  # same on all machines


def _inside(case: Case, where: Path, resume: bool) -> int:
    os.setsid()  # only the parent gets Ctrl-C
    os.environ |= {MARK: str(where), "TMPDIR": str(where / "tmp")}
    os.environ["RAY_TMPDIR"] = "/tmp"  # paths of sockets must be short; Ray's logs are not removed
    tempfile.tempdir = None
    log = os.open(where / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(log, number)
    os.close(log)
    if case.kind not in ("minimize", "train") and case.means == "processes":
        resource_tracker.ensure_running()  # start it before counting files: its pipe stays open
    if _forks_workers(case):
        _start_by_forking(where)
    signal.signal(signal.SIGUSR1, _jump)
    try:
        before = _handles()
        result = case.run(where / "disk" / "run", resume)
        after = _handles()
    except BaseException as error:
        traceback.print_exc()
        sys.stderr.flush()
        ended = isinstance(error, SystemExit) and isinstance(error.code, int)
        return error.code if ended else 1
    report = {"digest": hashlib.sha256(result).hexdigest(), "handles": after - before}
    (where / "result" / "report").write_text(json.dumps(report))
    return 0


def _jump(*_: object) -> None:
    """Set the clock of this process wrong."""
    shift, right = random.Random(os.getpid()).uniform(-JUMPS, JUMPS), _CLOCKS
    time.time = lambda: right[0]() + shift
    time.time_ns = lambda: right[1]() + int(shift * 1e9)


_CLOCKS = time.time, time.time_ns


def _forks_workers(case: Case) -> bool:
    return case.means == "processes" and case.kind != "torch"  # whose second rank is a fork anyway


def _start_by_forking(where: Path) -> None:
    """Have the workers of this run start as forks of a process that has loaded what they need.

    They are children of the run all the same, in groups and with signals of their own, and stay in
    its session. The process that forks ends with the run, and is no worker.
    """
    warm = _warm_python()
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        weakref.finalize._registry.clear()  # type: ignore[attr-defined]  # our folder is not theirs
        options, _ = warm._serve(theirs)  # returns in a worker
        warm._end(warm._run(warm._become(options)))
    theirs.close()
    aside = where / "result" / "starter.new"  # a run that is killed meanwhile leaves no half of it
    aside.write_text(f"{os.getpid()} {pid}")
    aside.replace(where / "result" / "starter")
    warm.install(ours, os.environ)
    ordinary = multiprocessing.util.spawnv_passfds

    def spawn(path: Any, words: Sequence[str], fds: Sequence[int]) -> int:
        if "--multiprocessing-fork" not in words:
            return ordinary(path, words, fds)
        told: dict[str, Any] = dict.fromkeys(("p2cread", "c2pwrite", "errwrite"), -1)
        plain = [sys.executable, *map(os.fsdecode, words[words.index("-c") :])]  # without flags
        told |= {"args": plain, "pass_fds": fds, "env": None, "cwd": None}
        return warm.installed.start(told | {"start_new_session": False, "process_group": None})

    multiprocessing.util.spawnv_passfds = spawn


def _warm_python() -> Any:
    path = Path(__file__).parents[1] / "tests" / "helpers" / "warm_python.py"
    spec = importlib.util.spec_from_file_location("warm_python", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _handles() -> int:
    """The number of open files, without fonts, which Matplotlib keeps open."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            count += not os.readlink(f"/proc/self/fd/{name}").endswith(".ttf")
    return count


class Status(NamedTuple):
    """A process according to ``/proc``; a later one with the same id has another ``started``."""

    parent: int
    session: int
    started: str


def _status(pid: int) -> Status | None:
    """The status of a process; ``None`` if it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else Status(int(fields[1]), int(fields[3]), fields[19])


def _started(where: Path | None, sessions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The processes that a run has started (or any of our runs), and their parents.

    They are recognised by their session or by ``MARK``. Each fork of ours begins a session, but its
    children may leave that. They inherit the mark, but Ray's processes overwrite it by their title.
    """
    words = f"{MARK}={where or ''}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        status = _status(int(entry.name))
        if status is None:
            continue
        environment = b""
        with contextlib.suppress(OSError):
            environment = (entry / "environ").read_bytes()
        marked = any(word.startswith(words) for word in environment.split(b"\0"))
        if marked or status.session in sessions:
            yield int(entry.name), status.parent


def _adopt() -> None:
    """Have orphans of our runs become ours, wherever they hide."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _orphans() -> set[int]:
    """Processes that became ours when what had started them ended; the ended ones are reaped."""
    found = set[int]()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) != os.getpid():
            continue
        if fields[0] in "ZX":
            with contextlib.suppress(ChildProcessError):
                os.waitpid(int(entry.name), os.WNOHANG)
        else:
            found.add(int(entry.name))
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def undisturbed(case: Case, where: Path) -> tuple[str, float]:
    """The digest of the result of an undisturbed run, and its duration."""
    where.mkdir()
    started = time.monotonic()
    fork = Fork(case, where, resume=False)
    if not fork.wait(5 * PATIENCE) or fork.status != 0:
        raise RuntimeError(f"{case.kind} {case.name} fails by itself: {fork.log()}")
    seconds = time.monotonic() - started
    report = json.loads((where / "result" / "report").read_text())
    shutil.rmtree(where)
    return report["digest"], seconds


def trial(
    case: Case, where: Path, expected: tuple[str, float], rng: random.Random, most: int
) -> tuple[Trial, list[Left]]:
    """Disturb one run at most ``most`` times, resume it until it has ended, and check it.

    Returns:
        The outcome, and those of Ray's agents that have not ended yet.
    """
    where.mkdir()
    if FULL in case.blows:
        _mount(where / "disk")
    try:
        made, agents = _disturb(case, where, expected, rng, most)
    finally:
        _unmount(where / "disk")
    if not made.problems:
        shutil.rmtree(where)
    return made, agents


def _disturb(
    case: Case, where: Path, expected: tuple[str, float], rng: random.Random, most: int
) -> tuple[Trial, list[Left]]:
    began = time.monotonic()
    digest, seconds = expected
    blows: list[str] = []
    problems: list[str] = []
    wanted = rng.randint(1, min(BLOWS, most))
    memory, orphans = _shared_memory(), _orphans()
    sessions: list[int] = []
    late_starts = 0
    while True:
        fork = Fork(case, where, resume=bool(blows) and rng.random() < 0.5)
        sessions.append(fork.pid)
        blow = rng.choice(case.blows) if len(blows) < wanted else None
        if blow is not None and _strike(fork, blow, rng.uniform(0, seconds)):
            blows.append(blow)
        if not fork.wait(PATIENCE):
            problems.append(f"hung after {_listed(blows)}: {fork.log()}")
            os.kill(fork.pid, signal.SIGKILL)
            fork.wait(PATIENCE)
            break
        if fork.status == 0 and not fork.was_full:
            break
        if fork.was_full and (fork.status == 0 or _is_meant(case, FULL, fork)):
            continue  # it ended on the full disk; now there is space again
        if fork.status == 1 and "Could not start Ray on this machine" in fork.log():
            late_starts += 1
            if late_starts <= LATE_STARTS:
                continue
        if not (blows and _is_meant(case, blows[-1], fork)):
            problems.append(f"ended with {fork.status} after {_listed(blows)}: {fork.log()}")
            break
        if blow is None:  # it failed without another blow
            problems.append(f"ended with {fork.status} when it was resumed: {fork.log()}")
            break
    if not problems:
        report = json.loads((where / "result" / "report").read_text())
        if report["digest"] != digest:
            problems.append(f"DIFFERS after {_listed(blows)}")
        keeps = case.means == "ray" or (case.kind, case.means) == ("torch", "processes")
        if report["handles"] > 0 and not keeps:  # Ray and Gloo keep some files open
            problems.append(f"left {report['handles']} open files")
    leftovers, agents = _left(where, memory, sessions, orphans)
    problems += leftovers
    return Trial(case, blows, problems, time.monotonic() - began), agents


def _strike(fork: Fork, blow: str, delay: float) -> bool:
    """Give a run a blow after a delay; returns whether the run had not ended before."""
    if blow in KILLED or blow in (FULL, JUMP):
        if fork.wait(delay):
            return False
        if blow == FULL:
            with _filled(fork.where / "disk"):
                fork.was_full = fork.wait(delay)
        else:
            os.kill(fork.pid, KILLED.get(blow, signal.SIGUSR1))
        return True
    while not (workers := fork.workers()):
        if fork.wait(0.01):
            return False
    if fork.wait(delay):
        return False
    victim = random.Random(delay).choice(fork.workers() or workers)
    frozen = "frozen" in blow
    try:
        os.kill(victim, signal.SIGSTOP if frozen else signal.SIGKILL)
    except ProcessLookupError:
        return False
    if blow.endswith("SIGKILL") and not fork.wait(delay / 2):
        os.kill(fork.pid, signal.SIGKILL)
    return True


def _mount(disk: Path) -> bool:
    """Mount a small file system, if this user may."""
    disk.mkdir(exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", DISK, "tmpfs", str(disk)]
    return bool(shutil.which("mount")) and not subprocess.run(words, capture_output=True).returncode


def _unmount(disk: Path) -> None:
    if disk.is_mount():
        subprocess.run(["umount", "-l", str(disk)], check=True)


@contextlib.contextmanager
def _filled(disk: Path) -> Iterator[None]:
    """Leave no space on a disk."""
    filler = disk / "filler"
    with filler.open("wb") as file, contextlib.suppress(OSError):
        size = 0
        while free := os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize:
            os.posix_fallocate(file.fileno(), size, free)
            size += free
    try:
        yield
    finally:
        filler.unlink()


def _is_meant(case: Case, blow: str, fork: Fork) -> bool:
    """Whether a run ended as it should after a blow."""
    if blow.endswith("SIGKILL"):
        return fork.status == -signal.SIGKILL
    if blow == "SIGTERM":
        # While Ray starts, its handler turns the signal into an exit code.
        return fork.status in (-signal.SIGTERM, *[signal.SIGTERM] * (case.means == "ray"))
    if blow == FULL:
        return "No space left on device" in (fork.where / "log").read_text(errors="replace")
    # The message of a study names the command that continues; that of a rank, what it waited for.
    if case.kind == "torch":
        return "rank" in fork.log() or "imeout" in fork.log()
    return case.kind not in ("minimize", "train") and "run the same command again" in fork.log()


def _left(
    where: Path, memory: set[str], sessions: Sequence[int], orphans: set[int]
) -> tuple[list[str], list[Left]]:
    """What a run has left behind, and those of Ray's agents that have not ended yet.

    Args:
        where: Its folder.
        memory: Shared memory that was there before.
        sessions: Its sessions.
        orphans: Processes that were ours before, left by other runs.
    """
    end = time.monotonic() + GOING
    while True:
        left = sorted({pid for pid, _ in _started(where, sessions)} | (_orphans() - orphans))
        agents = [pid for pid in left if any(word in _command(pid) for word in AGENTS)]
        others = [pid for pid in left if pid not in agents]
        if not others or time.monotonic() > end:
            break
        time.sleep(0.02)
    problems: list[str] = []
    if others:
        names = [_command(pid).replace(b"\0", b" ").decode(errors="replace") for pid in others]
        words = _listed([name.strip()[:60] for name in names[:5]])
        problems.append(f"left {len(others)} processes: {words}")
        _kill(others)
    late: list[Left] = []
    for pid in agents:
        if (status := _status(pid)) is not None:
            late.append(Left(pid, status.started, time.monotonic()))
    temporary = [path.name for path in (where / "tmp").iterdir()]
    temporary = [name for name in temporary if not name.startswith("torchinductor")]  # a cache
    aside = [path.name for path in (where / "disk").rglob(".*") if path.name != ".lock"]
    if temporary or aside:
        problems.append(f"left files: {_listed([*temporary, *aside][:5])}")
    if named := _shared_memory() - memory:
        problems.append(f"left shared memory: {_listed(sorted(named)[:5])}")
    return problems, late


def _still_there(late: dict[Left, Trial], seconds: float) -> dict[Left, Trial]:
    """The agents that have not ended; one older than ``seconds`` becomes a problem of its trial."""
    waiting: dict[Left, Trial] = {}
    for left, owner in late.items():
        if not left.exists():
            continue
        if time.monotonic() - left.since < seconds:
            waiting[left] = owner
        else:
            owner.problems.append(f"left an agent of Ray's for {seconds:g} s")
            _kill([left.pid])
    return waiting


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _shared_memory() -> set[str]:
    """The names of shared memory that Python programs or ours created."""
    folder = Path("/dev/shm")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
    return {name for name in names if name.startswith(("psm_", "gensmooth", "pym-"))}


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) or "nothing"


# --- many runs -----------------------------------------------------------------------------------


def soak(
    points: int,
    seed: int,
    chosen: dict[Case, float],
    *,
    done: Sequence[Trial] = (),
    again: Sequence[int] = (),
    first: int = 0,
    say: Callable[[str], None] = print,
    keep: Callable[[Trial], None] = lambda _: None,
) -> list[Trial]:
    """Run trials until there were this many points, or until Ctrl-C.

    Args:
        points: The number of blows, including those of ``done``.
        seed: Seed of the choices of runs, blows and times.
        chosen: The runs, and how often each is chosen.
        done: Earlier trials.
        again: Numbers of trials to repeat in any case.
        first: The number of the next trial.
        say: Called with a line for each trial.
        keep: Called with each trial when it is complete, that is when Ray's agents have ended.
    """
    trials = list(done)
    expected: dict[tuple[str, str], tuple[str, float]] = {}
    serial = {(case.kind, case.name): case for case in chosen if case.means == "serial"}
    warm: set[Case] = set()
    late: dict[Left, Trial] = {}
    unkept: list[Trial] = []
    count = sum(len(t.blows) for t in trials)
    waiting, numbers = list(again), itertools.count(first)

    def look() -> None:
        nonlocal late
        late = _still_there(late, AGENTS_GOING)
        owners = [id(owner) for owner in late.values()]
        for complete in [t for t in unkept if id(t) not in owners]:
            unkept.remove(complete)
            keep(complete)

    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as folder:
        try:
            while waiting or count < points:
                most = BLOWS if waiting else points - count
                number = waiting.pop(0) if waiting else next(numbers)
                rng = random.Random(f"{seed}/{number}")
                case = rng.choices(list(chosen), list(chosen.values()))[0]
                what = case.kind, case.name
                if what not in expected:
                    expected[what] = undisturbed(serial[what], Path(folder) / "whole")
                if case.kind == "train" and case.means != "serial" and case not in warm:
                    # The first run of workers on a machine compiles, so it has no time limit.
                    os.environ[PATIENT] = "1"
                    digest, _ = undisturbed(case, Path(folder) / "whole")
                    del os.environ[PATIENT]
                    if digest != expected[what][0]:
                        trials.append(Trial(case, [], ["DIFFERS undisturbed"], 0.0, number))
                        unkept.append(trials[-1])
                    warm.add(case)
                where = Path(folder) / f"trial-{number}"
                last, agents = trial(case, where, expected[what], rng, most)
                last = last._replace(number=number)
                trials.append(last)
                unkept.append(last)
                late |= dict.fromkeys(agents, last)
                count += len(last.blows)
                if not last.blows:  # it was over before: sooner, the next time
                    digest, seconds = expected[what]
                    expected[what] = digest, min(0.9 * seconds, last.seconds)
                words = f"{case.kind} {case.name} ({case.means}): {_listed(last.blows)}"
                end = "; ".join(last.problems) or "the same bits"
                say(f"[{count}/{points}] {words}: {end} ({last.seconds:.1f} s)")
                look()
            if late:
                say(f"Waiting for {len(late)} of Ray's agents to go.")
            while late:
                time.sleep(0.1)
                look()
        except KeyboardInterrupt:
            say(f"Interrupted: {count} of {points} points were made.")
            _kill([pid for pid, _ in _started(Path(folder), [])])
            trials = [t for t in trials if not any(t is owner for owner in late.values())]
    return trials


# --- trials that are written down ----------------------------------------------------------------


PARTS = 10_000  # each part has this many numbers for its trials


class Journal:
    """Trials in a file, one on each line, so that an interrupted soak test can be continued.

    Args:
        path: The file.
        request: The options of the command, for the first line; another command's file is refused.
        chosen: The runs, and how often each is chosen.
        others: Files of parts of the same soak test, whose trials count too.
        first: The number of the first trial.
        again: Whether trials with a problem are repeated.
    """

    def __init__(
        self,
        path: Path,
        request: dict[str, Any],
        chosen: dict[Case, float],
        *,
        others: Sequence[Path] = (),
        first: int = 0,
        again: bool = False,
    ) -> None:
        self.paths = [path, *others]
        self.trials: list[Trial] = []
        self.commits: list[str] = []
        self.before: list[dict[str, Any]] = []  # earlier problems of trials that are repeated
        wanted: list[int] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(json.dumps(request) + "\n")
        by_name = {(case.kind, case.name, case.means): case for case in chosen}
        minutes: list[float] = []
        for part in self.paths:
            start, *lines = part.read_text().splitlines()
            if json.loads(start) != request:
                sys.exit(f"{part} is of another command, {start}: finish that, or remove the file.")
            stored = [json.loads(line) for line in lines]
            wrong = [line for line in stored if line["problems"]]
            if again and wrong:
                for line in wrong:
                    line["before"] = [line.pop("problems"), line.pop("blows")]
                part.write_text("".join(f"{json.dumps(line)}\n" for line in [request, *stored]))
            for line in stored:
                if "before" in line:
                    kind, name, means = line["case"]
                    what = f"{kind} {name} ({means}), trial {line['number']}"
                    was = {"what": what, "commit": line["commit"], "found": line["before"][0]}
                    self.before.append(was)
                    wanted.append(line["number"])
                    continue
                case = by_name[tuple(line["case"])]
                rest = (line["blows"], line["problems"], line["seconds"], line["number"])
                self.trials.append(Trial(case, *rest))
                self.commits.append(line["commit"])
            minutes.append(max((line["minutes"] for line in stored), default=0.0))
            used = [line["number"] for line in stored if line["number"] // PARTS == first // PARTS]
            if part is path and used:
                first = 1 + max(used)
        self._before, self._elsewhere = minutes[0], sum(minutes[1:])
        self._began, self._commit = time.monotonic(), commit()
        made = {t.number for t in self.trials}
        self.again = [number for number in dict.fromkeys(wanted) if number not in made]
        self.first = first

    @property
    def minutes(self) -> float:
        """The duration of all trials in minutes, including those of the parts."""
        return self._here + self._elsewhere

    @property
    def _here(self) -> float:
        return self._before + (time.monotonic() - self._began) / 60

    def keep(self, made: Trial) -> None:
        """Add a trial to the file."""
        self.commits.append(self._commit)
        line = {
            "number": made.number,
            "case": [made.case.kind, made.case.name, made.case.means],
            "blows": made.blows,
            "problems": made.problems,
            "seconds": round(made.seconds, 2),
            "commit": self._commit,
            "minutes": self._here,
        }
        with self.paths[0].open("a") as file:
            file.write(json.dumps(line) + "\n")


def _load() -> None:
    """Load what all runs need; use no simulator, for a process with its threads cannot fork."""
    _adopt()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # until a run has its handler
    gs.minimize(loss, np.zeros(3), samples="paired", max_steps=2, method="guided-es", seed=0)
    gs.minimize(loss, np.zeros(3), samples="independent", max_steps=2, seed=0)
    gs.minimize(exact_loss, np.zeros(3), budget=50, seed=0)
    for name in LOADED:
        if find_spec(name.partition(".")[0]) is not None:
            importlib.import_module(name)
    gc.freeze()  # a collection in a fork would copy all of our memory


def summary(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """The rows of the table: kind and means of the runs, numbers of blows, and of problems."""
    rows: list[dict[str, Any]] = []
    for kind, means in dict.fromkeys((t.case.kind, t.case.means) for t in trials):
        ours = [t for t in trials if (t.case.kind, t.case.means) == (kind, means)]
        blows = Counter(blow for t in ours for blow in t.blows)
        rows.append(
            {
                "what": kind,
                "means": means,
                "runs": len(ours),
                "points": sum(blows.values()),
                "blows": {name: blows[name] for name in BLOW_NAMES if blows[name]},
                "problems": sum(bool(t.problems) for t in ours),
            }
        )
    return sorted(rows, key=lambda row: (row["what"], row["means"]))


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--points", type=int, default=1000, help="number of blows")
    parser.add_argument("--seed", type=int, default=0, help="seed of runs, blows and times")
    parser.add_argument("--ray", action="store_true", help="also on Ray, started by each run")
    parser.add_argument("--kinds", default=KINDS, help="what to run")
    parser.add_argument("--blows", nargs="+", choices=BLOW_NAMES, default=list(BLOW_NAMES))
    parser.add_argument("--means", default="serial,processes,ray", help="how to run it")
    parser.add_argument("--part", type=int, default=0, help="number of a part, run beside others")
    parser.add_argument("--again", action="store_true", help="repeat trials with a problem")
    parser.add_argument("--out", type=Path, help="write the result to this JSON file")
    options = parser.parse_args()
    if not Path("/proc/self/fd").is_dir():
        sys.exit("This needs Linux: it searches /proc for leftover processes.")
    means, allowed = options.means.split(","), list(options.blows)
    with tempfile.TemporaryDirectory() as folder:
        if _mount(Path(folder) / "disk"):
            _unmount(Path(folder) / "disk")
        else:
            allowed = [name for name in allowed if name != FULL]
    chosen: dict[Case, float] = {}
    for case, weight in cases(ray=options.ray).items():
        blows = tuple(name for name in case.blows if name in allowed)
        if case.kind in options.kinds.split(","):
            # With weight 0, serial runs are for comparison only.
            chosen[case._replace(blows=blows)] = weight * (case.means in means and bool(blows))
    if not any(chosen.values()):
        sys.exit(f"No run is chosen by --kinds {options.kinds} --means {options.means}.")
    _load()
    with contextlib.ExitStack() as stack:
        if options.out is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            path = Path(folder) / "trials.jsonl"
        else:
            path = options.out.with_suffix(f".{options.part}.jsonl" if options.part else ".jsonl")
        names = ("seed", "ray", "kinds", "means", "blows")
        request = {name: getattr(options, name) for name in names}
        others = [] if options.part else sorted(path.parent.glob(f"{path.stem}.*.jsonl"))
        first = PARTS * options.part
        journal = Journal(path, request, chosen, others=others, first=first, again=options.again)
        trials = soak(
            options.points,
            options.seed,
            chosen,
            done=journal.trials,
            again=journal.again,
            first=journal.first,
            say=lambda line: print(line, flush=True),
            keep=journal.keep,
        )
    rows = summary(trials)
    table = Table(title="Runs that were disturbed, resumed and compared", title_justify="left")
    for name in ("what", "means", "runs", "points", "blows", "problems"):
        table.add_column(name, overflow="fold")
    for row in rows:
        blows = _listed([f"{n} {name}" for name, n in row["blows"].items()])
        cells = (*map(str, (row["what"], row["means"], row["runs"], row["points"])), blows)
        table.add_row(*cells, str(row["problems"]), style="red" if row["problems"] else None)
    Console(width=None if os.isatty(1) else 140).print(table)
    wrong = [t for t in trials if t.problems]
    for t in wrong:
        print(f"{t.case.kind} {t.case.name} ({t.case.means}): {'; '.join(t.problems)}")
    points = sum(len(t.blows) for t in trials)
    print(f"{points} points in {len(trials)} runs, {len(wrong)} of them with a problem.")
    if options.out and points < options.points:
        print(f"{path} has the trials so far: the same command goes on.")
    elif options.part:
        print(f"{path} has the trials of this part: the command without --part adds them.")
    elif options.out:
        report = {
            "date": date.today().isoformat(),
            "commit": ", ".join(dict.fromkeys(journal.commits)),
            "command": f"python -m benchmarks.soak {' '.join(sys.argv[1:])}".strip(),
            "machine": machine(["numpy", "numba"] + ["ray"] * options.ray),
            "minutes": round(journal.minutes, 1),
            "parts": len(journal.paths),
            "points": points,
            "runs": len(trials),
            "rows": rows,
            "mended": journal.before,
            "problems": [
                {"what": f"{t.case.kind} {t.case.name} ({t.case.means})", "found": t.problems}
                for t in wrong
            ],
        }
        options.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
        for part in journal.paths:
            part.unlink()
        print(f"wrote {options.out}")
    if wrong:
        sys.exit(1)
    if points < options.points:
        sys.exit(130)


if __name__ == "__main__":
    main()
