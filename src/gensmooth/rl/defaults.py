r"""Good numbers for each environment, where the user gives none.

A spacing c and a learning rate η here are for directions with entries of variance 1 and L = 20.
For directions with entries of variance v, whose estimate is g times the gradient on average, they
become :math:`c / \sqrt v` and :math:`\eta / g`: evaluations as far out and steps as long. For
fewer directions, whose estimate is noisier, η is multiplied by :math:`\sqrt{L/20}`, which keeps
the length of a step that is noise alone.
"""

import math
import re
from typing import NamedTuple

from gensmooth.algorithms.islands import LARGE
from gensmooth.directions import Directions, NoClosedForm

NUM_DIRECTIONS = 20
GPU_DIRECTIONS = 512  # an iteration on a GPU takes as long for these as for 20


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


PILOT_SCALE = 0.1  # how far apart interesting weights of a policy are


def gpu_points(dim: int) -> int:
    """How many episodes an iteration of ``"islands"`` has, for a policy of so many weights.

    A GPU runs 4096 or 8192 at once, of which 64 are left for a test. Many weights take many
    episodes to find a direction.

    >>> gpu_points(840), gpu_points(5916)
    (4032, 8064)
    """
    return 4032 if dim <= LARGE else 8064


def default_iterations(name: str) -> int:
    """How many iterations an environment is trained for, where the user gives none."""
    return TABLE.get(re.sub(r"-v\d+$", "", name), ANY).iterations


def defaults(
    name: str,
    directions: Directions,
    dim: int,
    num_directions: int,
    *,
    spacing: float | None = None,
    learning_rate: float | None = None,
) -> Defaults:
    """The numbers for an environment and a choice of directions, where the user gives none.

    Args:
        name: The environment.
        directions: How directions are chosen.
        dim: d.
        num_directions: L.
        spacing: The user's, if any.
        learning_rate: The user's, if any.

    >>> from gensmooth.directions import Bernoulli, Guided
    >>> defaults("Hopper", Bernoulli(), 33, 20).learning_rate
    0.005
    >>> defaults("Hopper", Guided(), 33, 20).learning_rate  # 33 times as much: entries have 1/33
    0.165
    """
    found = TABLE.get(re.sub(r"-v\d+$", "", name), ANY)
    try:
        if spacing is None:
            spacing = found.spacing / math.sqrt(directions.variance(dim, num_directions))
        if learning_rate is None:
            noise = math.sqrt(min(num_directions / NUM_DIRECTIONS, 1.0))
            learning_rate = found.learning_rate * noise / directions.gain(dim, num_directions)
    except NoClosedForm as error:
        raise ValueError(
            f"{type(directions).__name__} does not say how long its directions are, on which the "
            "default `spacing` and `learning_rate` depend: give both, or give the family its "
            f"`variance`. ({error})"
        ) from error
    return Defaults(spacing, learning_rate, found.iterations)
