# pyright: basic
# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportIndexIssue=false
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false
"""The backend for CUDA tensors, which chooses, sizes and launches the Triton kernels."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
import triton.language as tl

from gensmooth.torch import gpu_coins, gpu_normals, gpu_words

Tensor = torch.Tensor
Key = tuple[int, int, int, int]

# The work and the warps of one program, tuned with benchmarks/torch_gpu.py --tune.
ONE_COIN = {"TILES": 4, "num_warps": 1}  # tiles of 2048 entries
PAIRS = {"TILES": 4, "num_warps": 4}  # as many tiles as warps: one word per thread and row
COINS = {"WORDS": 32, "num_warps": 1}  # words (× 4) of 128 entries
FOURS = {"THREADS": 128, "ROUNDS": 4, "num_warps": 4}  # threads with 16 entries per round
NORMALS = {"BLOCKS": 8, "num_warps": 4}  # blocks of 128 entries
_HALVES = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
_TABLED = 8  # the number of directions whose sums are in a table
_MIN_AMOUNT = 1e-20  # the smallest amount whose product with a normal does not underflow to zero
_MAX_FOURS = 2**32  # the most entries that an int32 can count in fours
_CHUNK = 16  # consecutive programs that work on one parameter when many are moved together
_ENTRIES = 1024  # per program of follow
_ROWS, _COLUMNS = 8, 256  # per program of add_products

_PLAIN: Any = {"enable_fp_fusion": False}


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
    _launch(key, law, chosen, w, indices, amounts, keep, out, decay=False)


class LaunchGroup(NamedTuple):
    """Parameters that one kernel launch moves together, and its launch data."""

    table: Tensor
    owners: Tensor
    programs: int
    constants: tuple[Any, ...]
    warps: int


class GpuParameters(NamedTuple):
    """Parameters to move: in groups by one launch each, and the others one at a time."""

    law: int
    groups: list[LaunchGroup]
    members: list[tuple[tuple[int, int], Tensor, Tensor]]
    others: list[tuple[tuple[int, int], Tensor, Tensor]]


def prepare(
    words: Sequence[tuple[int, int]], law: int, tensors: Sequence[Tensor], outs: Sequence[Tensor]
) -> GpuParameters:
    """See :meth:`gensmooth.torch.tensors.Backend.prepare`."""
    *sizes, warps = (PAIRS if law == 0 else FOURS).values()
    entries = math.prod(sizes) * (2048 if law == 0 else 16)  # per program
    rows: dict[torch.dtype, list[tuple[int, int, int, int, int]]] = {}
    prepared = GpuParameters(law, [], [], [])
    for parameter_words, w, out in zip(words, tensors, outs, strict=True):
        source, target, dtype = w.data_ptr(), out.data_ptr(), w.dtype
        fits = dtype in _HALVES and _fits(law, w, source | target, 1.0)
        (prepared.members if fits else prepared.others).append((parameter_words, w, out))
        if fits:
            rows.setdefault(dtype, []).append((source, target, w.numel(), *parameter_words))
    for dtype, listed in rows.items():
        constants = (_CHUNK, _HALVES[dtype], *sizes)
        table = _rows(listed, entries, tensors[0].device)
        prepared.groups.append(LaunchGroup(*table, constants, warps))
    return prepared


def move_many(
    prepared: GpuParameters, step_words: tuple[int, int], index: int, amount: float
) -> None:
    """See :meth:`gensmooth.torch.tensors.Backend.move_many`."""
    law, groups, members, others = prepared
    if law == 1 and abs(amount) < _MIN_AMOUNT:
        groups, others = [], [*members, *others]
    for parameter_words, w, out in others:
        move(parameter_words + step_words, law, None, w, [index], [amount], 1.0, out)
    kernel = gpu_coins.add_one_coin_to_many if law == 0 else gpu_normals.add_one_normal_to_many
    numbers = (_signed_word(index), _bits(amount), *map(_signed_word, step_words))
    for table, owners, programs, constants, warps in groups:
        with _on(table.device):
            _start(kernel, programs, (table, owners), None, numbers, constants, warps)


def _rows(
    rows: Sequence[tuple[int, int, int, int, int]], entries: int, device: torch.device
) -> tuple[Tensor, Tensor, int]:
    """Return the kernels' table of parameters moved together, and the number of programs."""
    chunks = [-(-n // (entries * _CHUNK)) for _, _, n, _, _ in rows]
    firsts = np.concatenate([[0], np.cumsum(chunks)])
    table = [
        (source, target, n, int(first) * _CHUNK, _signed_word(k0), _signed_word(k1))
        for (source, target, n, k0, k1), first in zip(rows, firsts[:-1], strict=True)
    ]
    owners = np.repeat(np.arange(len(rows), dtype=np.int32), chunks)
    return (
        torch.tensor(table, dtype=torch.int64).to(device),
        torch.from_numpy(owners).to(device),
        int(firsts[-1]) * _CHUNK,
    )


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
    _launch(key, law, chosen, out, indices, amounts, keep, out, decay=True)


def _launch(
    key: Key,
    law: int,
    chosen: Tensor | None,
    w: Tensor,
    indices: Sequence[int],
    amounts: Sequence[float],
    keep: float,
    out: Tensor,
    *,
    decay: bool,
) -> None:
    with _on(w.device):
        plain = len(indices) == 1 and chosen is None and keep == 1.0 and not decay
        if plain and _launch_one(key, law, w, indices[0], amounts[0], out):
            return
        n, dtype, words = w.numel(), _sum_type(w), tuple(map(_signed_word, key))
        numbers = _on_device((*amounts, keep), dtype, w.device)
        listed = _on_device(tuple(map(_signed_word, indices)), torch.int32, w.device)
        arguments = [w, out, w if chosen is None else chosen, listed, numbers]
        flags = (chosen is not None, decay)
        if law == 0:
            tabled = _TABLED if len(indices) >= _TABLED and dtype == torch.float32 else 0
            sums = _table(tuple(amounts[:_TABLED]), w.device) if tabled else numbers
            size, warps = COINS.values()
            _start(
                gpu_coins.add_coins,
                -(-n // (size * 128)),
                (*arguments, sums),
                n,
                (len(indices), *words),
                (size, tabled, *flags),
                warps,
            )
        else:
            size, warps = NORMALS.values()
            _start(
                gpu_normals.add_normals,
                -(-n // (size * 128)),
                arguments,
                n,
                (len(indices), *words),
                (size, *flags),
                warps,
            )


def _launch_one(key: Key, law: int, w: Tensor, index: int, amount: float, out: Tensor) -> bool:
    """Move along one direction, if there is a kernel for that; returns whether there is."""
    n, dtype, half = w.numel(), w.dtype, _HALVES.get(w.dtype)
    if dtype == torch.float64:
        return False
    joined = half is not None and _fits(law, w, w.data_ptr() | out.data_ptr(), amount)
    numbers = (_signed_word(index), _bits(amount), *map(_signed_word, key))
    if law == 0 and joined:
        tiles, warps = PAIRS.values()
        kernel, size, together = gpu_coins.add_one_coin_in_pairs, 2048 * tiles, 2
        constants = (tiles,)
    elif law == 0:
        tiles, warps = ONE_COIN.values()
        kernel, size, together = gpu_coins.add_one_coin, 2048 * tiles, 1
        constants = (tiles, n % size == 0)
    elif joined:
        threads, rounds, warps = FOURS.values()
        kernel, size, together = gpu_normals.add_one_normal_in_fours, 16 * threads * rounds, 4
        constants = (threads, rounds, n % size == 0)
    else:
        return False
    constants = (half, *constants) if joined else constants
    as_type = {1: None, 2: torch.int32, 4: torch.int64}[together]
    _start(kernel, -(-n // size), (w, out), n // together, numbers, constants, warps, as_type)
    return True


def _fits(law: int, w: Tensor, address: int, amount: float) -> bool:
    """Return whether half-precision entries can be processed in pairs or in fours (normals)."""
    n = w.numel()
    if law == 0:
        fits = not (n % 2 or address % 4)
    else:
        fits = not (n % 4 or address % 8) and n < _MAX_FOURS and abs(amount) >= _MIN_AMOUNT
    return fits and _joins_halves(w.device)


@lru_cache(maxsize=16)
def _joins_halves(device: torch.device) -> bool:
    """Return whether a device can round two numbers to half precision in one instruction."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device) >= (8, 0)


@lru_cache(maxsize=64)
def _table(amounts: tuple[float, ...], device: torch.device) -> Tensor:
    """Return the sums of ``±amounts`` in order; bit l of the index makes amount l negative."""
    sums = np.zeros(2 ** len(amounts), np.float32)
    for l, amount in enumerate(np.array(amounts, np.float32)):  # noqa: E741
        sums += np.where(np.arange(len(sums)) >> l & 1, -amount, amount)
    return torch.from_numpy(sums).to(device)


# --- launching kernels ---------------------------------------------------------------------------


def _start(
    kernel: Any,
    programs: int,
    tensors: Sequence[Tensor],
    n: int | None,
    numbers: tuple[int, ...],
    constants: tuple[Any, ...],
    warps: int,
    as_type: torch.dtype | None = None,
) -> None:
    """Launch a kernel: the first time through Triton, then directly as the compiled kernel.

    At every launch, Triton determines which variant to compile, which takes several times as long
    as the launch itself. The variant depends on the types of the tensors, on which addresses and
    sizes are multiples of 16, and on the constants, but not on ``numbers``.
    """
    addresses = [each.data_ptr() for each in tensors]
    w = tensors[0]
    aligned = tuple(address % 16 == 0 for address in addresses)
    size = () if n is None else (n,)
    known = (kernel.__name__, programs, n, w.dtype, w.device, aligned, constants, warps)
    start = _STARTS.get(known, _UNKNOWN)
    if callable(start):
        try:
            start(*addresses, *size, *numbers, *constants)
        except TypeError:  # another version of Triton expects other arguments; nothing launched
            _STARTS[known] = None
        else:
            return
    if as_type is not None:
        tensors = [each.view(-1).view(as_type) for each in tensors]
    options = {"num_warps": warps, **_PLAIN}
    compiled = kernel[(programs,)](*tensors, *size, *numbers, *constants, **options)
    if start is _UNKNOWN and compiled is not None:  # None: Triton's interpreter ran it
        if len(_STARTS) >= _STARTS_MOST:
            _STARTS.clear()
        _STARTS[known] = compiled[(programs, 1, 1)]


_STARTS: dict[tuple[Any, ...], Callable[..., None] | None] = {}  # None: always through Triton
_UNKNOWN: Any = object()
_STARTS_MOST = 10_000


def follow(w: Tensor, velocity: Tensor, amount: float, keep: float, out: Tensor) -> None:
    """See :meth:`gensmooth.torch.tensors.Backend.follow`."""
    n = w.numel()
    numbers = _on_device((amount, keep), velocity.dtype, w.device)
    with _on(w.device):
        gpu_words.follow[(-(-n // _ENTRIES),)](
            w, velocity, out, n, numbers, ENTRIES=_ENTRIES, **_PLAIN
        )


def add_products(left: Tensor, right: Tensor, w: Tensor, keep: float, out: Tensor) -> None:
    """See :meth:`gensmooth.torch.tensors.Backend.add_products`."""
    rows, columns = left.shape[1], right.shape[1]
    numbers = _on_device((keep,), left.dtype, w.device)
    with _on(w.device):
        gpu_words.add_products[(-(-rows // _ROWS), -(-columns // _COLUMNS))](
            w,
            out,
            left,
            right,
            rows,
            columns,
            left.shape[0],
            numbers,
            ROWS=_ROWS,
            COLUMNS=_COLUMNS,
            **_PLAIN,
        )


def gather_products(left: Tensor, right: Tensor, keep: float, out: Tensor) -> None:
    """See :meth:`gensmooth.torch.tensors.Backend.gather_products`."""
    add_products(left, right, out, keep, out)


@lru_cache(maxsize=64)
def _on_device(numbers: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a few numbers as a tensor on the device, cached for all parameters of a step."""
    return (
        torch.tensor(numbers, dtype=torch.float64 if dtype.is_floating_point else dtype)
        .to(dtype)
        .to(device)
    )


def _sum_type(w: Tensor) -> torch.dtype:
    return torch.float64 if w.dtype == torch.float64 else torch.float32


def _bits(amount: float) -> int:
    return int(np.float32(amount).view(np.int32))


def _signed_word(word: int) -> int:
    return word - 2**32 if word >= 2**31 else word


def _on(device: torch.device) -> Any:
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return _HERE
    return torch.cuda.device(device)


_HERE = nullcontext()
