"""Damage and forge every kind of file that a command reads; then run the commands that read it.

python -m benchmarks.fuzz_files [--cases 10000] [--first 0] [--seed 0] [--cold] [--out FILE.json]

docs/security.md lists the files and the promise for each. This program reads that table: every file
that a command writes must be in it, and damage to a file must have the outcome that it states.

*Damage* is accidental: flipped bits, files cut short, swapped, missing or from another run, links,
pipes, changed numbers, a full disk. Each case must be *detected* (a plain error of ours, and the
folder unchanged) or *recovered* (the same result as without the damage, to the last bit).

A *forgery* has valid checksums. It may be refused or used. Like damage, it must not import or
execute anything, write anything outside its folder, take more than a few hundred megabytes of
memory, hang, or crash the process.

An audit hook sees every ``open`` in the process. It fails on any open of a case's files outside
``gensmooth/runs/files.py``, on any write to another file, and on any read of another file that
belongs neither to Python nor to its packages. Numba's own cache is exempt.

A case is a function of the seed and its number: ``--only 17`` repeats it. Cases are run by a child
process under a memory limit; if it dies, a new one continues. With ``--cold``, each case has a
process of its own: a fork of one that has imported everything and compiled nothing. Numba's cache
is emptied before every 100th case, so the first cases after that compile what they call, and later
ones load it. The result says how many cases compiled something. The exit code is 1 if there was a
problem. Ctrl-C stops, and reports the results so far. With ``--out``, the same
command continues and adds to the file.
"""

import argparse
import contextlib
import fnmatch
import functools
import gc
import hashlib
import importlib
import io
import json
import math
import os
import random
import re
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
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core import event
from numba.core.dispatcher import Dispatcher
from rich.console import Console
from rich.table import Table

import gensmooth as gs
from benchmarks.record import commit, machine
from gensmooth.evaluators import cores
from gensmooth.fields import printable, seal
from gensmooth.lab import reproduce
from gensmooth.lab.experiments.store import StoreError
from gensmooth.lab.experiments.study import run_study
from gensmooth.lab.overview import overview
from gensmooth.lab.paper.dfo.study import DfoOptions
from gensmooth.runs import CheckpointError, container
from gensmooth.runs.config import checksum
from gensmooth.runs.container import MAGIC

MEMORY = 400 << 20  # bytes that the child may allocate after its start
DEADLINE = 20  # CPU seconds for a case
FORGED_DEADLINE = 4  # a forged run may be a long one: it is stopped after this many CPU seconds
COMPILING = 30  # CPU seconds more for a case that may find an empty Numba cache
EMPTIED = 100  # cold cases after which Numba's cache is emptied
BUSY = 10  # wall time may be longer by this factor, since other processes use the machine too
HARD_DEADLINE = 600.0  # seconds after which the child counts as dead: it ignores the signals
OUR_FOLDER = f"{Path(gs.__file__).parent}{os.sep}"  # a full path: clones have the name too
MECHANISM = f"{OUR_FOLDER}runs{os.sep}files.py"  # the one module that may open files
CANARY = "gensmooth_canary"  # a module that is named in forged files only
PAGE = Path(__file__).parent.parent / "docs" / "security.md"


class NotWrittenError(Exception):
    """A file was not written, and the log says so."""


OURS: tuple[type[Exception], ...] = (CheckpointError, StoreError, NotWrittenError)


# --- files to damage -----------------------------------------------------------------------------


def loss(x, rng):
    return float(((x - 1) ** 2).sum()) + 0.1 * float(rng.standard_normal())


def exact_loss(x):
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x) ** 2).sum())


def _stop_at(step: int) -> Callable[..., None]:
    def stop(intermediate_result):
        if intermediate_result.info.step == step:  # of a minimisation and of a training
            raise KeyboardInterrupt

    return stop


SMALL = {"method": "guided-es", "num_directions": 3, "max_steps": 10, "samples": "paired"}
LARGE = {"method": "gs", "num_directions": 2, "max_steps": 6, "samples": "independent"}
# No target: a training that has ended does not write its policies again.
TRAIN = {
    "num_directions": 2,
    "max_steps": 4,
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
        seed=7,  # for every specimen, so that a stale one differs in its arrays only
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


def _make_journal(folder: Path, seed: int) -> None:
    """A run stopped within a step, whose evaluations take over 10 ms, so the journal has them."""
    calls = iter(range(17))

    def slow(x):
        time.sleep(0.011)
        if next(calls) == 16:
            raise KeyboardInterrupt
        return exact_loss(x)

    options = {"method": "gs", "num_directions": 4, "max_steps": 6}
    gs.minimize(slow, np.zeros(6), seed=seed, folder=folder, every=2, **options)


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


LOGGED: list[str] = []  # the messages of our log during a case


def _read_policy(folder: Path) -> str:
    evaluation = gs.rl.evaluate(folder / "policy", episodes=2, threads=1)
    return _digest(repr(evaluation).encode())


def _read_study(folder: Path) -> str:
    outcome = run_study("dfo", STUDY, folder, say=_quiet)
    assert outcome is not None
    records = [record._replace(seconds=0) for record in outcome.records]
    return _digest(json.dumps(records, sort_keys=True).encode())


def _make_run_page(folder: Path, seed: int) -> None:
    """An ended run with its page, which has files of the arrays that are too long for a command."""
    gs.minimize(
        exact_loss,
        np.linspace(0, 1, 40),
        bounds=[(-4 - i, 4) for i in range(40)],
        method="bes",
        num_directions=3,
        max_steps=6,
        seed=seed,
        folder=folder,
    )
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), "objective": "model:loss"}
    path.write_text(json.dumps({**config, "sha256": checksum(config)}))
    _write_matching_checkpoint(folder)
    overview(folder)


def _write_matching_checkpoint(folder: Path) -> None:
    """Adapt the checkpoint to the configuration, which was changed to name the objective."""
    meta, arrays = container.read(folder / "checkpoint")
    config = json.loads((folder / "config.json").read_text())
    may_change = ("limits", "execution", "extensions", "source", "gensmooth")
    meta["config"] = checksum(config, exclude=may_change)
    container.write(folder / "checkpoint", meta, arrays)


def _page(page: Path) -> str:
    """Return a digest of a page and its tables, without paths and times."""
    files = [page, *sorted((page.parent / "tables").glob("*.csv"))]
    place = r"/\S*/fuzz-\w+(/disk)?(/case-\d+/folder|/undamaged)?"
    but = rf"{place}|[\d.,]+ s\b|seconds[^<\n]*|speed[^<\n]*"
    return _digest(*(re.sub(but, "", file.read_text()).encode() for file in files))


def _read_page(folder: Path) -> str:
    messages = io.StringIO()
    with contextlib.redirect_stderr(messages):
        page = overview(folder)
    LOGGED.extend(line for line in messages.getvalue().splitlines() if "damaged" in line)
    return _page(page)


def _read_live_page(folder: Path) -> str:
    with contextlib.redirect_stdout(None):
        return _page(overview(folder, live=True, every=0.01))


COMPARED: dict[str, Any] = {
    "methods": ["gs", "bes"],
    "seeds": 2,
    "budget": 120,
    "score": exact_loss,
}
SWEPT: dict[str, Any] = {"spacing": [0.1, 1.0], "seeds": 2, "fresh_seeds": 2, "budget": 60}


def _make_comparison(folder: Path, seed: int) -> None:
    gs.compare(exact_loss, np.full(4, seed + 0.5), folder=folder, **COMPARED)


def _make_stopped_comparison(folder: Path, seed: int) -> None:
    """A comparison that was interrupted in its first trial."""
    _make_comparison(folder, seed)
    runs = sorted((folder / "trials" / "runs").iterdir())
    shutil.rmtree(runs[0])
    with _interrupted(), contextlib.suppress(KeyboardInterrupt):
        _make_comparison(folder, seed)
    assert list((folder / "trials" / "partial").iterdir())


@contextlib.contextmanager
def _interrupted() -> Iterator[None]:
    """Interrupt a trial in the middle, with all its scores in the journal, however cheap."""
    from gensmooth.lab.trials import trial
    from gensmooth.runs import journal

    kept, worth = trial.Clock.tick, journal.SLOW

    def tick(clock: Any, evaluations: int) -> None:
        kept(clock, evaluations)
        if evaluations > 60:
            raise KeyboardInterrupt

    trial.Clock.tick, journal.SLOW = tick, 0.0  # type: ignore[method-assign]
    try:
        yield
    finally:
        trial.Clock.tick, journal.SLOW = kept, worth  # type: ignore[method-assign]


def _read_comparison(folder: Path) -> str:
    with contextlib.redirect_stderr(None):
        compared = gs.compare(exact_loss, np.full(4, 0.5), folder=folder, **COMPARED)
    records = [(r.config, r.series, r.final) for runs in compared.runs.values() for r in runs]
    return _digest(json.dumps(records, sort_keys=True).encode(), repr(compared.standings).encode())


def _make_sweep(folder: Path, seed: int) -> None:
    gs.sweep(exact_loss, np.full(4, seed + 0.5), folder=folder, **SWEPT)


def _make_reproduced(folder: Path, seed: int) -> None:
    with contextlib.redirect_stderr(None):
        reproduce(
            "dfo",
            folder=folder,
            workers=1,
            seeds=1 + seed,
            hyperparameters="paper",
            methods=("gs", "bes"),
            objectives=("sphere",),
        )


def _make_result(folder: Path, seed: int) -> None:
    folder.mkdir()
    x0 = {"a": np.full(3, 0.5), "b": [np.zeros((2, 2)), 1.5]}
    result = gs.minimize(_tree_loss, x0, budget=120, seed=seed)
    result.save(folder / "best.json")


def _tree_loss(x: Any) -> float:
    return float((x["a"] ** 2).sum() + ((x["b"][0] - 1) ** 2).sum() + x["b"][1] ** 2)


def _read_result(folder: Path) -> str:
    return _digest(json.dumps(gs.load(folder / "best.json").as_json(history=True)).encode())


def _model(seed: int = 0) -> Any:
    import torch

    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))


def _make_log(folder: Path, seed: int) -> None:
    folder.mkdir()
    model = _model()
    with gs.torch.Log(folder / "run.log") as log:
        optimizer = gs.torch.ZerothOrder(model, lr=1e-2, num_directions=4, seed=seed, log=log)
        for _ in range(6):
            optimizer.step(lambda: sum((w**2).sum() for w in model.parameters()))


def _read_log(folder: Path) -> str:
    """Replay a log; one that was cut between two records is a valid but shorter log."""
    model = _model()
    steps = gs.torch.replay(model, folder / "run.log")
    if steps < 6:
        raise NotWrittenError(f"only {steps} steps are complete")
    weights = [w.detach().numpy().tobytes() for w in model.parameters()]
    return _digest(*weights)


class Specimen(NamedTuple):
    """A folder of files to damage.

    Attributes:
        make: Creates it, with a seed.
        read: Resumes the run to its end, or reads the files; returns a digest of the results.
        weight: How often it is chosen.
        kind: Its folder in the table of docs/security.md; for a single file, its row.
    """

    make: Callable[[Path, int], None]
    read: Callable[[Path], str]
    weight: float
    kind: str = "RUN"


# Drawing a page takes a hundred times as long as reading a file, so pages are rarer.
SPECIMENS = {
    "minimize": Specimen(_make_small, _read_run, 4),
    "minimize, large": Specimen(_make_large, _read_run, 2),
    "minimize, no checkpoint": Specimen(_make_early, _read_run, 1),
    "minimize, journal": Specimen(_make_journal, _read_exact, 2),
    "minimize, pilot": Specimen(_make_pilot, _read_run, 2),
    "minimize, pilot, exact": Specimen(_make_exact_pilot, _read_exact, 2),
    "train": Specimen(_make_training, _read_training, 2),
    "train, BeS": Specimen(_make_bes_training, _read_training, 1),
    "policy": Specimen(_make_policy, _read_policy, 3, "a policy"),
    "study": Specimen(_make_study, _read_study, 1, "STUDY"),
    "run, page": Specimen(_make_run_page, _read_page, 0.3),
    "run, live page": Specimen(_make_run_page, _read_live_page, 0.05),
    "comparison": Specimen(_make_comparison, _read_comparison, 0.15, "TRIALS"),
    "comparison, stopped": Specimen(_make_stopped_comparison, _read_comparison, 0.4, "TRIALS"),
    "comparison, page": Specimen(_make_comparison, _read_page, 0.1, "TRIALS"),
    "sweep, page": Specimen(_make_sweep, _read_page, 0.1, "TRIALS"),
    "studies, page": Specimen(_make_reproduced, _read_page, 0.1, "STUDIES"),
    "result": Specimen(_make_result, _read_result, 3, "a result"),
    "torch log": Specimen(_make_log, _read_log, 3, "a log"),
}
if find_spec("torch") is None:
    del SPECIMENS["torch log"]
COMPILES_NOTHING = [name for name in SPECIMENS if name.endswith("page")]
COMPILES_NOTHING += ["policy", "study", "result"]


# --- promises ------------------------------------------------------------------------------------


class Promise(NamedTuple):
    """A row of the table in docs/security.md.

    Attributes:
        file: The file, such as ``RUN/config.json``.
        damaged: What happens if it is damaged: ``refused``, ``made again`` or ``left out``.
    """

    file: str
    damaged: str


@functools.cache
def promises() -> list[Promise]:
    """Read the table of files from docs/security.md."""
    text = PAGE.read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    start = next(i for i, row in enumerate(rows) if row[:1] == ["file"])
    table: list[Promise] = []
    for row in rows[start + 2 :]:
        if not row:
            break
        table.append(Promise(row[0].strip("`"), row[-1]))
    assert {promise.damaged for promise in table} == {"refused", "made again", "left out"}
    return table


def promise_of(kind: str, name: str) -> Promise | None:
    """Return the row for a file of a specimen; ``None`` if there is none.

    Args:
        kind: The kind of its folder.
        name: The path in that folder.
    """
    name = re.sub(r"(^|/)\.([^/]+)\.new$", r"\1\2", name)  # while it is written
    for promise in promises():
        if kind == promise.file.partition(",")[0].partition(" of ")[0]:
            return promise
        folder, slash, pattern = promise.file.partition("/")
        if kind == "STUDY" and folder == "STUDIES":  # one study of such a folder
            folder, pattern = kind, pattern.removeprefix("*/")
        if folder == "PAGE":
            folder, pattern = kind, f"report/{pattern}" if kind == "RUN" else pattern
        if slash and folder == kind and fnmatch.fnmatch(name, pattern):
            return promise
    return None


def unlisted(kind: str, folder: Path) -> list[str]:
    """Return the files in a folder that docs/security.md does not list."""
    names = [str(p.relative_to(folder)) for p in sorted(folder.rglob("*")) if not p.is_dir()]
    return [name for name in names if promise_of(kind, name) is None]


# --- damage --------------------------------------------------------------------------------------


class Place(NamedTuple):
    """The folder of a case, and what damaging it needs.

    Attributes:
        folder: A copy of a specimen, to be damaged.
        stale: The same files of another run.
        outside: A folder beside it that must not be changed, with a file ``victim``.
        rng: A generator for the choices.
        touched: The damaged files.
    """

    folder: Path
    stale: Path
    outside: Path
    rng: random.Random
    touched: list[Path]

    def files(self) -> list[Path]:
        found = (p for p in self.folder.rglob("*") if p.is_file() and p.name != ".lock")
        return sorted(found)

    def file(self) -> Path:
        """Choose a kind of file, then a file of that kind, so that all kinds are equally likely."""
        groups: dict[str, list[Path]] = {}
        for path in self.files():
            groups.setdefault(f"{path.parent.name}/{path.name}"[-14:], []).append(path)
        path = self.rng.choice(groups[self.rng.choice(sorted(groups))])
        self.touched.append(path)
        return path


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
    """Change one digit, so that everything can still be parsed."""
    path = at.file()
    data = bytearray(path.read_bytes())
    digits = [i for i, byte in enumerate(data[:200_000]) if 0x30 <= byte <= 0x39]
    if digits:
        where = at.rng.choice(digits)
        data[where] = 0x30 + (data[where] - 0x30 + at.rng.randint(1, 9)) % 10
    path.write_bytes(data)


def _value(at: Place) -> None:
    """Change a value of a JSON file."""
    path = at.rng.choice([p for p in at.files() if p.suffix in (".json", ".jsonl")] or at.files())
    at.touched.append(path)
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
    """Extend a file to many gigabytes, without using space on the disk."""
    os.truncate(at.file(), at.rng.choice((1 << 33, 1 << 40)))


def _link(at: Place) -> None:
    """Replace a file by a link: to another or an endless file, a folder, itself, or nothing."""
    path = at.file()
    aim = at.rng.choice(("victim", "same", "/dev/zero", "/dev/full", ".", "missing", path.name))
    if aim == "same":
        shutil.copy(path, at.outside / "same")
    path.unlink()
    inside = aim.startswith("/") or aim in (".", path.name)
    path.symlink_to(aim if inside else at.outside / aim)


def _link_aside(at: Place) -> None:
    """Put a link where a command writes, or writes a temporary file or a lock."""
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
    """Replace a folder by a link to one outside."""
    folders = sorted(p for p in at.folder.rglob("*") if p.is_dir())
    if not folders:
        return _link(at)
    path = at.rng.choice(folders)
    shutil.move(path, at.outside / "moved")
    path.symlink_to(at.outside / "moved")
    return None


def _removed(at: Place) -> Path:
    """Remove a file or the lock, and return its path."""
    path = at.file() if at.rng.random() < 0.9 else at.folder / ".lock"
    path.unlink(missing_ok=True)
    return path


def _pipe(at: Place) -> None:
    os.mkfifo(_removed(at))


def _folder(at: Place) -> None:
    _removed(at).mkdir()


def _hard_link(at: Place) -> None:
    """Replace a file, or its temporary file, by a hard link to a file outside."""
    path = at.file()
    path = at.rng.choice((path, path.with_name(f".{path.name}.new")))
    path.unlink(missing_ok=True)
    os.link(at.outside / "victim", path)


def _full(at: Place) -> None:
    """The disk is full; :func:`run_case` fills it."""
    at.touched.append(at.folder)


def _long_name(at: Place) -> None:
    """Make a string in a JSON file very long."""
    path = at.rng.choice([p for p in at.files() if p.suffix in (".json", ".jsonl")] or at.files())
    at.touched.append(path)
    if path.suffix != ".json":
        return _flip(at)
    found = json.loads(path.read_bytes())
    texts = [(where, key) for where, key in _leaves(found) if isinstance(where[key], str)]
    if texts:
        where, key = at.rng.choice(texts)
        where[key] = "x" * at.rng.choice((60_000, 1_000_000))
    if isinstance(found, dict) and "sha256" in found:
        found["sha256"] = checksum(found)
    path.write_text(json.dumps(found))
    return None


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
    "a hard link for a file": (_hard_link, 1.5),
    "a full disk": (_full, 1),
}


# --- forgery -------------------------------------------------------------------------------------

NAMES = (f"{CANARY}:evil", "builtins:exec", "os:system", "this:s", f"{CANARY}:Evil-v0", "../../x")
NONSENSE: tuple[Any, ...] = (
    *(0, 1, -1, 3, 2**31, 10**9, 10**18, 10**400, 0.5, -0.0, 1e308, 5e-324, "inf", "nan", "-inf"),
    *(None, True, False, "", "x" * 1000, [], {}, [[]], {"given": "x"}, [10**9] * 4, "\ud800"),
    *({"kind": name} for name in NAMES),
    *("\x1b]0;owned\x07", "\u202e", {"jax": "x"}, {"\x1b[2J": 1}),
    *({"scipy": name, "args": [], "keywords": {}} for name in ("norm", "rv_discrete", "__doc__")),
    *NAMES,
)


def _leaves(found: Any) -> Iterator[tuple[Any, Any]]:
    """All pairs of a container in a JSON value and a key of that container."""
    items = found.items() if isinstance(found, dict) else enumerate(found)
    for key, value in list(items):
        yield found, key
        if isinstance(value, dict | list):
            yield from _leaves(value)


def _change(found: Any, rng: random.Random) -> None:
    """Replace, remove or add an entry of a JSON value."""
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
    """Change ``config.json`` and correct its checksum."""
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
    if at.rng.random() < 0.7:  # otherwise the checkpoint does not match the configuration
        for name in ("checkpoint", "checkpoint.previous"):
            (at.folder / name).unlink(missing_ok=True)
    return None


def _forge_container(at: Place) -> None:
    """Change the header of a checkpoint, of arrays or of a policy, and correct its checksum."""
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
    if what < 0.2 and header["arrays"]:  # claim an array of many gigabytes
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


def _forge_json(at: Place) -> None:
    """Change a JSON file, or the header of a log, and correct its checksum."""
    logs = [p for p in at.files() if p.suffix == ".log"]
    if logs:
        return _forge_log(logs[0], at.rng)
    paths = [p for p in at.files() if p.suffix == ".json"]
    if not paths:
        return _forge_container(at)
    path = at.rng.choice(paths)
    found = json.loads(path.read_bytes())
    for _ in range(at.rng.choice((1, 1, 2))):
        _change(found, at.rng)
    if isinstance(found, dict) and "sha256" in found:
        with contextlib.suppress(UnicodeError):
            found = seal({name: v for name, v in found.items() if name != "sha256"})
    path.write_text(json.dumps(found))
    return None


def _forge_log(path: Path, rng: random.Random) -> None:
    magic, rest = path.read_bytes().split(b"\n", 1)
    line, records = rest[4:].split(b"\n", 1)
    found = json.loads(line)
    _change(found, rng)
    text = json.dumps(found).encode()
    path.write_bytes(magic + b"\n" + struct.pack("<I", zlib.crc32(text)) + text + b"\n" + records)


def _sealed(header: bytes, body: bytes, version: int) -> bytes:
    start = 32 + len(header)
    gap = -start % 64
    length = start + gap + len(body)
    preamble = struct.pack("<8sIIQQ", MAGIC, version, zlib.crc32(header), len(header), length)
    return preamble + header + bytes(gap) + body


FORGERY: dict[str, tuple[Callable[[Place], None], float]] = {
    "forged configuration": (_forge_config, 6),
    "forged header": (_forge_container, 6),
    "forged JSON": (_forge_json, 6),
    "a long name": (_long_name, 1),
}


# --- a case --------------------------------------------------------------------------------------


class Deadline(BaseException):
    """The time of a case is up."""


class Case(NamedTuple):
    """A damaged or forged specimen, with the outcome (such as ``detected``) and any problem.

    ``compiled`` is the number of functions that Numba compiled, if the process had compiled none.
    """

    number: int
    specimen: str
    what: str
    forged: bool
    outcome: str
    problem: str = ""
    compiled: int = 0


class Compilations(event.Listener):
    """Counts what Numba compiles in this process; a load from the cache does not count."""

    def __init__(self) -> None:
        self.count = 0
        event.register("numba:compile", self)

    def on_start(self, _: event.Event) -> None:
        self.count += 1

    def on_end(self, _: event.Event) -> None:
        pass


def compiled_here() -> list[str]:
    """Return the names of the functions that this process has compiled or loaded."""
    found = [o for o in gc.get_objects() if isinstance(o, Dispatcher) and o.overloads]
    return sorted(dispatcher.py_func.__qualname__ for dispatcher in found)


class Watch:
    """The audit hook: records forbidden events while a folder is read."""

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
        folder, self.folder = self.folder, None  # events of the hook itself do not count
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
            # A file may set the number of our own workers, up to a limit.
            self.workers += 1
            return f"starts {self.workers} workers" if self.workers > cores() else ""
        if event == "code.__new__" and _caller()[0].endswith("experiments/workers.py"):
            return ""  # see below
        if event in _SPAWNS:
            return f"{event} {str(args)[:80]}"
        if event in ("exec", "pickle.find_class"):  # Numba and dataclasses do so too
            caller = sys._getframe(2).f_code.co_filename
            # Compare full paths: Numba may be installed in a clone called gensmooth. A study
            # pickles and unpickles its function in memory, independent of any file.
            ours = caller.startswith(OUR_FOLDER) and not caller.endswith("experiments/workers.py")
            return f"{event} in {caller}" if ours else ""
        if event == "open":
            return self._open(args, folder)
        if event not in _WRITES:
            return ""
        caller, packages = _caller()
        if caller == __file__:
            return ""  # this program itself
        cached = [os.fsdecode(p) for p in args if isinstance(p, str | bytes | os.PathLike)]
        if packages & {"numba", "llvmlite"} and all(p.startswith(_CACHES) for p in cached):
            return ""  # Numba's cache, which grows when something is compiled
        if event in ("os.remove", "os.rmdir") and args[1] >= 0:  # a folder's handle: rmtree's
            args = (os.path.join(os.readlink(f"/proc/self/fd/{args[1]}"), args[0]),)
        return self._outside(event, args, folder)

    def _open(self, args: tuple[Any, ...], folder: str) -> str:
        """Judge an open by its caller, its file, and whether it may write."""
        path, _, flags = args
        if not isinstance(path, str | bytes | os.PathLike):
            return ""
        full = os.path.abspath(os.fsdecode(path))
        caller, packages = _caller()
        if caller == __file__ or (caller == MECHANISM and "shutil" in packages):
            return ""  # this program; or the removal of a folder, which opens folders by handle
        writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        room = os.path.dirname(folder)
        if full == room or full.startswith(room + os.sep):
            return "" if caller == MECHANISM else f"{full} was opened by {caller}"
        if packages & {"numba", "llvmlite"} and full.startswith(_CACHES):
            return ""
        if (flags or 0) & writes:
            return "" if full == os.devnull else f"{full} was opened for writing by {caller}"
        return "" if full.startswith(_OF_PYTHON) else f"{full} was opened by {caller}"

    @staticmethod
    def _outside(event: str, paths: Any, folder: str) -> str:
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike):
                full = os.path.abspath(os.fsdecode(path))
                if not full.startswith(folder) and "__pycache__" not in full:
                    return f"{event} {full}"
        return ""


def _caller() -> tuple[str, set[str]]:
    """Return the innermost of our files on the stack, and the packages that it calls."""
    packages: set[str] = set()
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not Watch.__call__.__code__:
        frame = frame.f_back
    frame = None if frame is None else frame.f_back  # the caller of the hook
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(OUR_FOLDER) or name == __file__:
            return name, packages
        packages.add(str(frame.f_globals.get("__name__")).partition(".")[0])
        frame = frame.f_back
    return "a thread", packages


def _folders(*paths: str | None) -> tuple[str, ...]:
    absolute = {os.path.abspath(path) for path in paths if path}
    return tuple(sorted(absolute | {os.path.realpath(path) for path in absolute}))


# Where Numba keeps compiled code: beside the modules, or in NUMBA_CACHE_DIR.
_CACHES = _folders(os.environ.get("NUMBA_CACHE_DIR"), OUR_FOLDER, *sys.path[1:])
# Where a process may read in any case: Python, its packages, fonts, and the system.
_OF_PYTHON = (
    *_folders(sys.prefix, sys.base_prefix, OUR_FOLDER, *sys.path[1:], str(Path(__file__).parent)),
    *_folders(os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("MPLCONFIGDIR")),
    *(
        str(Path.home() / name)
        for name in (".cache/matplotlib", ".config/matplotlib", ".matplotlib")
    ),
    *("/proc/", "/sys/", "/dev/null", "/dev/urandom", "/usr/share/", "/usr/lib/", "/etc/", "/lib"),
)
_SPAWNS = {"os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "pty.spawn"}
_SPAWNS |= {"socket.connect", "os.spawn", "code.__new__", "ctypes.dlopen"}
_WRITES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.symlink", "os.link"}
_WRITES |= {"os.truncate", "os.chmod", "shutil.rmtree", "shutil.move", "shutil.copyfile"}


def _snapshot(folder: Path) -> dict[str, Any]:
    """The contents of a folder by name; for large files their size."""
    contents: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            contents[name] = f"-> {os.readlink(path)}"
        elif path.is_file() and name != ".lock":
            small = path.stat().st_size < 1 << 24
            contents[name] = path.read_bytes() if small else path.stat().st_size
    return contents


def _without_place(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a comparison says about where it is: each case is a copy elsewhere."""
    told = found.get("comparison.json")
    if not isinstance(told, bytes):
        return found
    lines = [line for line in told.splitlines() if not line.startswith(_OF_PLACE)]
    return {**found, "comparison.json": lines}


_OF_PLACE = (b' "command": ', b' "sha256": ')  # the latter is of the whole file


def _plan(number: int, seed: int) -> tuple[str, str, bool, random.Random]:
    rng = random.Random(f"{seed}/{number}")
    name = rng.choices(list(SPECIMENS), [s.weight for s in SPECIMENS.values()])[0]
    forged = rng.random() < 0.3
    table = FORGERY if forged else DAMAGE
    what = rng.choices(list(table), [weight for _, weight in table.values()])[0]
    return name, what, forged, rng


def run_case(
    number: int,
    seed: int,
    *,
    where: Path,
    expected: dict[str, str],
    watch: Watch,
    cold: bool = False,
) -> Case:
    """Damage or forge a copy of a specimen, read it, judge the outcome, and clean up."""
    name, what, forged, rng = _plan(number, seed)
    room = _room(where, number, what)
    folder, outside = room / "folder", room / "outside"
    shutil.copytree(where / "specimens" / name, folder, symlinks=True)
    outside.mkdir()
    (outside / "victim").write_bytes(b"precious\n" * 50)
    place = Place(folder, where / "stale" / name, outside, rng, [])
    (FORGERY if forged else DAMAGE)[what][0](place)
    before, beside = _snapshot(folder), _snapshot(outside)
    outcome, problem = "", ""
    watch.seen, watch.workers = [], 0
    LOGGED.clear()
    seconds = (FORGED_DEADLINE if forged else DEADLINE) + (COMPILING if cold else 0)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(BUSY * seconds)
    full = what == "a full disk"
    try:
        space = rng.choice((0, 100, 4096, 20_480))
        with _full_disk(room.parent, space) if full else contextlib.nullcontext():
            watch.folder = folder
            digest = SPECIMENS[name].read(folder)
            watch.folder = None
    except Deadline:
        outcome = "still running" if forged else "hung"
        problem = "" if forged else "hung"
    except Exception as error:
        watch.folder = None
        outcome, problem = _judge(error, folder, None if full else before)
    else:
        same = digest == expected[name]
        shown = not same and (
            _may_be_left_out(name, place)
            or (what == "a file of another run" and place.touched[-1].name in ALONE)
            or bool(LOGGED and _may_be_logged(name, full))
        )
        outcome = "recovered" if same else "used" if forged or shown else "silent"
        damaged = ", ".join(str(path.relative_to(folder)) for path in place.touched)
        problem = "" if same or forged or shown else f"a wrong result without a word ({damaged})"
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


@contextlib.contextmanager
def _full_disk(disk: Path, space: int) -> Iterator[None]:
    """Leave this many bytes free on the disk; if none is mounted, limit the size of files."""
    if os.path.ismount(disk):
        filler, free = disk / "filler", os.statvfs(disk)
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_frsize - space))
        try:
            yield
        finally:
            filler.unlink()
        return
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (space, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextlib.contextmanager
def _small_disk(disk: Path) -> Iterator[None]:
    """Mount a small file system, if this user may."""
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    mounted = shutil.which("mount") and not subprocess.run(words, capture_output=True).returncode
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(disk)], check=True)


def _room(where: Path, number: int, what: str) -> Path:
    """Return the folder of a case: on the small disk, if it will be full."""
    return (where / "disk" if what == "a full disk" else where) / f"case-{number}"


# Files that belong to no run: one of them in place of another is valid.
ALONE = ("policy", "best.json", "run.log", "comparison.json", "reproduce.json")


def _may_be_logged(name: str, full: bool) -> bool:
    """Whether a log message suffices: for a full disk, or for runs that a page leaves out."""
    return full or name in ("comparison, page", "sweep, page", "studies, page")


def _may_be_left_out(name: str, place: Place) -> bool:
    """Whether results depend on none of the damaged files."""
    kind = SPECIMENS[name].kind
    rows = [promise_of(kind, str(p.relative_to(place.folder))) for p in place.touched]
    return bool(rows) and all(row is not None and row.damaged == "left out" for row in rows)


def _judge(error: Exception, folder: Path, before: dict[str, Any] | None) -> tuple[str, str]:
    """Judge an error: it must be a plain one of ours, and leave the folder unchanged."""
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
    if words != printable(words, lines=True):
        return "detected", f"the error sends control characters to the terminal: {words!r}"
    if (
        before is not None
        and isinstance(error, CheckpointError)
        and _without_place(_snapshot(folder)) != _without_place(before)
    ):
        return "detected", f"detected, but the folder was changed: {words}"
    return "detected", ""


# --- many cases ----------------------------------------------------------------------------------


def _child(where: Path, first: int, last: int, seed: int, cache: Path | None) -> None:
    """Run cases, and print one line of JSON for each.

    Args:
        where: The folder of the specimens.
        first: The number of the first case.
        last: The number after that of the last case.
        seed: The seed.
        cache: Numba's cache, which is emptied from time to time; ``None`` for a warm one.
    """
    warnings.simplefilter("ignore")
    results, sys.stdout = sys.stdout, sys.stderr  # commands print too
    import logging

    expected, modules = json.loads((where / "expected.json").read_text())
    for name in modules:  # imported here, so not because of a file
        with contextlib.suppress(Exception):
            importlib.import_module(name)

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            LOGGED.append(record.getMessage())

    log = logging.getLogger("gensmooth")
    log.addHandler(Keep())
    log.propagate = False
    sys.path.insert(0, str(where / "modules"))
    names = SPECIMENS if cache is None else COMPILES_NOTHING
    found = {name: _read_undamaged(name, where) for name in names}
    wrong = [name for name in names if found[name] != expected[name]]
    assert not wrong, f"undamaged specimens give wrong results: {wrong}"
    if cache is not None:
        saved = [path for path in cache.rglob("*") if path.is_file()]
        assert not saved, "the process that is forked has saved compiled functions"
        names = compiled_here()
        assert not names, f"the process that is forked has compiled {names}"
        numba.njit(_sum)(np.ones(3))  # loads the compiler, and saves nothing

    def up(*_: object) -> None:
        raise Deadline

    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, up)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    watch = Watch()
    run = functools.partial(run_case, where=where, expected=expected, watch=watch)
    compilations = Compilations()
    for number in range(first, last):
        if cache is None:
            print(json.dumps(run(number, seed)), flush=True, file=results)
            continue
        if number == first or number % EMPTIED == 0:
            shutil.rmtree(cache)
            cache.mkdir()
        if process := os.fork():
            if status := os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]):
                sys.exit(f"the fork ended with {status}")
            continue
        try:
            case = run(number, seed, cold=True)._replace(compiled=compilations.count)
            print(json.dumps(case), flush=True, file=results)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)


def _read_undamaged(name: str, where: Path) -> str:
    room = where / "undamaged"
    shutil.copytree(where / "specimens" / name, room)
    digest = SPECIMENS[name].read(room)
    shutil.rmtree(room)
    return digest


def _sum(x: Any) -> float:
    total = np.zeros(1)
    for i in range(len(x)):
        total[0] += max(x[i], 0.0)
    return total[0]


def prepare(where: Path) -> None:
    """Make the specimens, the stale ones, the results of reading, and a list of modules."""
    for kind, seed in (("specimens", 0), ("stale", 1)):
        (where / kind).mkdir()
        for name, specimen in SPECIMENS.items():
            specimen.make(where / kind / name, seed)
            if missing := unlisted(specimen.kind, where / kind / name):
                raise RuntimeError(f"docs/security.md does not list {missing} of {name}.")
    whole = where / "whole"
    gs.minimize(
        *(loss, np.zeros(6)),
        optimizer=gs.adam(0.1),
        bounds=(-4, 4),
        seed=0,
        folder=whole,
        **SMALL,
    )
    import scipy.stats  # noqa: F401  -- some forged files name a distribution

    expected = {name: _read_undamaged(name, where) for name in SPECIMENS}
    assert expected["minimize"] == _read_run(whole), "an interrupted run gives another result"
    modules = [name for name in sys.modules if name != "__main__"]
    (where / "expected.json").write_text(json.dumps([expected, modules]))
    (where / "modules").mkdir()
    (where / "modules" / f"{CANARY}.py").write_text(
        "import pathlib\n(pathlib.Path(__file__).parent / 'touched').touch()\n"
        "def evil(*_):\n    return 0.0\n"
    )


def fuzz(numbers: range, seed: int, where: Path, *, cold: bool = False) -> Iterator[Case]:
    """Run cases in child processes, which are replaced when they die."""
    prepare(where)
    first = numbers.start
    while first < numbers.stop:
        words = [sys.executable, "-m", "benchmarks.fuzz_files", "--child", str(where)]
        words += ["--range", str(first), str(numbers.stop), "--seed", str(seed)]
        log = (where / "log").open("w+b")
        environment = dict(os.environ)
        if cold:
            cache = environment["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="numba-", dir=where)
            words += ["--cache", cache]
        with (
            log,
            subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=log, env=environment, start_new_session=True
            ) as child,
        ):
            try:
                for line in _lines(child):
                    case = Case(*json.loads(line))
                    first = case.number + 1
                    yield case
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)  # and the fork of a cold case
                child.wait()
            if first < numbers.stop:
                log.seek(0)
                end = log.read().decode(errors="replace").strip().splitlines()[-1:]
                name, what, forged, _ = _plan(first, seed)
                problem = f"the process died ({child.returncode}): {''.join(end)[:300]}"
                room = _room(where, first, what)
                if not room.exists():
                    raise RuntimeError(f"The child cannot begin: {problem}")
                shutil.rmtree(room)
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


def _earlier(out: Path | None, command: str) -> dict[str, Any] | None:
    """Return what the same command has written before."""
    if out is None or not out.is_file():
        return None
    earlier = json.loads(out.read_text())
    if earlier["command"] != command:
        return None
    made = f"{earlier['cases']:,} of {earlier['planned']:,} cases"
    print(f"{out} has {made}; to repeat them, remove it.")
    return earlier


def joined(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Return the results of two pieces as those of one.

    >>> one = {"commit": "a1", "minutes": 2.0, "cases": 1, "specimens": {"policy": 1}}
    >>> one |= {"rows": [{"what": "cut", "cases": 1, "outcomes": {"used": 1}, "problems": 0}]}
    >>> both = joined(one | {"problems": []}, one | {"commit": "b2", "problems": []})
    >>> both["commit"], both["cases"], both["rows"][0]["outcomes"], both["specimens"]
    ('a1, b2', 2, {'used': 2}, {'policy': 2})
    """
    rows = {row["what"]: row for row in earlier["rows"]}
    for row in later["rows"]:
        before = rows.get(row["what"], {"cases": 0, "outcomes": {}, "problems": 0})
        rows[row["what"]] = row | {
            "cases": before["cases"] + row["cases"],
            "outcomes": dict(Counter(before["outcomes"]) + Counter(row["outcomes"])),
            "problems": before["problems"] + row["problems"],
        }
    commits = dict.fromkeys([*earlier["commit"].split(", "), later["commit"]])
    order = [what for what in (*DAMAGE, *FORGERY) if what in rows]
    if "compiled" in later:
        compiled = Counter(earlier["compiled"]) + Counter(later["compiled"])
        later = later | {"compiled": dict(compiled)}
    return later | {
        "commit": ", ".join(commits),
        "minutes": round(earlier["minutes"] + later["minutes"], 1),
        "cases": earlier["cases"] + later["cases"],
        "specimens": dict(Counter(earlier["specimens"]) + Counter(later["specimens"])),
        "rows": [rows.pop(what) for what in order] + list(rows.values()),
        "problems": earlier["problems"] + later["problems"],
    }


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz_files", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--cold", action="store_true", help="begin with an empty Numba cache")
    parser.add_argument("--only", type=int, help="this case alone")
    parser.add_argument("--out", type=Path, help="write the result to this JSON file")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--range", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return _child(options.child, *options.range, options.seed, options.cache)
    before, began = commit(), time.monotonic()
    command = f"python -m benchmarks.fuzz_files {' '.join(sys.argv[1:])}".strip()
    earlier = _earlier(options.out, command) if options.only is None else None
    done = 0 if earlier is None else earlier["cases"]
    numbers = range(options.first + done, options.first + options.cases)
    if options.only is not None:
        numbers = range(options.only, options.only + 1)
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # faster than a disk
    found: list[Case] = []
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory) as folder,
        _small_disk(Path(folder) / "disk"),
    ):
        try:
            for case in fuzz(numbers, options.seed, Path(folder), cold=options.cold):
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
        report = {
            "date": date.today().isoformat(),
            "commit": before,
            "command": command,
            "machine": machine(["numpy", "numba"]),
            "minutes": round((time.monotonic() - began) / 60, 1),
            "cases": len(found),
            "planned": options.cases if options.only is None else 1,
            "cache": "cold" if options.cold else "warm",
            "specimens": dict(Counter(case.specimen for case in found)),
            "rows": rows,
            "problems": [case._asdict() for case in wrong],
        }
        if options.cold:
            compiled = [case.compiled for case in found if case.compiled]
            report["compiled"] = {"cases": len(compiled), "functions": sum(compiled)}
        report = report if earlier is None else joined(earlier, report)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
        print(f"wrote {options.out}")
    if wrong:
        sys.exit(1)
    if len(found) < len(numbers):
        sys.exit(130)
    return None


if __name__ == "__main__":
    main()
