"""The physics of a robot as one function in C: a whole step of one world, nothing left to launch.

A GPU computes a step of MuJoCo Warp as a chain of some hundred small kernels, each of which waits
for the one before. For a robot of some ten joints that chain, not arithmetic, takes the time. Here
one thread computes a whole step of one world, from the expressions of
:mod:`gensmooth.rl.environments.mechanics`, in float64. Worlds know nothing of each other, so a step
has the same bits in whatever company, from run to run.

The constrained accelerations are found by Newton's method on the cost that
:mod:`.mechanics` states,
with an exact search along each direction. Between changes of the set of active constraints the cost
is quadratic, so the step after which the set stays as it was is the last, and exact.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from gensmooth.rl.environments.mechanics.algebra import apply
from gensmooth.rl.environments.mechanics.contacts import (
    Contact,
    Touch,
    axes_of,
    contacts_of,
    jacobian,
    moving,
)
from gensmooth.rl.environments.mechanics.mechanism import Mechanism
from gensmooth.rl.environments.mechanics.models import FREE, RUNGE_KUTTA
from gensmooth.rl.environments.mechanics.placed import Placed, place
from gensmooth.rl.environments.symbols import Slot, Symbol, choose, same, slot, symbols
from gensmooth.rl.environments.written import Writer

_ITERATIONS = 50  # Newton's steps; two or three are usual
_SEARCHES = 30  # along a direction
_SMALL = 1e-12  # the gradient, in units of MuJoCo's tolerance


class FusedSource(NamedTuple):
    """Bodies of C functions of ``(Worlds s, int world)``.

    Attributes:
        step: Physics of one step of the environment, and what the environment reads of it.
        look: What the environment reads of a world that has not moved yet.
    """

    step: str
    look: str


def fused(mechanism: Mechanism, calls: Sequence[str], read: Iterable[Slot]) -> FusedSource:
    """Write the physics of a step.

    Args:
        mechanism: The model.
        calls: What the environment asks of the physics in a step: ``"step"``, ``"forces"``.
        read: What it reads of MuJoCo's data.
    """
    wanted = [key for key in dict.fromkeys(read) if key.array in FUSED_DATA]
    return FusedSource(
        _Step(mechanism, calls.count("step"), wanted, "forces" in calls).written(),
        _look(mechanism, wanted),
    )


_SOLVED = ("qfrc_constraint", "cfrc_ext")  # what is known when the constraints have been solved
FUSED_DATA = (
    *("xpos", "xquat", "site_xpos", "geom_xpos", "subtree_com"),
    *("cinert", "cvel", "qfrc_actuator"),
    *_SOLVED,
)


def _arrays(mechanism: Mechanism) -> tuple[list[Symbol], ...]:
    sizes = {"q": mechanism.nq, "v": mechanism.nv, "u": mechanism.nu}
    return tuple(list(symbols(name, (size,))) for name, size in sizes.items())


def _local(key: Slot) -> str:
    return f"{key.array}[{key.entry}]"


def _in_world(array: str, entry: int) -> str:
    return f"s.{array}.data[{entry} * s.worlds + world]"


def _derived(
    placed: Placed, q: Sequence[Any], v: Sequence[Any], u: Sequence[Any]
) -> Callable[[Slot], Any]:
    """The expressions of numbers of MuJoCo's data, but those of ``_SOLVED``."""
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


def _look(mechanism: Mechanism, wanted: Sequence[Slot]) -> str:
    if any(key.array == "qfrc_constraint" for key in wanted):
        return _Step(mechanism, 0, wanted, False).looked()
    arrays = _arrays(mechanism)
    derived = _derived(place(mechanism, arrays[0]), *arrays)
    ours = {"q": "qpos", "v": "qvel", "u": "ctrl"}
    to = Writer(lambda key: _in_world(ours[key.array], key.entry))
    for key in wanted:
        value = "0.0" if key.array == "cfrc_ext" else to.write(derived(key))
        to.add(f"{_in_world(key.array, key.entry)} = {value};")
    return "\n".join(to.lines) or ";"


class _Step:
    """The text of a step."""

    def __init__(
        self, mechanism: Mechanism, skip: int, wanted: Sequence[Slot], forces: bool
    ) -> None:
        self._m, self._skip = mechanism, skip
        self._wanted = wanted
        self._forces = forces and any(key.array == "cfrc_ext" for key in wanted)
        self._to = Writer(_local)
        self._q, self._v, self._u = _arrays(mechanism)
        self._placed = place(mechanism, self._q)
        self._inertia = self._placed.mass_matrix()
        self._contacts = contacts_of(self._placed)
        self._pattern = self._coupled()
        self._w = self._placed.along_roots(self._v)

    def _coupled(self) -> set[tuple[int, int]]:
        """Which entries (i, j), j <= i, of M + JᵀDJ can be other than 0, after elimination too."""
        found = set(self._inertia) | {(i, i) for i in range(self._m.nv)}
        for contact in self._contacts:
            one, two = moving(self._placed, contact)
            moved = sorted(one | two)
            found |= {(i, j) for i in moved for j in moved if j <= i}
        for last in reversed(range(self._m.nv)):
            before = [j for j in range(last) if (last, j) in found]
            found |= {(i, j) for i in before for j in before if j <= i}
        return found

    def written(self) -> str:
        m, to = self._m, self._to
        stages = 4 if m.integrator == RUNGE_KUTTA else 1
        to.add(f"double q[{m.nq}], v[{m.nv}], a[{m.nv}], u[{max(m.nu, 1)}];")
        for name, array, size in (
            ("q", "qpos", m.nq),
            ("v", "qvel", m.nv),
            ("a", "warm", m.nv),
            ("u", "ctrl", m.nu),
        ):
            for i in range(size):
                to.add(f"{name}[{i}] = {_in_world(array, i)};")
        if stages == 4:
            to.add(f"double q0[{m.nq}], v0[{m.nv}], dq[{m.nv}], dv[{m.nv}], rate[{m.nv}];")
        to.add("#pragma unroll 1")
        with to.block(f"for (int part = 0; part < {stages * self._skip}; ++part)"):
            if stages == 4:
                to.add("const int stage = part & 3;")
            to.add(f"const bool last = part == {stages * self._skip - 1};")
            self._evaluate()
            if stages == 4:
                self._runge_kutta()
            else:
                self._euler()
        for name, array, size in (("q", "qpos", m.nq), ("v", "qvel", m.nv), ("a", "warm", m.nv)):
            for i in range(size):
                to.add(f"{_in_world(array, i)} = {name}[{i}];")
        return "\n".join(to.lines)

    def looked(self) -> str:
        """What is read of a world that has not moved yet, where constraints must be solved."""
        m, to = self._m, self._to
        to.add(f"double q[{m.nq}], v[{m.nv}], a[{m.nv}], u[{max(m.nu, 1)}];")
        for name, array, size in (("q", "qpos", m.nq), ("v", "qvel", m.nv), ("u", "ctrl", m.nu)):
            for i in range(size):
                to.add(f"{name}[{i}] = {_in_world(array, i)};")
        to.add(f"for (int i = 0; i < {m.nv}; ++i) a[i] = 0.0;")
        to.add("const bool last = true;")
        self._evaluate()
        for key in self._wanted:
            if key.array == "cfrc_ext":  # nobody has asked for it yet
                to.add(f"{_in_world(key.array, key.entry)} = 0.0;")
        return "\n".join(to.lines)

    # --- accelerations ----------------------------------------------------------------------------

    def _evaluate(self) -> None:
        """Accelerations ``a`` at positions ``q`` and velocities ``v``.

        Between, ``w`` and ``a`` are along the roots' axes (see :meth:`Placed.along_roots`).
        """
        to, nv = self._to, self._m.nv
        to.add(f"double M[{_packed(nv, 0)}], f[{nv}], w[{nv}];")
        for i, value in enumerate(self._w):
            to.add(f"w[{i}] = {to.write(value)};")
        self._turn("a", self._placed.along_roots)
        for i in range(nv):
            for j in range(i + 1):
                if (i, j) in self._pattern:
                    value = to.write(self._inertia.get((i, j), 0.0))
                    to.add(f"M[{_packed(i, j)}] = {value};")
        for i, force in enumerate(self._placed.smooth_force(self._q, self._w, self._u)):
            to.add(f"f[{i}] = {to.write(force)};")
        self._limits()
        self._touching()
        self._solve()
        self._outputs()
        if self._m.integrator == RUNGE_KUTTA or not any(self._m.damping):
            self._turn("a", self._placed.along_world)

    def _turn(self, name: str, how: Callable[[Sequence[Any]], list[Any]]) -> None:
        """Change the basis of an array of accelerations."""
        to = self._to
        with to.block(""):
            values = how(list(symbols(name, (self._m.nv,))))
            dofs = [first + k for first, _ in self._m.free_translations() for k in range(3)]
            names = [(i, to.write(values[i])) for i in dofs]
            for i, value in names:
                to.add(f"{name}[{i}] = {value};")

    def _limits(self) -> None:
        """For each joint with limits: D (0 where none acts), the sign, and the residual."""
        m, to = self._m, self._to
        size = max(len(m.limits), 1)
        to.add(f"double ld[{size}], ls[{size}], lr[{size}];")
        for k, limit in enumerate(m.limits):
            q, i = self._q[limit.position], limit.velocity
            to.add(f"ld[{k}] = 0.0; ls[{k}] = 0.0; lr[{k}] = 0.0;")
            low, high = q - limit.low, limit.high - q
            nearer = low < high  # at most one of the two acts
            distance, sign = choose(nearer, low, high), choose(nearer, 1.0, -1.0)
            with to.block(f"if ({to.write(distance)} < {limit.law.margin!r})"):
                stiffness, pull = limit.law.pull(distance)
                side = to.write(sign)
                to.add(f"ld[{k}] = {to.write(stiffness)}; ls[{k}] = {side};")
                moving = f"a[{i}] + {limit.law.damping!r} * w[{i}]"
                to.add(f"lr[{k}] = {side} * ({moving}) + {to.write(pull)};")

    def _touching(self) -> None:
        """For each contact: its Jacobian, D, friction, and the residuals along its three axes."""
        to, nv = self._to, self._m.nv
        most = max(len(self._contacts), 1)
        to.add(f"double J[{most * 3 * nv}], cd[{most}], cm[{most}], cr[{most * 3}];")
        to.add("int nc = 0;")
        if self._forces:
            to.add(f"double where[{most * 12}]; int one[{most}], two[{most}];")
        for contacts in self._alike():
            with to.block(""):
                self._touch(contacts)

    def _alike(self) -> list[list[Contact]]:
        """Contacts that differ in numbers only, so that one piece of code serves them all."""
        found: dict[Any, list[Contact]] = {}
        for contact in self._contacts:
            law = replace(contact.law, inertia=1.0, factor=1.0)
            key = (law, contact.friction > 0.0, contact.root, contact.touch().along is None)
            found.setdefault(key, []).append(contact)
        return list(found.values())

    def _touch(self, contacts: Sequence[Contact]) -> None:
        """Find out which of these touch; then, for each that does, what follows."""
        to, placed = self._to, self._placed
        touches = [contact.touch() for contact in contacts]
        general = contacts[0]
        columns = [
            [contact.distance for contact in contacts],
            *zip(*(_numbers(touch) for touch in touches), strict=True),
            [contact.law.inertia for contact in contacts],
            [contact.law.factor for contact in contacts],
            [contact.friction for contact in contacts],
        ]
        # What is the same for all is used as it is; what differs is kept in a row for each.
        differ = [k for k, column in enumerate(columns) if not _all_same(column)]
        values = [column[0] for column in columns]
        for number, k in enumerate(differ):
            values[k] = slot("here", number)
        width = max(len(differ), 1)
        most = len(contacts)
        to.add(f"double kept[{most * width}]; unsigned long long mine[{most}], yours[{most}];")
        if self._forces:
            to.add(f"int first[{most}], second[{most}];")
        to.add("int n = 0;")
        for k, contact in enumerate(contacts):
            margin = contact.law.margin
            with to.block(f"if ({to.write(contact.distance)} < {margin!r})"):
                for number, column in enumerate(differ):
                    to.add(f"kept[n * {width} + {number}] = {to.write(columns[column][k])};")
                one, two = moving(placed, contact)
                to.add(f"mine[n] = {_bits(one)}ull; yours[n] = {_bits(two)}ull;")
                if self._forces:
                    to.add(f"first[n] = {contact.bodies[0]}; second[n] = {contact.bodies[1]};")
                to.add("++n;")
        to.add("#pragma unroll 1")
        with to.block("for (int c = 0; c < n; ++c, ++nc)"):
            to.add(f"const double* here = kept + c * {width};")
            distance, point, normal = values[0], values[1:4], values[4:7]
            along = None if touches[0].along is None else values[7:10]
            law = replace(general.law, inertia=values[-3], factor=values[-2])
            friction = values[-1]
            axes = axes_of(placed, general, Touch(point, normal, along))
            stiffness, pull = law.pull(distance)
            # Without friction the four edges of the pyramid are one: a quarter of D for each.
            quarter = "" if general.friction else " * 0.25"
            to.add(f"cd[nc] = {to.write(stiffness)}{quarter};")
            to.add(f"cm[nc] = {to.write(friction)};")
            to.add(f"double r0 = {to.write(pull)}, r1 = 0.0, r2 = 0.0;")
            self._jacobian(contacts, point, axes if general.friction else axes[:1])
            to.add("cr[nc * 3] = r0; cr[nc * 3 + 1] = r1; cr[nc * 3 + 2] = r2;")
            if self._forces:
                with to.block("if (last)"):
                    turn = placed.root(general.root).matrix
                    numbers = placed.in_world(general.root, point)
                    numbers += [each for axis in axes for each in apply(turn, axis)]
                    for k, value in enumerate(numbers):
                        to.add(f"where[nc * 12 + {k}] = {to.write(value)};")
                    to.add("one[nc] = first[c]; two[nc] = second[c];")

    def _jacobian(
        self, contacts: Sequence[Contact], point: list[Any], axes: Sequence[list[Any]]
    ) -> None:
        """The rows of J, and the residuals J (a + B w) that they add to."""
        to, nv, placed = self._to, self._m.nv, self._placed
        moved = [moving(placed, contact) for contact in contacts]
        damping = contacts[0].law.damping
        to.add(f"double* row = J + nc * {3 * nv};")
        for i in range(nv):
            firsts, seconds = (sum(i in each[k] for each in moved) for k in range(2))
            if not firsts + seconds:
                for k in range(3):
                    to.add(f"row[{k * nv + i}] = 0.0;")
                continue
            values = jacobian(placed, contacts[0], point, list(axes), i)
            names = [to.write(value) for value in values]
            sign = "1.0" if seconds == len(contacts) else f"(double)((yours[c] >> {i}) & 1)"
            if firsts:
                sign = f"((double)((yours[c] >> {i}) & 1) - (double)((mine[c] >> {i}) & 1))"
            with to.block(""):
                to.add(f"const double on = {sign}, by = on * (a[{i}] + {damping!r} * w[{i}]);")
                for k in range(3):
                    zero = k >= len(values) or names[k] in ("0.0", "(-0.0)")
                    to.add(f"row[{k * nv + i}] = {'0.0' if zero else f'on * {names[k]}'};")
                    if not zero:
                        to.add(f"r{k} += by * {names[k]};")

    def _solve(self) -> None:
        """Newton's method; ``a``, ``lr`` and ``cr`` are where it ends."""
        m, to, nv = self._m, self._to, self._m.nv
        add_line = to.add
        limits = list(enumerate(m.limits))
        add_line(f"double Ma[{nv}];")
        self._times_inertia("Ma", "a")
        add_line("#pragma unroll 1")
        with to.block(f"for (int round = 0; round < {_ITERATIONS}; ++round)"):
            add_line(f"double H[{_packed(nv, 0)}], g[{nv}], p[{nv}], Mp[{nv}];")
            for i, j in sorted(self._pattern):
                add_line(f"H[{_packed(i, j)}] = M[{_packed(i, j)}];")
            for i in range(nv):
                add_line(f"g[{i}] = Ma[{i}] - f[{i}];")
            for k, limit in limits:
                i = limit.velocity
                with to.block(f"if (lr[{k}] < 0.0)"):
                    add_line(f"H[{_packed(i, i)}] += ld[{k}];")
                    add_line(f"g[{i}] += ls[{k}] * ld[{k}] * lr[{k}];")
            if self._contacts:
                self._contact_terms()
            norm = " + ".join(f"g[{i}] * g[{i}]" for i in range(nv))
            least = (_SMALL * float(m.model.stat.meaninertia) * nv) ** 2
            add_line(f"if ({norm} < {least!r}) break;")
            self._eliminate("H")
            for i in range(nv):
                add_line(f"p[{i}] = -g[{i}];")
            self._back("H", "p")
            self._times_inertia("Mp", "p")
            self._search()
        add_line("")

    def _contact_terms(self) -> None:
        """The Hessian and the gradient of the active edges of each contact's pyramid."""
        to, nv = self._to, self._m.nv
        to.add("#pragma unroll 1")
        with to.block("for (int c = 0; c < nc; ++c)"):
            to.add(_EDGES)
            with to.block("if (e0 | e1 | e2 | e3)"):
                to.add(f"const double* n = J + c * {3 * nv};")
                to.add("const double k = cd[c];")
                to.add("const double s1 = m * (double)(e0 - e1), s2 = m * (double)(e2 - e3);")
                to.add(
                    "const double m1 = m * m * (double)(e0 + e1), m2 = m * m * (double)(e2 + e3);"
                )
                to.add("const double all = (double)(e0 + e1 + e2 + e3);")
                to.add("const double gn = k * (all * r0 + s1 * r1 + s2 * r2);")
                to.add("const double g1 = k * (s1 * r0 + m1 * r1), g2 = k * (s2 * r0 + m2 * r2);")
                for i in range(nv):
                    to.add(
                        f"const double n{i} = n[{i}], t{i} = n[{nv + i}], w{i} = n[{2 * nv + i}];"
                    )
                for i in range(nv):
                    to.add(f"g[{i}] += n{i} * gn + t{i} * g1 + w{i} * g2;")
                    to.add(f"const double a{i} = k * (all * n{i} + s1 * t{i} + s2 * w{i});")
                    to.add(f"const double b{i} = k * (s1 * n{i} + m1 * t{i});")
                    to.add(f"const double c{i} = k * (s2 * n{i} + m2 * w{i});")
                for i, j in sorted(self._pattern):
                    to.add(f"H[{_packed(i, j)}] += n{j} * a{i} + t{j} * b{i} + w{j} * c{i};")

    def _search(self) -> None:
        """The best length of the step: where the slope of the cost along it is zero."""
        m, to, nv = self._m, self._to, self._m.nv
        limits = list(enumerate(m.limits))
        most = max(len(self._contacts), 1)
        to.add(f"double lp[{max(len(limits), 1)}], cp[{most * 3}];")
        for k, limit in limits:
            to.add(f"lp[{k}] = ls[{k}] * p[{limit.velocity}];")
        to.add("#pragma unroll 1")
        with to.block("for (int c = 0; c < nc; ++c)"):
            to.add(f"const double* n = J + c * {3 * nv};")
            for row in range(3):
                terms = " + ".join(f"n[{row * nv + i}] * p[{i}]" for i in range(nv))
                to.add(f"cp[c * 3 + {row}] = {terms};")
        slope = " + ".join(f"p[{i}] * (Ma[{i}] - f[{i}])" for i in range(nv))
        to.add(f"const double s0 = {slope};")
        to.add(f"const double h0 = {' + '.join(f'p[{i}] * Mp[{i}]' for i in range(nv))};")
        to.add("double x = 1.0, low = 0.0, high = -1.0; bool same = true;")
        to.add("#pragma unroll 1")
        with to.block(f"for (int trial = 0; trial < {_SEARCHES}; ++trial)"):
            to.add("double slope = s0 + x * h0, bend = h0, size = 0.0;")
            to.add("same = true;")
            for k, _ in limits:
                with to.block(f"if (ld[{k}] > 0.0)"):
                    to.add(f"const double r = lr[{k}] + x * lp[{k}];")
                    to.add(f"same = same && ((r < 0.0) == (lr[{k}] < 0.0));")
                    to.add(
                        f"if (r < 0.0) {{ slope += ld[{k}] * r * lp[{k}]; "
                        f"bend += ld[{k}] * lp[{k}] * lp[{k}]; }}"
                    )
            to.add("#pragma unroll 1")
            with to.block("for (int c = 0; c < nc; ++c)"):
                to.add(_ALONG)
            # Where no constraint changes sides, the cost is quadratic and the full step exact.
            to.add("if (same && trial == 0) break;")
            to.add("same = false;")
            to.add("if (!(wp::abs(slope) > 1e-12 * wp::abs(s0))) break;")
            to.add("if (slope < 0.0) low = x; else high = x;")
            to.add("double next = x - slope / bend;")
            to.add("if (high >= 0.0 && !(next > low && next < high)) next = 0.5 * (low + high);")
            to.add("if (next == x) break;")
            to.add("x = next;")
        for i in range(nv):
            to.add(f"a[{i}] += x * p[{i}]; Ma[{i}] += x * Mp[{i}];")
        for k, _ in limits:
            to.add(f"lr[{k}] += x * lp[{k}];")
        to.add("#pragma unroll 1")
        to.add("for (int c = 0; c < 3 * nc; ++c) cr[c] += x * cp[c];")
        to.add("if (same) break;")

    # --- linear algebra ---------------------------------------------------------------------------

    def _times_inertia(self, to_name: str, from_name: str) -> None:
        nv = self._m.nv
        for i in range(nv):
            terms = [
                f"M[{_packed(max(i, j), min(i, j))}] * {from_name}[{j}]"
                for j in range(nv)
                if (max(i, j), min(i, j)) in self._inertia
            ]
            self._to.add(f"{to_name}[{i}] = {' + '.join(terms)};")

    def _eliminate(self, name: str) -> None:
        """LᵀDL from the last row on, so that joints of other limbs never meet; 1 / D is kept."""
        to = self._to
        for last in reversed(range(self._m.nv)):
            before = [j for j in range(last) if (last, j) in self._pattern]
            here = f"{name}[{_packed(last, last)}]"
            to.add(f"{here} = 1.0 / {here};")
            for j in before:
                to.add(f"const double l{last}_{j} = {name}[{_packed(last, j)}] * {here};")
            for i in before:
                for j in before:
                    if j <= i:
                        other = f"{name}[{_packed(last, j)}]"
                        to.add(f"{name}[{_packed(i, j)}] -= l{last}_{i} * {other};")
            for j in before:
                to.add(f"{name}[{_packed(last, j)}] = l{last}_{j};")

    def _back(self, name: str, vector: str) -> None:
        """Solve with what :meth:`_eliminate` left."""
        to, nv = self._to, self._m.nv
        for last in reversed(range(nv)):
            for j in range(last):
                if (last, j) in self._pattern:
                    to.add(f"{vector}[{j}] -= {name}[{_packed(last, j)}] * {vector}[{last}];")
        for i in range(nv):
            to.add(f"{vector}[{i}] *= {name}[{_packed(i, i)}];")
        for i in range(nv):
            for j in range(i):
                if (i, j) in self._pattern:
                    to.add(f"{vector}[{i}] -= {name}[{_packed(i, j)}] * {vector}[{j}];")

    # --- time -------------------------------------------------------------------------------------

    def _euler(self) -> None:
        """Semi-implicit: dampers act on the new velocity (MuJoCo's ``eulerdamp``)."""
        m, to, nv = self._m, self._to, self._m.nv
        h = m.timestep
        acceleration = "a"
        if any(m.damping):
            acceleration = "b"
            to.add(f"double b[{nv}];")
            for i in range(nv):
                to.add(f"b[{i}] = Ma[{i}];")
                if m.damping[i]:
                    to.add(f"M[{_packed(i, i)}] += {h * m.damping[i]!r};")
            with to.block(""):
                self._eliminate("M")
            self._back("M", "b")
            self._turn("b", self._placed.along_world)
            self._turn("a", self._placed.along_world)
        for i in range(nv):
            to.add(f"v[{i}] += {h!r} * {acceleration}[{i}];")
        self._integrate("q", "q", "v", repr(h))

    def _runge_kutta(self) -> None:
        """The classical method of fourth order, as MuJoCo's."""
        m, to, nv = self._m, self._to, self._m.nv
        h = m.timestep
        to.add("const double share = (stage == 0 || stage == 3) ? 1.0 / 6.0 : 1.0 / 3.0;")
        with to.block("if (stage == 0)"):
            for i in range(m.nq):
                to.add(f"q0[{i}] = q[{i}];")
            for i in range(nv):
                to.add(f"v0[{i}] = v[{i}]; dq[{i}] = 0.0; dv[{i}] = 0.0;")
        self._rates()
        for i in range(nv):
            to.add(f"dq[{i}] += share * rate[{i}]; dv[{i}] += share * a[{i}];")
        to.add(f"double by[{nv}];")
        to.add(f"const double step = stage < 2 ? {0.5 * h!r} : {h!r};")
        for i in range(nv):
            to.add(f"by[{i}] = stage == 3 ? dq[{i}] : rate[{i}];")
            to.add(f"v[{i}] = v0[{i}] + step * (stage == 3 ? dv[{i}] : a[{i}]);")
        self._integrate("q", "q0", "by", "step")

    def _rates(self) -> None:
        """How positions change in this stage: rotations by the rate of their rotation vector."""
        m, to = self._m, self._to
        spins = [
            int(m.model.jnt_dofadr[j]) + 3
            for j in range(m.model.njnt)
            if m.corrected and m.model.jnt_type[j] == FREE
        ]
        for first in spins:
            values = {f"R{k}": f"rate[{first + k}]" for k in range(3)}
            values |= {f"V{k}": f"v[{first + k}]" for k in range(3)}
            h = m.timestep
            step = f"(stage == 0 ? 0.0 : stage == 3 ? {h!r} : {0.5 * h!r})"
            to.add(_RATE.format(step=step, **values))
        for i in range(m.nv):
            if not any(first <= i < first + 3 for first in spins):
                to.add(f"rate[{i}] = v[{i}];")

    def _integrate(self, target: str, origin: str, velocity: str, step: str) -> None:
        """Positions after some time at a velocity."""
        m, to = self._m.model, self._to
        for j in range(m.njnt):
            at, dof = int(m.jnt_qposadr[j]), int(m.jnt_dofadr[j])
            plain = 3 if m.jnt_type[j] == FREE else 1
            for k in range(plain):
                to.add(f"{target}[{at + k}] = {origin}[{at + k}] + {step} * {velocity}[{dof + k}];")
            if m.jnt_type[j] == FREE:
                now = [f"{origin}[{at + 3 + k}]" for k in range(4)]
                spin = [f"{velocity}[{dof + 3 + k}]" for k in range(3)]
                out = [f"{target}[{at + 3 + k}]" for k in range(4)]
                values = dict(zip(("W", "X", "Y", "Z"), now, strict=True))
                values |= dict(zip(("A", "B", "C"), spin, strict=True))
                values |= dict(zip(("O0", "O1", "O2", "O3"), out, strict=True))
                to.add(_TURN.format(step=step, **values))

    # --- what the environment reads ---------------------------------------------------------------

    def _outputs(self) -> None:
        to = self._to
        if not self._wanted:
            return
        with to.block("if (last)"):
            if self._forces:
                self._contact_forces()
            if any(key.array == "qfrc_constraint" for key in self._wanted):
                self._constraint_forces()
            derived = _derived(self._placed, self._q, self._v, self._u)
            for key in self._wanted:
                target = _in_world(key.array, key.entry)
                if key.array not in _SOLVED:
                    to.add(f"{target} = {to.write(derived(key))};")
                elif key.array == "qfrc_constraint":
                    to.add(f"{target} = qc[{key.entry}];")
                elif self._forces:
                    to.add(f"{target} = cf[{key.entry}];")

    def _constraint_forces(self) -> None:
        """MuJoCo's ``qfrc_constraint``, Jᵀf."""
        to, nv = self._to, self._m.nv
        to.add(f"double qc[{nv}];")
        to.add(f"for (int i = 0; i < {nv}; ++i) qc[i] = 0.0;")
        for k, limit in enumerate(self._m.limits):
            to.add(f"if (lr[{k}] < 0.0) qc[{limit.velocity}] -= ls[{k}] * ld[{k}] * lr[{k}];")
        if self._contacts:
            to.add("#pragma unroll 1")
            with to.block("for (int c = 0; c < nc; ++c)"):
                to.add(_EDGES)
                to.add(_ALONG_AXES)
                to.add(f"const double* n = J + c * {3 * nv};")
                to.add(
                    f"for (int i = 0; i < {nv}; ++i) "
                    f"qc[i] += fn * n[i] + ft * n[{nv} + i] + fw * n[{2 * nv} + i];"
                )
        self._turn("qc", self._placed.along_world)

    def _contact_forces(self) -> None:
        """MuJoCo's ``cfrc_ext``: forces of contacts on each body, at its tree's centre."""
        m, to = self._m.model, self._to
        trees = sorted({int(each) for each in m.body_rootid[1:]})
        to.add(f"double cf[{6 * m.nbody}], centre[{3 * len(trees)}];")
        numbers = [trees.index(int(each)) if k else 0 for k, each in enumerate(m.body_rootid)]
        to.add(f"const int tree[] = {{{', '.join(map(str, numbers))}}};")
        to.add(f"for (int i = 0; i < {6 * m.nbody}; ++i) cf[i] = 0.0;")
        for k, body in enumerate(trees):
            for i, value in enumerate(self._placed.centre(body)):
                to.add(f"centre[{3 * k + i}] = {to.write(value)};")
        to.add("#pragma unroll 1")
        with to.block("for (int c = 0; c < nc; ++c)"):
            to.add(_EDGES)
            to.add(_ALONG_AXES)
            to.add(_FORCES)
            to.add("#pragma unroll 1")
            with to.block("for (int side = 0; side < 2; ++side)"):
                to.add("const int body = side ? two[c] : one[c];")
                to.add("if (body == 0) continue;  // MuJoCo leaves the world out")
                to.add("const double sign = side ? 1.0 : -1.0;")
                to.add(
                    "const double* at = where + c * 12; const double* o = centre + 3 * tree[body];"
                )
                to.add("const double ax = at[0] - o[0], ay = at[1] - o[1], az = at[2] - o[2];")
                to.add("double* to_body = cf + 6 * body;")
                for i, value in enumerate(
                    (
                        "ay * fz - az * fy",
                        "az * fx - ax * fz",
                        "ax * fy - ay * fx",
                        "fx",
                        "fy",
                        "fz",
                    )
                ):
                    to.add(f"to_body[{i}] += sign * ({value});")


def _numbers(touch: Touch) -> list[Any]:
    return [*touch.point, *touch.normal, *(touch.along or ())]


def _all_same(values: Sequence[Any]) -> bool:
    return all(same(value, values[0]) for value in values)


def _bits(dofs: Iterable[int]) -> int:
    return sum(1 << dof for dof in dofs)


def _packed(i: int, j: int) -> int:
    """Where entry (i, j), j <= i, of a symmetric matrix is; (n, 0): how many entries there are."""
    return i * (i + 1) // 2 + j


# Which edges of contact c's pyramid are active: n ± m t and n ± m w.
_EDGES = """\
const double m = cm[c], r0 = cr[c * 3], r1 = cr[c * 3 + 1], r2 = cr[c * 3 + 2];
const int e0 = r0 + m * r1 < 0.0, e1 = r0 - m * r1 < 0.0;
const int e2 = r0 + m * r2 < 0.0, e3 = r0 - m * r2 < 0.0;"""

# The force of contact c along its axes, and in the world.
_ALONG_AXES = """\
const double k = -cd[c];
const double f0 = e0 ? k * (r0 + m * r1) : 0.0, f1 = e1 ? k * (r0 - m * r1) : 0.0;
const double f2 = e2 ? k * (r0 + m * r2) : 0.0, f3 = e3 ? k * (r0 - m * r2) : 0.0;
const double fn = f0 + f1 + f2 + f3, ft = m * (f0 - f1), fw = m * (f2 - f3);"""
_FORCES = """\
const double* axis = where + c * 12 + 3;
const double fx = fn * axis[0] + ft * axis[3] + fw * axis[6];
const double fy = fn * axis[1] + ft * axis[4] + fw * axis[7];
const double fz = fn * axis[2] + ft * axis[5] + fw * axis[8];"""

_ALONG = """\
const double m = cm[c], k = cd[c];
const double r0 = cr[c * 3], r1 = m * cr[c * 3 + 1], r2 = m * cr[c * 3 + 2];
const double p0 = cp[c * 3], p1 = m * cp[c * 3 + 1], p2 = m * cp[c * 3 + 2];
const double ra = r0 + r1, rb = r0 - r1, rc = r0 + r2, rd = r0 - r2;
const double pa = p0 + p1, pb = p0 - p1, pc = p0 + p2, pd = p0 - p2;
const double ya = ra + x * pa, yb = rb + x * pb, yc = rc + x * pc, yd = rd + x * pd;
same = same && ((ya < 0.0) == (ra < 0.0)) && ((yb < 0.0) == (rb < 0.0))
    && ((yc < 0.0) == (rc < 0.0)) && ((yd < 0.0) == (rd < 0.0));
if (ya < 0.0) { slope += k * ya * pa; bend += k * pa * pa; }
if (yb < 0.0) { slope += k * yb * pb; bend += k * pb * pb; }
if (yc < 0.0) { slope += k * yc * pc; bend += k * pc * pc; }
if (yd < 0.0) { slope += k * yd * pd; bend += k * pd * pd; }"""

# The rate of the rotation vector φ at an angular velocity ω in the body's own frame (Munthe-Kaas):
# ω + φ × ω / 2 + (1 / |φ|² - (1 + cos |φ|) / (2 |φ| sin |φ|)) φ × (φ × ω).
_RATE = """\
{{
  const double h = {step};
  const double a0 = h == 0.0 ? 0.0 : h * {R0}, a1 = h == 0.0 ? 0.0 : h * {R1};
  const double a2 = h == 0.0 ? 0.0 : h * {R2};
  const double square = a0 * a0 + a1 * a1 + a2 * a2, size = wp::sqrt(square);
  const double k = square < 1e-6 ? 1.0 / 12.0 + square / 720.0
      : 1.0 / square - (1.0 + wp::cos(size)) / (2.0 * size * wp::sin(size));
  const double b0 = a1 * {V2} - a2 * {V1}, b1 = a2 * {V0} - a0 * {V2}, b2 = a0 * {V1} - a1 * {V0};
  {R0} = {V0} + 0.5 * b0 + k * (a1 * b2 - a2 * b1);
  {R1} = {V1} + 0.5 * b1 + k * (a2 * b0 - a0 * b2);
  {R2} = {V2} + 0.5 * b2 + k * (a0 * b1 - a1 * b0);
}}"""

# A quaternion after some time at an angular velocity in its own frame.
_TURN = """\
{{
  const double size = wp::sqrt({A} * {A} + {B} * {B} + {C} * {C});
  const double half = 0.5 * {step} * size;
  const double over = size > 1e-15 ? wp::sin(half) / size : 0.0;
  const double turn = size > 1e-15 ? wp::cos(half) : 1.0;
  const double ax = over * {A}, ay = over * {B}, az = over * {C};
  const double w = {W} * turn - {X} * ax - {Y} * ay - {Z} * az;
  const double x = {W} * ax + {X} * turn + {Y} * az - {Z} * ay;
  const double y = {W} * ay - {X} * az + {Y} * turn + {Z} * ax;
  const double z = {W} * az + {X} * ay - {Y} * ax + {Z} * turn;
  const double norm = 1.0 / wp::sqrt(w * w + x * x + y * y + z * z);
  {O0} = w * norm; {O1} = x * norm; {O2} = y * norm; {O3} = z * norm;
}}"""
