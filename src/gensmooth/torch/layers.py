"""Running layers at perturbed values, without writing to the parameters.

The values w + s·c·ε of a parameter exist only while they are needed. When a layer's forward begins,
its parameters are pointed at a scratch buffer with the perturbed values. When it ends, they are
pointed back at their original memory, which is unchanged: ``w + cε − cε`` is never computed. The
next layer reuses the buffer, so the memory needed is that of the largest layer, or more if layers
with their own parameters are nested.

Layers are detected as follows:

* A module that owns parameters is a layer. A compiled module (``torch.compile``) is one layer with
  everything inside it, because no hook runs there.
* A parameter may also be read outside its own module's forward. Examples are a tied output layer
  written as ``h @ self.embedding.weight.T`` and the output projection of
  ``nn.MultiheadAttention``. The first evaluation is therefore watched. A parameter that is read in
  another module's forward belongs to that module from then on, or to the whole evaluation if it is
  read outside all modules. Watching does not change the path that torch takes through the model, so
  it also detects fused layers that read the parameters of modules inside them
  (``nn.TransformerEncoderLayer`` in ``eval()``).
* A view of a parameter that was created earlier has the unperturbed values, so reading it is an
  error.
* A compiled function of the model would not call the layers, so it runs uncompiled.
* A parameter that no layer uses in an evaluation is an error, unless ``allow_unused`` is set. Then
  all evaluations are watched, because another path may read the parameter elsewhere.

A GPU should not wait for Python. Consecutive layers of the last evaluation that fit into the buffer
together are therefore perturbed together when the first of them begins. If a layer begins out of
order, the parameters of layers that are not running are restored, and layers are perturbed one at a
time again.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, final

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes  # pyright: ignore[reportPrivateUsage]
from torch.utils._pytree import tree_iter, tree_map_only

from gensmooth.torch.buffers import Buffers, Place, PlaceGroup, room_of
from gensmooth.torch.hooks import Reads, Wrapped
from gensmooth.torch.modules import HookedLayer, find_layers, is_compiled, outermost

Tensor = torch.Tensor
Fill = Callable[[PlaceGroup], None]  # writes perturbed values to their buffers

_STRIDED = torch.strided
_SURPRISES = 3  # after this many evaluations in an unexpected order, no plan is made


class UnusedError(RuntimeError):
    """No layer used a parameter that should have been perturbed."""


class LayerPlan(NamedTuple):
    """The expected order of layers in an evaluation, taken from the last one.

    Consecutive layers that fit into the buffer together form a group. The first layer of a group,
    its head, has the places of the whole group.
    """

    layers: list[HookedLayer]
    heads: list[PlaceGroup | None]
    followers: list[HookedLayer | None]  # the layers, with None for each head and at the end
    names: frozenset[str]


class Turn(NamedTuple):
    """A running layer, and the parameters that it pointed at the buffer.

    ``late`` means that they were pointed there after the layer had begun.
    """

    owner: nn.Module | None
    names: list[str]
    late: bool


@final
class Layers:
    """The layers of a model, which can be run at perturbed parameters.

    Args:
        parameters: The parameters to perturb, by name.
        modules: The modules among which to find the layers that own them.
        allow_unused: Whether an evaluation may leave some of the parameters unused.
        whole: Whether all parameters are perturbed for the whole evaluation, not layer by layer.
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
        self._others: list[Wrapped] = []  # compiled modules with nothing to perturb
        for module in outermost(self._modules):
            if not is_compiled(module):
                plain.append(module)
            elif id(module) not in self._layers:
                self._others.append(Wrapped(module, self._compiled))
        self._followed = [Wrapped(module, partial(self._follow, module)) for module in plain]
        # Parameters that belong to a whole evaluation.
        self._whole: list[str] = list(self._parameters) if whole else []
        owned = set(self._whole) | {name for layer in self._layers.values() for name in layer.names}
        if missing := [name for name in self._parameters if name not in owned]:
            raise ValueError(
                f"No module owns the parameter {_first_of(missing)}: pass the model itself instead "
                "of its parameters, or use mode='copy' or mode='in-place'."
            )
        self._fill: Fill | None = None
        self._turns: list[Turn] = []
        self._running: list[nn.Module] = []
        self._originals: dict[str, Tensor] = {}  # of parameters that point at the buffer now
        self._seen: set[str] = set()
        self._watched: set[bytes] = set()  # keyed by which modules were in training mode
        self._memory: list[tuple[int, int, str]] = []  # parameters' addresses, while watching
        self._handles: list[Wrapped] | None = None  # while attached
        self._busy = False  # we are accessing parameters ourselves: ignore reads
        self._order: list[HookedLayer] | None = []  # the order of layers; None: some are nested
        self._plan: LayerPlan | None = None
        self._plan_made = 0  # the value of Buffers.changes when it was made
        self._position = 0  # the position in the plan: the running layer, or else the next one
        self._expected: HookedLayer | None = None  # the next layer, if already perturbed
        self._current: HookedLayer | None = None  # the running layer, if it runs as planned
        self._open: PlaceGroup | None = None  # the group that is running
        self._surprises = 0  # evaluations that ran in an unexpected order
        self._places: dict[tuple[int, int], PlaceGroup] = {}  # by owner and depth
        self._places_made = 0  # the value of Buffers.changes when they were found

    # --- around evaluations ----------------------------------------------------------------------

    @contextmanager
    def attached(self) -> Generator[None]:
        """Attach to the layers within this context, so that they can be perturbed.

        Compiled functions run uncompiled here. Compiled modules, which are layers, stay compiled.
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
        """Run layers at perturbed values, which ``fill`` (of ``Mover.fill``) writes."""
        if self._fill is not None:
            raise RuntimeError("The parameters are already perturbed: leave that context first.")
        training = bytes(module.training for module in self._modules)
        watch = bool(self._modules) and (self._allow_unused or training not in self._watched)
        with self.attached() if not watch else self._watching():
            self._fill = fill
            self._seen = set()
            self._order, self._position = ([], 0) if not (watch or self._whole) else (None, 0)
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
                f"No layer used the parameter {_first_of(unused)} in this evaluation. If the loss "
                "does not depend on it, freeze it (requires_grad_(False)). If only some "
                "evaluations use it, or read it elsewhere, pass allow_unused=True. If it is read "
                "where torch cannot see it, as in a custom kernel, use mode='in-place'."
            )

    @property
    def seen(self) -> bool:
        """Whether any layer ran since the parameters were last perturbed."""
        return bool(self._seen) or self._position > 0

    def _see_planned(self) -> None:
        """Record the parameters of layers that ran as planned, which do not record them."""
        plan = self._plan
        if plan is None:
            return
        if self._position == len(plan.layers):
            self._seen |= plan.names
            return
        for layer in plan.layers[: self._position]:
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
        """Hook into the begin and end of a layer."""
        assert self._handles is not None
        if layer.wrapped is None:
            layer.wrapped = Wrapped(layer.module, partial(self._around, layer))
        layer.wrapped.attach()
        self._handles.append(layer.wrapped)

    def _around(self, layer: HookedLayer, run: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a layer's call between its begin and its end.

        A layer that runs as planned, with its perturbed values already in place, takes a short
        path, because a GPU may wait for every line.
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
                    self._position = at = self._position + 1
                    assert self._plan is not None
                    self._expected = self._plan.followers[at]
                    return output
            kept = self._end(layer, output)
            return output if kept is None else kept

        return call

    def _compiled(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a compiled module's call so that it runs compiled, although functions do not."""

        def call(*args: Any, **kw: Any) -> Any:
            if self._memory:
                self._read([each for each in tree_iter((args, kw)) if isinstance(each, Tensor)])
            with _disable_current_modes(), torch.compiler.set_stance("default"):
                return run(*args, **kw)

        return call

    def _begin(self, layer: HookedLayer) -> None:
        if self._fill is None:
            return
        if self._current is not None:  # this layer is nested in it, so there is no order
            self._surprise()
        if self._turns:  # nested in another layer, with a separate buffer
            self._order = None
            self._enter(layer.module, layer.names)
            return
        plan = self._plan
        if plan is not None:
            if self._position < len(plan.layers) and plan.layers[self._position] is layer:
                places = plan.heads[self._position]
                if places is not None:
                    self._perturb_together(places)
                self._current = layer
                return
            self._surprise()
        if self._order is not None:
            self._order.append(layer)
        if not all(name in self._originals for name in layer.names):
            self._close()
        self._enter(layer.module, layer.names)

    def _surprise(self) -> None:
        """Continue without the plan."""
        assert self._plan is not None
        self._see_planned()
        if self._order is not None:
            self._order = self._plan.layers[: self._position]
        running, self._current, self._expected = self._current, None, None
        if running is not None:
            self._seen.update(running.names)
            self._turns.append(Turn(running.module, [], False))
        self._plan, self._position = None, 0
        self._surprises += 1

    def _end(self, layer: HookedLayer, output: Any) -> Any:
        """Restore a layer's original values; return a copy of its output if needed, else None."""
        if self._current is layer:
            kept = self._copy_kept(output)
            self._current = None
            self._position += 1
            assert self._plan is not None
            self._expected = self._plan.followers[self._position]
            return kept
        kept = self._keep(layer.module, output)
        while self._turns and self._turns[-1].owner is layer.module:
            turn = self._turns.pop()
            self._leave(turn)
            if not turn.late:
                break
        return kept

    def _keep(self, module: nn.Module, output: Any) -> Any:
        """Return a copy of a layer's output if it is in the buffer, which is reused; else None."""
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
        """Point parameters at perturbed values, unless they already are."""
        assert self._fill is not None
        self._busy = True
        try:
            turn = Turn(owner, [], late)
            depth = len(self._turns)
            self._turns.append(turn)
            places = self._find_places(owner, names, depth, late)
            self._fill(places)
            for place in places.listed:
                self._originals[place.name] = place.original
                turn.names.append(place.name)
                place.parameter.data = place.out
            self._seen.update(names)
        finally:
            self._busy = False

    def _find_places(
        self, owner: nn.Module | None, names: list[str], depth: int, late: bool
    ) -> PlaceGroup:
        """Return where a layer's perturbed values go; cached, because finding them is slow."""
        places = self._places.get((id(owner), depth))
        if (
            places is not None
            and not late
            and not any(each.name in self._originals for each in places.listed)
        ):
            return places
        fresh = [name for name in names if name not in self._originals]
        places = self._places_for(fresh, depth)
        if self._places_made != self.scratch.changes:  # a buffer was replaced: clear the cache
            self._places_made = self.scratch.changes
            self._places.clear()
        if not late and len(fresh) == len(names):
            self._places[id(owner), depth] = places
        return places

    def _places_for(self, names: list[str], depth: int) -> PlaceGroup:
        parameters = [self._parameters[name] for name in names]
        originals = [w.data for w in parameters]
        outs = self.scratch.take(originals, depth)
        return PlaceGroup(list(map(Place, names, parameters, originals, outs)))

    def forget(self) -> None:
        """Clear cached addresses, because other code has changed where the parameters are."""
        self._places.clear()
        self._plan = self._expected = None

    # --- several layers at once ------------------------------------------------------------------

    def _look_ahead(self) -> None:
        """Plan the next evaluation, assuming that layers run in the same order as in this one."""
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
                self._originals[place.name] = place.original
                place.parameter.data = place.out
        finally:
            self._busy = False

    def _close(self) -> None:
        """Restore the original values of layers that were perturbed together."""
        if self._open is None:
            return
        self._busy = True
        try:
            for place in self._open.listed:
                place.parameter.data = self._originals.pop(place.name, place.original)
            self._open = None
        finally:
            self._busy = False

    def _leave(self, turn: Turn) -> None:
        self._busy = True
        try:
            for name in turn.names:
                self._parameters[name].data = self._originals.pop(name)
        finally:
            self._busy = False

    # --- watching the first evaluation -----------------------------------------------------------

    @contextmanager
    def _watching(self) -> Generator[None]:
        """Track which module runs, and detect reads of parameters outside their own module."""
        listed = self._parameters.items()
        extents = ((w.data_ptr(), w.numel() * w.element_size(), name) for name, w in listed)
        self._memory = sorted((start, start + size, name) for start, size, name in extents)
        with self.attached(), Reads(self._read):
            self._detach()  # the layers' wrappers go around those that track modules
            try:
                for wrapped in self._followed:
                    wrapped.attach()
                self._attach_all()
                yield
            finally:
                self._memory = []
                self._detach()
                for wrapped in self._followed:
                    wrapped.remove()
                self._attach_all()

    def _follow(self, module: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a module's call to track that it is running."""

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
        """Assign parameters that are about to be read to the running module."""
        if self._busy or self._fill is None:
            return
        names: list[str] = []
        for tensor in tensors:
            name = self._names.get(id(tensor))
            if name is None:
                self._check_view(tensor)
            elif name not in self._originals and name not in names:
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
        """Raise an error for a tensor in a parameter's original memory, which is not perturbed."""
        if type(w) is not Tensor or w.layout is not _STRIDED or w.is_nested or not w.numel():
            return
        i = bisect_right(self._memory, w.data_ptr(), key=lambda each: each[0]) - 1
        if i >= 0 and w.data_ptr() < self._memory[i][1]:
            raise RuntimeError(
                f"The evaluation reads a view of the parameter {self._memory[i][2]!r} that was "
                "created earlier and does not have the perturbed values. Create the view in the "
                "evaluation, or use mode='in-place'. The parameters were not changed."
            )


def _first_of(names: list[str]) -> str:
    return f"{names[0]!r}" + (f" (and {len(names) - 1} more)" if names[1:] else "")
