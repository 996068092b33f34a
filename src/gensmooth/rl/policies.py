r"""Policies: from an observation to an action, all parameters in one flat vector.

A policy is a shape without numbers; the numbers are the x of the search. The layout of the vector
is layer by layer: the weight matrix of shape (out, in) row after row, then the layer's bias if
there are biases. Hidden layers have tanh, the last layer is linear:

.. math:: h_0 = (o - \mu) / s, \qquad h_k = \tanh(W_k h_{k-1} + b_k), \qquad a = W_K h_{K-1} + b_K.

For a discrete action space the last layer has one score per action, and the action with the
largest score is taken.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, cast, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, streams
from gensmooth.streams import Purpose

Array = NDArray[np.float64]


class Layer(NamedTuple):
    """Where a layer lies in the flat vector: weights, then biases, then the next layer."""

    start: int
    rows: int
    columns: int
    bias: bool

    @property
    def bias_start(self) -> int:
        """Where the weights end and the biases begin."""
        return self.start + self.rows * self.columns

    @property
    def stop(self) -> int:
        """Where the layer ends."""
        return self.bias_start + (self.rows if self.bias else 0)


@final
@dataclass(frozen=True)
class Policy:
    """The shape of a policy.

    Attributes:
        sizes: The sizes of the observation, of each hidden layer, and of the action.
        biases: Whether the layers have biases.

    >>> Policy((11, 3)).num_parameters, Policy((11, 32, 3), biases=True).num_parameters
    (33, 483)
    """

    sizes: tuple[int, ...]
    biases: bool = False

    def __post_init__(self) -> None:
        what = "at least two whole numbers of at least 1 (observation, hidden layers, action)"
        sizes = _counts("sizes", self.sizes, 2, what)
        checks.settle(self, sizes=sizes, biases=checks.flag("biases", self.biases))

    @property
    def num_parameters(self) -> int:
        """The length of the flat vector: the d of the search."""
        return sum(n * m + (m if self.biases else 0) for n, m in pairwise(self.sizes))

    @property
    def is_linear(self) -> bool:
        """Whether there is no hidden layer."""
        return len(self.sizes) == 2

    def layers(self) -> Iterator[Layer]:
        """Where each layer lies, from the first to the last."""
        start = 0
        for columns, rows in pairwise(self.sizes):
            layer = Layer(start, rows, columns, self.biases)
            yield layer
            start = layer.stop

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the weights and biases that the flat vector is made of.

        >>> Policy((11, 32, 3), biases=True).shapes
        ((32, 11), (32,), (3, 32), (3,))
        """
        return tuple(
            shape
            for layer in self.layers()
            for shape in ((layer.rows, layer.columns), *(((layer.rows,),) if layer.bias else ()))
        )

    def initial(self, seed: int) -> Array:
        r"""The parameters that a search starts from.

        Without a hidden layer they are zero, as in the paper: the policy does nothing. So it does
        with hidden layers, whose weights are uniform on :math:`\pm\sqrt{6/(in + out)}` (Glorot &
        Bengio, 2010); the last layer and all biases are zero. The paper does not say where a
        network starts. At zero the gradient in all weights vanishes; with weights of that size in
        the last layer too, Ant begins with a return of −300, where doing nothing earns 994, and
        none of the paper's methods learned anything in 1000 iterations (docs/results).
        """
        x = np.zeros(self.num_parameters)
        if self.is_linear:
            return x
        rng = streams.generator(seed, Purpose.START)
        for layer in list(self.layers())[:-1]:
            limit = math.sqrt(6 / (layer.rows + layer.columns))
            x[layer.start : layer.bias_start] = rng.uniform(
                -limit, limit, layer.rows * layer.columns
            )
        return x

    def act(self, parameters: Array, observation: Array) -> Array:
        """The action (or the scores of the actions) at a standardised observation.

        Sums run in NumPy's own order, not in BLAS, whose bits depend on the number of threads.
        """
        hidden = observation
        last = len(self.sizes) - 2
        for number, layer in enumerate(self.layers()):
            weights = parameters[layer.start : layer.bias_start].reshape(layer.rows, layer.columns)
            out = (weights * hidden).sum(axis=1)
            if layer.bias:
                out += parameters[layer.bias_start : layer.stop]
            hidden = np.tanh(out) if number < last else out
        return hidden

    def check(self, parameters: Any) -> Array:
        """Parameters as a float64 vector of the right length, or an error."""
        x = np.asarray(parameters, np.float64)
        if x.shape != (self.num_parameters,):
            raise ValueError(
                f"A policy with sizes {self.sizes}{' and biases' if self.biases else ''} has "
                f"{self.num_parameters} parameters, but the vector given has shape {x.shape}."
            )
        return x


@final
@dataclass(frozen=True)
class Linear:
    """A linear policy: no hidden layer, no biases; a search starts at zero.

    >>> Linear().policy(11, 3)
    Policy(sizes=(11, 3), biases=False)
    """

    def policy(self, observation_size: int, action_size: int) -> Policy:
        """The policy for an environment."""
        return Policy((observation_size, action_size))


@final
@dataclass(frozen=True)
class MLP:
    """A policy with tanh hidden layers and biases; by default the paper's one layer of 32.

    >>> MLP().policy(111, 8).num_parameters
    3848
    """

    hidden: tuple[int, ...] = (32,)
    biases: bool = True

    def __post_init__(self) -> None:
        what = "the sizes of the hidden layers, such as (32,) or (64, 64)"
        hidden = _counts("hidden", self.hidden, 1, what)
        checks.settle(self, hidden=hidden, biases=checks.flag("biases", self.biases))

    def policy(self, observation_size: int, action_size: int) -> Policy:
        """The policy for an environment."""
        return Policy((observation_size, *self.hidden, action_size), self.biases)


def architecture(name: object, hidden: Sequence[int] = (32,)) -> Linear | MLP:
    """The architecture that ``policy=`` means: a name, or the object itself."""
    if isinstance(name, Linear | MLP):
        return name
    if isinstance(name, str) and name in ("linear", "mlp"):
        return Linear() if name == "linear" else MLP(cast(Any, hidden))
    own = ""
    if callable(name):
        own = (
            " A policy of your own is an objective: let fun(x, rng) run an episode with it and "
            "return the sum of rewards, and call gs.minimize(fun, x0, maximize=True, "
            "samples='independent'); docs/rl.md has one."
        )
    raise ValueError(
        "`policy` must be 'linear', 'mlp', gs.rl.Linear() or gs.rl.MLP(hidden=(32,)), but is "
        f"{checks.shown(name)}.{own}"
    )


def _counts(name: str, sizes: object, least: int, what: str) -> tuple[int, ...]:
    """At least ``least`` whole numbers of at least 1, or words on ``what`` they must be."""
    given = cast(Sequence[object], sizes if isinstance(sizes, list | tuple) else ())
    try:
        if len(given) < least:
            raise ValueError
        return tuple([checks.count(name, size) for size in given])
    except ValueError:
        raise ValueError(
            f"`{name}` must be {what}, but is {checks.shown(cast(object, sizes))}."
        ) from None
