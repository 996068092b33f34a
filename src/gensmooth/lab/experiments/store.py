"""Stores finished runs: a folder per run, named by the hash of its configuration (C6).

``config.json`` is the configuration; ``metrics.jsonl`` has one line per round, and a last line
with the score and a checksum. A run's folder is written under another name and then renamed, so a
kill at any time loses the runs in flight and nothing else. A long run may keep checkpoints below
``partial``, and then loses little.

Runs depend only on their configuration, so folders that were made on several machines are merged
by copying their ``runs`` together.
"""

import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gensmooth import fields
from gensmooth.describe import plain
from gensmooth.lab.experiments.spec import FORMAT, RunRecord, RunSpec
from gensmooth.runs.files import (
    CheckpointError,
    check_folder,
    exists,
    make_folder,
    read_bytes,
    read_fields,
    remove_folder,
    write_text,
)
from gensmooth.runs.folder import UNUSABLE

_STUDY_FILE = "study.json"
_RUNS, _PARTIAL = "runs", "partial"
_KEY = re.compile("[0-9a-f]+")  # the name of a run's folder
_ASIDE = re.compile(r"\.[0-9a-f]+\.([0-9]+)")  # a run's folder that a process is writing
_END = ("end", "names", "final", "diverged", "seconds", "crc32")  # of the last line of a record
_OURS = {_RUNS, _PARTIAL, _STUDY_FILE, f".{_STUDY_FILE}.new"}  # all that a new store contains
_UNUSABLE = (OSError, CheckpointError, *UNUSABLE)

# --- the fields of the files ---------------------------------------------------------------------

_MARK = fields.record(
    {"program": fields.one_of("gensmooth"), "study": fields.NAME, "format": fields.count()}
)
_RUN = fields.record(
    {
        "format": fields.version(FORMAT),
        "study": fields.NAME,
        "config": fields.table(fields.PLAIN_NAMES),
    }
)
_LAST_LINE = fields.record(
    {
        "end": fields.one_of(True),
        "names": fields.many(fields.NAME, 1000),
        "final": fields.real(),
        "diverged": fields.flag,
        "seconds": fields.real(0),
        "crc32": fields.count(0, 2**32 - 1),
    },
    {
        "more": fields.table(fields.PLAIN),
        "check": fields.count(0, 2**32 - 1),  # some published runs in docs/results have none
    },
)
_ROUND = fields.record({"round": fields.count()}, others=fields.real())


class StoreError(RuntimeError):
    """The output folder cannot be used; the message says why and what to do."""


class Loaded(NamedTuple):
    """Runs that were loaded.

    Attributes:
        records: Finished runs by key.
        damaged: Keys of runs that cannot be read, and have to be repeated.
    """

    records: dict[str, RunRecord]
    damaged: list[str]


class StudyStore:
    """The runs of one study below one folder."""

    def __init__(self, folder: Path, study: str) -> None:
        self.folder = folder
        self.runs = folder / _RUNS
        self.study = study
        self._claim()

    def load(self, specs: Iterable[RunSpec]) -> Loaded:
        """Load the runs that are finished."""
        records: dict[str, RunRecord] = {}
        damaged: list[str] = []
        present = set(os.listdir(self.runs)) if exists(self.runs) else set[str]()
        for spec in specs:
            if spec.key not in present:
                continue
            where = self.runs / spec.key
            try:
                check_folder(where, inside=self.runs)
                records[spec.key] = _read(where, spec)
            except _UNUSABLE:
                damaged.append(spec.key)
        return Loaded(records, damaged)

    def everything(self) -> Loaded:
        """Load all finished runs of the study."""
        specs: list[RunSpec] = []
        damaged: list[str] = []
        for where in sorted(p for p in self.runs.iterdir() if _KEY.fullmatch(p.name)):
            try:
                check_folder(where, inside=self.runs)
                stored = fields.parse(read_bytes(where / "config.json"), _RUN)
                spec = RunSpec(stored["study"], stored["config"])
                if spec.key == where.name and spec.study == self.study:
                    specs.append(spec)
            except _UNUSABLE:
                damaged.append(where.name)
        loaded = self.load(specs)
        return Loaded(loaded.records, damaged + loaded.damaged)

    def scratch(self, spec: RunSpec) -> Path:
        """Return the folder that a run may use until it is finished; it may not exist yet."""
        return (self.folder / _PARTIAL / spec.key).absolute()

    def save(self, spec: RunSpec, record: RunRecord) -> None:
        """Store a finished run, and remove its scratch folder."""
        final = self.runs / spec.key
        aside = self.runs / f".{spec.key}.{os.getpid()}"
        try:
            remove_folder(aside)
            aside.mkdir(parents=True)  # fails if something is there, such as a link
            config = {"format": FORMAT, "study": spec.study, "config": spec.config}
            text = json.dumps(config, indent=1, sort_keys=True)
            write_text(aside / "config.json", text, durable=False)
            write_text(aside / "metrics.jsonl", _lines(record, spec.key), durable=False)
            remove_folder(final)  # a damaged record makes way for the new one
            aside.rename(final)
            remove_folder(self.scratch(spec))
        except OSError as error:
            remove_folder(aside)
            raise StoreError(
                f"Could not write a run to {self.runs}: {error.strerror or error}. Finished runs "
                "are kept: free some space and run the same command again."
            ) from error

    def _claim(self) -> None:
        """Mark the folder as ours, or refuse one that belongs to something else."""
        mark = self.folder / _STUDY_FILE
        ours = {"program": "gensmooth", "study": self.study, "format": FORMAT}
        if exists(mark) and mark.lstat().st_size:  # an empty one was left by a kill
            try:
                marked: dict[str, Any] = read_fields(mark, _MARK, what="the mark of a study")
            except CheckpointError as error:
                raise StoreError(f"{str(error).rstrip('.')}: choose another --folder.") from error
            if marked != ours:
                raise StoreError(
                    f"{self.folder} belongs to study {marked['study']!r}, format "
                    f"{marked['format']}, not to {self.study!r}, format {FORMAT}: choose "
                    "another --folder."
                )
        elif self.folder.exists() and {p.name for p in self.folder.iterdir()} - _OURS:
            raise StoreError(
                f"{self.folder} is not empty and not a study's folder: choose another --folder."
            )
        for inner in (self.runs, self.folder / _PARTIAL):
            if inner.is_symlink():
                raise StoreError(
                    f"{inner} is a symbolic link, which is not followed: choose another --folder, "
                    "or link the whole folder instead."
                )
        try:
            make_folder(self.runs, inside=self.folder)
            if not exists(mark) or not mark.lstat().st_size:
                write_text(mark, json.dumps(ours))
        except OSError as error:
            raise StoreError(f"Could not make {self.folder}: {error.strerror or error}.") from error
        for left in self.runs.glob(".*"):
            match = _ASIDE.fullmatch(left.name)
            if match and not _alive(match[1]):  # left by a killed process
                remove_folder(left)


def _alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError, OverflowError):
        return False
    except OSError:  # a process of another user
        return True
    return True


def _lines(record: RunRecord, key: str) -> str:
    """Return a record as lines of JSON; numbers keep every bit, infinities are strings."""
    names = list(record.series)
    rounds = zip(*(record.series[name] for name in names), strict=True)
    body = [
        json.dumps({"round": i, **dict(zip(names, map(plain, row), strict=True))})
        for i, row in enumerate(rounds)
    ]
    text = "".join(f"{line}\n" for line in body)
    end: dict[str, Any] = {
        "end": True,
        "names": names,
        "final": plain(record.final),
        "diverged": record.diverged,
        "seconds": record.seconds,
        "crc32": zlib.crc32(text.encode()),
    }
    if record.more:
        end["more"] = dict(record.more)
    end["check"] = _check(end, key)
    return f"{text}{json.dumps(end)}\n"


def _check(end: Mapping[str, Any], key: str) -> int:
    """Return a checksum of the run's key and the last line, which has a checksum of the others."""
    more = [end["more"]] if "more" in end else []
    return zlib.crc32(json.dumps([key, *(end[name] for name in _END), *more]).encode())


def _read(where: Path, spec: RunSpec) -> RunRecord:
    config = fields.parse(read_bytes(where / "config.json"), _RUN)["config"]
    if config != json.loads(json.dumps(spec.config)):
        raise ValueError("configuration differs")
    body, _, last = read_bytes(where / "metrics.jsonl").decode().rstrip("\n").rpartition("\n")
    end = json.loads(last)
    text = f"{body}\n" if body else ""
    read = _LAST_LINE(end, "")
    if zlib.crc32(text.encode()) != read["crc32"]:
        raise ValueError("checksum differs")
    if "check" in read and read["check"] != _check(end, spec.key):
        raise ValueError("checksum of the last line differs")
    rows = [fields.parse(line, _ROUND) for line in body.splitlines()]
    series = {name: [float(row[name]) for row in rows] for name in read["names"]}
    more = read.get("more", {})
    return RunRecord(config, series, float(read["final"]), read["diverged"], end["seconds"], more)
