"""The study engine: runs are made once, kept whole, found again, and never mixed up."""

import json
import math
import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from gensmooth.lab.experiments.registry import STUDIES, find_study
from gensmooth.lab.experiments.spec import RunRecord, RunSpec
from gensmooth.lab.experiments.store import StoreError, StudyStore
from gensmooth.lab.experiments.study import run_study
from gensmooth.lab.paper.linreg.study import STUDY as LINREG
from gensmooth.lab.paper.linreg.study import LinregOptions
from gensmooth.runs import Program, Scratch
from patience import wait_until

SPEC = RunSpec("linreg", {"method": "gs", "seed": 3, "spacing": 0.1})
RECORD = RunRecord(
    SPEC.config,
    {"mse": [0.1, 1 / 3, 5e-324], "loss": [1e308, math.inf, -0.0]},
    0.1 + 0.2,
    False,
    1.5,
)


def test_a_record_survives_to_the_last_bit(tmp_path):
    store = StudyStore(tmp_path / "s", "linreg")
    store.save(SPEC, RECORD)
    assert StudyStore(tmp_path / "s", "linreg").load([SPEC]) == ({SPEC.key: RECORD}, [])


def test_a_start_leaves_what_another_start_is_writing(tmp_path):
    store = StudyStore(tmp_path / "s", "linreg")
    live, dead = (store.runs / f".{SPEC.key}.{pid}" for pid in (os.getppid(), 2**22 + 1))
    live.mkdir()
    dead.mkdir()
    StudyStore(tmp_path / "s", "linreg")
    assert live.exists()
    assert not dead.exists()


def test_a_start_removes_nothing_that_is_not_ours(tmp_path):
    """``git init`` in ``runs``; or ``runs`` as a stranger's link to somebody's home."""
    store = StudyStore(tmp_path / "s", "linreg")
    (store.runs / ".git").mkdir()
    assert StudyStore(tmp_path / "s", "linreg").everything().damaged == []
    assert (store.runs / ".git").exists()
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (store.runs / ".git").rmdir()
    store.runs.rmdir()
    store.runs.symlink_to(tmp_path / "home")
    with pytest.raises(StoreError, match="runs is a symbolic link, which is not followed"):
        StudyStore(tmp_path / "s", "linreg")
    assert (tmp_path / "home" / ".ssh").exists()


def test_a_run_is_not_written_to_where_a_link_leads(tmp_path):
    store = StudyStore(tmp_path / "s", "linreg")
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.json").write_text("precious")
    (home / "checkpoint").write_text("precious")
    for name in (SPEC.key, f".{SPEC.key}.{os.getpid()}"):
        (store.runs / name).symlink_to(home)
    store.save(SPEC, RECORD)
    assert store.load([SPEC]).records == {SPEC.key: RECORD}
    scratch = Scratch(store.scratch(SPEC))
    scratch.path.parent.mkdir()
    scratch.path.symlink_to(home)
    program = Countdown()
    scratch.open(scratch.load(program), every=1)
    scratch.save(program, 2, 1, None)
    assert (scratch.path / "checkpoint").stat().st_size > 100
    assert {path.name: path.read_text() for path in home.iterdir()} == {
        "config.json": "precious",
        "checkpoint": "precious",
    }


class Countdown(Program):
    kind = "countdown"

    def init(self):
        return 3

    def step(self, state, session):
        return state - 1, {}

    def stop(self, state, last):
        return None

    def pack(self, state):
        return {"left": state}, {"numbers": np.zeros(100)}

    def unpack(self, meta, arrays):
        return meta["left"]

    def result(self, state, records, end):
        return state


def test_a_mark_that_was_killed_while_it_was_written_is_written_again(tmp_path):
    store = StudyStore(tmp_path / "s", "linreg")
    store.save(SPEC, RECORD)
    (tmp_path / "s" / "study.json").write_text("")
    assert StudyStore(tmp_path / "s", "linreg").load([SPEC]).records == {SPEC.key: RECORD}
    assert json.loads((tmp_path / "s" / "study.json").read_text())["study"] == "linreg"


def test_a_diverged_record_without_rounds_survives(tmp_path):
    store = StudyStore(tmp_path / "s", "linreg")
    record = RunRecord(SPEC.config, {}, math.inf, True, 0.1)
    store.save(SPEC, record)
    assert store.load([SPEC]).records[SPEC.key] == record


def test_the_key_is_the_configuration():
    again = RunSpec("linreg", dict(reversed(SPEC.config.items())))
    assert again.key == SPEC.key
    assert RunSpec("dfo", SPEC.config).key != SPEC.key
    assert RunSpec("linreg", {**SPEC.config, "seed": 4}).key != SPEC.key


@pytest.mark.parametrize("name", ["final", "diverged", "seconds", "names"])
def test_a_changed_last_line_of_a_record_is_found_out(tmp_path, name):
    """Its checksum is of the lines before it, so it has another of itself."""
    store = StudyStore(tmp_path / "s", "linreg")
    store.save(SPEC, RECORD)
    metrics = store.runs / SPEC.key / "metrics.jsonl"
    *body, last = metrics.read_text().splitlines()
    end = json.loads(last)
    end[name] = {"final": 0.31, "diverged": True, "seconds": 2.5, "names": ["loss", "mse"]}[name]
    metrics.write_text("\n".join([*body, json.dumps(end)]))
    assert store.load([SPEC]) == ({}, [SPEC.key])
    del end["check"]  # as in some of the published runs
    metrics.write_text("\n".join([*body, json.dumps(end)]))
    assert list(store.load([SPEC]).records) == [SPEC.key]


def test_a_record_in_another_runs_place_is_found_out(tmp_path):
    store = StudyStore(tmp_path / "s", "linreg")
    other = RunSpec("linreg", {**SPEC.config, "seed": 4})
    for spec in (SPEC, other):
        store.save(spec, RECORD._replace(config=spec.config))
    metrics = store.runs / other.key / "metrics.jsonl"
    metrics.write_bytes((store.runs / SPEC.key / "metrics.jsonl").read_bytes())
    assert store.load([SPEC, other]).damaged == [other.key]


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "other-config", "no-file"])
def test_a_damaged_record_is_found_out(tmp_path, damage):
    store = StudyStore(tmp_path / "s", "linreg")
    store.save(SPEC, RECORD)
    metrics = store.runs / SPEC.key / "metrics.jsonl"
    text = metrics.read_text()
    if damage == "truncate":
        metrics.write_text(text[: len(text) // 2])
    elif damage == "flip":
        metrics.write_text(text.replace("0.333", "0.334"))
    elif damage == "empty":
        metrics.write_text("")
    elif damage == "no-file":
        metrics.unlink()
    else:
        config = store.runs / SPEC.key / "config.json"
        config.write_text(config.read_text().replace("0.1", "0.2"))
    loaded = store.load([SPEC])
    assert loaded.records == {}
    assert loaded.damaged == [SPEC.key]
    store.save(SPEC, RECORD)  # the damaged one makes way
    assert store.load([SPEC]).records[SPEC.key] == RECORD


def test_a_folder_of_something_else_is_refused(tmp_path):
    StudyStore(tmp_path / "s", "linreg")
    with pytest.raises(StoreError, match=r"belongs to study 'linreg'.*another --folder"):
        StudyStore(tmp_path / "s", "dfo")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("meow")
    with pytest.raises(StoreError, match="not empty"):
        StudyStore(tmp_path / "photos", "linreg")
    mark = tmp_path / "s" / "study.json"
    mark.write_text(mark.read_text().replace('"format": 1', '"format": 999'))
    with pytest.raises(StoreError, match="format 999"):
        StudyStore(tmp_path / "s", "linreg")


def test_a_full_disk_is_reported_and_loses_nothing(tmp_path):
    store = StudyStore(tmp_path / "s", "linreg")
    store.save(SPEC, RECORD)
    other = RunSpec("linreg", {**SPEC.config, "seed": 4})
    long = RECORD._replace(series={"mse": [0.1] * 5000})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        with pytest.raises(StoreError, match=r"Finished runs are kept.*again"):
            store.save(other, long)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert store.load([SPEC, other]).records == {SPEC.key: RECORD}
    assert [p.name for p in store.runs.iterdir()] == [SPEC.key]  # nothing half-written is left


def test_unknown_studies_name_the_known_ones():
    with pytest.raises(ValueError, match=r"Did you mean 'linreg'.*linreg, dfo, rl, timing"):
        find_study("linregg")


def quiet(line):
    assert line


SMALL = LinregOptions(profile="quick", seeds=2, hyperparameters="paper", methods=("gs", "bes"))


@pytest.fixture(scope="module")
def small_study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "linreg"
    return folder, run_study("linreg", SMALL, folder, workers=1, say=quiet)


def test_a_second_call_makes_nothing_and_says_the_same(small_study):
    folder, first = small_study
    stamps = {p: p.stat().st_mtime_ns for p in folder.rglob("metrics.jsonl")}
    again = run_study("linreg", SMALL, folder, workers=1, say=quiet)
    assert again.facts["runs made now"] == 0
    assert again.records == first.records
    assert stamps == {p: p.stat().st_mtime_ns for p in folder.rglob("metrics.jsonl")}


def test_only_the_damaged_run_is_made_again_and_it_is_said(small_study):
    folder, first = small_study
    victim = sorted(folder.glob("runs/*"))[5]
    (victim / "metrics.jsonl").write_text("{")
    said = []
    again = run_study("linreg", SMALL, folder, workers=1, say=said.append)
    assert again.facts["runs made now"] == 1
    assert any("damaged" in line and victim.name in line for line in said)
    strip = [record._replace(seconds=0) for record in first.records]
    assert [record._replace(seconds=0) for record in again.records] == strip


def test_more_seeds_reuse_what_is_there(small_study):
    folder, first = small_study
    more = run_study("linreg", replace(SMALL, seeds=3), folder, workers=1, say=quiet)
    assert more.facts["runs made now"] == len(first.records) // 2


def test_workers_do_not_change_a_bit(small_study, tmp_path):
    _, first = small_study
    again = run_study("linreg", SMALL, tmp_path / "two", workers=2, say=quiet)
    assert [r._replace(seconds=0) for r in again.records] == [
        r._replace(seconds=0) for r in first.records
    ]


def test_a_killed_study_continues_where_it_was(small_study, tmp_path):
    """kill -9 in the middle, twice; the same command then does only what is missing."""
    _, first = small_study
    folder = tmp_path / "killed"
    code = (
        "from pathlib import Path\n"
        "from gensmooth.lab.experiments.study import run_study\n"
        "from gensmooth.lab.paper.linreg.study import LinregOptions\n"
        f"run_study('linreg', {SMALL!r}, Path({str(folder)!r}), workers=1)\n"
    )
    done = 0
    for wanted in (3, 12):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
        assert wait_until(lambda n=wanted: len(list(folder.glob("runs/[0-9a-f]*"))) >= n)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        done = len(list(folder.glob("runs/[0-9a-f]*")))
        assert done >= wanted
    again = run_study("linreg", SMALL, folder, workers=1, say=quiet)
    assert again.facts["runs made now"] == len(first.records) - done
    assert [r._replace(seconds=0) for r in again.records] == [
        r._replace(seconds=0) for r in first.records
    ]
    assert not list(folder.glob("runs/.*"))


def options_of(study, profile):
    """Its options, with the paper's hyperparameters if it has any."""
    grid = {"hyperparameters": "paper"} if hasattr(study.options, "hyperparameters") else {}
    return study.options(profile=profile, **grid)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_a_deterministic_list_of_distinct_runs(name):
    study = find_study(name)
    for profile in ("quick", "paper"):
        options = options_of(study, profile)
        cells = study.select(options, [])
        specs = study.reporting(options, cells)
        assert [s.key for s in specs] == [s.key for s in study.reporting(options, cells)]
        assert len({s.key for s in specs}) == len(specs) > 0
        json.dumps([s.config for s in specs])


@pytest.mark.parametrize("name", ["linreg", "dfo"])
def test_tuning_and_reporting_seeds_are_disjoint(name):
    study = find_study(name)
    tuning = study.tuning(study.options(profile="paper"))
    cells = study.select(options_of(study, "paper"), [])
    reporting = study.reporting(study.options(profile="paper"), cells)
    seeds = [{s.config["seed"] for s in specs} for specs in (tuning, reporting)]
    assert len(seeds[0]) == 3
    assert len(seeds[1]) == 5
    assert seeds[0].isdisjoint(seeds[1])


def test_the_papers_size():
    assert len(LINREG.tuning(LinregOptions(profile="paper"))) == 9 * 4 * 18
    dfo = find_study("dfo")
    assert len(dfo.tuning(dfo.options(profile="paper"))) == 4 * 3 * 6 * 30
