# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false
"""The law of an environment as expressions: its start, observation, reward and end.

A :class:`~gensmooth.physics.environment.CompiledEnvironment` has three functions for one
simulation. Here they run on symbols (:mod:`gensmooth.physics.symbols`), and the results are written
as C, for thousands of simulations in parallel. Numbers that a step reads before the physics moves
(such as the robot's position) are saved for the computations after it.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from gensmooth.physics.c_source import Writer
from gensmooth.physics.environment import CompiledEnvironment
from gensmooth.physics.mujoco_calls import Physics, call, load_mujoco
from gensmooth.physics.symbolic_numpy import rebuilt
from gensmooth.physics.symbols import (
    Slot,
    TraceError,
    as_symbols,
    explore,
    one_at_a_time,
    same,
    slot,
    slots,
    symbols,
)

# A start sets these arrays; all others in MuJoCo's data follow from them.
PRIMARY = ("qpos", "qvel", "act", "ctrl")
DERIVED = (
    *("sensordata", "xpos", "xquat", "site_xpos", "geom_xpos", "subtree_com", "cinert", "cvel"),
    *("qfrc_actuator", "qfrc_constraint", "cfrc_ext"),
)
DATA = PRIMARY + DERIVED


class Traced(NamedTuple):
    """The law of an environment: an expression for each slot that is set.

    Attributes:
        begin: The slots that a start sets, from slots of ``start``.
        observe: The entries of an observation.
        controls: The controls, from slots of ``action``.
        calls: The calls of MuJoCo in a step: ``"step"`` and ``"forces"``, in order.
        step: The array ``paid`` (reward, survival bonus, whether the episode ended, whether the
            goal was reached), and the environment's memory.
        seen: Derived numbers that are read before the physics step. They are kept from the previous
            step, or from the start.
        saved: Numbers that a step reads before the physics step and uses after it.
        memory: How many numbers the environment itself stores.
    """

    begin: dict[Slot, Any]
    observe: dict[Slot, Any]
    controls: dict[Slot, Any]
    calls: list[str]
    step: dict[Slot, Any]
    seen: list[Slot]
    saved: list[Slot]
    memory: int


class _Data:
    """MuJoCo's data as symbols; an array is made when it is first used."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.arrays: dict[str, np.ndarray] = {}
        self.moved: set[str] = set()  # arrays that the physics step has changed

    def __getattr__(self, name: str) -> np.ndarray:
        if name not in DATA:
            raise TraceError(
                f"it reads `{name}` of MuJoCo's data, which is not available on a GPU (available: "
                f"{', '.join(DATA)})"
            )
        if name not in self.arrays:
            self.arrays[name] = symbols(name, getattr(self._real, name).shape)
        return self.arrays[name]

    def refresh(self, *names: str) -> None:
        """Replace the symbols of arrays that have changed."""
        for name in names or self.arrays:
            if name in self.arrays:
                array = self.arrays[name]
                array[...] = symbols(name, array.shape, moved=True)
                self.moved.add(name)


class _SymbolicSimulation:
    """One simulation on symbols: its data, its state, and the calls to MuJoCo."""

    def __init__(self, environment: CompiledEnvironment, model: Any, real: Any) -> None:
        self.data: Any = _Data(real)
        _ = self.data.qpos, self.data.qvel, self.data.ctrl  # a step may set these
        self.calls: list[str] = []
        self.controls: list[Any] | None = None
        # Names in place of the addresses that compiled code uses.
        physics = Physics(0, 0, *("step", "forward", "reset", "forces"), np.zeros(0))  # type: ignore[arg-type]
        state = environment.state(model, self.data, physics)
        memory: list[np.ndarray] = []
        self.initial: list[float] = []
        for name, value in state._asdict().items():
            if isinstance(value, np.ndarray) and not any(
                np.shares_memory(value, array) for array in self.data.arrays.values()
            ):
                if value.dtype.kind in "iub":  # constant indices of bodies and joints
                    fixed = value.copy()
                    fixed.setflags(write=False)
                    state = state._replace(**{name: fixed})
                    continue
                first = len(self.initial)
                self.initial += value.reshape(-1).tolist()
                filled = symbols("memory", value.shape, first=first)
                memory.append(filled)
                state = state._replace(**{name: filled})
        self.memory, self.state = memory, state

    def call(self, function: str, _: Any) -> None:
        """Stand in for :func:`~gensmooth.physics.mujoco_calls.call`."""
        self.calls.append(function)
        if function == "step":
            if self.controls is None:
                self.controls = list(self.data.arrays["ctrl"].reshape(-1))
                self.check_unchanged(*(set(self.data.arrays) - {"ctrl"}))
            else:
                self.check_unchanged(*self.data.arrays)
            self.data.refresh()
        elif function == "forces":
            self.data.refresh("cfrc_ext")

    def written(self) -> dict[Slot, Any]:
        """Return the values set in the data and in the environment's memory, by slot."""
        changed: dict[Slot, Any] = {}
        for name, array in self.data.arrays.items():
            for index, value in enumerate(array.reshape(-1)):
                if not same(value, slot(name, index, moved=name in self.data.moved)):
                    changed[Slot(name, index, False)] = value
        return changed | self.remembered()

    def remembered(self) -> dict[Slot, Any]:
        """Return the values set in the environment's memory, by slot."""
        flat = [value for array in self.memory for value in array.reshape(-1)]
        return {
            Slot("memory", index, False): value
            for index, value in enumerate(flat)
            if not same(value, slot("memory", index))
        }

    def check_unchanged(self, *names: str) -> None:
        """Check that the environment has not set these arrays of the data."""
        for key in self.written():
            if key.array in names:
                raise TraceError(
                    f"a step sets {key.array}[{key.entry}] (it may only set the controls, before "
                    "the first physics step)"
                )


@one_at_a_time
def trace(environment: CompiledEnvironment, model: Any) -> Traced:
    """Trace the functions of an environment.

    Raises:
        TraceError: If its functions do something that cannot run on a GPU.
    """
    real = load_mujoco().MjData(model)

    def fresh() -> _SymbolicSimulation:
        return _SymbolicSimulation(environment, model, real)

    start_size = len(environment.start(model, np.random.default_rng(0)))
    moves: list[tuple[list[str], list[Any]]] = []

    def step() -> dict[Slot, Any]:
        simulation = fresh()
        outcome = _step(environment, simulation)
        moves.append((simulation.calls, simulation.controls or []))
        return outcome

    begin = explore(lambda: _begin(environment, fresh(), start_size))
    observe = explore(lambda: _observe(environment, fresh()))
    steps = explore(step)
    calls, controls = moves[0]
    for other, others in moves[1:]:
        if other != calls or not all(map(same, others, controls)):
            raise TraceError("how a step calls the physics depends on the robot's state")
    read = [p for p in slots(steps.values()) if not p.moved and p.array in DATA]
    early = [*slots(observe.values()), *slots(controls), *read]
    seen = dict.fromkeys(Slot(p.array, p.entry, False) for p in early if p.array in DERIVED)
    memory = fresh().initial
    # Memory that `begin` does not set keeps its initial value.
    begin = {p: memory[p.entry] for p in _by_slot("memory", memory)} | begin
    wanted = _by_slot("ctrl", controls)
    return Traced(begin, observe, wanted, calls, steps, list(seen), read, len(memory))


def _begin(
    environment: CompiledEnvironment, simulation: _SymbolicSimulation, start_size: int
) -> dict[Slot, Any]:
    def only_forward(function: str, _: Any) -> None:
        if function != "forward":
            raise TraceError("it moves the robot before the episode starts")

    begin = rebuilt(environment.begin, {call: only_forward})
    begin(simulation.state, symbols("start", (start_size,)))
    changed = simulation.written()
    for key in (*changed, *slots(changed.values())):
        if key.array in DERIVED:
            raise TraceError(
                f"the start of an episode depends on `{key.array}`, which is computed from it"
            )
    return changed


def _observe(environment: CompiledEnvironment, simulation: _SymbolicSimulation) -> dict[Slot, Any]:
    out = as_symbols(np.zeros(environment.observation_size))
    rebuilt(environment.observe, {call: simulation.call})(simulation.state, out)
    if simulation.calls or simulation.written():
        raise TraceError("the observation changes the robot")
    return _by_slot("observation", out)


def _step(environment: CompiledEnvironment, simulation: _SymbolicSimulation) -> dict[Slot, Any]:
    action = symbols("action", (environment.action_size,))
    paid = rebuilt(environment.step, {call: simulation.call})(simulation.state, action)
    simulation.check_unchanged(*simulation.data.arrays)  # only the physics may move the robot
    if set(simulation.calls) - {"step", "forces"} or "step" not in simulation.calls:
        raise TraceError("a step must call the physics, and only its `step` and `forces`")
    return _by_slot("paid", paid) | simulation.remembered()


def _by_slot(array: str, values: Iterable[Any]) -> dict[Slot, Any]:
    return {Slot(array, index, False): value for index, value in enumerate(values)}


# --- as C ---------------------------------------------------------------------------------------
#
# Arrays are ordered by world (``entry * worlds + world``) or by trial
# (``entry * capacity + trial``), so that neighbouring threads read neighbouring addresses.


def reads(traced: Traced) -> list[Slot]:
    """Return the entries of MuJoCo's derived data that the law reads."""
    parts = (traced.observe, traced.controls, traced.step)
    read = [p for part in parts for p in slots(part.values())]
    return [Slot(p.array, p.entry, False) for p in read if p.array in DERIVED]


class LawSource(NamedTuple):
    """The law as bodies of C functions of ``(Worlds s, int world)`` or ``(…, int trial)``.

    Attributes:
        begin: ``(s, world, trial)``: moves a world to the start of the trial.
        store_start: ``(s, world, trial)``: stores the derived numbers of a world at its start.
        restore_start: ``(s, world, trial)``: restores the numbers stored for the trial.
        observe: ``(s, world)``: computes the observation.
        before: ``(s, world)``: sets the controls, and saves numbers that the step needs later.
        after: ``(s, world)``: computes reward, bonus, end and success, and updates the memory.
    """

    begin: str
    store_start: str
    restore_start: str
    observe: str
    before: str
    after: str


@one_at_a_time
def source(traced: Traced, *, forces_at_start: bool) -> LawSource:
    """Write the law as C.

    Args:
        traced: The law.
        forces_at_start: Whether ``cfrc_ext`` is known at the start; else it is zero there.
    """
    seen = {key: number for number, key in enumerate(traced.seen)}
    saved = {key: number for number, key in enumerate(traced.saved)}

    def now(key: Slot) -> str:
        """Return the C of a number as the last step, or the start, left it."""
        if key.array in DERIVED:
            return f"s.seen.data[{seen[Slot(key.array, key.entry, False)]} * s.worlds + world]"
        return direct(key)

    def direct(key: Slot) -> str:
        """Return the C of a number in its array."""
        if key.array == "start":
            return f"s.starts.data[{key.entry} * s.capacity + trial]"
        return f"s.{key.array}.data[{key.entry} * s.worlds + world]"

    def later(key: Slot) -> str:
        """Return the C of a number after the physics step."""
        if key in saved:
            return f"s.saved.data[{saved[key]} * s.worlds + world]"
        return direct(key)

    store_start, restore_start = Writer(direct), Writer(direct)
    for key, number in seen.items():
        zero = key.array == "cfrc_ext" and not forces_at_start
        value = "0.0" if zero else direct(key)
        store_start.add(f"s.start_seen.data[{number} * s.capacity + trial] = {value};")
        restore_start.add(
            f"s.seen.data[{number} * s.worlds + world] = "
            f"s.start_seen.data[{number} * s.capacity + trial];"
        )
    before, after = Writer(now), Writer(later)
    for key, number in saved.items():
        before.add(f"s.saved.data[{number} * s.worlds + world] = {now(key)};")
    _store(before, traced.controls, direct)
    _store(after, traced.step, direct)
    for key, number in seen.items():
        after.add(f"s.seen.data[{number} * s.worlds + world] = {direct(key)};")
    begin, observe = Writer(direct), Writer(now)
    _store(begin, traced.begin, direct)
    _store(observe, traced.observe, direct)
    bodies = (begin, store_start, restore_start, observe, before, after)
    return LawSource(*("\n".join(writer.lines) for writer in bodies))


def _store(to: Writer, expressions: dict[Slot, Any], where: Callable[[Slot], str]) -> None:
    """Set slots to expressions; all are computed before the first is set."""
    names = [(where(key), to.write(value)) for key, value in expressions.items()]
    for target, name in names:
        to.add(f"{target} = {name};")
