"""Moving parameters along directions, and identifying parameters."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import torch
from torch import nn

from gensmooth import streams
from gensmooth.models import Law, Stream
from gensmooth.streams import Purpose
from gensmooth.torch.buffers import PlaceGroup
from gensmooth.torch.tensors import (
    Backend,
    ChosenTiles,
    backend,
    follow,
    gather,
    law_code,
    perturb,
    sum_type,
)

Tensor = torch.Tensor

_PURPOSE = Purpose.DIRECTION
_PIECE = 2**26  # bytes to hash at a time


@final
class Mover:
    """Moves named parameters along their directions.

    Args:
        groups: The named parameters of each group.
        seed: The seed of the run.
        law: The law of the directions.
        momentum: The fraction of the last step's velocity to keep; 0 means no momentum.
    """

    def __init__(
        self,
        groups: Sequence[Mapping[str, nn.Parameter]],
        *,
        seed: int,
        law: Law,
        momentum: float = 0.0,
    ) -> None:
        self._groups = [dict(group) for group in groups]
        self._law = law
        self._momentum = momentum
        self._chosen = ChosenTiles()
        self._streams = {
            name: Stream(streams.named_seed(seed, name), law)
            for group in self._groups
            for name in group
        }
        # The two words of a key that depend on the parameter; the others depend on the step.
        self._parameter_words = {name: stream.key(0)[:2] for name, stream in self._streams.items()}
        # For each group, by the name of its first parameter: its addresses and its launch data.
        self._prepared: dict[str, tuple[list[Any], list[tuple[Backend, Any]]]] = {}
        self.velocities: dict[str, Tensor] = {}

    def fill(self, step: int, direction: int, amount: float) -> Callable[[PlaceGroup], None]:
        """Return a function that writes ``w + amount · ε`` of some parameters to their buffers."""
        law = self._law

        def put(places: PlaceGroup) -> None:
            for name, _, original, out in places.listed:
                w = original.contiguous()
                self._perturb(name, w, out, step, [direction], [amount], 1.0)

        if law.rank or law.density < 1:
            return put
        step_words, scaled = _step_words(step), law.scale * amount

        def put_plain(places: PlaceGroup) -> None:  # the same result, with less overhead
            if places.ready is None:
                contiguous = [place for place in places.listed if place.original.is_contiguous()]
                rest = [place for place in places.listed if not place.original.is_contiguous()]
                prepared = self._prepare(
                    [place.name for place in contiguous],
                    [place.original for place in contiguous],
                    [place.out for place in contiguous],
                )
                places.ready = prepared, PlaceGroup(rest)
            prepared, others = places.ready
            for on, each in prepared:
                on.move_many(each, step_words, direction, scaled)
            put(others)

        return put_plain

    def _prepare(
        self, names: Sequence[str], tensors: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> list[tuple[Backend, Any]]:
        """Prepare contiguous parameters to be moved together, for the kernels of each device."""
        lists: dict[torch.device, list[int]] = {}
        for i, w in enumerate(tensors):
            lists.setdefault(w.device, []).append(i)
        prepared: list[tuple[Backend, Any]] = []
        for device, chosen in lists.items():
            on = backend(device)
            words = [self._parameter_words[names[i]] for i in chosen]
            sources, targets = ([each[i] for i in chosen] for each in (tensors, outs))
            prepared.append((on, on.prepare(words, law_code(self._law.entries), sources, targets)))
        return prepared

    def shift(self, step: int, direction: int, amount: float) -> None:
        """Compute ``w ← round(w + amount · ε)`` for all parameters, in place."""
        self._in_place(step, [direction], lambda _: ([amount], 1.0))

    def move(
        self, step: int, weights: Sequence[float], rates: Sequence[float], decays: Sequence[float]
    ) -> None:
        """Compute ``w ← round((1 − rate · decay) w − rate · Σ_l weights[l] ε_l)``.

        With momentum β, the velocity ``v ← β v + Σ_l weights[l] ε_l`` takes the place of the sum.
        It is stored in float32 (float64 for float64 parameters).
        """
        directions = range(len(weights))
        if not self._momentum:
            self._in_place(
                step,
                directions,
                lambda g: ([-rates[g] * each for each in weights], 1.0 - rates[g] * decays[g]),
            )
            return
        for g, group in enumerate(self._groups):
            for name, w in group.items():
                if name not in self.velocities:
                    self.velocities[name] = torch.zeros(
                        w.shape, dtype=sum_type(w.dtype), device=w.device
                    )
                velocity = self.velocities[name]
                gather(
                    velocity,
                    stream=self._streams[name],
                    step=step,
                    directions=directions,
                    amounts=weights,
                    keep=self._momentum,
                    chosen=self._chosen,
                )
                values = w.data.contiguous()
                follow(values, velocity, amount=-rates[g], keep=1.0 - rates[g] * decays[g])
                _put_back(w, values)

    def direction(self, name: str, step: int, direction: int) -> Tensor:
        """Return the direction ε of one parameter, in float32."""
        w = next(group[name] for group in self._groups if name in group)
        out = torch.zeros(w.shape, device=w.device)
        self._perturb(name, out, out, step, [direction], [1.0], 1.0)
        return out

    def _in_place(
        self,
        step: int,
        directions: Sequence[int],
        amounts: Callable[[int], tuple[list[float], float]],
    ) -> None:
        for g, group in enumerate(self._groups):
            along, keep = amounts(g)
            if keep == 1.0 and not any(along):
                continue
            rest = dict(group)
            if (
                keep == 1.0
                and len(directions) == 1
                and self._law.rank == 0
                and self._law.density == 1
            ):
                self._move_many(group, step, directions[0], self._law.scale * along[0])
                rest = {name: w for name, w in group.items() if not w.is_contiguous()}
            for name, w in rest.items():
                values = w.data.contiguous()
                self._perturb(name, values, values, step, directions, along, keep)
                _put_back(w, values)

    def _move_many(
        self, group: Mapping[str, nn.Parameter], step: int, direction: int, amount: float
    ) -> None:
        """Move contiguous parameters along one direction, together for each device."""
        contiguous = {name: w for name, w in group.items() if w.is_contiguous()}
        if not contiguous:
            return
        first = next(iter(contiguous))
        where = [(w.data_ptr(), w.numel(), w.dtype) for w in contiguous.values()]
        known = self._prepared.get(first)
        if known is not None and known[0] == where:
            prepared = known[1]
        else:
            tensors = [w.data for w in contiguous.values()]
            prepared = self._prepare(list(contiguous), tensors, tensors)
            self._prepared[first] = where, prepared
        for on, each in prepared:
            on.move_many(each, _step_words(step), direction, amount)
        for w in contiguous.values():
            torch.autograd.graph.increment_version(w)

    def _perturb(
        self,
        name: str,
        w: Tensor,
        out: Tensor,
        step: int,
        directions: Sequence[int],
        amounts: Sequence[float],
        keep: float,
    ) -> None:
        perturb(
            w,
            out,
            stream=self._streams[name],
            step=step,
            directions=directions,
            amounts=amounts,
            keep=keep,
            chosen=self._chosen,
        )


def _step_words(step: int) -> tuple[int, int]:
    """Return the two words of a key that depend on the step."""
    _, _, *words = streams.key_and_counter(0, _PURPOSE, step)
    return words[0], words[1]


def _put_back(w: nn.Parameter, values: Tensor) -> None:
    if values.data_ptr() != w.data_ptr():
        w.data.copy_(values)
    torch.autograd.graph.increment_version(w)


def fingerprint(parameters: Mapping[str, Tensor]) -> str:
    """Hash the names, types, shapes and all bits of some parameters.

    >>> a = fingerprint({"w": torch.zeros(3)})
    >>> a == fingerprint({"w": torch.zeros(3)}), a == fingerprint({"w": -torch.zeros(3)})
    (True, False)
    """
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(parameters):
        w = parameters[name].detach()
        total.update(f"{name} {w.dtype} {tuple(w.shape)}\n".encode())
        flat = w.contiguous().view(-1)
        flat = flat.view(torch.uint8) if flat.numel() else flat
        for start in range(0, flat.numel(), _PIECE):
            piece: Any = flat[start : start + _PIECE].cpu().numpy()
            total.update(piece)
    return total.hexdigest()


def describe_parameters(parameters: Mapping[str, Tensor]) -> list[list[Any]]:
    """Return the names, types and shapes in the form stored in a log."""
    return [
        [name, str(w.dtype).removeprefix("torch."), list(w.shape)] for name, w in parameters.items()
    ]
