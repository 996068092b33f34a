"""The theory of the estimators: formulas on floats, without arrays.

A family of directions is summarised by its `Moments`, on which all formulas depend.

>>> from gensmooth import theory
>>> directions = theory.iid(dim=100, num_directions=20)  # Gaussian
>>> round(theory.relative_mse(directions), 2)
5.05
>>> shrunk = directions.scaled(theory.optimal_scale(directions))
>>> round(theory.relative_mse(shrunk), 2), round(theory.relative_bias(shrunk), 2)
(0.83, -0.83)
>>> theory.information_limit(dim=100, num_directions=20)
0.8

Definitions and proofs: `docs/theory.md`, and `docs/pilot.md` for ranks, steps and noise shares.
"""

from gensmooth.theory.bounds import convergence_bound, convergence_learning_rate, information_limit
from gensmooth.theory.families import (
    block_coordinate,
    gram_schmidt,
    hadamard,
    iid,
    low_rank,
    orthogonal,
    sparse,
    sphere,
)
from gensmooth.theory.moments import Moments, combine, optimal_scale, relative_bias, relative_mse
from gensmooth.theory.mse import EstimatorName, MseTerms, SampleMode, mse, mse_terms
from gensmooth.theory.noise import noise_share, noise_to_signal, noisy_scale, slope_noise
from gensmooth.theory.ranks import effective, mirrored_neutral, rank_weights
from gensmooth.theory.shrinkage import (
    BernoulliParameters,
    EntryMoments,
    ScaleTarget,
    bernoulli_moments,
    bernoulli_optimum,
    gs_vs_bes_shrinkage,
    gs_vs_bes_threshold,
    optimal_scale_whole,
    optimal_variance,
)
from gensmooth.theory.spacing import (
    HessianSquares,
    quadratic_spacing_mse,
    quadratic_spacing_mse_gram_schmidt,
    quadratic_spacing_mse_sphere,
)
from gensmooth.theory.stars import NoiseKind, stars_spacing, stars_step
from gensmooth.theory.steps import (
    greedy_learning_rate,
    lagged_product,
    probe_gain,
    probe_score,
    probe_variance,
)

__all__ = [
    "BernoulliParameters",
    "EntryMoments",
    "EstimatorName",
    "HessianSquares",
    "Moments",
    "MseTerms",
    "NoiseKind",
    "SampleMode",
    "ScaleTarget",
    "bernoulli_moments",
    "bernoulli_optimum",
    "block_coordinate",
    "combine",
    "convergence_bound",
    "convergence_learning_rate",
    "effective",
    "gram_schmidt",
    "greedy_learning_rate",
    "gs_vs_bes_shrinkage",
    "gs_vs_bes_threshold",
    "hadamard",
    "iid",
    "information_limit",
    "lagged_product",
    "low_rank",
    "mirrored_neutral",
    "mse",
    "mse_terms",
    "noise_share",
    "noise_to_signal",
    "noisy_scale",
    "optimal_scale",
    "optimal_scale_whole",
    "optimal_variance",
    "orthogonal",
    "probe_gain",
    "probe_score",
    "probe_variance",
    "quadratic_spacing_mse",
    "quadratic_spacing_mse_gram_schmidt",
    "quadratic_spacing_mse_sphere",
    "rank_weights",
    "relative_bias",
    "relative_mse",
    "slope_noise",
    "sparse",
    "sphere",
    "stars_spacing",
    "stars_step",
]
