"""Assemble the C of a robot's step from its parts."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gensmooth.physics.c_source import Writer
from gensmooth.physics.fused.constraints import write_contacts, write_limits
from gensmooth.physics.fused.integrators import euler, runge_kutta
from gensmooth.physics.fused.lanes import load, store
from gensmooth.physics.fused.outputs import FUSED_DATA, derived_of, write_outputs
from gensmooth.physics.fused.solver import write_solver
from gensmooth.physics.fused.system import System, arrays, change_basis, in_world, packed, system_of
from gensmooth.physics.mechanics.mechanism import Mechanism
from gensmooth.physics.mechanics.models import RUNGE_KUTTA
from gensmooth.physics.mechanics.placed import place
from gensmooth.physics.symbols import Slot


class FusedSource(NamedTuple):
    """Bodies of C functions of ``(Worlds s, int world)``; :mod:`.lanes` has their types.

    Attributes:
        step: The physics of one environment step, and the arrays that the environment reads.
        forward: The arrays that the environment reads, without a step, as ``mj_forward``.
        lanes: How many worlds, from ``world`` on, ``step`` moves.
    """

    step: str
    forward: str
    lanes: int = 1


def fused(mechanism: Mechanism, calls: Sequence[str], read: Iterable[Slot]) -> FusedSource:
    """Write the physics of a step.

    Args:
        mechanism: The model.
        calls: The calls to the physics in an environment step: ``"step"``, ``"forces"``.
        read: The entries of MuJoCo's data that the environment reads.
    """
    wanted = [key for key in dict.fromkeys(read) if key.array in FUSED_DATA]
    return FusedSource(
        _steps(system_of(mechanism, wanted, forces="forces" in calls), calls.count("step")),
        _forward(mechanism, wanted),
    )


def _steps(s: System, number: int) -> str:
    m, to = s.mechanism, s.to
    stages = 4 if m.integrator == RUNGE_KUTTA else 1
    _load_state(s, "qvau")
    if stages == 4:
        to.add(f"real q0[{m.nq}], v0[{m.nv}], dq[{m.nv}], dv[{m.nv}], rate[{m.nv}];")
    to.add("#pragma unroll 1")
    with to.block(f"for (int part = 0; part < {stages * number}; ++part)"):
        if stages == 4:
            to.add("const int stage = part & 3;")
        to.add(f"const bool last = part == {stages * number - 1};")
        evaluate(s)
        if stages == 4:
            runge_kutta(s)
        else:
            euler(s)
    for name in "qva":
        array, size = _state(m)[name]
        for i in range(size):
            to.add(store(array, i, f"{name}[{i}]"))
    return "\n".join(to.lines)


def _state(m: Mechanism) -> dict[str, tuple[str, int]]:
    """Return the array in a world and the size of each local variable of the state."""
    return {"q": ("qpos", m.nq), "v": ("qvel", m.nv), "a": ("warm", m.nv), "u": ("ctrl", m.nu)}


def _load_state(s: System, names: str) -> None:
    m = s.mechanism
    s.to.add(f"real q[{m.nq}], v[{m.nv}], a[{m.nv}], u[{max(m.nu, 1)}];")
    for name in names:
        array, size = _state(m)[name]
        for i in range(size):
            s.to.add(f"{name}[{i}] = {load(array, i)};")


def _forward(mechanism: Mechanism, wanted: Sequence[Slot]) -> str:
    """Write the arrays that the environment reads of a world that has not moved yet."""
    if any(key.array == "qfrc_constraint" for key in wanted):
        return _forward_with_constraints(system_of(mechanism, wanted, forces=False))
    q, v, u = arrays(mechanism)
    derived = derived_of(place(mechanism, q), q, v, u)
    ours = {"q": "qpos", "v": "qvel", "u": "ctrl"}
    to = Writer(lambda key: in_world(ours[key.array], key.entry))
    for key in wanted:
        value = "0.0" if key.array == "cfrc_ext" else to.write(derived(key))
        to.add(f"{in_world(key.array, key.entry)} = {value};")
    return "\n".join(to.lines) or ";"


def _forward_with_constraints(s: System) -> str:
    """Write them if the environment reads constraint forces, which must be solved for."""
    m, to = s.mechanism, s.to
    _load_state(s, "qvu")
    to.add(f"for (int i = 0; i < {m.nv}; ++i) a[i] = 0.0;")
    to.add("const bool last = true;")
    evaluate(s)
    for key in s.wanted:
        if key.array == "cfrc_ext":  # MuJoCo computes it only when asked
            to.add(store(key.array, key.entry, "0.0"))
    return "\n".join(to.lines)


def evaluate(s: System) -> None:
    """Write the accelerations ``a`` at positions ``q`` and velocities ``v``.

    Inside, ``w`` and ``a`` are along the roots' axes (see :meth:`Placed.along_roots`).
    """
    to, nv = s.to, s.mechanism.nv
    to.add(f"real M[{packed(nv, 0)}], f[{nv}], w[{nv}];")
    for i, value in enumerate(s.w):
        to.add(f"w[{i}] = {to.write(value)};")
    change_basis(s, "a", s.placed.along_roots)
    for i in range(nv):
        for j in range(i + 1):
            if (i, j) in s.pattern:
                value = to.write(s.inertia.get((i, j), 0.0))
                to.add(f"M[{packed(i, j)}] = {value};")
    for i, force in enumerate(s.placed.smooth_force(s.q, s.w, s.u)):
        to.add(f"f[{i}] = {to.write(force)};")
    write_limits(s)
    write_contacts(s)
    write_solver(s)
    write_outputs(s)
    if not s.mechanism.implicit_damping:
        change_basis(s, "a", s.placed.along_world)
