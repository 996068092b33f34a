"""Optimiser steps in one pass over the parameters."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def adam(gradient, x, decay, mean, square, b1, a1, b2, a2, size, root, eps, new, after, change):
    """Take a step of Adam on ``gradient + decay · x``, with the same rounding as in NumPy.

    ``new = b1 · mean + a1 · g``, ``after = b2 · square + a2 · g²`` and
    ``change = size · new / (√(after / root) + eps)``, entry by entry.
    """
    for i in range(len(gradient)):
        g = gradient[i] + decay * x[i] if decay != 0 else gradient[i]
        new[i] = b1 * mean[i] + a1 * g
        after[i] = b2 * square[i] + a2 * (g * g)
        change[i] = size * new[i] / (np.sqrt(after[i] / root) + eps)
