# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
"""Compare our step with MuJoCo's, term by term, and find the first difference.

A step is a chain of terms: positions, inertia, forces, constraints, accelerations, the next state,
then the environment's observation and reward. :func:`compare` computes each term twice from the
same state. It names the first term that differs by more than rounding, the joint, body or contact
where it differs, and the functions that compute it.

The terms up to ``efc_aref`` (:mod:`gensmooth.physics.terms` lists all) are the expressions of
:mod:`gensmooth.physics.mechanics`, evaluated on numbers (:mod:`gensmooth.physics.step_terms`). The
terms from ``qfrc_constraint`` to ``cfrc_ext`` come from the compiled function
(:mod:`gensmooth.physics.fused`). It runs on the CPU, compiled by Warp or, if Warp is not installed,
by the machine's C++ compiler. For the environment's terms, the traced functions are compared with
the original Python functions.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.physics import registry
from gensmooth.physics.drivers import FusedPhysics, load_warp, sizes
from gensmooth.physics.entry_names import active_constraints, entry_name, pair_name
from gensmooth.physics.environment import CompiledEnvironment
from gensmooth.physics.fused.source import FusedSource, fused
from gensmooth.physics.host_compiler import HostPhysics, find_compiler
from gensmooth.physics.mechanics.mechanism import Mechanism
from gensmooth.physics.mechanics.models import UnsupportedMechanismError
from gensmooth.physics.mujoco_calls import load_mujoco, physics, quiet
from gensmooth.physics.step_terms import State, both_values, forward, is_on_edge, pair_number
from gensmooth.physics.symbols import Slot, TraceError, value_of
from gensmooth.physics.terms import COMPILED, OUTCOME, TERMS, Term, place_of
from gensmooth.physics.tracing import DATA, Traced, trace

Array = NDArray[np.float64]
Values = dict[str, Array]

_FRAMES = 5  # MuJoCo steps between two states of a model without an environment
_BEYOND = 0.01  # how far beyond its limit a joint is in the states that test it, in rad or m


@final
@dataclass(frozen=True)
class Difference:
    """How far a term is from MuJoCo's, over all states.

    Attributes:
        term: The term.
        largest: The largest difference, relative to the larger of 1 and the term's largest entry;
            infinite if the two have different sizes.
        size: How many entries were compared, over all states; 0 if the term did not occur.
        step: The state shown as an example, counted from 0. If the term differs, this is the state
            with the fewest limits and contacts in which it does.
        entry: The entry of the term that differs most there, as an index of the flattened array.
        where: A readable name of this entry, such as "joint thigh_joint".
        ours: Our value of the entry.
        theirs: MuJoCo's value of the entry.
        active: The limits and contacts that act in this state.
    """

    term: Term
    largest: float
    size: int
    step: int
    entry: int
    where: str
    ours: float
    theirs: float
    active: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether the difference is no more than rounding."""
        return self.largest <= self.term.tolerance


@final
@dataclass(frozen=True)
class StepComparison:
    """A model's step compared with MuJoCo's.

    Attributes:
        name: The robot, or the model's file.
        steps: How many states were compared.
        differences: One for each term, in the order of a step.
        left_out: Why some terms were not computed; ``None`` if all were.
        untouched: The pairs of geoms that may touch, but did not in any of the states.
    """

    name: str
    steps: int
    differences: tuple[Difference, ...]
    left_out: str | None
    untouched: tuple[str, ...] = ()

    @property
    def first(self) -> Difference | None:
        """The first term that differs; ``None`` if all agree."""
        return next((each for each in self.differences if not each.agrees), None)

    def suspects(self, difference: Difference) -> list[tuple[str, list[str]]]:
        """Return where a term is computed, and which earlier terms use the same function and agree.

        Args:
            difference: One of ``differences``.
        """
        earlier = self.differences[: self.differences.index(difference)]
        agreeing = [each.term for each in earlier if each.agrees and each.size]
        return [
            (place_of(function), [term.name for term in agreeing if function in term.functions])
            for function in difference.term.functions
        ]


def compare(model: str, *, steps: int = 50, seed: int = 0) -> StepComparison:
    """Compare a model's step with MuJoCo's, term by term.

    Random actions move the robot, and every term is computed twice in each of its states. Two more
    states for each limited joint put it slightly beyond its lower and its upper limit. MuJoCo's
    solver runs Newton's method to its limit of accuracy, whichever solver the model specifies.

    Args:
        model: A robot, such as ``Hopper-v4`` or ``module:Name``, or a MuJoCo model file that ends
            in ``.xml``. For a file, only the physics is compared.
        steps: How many states of the moving robot to compare.
        seed: The seed of the random start and actions.

    Raises:
        ValueError: If there is no such robot, or it has an unsupported feature.
        ImportError: If MuJoCo is not installed.
    """
    return compare_changed(model, lambda _: None, steps=steps, seed=seed)


def compare_changed(
    model: str, change: Callable[[Any], object], *, steps: int = 50, seed: int = 0
) -> StepComparison:
    """Compare as :func:`compare` does, with a changed copy of the model on our side.

    The first term that differs shows where a constant of the model enters the step.

    Args:
        model: See :func:`compare`.
        change: Changes our copy of the ``MjModel``, in place.
        steps: See :func:`compare`.
        seed: See :func:`compare`.
    """
    steps, seed = checks.count("steps", steps), checks.count("seed", seed, least=0)
    environment = None if model.endswith(".xml") else registry.make(model)
    theirs = _exact(_read(Path(model)) if environment is None else environment.model())
    ours = copy.copy(theirs)
    change(ours)
    try:
        with quiet():
            mechanism = Mechanism(ours)
            law = None if environment is None else trace(environment, ours)
    except UnsupportedMechanismError as error:
        raise ValueError(
            f"{model} has {error}, which gensmooth.physics does not support: MuJoCo computes it "
            "on the CPU and MuJoCo Warp on a GPU, so there is nothing to compare."
        ) from error
    except TraceError as error:
        raise ValueError(f"{model} cannot be traced: {error}.") from error
    tally = _Tally()
    rng = np.random.default_rng(seed)
    with quiet():
        if environment is None or law is None:
            states = list(_walk(theirs, steps, rng))
        else:
            states = list(_play(environment, law, theirs, steps, rng, tally))
        states += _beyond_limits(theirs, states)
        states = [state for state in states if not is_on_edge(mechanism, state)]
        data_of = {state.number: forward(theirs, state) for state in states}
        touched: set[int] = set()
        for state in states:
            data = data_of[state.number]
            tally.add(state.number, *both_values(mechanism, theirs, state, data), data)
            touched |= {pair_number(theirs, c.geom1, c.geom2) for c in data.contact}
        left_out = _add_compiled(tally, mechanism, theirs, states, data_of) if states else None
    untouched = [
        pair_name(theirs, pair).removeprefix("contact of ")
        for pair in mechanism.pairs
        if pair_number(theirs, *pair) not in touched
    ]
    differences = tally.differences(theirs)
    return StepComparison(model, len(states), differences, left_out, tuple(untouched))


def _read(path: Path) -> Any:
    if not path.is_file():
        raise ValueError(f"There is no file {path}.")
    try:
        return load_mujoco().MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise ValueError(f"{path} is not a MuJoCo model: {error}") from None


def _exact(model: Any) -> Any:
    """Return a copy of a model that MuJoCo solves as accurately as it can."""
    mujoco, exact = load_mujoco(), copy.copy(model)
    exact.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    exact.opt.iterations = exact.opt.ls_iterations = 200
    exact.opt.tolerance, exact.opt.ls_tolerance = 0.0, 1e-14
    exact.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    return exact


class _Example(NamedTuple):
    """A term in one state: the difference, where it is, and MuJoCo's data of the state."""

    difference: float
    step: int
    entry: int
    ours: float
    theirs: float
    data: Any

    def rank(self, tolerance: float) -> tuple[bool, int, bool, float]:
        """Return a sort key; the best example has the largest.

        If a term differs, a state with few constraints is the easiest to understand.
        """
        differs = self.difference > tolerance
        rows = 0 if self.data is None else int(self.data.nefc)
        return differs, -rows if differs else 0, self.entry != _EMPTY, self.difference


_COUNT = -1  # the value of `entry` if the two have different sizes
_EMPTY = -2  # the value of `entry` if the term does not occur in this state


class _Tally:
    """The largest difference of each term so far."""

    def __init__(self) -> None:
        self._tolerances = {term.name: term.tolerance for term in TERMS}
        self._largest: dict[str, float] = {}
        self._sizes: dict[str, int] = {}
        self._examples: dict[str, _Example] = {}

    def add(
        self, step: int, ours: Mapping[str, Any], theirs: Mapping[str, Any], data: Any = None
    ) -> None:
        """Compare the terms of a state that are in both; ``data`` is MuJoCo's data of the state."""
        for name in ours.keys() & theirs.keys():
            one, two = (np.asarray(each[name], float).reshape(-1) for each in (ours, theirs))
            example = _Example(*_compared(one, two, step), data)
            self._sizes[name] = self._sizes.get(name, 0) + max(one.size, two.size)
            self._largest[name] = max(self._largest.get(name, 0.0), example.difference)
            best, tolerance = self._examples.get(name), self._tolerances[name]
            if best is None or example.rank(tolerance) > best.rank(tolerance):
                self._examples[name] = example

    def differences(self, model: Any) -> tuple[Difference, ...]:
        """Return each term that was compared, in the order of a step."""
        return tuple(self._difference(model, term) for term in TERMS if term.name in self._examples)

    def _difference(self, model: Any, term: Term) -> Difference:
        example = self._examples[term.name]
        where, active = f"entry {max(example.entry, 0)}", tuple[str, ...]()
        if example.entry == _COUNT:
            where = "the number of entries"
        elif example.data is not None and example.entry >= 0:
            where = entry_name(model, example.data, term.name, example.entry)
        if example.data is not None:
            active = tuple(dict.fromkeys(active_constraints(model, example.data)))
        return Difference(
            term=term,
            largest=self._largest[term.name],
            size=self._sizes[term.name],
            step=example.step,
            entry=max(example.entry, 0),
            where=where,
            ours=example.ours,
            theirs=example.theirs,
            active=active,
        )


def _compared(ours: Array, theirs: Array, step: int) -> tuple[float, int, int, float, float]:
    """Return the largest relative difference, the state, the entry, and its two values."""
    if ours.shape != theirs.shape:
        return np.inf, step, _COUNT, float(ours.size), float(theirs.size)
    if not ours.size:
        return 0.0, step, _EMPTY, 0.0, 0.0
    apart = np.abs(ours - theirs) / max(1.0, float(np.abs(theirs).max()))
    apart = np.where(np.isnan(apart), np.where(ours == theirs, 0.0, np.inf), apart)
    entry = int(apart.argmax())
    return float(apart[entry]), step, entry, float(ours[entry]), float(theirs[entry])


# --- states, and the environment's terms ---------------------------------------------------------


def _walk(model: Any, steps: int, rng: np.random.Generator) -> Iterator[State]:
    """Yield states of a model that random controls move from its initial state."""
    mujoco = load_mujoco()
    data = mujoco.MjData(model)
    data.qvel[:] = 0.1 * rng.standard_normal(model.nv)
    for step in range(steps):
        data.ctrl[:] = rng.uniform(-1.0, 1.0, model.nu)
        yield State(step, *(np.array(each) for each in (data.qpos, data.qvel, data.ctrl)))
        mujoco.mj_step(model, data, _FRAMES)


def _play(
    environment: CompiledEnvironment,
    law: Traced,
    model: Any,
    steps: int,
    rng: np.random.Generator,
    tally: _Tally,
) -> Iterator[State]:
    """Yield states of an environment under random actions.

    Meanwhile, compare the traced observation and reward with those of the Python functions.
    """
    mujoco = load_mujoco()
    data = mujoco.MjData(model)
    state = environment.state(model, data, physics(model, data))
    seen, ended = np.empty(environment.observation_size), True
    for step in range(steps):
        if ended:
            mujoco.mj_resetData(model, data)
            environment.begin(state, environment.start(model, rng))
        before = _numbers(state, data)
        environment.observe(state, seen)
        action = rng.uniform(-1.0, 1.0, environment.action_size)
        outcome = environment.step(state, action)
        after = _numbers(state, data)
        yield State(step, before["qpos"], before["qvel"], after["ctrl"])

        def read(key: Slot, before: Values = before, after: Values = after, a: Any = action) -> Any:
            if key.array == "action":
                return float(a[key.entry])
            return float((after if key.moved else before)[key.array][key.entry])

        ours = {"observation": _evaluated(law.observe, "observation", read)}
        ours |= dict(zip(OUTCOME, _evaluated(law.step, "paid", read), strict=False))
        tally.add(step, ours, {"observation": seen, **dict(zip(OUTCOME, outcome, strict=False))})
        ended = bool(outcome[2])


def _beyond_limits(model: Any, states: Sequence[State]) -> Iterator[State]:
    """Yield states that test every joint limit: earlier states with one joint moved beyond it."""
    number = len(states)
    for joint in np.flatnonzero(model.jnt_limited):
        low, high = map(float, model.jnt_range[joint])
        for position in (low - _BEYOND, high + _BEYOND):
            state = states[number % len(states)]
            q = state.q.copy()
            q[int(model.jnt_qposadr[joint])] = position
            yield state._replace(number=number, q=q)
            number += 1


def _numbers(state: Any, data: Any) -> Values:
    """Return all numbers that a law can read: MuJoCo's data, and the environment's memory."""
    arrays = {name: getattr(data, name) for name in DATA}
    memory = [
        each.reshape(-1)
        for each in state
        if isinstance(each, np.ndarray)
        and each.dtype.kind not in "iub"
        and not any(np.shares_memory(each, other) for other in arrays.values())
    ]
    copies = {name: np.array(each).reshape(-1) for name, each in arrays.items()}
    return {**copies, "memory": np.concatenate([np.zeros(0), *memory])}


def _evaluated(law: dict[Slot, Any], array: str, read: Callable[[Slot], float]) -> list[float]:
    expressions = {key.entry: value for key, value in law.items() if key.array == array}
    return [float(value_of(expressions[entry], read)) for entry in range(len(expressions))]


# --- terms of the compiled function --------------------------------------------------------------


def _add_compiled(
    tally: _Tally,
    mechanism: Mechanism,
    model: Any,
    states: Sequence[State],
    data_of: Mapping[int, Any],
) -> str | None:
    """Compare the terms of the compiled function; if it cannot run, return the reason."""
    widths = {**sizes(mechanism.model), "warm": mechanism.nv}
    read = [
        Slot(name, entry, False)
        for name in ("qfrc_constraint", "cfrc_ext")
        for entry in range(widths[name])
    ]
    arrays = {name: np.zeros((max(width, 1), len(states))) for name, width in widths.items()}
    for name, field in (("qpos", "q"), ("qvel", "v"), ("ctrl", "u")):
        if widths[name]:
            arrays[name][:] = np.array([getattr(state, field) for state in states]).T
    run = _runner()
    if run is None:
        return (
            f"{', '.join(COMPILED)} were not compared, because this machine has neither Warp (pip "
            "install 'gensmooth[rl,cuda]') nor a C++ compiler."
        )
    at_start, moved = run(fused(mechanism, ["step", "forces"], read), arrays)
    mujoco = load_mujoco()
    for world, state in enumerate(states):
        before = data_of[state.number]
        theirs: dict[str, Any] = {"qfrc_constraint": before.qfrc_constraint}
        ours: dict[str, Any] = {"qfrc_constraint": at_start["qfrc_constraint"][:, world]}
        after = copy.copy(before)
        mujoco.mj_step(model, after)
        if not model.nsensor:  # sensors make MuJoCo compute these forces at another time
            mujoco.mj_rnePostConstraint(model, after)
            theirs["cfrc_ext"], ours["cfrc_ext"] = after.cfrc_ext, moved["cfrc_ext"][:, world]
        theirs["qacc"], ours["qacc"] = after.qacc, moved["warm"][:, world]
        for name in ("qpos", "qvel"):
            theirs[name], ours[name] = getattr(after, name), moved[name][:, world]
        tally.add(state.number, ours, theirs, before)
    return None


def _runner() -> Callable[[FusedSource, Values], tuple[Values, Values]] | None:
    """Return the function that runs compiled steps on this machine; ``None`` if there is none."""
    if find_spec("warp") is not None:
        return _by_warp
    compiler = find_compiler()
    return None if compiler is None else partial(_by_compiler, compiler)


def _by_compiler(compiler: str, source: FusedSource, arrays: Values) -> tuple[Values, Values]:
    """Return the arrays of all worlds before and after a step, run by the C++ compiler."""
    driver = HostPhysics(compiler, source, arrays, arrays["qpos"].shape[1])
    driver.forward()
    at_start = {name: each.copy() for name, each in arrays.items()}
    driver.step()
    return at_start, arrays


def _by_warp(source: FusedSource, arrays: Values) -> tuple[Values, Values]:
    """Return the arrays of all worlds before and after a step, run by Warp."""
    wp = load_warp()
    kernels: Any = import_module("gensmooth.physics.warp_kernels")
    with wp.ScopedDevice("cpu"):
        worlds = kernels.Worlds()
        worlds.worlds = arrays["qpos"].shape[1]
        worlds.trial = wp.zeros(worlds.worlds, dtype=wp.int32)
        for name, each in arrays.items():
            setattr(worlds, name, wp.array(each.reshape(-1), dtype=wp.float64))
        driver = FusedPhysics(source, worlds)

        def numbers() -> Values:
            return {
                name: np.array(getattr(worlds, name).numpy()).reshape(each.shape)
                for name, each in arrays.items()
            }

        driver.forward()
        at_start = numbers()
        driver.step()
        return at_start, numbers()
