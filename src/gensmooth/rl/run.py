"""A training in progress: iterate and test until there is a reason to stop, and lose nothing."""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, cast, get_args

from gensmooth.checkpoint import CheckpointError
from gensmooth.evaluators import EvaluationError
from gensmooth.observe import Observers, Start
from gensmooth.optimize.interrupts import Interrupts
from gensmooth.rl.folder import POLICY_BEST, POLICY_LAST, End, Found, Line, Progress, TrainFolder
from gensmooth.rl.result import (
    MESSAGES,
    SUCCESS,
    Reason,
    TrainResult,
    best_policy,
    last_policy,
)
from gensmooth.rl.rollouts import Rollouts
from gensmooth.rl.trainer import Iteration, Test, TrainState

Callback = Callable[[Iteration, Test | None, TrainState], bool | None]

_WORDS = {
    "step": "iteration",
    "evaluations": "trajectories",
    "evaluations/s": "trajectories/s",
    "value": "training return",
}
_log = logging.getLogger("gensmooth")


class TrainRun:
    """A training in progress.

    Args:
        found: What is trained, and how far it has got.
        folder: Where it is kept, if anywhere; opened.
        callback: Called after each iteration; true stops.
        observers: Who follows it.
    """

    def __init__(
        self,
        found: Found,
        *,
        folder: TrainFolder | None,
        callback: Callback | None,
        observers: Observers,
    ) -> None:
        self.config = found.config
        self.trainer = found.config.trainer
        self.folder = folder
        self.callback = callback
        self.observers = observers
        self.interrupts = Interrupts()
        self.lines = found.lines
        self.faults: Counter[str] = Counter()
        for line in found.lines:
            self.faults.update(line.faults)
        self.end: End | None = None
        if found.progress is None:
            self.state = self.trainer.init(self.config.seed)
        else:
            self.state, schedule, end = found.progress
            if schedule == self.config.schedule or (end and end.reason == "diverged"):
                self.end = end

    def execute(self, rollouts: Rollouts) -> TrainResult:
        """Run until there is a reason to stop."""
        self.end = None
        try:
            self._announce()
            with self.interrupts.watch():
                result = self._until_end(rollouts)
        except BaseException as error:
            self.observers.end(self._summary(self.result("interrupted", ""), error))
            raise
        self.observers.end(self._summary(result))
        return result

    def ended(self) -> TrainResult | None:
        """What came of it, if it has ended for good."""
        if self.end is None or self.end.reason == "callback":
            return None
        if self.end.reason not in get_args(Reason):
            assert self.folder is not None
            reason = self.end.reason[:80]
            raise CheckpointError(self.folder.path, f"ended for no reason: {reason!r}.")
        return self.result(cast(Reason, self.end.reason), self.end.why)

    def result(self, reason: Reason, why: str) -> TrainResult:
        """The result so far."""
        tests = tuple(line.test for line in self.lines if line.test is not None)
        state = self.state
        return TrainResult(
            policy=last_policy(self.config, state, tests[-1] if tests else None),
            best=best_policy(self.config, state),
            iterations=state.search.step,
            trajectories=state.search.evaluations,
            env_steps=state.env_steps,
            success=reason in SUCCESS,
            status=reason,
            message=f"{MESSAGES[reason]}: {why}." if why else MESSAGES[reason],
            faults=dict(self.faults),
            seed=self.config.seed,
            tests=tests,
            history=tuple(line.iteration for line in self.lines),
            state=state,
        )

    def _until_end(self, rollouts: Rollouts) -> TrainResult:
        reason: Reason = "interrupted"
        why = ""
        try:
            reason, why = self._loop(rollouts)
            self.end = End(reason, why)
        except KeyboardInterrupt:
            if self.interrupts.count > 1:
                raise
            reason = "interrupted"
        except EvaluationError as error:
            error.result = self.result("interrupted", "")
            raise
        finally:
            if self.interrupts.count < 2:
                self._save()
        return self.result(reason, why)

    def _loop(self, rollouts: Rollouts) -> tuple[Reason, str]:
        schedule = self.config.schedule
        while self.state.search.step < schedule.iterations:
            iteration, test = self._iterate(rollouts)
            if iteration.info.diverged is not None:
                return "diverged", iteration.info.diverged
            if self.callback is not None and self.callback(iteration, test, self.state):
                return "callback", ""
            if test and schedule.target is not None and test.mean_return >= schedule.target:
                return "target", ""
            if self.folder is not None and self.folder.store.due(self.state.search.step):
                self._save()
        return "iterations", ""

    def _iterate(self, rollouts: Rollouts) -> tuple[Iteration, Test | None]:
        """An iteration and, when it is due, a test; both or nothing."""
        schedule = self.config.schedule
        with self.interrupts.allowed():
            state, iteration = self.trainer.step(self.state, rollouts)
        faults, test = Counter(rollouts.faults), None
        step = state.search.step
        if step % schedule.test_every == 0 or step == schedule.iterations:
            with self.interrupts.allowed():
                state, test = self.trainer.test(state, rollouts, schedule.test_episodes)
            faults.update(rollouts.faults)
        line = Line(iteration, test, dict(faults))
        improved = state.best is not self.state.best
        self.state = state
        self.lines.append(line)
        self.faults.update(faults)
        if self.folder is not None:
            self.folder.record(line)
            if improved:
                self._write_policy(POLICY_BEST)
        self.observers.step(iteration.info, self.faults, rollouts.workers, self._more(iteration))
        return iteration, test

    def _save(self) -> None:
        if self.folder is None:
            return
        self.folder.save(Progress(self.state, self.config.schedule, self.end))
        self._write_policy(POLICY_LAST)
        if any(line.test for line in self.lines):
            self._write_policy(POLICY_BEST)

    def _write_policy(self, name: str) -> None:
        assert self.folder is not None
        if name == POLICY_BEST:
            policy = best_policy(self.config, self.state)
        else:
            test = next((line.test for line in self.lines[-1:]), None)
            policy = last_policy(self.config, self.state, test)
        try:
            policy.save(self.folder.path / name)
        except OSError as error:
            _log.warning("Could not write %s: %s.", self.folder.path / name, error)

    def _more(self, iteration: Iteration) -> dict[str, float]:
        last = next((line.test for line in reversed(self.lines) if line.test is not None), None)
        more = {"environment steps": float(iteration.env_steps), "length": iteration.mean_length}
        if last is not None:
            more |= {"test return": last.mean_return, "best test": self.state.best.mean_return}
            if last.success is not None:
                more["success"] = last.success
        return more

    def _announce(self) -> None:
        schedule, search = self.config.schedule, self.state.search
        self.observers.start(
            Start(
                run=self.config.run,
                config=self.config.to_json() if self.observers else {},
                step=search.step,
                evaluations=search.evaluations,
                budget=schedule.iterations * len(self.trainer.search.plan),
                max_steps=schedule.iterations,
                words=_WORDS,
            )
        )

    def _summary(self, result: TrainResult, error: BaseException | None = None) -> dict[str, Any]:
        summary: dict[str, Any] = {
            "status": result.status,
            "message": result.message,
            "success": result.success,
            "fun": result.tests[-1].mean_return if result.tests else float("nan"),
            "best_fun": result.best.mean_return,
            "nfev": result.trajectories,
            "nit": result.iterations,
        }
        if error is not None:
            summary |= {"status": "failed", "message": f"{type(error).__name__}: {error}"}
        return summary
