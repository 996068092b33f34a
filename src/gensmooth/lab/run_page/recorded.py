"""A run as its folder records it, and what its files may hold."""

import math
import zlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth import fields
from gensmooth.describe import number
from gensmooth.optimize import Minimization
from gensmooth.results import Result
from gensmooth.runs import CheckpointError, End, array_from_json, container
from gensmooth.runs.config import sizes_in
from gensmooth.runs.files import Position, exists, read_bytes
from gensmooth.runs.folder import (
    ARRAYS,
    CHECKPOINT,
    CONFIG,
    METRICS,
    TIMES,
    UNUSABLE,
    read_config,
    read_end,
    sizes_fit,
    sizes_match,
)
from gensmooth.trees import Tree

Floats = NDArray[np.float64]
Array = NDArray[Any]


class RecordedRun(NamedTuple):
    """A run as it is recorded in its folder.

    Attributes:
        config: Its configuration.
        steps: One row for each step whose line is complete.
        end: How it ended, if it has.
        times: The lines of ``times.jsonl``.
    """

    config: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]
    end: Mapping[str, Any] | None
    times: Sequence[Mapping[str, Any]]

    def series(self, name: str) -> Floats:
        """Return a number of every step; NaN where it is missing."""
        values = [step.get(name) for step in self.steps]
        return np.array([math.nan if v is None else number(v) for v in values], np.float64)

    @property
    def tests(self) -> list[Mapping[str, Any]]:
        """The tests of a training."""
        return [step["test"] for step in self.steps if step.get("test")]

    @property
    def training(self) -> bool:
        """Whether it trains a policy."""
        return self.config["kind"] == "training"

    @property
    def unit(self) -> str:
        """What one evaluation is."""
        kinds = {"training": "episodes", "log": "steps"}
        return kinds.get(self.config["kind"], "evaluations")

    @property
    def name(self) -> str:
        """The name of the objective or environment."""
        if self.training:
            return str(self.config["environment"]["name"])
        return str(self.config.get("objective") or "a function")


def read_run(where: Path) -> RecordedRun:
    """Read a run's folder; the run may still be in progress."""
    config = read_config(where / CONFIG)
    if config["kind"] not in _CONFIGS:
        kind = str(config["kind"])[:40]
        raise ValueError(f"{where} holds a {kind}, for which there is no page.")
    try:
        config = _CONFIGS[config["kind"]](config, "")
    except ValueError as error:
        raise CheckpointError(where / CONFIG, f"cannot be used: {error}.") from error
    end, position = _checkpoint(where / CHECKPOINT)
    steps = _complete_lines(where / METRICS)
    if zlib.crc32(steps[: position.bytes]) != position.crc32:
        raise CheckpointError(
            where / METRICS, "is damaged: its checksum differs from the checkpoint's."
        )
    times: list[dict[str, Any]] = []
    with suppress(ValueError, CheckpointError):  # no result depends on it
        times = _rows(where / TIMES, _complete_lines(where / TIMES), _TIME)
    return RecordedRun(config, _rows(where / METRICS, steps, _STEP), end, times)


def _checkpoint(path: Path) -> tuple[Mapping[str, Any] | None, Position]:
    """Return how the run ended, if it has, and which lines of the metrics the checkpoint covers."""
    if not exists(path):
        return None, Position()
    try:
        read = _CHECKPOINT(container.read_meta(path), "")
    except ValueError as error:
        raise CheckpointError(path, f"does not match its run: {error}.") from error
    return read["end"], Position(**read["metrics"])


def _complete_lines(path: Path) -> bytes:
    """Return the contents of a file up to its last complete line; it may still be written."""
    if not exists(path):
        return b""
    try:
        text = read_bytes(path)
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror or error}.") from error
    return text[: text.rfind(b"\n") + 1]


def _rows(path: Path, text: bytes, shape: fields.Shape) -> list[dict[str, Any]]:
    try:
        return [fields.parse(line, shape) for line in text.splitlines()]
    except ValueError as error:
        raise CheckpointError(path, f"is damaged: {error}.") from error


# --- what the files of a run may hold ------------------------------------------------------------

_VALUE = fields.nullable(fields.real())
_ARRAY = fields.record(
    {
        "dtype": fields.one_of("float32", "float64"),
        "shape": fields.many(fields.count(0, 2**48), 32),
    },
    {
        "values": fields.many(fields.real(), 10_000),
        "in": fields.one_of("arrays"),
        "name": fields.NAME,
        "sha256": fields.SHA256,
    },
)
_CONFIGS = {
    "minimisation": fields.record(
        {
            "seed": fields.SEED,
            "objective": fields.nullable(fields.NAME),
            "x0": _ARRAY,
            "search": fields.table(fields.PLAIN),
            "limits": fields.table(_VALUE),
        },
        {
            "extensions": fields.many(
                fields.record({"until_step": fields.count()}, others=_VALUE), 1000
            )
        },
        others=fields.PLAIN,
    ),
    "training": fields.record(
        {
            "seed": fields.SEED,
            "environment": fields.record({"name": fields.NAME}, others=fields.PLAIN),
            "policy": fields.record(
                {"sizes": fields.many(fields.count(1, 2**31), 100, 2)}, others=fields.PLAIN
            ),
            "standardize": fields.flag,
            "method": fields.NAME,
            "search": fields.record({"samples": fields.nullable(fields.NAME)}, others=fields.PLAIN),
            "schedule": fields.table(_VALUE),
        },
        others=fields.PLAIN,
    ),
}
_CHECKPOINT = fields.record(
    {
        "end": fields.nullable(
            fields.record(
                {"reason": fields.NAME, "why": fields.LINE},
                {"value": fields.real(), "error": _VALUE},
                others=fields.PLAIN,
            )
        ),
        "metrics": fields.record({name: fields.count() for name in Position._fields}),
    },
    others=fields.PLAIN,
)
_STEP = fields.record(
    {"evaluations": fields.count(), "value": _VALUE},
    {
        "faults": fields.table(fields.count()),
        "diverged": fields.nullable(fields.LINE),
        "test": fields.nullable(
            fields.record({"trajectories": fields.count(), "mean_return": _VALUE}, others=_VALUE)
        ),
    },
    others=fields.either(_VALUE, fields.flag),
)
_TIME = fields.record(
    {"step": fields.count(), "time": fields.real(finite=True)}, {"begin": fields.flag}
)


def speeds(run: RecordedRun) -> tuple[Floats, Floats]:
    """Return numbers of evaluations, and the speed in evaluations per second at each."""
    evaluations = run.series("evaluations")
    at, rate = list[float](), list[float]()
    for before, after in zip(run.times, run.times[1:], strict=False):
        with suppress(KeyError, TypeError, IndexError):
            if after.get("begin"):
                continue  # the pause before a run was resumed
            first, last = int(before["step"]), int(after["step"])
            seconds = float(after["time"]) - float(before["time"])
            if last > first and seconds > 0 and last <= len(evaluations):
                began = evaluations[first - 1] if first else 0.0
                at.append(float(evaluations[last - 1]))
                rate.append(float(evaluations[last - 1] - began) / seconds)
    compiles = 1 if len(at) > 2 else 0  # the first step also compiles
    return np.array(at[compiles:]), np.array(rate[compiles:])


def program_of(config: Mapping[str, Any], where: Path) -> Minimization | None:
    """Return the program of a run's configuration; ``None`` if it needs the user's own classes.

    Nothing is imported or called for it: dataclasses and named tuples become dicts.

    Raises:
        ValueError: If the start of the run cannot be read.
    """
    large: Mapping[str, Array] = {}
    if (sizes := sizes_in(config)) and exists(where / ARRAYS):
        large = container.read(where / ARRAYS, sizes_match(sizes)).arrays
    array_from_json(config["x0"], large)  # an error names what is wrong
    structure = config["search"].get("structure")
    if structure is not None:
        names = Tree.of_names(structure).to_json()
        config = {**config, "search": {**config["search"], "structure": names}}
    try:
        return Minimization.from_json(config, large, {})
    except UNUSABLE:
        return None


def result_of(run: RecordedRun, where: Path) -> Result | None:
    """Return the result in a run's checkpoint; ``None`` if there is none that can be read."""
    program = program_of(run.config, where)
    if program is None or not exists(where / CHECKPOINT):
        return None
    try:
        meta, arrays = container.read(where / CHECKPOINT, sizes_fit(program))
        state = program.unpack(meta, arrays)
        records = [program.read_record(dict(row)) for row in run.steps[: state.search.step]]
        end = read_end(run.end, program) or End("interrupted")
        return program.result(state, records, end)
    except UNUSABLE as error:
        raise CheckpointError(where / CHECKPOINT, f"does not match its run: {error}.") from error


@contextmanager
def naming_folder(where: Path) -> Generator[None]:
    """Turn the errors that a damaged or malicious folder may cause into one that names it."""
    try:
        yield
    except OSError as error:
        file = Path(error.filename) if isinstance(error.filename, str) else where
        raise CheckpointError(
            file, f"cannot be read or written: {error.strerror or error}."
        ) from error
    except UNUSABLE as error:
        raise CheckpointError(where, f"cannot be shown: {error}.") from error
