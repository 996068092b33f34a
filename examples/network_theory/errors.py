r"""The measured error of gradient estimates beside what the Lemma predicts.

The gradient :math:`g` of the mean loss over M examples is known from backpropagation, and with it
the squared errors :math:`\|\hat g - g\|^2` of estimates that see values only. The predictions use
:math:`\|g\|^2`, the variance of the examples' gradients, and the Hessian's squares, all measured by
backpropagation, and nothing that is fitted.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from examples.network_theory.landscape import hessian_squares
from examples.network_theory.settings import Settings
from examples.network_theory.tasks import Batch, Task, Tensor, loss_of
from torch import nn
from torch.func import functional_call, vmap

import gensmooth as gs
from gensmooth import theory

Array = np.ndarray
Row = dict[str, Any]


class Network:
    """The loss of a network on some examples as a function of a flat array.

    Args:
        model: The network.
        parameters: Its parameters by name.
        batch: Inputs and answers.
        only: The name of the parameter that varies, the others fixed; by default all vary.
        dtype: In which values are computed.
    """

    def __init__(
        self,
        model: nn.Module,
        parameters: Mapping[str, Tensor],
        batch: Batch,
        *,
        only: str | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        self.model, self.dtype = model, dtype
        self.fixed = {name: w.to(dtype) for name, w in parameters.items()}
        self.free = [only] if only else list(parameters)
        self.shapes = [tuple(parameters[name].shape) for name in self.free]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.dim = sum(self.sizes)
        inputs, self.answers = batch
        self.inputs = inputs.to(dtype) if inputs.is_floating_point() else inputs
        self.x = np.concatenate([self.fixed[name].numpy().ravel() for name in self.free])

    def _loss(self, flat: Tensor, which: slice | Tensor = slice(None)) -> Tensor:
        parts = flat.split(self.sizes)
        moved = {
            name: part.view(shape)
            for name, part, shape in zip(self.free, parts, self.shapes, strict=True)
        }
        scores = functional_call(self.model, self.fixed | moved, (self.inputs[which],))
        return loss_of(scores, self.answers[which])

    def values(self, points: Array) -> Array:
        """The mean loss over the examples at each of several points."""
        with torch.no_grad():
            return vmap(self._loss)(torch.from_numpy(points).to(self.dtype)).double().numpy()

    def noisy(self, number: int) -> Callable[[Array, list[np.random.Generator]], Array]:
        """The mean loss over `number` examples that a generator draws, with replacement."""

        def values(points: Array, rngs: list[np.random.Generator]) -> Array:
            drawn = np.stack([rng.integers(0, len(self.answers), number) for rng in rngs])
            with torch.no_grad():
                return vmap(self._loss)(torch.from_numpy(points), torch.from_numpy(drawn)).numpy()

        return values

    def gradient(self, which: slice = slice(None)) -> Array:
        """By backpropagation."""
        flat = torch.from_numpy(self.x).requires_grad_()
        return torch.autograd.grad(self._loss(flat, which), flat)[0].numpy()

    def noise(self, gradient: Array) -> Array:
        """The gradient of each example, less that of all."""
        each = [self.gradient(slice(i, i + 1)) for i in range(len(self.answers))]
        return np.stack(each) - gradient

    def times_hessian(self) -> Callable[[Array], Array]:
        """The map v → Hv, by backpropagation through backpropagation."""
        flat = torch.from_numpy(self.x).requires_grad_()
        slope = torch.autograd.grad(self._loss(flat), flat, create_graph=True)[0]

        def product(v: Array) -> Array:
            found = torch.autograd.grad(slope, flat, torch.from_numpy(v), retain_graph=True)
            return found[0].numpy()

        return product


class Curvature(NamedTuple):
    """What the predictions need of a Hessian, estimated from products with coins z.

    Attributes:
        trace: The mean of zᵀHz.
        trace_error: Its standard error.
        frobenius2: The mean of ‖Hz‖².
        diagonal2: The product of two independent estimates of the diagonal, z ∘ Hz.
        along: gᵀHg.
        noise_along: tr(HV), V the variance of one example's gradient.
        dim: d.
    """

    trace: float
    trace_error: float
    frobenius2: float
    diagonal2: float
    along: float
    noise_along: float
    dim: int


def curvature(network: Network, gradient: Array, noise: Array, probes: int) -> Curvature:
    """The Hessian's squares from `probes` products."""
    product, rng = network.times_hessian(), np.random.default_rng(0)
    traces, lengths, halves = [], [], np.zeros((2, network.dim))
    for i in range(probes):
        z = rng.choice([-1.0, 1.0], network.dim)
        image = product(z)
        traces.append(float(z @ image))
        lengths.append(float(image @ image))
        halves[i % 2] += z * image * 2 / probes
    return Curvature(
        float(np.mean(traces)),
        float(np.std(traces, ddof=1) / math.sqrt(probes)),
        float(np.mean(lengths)),
        float(halves[0] @ halves[1]),
        float(gradient @ product(gradient)),
        float(np.mean([each @ product(each) for each in noise])),
        network.dim,
    )


# --- families ------------------------------------------------------------------------------------


def matrices(shapes: list[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Shapes as low-rank directions see them: of two axes or one."""
    return tuple((shape[0], math.prod(shape[1:])) if len(shape) > 1 else shape for shape in shapes)


def families(network: Network) -> dict[str, gs.directions.Directions]:
    """The directions that are compared."""
    return {
        "gs": gs.Gaussian(),
        "bes": gs.Bernoulli(),
        "gs-shrinkage": gs.shrunk(gs.Gaussian()),
        "bes-shrinkage": gs.shrunk(gs.Bernoulli()),
        "orthogonal": gs.Orthogonal(),
        "low-rank": gs.LowRank(rank=1, shape=matrices(network.shapes)),
    }


def lemma(
    network: Network, directions: gs.directions.Directions, gradient: Array, num_directions: int
) -> float:
    r"""The MSE without noise, in the limit of a small spacing.

    Low-rank directions of parts that differ in shape have no one factor on :math:`\|g\|^2`, but
    each part has its own :math:`s_p` (that of its matrix plus the entries of the other parts), so

    .. math:: E\|\hat g - g\|^2 = \sum_p \frac{s_p - 1}L\|g_p\|^2 .
    """
    d, L = network.dim, num_directions
    if not isinstance(directions, gs.LowRank):
        moments = directions.moments(d, L)
        return theory.relative_mse(moments) * float(gradient @ gradient)
    total = 0.0
    parts = np.split(gradient, np.cumsum(network.sizes)[:-1])
    for part, shape in zip(parts, directions.shapes, strict=True):
        moments = theory.low_rank(*shape, L) if len(shape) == 2 else theory.iid(part.size, L)
        total += (moments.fourth + d - part.size - 1.0) / L * float(part @ part)
    return total


# --- measuring -----------------------------------------------------------------------------------


def squared_errors(
    fun: Callable[..., Array],
    x: Array,
    gradient: Array,
    directions: gs.directions.Directions,
    *,
    num_directions: int,
    spacing: float,
    repetitions: int,
    first_seed: int,
    estimator: str = "forward",
    samples: Any = None,
) -> Array:
    """‖ĝ − g‖² of estimates whose seeds follow each other."""
    chosen = gs.Antithetic() if estimator == "antithetic" else gs.ForwardDifference()
    found = np.empty(repetitions)
    for r in range(repetitions):
        estimate = gs.gradient(
            fun,
            x,
            directions=directions,
            num_directions=num_directions,
            spacing=spacing,
            estimator=chosen,
            samples=samples,
            vectorized=True,
            seed=first_seed + r,
        )
        found[r] = np.square(estimate.gradient.astype(np.float64) - gradient).sum()
    return found


def row(errors: Array, predicted: float, gradient_norm2: float, **facts: Any) -> Row:
    """A measurement: relative to ‖g‖², with its standard error and z-score."""
    measured, error = float(errors.mean()), float(errors.std(ddof=1) / math.sqrt(errors.size))
    return facts | {
        "repetitions": errors.size,
        "measured": measured / gradient_norm2,
        "standard_error": error / gradient_norm2,
        "predicted": predicted / gradient_norm2,
        "ratio": measured / predicted,
        "z": (measured - predicted) / error,
    }


def at_checkpoint(
    task: Task,
    parameters: Mapping[str, Tensor],
    settings: Settings,
    *,
    shifted: bool,
    first_seed: int,
) -> tuple[Row, Iterator[Row]]:
    """All measurements at one set of parameters: facts of the landscape, and rows of errors.

    Seeds of estimates are counted from `first_seed` on, fewer than 100,000 of them.
    """
    model, batch = task.new(), task.data(settings.examples, [10], shifted=shifted)
    whole = Network(model, parameters, batch)
    g = whole.gradient()
    G = float(g @ g)
    noises = whole.noise(g)
    noise = float(np.square(noises).sum(1).mean())
    hessian = curvature(whole, g, noises, settings.probes)
    landscape = {
        "loss": float(whole.values(whole.x[None])[0]),
        "gradient_norm2": G,
        "noise_trace": noise,
        **hessian._asdict(),
    }

    def rows() -> Iterator[Row]:
        L, R, seed = settings.num_directions, settings.repetitions, first_seed
        yield from _limit(whole, g, L, R, settings, "all", seed)
        one = Network(model, parameters, batch, only=task.matrix)
        L, R = settings.matrix_directions, settings.matrix_repetitions
        yield from _limit(one, one.gradient(), L, R, settings, task.matrix, seed + 10_000)
        yield from _noisy(whole, g, noise, settings, seed + 20_000)
        single = Network(model, parameters, batch, dtype=torch.float32)
        yield from _spaced(whole, single, g, hessian, settings, seed + 30_000)

    return landscape, rows()


def _limit(
    network: Network, g: Array, L: int, R: int, settings: Settings, part: str, first_seed: int
) -> Iterator[Row]:
    """Every family at a spacing so small that the Lemma's limit is reached."""
    for i, (name, directions) in enumerate(families(network).items()):
        errors = squared_errors(
            network.values,
            network.x,
            g,
            directions,
            num_directions=L,
            spacing=settings.spacing,
            repetitions=R,
            first_seed=first_seed + 1000 * i,
        )
        facts = {"what": "limit", "part": part, "directions": name, "dim": network.dim}
        facts |= {"num_directions": L, "spacing": settings.spacing}
        yield row(errors, lemma(network, directions, g, L), float(g @ g), **facts)


def _noisy(
    network: Network, g: Array, noise: float, settings: Settings, first_seed: int
) -> Iterator[Row]:
    """Coins on minibatches: one for all points of an estimate, or one for each direction."""
    L, G = settings.num_directions, float(g @ g)
    for i, samples in enumerate(("shared", "paired")):
        errors = squared_errors(
            network.noisy(settings.batch),
            network.x,
            g,
            gs.Bernoulli(),
            num_directions=L,
            spacing=settings.spacing,
            repetitions=settings.noise_repetitions,
            first_seed=first_seed + 1000 * i,
            samples=samples,
        )
        predicted = theory.mse(
            theory.iid(network.dim, L, kurtosis=1.0),
            gradient_norm2=G,
            noise_trace=noise,
            num_samples=settings.batch,
            samples=samples,
        )
        facts = {"what": "minibatch", "part": "all", "directions": "bes", "dim": network.dim}
        facts |= {"num_directions": L, "spacing": settings.spacing, "samples": samples}
        yield row(errors, predicted, G, **facts)


def _spaced(
    double: Network,
    single: Network,
    g: Array,
    hessian: Curvature,
    settings: Settings,
    first_seed: int,
) -> Iterator[Row]:
    """Coins at several spacings: forward and antithetic in float64, forward in float32.

    In float32 each value is rounded. That is value noise, of a variance that is measured as the
    mean square of what float32 and float64 differ by, less their mean, around the parameters.
    """
    L, d, G = settings.num_directions, double.dim, float(g @ g)
    moments = theory.iid(d, L, kurtosis=1.0)
    rng = np.random.default_rng(1)
    coins = rng.choice([-1, 1], (settings.probes, d)).astype(np.float32)
    near = single.x + np.float32(1e-4) * coins
    rounding = float(np.var(single.values(near) - double.values(near.astype(np.float64))))
    cases = [
        ("forward", double, settings.spacings),
        ("antithetic", double, settings.spacings),
        ("forward", single, settings.single_spacings),
    ]
    for i, (estimator, network, spacings) in enumerate(cases):
        for j, c in enumerate(spacings):
            errors = squared_errors(
                network.values,
                network.x,
                g,
                gs.Bernoulli(),
                num_directions=L,
                spacing=c,
                repetitions=settings.spacing_repetitions,
                first_seed=first_seed + 1000 * i + 100 * j,
                estimator=estimator,
            )
            predicted = theory.relative_mse(moments) * G
            if estimator == "forward":
                predicted += theory.quadratic_spacing_mse(
                    d, L, spacing=c, **hessian_squares(hessian._asdict()), kurtosis=1.0, sixth=1.0
                )
            if network is single:
                noisy = theory.mse_terms(
                    moments,
                    gradient_norm2=G,
                    samples="independent",
                    spacing=c,
                    value_variance=rounding,
                )
                predicted += noisy.value_noise
            facts = {"what": "spacing", "part": "all", "directions": "bes", "dim": d}
            facts |= {"num_directions": L, "spacing": c, "estimator": estimator}
            facts |= {"dtype": str(network.dtype).removeprefix("torch.")}
            yield row(errors, predicted, G, **facts)
