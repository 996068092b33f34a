# pyright: basic
# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportIndexIssue=false
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false
"""Triton kernels on the memory of one parameter, reading the same random numbers as Numba does.

Philox4x32-10 is the generator of :mod:`gensmooth.kernels.philox`, and tiles lie as in
:mod:`gensmooth.kernels.tiles`: signs are equal bit for bit. Sums run in the same order, and a
product is never fused with a sum (``enable_fp_fusion=False``), so a step along coins gives the same
bits as on a CPU. Normals follow the same series, with divisions and roots that round correctly.

What differs is who does what. A thread keeps words of its own and walks over their 32 bits, so a
word that was made is used 32 times, and no thread waits for another. All of these kernels but those
of one coin are bound by instructions, not by memory, so they are written to have few of them; where
Triton's own operations take more, there is a line of PTX, which the interpreter and other makers'
cards go without.
"""

import math

import numpy as np
import torch
import triton
import triton.language as tl


def _f(value: float) -> tl.constexpr:
    return tl.constexpr(float(np.float32(value)))


def _scaled(value: float, by: float) -> tl.constexpr:
    """A float32 constant times a power of two, which moves through every rounding."""
    return tl.constexpr(float(np.float32(value)) * by)


_LN2, _ULP, _ANGLE = (
    _scaled(math.log(2.0), -(2.0**-22)),
    _f(-(2.0**-32)),
    _f(math.pi / 4 * 2.0**-29),
)
_L3, _L5, _L7, _L9, _L11 = (_scaled(2 / n, -2.0) for n in (3, 5, 7, 9, 11))
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


# Neither interpreted nor for a card that does not read PTX.
PTX = tl.constexpr(isinstance(_word, triton.JITFunction) and torch.version.hip is None)


@triton.jit
def _reciprocal(x):
    """1 / x up to one unit in the last place."""
    return tl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _reciprocal_root(x):
    """1 / √x up to about one unit in the last place."""
    return tl.inline_asm_elementwise(
        "rsqrt.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _remainder(c, a, b):
    """C − a·b, rounded once; a minus in front of an operand costs nothing, Triton's own does."""
    return tl.inline_asm_elementwise(
        "{.reg .f32 t; neg.f32 t, $2; fma.rn.f32 $0, t, $3, $1;}",
        "=f,f,f,f",
        [c, a, b],
        dtype=tl.float32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def _first_byte(top, rest, which):
    """The last three bytes of ``rest`` behind one byte of ``top``, chosen by a selector of PTX."""
    return tl.inline_asm_elementwise(
        "prmt.b32 $0, $1, $2, $3;",
        "=r,r,r,r",
        [top, rest, which],
        dtype=tl.uint32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def _signed(words, j, amount):
    """``±amount`` by bit j of each word."""
    if amount.dtype != tl.float32:
        found = tl.where(((words >> j) & 1) != 0, -amount, amount)
    elif PTX:
        # The signs of four rows in one word, each at the top of its byte and before the amount's
        # first seven bits: made once, as these rows have it in common. Then one byte is put in
        # front of the others, which is less than a shift and a sign for each row.
        bits = amount.to(tl.uint32, bitcast=True)
        tops = ((words << (7 - (j & 7))) & 0x80808080) ^ ((bits >> 24) * 0x01010101)
        moved = _first_byte(tops, bits, 0x0654 + ((j >> 3) << 12))
        found = moved.to(tl.float32, bitcast=True)
    else:
        sign = (words << (31 - j)) & 0x80000000
        found = (amount.to(tl.uint32, bitcast=True) ^ sign).to(tl.float32, bitcast=True)
    return found


@triton.jit(do_not_specialize=["index", "amount", "k0", "k1", "c2", "c3"])
def add_one_coin(w, out, n, index, amount, k0, k1, c2, c3, TILES: tl.constexpr, EVEN: tl.constexpr):
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


@triton.jit
def _one_coin_in_pairs(
    w, out, n, program, index, amount, k0, k1, c2, c3, HALF: tl.constexpr, TILES: tl.constexpr
):
    """As :func:`add_one_coin`; an int32 is two entries of half precision, n counts those.

    With one int32 per thread and row, what a thread computes is what it loads and stores: nothing
    is handed over.
    """
    tile = program * TILES + tl.arange(0, TILES)[:, None]
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


@triton.jit(do_not_specialize=["index", "amount", "k0", "k1", "c2", "c3"])
def add_one_coin_in_pairs(
    w, out, n, index, amount, k0, k1, c2, c3, HALF: tl.constexpr, TILES: tl.constexpr
):
    """``out = round(w + amount · ε)``, half precision, in pairs."""
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
    """``out = round(w + amount · ε)`` for many parameters at once; see :func:`_row`."""
    source, target, n, program, k0, k1 = _row(rows, owners, CHUNK)
    w = source.to(tl.pointer_type(tl.int32))
    out = target.to(tl.pointer_type(tl.int32))
    _one_coin_in_pairs(w, out, n // 2, program, index, amount, k0, k1, c2, c3, HALF, TILES)


@triton.jit
def _row(rows, owners, CHUNK: tl.constexpr):
    """Which part of which parameter a program has.

    A row of ``rows``, int64, is the address of a parameter, where it goes, its size, its first
    program and the key's two words; ``owners`` has the row of every CHUNK of programs.
    """
    row = rows + 6 * tl.load(owners + tl.program_id(0) // CHUNK)
    program = tl.program_id(0) - tl.load(row + 3).to(tl.int32)
    return (
        tl.load(row),
        tl.load(row + 1),
        tl.load(row + 2),
        program,
        tl.load(row + 4).to(tl.int32),
        tl.load(row + 5).to(tl.int32),
    )


@triton.jit
def _both(x, even, odd, shift: tl.constexpr, amount, HALF: tl.constexpr):
    """Two entries of half precision in one word, each moved."""
    low, high = _halves(x.to(tl.uint32, bitcast=True), HALF)
    low, high = low + _flip(even, shift, amount), high + _flip(odd, shift, amount)
    return _in_one(low, high, HALF).to(tl.int32, bitcast=True)


@triton.jit
def _halves(word, HALF: tl.constexpr):
    """Two entries of half precision in one word, each in float32."""
    if tl.bfloat16 == HALF:  # the first half of a float32
        low = (word << 16).to(tl.float32, bitcast=True)
        high = (word & 0xFFFF0000).to(tl.float32, bitcast=True)
    else:
        low = (word & 0xFFFF).to(tl.uint16).to(HALF, bitcast=True).to(tl.float32)
        high = (word >> 16).to(tl.uint16).to(HALF, bitcast=True).to(tl.float32)
    return low, high


@triton.jit
def _in_one(low, high, HALF: tl.constexpr):
    """Two numbers rounded to half precision, in one word."""
    if PTX and tl.bfloat16 == HALF:
        word = tl.inline_asm_elementwise(
            "cvt.rn.bf16x2.f32 $0, $2, $1;",
            "=r,f,f",
            [low, high],
            dtype=tl.uint32,
            is_pure=True,
            pack=1,
        )
    else:
        first = low.to(HALF).to(tl.uint16, bitcast=True).to(tl.uint32)
        word = first | (high.to(HALF).to(tl.uint16, bitcast=True).to(tl.uint32) << 16)
    return word


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


@triton.jit
def _entry_of_table(table, byte):
    """``table[byte]``; a load of Triton's would have a say in which thread computes what."""
    if PTX:
        found = tl.inline_asm_elementwise(
            "ld.global.nc.f32 $0, [$1];",
            "=f,l",
            [table.to(tl.uint64) + (byte * 4).to(tl.uint64)],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
    else:
        found = tl.load(table + byte)
    return found


@triton.jit
def _beside(words, j, place: tl.constexpr):
    """Bits j & 7 of the four bytes of each word, moved to a place in their bytes."""
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
    """``out = round(keep · w + Σ_l amounts[l] ε_l)``; ``numbers`` are the amounts, then keep.

    ``table`` has the sums, made in the same order, of the first TABLED directions (8 or none) for
    each choice of their signs; bit l of its index is that of direction l.
    """
    place = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    j = tl.arange(0, 32)[:, None].to(tl.uint32)
    c0, s2, s3 = place.to(tl.uint32), _word(c2), _word(c3)
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
            index = _word(tl.load(indices + l))
            a, b, c, d = _philox(c0, index, s2, s3, _word(k0), _word(k1))
            bytes0 |= _beside(a, j, l)  # the same in four rows: made once
            bytes1 |= _beside(b, j, l)
            bytes2 |= _beside(c, j, l)
            bytes3 |= _beside(d, j, l)
        total0 = _entry_of_table(table, (bytes0 >> (j & 24)) & 255)
        total1 = _entry_of_table(table, (bytes1 >> (j & 24)) & 255)
        total2 = _entry_of_table(table, (bytes2 >> (j & 24)) & 255)
        total3 = _entry_of_table(table, (bytes3 >> (j & 24)) & 255)
    for l in range(TABLED, count):  # noqa: E741
        amount = tl.load(numbers + l)
        index = _word(tl.load(indices + l))
        a, b, c, d = _philox(c0, index, s2, s3, _word(k0), _word(k1))
        total0 += _signed(a[None, :], j, amount)
        total1 += _signed(b[None, :], j, amount)
        total2 += _signed(c[None, :], j, amount)
        total3 += _signed(d[None, :], j, amount)
    keep = tl.load(numbers + count)
    row = tl.arange(0, 32)[:, None]
    tile = (place // 16)[None, :] + 0 * row
    at = tile.to(tl.int64) * 2048 + 64 * row + (place % 16)[None, :]
    _put(w, out, at, n, keep, total0, chosen, tile, SPARSE, DECAY)
    _put(w, out, at + 16, n, keep, total1, chosen, tile, SPARSE, DECAY)
    _put(w, out, at + 32, n, keep, total2, chosen, tile, SPARSE, DECAY)
    _put(w, out, at + 48, n, keep, total3, chosen, tile, SPARSE, DECAY)


@triton.jit
def radius(word, BY_HAND: tl.constexpr):
    """√(−2 log u), u = word · 2^-32, rounded as in kernels/tiles.py at every step.

    By hand, a quotient and a root are corrected by what is left over of a first guess, as Markstein
    does: without the branches for numbers that are not met here. That both are then rounded
    correctly, whatever the word, tests/test_torch_gpu.py finds by trying all words on a card.
    """
    bits = tl.maximum(word.to(tl.float32), 0.5).to(tl.int32, bitcast=True)
    # e·2^23, where u is a mantissa from [√½, √2) times 2^e
    power = (bits - 0x4F3504F3) & -0x800000
    mantissa = (bits - power - 0x10000000).to(tl.float32, bitcast=True)
    f = tl.where(power == 0, (0 - word).to(tl.float32) * _ULP, mantissa - 1.0)
    under = 2.0 + f
    if BY_HAND:
        inverse = _reciprocal(under)
        guess = f * inverse
        s = tl.fma(_remainder(f, under, guess), inverse, guess)
    else:
        s = tl.div_rn(f, under)
    q = s * s
    log_u = s * (-4.0 + q * (_L3 + q * (_L5 + q * (_L7 + q * (_L9 + q * _L11)))))
    square = log_u + power.to(tl.float32) * _LN2
    if BY_HAND:
        inverse = _reciprocal_root(square)
        guess = square * inverse
        found = tl.fma(_remainder(square, guess, guess), 0.5 * inverse, guess)
    else:
        found = tl.sqrt_rn(square)
    return found


@triton.jit
def _pair(word, turn):
    """Two normals from two words, by Box and Muller, as in kernels/tiles.py."""
    r = radius(word, PTX)
    x = ((turn >> 3).to(tl.int32).to(tl.float32) + 0.5) * _ANGLE
    y = x * x
    sine = x * (1.0 + y * (_S3 + y * (_S5 + y * (_S7 + y * _S9))))
    cosine = 1.0 + y * (_C2 + y * (_C4 + y * (_C6 + y * (_C8 + y * _C10))))
    swap = (turn & 1) != 0
    first = tl.where(swap, sine, cosine).to(tl.uint32, bitcast=True)
    second = tl.where(swap, cosine, sine).to(tl.uint32, bitcast=True)
    first ^= (turn << 30) & 0x80000000
    second ^= (turn << 29) & 0x80000000
    return r * first.to(tl.float32, bitcast=True), r * second.to(tl.float32, bitcast=True)


@triton.jit
def _four(counter, index, k0, k1, c2, c3):
    """The normals of one counter, which are 32 entries apart."""
    a, b, c, d = _philox(
        counter.to(tl.uint32), _word(index), _word(c2), _word(c3), _word(k0), _word(k1)
    )
    z0, z2 = _pair(a, c)
    z1, z3 = _pair(b, d)
    return z0, z1, z2, z3


@triton.jit
def _one_normal_in_fours(
    w,
    out,
    n,
    program,
    index,
    amount,
    k0,
    k1,
    c2,
    c3,
    HALF: tl.constexpr,
    THREADS: tl.constexpr,
    ROUNDS: tl.constexpr,
    EVEN: tl.constexpr,
):
    """Along a normal; an int64 is four entries of half precision, n counts those.

    A thread makes what four neighbouring counters give: four times four neighbouring entries.
    """
    for again in tl.range(0, ROUNDS, loop_unroll_factor=1):
        thread = (program * ROUNDS + again) * THREADS + tl.arange(0, THREADS)
        counter = 4 * thread
        at = (thread >> 3) * 32 + (thread & 7)
        x0 = _get_four(w, at, n, EVEN)
        x1 = _get_four(w, at + 8, n, EVEN)
        x2 = _get_four(w, at + 16, n, EVEN)
        x3 = _get_four(w, at + 24, n, EVEN)
        a0, a1, a2, a3 = _four(counter, index, k0, k1, c2, c3)
        b0, b1, b2, b3 = _four(counter + 1, index, k0, k1, c2, c3)
        d0, d1, d2, d3 = _four(counter + 2, index, k0, k1, c2, c3)
        e0, e1, e2, e3 = _four(counter + 3, index, k0, k1, c2, c3)
        _set_four(out, at, n, _moved(x0, a0, b0, d0, e0, amount, HALF), EVEN)
        _set_four(out, at + 8, n, _moved(x1, a1, b1, d1, e1, amount, HALF), EVEN)
        _set_four(out, at + 16, n, _moved(x2, a2, b2, d2, e2, amount, HALF), EVEN)
        _set_four(out, at + 24, n, _moved(x3, a3, b3, d3, e3, amount, HALF), EVEN)


@triton.jit
def _get_four(w, at, n, EVEN: tl.constexpr):
    return tl.load(w + at) if EVEN else tl.load(w + at, mask=at < n, other=0)


@triton.jit
def _set_four(out, at, n, x, EVEN: tl.constexpr):
    if EVEN:
        tl.store(out + at, x)
    else:
        tl.store(out + at, x, mask=at < n)


@triton.jit(do_not_specialize=["index", "amount", "k0", "k1", "c2", "c3"])
def add_one_normal_in_fours(
    w,
    out,
    n,
    index,
    amount,
    k0,
    k1,
    c2,
    c3,
    HALF: tl.constexpr,
    THREADS: tl.constexpr,
    ROUNDS: tl.constexpr,
    EVEN: tl.constexpr,
):
    """``out = round(w + amount · ε)``, half precision, in fours."""
    _one_normal_in_fours(
        w, out, n, tl.program_id(0), index, amount, k0, k1, c2, c3, HALF, THREADS, ROUNDS, EVEN
    )


@triton.jit(do_not_specialize=["index", "amount", "c2", "c3"])
def add_one_normal_to_many(
    rows,
    owners,
    index,
    amount,
    c2,
    c3,
    CHUNK: tl.constexpr,
    HALF: tl.constexpr,
    THREADS: tl.constexpr,
    ROUNDS: tl.constexpr,
):
    """``out = round(w + amount · ε)`` for many parameters at once; see :func:`_row`."""
    source, target, n, program, k0, k1 = _row(rows, owners, CHUNK)
    w = source.to(tl.pointer_type(tl.int64))
    out = target.to(tl.pointer_type(tl.int64))
    _one_normal_in_fours(
        w,
        out,
        (n // 4).to(tl.int32),
        program,
        index,
        amount,
        k0,
        k1,
        c2,
        c3,
        HALF,
        THREADS,
        ROUNDS,
        False,
    )


@triton.jit
def _moved(x, z0, z1, z2, z3, amount, HALF: tl.constexpr):
    """Four entries of half precision in one word, each moved along a normal."""
    scale = _word(amount).to(tl.float32, bitcast=True)
    x0, x1 = _halves(x.to(tl.int32).to(tl.uint32, bitcast=True), HALF)
    x2, x3 = _halves((x >> 32).to(tl.int32).to(tl.uint32, bitcast=True), HALF)
    low = _in_one(x0 + scale * z0, x1 + scale * z1, HALF)
    high = _in_one(x2 + scale * z2, x3 + scale * z3, HALF)
    return (low.to(tl.uint64) | (high.to(tl.uint64) << 32)).to(tl.int64, bitcast=True)


@triton.jit(do_not_specialize=["count", "k0", "k1", "c2", "c3"])
def add_normals(
    w,
    out,
    chosen,
    indices,
    numbers,
    n,
    count,
    k0,
    k1,
    c2,
    c3,
    BLOCKS: tl.constexpr,
    SPARSE: tl.constexpr,
    DECAY: tl.constexpr,
):
    """As :func:`add_coins`, along normals."""
    block = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)[:, None]
    i = tl.arange(0, 32)[None, :]
    counter = block * 32 + i
    kind = numbers.dtype.element_ty
    total0 = tl.zeros([BLOCKS, 32], kind)
    total1 = tl.zeros([BLOCKS, 32], kind)
    total2 = tl.zeros([BLOCKS, 32], kind)
    total3 = tl.zeros([BLOCKS, 32], kind)
    for l in range(count):  # noqa: E741
        amount = tl.load(numbers + l)
        z0, z1, z2, z3 = _four(counter, tl.load(indices + l), k0, k1, c2, c3)
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
def follow(w, velocity, out, n, numbers, ENTRIES: tl.constexpr):
    """``out = round(keep · w + amount · velocity)``; ``numbers`` are amount and keep."""
    at = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    amount, keep = tl.load(numbers), tl.load(numbers + 1)
    v = tl.load(velocity + at, mask=at < n, other=0.0)
    x = tl.load(w + at, mask=at < n, other=0.0).to(v.dtype)
    tl.store(out + at, (keep * x + amount * v).to(out.dtype.element_ty), mask=at < n)


@triton.jit(do_not_specialize=["rows", "columns", "count"])
def add_products(
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
