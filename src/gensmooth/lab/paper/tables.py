"""The numbers in the tables of the paper (Gao & Sener, ICML 2022).

Comments give the label of each table in the paper's source. Hyperparameters are pairs
``(spacing, learning rate)``.
"""

from collections.abc import Mapping
from typing import TypeVar

from gensmooth.lab.experiments.grid import SpacingAndRate

DRONE = "A drone learns to hold its height in 400 flights"
WHAT = (
    "gensmooth minimises functions that you can evaluate but not differentiate: a simulation, a "
    "robot, a noisy experiment. Here it tunes the controller of a drone."
)
TITLE = "Generalizing Gaussian Smoothing for Random Search: what holds"
LEDE = (
    "These are the optimisation studies of Gao and Sener’s paper (ICML 2022), run again. Each "
    "claim of the paper that they can check is listed with a verdict and the numbers behind it."
)
# The main finding, and the claim that it rests on.
MESSAGE = (
    "linreg-mse-smaller",
    "Scaling random directions down (“shrinkage”) makes the error of a gradient estimated from "
    "them smaller in every setting of the paper’s linear regression, as theory predicts.",
)
SYMBOLS = (
    ("d", "parameters"),
    ("θ", "the parameters; θ₀ where a run starts"),
    ("F, ∇F", "the function to minimise, and its gradient"),
    ("L", "random directions per iteration"),
    ("N", "noisy samples averaged at each point"),
    ("c", "spacing: how far from θ the function is evaluated"),
    ("η", "learning rate: how far θ moves along the estimate"),
    ("n", "runs (seeds) behind a curve or a test"),
    ("MSE", "mean squared error: E‖estimate − ∇F‖²"),
    ("GS, BeS", "Gaussian and coin-flip (Bernoulli) directions"),
    ("ES", "evolution strategy: another name for random search"),
    ("‖·‖, tr Var", "length of a vector; sum of the variances of its entries"),
)

# The six methods, in the order of the paper's tables.
METHODS = ("gs", "bes", "gs-shrinkage", "bes-shrinkage", "orthogonal-es", "guided-es")

_Value = TypeVar("_Value")


def _by_method(*values: _Value) -> dict[str, _Value]:
    return dict(zip(METHODS, values, strict=True))


_LINREG_SETTINGS = (
    (2, 5), (6, 5), (20, 5), (2, 15), (6, 15), (20, 15), (2, 50), (6, 50), (20, 50),
)  # fmt: skip


def _linreg(
    spacings: tuple[float, ...], rates: tuple[float, ...]
) -> dict[tuple[int, int], SpacingAndRate]:
    return dict(zip(_LINREG_SETTINGS, zip(spacings, rates, strict=True), strict=True))


# tab:linreg_hyper, tab:linregshrinkage_hyper; settings are (L, N)
LINREG: Mapping[str, Mapping[tuple[int, int], SpacingAndRate]] = {
    "gs": _linreg(
        (0.01,) * 9, (0.001, 0.001, 0.001, 0.001, 0.001, 0.01, 0.001, 0.01, 0.01)
    ),
    "bes": _linreg(
        (0.01, 0.1, 0.01, 0.01, 0.1, 0.01, 0.01, 0.01, 0.01),
        (0.001, 0.001, 0.001, 0.001, 0.001, 0.01, 0.001, 0.01, 0.01),
    ),
    "gs-shrinkage": _linreg(
        (0.01, 0.1, 0.01, 0.01, 0.01, 0.1, 0.01, 0.1, 0.01),
        (0.01, 0.01, 0.01, 0.1, 0.1, 0.01, 0.1, 0.1, 0.1),
    ),
    "bes-shrinkage": _linreg(
        (0.01, 0.1, 0.01, 0.01, 0.1, 0.1, 0.01, 0.01, 0.01),
        (0.01, 0.01, 0.01, 0.1, 0.1, 0.01, 0.1, 0.1, 0.1),
    ),
}  # fmt: skip

_DFO_SETTINGS = ((10, 1), (100, 10), (100, 100))


def _dfo(*rates: tuple[float, float, float]) -> dict[str, dict[tuple[int, int], SpacingAndRate]]:
    """Every spacing of these tables is 0.1; rates are in the order of METHODS."""
    return {
        method: {s: (0.1, rate) for s, rate in zip(_DFO_SETTINGS, row, strict=True)}
        for method, row in zip(METHODS, rates, strict=True)
    }


# tab:sphere_hyper, tab:rosenbrock_hyper, tab:hm_hyper; settings are (d, L). The last column of
# tab:hm_hyper is headed d=100, L=10 a second time; it is read as L=100.
DFO: Mapping[str, Mapping[str, Mapping[tuple[int, int], SpacingAndRate]]] = {
    "sphere": _dfo(
        (1e-3, 1e-3, 1e-3),
        (1e-3, 1e-3, 1e-3),
        (1e-2, 1e-3, 1e-3),
        (1e-2, 1e-3, 1e-3),
        (1e-3, 1e-3, 1e-3),
        (1e-2, 1e-3, 1e-2),
    ),
    "rosenbrock": _dfo(*[(1e-6, 1e-6, 1e-6)] * 5, (1e-6, 1e-6, 1e-5)),
    "hm": _dfo(*[(1e-3, 1e-4, 1e-3)] * 5, (1e-3, 1e-3, 1e-3)),
}

# tab:rltimes: time to sample the directions of an iteration on HalfCheetahRandVel, 1e-5 s,
# by L; on the authors' machine.
TIMES: Mapping[int, Mapping[str, float]] = {
    2: _by_method(7.5, 8.9, 8.5, 8.7, 22.1, 193.0),
    6: _by_method(13.1, 13.5, 13.6, 14.2, 50.8, 228.0),
    20: _by_method(19.9, 21.6, 24.0, 19.1, 96.4, 222.0),
}

# --- reinforcement learning, N = 1 ---------------------------------------------------------------
# The grids and the sizes are those of the paragraphs "Optimization and testing" and
# "Hyperparameter search" of the appendix; the columns of a table are L = 2, 6, 20.

RL_DIRECTIONS = (2, 6, 20)
RL_SPACINGS, RL_RATES = (0.01, 0.1), (0.0001, 0.001, 0.01)
RL_ROUNDS, RL_ITERATIONS, RL_TEST_TRIALS = 100, 10, 1000  # ten iterations and one test per round
RL_HIDDEN = 32  # nodes of the ablation's one hidden layer


def _rl(*rows: tuple[float, ...]) -> dict[str, dict[int, SpacingAndRate]]:
    """Return choices by method and L; a row has three spacings, then three learning rates."""
    return {
        method: dict(zip(RL_DIRECTIONS, zip(row[:3], row[3:], strict=True), strict=True))
        for method, row in zip(METHODS, rows, strict=True)
    }


# By environment, in the order of the paper's figures: fig:rl, then fig:rl2 of the appendix.
RL: Mapping[str, Mapping[str, Mapping[int, SpacingAndRate]]] = {
    "Ant": _rl(  # tab:ant_hyper
        (0.1, 0.1, 0.1, 0.0001, 0.0001, 0.0001),
        (0.1, 0.1, 0.1, 0.0001, 0.0001, 0.0001),
        (0.1, 0.1, 0.01, 0.001, 0.001, 0.0001),
        (0.1, 0.01, 0.01, 0.001, 0.0001, 0.0001),
        (0.1, 0.1, 0.1, 0.0001, 0.0001, 0.0001),
        (0.1, 0.1, 0.1, 0.001, 0.001, 0.001),
    ),
    "Walker2d": _rl(  # tab:walker_hyper
        (0.01, 0.01, 0.01, 0.0001, 0.0001, 0.0001),
        (0.1, 0.01, 0.01, 0.001, 0.0001, 0.0001),
        (0.1, 0.01, 0.01, 0.0001, 0.0001, 0.0001),
        (0.1, 0.01, 0.1, 0.001, 0.0001, 0.01),
        (0.01, 0.01, 0.01, 0.0001, 0.0001, 0.0001),
        (0.1, 0.1, 0.01, 0.001, 0.001, 0.01),
    ),
    "ML1-Reach": _rl(  # tab:ml1reach_hyper
        (0.1, 0.1, 0.01, 0.001, 0.001, 0.0001),
        (0.1, 0.1, 0.1, 0.001, 0.001, 0.01),
        (0.1, 0.1, 0.1, 0.001, 0.001, 0.01),
        (0.1, 0.1, 0.01, 0.001, 0.001, 0.0001),
        (0.1, 0.1, 0.1, 0.001, 0.001, 0.01),
        (0.1, 0.1, 0.1, 0.001, 0.001, 0.001),
    ),
    "HalfCheetahRandVel": _rl(  # tab:cheetahvel_hyper
        (0.1, 0.01, 0.01, 0.001, 0.0001, 0.0001),
        (0.01, 0.01, 0.01, 0.0001, 0.0001, 0.0001),
        (0.1, 0.1, 0.01, 0.001, 0.01, 0.001),
        (0.1, 0.1, 0.01, 0.001, 0.01, 0.001),
        (0.1, 0.01, 0.01, 0.001, 0.0001, 0.0001),
        (0.1, 0.1, 0.1, 0.001, 0.01, 0.01),
    ),
    "Hopper": _rl(  # tab:hopper_hyper
        (0.1, 0.01, 0.01, 0.001, 0.0001, 0.0001),
        (0.1, 0.01, 0.01, 0.001, 0.0001, 0.0001),
        (0.1, 0.1, 0.01, 0.001, 0.01, 0.0001),
        (0.1, 0.1, 0.01, 0.001, 0.001, 0.0001),
        (0.1, 0.01, 0.01, 0.001, 0.0001, 0.0001),
        (0.1, 0.1, 0.1, 0.01, 0.01, 0.01),
    ),
    "ML1-Push": _rl(*[(0.1, 0.1, 0.1, 0.001, 0.001, 0.01)] * 6),  # tab:ml1push_hyper
}

# tab:ablation_hyper, left and right: Ant, L = 20
RL_MLP: Mapping[str, SpacingAndRate] = _by_method(
    (0.01, 0.0001), (0.01, 0.0001), (0.1, 0.01), (0.1, 0.01), (0.01, 0.0001), (0.1, 0.01)
)
RL_ANTITHETIC: Mapping[str, SpacingAndRate] = _by_method(
    *[(0.01, 0.0001)] * 3, (0.01, 0.01), (0.01, 0.0001), (0.1, 0.01)
)
