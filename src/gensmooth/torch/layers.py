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
  whose forward it happened (or to the whole evaluation, if to none). Watching does not change the
  path that torch takes through the model, so fused layers (``nn.TransformerEncoderLayer`` in
  ``eval()``), which read the parameters of the modules inside them, are found in the same way.
* A view of a parameter that was made earlier shows the unperturbed values: an error.
* A compiled function of the model would not call the layers, so it is run uncompiled.
* A parameter that no layer asked for in an evaluation is an error, unless told otherwise; then all
  evaluations are watched, since another path may read it elsewhere.

A GPU should not wait for Python, so layers that ran one after the other in the last evaluation, and
that fit into the buffer together, are perturbed at once when the first of them begins. A layer that
begins out of turn ends this: what is perturbed and not running goes back, and layers are perturbed
one by one again.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, final

import torch
from torch import nn
from torch.utils._python_dispatch import (
    _disable_current_modes,  # pyright: ignore[reportPrivateUsage]
)
from torch.utils._pytree import tree_iter, tree_map_only

from gensmooth.torch.buffers import Buffers, Place, PlaceGroup, room_of
from gensmooth.torch.found import HookedLayer, find_layers, is_compiled, outermost
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
        plain: list[nn.Module] = []
        self._others: list[Wrapped] = []  # compiled modules that have nothing to perturb
        for each in outermost(self._modules):
            if not is_compiled(each):
                plain.append(each)
            elif id(each) not in self._layers:
                self._others.append(Wrapped(each, self._compiled))
        self._followed = [Wrapped(each, partial(self._follow, each)) for each in plain]
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
        self._watched: set[bytes] = set()  # by which modules were in training mode
        self._memory: list[tuple[int, int, str]] = []  # own addresses of parameters, while watching
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
        """Let the layers ask for perturbed values while in this context.

        Compiled functions run uncompiled here, and compiled modules, which are layers, do not.
        """
        if self._handles is not None or not self._modules:
            yield
            return
        self._handles = []
        try:
            self._attach_all()
            with torch.compiler.set_stance("force_eager"):
                yield
        finally:
            self._detach()
            self._handles = None

    @contextmanager
    def perturbed(self, fill: Fill) -> Generator[None]:
        """Let layers run at the values that ``fill`` makes."""
        if self._fill is not None:
            raise RuntimeError("The parameters are perturbed already: leave that context first.")
        training = bytes(module.training for module in self._modules)
        watch = bool(self._modules) and (self._allow_unused or training not in self._watched)
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
                f"No layer was seen to use the parameter {_first_of(unused)} in this evaluation. "
                "If the loss does not depend on it, freeze it (requires_grad_(False)). If only "
                "some evaluations use it, or read it elsewhere, pass allow_unused=True. If it is "
                "read where torch cannot see it (by a kernel of your own), choose mode='in-place'."
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

    def _attach_all(self) -> None:
        assert self._handles is not None
        for layer in self._layers.values():
            self._attach(layer)
        for wrapped in self._others:
            wrapped.attach()
            self._handles.append(wrapped)

    def _detach(self) -> None:
        assert self._handles is not None
        while self._handles:
            self._handles.pop().remove()

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
        run = self._compiled(run) if layer.compiled else run

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

    def _compiled(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """What a compiled module does, compiled, although functions are not."""

        def call(*args: Any, **kw: Any) -> Any:
            if self._memory:
                self._read([each for each in tree_iter((args, kw)) if isinstance(each, Tensor)])
            with _disable_current_modes(), torch.compiler.set_stance("default"):
                return run(*args, **kw)

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
        listed = self._parameters.items()
        own = ((w.data_ptr(), w.numel() * w.element_size(), name) for name, w in listed)
        self._memory = sorted((start, start + size, name) for start, size, name in own)
        with self.attached(), Reads(self._read):
            self._detach()  # the layers' functions go around those that follow modules
            try:
                for each in self._followed:
                    each.attach()
                self._attach_all()
                yield
            finally:
                self._memory = []
                self._detach()
                for each in self._followed:
                    each.remove()
                self._attach_all()

    def _follow(self, module: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
        """What a module does, while it is known that it runs."""

        def call(*args: Any, **kw: Any) -> Any:
            depth = len(self._running)
            self._running.append(module)
            kept = output = None
            try:
                output = run(*args, **kw)
                kept = self._keep(module, output)
            finally:
                del self._running[depth:]
                while self._turns and self._turns[-1].owner is module and self._turns[-1].late:
                    self._leave(self._turns.pop())
            return output if kept is None else kept

        return call

    def _read(self, tensors: list[Tensor]) -> None:
        """Give parameters that are about to be read to the module that runs."""
        if self._busy or self._fill is None:
            return
        names: list[str] = []
        for each in tensors:
            name = self._names.get(id(each))
            if name is None:
                self._check_view(each)
            elif name not in self._own and name not in names:
                names.append(name)
        if not names:
            return
        module = self._running[-1] if self._running else None
        if module is None:
            self._whole += names
        elif id(module) in self._layers:
            self._layers[id(module)].names += names
            self.forget()
        else:
            self._layers[id(module)] = HookedLayer(module, list(names), compiled=False)
            self._attach(self._layers[id(module)])
        self._enter(module, names, late=True)

    def _check_view(self, w: Tensor) -> None:
        """Refuse a tensor that lies in a parameter's own memory, where nothing is perturbed."""
        if type(w) is not Tensor or w.layout is not _STRIDED or w.is_nested or not w.numel():
            return
        i = bisect_right(self._memory, w.data_ptr(), key=lambda each: each[0]) - 1
        if i >= 0 and w.data_ptr() < self._memory[i][1]:
            raise RuntimeError(
                f"The evaluation reads a view of the parameter {self._memory[i][2]!r} that was "
                "made earlier, and would not see it perturbed. Make the view in the evaluation, or "
                "choose mode='in-place'. Nothing moved."
            )


def _first_of(names: list[str]) -> str:
    return f"{names[0]!r}" + (f" (and {len(names) - 1} more)" if names[1:] else "")
