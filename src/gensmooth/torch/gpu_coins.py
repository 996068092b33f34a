# pyright: basic
# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportIndexIssue=false
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false
"""Triton kernels for Bernoulli directions: ``round(keep · w + Σ_l amounts[l] ε_l)``, ε_l = ±1."""

import triton
import triton.language as tl

from gensmooth.torch.gpu_words import PTX, halves, in_one, philox, put, row_of, word_of


@triton.jit
def _signed(words, j, amount):
    """Compute ``±amount``, with the sign from bit j of each word."""
    if amount.dtype != tl.float32:
        signed = tl.where(((words >> j) & 1) != 0, -amount, amount)
    elif PTX:
        # One word holds the signs of four rows, each as the top bit of a byte, followed by the
        # first seven bits of the amount after its sign. The four rows share it. Then one byte is
        # combined with the amount's other bytes, which costs less than a shift and a sign per row.
        bits = amount.to(tl.uint32, bitcast=True)
        tops = ((words << (7 - (j & 7))) & 0x80808080) ^ ((bits >> 24) * 0x01010101)
        moved = _first_byte(tops, bits, 0x0654 + ((j >> 3) << 12))
        signed = moved.to(tl.float32, bitcast=True)
    else:
        sign = (words << (31 - j)) & 0x80000000
        signed = (amount.to(tl.uint32, bitcast=True) ^ sign).to(tl.float32, bitcast=True)
    return signed


@triton.jit
def _first_byte(top, rest, which):
    """Join one byte of ``top``, chosen by a PTX selector, and the last three of ``rest``."""
    return tl.inline_asm_elementwise(
        "prmt.b32 $0, $1, $2, $3;",
        "=r,r,r,r",
        [top, rest, which],
        dtype=tl.uint32,
        is_pure=True,
        pack=1,
    )


@triton.jit(do_not_specialize=["index", "amount", "k0", "k1", "c2", "c3"])
def add_one_coin(w, out, n, index, amount, k0, k1, c2, c3, TILES: tl.constexpr, EVEN: tl.constexpr):
    """Compute ``out = round(w + amount · ε)`` in at most float32; ``amount`` is passed as bits."""
    tile = tl.program_id(0) * TILES + tl.arange(0, TILES)[:, None]
    k = tl.arange(0, 64)[None, :]
    counter = (tile * 16 + (k & 15)).to(tl.uint32)
    a, b, c, d = philox(counter, word_of(index), word_of(c2), word_of(c3), word_of(k0), word_of(k1))
    part = k >> 4
    words = tl.where(part < 2, tl.where(part == 0, a, b), tl.where(part == 2, c, d))
    entry = tile.to(tl.int64) * 2048 + k
    for j in tl.static_range(0, 32, 4):  # four loads in flight at a time, before their stores
        at = entry + 64 * j
        x0 = _get(w, at, n, EVEN)
        x1 = _get(w, at + 64, n, EVEN)
        x2 = _get(w, at + 128, n, EVEN)
        x3 = _get(w, at + 192, n, EVEN)
        _set(out, at, n, x0 + _flip(words, 31 - j, amount), EVEN)
        _set(out, at + 64, n, x1 + _flip(words, 30 - j, amount), EVEN)
        _set(out, at + 128, n, x2 + _flip(words, 29 - j, amount), EVEN)
        _set(out, at + 192, n, x3 + _flip(words, 28 - j, amount), EVEN)


@triton.jit
def _one_coin_in_pairs(
    w, out, n, program, index, amount, k0, k1, c2, c3, HALF: tl.constexpr, TILES: tl.constexpr
):
    """Like :func:`add_one_coin`; an int32 holds two half-precision entries, and n counts int32s.

    With one int32 per thread and row, each thread computes exactly what it loads and stores, so
    threads exchange no data.
    """
    tile = program * TILES + tl.arange(0, TILES)[:, None]
    k = 2 * tl.arange(0, 32)[None, :]
    counter = (tile * 16 + (k & 15)).to(tl.uint32)
    part = k >> 4
    a, b, c, d = philox(counter, word_of(index), word_of(c2), word_of(c3), word_of(k0), word_of(k1))
    even = tl.where(part < 2, tl.where(part == 0, a, b), tl.where(part == 2, c, d))
    a, b, c, d = philox(
        counter + 1, word_of(index), word_of(c2), word_of(c3), word_of(k0), word_of(k1)
    )
    odd = tl.where(part < 2, tl.where(part == 0, a, b), tl.where(part == 2, c, d))
    entry = tile.to(tl.int64) * 1024 + tl.arange(0, 32)[None, :]
    for j in tl.static_range(0, 32, 8):  # eight loads in flight at a time
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


@triton.jit(do_not_specialize=["index", "amount", "k0", "k1", "c2", "c3"])
def add_one_coin_in_pairs(
    w, out, n, index, amount, k0, k1, c2, c3, HALF: tl.constexpr, TILES: tl.constexpr
):
    """Compute ``out = round(w + amount · ε)`` in half precision, in pairs."""
    program = tl.program_id(0)
    _one_coin_in_pairs(w, out, n, program, index, amount, k0, k1, c2, c3, HALF, TILES)


@triton.jit(do_not_specialize=["index", "amount", "c2", "c3"])
def add_one_coin_to_many(
    rows,
    owners,
    index,
    amount,
    c2,
    c3,
    CHUNK: tl.constexpr,
    HALF: tl.constexpr,
    TILES: tl.constexpr,
):
    """Compute ``out = round(w + amount · ε)`` for many parameters at once; see :func:`row_of`."""
    source, target, n, program, k0, k1 = row_of(rows, owners, CHUNK)
    w = source.to(tl.pointer_type(tl.int32))
    out = target.to(tl.pointer_type(tl.int32))
    _one_coin_in_pairs(w, out, n // 2, program, index, amount, k0, k1, c2, c3, HALF, TILES)


@triton.jit
def _both(x, even, odd, shift: tl.constexpr, amount, HALF: tl.constexpr):
    """Add ±amount to each of the two half-precision entries in a word."""
    low, high = halves(x.to(tl.uint32, bitcast=True), HALF)
    low, high = low + _flip(even, shift, amount), high + _flip(odd, shift, amount)
    return in_one(low, high, HALF).to(tl.int32, bitcast=True)


@triton.jit
def _flip(words, shift: tl.constexpr, amount):
    """Compute ``±amount``, for an amount passed as its bits."""
    return (word_of(amount) ^ ((words << shift) & 0x80000000)).to(tl.float32, bitcast=True)


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
def _entry_of_table(table, byte):
    """Compute ``table[byte]``; in PTX, because ``tl.load`` would move entries between threads."""
    if PTX:
        entry = tl.inline_asm_elementwise(
            "ld.global.nc.f32 $0, [$1];",
            "=f,l",
            [table.to(tl.uint64) + (byte * 4).to(tl.uint64)],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
    else:
        entry = tl.load(table + byte)
    return entry


@triton.jit
def _beside(words, j, place: tl.constexpr):
    """Bit j & 7 of each of the four bytes of a word, moved to bit ``place`` of its byte."""
    return ((words[None, :] >> (j & 7)) & 0x01010101) << place


@triton.jit(do_not_specialize=["count", "k0", "k1", "c2", "c3"])
def add_coins(
    w,
    out,
    chosen,
    indices,
    numbers,
    table,
    n,
    count,
    k0,
    k1,
    c2,
    c3,
    WORDS: tl.constexpr,
    TABLED: tl.constexpr,
    SPARSE: tl.constexpr,
    DECAY: tl.constexpr,
):
    """Compute ``out = round(keep · w + Σ_l amounts[l] ε_l)``; ``numbers`` has amounts, then keep.

    ``table`` holds the sums of the first TABLED directions (8 or none), computed in the same order,
    for each combination of their signs; bit l of its index is that of direction l.
    """
    place = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    j = tl.arange(0, 32)[:, None].to(tl.uint32)
    c0, s2, s3 = place.to(tl.uint32), word_of(c2), word_of(c3)
    if TABLED == 0:
        kind = numbers.dtype.element_ty
        total0 = tl.zeros([32, WORDS], kind)
        total1 = tl.zeros([32, WORDS], kind)
        total2 = tl.zeros([32, WORDS], kind)
        total3 = tl.zeros([32, WORDS], kind)
    else:
        bytes0 = tl.zeros([32, WORDS], tl.uint32)
        bytes1 = tl.zeros([32, WORDS], tl.uint32)
        bytes2 = tl.zeros([32, WORDS], tl.uint32)
        bytes3 = tl.zeros([32, WORDS], tl.uint32)
        for l in tl.static_range(TABLED):  # noqa: E741
            index = word_of(tl.load(indices + l))
            a, b, c, d = philox(c0, index, s2, s3, word_of(k0), word_of(k1))
            bytes0 |= _beside(a, j, l)  # equal in four rows, so computed once
            bytes1 |= _beside(b, j, l)
            bytes2 |= _beside(c, j, l)
            bytes3 |= _beside(d, j, l)
        total0 = _entry_of_table(table, (bytes0 >> (j & 24)) & 255)
        total1 = _entry_of_table(table, (bytes1 >> (j & 24)) & 255)
        total2 = _entry_of_table(table, (bytes2 >> (j & 24)) & 255)
        total3 = _entry_of_table(table, (bytes3 >> (j & 24)) & 255)
    for l in range(TABLED, count):  # noqa: E741
        amount = tl.load(numbers + l)
        index = word_of(tl.load(indices + l))
        a, b, c, d = philox(c0, index, s2, s3, word_of(k0), word_of(k1))
        total0 += _signed(a[None, :], j, amount)
        total1 += _signed(b[None, :], j, amount)
        total2 += _signed(c[None, :], j, amount)
        total3 += _signed(d[None, :], j, amount)
    keep = tl.load(numbers + count)
    row = tl.arange(0, 32)[:, None]
    tile = (place // 16)[None, :] + 0 * row
    at = tile.to(tl.int64) * 2048 + 64 * row + (place % 16)[None, :]
    put(w, out, at, n, keep, total0, chosen, tile, SPARSE, DECAY)
    put(w, out, at + 16, n, keep, total1, chosen, tile, SPARSE, DECAY)
    put(w, out, at + 32, n, keep, total2, chosen, tile, SPARSE, DECAY)
    put(w, out, at + 48, n, keep, total3, chosen, tile, SPARSE, DECAY)
