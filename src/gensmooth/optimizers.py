r"""Optimisers that follow Optax's interface: a pair of pure functions.

The functions are ``init(x) -> state`` and ``update(gradient, state, x) -> (change, state)``; the
caller adds the change to x. An Optax transformation has the same interface and works unchanged. A
learning rate is a number or a schedule, ``step -> number``, with steps counted from 0.

The two functions of each optimiser in this module are methods of a frozen dataclass, its *rule*.
The schedules are frozen dataclasses too. Both can be pickled and written to a run's configuration.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, cast, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, kernels

Array = NDArray[Any]
Schedule = Callable[[int], float]

_FIRST_STEP = 0.03  # greedy: the first step, in units of every parameter
_MAX_SCORE = 1.5  # greedy: the bound on one estimate's score
_SHORTEN_ABOVE = 2.0  # greedy: an estimate is shortened to this multiple of the usual length
_NUM_SIZES = 10  # spall: the gain depends on the mean size of this many estimates


class Optimizer(NamedTuple):
    """An optimiser: how an estimate changes the parameters.

    Attributes:
        init: Maps the parameters to the initial state.
        update: Maps (gradient, state, parameters) to (change, state).
    """

    init: Callable[[Array], Any]
    update: Callable[[Array, Any, Array], tuple[Array, Any]]


class SgdState(NamedTuple):
    """The number of steps so far."""

    step: int


class MomentumState(NamedTuple):
    """The number of steps so far and the decaying sum of gradients."""

    step: int
    velocity: Array


class AdamState(NamedTuple):
    """The number of steps so far and the decaying means of the gradient and of its square."""

    step: int
    mean: Array
    square: Array


class GreedyState(NamedTuple):
    """Statistics of the estimates so far, and the current step size.

    Attributes:
        step: The number of non-zero estimates so far.
        mean: Their decaying mean.
        weight2: The sum of the squared weights in that mean.
        square: The decaying mean of their squared lengths, initialised with the first.
        rate: η.
    """

    step: int
    mean: Array
    weight2: float
    square: float
    rate: float


class SpallState(NamedTuple):
    """The number of steps so far, the number of estimates measured, and their mean size."""

    step: int
    measured: int
    size: float


@final
@dataclass(frozen=True)
class Sgd:
    """The rule behind :func:`sgd`."""

    learning_rate: float | Schedule

    def __post_init__(self) -> None:
        checks.settle(self, learning_rate=_checked_rate(self.learning_rate))

    def init(self, x: Array) -> SgdState:
        """Return the initial state."""
        return SgdState(0)

    def update(self, gradient: Array, state: SgdState, x: Array) -> tuple[Array, SgdState]:
        """Return the change of x and the new state."""
        return -_rate(self.learning_rate, state.step) * gradient, SgdState(state.step + 1)


@final
@dataclass(frozen=True)
class Momentum:
    """The rule behind :func:`momentum`."""

    learning_rate: float | Schedule
    decay: float
    nesterov: bool

    def __post_init__(self) -> None:
        checks.settle(
            self,
            learning_rate=_checked_rate(self.learning_rate),
            decay=checks.share("decay", self.decay, zero=True),
            nesterov=checks.flag("nesterov", self.nesterov),
        )

    def init(self, x: Array) -> MomentumState:
        """Return the initial state."""
        return MomentumState(0, np.zeros_like(x))

    def update(
        self, gradient: Array, state: MomentumState, x: Array
    ) -> tuple[Array, MomentumState]:
        """Return the change of x and the new state."""
        velocity = self.decay * state.velocity + gradient
        along = self.decay * velocity + gradient if self.nesterov else velocity
        change = -_rate(self.learning_rate, state.step) * along
        return change, MomentumState(state.step + 1, velocity)


@final
@dataclass(frozen=True)
class Adam:
    """The rule behind :func:`adam`."""

    learning_rate: float | Schedule
    b1: float
    b2: float
    eps: float

    def __post_init__(self) -> None:
        checks.settle(
            self,
            learning_rate=_checked_rate(self.learning_rate),
            b1=checks.share("b1", self.b1, zero=True),
            b2=checks.share("b2", self.b2, zero=True),
            eps=checks.nonnegative("eps", self.eps),
        )

    def init(self, x: Array) -> AdamState:
        """Return the initial state."""
        return AdamState(0, np.zeros_like(x), np.zeros_like(x))

    def update(self, gradient: Array, state: AdamState, x: Array) -> tuple[Array, AdamState]:
        """Return the change of x and the new state."""
        return self.decayed(gradient, state, x, 0.0)

    def decayed(
        self, gradient: Array, state: AdamState, x: Array, decay: float
    ) -> tuple[Array, AdamState]:
        """Update with the gradient plus ``decay · x``, in one pass over the parameters."""
        t, b1, b2 = state.step + 1, self.b1, self.b2
        size = -_rate(self.learning_rate, state.step) / (1 - b1**t)
        arrays = (gradient, x, state.mean, state.square)
        if type(size) is float and _kernel_accepts(arrays):
            kind = gradient.dtype.type
            numbers = [kind(n) for n in (b1, 1 - b1, b2, 1 - b2, size, 1 - b2**t, self.eps)]
            mean, square, change = (np.empty_like(gradient) for _ in range(3))
            g, here, m, s, new, after, out = (
                each if each.ndim == 1 else each.reshape(-1)
                for each in (*arrays, mean, square, change)
            )
            kernels.on_steps().adam(g, here, kind(decay), m, s, *numbers, new, after, out)
            return change, AdamState(t, mean, square)
        if decay:
            gradient = gradient + decay * x
        mean = b1 * state.mean + (1 - b1) * gradient
        square = b2 * state.square + (1 - b2) * gradient**2
        change = size * mean / (np.sqrt(square / (1 - b2**t)) + self.eps)
        return change, AdamState(t, mean, square)


@final
@dataclass(frozen=True)
class Greedy:
    """The rule behind :func:`greedy`."""

    unit: float
    memory: float
    speed: float

    def __post_init__(self) -> None:
        checks.settle(
            self,
            unit=checks.positive("unit", self.unit),
            memory=checks.share("memory", self.memory, one=True),
            speed=checks.nonnegative("speed", self.speed),
        )

    def init(self, x: Array) -> GreedyState:
        """Return the initial state."""
        return GreedyState(0, np.zeros_like(x), 0.0, 0.0, 0.0)

    def update(self, gradient: Array, state: GreedyState, x: Array) -> tuple[Array, GreedyState]:
        """Return the change of x and the new state."""
        step, mean, weight2, square, rate = state
        dot, d = kernels.on_sums().dot, x.size
        g = np.ravel(gradient)
        size2 = dot(g, g)
        if size2 == 0:
            return np.zeros_like(gradient), state
        if step == 0:
            square = size2
            rate = _FIRST_STEP * self.unit * math.sqrt(d / size2)
        else:
            score = dot(g, np.ravel(mean)) / (square * math.sqrt(weight2 / d))
            rate *= math.exp(self.speed * min(max(score, -_MAX_SCORE), _MAX_SCORE))
        shorter = min(1.0, _SHORTEN_ABOVE * math.sqrt(square / size2))
        if shorter < 1:
            gradient = shorter * gradient
        new = max(1 / (step + 1), self.memory)
        after = GreedyState(
            step=step + 1,
            mean=(1 - new) * mean + new * gradient,
            weight2=(1 - new) ** 2 * weight2 + new**2,
            square=(1 - self.memory) * square + self.memory * shorter**2 * size2,
            rate=rate,
        )
        return -rate * gradient, after


@final
@dataclass(frozen=True)
class WeightDecay:
    """The rule behind :func:`weight_decay`."""

    optimizer: Optimizer
    decay: float

    def __post_init__(self) -> None:
        if not (hasattr(self.optimizer, "init") and hasattr(self.optimizer, "update")):
            raise TypeError(
                "`optimizer` must be an (init, update) pair, such as gs.sgd(0.01), but is "
                f"{checks.shown(self.optimizer)}."
            )
        checks.settle(self, decay=checks.nonnegative("decay", self.decay))

    def init(self, x: Array) -> Any:
        """Return the initial state of the inner optimiser."""
        return self.optimizer.init(x)

    def update(self, gradient: Array, state: Any, x: Array) -> tuple[Array, Any]:
        """Return the change of x and the new state."""
        rule = getattr(self.optimizer.update, "__self__", None)
        if isinstance(rule, Adam):
            return rule.decayed(gradient, state, x, self.decay)
        return self.optimizer.update(gradient + self.decay * x, state, x)


@final
@dataclass(frozen=True)
class Spall:
    """The rule behind :func:`spall`."""

    change: float
    stability: float
    power: float

    def __post_init__(self) -> None:
        checks.settle(
            self,
            change=checks.positive("change", self.change),
            stability=checks.nonnegative("stability", self.stability),
            power=checks.nonnegative("power", self.power),
        )

    def init(self, x: Array) -> SpallState:
        """Return the initial state."""
        return SpallState(0, 0, 0.0)

    def update(self, gradient: Array, state: SpallState, x: Array) -> tuple[Array, SpallState]:
        """Return the change of x and the new state."""
        k, measured, size = state
        g = np.ravel(gradient)
        now = math.sqrt(kernels.on_sums().dot(g, g) / x.size)
        if measured < _NUM_SIZES and now > 0:
            size = size + (now - size) / (measured + 1)
            measured += 1
        rate = 0.0  # a / (A + k + 1)^p with a = change · (A + 1)^p / size
        if size > 0:
            rate = self.change / size / _power(1 + k / (self.stability + 1), self.power)
        return -rate * gradient, SpallState(k + 1, measured, size)


RULES = (Sgd, Momentum, Adam, Greedy, WeightDecay, Spall)


def _pair(rule: Sgd | Momentum | Adam | Greedy | WeightDecay | Spall) -> Optimizer:
    """Return the two functions of a rule."""
    return Optimizer(rule.init, rule.update)


def sgd(learning_rate: float | Schedule) -> Optimizer:
    r"""Gradient descent, :math:`x \leftarrow x - \eta g`, the optimiser of the paper.

    >>> import numpy as np
    >>> optimizer = sgd(0.5)
    >>> change, state = optimizer.update(np.array([2.0]), optimizer.init(np.zeros(1)), np.zeros(1))
    >>> change
    array([-1.])
    """
    return _pair(Sgd(learning_rate))


def momentum(
    learning_rate: float | Schedule, decay: float = 0.9, *, nesterov: bool = False
) -> Optimizer:
    r"""Heavy ball: :math:`m \leftarrow \beta m + g`, :math:`x \leftarrow x - \eta m`.

    Args:
        learning_rate: η.
        decay: β in [0, 1).
        nesterov: Step along :math:`\beta m + g`, with the new m, instead of m.
    """
    return _pair(Momentum(learning_rate, decay, nesterov))


def adam(
    learning_rate: float | Schedule, *, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Optimizer:
    r"""Adam (Kingma and Ba, 2015): steps of about η in every coordinate, whatever the scale of F.

    :math:`m \leftarrow \beta_1 m + (1-\beta_1) g`, :math:`s \leftarrow \beta_2 s + (1-\beta_2)
    g^2`, :math:`x \leftarrow x - \eta \hat m / (\sqrt{\hat s} + \varepsilon)`, where
    :math:`\hat m` and :math:`\hat s` are the bias-corrected means.
    """
    return _pair(Adam(learning_rate, b1, b2, eps))


def greedy(unit: float = 1.0, *, memory: float = 0.05, speed: float = 0.05) -> Optimizer:
    r"""Gradient descent that adapts its step size, for any directions and any estimator.

    The update is :math:`x \leftarrow x - \eta g`. The best step size η makes successive estimates
    orthogonal: on an isotropic quadratic, the mean inner product of two estimates is zero at the
    step size that lowers the value most, positive at smaller step sizes and negative at larger
    ones, at every lag and for any noise (:func:`gensmooth.theory.lagged_product`). With E the
    decaying mean of the estimates so far, q the sum of its squared weights and V the decaying mean
    of :math:`\|g\|^2`,

    .. math:: \log\eta \leftarrow \log\eta + a\,\mathrm{clip}\Bigl(
              \frac{\langle g, E\rangle}{V\sqrt{q/d}}, \pm1.5\Bigr),

    where the clipped quantity has mean 0 and variance about 1 if g is independent of E. The first
    step is as long as a step of 3 % of a unit in every parameter. An estimate more than twice as
    long as usual is shortened to twice the usual length before it enters E and V. Multiplying the
    objective by a positive constant changes nothing.

    The defaults and the first step were chosen on the paper's linear regression with seeds 100 to
    105 and L from 2 to 20. When estimates are mostly noise, smaller speeds are more stable; with a
    speed above 0.1, or a first step ten times as long, such runs may end with a worse value than
    they started with. If estimates shrink faster than E and V forget, η does not change.

    Args:
        unit: The distance between interesting values of a parameter. It only sets the first step.
        memory: The weight of the newest estimate in E and V, that is, 1 over the number of steps
            they remember. During the first steps, E is the plain mean.
        speed: a, the rate at which η adapts.

    >>> import numpy as np
    >>> optimizer = greedy()
    >>> x = np.array([3.0, -4.0])
    >>> state = optimizer.init(x)
    >>> for _ in range(80):
    ...     change, state = optimizer.update(2 * x, state, x)  # the gradient of ‖x‖²
    ...     x = x + change
    >>> bool(np.abs(x).max() < 1e-3)
    True
    """
    return _pair(Greedy(unit, memory, speed))


def weight_decay(optimizer: Optimizer, decay: float) -> Optimizer:
    r"""Apply an optimiser to :math:`g + \lambda x`.

    This is the gradient of :math:`F(x) + \frac\lambda2\|x\|^2`. As in Salimans et al. (2017), who
    use it with Adam, the decay passes through the inner optimiser together with the estimate.

    Args:
        optimizer: The inner optimiser.
        decay: λ.

    >>> import numpy as np
    >>> optimizer = weight_decay(sgd(0.5), 0.1)
    >>> x = np.array([4.0])
    >>> optimizer.update(np.zeros(1), optimizer.init(x), x)[0]
    array([-0.2])
    """
    return _pair(WeightDecay(optimizer, decay))


def spall(change: float, *, stability: float = 0.0, power: float = 0.602) -> Optimizer:
    r"""Gradient descent with Spall's gain sequence, :math:`x \leftarrow x - a_k g`.

    :math:`a_k = a / (A + k + 1)^{0.602}`, where a follows from Spall's rule (Spall, 1998, section
    III): each parameter should change by about ``change`` in the first steps, so
    :math:`a = \text{change}\,(A + 1)^{0.602} / |g|`. Spall averages :math:`|g|` over several
    estimates at the start; here it is the running mean over the first ten steps of the root mean
    square of an estimate's entries. (With one Bernoulli direction, every entry has that size.) If
    you know a, use ``gs.sgd(gs.inverse_decay(a / (A + 1)**0.602, steps=A + 1, power=0.602))``.

    Args:
        change: How far each parameter should move in each of the first steps.
        stability: A. Spall suggests a tenth of the planned number of steps.
        power: The exponent. Convergence theory allows from about 0.602, the slowest decay, to 1.

    >>> import numpy as np
    >>> optimizer = spall(0.1)
    >>> x = np.zeros(2)
    >>> optimizer.update(np.array([30.0, -30.0]), optimizer.init(x), x)[0]
    array([-0.1,  0.1])
    """
    return _pair(Spall(change, stability, power))


@final
@dataclass(frozen=True)
class ExponentialDecay:
    """The schedule made by :func:`exponential_decay`."""

    initial: float
    rate: float
    steps: int

    def __post_init__(self) -> None:
        checks.settle(
            self,
            initial=checks.nonnegative("initial", self.initial),
            rate=checks.positive("rate", self.rate),
            steps=checks.positive("steps", self.steps),
        )

    def __call__(self, step: int) -> float:
        """Return the rate at this step."""
        return self.initial * _power(self.rate, step / self.steps)


@final
@dataclass(frozen=True)
class InverseDecay:
    """The schedule made by :func:`inverse_decay`."""

    initial: float
    steps: float
    power: float

    def __post_init__(self) -> None:
        checks.settle(
            self,
            initial=checks.nonnegative("initial", self.initial),
            steps=checks.positive("steps", self.steps),
            power=checks.nonnegative("power", self.power),
        )

    def __call__(self, step: int) -> float:
        """Return the rate at this step."""
        return self.initial / _power(1 + step / self.steps, self.power)


@final
@dataclass(frozen=True)
class CosineDecay:
    """The schedule made by :func:`cosine_decay`."""

    initial: float
    steps: int
    final: float

    def __post_init__(self) -> None:
        checks.settle(
            self,
            initial=checks.nonnegative("initial", self.initial),
            steps=checks.nonnegative("steps", self.steps),
            final=checks.nonnegative("final", self.final),
        )

    def __call__(self, step: int) -> float:
        """Return the rate at this step."""
        progress = min(step / max(self.steps, 1), 1.0)
        return self.final + 0.5 * (self.initial - self.final) * (1 + math.cos(math.pi * progress))


def exponential_decay(initial: float, *, rate: float, steps: int) -> ExponentialDecay:
    """Return the schedule ``initial · rate^(step/steps)``.

    >>> exponential_decay(0.1, rate=0.5, steps=10)(20)
    0.025
    """
    return ExponentialDecay(initial, rate, steps)


def inverse_decay(initial: float, *, steps: float = 1.0, power: float = 1.0) -> InverseDecay:
    """Return ``initial / (1 + step/steps)^power``, the usual decay in stochastic approximation."""
    return InverseDecay(initial, steps, power)


def cosine_decay(initial: float, *, steps: int, final: float = 0.0) -> CosineDecay:
    """Return half a cosine from ``initial`` to ``final`` over ``steps`` steps, then constant.

    >>> cosine_decay(0.1, steps=10)(5)
    0.05
    """
    return CosineDecay(initial, steps, final)


def _kernel_accepts(arrays: tuple[Array, ...]) -> bool:
    """Whether the kernel accepts these arrays: contiguous, of one shape and one float dtype."""
    first = arrays[0]
    return (
        type(first) is np.ndarray
        and first.dtype.char in "fd"
        and all(
            type(each) is np.ndarray
            and each.dtype == first.dtype
            and each.shape == first.shape
            and each.flags.c_contiguous
            for each in arrays
        )
    )


def _checked_rate(learning_rate: float | Schedule) -> float | Schedule:
    if callable(learning_rate):
        return learning_rate
    return float(checks.positive("learning_rate", learning_rate))


def _rate(learning_rate: float | Schedule, step: int) -> float:
    if not callable(learning_rate):
        return learning_rate
    rate = learning_rate(step)
    try:
        float(rate)
    except Exception:  # a user's schedule may return anything
        raise TypeError(
            "The schedule `learning_rate` must return numbers, but returned "
            f"{checks.shown(rate)} at step {step}."
        ) from None
    return rate


def _power(base: float, exponent: float) -> float:
    try:
        return base**exponent
    except OverflowError:
        return math.inf


def choose_optimizer(optimizer: object, learning_rate: object) -> Optimizer | None:
    """Return the optimiser that a user's arguments select, or ``None`` if both are ``None``.

    Raises:
        ValueError: If both are passed, or the learning rate is not positive.
        TypeError: If the optimiser is not a pair.
    """
    if optimizer is None:
        if learning_rate is None:
            return None
        return sgd(float(checks.positive("learning_rate", learning_rate)))
    if learning_rate is not None:
        raise ValueError("Pass either `learning_rate` or `optimizer`, not both.")
    if hasattr(optimizer, "init") and hasattr(optimizer, "update"):
        return cast(Optimizer, optimizer)
    expected = (
        "`optimizer` must be an (init, update) pair such as gs.sgd(0.01), or an Optax "
        f"transformation, but is {checks.shown(optimizer)}."
    )
    if isinstance(optimizer, Real):
        number = checks.shown(optimizer)
        expected += (
            f" For plain gradient steps, pass learning_rate={number}; for Adam with a rate that "
            f"falls to 0, optimizer=gs.adam(gs.cosine_decay({number}, steps=1000))."
        )
    raise TypeError(expected)
