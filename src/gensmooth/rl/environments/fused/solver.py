"""Newton's method for the constrained accelerations."""

from gensmooth.rl.environments.fused.system import (
    System,
    back_substitute,
    eliminate,
    packed,
    times_inertia,
)

_ITERATIONS = 50  # Newton's steps; two or three are usual
_SEARCHES = 30  # along a direction
_SMALL = 1e-12  # the gradient, in units of MuJoCo's tolerance
_FIRST = 1  # the round in which it is looked at: a light body's is small beside a heavy one's
_SLIPPERY = 1e-2  # friction below which a step is refined

# Which edges of contact c's pyramid are active: n ± m t and n ± m w.
EDGES = """\
const double m = cm[c], r0 = cr[c * 3], r1 = cr[c * 3 + 1], r2 = cr[c * 3 + 2];
const int e0 = r0 + m * r1 < 0.0, e1 = r0 - m * r1 < 0.0;
const int e2 = r0 + m * r2 < 0.0, e3 = r0 - m * r2 < 0.0;"""

# What contact c adds to the slope and the bend of the cost, x along the step.
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


def write_solver(s: System) -> None:
    """Newton's method; ``a``, ``lr`` and ``cr`` are where it ends."""
    m, to, nv = s.mechanism, s.to, s.mechanism.nv
    add_line = to.add
    limits = list(enumerate(m.limits))
    add_line(f"double Ma[{nv}];")
    times_inertia(s, "Ma", "a")
    if _steps_at_the_end(s) > 1:
        add_line("int exact = 0;")
    add_line("#pragma unroll 1")
    with to.block(f"for (int round = 0; round < {_ITERATIONS}; ++round)"):
        add_line(f"double H[{packed(nv, 0)}], g[{nv}], p[{nv}], Mp[{nv}];")
        for i, j in sorted(s.pattern):
            add_line(f"H[{packed(i, j)}] = M[{packed(i, j)}];")
        for i in range(nv):
            add_line(f"g[{i}] = Ma[{i}] - f[{i}];")
        for k, limit in limits:
            i = limit.velocity
            with to.block(f"if (lr[{k}] < 0.0)"):
                add_line(f"H[{packed(i, i)}] += ld[{k}];")
                add_line(f"g[{i}] += ls[{k}] * ld[{k}] * lr[{k}];")
        if s.contacts:
            _contact_terms(s)
        norm = " + ".join(f"g[{i}] * g[{i}]" for i in range(nv))
        least = (_SMALL * float(m.model.stat.meaninertia) * nv) ** 2
        add_line(f"if (round >= {_FIRST} && {norm} < {least!r}) break;")
        eliminate(s, "H")
        for i in range(nv):
            add_line(f"p[{i}] = -g[{i}];")
        back_substitute(s, "H", "p")
        times_inertia(s, "Mp", "p")
        _search(s)


def _contact_terms(s: System) -> None:
    """The Hessian and the gradient of the active edges of each contact's pyramid."""
    to, rows, width = s.to, s.rows, s.rows.width
    to.add("#pragma unroll 1")
    with to.block("for (int c = 0; c < nc; ++c)"):
        to.add(EDGES)
        with to.block("if (e0 | e1 | e2 | e3)"):
            to.add(f"const double* n = J + c * {3 * width};")
            rows.of_contact(to)
            to.add("const double k = cd[c];")
            to.add("const double s1 = m * (double)(e0 - e1), s2 = m * (double)(e2 - e3);")
            to.add("const double m1 = m * m * (double)(e0 + e1), m2 = m * m * (double)(e2 + e3);")
            to.add("const double all = (double)(e0 + e1 + e2 + e3);")
            to.add("const double gn = k * (all * r0 + s1 * r1 + s2 * r2);")
            to.add("const double g1 = k * (s1 * r0 + m1 * r1), g2 = k * (s2 * r0 + m2 * r2);")
            for i in range(width):
                ends = f"t{i} = n[{width + i}], w{i} = n[{2 * width + i}]"
                to.add(f"const double n{i} = n[{i}], {ends};")
            for i in range(width):
                to.add(f"g[{rows.at(i)}] += n{i} * gn + t{i} * g1 + w{i} * g2;")
                to.add(f"const double a{i} = k * (all * n{i} + s1 * t{i} + s2 * w{i});")
                to.add(f"const double b{i} = k * (s1 * n{i} + m1 * t{i});")
                to.add(f"const double c{i} = k * (s2 * n{i} + m2 * w{i});")
            for i, j in _pairs(s):
                to.add(f"H[{rows.packed(i, j)}] += n{j} * a{i} + t{j} * b{i} + w{j} * c{i};")


def _pairs(s: System) -> list[tuple[int, int]]:
    """The places that meet in JᵀDJ."""
    if s.rows.free:
        return [(i, j) for i in range(s.rows.width) for j in range(i + 1)]
    return sorted(s.pattern)


def _search(s: System) -> None:
    """The best length of the step: where the slope of the cost along it is zero."""
    m, to, nv, rows = s.mechanism, s.to, s.mechanism.nv, s.rows
    limits = list(enumerate(m.limits))
    most = max(len(s.contacts), 1)
    to.add(f"double lp[{max(len(limits), 1)}], cp[{most * 3}];")
    for k, limit in limits:
        to.add(f"lp[{k}] = ls[{k}] * p[{limit.velocity}];")
    to.add("#pragma unroll 1")
    with to.block("for (int c = 0; c < nc; ++c)"):
        to.add(f"const double* n = J + c * {3 * rows.width};")
        rows.of_contact(to)
        for row in range(3):
            entries = range(rows.width)
            terms = " + ".join(f"n[{row * rows.width + i}] * p[{rows.at(i)}]" for i in entries)
            to.add(f"cp[c * 3 + {row}] = {terms};")
    slope = " + ".join(f"p[{i}] * (Ma[{i}] - f[{i}])" for i in range(nv))
    to.add(f"const double s0 = {slope};")
    to.add(f"const double h0 = {' + '.join(f'p[{i}] * Mp[{i}]' for i in range(nv))};")
    to.add("double x = 1.0, low = 0.0, high = -1.0; bool same = true;")
    to.add("#pragma unroll 1")
    with to.block(f"for (int trial = 0; trial < {_SEARCHES}; ++trial)"):
        to.add("double slope = s0 + x * h0, bend = h0;")
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
    if _steps_at_the_end(s) == 1:
        to.add("if (same) break;")
    else:
        to.add(f"if (same && ++exact == {_steps_at_the_end(s)}) break;")


def _steps_at_the_end(s: System) -> int:
    """How many full steps there are once no constraint changes sides.

    One is exact but for rounding, which counts where friction is so small that the edges of a
    pyramid are nearly the same.
    """
    slippery = any(0.0 < contact.friction < _SLIPPERY for contact in s.contacts)
    return 3 if slippery else 1
