"""What all parts of a step share: the symbols, where the text goes, and linear algebra."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from gensmooth.rl.environments.mechanics.contacts import Contact, contacts_of, moving
from gensmooth.rl.environments.mechanics.mechanism import Mechanism
from gensmooth.rl.environments.mechanics.placed import Placed, place
from gensmooth.rl.environments.symbols import Slot, Symbol, symbols
from gensmooth.rl.environments.written import Writer


@final
@dataclass(frozen=True)
class System:
    """A mechanism on symbols, and the text of its step.

    Attributes:
        mechanism: The mechanism.
        placed: Where it is.
        q: Positions.
        v: Velocities.
        u: Controls.
        w: Velocities along the roots' axes (see :meth:`Placed.along_roots`).
        inertia: M.
        contacts: All that may touch.
        pattern: Which entries of M + JᵀDJ can be other than 0, after elimination too.
        wanted: What the environment reads.
        forces: Whether it reads the forces of contacts on bodies.
        to: Where the text goes.
    """

    mechanism: Mechanism
    placed: Placed
    q: list[Symbol]
    v: list[Symbol]
    u: list[Symbol]
    w: list[Any]
    inertia: dict[tuple[int, int], Any]
    contacts: list[Contact]
    pattern: set[tuple[int, int]]
    wanted: Sequence[Slot]
    forces: bool
    to: Writer = field(default_factory=lambda: Writer(local))


def system_of(mechanism: Mechanism, wanted: Sequence[Slot], *, forces: bool) -> System:
    """A mechanism on symbols.

    Args:
        mechanism: The mechanism.
        wanted: What the environment reads.
        forces: Whether it asks for the forces of contacts.
    """
    q, v, u = arrays(mechanism)
    placed = place(mechanism, q)
    inertia, contacts = placed.mass_matrix(), contacts_of(placed)
    return System(
        mechanism=mechanism,
        placed=placed,
        q=q,
        v=v,
        u=u,
        w=placed.along_roots(v),
        inertia=inertia,
        contacts=contacts,
        pattern=_coupled(placed, inertia, contacts),
        wanted=wanted,
        forces=forces and any(key.array == "cfrc_ext" for key in wanted),
    )


def _coupled(
    placed: Placed, inertia: dict[tuple[int, int], Any], contacts: Sequence[Contact]
) -> set[tuple[int, int]]:
    """Which entries (i, j), j <= i, of M + JᵀDJ can be other than 0, after elimination too."""
    nv = placed.mechanism.nv
    found = set(inertia) | {(i, i) for i in range(nv)}
    for contact in contacts:
        one, two = moving(placed, contact)
        moved = sorted(one | two)
        found |= {(i, j) for i in moved for j in moved if j <= i}
    for last in reversed(range(nv)):
        before = [j for j in range(last) if (last, j) in found]
        found |= {(i, j) for i in before for j in before if j <= i}
    return found


def arrays(mechanism: Mechanism) -> tuple[list[Symbol], ...]:
    """The symbols of positions, velocities and controls."""
    sizes = {"q": mechanism.nq, "v": mechanism.nv, "u": mechanism.nu}
    return tuple(list(symbols(name, (size,))) for name, size in sizes.items())


def local(key: Slot) -> str:
    """The C of a slot: an entry of a local array."""
    return f"{key.array}[{key.entry}]"


def in_world(array: str, entry: int) -> str:
    """The C of a number of a world."""
    return f"s.{array}.data[{entry} * s.worlds + world]"


def packed(i: int, j: int) -> int:
    """Where entry (i, j), j <= i, of a symmetric matrix is; (n, 0): how many entries there are."""
    return i * (i + 1) // 2 + j


def change_basis(s: System, name: str, how: Callable[[Sequence[Any]], list[Any]]) -> None:
    """Change the basis of an array of accelerations."""
    to = s.to
    with to.block(""):
        values = how(list(symbols(name, (s.mechanism.nv,))))
        dofs = [first + k for first, _ in s.mechanism.free_translations() for k in range(3)]
        names = [(i, to.write(values[i])) for i in dofs]
        for i, value in names:
            to.add(f"{name}[{i}] = {value};")


# --- linear algebra -----------------------------------------------------------------------------


def times_inertia(s: System, to_name: str, from_name: str) -> None:
    """M times a vector."""
    nv = s.mechanism.nv
    for i in range(nv):
        terms = [
            f"M[{packed(max(i, j), min(i, j))}] * {from_name}[{j}]"
            for j in range(nv)
            if (max(i, j), min(i, j)) in s.inertia
        ]
        s.to.add(f"{to_name}[{i}] = {' + '.join(terms)};")


def eliminate(s: System, name: str) -> None:
    """LᵀDL from the last row on, so that joints of other limbs never meet; 1 / D is kept."""
    to = s.to
    for last in reversed(range(s.mechanism.nv)):
        before = [j for j in range(last) if (last, j) in s.pattern]
        here = f"{name}[{packed(last, last)}]"
        to.add(f"{here} = 1.0 / {here};")
        for j in before:
            to.add(f"const double l{last}_{j} = {name}[{packed(last, j)}] * {here};")
        for i in before:
            for j in before:
                if j <= i:
                    other = f"{name}[{packed(last, j)}]"
                    to.add(f"{name}[{packed(i, j)}] -= l{last}_{i} * {other};")
        for j in before:
            to.add(f"{name}[{packed(last, j)}] = l{last}_{j};")


def back_substitute(s: System, name: str, vector: str) -> None:
    """Solve with what :func:`eliminate` left."""
    to, nv = s.to, s.mechanism.nv
    for last in reversed(range(nv)):
        for j in range(last):
            if (last, j) in s.pattern:
                to.add(f"{vector}[{j}] -= {name}[{packed(last, j)}] * {vector}[{last}];")
    for i in range(nv):
        to.add(f"{vector}[{i}] *= {name}[{packed(i, i)}];")
    for i in range(nv):
        for j in range(i):
            if (i, j) in s.pattern:
                to.add(f"{vector}[{i}] -= {name}[{packed(i, j)}] * {vector}[{j}];")
