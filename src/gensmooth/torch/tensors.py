"""Operations on one parameter's memory: perturb into a buffer, move, accumulate momentum.

Numba kernels handle CPU tensors, and Triton kernels handle CUDA tensors. Both use the same random
numbers. Bernoulli directions give the same bits on both; normal ones agree up to rounding.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch

from gensmooth import kernels
from gensmooth.models import Stream
from gensmooth.streams import TILE, Purpose
from gensmooth.torch import cpu

Tensor = torch.Tensor

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
MAX_ENTRIES = 2**34  # per parameter: each value of the 32-bit counter yields four normals


class Backend(Protocol):
    """The kernels for one kind of device, which work on contiguous tensors of any shape.

    ``law`` is 0 for entries ±1 and 1 for normal entries; ``chosen`` marks the tiles that move
    (None: all).
    """

    def move(
        self,
        key: tuple[int, int, int, int],
        law: int,
        chosen: Tensor | None,
        w: Tensor,
        indices: Sequence[int],
        amounts: Sequence[float],
        keep: float,
        out: Tensor,
    ) -> None:
        """Compute ``out = round(keep · w + Σ_l amounts[l] ε_{indices[l]})``."""
        ...

    def prepare(
        self,
        words: Sequence[tuple[int, int]],
        law: int,
        tensors: Sequence[Tensor],
        outs: Sequence[Tensor],
    ) -> Any:
        """Prepare parameters for :meth:`move_many`; valid while their addresses do not change.

        ``words`` are the two words of each key that depend on the parameter.
        """
        ...

    def move_many(
        self, prepared: Any, step_words: tuple[int, int], index: int, amount: float
    ) -> None:
        """Compute ``out = round(w + amount · ε_index)`` for many parameters, all at the same step.

        ``step_words`` are the two words of the key that depend on the step.
        """
        ...

    def gather(
        self,
        key: tuple[int, int, int, int],
        law: int,
        chosen: Tensor | None,
        indices: Sequence[int],
        amounts: Sequence[float],
        keep: float,
        out: Tensor,
    ) -> None:
        """Compute ``out = keep · out + Σ_l amounts[l] ε_{indices[l]}``."""
        ...

    def follow(self, w: Tensor, velocity: Tensor, amount: float, keep: float, out: Tensor) -> None:
        """Compute ``out = round(keep · w + amount · velocity)``."""
        ...

    def add_products(
        self, left: Tensor, right: Tensor, w: Tensor, keep: float, out: Tensor
    ) -> None:
        """Compute ``out[i, j] = round(keep · w[i, j] + Σ_k left[k, i] right[k, j])``."""
        ...

    def gather_products(self, left: Tensor, right: Tensor, keep: float, out: Tensor) -> None:
        """Compute ``out[i, j] = keep · out[i, j] + Σ_k left[k, i] right[k, j]``."""
        ...


def backend(device: torch.device) -> Backend:
    """Return the kernels for tensors on a device."""
    if device.type == "cpu":
        return cpu
    if device.type == "cuda":
        from gensmooth.torch import gpu

        return gpu
    raise ValueError(
        f"Parameters must be on a CPU or a CUDA device, but one is on {device}, for which there "
        "are no kernels."
    )


def sum_type(dtype: torch.dtype) -> torch.dtype:
    """Return the type in which sums for a parameter are computed."""
    return torch.float64 if dtype == torch.float64 else torch.float32


class ChosenTiles:
    """The tiles of a parameter that sparse directions move at a step; cached for one step."""

    def __init__(self) -> None:
        self._step = -1
        self._cache: dict[tuple[int, int, torch.device], Tensor] = {}

    def tiles(self, stream: Stream, step: int, size: int, device: torch.device) -> Tensor | None:
        """Return one byte for each tile; None if all tiles move."""
        if stream.law.density >= 1:
            return None
        if step != self._step:
            self._step = step
            self._cache.clear()
        at = (stream.seed, size, device)
        if at not in self._cache:
            uniforms = np.empty((1, -(-size // TILE)))
            key = np.array(stream.key(step, Purpose.CHOICE), np.uint64)
            kernels.on_laws().uniforms(key, 0, 0, uniforms)
            chosen = (uniforms[0] < stream.law.density).astype(np.uint8)
            self._cache[at] = torch.tensor(chosen, device=device)
        return self._cache[at]


def perturb(
    w: Tensor,
    out: Tensor,
    *,
    stream: Stream,
    step: int,
    directions: Sequence[int],
    amounts: Sequence[float],
    keep: float = 1.0,
    chosen: ChosenTiles,
) -> None:
    """Compute ``out = round(keep · w + Σ_l amounts[l] ε_l)``, where ε has the law's scale.

    Args:
        w: The parameter, contiguous.
        out: The output, like ``w``; may be ``w`` itself.
        stream: The parameter's stream.
        step: The step's number.
        directions: The indices l of the directions.
        amounts: The amount along each direction.
        keep: The factor of the parameter (for weight decay).
        chosen: The tiles that sparse directions move.
    """
    law, on = stream.law, backend(w.device)
    flat, target = w.view(-1), out.view(-1)
    if law.rank and w.ndim > 1:
        left, right = _factors(stream, step, w, directions, amounts)
        on.add_products(left, right, flat, keep, target)
        return
    tiles = chosen.tiles(stream, step, flat.numel(), w.device)
    scaled = [law.scale * amount for amount in amounts]
    on.move(stream.key(step), law_code(law.entries), tiles, flat, directions, scaled, keep, target)


def gather(
    velocity: Tensor,
    *,
    stream: Stream,
    step: int,
    directions: Sequence[int],
    amounts: Sequence[float],
    keep: float,
    chosen: ChosenTiles,
) -> None:
    """Compute ``velocity = keep · velocity + Σ_l amounts[l] ε_l``, in the velocity's type."""
    law, on = stream.law, backend(velocity.device)
    flat = velocity.view(-1)
    if law.rank and velocity.ndim > 1:
        left, right = _factors(stream, step, velocity, directions, amounts)
        on.gather_products(left, right, keep, flat)
        return
    tiles = chosen.tiles(stream, step, flat.numel(), velocity.device)
    scaled = [law.scale * amount for amount in amounts]
    on.gather(stream.key(step), law_code(law.entries), tiles, directions, scaled, keep, flat)


def follow(w: Tensor, velocity: Tensor, *, amount: float, keep: float) -> None:
    """Compute ``w = round(keep · w + amount · velocity)``."""
    backend(w.device).follow(w.view(-1), velocity.view(-1), amount, keep, w.view(-1))


def _factors(
    stream: Stream, step: int, w: Tensor, directions: Sequence[int], amounts: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """Return the factors of a matrix's low-rank directions; the left ones include the amounts."""
    law, on, dtype = stream.law, backend(w.device), sum_type(w.dtype)
    size = law.scale / law.rank**0.5
    sides: list[Tensor] = []
    for purpose, length in ((Purpose.LEFT, w.shape[0]), (Purpose.RIGHT, w[0].numel())):
        rows = torch.zeros(len(directions) * law.rank, length, dtype=dtype, device=w.device)
        for place, direction in enumerate(directions):
            for k in range(law.rank):
                row = rows[place * law.rank + k]
                index = direction * law.rank + k
                key = stream.key(step, purpose)
                one = amounts[place] * size if purpose == Purpose.LEFT else 1.0
                on.move(key, law_code(law.entries), None, row, [index], [one], 1.0, row)
        sides.append(rows)
    return sides[0], sides[1]


def law_code(entries: str) -> int:
    """Return the number by which kernels identify a law of entries."""
    return 0 if entries == "coin" else 1
