"""The result and history of a run, in memory and as a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.describe import number, whole
from gensmooth.parameters import is_tree
from gensmooth.runs import (
    MESSAGES,
    NO_VALUE,
    STATUS,
    CheckpointError,
    Reason,
    Record,
    result_file,
    states,
)
from gensmooth.searches import Search, SearchState, StepInfo
from gensmooth.streams import check_seed
from gensmooth.trees import Tree
from gensmooth.trees import plain as plain_tree

_MAX_LINES, _MAX_WIDTH = 8, 200  # of a value in a printed result


class History(NamedTuple):
    """One entry per step.

    Attributes:
        evaluations: The number of evaluations so far.
        value: Each step's estimate of the objective at x.
        gradient_norm: The norm of the gradient estimate.
        standard_error: The standard error of the gradient estimate; NaN where there is none.
        step_size: The norm of the change of x.
        best_value: The best single value of each step.
        faults: The failures of each step by kind, such as ``{"timeout": 1}``.
    """

    evaluations: NDArray[np.int64]
    value: NDArray[np.float64]
    gradient_norm: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    step_size: NDArray[np.float64]
    best_value: NDArray[np.float64]
    faults: Sequence[Mapping[str, int]]


@dataclass(frozen=True)
class IntermediateResult:
    """What a callback receives after each step, with SciPy's names.

    Attributes:
        x: The current point, in your units and with the structure of x0.
        fun: The objective near x, as estimated by this step.
        nfev: The number of evaluations so far.
        nit: The number of steps so far.
        info: More about the step.
        state: The search's state. It contains the logarithms of parameters on a log scale and
            omits fixed parameters.
        search: The search. ``search.recommend(state)`` is the point that it would return now.
    """

    x: Any
    fun: float
    nfev: int
    nit: int
    info: StepInfo
    state: SearchState
    search: Search


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run, with SciPy's attribute names where they exist.

    Attributes:
        x: The recommended point, an array or a structure like x0. The pilot recommends the best
            point seen if values are exact, and the centre of its search if they are noisy, because
            the best of many noisy values is mostly luck. A method of the paper returns the last
            iterate.
        fun: The objective at x, evaluated once more at the end: with N samples if you passed
            ``samples``, several times if the pilot found noise. It is the mean of these values.
        best_x: The point with the best single value; use it if the objective has no noise.
        best_fun: The objective at ``best_x``. With noise, it is biased towards good values.
        nfev: The number of evaluations.
        nit: The number of steps.
        success: Whether the run ended as planned and the objective has a finite value at x.
        status: A number, as in SciPy: 0 if the run ended as planned (limits, target or
            convergence), 1 if it diverged, 2 if it was interrupted, 3 if the objective failed at x,
            4 if an error ended it, 99 if the callback stopped it.
        reason: The reason it ended: ``"budget"``, ``"max_steps"``, ``"max_seconds"``,
            ``"target"``, ``"tolerance"``, ``"converged"``, ``"diverged"``, ``"interrupted"``
            (Ctrl-C), ``"terminated"`` (SIGTERM), ``"failed"`` (an error) or ``"callback"``.
        message: The reason as a sentence.
        dropped: The number of directions left out because a value was not finite.
        faults: The number of failures by kind (``exception``, ``non-finite``, ``timeout``,
            ``died``), whether they were retried, dropped, or ended the run.
        seed: The seed, drawn for you if you passed none. With it, the run repeats exactly.
        history: One entry per step.
        state: The state after the last step, from which the search's ``ask`` can continue. It
            contains the logarithms of parameters on a log scale and omits fixed parameters. A
            result loaded from a file has none; to continue a run later, use ``folder``.
        error: The standard error of ``fun`` if values are noisy. It is estimated from several
            values at x and, if the budget allows only a few, also from noise measured earlier.
        noise: The standard deviation of one value as measured by the pilot: 0 if values are exact,
            ``None`` if it was not measured.
        warnings: Problems that did not end the run, and what to do about them. They also appear in
            ``message`` and in the log.
    """

    x: Any
    fun: float
    best_x: Any
    best_fun: float
    nfev: int
    nit: int
    success: bool
    status: int
    reason: Reason
    message: str
    dropped: int
    faults: Mapping[str, int]
    seed: int
    history: History
    state: SearchState | None
    error: float | None = None
    noise: float | None = None
    warnings: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:
        """Return an attribute by name, as in ``res["x"]``, like SciPy's result."""
        return getattr(self, name)

    def __repr__(self) -> str:
        """Return a small table; the history and the state are left out."""
        shown = (
            *("message", "success", "status", "reason", "fun", "error", "noise", "x"),
            *("best_fun", "nfev", "nit", "dropped", "faults", "seed"),
        )
        rows = {name: getattr(self, name) for name in shown}
        empty = {name for name in ("error", "noise", "dropped", "faults") if not rows[name]}
        return table({name: value for name, value in rows.items() if name not in empty})

    def as_json(self, *, history: bool = False) -> dict[str, Any]:
        """Return all fields except ``state`` (and the history, unless asked for) as JSON."""
        names = [f.name for f in fields(self) if f.name not in ("history", "state")]
        content: dict[str, Any] = {name: getattr(self, name) for name in names}
        content |= {"x": plain_tree(self.x), "best_x": plain_tree(self.best_x)}
        content |= {"faults": dict(self.faults), "warnings": list(self.warnings)}
        x, tree = Tree.of(self.x) if is_tree(self.x) else (self.x, None)
        content |= result_file.header(x, None if tree is None else tree.to_json())
        if history:
            *arrays, faults = self.history
            listed = [array.tolist() for array in arrays]
            by_step = {str(step): dict(kinds) for step, kinds in enumerate(faults) if kinds}
            content["history"] = dict(zip(History._fields, [*listed, by_step], strict=True))
        return result_file.sealed(content)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result to a JSON file that :func:`load` reads; ``state`` is left out.

        >>> import gensmooth as gs
        >>> res = gs.minimize(lambda x: (x**2).sum(), [1.0, 2.0], budget=100, seed=0)
        >>> res.save(getfixture("tmp_path") / "best.json")
        >>> bool((gs.load(getfixture("tmp_path") / "best.json").x == res.x).all())
        True
        """
        result_file.write_result(checks.path("path", path), self.as_json(history=True))


def status_of(reason: str, *, success: bool) -> int:
    """Return the status of a run that ended for this reason; see :class:`Result`."""
    status = STATUS[reason]
    return status if success or status != 0 else NO_VALUE


def table(rows: Mapping[str, Any]) -> str:
    """Format names and values as a table, one per line; long values are shortened.

    >>> print(table({"fun": 0.25, "x": np.zeros(3)}))
    fun: 0.25
      x: [0. 0. 0.]
    """
    width = max(map(len, rows))
    with np.printoptions(precision=4, threshold=20, edgeitems=3):
        texts = {name: _shorten(value, width) for name, value in rows.items()}
    return "\n".join(f"{name:>{width}}: {text}" for name, text in texts.items())


def _shorten(value: Any, indent: int) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    lines = str(value).splitlines() or [""]
    lines = lines if len(lines) <= _MAX_LINES else [*lines[: _MAX_LINES - 1], "…"]
    cut = (line if len(line) <= _MAX_WIDTH else f"{line[: _MAX_WIDTH - 1]}…" for line in lines)
    return f"\n{' ' * (indent + 2)}".join(cut)


def load(path: str | PathLike[str]) -> Result:
    """Read a result written by :meth:`Result.save` or ``gensmooth minimize``.

    Args:
        path: The file, such as ``"best.json"`` or the ``result.json`` of a run's folder. A
            dataclass or named tuple is returned as a dict, for ``Params(**res.x)``, because reading
            a file never runs code.

    Raises:
        CheckpointError: If it is not such a file. Read a policy with ``gs.rl.load_policy``, and a
            run's folder with :func:`resume`.
    """
    file = checks.path("path", path)
    content = result_file.read_result(file)
    try:
        return _result_from_json(content)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise CheckpointError(file, f"is not a result: {error}.") from error


def _result_from_json(content: Mapping[str, Any]) -> Result:
    def optional(name: str) -> float | None:
        return None if content[name] is None else number(content[name])

    reason = content["reason"]
    if reason not in MESSAGES or not isinstance(content["success"], bool):
        raise ValueError(f"its reason {str(reason)[:80]!r} or its `success` is not valid")
    warnings: Any = content["warnings"]
    if not all(isinstance(message, str) for message in [content["message"], *warnings]):
        raise TypeError("its message or its warnings are not strings")
    return Result(
        x=content["x"],
        fun=number(content["fun"]),
        best_x=content["best_x"],
        best_fun=number(content["best_fun"]),
        nfev=whole(content["nfev"]),
        nit=whole(content["nit"]),
        success=content["success"],
        status=status_of(reason, success=content["success"]),
        reason=reason,
        message=content["message"],
        dropped=whole(content["dropped"]),
        faults=states.faults_from_json(content["faults"]),
        seed=check_seed(content["seed"]),
        history=_history_from_json(content.get("history")),
        state=None,
        error=optional("error"),
        noise=optional("noise"),
        warnings=tuple(warnings),
    )


def _history_from_json(content: Any) -> History:
    """Read the history; it is empty for a file written by the command, which stores none."""
    if content is None:
        return history_of(())
    *names, last = History._fields
    columns = [[number(value) for value in content[name]] for name in names]
    steps = len(columns[0])
    if any(len(column) != steps for column in columns):
        raise ValueError("the columns of its history differ in length")
    by_step = {int(step): states.faults_from_json(kinds) for step, kinds in content[last].items()}
    return History(
        np.array([whole(int(value)) for value in columns[0]], np.int64),
        *(np.array(column, np.float64) for column in columns[1:]),
        faults=tuple(by_step.get(step, {}) for step in range(steps)),
    )


def history_of(records: Sequence[Record]) -> History:
    """Return the history of a run from its records, one per step."""
    first, *names, _ = History._fields
    return History(
        np.array([getattr(record.info, first) for record in records], np.int64),
        *(np.array([getattr(r.info, name) for r in records], np.float64) for name in names),
        faults=tuple(record.faults for record in records),
    )
