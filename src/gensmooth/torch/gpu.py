# pyright: basic
# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportIndexIssue=false
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false
"""The kernels for tensors on a CUDA device: Triton, reading the same random numbers as Numba does.

Philox4x32-10 is the generator of :mod:`gensmooth.kernels.philox`, and tiles lie as in
:mod:`gensmooth.kernels.tiles`: signs are equal bit for bit. Sums run in the same order, and a
product is never fused with a sum (``enable_fp_fusion=False``), so a step along coins gives the same
bits as on a CPU. Normals follow the same series, with divisions and roots that round correctly.

What differs is who does what. A thread keeps words of its own and walks over their 32 bits, so a
word that was made is used 32 times, and no thread waits for another.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

Tensor = torch.Tensor
Key = tuple[int, int, int, int]

# What one program makes, and by how many warps: chosen by benchmarks/torch_gpu.py --tune.
ONE_COIN = {"TILES": 4, "num_warps": 1}  # tiles of 2048 entries
COINS = {"WORDS": 128, "num_warps": 4}  # words (times 4), of 128 entries
NORMALS = {"BLOCKS": 8, "num_warps": 4}  # blocks of 128 entries
PAIRS = {"TILES": 4, "num_warps": 4}  # tiles: as many as warps, one word per thread and row
_HALVES = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
_ENTRIES = 1024  # of a program of _follow
_ROWS, _COLUMNS = 8, 256  # of a program of _add_products

_PLAIN: Any = {"enable_fp_fusion": False}


def _f(value: float) -> Any:
    return tl.constexpr(float(np.float32(value)))


_LN2, _ULP, _ANGLE = _f(math.log(2.0)), _f(2.0**-32), _f(math.pi / 4 * 2.0**-29)
_L3, _L5, _L7, _L9, _L11 = (_f(2 / n) for n in (3, 5, 7, 9, 11))
_S3, _S5, _S7, _S9 = (_f((-1) ** (n // 2) / math.factorial(n)) for n in (3, 5, 7, 9))
_C2, _C4, _C6, _C8, _C10 = (_f((-1) ** (n // 2) / math.factorial(n)) for n in (2, 4, 6, 8, 10))


@triton.jit
def _philox(c0, c1, c2, c3, k0, k1):
    """Four words from a counter of four words and a key of two, all uint32."""
    for _ in tl.static_range(10):
        p0 = c0.to(tl.uint64) * 0xD2511F53  # one instruction, where two would make the halves
        p1 = c2.to(tl.uint64) * 0xCD9E8D57
        c0 = (p1 >> 32).to(tl.uint32) ^ c1 ^ k0
        c1 = p1.to(tl.uint32)
        c2 = (p0 >> 32).to(tl.uint32) ^ c3 ^ k1
        c3 = p0.to(tl.uint32)
        k0 = k0 + 0x9E3779B9
        k1 = k1 + 0xBB67AE85
    return c0, c1, c2, c3


@triton.jit
def _word(value):
    """A 32-bit argument, which Triton takes for a signed one."""
    return value.to(tl.uint32, bitcast=True)


@triton.jit
def _signed(words, shift, amount):
    """``±amount`` by one bit of each word, the one that ``shift`` moves to the top."""
    if amount.dtype == tl.float32:
        sign = (words << shift) & 0x80000000
        found = (amount.to(tl.uint32, bitcast=True) ^ sign).to(tl.float32, bitcast=True)
    else:
        found = tl.where(((words << shift) & 0x80000000) != 0, -amount, amount)
    return found


@triton.jit(do_not_specialize=["index", "amount", "k0", "k1", "c2", "c3"])
def _add_one_coin(
    w, out, n, index, amount, k0, k1, c2, c3, TILES: tl.constexpr, EVEN: tl.constexpr
):
    """``out = round(w + amount · ε)``, float32 or less; the amount is given by its bits."""
    tile = tl.program_id(0) * TILES + tl.arange(0, TILES)[:, None]
    k = tl.arange(0, 64)[None, :]
    counter = (tile * 16 + (k & 15)).to(tl.uint32)
    a, b, c, d = _philox(counter, _word(index), _word(c2), _word(c3), _word(k0), _word(k1))
    part = k >> 4
    words = tl.where(part < 2, tl.where(part == 0, a, b), tl.where(part == 2, c, d))
    entry = tile.to(tl.int64) * 2048 + k
    for j in tl.static_range(0, 32, 4):  # four loads on their way at a time: a store ends a row
        at = entry + 64 * j
        x0 = _get(w, at, n, EVEN)
        x1 = _get(w, at + 64, n, EVEN)
        x2 = _get(w, at + 128, n, EVEN)
        x3 = _get(w, at + 192, n, EVEN)
        _set(out, at, n, x0 + _flip(words, 31 - j, amount), EVEN)
        _set(out, at + 64, n, x1 + _flip(words, 30 - j, amount), EVEN)
        _set(out, at + 128, n, x2 + _flip(words, 29 - j, amount), EVEN)
        _set(out, at + 192, n, x3 + _flip(words, 28 - j, amount), EVEN)


@triton.jit(do_not_specialize=["index", "amount", "k0", "k1", "c2", "c3"])
def _add_one_coin_in_pairs(
    w, out, n, index, amount, k0, k1, c2, c3, HALF: tl.constexpr, TILES: tl.constexpr
):
    """As :func:`_add_one_coin`; an int32 is two entries of half precision, n counts those.

    With one int32 per thread and row, what a thread computes is what it loads and stores: nothing
    is handed over.
    """
    tile = tl.program_id(0) * TILES + tl.arange(0, TILES)[:, None]
    k = 2 * tl.arange(0, 32)[None, :]
    counter = (tile * 16 + (k & 15)).to(tl.uint32)
    part = k >> 4
    a, b, c, d = _philox(counter, _word(index), _word(c2), _word(c3), _word(k0), _word(k1))
    even = tl.where(part < 2, tl.where(part == 0, a, b), tl.where(part == 2, c, d))
    a, b, c, d = _philox(counter + 1, _word(index), _word(c2), _word(c3), _word(k0), _word(k1))
    odd = tl.where(part < 2, tl.where(part == 0, a, b), tl.where(part == 2, c, d))
    entry = tile.to(tl.int64) * 1024 + tl.arange(0, 32)[None, :]
    for j in tl.static_range(0, 32, 8):  # eight loads on their way at a time
        at = entry + 32 * j
        x0 = tl.load(w + at, mask=at < n, other=0)
        x1 = tl.load(w + at + 32, mask=at + 32 < n, other=0)
        x2 = tl.load(w + at + 64, mask=at + 64 < n, other=0)
        x3 = tl.load(w + at + 96, mask=at + 96 < n, other=0)
        x4 = tl.load(w + at + 128, mask=at + 128 < n, other=0)
        x5 = tl.load(w + at + 160, mask=at + 160 < n, other=0)
        x6 = tl.load(w + at + 192, mask=at + 192 < n, other=0)
        x7 = tl.load(w + at + 224, mask=at + 224 < n, other=0)
        tl.store(out + at, _both(x0, even, odd, 31 - j, amount, HALF), mask=at < n)
        tl.store(out + at + 32, _both(x1, even, odd, 30 - j, amount, HALF), mask=at + 32 < n)
        tl.store(out + at + 64, _both(x2, even, odd, 29 - j, amount, HALF), mask=at + 64 < n)
        tl.store(out + at + 96, _both(x3, even, odd, 28 - j, amount, HALF), mask=at + 96 < n)
        tl.store(out + at + 128, _both(x4, even, odd, 27 - j, amount, HALF), mask=at + 128 < n)
        tl.store(out + at + 160, _both(x5, even, odd, 26 - j, amount, HALF), mask=at + 160 < n)
        tl.store(out + at + 192, _both(x6, even, odd, 25 - j, amount, HALF), mask=at + 192 < n)
        tl.store(out + at + 224, _both(x7, even, odd, 24 - j, amount, HALF), mask=at + 224 < n)


@triton.jit
def _both(x, even, odd, shift: tl.constexpr, amount, HALF: tl.constexpr):
    """Two entries of half precision in one word, each moved."""
    word = x.to(tl.uint32, bitcast=True)
    low = (word & 0xFFFF).to(tl.uint16).to(HALF, bitcast=True).to(tl.float32)
    high = (word >> 16).to(tl.uint16).to(HALF, bitcast=True).to(tl.float32)
    low = (low + _flip(even, shift, amount)).to(HALF).to(tl.uint16, bitcast=True)
    high = (high + _flip(odd, shift, amount)).to(HALF).to(tl.uint16, bitcast=True)
    return (low.to(tl.uint32) | (high.to(tl.uint32) << 16)).to(tl.int32, bitcast=True)


@triton.jit
def _flip(words, shift: tl.constexpr, amount):
    """``±amount``, an amount given by its bits."""
    return (_word(amount) ^ ((words << shift) & 0x80000000)).to(tl.float32, bitcast=True)


@triton.jit
def _get(w, at, n, EVEN: tl.constexpr):
    x = tl.load(w + at) if EVEN else tl.load(w + at, mask=at < n, other=0.0)
    return x.to(tl.float32)


@triton.jit
def _set(out, at, n, x, EVEN: tl.constexpr):
    if EVEN:
        tl.store(out + at, x.to(out.dtype.element_ty))
    else:
        tl.store(out + at, x.to(out.dtype.element_ty), mask=at < n)


@triton.jit
def _put(w, out, at, n, keep, total, chosen, tile, SPARSE: tl.constexpr, DECAY: tl.constexpr):
    """``out = round(keep · w + total)`` at some entries; what is not chosen is copied."""
    x = tl.load(w + at, mask=at < n, other=0.0)
    if SPARSE:
        there = tl.load(chosen + tile, mask=at < n, other=0) != 0
        if DECAY:
            total = tl.where(there, total, 0.0)
            y = (keep * x.to(total.dtype) + total).to(out.dtype.element_ty)
        else:
            y = tl.where(there, (keep * x.to(total.dtype) + total).to(out.dtype.element_ty), x)
    else:
        y = (keep * x.to(total.dtype) + total).to(out.dtype.element_ty)
    tl.store(out + at, y, mask=at < n)


@triton.jit(do_not_specialize=["count", "k0", "k1", "c2", "c3"])
def _add_coins(
    w,
    out,
    n,
    chosen,
    indices,
    numbers,
    count,
    k0,
    k1,
    c2,
    c3,
    WORDS: tl.constexpr,
    SPARSE: tl.constexpr,
    DECAY: tl.constexpr,
):
    """``out = round(keep · w + Σ_l amounts[l] ε_l)``; ``numbers`` are the amounts, then keep."""
    place = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    j = tl.arange(0, 32)[:, None]
    shift = (31 - j).to(tl.uint32)
    kind = numbers.dtype.element_ty
    total0 = tl.zeros([32, WORDS], kind)
    total1 = tl.zeros([32, WORDS], kind)
    total2 = tl.zeros([32, WORDS], kind)
    total3 = tl.zeros([32, WORDS], kind)
    for l in range(count):  # noqa: E741
        amount = tl.load(numbers + l)
        index = _word(tl.load(indices + l))
        a, b, c, d = _philox(place.to(tl.uint32), index, _word(c2), _word(c3), _word(k0), _word(k1))
        total0 += _signed(a[None, :], shift, amount)
        total1 += _signed(b[None, :], shift, amount)
        total2 += _signed(c[None, :], shift, amount)
        total3 += _signed(d[None, :], shift, amount)
    keep = tl.load(numbers + count)
    tile = (place // 16)[None, :] + 0 * j
    at = tile.to(tl.int64) * 2048 + 64 * j + (place % 16)[None, :]
    _put(w, out, at, n, keep, total0, chosen, tile, SPARSE, DECAY)
    _put(w, out, at + 16, n, keep, total1, chosen, tile, SPARSE, DECAY)
    _put(w, out, at + 32, n, keep, total2, chosen, tile, SPARSE, DECAY)
    _put(w, out, at + 48, n, keep, total3, chosen, tile, SPARSE, DECAY)


@triton.jit
def _pair(word, turn):
    """Two normals from two words, by Box and Muller, as in kernels/tiles.py."""
    mantissa = tl.maximum(word.to(tl.float32), 0.5)
    bits = mantissa.to(tl.int32, bitcast=True)
    e = (bits - 0x3F3504F3) >> 23
    mantissa = (bits - (e << 23)).to(tl.float32, bitcast=True)
    exponent = (e - 32).to(tl.float32)
    complement = (0 - word).to(tl.float32) * _ULP
    f = tl.where(exponent == 0.0, -complement, mantissa - 1.0)
    s = tl.div_rn(f, 2.0 + f)
    q = s * s
    log_u = s * (2.0 + q * (_L3 + q * (_L5 + q * (_L7 + q * (_L9 + q * _L11)))))
    radius = tl.sqrt_rn(-2.0 * (log_u + exponent * _LN2))
    x = ((turn >> 3).to(tl.int32).to(tl.float32) + 0.5) * _ANGLE
    y = x * x
    sine = x * (1.0 + y * (_S3 + y * (_S5 + y * (_S7 + y * _S9))))
    cosine = 1.0 + y * (_C2 + y * (_C4 + y * (_C6 + y * (_C8 + y * _C10))))
    swap = (turn & 1) != 0
    p = tl.where(swap, sine, cosine)
    r = tl.where(swap, cosine, sine)
    first = radius * tl.where((turn & 2) != 0, -p, p)
    second = radius * tl.where((turn & 4) != 0, -r, r)
    return first, second


@triton.jit(do_not_specialize=["count", "k0", "k1", "c2", "c3"])
def _add_normals(
    w,
    out,
    n,
    chosen,
    indices,
    numbers,
    count,
    k0,
    k1,
    c2,
    c3,
    BLOCKS: tl.constexpr,
    SPARSE: tl.constexpr,
    DECAY: tl.constexpr,
):
    """As :func:`_add_coins`, along normals."""
    block = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)[:, None]
    i = tl.arange(0, 32)[None, :]
    counter = (block * 32 + i).to(tl.uint32)
    kind = numbers.dtype.element_ty
    total0 = tl.zeros([BLOCKS, 32], kind)
    total1 = tl.zeros([BLOCKS, 32], kind)
    total2 = tl.zeros([BLOCKS, 32], kind)
    total3 = tl.zeros([BLOCKS, 32], kind)
    for l in range(count):  # noqa: E741
        amount = tl.load(numbers + l)
        index = _word(tl.load(indices + l))
        a, b, c, d = _philox(counter, index, _word(c2), _word(c3), _word(k0), _word(k1))
        z0, z2 = _pair(a, c)
        z1, z3 = _pair(b, d)
        total0 += amount * z0.to(kind)
        total1 += amount * z1.to(kind)
        total2 += amount * z2.to(kind)
        total3 += amount * z3.to(kind)
    keep = tl.load(numbers + count)
    tile = block // 16 + i * 0
    at = block.to(tl.int64) * 128 + i
    _put(w, out, at, n, keep, total0, chosen, tile, SPARSE, DECAY)
    _put(w, out, at + 32, n, keep, total1, chosen, tile, SPARSE, DECAY)
    _put(w, out, at + 64, n, keep, total2, chosen, tile, SPARSE, DECAY)
    _put(w, out, at + 96, n, keep, total3, chosen, tile, SPARSE, DECAY)


@triton.jit
def _follow(w, velocity, out, n, numbers, ENTRIES: tl.constexpr):
    """``out = round(keep · w + amount · velocity)``; ``numbers`` are amount and keep."""
    at = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    amount, keep = tl.load(numbers), tl.load(numbers + 1)
    v = tl.load(velocity + at, mask=at < n, other=0.0)
    x = tl.load(w + at, mask=at < n, other=0.0).to(v.dtype)
    tl.store(out + at, (keep * x + amount * v).to(out.dtype.element_ty), mask=at < n)


@triton.jit(do_not_specialize=["rows", "columns", "count"])
def _add_products(
    w,
    out,
    left,
    right,
    rows,
    columns,
    count,
    numbers,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """``out[i, j] = round(keep · w[i, j] + Σ_k left[k, i] · right[k, j])``."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], numbers.dtype.element_ty)
    for k in range(count):
        a = tl.load(left + k * rows.to(tl.int64) + i, mask=i < rows, other=0.0)
        b = tl.load(right + k * columns.to(tl.int64) + j, mask=j < columns, other=0.0)
        total += a[:, None] * b[None, :]
    keep = tl.load(numbers)
    at = i[:, None].to(tl.int64) * columns + j[None, :]
    there = (i < rows)[:, None] & (j < columns)[None, :]
    x = tl.load(w + at, mask=there, other=0.0).to(total.dtype)
    tl.store(out + at, (keep * x + total).to(out.dtype.element_ty), mask=there)


# --- what Python calls ---------------------------------------------------------------------------


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
    n = w.numel()
    k0, k1, c2, c3 = (_signed_word(each) for each in key)
    with _on(w.device):
        simple = len(indices) == 1 and chosen is None and keep == 1.0 and not decay
        if simple and law == 0 and w.dtype != torch.float64:
            amount, index = int(np.float32(amounts[0]).view(np.int32)), _signed_word(indices[0])
            half = _HALVES.get(w.dtype)
            if half is not None and not (n % 2 or w.data_ptr() % 4 or out.data_ptr() % 4):
                grid = (-(-n // (PAIRS["TILES"] * 2048)),)
                pairs, to = w.view(torch.int32), out.view(torch.int32)
                given = (pairs, to, n // 2, index, amount, k0, k1, c2, c3)
                _add_one_coin_in_pairs[grid](*given, HALF=half, **PAIRS, **_PLAIN)
                return
            size = ONE_COIN["TILES"] * 2048
            how = {"EVEN": n % size == 0, **ONE_COIN, **_PLAIN}
            _add_one_coin[(-(-n // size),)](w, out, n, index, amount, k0, k1, c2, c3, **how)
            return
        numbers = _on_device((*amounts, keep), _sum_type(w), w.device)
        listed = _on_device(tuple(map(_signed_word, indices)), torch.int32, w.device)
        given = (w, out, n, w if chosen is None else chosen, listed, numbers, len(indices))
        given += (k0, k1, c2, c3)
        how = {"SPARSE": chosen is not None, "DECAY": decay, **_PLAIN}
        if law == 0:
            _add_coins[(-(-n // (COINS["WORDS"] * 128)),)](*given, **COINS, **how)
        else:
            _add_normals[(-(-n // (NORMALS["BLOCKS"] * 128)),)](*given, **NORMALS, **how)


def follow(w: Tensor, velocity: Tensor, amount: float, keep: float, out: Tensor) -> None:
    """See :meth:`gensmooth.torch.tensors.Backend.follow`."""
    n = w.numel()
    numbers = _on_device((amount, keep), velocity.dtype, w.device)
    with _on(w.device):
        _follow[(-(-n // _ENTRIES),)](w, velocity, out, n, numbers, ENTRIES=_ENTRIES, **_PLAIN)


def add_products(left: Tensor, right: Tensor, w: Tensor, keep: float, out: Tensor) -> None:
    """See :meth:`gensmooth.torch.tensors.Backend.add_products`."""
    rows, columns = left.shape[1], right.shape[1]
    numbers = _on_device((keep,), left.dtype, w.device)
    with _on(w.device):
        _add_products[(-(-rows // _ROWS), -(-columns // _COLUMNS))](
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
    """A few numbers where the kernels are; the same ones serve all parameters of a step."""
    return (
        torch.tensor(numbers, dtype=torch.float64 if dtype.is_floating_point else dtype)
        .to(dtype)
        .to(device)
    )


def _sum_type(w: Tensor) -> torch.dtype:
    return torch.float64 if w.dtype == torch.float64 else torch.float32


def _signed_word(word: int) -> int:
    return word - 2**32 if word >= 2**31 else word


def _on(device: torch.device) -> Any:
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return _HERE
    return torch.cuda.device(device)


_HERE = nullcontext()
