r"""Good numbers for each environment, where the user gives none.

A spacing c and a learning rate η here are for directions with entries of variance 1 and L = 20.
For a method whose directions are of variance v (shrinkage; Guided ES, whose covariance has trace 1)
they become :math:`c / \sqrt v` and :math:`\eta / v`: evaluations as far out and steps as long. For
fewer directions, whose estimate is noisier, η is multiplied by :math:`\sqrt{L/20}`, which keeps
the length of a step that is noise alone.
"""

import math
import re
from typing import NamedTuple

from gensmooth.directions import Directions, NoClosedForm, Shrunk

NUM_DIRECTIONS = 20


class Defaults(NamedTuple):
    """Numbers for an environment.

    Attributes:
        spacing: c.
        learning_rate: η.
        iterations: How many.
    """

    spacing: float
    learning_rate: float
    iterations: int


# By the environment's name without its version, for antithetic differences. Chosen here by few and
# short runs (docs/rl.md), except Ant, which is the paper's choice (tab:ablation_hyper, BeS).
TABLE: dict[str, Defaults] = {
    "Hopper": Defaults(0.05, 0.005, 150),
    "Walker2d": Defaults(0.05, 0.005, 500),
    "HalfCheetah": Defaults(0.03, 0.0012, 200),
    "HalfCheetahRandVel": Defaults(0.05, 0.005, 300),
    "Ant": Defaults(0.01, 0.0001, 1000),
    "ML1-Reach": Defaults(0.05, 0.005, 200),
    "ML1-Push": Defaults(0.05, 0.005, 200),
}
ANY = Defaults(0.05, 0.005, 200)


def defaults(name: str, directions: Directions, dim: int, num_directions: int) -> Defaults:
    """The numbers for an environment and a choice of directions."""
    found = TABLE.get(re.sub(r"-v\d+$", "", name), ANY)
    v = variance(directions, dim, num_directions)
    length = 1.0 if isinstance(directions, Shrunk) and directions.scale == "estimate" else v
    noise = math.sqrt(min(num_directions / NUM_DIRECTIONS, 1.0))
    return Defaults(
        found.spacing / math.sqrt(length), found.learning_rate * noise / v, found.iterations
    )


def variance(directions: Directions, dim: int, num_directions: int) -> float:
    """The variance of a direction's entries (with what shrinkage makes of the estimate).

    >>> from gensmooth.methods import method
    >>> variance(method("bes"), 33, 20), variance(method("guided-es"), 50, 20)
    (1.0, 0.02)
    """
    try:
        return directions.moments(dim, num_directions).mean
    except NoClosedForm:  # Guided: the trace of the covariance is 1
        return 1 / dim
