r"""Policies: functions from observation to action, with all parameters in one flat vector.

A :class:`Policy` holds only the sizes of the layers; its parameters are the x of the search. The
vector contains, layer by layer, the weight matrix of shape (out, in) in row-major order, then the
biases, if any. Hidden layers use tanh, and the last layer is linear:

.. math:: h_0 = (o - \mu) / s, \qquad h_k = \tanh(W_k h_{k-1} + b_k), \qquad a = W_K h_{K-1} + b_K.

For a discrete action space, the last layer returns one score per action, and the action with the
largest score is chosen.
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
    """The position of a layer in the flat vector: weights, then biases."""

    start: int
    rows: int
    columns: int
    bias: bool

    @property
    def bias_start(self) -> int:
        """The index where the weights end and the biases begin."""
        return self.start + self.rows * self.columns

    @property
    def stop(self) -> int:
        """The index where the layer ends."""
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
        expected = "at least two whole numbers of at least 1 (observation, hidden layers, action)"
        sizes = _counts("sizes", self.sizes, 2, expected)
        checks.settle(self, sizes=sizes, biases=checks.flag("biases", self.biases))

    @property
    def num_parameters(self) -> int:
        """The length of the flat vector: the d of the search."""
        return sum(n * m + (m if self.biases else 0) for n, m in pairwise(self.sizes))

    def layers(self) -> Iterator[Layer]:
        """Return the position of each layer, from first to last."""
        start = 0
        for columns, rows in pairwise(self.sizes):
            layer = Layer(start, rows, columns, self.biases)
            yield layer
            start = layer.stop

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the weights and biases in the flat vector.

        >>> Policy((11, 32, 3), biases=True).shapes
        ((32, 11), (32,), (3, 32), (3,))
        """
        return tuple(
            shape
            for layer in self.layers()
            for shape in ((layer.rows, layer.columns), *(((layer.rows,),) if layer.bias else ()))
        )

    def initial(self, seed: int) -> Array:
        r"""Return the initial parameters of a search.

        Without hidden layers they are zero, as in the paper, so the initial action is zero. With
        hidden layers, the hidden weights are uniform on :math:`\pm\sqrt{6/(in + out)}` (Glorot &
        Bengio, 2010), and the last layer and all biases are zero, so the initial action is zero
        too. The paper does not specify the initial weights of a network. If all were zero, the
        gradient would vanish in all weights. If the last layer were random too, Ant would start at
        a return of −300, where doing nothing earns 994, and none of the paper's methods learned
        anything from there in 1000 steps (docs/results).
        """
        x = np.zeros(self.num_parameters)
        if len(self.sizes) == 2:
            return x
        rng = streams.generator(seed, Purpose.START)
        for layer in list(self.layers())[:-1]:
            limit = math.sqrt(6 / (layer.rows + layer.columns))
            x[layer.start : layer.bias_start] = rng.uniform(
                -limit, limit, layer.rows * layer.columns
            )
        return x

    def act(self, parameters: Array, observation: Array) -> Array:
        """Return the action (or the scores of the actions) for a standardised observation.

        The sums are NumPy's, because the bits of a BLAS sum depend on the number of threads.
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
        """Return the parameters as a float64 vector; raises if their shape is wrong."""
        x = np.asarray(parameters, np.float64)
        if x.shape != (self.num_parameters,):
            raise ValueError(
                f"A policy with sizes {self.sizes}{' and biases' if self.biases else ''} has "
                f"{self.num_parameters} parameters, but `parameters` has shape {x.shape}."
            )
        return x


@final
@dataclass(frozen=True)
class Linear:
    """A linear policy without hidden layers or biases; its initial parameters are zero.

    >>> Linear().policy(11, 3)
    Policy(sizes=(11, 3), biases=False)
    """

    def policy(self, observation_size: int, action_size: int) -> Policy:
        """Return the policy for an environment with these sizes."""
        return Policy((observation_size, action_size))


@final
@dataclass(frozen=True)
class MLP:
    """A policy with tanh hidden layers and biases; by default one layer of 32, as in the paper.

    >>> MLP().policy(111, 8).num_parameters
    3848
    """

    hidden: tuple[int, ...] = (32,)
    biases: bool = True

    def __post_init__(self) -> None:
        expected = "the sizes of the hidden layers, such as (32,) or (64, 64)"
        hidden = _counts("hidden", self.hidden, 1, expected)
        checks.settle(self, hidden=hidden, biases=checks.flag("biases", self.biases))

    def policy(self, observation_size: int, action_size: int) -> Policy:
        """Return the policy for an environment with these sizes."""
        return Policy((observation_size, *self.hidden, action_size), self.biases)


def architecture(name: object, hidden: Sequence[int] = (32,)) -> Linear | MLP:
    """Return the architecture that ``policy=`` specifies, by name or as an object."""
    if isinstance(name, Linear | MLP):
        return name
    if isinstance(name, str) and name in ("linear", "mlp"):
        return Linear() if name == "linear" else MLP(cast(Any, hidden))
    hint = ""
    if callable(name):
        hint = (
            " To train a custom policy, write an objective fun(x, rng) that runs an episode with "
            "it and returns the sum of rewards, and call gs.minimize(fun, x0, maximize=True, "
            "samples='independent'); see docs/rl.md for an example."
        )
    raise ValueError(
        "`policy` must be 'linear', 'mlp', gs.rl.Linear() or gs.rl.MLP(hidden=(32,)), but is "
        f"{checks.shown(name)}.{hint}"
    )


def _counts(name: str, sizes: object, least: int, expected: str) -> tuple[int, ...]:
    """Check for at least ``least`` positive integers; ``expected`` describes them in the error."""
    counts = cast(Sequence[object], sizes if isinstance(sizes, list | tuple) else ())
    try:
        if len(counts) < least:
            raise ValueError
        return tuple([checks.count(name, size) for size in counts])
    except ValueError:
        raise ValueError(
            f"`{name}` must be {expected}, but is {checks.shown(cast(object, sizes))}."
        ) from None
