"""The paper's hyperparameters for reinforcement learning (Gao & Sener, ICML 2022).

Each table names its label in the paper's source. Hyperparameters are ``(spacing, learning rate)``,
for N = 1; the columns of a table are L = 2, 6, 20. The grids and the sizes are those of the
paragraphs "Optimization and testing" and "Hyperparameter search" of the appendix.
"""

from collections.abc import Mapping

from gensmooth.studies.paper import METHODS, Choice

NUM_DIRECTIONS = (2, 6, 20)
SPACINGS, RATES = (0.01, 0.1), (0.0001, 0.001, 0.01)
ROUNDS, ITERATIONS, TEST_TRIALS = 100, 10, 1000  # ten iterations and one test a round
HIDDEN = 32  # nodes of the ablation's one hidden layer

Row = tuple[float, float, float]


def _table(spacings: tuple[Row, ...], rates: tuple[Row, ...]) -> dict[str, dict[int, Choice]]:
    """From the two halves of a table, rows in the order of METHODS, to choices by method and L."""
    return {
        method: dict(zip(NUM_DIRECTIONS, zip(c, eta, strict=True), strict=True))
        for method, c, eta in zip(METHODS, spacings, rates, strict=True)
    }


# By environment, in the order of the paper's figures: fig:rl, then fig:rl2 of the appendix.
TABLES: Mapping[str, Mapping[str, Mapping[int, Choice]]] = {
    # tab:ant_hyper
    "Ant": _table(
        (
            (0.1, 0.1, 0.1),
            (0.1, 0.1, 0.1),
            (0.1, 0.1, 0.01),
            (0.1, 0.01, 0.01),
            (0.1, 0.1, 0.1),
            (0.1, 0.1, 0.1),
        ),
        (
            (0.0001, 0.0001, 0.0001),
            (0.0001, 0.0001, 0.0001),
            (0.001, 0.001, 0.0001),
            (0.001, 0.0001, 0.0001),
            (0.0001, 0.0001, 0.0001),
            (0.001, 0.001, 0.001),
        ),
    ),
    # tab:walker_hyper
    "Walker2d": _table(
        (
            (0.01, 0.01, 0.01),
            (0.1, 0.01, 0.01),
            (0.1, 0.01, 0.01),
            (0.1, 0.01, 0.1),
            (0.01, 0.01, 0.01),
            (0.1, 0.1, 0.01),
        ),
        (
            (0.0001, 0.0001, 0.0001),
            (0.001, 0.0001, 0.0001),
            (0.0001, 0.0001, 0.0001),
            (0.001, 0.0001, 0.01),
            (0.0001, 0.0001, 0.0001),
            (0.001, 0.001, 0.01),
        ),
    ),
    # tab:ml1reach_hyper
    "ML1-Reach": _table(
        (
            (0.1, 0.1, 0.01),
            (0.1, 0.1, 0.1),
            (0.1, 0.1, 0.1),
            (0.1, 0.1, 0.01),
            (0.1, 0.1, 0.1),
            (0.1, 0.1, 0.1),
        ),
        (
            (0.001, 0.001, 0.0001),
            (0.001, 0.001, 0.01),
            (0.001, 0.001, 0.01),
            (0.001, 0.001, 0.0001),
            (0.001, 0.001, 0.01),
            (0.001, 0.001, 0.001),
        ),
    ),
    # tab:cheetahvel_hyper
    "HalfCheetahRandVel": _table(
        (
            (0.1, 0.01, 0.01),
            (0.01, 0.01, 0.01),
            (0.1, 0.1, 0.01),
            (0.1, 0.1, 0.01),
            (0.1, 0.01, 0.01),
            (0.1, 0.1, 0.1),
        ),
        (
            (0.001, 0.0001, 0.0001),
            (0.0001, 0.0001, 0.0001),
            (0.001, 0.01, 0.001),
            (0.001, 0.01, 0.001),
            (0.001, 0.0001, 0.0001),
            (0.001, 0.01, 0.01),
        ),
    ),
    # tab:hopper_hyper
    "Hopper": _table(
        (
            (0.1, 0.01, 0.01),
            (0.1, 0.01, 0.01),
            (0.1, 0.1, 0.01),
            (0.1, 0.1, 0.01),
            (0.1, 0.01, 0.01),
            (0.1, 0.1, 0.1),
        ),
        (
            (0.001, 0.0001, 0.0001),
            (0.001, 0.0001, 0.0001),
            (0.001, 0.01, 0.0001),
            (0.001, 0.001, 0.0001),
            (0.001, 0.0001, 0.0001),
            (0.01, 0.01, 0.01),
        ),
    ),
    # tab:ml1push_hyper
    "ML1-Push": _table(
        ((0.1, 0.1, 0.1),) * 6,
        ((0.001, 0.001, 0.01),) * 6,
    ),
}

# tab:ablation_hyper, left and right: Ant, L = 20
MLP: Mapping[str, Choice] = dict(
    zip(
        METHODS,
        ((0.01, 0.0001), (0.01, 0.0001), (0.1, 0.01), (0.1, 0.01), (0.01, 0.0001), (0.1, 0.01)),
        strict=True,
    )
)
ANTITHETIC: Mapping[str, Choice] = dict(
    zip(
        METHODS,
        ((0.01, 0.0001),) * 3 + ((0.01, 0.01), (0.01, 0.0001), (0.1, 0.01)),
        strict=True,
    )
)
