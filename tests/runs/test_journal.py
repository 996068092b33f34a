"""The journal: a value that an evaluation has returned is never computed again."""

import contextlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

import gensmooth as gs
import journal_runs
from gensmooth.evaluators import Evaluated, Objective
from gensmooth.runs import journal
from gensmooth.runs.journal import Journal
from patience import wait_until

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and forks are POSIX's")


def counts(path):
    return Counter(path.read_text().splitlines() if path.exists() else [])


def again(path, whole, word):
    """How often something was done again, compared with an uninterrupted run."""
    more = counts(path)
    more.subtract(counts(whole))
    assert min(more.values()) >= 0, "an evaluation of the uninterrupted run is missing"
    return sum(count for line, count in more.items() if line.startswith(word))


def start(kind, folder, output):
    """A process that makes a run; what it starts can be killed with it."""
    line = [sys.executable, journal_runs.__file__, kind, str(folder)]
    with output.open("w") as file:
        return subprocess.Popen(line, stdout=file, start_new_session=True)


@POSIX
@pytest.mark.parametrize(
    ("kind", "at_a_time", "most"),
    [
        ("serial", 1, 8),
        ("pilot", 1, 8),
        ("threads", 3, 8),
        ("processes", 3, 3),
        ("train", 1, 4),
        pytest.param("ray", 2, 2, marks=pytest.mark.extended("faults on a Ray cluster")),
    ],
)
def test_kills_lose_no_value(kind, at_a_time, most, tmp_path, monkeypatch):
    """Each evaluation is computed once; those in progress at a kill, once more."""
    if kind in ("train", "ray"):
        pytest.importorskip("gymnasium" if kind == "train" else "ray")
    monkeypatch.setenv("COUNTS", str(tmp_path / "notes"))
    rng, kills, status = random.Random(kind), 0, -1
    notes, whole = tmp_path / "notes", tmp_path / "whole notes"
    assert start(kind, tmp_path / "whole", tmp_path / "expected").wait() == 0
    notes.rename(whole)
    while status:
        child = start(kind, tmp_path / "run", tmp_path / "output")
        if kills < most:
            enough = sum(counts(notes).values()) + rng.randrange(1, 35)
            wait_until(
                lambda enough=enough, child=child: (
                    sum(counts(notes).values()) >= enough or child.poll() is not None
                )
            )
            time.sleep(rng.uniform(0.0, 0.03))
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.killpg(child.pid, signal.SIGKILL)
        status = child.wait()
        assert status in (0, -signal.SIGKILL)
        kills += status != 0
    assert kills >= most // 2
    assert (tmp_path / "output").read_text() == (tmp_path / "expected").read_text()
    assert again(notes, whole, "began") <= kills * at_a_time
    assert not (tmp_path / "run" / "journal").exists()  # the run has ended


def slow(x):
    time.sleep(0.012)
    return float(((x - 1) ** 2).sum())


class BrokenError(Exception):
    """Raised by an objective, once."""


def broken_after(number):
    calls = []

    def fun(x):
        calls.append(x)
        if len(calls) == number:
            raise BrokenError
        return slow(x)

    return fun, calls


class Custom:
    """A custom evaluator, as docs/evaluators.md shows one."""

    workers = 1

    def session(self, _, objective):
        from contextlib import nullcontext

        self.objective = objective
        return nullcontext(self)

    def evaluate(self, _, batch):
        values = [self.objective.value(batch, i) for i in reversed(range(len(batch)))]
        return Evaluated(np.array(values[::-1]), {})


HOW = {"method": "gs", "num_directions": 9, "budget": 45, "seed": 0}


@pytest.mark.parametrize(
    "workers",
    [1, gs.evaluators.Threads(2), map, Custom()],
    ids=["serial", "threads", "map", "custom"],
)
def test_a_failed_run_continues_with_the_values_of_its_last_step(workers, tmp_path, caplog):
    fun, calls = broken_after(17)
    with pytest.raises(gs.evaluators.EvaluationError):
        gs.minimize(fun, np.zeros(4), folder=tmp_path, workers=workers, **HOW)
    result = gs.minimize(fun, np.zeros(4), folder=tmp_path, workers=workers, **HOW)
    assert result.nfev <= len(calls) <= result.nfev + 2
    plain = gs.minimize(slow, np.zeros(4), **HOW)
    assert (result.x == plain.x).all()
    assert (result.history.value == plain.history.value).all()
    assert "damaged" not in caplog.text


@pytest.mark.parametrize("workers", [1, map, Custom()], ids=["serial", "map", "custom"])
def test_a_call_that_is_suddenly_slow_is_recorded_when_it_returns(workers, tmp_path):
    """All calls are quick except the 15th, and the 16th ends the run."""
    calls = []

    def fun(x):
        calls.append(x)
        if len(calls) == 15:
            return slow(x)
        if len(calls) == 16:
            raise BrokenError
        return float(((x - 1) ** 2).sum())

    with pytest.raises(gs.evaluators.EvaluationError):
        gs.minimize(fun, np.zeros(4), folder=tmp_path, workers=workers, **HOW)
    again = calls[14]
    del calls[:]
    calls += [again] * 16
    result = gs.minimize(fun, np.zeros(4), folder=tmp_path, workers=workers, **HOW)
    assert not any((x == again).all() for x in calls[16:])
    assert (result.x == gs.minimize(slow, np.zeros(4), **HOW).x).all()


def test_dropped_evaluations_are_recorded_too(tmp_path):
    """A failed evaluation may have taken as long as any other."""

    def fun(x):
        calls.append(x)
        if stop and len(calls) == stop:
            raise KeyboardInterrupt
        return float("nan") if x[0] > 0.05 else slow(x)

    how = {**HOW, "on_failure": "drop", "min_fraction": 0.1, "workers": map}
    calls, stop = [], 0
    plain = gs.minimize(fun, np.zeros(4), **how)
    calls, stop = [], 16
    part = gs.minimize(fun, np.zeros(4), folder=tmp_path, **how)
    assert part.reason == "interrupted"
    stop = 0
    result = gs.minimize(fun, np.zeros(4), folder=tmp_path, **how)
    assert (result.x == plain.x).all()
    assert result.faults == plain.faults
    assert len(calls) <= result.nfev + 2


def test_failures_that_ended_a_run_are_evaluated_again(tmp_path):
    """The user has fixed the objective meanwhile."""
    broken = True

    def fun(x):
        return float("nan") if broken else slow(x)

    how = {**HOW, "on_failure": "drop"}
    with pytest.raises(gs.evaluators.EvaluationError):
        gs.minimize(fun, np.zeros(4), folder=tmp_path, **how)
    broken = False
    result = gs.minimize(fun, np.zeros(4), folder=tmp_path, **how)
    assert (result.x == gs.minimize(slow, np.zeros(4), **HOW).x).all()
    assert result.faults == {}


@pytest.fixture
def interrupted(tmp_path):
    """The folder of a run that was interrupted after 16 evaluations, and its last journal."""
    fun, _ = broken_after(17)
    with pytest.raises(gs.evaluators.EvaluationError):
        gs.minimize(fun, np.zeros(4), folder=tmp_path / "run", **HOW)
    return tmp_path / "run"


def resumed(folder):
    """The calls that a resumed run makes."""
    fun, calls = broken_after(0)
    result = gs.minimize(fun, np.zeros(4), folder=folder, **HOW)
    assert (result.x == gs.minimize(slow, np.zeros(4), **HOW).x).all()
    return len(calls)


@pytest.mark.parametrize("damage", ["cut", "flipped", "first", "zeros", "other", "empty"])
def test_damage_is_detected_and_costs_only_what_follows_it(damage, interrupted, caplog):
    path = interrupted / "journal"
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[-3:]
    elif damage == "flipped":
        data[-3] ^= 4
    elif damage == "first":
        data[9] ^= 1
    elif damage == "zeros":
        data += bytes(1000)
    elif damage == "other":
        data = data.replace(data[13:29], b"0123456789abcdef")
    else:
        data.clear()
    path.write_bytes(data)
    calls = resumed(interrupted)
    assert ("incomplete or damaged" in caplog.text) == (damage != "empty")
    expected = {"cut": 26, "flipped": 26, "zeros": 25}
    assert calls == expected.get(damage, 31)  # of 41: 10 are in the checkpoint, 6 in the journal


def test_the_journal_of_another_run_is_called_that(interrupted, caplog):
    path = interrupted / "journal"
    length = int.from_bytes(path.read_bytes()[:4], "little")
    other = journal._framed(path.read_bytes()[8 : 8 + length - 1] + b"x")
    path.write_bytes(other + path.read_bytes()[8 + length :])
    assert resumed(interrupted) == 31
    assert "is the journal of another run, and is ignored" in caplog.text


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_a_number_is_computed_again(value, interrupted):
    """It was not written by us: values that are not finite are not recorded."""
    path = interrupted / "journal"
    record = journal._VALUES.pack(b"V", 0) + struct.pack("<d", value)
    path.write_bytes(path.read_bytes() + journal._framed(record))
    assert resumed(interrupted) == 26


@pytest.mark.parametrize("kind", ["x" * 1000, "\x1b[2J"])
def test_a_forged_fault_is_not_shown(kind, interrupted, caplog):
    path = interrupted / "journal"
    record = b"F" + json.dumps({"faults": {kind: 1}, "dropped": []}).encode()
    path.write_bytes(path.read_bytes() + journal._framed(record))
    assert resumed(interrupted) == 25
    assert "incomplete or damaged" in caplog.text


@POSIX
@pytest.mark.parametrize("what", ["link", "pipe", "hard link", "folder"])
def test_a_journal_that_is_not_a_file_of_ours_is_left_alone(what, interrupted, tmp_path, caplog):
    path, other = interrupted / "journal", tmp_path / "other"
    shutil.copy(path, other)
    before = other.read_bytes()
    path.unlink()
    if what == "link":
        path.symlink_to(other)
    elif what == "hard link":
        path.hardlink_to(other)
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert resumed(interrupted) == (25 if what == "hard link" else 31)
    assert other.read_bytes() == before
    assert (what == "hard link") == ("cannot be read" not in caplog.text)


def test_cheap_evaluations_write_no_journal(tmp_path, monkeypatch):
    monkeypatch.setattr("gensmooth.runs.journal.SLOW", 60.0)
    monkeypatch.setattr("gensmooth.evaluators.objective.SLOW", 60.0)
    names = []
    gs.minimize(
        lambda x: float(x @ x),
        np.ones(4),
        folder=tmp_path,
        callback=lambda *_: names.extend(path.name for path in tmp_path.iterdir()),
        **HOW,
    )
    assert "journal" not in names


def test_the_journal_is_emptied_by_a_checkpoint(tmp_path):
    sizes = []
    gs.minimize(
        slow,
        np.ones(4),
        folder=tmp_path,
        every=1,
        callback=lambda *_: sizes.append((tmp_path / "journal").stat().st_size),
        **HOW,
    )
    assert len(set(sizes)) == 1


def test_the_file_reaches_the_disk_within_a_second(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    search = gs.RandomSearch(directions=gs.Gaussian(), num_directions=3, spacing=0.1)
    journal = Journal(tmp_path / "journal", "a")
    objective = Objective(slow, journal=journal)
    batch = search.ask(search.init(np.zeros(3), seed=0))
    values = [objective.value(batch, index) for index in range(len(batch))]
    assert wait_until(lambda: synced[-1:] == [journal.size])
    journal.close()
    read = Journal(tmp_path / "journal", "a")
    assert read.evaluations(0) == len(batch)
    assert read.open(batch, 0).values.tolist() == values
    assert Journal(tmp_path / "journal", "another").evaluations(0) == 0


def test_another_process_may_have_other_workers(tmp_path):
    fun, _ = broken_after(17)
    with pytest.raises(gs.evaluators.EvaluationError):
        gs.minimize(fun, np.zeros(4), folder=tmp_path, **HOW)
    fun, calls = broken_after(0)
    result = gs.resume(tmp_path, fun, workers=gs.evaluators.Threads(2))
    assert len(calls) == result.nfev - 16
