"""A MuJoCo model whose physics can be written down."""

from typing import Any, final

from gensmooth.rl.environments.mechanics.models import (
    EULER,
    FREE,
    RUNGE_KUTTA,
    pairs,
    parallel,
    parts,
    refuse,
    rotations_are_corrected,
)
from gensmooth.rl.environments.mechanics.softness import limits


@final
class Mechanism:
    """A MuJoCo model whose physics can be written down.

    Args:
        model: The ``MjModel``.

    Raises:
        UnsupportedMechanismError: When it has something that is not written down here.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.nq, self.nv, self.nu = int(model.nq), int(model.nv), int(model.nu)
        self.timestep = float(model.opt.timestep)
        self.integrator = int(model.opt.integrator)
        refuse(model)
        self.parts, self.fixed = parts(model)
        self._dof_part = [self.part_of(int(b)) for b in model.dof_bodyid]
        self.damping = [float(each) for each in model.dof_damping]
        # Euler's method has dampers act on the new velocity, as MuJoCo: if any takes energy.
        self.implicit_damping = self.integrator == EULER and max(self.damping) > 0.0
        self.limits = limits(model)
        self.pairs = pairs(model)
        self.corrected = self.integrator == RUNGE_KUTTA and rotations_are_corrected()
        self.parallel = parallel(model, self.pairs)

    def part_of(self, body: int) -> int:
        """The part that a body belongs to; -1 for what never moves."""
        return self.fixed[body].part

    def ancestors(self, dof: int) -> list[int]:
        """The velocities that move with one: itself, and those nearer to the root."""
        found: list[int] = []
        while dof >= 0:
            found.append(dof)
            dof = int(self.model.dof_parentid[dof])
        return found

    def dofs_of(self, part: int) -> list[int]:
        """The velocities that move a part, from the root on."""
        found: list[int] = []
        while part >= 0:
            body = self.parts[part].body
            first, number = int(self.model.body_dofadr[body]), int(self.model.body_dofnum[body])
            found = [*range(first, first + number), *found]
            part = self.parts[part].parent
        return found

    def free_translations(self) -> list[tuple[int, int]]:
        """The first velocity of each free joint, and its part."""
        m = self.model
        return [
            (int(m.jnt_dofadr[j]), self.part_of(int(m.jnt_bodyid[j])))
            for j in range(m.njnt)
            if m.jnt_type[j] == FREE
        ]

    def dof_part(self, dof: int) -> int:
        """The part that a velocity moves first."""
        return self._dof_part[dof]
