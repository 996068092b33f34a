"""The files of a run, by the names they have always had; see :mod:`gensmooth.runs`.

A run is a program now, and the one of :func:`gensmooth.minimize` is
:class:`~gensmooth.optimize.Minimization`. :class:`RunConfig` is what it is before it has begun,
:class:`Snapshot` where it stands between two steps:

>>> import gensmooth as gs
>>> from gensmooth.checkpoint import RunConfig, RunFolder, Snapshot
>>> folder = getfixture("tmp_path") / "run"
>>> res = gs.minimize(lambda x: x @ x, [1.0, 2.0], budget=500, seed=0, checkpoint=folder)
>>> with RunFolder(folder, create=False) as held:
...     config = RunConfig.of(held)
...     snapshot = Snapshot.of(held, config)
>>> config.limits.budget, snapshot.state.step == res.nit, snapshot.best >= res.best_fun
(500, True, True)
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, cast

from numpy.typing import NDArray

from gensmooth.coordinates import Held
from gensmooth.naming import find_function, name_of
from gensmooth.optimize import Minimization, check_limits
from gensmooth.parameters import LogScale
from gensmooth.resuming import falling
from gensmooth.runs import (
    CheckpointError,
    End,
    Every,
    Execution,
    Found,
    Limits,
    Record,
    RunFolder,
    container,
    kind_of,
    parse_every,
)
from gensmooth.runs.files import Position
from gensmooth.runs.folder import config_of
from gensmooth.search import RandomSearch, Search, SearchState
from gensmooth.trees import Tree

__all__ = [
    "CheckpointError",
    "End",
    "Every",
    "Execution",
    "Found",
    "Limits",
    "Record",
    "RunConfig",
    "RunFolder",
    "Snapshot",
    "container",
    "falling",
    "find_function",
    "kind_of",
    "make_limits",
    "name_of",
    "parse_every",
    "to_json",
]

Array = NDArray[Any]


@dataclass(frozen=True)
class RunConfig:
    """A run, before it has begun: a :class:`~gensmooth.optimize.Minimization` with its name.

    Attributes:
        run: A random name.
        objective: ``module:function``, or ``None`` for a function without a name.
        x0: Where it starts.
        seed: Its seed.
        search: Directions, estimator, optimiser and the rest; or the pilot.
        learning_rate: If not ``None``, the optimiser is Adam whose rate falls from this to 0
            over the budget, and is made anew when the budget is extended.
        vectorized: Whether the objective takes stacked points, or how many.
        limits: When it stops.
        execution: How it is carried out.
        extensions: The limits that earlier parts of it had, each with the step it went on from.
        noise: What is known of the noise of values.
        log_scale: Which parameters are on a log scale.
        held: Which bounds hold.
        tree: The structure in which the objective has them.
        source: The hash of the objective's source when the run began, if it was known.
    """

    run: str
    objective: str | None
    x0: Array
    seed: int
    search: Search
    learning_rate: float | None
    vectorized: bool | int
    limits: Limits
    execution: Execution
    extensions: tuple[Mapping[str, Any], ...] = ()
    noise: Literal["returned"] | float | None = None
    log_scale: LogScale | None = None
    held: Held | None = None
    tree: Tree | None = None
    source: str | None = None

    @classmethod
    def of(
        cls, folder: RunFolder, given: Mapping[str, Any] | None = None, *, trust: bool = False
    ) -> "RunConfig":
        """The run that a folder holds; ``given`` has choices that could not be written down."""
        program = folder.read(
            None,
            lambda found, large: Minimization.from_json(found, large, given or {}, trust=trust),
        )
        return cls._named(folder.run, program)

    @property
    def program(self) -> Minimization:
        """What is run, without its objective and its evaluator."""
        return Minimization(
            **{each.name: getattr(self, each.name) for each in fields(self) if each.name != "run"}
        )

    def extended(self, limits: Limits, step: int) -> "RunConfig":
        """The run with other limits from ``step`` on."""
        if limits == self.limits:
            return self
        return self._named(self.run, self.program.extended(limits, step))

    @classmethod
    def _named(cls, run: str, program: Minimization) -> "RunConfig":
        names = [each.name for each in fields(cls) if each.name != "run"]
        return cls(run, **{name: getattr(program, name) for name in names})


class Snapshot(NamedTuple):
    """A run between two steps: what is found in its folder, with the limits it ran under.

    Attributes:
        state: The search's state.
        best_x: The point of the best single value seen.
        best: That value.
        short_steps: How many of the last steps, in a row, were shorter than the tolerance.
        limits: The limits it ran under.
        end: How the run ended, if it has.
        position: How far ``metrics.jsonl`` goes.
    """

    state: SearchState
    best_x: Array
    best: float
    short_steps: int
    limits: Limits
    end: End | None
    position: Position = Position()

    @classmethod
    def of(cls, folder: RunFolder, config: RunConfig) -> "Snapshot":
        """How far a run has got; one without a checkpoint is at its start."""
        found = folder.load(config.program)
        return cls(*found.state, config.limits, found.end, found.position)


def make_limits(
    search: RandomSearch,
    budget: float,
    max_steps: int | None,
    target: float | None,
    tolerance: float | None,
) -> Limits:
    """Limits from a user, checked."""
    whole = math.floor(budget) if math.isfinite(budget) else budget
    asked = Limits(cast(int, whole), max_steps, target, tolerance)
    return check_limits(asked, len(search.plan), search.num_samples)


def to_json(config: RunConfig) -> tuple[dict[str, Any], dict[str, Array]]:
    """The contents of ``config.json``, and the arrays that are too large for it."""
    arrays: dict[str, Array] = {}
    return config_of(config.program, config.run, arrays), arrays
