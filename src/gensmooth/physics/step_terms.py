# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""The terms of a step in one state: evaluated from our expressions, and read from MuJoCo's data."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth.physics.mechanics import softness
from gensmooth.physics.mechanics.contacts import Contact, axes_of, contacts_of, jacobian, moving
from gensmooth.physics.mechanics.mechanism import Mechanism
from gensmooth.physics.mechanics.placed import Placed, place
from gensmooth.physics.mujoco_calls import load_mujoco

Array = NDArray[np.float64]

_EDGE = 1e-9  # this close to a margin, rounding decides whether a constraint acts


class State(NamedTuple):
    """A state to compare: its number, and the positions, velocities and controls."""

    number: int
    q: Array
    v: Array
    u: Array


def forward(model: Any, state: State) -> Any:
    """Return MuJoCo's data of a state, before it moves."""
    mujoco = load_mujoco()
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = state.q, state.v, state.u
    mujoco.mj_forward(model, data)
    return data


def is_on_edge(mechanism: Mechanism, state: State) -> bool:
    """Return whether a contact or a limit is so close to its margin that rounding decides."""
    placed = place(mechanism, state.q.tolist())
    gaps = [float(each.distance) - each.law.margin for each in contacts_of(placed)]
    for limit in mechanism.limits:
        at, margin = float(state.q[limit.position]), limit.law.margin
        gaps += [at - limit.low - margin, limit.high - at - margin]
    return any(abs(gap) < _EDGE for gap in gaps)


class _Row(NamedTuple):
    """A constraint: its row of the Jacobian, D, and the reference acceleration."""

    slope: Array
    stiffness: float
    reference: float


def both_values(
    mechanism: Mechanism, model: Any, state: State, data: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return our terms in a state, and MuJoCo's."""
    placed, nv = place(mechanism, state.q.tolist()), mechanism.nv
    # Our vectors are along the roots' axes (see `Placed.along_roots`), MuJoCo's along the world's.
    turn = np.array([placed.along_roots(unit) for unit in np.eye(nv).tolist()], float).T
    q, v, u = state.q.tolist(), (turn @ state.v).tolist(), state.u.tolist()
    inertia = np.zeros((nv, nv))
    for (i, j), value in placed.mass_matrix().items():
        inertia[i, j] = inertia[j, i] = value
    bodies = range(model.nbody)
    spins = np.array([placed.body_quaternion(b) for b in bodies], float)
    spins *= np.where((spins * data.xquat).sum(axis=1) < 0.0, -1.0, 1.0)[:, None]  # q is -q
    ours: dict[str, Any] = {
        "xpos": [placed.body_position(b) for b in bodies],
        "xquat": spins,
        "geom_xpos": [placed.geom_position(g) for g in range(model.ngeom)],
        "site_xpos": [placed.site_position(s) for s in range(model.nsite)],
        "subtree_com": [placed.centre(b) for b in bodies],
        "cinert": [placed.body_inertia(b) for b in bodies],
        "cvel": [placed.body_velocity(b, v) for b in bodies],
        "qM": turn.T @ inertia @ turn,
        "qfrc_bias": turn.T @ np.array(placed.bias(v), float),
        "qfrc_passive": turn.T @ np.array(placed.passive(q, v), float),
        "qfrc_actuator": turn.T @ np.array(placed.actuation(q, v, u), float),
    }
    theirs = {name: getattr(data, name) for name in ours if name != "qM"}
    theirs["qM"] = _full_inertia(model, data)
    ours["limits"], limit_rows = _limits(mechanism, state, np.array(v))
    acting = slice(_first_contact_row(data))
    theirs["limits"] = np.column_stack((data.efc_pos[acting], data.efc_margin[acting]))
    touching = [each for each in contacts_of(placed) if each.distance < each.law.margin]
    ordered = _in_mujocos_order(placed, touching, data)
    theirs["contact.geom"] = sorted(pair_number(model, c.geom1, c.geom2) for c in data.contact)
    ours["contact.geom"] = sorted(pair_number(model, *c.geoms) for c in touching)
    if len(ordered) == data.ncon:
        rows = limit_rows
        frames: list[float] = []
        for contact in ordered:
            point, axes, more = _contact_rows(placed, contact, np.array(v))
            frames += [*point, *axes]
            rows = [*rows, *more]
        ours["contact.dist"] = [(each.distance, each.law.margin) for each in ordered]
        theirs["contact.dist"] = [(each.dist, each.includemargin) for each in data.contact]
        ours["contact.frame"] = frames
        theirs["contact.frame"] = [  # without friction, only the normal matters
            x for c in data.contact for x in (*c.pos, *c.frame[: 3 if c.dim == 1 else 9])
        ]
        count = data.nefc
        slopes = np.array([row.slope for row in rows]).reshape(-1, nv) @ turn
        ours["efc_J"] = slopes
        theirs["efc_J"] = np.array(data.efc_J).reshape(-1)[: count * nv]
        ours["efc_D"], theirs["efc_D"] = [row.stiffness for row in rows], data.efc_D[:count]
        ours["efc_aref"], theirs["efc_aref"] = [r.reference for r in rows], data.efc_aref[:count]
    return ours, theirs


def _full_inertia(model: Any, data: Any) -> Array:
    """Return MuJoCo's mass matrix; the call has changed between versions."""
    mujoco, matrix = load_mujoco(), np.zeros((model.nv, model.nv))
    if hasattr(data, "qM"):
        mujoco.mj_fullM(model, matrix, data.qM)
    else:
        mujoco.mj_fullM(model, data, matrix)
    return matrix


def _first_contact_row(data: Any) -> int:
    """Return how many constraints are joint limits, which MuJoCo lists before contacts."""
    limit = load_mujoco().mjtConstraint.mjCNSTR_LIMIT_JOINT
    return int((np.array(data.efc_type[: data.nefc]) == int(limit)).sum())


def _row(law: softness.Softness, slope: Array, v: Array, distance: float) -> _Row:
    stiffness, pull = law.pull(distance)
    return _Row(slope, float(stiffness), -law.damping * float(slope @ v) - float(pull))


def _limits(
    mechanism: Mechanism, state: State, v: Array
) -> tuple[list[tuple[float, float]], list[_Row]]:
    """Return the distance and the margin of each limit that acts, and its constraint."""
    distances: list[tuple[float, float]] = []
    rows: list[_Row] = []
    for limit in mechanism.limits:
        at = float(state.q[limit.position])
        for distance, sign in ((at - limit.low, 1.0), (limit.high - at, -1.0)):
            if distance < limit.law.margin:
                distances.append((distance, limit.law.margin))
                rows.append(
                    _row(limit.law, sign * np.eye(mechanism.nv)[limit.velocity], v, distance)
                )
    return distances, rows


def _contact_rows(
    placed: Placed, contact: Contact, v: Array
) -> tuple[list[float], list[float], list[_Row]]:
    """Return a contact's point and axes in the world, and its constraints."""
    touch = contact.touch()
    axes, slopes = axes_of(placed, contact, touch), np.zeros((3, len(v)))
    for moved, sign in zip(moving(placed, contact), (-1.0, 1.0), strict=True):
        for dof in moved:
            slopes[:, dof] = sign * np.array(jacobian(placed, contact, touch.point, axes, dof))
    normal, *tangents = slopes
    slides = [sign * contact.friction * each for each in tangents for sign in (1.0, -1.0)]
    rows = [
        _row(contact.law, normal + slide, v, float(contact.distance))
        for slide in (slides if contact.friction else [np.zeros(len(v))])
    ]
    matrix = np.array(placed.root(contact.root).matrix, float)
    world = np.array(axes, float) @ matrix.T
    shown = world if contact.friction else world[:1]
    return placed.in_world(contact.root, touch.point), shown.reshape(-1).tolist(), rows


def pair_number(model: Any, one: int, two: int) -> int:
    """Return one number for a pair of geoms, in either order."""
    return min(one, two) * int(model.ngeom) + max(one, two)


def _in_mujocos_order(placed: Placed, touching: Sequence[Contact], data: Any) -> list[Contact]:
    """Return our contacts in the order of MuJoCo's.

    If a pair of geoms has several contacts, the nearest one is the counterpart. The list is shorter
    than MuJoCo's if one of MuJoCo's contacts has no counterpart, and empty if one of ours has none.
    """
    unmatched, ordered = list(touching), list[Contact]()
    for theirs in data.contact:
        same_pair = [c for c in unmatched if {*c.geoms} == {int(theirs.geom1), int(theirs.geom2)}]
        if same_pair:

            def away(contact: Contact, at: Any = theirs.pos) -> float:
                point = placed.in_world(contact.root, contact.touch().point)
                return float(np.linalg.norm(np.array(point, float) - at))

            nearest = min(same_pair, key=away)
            ordered.append(nearest)
            unmatched.remove(nearest)
    return ordered if not unmatched else []
