"""A minimisation as a program: ask, evaluate, tell, until a limit is reached."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, cast, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, fields
from gensmooth.batch import Batch
from gensmooth.coordinates import Coordinates
from gensmooth.describe import describe_parts, number, plain, whole
from gensmooth.estimators import Plan
from gensmooth.evaluators import Evaluated, EvaluationError, Evaluator, Objective, Session
from gensmooth.evaluators.base import tell
from gensmooth.observe import Start, StepData
from gensmooth.optimize.advice import advice
from gensmooth.optimize.files import coordinates_from_json, search_from_json
from gensmooth.parameters import as_bounds, as_parameters
from gensmooth.results import IntermediateResult, Result, history_of, status_of
from gensmooth.runs import (
    MESSAGES,
    SOURCE,
    STOPPED,
    SUCCESS,
    End,
    Execution,
    Journal,
    Limits,
    Program,
    Reason,
    Record,
    array_from_json,
    array_to_json,
    reached,
    states,
)
from gensmooth.searches import Search, SearchState, StepInfo
from gensmooth.searches.choose import for_limits
from gensmooth.searches.files import to_parts

Array = NDArray[Any]
Callback = Callable[[IntermediateResult], bool | None]

RETURNED = "returned"  # `noise`: the objective returns the standard error of each value
_NO_VALUE = "The objective failed at the recommended point, so there is no final value."
_NOT_EVALUATED = "`fun` is the last step's estimate: the objective was not evaluated at `x`."
_NOISY = (
    "Values are noisy: `x` is the recommended point, and `fun` ± `error` is the mean of fresh "
    "values there. `best_fun` is the luckiest single value, and therefore too good."
)
_NEGLIGIBLE_GAIN = 1e-9  # as a fraction; see `_progress_at_end`
_STILL_IMPROVING = 0.1  # "still improving" means a gain in this last fraction of all evaluations
_SHORT_STEPS = 10  # this many in a row end a run with a tolerance
_END = fields.record(
    {
        "value": fields.real(),
        "error": fields.nullable(fields.real()),
        "evaluations": fields.count(),
        "faults": fields.table(fields.count()),
    }
)


class MinimizeState(NamedTuple):
    """A minimisation between two steps.

    Attributes:
        search: The search's state.
        best_x: The point of the best single value seen.
        best: That value.
        short_steps: How many of the last steps, in a row, were shorter than the tolerance.
    """

    search: SearchState
    best_x: Array
    best: float
    short_steps: int


@final
@dataclass(frozen=True, kw_only=True)
class Minimization(Program[MinimizeState, Record, Result]):
    """Random search on an objective, until a limit is reached.

    Attributes:
        objective: ``module:function``, or ``None`` for a function without a name.
        source: The hash of the objective's source when the run began, if it was known.
        x0: The start, in the search's parameters.
        seed: The seed.
        search: The search.
        falling_rate: If not ``None``, the optimiser is Adam whose rate falls from this to 0
            over the budget. It is recreated when the budget is extended.
        vectorized: Whether the objective takes stacked points, or how many.
        noise: What is known about the noise of values.
        coordinates: The conversion between the search's parameters and the objective's.
        limits: When the run stops.
        execution: Workers, time-out and the like, which do not affect the result.
        extensions: Earlier limits of the run, each with the step at which they were replaced.
        fun: The objective itself.
        evaluator: Evaluates the objective.
        callback: Called after each step; the run stops if it returns true.
    """

    kind: ClassVar[str] = "minimisation"
    resumed_by: ClassVar[str | None] = "gs.resume"
    reasons: ClassVar[Sequence[str]] = tuple(sorted(MESSAGES))
    compared: ClassVar[Mapping[str, str | None] | None] = {
        **dict.fromkeys(("objective", "seed", "x0")),
        **dict.fromkeys(("search", "limits"), "`{}`"),
    }

    objective: str | None
    x0: Array
    seed: int
    search: Search
    falling_rate: float | None
    vectorized: bool | int
    noise: Literal["returned"] | float | None = None
    coordinates: Coordinates
    limits: Limits
    execution: Execution
    extensions: tuple[Mapping[str, Any], ...] = ()
    source: str | None = None
    fun: Objective | None = None
    evaluator: Evaluator | None = None
    callback: Callback | None = None

    def init(self) -> MinimizeState:
        """See :class:`~gensmooth.runs.Program`."""
        state = self.search.init(self.x0, seed=self.seed)
        return MinimizeState(state, state.x, -math.inf if self.search.maximize else math.inf, 0)

    def session(self, journal: Journal | None) -> AbstractContextManager[Session]:
        """Start the workers."""
        assert self.fun is not None
        assert self.evaluator is not None
        return self.evaluator.session(self.search, replace(self.fun, journal=journal))

    def step(self, state: MinimizeState, session: Session) -> tuple[MinimizeState, Record]:
        """Ask, evaluate, tell."""
        search, before = self.search, state.search
        batch = search.ask(before)
        evaluated = self._evaluate(session, before, batch)
        errors = self._errors(batch, evaluated)
        after, info = tell(search, before, batch, evaluated.values, errors)
        best_x, best = state.best_x, state.best
        if info.best_value != best and reached(info.best_value, best, search.maximize):
            best_x, best = batch.point(info.best_index), info.best_value
        short_steps, tolerance = 0, self.limits.tolerance
        if tolerance is not None:
            length = float(np.linalg.norm(after.x.reshape(-1).astype(np.float64)))
            if search.is_looking(before) and info.step_size == 0:
                short_steps = state.short_steps  # this step was not meant to move x
            elif info.step_size <= tolerance * (1 + length):
                short_steps = state.short_steps + 1
        return MinimizeState(after, best_x, best, short_steps), Record(info, evaluated.faults)

    def stop(self, state: MinimizeState, last: Record | None) -> End | None:
        """See :class:`~gensmooth.runs.Program`."""
        limits, search = self.limits, self.search
        if last is not None:
            if last.info.diverged is not None:
                return End("diverged", last.info.diverged)
            if self.callback is not None and self._is_stopped(state, last.info):
                return End("callback")
            if limits.target is not None and reached(
                last.info.value, limits.target, search.maximize
            ):
                return End("target")
            if state.short_steps == _SHORT_STEPS:
                return End("tolerance")
            reason = search.converged(state.search)
            if reason is not None:
                return End("converged", reason)
        needed = search.next_evaluations(state.search) + self._final_evaluations(state)
        if limits.budget is not None and state.search.evaluations + needed > limits.budget:
            return End("budget")
        if limits.max_steps is not None and state.search.step >= limits.max_steps:
            return End("max_steps")
        return None

    def what_ends_it(self) -> str:
        """See :class:`~gensmooth.runs.Program`."""
        limits = self.limits
        ends = {
            "a value reaches the target": limits.target is not None,
            "ten steps in a row are shorter than the tolerance": limits.tolerance is not None,
            "the callback returns true": self.callback is not None,
            "the search converges, which it cannot if values are noisy": self.search.may_converge(),
        }
        possible = [end for end, applies in ends.items() if applies]
        until = f"until {', or until '.join(possible)}, or until" if possible else "until"
        return (
            f"There is no limit: the run goes on {until} you press Ctrl-C, which returns the "
            "result so far. To limit it, pass `budget`, `max_steps` or `max_seconds`."
        )

    def _is_stopped(self, state: MinimizeState, info: StepInfo) -> bool:
        """Call the callback, and return whether it stops the run."""
        assert self.callback is not None
        intermediate = IntermediateResult(
            x=self.coordinates.outward(state.search.x),
            fun=info.value,
            nfev=info.evaluations,
            nit=state.search.step,
            info=info,
            state=self._state_for_users(state),
            search=self.search,
        )
        try:
            return bool(self.callback(intermediate))
        except StopIteration:
            return True

    def finish(self, state: MinimizeState, end: End, session: Session) -> End:
        """Evaluate the recommended point, with the samples of the next step, and add the mean."""
        n = self._final_evaluations(state, end)
        zeros = np.zeros(n, np.int64)  # no direction: all evaluations are at x
        recommended = state.search._replace(x=self.search.recommend(state.search))
        batch: Batch = self.search.ask(recommended).planned(Plan(zeros, zeros, np.arange(n)))
        evaluated = self._evaluate(session, recommended, batch)
        errors = self._errors(batch, evaluated)
        value, error = self.search.final_value(state.search, evaluated.values, errors)
        return end._replace(
            more={
                "value": plain(value),
                "error": plain(error),
                "evaluations": n,
                "faults": dict(evaluated.faults),
            }
        )

    def read_end(self, more: Mapping[str, Any]) -> Mapping[str, Any]:
        """See :class:`~gensmooth.runs.Program`."""
        return _END(more, "end")

    def _errors(self, batch: Batch, evaluated: Evaluated) -> NDArray[np.float64] | None:
        """Return the standard errors of the values, if they are known."""
        if self.noise is None:
            return None
        if evaluated.extras is not None:
            errors = evaluated.extras[:, 0]
            if (errors < 0).any():
                first = int((errors < 0).argmax())
                raise EvaluationError(
                    f"The objective returned a standard error of {errors[first]:g}, at "
                    f"{batch.describe(first)}.",
                    step=batch.step,
                    index=first,
                    kind="return",
                )
            return errors
        return np.full(len(evaluated.values), float(self.noise))

    def _final_evaluations(self, state: MinimizeState, end: End | None = None) -> int:
        """Return how often the recommended point is evaluated: several times if values are noisy.

        If the run ends because of its budget, the rest of the budget is spent on this.
        """
        n, search, budget = self.search.num_samples, self.search, self.limits.budget
        usual = search.final_evaluations(state.search)
        if end is None or budget is None or not search.noise(state.search):
            return usual
        left = max((budget - state.search.evaluations) // n * n, n)
        return left if end.reason == "budget" else min(usual, left)

    def _state_for_users(self, state: MinimizeState) -> SearchState:
        """Return the search's state as users see it, with the structure of the parameters."""
        if self.coordinates.tree is None or self.coordinates.fixed is not None:
            return state.search
        return state.search._replace(tree=self.coordinates.tree)

    def result(self, state: MinimizeState, records: Sequence[Record], end: End) -> Result:
        """See :class:`~gensmooth.runs.Program`."""
        value = records[-1].info.value if records else float("nan")
        evaluations = state.search.evaluations
        best, best_x = state.best, state.best_x
        x, error = self.search.recommend(state.search), None
        faults: Counter[str] = Counter()
        for record in records:
            faults.update(record.faults)
        finished = end.reason not in STOPPED
        if finished:
            value = number(end.more["value"])
            evaluations += end.more["evaluations"]
            if end.more["error"] is not None:
                error = number(end.more["error"])
            faults.update(end.more["faults"])
            if math.isfinite(value) and reached(value, best, self.search.maximize):
                best, best_x = value, x
        failed = finished and not math.isfinite(value)
        search = self.search
        unevaluated = not finished and bool(records)
        if unevaluated and search.is_exact(state.search) and np.array_equal(x, best_x):
            value, unevaluated = best, False  # exact values: the best point is the recommended one
        success = end.reason in SUCCESS and not failed
        noise = search.noise(state.search)
        warnings = advice(
            search,
            self.x0,
            state.search,
            [record.info for record in records],
            value=value,
            error=error,
            noise=noise,
            budget=self.limits.budget,
        )
        return Result(
            x=self.coordinates.outward(x),
            fun=value,
            best_x=self.coordinates.outward(best_x),
            best_fun=best,
            nfev=evaluations,
            nit=state.search.step,
            success=success,
            status=status_of(end.reason, success=success),
            reason=cast(Reason, end.reason),
            message=" ".join(
                [
                    end.message(),
                    *([_NO_VALUE] if failed else []),
                    *([_NOT_EVALUATED] if unevaluated else []),
                    *_progress_at_end(search, state.search, records, end),
                    *([_NOISY] if noise and error is not None else []),
                    *warnings,
                ]
            ),
            dropped=sum(record.info.dropped for record in records),
            faults=dict(faults),
            seed=state.search.seed,
            history=history_of(records),
            state=self._state_for_users(state),
            error=error,
            noise=noise,
            warnings=tuple(warnings),
        )

    def settings(self, large: dict[str, Array]) -> dict[str, Any]:
        """See :class:`~gensmooth.runs.Program`."""
        search, bounds, execution = self.search, None, self.execution.to_json()
        described: dict[str, Any] = {
            name: array_to_json(name, cast(Array, part), large)
            if isinstance(part, np.ndarray)
            else part
            for name, part in to_parts(search).items()
        }
        if self.falling_rate is not None:
            described["optimizer"] = {"learning_rate": self.falling_rate}
        tree, fixed, logs = (
            self.coordinates.tree,
            self.coordinates.fixed,
            self.coordinates.log_scale,
        )
        described |= {
            "noise": self.noise,
            "log_scale": logs and array_to_json("log_scale", logs.mask.astype(np.float64), large),
            "held": fixed
            and {
                "free": array_to_json("free", fixed.free.astype(np.float64), large),
                "values": array_to_json("held", fixed.values, large),
            },
            "structure": tree and tree.to_json(),
        }
        limits = describe_parts(self.limits, Limits._fields)
        x0 = array_to_json("x0", self.x0, large)
        if search.bounds is not None:
            bounds = {
                name: array_to_json(name, _one_if_equal(limit), large)
                for name, limit in as_bounds(search.bounds, self.x0)._asdict().items()
            }
        return {
            "objective": self.objective,
            SOURCE: self.source,
            "seed": self.seed,
            "x0": x0,
            "search": {**described, "vectorized": self.vectorized, "bounds": bounds},
            "limits": limits,
            "execution": execution,
            "extensions": list(self.extensions),
        }

    @classmethod
    def from_json(
        cls,
        config: Mapping[str, Any],
        large: Mapping[str, Array],
        passed: Mapping[str, Any],
        *,
        trust: bool = False,
    ) -> "Minimization":
        """Return the run of a ``config.json``; ``passed`` has the objects that are passed again.

        Raises:
            ValueError: If the file is invalid, or if another object must be passed again.
            TypeError: If an entry has the wrong type.
            LookupError: If an entry is missing.
        """
        x0 = as_parameters(array_from_json(config["x0"], large))
        described: dict[str, Any] = dict(config["search"])
        execution = Execution.from_json(config["execution"])
        limits = Limits.from_json(config["limits"])
        rate, search = search_from_json(
            described, large, passed, limits, execution, x0=x0, trust=trust
        )
        if not isinstance(described["vectorized"], int):
            raise TypeError(f"`vectorized` is {str(described['vectorized'])[:80]}")
        search.init(x0, seed=config["seed"])  # raises an error if its parts do not fit together
        return cls(
            objective=None if config["objective"] is None else str(config["objective"]),
            source=None if config[SOURCE] is None else str(config[SOURCE])[:64],
            x0=x0,
            seed=config["seed"],
            search=search,
            falling_rate=rate,
            vectorized=described["vectorized"],
            noise=known_noise(described["noise"]),
            coordinates=coordinates_from_json(described, large, x0, passed.get("x0"), trust=trust),
            limits=limits,
            execution=execution,
            extensions=tuple(config["extensions"]),
        )

    def extended(self, limits: Limits, step: int) -> "Minimization":
        """Return the run with other limits from ``step`` on."""
        before = {"until_step": step, **describe_parts(self.limits, Limits._fields)}
        search = self.search
        if limits.budget != self.limits.budget:
            search = search.with_budget(limits.budget)
        search = for_limits(search, self.falling_rate, limits.budget, limits.max_steps)
        return replace(self, limits=limits, search=search, extensions=(*self.extensions, before))

    def pack(self, state: MinimizeState) -> tuple[dict[str, Any], dict[str, Array]]:
        """See :class:`~gensmooth.runs.Program`."""
        search = state.search
        skeleton, arrays = states.pack_search(self.search, search)
        meta = {
            "evaluations": search.evaluations,
            "seed": search.seed,
            "best": plain(state.best),
            "short_steps": state.short_steps,
            "kept": skeleton,
        }
        return meta, {"x": search.x, "best_x": np.asarray(state.best_x), **arrays}

    def largest(self) -> int:
        """See :class:`~gensmooth.runs.Program`."""
        return states.largest(self.x0.size)

    def unpack(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> MinimizeState:
        """See :class:`~gensmooth.runs.Program`."""
        if meta["seed"] != self.seed:
            raise ValueError(f"its seed is {str(meta['seed'])[:80]}, not {self.seed}")
        search = states.unpack_search(self.search, meta, arrays, x0=self.x0)
        if whole(meta["evaluations"]) != search.evaluations:
            raise ValueError(f"{search.step} steps do not take {meta['evaluations']} evaluations")
        best = number(meta["best"])
        if math.isnan(best):
            raise ValueError("its best value is not a number")
        short_steps = whole(meta["short_steps"])
        if Limits.from_json(meta["limits"]).tolerance != self.limits.tolerance:
            short_steps = 0
        return MinimizeState(search, states.like(self.x0, arrays, "best_x"), best, short_steps)

    def write_record(self, record: Record) -> dict[str, Any]:
        """See :class:`~gensmooth.runs.Program`."""
        return states.record_to_json(record)

    def read_record(self, stored: dict[str, Any]) -> Record:
        """See :class:`~gensmooth.runs.Program`."""
        return states.record_from_json(stored)

    def start(self, state: MinimizeState, start: Start) -> Start:
        """See :class:`~gensmooth.runs.Program`."""
        return start._replace(
            evaluations=state.search.evaluations,
            budget=self.limits.budget,
            max_steps=self.limits.max_steps,
        )

    def step_data(
        self, state: MinimizeState, records: Sequence[Record], session: Session
    ) -> StepData:
        """See :class:`~gensmooth.runs.Program`."""
        return StepData(records[-1].info, session.workers)

    def summary(self, result: Result) -> dict[str, Any]:
        """See :class:`~gensmooth.runs.Program`."""
        names = ("reason", "message", "success", "fun", "best_fun", "nfev", "nit")
        return {name: result[name] for name in names}

    def _evaluate(self, session: Session, state: SearchState, batch: Batch) -> Evaluated:
        evaluated = session.evaluate(state, batch)
        if self.search.on_failure == "raise":
            check_finite(batch, evaluated.values)
        return evaluated


def _progress_at_end(
    search: Search, state: SearchState, records: Sequence[Record], end: End
) -> list[str]:
    """Say whether exact values were still improving when the budget was used up.

    A gain is negligible if it is a tiny fraction of the total gain. But if x0 has a huge value,
    such as a penalty, that is true of almost every gain. So a search counts as converged only if
    later gains are also a tiny fraction of the best value, or of the gain in the second half.
    """
    if end.reason != "budget" or not search.is_exact(state):
        return []
    better = np.maximum if search.maximize else np.minimum
    best = better.accumulate([record.info.best_value for record in records]) / 2  # no overflow
    gain = abs(best[-1] - best[0])
    if not gain > 0:
        return []
    total, left = state.evaluations, np.abs(best - best[-1])
    half = sum(record.info.evaluations <= total / 2 for record in records)
    later = min(gain, max(left[min(half, len(left) - 1)], abs(best[-1])))
    evaluations, strictly = (
        records[int((left <= _NEGLIGIBLE_GAIN * scale).argmax())].info.evaluations
        for scale in (gain, later)
    )
    if evaluations <= total / 2:
        evaluations = strictly
    if evaluations <= total / 2:
        return [
            f"The search had converged after {evaluations:,} of {total:,} evaluations: the best "
            "value has hardly changed since."
        ]
    if total - evaluations <= _STILL_IMPROVING * total:
        return ["The best value was still improving."]
    return [f"There was no progress in the last {total - evaluations:,} evaluations."]


def known_noise(noise: object) -> Literal["returned"] | float | None:
    """Check the argument ``noise``."""
    if noise is None:
        return None
    if isinstance(noise, str):
        if noise == RETURNED:
            return RETURNED
        raise ValueError(f"`noise` must be 'returned', a standard error or None, but is {noise!r}.")
    return float(checks.nonnegative("noise", noise))


def checked_limits(search: Search, limits: Limits, x: Array) -> Limits:
    """Check a user's limits: they must allow a first step and the final value."""
    first, num_samples = search.next_evaluations(search.init(x, seed=0)), search.num_samples
    least = first + num_samples
    budget = None if limits.budget is None else count("budget", limits.budget)
    if budget is not None and budget < least:
        raise ValueError(
            f"`budget` is {budget}, but one step takes {first} evaluations and the "
            f"final value {num_samples}: allow at least {least}, or lower `num_directions`."
        )
    target = checks.optional(checks.number, "target", limits.target)
    tolerance = checks.optional(checks.nonnegative, "tolerance", limits.tolerance)
    if target is not None and math.isnan(target):
        raise ValueError("`target` must be a number that a value can reach, but is nan.")
    return Limits(
        budget,
        checks.optional(count, "max_steps", limits.max_steps),
        None if target is None else float(target),
        None if tolerance is None else float(tolerance),
    )


def count(name: str, value: object) -> int:
    """Check a count; ``1e5`` is accepted too."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return checks.count(name, value, 0)


def check_finite(batch: Batch, values: NDArray[np.float64]) -> None:
    """Raise an error that names the first value that is not finite."""
    finite = np.isfinite(values)
    if finite.all():
        return
    first = int(finite.argmin())
    raise EvaluationError(
        f"The objective returned {values[first]} (on_failure='drop' would leave its direction "
        f"out), at {batch.describe(first)}.",
        step=batch.step,
        index=first,
        kind="non-finite",
    )


def _one_if_equal(limit: Array) -> Array:
    """Return a single number if all limits are equal; reading it broadcasts it again."""
    flat = limit.reshape(-1)
    return flat[0].reshape(()) if (flat == flat[0]).all() else limit
