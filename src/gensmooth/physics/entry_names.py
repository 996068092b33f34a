"""Readable names for entries of MuJoCo's arrays: "joint thigh_joint" instead of "entry 3"."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gensmooth.physics.mujoco_calls import load_mujoco

# How many entries each body, geom or site has in an array.
_PER_OBJECT = {
    "xpos": ("body", 3),
    "xquat": ("body", 4),
    "geom_xpos": ("geom", 3),
    "site_xpos": ("site", 3),
    "subtree_com": ("body", 3),
    "cinert": ("body", 10),
    "cvel": ("body", 6),
    "cfrc_ext": ("body", 6),
}
_PER_VELOCITY = ("qfrc_bias", "qfrc_passive", "qfrc_actuator", "qfrc_constraint", "qacc", "qvel")


def entry_name(model: Any, data: Any, term: str, entry: int) -> str:
    """Return a readable name of one entry of a term.

    Args:
        model: The ``MjModel``.
        data: The ``MjData`` of the state in which the term was computed.
        term: The name of the term, as in :mod:`gensmooth.physics.compare`.
        entry: The index of the entry in the flattened array.
    """
    if term in _PER_OBJECT:
        kind, size = _PER_OBJECT[term]
        return f"entry {entry % size} of {_name(model, kind, entry // size)}"
    if term in _PER_VELOCITY:
        return _velocity(model, entry)
    if term == "qM":
        row, column = divmod(entry, int(model.nv))
        return f"{_velocity(model, row)} with {_velocity(model, column)}"
    if term == "qpos":
        return _position(model, entry)
    rows = active_constraints(model, data)
    if term in ("efc_D", "efc_aref"):
        return f"row {entry}, {rows[entry]}"
    if term == "efc_J":
        row, column = divmod(entry, int(model.nv))
        return f"row {row}, {rows[row]}, {_velocity(model, column)}"
    if term == "limits":
        return f"{'distance' if entry % 2 == 0 else 'margin'}, {rows[entry // 2]}"
    if term == "contact.dist":
        kind = "distance" if entry % 2 == 0 else "margin"
        return f"{kind}, {contact_name(model, data.contact[entry // 2])}"
    if term == "contact.frame":
        return _frame_entry(model, data, entry)
    return f"entry {entry}"


def active_constraints(model: Any, data: Any) -> list[str]:
    """Return the name of each row of MuJoCo's constraints: the joint, or the two geoms."""
    limit = int(load_mujoco().mjtConstraint.mjCNSTR_LIMIT_JOINT)
    names: list[str] = []
    for kind, number in zip(data.efc_type[: data.nefc], data.efc_id[: data.nefc], strict=True):
        if int(kind) == limit:
            names.append(f"limit of {_name(model, 'joint', int(number))}")
        else:
            names.append(contact_name(model, data.contact[int(number)]))
    return names


def contact_name(model: Any, contact: Any) -> str:
    """Return the name of a contact: its two geoms."""
    return pair_name(model, (int(contact.geom1), int(contact.geom2)))


def pair_name(model: Any, geoms: Sequence[int]) -> str:
    """Return the name of a pair of geoms, "contact of floor and foot"."""
    one, two = (_name(model, "geom", geom).removeprefix("geom ") for geom in geoms)
    return f"contact of {one} and {two}"


def _frame_entry(model: Any, data: Any, entry: int) -> str:
    for contact in data.contact:
        size = 6 if contact.dim == 1 else 12  # a point, then the normal or all three axes
        if entry < size:
            part = (
                "point"
                if entry < 3
                else ("normal", "first tangent", "second tangent")[(entry - 3) // 3]
            )
            return f"{part}, {contact_name(model, contact)}"
        entry -= size
    return f"entry {entry}"


def _velocity(model: Any, dof: int) -> str:
    return _of_joint(model, int(model.dof_jntid[dof]), dof, model.jnt_dofadr)


def _position(model: Any, index: int) -> str:
    joint = int(np.searchsorted(model.jnt_qposadr, index, side="right")) - 1
    return _of_joint(model, joint, index, model.jnt_qposadr)


def _of_joint(model: Any, joint: int, index: int, first: Any) -> str:
    name = _name(model, "joint", joint)
    free = int(model.jnt_type[joint]) == int(load_mujoco().mjtJoint.mjJNT_FREE)
    return f"entry {index - int(first[joint])} of {name}" if free else name


def _name(model: Any, kind: str, number: int) -> str:
    """Return the name that the model gives a body, geom, site or joint, or else its number."""
    return f"{kind} {getattr(model, kind)(number).name or number}"
