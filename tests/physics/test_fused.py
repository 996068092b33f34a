"""Physics as one function: a step of it is MuJoCo's step, to rounding, for every world by itself.

It runs on Warp's own CPU device, and where there is a GPU, there too.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("warp", reason="needs Warp (docs/gpu.md): make test-all")
pytest.importorskip("gymnasium")

import warp

import mechanisms
from gensmooth.physics import warp_kernels
from gensmooth.physics.c_source import Writer
from gensmooth.physics.drivers import FusedPhysics, load_warp, sizes
from gensmooth.physics.fused import solver, system
from gensmooth.physics.fused.outputs import FUSED_DATA
from gensmooth.physics.fused.source import FusedSource, fused
from gensmooth.physics.mechanics.mechanism import Mechanism
from gensmooth.physics.mechanics.placed import place
from gensmooth.physics.symbols import Slot, symbols
from mechanisms import MODELS, State, mechanism_of, mujoco, states

CUDA = bool(load_warp().get_cuda_devices())
if not CUDA:
    warp.config.optimization_level = 0  # half the time of compiling
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not CUDA, reason="there is no CUDA device here"),
        ],
    ),
]
Arrays = dict[str, np.ndarray]
SEEN = ("qpos", "qvel", *FUSED_DATA)


# --- worlds ---------------------------------------------------------------------------------------


def source_of(mechanism: Mechanism, lanes: int = 1) -> FusedSource:
    """A step, and everything that can be read of it, as C."""
    width = sizes(mechanism.model)
    read = [Slot(name, entry, False) for name in FUSED_DATA for entry in range(width[name])]
    return fused(mechanism, ["step", "forces"], read)._replace(lanes=lanes)


class Physics(NamedTuple):
    """A model's physics as C, and how many numbers its worlds have."""

    source: FusedSource
    widths: dict[str, int]

    def run(
        self,
        given: list[State],
        steps: int = 1,
        device: str = "cpu",
        *,
        forward: bool = False,
        idle: Sequence[int] = (),
    ) -> Arrays:
        """What worlds are after some steps: arrays of MuJoCo's data, a row for each world.

        Worlds that are idle have no episode.
        """
        number = len(given)
        wp = load_warp()
        with wp.ScopedDevice(device):
            s = warp_kernels.Worlds()
            trial = np.zeros(number, np.int32)
            trial[list(idle)] = -1
            s.worlds, s.trial = number, wp.array(trial, dtype=wp.int32)
            for name, width in self.widths.items():
                setattr(s, name, wp.zeros(number * max(width, 1), dtype=wp.float64))
            columns = [np.array(column) for column in zip(*given, strict=True)]
            for name, column in zip(("qpos", "qvel", "ctrl"), columns, strict=True):
                if self.widths[name]:
                    getattr(s, name).assign(np.ascontiguousarray(column.T).reshape(-1))
            physics = FusedPhysics(self.source, s)
            if forward:
                physics.forward()
            for _ in range(steps):
                physics.step()
            return {
                name: getattr(s, name).numpy()[: width * number].reshape(width, number).T
                for name, width in self.widths.items()
            }


def physics(mechanism: Mechanism, source: FusedSource | None = None) -> Physics:
    widths = {**sizes(mechanism.model), "warm": mechanism.nv}
    return Physics(source or source_of(mechanism), widths)


@cache
def physics_of(name: str, lanes: int = 1) -> Physics:
    mechanism = mechanism_of(name)
    return physics(mechanism, source_of(mechanism, lanes))


def by_mujoco(model: Any, state: State, steps: int = 1) -> Arrays:
    """The same by MuJoCo."""
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = state
    for _ in range(steps):
        mujoco.mj_step(model, data)
    mujoco.mj_rnePostConstraint(model, data)
    found = {
        name: np.array(getattr(data, name)).reshape(-1) for name in ("qpos", "qvel", *FUSED_DATA)
    }
    return found | {"ncon": np.array([data.ncon])}


def apart(
    found: dict[str, np.ndarray], world: int, wanted: dict[str, np.ndarray]
) -> dict[str, float]:
    """How far a world is from MuJoCo's, relative to the size of each array."""
    gaps: dict[str, float] = {}
    for name in SEEN:
        one, two = found[name][world], wanted[name]
        if name == "xquat":  # q and -q are one rotation
            one = (
                one.reshape(-1, 4) * np.sign((one * two).reshape(-1, 4).sum(axis=1))[:, None]
            ).reshape(-1)
        if two.size:
            gaps[name] = float(np.abs(one - two).max() / max(1.0, np.abs(two).max()))
    return gaps


def worst(
    name: str, given: list[State], steps: int, device: str = "cpu"
) -> tuple[dict[str, float], int]:
    lanes = math.gcd(len(given), 8) if device == "cpu" else 1
    found = physics_of(name, lanes).run(given, steps, device)
    model, gaps, contacts = mechanism_of(name).model, [], 0
    for world, state in enumerate(given):
        wanted = by_mujoco(model, state, steps)
        gaps.append(apart(found, world, wanted))
        contacts += int(wanted["ncon"][0])
    return {key: max(each[key] for each in gaps) for key in gaps[0]}, contacts


# --- a step is MuJoCo's ---------------------------------------------------------------------------

EXACT = 1e-11  # relative; most are a hundred times nearer


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MODELS)
def test_steps_are_those_of_mujoco(name: str, device: str):
    """Positions, velocities, and all that may be read, after one step and after four."""
    given = states(name, 16)
    for steps in (1, 4):
        gaps, contacts = worst(name, given, steps, device)
        assert {key: gap for key, gap in gaps.items() if not gap < EXACT} == {}
        assert contacts > 0 or name == "swimmer"


@pytest.mark.parametrize("name", ["walker2d_v5", "ant", "strangers", "humanoid"])
def test_how_rows_are_kept_changes_no_bit(name: str, monkeypatch: pytest.MonkeyPatch):
    """Where limbs or trees share places, or contacts list what moves them, zeros are left out."""
    mechanism, given = mechanism_of(name), states(name, 32)
    found: list[Arrays] = []
    kept: set[str] = set()
    for pays in (0.0, np.inf):
        monkeypatch.setattr(system, "_PAYS", pays)
        source = source_of(mechanism)
        kept.add(source.step)
        found.append(physics(mechanism, source).run(given, 4))
    assert len(kept) == 2
    for key in SEEN:
        assert np.array_equal(found[0][key], found[1][key])


@pytest.mark.parametrize(
    ("name", "lanes"), [("walker2d_v5", 2), ("ant", 8), ("strangers", 4), ("workshop", 8)]
)
def test_worlds_side_by_side_have_the_bits_of_worlds_alone(name: str, lanes: int):
    """Beside others that take more rounds, that have no episode, and that break down."""
    given, idle, broken = states(name, 16), [1, 6, 11], 3
    given[broken].v[:] = 1e200
    alone = physics_of(name).run(given, 4, idle=idle)
    beside = physics_of(name, lanes).run(given, 4, idle=idle)
    assert not any(np.isfinite(each["qvel"][broken]).all() for each in (alone, beside))
    sound = np.arange(16) != broken
    for key in (*SEEN, "warm"):
        np.testing.assert_array_equal(beside[key][sound], alone[key][sound], err_msg=key)
    np.testing.assert_array_equal(beside["qpos"][idle], [given[k].q for k in idle])


def test_side_by_side_and_alone_have_the_same_bits_as_users_compile_them(
    monkeypatch: pytest.MonkeyPatch,
):
    """These tests are compiled in haste; a compiler that takes its time changes nothing either."""
    monkeypatch.setattr(warp.config, "optimization_level", None)
    given, found = states("hopper", 16), list[Arrays]()
    for lanes in (1, 8):
        made = physics_of("hopper", lanes)
        source = made.source._replace(step="// optimized\n" + made.source.step)
        found.append(made._replace(source=source).run(given, 20))
    for key in (*SEEN, "warm"):
        np.testing.assert_array_equal(found[1][key], found[0][key], err_msg=key)


def test_a_world_that_others_take_along_is_noticed():
    """A world for which the solver is done, and which goes on with those beside it."""
    found = physics_of("ant", 8)
    text = found.source.step.replace("= live ? a[", "= busy ? a[")
    assert text != found.source.step
    given = states("ant", 16)
    other = found._replace(source=found.source._replace(step=text)).run(given, 4)
    assert not np.array_equal(other["qvel"], physics_of("ant").run(given, 4)["qvel"])


@pytest.mark.parametrize("name", ["half_cheetah", "ant", "tumbler"])
def test_a_second_of_motion_stays_with_mujoco(name: str):
    """Falling, from rest, until it lies: half_cheetah by Euler's method, the others by RK4."""
    model = mechanism_of(name).model
    rng = np.random.default_rng(3)
    given = [
        State(model.qpos0, np.zeros(model.nv), rng.uniform(-0.3, 0.3, model.nu)) for _ in range(4)
    ]
    gaps, contacts = worst(name, given, int(1.0 / model.opt.timestep))
    assert contacts > 0
    assert max(gaps["qpos"], gaps["qvel"]) < 1e-7  # what rounding has grown to


PUSHED = """
<mujoco>
  <worldbody>
    <body pos="0 0 1">
      <freejoint/>
      <geom size="0.1"/>
      <body pos="0.2 0 0"><joint axis="0 1 0" damping="-0.3"/><geom size="0.1"/></body>
      <body pos="0 0.2 0"><joint axis="1 0 0" damping="{}"/><geom size="0.1"/></body>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize("other", [0.0, -0.1, 0.2])
def test_dampers_that_push_are_those_of_mujoco(other: float):
    """Where all do, MuJoCo takes the velocity before the step; beside one that brakes, after it."""
    model = mujoco.MjModel.from_xml_string(PUSHED.format(other))
    mechanisms.exact(model)
    rng = np.random.default_rng(0)
    given = [State(model.qpos0, 5.0 * rng.standard_normal(model.nv), np.zeros(0)) for _ in range(4)]
    found = physics(Mechanism(model)).run(given, 4)
    gaps = [apart(found, k, by_mujoco(model, state, 4)) for k, state in enumerate(given)]
    assert max(max(each.values()) for each in gaps) < EXACT


def test_what_is_seen_before_the_first_step_is_mujocos():
    model, (state,) = mechanism_of("workshop").model, states("workshop", 1)
    found = physics_of("workshop").run([state], 0, forward=True)
    data = mechanisms.data_at(model, state)
    assert np.abs(data.qfrc_constraint).max() > 1.0  # something acts
    gaps = apart(found, 0, {array: getattr(data, array).reshape(-1) for array in SEEN})
    assert max(gaps.values()) < EXACT
    assert not found["cfrc_ext"].any()  # MuJoCo computes it when it is asked for


# --- another law is noticed -----------------------------------------------------------------------


def with_explicit_damping(mechanism: Mechanism) -> FusedSource:
    """Dampers act on the velocity before the step, not on that after it."""
    found = source_of(mechanism)
    h = mechanism.timestep
    text = found.step
    for damping in {each for each in mechanism.damping if each}:
        assert f"+= {h * damping!r};" in text
        text = text.replace(f"+= {h * damping!r};", "+= 0.0;")
    return found._replace(step=text)


def with_other_rotations(mechanism: Mechanism) -> FusedSource:
    """Rotation vectors add up, where MuJoCo knows that they do not; or the other way round."""
    mechanism.corrected = not mechanism.corrected
    return source_of(mechanism)


def with_another_centre(mechanism: Mechanism) -> FusedSource:
    """The body's own centre for its tree's is a mistake that positions and velocities hide."""
    found = source_of(mechanism)
    mechanism.model.body_rootid[:] = np.arange(mechanism.model.nbody)
    return found._replace(step=source_of(mechanism).step)


def with_limits_unfelt(mechanism: Mechanism) -> FusedSource:
    """Forces of joints' limits act but are not among those that can be read."""
    found = source_of(mechanism)
    lines = found.step.splitlines()
    kept = [line for line in lines if not (line.startswith("qc[") and "lr[" in line)]
    assert len(kept) == len(lines) - len(mechanism.limits)
    return found._replace(step="\n".join(kept))


def without_armature(mechanism: Mechanism) -> FusedSource:
    mechanism.model.dof_armature[:] = 0.0
    return source_of(mechanism)


@pytest.mark.parametrize(
    ("name", "what", "change"),
    [
        ("half_cheetah", "qvel", with_explicit_damping),
        ("tumbler", "qpos", with_other_rotations),
        ("tumbler", "cfrc_ext", with_another_centre),
        ("tumbler", "cinert", with_another_centre),
        ("tumbler", "cvel", with_another_centre),
        ("workshop", "qfrc_constraint", with_limits_unfelt),
        ("workshop", "qvel", without_armature),
    ],
)
def test_another_law_is_noticed(name: str, what: str, change: Any):
    mechanism = Mechanism(mechanisms.model_of(name))
    twin = physics(mechanism, change(mechanism))
    given = states(name, 16)
    found = twin.run(given)
    right = mechanism_of(name).model
    gaps = [apart(found, k, by_mujoco(right, state))[what] for k, state in enumerate(given)]
    assert max(gaps) > 1e4 * EXACT


# --- the solver -----------------------------------------------------------------------------------


def imbalance(name: str, state: State, acceleration: np.ndarray) -> float:
    """The slope of the cost at an acceleration, relative to the forces that balance there."""
    mechanism = mechanism_of(name)
    system = mechanisms.system_of(mechanism, place(mechanism, state.q.tolist()), state)
    rows, slope = system.rows, mechanisms.gradient(system, acceleration)
    short = np.minimum(rows.jacobian @ acceleration - rows.reference, 0.0)
    terms = np.abs(system.inertia) @ np.abs(acceleration) + np.abs(system.force)
    terms = terms + np.abs(rows.jacobian.T) @ np.abs(rows.stiffness * short)
    return float(np.abs(slope).max() / terms.max())


def flat(number: int) -> list[State]:
    """The raft, flat on the floor and in it, with balls on top; some fall fast."""
    model, rng = mechanism_of("raft").model, np.random.default_rng(2)
    found: list[State] = []
    for k in range(number):
        q, v = model.qpos0.copy(), np.zeros(model.nv)
        q[2] -= 0.002 * k
        v[2] = -0.1 * 4.0**k
        v[6:] = rng.standard_normal(model.nv - 6) * k
        found.append(State(q, v, np.zeros(0)))
    return found


@pytest.mark.parametrize("device", DEVICES)
def test_a_body_that_falls_flat_is_solved_exactly(device: str):
    given = flat(8)
    model = mechanism_of("raft").model
    assert mechanisms.data_at(model, given[1]).ncon >= 9
    found = physics_of("raft").run(given, 1, device)
    assert max(imbalance("raft", s, a) for s, a in zip(given, found["warm"], strict=True)) < 1e-12


@pytest.mark.parametrize("wildness", [10.0, 1e3, 1e5])
@pytest.mark.parametrize("name", ["workshop", "heap", "half_cheetah", "raft"])
def test_wild_velocities_are_solved_exactly(name: str, wildness: float):
    given = [State(s.q, wildness * s.v, s.u) for s in states(name, 24, seed=4)]
    found = physics_of(name).run(given)
    assert max(imbalance(name, s, a) for s, a in zip(given, found["warm"], strict=True)) < 1e-12


def test_an_acceleration_that_is_not_the_best_is_noticed():
    given = states("heap", 8)
    found = physics_of("heap").run(given)["warm"] * (1.0 + 1e-6)
    assert max(imbalance("heap", s, a) for s, a in zip(given, found, strict=True)) > 1e-8


# A light pendulum far from a heavy ball: its gradient is small beside the mean inertia.
UNEQUAL = """
<mujoco><worldbody>
  <body pos="0 50 100"><freejoint/><geom size="1" mass="1e6"/></body>
  <body pos="0 0 0.5"><joint axis="0 1 0"/><geom size="0.01" pos="0.1 0 0"/></body>
</worldbody></mujoco>
"""
# Friction of nearly nothing: the four edges of a pyramid are nearly one.
SLIPPERY = """
<mujoco><worldbody>
  <geom type="plane" size="3 3 1" friction="0"/>
  <body pos="0 0 0.09"><freejoint/>
    <geom type="capsule" size="0.1 0.1" friction="0"/>
    <body pos="0.3 0 0.01"><joint axis="1 1 0"/><geom size="0.12" friction="0"/></body>
  </body>
</worldbody></mujoco>
"""


# They touch along a line: in two points.
LOGS = """
<mujoco><worldbody>
  <geom type="plane" size="3 3 1"/>
  <body pos="0 0 0.0599"><freejoint/>
    <geom type="capsule" size="0.06 0.1" euler="90 0 0"/></body>
  <body pos="0.115 0.05 0.0599"><freejoint/>
    <geom type="capsule" size="0.06 0.08" euler="90 0 0"/></body>
</worldbody></mujoco>
"""


def solved(text: str, given: Any, steps: int) -> float:
    """How far positions and velocities are from MuJoCo's after some steps."""
    model = mujoco.MjModel.from_xml_string(text)
    mechanisms.exact(model)
    begin = [State(*each, np.zeros(0)) for each in given(model)]
    found = physics(Mechanism(model)).run(begin, steps)
    gaps = [apart(found, k, by_mujoco(model, state, steps)) for k, state in enumerate(begin)]
    return max(max(gap["qpos"], gap["qvel"]) for gap in gaps)


def at_rest(model: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(model.qpos0.copy(), np.zeros(model.nv))]


def tilted(model: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(7)
    turned = [rng.standard_normal(4) for _ in range(12)]
    places = [np.array([0, 0, 0.1, *(q / np.linalg.norm(q)), 0.3]) for q in turned]
    return [(q, rng.standard_normal(model.nv)) for q in places]


def test_a_light_body_beside_a_heavy_one_moves(monkeypatch: pytest.MonkeyPatch):
    assert solved(UNEQUAL, at_rest, 100) < 1e-13
    monkeypatch.setattr(solver, "_TEST_FROM", 0)  # to stop before the first step is noticed
    assert solved(UNEQUAL, at_rest, 100) > 1e-6


def test_logs_roll_side_by_side(monkeypatch: pytest.MonkeyPatch):
    assert solved(LOGS, at_rest, 20) < 1e-11
    parallel = "gensmooth.physics.mechanics.mechanism.parallel"
    monkeypatch.setattr(parallel, lambda *_: set())  # one point alone is noticed
    assert solved(LOGS, at_rest, 20) > 1e-6


def test_hardly_any_friction_is_solved_exactly(monkeypatch: pytest.MonkeyPatch):
    assert solved(SLIPPERY, tilted, 1) < 1e-11
    monkeypatch.setattr(solver, "_SLIPPERY", 0.0)  # one step alone is noticed
    assert solved(SLIPPERY, tilted, 1) > 1e-9


# --- worlds know nothing of each other ------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["ant", "heap"])
def test_a_world_has_the_same_bits_in_any_company(name: str, device: str):
    given = states(name, 50)
    together = physics_of(name).run(given, 3, device)
    again = physics_of(name).run(given, 3, device)
    order = np.random.default_rng(0).permutation(50)
    mixed = physics_of(name).run([given[k] for k in order], 3, device)
    alone = physics_of(name).run([given[7]], 3, device)
    for array in (*SEEN, "warm"):
        np.testing.assert_array_equal(together[array], again[array])
        np.testing.assert_array_equal(together[array][order], mixed[array])
        np.testing.assert_array_equal(together[array][7:8], alone[array])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["ant", "workshop"])
def test_worlds_that_break_down_disturb_no_other(name: str, device: str):
    given = states(name, 12)
    clean = physics_of(name).run(given, 2, device)
    given[1].q[:] = np.nan
    given[3].v[2] = np.inf
    given[4].v[:] = 1e200
    given[6].u[0] = np.nan
    given[9].q[-1] = 1e300
    found = physics_of(name).run(given, 2, device)
    whole = [0, 2, 5, 7, 8, 10, 11]
    for array in (*SEEN, "warm"):
        np.testing.assert_array_equal(found[array][whole], clean[array][whole])
    for world in (1, 3, 4):
        rest = np.concatenate([found["qpos"][world], found["qvel"][world]])
        assert not (np.abs(rest) < 1e10).all()  # which ends an episode


# --- writing --------------------------------------------------------------------------------------


def test_what_a_block_computes_is_forgotten_after_it():
    x, y = symbols("q", (2,))
    shared, inner = x * y, x + y
    to = Writer(lambda key: f"q[{key.entry}]")
    outside = to.write(shared)
    with to.block("if (true)"):
        assert to.write(shared) == outside  # it is known here
        name = to.write(inner)
        assert to.write(inner) == name  # and written once
    assert to.write(shared) == outside
    assert to.write(inner) != name  # C has forgotten it at the brace
    assert [line.strip() for line in to.lines].count("}") == 1


def test_what_nobody_reads_is_not_computed():
    mechanism = mechanism_of("ant")
    bare, full = fused(mechanism, ["step"], []), source_of(mechanism)
    assert "cfrc_ext" in full.step
    assert "xpos" not in bare.step
    assert len(bare.step) < 0.9 * len(full.step)
