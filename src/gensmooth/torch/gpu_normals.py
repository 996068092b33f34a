# pyright: basic
# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportIndexIssue=false
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false
"""Triton kernels for normal directions; the normals follow kernels/tiles.py step by step."""

import math

import numpy as np
import triton
import triton.language as tl

from gensmooth.torch.gpu_words import PTX, halves, in_one, philox, put, row_of, word_of


def _f(value: float) -> tl.constexpr:
    return tl.constexpr(float(np.float32(value)))


def _scaled(value: float, by: float) -> tl.constexpr:
    """Return a float32 constant times a power of two, which commutes with every rounding."""
    return tl.constexpr(float(np.float32(value)) * by)


_LN2, _ANGLE = _scaled(math.log(2.0), -(2.0**-22)), _f(math.pi / 4 * 2.0**-29)
_ONE, _TWO = _f(2.0**32), _f(2.0**33)  # 1 and 2 in the units of radius()
_L3, _L5, _L7, _L9, _L11 = (_scaled(2 / n, -2.0) for n in (3, 5, 7, 9, 11))
_S3, _S5, _S7, _S9 = (_f((-1) ** (n // 2) / math.factorial(n)) for n in (3, 5, 7, 9))
_C2, _C4, _C6, _C8, _C10 = (_f((-1) ** (n // 2) / math.factorial(n)) for n in (2, 4, 6, 8, 10))


@triton.jit
def _reciprocal(x):
    """Return 1 / x, to within one unit in the last place."""
    return tl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _reciprocal_root(x):
    """Return 1 / √x, to within about one unit in the last place."""
    return tl.inline_asm_elementwise(
        "rsqrt.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _remainder(c, a, b):
    """Compute ``c − a·b``, rounded once; in PTX, negating an operand is free, but not in Triton."""
    return tl.inline_asm_elementwise(
        "{.reg .f32 t; neg.f32 t, $2; fma.rn.f32 $0, t, $3, $1;}",
        "=f,f,f,f",
        [c, a, b],
        dtype=tl.float32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def _above(bits):
    """Return the larger of ``bits`` and the bits of ½, minus the bits of 2^32 √½.

    In this form, the sum and the maximum become one instruction; Triton would use two.
    """
    return tl.inline_asm_elementwise(
        "{.reg .s32 t; add.s32 t, $1, -0x4F3504F3; max.s32 $0, t, -0x103504F3;}",
        "=r,r",
        [bits],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def _back(above, power):
    """Add back what :func:`_above` subtracted to ``above − power``, in one instruction."""
    return tl.inline_asm_elementwise(
        "{.reg .s32 t; sub.s32 t, $1, $2; add.s32 $0, t, 0x4F3504F3;}",
        "=r,r,r",
        [above, power],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def radius(word, BY_HAND: tl.constexpr):
    """Return √(−2 log u), u = word · 2^-32, rounded as in kernels/tiles.py at every step.

    With BY_HAND, a quotient and a root are computed from a first guess, corrected by its remainder
    (Markstein's method), without the branches for numbers that do not occur here. In the innermost
    two steps of the series, products are fused with sums; the differences are lost in the
    roundings that follow. None of this changes the radius for any word:
    tests/torch/test_torch_gpu.py checks all words on a GPU, and tests/torch/test_torch_fused.py
    checks the series without one.
    """
    bits = word.to(tl.float32).to(tl.int32, bitcast=True)
    if BY_HAND:
        above = _above(bits)
        power = above & -0x800000  # e·2^23, where u is a mantissa in [√½, √2) times 2^e
        mantissa = _back(above, power).to(tl.float32, bitcast=True)
    else:
        bits = tl.maximum(bits, 0x3F000000)
        power = (bits - 0x4F3504F3) & -0x800000
        mantissa = (bits - power).to(tl.float32, bitcast=True)
    # 2^32 · f, f = mantissa − 1; near u = 1 this is word − 2^32, the word's signed value.
    f = tl.where(power == 0, word.to(tl.int32, bitcast=True).to(tl.float32), mantissa - _ONE)
    under = _TWO + f
    if BY_HAND:
        inverse = _reciprocal(under)
        guess = f * inverse
        s = tl.fma(_remainder(f, under, guess), inverse, guess)
        q = s * s
        tail = tl.fma(q, tl.fma(q, _full(q, _L11), _full(q, _L9)), _full(q, _L7))
    else:
        s = tl.div_rn(f, under)
        q = s * s
        tail = _L7 + q * (_L9 + q * _L11)
    log_u = s * (-4.0 + q * (_L3 + q * (_L5 + q * tail)))
    square = log_u + power.to(tl.float32) * _LN2
    if BY_HAND:
        inverse = _reciprocal_root(square)
        guess = square * inverse
        root = tl.fma(_remainder(square, guess, guess), 0.5 * inverse, guess)
    else:
        root = tl.sqrt_rn(square)
    return root


@triton.jit
def _full(like, value: tl.constexpr):
    return tl.full(like.shape, value, tl.float32)


@triton.jit
def sine_and_cosine(turn, BY_HAND: tl.constexpr):
    """Sine and cosine of an angle within an octant, the upper 29 bits of ``turn``.

    BY_HAND is as in :func:`radius`.
    """
    x = ((turn >> 3).to(tl.int32).to(tl.float32) + 0.5) * _ANGLE
    y = x * x
    sine = x * (1.0 + y * (_S3 + y * (_S5 + y * (_S7 + y * _S9))))
    tail = tl.fma(y, _full(y, _C10), _full(y, _C8)) if BY_HAND else _C8 + y * _C10
    cosine = 1.0 + y * (_C2 + y * (_C4 + y * (_C6 + y * tail)))
    return sine, cosine


@triton.jit
def _pair(word, turn):
    """Two normals from two words by the Box–Muller transform, as in kernels/tiles.py."""
    r = radius(word, PTX)
    sine, cosine = sine_and_cosine(turn, PTX)
    swap = (turn & 1) != 0
    first = tl.where(swap, sine, cosine).to(tl.uint32, bitcast=True)
    second = tl.where(swap, cosine, sine).to(tl.uint32, bitcast=True)
    first ^= (turn << 30) & 0x80000000
    second ^= (turn << 29) & 0x80000000
    return r * first.to(tl.float32, bitcast=True), r * second.to(tl.float32, bitcast=True)


@triton.jit
def _four(counter, index, k0, k1, c2, c3):
    """Return the four normals of one counter, for entries that are 32 apart."""
    a, b, c, d = philox(
        counter.to(tl.uint32), word_of(index), word_of(c2), word_of(c3), word_of(k0), word_of(k1)
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
    """Move along a normal; an int64 holds four half-precision entries, and n counts int64s.

    A thread computes the normals of four consecutive counters: four groups of four adjacent
    entries.
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
    """Compute ``out = round(w + amount · ε)`` in half precision, in fours."""
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
    """Compute ``out = round(w + amount · ε)`` for many parameters at once; see :func:`row_of`."""
    source, target, n, program, k0, k1 = row_of(rows, owners, CHUNK)
    w = source.to(tl.pointer_type(tl.int64))
    out = target.to(tl.pointer_type(tl.int64))
    fours = (n // 4).to(tl.int32)
    if (program + 1).to(tl.int64) * (4 * THREADS * ROUNDS) <= fours:  # no entry needs a mask
        _one_normal_in_fours(
            w, out, fours, program, index, amount, k0, k1, c2, c3, HALF, THREADS, ROUNDS, True
        )
    else:
        _one_normal_in_fours(
            w, out, fours, program, index, amount, k0, k1, c2, c3, HALF, THREADS, ROUNDS, False
        )


@triton.jit
def _moved(x, z0, z1, z2, z3, amount, HALF: tl.constexpr):
    """Four half-precision entries in one int64, each moved along a normal."""
    scale = word_of(amount).to(tl.float32, bitcast=True)
    x0, x1 = halves(x.to(tl.int32).to(tl.uint32, bitcast=True), HALF)
    x2, x3 = halves((x >> 32).to(tl.int32).to(tl.uint32, bitcast=True), HALF)
    low = in_one(x0 + scale * z0, x1 + scale * z1, HALF)
    high = in_one(x2 + scale * z2, x3 + scale * z3, HALF)
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
    """Like :func:`add_coins`, but along normals and without a table."""
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
    put(w, out, at, n, keep, total0, chosen, tile, SPARSE, DECAY)
    put(w, out, at + 32, n, keep, total1, chosen, tile, SPARSE, DECAY)
    put(w, out, at + 64, n, keep, total2, chosen, tile, SPARSE, DECAY)
    put(w, out, at + 96, n, keep, total3, chosen, tile, SPARSE, DECAY)
