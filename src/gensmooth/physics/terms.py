# pyright: reportPrivateUsage=false
"""The terms of a step, in order: what each one is, and which of our functions compute it."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from gensmooth.physics.fused import constraints, integrators, outputs, solver
from gensmooth.physics.fused import source as fused_source
from gensmooth.physics.mechanics import contacts, models, softness
from gensmooth.physics.mechanics.contacts import axes_of, jacobian, moving
from gensmooth.physics.mechanics.placed import Placed, place
from gensmooth.physics.mechanics.spatial import Inertia, Spatial
from gensmooth.physics.symbolic_numpy import rebuilt
from gensmooth.physics.symbols import value_of
from gensmooth.physics.tracing import trace

_FORMULA = 1e-10  # relative tolerance of terms that are formulas
_SOLUTION = 1e-8  # relative tolerance of terms that depend on MuJoCo's iterative solver


@final
@dataclass(frozen=True)
class Term:
    """One term of a step.

    Attributes:
        name: Its name in MuJoCo's data, or in the environment.
        meaning: Its meaning, in words.
        functions: Our functions that compute it.
        tolerance: The largest relative difference that counts as rounding.
    """

    name: str
    meaning: str
    functions: tuple[Callable[..., Any], ...]
    tolerance: float = _FORMULA

    @property
    def places(self) -> list[str]:
        """The file, line and name of each function."""
        return [place_of(each) for each in self.functions]


def place_of(function: Callable[..., Any]) -> str:
    """Return the file, line and name of a function."""
    plain = inspect.unwrap(function)
    file = Path(inspect.getsourcefile(plain) or "").relative_to(Path(__file__).parent)
    line = inspect.getsourcelines(plain)[1]
    return f"gensmooth/physics/{file.as_posix()}:{line} ({plain.__qualname__})"


_INTEGRATORS = (integrators.euler, integrators.runge_kutta)
_TRACED = (trace, rebuilt, value_of)

# In the order of a step: a term depends on those before it.
TERMS = (
    Term(
        "xpos", "positions of bodies", (models.parts, place, Placed.body_position, Placed._in_world)
    ),
    Term("xquat", "orientations of bodies", (place, Placed.body_quaternion)),
    Term("geom_xpos", "positions of geoms", (Placed.geom_position, Placed.geom)),
    Term("site_xpos", "positions of sites", (Placed.site_position,)),
    Term("subtree_com", "centres of mass", (Placed.centre, Placed._centre_of_body)),
    Term("cinert", "inertia of each body", (Placed.body_inertia,)),
    Term(
        "qM",
        "mass matrix",
        (
            Placed.mass_matrix,
            Placed._inertia,
            models.rigid_inertia,
            Inertia.times,
            Spatial.dot,
            models.parts,
            place,
        ),
    ),
    Term("cvel", "velocity of each body", (Placed.body_velocity, Placed.velocities)),
    Term(
        "qfrc_bias",
        "gravity, Coriolis and centrifugal forces",
        (
            Placed._inertial_forces,
            Placed._drift,
            Placed.velocities,
            Spatial.of_motion,
            Spatial.of_force,
            Inertia.times,
            Placed._along_joints,
        ),
    ),
    Term(
        "qfrc_passive",
        "springs, dampers and fluid",
        (Placed._with_joints, Placed._without_fluid, Placed._fluid, Placed._along_joints),
    ),
    Term("qfrc_actuator", "forces of the actuators", (Placed.actuation,)),
    Term("limits", "joint limits that act: distance and margin", (softness.limits,)),
    Term(
        "contact.geom",
        "which geoms touch, and at how many points",
        (models.pairs, models.parallel, contacts._contacts_of_pair),
    ),
    Term(
        "contact.dist",
        "distances and margins of contacts",
        (contacts._contacts_of_pair, contacts.Segments.nearest, softness.contact_law),
    ),
    Term("contact.frame", "points and axes of contacts", (axes_of, contacts._contacts_of_pair)),
    Term("efc_J", "Jacobian of limits and contacts", (jacobian, moving, softness.contact_law)),
    Term(
        "efc_D",
        "stiffness of limits and contacts",
        (softness.Softness.pull, softness.softness, softness.contact_law, softness.limits),
    ),
    Term(
        "efc_aref",
        "reference acceleration of limits and contacts",
        (softness.softness, softness.Softness.pull, softness.contact_law, softness.limits),
    ),
    Term(
        "qfrc_constraint",
        "forces of the constraints",
        (
            constraints.write_limits,
            constraints.write_contacts,
            fused_source.evaluate,
            solver.write_solver,
            outputs.write_outputs,
        ),
        _SOLUTION,
    ),
    Term(
        "qacc",
        "accelerations in the step (of RK4, in its last stage)",
        (solver.write_solver, fused_source.evaluate),
        _SOLUTION,
    ),
    Term("qvel", "velocities after the step", _INTEGRATORS, _SOLUTION),
    Term("qpos", "positions after the step", _INTEGRATORS, _SOLUTION),
    Term("cfrc_ext", "contact forces on bodies", (outputs.write_outputs,), _SOLUTION),
    Term("observation", "the environment's observation", _TRACED),
    Term("reward", "the environment's reward", _TRACED),
    Term("bonus", "the survival bonus in it", _TRACED),
    Term("ended", "whether the episode ends", _TRACED),
)
# From the compiled function; the terms before them are expressions on numbers.
COMPILED = ("qfrc_constraint", "qacc", "qvel", "qpos", "cfrc_ext")
# What a step of the environment returns.
OUTCOME = ("reward", "bonus", "ended")
