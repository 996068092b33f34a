"""Models and losses for the tests of gs.torch."""

import pytest

WITHOUT = "torch is not installed: pip install 'gensmooth[torch]' to run the tests of gs.torch"
torch = pytest.importorskip("torch", reason=WITHOUT)

from torch import nn  # noqa: E402

import gensmooth as gs  # noqa: E402
from gensmooth.models import Law, Stream  # noqa: E402, F401
from gensmooth.torch.buffers import room_of  # noqa: E402, F401
from gensmooth.torch.tensors import (  # noqa: E402, F401
    ChosenTiles,
    backend,
    follow,
    gather,
    perturb,
)

torch.set_num_threads(1)  # models are tiny: threads would wait for each other
TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


class TinyDecoder(nn.Module):
    """A decoder with buffers, whose output layer is tied to the embedding in ``forward``."""

    def __init__(self, width=16, words=23):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.zeros(8, width))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.block = nn.Sequential(nn.Linear(width, 40), nn.GELU(), nn.Linear(40, width))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, tokens):
        h = self.embedding(tokens) + self.position[: tokens.shape[1]]
        mask = torch.full((tokens.shape[1],) * 2, float("-inf"), dtype=h.dtype).triu(1)
        h = h + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        h = h + self.block(self.norm(h))
        return h @ self.embedding.weight.T


def decoder(dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    return TinyDecoder().to(dtype)


def tokens():
    return torch.arange(24).reshape(3, 8) * 7 % 23


def loss_of(model):
    def closure():
        logits = model(tokens()).float()
        return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens()[:, 1:].flatten())

    return closure


def perceptron(dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1)).to(dtype)


def square_loss(model):
    x = torch.linspace(-1, 1, 40).reshape(8, 5).to(next(model.parameters()).dtype)
    return lambda: (model(x).float() - x.float().sum(1, keepdim=True)).square().mean()


def bits(model):
    return gs.torch.fingerprint(dict(model.named_parameters()))
