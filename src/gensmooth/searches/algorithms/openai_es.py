r"""OpenAI-ES: Gaussian × centred ranks × Adam with weight decay.

Salimans, Ho, Chen, Sidor & Sutskever, "Evolution strategies as a scalable alternative to
reinforcement learning" (2017), and the authors' program:

    ε_1, …, ε_n ~ N(0, I);  values at x ± σ ε_i  (mirrored)
    u = centred ranks of the 2n values, ½ for the best and −½ for the worst
    g = 1/(2n) Σ_i (u_i+ − u_i−) ε_i
    x ← x − Adam(−g + λ x)

In our terms, n is ``num_directions``, σ is ``spacing`` and Adam's step is the learning rate. The
estimate of :class:`~gensmooth.estimators.CenteredRanks` is −g/σ. With ε/σ, Adam makes the same
steps, and the decay is λ/σ.

σ = 0.02, Adam's step 0.01 and λ = 0.005 are the authors' settings for the Humanoid. Their 10,000
episodes per step need more than a thousand cores; our default is n = 4 + ⌊3 ln d⌋.
"""

import math
from typing import Any

from numpy.typing import NDArray

from gensmooth import optimizers
from gensmooth.directions import Gaussian
from gensmooth.estimators import CenteredRanks
from gensmooth.searches.algorithms.table import ALGORITHMS, Algorithm, Wanted
from gensmooth.searches.random_search import RandomSearch

DEVIATION = 0.02  # σ
STEP = 0.01  # Adam's learning rate
DECAY = 0.005  # λ
_EPS = 1e-8  # Adam's ε


def make(x: NDArray[Any], wanted: Wanted) -> RandomSearch:
    """Create OpenAI-ES."""
    wanted.refuse_noise()
    spacing = wanted.constant_spacing(DEVIATION)
    optimizer = wanted.optimizer
    if optimizer is None:
        adam = optimizers.adam(wanted.rate(STEP), eps=_EPS / spacing)
        optimizer = optimizers.weight_decay(adam, DECAY / spacing)
    return RandomSearch(
        directions=Gaussian(),
        num_directions=wanted.number(4 + int(3 * math.log(x.size))),
        spacing=spacing,
        estimator=CenteredRanks() if wanted.estimator is None else wanted.estimator,
        optimizer=optimizer,
        **wanted.shared,
    )


ALGORITHMS["openai-es"] = Algorithm(
    make, "OpenAI-ES", "N(0, 1), pairs by rank", "Salimans et al. (2017)"
)
