"""A run: step until there is a reason to stop, and lose nothing on the way."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from gensmooth.batch import Batch
from gensmooth.checkpoint import (
    CheckpointError,
    End,
    Found,
    Limits,
    Record,
    RunFolder,
    Snapshot,
    to_json,
)
from gensmooth.estimators import Plan
from gensmooth.evaluators import Evaluated, EvaluationError, Evaluator, Objective, Session
from gensmooth.observe import Observers, Start
from gensmooth.optimize.finite import check_finite
from gensmooth.optimize.interrupts import Interrupts
from gensmooth.optimize.result import MESSAGES, SUCCESS, Reason, Result, history
from gensmooth.search import SearchState, StepInfo

Callback = Callable[[StepInfo, SearchState], bool | None]

_SHORT_STEPS = 10


class Run:
    """A run in progress: the state, and what the result will tell.

    Args:
        found: What is run, and how far it has got.
        objective: The objective.
        folder: Where checkpoints go, if anywhere; opened.
        callback: Called after each step; true stops.
        observers: Who follows it.
    """

    def __init__(
        self,
        found: Found,
        objective: Objective,
        *,
        folder: RunFolder | None,
        callback: Callback | None,
        observers: Observers,
    ) -> None:
        self.config = found.config
        self.search = search = found.config.search
        self.objective = objective
        self.folder = folder
        self.callback = callback
        self.observers = observers
        self.interrupts = Interrupts()
        self.records = found.records
        self.faults: Counter[str] = Counter()
        for record in found.records:
            self.faults.update(record.faults)
        self.end: End | None = None
        if found.snapshot is None:
            self.state = search.init(found.config.x0, seed=found.config.seed)
            self.best_x, self.best = self.state.x, -math.inf if search.maximize else math.inf
            self.short_steps = 0
        else:
            self.state, self.best_x, self.best, self.short_steps, limits, end, _ = found.snapshot
            if limits.tolerance != found.config.limits.tolerance:
                self.short_steps = 0
            if limits == found.config.limits or (end and end.reason == "diverged"):
                self.end = end

    def execute(self, evaluator: Evaluator, *, go_on: bool) -> Result:
        """Run, or tell what came of it when it has ended.

        Args:
            evaluator: Who evaluates.
            go_on: Whether a run that its callback stopped goes on.
        """
        if self.end is not None and not (go_on and self.end.reason == "callback"):
            return self.result(self._reason(self.end), self.end)
        self.end = None
        try:
            self._announce()
            with (
                self.interrupts.watch(),
                evaluator.session(self.search, self.objective) as session,
            ):
                result = self._until_end(session)
        except BaseException as error:
            self.observers.end(self._summary(self.result("interrupted", None), error))
            raise
        self.observers.end(self._summary(result))
        return result

    def result(self, reason: Reason, end: End | None) -> Result:
        """The result so far; ``end`` has the objective at the last iterate, if it was evaluated."""
        records = self.records
        value = records[-1].info.value if records else float("nan")
        evaluations = self.state.evaluations
        best, best_x = self.best, self.best_x
        if end is not None:
            value = end.value
            evaluations += self.search.num_samples
            if math.isfinite(value) and self._reached(value, best):
                best, best_x = value, self.state.x
        why = "" if end is None else end.why
        return Result(
            x=self.state.x.copy(),
            fun=value,
            best_x=best_x.copy(),
            best_fun=best,
            nfev=evaluations,
            nit=self.state.step,
            success=reason in SUCCESS,
            status=reason,
            message=f"{MESSAGES[reason]}: {why}." if why else MESSAGES[reason],
            dropped=sum(record.info.dropped for record in records),
            faults=dict(self.faults if end is None else self.faults + Counter(end.faults)),
            seed=self.state.seed,
            history=history(records),
            state=self.state,
        )

    def _until_end(self, session: Session) -> Result:
        reason: Reason = "interrupted"
        try:
            reason = self._loop(session)
            self.end = self._end(session, reason)
        except KeyboardInterrupt:
            if self.interrupts.count > 1:
                raise
            reason = "interrupted"
        except EvaluationError as error:
            error.result = self.result("interrupted", None)
            raise
        finally:
            if self.interrupts.count < 2:
                self._save()
        return self.result(reason, self.end)

    def _loop(self, session: Session) -> Reason:
        """Step until there is a reason to stop."""
        limits = self.config.limits
        per_step = len(self.search.plan)
        while True:
            if self.state.evaluations + per_step > limits.budget - self.search.num_samples:
                return "budget"
            if limits.max_steps is not None and self.state.step >= limits.max_steps:
                return "max_steps"
            info = self._step(session)
            if info.diverged is not None:
                return "diverged"
            if self.callback is not None and self.callback(info, self.state):
                return "callback"
            if limits.target is not None and self._reached(info.value, limits.target):
                return "target"
            if self._is_short(info, limits):
                return "tolerance"
            if self.folder is not None and self.folder.due(self.state.step):
                self._save()

    def _step(self, session: Session) -> StepInfo:
        """Ask, evaluate, tell."""
        batch = self.search.ask(self.state)
        evaluated = self._evaluate(session, batch)
        self.state, info = self._tell(batch, evaluated.values)
        if self._reached(info.best_value, self.best) and info.best_value != self.best:
            self.best, self.best_x = info.best_value, batch.point(info.best_index)
        record = Record(info, evaluated.faults)
        self.records.append(record)
        self.faults.update(record.faults)
        if self.folder is not None:
            self.folder.record(record)
        self.observers.step(info, self.faults, session.workers)
        return info

    def _evaluate(self, session: Session, batch: Batch) -> Evaluated:
        with self.interrupts.allowed():
            evaluated = session.evaluate(self.state, batch)
        if self.search.on_failure == "raise":
            check_finite(batch, evaluated.values)
        return evaluated

    def _tell(self, batch: Batch, values: NDArray[np.float64]) -> tuple[SearchState, StepInfo]:
        try:
            return self.search.tell(self.state, batch, values)
        except ValueError as error:  # too few directions are left
            bad = np.flatnonzero(~np.isfinite(values))
            if not len(bad):
                raise
            raise EvaluationError(
                str(error), step=batch.step, index=int(bad[0]), kind="non-finite"
            ) from None

    def _is_short(self, info: StepInfo, limits: Limits) -> bool:
        """Whether this was the tenth short step in a row."""
        if limits.tolerance is None:
            return False
        size = 1 + float(np.linalg.norm(self.state.x.reshape(-1).astype(np.float64)))
        short = info.step_size <= limits.tolerance * size
        self.short_steps = self.short_steps + 1 if short else 0
        return self.short_steps == _SHORT_STEPS

    def _end(self, session: Session, reason: Reason) -> End:
        """The mean of N values at the last iterate, with the samples of the next step."""
        n = self.search.num_samples
        here = np.zeros(n, np.int64)
        batch: Batch = self.search.ask(self.state).planned(Plan(here, here, np.arange(n)))
        evaluated = self._evaluate(session, batch)
        why = self.records[-1].info.diverged if self.records else None
        value = float(np.mean(evaluated.values))
        return End(reason, why or "", value, dict(evaluated.faults))

    def _reached(self, value: float, target: float) -> bool:
        return value >= target if self.search.maximize else value <= target

    def _save(self) -> None:
        if self.folder is None:
            return
        self.folder.save(
            Snapshot(
                state=self.state,
                best_x=np.asarray(self.best_x),
                best=self.best,
                short_steps=self.short_steps,
                limits=self.config.limits,
                end=self.end,
            )
        )

    def _reason(self, end: End) -> Reason:
        if end.reason not in get_args(Reason):
            assert self.folder is not None
            raise CheckpointError(self.folder.path, f"ended for no reason: {end.reason[:80]!r}.")
        return cast(Reason, end.reason)

    def _announce(self) -> None:
        limits = self.config.limits
        self.observers.start(
            Start(
                run=self.config.run,
                config=to_json(self.config)[0] if self.observers else {},
                step=self.state.step,
                evaluations=self.state.evaluations,
                budget=limits.budget,
                max_steps=limits.max_steps,
            )
        )

    def _summary(self, result: Result, error: BaseException | None = None) -> dict[str, Any]:
        names = ("status", "message", "success", "fun", "best_fun", "nfev", "nit")
        summary = {name: result[name] for name in names}
        if error is not None:
            summary |= {"status": "failed", "message": f"{type(error).__name__}: {error}"}
        return summary
