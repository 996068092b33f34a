"""Nevergrad's artificial functions through Nevergrad's own code, with our randomness.

Needs ``pip install 'gensmooth[nevergrad]'``. No rotation and no translation, as in the paper.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Nevergrad's Styblinski–Tang functions add noise of their own, from NumPy's global generator.
_OWN_NOISE = ("st1", "st10", "st100")


@final
class NevergradFunction:
    """An artificial function of the installed Nevergrad as ``fun(x, rng)``.

    Nevergrad draws its noise from a legacy ``RandomState``; each call is given one that reads the
    bits of ``rng``, so a value is a function of x and of the generator's address.

    Args:
        name: The name that Nevergrad knows it by, such as ``"rastrigin"``.
        dim: d.
        noise_level: λ.
    """

    def __init__(self, name: str, *, dim: int, noise_level: float = 0.1) -> None:
        self._noisy = _make(name, dim, noise_level)
        self._exact = _make("st0" if name in _OWN_NOISE else name, dim, 0.0)
        self._own_noise = name in _OWN_NOISE

    def __call__(self, x: Array, rng: np.random.Generator | Sequence[np.random.Generator]) -> Any:
        """A noisy value at x, or at each of the points of x."""
        if isinstance(rng, np.random.Generator):
            return self._call(x, rng)
        return np.array([self._call(p, g) for p, g in zip(x, rng, strict=True)])

    def oracle(self, x: Array) -> Any:
        """The value without noise, at x or at each of the points of x."""
        if x.ndim == 1:
            return self._exact(x)
        return np.array([self._exact(p) for p in x])

    def _call(self, x: Array, rng: np.random.Generator) -> float:
        legacy = np.random.RandomState(rng.bit_generator)
        self._noisy.parametrization.random_state = legacy
        if not self._own_noise:
            return float(self._noisy(x))
        before = np.random.get_state()  # noqa: NPY002
        np.random.seed(legacy.randint(2**32, dtype=np.uint32))  # noqa: NPY002
        try:
            return float(self._noisy(x))
        finally:
            np.random.set_state(before)  # noqa: NPY002


def _make(name: str, dim: int, noise_level: float) -> Any:
    try:
        from nevergrad.functions import ArtificialFunction
    except ImportError as error:
        raise ImportError(
            f"The objective nevergrad:{name} needs Nevergrad: pip install 'gensmooth[nevergrad]'"
        ) from error
    known: list[str] = ArtificialFunction.list_sorted_function_names()
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Nevergrad has no function {name!r}.{hint} Known: {', '.join(known)}.")
    before = np.random.get_state()  # noqa: NPY002 (creating one draws from the global generator)
    try:
        return ArtificialFunction(
            name, block_dimension=dim, noise_level=noise_level, translation_factor=0.0
        )
    finally:
        np.random.set_state(before)  # noqa: NPY002
