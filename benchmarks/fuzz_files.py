"""Damage and forge run folders, study folders and policy files; then open, resume, evaluate them.

python -m benchmarks.fuzz_files [--cases 10000] [--seed 0] [--only CASE] [--out FILE.json]

*Damage* is what disks, copies and people do: flipped bits, files cut short, swapped, missing, of
another run, links, pipes, changed numbers. Each case must be *detected* (a plain error of ours, and
the folder as it was) or *recovered* (the result of the undamaged one, to the last bit).

A *forgery* has its checksums right: a file is what it says it is. It may be refused or used, but
like damage it must not have anything imported or executed, nothing written outside of its folder,
no memory taken beyond a few hundred megabytes, and it must not hang or crash the process.

Cases are numbered, and a case is a function of seed and number: ``--only 17`` makes it again. They
are run by a child under a limit of memory, with an audit hook; if it dies, a new one goes on. The
exit code is 1 if anything was wrong. Ctrl-C stops, and tells what was found so far.
"""

import argparse
import contextlib
import hashlib
import json
import math
import os
import random
import resource
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import gensmooth as gs
from benchmarks.record import commit, machine
from gensmooth.evaluators import cores
from gensmooth.lab.experiments.store import StoreError
from gensmooth.lab.experiments.study import run_study
from gensmooth.lab.paper.dfo.study import DfoOptions
from gensmooth.runs import CheckpointError
from gensmooth.runs.config import checksum
from gensmooth.runs.container import MAGIC

MEMORY = 400 << 20  # bytes beyond what the child has when it begins
DEADLINE = 20  # seconds of computing for a case; a forgery may say that it takes longer
FORGED_DEADLINE = 4
BUSY = 10  # so much longer may it take by the clock: others are at work on this machine too
HARD_DEADLINE = 600.0  # seconds after which the child hangs where no signal reaches it
OUR_FOLDER = (
    f"{Path(gs.__file__).parent}{os.sep}"  # not "gensmooth" anywhere: clones have that name
)
CANARY = "gensmooth_canary"  # a module that only files name


class NotWrittenError(Exception):
    """A file was not written, and the log says so."""


OURS = (CheckpointError, StoreError, NotWrittenError)


# --- what is damaged -----------------------------------------------------------------------------


def loss(x, rng):
    return float(((x - 1) ** 2).sum()) + 0.1 * float(rng.standard_normal())


def exact_loss(x):
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x) ** 2).sum())


def _stop_at(step: int) -> Callable[..., None]:
    def stop(info, *_):
        if getattr(info, "info", info).step == step:
            raise KeyboardInterrupt

    return stop


SMALL = {"method": "guided-es", "num_directions": 3, "max_steps": 10, "samples": "paired"}
LARGE = {"method": "gs", "num_directions": 2, "max_steps": 6, "samples": "independent"}
# No target: a training that has ended does not write its policies again.
TRAIN = {
    "num_directions": 2,
    "iterations": 4,
    "test_every": 2,
    "test_episodes": 1,
    "threads": 1,
    "target": None,
}
STUDY = DfoOptions(
    profile="quick", seeds=1, hyperparameters="paper", methods=("gs", "bes"), objectives=None
)


def _make_small(folder: Path, seed: int) -> None:
    gs.minimize(
        loss,
        np.zeros(6),
        optimizer=gs.adam(0.1),
        bounds=(-4, 4),
        seed=seed,
        folder=folder,
        every=2,
        callback=_stop_at(6),
        **SMALL,
    )


def _make_large(folder: Path, seed: int) -> None:
    x0 = np.random.default_rng(seed).standard_normal(10_001)
    gs.minimize(
        loss,
        x0,
        optimizer=gs.momentum(1e-3),
        seed=7,  # of all: stale arrays would be the only difference
        folder=folder,
        every=2,
        callback=_stop_at(4),
        **LARGE,
    )


def _make_pilot(folder: Path, seed: int) -> None:
    gs.minimize(
        loss,
        np.zeros(6),
        samples="independent",
        x_scale=np.linspace(0.5, 2, 6),
        max_steps=10,
        seed=seed,
        folder=folder,
        every=2,
        callback=_stop_at(6),
    )


def _make_exact_pilot(folder: Path, seed: int) -> None:
    gs.minimize(
        exact_loss,
        np.full(6, -1.0),
        bounds=(-4, 4),
        budget=1000,
        seed=seed,
        folder=folder,
        every=2,
        callback=_stop_at(20),
    )


def _make_early(folder: Path, seed: int) -> None:
    """Killed before its first checkpoint."""
    _make_large(folder, seed)
    for name in ("checkpoint", "checkpoint.previous", "metrics.jsonl"):
        (folder / name).unlink()


def _make_training(folder: Path, seed: int, **options: Any) -> None:
    stop = _stop_at(2)
    gs.rl.train("CartPole-v1", seed=seed, folder=folder, every=1, callback=stop, **TRAIN, **options)


def _make_bes_training(folder: Path, seed: int) -> None:
    _make_training(folder, seed, method="bes")


def _make_policy(folder: Path, seed: int) -> None:
    folder.mkdir()
    result = gs.rl.train("CartPole-v1", seed=seed, **TRAIN)
    result.policy.save(folder / "policy")


def _make_study(folder: Path, seed: int) -> None:
    run_study("dfo", replace(STUDY, seeds=1 + seed), folder, say=_quiet)


def _quiet(_: str) -> None:
    pass


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _read_exact(folder: Path) -> str:
    return _read_run(folder, exact_loss)


def _read_run(folder: Path, fun: Callable[..., float] = loss) -> str:
    result = gs.resume(folder, fun)
    numbers = np.array([result.fun, result.best_fun, result.nfev, result.nit])
    lines = (folder / "metrics.jsonl").read_bytes()
    return _digest(result.x.tobytes(), result.best_x.tobytes(), numbers.tobytes(), lines)


def _read_training(folder: Path) -> str:
    result = gs.rl.resume(folder, threads=1)
    files = [folder / name for name in ("metrics.jsonl", "policy-best", "policy-last")]
    if LOGGED and not all(file.is_file() for file in files):
        raise NotWrittenError(LOGGED[-1])
    x, m2 = result.state.search.x, result.state.statistics.m2
    return _digest(x.tobytes(), m2.tobytes(), *(file.read_bytes() for file in files))


LOGGED: list[str] = []  # what our log said during a case


def _read_policy(folder: Path) -> str:
    found = gs.rl.evaluate(folder / "policy", episodes=2, threads=1)
    return _digest(repr(found).encode())


def _read_study(folder: Path) -> str:
    outcome = run_study("dfo", STUDY, folder, say=_quiet)
    assert outcome is not None
    records = [record._replace(seconds=0) for record in outcome.records]
    return _digest(json.dumps(records, sort_keys=True).encode())


class Specimen(NamedTuple):
    """Something to damage.

    Attributes:
        make: Makes it in a folder, with a seed.
        read: Opens it and goes on to the end; gives a digest of all that came of it.
        weight: How often it is taken.
    """

    make: Callable[[Path, int], None]
    read: Callable[[Path], str]
    weight: float


SPECIMENS = {
    "minimize": Specimen(_make_small, _read_run, 4),
    "minimize, large": Specimen(_make_large, _read_run, 2),
    "minimize, no checkpoint": Specimen(_make_early, _read_run, 1),
    "minimize, pilot": Specimen(_make_pilot, _read_run, 2),
    "minimize, pilot, exact": Specimen(_make_exact_pilot, _read_exact, 2),
    "train": Specimen(_make_training, _read_training, 2),
    "train, BeS": Specimen(_make_bes_training, _read_training, 1),
    "policy": Specimen(_make_policy, _read_policy, 3),
    "study": Specimen(_make_study, _read_study, 1),
}


# --- damage --------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where damage is done.

    Attributes:
        folder: The folder to damage, a copy.
        stale: The same of another run.
        outside: A folder beside it that nobody may touch, with a file ``victim``.
        rng: What to do where.
    """

    folder: Path
    stale: Path
    outside: Path
    rng: random.Random

    def files(self) -> list[Path]:
        found = (p for p in self.folder.rglob("*") if p.is_file() and p.name != ".lock")
        return sorted(found)

    def file(self) -> Path:
        return self.rng.choice(self.files())


def _flip(at: Place) -> None:
    path = at.file()
    data = bytearray(path.read_bytes())
    for _ in range(at.rng.choice((1, 1, 1, 2, 5))):
        data[at.rng.randrange(len(data))] ^= 1 << at.rng.randrange(8)
    path.write_bytes(data)


def _cut(at: Place) -> None:
    path = at.file()
    os.truncate(path, at.rng.randrange(path.stat().st_size))


def _grow(at: Place) -> None:
    with open(at.file(), "ab") as file:
        file.write(at.rng.choice((at.rng.randbytes(at.rng.randint(1, 300)), bytes(64), b"\n{}\n")))


def _overwrite(at: Place) -> None:
    path = at.file()
    data = bytearray(path.read_bytes())
    start = at.rng.randrange(len(data))
    length = min(at.rng.randint(1, 512), len(data) - start)
    data[start : start + length] = at.rng.choice((bytes(length), at.rng.randbytes(length)))
    path.write_bytes(data)


def _noise(at: Place) -> None:
    at.file().write_bytes(at.rng.randbytes(at.rng.choice((0, 1, 32, 1000))))


def _remove(at: Place) -> None:
    at.file().unlink()


def _swap(at: Place) -> None:
    one, other = at.file(), at.file()
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)


def _stale(at: Place) -> None:
    path = at.file()
    other = at.stale / path.relative_to(at.folder)
    if not other.exists():
        other = at.rng.choice([p for p in sorted(at.stale.rglob("*")) if p.is_file()])
    shutil.copy(other, path)


def _digit(at: Place) -> None:
    """One digit is another, as a person or a bit changes it: everything can still be parsed."""
    path = at.file()
    data = bytearray(path.read_bytes())
    digits = [i for i, byte in enumerate(data[:200_000]) if 0x30 <= byte <= 0x39]
    if digits:
        where = at.rng.choice(digits)
        data[where] = 0x30 + (data[where] - 0x30 + at.rng.randint(1, 9)) % 10
    path.write_bytes(data)


def _value(at: Place) -> None:
    """A value of a JSON file is another."""
    path = at.rng.choice([p for p in at.files() if p.suffix in (".json", ".jsonl")] or at.files())
    lines = path.read_bytes().splitlines() if path.suffix == ".jsonl" else [path.read_bytes()]
    if path.suffix not in (".json", ".jsonl") or not lines:
        return _flip(at)
    number = at.rng.randrange(len(lines))
    found = json.loads(lines[number])
    _change(found, at.rng)
    lines[number] = json.dumps(found, indent=None if path.suffix == ".jsonl" else 1).encode()
    path.write_bytes(b"\n".join(lines) + b"\n")
    return None


def _nested(at: Place) -> None:
    path = at.file()
    depth = at.rng.choice((1_000, 100_000))
    words = at.rng.choice((b"[" * depth, b'{"a":' * depth, b"[" * depth + b"]" * depth))
    path.write_bytes(words)


def _sparse(at: Place) -> None:
    """A file of many gigabytes that takes no room."""
    os.truncate(at.file(), at.rng.choice((1 << 33, 1 << 40)))


def _link(at: Place) -> None:
    """A file is a link: to another file, to an endless one, to a folder, to itself, to nothing."""
    path = at.file()
    aim = at.rng.choice(("victim", "same", "/dev/zero", "/dev/full", ".", "missing", path.name))
    if aim == "same":
        shutil.copy(path, at.outside / "same")
    path.unlink()
    inside = aim.startswith("/") or aim in (".", path.name)
    path.symlink_to(aim if inside else at.outside / aim)


def _link_aside(at: Place) -> None:
    """A link waits where a file is written aside or locked."""
    name = at.file().relative_to(at.folder)
    path = at.rng.choice(
        (
            at.folder / name.with_name(f".{name.name}.new"),
            at.folder / ".lock",
            at.folder / "metrics.jsonl",
            at.folder / "policy-best",
            at.folder / "checkpoint.previous",
        )
    )
    path.unlink(missing_ok=True)
    path.symlink_to(at.outside / at.rng.choice(("victim", "missing")))


def _link_folder(at: Place) -> None:
    """A folder is a link to one outside."""
    folders = sorted(p for p in at.folder.rglob("*") if p.is_dir())
    if not folders:
        return _link(at)
    path = at.rng.choice(folders)
    shutil.move(path, at.outside / "moved")
    path.symlink_to(at.outside / "moved")
    return None


def _removed(at: Place) -> Path:
    """A file, or what keeps others out, that is no more."""
    path = at.file() if at.rng.random() < 0.9 else at.folder / ".lock"
    path.unlink(missing_ok=True)
    return path


def _pipe(at: Place) -> None:
    os.mkfifo(_removed(at))


def _folder(at: Place) -> None:
    _removed(at).mkdir()


DAMAGE: dict[str, tuple[Callable[[Place], None], float]] = {
    "bits flipped": (_flip, 6),
    "a digit changed": (_digit, 6),
    "a JSON value changed": (_value, 4),
    "cut short": (_cut, 3),
    "something appended": (_grow, 2),
    "a part overwritten": (_overwrite, 3),
    "noise in its place": (_noise, 2),
    "a file removed": (_remove, 1),
    "two files swapped": (_swap, 1),
    "a file of another run": (_stale, 3),
    "deeply nested JSON": (_nested, 1),
    "a huge sparse file": (_sparse, 1),
    "a link for a file": (_link, 2),
    "a link where we write": (_link_aside, 2),
    "a link for a folder": (_link_folder, 0.5),
    "a pipe for a file": (_pipe, 1),
    "a folder for a file": (_folder, 1),
}


# --- forgery -------------------------------------------------------------------------------------

NAMES = (f"{CANARY}:evil", "builtins:exec", "os:system", "this:s", f"{CANARY}:Evil-v0", "../../x")
NONSENSE: tuple[Any, ...] = (
    *(0, 1, -1, 3, 2**31, 10**9, 10**18, 10**400, 0.5, -0.0, 1e308, 5e-324, "inf", "nan", "-inf"),
    *(None, True, False, "", "x" * 1000, [], {}, [[]], {"given": "x"}, [10**9] * 4, "\ud800"),
    *({"kind": name} for name in NAMES),
    *({"scipy": name, "args": [], "kwargs": {}} for name in ("norm", "rv_discrete", "__doc__")),
    *NAMES,
)


def _leaves(found: Any) -> Iterator[tuple[Any, Any]]:
    """Containers in a JSON value, and the keys in them."""
    items = found.items() if isinstance(found, dict) else enumerate(found)
    for key, value in list(items):
        yield found, key
        if isinstance(value, dict | list):
            yield from _leaves(value)


def _change(found: Any, rng: random.Random) -> None:
    """Another value for something in it; or something is missing, or new."""
    places = list(_leaves(found)) if isinstance(found, dict | list) else []
    if not places:
        return
    where, key = rng.choice(places)
    what = rng.random()
    if what < 0.1 and isinstance(where, dict):
        del where[key]
    elif what < 0.15 and isinstance(where, dict):
        where["new"] = rng.choice(NONSENSE)
    elif what < 0.3 and isinstance(where[key], int | float) and math.isfinite(where[key]):
        where[key] += rng.choice((1, -1))
    else:
        where[key] = rng.choice(NONSENSE)


def _forge_config(at: Place) -> None:
    """``config.json`` says something else, and its checksum is right."""
    path = at.folder / "config.json"
    if not path.exists():
        return _forge_container(at)
    found = json.loads(path.read_bytes())
    for _ in range(at.rng.choice((1, 1, 2))):
        _change(found, at.rng)
    if at.rng.random() < 0.03 and isinstance(found.get("execution"), dict):
        found["execution"]["workers"] = at.rng.choice((2, 3, 17, 1000, -1, 10**400))
    found["sha256"] = checksum({name: v for name, v in found.items() if name != "sha256"})
    path.write_text(json.dumps(found))
    if at.rng.random() < 0.7:  # the checkpoint would not be of this configuration
        for name in ("checkpoint", "checkpoint.previous"):
            (at.folder / name).unlink(missing_ok=True)
    return None


def _forge_container(at: Place) -> None:
    """The header of a checkpoint, of arrays or of a policy says something else."""
    containers = [p for p in at.files() if p.read_bytes()[:8] == MAGIC]
    if not containers:
        return _value(at)
    path = at.rng.choice(containers)
    data = path.read_bytes()
    _, version, _, length, _ = struct.unpack_from("<8sIIQQ", data)
    end = 32 + length
    header, body = json.loads(data[32:end]), data[end + -end % 64 :]
    what = at.rng.random()
    size = None
    if what < 0.2 and header["arrays"]:  # arrays of many gigabytes that are not there
        entry = at.rng.choice(header["arrays"])
        entry[2] = [at.rng.choice((2**20, 2**33, 2**46))]
        size = 8 * entry[2][0] + len(data)
    elif what < 0.3 and header["arrays"]:
        entry = at.rng.choice(header["arrays"])
        entry[at.rng.randrange(4)] = at.rng.choice((*NONSENSE, "float16", "complex128", "object"))
    elif what < 0.4:
        depth = at.rng.choice((500, 50_000))
        header["meta"]["new"] = "@"
        text = json.dumps(header).replace('"@"', "[" * depth + "]" * depth).encode()
        path.write_bytes(_sealed(text, body, version))
        return None
    else:
        _change(header["meta"], at.rng)
    text = json.dumps(header).encode()
    made = _sealed(text, body, version)
    if size is not None:
        made = made[:24] + struct.pack("<Q", len(made) + size) + made[32:]
    path.write_bytes(made)
    if size is not None and size < 2**40:
        with contextlib.suppress(OSError):
            os.truncate(path, len(made) + size)
    return None


def _sealed(header: bytes, body: bytes, version: int) -> bytes:
    start = 32 + len(header)
    gap = -start % 64
    length = start + gap + len(body)
    preamble = struct.pack("<8sIIQQ", MAGIC, version, zlib.crc32(header), len(header), length)
    return preamble + header + bytes(gap) + body


FORGERY: dict[str, tuple[Callable[[Place], None], float]] = {
    "forged configuration": (_forge_config, 6),
    "forged header": (_forge_container, 6),
}


# --- a case --------------------------------------------------------------------------------------


class Deadline(BaseException):
    """The time of a case is up."""


class Case(NamedTuple):
    """What was done to what, and what came of it: ``detected``, ``recovered``, … or a problem."""

    number: int
    specimen: str
    what: str
    forged: bool
    outcome: str
    problem: str = ""


class Watch:
    """The audit hook: what may not happen while a folder is read."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.seen: list[str] = []
        self.workers = 0
        self.known = {name.partition(".")[0] for name in sys.modules}
        self.known |= {"gensmooth", "numpy", "numba", "gymnasium", "scipy", "cloudpickle"}
        sys.addaudithook(self)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        folder, self.folder = self.folder, None  # what we do here is not looked at
        try:
            if words := self._wrong(event, args, str(folder)):
                self.seen.append(words)
        finally:
            self.folder = folder

    def _wrong(self, event: str, args: tuple[Any, ...], folder: str) -> str:
        if event == "import":
            name = str(args[0])
            return "" if name.partition(".")[0] in self.known else f"imports {name[:80]}"
        if event == "subprocess.Popen" and "gensmooth.evaluators.worker" in str(args[1]):
            # A file may say how many of our own workers evaluate our function; up to a limit.
            self.workers += 1
            return f"starts {self.workers} workers" if self.workers > cores() else ""
        if event in _SPAWNS:
            return f"{event} {str(args)[:80]}"
        if event in ("exec", "pickle.find_class"):  # Numba and dataclasses do so too
            caller = sys._getframe(2).f_code.co_filename
            # The package's own path: Numba may lie in a clone that is called gensmooth.
            return f"{event} in {caller}" if caller.startswith(OUR_FOLDER) else ""
        if event == "open":
            path, _, flags = args
            writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
            if isinstance(path, int) or path == os.devnull or not (flags or 0) & writes:
                return ""
            return self._outside(event, [path], folder)
        if event in ("os.remove", "os.rmdir") and args[1] >= 0:  # a folder's handle: rmtree's
            args = (os.path.join(os.readlink(f"/proc/self/fd/{args[1]}"), args[0]),)
        return self._outside(event, args, folder) if event in _WRITES else ""

    @staticmethod
    def _outside(event: str, paths: Any, folder: str) -> str:
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike):
                full = os.path.abspath(os.fsdecode(path))
                if not full.startswith(folder) and "__pycache__" not in full:
                    return f"{event} {full}"
        return ""


_SPAWNS = {"os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "pty.spawn"}
_SPAWNS |= {"socket.connect", "os.spawn", "code.__new__", "ctypes.dlopen"}
_WRITES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.symlink", "os.link"}
_WRITES |= {"os.truncate", "os.chmod", "shutil.rmtree", "shutil.move", "shutil.copyfile"}


def _snapshot(folder: Path) -> dict[str, Any]:
    """What is in a folder; large files by their size."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file() and name != ".lock":
            small = path.stat().st_size < 1 << 24
            found[name] = path.read_bytes() if small else path.stat().st_size
    return found


def _plan(number: int, seed: int) -> tuple[str, str, bool, random.Random]:
    rng = random.Random(f"{seed}/{number}")
    name = rng.choices(list(SPECIMENS), [s.weight for s in SPECIMENS.values()])[0]
    forged = rng.random() < 0.3 and name != "study"
    table = FORGERY if forged else DAMAGE
    what = rng.choices(list(table), [weight for _, weight in table.values()])[0]
    if (name, what) == ("policy", "a file of another run"):  # is another policy, and says so
        what = "bits flipped"
    return name, what, forged, rng


def run_case(
    number: int, seed: int, *, where: Path, expected: dict[str, str], watch: Watch
) -> Case:
    """Make a case, look at what comes of it, and clean up."""
    name, what, forged, rng = _plan(number, seed)
    room = where / f"case-{number}"
    folder, outside = room / "folder", room / "outside"
    shutil.copytree(where / "specimens" / name, folder, symlinks=True)
    outside.mkdir()
    (outside / "victim").write_bytes(b"precious\n" * 50)
    place = Place(folder, where / "stale" / name, outside, rng)
    (FORGERY if forged else DAMAGE)[what][0](place)
    before, beside = _snapshot(folder), _snapshot(outside)
    outcome, problem = "", ""
    watch.seen, watch.workers = [], 0
    LOGGED.clear()
    seconds = FORGED_DEADLINE if forged else DEADLINE
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(BUSY * seconds)
    try:
        watch.folder = folder
        digest = SPECIMENS[name].read(folder)
    except Deadline:
        outcome = "still running" if forged else "hung"
        problem = "" if forged else "hung"
    except Exception as error:
        watch.folder = None
        outcome, problem = _judge(error, folder, before)
    else:
        same = digest == expected[name]
        outcome = "recovered" if same else "used" if forged else "silent"
        problem = "" if same or forged else "a wrong result without a word"
    finally:
        watch.folder = None
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
    if watch.seen:
        problem = "; ".join(dict.fromkeys(watch.seen[:5]))
    if (where / "modules" / "touched").exists():
        (where / "modules" / "touched").unlink()
        problem = "a module that a file names was imported"
    changed = _snapshot(outside)
    if "moved" not in changed and changed != beside:
        problem = "something outside of the folder was written to"
    shutil.rmtree(room)
    return Case(number, name, what, forged, outcome, problem)


def _judge(error: Exception, folder: Path, before: dict[str, Any]) -> tuple[str, str]:
    """Whether an error is a plain one of ours, which leaves everything as it was."""
    words = f"{type(error).__name__}: {str(error)[:300]}"
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, MemoryError):
            return "memory", f"too much memory: {words}"
        chain = chain.__cause__ or chain.__context__
    frames = traceback.extract_tb(error.__traceback__)
    plain = isinstance(error, OURS) or (
        isinstance(error, ValueError | gs.EvaluationError)
        and "gensmooth" in frames[-1].filename
        and not isinstance(error, UnicodeError)
    )
    if not plain:
        return "raw error", f"{words} at {frames[-1].filename}:{frames[-1].lineno}"
    if isinstance(error, CheckpointError) and _snapshot(folder) != before:
        return "detected", f"detected, but the folder was changed: {words}"
    return "detected", ""


# --- many cases ----------------------------------------------------------------------------------


def _child(where: Path, first: int, last: int, seed: int) -> None:
    """Run cases, and print one line of JSON for each."""
    warnings.simplefilter("ignore")
    import logging

    import scipy.stats  # noqa: F401  -- our own choice, whatever a file says

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            LOGGED.append(record.getMessage())

    log = logging.getLogger("gensmooth")
    log.addHandler(Keep())
    log.propagate = False
    sys.path.insert(0, str(where / "modules"))
    expected: dict[str, str] = {}
    for name, specimen in SPECIMENS.items():
        room = where / "undamaged"
        shutil.copytree(where / "specimens" / name, room)
        expected[name] = specimen.read(room)
        shutil.rmtree(room)
    whole = json.loads((where / "expected.json").read_text())
    assert expected == {**expected, **whole}, "the undamaged ones do not give what they should"

    def up(*_: object) -> None:
        raise Deadline

    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, up)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    watch = Watch()
    for number in range(first, last):
        case = run_case(number, seed, where=where, expected=expected, watch=watch)
        print(json.dumps(case), flush=True)


def prepare(where: Path) -> None:
    """Make what will be damaged, what is stale, and what the undamaged ones come to."""
    for kind, seed in (("specimens", 0), ("stale", 1)):
        (where / kind).mkdir()
        for name, specimen in SPECIMENS.items():
            specimen.make(where / kind / name, seed)
    whole = where / "whole"
    gs.minimize(
        *(loss, np.zeros(6)),
        optimizer=gs.adam(0.1),
        bounds=(-4, 4),
        seed=0,
        folder=whole,
        **SMALL,
    )
    (where / "expected.json").write_text(json.dumps({"minimize": _read_run(whole)}))
    (where / "modules").mkdir()
    (where / "modules" / f"{CANARY}.py").write_text(
        "import pathlib\n(pathlib.Path(__file__).parent / 'touched').touch()\n"
        "def evil(*_):\n    return 0.0\n"
    )


def fuzz(numbers: range, seed: int, where: Path) -> Iterator[Case]:
    """Cases, run by children that are replaced when they die."""
    prepare(where)
    first = numbers.start
    while first < numbers.stop:
        words = [sys.executable, "-m", "benchmarks.fuzz_files", "--child", str(where)]
        words += ["--range", str(first), str(numbers.stop), "--seed", str(seed)]
        log = (where / "log").open("w+b")
        with log, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log) as child:
            try:
                for line in _lines(child):
                    case = Case(*json.loads(line))
                    first = case.number + 1
                    yield case
            finally:
                child.kill()
                child.wait()
            if first < numbers.stop:
                log.seek(0)
                end = log.read().decode(errors="replace").strip().splitlines()[-1:]
                name, what, forged, _ = _plan(first, seed)
                problem = f"the process died ({child.returncode}): {''.join(end)[:300]}"
                if not (where / f"case-{first}").exists():
                    raise RuntimeError(f"The child cannot begin: {problem}")
                shutil.rmtree(where / f"case-{first}")
                yield Case(first, name, what, forged, "died", problem)
                first += 1


def _lines(child: "subprocess.Popen[bytes]") -> Iterator[bytes]:
    assert child.stdout is not None
    os.set_blocking(child.stdout.fileno(), False)
    buffer, end = b"", time.monotonic() + 2 * HARD_DEADLINE  # the first one includes the start
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, end - time.monotonic())):
            data = child.stdout.read()
            if not data:
                return
            *lines, buffer = (buffer + data).split(b"\n")
            yield from lines
            end = time.monotonic() + HARD_DEADLINE


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz_files", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this case alone")
    parser.add_argument("--out", type=Path, help="write the result to this JSON file")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--range", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return _child(options.child, *options.range, options.seed)
    before, began = commit(), time.monotonic()
    numbers = range(options.cases)
    if options.only is not None:
        numbers = range(options.only, options.only + 1)
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # without it, disks are waited for
    found: list[Case] = []
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory) as folder:
        try:
            for case in fuzz(numbers, options.seed, Path(folder)):
                found.append(case)
                if case.problem:
                    print(f"[{case.number}] {case.specimen}, {case.what}: {case.problem}")
                if len(found) % 500 == 0:
                    print(f"{len(found)} of {len(numbers)} cases", flush=True)
        except KeyboardInterrupt:
            print(f"Interrupted after {len(found)} of {len(numbers)} cases.")
    wrong = [case for case in found if case.problem]
    rows = [
        {"what": what, "cases": len(ours), "outcomes": dict(Counter(c.outcome for c in ours))}
        | {"problems": sum(bool(c.problem) for c in ours)}
        for what in (*DAMAGE, *FORGERY)
        if (ours := [c for c in found if c.what == what])
    ]
    table = Table(title="Damaged and forged files", title_justify="left")
    for name in ("what", "cases", "outcomes", "problems"):
        table.add_column(name, overflow="fold")
    for row in rows:
        outcomes = ", ".join(f"{n} {name}" for name, n in row["outcomes"].items())
        style = "red" if row["problems"] else None
        table.add_row(row["what"], str(row["cases"]), outcomes, str(row["problems"]), style=style)
    Console(width=None if os.isatty(1) else 140).print(table)
    print(f"{len(found)} cases, {len(wrong)} with a problem.")
    if options.out:
        told = {
            "date": date.today().isoformat(),
            "commit": before,
            "command": f"python -m benchmarks.fuzz_files {' '.join(sys.argv[1:])}".strip(),
            "machine": machine(["numpy", "numba"]),
            "minutes": round((time.monotonic() - began) / 60, 1),
            "cases": len(found),
            "specimens": dict(Counter(case.specimen for case in found)),
            "rows": rows,
            "problems": [case._asdict() for case in wrong],
        }
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
        print(f"wrote {options.out}")
    if wrong:
        sys.exit(1)
    if len(found) < len(numbers):
        sys.exit(130)
    return None


if __name__ == "__main__":
    main()
