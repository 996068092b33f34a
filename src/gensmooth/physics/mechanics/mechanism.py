"""A supported MuJoCo model, in the form that the equations of motion need."""

from typing import Any, final

from gensmooth.physics.mechanics.models import (
    EULER,
    FREE,
    RUNGE_KUTTA,
    pairs,
    parallel,
    parts,
    refuse,
    rotations_are_corrected,
)
from gensmooth.physics.mechanics.softness import limits


@final
class Mechanism:
    """A supported MuJoCo model.

    Args:
        model: The ``MjModel``.

    Raises:
        UnsupportedMechanismError: If the model has an unsupported feature.
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
        # As in MuJoCo, Euler's method applies dampers to the new velocity if there are any.
        self.implicit_damping = self.integrator == EULER and max(self.damping) > 0.0
        self.limits = limits(model)
        self.pairs = pairs(model)
        self.corrected = self.integrator == RUNGE_KUTTA and rotations_are_corrected()
        self.parallel = parallel(model, self.pairs)

    def part_of(self, body: int) -> int:
        """Return the part that a body belongs to; -1 if the body never moves."""
        return self.fixed[body].part

    def ancestors(self, dof: int) -> list[int]:
        """Return a velocity and those above it in the tree, up to the root."""
        dofs: list[int] = []
        while dof >= 0:
            dofs.append(dof)
            dof = int(self.model.dof_parentid[dof])
        return dofs

    def dofs_of(self, part: int) -> list[int]:
        """Return the velocities that move a part, from the root down."""
        dofs: list[int] = []
        while part >= 0:
            body = self.parts[part].body
            first, number = int(self.model.body_dofadr[body]), int(self.model.body_dofnum[body])
            dofs = [*range(first, first + number), *dofs]
            part = self.parts[part].parent
        return dofs

    def free_translations(self) -> list[tuple[int, int]]:
        """Return the first velocity of each free joint, and its part."""
        m = self.model
        return [
            (int(m.jnt_dofadr[j]), self.part_of(int(m.jnt_bodyid[j])))
            for j in range(m.njnt)
            if m.jnt_type[j] == FREE
        ]

    def dof_part(self, dof: int) -> int:
        """Return the part whose joint a velocity belongs to."""
        return self._dof_part[dof]
