"""One trial: a method on a problem with one seed, judged at the end.

The run is a call of :func:`gensmooth.minimize` with a checkpoint in the run's scratch folder, so
that an interruption costs little. The record does not depend on interruptions. If a method fails or
diverges, that is its result: its final value is +∞.
"""

import json
import logging
import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import fields
from gensmooth.coordinates import inward
from gensmooth.describe import plain
from gensmooth.evaluators import EvaluationError, Objective
from gensmooth.lab.experiments.spec import RunRecord
from gensmooth.lab.trials.choices import Choice
from gensmooth.lab.trials.judging import Judged, Score, judge
from gensmooth.optimize import RETURNED, minimize
from gensmooth.optimize.advice import silenced
from gensmooth.results import History, IntermediateResult, Result
from gensmooth.runs import CheckpointError, container
from gensmooth.runs.files import (
    exists,
    make_folder,
    open_to_append,
    read_bytes,
    remove_folder,
    write_all,
    write_bytes,
)
from gensmooth.runs.folder import CHECKPOINT
from gensmooth.runs.journal import Journal
from gensmooth.searches import AUTO
from gensmooth.trees import Tree

Array = NDArray[Any]
Follow = Callable[[IntermediateResult], None]

POINTS = 100  # the points of a curve: the budget is divided into this many equal parts
_log = logging.getLogger("gensmooth")
JUDGED = "judged"  # the journal of the values that judge a trial
_LONGEST = 1000  # parameters: a longer x is not stored in the record


class Outline(NamedTuple):
    """The record of a trial.

    Attributes:
        series: One number for each part of the budget: ``value``, the mean of the values in its
            steps; ``best``, the best value so far; ``score`` at the recommended point, if the
            problem has a score.
        start: The judgement of the starting point.
        final: The judgement of the recommended point; ``None`` if the run failed or diverged.
        more: Other results, as plain JSON.
    """

    series: Mapping[str, Sequence[float]]
    start: Judged
    final: Judged | None
    more: Mapping[str, Any]


class Task(Protocol):
    """A problem with a seed, on which a method can be run."""

    def run(self, choice: Choice, budget: int, seed: int, values: int, scratch: Path) -> Outline:
        """Run a method.

        Args:
            choice: The method.
            budget: Evaluations to spend at most.
            seed: The seed of the run.
            values: How many fresh values judge a point.
            scratch: A folder for checkpoints, reserved for this run.
        """
        ...


@final
@dataclass(frozen=True)
class Trials:
    """Executes the runs of a table of trials.

    Attributes:
        at: Returns the problem with a seed.
        choices: The methods with their options, by the hash in a run's configuration.
        maximize: Whether high values are good.
        values: How many fresh values judge a point.
    """

    at: Callable[[int], Task]
    choices: Mapping[str, Choice]
    maximize: bool
    values: int

    def __call__(self, config: Mapping[str, Any], scratch: Path) -> RunRecord:
        """Execute a run."""
        began = time.perf_counter()
        choice, seed, budget = self.choices[config["choice"]], config["seed"], config["budget"]
        try:
            trial = self.at(seed).run(choice, budget, seed, self.values, scratch)
        except Exception as error:  # any failure is the method's result
            trial = Outline({}, Judged(math.nan), None, {"failure": _words(error)})
        more = {**trial.more, "start": plain(trial.start.value)}
        final, lost = math.inf, trial.final is None
        if trial.final is not None:
            value = trial.final.value
            more |= {"value": plain(value), "exact": trial.final.exact}
            more |= {"error": plain(trial.final.error)}
            final = -value if self.maximize else value
        return RunRecord(config, trial.series, final, lost, time.perf_counter() - began, more)


@final
@dataclass(frozen=True)
class Minimized:
    """A function with a starting point.

    Attributes:
        fun: The function.
        x0: Where every method starts; flat, if it is a structure.
        how: Arguments of :func:`~gensmooth.minimize` that describe the problem.
        score: The value of a point without noise, if it can be computed.
        workers: The evaluator.
        named: Options of all methods but the default one, ``"auto"``.
        tree: The structure of the parameters, if they are not an array.
    """

    fun: Callable[..., Any]
    x0: Array
    how: Mapping[str, Any] = field(default_factory=dict[str, Any])
    score: Score | None = None
    workers: Any = 1
    named: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tree: Tree | None = None

    @property
    def start(self) -> Any:
        """Where every method starts, in the form that the function takes."""
        return self.x0 if self.tree is None else self.tree.build(self.x0)

    @property
    def objective(self) -> Objective:
        """The function of a flat array, and how it is called."""
        return Objective(
            self.fun if self.tree is None else self.tree.objective(self.fun),
            self.how.get("samples") is not None,
            self.how.get("vectorized", False),
            int(self.how.get("noise") == RETURNED),
        )

    def judge(self, x: Array, seed: int, values: int, journal: Journal | None = None) -> Judged:
        """Judge a point, given as a flat array."""
        score = self.score
        if score is not None and self.tree is not None:
            score = self.tree.objective(score)
        return judge(self.objective, x, seed=seed, values=values, score=score, journal=journal)

    def call(self, choice: Choice, budget: int, seed: int, **how: Any) -> Result:
        """Call :func:`~gensmooth.minimize` with a method."""
        arguments: dict[str, Any] = {**self.how, "workers": self.workers}
        arguments |= choice.options if choice.method == AUTO else {**self.named, **choice.options}
        arguments |= {"method": choice.method, "budget": budget, "seed": seed, **how}
        if "directions" in choice.options:
            arguments["method"] = None
        with silenced():
            return minimize(arguments.pop("fun", self.fun), self.start, progress=False, **arguments)

    def run(self, choice: Choice, budget: int, seed: int, values: int, scratch: Path) -> Outline:
        """See :class:`Task`."""
        if scratch.is_symlink():  # it may lead to a folder that is not ours
            remove_folder(scratch)
        journal = Journal(scratch / JUDGED, scratch.name, lambda: _prepared(scratch))
        try:
            return self._run(choice, budget, seed, values, scratch, journal)
        finally:
            journal.close()

    def _run(
        self, choice: Choice, budget: int, seed: int, values: int, scratch: Path, journal: Journal
    ) -> Outline:
        start = self.judge(self.x0, seed, values, journal)
        clock, scores = Clock(), None
        if self.score is not None:
            try:
                scores = _Scores(self, budget, scratch)
            except (CheckpointError, OSError, ValueError):
                remove_folder(scratch)  # the trial starts over
                scores = _Scores(self, budget, scratch)

        def follow(now: IntermediateResult) -> None:
            clock.tick(now.nfev)
            if scores is not None:
                scores.follow(now)

        failure = ""
        try:
            result = self._checkpointed(choice, budget, seed, scratch / "run", follow)
        except EvaluationError as error:
            if error.result is None:
                raise
            result, failure = error.result, _words(error)
        if result.reason in ("interrupted", "terminated"):
            raise KeyboardInterrupt
        if result.reason == "diverged":
            failure = result.message
        judged = None
        x = result.x if self.tree is None else Tree.of(result.x)[0]
        if not failure:
            try:
                judged = self.judge(x, seed, values, journal)
            except ValueError as error:
                failure = str(error)
        maximize = bool(self.how.get("maximize", False))
        series = outline(result.history, budget, start.value, maximize=maximize)
        if scores is not None:
            series = {**series, "score": scores.series(start.value, judged)}
        if not all(math.isfinite(value) for each in series.values() for value in each):
            series = {}
        more = {
            "status": result.reason,
            "message": failure or result.message,
            "evaluations": result.nfev,
            "steps": result.nit,
            "best": plain(result.best_fun),
            "seconds_per_evaluation": clock.each,
            "faults": dict(result.faults),
        }
        if failure:
            more["failure"] = failure
        if x.size <= _LONGEST:
            more |= {"x": x.reshape(-1).tolist()}
        return Outline(series, start, judged, more)

    def _checkpointed(
        self, choice: Choice, budget: int, seed: int, folder: Path, follow: Follow
    ) -> Result:
        """Return the run, continued from its last checkpoint if there is a usable one."""
        try:
            return self.call(choice, budget, seed, folder=folder, callback=follow)
        except CheckpointError as error:
            _log.warning("A partial run cannot be used, so it starts over: %s", error)
            remove_folder(folder.parent)
            return self.call(choice, budget, seed, folder=folder, callback=follow)
        except TypeError as error:
            if "cannot be checkpointed" not in str(error):
                raise
            remove_folder(folder.parent)
            return self.call(choice, budget, seed, callback=follow)


def _prepared(folder: Path) -> bool:
    """Create a folder, if possible; otherwise writing to it will report the error."""
    with suppress(OSError):
        make_folder(folder)
    return True


class Clock:
    """Seconds per evaluation, from the end of the first step to the end of the last.

    The first step, which also compiles, does not count.
    """

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None
        self._last = (0.0, 0)

    def tick(self, evaluations: int) -> None:
        """Call this after each step."""
        self._last = (time.perf_counter(), evaluations)
        if self._first is None:
            self._first = self._last

    @property
    def each(self) -> float | None:
        """Seconds per evaluation; ``None`` after fewer than two steps."""
        if self._first is None or self._last[1] == self._first[1]:
            return None
        return (self._last[0] - self._first[0]) / (self._last[1] - self._first[1])


class _Scores:
    """The score of the recommended point at the first step of each part of the budget.

    They are stored beside the checkpoint, so that a continued run has the earlier ones.
    """

    def __init__(self, task: Minimized, budget: int, scratch: Path) -> None:
        self._score, self._budget = task.score, budget
        how = {name: task.how.get(name) for name in ("bounds", "log_scale")}
        self._coordinates = inward(task.start, **how).coordinates
        self._file = scratch / "scores.jsonl"
        self._seen: dict[int, tuple[int, float]] = {}
        self._checksum = zlib.crc32(scratch.name.encode())  # the folder is named by the run's key
        self._load(scratch / "run" / CHECKPOINT)

    def follow(self, now: IntermediateResult) -> None:
        """Call this after each step."""
        part = _part(now.nfev, self._budget)
        if part in self._seen and self._seen[part][0] <= now.nfev:
            return
        assert self._score is not None
        x = self._coordinates.outward(now.search.recommend(now.state))
        self._seen[part] = (now.nfev, float(self._score(x)))
        line = [part, *map(plain, self._seen[part])]
        self._checksum = self._next_checksum(line)
        with suppress(OSError), open_to_append(self._file) as file:
            write_all(file, f"{json.dumps([*line, self._checksum])}\n".encode())

    def _load(self, checkpoint: Path) -> None:
        """Read the scores before an interruption.

        Raises:
            CheckpointError: If the file is damaged, or does not have the scores up to the
                checkpoint.
        """
        text = read_bytes(self._file) if exists(self._file) else b""
        complete, newline, half_a_line = text.rpartition(b"\n")
        for line in complete.splitlines():
            try:
                part, evaluations, score = self._parse(line)
            except ValueError as error:
                raise CheckpointError(self._file, f"is damaged: {error}.") from error
            self._seen[part] = (evaluations, score)
        if half_a_line:  # the process was killed while writing it
            write_bytes(self._file, complete + newline, durable=False)
        if exists(checkpoint):
            evaluations = fields.count()(container.read_meta(checkpoint).get("evaluations"), "")
            if evaluations and _part(evaluations, self._budget) not in self._seen:
                raise CheckpointError(self._file, "lacks the scores before the checkpoint.")

    def _parse(self, line: bytes) -> tuple[int, int, float]:
        """Read a line: the part of the budget, the evaluations, the score, and a checksum."""
        values: list[Any] = fields.parse(line, fields.many(fields.PLAIN, 4, 4))
        self._checksum = self._next_checksum(values[:-1])
        if values[-1] != self._checksum:
            raise ValueError("the checksum of a line differs")
        part = fields.count(0, POINTS - 1)(values[0], "part")
        evaluations = fields.count()(values[1], "evaluations")
        if _part(evaluations, self._budget) != part:
            raise ValueError("a score is in the wrong part of the budget")
        return part, evaluations, float(fields.real()(values[2], "score"))

    def _next_checksum(self, values: list[Any]) -> int:
        """Return the checksum of a line and of all lines before it."""
        return zlib.crc32(json.dumps(values).encode(), self._checksum)

    def series(self, start: float, final: Judged | None) -> list[float]:
        """Return the score at the end of each part of the budget."""
        scores, now = list[float](), start
        for part in range(POINTS):
            before = self._seen.get(part)
            now = now if before is None else before[1]
            scores.append(now)
        if final is not None:
            scores[-1] = final.value
        return scores


def outline(
    history: History, budget: int, start: float, *, maximize: bool = False
) -> dict[str, list[float]]:
    """Summarise a run for each part of the budget: the mean value, and the best so far.

    Args:
        history: The history of the run.
        budget: The budget of the run.
        start: The value of the starting point.
        maximize: Whether high values are good.
    """
    value, best = list[float](), list[float]()
    now, leading = start, start
    better = max if maximize else min
    parts = np.array([_part(int(e), budget) for e in history.evaluations], np.int64)
    for part in range(POINTS):
        here = parts == part
        if here.any():
            now = float(history.value[here].mean())
            leading = better(leading, better(history.best_value[here].tolist()))
        value.append(now)
        best.append(leading)
    return {"value": value, "best": best}


def _part(evaluations: int, budget: int) -> int:
    """Return the part of the budget that a number of evaluations belongs to."""
    return min(POINTS - 1, max(0, -(-evaluations * POINTS // budget) - 1))


def _words(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, EvaluationError | ValueError):  # a sentence of ours
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
