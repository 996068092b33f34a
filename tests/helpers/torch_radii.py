"""Radii, sines and cosines of normals on a GPU for all words, computed in two ways."""

import torch
import triton
import triton.language as tl

from gensmooth.torch.gpu_normals import radius, sine_and_cosine

_BLOCK = 1024


@triton.jit
def _compare_radii(found, first, BLOCK: tl.constexpr):
    word = (tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK) + first).to(tl.uint32)
    unequal = radius(word, True) != radius(word, False)
    tl.atomic_add(found, tl.sum(unequal.to(tl.int32), 0))


@triton.jit
def _compare_angles(found, first, BLOCK: tl.constexpr):
    word = (tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK) + first).to(tl.uint32)
    sine, cosine = sine_and_cosine(word, True)
    plain_sine, plain_cosine = sine_and_cosine(word, False)
    unequal = (sine != plain_sine) | (cosine != plain_cosine)
    tl.atomic_add(found, tl.sum(unequal.to(tl.int32), 0))


def count_unequal() -> tuple[int, int]:
    """For how many of all 2^32 words the two ways give different radii, and different angles."""
    counts = torch.zeros(2, dtype=torch.int32, device="cuda")
    for kernel, found in zip((_compare_radii, _compare_angles), counts, strict=True):
        for part in range(4):
            grid = (2**30 // _BLOCK,)
            kernel[grid](found, part * 2**30, BLOCK=_BLOCK, enable_fp_fusion=False)
    radii, angles = counts.tolist()
    return radii, angles
