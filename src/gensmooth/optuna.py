# pyright: reportPrivateUsage=false
"""An Optuna sampler for floating-point parameters.

>>> import optuna
>>> from gensmooth.optuna import GensmoothSampler
>>> optuna.logging.set_verbosity(optuna.logging.WARNING)
>>> study = optuna.create_study(sampler=GensmoothSampler(seed=0, budget=200))
>>> def objective(trial):
...     return (trial.suggest_float("x", -9, 9) - 2) ** 2 + trial.suggest_float("y", -9, 9) ** 2
>>> study.optimize(objective, n_trials=200)
>>> study.best_value < 1e-3
True

The search runs in the unit cube: 0 to 1 is the range of a parameter, or of its logarithm with
``log=True``. The search is a pure function of the seed and the reported values, so the storage only
holds the seed and the position of each trial. A study that is loaded again continues as if it had
never stopped, and processes that share a storage share one search. Integers, categories, floats
with a ``step``, and parameters that only some trials suggest are sampled by
``independent_sampler``.
"""

import hashlib
import json
import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

try:
    import optuna
    from optuna.distributions import BaseDistribution, FloatDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.search_space import IntersectionSearchSpace
    from optuna.trial import FrozenTrial, TrialState
except ImportError as error:
    raise ImportError(
        f"gensmooth.optuna needs {error.name}: pip install 'gensmooth[optuna]'", name=error.name
    ) from None
import numpy as np

from gensmooth import checks, streams
from gensmooth.estimators import Estimator
from gensmooth.optimizers import Optimizer
from gensmooth.points import PointByPoint, Ticket, make_search
from gensmooth.searches import AUTO
from gensmooth.searches.wanted import Wanted

_TICKET = "gensmooth:ticket"  # a trial's search space, step, and position in the step
_SEED = "gensmooth:seed"  # a study's seed
_ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


class GensmoothSampler(BaseSampler):
    """Samples floats by random search.

    Args:
        method: A method's name, or ``"auto"``, which needs no settings.
        seed: Makes a study repeatable. If the study already has a seed, that one is used.
        budget: The planned number of trials; ``None`` if you do not know it.
        x0: The start, by parameter name; by default, the middle of each range.
        num_workers: The number of trials that run at the same time.
        num_directions: L; for ``"auto"``, the number of pairs with which its evolution strategy
            starts.
        population: As in :func:`gensmooth.minimize`.
        spacing: c, as a fraction of a range. Not for ``"auto"``.
        estimator: As in :func:`gensmooth.minimize`.
        optimizer: As in :func:`gensmooth.minimize`, in fractions of a range.
        learning_rate: As in :func:`gensmooth.minimize`, in fractions of a range.
        independent_sampler: Samples the other parameters; Optuna's random sampler by default.
    """

    def __init__(
        self,
        method: str = AUTO,
        *,
        seed: int | None = None,
        budget: int | None = None,
        x0: dict[str, float] | None = None,
        num_workers: int = 1,
        num_directions: int | None = None,
        population: int | None = None,
        spacing: float | None = None,
        estimator: Estimator | str | None = None,
        optimizer: Optimizer | None = None,
        learning_rate: float | None = None,
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        self._wanted = Wanted(
            method=method,
            budget=budget,
            workers=num_workers,
            num_directions=num_directions,
            population=population,
            spacing=spacing,
            estimator=estimator,
            optimizer=optimizer,
            learning_rate=learning_rate,
            bounds=(0.0, 1.0),
        )
        make_search(1, self._wanted)  # checks the arguments
        self._seed = None if seed is None else streams.check_seed(seed)
        self._x0 = checks.mapping("x0", {} if x0 is None else x0)
        self._independent = independent_sampler or RandomSampler(seed=seed)
        self._intersection = IntersectionSearchSpace()
        self._lock = threading.RLock()
        self._points: PointByPoint | None = None
        self._key = ""  # identifies the search space
        self._seen = 0  # trials before this one belong to completed steps: no need to read them

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    def reseed_rng(self) -> None:
        """Reseed the independent sampler; the search uses the same seed in every worker."""
        self._independent.reseed_rng()

    def infer_relative_search_space(
        self, study: "optuna.Study", trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the floats that every trial so far has suggested."""
        del trial
        return {
            name: distribution
            for name, distribution in self._intersection.calculate(study).items()
            if isinstance(distribution, FloatDistribution)
            and distribution.step is None
            and not distribution.single()
        }

    def sample_relative(
        self, study: "optuna.Study", trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the next point of the search, in the parameters' own units."""
        if len(study.directions) > 1:
            raise ValueError(
                "GensmoothSampler needs a single objective, but the study has "
                f"{len(study.directions)}."
            )
        if not search_space:
            return {}
        with self._lock:
            points = self._search_for(study, search_space)
            self._catch_up(study, points, trial.number)
            ticket, x = points.ask()
            study._storage.set_trial_system_attr(
                trial._trial_id, _TICKET, [self._key, ticket.step, ticket.place]
            )
        return {
            name: _from_unit(search_space[name], float(u))
            for name, u in zip(sorted(search_space), x, strict=True)
        }

    def sample_independent(
        self,
        study: "optuna.Study",
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Sample a parameter outside the search, or the first trial, before the space is known."""
        start = self._x0.get(param_name)
        if start is not None and not self._intersection.calculate(study):
            if isinstance(param_distribution, FloatDistribution):
                _to_unit(param_distribution, start)  # raises an error if it is out of range
            return start
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: "optuna.Study", trial: FrozenTrial) -> None:
        """Call the independent sampler's ``before_trial``."""
        self._independent.before_trial(study, trial)

    def after_trial(
        self,
        study: "optuna.Study",
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Report a trial's value to the search; a failed or pruned trial has none."""
        with self._lock:
            if self._points is not None:
                self._tell(self._points, trial, state, values)
        self._independent.after_trial(study, trial, state, values)

    # --- the search -------------------------------------------------------------------------------

    def _search_for(
        self, study: "optuna.Study", space: dict[str, BaseDistribution]
    ) -> PointByPoint:
        """Return the search in a space, and restart it if the space has changed."""
        names = sorted(space)
        described = [[name, repr(space[name])] for name in names]
        key = hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]
        if self._points is None or key != self._key:
            maximize = study.direction == optuna.study.StudyDirection.MAXIMIZE
            search = make_search(len(names), replace(self._wanted, maximize=maximize))
            x0 = np.array([_to_unit(space[name], self._x0.get(name)) for name in names])
            self._points = PointByPoint(search, x0, seed=self._seed_of(study))
            self._key, self._seen = key, 0
        return self._points

    def _seed_of(self, study: "optuna.Study") -> int:
        stored = study._storage.get_study_system_attrs(study._study_id).get(_SEED)
        if stored is None:
            stored = str(streams.check_seed(self._seed))
            study._storage.set_study_system_attr(study._study_id, _SEED, stored)
        return int(stored)

    def _catch_up(self, study: "optuna.Study", points: PointByPoint, number: int) -> None:
        """Report values stored by other or earlier processes; mark the trials still running."""
        trials = [
            trial
            for trial in study._get_trials(deepcopy=False, use_cache=False)[self._seen :]
            if trial.number != number and self._ticket(trial) is not None
        ]
        ended = [trial for trial in trials if trial.state in _ENDED]
        before = -1
        while points.step != before:  # after a step, the values of the next one can be reported
            before = points.step
            for trial in ended:
                self._tell(points, trial, trial.state, trial.values)
        for trial in trials:
            if trial.state == TrialState.RUNNING and (ticket := self._ticket(trial)) is not None:
                points.mark_requested(ticket)
        for trial in trials:
            ticket = self._ticket(trial)
            if trial.state not in _ENDED or ticket is None or ticket.step >= points.step:
                break
            self._seen = trial.number + 1

    def _ticket(self, trial: FrozenTrial) -> Ticket | None:
        try:
            key, step, place = trial.system_attrs[_TICKET]
            return Ticket(int(step), int(place)) if key == self._key else None
        except (KeyError, TypeError, ValueError):
            return None

    def _tell(
        self,
        points: PointByPoint,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        ticket = self._ticket(trial)
        if ticket is not None:
            complete = state == TrialState.COMPLETE and values is not None
            points.tell(ticket, float(values[0]) if complete and values else math.nan)


def _to_unit(distribution: Any, value: float | None) -> float:
    """Return a parameter as a fraction of its range; ``None`` means the middle."""
    if value is None:
        return 0.5
    low, high = distribution.low, distribution.high
    if not low <= value <= high:
        raise ValueError(f"`x0` must be between {low} and {high}, but is {value}.")
    if distribution.log:
        low, high, value = math.log(low), math.log(high), math.log(value)
    return (value - low) / (high - low)


def _from_unit(distribution: Any, unit: float) -> float:
    """Invert :func:`_to_unit`; rounding never leaves the range."""
    low, high = distribution.low, distribution.high
    if distribution.log:
        value = math.exp(math.log(low) + unit * (math.log(high) - math.log(low)))
    else:
        value = low + unit * (high - low)
    return min(max(value, low), high)
