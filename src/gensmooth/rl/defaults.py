r"""Default hyperparameters for each environment.

The spacing c and the learning rate η in the table are for directions with entries of variance 1 and
L = 20. For directions with entries of variance v, whose estimate is g times the gradient on
average, they become :math:`c / \sqrt v` and :math:`\eta / g`, so that evaluation points are as far
from x and steps as long as before. With fewer than 20 directions the estimate is noisier, so η is
multiplied by :math:`\sqrt{L/20}`. A step that consists of noise only then keeps its length.
"""

import math
import re
from typing import NamedTuple

from gensmooth.directions import Directions, NoClosedForm
from gensmooth.searches.algorithms.islands import LARGE

NUM_DIRECTIONS = 20
GPU_DIRECTIONS = 512  # on a GPU, a step with this many takes as long as one with 20


class Defaults(NamedTuple):
    """The hyperparameters for an environment.

    Attributes:
        spacing: c.
        learning_rate: η.
        max_steps: The number of steps.
    """

    spacing: float
    learning_rate: float
    max_steps: int


# By the environment's name without its version, for antithetic differences. Chosen from a few short
# runs (docs/training-results.md), except for Ant, which has the paper's values (tab:ablation_hyper,
# BeS).
TABLE: dict[str, Defaults] = {
    "Hopper": Defaults(0.05, 0.005, 150),
    "Walker2d": Defaults(0.05, 0.005, 500),
    "HalfCheetah": Defaults(0.03, 0.0012, 200),
    "HalfCheetahRandVel": Defaults(0.05, 0.005, 300),
    "Ant": Defaults(0.01, 0.0001, 1000),
    "ML1-Reach": Defaults(0.05, 0.005, 200),
    "ML1-Push": Defaults(0.05, 0.005, 200),
}
ANY = Defaults(0.05, 0.005, 200)  # for environments that are not in the table

PILOT_SCALE = 0.1  # the typical scale of a policy's weights


def gpu_points(dim: int) -> int:
    """Return the episodes per step of ``"islands"``, for a policy with ``dim`` weights.

    A GPU runs 4096 or 8192 episodes at once, of which 64 are reserved for a test. A policy with
    more weights needs more episodes per step.

    >>> gpu_points(840), gpu_points(5916)
    (4032, 8064)
    """
    return 4032 if dim <= LARGE else 8064


def default_steps(name: str) -> int:
    """Return the default number of steps for an environment."""
    return TABLE.get(re.sub(r"-v\d+$", "", name), ANY).max_steps


def defaults(
    name: str,
    directions: Directions,
    dim: int,
    num_directions: int,
    *,
    spacing: float | None = None,
    learning_rate: float | None = None,
) -> Defaults:
    """Return the default hyperparameters for an environment and a family of directions.

    Args:
        name: The environment.
        directions: The family of directions.
        dim: d.
        num_directions: L.
        spacing: The user's spacing, if any.
        learning_rate: The user's learning rate, if any.

    >>> from gensmooth.directions import Bernoulli, Guided
    >>> defaults("Hopper", Bernoulli(), 33, 20).learning_rate
    0.005
    >>> defaults("Hopper", Guided(), 33, 20).learning_rate  # 33 times larger: g = 1/33
    0.165
    """
    row = TABLE.get(re.sub(r"-v\d+$", "", name), ANY)
    try:
        if spacing is None:
            spacing = row.spacing / math.sqrt(directions.variance(dim, num_directions))
        if learning_rate is None:
            noise = math.sqrt(min(num_directions / NUM_DIRECTIONS, 1.0))
            learning_rate = row.learning_rate * noise / directions.gain(dim, num_directions)
    except NoClosedForm as error:
        raise ValueError(
            f"{type(directions).__name__} does not define the length of its directions, on which "
            "the default `spacing` and `learning_rate` depend: pass both, or define the family's "
            f"`variance`. ({error})"
        ) from error
    return Defaults(spacing, learning_rate, row.max_steps)
