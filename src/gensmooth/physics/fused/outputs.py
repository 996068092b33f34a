"""Write the arrays of MuJoCo's data that the environment reads."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from gensmooth.physics.fused.lanes import store
from gensmooth.physics.fused.solver import EDGES
from gensmooth.physics.fused.system import System, change_basis
from gensmooth.physics.mechanics.placed import Placed
from gensmooth.physics.symbols import Slot

SOLVED = ("qfrc_constraint", "cfrc_ext")  # known only after the constraints are solved
FUSED_DATA = (
    *("xpos", "xquat", "site_xpos", "geom_xpos", "subtree_com"),
    *("cinert", "cvel", "qfrc_actuator"),
    *SOLVED,
)

# The force of contact c along its axes, and in the world.
ALONG_AXES = """\
const real k = -cd[c];
const real f0 = t0 ? k * (r0 + m * r1) : 0.0, f1 = t1 ? k * (r0 - m * r1) : 0.0;
const real f2 = t2 ? k * (r0 + m * r2) : 0.0, f3 = t3 ? k * (r0 - m * r2) : 0.0;
const real fn = f0 + f1 + f2 + f3, ft = m * (f0 - f1), fw = m * (f2 - f3);"""
_FORCES = """\
const real* axis = where + c * 12 + 3;
const real fx = fn * axis[0] + ft * axis[3] + fw * axis[6];
const real fy = fn * axis[1] + ft * axis[4] + fw * axis[7];
const real fz = fn * axis[2] + ft * axis[5] + fw * axis[8];"""


def derived_of(
    placed: Placed, q: Sequence[Any], v: Sequence[Any], u: Sequence[Any]
) -> Callable[[Slot], Any]:
    """Return a function from entries of MuJoCo's data, except ``SOLVED``, to their expressions."""
    w = placed.along_roots(v)
    functions: dict[str, tuple[Callable[[int], list[Any]], int]] = {
        "xpos": (placed.body_position, 3),
        "xquat": (placed.body_quaternion, 4),
        "site_xpos": (placed.site_position, 3),
        "geom_xpos": (placed.geom_position, 3),
        "subtree_com": (placed.centre, 3),
        "cinert": (placed.body_inertia, 10),
        "cvel": (lambda body: placed.body_velocity(body, w), 6),
        "qfrc_actuator": (lambda _: placed.actuation(q, w, u), len(w)),
    }

    @cache
    def row(array: str, number: int) -> list[Any]:
        return functions[array][0](number)

    def entry(key: Slot) -> Any:
        size = functions[key.array][1]
        return row(key.array, key.entry // size)[key.entry % size]

    return entry


def write_outputs(s: System) -> None:
    """Store the entries that the environment reads, after the last evaluation."""
    to = s.to
    if not s.wanted:
        return
    with to.block("if (last)"):
        if s.forces:
            _contact_forces(s)
        if any(key.array == "qfrc_constraint" for key in s.wanted):
            _constraint_forces(s)
        derived = derived_of(s.placed, s.q, s.v, s.u)
        for key in s.wanted:
            if key.array not in SOLVED:
                to.add(store(key.array, key.entry, to.write(derived(key))))
            elif key.array == "qfrc_constraint":
                to.add(store(key.array, key.entry, f"qc[{key.entry}]"))
            elif s.forces:
                to.add(store(key.array, key.entry, f"cf[{key.entry}]"))


def _constraint_forces(s: System) -> None:
    """Write MuJoCo's ``qfrc_constraint``, Jᵀf."""
    to, nv, width = s.to, s.mechanism.nv, s.rows.width
    to.add(f"real qc[{nv}];")
    to.add(f"for (int i = 0; i < {nv}; ++i) qc[i] = 0.0;")
    for k, limit in enumerate(s.mechanism.limits):
        here, force = f"qc[{limit.velocity}]", f"ls[{k}] * ld[{k}] * lr[{k}]"
        to.add(f"{here} = lr[{k}] < 0.0 ? {here} - {force} : {here};")
    if s.contacts:
        to.add("#pragma unroll 1")
        with to.block("for (int c = 0; c < nc; ++c)"):
            to.add(EDGES)
            to.add(ALONG_AXES)
            to.add(f"const real* n = J + c * {3 * width};")
            places = s.rows.listed_by_contact(to) if s.rows.listed else range(width)
            if not s.rows.listed:
                s.rows.of_contact(to)
            for i in places:
                terms = f"fn * n[{i}] + ft * n[{width + i}] + fw * n[{2 * width + i}]"
                to.add(f"qc[{s.rows.at(i)}] += {terms};")
    change_basis(s, "qc", s.placed.along_world)


def _contact_forces(s: System) -> None:
    """Write MuJoCo's ``cfrc_ext``: contact forces on each body, at the centre of its tree."""
    m, to = s.mechanism.model, s.to
    trees = sorted({int(each) for each in m.body_rootid[1:]})
    to.add(f"real cf[{6 * m.nbody}], centre[{3 * len(trees)}];")
    numbers = [trees.index(int(each)) if k else 0 for k, each in enumerate(m.body_rootid)]
    to.add(f"const int tree[] = {{{', '.join(map(str, numbers))}}};")
    to.add(f"for (int i = 0; i < {6 * m.nbody}; ++i) cf[i] = 0.0;")
    for k, body in enumerate(trees):
        for i, value in enumerate(s.placed.centre(body)):
            to.add(f"centre[{3 * k + i}] = {to.write(value)};")
    to.add("#pragma unroll 1")
    with to.block("for (int c = 0; c < nc; ++c)"):
        to.add(EDGES)
        to.add(ALONG_AXES)
        to.add(_FORCES)
        to.add("#pragma unroll 1")
        with to.block("for (int side = 0; side < 2; ++side)"):
            to.add("const int body = side ? two[c] : one[c];")
            to.add("if (body == 0) continue;  // MuJoCo leaves the world out")
            to.add("const double sign = side ? 1.0 : -1.0;")
            to.add("const real* at = where + c * 12; const real* o = centre + 3 * tree[body];")
            to.add("const real ax = at[0] - o[0], ay = at[1] - o[1], az = at[2] - o[2];")
            to.add("real* to_body = cf + 6 * body;")
            torque = ("ay * fz - az * fy", "az * fx - ax * fz", "ax * fy - ay * fx")
            for i, value in enumerate((*torque, "fx", "fy", "fz")):
                to.add(f"to_body[{i}] += sign * ({value});")
