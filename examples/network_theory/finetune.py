"""Fine-tuning from values of the loss alone, at equal numbers of forward passes.

All runs begin with the network as trained on the first task, and see fresh batches of the shifted
one. A forward pass is one evaluation of the loss on one batch. Backpropagation, for reference,
counts three for a step: forward, and backward at twice the price. The loss that is recorded is that
on further examples of the shifted task; recording it is not counted. Learning rates are chosen
on some seeds and reported on others, with other examples.
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from examples.network_theory.settings import Settings
from examples.network_theory.tasks import Batch, Task, Tensor, accuracy_of, batches, loss_of
from torch import nn

import gensmooth as gs
from gensmooth import theory

SPACING = 1e-3
NUMBERS = (1, 8, 32)
KURTOSIS = {"gs": 3.0, "bes": 1.0}
BACKPROP_PASSES = 3
_LOST = 20.0  # a loss so many times that of the start has diverged


class Diverged(Exception):  # noqa: N818
    """The loss has left all bounds."""


class Run(NamedTuple):
    """What is run.

    Attributes:
        task: Whose name.
        method: ``"gs"``, ``"bes"``, ``"pilot"`` or ``"backprop"``.
        num_directions: L; 0 where the method has none or its own.
        rate: The multiple of L/(L + d + k − 2) that is the learning rate (gs, bes), the learning
            rate (backprop), or 0 (pilot, which finds its own).
        seed: Of batches and directions.
    """

    task: str
    method: str
    num_directions: int
    rate: float
    seed: int

    @property
    def name(self) -> str:
        """A file name."""
        return "finetune-" + "-".join(str(part) for part in self)


class Recorder:
    """Loss and accuracy on the held-out examples, after given numbers of forward passes.

    Of the steps of a run, the last that is within such a number is recorded.
    """

    def __init__(self, model: nn.Module, held_out: Batch, settings: Settings) -> None:
        self.model, self.held_out, self.settings = model, held_out, settings
        self.last = 0
        self.rows: list[tuple[int, float, float]] = []
        self(0)

    def __call__(self, passes: int, x: np.ndarray | None = None) -> None:
        """Record, if the next step would be too late."""
        next_one, self.last = passes + max(passes - self.last, 1), passes
        if next_one <= len(self.rows) * self.settings.budget / self.settings.records:
            return
        if x is not None:
            load(self.model, x)
        with torch.no_grad():
            scores = self.model(self.held_out[0])
        loss = float(loss_of(scores, self.held_out[1]))
        self.rows.append((passes, loss, accuracy_of(scores, self.held_out[1])))


def load(model: nn.Module, x: np.ndarray) -> None:
    """Put a flat array into the parameters."""
    torch.nn.utils.vector_to_parameters(torch.from_numpy(x), model.parameters())


def rate_of(run: Run, dim: int) -> float:
    """The learning rate, η = κ L/(L + d + k − 2)."""
    kurtosis = KURTOSIS[run.method]
    return run.rate * theory.optimal_variance(dim, run.num_directions, kurtosis=kurtosis)


def train(task: Task, start: Mapping[str, Tensor], run: Run, settings: Settings) -> dict[str, Any]:
    """One run; its records, and the mean of its last third of them as its score."""
    model = task.new()
    model.load_state_dict(dict(start))
    which = 21 if run.seed in settings.tuning_seeds else 20  # rates are chosen on other examples
    recorder = Recorder(model, task.data(settings.held_out, [which], shifted=True), settings)
    limit = _LOST * recorder.rows[0][1]
    ways = {"gs": _zeroth_order, "bes": _zeroth_order, "pilot": _pilot, "backprop": _backprop}
    facts: dict[str, Any] = {}
    try:
        facts = ways[run.method](task, model, run, settings, recorder, limit)
        lost = not math.isfinite(recorder.rows[-1][1]) or recorder.rows[-1][1] > limit
    except Diverged:
        lost = True
    tail = recorder.rows[-max(len(recorder.rows) // 3, 1) :]
    score = math.inf if lost else float(np.mean([loss for _, loss, _ in tail]))
    return run._asdict() | facts | {"score": score, "curve": recorder.rows}


def _checked(loss: Tensor, limit: float) -> Tensor:
    if not float(loss.detach()) <= limit:
        raise Diverged
    return loss


def _zeroth_order(
    task: Task, model: nn.Module, run: Run, settings: Settings, recorder: Recorder, limit: float
) -> dict[str, Any]:
    dim = sum(w.numel() for w in model.parameters())
    rate = rate_of(run, dim)
    opt = gs.torch.ZerothOrder(
        model,
        lr=rate,
        spacing=SPACING,
        num_directions=run.num_directions,
        method=run.method,
        estimator="forward",
        mode="copy",  # the same bits as layer by layer, and the networks are small
        seed=run.seed,
    )
    passes = run.num_directions + 1
    data = batches(task, settings.tuning_batch, 1000 + run.seed, shifted=True)
    for step, (inputs, answers) in enumerate(islice(data, settings.budget // passes)):

        def closure(inputs: Tensor = inputs, answers: Tensor = answers) -> Tensor:
            return _checked(loss_of(model(inputs), answers), limit)

        opt.step(closure)
        recorder((step + 1) * passes)
    return {"learning_rate": rate}


def _pilot(
    task: Task, model: nn.Module, run: Run, settings: Settings, recorder: Recorder, limit: float
) -> dict[str, Any]:
    """The default of gs.minimize on the flat parameters; a batch is a sample that points share."""
    work = task.new()

    @lru_cache(maxsize=4)
    def batch(seed: int) -> Batch:
        return task.data(settings.tuning_batch, [2000 + run.seed, seed], shifted=True)

    def fun(x: np.ndarray, rng: np.random.Generator) -> float:
        inputs, answers = batch(int(rng.integers(2**31)))
        load(work, x)
        with torch.no_grad():
            return float(_checked(loss_of(work(inputs), answers), limit))

    x0 = torch.nn.utils.parameters_to_vector(model.parameters()).detach().numpy().copy()
    gs.minimize(
        fun,
        x0,
        samples="shared",
        budget=settings.budget,
        seed=run.seed,
        callback=lambda now: recorder(now.nfev, now.state.x),
        progress=False,
    )
    return {}


def _backprop(
    task: Task, model: nn.Module, run: Run, settings: Settings, recorder: Recorder, limit: float
) -> dict[str, Any]:
    optimizer = torch.optim.Adam(model.parameters(), lr=run.rate)
    data = batches(task, settings.tuning_batch, 1000 + run.seed, shifted=True)
    for step, (inputs, answers) in enumerate(islice(data, settings.budget // BACKPROP_PASSES)):
        optimizer.zero_grad()
        _checked(loss_of(model(inputs), answers), limit).backward()
        optimizer.step()
        recorder((step + 1) * BACKPROP_PASSES)
    return {"learning_rate": run.rate}


# --- which runs there are ------------------------------------------------------------------------


def tuning_runs(task: Task, settings: Settings) -> list[Run]:
    """The grid, on the tuning seeds."""
    return [
        Run(task.name, method, number, rate, seed)
        for method, number, rates in _arms(settings)
        for rate in rates
        for seed in settings.tuning_seeds
    ]


def reporting_runs(task: Task, settings: Settings, score: Callable[[Run], float]) -> list[Run]:
    """The best of the grid on the other seeds, and the pilot, which has nothing to tune."""

    def best(method: str, number: int, rates: tuple[float, ...]) -> float:
        def mean(rate: float) -> float:
            runs = [Run(task.name, method, number, rate, seed) for seed in settings.tuning_seeds]
            return float(np.mean([score(run) for run in runs]))

        return min(rates, key=mean)

    chosen = [(method, L, best(method, L, rates)) for method, L, rates in _arms(settings)]
    return [
        Run(task.name, method, L, rate, seed)
        for method, L, rate in [*chosen, ("pilot", 0, 0.0)]
        for seed in settings.seeds
    ]


def _arms(settings: Settings) -> list[tuple[str, int, tuple[float, ...]]]:
    zeroth = [(m, L, settings.multiples) for m in KURTOSIS for L in NUMBERS]
    return [*zeroth, ("backprop", 0, settings.backprop_rates)]
