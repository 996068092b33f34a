r"""A torch optimiser that needs no gradient: random search on the parameters of a model.

.. math:: w \leftarrow w - \eta\,\frac1{cL}\sum_{l=1}^L \delta_l\,\epsilon_l ,
          \qquad \delta_l = F(w + c\epsilon_l) - F(w)

(or another estimator of :mod:`gensmooth.estimators`). Directions are generated from their addresses
where they are needed and never stored.
"""

import math
import warnings
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from operator import attrgetter, is_
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim import Optimizer

from gensmooth import checks, streams
from gensmooth.directions import Directions
from gensmooth.estimators import SAMPLE_MODES, Estimator, Plan, Samples, as_estimator, plan
from gensmooth.models import SparseTiles, choose_law, choose_model_directions, describe_directions
from gensmooth.streams import Purpose
from gensmooth.torch.closures import (
    BACKWARD,
    Closure,
    as_floats,
    as_loss,
    call,
    generators_of,
    restored,
)
from gensmooth.torch.layers import Layers
from gensmooth.torch.log import Log, LogError, LogRecord, check_header
from gensmooth.torch.modules import owners
from gensmooth.torch.moving import Mover, describe_parameters, fingerprint
from gensmooth.torch.named import NamedGroups, read_parameters
from gensmooth.torch.ranks import Ranks, Split

Tensor = torch.Tensor
Mode = Literal["layers", "copy", "in-place"]


class DivergenceWarning(UserWarning):
    """The losses of a run stay far above the first (with ``maximize``, far below)."""


_PATIENCE = 20  # steps


class Marks(NamedTuple):
    """Properties by which each step detects that other code has changed a parameter.

    They are stored as lists, which are fast to compare, because a GPU waits for this check.
    """

    addresses: list[int]
    others: list[tuple[Any, ...]]  # in the order of _OTHER_MARKS


_OTHER_MARKS = ("_version", "shape", "dtype", "requires_grad")
_other_marks = attrgetter(*_OTHER_MARKS)
_gradient = attrgetter("grad")


class ZerothOrder(Optimizer):
    """Trains a model by evaluating its loss only.

    Args:
        params: A model, ``model.named_parameters()``, or parameter groups, each a dict whose
            ``"params"`` are named parameters. Frozen parameters are skipped.
        lr: η, the learning rate; schedulers of ``torch.optim.lr_scheduler`` may change it. It has
            no default, because the right value depends on the model; ``docs/torch.md`` has a rule.
        spacing: c, the distance per entry at which the loss is evaluated.
        num_directions: L; a mirrored pair is one direction. A step calls the closure L+1 times
            (forward), 2L times (antithetic) or L times (one-point).
        method: The directions by name: ``"bes"`` (entries ±1, the default), ``"gs"`` (normal
            entries), ``"bes-shrinkage"``, ``"gs-shrinkage"``, ``"low-rank"`` or ``"sparse"``.
        directions: The directions as an object, instead of a method: ``gs.LowRank(rank=4)``,
            ``gs.torch.SparseTiles(0.1)`` or ``gs.shrunk(gs.Bernoulli(), scale="estimate")``.
        estimator: ``"forward"``, ``"antithetic"``, ``"one-point"``, ``"ranked"``, or an object such
            as ``gs.BestPairs(4)``.
        seed: The seed of all directions; by default drawn by the operating system.
        normalize: ``"spread"`` divides the step by the standard deviation of the losses of its
            evaluations instead of by the spacing.
        momentum: The fraction of the last step's velocity to keep. The velocity takes four bytes
            per entry (eight for float64).
        weight_decay: Decoupled weight decay: parameters are multiplied by 1 − lr · weight_decay.
        maximize: Whether to maximise the closure's value.
        mode: ``"layers"``: perturbed values exist only while a layer runs (exact; extra memory for
            the largest layer). ``"copy"``: all parameters have a perturbed copy (exact; extra
            memory for all parameters), for compiled functions and layers that cannot be hooked.
            ``"in-place"``: parameters are moved to the point and back (no extra memory; rounds
            each time).
        samples: How torch's own random numbers (as in dropout) are drawn in the evaluations of a
            step: ``"shared"`` by all, ``"paired"`` by those of one direction, ``"independent"``.
            They are a function of seed and step. None leaves torch's generators unchanged.
        log: The log in which each step is recorded; steps already in it are replayed first.
        ranks: Whether to split ``"directions"`` or ``"batches"`` among the processes of
            ``torch.distributed``.
        group: The process group of ``torch.distributed``; by default all processes.
        allow_unused: Whether an evaluation may leave some of the parameters unused. Every
            evaluation is then watched to find which parameters it reads, which takes longer.
        on_failure: ``"raise"`` raises an error if a loss is not finite; ``"drop"`` drops its
            direction. The estimate keeps its mean if failures do not depend on the direction.
            ``failures`` counts the dropped directions.
        min_fraction: With ``"drop"``, the smallest fraction of directions that an estimate needs.

    Warns:
        DivergenceWarning: Once, if 20 consecutive losses are all far above the first: by three of
            their standard deviations, or by twice its absolute value.

    >>> model = torch.nn.Linear(3, 1)
    >>> opt = ZerothOrder(model, lr=0.05, num_directions=8, seed=0)
    >>> x = torch.eye(3)
    >>> losses = [opt.step(lambda: ((model(x) - 1) ** 2).mean()) for _ in range(200)]
    >>> losses[-1] < 0.01
    True
    """

    @checks.explains_unknown
    def __init__(
        self,
        params: Any,
        lr: float,
        *,
        spacing: float = 1e-3,
        num_directions: int = 1,
        method: str | None = None,
        directions: Directions | SparseTiles | None = None,
        estimator: str | Estimator = "forward",
        seed: int | None = None,
        normalize: Literal["spread"] | None = None,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        maximize: bool = False,
        mode: Mode = "layers",
        samples: Samples | None = "shared",
        log: Log | None = None,
        ranks: Split | None = None,
        group: Any = None,
        allow_unused: bool = False,
        on_failure: Literal["raise", "drop"] = "raise",
        min_fraction: float = 0.5,
    ) -> None:
        self._arguments = {name: value for name, value in locals().items() if name in _COPIED}
        self._spacing = checks.positive("spacing", spacing)
        self._num_directions = checks.count("num_directions", num_directions)
        self._estimator = as_estimator(estimator)
        self._normalize = checks.optional(checks.one_of, "normalize", normalize, options=["spread"])
        self._maximize = checks.flag("maximize", maximize)
        self._mode: Mode = checks.one_of("mode", mode, get_args(Mode))
        self._samples = checks.optional(checks.one_of, "samples", samples, options=SAMPLE_MODES)
        self._allow_unused = checks.flag("allow_unused", allow_unused)
        self._on_failure = checks.one_of("on_failure", on_failure, ("raise", "drop"))
        self._min_fraction = checks.share("min_fraction", min_fraction, one=True)
        self._momentum = checks.nonnegative("momentum", momentum)
        if self._momentum >= 1:
            raise ValueError(f"`momentum` must be below 1, but is {momentum}.")
        if log is not None and not isinstance(cast(object, log), Log):
            raise TypeError(f"`log` must be a gs.torch.Log, but is {checks.shown(log)}.")
        defaults = {
            "lr": checks.nonnegative("lr", lr),
            "weight_decay": checks.nonnegative("weight_decay", weight_decay),
        }
        self.seed = streams.check_seed(seed)
        self._ranks = None
        if ranks is not None:
            checks.one_of("ranks", ranks, get_args(Split))
            self._ranks = Ranks(ranks, group)
            if self._mode == "in-place" and self._ranks.number > 1:
                raise ValueError(
                    "mode='in-place' rounds the parameters in each evaluation, so the parameters "
                    "would drift apart between ranks: use mode='layers' or mode='copy'."
                )
        named = read_parameters(params)
        self._parameters = named.parameters
        if self._ranks is None and named.world > 1:
            raise ValueError(
                "The model is wrapped in DistributedDataParallel, but `ranks` is not set, so the "
                "parameters would drift apart between ranks. Pass ranks='batches' if each rank has "
                "its own batch, or ranks='directions' if all ranks have the same batch."
            )
        self._plan: Plan = plan(self._estimator, self._num_directions, 1, self._samples)
        dim = sum(w.numel() for w in self._parameters.values())
        chosen = choose_model_directions(method, directions)
        self._law = choose_law(chosen, dim, self._num_directions)
        self._described = describe_directions(chosen)
        self._building = True
        groups = [(dict(pairs), options) for pairs, options in named.groups if pairs]
        super().__init__(
            [{"params": list(g.values()), **options} for g, options in groups], defaults
        )
        for group, (pairs, _) in zip(self.param_groups, groups, strict=True):
            group["param_names"] = list(pairs)
        self._building = False
        self.steps_done: int = 0
        self.done_ahead = False  # set by a trainer that will call step() without a closure
        self.failures: int = 0  # directions dropped so far
        self._loss = math.nan
        self._first_loss = math.nan
        self._last_losses: deque[float] = deque(maxlen=_PATIENCE)
        self._diverged = False
        self._moving = False
        self._inside = False
        self._mover = Mover(
            [pairs for pairs, _ in groups], seed=self.seed, law=self._law, momentum=self._momentum
        )
        self._modules = named.modules
        if self._modules is None and self._mode == "layers":
            self._modules = owners(self._parameters.values())
        self._layers = self._make_layers()
        self._rates()  # checks the groups' own options
        self._marks = self._current_marks()
        self._log = log
        if log is not None:
            self._continue(log)

    # --- a step ----------------------------------------------------------------------------------

    def step(self, closure: Closure | None = None) -> float:  # pyright: ignore
        """Take one step.

        Args:
            closure: Returns the loss. Within a step, it must use the same data at every call. It is
                called once per evaluation, with gradients disabled.

        Returns:
            The loss at the parameters before the step; if the estimator does not evaluate there,
            the mean of the step's losses.
        """
        if closure is None and self.done_ahead:
            self.done_ahead = False
            return self._loss
        if closure is None:
            raise TypeError(
                "`step` needs a closure, a function that returns the loss: call step(closure)."
            )
        checks.function("closure", closure)
        self._check_ready()
        step = self.steps_done
        if self._ranks is None:
            values = self._evaluate(closure, step)
        else:
            self._ranks.agree(self._facts(), step)
            values = np.zeros(len(self._plan))
            failure: Exception | None = None
            try:
                values = self._evaluate(closure, step)
            except Exception as error:
                failure = error
            values = self._ranks.exchange(values, step, failure)
        weights, loss, dropped = self._weigh(values)
        self._take(weights, loss)
        self.failures += dropped
        self._loss = loss
        self._note_loss(loss)
        return loss

    def points(self) -> list[tuple[int, int]]:
        """Return the evaluations of a step, in order, as pairs (direction, side)."""
        return list(zip(self._plan.direction.tolist(), self._plan.side.tolist(), strict=True))

    @contextmanager
    def perturbed(self, *, direction: int, side: int = 1) -> Generator[None]:
        """Run the model at ``w + side · c · ε_direction`` of the next step.

        Args:
            direction: l, from 0 to L − 1.
            side: +1, −1, or 0 for the unperturbed parameters.
        """
        if not 0 <= checks.count("direction", direction, 0) < self._num_directions:
            raise ValueError(
                f"`direction` must be below the number of directions, {self._num_directions}, but "
                f"is {direction}."
            )
        if side not in (-1, 0, 1):
            raise ValueError(f"`side` must be -1, 0 or 1, but is {checks.shown(side)}.")
        self._check_ready()
        with torch.no_grad(), self._at(self.steps_done, direction, side):
            yield

    def weights(self, values: Sequence[float]) -> list[float]:
        """Compute the weights for :meth:`apply` from the losses at :meth:`points`."""
        losses = np.asarray(checks.reals("values", values), np.float64)
        if losses.shape != (len(self._plan),):
            raise ValueError(
                f"`values` must have one loss for each of the {len(self._plan)} evaluations in "
                f"points(), but has shape {losses.shape}."
            )
        return self._weigh(losses)[0].tolist()

    def apply(
        self, weights: Sequence[float], *, step: int | None = None, loss: float = math.nan
    ) -> None:
        """Take a step, given its L weights: the parameters move by ``-lr · Σ_l weights[l] ε_l``.

        Args:
            weights: The weights, from :meth:`weights` or from another process.
            step: The number of the step, to check that it is the next; by default not checked.
            loss: The loss to record in the log.
        """
        self._check_ready()
        if step is not None and step != self.steps_done:
            raise ValueError(f"Step {step} cannot be applied: the next step is {self.steps_done}.")
        array = np.asarray(checks.reals("weights", weights), np.float64)
        if array.shape != (self._num_directions,) or not np.isfinite(array).all():
            raise ValueError(
                f"`weights` must be {self._num_directions} finite numbers, one for each direction, "
                f"but is {checks.shown(weights)}."
            )
        self._take(array, loss)
        self._note_loss(loss)

    def direction(self, name: str, index: int, *, step: int | None = None) -> Tensor:
        """Return the direction ε_index of one parameter, by its name, for inspection."""
        if name not in self._parameters:
            hint = checks.did_you_mean(name, self._parameters)
            raise ValueError(
                f"`name` must be the name of a parameter, but is {checks.shown(name)}.{hint}"
            )
        at = self.steps_done if step is None else checks.count("step", step, 0)
        return self._mover.direction(name, at, checks.count("index", index, 0))

    def accept_changes(self) -> None:
        """Continue with parameters that other code has changed since the last step.

        This is an error if the run has a log, which could not restore them, or if a parameter was
        frozen.
        """
        if frozen := [name for name, w in self._parameters.items() if not w.requires_grad]:
            raise RuntimeError(
                f"The parameter {frozen[0]!r} was frozen, but this optimiser moves it: create a "
                "new optimiser, which skips frozen parameters."
            )
        if self._log is not None:
            raise LogError(
                f"The log {self._log.path} cannot record changes by other code: create a new "
                "optimiser with a new log, which starts from the changed parameters."
            )
        self._marks = self._current_marks()
        if self._layers is not None:
            self._layers.forget()

    @property
    def scratch_bytes(self) -> int:
        """The memory for perturbed values, in bytes, in addition to the parameters."""
        return 0 if self._layers is None else self._layers.scratch.nbytes

    # --- evaluations -----------------------------------------------------------------------------

    def _evaluate(self, closure: Closure, step: int) -> NDArray[np.float64]:
        """Compute the loss at each point of the step that this process evaluates."""
        losses: list[Any] = []
        evaluated: list[int] = []
        before = self._gradients()
        attached = self._layers.attached() if self._layers is not None else nullcontext()
        devices = sorted({w.device for w in self._parameters.values() if w.is_cuda}, key=str)
        generators = generators_of(devices) if self._samples is not None else []
        with attached, restored(generators), torch.no_grad():
            for e, (direction, side) in enumerate(self.points()):
                if self._ranks is not None and not self._ranks.mine(e):
                    continue
                if generators:
                    seed = self._sample_seed(step, int(self._plan.sample[e]))
                    for generator in generators:
                        generator.manual_seed(seed)
                with self._at(step, direction, side):
                    loss = call(closure)
                    ran = side == 0 or self._layers is None or self._layers.seen
                self._check_gradients(before)
                losses.append(as_loss(loss))
                if not ran:
                    raise ValueError(
                        "The closure used none of the model's parameters. Did it run another "
                        "model, or return a value computed earlier? (If it replays a CUDA graph of "
                        "the model, use mode='in-place'.)"
                    )
                evaluated.append(e)
        values = np.zeros(len(self._plan))
        values[evaluated] = as_floats(losses)
        if self._on_failure == "raise":  # before the exchange with other ranks
            self._check_values(values)
        return values

    def _gradients(self) -> tuple[list[Tensor | None], list[int]]:
        """Return the parameters' gradients, usually None, and the versions of those there are."""
        grads = list(map(_gradient, self._parameters.values()))
        return grads, [grad._version for grad in grads if grad is not None]

    def _check_gradients(self, before: tuple[list[Tensor | None], list[int]]) -> None:
        """Raise an error if the closure has computed gradients."""
        after = self._gradients()
        if after[1] != before[1] or not all(map(is_, after[0], before[0])):
            for w, grad in zip(self._parameters.values(), before[0], strict=True):
                w.grad = grad
            raise ValueError(BACKWARD)

    @contextmanager
    def _at(self, step: int, direction: int, side: int) -> Generator[None]:
        """Set the parameters to one point of a step."""
        if self._inside:
            raise RuntimeError("The parameters are already perturbed: leave that context first.")
        self._inside = True
        torch.clear_autocast_cache()  # it holds parameters at other values
        try:
            if side == 0:
                with self._layers.attached() if self._layers is not None else nullcontext():
                    yield
                return
            amount = side * self._spacing
            if self._layers is not None:
                with self._layers.perturbed(self._mover.fill(step, direction, amount)):
                    yield
                return
            self._mover.shift(step, direction, amount)
            try:
                yield
            finally:
                self._mover.shift(step, direction, -amount)
                self._marks = self._current_marks()
        finally:
            torch.clear_autocast_cache()
            self._inside = False

    def _sample_seed(self, step: int, sample: int) -> int:
        rng = streams.generator(self.seed, Purpose.SAMPLE, step=step, index=sample)
        return int(rng.integers(2**63))

    def _check_values(self, values: NDArray[np.float64]) -> None:
        if np.isfinite(values).all():
            return
        e = int(np.flatnonzero(~np.isfinite(values))[0])
        direction, side = self.points()[e]
        where = "at the parameters" if side == 0 else f"at direction {direction}, side {side:+d}"
        advice = (
            "A smaller `spacing` stays closer to the parameters; on_failure='drop' drops such "
            "directions."
        )
        if not np.isfinite(values[self._plan.side == side]).any():
            advice = (
                "The run has probably diverged: restore earlier parameters and lower `lr` "
                f"(now {self._rates()[0][0]:.3g})."
                if self.steps_done
                else "No loss is finite there: check the model and its input."
            )
        raise ValueError(
            f"The loss of step {self.steps_done} is {values[e]} {where}. The step was not taken. "
            f"{advice}"
        )

    def _weigh(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], float, int]:
        """Compute the weight of each direction, the loss, and the number of dropped directions."""
        if self._on_failure == "raise":
            self._check_values(values)
        sign = -1.0 if self._maximize else 1.0
        delta, loss = self._estimator.differences(
            sign * values, self._num_directions, self._samples
        )
        fine = np.isfinite(delta)
        used = int(np.count_nonzero(fine))
        if used < max(1, math.ceil(self._min_fraction * self._num_directions)):
            raise ValueError(
                f"Only {used} of {self._num_directions} directions of step {self.steps_done} have "
                f"finite losses, fewer than min_fraction={self._min_fraction} requires. The step "
                "was not taken."
            )
        if self._normalize is None:
            unit = 1 / (self._spacing * used)
        else:
            away = values[(self._plan.side != 0) & np.isfinite(values)]
            spread = float(away.std(ddof=1)) if len(away) > 1 else 0.0
            unit = 1 / (used * spread) if spread > 0 else 0.0
        weights = np.where(fine, delta, 0.0) * (unit * self._law.factor)
        return weights, sign * loss, self._num_directions - used

    def _note_loss(self, loss: float) -> None:
        """Warn once if the losses are far above the first."""
        if not math.isfinite(loss):
            return
        if math.isnan(self._first_loss):
            self._first_loss = loss
        losses = self._last_losses
        losses.append(loss)
        if self._diverged or len(losses) < _PATIENCE:
            return
        sign = -1.0 if self._maximize else 1.0
        rise = min(sign * (each - self._first_loss) for each in losses)
        if rise > 0 and rise > min(3 * float(np.std(losses)), 2 * abs(self._first_loss)):
            self._diverged = True
            warnings.warn(
                f"The run may have diverged: the last {_PATIENCE} losses, {np.mean(losses):.4g} on "
                f"average, are all far from the first, {self._first_loss:.4g}. Restore earlier "
                f"parameters and lower `lr` (now {self._rates()[0][0]:.3g}) by a factor of 3 to "
                "10. (Ignore this if the data have become harder.)",
                DivergenceWarning,
                stacklevel=4,  # the caller of step(), which torch wraps
            )

    # --- moving ----------------------------------------------------------------------------------

    def _take(self, weights: NDArray[np.float64], loss: float) -> None:
        """Record a step in the log, then take it."""
        rates, decays = self._rates()
        numbers = tuple(weights.tolist())
        if self._log is not None and (self._ranks is None or self._ranks.rank == 0):
            ranks = 1 if self._ranks is None else self._ranks.number
            self._log.append(LogRecord(self.steps_done, ranks, loss, rates, decays, numbers))
        self._move(numbers, rates, decays)

    def _move(
        self, weights: Sequence[float], rates: Sequence[float], decays: Sequence[float]
    ) -> None:
        self._moving = True  # stays set if interrupted: the parameters are then inconsistent
        with torch.no_grad():
            self._mover.move(self.steps_done, weights, rates, decays)
        for name, velocity in self._mover.velocities.items():
            self.state[self._parameters[name]]["velocity"] = velocity
        self.steps_done += 1
        self._marks = self._current_marks()
        self._moving = False

    def _rates(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        rates = tuple(checks.nonnegative("lr", float(group["lr"])) for group in self.param_groups)
        decays = tuple(
            checks.nonnegative("weight_decay", float(group["weight_decay"]))
            for group in self.param_groups
        )
        return rates, decays

    def _make_layers(self) -> Layers | None:
        if self._mode == "in-place":
            return None
        if self._mode == "copy":
            return Layers(self._parameters, [], whole=True)
        modules = self._modules or []
        return Layers(self._parameters, modules, allow_unused=self._allow_unused)

    def _check_ready(self) -> None:
        """Raise an error if the parameters are not those of the last step."""
        if self._moving:
            raise RuntimeError(
                f"Step {self.steps_done} was interrupted while the parameters moved, so they are "
                "inconsistent. Load the base weights and replay the log, or load a checkpoint."
            )
        if self._inside:
            raise RuntimeError("The parameters are already perturbed: leave that context first.")
        marks, known = self._current_marks(), self._marks
        if marks != known:
            i = next(
                i for i, pair in enumerate(zip(*marks, strict=True)) if pair != _mark(known, i)
            )
            one, other = _mark(marks, i), _mark(known, i)
            mark = "address"
            if one[0] == other[0]:
                pairs = zip(_OTHER_MARKS, one[1], other[1], strict=True)
                mark = next(name for name, a, b in pairs if a != b)
            raise RuntimeError(
                f"Other code has changed the parameter {list(self._parameters)[i]!r} since the "
                f"last step (its {mark.strip('_')} differs). Create a new optimiser for the "
                "changed parameters"
                + (", or call opt.accept_changes() to continue with them." if one[1][3] else ".")
            )

    def _current_marks(self) -> Marks:
        parameters = self._parameters.values()
        return Marks(list(map(Tensor.data_ptr, parameters)), list(map(_other_marks, parameters)))

    # --- logs and ranks --------------------------------------------------------------------------

    def header(self) -> dict[str, Any]:
        """Return the header of a log: the settings, and a hash of all parameters."""
        header = self._settings() | {"base": fingerprint(self._parameters)}
        if self._mode == "in-place":  # evaluations then change the parameters by rounding
            header["visited"] = [point for point in self.points() if point[1]]
        return header

    def _settings(self) -> dict[str, Any]:
        """Return the settings that must not change when a run continues."""
        groups = [
            dict(zip(group["param_names"], group["params"], strict=True))
            for group in self.param_groups
        ]
        return {
            "seed": self.seed,
            "spacing": self._spacing,
            "num_directions": self._num_directions,
            "directions": self._described,
            "law": list(self._law),
            "estimator": repr(self._estimator),
            "normalize": self._normalize,
            "momentum": self._momentum,
            "maximize": self._maximize,
            "samples": self._samples,
            "groups": [describe_parameters(group) for group in groups],
        }

    def _continue(self, log: Log) -> None:
        """Replay the steps in a log, and open it for further steps."""
        header, (stored, records) = self.header(), log.read()
        if stored is not None:
            check_header(stored, header, str(log.path))
            for record in records:
                for direction, side in header.get("visited", ()):
                    with self._at(self.steps_done, direction, side):
                        pass
                self._move(record.weights, record.rates, record.decays)
                self._note_loss(record.loss)
        if self._ranks is None or self._ranks.rank == 0:
            log.open(header)

    def _facts(self) -> dict[str, Any]:
        """Return the facts that must be the same on all ranks."""
        header = self.header()
        names = {"base": "parameters", "groups": "names, types and shapes of parameters"}
        facts = {"seed": header.pop("seed"), "number of steps done": self.steps_done}
        facts |= {names.get(name, name): value for name, value in header.items()}
        facts |= {"on_failure": self._on_failure, "min_fraction": self._min_fraction}
        return facts | {"learning rates": self._rates()}

    # --- torch's own interface -------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """See ``torch.optim.Optimizer``; not supported after the optimiser has been created."""
        if not getattr(self, "_building", False):
            raise RuntimeError(
                "Parameter groups cannot be added later: pass all of them when you create the "
                "optimiser."
            )
        super().add_param_group(param_group)

    def state_dict(self) -> dict[str, Any]:
        """See ``torch.optim.Optimizer``; also contains the progress and all settings."""
        return super().state_dict() | {"gensmooth": self._settings() | self._progress()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a :meth:`state_dict`; the model must have the parameters of that moment.

        Raises:
            ValueError: If it comes from another model, or its settings differ. The learning rate
                and weight decay may differ; they are loaded.
        """
        stored: Any = state_dict.get("gensmooth")
        if stored is None or "steps_done" not in stored or "groups" not in stored:
            raise ValueError("`state_dict` does not come from a ZerothOrder optimiser.")
        check_header(stored, self._settings(), "`state_dict`", ValueError)
        if self._log is not None and stored["steps_done"] != self.steps_done:
            raise LogError(
                f"`state_dict` was taken after {stored['steps_done']} steps, but the optimiser has "
                f"replayed {self.steps_done} steps from {self._log.path}. Do not load a state, or "
                "load one taken after as many steps."
            )
        plain = {name: state_dict[name] for name in ("state", "param_groups")}
        super().load_state_dict(plain)
        names = [name for group in self.param_groups for name in group["param_names"]]
        exact = plain["state"].items()  # self.state has velocities rounded to the parameters' types
        self._restore(stored, {names[place]: state["velocity"] for place, state in exact})
        if self._layers is not None:
            self._layers.forget()
        self._moving = False

    def _progress(self) -> dict[str, Any]:
        return {name: getattr(self, attribute) for name, attribute in _PROGRESS.items()}

    def _restore(self, progress: dict[str, Any], velocities: dict[str, Tensor]) -> None:
        for name, attribute in _PROGRESS.items():
            setattr(self, attribute, progress[name])
        for name, stored in velocities.items():
            w = self._parameters[name]
            velocity = stored.to(w.device, copy=True)
            self.state[w]["velocity"] = self._mover.velocities[name] = velocity
        self._last_losses.clear()
        self._marks = self._current_marks()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Support copying: create the copy anew from the (copied) parameters and modules."""
        del protocol
        self._check_ready()
        if self._log is not None:
            raise LogError(
                f"This optimiser writes to {self._log.path}, and two optimisers cannot write to "
                "one log, so it cannot be copied. Copy its state_dict(), or create an optimiser "
                "without a log."
            )
        groups: list[Any] = [
            (list(zip(group["param_names"], group["params"], strict=True)), {})
            for group in self.param_groups
        ]
        options = [
            {name: value for name, value in group.items() if name not in ("params", "param_names")}
            for group in self.param_groups
        ]
        state = (options, self._progress(), self._mover.velocities)
        named = NamedGroups(groups, self._modules)
        return _rebuilt, (type(self), named, self._arguments | {"seed": self.seed}, state)


# The arguments of a copy, in addition to the parameters.
_COPIED = (
    *("lr", "spacing", "num_directions", "method", "directions", "estimator", "normalize"),
    *("momentum", "weight_decay", "maximize", "mode", "samples", "ranks", "group"),
    *("allow_unused", "on_failure", "min_fraction"),
)
# The attributes that change in a run, in addition to parameters and velocities.
_PROGRESS = {"steps_done": "steps_done", "failures": "failures", "first_loss": "_first_loss"}


def _rebuilt(
    kind: type[ZerothOrder],
    named: NamedGroups,
    arguments: dict[str, Any],
    state: tuple[list[dict[str, Any]], dict[str, Any], dict[str, Tensor]],
) -> ZerothOrder:
    """Create an optimiser from the data of :meth:`ZerothOrder.__reduce_ex__`."""
    optimizer = kind(named, **arguments)
    options, progress, velocities = state
    for group, group_options in zip(optimizer.param_groups, options, strict=True):
        group.update(group_options)
    optimizer._restore(progress, velocities)  # pyright: ignore[reportPrivateUsage]
    return optimizer


def _mark(marks: Marks, i: int) -> tuple[int, tuple[Any, ...]]:
    return marks.addresses[i], marks.others[i]
