"""What a run gives: its result and its history, in memory and as a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.describe import number, whole
from gensmooth.parameters import is_tree
from gensmooth.runs import MESSAGES, CheckpointError, Reason, Record, result_file, states
from gensmooth.search import SearchState
from gensmooth.streams import check_seed
from gensmooth.trees import Tree
from gensmooth.trees import plain as plain_tree


class History(NamedTuple):
    """One entry per step.

    Attributes:
        evaluations: Evaluations so far.
        value: The objective as each step saw it.
        gradient_norm: ‖estimate‖.
        standard_error: NaN where there is none.
        step_size: ‖change of x‖.
        best_value: The best single value of each step.
        faults: Events of each kind, such as ``{"timeout": 1}``; mostly empty.
    """

    evaluations: NDArray[np.int64]
    value: NDArray[np.float64]
    gradient_norm: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    step_size: NDArray[np.float64]
    best_value: NDArray[np.float64]
    faults: Sequence[Mapping[str, int]]


@dataclass(frozen=True)
class Result:
    """What a run found; SciPy's names where SciPy has one.

    Attributes:
        x: The point to use. The pilot's: the best one seen if values are exact, the centre of its
            search if they are noisy, because the best of many noisy values is mostly luck. With a
            method of the paper: the last iterate. An array, or the structure that x0 has.
        fun: The objective there, evaluated once more at the end (N samples if sampled; the mean of
            several values if the pilot found them noisy).
        best_x: The point of the best single value seen: the recommended point of an
            objective without noise.
        best_fun: That value; under noise it is too good to be true.
        nfev: Evaluations made.
        nit: Steps made.
        success: Whether the run ended as planned (budget, steps, target or tolerance), and found
            any value at all.
        status: The reason it ended.
        message: The reason in words.
        dropped: Directions left out because a value was not finite.
        faults: What went wrong on the way, by kind (``exception``, ``non-finite``, ``timeout``,
            ``died``), whether it was retried, dropped or the end.
        seed: The seed, drawn for you if you gave none: with it the run repeats exactly.
        history: One entry per step.
        state: The state after the last step: the search's ``ask`` goes on from it. Of parameters on
            a log scale it has the logarithms, and none that bounds hold. A result that was loaded
            from a file has none: to go on with a run later, give it a ``checkpoint``.
        error: The standard error of ``fun`` under noise: from several values there, and where the
            budget allows few of them also from the noise that was measured before.
        noise: The standard deviation of one value, as the pilot measured it: 0 if values are
            exact, ``None`` where it was not measured.
        warnings: What went wrong without failing, and what to do about it; in ``message`` and in
            the log too.
    """

    x: Any
    fun: float
    best_x: Any
    best_fun: float
    nfev: int
    nit: int
    success: bool
    status: Reason
    message: str
    dropped: int
    faults: Mapping[str, int]
    seed: int
    history: History = field(repr=False)
    state: SearchState | None = field(repr=False)
    error: float | None = None
    noise: float | None = None
    warnings: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:
        """``res["x"]``, as SciPy's result allows."""
        return getattr(self, name)

    def as_json(self, *, history: bool = False) -> dict[str, Any]:
        """All but ``state`` as plain JSON (with infinities), perhaps without the history."""
        names = [each.name for each in fields(self) if each.name not in ("history", "state")]
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        found |= {"x": plain_tree(self.x), "best_x": plain_tree(self.best_x)}
        found |= {"faults": dict(self.faults), "warnings": list(self.warnings)}
        x, tree = Tree.of(self.x) if is_tree(self.x) else (self.x, None)
        found |= result_file.header(x, None if tree is None else tree.to_json())
        if history:
            *arrays, faults = self.history
            listed = [array.tolist() for array in arrays]
            told = {str(i): dict(each) for i, each in enumerate(faults) if each}
            found["history"] = dict(zip(History._fields, [*listed, told], strict=True))
        return found

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result to a JSON file that :func:`load` reads; ``state`` is left out.

        >>> import gensmooth as gs
        >>> res = gs.minimize(lambda x: (x**2).sum(), [1.0, 2.0], budget=100, seed=0)
        >>> res.save(getfixture("tmp_path") / "best.json")
        >>> bool((gs.load(getfixture("tmp_path") / "best.json").x == res.x).all())
        True
        """
        result_file.write_result(checks.path("path", path), self.as_json(history=True))


def load(path: str | PathLike[str]) -> Result:
    """Read a result that :meth:`Result.save` or ``gensmooth minimize`` has written.

    Args:
        path: The file, such as ``"best.json"`` or the ``result.json`` of a run's folder. Where x is
            a dataclass or named tuple, it is a dict here, for ``Params(**res.x)``: reading a file
            runs nothing.

    Raises:
        CheckpointError: When it is no such file: a policy is read by ``gs.rl.load_policy``, and
            the run of a folder is told again by :func:`resume`.
    """
    file = checks.path("path", path)
    found = result_file.read_result(file)
    try:
        return _result_from_json(found)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise CheckpointError(file, f"is not a result: {error}.") from error


def _result_from_json(found: Mapping[str, Any]) -> Result:
    def maybe(name: str) -> float | None:
        return None if found[name] is None else number(found[name])

    if found["status"] not in MESSAGES or not isinstance(found["success"], bool):
        raise ValueError(f"its status is {str(found['status'])[:80]!r}")
    warnings: Any = found["warnings"]
    if not all(isinstance(each, str) for each in [found["message"], *warnings]):
        raise TypeError("its message or its warnings are not text")
    return Result(
        x=found["x"],
        fun=number(found["fun"]),
        best_x=found["best_x"],
        best_fun=number(found["best_fun"]),
        nfev=whole(found["nfev"]),
        nit=whole(found["nit"]),
        success=found["success"],
        status=found["status"],
        message=found["message"],
        dropped=whole(found["dropped"]),
        faults=states.faults_from_json(found["faults"]),
        seed=check_seed(found["seed"]),
        history=_history_from_json(found.get("history")),
        state=None,
        error=maybe("error"),
        noise=maybe("noise"),
        warnings=tuple(warnings),
    )


def _history_from_json(found: Any) -> History:
    """The history of a file; without one (the command writes none), no steps."""
    if found is None:
        return history_of(())
    *names, last = History._fields
    columns = [[number(value) for value in found[name]] for name in names]
    steps = len(columns[0])
    if any(len(column) != steps for column in columns):
        raise ValueError("the columns of its history differ in length")
    told = {int(step): states.faults_from_json(each) for step, each in found[last].items()}
    return History(
        np.array([whole(int(value)) for value in columns[0]], np.int64),
        *(np.array(column, np.float64) for column in columns[1:]),
        faults=tuple(told.get(step, {}) for step in range(steps)),
    )


def history_of(records: Sequence[Record]) -> History:
    """One entry per step."""
    infos = [record.info for record in records]
    return History(
        np.array([info.evaluations for info in infos], np.int64),
        np.array([info.value for info in infos], np.float64),
        np.array([info.gradient_norm for info in infos], np.float64),
        np.array([info.standard_error for info in infos], np.float64),
        np.array([info.step_size for info in infos], np.float64),
        np.array([info.best_value for info in infos], np.float64),
        tuple(record.faults for record in records),
    )
