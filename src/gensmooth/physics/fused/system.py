"""The symbols, the writer of C and the linear algebra that all parts of a step share."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from gensmooth.physics.c_source import Writer
from gensmooth.physics.fused.lanes import NAMES
from gensmooth.physics.mechanics.contacts import Contact, contacts_of, moving
from gensmooth.physics.mechanics.mechanism import Mechanism
from gensmooth.physics.mechanics.placed import Placed, place
from gensmooth.physics.symbols import Slot, Symbol, symbols


class Rows(NamedTuple):
    """How a row of a contact's Jacobian is stored: a place for each velocity that can move it.

    On a robot with many limbs, most entries of a row are 0: only the trunk and one leg move the
    contact of that leg with the floor. Velocities of different legs then share places, and each
    contact stores which velocities its places stand for. If limbs can also touch each other, each
    contact lists the velocities that move it, and its row has only those.

    Attributes:
        width: How many places there are.
        places: The place of each velocity; ``None`` if each contact lists its velocities.
        shared: The first place that velocities share; all later ones are shared too.
    """

    width: int
    places: tuple[int, ...] | None = None
    shared: int = 0

    @property
    def free(self) -> list[int]:
        """The places that velocities share."""
        return list(range(self.shared, self.width))

    @property
    def listed(self) -> bool:
        """Whether each contact lists the velocities that move it."""
        return self.places is None

    def at(self, place: int) -> str:
        """Return C for the index of the velocity in a place, after :meth:`of_contact`."""
        return f"v{place}" if place >= self.shared else f"{place}"

    def of_contact(self, to: Writer) -> None:
        """Write C that reads which velocities move contact c."""
        for number, free in enumerate(self.free):
            to.add(f"const int v{free} = cv[c * {len(self.free)} + {number}];")

    def listed_by_contact(self, to: Writer) -> Generator[int]:
        """Yield the places of contact c; the C written for a place runs only if c has it."""
        with to.block("for (bool once = true; once; once = false)"):
            for place in range(self.width):
                to.add(f"if (cs[c] <= {place}) break;")
                to.add(f"const int v{place} = cv[c * {self.width} + {place}];")
                yield place

    def packed(self, i: int, j: int) -> str:
        """Return C for the index of the entry of two places, j <= i, in a packed matrix."""
        if i < self.shared:
            return f"{packed(i, j)}"
        return f"v{i} * (v{i} + 1) / 2 + {self.at(j)}"

    def meant(self, moved: set[int]) -> list[int]:
        """Return the velocities in the shared places of a contact; all are valid indices."""
        if self.places is None:
            return sorted(moved)
        here = {self.places[dof]: dof for dof in moved}
        velocities: list[int] = []
        for free in self.free:  # an unused place holds zeros, so any index does
            velocities.append(here.get(free, velocities[-1] if velocities else self.shared))
        return velocities


# Shared places cost extra reads, so they must shrink the squared length of rows by this factor.
_PAYS = 2.5


@final
@dataclass(frozen=True)
class System:
    """A mechanism on symbols, and the writer of its step.

    Attributes:
        mechanism: The mechanism.
        placed: The mechanism at positions ``q``.
        q: Positions.
        v: Velocities.
        u: Controls.
        w: Velocities along the roots' axes (see :meth:`Placed.along_roots`).
        inertia: M.
        contacts: All contacts that it may have.
        pattern: The entries of M + JᵀDJ that can be nonzero, including those that elimination adds.
        rows: How rows of J are stored.
        wanted: The entries of MuJoCo's data that the environment reads.
        forces: Whether it reads the contact forces on bodies.
        to: The writer of the C, with the types and functions of :mod:`.lanes`.
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
    rows: Rows
    wanted: Sequence[Slot]
    forces: bool
    to: Writer


def system_of(mechanism: Mechanism, wanted: Sequence[Slot], *, forces: bool) -> System:
    """Return a mechanism on symbols.

    Args:
        mechanism: The mechanism.
        wanted: The entries of MuJoCo's data that the environment reads.
        forces: Whether it asks for the contact forces.
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
        rows=_rows_of(placed, contacts),
        wanted=wanted,
        forces=forces and any(key.array == "cfrc_ext" for key in wanted),
        to=Writer(local, NAMES),
    )


def _coupled(
    placed: Placed, inertia: dict[tuple[int, int], Any], contacts: Sequence[Contact]
) -> set[tuple[int, int]]:
    """Return the entries (i, j), j <= i, of M + JᵀDJ that can be nonzero, after elimination too."""
    nv = placed.mechanism.nv
    entries = set(inertia) | {(i, i) for i in range(nv)}
    for contact in contacts:
        one, two = moving(placed, contact)
        moved = sorted(one | two)
        entries |= {(i, j) for i in moved for j in moved if j <= i}
    for last in reversed(range(nv)):
        before = [j for j in range(last) if (last, j) in entries]
        entries |= {(i, j) for i in before for j in before if j <= i}
    return entries


def _rows_of(placed: Placed, contacts: Sequence[Contact]) -> Rows:
    """Return the shortest rows that are worth their extra reads.

    A velocity's place is its depth in the tree, if no contact needs two of the same depth.
    """
    m = placed.mechanism
    moved = [set[int]().union(*moving(placed, contact)) for contact in contacts]
    depths = [m.dofs_of(m.dof_part(dof)).index(dof) for dof in range(m.nv)]
    if all(len({depths[dof] for dof in each}) == len(each) for each in moved):
        shared = next((dof for dof, depth in enumerate(depths) if depth != dof), m.nv)
        rows = Rows(max(depths) + 1, tuple(depths), min([shared, *depths[shared:]]))
    else:
        rows = Rows(max(map(len, moved)))
    if _PAYS * packed(rows.width, 0) > packed(m.nv, 0):
        return Rows(m.nv, tuple(range(m.nv)), m.nv)
    return rows


def arrays(mechanism: Mechanism) -> tuple[list[Symbol], ...]:
    """Return the symbols of positions, velocities and controls."""
    sizes = {"q": mechanism.nq, "v": mechanism.nv, "u": mechanism.nu}
    return tuple(list(symbols(name, (size,))) for name, size in sizes.items())


def local(key: Slot) -> str:
    """Return the C of a slot: an entry of a local array."""
    return f"{key.array}[{key.entry}]"


def in_world(array: str, entry: int) -> str:
    """Return the C of an entry of a world's array."""
    return f"s.{array}.data[{entry} * s.worlds + world]"


def packed(i: int, j: int) -> int:
    """Return the index of entry (i, j), j <= i, of a packed symmetric matrix; (n, 0): its size."""
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
    """Write M times a vector."""
    nv = s.mechanism.nv
    for i in range(nv):
        terms = [
            f"M[{packed(max(i, j), min(i, j))}] * {from_name}[{j}]"
            for j in range(nv)
            if (max(i, j), min(i, j)) in s.inertia
        ]
        s.to.add(f"{to_name}[{i}] = {' + '.join(terms)};")


def eliminate(s: System, name: str) -> None:
    """Write the factorisation LᵀDL, last row first, so that limbs stay uncoupled; stores 1 / D."""
    to = s.to
    for last in reversed(range(s.mechanism.nv)):
        before = [j for j in range(last) if (last, j) in s.pattern]
        here = f"{name}[{packed(last, last)}]"
        to.add(f"{here} = 1.0 / {here};")
        for j in before:
            to.add(f"const real l{last}_{j} = {name}[{packed(last, j)}] * {here};")
        for i in before:
            for j in before:
                if j <= i:
                    other = f"{name}[{packed(last, j)}]"
                    to.add(f"{name}[{packed(i, j)}] -= l{last}_{i} * {other};")
        for j in before:
            to.add(f"{name}[{packed(last, j)}] = l{last}_{j};")


def back_substitute(s: System, name: str, vector: str) -> None:
    """Solve with the result of :func:`eliminate`."""
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
