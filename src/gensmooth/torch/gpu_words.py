# pyright: basic
# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportIndexIssue=false
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false
"""Functions shared by the Triton kernels: random words and access to the parameters' memory.

Philox4x32-10 is the generator of :mod:`gensmooth.kernels.philox`, and tiles are laid out as in
:mod:`gensmooth.kernels.tiles`, so signs are equal bit for bit. Sums run in the same order, and a
product is never fused with a sum (``enable_fp_fusion=False``), so a step along Bernoulli directions
gives the same bits as on a CPU. Normals follow the same series, with correctly rounded divisions
and roots.

The work is divided differently. A thread keeps its own words and iterates over their 32 bits, so
each word is used 32 times and no thread waits for another. All kernels except those for one
Bernoulli direction are limited by instructions, not by memory bandwidth, so they are written to use
few instructions. Where Triton's operations would use more, a line of PTX replaces them, except in
the interpreter and on devices of other makers.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def philox(c0, c1, c2, c3, k0, k1):
    """Four words from a four-word counter and a two-word key, all uint32."""
    for _ in tl.static_range(10):
        p0 = c0.to(tl.uint64) * 0xD2511F53  # one instruction; computing each half would take two
        p1 = c2.to(tl.uint64) * 0xCD9E8D57
        c0 = (p1 >> 32).to(tl.uint32) ^ c1 ^ k0
        c1 = p1.to(tl.uint32)
        c2 = (p0 >> 32).to(tl.uint32) ^ c3 ^ k1
        c3 = p0.to(tl.uint32)
        k0 = k0 + 0x9E3779B9
        k1 = k1 + 0xBB67AE85
    return c0, c1, c2, c3


@triton.jit
def word_of(value):
    """Return a 32-bit argument as uint32; Triton treats it as signed."""
    return value.to(tl.uint32, bitcast=True)


# True if compiled, not interpreted, for a device that executes PTX.
PTX = tl.constexpr(isinstance(word_of, triton.JITFunction) and torch.version.hip is None)


@triton.jit
def row_of(rows, owners, CHUNK: tl.constexpr):
    """Return the parameter, and the part of it, that this program works on.

    A row of ``rows``, int64, holds the address of a parameter, the address of its output, its size,
    its first program and the two words of its key; ``owners`` has the row of each CHUNK of
    programs.
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
def halves(word, HALF: tl.constexpr):
    """Return the two half-precision entries of a word, in float32."""
    if tl.bfloat16 == HALF:  # the upper half of a float32
        low = (word << 16).to(tl.float32, bitcast=True)
        high = (word & 0xFFFF0000).to(tl.float32, bitcast=True)
    else:
        low = (word & 0xFFFF).to(tl.uint16).to(HALF, bitcast=True).to(tl.float32)
        high = (word >> 16).to(tl.uint16).to(HALF, bitcast=True).to(tl.float32)
    return low, high


@triton.jit
def in_one(low, high, HALF: tl.constexpr):
    """Two numbers rounded to half precision and packed in one word."""
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
def put(w, out, at, n, keep, total, chosen, tile, SPARSE: tl.constexpr, DECAY: tl.constexpr):
    """Compute ``out = round(keep · w + total)``; where a tile is not chosen, total is 0.

    Without DECAY, entries of tiles that are not chosen are copied.
    """
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
def follow(w, velocity, out, n, numbers, ENTRIES: tl.constexpr):
    """Compute ``out = round(keep · w + amount · velocity)``; ``numbers`` are amount and keep."""
    at = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    amount, keep = tl.load(numbers), tl.load(numbers + 1)
    v = tl.load(velocity + at, mask=at < n, other=0.0)
    x = tl.load(w + at, mask=at < n, other=0.0).to(v.dtype)
    tl.store(out + at, (keep * x + amount * v).to(out.dtype.element_ty), mask=at < n)


@triton.jit(do_not_specialize=["rows", "columns", "count"])
def add_products(
    w, out, left, right, rows, columns, count, numbers, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Compute ``out[i, j] = round(keep · w[i, j] + Σ_k left[k, i] · right[k, j])``."""
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
