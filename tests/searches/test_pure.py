"""The copy to read is the real thing: RandomSearch makes the same steps, bit for bit."""

import math

import numpy as np
import pytest

import gensmooth as gs
from gensmooth import pure
from gensmooth.directions import Address

START = np.linspace(-1.0, 2.0, 7)


def objective(x: np.ndarray) -> float:
    return math.sin(x @ np.arange(7.0)) + float((x**2).sum()) + math.exp(-x[0])


def by_the_library(method: str, *, antithetic: bool, L: int, c: float = 0.1) -> np.ndarray:
    search = gs.RandomSearch(
        method=method,
        num_directions=L,
        spacing=c,
        estimator=gs.Antithetic() if antithetic else gs.ForwardDifference(),
        optimizer=gs.sgd(0.02),
    )
    state = search.init(START, seed=11)
    for _ in range(30):
        batch = search.ask(state)
        state, info = search.tell(state, batch, [objective(x) for x in batch.points()])
        assert info.diverged is None
    return state.x


def by_the_copy(method: str, *, antithetic: bool, L: int, c: float = 0.1) -> np.ndarray:
    family = gs.directions.named(method.removesuffix("-shrinkage"))

    def numbers(step: int) -> np.ndarray:
        return family.draw((), Address(11, step, L, len(START), np.dtype(np.float64))).block()

    return pure.search(
        objective, START, method=method, z=numbers, c=c, eta=0.02, steps=30, antithetic=antithetic
    )


@pytest.mark.parametrize("L", [1, 4, 20])
@pytest.mark.parametrize("antithetic", [False, True])
@pytest.mark.parametrize("method", ["gs", "bes", "gs-shrinkage", "bes-shrinkage"])
def test_the_copy_makes_the_same_steps_bit_for_bit(method, antithetic, L):
    found = by_the_library(method, antithetic=antithetic, L=L)
    assert found.tobytes() == by_the_copy(method, antithetic=antithetic, L=L).tobytes()
    assert not np.array_equal(found, START)
    # The twin: another spacing is another run.
    assert not np.array_equal(found, by_the_copy(method, antithetic=antithetic, L=L, c=0.11))


def test_bes_shrinkage_is_the_papers_m_star():
    L, d = 5, 9
    signs = np.sign(np.random.default_rng(0).standard_normal((L, d)))
    m = math.sqrt((L + d - 1) / (4 * L))
    np.testing.assert_allclose(pure.directions("bes-shrinkage", signs), signs / (2 * m), rtol=1e-15)
