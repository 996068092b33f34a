"""Write Newton's method for the constrained accelerations."""

from gensmooth.physics.fused.system import System, back_substitute, eliminate, packed, times_inertia

_MAX_STEPS = 50  # of Newton's method; two or three are typical
_MAX_TRIALS = 30  # of the length of a step
_SMALL = 1e-12  # the gradient at convergence, in units of MuJoCo's tolerance
_TEST_FROM = 1  # round; in round 0, the gradient of a light body may be small without convergence
_SLIPPERY = 1e-2  # below this friction coefficient, a step is refined

# Which edges of contact c's pyramid are active: n ± m t and n ± m w.
EDGES = """\
const real m = cm[c], r0 = cr[c * 3], r1 = cr[c * 3 + 1], r2 = cr[c * 3 + 2];
const truth t0 = r0 + m * r1 < 0.0, t1 = r0 - m * r1 < 0.0;
const truth t2 = r0 + m * r2 < 0.0, t3 = r0 - m * r2 < 0.0;"""

# The contribution of contact c to the first and second derivative of the cost at step length x.
_ALONG = """\
const real m = cm[c], k = cd[c];
const real r0 = cr[c * 3], r1 = m * cr[c * 3 + 1], r2 = m * cr[c * 3 + 2];
const real p0 = cp[c * 3], p1 = m * cp[c * 3 + 1], p2 = m * cp[c * 3 + 2];
const real ra = r0 + r1, rb = r0 - r1, rc = r0 + r2, rd = r0 - r2;
const real pa = p0 + p1, pb = p0 - p1, pc = p0 + p2, pd = p0 - p2;
const real ya = ra + x * pa, yb = rb + x * pb, yc = rc + x * pc, yd = rd + x * pd;
const truth ta = ya < 0.0, tb = yb < 0.0, tc = yc < 0.0, td = yd < 0.0;
same = same && (ta == (ra < 0.0)) && (tb == (rb < 0.0)) && (tc == (rc < 0.0)) && (td == (rd < 0.0));
slope = ta ? slope + k * ya * pa : slope; bend = ta ? bend + k * pa * pa : bend;
slope = tb ? slope + k * yb * pb : slope; bend = tb ? bend + k * pb * pb : bend;
slope = tc ? slope + k * yc * pc : slope; bend = tc ? bend + k * pc * pc : bend;
slope = td ? slope + k * yd * pd : slope; bend = td ? bend + k * pd * pd : bend;"""

# The next step length: by Newton's method, or by bisection if that leaves the bracket.
_TRY = """\
const truth below = slope < 0.0;
low = below ? x : low; high = below ? high : x;
real next = x - slope / bend;
next = high >= 0.0 && !(next > low && next < high) ? 0.5 * (low + high) : next;
open = open && next != x;
x = open ? next : x;
if (!lanes::any(open)) break;"""


def write_solver(s: System) -> None:
    """Write Newton's method, which leaves the solution in ``a``, ``lr`` and ``cr``.

    Worlds run side by side: ``live`` is true for those that are not solved yet, ``open`` for those
    whose step length is still being searched, and ``full`` for those whose full step changes no
    active constraint.
    """
    m, to, nv = s.mechanism, s.to, s.mechanism.nv
    add_line = to.add
    limits = list(enumerate(m.limits))
    add_line(f"real Ma[{nv}];")
    times_inertia(s, "Ma", "a")
    add_line("truth live = busy;")
    if _steps_at_the_end(s) > 1:
        add_line("real exact = 0.0;")
    add_line("#pragma unroll 1")
    with to.block(f"for (int round = 0; round < {_MAX_STEPS}; ++round)"):
        add_line(f"real H[{packed(nv, 0)}], g[{nv}], p[{nv}], Mp[{nv}];")
        for i, j in sorted(s.pattern):
            add_line(f"H[{packed(i, j)}] = M[{packed(i, j)}];")
        for i in range(nv):
            add_line(f"g[{i}] = Ma[{i}] - f[{i}];")
        for k, limit in limits:
            i = limit.velocity
            with to.block(f"if (lanes::any(lr[{k}] < 0.0))"):
                add_line(f"const truth on = lr[{k}] < 0.0;")
                h = f"H[{packed(i, i)}]"
                add_line(f"{h} = on ? {h} + ld[{k}] : {h};")
                add_line(f"g[{i}] = on ? g[{i}] + ls[{k}] * ld[{k}] * lr[{k}] : g[{i}];")
        if s.contacts:
            _contact_terms(s)
        norm = " + ".join(f"g[{i}] * g[{i}]" for i in range(nv))
        least = (_SMALL * float(m.model.stat.meaninertia) * nv) ** 2
        with to.block(f"if (round >= {_TEST_FROM})"):
            add_line(f"live = live && !({norm} < {least!r});")
            add_line("if (!lanes::any(live)) break;")
        eliminate(s, "H")
        for i in range(nv):
            add_line(f"p[{i}] = -g[{i}];")
        back_substitute(s, "H", "p")
        times_inertia(s, "Mp", "p")
        _search(s)


def _contact_terms(s: System) -> None:
    """Add the Hessian and the gradient of the active edges of each contact's pyramid."""
    to, rows, width = s.to, s.rows, s.rows.width
    to.add("#pragma unroll 1")
    with to.block("for (int c = 0; c < nc; ++c)"):
        to.add(EDGES)
        with to.block("if (lanes::any(t0 || t1 || t2 || t3))"):
            to.add(f"const real* n = J + c * {3 * width};")
            to.add("const real k = cd[c];")
            to.add("const real e0 = t0 ? 1.0 : 0.0, e1 = t1 ? 1.0 : 0.0;")
            to.add("const real e2 = t2 ? 1.0 : 0.0, e3 = t3 ? 1.0 : 0.0;")
            to.add("const real s1 = m * (e0 - e1), s2 = m * (e2 - e3);")
            to.add("const real m1 = m * m * (e0 + e1), m2 = m * m * (e2 + e3);")
            to.add("const real all = e0 + e1 + e2 + e3;")
            to.add("const real gn = k * (all * r0 + s1 * r1 + s2 * r2);")
            to.add("const real g1 = k * (s1 * r0 + m1 * r1), g2 = k * (s2 * r0 + m2 * r2);")
            if rows.listed:
                for i in rows.listed_by_contact(to):
                    _load_column(s, i)
                    _add_column(s, i)
                    for j in range(i + 1):
                        _add_pair(s, i, j)
                return
            rows.of_contact(to)
            for i in range(width):
                _load_column(s, i)
            for i in range(width):
                _add_column(s, i)
            pairs = sorted(s.pattern)  # of columns that JᵀDJ couples
            if rows.free:
                pairs = [(i, j) for i in range(width) for j in range(i + 1)]
            for i, j in pairs:
                _add_pair(s, i, j)


def _load_column(s: System, i: int) -> None:
    """Load column i of contact c's rows."""
    width = s.rows.width
    s.to.add(f"const real n{i} = n[{i}], t{i} = n[{width + i}], w{i} = n[{2 * width + i}];")


def _add_column(s: System, i: int) -> None:
    """Add to the gradient of column i, and write the factors that its Hessian entries share."""
    to = s.to
    to.add(f"g[{s.rows.at(i)}] += n{i} * gn + t{i} * g1 + w{i} * g2;")
    to.add(f"const real a{i} = k * (all * n{i} + s1 * t{i} + s2 * w{i});")
    to.add(f"const real b{i} = k * (s1 * n{i} + m1 * t{i});")
    to.add(f"const real c{i} = k * (s2 * n{i} + m2 * w{i});")


def _add_pair(s: System, i: int, j: int) -> None:
    s.to.add(f"H[{s.rows.packed(i, j)}] += n{j} * a{i} + t{j} * b{i} + w{j} * c{i};")


def _search(s: System) -> None:
    """Write the search for the step length at which the derivative of the cost is zero."""
    m, to, nv, rows = s.mechanism, s.to, s.mechanism.nv, s.rows
    limits = list(enumerate(m.limits))
    most = max(len(s.contacts), 1)
    to.add(f"real lp[{max(len(limits), 1)}], cp[{most * 3}];")
    for k, limit in limits:
        to.add(f"lp[{k}] = ls[{k}] * p[{limit.velocity}];")
    to.add("#pragma unroll 1")
    with to.block("for (int c = 0; c < nc; ++c)"):
        to.add(f"const real* n = J + c * {3 * rows.width};")
        _along_rows(s, [f"cp[c * 3 + {row}]" for row in range(3)])
    slope = " + ".join(f"p[{i}] * (Ma[{i}] - f[{i}])" for i in range(nv))
    to.add(f"const real s0 = {slope};")
    to.add(f"const real h0 = {' + '.join(f'p[{i}] * Mp[{i}]' for i in range(nv))};")
    to.add("real x = 1.0, low = 0.0, high = -1.0; truth open = live, full = false;")
    to.add("#pragma unroll 1")
    with to.block(f"for (int trial = 0; trial < {_MAX_TRIALS}; ++trial)"):
        to.add("real slope = s0 + x * h0, bend = h0;")
        to.add("truth same = true;")
        for k, _ in limits:
            with to.block(f"if (lanes::any(ld[{k}] > 0.0))"):
                to.add(f"const real r = lr[{k}] + x * lp[{k}];")
                to.add("const truth on = r < 0.0;")
                to.add(f"same = same && (on == (lr[{k}] < 0.0));")
                to.add(f"slope = on ? slope + ld[{k}] * r * lp[{k}] : slope;")
                to.add(f"bend = on ? bend + ld[{k}] * lp[{k}] * lp[{k}] : bend;")
        to.add("#pragma unroll 1")
        with to.block("for (int c = 0; c < nc; ++c)"):
            to.add(_ALONG)
        # If no constraint switches on or off, the cost is quadratic and the full step is exact.
        to.add("if (trial == 0) { full = same; open = open && !same; }")
        to.add("open = open && math::abs(slope) > 1e-12 * math::abs(s0);")
        to.add("if (!lanes::any(open)) break;")
        to.add(_TRY)
    for i in range(nv):
        to.add(f"a[{i}] = live ? a[{i}] + x * p[{i}] : a[{i}];")
        to.add(f"Ma[{i}] = live ? Ma[{i}] + x * Mp[{i}] : Ma[{i}];")
    for k, _ in limits:
        to.add(f"lr[{k}] = live ? lr[{k}] + x * lp[{k}] : lr[{k}];")
    to.add("#pragma unroll 1")
    to.add("for (int c = 0; c < 3 * nc; ++c) cr[c] = live ? cr[c] + x * cp[c] : cr[c];")
    if _steps_at_the_end(s) == 1:
        to.add("live = live && !full;")
    else:
        to.add("exact = full ? exact + 1.0 : exact;")
        to.add(f"live = live && !(full && exact >= {_steps_at_the_end(s)}.0);")
    to.add("if (!lanes::any(live)) break;")


def _along_rows(s: System, names: list[str]) -> None:
    """Write how the step p moves contact c along its axes."""
    to, rows = s.to, s.rows
    if rows.listed:
        for name in names:
            to.add(f"{name} = 0.0;")
        for i in rows.listed_by_contact(to):
            for row, name in enumerate(names):
                to.add(f"{name} += n[{row * rows.width + i}] * p[{rows.at(i)}];")
        return
    rows.of_contact(to)
    for row, name in enumerate(names):
        entries = range(rows.width)
        terms = " + ".join(f"n[{row * rows.width + i}] * p[{rows.at(i)}]" for i in entries)
        to.add(f"{name} = {terms};")


def _steps_at_the_end(s: System) -> int:
    """Return how many full steps to take once no constraint switches on or off.

    One is exact except for rounding. Rounding matters if friction is so small that the edges of a
    pyramid nearly coincide; then three are taken.
    """
    slippery = any(0.0 < contact.friction < _SLIPPERY for contact in s.contacts)
    return 3 if slippery else 1
