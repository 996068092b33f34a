"""Counter-based randomness: every random number is a pure function of its address.

A number is addressed by ``(seed, purpose, step, index, position)``. There is no generator whose
state could be lost, shared or advanced in the wrong order: any worker, in any order, on any
machine, computes the same number from the same address.

Two generators of the Philox family (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
SC 2011) share this addressing:

* directions come from Philox4x32-10 inside the Numba kernels (:mod:`gensmooth.kernels.philox`);
* the noise of an objective comes from :func:`generator`, a NumPy ``Generator`` over Philox4x64-10.
"""

import hashlib
import secrets
from enum import IntEnum
from operator import index as as_index
from typing import Any, final

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence

from gensmooth import checks

TILE = 2048  # entries of a direction that a kernel generates together, from one range of counters

_WORD = 0xFFFFFFFF


class Purpose(IntEnum):
    """What a random number is used for. Stored runs depend on these values: never renumber them."""

    DIRECTION = 1  # the entries of ε_l: index = l
    SIGNS = 2  # the column signs of a randomised Hadamard matrix: index = group
    ROWS = 3  # the choice of Hadamard rows and their signs: index = group
    GUIDE = 4  # Guided ES: the coefficients in the guiding subspace: index = l
    SAMPLE = 5  # ξ, passed to the objective: index = sample
    START = 6  # starting points
    DATA = 7  # data sets of the built-in problems
    TEST = 8  # test sets and test evaluations
    LEFT = 9  # low-rank directions of a matrix: the factor along its rows; index = l · rank + k
    RIGHT = 10  # the same for the factor along its columns
    CHOICE = 11  # sparse directions: which tiles of a parameter a step perturbs


def check_seed(seed: object) -> int:
    """Return a valid 64-bit seed; ``None`` draws one from the operating system."""
    if seed is None:
        return secrets.randbits(63)
    try:
        if isinstance(seed, bool):
            raise TypeError
        number = as_index(seed)  # pyright: ignore[reportArgumentType]
    except Exception:  # a user's object may raise anything
        raise TypeError(
            f"`seed` must be an integer or None, but is {checks.shown(seed)}."
        ) from None
    if not 0 <= number < 2**64:
        raise ValueError(f"`seed` must be in [0, 2**64), but is {checks.shown(number)}.")
    return number


def named_seed(seed: int, name: str) -> int:
    """Return the 64-bit seed of a named parameter of a model, a function of seed and name only.

    Entry j of the parameter's direction is position j under this seed, whatever the other
    parameters and their order are, and however a model is divided among processes.

    >>> named_seed(0, "layers.0.weight") == named_seed(0, "layers.1.weight")
    False
    """
    message = seed.to_bytes(8, "little") + name.encode()
    return int.from_bytes(hashlib.blake2b(message, digest_size=8).digest(), "little")


def key_and_counter(seed: int, purpose: Purpose, step: int) -> tuple[int, int, int, int]:
    """Return the words ``(k0, k1, c2, c3)`` that Philox4x32 needs besides index and position.

    The key is the seed; the counter is ``(position, index, step, purpose and high bits of step)``,
    so no two addresses share a counter for up to 2**56 steps.
    """
    return (
        seed & _WORD,
        seed >> 32,
        step & _WORD,
        (int(purpose) << 24) | ((step >> 32) & 0xFFFFFF),
    )


def generator(seed: int, purpose: Purpose, *, step: int = 0, index: int = 0) -> np.random.Generator:
    """Return a NumPy generator that depends only on its address.

    The streams of two addresses do not overlap within the first 2**64 blocks of four words.

    >>> a = generator(7, Purpose.SAMPLE, step=3, index=1).standard_normal()
    >>> b = generator(7, Purpose.SAMPLE, step=3, index=1).standard_normal()
    >>> a == b
    True
    """
    counter = np.array([0, index, step, 0], dtype=np.uint64)
    key: Any = _PhiloxKey(seed, purpose, step, index)
    return np.random.Generator(np.random.Philox(key, counter))


def index_of(rng: np.random.Generator) -> int:
    """Return the index in the address of a generator made by :func:`generator`.

    >>> index_of(generator(7, Purpose.SAMPLE, step=3, index=5))
    5
    """
    key: Any = rng.bit_generator.seed_seq
    return int(key.index)


@final
class _PhiloxKey(ISpawnableSeedSequence):
    """The key of a generator, in the form that NumPy accepts fastest.

    With ``key=``, NumPy first draws 128 bits from the operating system that it never uses, which
    takes twice as long as everything else. Spawned seeds depend only on the address, too.
    """

    def __init__(self, seed: int, purpose: Purpose, step: int, index: int) -> None:
        self._words = (seed, int(purpose), step, index)
        self._spawned = 0

    @property
    def index(self) -> int:
        """The index in the address."""
        return self._words[3]

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        """Return the Philox key; for any other request, words derived from the address."""
        if n_words == 2 and dtype is np.uint64:
            return np.array(self._words[:2], dtype=np.uint64)
        return np.random.SeedSequence(self._words).generate_state(n_words, dtype)

    def spawn(self, n_children: int) -> list[Any]:
        """Return the next ``n_children`` seeds, for generators that the user spawns."""
        first, self._spawned = self._spawned, self._spawned + n_children
        return [
            np.random.SeedSequence(self._words, spawn_key=(child,))
            for child in range(first, self._spawned)
        ]
