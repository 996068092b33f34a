"""Models and states for the tests of gensmooth.physics, and MuJoCo's results for them."""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from gensmooth.physics.mechanics.contacts import axes_of, contacts_of, moving
from gensmooth.physics.mechanics.contacts import jacobian as rows_of
from gensmooth.physics.mechanics.mechanism import Mechanism
from gensmooth.physics.mechanics.models import FREE
from gensmooth.physics.mechanics.placed import Placed
from gensmooth.physics.mujoco_calls import load_mujoco

mujoco: Any = load_mujoco()
ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"

# Several trees on a tilted floor: an arm on a slanted post, with off-centre joints about general
# axes and a bracket without a joint; two free bodies; a sled on two slide joints.
WORKSHOP = """
<mujoco>
  <option timestep="0.003"/>
  <default><geom density="700"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" euler="4 -7 0" friction="0.7" margin="0.02"/>
    <body name="post" pos="0.3 0.1 0.2" euler="20 30 40">
      <geom name="post" type="capsule" fromto="0 0 0 0 0 0.3" size="0.05" contype="2"/>
      <body name="arm" pos="0.05 0 0.3" euler="-10 5 70">
        <joint name="lift" type="hinge" axis="1 2 -1" pos="0.1 -0.05 0.02" ref="0.3"
               damping="0.4" armature="0.02" stiffness="3" springref="0.5"/>
        <joint name="reach" type="slide" axis="0.3 1 0.5" damping="1" range="-0.2 0.15"
               limited="true" margin="0.01" solreflimit="0.03 0.8"
               solimplimit="0.8 0.97 0.2 0.3 3"/>
        <geom name="arm" type="capsule" fromto="0 0 0 0.3 0.1 0" size="0.04" friction="0.4"/>
        <body name="bracket" pos="0.3 0.1 0" euler="0 45 20">
          <geom name="bracket" size="0.06" condim="1" solref="-800 -20"/>
          <site name="grip" pos="0.02 0.03 0.1"/>
          <body name="hand" pos="0 0 0.1" euler="90 0 10">
            <joint name="wrist" type="hinge" axis="0 1 0" pos="0 0.02 -0.05" range="-40 50"
                   limited="true" armature="0.01" actuatorfrclimited="true"
                   actuatorfrcrange="-0.6 0.5"/>
            <geom name="hand" type="capsule" size="0.03 0.08" solmix="3" solimp="0.7 0.9 0.03"/>
          </body>
        </body>
      </body>
    </body>
    <body name="ball" pos="0.4 0.2 0.5">
      <freejoint/>
      <geom name="ball" size="0.1" margin="0.03" friction="1.1" solmix="2" solref="0.04 1.2"/>
    </body>
    <body name="pill" pos="0.5 0.3 0.4">
      <joint type="free" damping="0.05" armature="0.003"/>
      <geom name="pill" type="capsule" size="0.06 0.12" margin="0.04" priority="1" friction="0.3"/>
      <geom name="knob" pos="0.1 0.05 0.08" size="0.05"/>
    </body>
    <body name="sled" pos="0.2 0.4 0.2" euler="0 0 30">
      <joint name="along" type="slide" axis="1 0 0" damping="0.5"/>
      <joint name="up" type="slide" axis="0 0 1" range="-0.1 0.3" limited="true"/>
      <geom name="sled" type="capsule" euler="80 10 0" size="0.05 0.1" contype="4" conaffinity="2"/>
      <inertial pos="0.01 0.02 0.03" euler="10 20 30" mass="1.5" diaginertia="0.02 0.03 0.04"/>
    </body>
  </worldbody>
  <contact><exclude body1="ball" body2="hand"/></contact>
  <actuator>
    <motor joint="lift" gear="3" ctrlrange="-0.5 0.4" ctrllimited="true"/>
    <position joint="reach" kp="40" gear="2" forcerange="-8 6" forcelimited="true"/>
    <velocity joint="wrist" kv="0.7"/>
    <general joint="along" gaintype="affine" gainprm="2 0.5 0.3" biastype="affine"
             biasprm="0.1 -3 -0.4" gear="-1.5"/>
  </actuator>
</mujoco>
"""
# A heap of free spheres and capsules, all in contact, in a funnel of two planes.
HEAP = """
<mujoco>
  <option timestep="0.004" viscosity="0.1" density="5"/>
  <worldbody>
    <geom type="plane" size="3 3 1" euler="0 25 0"/>
    <geom type="plane" size="3 3 1" euler="5 -25 0" condim="1"/>
    <body name="a" pos="0 0 0.2"><freejoint/><geom size="0.12" condim="1"/></body>
    <body name="b" pos="0.1 0.1 0.3">
      <freejoint/><geom type="capsule" size="0.08 0.15" solref="-500 -10"/>
    </body>
    <body name="c" pos="-0.1 0 0.4">
      <freejoint/><geom type="capsule" size="0.07 0.1" euler="90 0 0" friction="0.2"/>
      <geom size="0.09" pos="0.1 0 0"/>
    </body>
  </worldbody>
</mujoco>
"""
# A fast tumbling body, integrated by Runge-Kutta, whose stages must not simply add rotations.
TUMBLER = """
<mujoco>
  <option timestep="0.02" integrator="RK4"/>
  <worldbody>
    <geom type="plane" size="3 3 1"/>
    <body pos="0 0 0.3">
      <joint type="free" damping="0.1"/>
      <inertial pos="0.02 0.01 0" mass="1" diaginertia="0.02 0.03 0.045"/>
      <geom type="capsule" size="0.05 0.2"/>
      <body pos="0.1 0 0">
        <joint axis="0 1 0" damping="0.2" range="-60 60" limited="true"/>
        <geom size="0.06" pos="0.1 0 0"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
# A raft that falls flat: more points touch at once than it has degrees of freedom.
RAFT = """
<mujoco>
  <worldbody>
    <geom type="plane" size="3 3 1"/>
    <body pos="0 0 0.05">
      <freejoint/>
      <geom type="capsule" fromto="-0.3 -0.2 0 0.3 -0.2 0" size="0.05"/>
      <geom type="capsule" fromto="-0.3 -0.1 0 0.3 -0.1 0" size="0.05"/>
      <geom type="capsule" fromto="-0.3 0.1 0 0.3 0.1 0" size="0.05"/>
      <geom type="capsule" fromto="-0.3 0.2 0 0.3 0.2 0" size="0.05"/>
    </body>
    <body pos="0 0.1 0.148"><freejoint/><geom size="0.05"/></body>
    <body pos="0.02 0.1 0.24"><freejoint/><geom size="0.05"/></body>
  </worldbody>
</mujoco>
"""
# Two robots that never touch each other, with limbs of unequal length: each contact depends on few
# of the velocities.
STRANGERS = """
<mujoco>
  <default><geom contype="0" conaffinity="1" friction="0.8"/></default>
  <worldbody>
    <geom type="plane" size="3 3 1" contype="1" conaffinity="0"/>
    <body pos="0 0 0.15">
      <freejoint/>
      <geom size="0.1"/>
      <body pos="0.1 0 0">
        <joint axis="0 1 0" damping="0.2" range="-60 60" limited="true"/>
        <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.05"/>
      </body>
    </body>
    <body pos="0.5 0 0.15">
      <freejoint/>
      <geom size="0.1"/>
      <body pos="0.1 0 0">
        <joint axis="0 1 0" damping="0.1"/>
        <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.05"/>
        <body pos="0.2 0 0">
          <joint axis="0 0 1" damping="0.1"/>
          <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.05"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
OWN = {
    "workshop": WORKSHOP,
    "heap": HEAP,
    "tumbler": TUMBLER,
    "raft": RAFT,
    "strangers": STRANGERS,
}
GYMNASIUM = ("hopper", "walker2d_v5", "half_cheetah", "ant", "swimmer", "humanoid")
MODELS = (*GYMNASIUM, *OWN)


def model_of(name: str) -> Any:
    """One of the models above or of Gymnasium, with MuJoCo's solver set to full precision."""
    if name in OWN:
        model = mujoco.MjModel.from_xml_string(OWN[name])
    else:
        model = mujoco.MjModel.from_xml_path(str(ASSETS / f"{name}.xml"))
    exact(model)
    return model


def exact(model: Any) -> None:
    """Set MuJoCo's solver to full precision."""
    model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    model.opt.iterations, model.opt.ls_iterations = 200, 200
    model.opt.tolerance, model.opt.ls_tolerance = 0.0, 1e-14
    model.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE


@cache
def mechanism_of(name: str) -> Mechanism:
    return Mechanism(model_of(name))


class State(NamedTuple):
    """Positions, velocities and controls."""

    q: np.ndarray
    v: np.ndarray
    u: np.ndarray


def states(name: str, number: int, *, spread: float = 0.3, seed: int = 0) -> list[State]:
    """Random states, low enough that something touches."""
    model, rng = mechanism_of(name).model, np.random.default_rng(seed)
    drawn: list[State] = []
    for _ in range(number):
        q = model.qpos0 + spread * rng.standard_normal(model.nq)
        for j in np.flatnonzero(model.jnt_type == FREE):
            at = int(model.jnt_qposadr[j])
            if name in OWN:
                q[at : at + 3] = model.qpos0[at : at + 3] + rng.normal(0.0, 0.12, 3)
            else:
                q[at + 2] = rng.uniform(0.0, 0.8) * model.qpos0[at + 2]
            turned = rng.standard_normal(4)
            q[at + 3 : at + 7] = turned / np.linalg.norm(turned)
        if name in ("hopper", "walker2d_v5", "half_cheetah"):
            q[1] = rng.uniform(-0.3, 0.0) + (name != "half_cheetah") * rng.uniform(0.3, 1.2)
        drawn.append(State(q, rng.standard_normal(model.nv), rng.standard_normal(model.nu)))
    return drawn


def data_at(model: Any, state: State) -> Any:
    """MuJoCo's data at a state."""
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = state
    mujoco.mj_forward(model, data)
    return data


def full_inertia(model: Any, data: Any) -> np.ndarray:
    """MuJoCo's mass matrix M, whichever signature this version's ``mj_fullM`` has."""
    inertia = np.zeros((model.nv, model.nv))
    if hasattr(data, "qM"):
        mujoco.mj_fullM(model, inertia, data.qM)
    else:
        mujoco.mj_fullM(model, data, inertia)
    return inertia


class Rows(NamedTuple):
    """The active constraints at a state: Jacobian, stiffness, reference acceleration."""

    jacobian: np.ndarray
    stiffness: np.ndarray
    reference: np.ndarray


class System(NamedTuple):
    """The terms that determine the acceleration: M, the unconstrained forces, the constraints.

    ``touching`` is the number of contacts.
    """

    inertia: np.ndarray
    force: np.ndarray
    rows: Rows
    touching: int


def system_of(mechanism: Mechanism, placed: Placed, state: State) -> System:
    """The system of :mod:`mechanics`, with all velocities along the world's axes, as in MuJoCo."""
    nv = mechanism.nv
    turn = np.array([placed.along_roots(unit) for unit in np.eye(nv).tolist()], float).T
    v = turn @ state.v
    inertia = np.zeros((nv, nv))
    for (i, j), value in placed.mass_matrix().items():
        inertia[i, j] = inertia[j, i] = value
    force = np.array(placed.smooth_force(state.q.tolist(), v.tolist(), state.u.tolist()), float)
    jacobian, stiffness, reference = [], [], []
    touching = 0

    def keep(row: np.ndarray, law: Any, distance: float) -> None:
        strength, pull = law.pull(distance)
        jacobian.append(row)
        stiffness.append(strength)
        reference.append(-law.damping * float(row @ v) - pull)

    for limit in mechanism.limits:
        q = float(state.q[limit.position])
        for distance, sign in ((q - limit.low, 1.0), (limit.high - q, -1.0)):
            if distance < limit.law.margin:
                keep(sign * np.eye(nv)[limit.velocity], limit.law, distance)
    for contact in contacts_of(placed):
        if contact.distance >= contact.law.margin:
            continue
        touching += 1
        touch = contact.touch()
        axes, slopes = axes_of(placed, contact, touch), np.zeros((3, nv))
        for moved, sign in zip(moving(placed, contact), (-1.0, 1.0), strict=True):
            for dof in moved:
                slopes[:, dof] = sign * np.array(rows_of(placed, contact, touch.point, axes, dof))
        normal, *tangents = slopes
        slides = [sign * contact.friction * t for t in tangents for sign in (1.0, -1.0)]
        for slide in slides if contact.friction else [0.0]:
            keep(normal + slide, contact.law, contact.distance)
    rows = Rows(np.array(jacobian).reshape(-1, nv) @ turn, np.array(stiffness), np.array(reference))
    return System(turn.T @ inertia @ turn, turn.T @ force, rows, touching)


def rows_by_mujoco(model: Any, data: Any) -> Rows:
    """The constraints according to MuJoCo."""
    jacobian = np.array(data.efc_J).reshape(-1)[: data.nefc * model.nv].reshape(-1, model.nv)
    return Rows(jacobian, np.array(data.efc_D[: data.nefc]), np.array(data.efc_aref[: data.nefc]))


def mismatch(one: Rows, two: Rows) -> float:
    """The largest relative difference of rows in any order; infinite if their numbers differ."""
    if len(one.stiffness) != len(two.stiffness):
        return np.inf
    if not len(one.stiffness):
        return 0.0
    tables = [np.column_stack([r.stiffness, r.reference, r.jacobian]) for r in (one, two)]
    # The stiffness depends steeply on small depths, so each column is scaled by its own size.
    size = np.maximum(np.abs(tables[1]).max(axis=0), 1e-3)
    ours, theirs = (table / size for table in tables)
    left, worst = list(range(len(theirs))), 0.0
    for row in ours:
        distances = np.abs(theirs[left] - row).max(axis=1)
        best = int(distances.argmin())
        worst = max(worst, float(distances[best]))
        left.pop(best)
    return worst


def best_acceleration(system: System, start: np.ndarray) -> np.ndarray:
    """The minimiser of the cost that mechanics.py states, by Newton's method with halving."""
    inertia, force, (jacobian, stiffness, reference), _ = system

    def cost(a: np.ndarray) -> float:
        short = np.minimum(jacobian @ a - reference, 0.0)
        return float(0.5 * a @ inertia @ a - force @ a + 0.5 * (stiffness * short**2).sum())

    a = start
    for _ in range(200):
        active = jacobian @ a < reference
        bend = inertia + (jacobian[active].T * stiffness[active]) @ jacobian[active]
        step, length = -np.linalg.solve(bend, gradient(system, a)), 1.0
        while cost(a + length * step) > cost(a) and length > 1e-12:
            length /= 2
        a = a + length * step
        if np.abs(length * step).max() < 1e-14 * max(1.0, np.abs(a).max()):
            break
    return a


def gradient(system: System, a: np.ndarray) -> np.ndarray:
    """The gradient of the cost at an acceleration; zero at MuJoCo's solution."""
    rows = system.rows
    short = np.minimum(rows.jacobian @ a - rows.reference, 0.0)
    return system.inertia @ a - system.force + rows.jacobian.T @ (rows.stiffness * short)
