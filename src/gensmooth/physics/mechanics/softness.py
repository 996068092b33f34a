# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""The softness of limits and contacts (MuJoCo's solref and solimp)."""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from gensmooth.physics.mechanics.algebra import TINY, Number, minus, times
from gensmooth.physics.mechanics.models import (
    Pair,
    UnsupportedMechanismError,
    disabling,
    margins_add,
)
from gensmooth.physics.symbols import choose

_IMPEDANCE = (1e-4, 1.0 - 1e-4)  # MuJoCo's mjMINIMP and mjMAXIMP
_MIN_FRICTION = 1e-5  # its mjMINMU
_REFERENCE = (0.02, 1.0)  # its default solref


@final
@dataclass(frozen=True)
class Softness:
    """The softness of a constraint (MuJoCo's solref and solimp).

    Attributes:
        stiffness: K.
        damping: B.
        impedance: dmin, dmax, width, midpoint and power.
        inertia: The inverse inertia, to which the regularisation is proportional.
        factor: A factor of the regularisation, for a friction pyramid.
        margin: The distance at which the constraint starts to act.
    """

    stiffness: float
    damping: float
    impedance: tuple[float, ...]
    inertia: float
    factor: float
    margin: float

    def pull(self, distance: Number) -> tuple[Number, Number]:
        """Return the stiffness D, and K d (x - margin), the first term of ``-aref``."""
        low, high, width, middle, power = self.impedance
        depth = minus(distance, self.margin)
        if low == high or width <= TINY:
            d: Number = 0.5 * (low + high)
        else:
            x = abs(depth) * (1.0 / width)
            if power == 1.0:
                y = x
            else:
                small = (1.0 / middle ** (power - 1.0)) * x**power
                rest = 1.0 - x
                large = 1.0 - (1.0 / (1.0 - middle) ** (power - 1.0)) * rest**power
                y = choose(x <= middle, small, large)
            d = choose(x >= 1.0, high, low + y * (high - low))
        regular = (1.0 - d) * self.inertia / d
        regular = choose(regular < TINY, TINY, regular) * self.factor
        return 1.0 / regular, times(self.stiffness, times(d, depth))


class Limit(NamedTuple):
    """A joint's range: its index in qpos and in qvel, the bounds, and their softness."""

    position: int
    velocity: int
    low: float
    high: float
    law: Softness


def softness(
    m: Any, reference: Any, impedance: Any, inertia: float, factor: float, margin: float
) -> Softness:
    """Compute stiffness and damping as MuJoCo's ``mj_makeImpedance`` does."""
    low, high = (float(np.clip(each, *_IMPEDANCE)) for each in impedance[:2])
    width, middle = max(0.0, float(impedance[2])), float(np.clip(impedance[3], *_IMPEDANCE))
    power = max(1.0, float(impedance[4]))
    first, second = map(float, reference)
    if (first > 0.0) != (second > 0.0):  # mixed formats: MuJoCo warns and uses its default
        first, second = _REFERENCE
    if first > 0.0:
        if not int(m.opt.disableflags) & disabling("refsafe"):
            first = max(first, 2.0 * float(m.opt.timestep))
        stiffness = 1.0 / max(TINY, high**2 * first**2 * second**2)
        damping = 2.0 / max(TINY, high * first)
    else:
        stiffness = -first / max(TINY, high**2)
        damping = -second / max(TINY, high)
    return Softness(stiffness, damping, (low, high, width, middle, power), inertia, factor, margin)


def limits(m: Any) -> list[Limit]:
    """Return the limits of all joints that have them."""
    limits: list[Limit] = []
    for j in range(m.njnt):
        if not m.jnt_limited[j]:
            continue
        dof, margin = int(m.jnt_dofadr[j]), float(m.jnt_margin[j])
        low, high = map(float, m.jnt_range[j])
        if high - low <= 2.0 * margin:
            raise UnsupportedMechanismError("a joint whose two limits act at once")
        law = softness(
            m, m.jnt_solref[j], m.jnt_solimp[j], float(m.dof_invweight0[dof]), 1.0, margin
        )
        limits.append(Limit(int(m.jnt_qposadr[j]), dof, low, high, law))
    return limits


def contact_law(m: Any, pair: Pair) -> tuple[Softness, float]:
    """Return the softness and the friction of a contact, as MuJoCo's ``mj_contactParam`` does."""
    a, b = pair
    rank = int(m.geom_priority[a]) - int(m.geom_priority[b])
    margins = [float(m.geom_margin[g]) for g in pair]
    margin = sum(margins) if margins_add() else max(margins)
    if rank:
        one = a if rank > 0 else b
        dimension, friction = int(m.geom_condim[one]), float(m.geom_friction[one, 0])
        reference, impedance = m.geom_solref[one], m.geom_solimp[one]
    else:
        dimension = max(int(m.geom_condim[a]), int(m.geom_condim[b]))
        friction = float(max(m.geom_friction[a, 0], m.geom_friction[b, 0]))
        weight, other = float(m.geom_solmix[a]), float(m.geom_solmix[b])
        if weight >= TINY and other >= TINY:
            share = weight / (weight + other)
        elif weight < TINY and other < TINY:
            share = 0.5
        else:
            share = 0.0 if weight < TINY else 1.0
        if m.geom_solref[a, 0] > 0 and m.geom_solref[b, 0] > 0:
            reference = share * m.geom_solref[a] + (1.0 - share) * m.geom_solref[b]
        else:
            reference = np.minimum(m.geom_solref[a], m.geom_solref[b])
        impedance = share * m.geom_solimp[a] + (1.0 - share) * m.geom_solimp[b]
    friction = max(_MIN_FRICTION, friction)
    weights = [float(m.body_invweight0[int(m.geom_bodyid[g]), 0]) for g in pair]
    inertia, factor = sum(weights), 1.0
    if dimension == 1:
        friction = 0.0
    else:
        inertia *= 1.0 + friction**2
        factor = 2.0 * friction**2 / max(TINY, float(m.opt.impratio))
    law = softness(m, reference, impedance, inertia, factor, margin)
    return law, friction
