"""The equations of motion on numbers: what MuJoCo computes, to rounding."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("mujoco")
pytest.importorskip("gymnasium")

import mechanisms
from gensmooth.physics.mechanics import contacts, softness
from gensmooth.physics.mechanics.algebra import fixed_quaternion, normalized
from gensmooth.physics.mechanics.contacts import axes_of
from gensmooth.physics.mechanics.mechanism import Mechanism
from gensmooth.physics.mechanics.models import (
    UnsupportedMechanismError,
    margins_add,
    parallel_means_an_angle,
)
from gensmooth.physics.mechanics.placed import Placed, place
from gensmooth.physics.mechanics.spatial import ZERO, Spatial
from gensmooth.physics.mujoco_calls import quiet
from mechanisms import MODELS, State, mechanism_of, mujoco, states

EXACT = 1e-12  # relative, for what is a formula
SOLVED = 1e-8  # relative, for what MuJoCo's solver finds


def relative(found: Any, wanted: Any) -> float:
    wanted = np.asarray(wanted, float)
    return float(np.abs(np.asarray(found, float) - wanted).max() / max(1.0, np.abs(wanted).max()))


def differences(mechanism: Mechanism, model: Any, state: State) -> dict[str, float]:
    """How far a mechanism is from what MuJoCo computes for a model, by what is computed."""
    data = mechanisms.data_at(model, state)
    placed = place(mechanism, state.q.tolist())
    system = mechanisms.system_of(mechanism, placed, state)
    bodies = range(model.nbody)
    spins = np.array([placed.body_quaternion(b) for b in bodies], float)
    spins *= np.sign((spins * data.xquat).sum(axis=1))[:, None]  # q and -q are one rotation
    acceleration = mechanisms.best_acceleration(system, data.qacc.copy())
    return {
        "inertia": relative(system.inertia, mechanisms.full_inertia(model, data)),
        "force": relative(system.force, data.qfrc_smooth),
        "rows": mechanisms.mismatch(system.rows, mechanisms.rows_by_mujoco(model, data)),
        "touching": float(abs(system.touching - data.ncon)),
        "xpos": relative([placed.body_position(b) for b in bodies], data.xpos),
        "xquat": relative(spins, data.xquat),
        "geom_xpos": relative(
            [placed.geom_position(g) for g in range(model.ngeom)], data.geom_xpos
        ),
        "site_xpos": relative(
            [placed.site_position(s) for s in range(model.nsite)] or [0.0],
            data.site_xpos if model.nsite else [0.0],
        ),
        "subtree_com": relative([placed.centre(b) for b in bodies], data.subtree_com),
        "acceleration": relative(acceleration, data.qacc),
    }


def worst(mechanism: Mechanism, model: Any, given: list[State]) -> dict[str, float]:
    every = [differences(mechanism, model, state) for state in given]
    return {key: max(each[key] for each in every) for key in every[0]}


@pytest.mark.parametrize("name", MODELS)
def test_all_that_mujoco_computes_is_computed(name: str):
    given = states(name, 12)
    mechanism = mechanism_of(name)
    found = worst(mechanism, mechanism.model, given)
    assert found.pop("acceleration") < SOLVED
    assert {key: value for key, value in found.items() if not value < EXACT} == {}


def test_the_states_meet_every_kind_of_contact_and_limit():
    """Else the comparison above would say nothing of them."""
    seen, active = set(), 0
    for name in ("workshop", "heap"):
        model = mechanism_of(name).model
        for state in states(name, 12):
            data = mechanisms.data_at(model, state)
            seen |= {tuple(sorted(model.geom_type[list(c.geom)])) for c in data.contact}
            active += int((data.efc_type == mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT).sum())
            frictionless = mujoco.mjtConstraint.mjCNSTR_CONTACT_FRICTIONLESS
            seen |= {"frictionless" for each in data.efc_type if each == frictionless}
    assert seen == {(0, 2), (0, 3), (2, 2), (2, 3), (3, 3), "frictionless"}
    assert active >= 10


# --- another law is noticed -----------------------------------------------------------------------


def without(field: str, value: Any = 0.0, model: str = "workshop") -> Callable[[Any], Any]:
    def twin(_: Any) -> Mechanism:
        other = copy.copy(mechanism_of(model).model)
        getattr(other, field)[...] = value
        return Mechanism(other)

    return twin


def patched(target: Any, name: str, value: Any, model: str = "workshop") -> Callable[[Any], Any]:
    def twin(monkeypatch: Any) -> Mechanism:
        monkeypatch.setattr(target, name, value)
        return Mechanism(mechanism_of(model).model)

    return twin


def no_fluid(_: Any) -> Mechanism:
    other = copy.copy(mechanism_of("heap").model)
    other.opt.density = 0.0
    return Mechanism(other)


def other_axes(placed: Any, contact: Any, touch: Any) -> Any:
    """Tangents that do not follow a capsule's axis, and do otherwise."""
    along = None if touch.along else [1.0, 0.0, 0.0]
    return axes_of(placed, contact, touch._replace(along=along))


TWINS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "no armature": ("inertia", "workshop", without("dof_armature")),
    "inertia about other axes": ("inertia", "workshop", without("body_iquat", [1, 0, 0, 0])),
    "axes do not turn": (
        "force",
        "workshop",
        patched(Spatial, "of_motion", lambda *_: ZERO),
    ),
    "momentum does not turn": (
        "force",
        "workshop",
        patched(Spatial, "of_force", lambda *_: ZERO),
    ),
    "no dampers": ("force", "workshop", without("dof_damping")),
    "springs at rest elsewhere": ("force", "workshop", without("qpos_spring")),
    "gear of one": ("force", "workshop", without("actuator_gear", 1.0)),
    "controls without limits": ("force", "workshop", without("actuator_ctrllimited", 0)),
    "servos without limits": ("force", "workshop", without("actuator_forcelimited", 0)),
    "joints that bear any force": ("force", "workshop", without("jnt_actfrclimited", 0)),
    "servos without bias": ("force", "workshop", without("actuator_biastype", 0)),
    "drag without density": ("force", "heap", no_fluid),
    "joints at the centre": ("xpos", "workshop", without("jnt_pos")),
    "joints that begin at 0": ("xquat", "workshop", without("qpos0")),
    "the other rule for margins": (
        "touching",
        "workshop",
        patched(softness, "margins_add", lambda: not margins_add()),
    ),
    "no priority": ("rows", "workshop", without("geom_priority", 0)),
    "equal shares": ("rows", "workshop", without("geom_solmix", 1.0)),
    "friction of one": ("rows", "workshop", without("geom_friction", 1.0)),
    "friction where there is none": ("rows", "heap", without("geom_condim", 3, "heap")),
    "all touch all": ("touching", "workshop", without("geom_contype", 3)),
    "softness by default": ("rows", "heap", without("geom_solref", [0.02, 1.0], "heap")),
    "limits by default": ("rows", "workshop", without("jnt_solimp", [0.9, 0.95, 0.001, 0.5, 2])),
    "free bodies do not turn": (
        "force",
        "heap",
        patched(Placed, "along_roots", lambda _, v: list(v), "heap"),
    ),
    "other tangents": ("rows", "heap", patched(mechanisms, "axes_of", other_axes, "heap")),
    "lighter bodies": ("rows", "workshop", without("body_invweight0", 1.0)),
}


@pytest.mark.parametrize("name", TWINS)
def test_another_law_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch):
    what, model, make = TWINS[name]
    twin = make(monkeypatch)
    assert worst(twin, mechanism_of(model).model, states(model, 12))[what] > 1e-4


@pytest.mark.parametrize("reference", ["0.05 -0.5", "-300 5", "0.05 0", "0 0", "0 1", "-300 0"])
def test_a_solref_of_two_formats_is_read_as_mujoco_reads_it(reference: str):
    """One number positive and the other not: MuJoCo warns and takes its default."""
    model = from_xml(
        f"""<mujoco><worldbody><geom type="plane" size="1 1 1" solref="{reference}" priority="1"/>
        <body pos="0 0 0.08"><freejoint/><geom size="0.1"/><body pos="0 0 0.2">
        <joint range="-5 5" limited="true" solreflimit="{reference}"/><geom size="0.1"/></body>
        </body></worldbody></mujoco>"""
    )
    mechanisms.exact(model)
    state = State(model.qpos0.copy(), np.ones(model.nv), np.zeros(0))
    state.q[-1] = 0.1
    with quiet():
        found = worst(Mechanism(model), model, [state])
    assert found.pop("acceleration") < SOLVED
    assert {key: value for key, value in found.items() if not value < EXACT} == {}


def test_excluded_bodies_do_not_touch_and_others_do():
    model = mechanism_of("workshop").model
    names = [{model.geom(g).name for g in pair} for pair in mechanism_of("workshop").pairs]
    assert {"ball", "hand"} not in names  # as the model says
    assert {"ball", "arm"} in names
    assert {"pill", "knob"} not in names  # of one body
    assert {"arm", "bracket"} not in names  # nor of two without a joint between
    assert {"bracket", "hand"} not in names  # parent and child
    assert {"post", "floor"} not in names  # nothing of it moves
    assert {"post", "arm"} in names  # the world's children are no children


# --- corners --------------------------------------------------------------------------------------

FLOOR = '<geom type="plane" size="3 3 1"/>'
LOG = (
    '<body pos="{} 0.0599"><freejoint/><geom type="capsule" size="0.06 0.1" euler="90 0 0"/></body>'
)
ARM = """<body pos="{0} 0 {0}"><joint axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.04"/></body>"""
NEEDLE = """<body pos="0 {} 0"><joint axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0.004 0 0" size="0.001"/></body>"""
SLIDER = """<body pos="{} 0 0"><joint type="slide"/>
<geom type="capsule" size="0.05 0.1" euler="20 30 0"/></body>"""
SPHERES = """<body euler="30 0 0"><joint axis="0 1 0"/><joint type="slide" axis="0 1 0"/>
<geom {} euler="90 0 0"/></body>
<body><joint type="slide" axis="0 0 1"/><geom size="0.05"/></body>"""
TURNED = """<body pos="0 0 0.155" euler="0 0 30"><freejoint/>
<geom type="capsule" size="0.06 0.1"/></body>"""
HINGED = """<body {}><joint axis="0 1 0" {}/><geom size="0.1" pos="0.2 0 0"/>
<body pos="0.1 0 0" {}><geom size="0.05"/></body></body>"""


class Corner(NamedTuple):
    """Bodies, positions (none: where they start), and the first of their velocities."""

    bodies: str
    q: Sequence[float] = ()
    v: Sequence[float] = ()
    option: str = ""


CORNERS = {
    "axes that cross": Corner(ARM.format(0.0) + ARM.format(0.1), [-0.6, 1.0], [1.0, -1.0]),
    "spheres in one place": Corner(SPHERES.format('size="0.06"')),
    "a sphere on an axis": Corner(SPHERES.format('type="capsule" size="0.06 0.1"')),
    "parallel logs": Corner(FLOOR + LOG.format("0 0") + LOG.format("0.115 0.05"), v=[1.0]),
    "parallel logs, level": Corner(FLOOR + LOG.format("0 0") + LOG.format("0.115 0"), v=[1.0]),
    "parallel logs, end to end": Corner(FLOOR + LOG.format("0 0") + LOG.format("0.01 0.31")),
    "parallel logs, in a row": Corner(FLOOR + LOG.format("0 0") + LOG.format("0.07 0.21")),
    "always parallel": Corner(SLIDER.format(0) + SLIDER.format(0.09), [0.004, -0.003], [0.1, 1.0]),
    **{
        f"short ones, parallel or not, at {angle}": Corner(
            NEEDLE.format(0) + NEEDLE.format(0.0018), [0.3, 0.3 + angle], [0.1, 1.0]
        )
        for angle in (9e-5, 0.005, 0.02)
    },
    "nearly parallel": Corner(
        SLIDER.format(0) + SLIDER.format(0.09).replace('"20 ', '"20.003 '), [0.004, -0.003], [0.1]
    ),
    "upright and turned": Corner(FLOOR + TURNED, v=[1.0, 0.3]),
    "a range of forces without an actuator": Corner(
        HINGED.format("", 'actuatorfrcrange="0.3 0.5"', "")
    ),
    "a fluid of negative density": Corner(
        HINGED.format("", "", ""), [0.3], [2.0], '<option density="-20" viscosity="0.5"/>'
    ),
    "a fluid of negative viscosity": Corner(
        HINGED.format("", "", ""), [0.3], [2.0], '<option density="20" viscosity="-0.5"/>'
    ),
    "a body without mass": Corner(
        '<body pos="0 0 0.1"><geom type="plane" size="1 1 1" pos="0.2 0.3 0"/></body>'
        '<body pos="0 0 0.2"><freejoint/><geom size="0.11"/></body>'
    ),
    "nearly half a turn": Corner(
        HINGED.format('axisangle="1 2 3 179.9999"', "", 'axisangle="3 -2 1 179.99"'), [0.1], [1.0]
    ),
}


def corner(name: str) -> tuple[Any, State]:
    bodies, q, v, option = CORNERS[name]
    model = from_xml(f"<mujoco>{option}<worldbody>{bodies}</worldbody></mujoco>")
    mechanisms.exact(model)
    where, speed = np.array(q or model.qpos0), np.zeros(model.nv)
    speed[: len(v)] = v
    return model, State(where, speed, np.zeros(0))


@pytest.mark.parametrize("name", CORNERS)
def test_corners_are_mujocos(name: str):
    """Where a direction is undetermined, or a rule of MuJoCo's is seldom met."""
    model, state = corner(name)
    found = differences(Mechanism(model), model, state)
    assert found.pop("acceleration") < SOLVED
    assert {key: value for key, value in found.items() if not value < EXACT} == {}


@pytest.mark.parametrize("name", [each for each in CORNERS if each.startswith(("par", "alw"))])
def test_one_point_for_parallel_capsules_is_noticed(name: str):
    model, state = corner(name)
    mechanism = Mechanism(model)
    mechanism.parallel.clear()
    assert differences(mechanism, model, state)["rows"] > 1e-3


@pytest.mark.parametrize("name", ["axes that cross", "upright and turned"])
def test_another_axis_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch):
    model, state = corner(name)
    monkeypatch.setattr(contacts, "normalized", lambda x, _: normalized(x, [1.0, 0.0, 0.0]))
    assert differences(Mechanism(model), model, state)["rows"] > 1e-3


# --- rotations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_a_quaternion_is_found_again(seed: int):
    """Half turns too, where its real part is nothing."""
    rng = np.random.default_rng(seed)
    wanted = rng.standard_normal(4) * [seed > 1, *(seed != 1) * np.ones(2), 1.0]
    wanted /= np.linalg.norm(wanted)
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, wanted)
    found = np.array(fixed_quaternion(matrix.reshape(3, 3).tolist()))
    assert min(np.abs(found - wanted).max(), np.abs(found + wanted).max()) < 1e-14


# --- what is not covered --------------------------------------------------------------------------

# Two capsules that move freely have no reason to stay parallel.
PLAIN = """
<mujoco>
  <option/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="one" pos="0 0 1">
      <joint name="j" type="hinge" axis="0 1 0"/>
      <geom name="g" type="capsule" size="0.1 0.2"/>
      <site name="s"/>
    </body>
    <body name="two" pos="1 0 1">
      <freejoint name="free"/><geom type="capsule" size="0.1 0.2"/>
    </body>
    <body name="three" pos="2 0 1"><freejoint/><geom type="capsule" size="0.1 0.2"/></body>
  </worldbody>
  <actuator><motor name="m" joint="j"/></actuator>
</mujoco>
"""
ACTUATOR = '<motor name="m" joint="j"/>'
GEOM = '<geom name="g" type="capsule" size="0.1 0.2"/>'
JOINT = '<joint name="j" type="hinge" axis="0 1 0"/>'
END = "</mujoco>"
CASES = [
    ("an implicit integrator", "<option/>", '<option integrator="implicitfast"/>'),
    ("elliptic friction cones", "<option/>", '<option cone="elliptic"/>'),
    *(
        (f"physics without {name}", "<option/>", f'<option><flag {name}="disable"/></option>')
        for name in (
            *("constraint", "limit", "contact", "gravity", "clampctrl", "actuation", "eulerdamp"),
            *(("passive",) if hasattr(mujoco.mjtDisableBit, "mjDSBL_PASSIVE") else ()),
            *(("spring", "damper") if hasattr(mujoco.mjtDisableBit, "mjDSBL_SPRING") else ()),
        )
    ),
    ("the flag energy enabled", "<option/>", '<option><flag energy="enable"/></option>'),
    ("friction without slip", "<option/>", '<option noslip_iterations="3"/>'),
    ("actuators that are switched off", "<option/>", '<option actuatorgroupdisable="1"/>'),
    ("wind", "<option/>", '<option wind="1 0 0" density="1"/>'),
    ("equality constraints", END, '<equality><weld body1="one" body2="two"/></equality></mujoco>'),
    (
        "explicit contact pairs",
        END,
        '<contact><pair geom1="floor" geom2="g"/></contact></mujoco>',
    ),
    ("mocap bodies", "</worldbody>", '<body mocap="true"><geom size="0.1"/></body></worldbody>'),
    (
        "tendons that pull",
        END,
        '<tendon><fixed stiffness="1"><joint joint="j" coef="1"/></fixed></tendon></mujoco>',
    ),
    ("geoms with a gap", GEOM, GEOM.replace("/>", ' margin="0.1" gap="0.05"/>')),
    ("ball joints", '<freejoint name="free"/>', '<joint type="ball"/>'),
    ("friction in joints", JOINT, JOINT.replace("/>", ' frictionloss="1"/>')),
    (
        "two limits act at once",
        JOINT,
        JOINT.replace("/>", ' range="-1 1" limited="true" margin="1"/>'),
    ),
    ("gravity compensation", 'name="one"', 'name="one" gravcomp="1"'),
    ("the ellipsoid model of fluids", GEOM, GEOM.replace("/>", ' fluidshape="ellipsoid"/>')),
    ("a spring at a free joint", '<freejoint name="free"/>', '<joint type="free" stiffness="1"/>'),
    ("do not act on a joint", ACTUATOR, '<motor name="m" site="s"/>'),
    ("an actuator at a free joint", ACTUATOR, '<motor name="m" joint="free"/>'),
    ("actuators with a state", ACTUATOR, '<general joint="j" dyntype="integrator"/>'),
    (
        "actuators with a state",
        ACTUATOR,
        '<muscle joint="j" lengthrange="-1 1"/>',
    ),
    ("muscles and other gains", ACTUATOR, '<general joint="j" gaintype="user"/>'),
    ("muscles and other biases", ACTUATOR, '<general joint="j" biastype="user"/>'),
    ("not planes, spheres or capsules", GEOM, '<geom type="box" size="0.1 0.1 0.1"/>'),
    ("rolling or spinning", GEOM, GEOM.replace("/>", ' condim="4"/>')),
    ("a negative margin", GEOM, GEOM.replace("/>", ' margin="-0.01"/>')),
]
LONG = """<body pos="2 0 1"><joint type="slide"/><geom type="capsule" size="0.1 2"/></body>
<body pos="2.1 0 1"><joint type="slide"/><geom type="capsule" size="0.1 2"/></body></worldbody>"""
if not parallel_means_an_angle():
    CASES.append(("long capsules that stay parallel", "</worldbody>", LONG))


def from_xml(text: str) -> Any:
    return mujoco.MjModel.from_xml_string(text)


def test_the_plain_model_is_fine():
    assert Mechanism(from_xml(PLAIN)).nv == 13


@pytest.mark.parametrize(
    ("words", "old", "new"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)]
)
def test_what_is_not_written_down_is_refused(words: str, old: str, new: str):
    model = from_xml(PLAIN.replace(old, new, 1))
    with pytest.raises(UnsupportedMechanismError, match=words):
        Mechanism(model)


def test_a_model_without_joints_is_refused():
    model = from_xml("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
    with pytest.raises(UnsupportedMechanismError, match="nothing that moves"):
        Mechanism(model)


def test_shapes_that_touch_nothing_may_be_any():
    box = '<geom type="box" size="0.1 0.1 0.1" contype="0" conaffinity="0"/>'
    assert Mechanism(from_xml(PLAIN.replace(GEOM, GEOM + box))).nv == 13
