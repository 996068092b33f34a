r"""Optimisers in Optax's shape: a pair of pure functions.

``init(x) -> state`` and ``update(gradient, state, x) -> (change, state)``; the caller adds the
change to x. An Optax transformation has the same shape and drops in unchanged. A learning rate is
a number or a schedule, ``step -> number`` with steps counted from 0.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Schedule = Callable[[int], float]


class Optimizer(NamedTuple):
    """An optimiser: how an estimate changes the parameters.

    Attributes:
        init: From the parameters to the first state.
        update: From (gradient, state, parameters) to (change, state).
    """

    init: Callable[[Array], Any]
    update: Callable[[Array, Any, Array], tuple[Array, Any]]


class SgdState(NamedTuple):
    """Steps made so far."""

    step: int


class MomentumState(NamedTuple):
    """Steps made so far and the decaying sum of gradients."""

    step: int
    velocity: Array


class AdamState(NamedTuple):
    """Steps made so far and the decaying means of the gradient and of its square."""

    step: int
    mean: Array
    square: Array


def sgd(learning_rate: float | Schedule) -> Optimizer:
    r"""Gradient descent, :math:`x \leftarrow x - \eta g`: the paper's optimiser.

    >>> import numpy as np
    >>> optimizer = sgd(0.5)
    >>> change, state = optimizer.update(np.array([2.0]), optimizer.init(np.zeros(1)), np.zeros(1))
    >>> change
    array([-1.])
    """
    rate = _schedule(learning_rate)

    def init(x: Array) -> SgdState:  # noqa: ARG001
        return SgdState(0)

    def update(gradient: Array, state: SgdState, x: Array) -> tuple[Array, SgdState]:  # noqa: ARG001
        return -rate(state.step) * gradient, SgdState(state.step + 1)

    return Optimizer(init, update)


def momentum(
    learning_rate: float | Schedule, decay: float = 0.9, *, nesterov: bool = False
) -> Optimizer:
    r"""Heavy ball: :math:`m \leftarrow \beta m + g`, :math:`x \leftarrow x - \eta m`.

    Args:
        learning_rate: η.
        decay: β in [0, 1).
        nesterov: Step along :math:`\beta m + g` with the new m instead.
    """
    rate = _schedule(learning_rate)
    _check_decay("decay", decay)

    def init(x: Array) -> MomentumState:
        return MomentumState(0, np.zeros_like(x))

    def update(gradient: Array, state: MomentumState, x: Array) -> tuple[Array, MomentumState]:  # noqa: ARG001
        velocity = decay * state.velocity + gradient
        along = decay * velocity + gradient if nesterov else velocity
        return -rate(state.step) * along, MomentumState(state.step + 1, velocity)

    return Optimizer(init, update)


def adam(
    learning_rate: float | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Optimizer:
    r"""Adam (Kingma and Ba, 2015): steps of about η in every coordinate, whatever F's scale.

    :math:`m \leftarrow \beta_1 m + (1-\beta_1) g`, :math:`s \leftarrow \beta_2 s + (1-\beta_2)
    g^2`, :math:`x \leftarrow x - \eta \hat m / (\sqrt{\hat s} + \varepsilon)` with the bias of
    both means removed.
    """
    rate = _schedule(learning_rate)
    _check_decay("b1", b1)
    _check_decay("b2", b2)

    def init(x: Array) -> AdamState:
        return AdamState(0, np.zeros_like(x), np.zeros_like(x))

    def update(gradient: Array, state: AdamState, x: Array) -> tuple[Array, AdamState]:  # noqa: ARG001
        t = state.step + 1
        mean = b1 * state.mean + (1 - b1) * gradient
        square = b2 * state.square + (1 - b2) * gradient**2
        size = -rate(state.step) / (1 - b1**t)
        change = size * mean / (np.sqrt(square / (1 - b2**t)) + eps)
        return change, AdamState(t, mean, square)

    return Optimizer(init, update)


def exponential_decay(initial: float, *, rate: float, steps: int) -> Schedule:
    """``initial · rate^(step/steps)``.

    >>> exponential_decay(0.1, rate=0.5, steps=10)(20)
    0.025
    """
    return lambda step: initial * rate ** (step / steps)


def inverse_decay(initial: float, *, steps: float = 1.0, power: float = 1.0) -> Schedule:
    """``initial / (1 + step/steps)^power``: the classical decay of stochastic approximation."""
    return lambda step: initial / (1 + step / steps) ** power


def cosine_decay(initial: float, *, steps: int, final: float = 0.0) -> Schedule:
    """Half a cosine from ``initial`` down to ``final`` over ``steps`` steps, then constant.

    >>> cosine_decay(0.1, steps=10)(5)
    0.05
    """

    def at(step: int) -> float:
        progress = min(step / max(steps, 1), 1.0)
        return final + 0.5 * (initial - final) * (1 + math.cos(math.pi * progress))

    return at


def _schedule(learning_rate: float | Schedule) -> Schedule:
    if callable(learning_rate):
        return learning_rate
    rate = float(learning_rate)
    if not (rate > 0 and math.isfinite(rate)):
        raise ValueError(f"`learning_rate` must be positive, but is {learning_rate}.")
    return lambda step: rate  # noqa: ARG005


def _check_decay(name: str, decay: float) -> None:
    if not 0 <= decay < 1:
        raise ValueError(f"`{name}` must be in [0, 1), but is {decay}.")
