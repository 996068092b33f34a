"""Write limits and contacts as rows of J, with their stiffness and residual."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from gensmooth.physics.fused.system import System
from gensmooth.physics.mechanics.algebra import apply
from gensmooth.physics.mechanics.contacts import Contact, Touch, axes_of, jacobian, moving
from gensmooth.physics.symbols import choose, same, slot


def write_limits(s: System) -> None:
    """Write D (0 if no limit acts), the sign and the residual of each limited joint."""
    m, to = s.mechanism, s.to
    size = max(len(m.limits), 1)
    to.add(f"real ld[{size}], ls[{size}], lr[{size}];")
    for k, limit in enumerate(m.limits):
        q, i = s.q[limit.position], limit.velocity
        to.add(f"ld[{k}] = 0.0; ls[{k}] = 0.0; lr[{k}] = 0.0;")
        low, high = q - limit.low, limit.high - q
        nearer = low < high  # at most one of the two limits acts
        distance, sign = choose(nearer, low, high), choose(nearer, 1.0, -1.0)
        there = f"busy && {to.write(distance)} < {limit.law.margin!r}"
        with to.block(f"if (lanes::any({there}))"):
            to.add(f"const truth there = {there};")
            stiffness, pull = limit.law.pull(distance)
            side = to.write(sign)
            moving = f"a[{i}] + {limit.law.damping!r} * w[{i}]"
            to.add(f"ld[{k}] = there ? {to.write(stiffness)} : 0.0;")
            to.add(f"ls[{k}] = there ? {side} : 0.0;")
            to.add(f"lr[{k}] = there ? {side} * ({moving}) + {to.write(pull)} : 0.0;")


def write_contacts(s: System) -> None:
    """Write the Jacobian, D, friction and the residuals along three axes of each contact."""
    to, width, free = s.to, s.rows.width, len(s.rows.free)
    most = max(len(s.contacts), 1)
    to.add(f"real J[{most * 3 * width}], cd[{most}], cm[{most}], cr[{most * 3}];")
    if free:
        to.add(f"int cv[{most * free}];")
    if s.rows.listed:
        to.add(f"int cs[{most}];")
    to.add("int nc = 0;")
    if s.forces:
        to.add(f"real where[{most * 12}]; int one[{most}], two[{most}];")
    for contacts in _groups(s):
        with to.block(""):
            _write_group(s, contacts)


def _groups(s: System) -> list[list[Contact]]:
    """Group contacts that differ only in numbers, so that a group shares its code."""
    groups: dict[Any, list[Contact]] = {}
    for contact in s.contacts:
        law = replace(contact.law, inertia=1.0, factor=1.0)
        key = (law, contact.friction > 0.0, contact.root, contact.touch().along is None)
        groups.setdefault(key, []).append(contact)
    return list(groups.values())


def _write_group(s: System, contacts: Sequence[Contact]) -> None:
    """Find which contacts of a group touch; then compute the terms of each that does."""
    to, placed = s.to, s.placed
    touches = [contact.touch() for contact in contacts]
    general = contacts[0]
    columns = [
        [contact.distance for contact in contacts],
        *zip(*(_numbers(touch) for touch in touches), strict=True),
        [contact.law.inertia for contact in contacts],
        [contact.law.factor for contact in contacts],
        [contact.friction for contact in contacts],
    ]
    # Values that all contacts share are used directly; the others are stored in a row per contact.
    differ = [
        k for k, column in enumerate(columns) if not all(same(each, column[0]) for each in column)
    ]
    values = [column[0] for column in columns]
    for number, k in enumerate(differ):
        values[k] = slot("here", number)
    width = max(len(differ), 1)
    most = len(contacts)
    to.add(f"real kept[{most * width}]; truth touching[{most}];")
    to.add(f"unsigned long long mine[{most}], yours[{most}];")
    if s.forces:
        to.add(f"int first[{most}], second[{most}];")
    if s.rows.free:
        to.add(f"int* meant = cv + nc * {len(s.rows.free)};")
    if s.rows.listed:
        to.add("int* size = cs + nc;")
    to.add("int n = 0;")
    for k, contact in enumerate(contacts):
        margin = contact.law.margin
        there = f"busy && {to.write(contact.distance)} < {margin!r}"
        with to.block(f"if (lanes::any({there}))"):
            to.add(f"touching[n] = {there};")
            for number, column in enumerate(differ):
                to.add(f"kept[n * {width} + {number}] = {to.write(columns[column][k])};")
            one, two = moving(placed, contact)
            to.add(f"mine[n] = {_bits(one)}ull; yours[n] = {_bits(two)}ull;")
            for number, dof in enumerate(s.rows.meant(one | two)):
                to.add(f"meant[n * {len(s.rows.free)} + {number}] = {dof};")
            if s.rows.listed:
                to.add(f"size[n] = {len(one | two)};")
            if s.forces:
                to.add(f"first[n] = {contact.bodies[0]}; second[n] = {contact.bodies[1]};")
            to.add("++n;")
    to.add("#pragma unroll 1")
    with to.block("for (int c = 0; c < n; ++c, ++nc)"):
        to.add(f"const real* here = kept + c * {width}; const truth there = touching[c];")
        distance, point, normal = values[0], values[1:4], values[4:7]
        along = None if touches[0].along is None else values[7:10]
        law = replace(general.law, inertia=values[-3], factor=values[-2])
        friction = values[-1]
        axes = axes_of(placed, general, Touch(point, normal, along))
        stiffness, pull = law.pull(distance)
        # Without friction the four edges of the pyramid coincide, so each has a quarter of D.
        quarter = "" if general.friction else " * 0.25"
        to.add(f"cd[nc] = there ? {to.write(stiffness)}{quarter} : 0.0;")
        to.add(f"cm[nc] = {to.write(friction)};")
        to.add(f"real r0 = {to.write(pull)}, r1 = 0.0, r2 = 0.0;")
        _write_rows(s, contacts, point, axes if general.friction else axes[:1])
        for k in range(3):
            to.add(f"cr[nc * 3 + {k}] = there ? r{k} : 0.0;")
        if s.forces:
            with to.block("if (last)"):
                turn = placed.root(general.root).matrix
                numbers = placed.in_world(general.root, point)
                numbers += [each for axis in axes for each in apply(turn, axis)]
                for k, value in enumerate(numbers):
                    to.add(f"where[nc * 12 + {k}] = there ? {to.write(value)} : 0.0;")
                to.add("one[nc] = first[c]; two[nc] = second[c];")


def _write_rows(
    s: System, contacts: Sequence[Contact], point: list[Any], axes: Sequence[list[Any]]
) -> None:
    """Write the rows of J, and add their contribution to the residuals J (a + B w)."""
    to, rows = s.to, s.rows
    moved = [moving(s.placed, contact) for contact in contacts]
    any_moved = set[int]().union(*(each for both in moved for each in both))
    to.add(f"real* row = J + nc * {3 * rows.width};")
    if rows.places is None:
        to.add("int place = 0;")
        for i in sorted(any_moved):
            with to.block(f"if (((mine[c] | yours[c]) >> {i}) & 1)"):
                _write_column(s, contacts, point, axes, i, "place", "=")
                to.add("++place;")
        return
    for place in rows.free:
        for k in range(3):
            to.add(f"row[{k * rows.width + place}] = 0.0;")
    for i, place in enumerate(rows.places):
        becomes = "+=" if place in rows.free else "="
        if i in any_moved:
            _write_column(s, contacts, point, axes, i, str(place), becomes)
        elif becomes == "=":
            for k in range(3):
                to.add(f"row[{k} * {rows.width} + {place}] = 0.0;")


def _write_column(
    s: System,
    contacts: Sequence[Contact],
    point: list[Any],
    axes: Sequence[list[Any]],
    i: int,
    place: str,
    becomes: str,
) -> None:
    """Write the entries of velocity i in the rows of a contact."""
    to = s.to
    moved = [moving(s.placed, contact) for contact in contacts]
    values = jacobian(s.placed, contacts[0], point, list(axes), i)
    names = [to.write(value) for value in values]
    firsts, seconds = (sum(i in each[k] for each in moved) for k in range(2))
    sign = "1.0" if seconds == len(contacts) else f"(double)((yours[c] >> {i}) & 1)"
    if firsts:
        sign = f"((double)((yours[c] >> {i}) & 1) - (double)((mine[c] >> {i}) & 1))"
    with to.block(""):
        to.add(f"const double on = {sign};")
        to.add(f"const real by = on * (a[{i}] + {contacts[0].law.damping!r} * w[{i}]);")
        for k in range(3):
            zero = k >= len(values) or names[k] in ("0.0", "(-0.0)")
            entry = "0.0" if zero else f"there ? on * {names[k]} : 0.0"
            to.add(f"row[{k} * {s.rows.width} + {place}] {becomes} {entry};")
            if not zero:
                to.add(f"r{k} += by * {names[k]};")


def _numbers(touch: Touch) -> list[Any]:
    return [*touch.point, *touch.normal, *(touch.along or ())]


def _bits(dofs: Iterable[int]) -> int:
    return sum(1 << dof for dof in dofs)
