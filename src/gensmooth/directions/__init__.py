"""Directions: how the L perturbations of a step are chosen. Each family has its own file."""

from gensmooth.directions.base import (
    METHODS,
    Directions,
    Method,
    NoClosedForm,
    State,
    check_directions,
    register,
    rotated_kurtosis,
)
from gensmooth.directions.bernoulli import Bernoulli
from gensmooth.directions.draw import Address, Draw, dense, normals, quantiles, signs
from gensmooth.directions.gaussian import Gaussian
from gensmooth.directions.guided import Guided
from gensmooth.directions.hadamard import OrthogonalBernoulli
from gensmooth.directions.iid import IID
from gensmooth.directions.lmrs import Learned
from gensmooth.directions.low_rank import LowRank
from gensmooth.directions.methods import choose_directions, named, predictions
from gensmooth.directions.orthogonal import Orthogonal
from gensmooth.directions.shrinkage import Shrunk, shrunk
from gensmooth.directions.sparse import Sparse
from gensmooth.directions.sphere import Sphere
from gensmooth.directions.stars import Stars

__all__ = [
    "IID",
    "METHODS",
    "Address",
    "Bernoulli",
    "Directions",
    "Draw",
    "Gaussian",
    "Guided",
    "Learned",
    "LowRank",
    "Method",
    "NoClosedForm",
    "Orthogonal",
    "OrthogonalBernoulli",
    "Shrunk",
    "Sparse",
    "Sphere",
    "Stars",
    "State",
    "check_directions",
    "choose_directions",
    "dense",
    "named",
    "normals",
    "predictions",
    "quantiles",
    "register",
    "rotated_kurtosis",
    "shrunk",
    "signs",
]
