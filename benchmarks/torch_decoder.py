"""A decoder of plain torch modules with random weights, in sizes that are usual in fine-tuning."""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional


class Size(NamedTuple):
    """The shape of a decoder."""

    width: int
    layers: int
    heads: int
    key_heads: int
    hidden: int
    words: int


SIZES = {
    "tiny": Size(256, 2, 4, 2, 512, 1000),
    "100m": Size(768, 12, 12, 12, 2048, 16000),
    "1b": Size(2048, 16, 32, 8, 8192, 64000),
    "8b": Size(4096, 32, 32, 8, 14336, 128256),
}


class Block(nn.Module):
    """Grouped-query attention and a gated perceptron."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.head = size.width // size.heads
        keys = size.key_heads * self.head
        self.norm1 = nn.RMSNorm(size.width)
        self.query = nn.Linear(size.width, size.width, bias=False)
        self.key = nn.Linear(size.width, keys, bias=False)
        self.value = nn.Linear(size.width, keys, bias=False)
        self.out = nn.Linear(size.width, size.width, bias=False)
        self.norm2 = nn.RMSNorm(size.width)
        self.gate = nn.Linear(size.width, size.hidden, bias=False)
        self.up = nn.Linear(size.width, size.hidden, bias=False)
        self.down = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        b, t, _ = h.shape
        x = self.norm1(h)
        q, k, v = (
            layer(x).view(b, t, -1, self.head).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        repeat = self.size.heads // self.size.key_heads
        k, v = (x.repeat_interleave(repeat, dim=1) for x in (k, v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(mixed.transpose(1, 2).reshape(b, t, -1))
        x = self.norm2(h)
        return h + self.down(functional.silu(self.gate(x)) * self.up(x))


class Decoder(nn.Module):
    """A decoder that predicts the next word."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.words, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.width)
        self.logits = nn.Linear(size.width, size.words, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        h = self.embedding(words)
        for block in self.blocks:
            h = block(h)
        return self.logits(self.norm(h))


def build(size: str, device: str, dtype: torch.dtype) -> Decoder:
    """A decoder with random weights, which are created on the device."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            model = Decoder(SIZES[size])
    finally:
        torch.set_default_dtype(before)
    model.to_empty(device=device)
    torch.manual_seed(0)
    with torch.no_grad():
        for w in model.parameters():
            if w.ndim > 1:
                w.normal_(0, 0.02)
            else:
                w.fill_(1.0)
    return model.eval()


def batch(size: str, device: str, rows: int = 16, length: int = 256) -> torch.Tensor:
    """Random words."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(SIZES[size].words, (rows, length + 1), generator=generator).to(device)


def loss(model: nn.Module, words: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy of the next word, row by row to save memory for float32 logits."""
    logits = model(words[:, :-1])
    total = torch.zeros((), device=words.device)
    for row, right in zip(logits, words[:, 1:], strict=True):
        total += functional.cross_entropy(row.float(), right)
    return total / len(words)
