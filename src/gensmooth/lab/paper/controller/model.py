"""A drone that climbs one metre and holds its height in gusts; its controller has three gains.

Height h and speed v follow from the thrust u, which lags behind the controller's output a, and from
random gusts w:

    ḣ = v,  v̇ = u + w,  u̇ = (a − u) / τ,  a = k_p e + k_i ∫e − k_d v,  e = 1 − h.

Gusts are an Ornstein–Uhlenbeck process. Thrust is limited. The cost of a flight is the mean of e²
plus a small penalty on the thrust.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEP, STEPS = 0.05, 160  # seconds, and how many: a flight of eight seconds
START = (1.0, 0.1, 0.3)  # gains that oscillate
GAINS = ("proportional", "integral", "derivative")
_LAG, _LIMIT = 0.25, 6.0
_GUST, _MEMORY = 0.8, 0.5  # standard deviation, and correlation time in seconds
_EFFORT = 0.03


def gusts(rng: np.random.Generator, flights: int) -> Floats:
    """Return the gusts of several flights, drawn by the exact transition between steps."""
    kept = np.exp(-STEP / _MEMORY)
    wind = _GUST * rng.standard_normal((STEPS, flights))
    wind[1:] *= np.sqrt(1 - kept**2)
    for before, now in pairwise(wind):
        now += kept * before
    return wind


def fly(gains: Any, wind: Floats) -> tuple[Floats, Floats]:
    """Return the cost of each flight, and its height at each step."""
    proportional, integral, derivative = np.asarray(gains, float)
    height, speed, thrust, total, cost = (np.zeros(wind.shape[1]) for _ in range(5))
    heights = np.empty_like(wind)
    for step, push in enumerate(wind):
        error = 1 - height
        total = total + STEP * error
        output = proportional * error + integral * total - derivative * speed
        thrust = thrust + STEP / _LAG * (np.clip(output, -_LIMIT, _LIMIT) - thrust)
        speed = np.clip(speed + STEP * (thrust + push), -50, 50)
        height = np.clip(height + STEP * speed, -50, 50)
        cost = cost + error**2 + _EFFORT * thrust**2
        heights[step] = height
    return cost / STEPS, heights


def flight(gains: Any, rng: np.random.Generator) -> float:
    """Return the cost of one flight: the objective of the search."""
    return float(fly(gains, gusts(rng, 1))[0][0])
