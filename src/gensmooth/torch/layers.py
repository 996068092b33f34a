"""Perturbed values while a layer runs, without writing to a parameter.

A parameter's values at x + s·c·ε exist only while they are needed. When a layer's forward begins,
its parameters are made to point at a scratch buffer that holds the perturbed values; when it ends,
they point at their own memory again, which nobody has written to: ``w + cε − cε`` is never
computed. The buffer is used again by the next layer, so the memory needed is that of the largest
one (more where layers with own parameters are nested).

What layers are is found out, not assumed:

* A module that owns parameters is a layer. A compiled module (``torch.compile``) is one layer with
  everything inside it, since no hook runs in there.
* A parameter may also be read outside of its own module's forward: a tied output layer written as
  ``h @ self.embedding.weight.T``, the output projection of ``nn.MultiheadAttention``. The first
  evaluation is watched: such a read makes the parameter belong, from then on, to the module in
  whose forward it happened (or to the whole evaluation, if to none).
* A parameter that no layer asked for in an evaluation is an error, unless told otherwise.

A GPU should not wait for Python, so layers that ran one after the other in the last evaluation, and
that fit into the buffer together, are perturbed at once when the first of them begins. A layer that
begins out of turn ends this: what is perturbed and not running goes back, and layers are perturbed
one by one again.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, final

import torch
from torch import nn
from torch.utils._pytree import tree_iter, tree_map_only

from gensmooth.torch.buffers import Buffers, Place, PlaceGroup, room_of
from gensmooth.torch.found import HookedLayer, find_layers
from gensmooth.torch.hooks import Reads, Wrapped

Tensor = torch.Tensor
Fill = Callable[[PlaceGroup], None]  # puts perturbed values where they go

_STRIDED = torch.strided
_SURPRISES = 3  # evaluations in another order, after which no order is expected


class UnusedError(RuntimeError):
    """A parameter that should have been perturbed was not asked for by any layer."""


class LayerPlan(NamedTuple):
    """What is expected of an evaluation: what the last one did.

    Layers in groups that run one after the other and fit into the buffer together: the first of a
    group, its head, has the places of all.
    """

    layers: list[HookedLayer]
    heads: list[PlaceGroup | None]
    followers: list[HookedLayer | None]  # the same layers, None for a head; and None at the end
    names: frozenset[str]


class Turn(NamedTuple):
    """A layer that runs, and what it made point at scratch (late: when it had begun)."""

    owner: nn.Module | None
    names: list[str]
    late: bool


@final
class Layers:
    """The layers of a model, which can be run at perturbed parameters.

    Args:
        parameters: By name: those that are moved.
        modules: Where to look for the layers that own them.
        allow_unused: Whether an evaluation may do without some of the parameters.
        whole: Whether all parameters belong to the whole evaluation, whatever the layers are.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        modules: Iterable[nn.Module],
        *,
        allow_unused: bool = False,
        whole: bool = False,
    ) -> None:
        self.scratch = Buffers()
        self._parameters = dict(parameters)
        self._names = {id(w): name for name, w in self._parameters.items()}
        self._allow_unused = allow_unused
        self._modules = list(modules)
        self._layers = find_layers(self._modules, self._names)
        # Parameters that belong to a whole evaluation.
        self._whole: list[str] = list(self._parameters) if whole else []
        owned = set(self._whole) | {name for layer in self._layers.values() for name in layer.names}
        if missing := [name for name in self._parameters if name not in owned]:
            raise ValueError(
                f"No module was found that owns the parameter {_first_of(missing)}: give the model "
                "itself instead of its parameters, or choose mode='copy' or mode='in-place'."
            )
        self._fill: Fill | None = None
        self._turns: list[Turn] = []
        self._running: list[nn.Module] = []
        self._own: dict[str, Tensor] = {}  # the own values of what points at scratch now
        self._seen: set[str] = set()
        self._watched: set[bool] = set()  # in which modes (training or not) a run was watched
        self._handles: list[Wrapped] | None = None  # while attached
        self._busy = False  # with parameters: what is read of them then is our own doing
        self._order: list[HookedLayer] | None = []  # as layers began; None: one inside another
        self._plan: LayerPlan | None = None
        self._plan_made = 0  # when, in changes of the buffers
        self._at = 0  # in the plan: the layer that runs, or else comes next
        self._expected: HookedLayer | None = None  # whose perturbed values are there already
        self._current: HookedLayer | None = None  # which runs as planned
        self._open: PlaceGroup | None = None  # of the group that runs
        self._surprises = 0  # evaluations that ran in another order
        self._places: dict[tuple[int, int], PlaceGroup] = {}  # by owner and depth
        self._places_made = 0  # when, in changes of the buffers

    # --- around evaluations ----------------------------------------------------------------------

    @contextmanager
    def attached(self) -> Generator[None]:
        """Let the layers ask for perturbed values while in this context."""
        if self._handles is not None:
            yield
            return
        self._handles = []
        try:
            for layer in self._layers.values():
                self._attach(layer)
            yield
        finally:
            for wrapped in self._handles:
                wrapped.remove()
            self._handles = None

    @contextmanager
    def perturbed(self, fill: Fill) -> Generator[None]:
        """Let layers run at the values that ``fill`` makes."""
        if self._fill is not None:
            raise RuntimeError("The parameters are perturbed already: leave that context first.")
        training = any(module.training for module in self._modules)
        watch = (
            bool(self._modules)
            and training not in self._watched
            and not any(layer.compiled for layer in self._layers.values())
        )
        with self.attached() if not watch else self._watching():
            self._fill = fill
            self._seen = set()
            self._order, self._at = ([], 0) if not (watch or self._whole) else (None, 0)
            if self._order is None or self._plan_made != self.scratch.changes:
                self._plan = None
            try:
                if self._whole:
                    self._enter(None, self._whole)
                yield
                self._check_seen()
                self._watched.add(training)
                self._look_ahead()
            finally:
                self._fill = self._expected = self._current = None
                while self._turns:
                    self._leave(self._turns.pop())
                self._close()
                self._running.clear()

    def _check_seen(self) -> None:
        self._see_planned()
        unused = [name for name in self._parameters if name not in self._seen]
        if unused and self._seen and not self._allow_unused:
            raise UnusedError(
                f"No layer used the parameter {_first_of(unused)} in this evaluation, so that the "
                "loss cannot depend on it. Freeze it (requires_grad_(False)); or, if only "
                "some evaluations use it, say allow_unused=True; or, if a compiled function reads "
                "it, choose mode='copy'."
            )

    @property
    def seen(self) -> bool:
        """Whether any layer ran since the parameters were last perturbed."""
        return bool(self._seen) or self._at > 0

    def _see_planned(self) -> None:
        """Note what layers that ran as planned have used, which they do not stop for."""
        plan = self._plan
        if plan is None:
            return
        if self._at == len(plan.layers):
            self._seen |= plan.names
            return
        for layer in plan.layers[: self._at]:
            self._seen.update(layer.names)

    # --- a layer begins and ends -----------------------------------------------------------------

    def _attach(self, layer: HookedLayer) -> None:
        """Have a layer's begin and end noticed."""
        assert self._handles is not None
        if layer.wrapped is None:
            layer.wrapped = Wrapped(layer.module, partial(self._around, layer))
        layer.wrapped.attach()
        self._handles.append(layer.wrapped)

    def _around(self, layer: HookedLayer, run: Callable[..., Any]) -> Callable[..., Any]:
        """What a layer does, between its begin and its end.

        A layer that runs as planned, with perturbed values that are there already, has little to do
        for that: a GPU may wait for every line.
        """
        spans = self.scratch.spans

        def call(*args: Any, **kw: Any) -> Any:
            if self._expected is layer:
                self._expected = None
                self._current = layer
            else:
                self._begin(layer)
            try:
                output = run(*args, **kw)
            except BaseException:
                self._end(layer, None)
                raise
            if self._current is layer and type(output) is Tensor and output.layout is _STRIDED:
                address = output.data_ptr()
                for start, end in spans:
                    if start <= address < end:
                        break
                else:
                    self._current = None
                    self._at = at = self._at + 1
                    assert self._plan is not None
                    self._expected = self._plan.followers[at]
                    return output
            kept = self._end(layer, output)
            return output if kept is None else kept

        return call

    def _begin(self, layer: HookedLayer) -> None:
        if self._fill is None:
            return
        if self._current is not None:  # this one is inside of it: so there is no order
            self._surprise()
        if self._turns:  # inside another layer, with a buffer of its own
            self._order = None
            self._enter(layer.module, layer.names)
            return
        plan = self._plan
        if plan is not None:
            if self._at < len(plan.layers) and plan.layers[self._at] is layer:
                places = plan.heads[self._at]
                if places is not None:
                    self._perturb_together(places)
                self._current = layer
                return
            self._surprise()
        if self._order is not None:
            self._order.append(layer)
        if not all(name in self._own for name in layer.names):
            self._close()
        self._enter(layer.module, layer.names)

    def _surprise(self) -> None:
        """Go on without the plan."""
        assert self._plan is not None
        self._see_planned()
        if self._order is not None:
            self._order = self._plan.layers[: self._at]
        running, self._current, self._expected = self._current, None, None
        if running is not None:
            self._seen.update(running.names)
            self._turns.append(Turn(running.module, [], False))
        self._plan, self._at = None, 0
        self._surprises += 1

    def _end(self, layer: HookedLayer, output: Any) -> Any:
        """Give a layer its own values back; what it returns if it must return another, or None."""
        if self._current is layer:
            kept = self._copy_kept(output)
            self._current = None
            self._at += 1
            assert self._plan is not None
            self._expected = self._plan.followers[self._at]
            return kept
        kept = self._keep(layer.module, output)
        while self._turns and self._turns[-1].owner is layer.module:
            turn = self._turns.pop()
            self._leave(turn)
            if not turn.late:
                break
        return kept

    def _keep(self, module: nn.Module, output: Any) -> Any:
        """What a layer returns, copied where it lies in the buffer, whose turn is over; or None."""
        if not (self._turns and self._turns[-1].owner is module):
            return None
        return self._copy_kept(output)

    def _copy_kept(self, output: Any) -> Any:
        if type(output) is Tensor and not self.scratch.holds(output):  # nearly always
            return None
        if not any(isinstance(t, Tensor) and self.scratch.holds(t) for t in tree_iter(output)):
            return None
        return tree_map_only(Tensor, lambda t: t.clone() if self.scratch.holds(t) else t, output)

    def _enter(self, owner: nn.Module | None, names: list[str], *, late: bool = False) -> None:
        """Make parameters point at perturbed values, those that do not yet."""
        assert self._fill is not None
        self._busy = True
        try:
            turn = Turn(owner, [], late)
            depth = len(self._turns)
            self._turns.append(turn)
            places = self._find_places(owner, names, depth, late)
            self._fill(places)
            for place in places.listed:
                self._own[place.name] = place.own
                turn.names.append(place.name)
                place.parameter.data = place.out
            self._seen.update(names)
        finally:
            self._busy = False

    def _find_places(
        self, owner: nn.Module | None, names: list[str], depth: int, late: bool
    ) -> PlaceGroup:
        """Where the perturbed values of a layer go; remembered, as finding out takes its time."""
        found = self._places.get((id(owner), depth))
        if (
            found is not None
            and not late
            and not any(each.name in self._own for each in found.listed)
        ):
            return found
        fresh = [name for name in names if name not in self._own]
        found = self._places_for(fresh, depth)
        if self._places_made != self.scratch.changes:  # a buffer is another: all look again
            self._places_made = self.scratch.changes
            self._places.clear()
        if not late and len(fresh) == len(names):
            self._places[id(owner), depth] = found
        return found

    def _places_for(self, names: list[str], depth: int) -> PlaceGroup:
        parameters = [self._parameters[name] for name in names]
        own = [w.data for w in parameters]
        return PlaceGroup(list(map(Place, names, parameters, own, self.scratch.take(own, depth))))

    def forget(self) -> None:
        """Look again where parameters are: something else has moved them."""
        self._places.clear()
        self._plan = self._expected = None

    # --- several layers at once ------------------------------------------------------------------

    def _look_ahead(self) -> None:
        """Plan for the next evaluation that layers run as they did in this one."""
        order = self._order
        if self._plan is not None or self._turns or not order or self._surprises >= _SURPRISES:
            return
        self._close()
        parameters = [self._parameters[name] for layer in order for name in layer.names]
        if len({w.device for w in parameters}) > 1:
            return
        room = self.scratch.slots[parameters[0].device, 0].numel()
        parts: list[list[HookedLayer]] = []
        inside: set[str] = set()
        left = 0
        for layer in order:
            left -= sum(room_of(self._parameters[name]) for name in {*layer.names} - inside)
            if not parts or left < 0:
                parts.append([])
                inside.clear()
                left = room - sum(room_of(self._parameters[name]) for name in layer.names)
            parts[-1].append(layer)
            inside.update(layer.names)
        heads: list[PlaceGroup | None] = []
        followers: list[HookedLayer | None] = []
        for part in parts:
            listed = list(dict.fromkeys(name for layer in part for name in layer.names))
            heads += [self._places_for(listed, 0), *(None for _ in part[1:])]
            followers += [None, *part[1:]]
        names = frozenset(name for layer in order for name in layer.names)
        self._plan = LayerPlan(order, heads, [*followers, None], names)
        self._plan_made = self.scratch.changes

    def _perturb_together(self, places: PlaceGroup) -> None:
        assert self._fill is not None
        self._close()
        self._busy = True
        try:
            self._fill(places)
            self._open = places
            for place in places.listed:
                self._own[place.name] = place.own
                place.parameter.data = place.out
        finally:
            self._busy = False

    def _close(self) -> None:
        """Let layers that were perturbed together have their own values again."""
        if self._open is None:
            return
        self._busy = True
        try:
            for place in self._open.listed:
                place.parameter.data = self._own.pop(place.name, place.own)
            self._open = None
        finally:
            self._busy = False

    def _leave(self, turn: Turn) -> None:
        self._busy = True
        try:
            for name in turn.names:
                self._parameters[name].data = self._own.pop(name)
        finally:
            self._busy = False

    # --- watching the first evaluation -----------------------------------------------------------

    @contextmanager
    def _watching(self) -> Generator[None]:
        """Follow which module runs, and notice parameters that are read outside of their own."""
        handles: list[Any] = []
        try:
            for module in self._modules:
                handles += [
                    module.register_forward_pre_hook(self._started, prepend=True),
                    module.register_forward_hook(self._stopped, always_call=True),
                ]
            with self.attached(), Reads(self._read):
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _started(self, module: nn.Module, _args: Any) -> None:
        self._running.append(module)

    def _stopped(self, module: nn.Module, _args: Any, output: Any) -> Any:
        if self._running and self._running[-1] is module:
            self._running.pop()
        kept = self._keep(module, output)
        while self._turns and self._turns[-1].owner is module and self._turns[-1].late:
            self._leave(self._turns.pop())
        return kept

    def _read(self, w: Tensor) -> None:
        name = self._names.get(id(w))
        if self._busy or name is None or name in self._own or self._fill is None:
            return
        module = self._running[-1] if self._running else None
        if module is None:
            self._whole.append(name)
        elif id(module) in self._layers:
            self._layers[id(module)].names.append(name)
            self.forget()
        else:
            self._layers[id(module)] = HookedLayer(module, [name], compiled=False)
            self._attach(self._layers[id(module)])
        self._enter(module, [name], late=True)


def _first_of(names: list[str]) -> str:
    return f"{names[0]!r}" + (f" (and {len(names) - 1} more)" if names[1:] else "")
