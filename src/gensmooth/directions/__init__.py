"""Directions: how the L perturbations of a step are chosen."""

from gensmooth.directions.base import Directions, NoClosedForm, check_directions
from gensmooth.directions.draw import Draw
from gensmooth.directions.guided import Guided
from gensmooth.directions.iid import IID, Bernoulli, Gaussian
from gensmooth.directions.orthogonal import Orthogonal, OrthogonalBernoulli
from gensmooth.directions.shrinkage import Shrunk, shrunk
from gensmooth.directions.sphere import Sphere

__all__ = [
    "IID",
    "Bernoulli",
    "Directions",
    "Draw",
    "Gaussian",
    "Guided",
    "NoClosedForm",
    "Orthogonal",
    "OrthogonalBernoulli",
    "Shrunk",
    "Sphere",
    "check_directions",
    "shrunk",
]
