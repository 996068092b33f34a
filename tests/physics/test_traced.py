"""An environment's law, traced, equals the functions themselves on a real simulation.

The physics is a jump: a function with MuJoCo's signature that puts the simulation into a state that
a test has chosen. So a step can be paid at any height, angle and force, and in states that are not
finite, which the real physics would seldom reach.
"""

import ctypes
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs the extra rl")

from numba.extending import register_jitable

import gensmooth as gs
from gensmooth.physics import drivers
from gensmooth.physics.environment import CompiledEnvironment
from gensmooth.physics.mujoco_calls import call, load_mujoco, physics
from gensmooth.physics.robots import legged
from gensmooth.physics.robots.hopper import hopper
from gensmooth.physics.symbols import Slot, TraceError, value_of
from gensmooth.physics.tracing import DATA, Traced, source, trace
from gensmooth.rl.environments import catalogue

catalogue.names()  # every robot's file has been imported
NAMES = list(legged.ROBOTS)
mujoco: Any = load_mujoco()
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def environment_of(name: str) -> CompiledEnvironment:
    return catalogue.make(name)._environment  # type: ignore[attr-defined]


class Bench:
    """One real simulation of an environment, whose physics does what it is told."""

    def __init__(self, environment: CompiledEnvironment) -> None:
        self.environment = environment
        self.model = environment.model()
        self.data = mujoco.MjData(self.model)
        self.moves: Callable[[str], Any] = str
        self.pointers = [_FUNCTION(lambda *_, what=what: self.moves(what)) for what in ("s", "f")]
        step, forces = (ctypes.cast(each, ctypes.c_void_p).value for each in self.pointers)
        real = physics(self.model, self.data)
        self.real = environment.state(self.model, self.data, real)
        self.state = self.real._replace(physics=real._replace(step=step, forces=forces))

    def memory(self) -> list[np.ndarray]:
        """The arrays of the state that are the environment's own."""
        ours = [getattr(self.data, name) for name in DATA]
        return [
            each
            for each in self.state
            if isinstance(each, np.ndarray) and not any(np.shares_memory(each, o) for o in ours)
        ]

    def numbers(self) -> dict[str, np.ndarray]:
        """All numbers that a law can read, as they are now."""
        found = {name: np.array(getattr(self.data, name)).reshape(-1) for name in DATA}
        own = [each.reshape(-1) for each in self.memory()]
        return {**found, "memory": np.concatenate([np.zeros(0), *own])}

    def fill(self, rng: np.random.Generator, spread: float = 1.0) -> None:
        """Put random numbers everywhere, around those of the model's own start."""
        mujoco.mj_resetData(self.model, self.data)
        mujoco.mj_forward(self.model, self.data)
        for name in DATA:
            array = getattr(self.data, name)
            array[...] += spread * rng.normal(0, 1, array.shape)


class Errors(NamedTuple):
    """The largest differences of what is traced from what is computed, and what happened."""

    observation: float
    paid: float
    controls: float
    memory: float
    ends: int


def difference(a: Any, b: Any) -> float:
    a, b = np.asarray(a, float), np.asarray(b, float)
    fine = np.isfinite(b)
    np.testing.assert_array_equal(a[~fine], b[~fine])
    return float(np.max(np.abs(a[fine] - b[fine]) / (1 + np.abs(b[fine])), initial=0.0))


def compare(
    law: Traced, bench: Bench, *, trials: int = 40, spread: float = 0.3, lost: bool = False
) -> Errors:
    """The law against the functions; with ``lost``, one number after the physics is not finite."""
    rng = np.random.default_rng(0)
    every = [_compare_one(law, bench, rng, spread, lost) for _ in range(trials)]
    worst = np.max([each[:4] for each in every], axis=0)
    return Errors(*worst, sum(each.ends for each in every))


def _compare_one(
    law: Traced, bench: Bench, rng: np.random.Generator, spread: float, lost: bool
) -> Errors:
    environment = bench.environment
    bench.fill(rng, spread)
    before = bench.numbers()
    seen = np.empty(environment.observation_size)
    environment.observe(bench.state, seen)
    action = rng.normal(0, 1, environment.action_size)
    controls: list[Any] = []
    after = move(law, bench, rng, spread, controls, lost=lost)
    paid = environment.step(bench.state, action)
    after["ctrl"] = np.array(bench.data.ctrl)
    read = reader(before, after, action)
    kept = before["memory"].copy()
    for key, value in law.step.items():
        if key.array == "memory":
            kept[key.entry] = value_of(value, read)
    return Errors(
        difference(evaluated(law.observe, "observation", read), seen),
        difference(evaluated(law.step, "paid", read), paid),
        difference(evaluated(law.controls, "ctrl", read), controls[0]),
        difference(kept, bench.numbers()["memory"]),
        bool(paid[2]),
    )


def reader(before: Any, after: Any, action: Any) -> Callable[[Slot], float]:
    """What a place holds in a step."""

    def read(key: Slot) -> float:
        if key.array == "action":
            return float(action[key.entry])
        return float((after if key.moved else before)[key.array][key.entry])

    return read


def evaluated(found: dict[Slot, Any], array: str, read: Callable[[Slot], float]) -> list[Any]:
    chosen = {key.entry: value for key, value in found.items() if key.array == array}
    return [value_of(chosen[index], read) for index in range(len(chosen))]


def move(
    law: Traced,
    bench: Bench,
    rng: np.random.Generator,
    spread: float,
    controls: list[Any],
    *,
    lost: bool,
) -> dict[str, np.ndarray]:
    """What the physics shall do in the next step; returns the numbers afterwards.

    MuJoCo computes the forces on bodies when it is asked to, so they change then.
    """
    target = mujoco.MjData(bench.model)
    mujoco.mj_forward(bench.model, target)
    names = [name for name in DATA if name != "ctrl"]
    for name in names:
        array = getattr(target, name)
        array[...] += spread * rng.normal(0, 1, array.shape)
    if lost:
        array = (target.qpos, target.qvel)[rng.integers(2)]
        array[rng.integers(len(array))] = rng.choice([np.nan, np.inf, -np.inf])
    forces = "forces" in law.calls

    def moves(what: str) -> None:
        if what == "s":
            controls.append(np.array(bench.data.ctrl))
        for name in names:
            if (name == "cfrc_ext") == (what == "f") or not forces:
                getattr(bench.data, name)[...] = getattr(target, name)

    bench.moves = moves
    return {name: np.array(getattr(target, name)).reshape(-1) for name in DATA}


# --- the robots that are built in ---------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_law_of_a_built_in_robot_is_exact(name: str):
    bench = Bench(environment_of(name))
    law = trace(bench.environment, bench.model)
    found = compare(law, bench)
    assert max(found[:4]) <= 1e-12
    if bench.environment.survival_bonus:
        assert 0 < found.ends < 40  # fallen and not
    assert max(compare(law, bench, lost=True)[:4]) <= 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_an_episode_begins_as_the_function_says(name: str):
    bench = Bench(environment_of(name))
    law = trace(bench.environment, bench.model)
    start = bench.environment.start(bench.model, np.random.default_rng(1))
    mujoco.mj_resetData(bench.model, bench.data)
    default = bench.numbers()
    bench.environment.begin(bench.real, start)
    wanted = bench.numbers()
    for key, value in law.begin.items():
        got = value_of(value, lambda place: float(start[place.entry]))
        assert got == wanted[key.array][key.entry]
    for name in ("qpos", "qvel", "act", "ctrl", "memory"):
        for index in range(len(wanted[name])):
            if Slot(name, index, False) not in law.begin:
                assert wanted[name][index] == default[name][index]


@pytest.mark.parametrize("name", ["Hopper-v5", "Ant", "HalfCheetahRandVel"])
def test_the_law_holds_on_a_trajectory_of_the_real_physics(name: str):
    """No jump here: mj_step and mj_rnePostConstraint themselves, from a start."""
    bench = Bench(environment_of(name))
    environment, law = bench.environment, trace(bench.environment, bench.model)
    rng = np.random.default_rng(5)
    mujoco.mj_resetData(bench.model, bench.data)
    environment.begin(bench.real, environment.start(bench.model, rng))
    for _ in range(15):
        before, action = bench.numbers(), rng.normal(0, 0.5, environment.action_size)
        paid = environment.step(bench.real, action)
        after = bench.numbers()

        read = reader(before, after, action)
        np.testing.assert_allclose(
            np.array(evaluated(law.step, "paid", read), float),
            np.array(paid, float),
            rtol=1e-12,
            atol=1e-12,
        )
        assert np.array_equal(evaluated(law.controls, "ctrl", read), bench.data.ctrl)


def test_what_is_kept_from_before_and_what_mujoco_is_asked():
    ant = environment_of("Ant-v5")
    law = trace(ant, ant.model())
    assert law.calls == ["step"] * 5 + ["forces"]
    assert [key.array for key in law.saved] == ["xpos"]  # where the torso was
    assert {key.array for key in law.seen} == {"xpos", "cfrc_ext"}
    assert law.memory == 1
    hopper = environment_of("Hopper-v5")
    law = trace(hopper, hopper.model())
    assert law.calls == ["step"] * 4
    assert law.saved == [Slot("qpos", 0, False)]
    assert law.seen == []


# --- wrong twins --------------------------------------------------------------------------------


@register_jitable
def hopper_that_leans_further(state, action):
    reward, bonus, ended, success = hopper(state, action)
    return reward, bonus, ended and abs(state.qpos[2]) > 0.25, success


@register_jitable
def hopper_with_another_cost(state, action):
    forward, square = legged.velocity(state, action)
    reward, bonus, ended, success = 0.0, 1.0, False, False
    return forward + reward + bonus - 1.1e-3 * square, bonus, ended, success


@pytest.mark.parametrize(
    "wrong",
    [
        {"step": hopper_that_leans_further},
        {"step": hopper_with_another_cost},
        {"observe": legged.observe},
    ],
    ids=["angle", "cost", "clipping"],
)
def test_a_wrong_law_is_noticed(wrong: dict[str, Any]):
    right = environment_of("Hopper-v5")
    law = trace(replace(right, **wrong), right.model())
    found = compare(law, Bench(right), spread=4.0 if "observe" in wrong else 0.3)
    assert max(found[:2]) > 1e-4


# --- states of one's own, and what cannot be traced ---------------------------------------------

MODEL = """
<mujoco><worldbody><body name="b"><joint name="j" type="slide" axis="1 0 0"/><geom size="0.1"/>
</body></worldbody><actuator><motor joint="j"/></actuator></mujoco>
"""


class State(NamedTuple):
    physics: Any
    qpos: np.ndarray
    qvel: np.ndarray
    ctrl: np.ndarray
    xpos: np.ndarray
    gains: np.ndarray
    bodies: np.ndarray
    previous: np.ndarray


def make_state(_: Any, data: Any, physics: Any) -> State:
    gains = np.array([0.5, -0.25])
    return State(
        *(physics, data.qpos, data.qvel, data.ctrl, data.xpos, gains),
        *(np.array([1]), np.zeros(1)),
    )


def start(_: Any, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=2)


def begin(state, start):
    state.qpos[0] = start[0]
    state.qvel[0] = start[1]
    call(state.physics.forward, state.physics)


def observe(state, out):
    out[0] = state.qpos[0]
    out[1] = state.xpos[state.bodies[0], 0]
    out[2] = state.previous[0]


def step(state, action):
    """Control by gains, a cost of changes, and a memory of the last action."""
    state.ctrl[0] = action[0] + state.gains[0] * state.qpos[0] + state.gains[1] * state.qvel[0]
    change = action[0] - state.previous[0]
    place = state.xpos[state.bodies[0], 0]
    for _ in range(2):
        call(state.physics.step, state.physics)
    state.previous[0] = action[0]
    ended = abs(state.qpos[0]) > 0.4
    return state.xpos[state.bodies[0], 0] - place - change * change, 0.0, ended, False


def own(**changes: Any) -> CompiledEnvironment:
    model = mujoco.MjModel.from_xml_string(MODEL)
    parts = {"state": make_state, "start": start, "begin": begin, "observe": observe, "step": step}
    return CompiledEnvironment("Custom", 3, 1, 50, model=lambda: model, **{**parts, **changes})


def test_gains_memory_and_numbers_of_bodies_in_a_state_of_ones_own():
    bench = Bench(own())
    law = trace(bench.environment, bench.model)
    assert law.memory == 3
    begun = {key.entry: value for key, value in law.begin.items() if key.array == "memory"}
    assert begun == {0: 0.5, 1: -0.25, 2: 0.0}  # begin does not set them: they are as made
    # The bodies' numbers are no memory, so that the bench's own count differs by one.
    bench.memory = lambda: [bench.state.gains, bench.state.previous]  # type: ignore[method-assign]
    found = compare(law, bench)
    assert max(found[:4]) <= 1e-12
    assert 0 < found.ends < 40


def _set_position(state, action):
    state.qpos[0] = 0.0
    return step(state, action)


def _treadmill(state, action):
    before = state.qpos[0]
    paid = step(state, action)
    state.qpos[0] = before
    return paid


def _control_between(state, action):
    paid = step(state, action)
    state.ctrl[0] = -action[0]
    call(state.physics.step, state.physics)
    return paid


def _forward_again(state, action):
    paid = step(state, action)
    call(state.physics.forward, state.physics)
    return paid


def _no_physics(state, _):
    return state.qpos[0], 0.0, False, False


def _sometimes(state, action):
    paid = step(state, action)
    if state.qpos[0] > 0.0:
        call(state.physics.step, state.physics)
    return paid


def _two_controls(state, _):
    if state.qpos[0] > 0.0:
        state.ctrl[0] = 1.0
    else:
        state.ctrl[0] = -1.0
    call(state.physics.step, state.physics)
    return state.qpos[0], 0.0, False, False


def _renumber(state, action):
    state.bodies[0] = 0
    return step(state, action)


def _look_and_move(state, out):
    observe(state, out)
    state.qvel[0] = 0.0


def _begin_stepping(state, start):
    begin(state, start)
    call(state.physics.step, state.physics)


def _begin_from_derived(state, start):
    begin(state, start)
    state.previous[0] = state.xpos[1, 0]


class Wide(NamedTuple):
    physics: Any
    qfrc: np.ndarray


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"step": _set_position}, r"a step sets qpos\[0\] "),
        ({"step": _treadmill}, r"a step sets qpos\[0\] "),
        ({"step": _control_between}, r"a step sets ctrl\[0\] .* the first physics step"),
        ({"step": _forward_again}, "only its `step` and `forces`"),
        ({"step": _no_physics}, "a step must call the physics"),
        ({"step": _sometimes}, "depends on the robot's state"),
        ({"step": _two_controls}, "depends on the robot's state"),
        ({"step": _renumber}, "ValueError.*read-only"),
        ({"observe": _look_and_move}, "the observation changes the robot"),
        ({"begin": _begin_stepping}, "before the episode starts"),
        ({"begin": _begin_from_derived}, "depends on `xpos`"),
        (
            {"state": lambda _, data, physics: Wide(physics, data.qfrc_bias)},
            "`qfrc_bias` of MuJoCo's data, which is not available on a GPU .*qpos, qvel",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_has_no_form_on_a_gpu_is_said_plainly(changes: dict[str, Any], words: str):
    environment = own(**changes)
    with pytest.raises(TraceError, match=words):
        trace(environment, environment.model())


# --- robots by register_robot, in NumPy's own style ---------------------------------------------


def seen(robot):
    return np.concatenate((robot.qpos, np.clip(robot.qvel, -1.0, 1.0), robot.xpos[1]))


def paid(robot, action):
    speed = (robot.qpos[0] - robot.before[0]) / robot.dt
    return (
        np.exp(-((speed - 1.0) ** 2)) - 0.1 * np.sum(np.square(action)) - 0.01 * abs(robot.ctrl[0])
    )


def over(robot):
    return bool(np.any(np.abs(robot.qpos) > 0.4)) or not np.all(np.isfinite(robot.qvel))


def test_a_robot_that_is_registered_is_exact():
    name = gs.rl.register_robot(
        "Traced", MODEL, observation=seen, reward=paid, terminated=over, survival_bonus=0.5
    )
    bench = Bench(environment_of(name))
    law = trace(bench.environment, bench.model)
    found = compare(law, bench)
    assert max(found[:4]) <= 1e-12
    assert 0 < found.ends < 40
    assert law.saved == [Slot("qpos", 0, False)]


# --- as C ---------------------------------------------------------------------------------------


def test_the_law_as_c_reads_and_writes_what_it_should():
    hopper = environment_of("Hopper-v5")
    model = hopper.model()
    text = source(trace(hopper, model), forces_at_start=False)
    assert "s.starts.data[11 * s.capacity + trial]" in text.begin
    assert "s.qpos.data[5 * s.worlds + world]" in text.begin
    assert "s.saved.data[0 * s.worlds + world] = s.qpos.data[0 * s.worlds + world];" in text.before
    assert text.before.count("s.ctrl.data") == 3
    assert text.after.count("s.paid.data") == 4
    assert text.store_start == text.restore_start == ""
    ant = environment_of("Ant-v5")
    law = trace(ant, ant.model())
    known = "s.cfrc_ext.data[6 * s.worlds + world]"
    for forces, start_value in ((False, "0.0"), (True, known)):
        text = source(law, forces_at_start=forces)
        line = next(each for each in text.store_start.splitlines() if "start_seen.data[0 " in each)
        assert line.endswith(f"= {start_value};")


# --- without Warp -------------------------------------------------------------------------------


def test_without_warp_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    drivers.load_warp.cache_clear()
    monkeypatch.setitem(sys.modules, "warp", None)
    with pytest.raises(ImportError, match=r"needs warp: pip install 'gensmooth\[rl,cuda\]'"):
        gs.rl.make("Hopper-v5", device="cuda")
    with pytest.raises(ValueError, match="`device` must be 'cpu', 'cuda'"):
        gs.rl.make("Hopper-v5", device="gpu")
