"""The radii of normals on a GPU for all words, computed in two ways."""

import torch
import triton
import triton.language as tl

from gensmooth.torch.gpu_normals import radius

_BLOCK = 1024


@triton.jit
def _compare(found, first, BLOCK: tl.constexpr):
    word = (tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK) + first).to(tl.uint32)
    unequal = radius(word, True) != radius(word, False)
    tl.atomic_add(found, tl.sum(unequal.to(tl.int32), 0))


def count_unequal() -> int:
    """How many of all 2^32 words have another radius if divisions and roots are made by hand."""
    found = torch.zeros(1, dtype=torch.int32, device="cuda")
    for part in range(4):
        grid = (2**30 // _BLOCK,)
        _compare[grid](found, part * 2**30, BLOCK=_BLOCK, enable_fp_fusion=False)
    return int(found)
