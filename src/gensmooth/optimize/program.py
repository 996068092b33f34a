"""A minimisation as a program: ask, evaluate, tell, until a limit is reached."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, cast, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.batch import Batch
from gensmooth.coordinates import Coordinates, Held
from gensmooth.describe import (
    describe_parts,
    number,
    plain,
    whole,
)
from gensmooth.estimators import Plan
from gensmooth.evaluators import (
    Evaluated,
    EvaluationError,
    Evaluator,
    Objective,
    Session,
)
from gensmooth.evaluators.base import tell
from gensmooth.observe import Seen, Start
from gensmooth.optimize.advice import advice
from gensmooth.optimize.files import (
    held_from_json,
    log_scale_from_json,
    search_from_json,
    search_to_json,
    tree_from_json,
)
from gensmooth.parameters import (
    LogScale,
    as_bounds,
    as_parameters,
)
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
from gensmooth.searches import (
    Search,
    SearchState,
    StepInfo,
)
from gensmooth.searches.choose import for_limits
from gensmooth.trees import Tree

Array = NDArray[Any]
Callback = Callable[[IntermediateResult], bool | None]

RETURNED = "returned"  # noise: the objective returns it
_NO_VALUE = "The objective failed at the recommended point, so there is no final value."
_NOT_THERE = "`fun` is the last step's estimate, because the objective was not evaluated at `x`."
_LUCKY = (
    "Values are noisy: `x` is the recommended point, and `fun` ± `error` is the mean of fresh "
    "values there. `best_fun` is the luckiest single value, and therefore too good."
)
_SAME = 1e-9  # of the total gain: smaller gains are not worth an evaluation
_SHORT_STEPS = 10  # in a row end a run with a tolerance


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
        source: The hash of its source when the run began, if it was known.
        x0: Where it starts.
        seed: Its seed.
        search: Directions, estimator, optimiser and the rest.
        falling_rate: If not ``None``, the optimiser is Adam whose rate falls from this to 0
            over the budget, and is made anew when the budget is extended.
        vectorized: Whether the objective takes stacked points, or how many.
        noise: What is known of the noise of values.
        log_scale: Which parameters ``x0`` and the state have as logarithms.
        held: Which parameters ``x0`` and the state do not have, because bounds hold them.
        tree: The structure in which the objective has them; ``x0`` and the state are flat.
        limits: When it stops.
        execution: How it is carried out.
        extensions: The limits that earlier parts of it had, each with the step it went on from.
        fun: The objective itself.
        evaluator: Who evaluates it.
        callback: Called after each step; true stops.
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
    log_scale: LogScale | None = None
    held: Held | None = None
    tree: Tree | None = None
    limits: Limits = field()
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
                short_steps = state.short_steps  # it was not to move x
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
            why = search.converged(state.search)
            if why is not None:
                return End("converged", why)
        needed = search.next_evaluations(state.search) + self._finals(state)
        if limits.budget is not None and state.search.evaluations + needed > limits.budget:
            return End("budget")
        if limits.max_steps is not None and state.search.step >= limits.max_steps:
            return End("max_steps")
        return None

    def _is_stopped(self, state: MinimizeState, info: StepInfo) -> bool:
        """Call the callback; returns whether it stops the run."""
        assert self.callback is not None
        now = IntermediateResult(
            x=self.coordinates.outward(state.search.x),
            fun=info.value,
            nfev=info.evaluations,
            nit=state.search.step,
            info=info,
            state=self._shown(state),
        )
        try:
            return bool(self.callback(now))
        except StopIteration:
            return True

    def finish(self, state: MinimizeState, end: End, session: Session) -> End:
        """The mean of some values at the point to use, with the samples of the next step."""
        n = self._finals(state, end)
        here = np.zeros(n, np.int64)
        at = state.search._replace(x=self.search.recommend(state.search))
        batch: Batch = self.search.ask(at).planned(Plan(here, here, np.arange(n)))
        evaluated = self._evaluate(session, at, batch)
        values, known = evaluated.values, self._errors(batch, evaluated)
        value, error = self.search.final_value(state.search, values, known)
        return end._replace(
            more={
                "value": plain(value),
                "error": plain(error),
                "evaluations": n,
                "faults": dict(evaluated.faults),
            }
        )

    def _errors(self, batch: Batch, evaluated: Evaluated) -> NDArray[np.float64] | None:
        """The standard errors of values, where they are known."""
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

    def _finals(self, state: MinimizeState, end: End | None = None) -> int:
        """How many values are taken at the point to use: several where one would say little.

        At the end of the budget those are all that is left of it.
        """
        n, search, budget = self.search.num_samples, self.search, self.limits.budget
        finals = search.final_evaluations(state.search)
        if end is None or budget is None or not search.noise(state.search):
            return finals
        left = max((budget - state.search.evaluations) // n * n, n)
        return left if end.reason == "budget" else min(finals, left)

    def _shown(self, state: MinimizeState) -> SearchState:
        """The search's state as users see it, with the structure of the parameters."""
        if self.tree is None or self.held is not None:
            return state.search
        return state.search._replace(tree=self.tree)

    @property
    def coordinates(self) -> Coordinates:
        """The way from what the search has to what the objective has."""
        return Coordinates(self.tree, self.held, self.log_scale)

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
            value, at_end = number(end.more["value"]), states.faults_from_json(end.more["faults"])
            evaluations += whole(end.more["evaluations"])
            if end.more["error"] is not None:
                error = number(end.more["error"])
            faults.update(at_end)
            if math.isfinite(value) and reached(value, best, self.search.maximize):
                best, best_x = value, x
        lost = finished and not math.isfinite(value)  # that of a direction is dropped
        search = self.search
        unseen = not finished and bool(records)
        if unseen and search.is_exact(state.search) and np.array_equal(x, best_x):
            value, unseen = best, False  # where values are exact, the best one is the point to use
        success = end.reason in SUCCESS and not lost
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
                    *([_NO_VALUE] if lost else []),
                    *([_NOT_THERE] if unseen else []),
                    *_since_when(search, state.search, records, end),
                    *([_LUCKY] if noise and error is not None else []),
                    *warnings,
                ]
            ),
            dropped=sum(record.info.dropped for record in records),
            faults=dict(faults),
            seed=state.search.seed,
            history=history_of(records),
            state=self._shown(state),
            error=error,
            noise=noise,
            warnings=tuple(warnings),
        )

    def settings(self, large: dict[str, Array]) -> dict[str, Any]:
        """See :class:`~gensmooth.runs.Program`."""
        search, bounds, execution = self.search, None, self.execution.to_json()
        described = search_to_json(search, large)
        if self.falling_rate is not None:
            described["optimizer"] = {"learning_rate": self.falling_rate}
        log_scale = held = None
        if self.log_scale is not None:
            mask = self.log_scale.mask.astype(np.float64)
            log_scale = array_to_json("log_scale", mask, large)
        if self.held is not None:
            free = self.held.free.astype(np.float64)
            held = {
                "free": array_to_json("free", free, large),
                "values": array_to_json("held", self.held.values, large),
            }
        described |= {
            "noise": self.noise,
            "log_scale": log_scale,
            "held": held,
            "structure": None if self.tree is None else self.tree.to_json(),
        }
        limits = describe_parts(self.limits, Limits._fields)
        x0 = array_to_json("x0", self.x0, large)
        if search.bounds is not None:
            bounds = {
                name: array_to_json(name, _one(limit), large)
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
        found: Mapping[str, Any],
        large: Mapping[str, Array],
        given: Mapping[str, Any],
        *,
        trust: bool = False,
    ) -> "Minimization":
        """The run of a ``config.json``; ``given`` has the choices that the caller passed again.

        Raises:
            ValueError: When it is not one, or when a choice must be passed again; so do
                ``TypeError`` and ``LookupError`` say.
        """
        x0 = as_parameters(array_from_json(found["x0"], large))
        described: dict[str, Any] = dict(found["search"])
        execution = Execution.from_json(found["execution"])
        limits = Limits.from_json(found["limits"])
        rate, search = search_from_json(
            described, large, given, limits, execution, x0=x0, trust=trust
        )
        if not isinstance(described["vectorized"], int):
            raise TypeError(f"`vectorized` is {str(described['vectorized'])[:80]}")
        search.init(x0, seed=found["seed"])  # complains about what does not fit together
        held = held_from_json(described["held"], large, x0)
        size = x0.shape if held is None else held.free.shape
        return cls(
            objective=None if found["objective"] is None else str(found["objective"]),
            source=None if found[SOURCE] is None else str(found[SOURCE])[:64],
            x0=x0,
            seed=found["seed"],
            search=search,
            falling_rate=rate,
            vectorized=described["vectorized"],
            noise=known_noise(described["noise"]),
            log_scale=log_scale_from_json(described["log_scale"], large, x0),
            held=held,
            tree=tree_from_json(described["structure"], given.get("x0"), size, trust=trust),
            limits=limits,
            execution=execution,
            extensions=tuple(found["extensions"]),
        )

    def extended(self, limits: Limits, step: int) -> "Minimization":
        """The run with other limits from ``step`` on."""
        before = {"until_step": step, **describe_parts(self.limits, Limits._fields)}
        search = for_limits(self.search, self.falling_rate, limits.budget, limits.max_steps)
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
        if whole(meta["evaluations"]) != search.evaluations:  # the pilot's depend on the values
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

    def read_record(self, found: dict[str, Any]) -> Record:
        """See :class:`~gensmooth.runs.Program`."""
        return states.record_from_json(found)

    def start(self, state: MinimizeState, start: Start) -> Start:
        """See :class:`~gensmooth.runs.Program`."""
        return start._replace(
            evaluations=state.search.evaluations,
            budget=self.limits.budget,
            max_steps=self.limits.max_steps,
        )

    def seen(self, state: MinimizeState, records: Sequence[Record], session: Session) -> Seen:  # noqa: ARG002
        """See :class:`~gensmooth.runs.Program`."""
        return Seen(records[-1].info, session.workers)

    def summary(self, result: Result) -> dict[str, Any]:
        """See :class:`~gensmooth.runs.Program`."""
        names = ("reason", "message", "success", "fun", "best_fun", "nfev", "nit")
        return {name: result[name] for name in names}

    def _evaluate(self, session: Session, state: SearchState, batch: Batch) -> Evaluated:
        evaluated = session.evaluate(state, batch)
        if self.search.on_failure == "raise":
            check_finite(batch, evaluated.values)
        return evaluated


def _since_when(
    search: Search, state: SearchState, records: Sequence[Record], end: End
) -> list[str]:
    """Say whether the search had converged long before the budget was used up."""
    if end.reason != "budget" or not search.is_exact(state):
        return []
    better = np.maximum if search.maximize else np.minimum
    best = better.accumulate([record.info.best_value for record in records])
    gain = abs(best[-1] - best[0])
    evaluations = records[int((np.abs(best - best[-1]) <= _SAME * gain).argmax())].info.evaluations
    if not gain > 0 or evaluations > state.evaluations / 2:
        return []
    return [
        f"The search had converged after {evaluations:,} of {state.evaluations:,} evaluations: the "
        "best value has hardly changed since."
    ]


def known_noise(given: object) -> Literal["returned"] | float | None:
    """What is known of the noise of values, checked."""
    if given is None:
        return None
    if isinstance(given, str):
        if given == RETURNED:
            return RETURNED
        raise ValueError(f"`noise` must be 'returned', a standard error or None, but is {given!r}.")
    return float(checks.nonnegative("noise", given))


def checked_limits(search: Search, asked: Limits, x: Array) -> Limits:
    """Check a user's limits: they must allow a first step and the values at the end."""
    first, num_samples = search.next_evaluations(search.init(x, seed=0)), search.num_samples
    least = first + num_samples
    budget = count("budget", asked.budget)
    if budget < least:
        raise ValueError(
            f"`budget` is {budget}, but one step takes {first} evaluations and the "
            f"final value {num_samples}: allow at least {least}, or lower `num_directions`."
        )
    target = checks.optional(checks.number, "target", asked.target)
    tolerance = checks.optional(checks.nonnegative, "tolerance", asked.tolerance)
    if target is not None and math.isnan(target):
        raise ValueError("`target` must be a number that a value can reach, but is nan.")
    return Limits(
        budget,
        checks.optional(count, "max_steps", asked.max_steps),
        None if target is None else float(target),
        None if tolerance is None else float(tolerance),
    )


def count(name: str, value: object) -> int:
    """A count, which people also write as 1e5."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return checks.count(name, value, 0)


def check_finite(batch: Batch, values: NDArray[np.float64]) -> None:
    """Name the first value that is not finite."""
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


def _one(limit: Array) -> Array:
    """One number for limits that are all the same; they are broadcast when they are used."""
    flat = limit.reshape(-1)
    return flat[0].reshape(()) if (flat == flat[0]).all() else limit
