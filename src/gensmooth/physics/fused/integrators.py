"""Write the integrators: from accelerations to the next positions and velocities."""

from gensmooth.physics.fused.system import System, back_substitute, change_basis, eliminate, packed
from gensmooth.physics.mechanics.models import FREE

# The rate of the rotation vector φ at an angular velocity ω in the body's frame (Munthe-Kaas):
# ω + φ × ω / 2 + (1 / |φ|² - (1 + cos |φ|) / (2 |φ| sin |φ|)) φ × (φ × ω).
_RATE = """\
{{
  const double h = {step};
  const real a0 = h == 0.0 ? real(0.0) : h * {R0}, a1 = h == 0.0 ? real(0.0) : h * {R1};
  const real a2 = h == 0.0 ? real(0.0) : h * {R2};
  const real square = a0 * a0 + a1 * a1 + a2 * a2, size = math::sqrt(square);
  const real k = square < 1e-6 ? 1.0 / 12.0 + square / 720.0
      : 1.0 / square - (1.0 + math::cos(size)) / (2.0 * size * math::sin(size));
  const real b0 = a1 * {V2} - a2 * {V1}, b1 = a2 * {V0} - a0 * {V2}, b2 = a0 * {V1} - a1 * {V0};
  {R0} = {V0} + 0.5 * b0 + k * (a1 * b2 - a2 * b1);
  {R1} = {V1} + 0.5 * b1 + k * (a2 * b0 - a0 * b2);
  {R2} = {V2} + 0.5 * b2 + k * (a0 * b1 - a1 * b0);
}}"""

# A quaternion after a time at an angular velocity in the body's frame.
_TURN = """\
{{
  const real size = math::sqrt({A} * {A} + {B} * {B} + {C} * {C});
  const real half = 0.5 * {step} * size;
  const real over = size > 1e-15 ? math::sin(half) / size : 0.0;
  const real turn = size > 1e-15 ? math::cos(half) : 1.0;
  const real ax = over * {A}, ay = over * {B}, az = over * {C};
  const real w = {W} * turn - {X} * ax - {Y} * ay - {Z} * az;
  const real x = {W} * ax + {X} * turn + {Y} * az - {Z} * ay;
  const real y = {W} * ay - {X} * az + {Y} * turn + {Z} * ax;
  const real z = {W} * az + {X} * ay - {Y} * ax + {Z} * turn;
  const real norm = 1.0 / math::sqrt(w * w + x * x + y * y + z * z);
  {O0} = w * norm; {O1} = x * norm; {O2} = y * norm; {O3} = z * norm;
}}"""


def euler(s: System) -> None:
    """Write a semi-implicit Euler step; dampers act on the new velocity (``eulerdamp``)."""
    m, to, nv = s.mechanism, s.to, s.mechanism.nv
    h = m.timestep
    acceleration = "a"
    if m.implicit_damping:
        acceleration = "b"
        to.add(f"real b[{nv}];")
        for i in range(nv):
            to.add(f"b[{i}] = Ma[{i}];")
            if m.damping[i]:
                to.add(f"M[{packed(i, i)}] += {h * m.damping[i]!r};")
        with to.block(""):
            eliminate(s, "M")
        back_substitute(s, "M", "b")
        change_basis(s, "b", s.placed.along_world)
        change_basis(s, "a", s.placed.along_world)
    for i in range(nv):
        to.add(f"v[{i}] += {h!r} * {acceleration}[{i}];")
    _integrate(s, "q", "q", "v", repr(h))


def runge_kutta(s: System) -> None:
    """Write a stage of the classical fourth-order Runge-Kutta method, as in MuJoCo."""
    m, to, nv = s.mechanism, s.to, s.mechanism.nv
    h = m.timestep
    to.add("const double share = (stage == 0 || stage == 3) ? 1.0 / 6.0 : 1.0 / 3.0;")
    with to.block("if (stage == 0)"):
        for i in range(m.nq):
            to.add(f"q0[{i}] = q[{i}];")
        for i in range(nv):
            to.add(f"v0[{i}] = v[{i}]; dq[{i}] = 0.0; dv[{i}] = 0.0;")
    _rates(s)
    for i in range(nv):
        to.add(f"dq[{i}] += share * rate[{i}]; dv[{i}] += share * a[{i}];")
    to.add(f"real by[{nv}];")
    to.add(f"const double step = stage < 2 ? {0.5 * h!r} : {h!r};")
    for i in range(nv):
        to.add(f"by[{i}] = stage == 3 ? dq[{i}] : rate[{i}];")
        to.add(f"v[{i}] = v0[{i}] + step * (stage == 3 ? dv[{i}] : a[{i}]);")
    _integrate(s, "q", "q0", "by", "step")


def _rates(s: System) -> None:
    """Write the rates of change of positions; for rotations, of the rotation vector."""
    m, to = s.mechanism, s.to
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


def _integrate(s: System, target: str, origin: str, velocity: str, step: str) -> None:
    """Write the positions after a time at a velocity."""
    m, to = s.mechanism.model, s.to
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
