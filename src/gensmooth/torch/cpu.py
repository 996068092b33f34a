"""The Numba kernels for CPU tensors, which work on the tensor's own memory.

Large parameters are split at tile boundaries among as many threads as torch uses. This does not
change any bit of the result.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gensmooth import kernels
from gensmooth.streams import TILE

Tensor = torch.Tensor
Key = tuple[int, int, int, int]


class CpuParameters(NamedTuple):
    """Parameters that are moved together: for each, its key, its memory, and that of the output."""

    law: int
    parameters: list[tuple[NDArray[np.uint64], NDArray[Any], NDArray[Any]]]


_WORTH_THREADS = 2**22  # entries × directions; below this, threads cost more than they save
_ALL = np.empty(0, np.uint8)


def move(
    key: Key,
    law: int,
    chosen: Tensor | None,
    w: Tensor,
    indices: Sequence[int],
    amounts: Sequence[float],
    keep: float,
    out: Tensor,
) -> None:
    """See :meth:`gensmooth.torch.tensors.Backend.move`."""
    words, tiles = np.array(key, np.uint64), _tiles(chosen)
    _move(words, law, tiles, memory(w), indices, amounts, keep, memory(out))


def _move(
    words: NDArray[np.uint64],
    law: int,
    tiles: NDArray[np.uint8],
    source: NDArray[Any],
    indices: Sequence[int],
    amounts: Sequence[float],
    keep: float,
    target: NDArray[Any],
) -> None:
    on = kernels.on_tensors()
    one_coin = len(indices) == 1 and law == 0 and tiles is _ALL and keep == 1.0
    if one_coin and source.dtype == np.float32:
        index, amount = np.uint64(indices[0]), np.float32(amounts[0])
        _over_tiles(
            lambda a, b: on.add_one_coin(words, a, b, source, index, amount, target),
            -(-len(source) // TILE),
            len(source),
        )
        return
    kind = _sum_dtype(source)
    arguments = (source, np.array(indices, np.uint64), np.array(amounts, kind), kind(keep), target)
    _over_tiles(
        lambda a, b: on.move(words, law, tiles, a, b, *arguments),
        -(-len(source) // TILE),
        len(source) * len(indices),
    )


def prepare(
    words: Sequence[tuple[int, int]], law: int, tensors: Sequence[Tensor], outs: Sequence[Tensor]
) -> CpuParameters:
    """See :meth:`gensmooth.torch.tensors.Backend.prepare`."""
    return CpuParameters(
        law,
        [
            (np.array((*each, 0, 0), np.uint64), memory(w), memory(out))
            for each, w, out in zip(words, tensors, outs, strict=True)
        ],
    )


def move_many(
    prepared: CpuParameters, step_words: tuple[int, int], index: int, amount: float
) -> None:
    """See :meth:`gensmooth.torch.tensors.Backend.move_many`."""
    for words, source, target in prepared.parameters:
        words[2:] = step_words
        _move(words, prepared.law, _ALL, source, [index], [amount], 1.0, target)


def gather(
    key: Key,
    law: int,
    chosen: Tensor | None,
    indices: Sequence[int],
    amounts: Sequence[float],
    keep: float,
    out: Tensor,
) -> None:
    """See :meth:`gensmooth.torch.tensors.Backend.gather`."""
    on, words, target = kernels.on_tensors(), np.array(key, np.uint64), memory(out)
    kind = _sum_dtype(target)
    arguments = (np.array(indices, np.uint64), np.array(amounts, kind), kind(keep), target)
    _over_tiles(
        lambda a, b: on.gather(words, law, _tiles(chosen), a, b, *arguments),
        -(-len(target) // TILE),
        len(target) * len(indices),
    )


def follow(w: Tensor, velocity: Tensor, amount: float, keep: float, out: Tensor) -> None:
    """See :meth:`gensmooth.torch.tensors.Backend.follow`."""
    on, source, target, pull = kernels.on_tensors(), memory(w), memory(out), memory(velocity)
    kind = _sum_dtype(source)
    _over_tiles(
        lambda a, b: on.follow(a, b, source, pull, kind(amount), kind(keep), target),
        -(-len(source) // TILE),
        len(source),
    )


def add_products(left: Tensor, right: Tensor, w: Tensor, keep: float, out: Tensor) -> None:
    """See :meth:`gensmooth.torch.tensors.Backend.add_products`."""
    on, source, target = kernels.on_tensors(), memory(w), memory(out)
    a, b, kind = left.numpy(), right.numpy(), _sum_dtype(source)
    _over_tiles(
        lambda first, last: on.add_products(a, b, first, last, source, kind(keep), target),
        left.shape[1],
        len(source) * left.shape[0],
    )


def gather_products(left: Tensor, right: Tensor, keep: float, out: Tensor) -> None:
    """See :meth:`gensmooth.torch.tensors.Backend.gather_products`."""
    on, target = kernels.on_tensors(), memory(out)
    a, b, kind = left.numpy(), right.numpy(), _sum_dtype(target)
    _over_tiles(
        lambda first, last: on.gather_products(a, b, first, last, kind(keep), target),
        left.shape[1],
        len(target) * left.shape[0],
    )


def memory(tensor: Tensor) -> NDArray[Any]:
    """Return a contiguous tensor's memory for the kernels: bfloat16 as uint16, float16 as int16."""
    flat = tensor.detach().view(-1)
    if flat.dtype in (torch.bfloat16, torch.float16):
        bits = flat.view(torch.int16).numpy()
        return bits.view(np.uint16) if tensor.dtype == torch.bfloat16 else bits
    return flat.numpy()


def _sum_dtype(array: NDArray[Any]) -> Any:
    return np.float64 if array.dtype == np.float64 else np.float32


def _tiles(chosen: Tensor | None) -> NDArray[np.uint8]:
    return _ALL if chosen is None else chosen.numpy()


def _over_tiles(kernel: Callable[[int, int], None], number: int, work: int) -> None:
    """Call a kernel on ranges that together cover all tiles (or rows)."""
    threads = min(torch.get_num_threads(), number) if work >= _WORTH_THREADS else 1
    if threads == 1:
        kernel(0, number)
        return
    cuts = [number * i // threads for i in range(threads + 1)]
    for piece in [_pool(threads).submit(kernel, a, b) for a, b in pairwise(cuts)]:
        piece.result()


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="gensmooth")
