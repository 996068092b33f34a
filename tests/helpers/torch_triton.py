"""Triton's kernels, interpreted on the CPU, against Numba's; run in a process of its own.

The interpreter rounds to bfloat16 by cutting off, which no GPU does: benchmarks/torch_gpu.py
compares that type on one.
"""

import torch

from gensmooth.streams import Purpose, key_and_counter
from gensmooth.torch import cpu, gpu

KEY = key_and_counter(0xDEADBEEFCAFEBABE, Purpose.DIRECTION, 2**33 + 5)
SPARSE = torch.tensor([1, 0, 1], dtype=torch.uint8)


def same(a, b):
    assert torch.equal(a, b), (a.dtype, len(a), int((a != b).sum()))


def main() -> None:
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float16, torch.float64):
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        w = torch.randn(5001).to(dtype)
        for size in (5000, 5001)[dtype == torch.float32 :]:
            for law in (0, 1):
                for indices, amounts, keep, chosen in (
                    ([2**31 + 3], [1e-3], 1.0, None),
                    ([0, 1, 2], [0.1, -0.02, 0.003], 0.9, None),
                    ([0, 1], [0.1, -0.02], 0.9, SPARSE),
                    (list(range(9)), [0.3 - 0.07 * i for i in range(9)], 1.0, None),
                    (list(range(8)), [0.3 - 0.07 * i for i in range(8)], 0.9, SPARSE),
                ):
                    a, b = torch.empty(size, dtype=dtype), torch.empty(size, dtype=dtype)
                    cpu.move(KEY, law, chosen, w[:size], indices, amounts, keep, a)
                    gpu.move(KEY, law, chosen, w[:size], indices, amounts, keep, b)
                    same(a, b)
        many = [torch.randn(n).to(dtype) for n in (4, 5001, 20000, 2)]
        words = [(i, 2**32 - 1 - i) for i in range(len(many))]
        for law in (0, 1):
            here, there = map(list, ([w.clone() for w in many] for _ in range(2)))
            for on, outs in ((cpu, here), (gpu, there)):
                on.move_many(on.prepare(words, law, many, outs), KEY[2:], 2**31 + 3, 0.01)
            for a, b in zip(here, there, strict=True):
                same(a, b)
        a, b = torch.ones(5001, dtype=wide), torch.ones(5001, dtype=wide)
        cpu.gather(KEY, 0, SPARSE, [0, 1], [0.5, 2.0], 0.9, a)
        gpu.gather(KEY, 0, SPARSE, [0, 1], [0.5, 2.0], 0.9, b)
        same(a, b)
        left, right = torch.randn(3, 7, dtype=wide), torch.randn(3, 300, dtype=wide)
        for here, there in ((cpu.add_products, gpu.add_products),):
            a, b = torch.empty(2100, dtype=dtype), torch.empty(2100, dtype=dtype)
            here(left, right, w[:2100], 0.9, a)
            there(left, right, w[:2100], 0.9, b)
            same(a, b)
        cpu.follow(w[:2100], right.flatten()[:900].repeat(3)[:2100], -0.1, 0.9, a)
        gpu.follow(w[:2100], right.flatten()[:900].repeat(3)[:2100], -0.1, 0.9, b)
        same(a, b)


if __name__ == "__main__":
    main()
