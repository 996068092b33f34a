"""Two small networks, what they learn, and what they are fine-tuned to; nothing is downloaded.

The transformer sorts eight digits; later 0 counts as the largest of them. The convolutional net
reads digits of a 5 × 7 font, shifted and noisy; later they are slanted and faint.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

Tensor = torch.Tensor
Batch = tuple[Tensor, Tensor]


class Block(nn.Module):
    """Attention and a perceptron, each after a normalisation and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, h: Tensor) -> Tensor:
        """One block on (sequences, places, width)."""
        parts = self.project(self.before(h)).unflatten(-1, (3, self.heads, -1))
        query, key, value = parts.movedim(-3, 0).transpose(-3, -2)
        look = (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5).softmax(-1)
        h = h + self.join((look @ value).transpose(-3, -2).flatten(-2))
        return h + self.narrow(functional.gelu(self.widen(self.between(h))))


class Transformer(nn.Module):
    """Tokens to scores of tokens, place by place."""

    def __init__(self, tokens: int = 10, places: int = 8, width: int = 24, blocks: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.place = nn.Embedding(places, width)
        self.blocks = nn.Sequential(*(Block(width, 2) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores (sequences, places, tokens)."""
        h = self.embed(tokens) + self.place(torch.arange(tokens.shape[-1]))
        return self.head(self.norm(self.blocks(h)))


class ConvNet(nn.Module):
    """Images 12 × 12 to scores of ten classes: two convolutions, two dense layers, ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 12, 3, padding=1)
        self.second = nn.Conv2d(12, 24, 3, padding=1)
        self.dense = nn.Linear(24 * 9, 32)
        self.head = nn.Linear(32, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (images, classes)."""
        h = functional.max_pool2d(functional.relu(self.first(images)), 2)
        h = functional.max_pool2d(functional.relu(self.second(h)), 2)
        return self.head(functional.relu(self.dense(h.flatten(-3))))


# --- data ----------------------------------------------------------------------------------------


def digits_to_sort(number: int, seed: int, *, shifted: bool) -> Batch:
    """Eight random digits, and the same sorted; shifted: 0 is the largest."""
    digits = np.random.default_rng(seed).integers(0, 10, (number, 8))
    order = np.roll(np.arange(10), -1) if shifted else np.arange(10)  # by size
    size = np.argsort(order)
    return torch.from_numpy(digits), torch.from_numpy(order[np.sort(size[digits], axis=1)])


_FONT = """
.###. ..#.. .###. ##### ...#. ##### ..##. ##### .###. .###.
#...# .##.. #...# ...#. ..##. #.... .#... ....# #...# #...#
#..## ..#.. ....# ..#.. .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. ...#. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ...#.
.###. .###. ##### .###. ...#. .###. .###. .#... .###. .##..
"""


def glyphs() -> np.ndarray:
    """The font: (10, 7, 5) of zeros and ones."""
    rows = [[[float(dot == "#") for dot in g] for g in line.split()] for line in _FONT.split("\n")]
    return np.array([row for row in rows if row]).transpose(1, 0, 2)


def digits_to_read(number: int, seed: int, *, shifted: bool) -> Batch:
    """Noisy images of digits anywhere in 12 × 12; shifted: slanted and faint."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, number)
    font, images = glyphs(), np.zeros((number, 12, 12))
    for image, label in zip(images, labels, strict=True):
        down, right = rng.integers(0, 6), rng.integers(0, 6)
        for row in range(7):
            slant = (6 - row) // 3 if shifted else 0
            image[down + row, right + slant : right + slant + 5] = font[label, row]
    images = (0.6 if shifted else 1.0) * images + 0.25 * rng.standard_normal(images.shape)
    return torch.from_numpy(images[:, None].astype(np.float32)), torch.from_numpy(labels)


class Task(NamedTuple):
    """A network and its data.

    Attributes:
        name: What it is called.
        make: The network, before training.
        data: ``data(number, seed, shifted=...)``: inputs and right answers.
        matrix: The name of one small matrix, whose entries are also estimated alone.
        rate: Adam's learning rate when the network is trained.
        steps: Steps of that training.
        checkpoints: The steps after which errors are measured.
    """

    name: str
    make: Callable[[], nn.Module]
    data: Callable[..., Batch]
    matrix: str
    rate: float
    steps: int
    checkpoints: tuple[int, ...]

    def new(self, seed: int = 0) -> nn.Module:
        """The network with random weights."""
        torch.manual_seed(seed)
        return self.make()


TASKS = {
    task.name: task
    for task in (
        Task(
            "transformer", Transformer, digits_to_sort, "head.weight", 3e-3, 600, (0, 30, 100, 600)
        ),
        Task("convnet", ConvNet, digits_to_read, "head.weight", 3e-3, 600, (0, 30, 150, 600)),
    )
}


def loss_of(scores: Tensor, answers: Tensor) -> Tensor:
    """The mean cross-entropy."""
    return functional.cross_entropy(scores.flatten(0, -2), answers.flatten())


def accuracy_of(scores: Tensor, answers: Tensor) -> float:
    """The share of right answers."""
    return float((scores.argmax(-1) == answers).double().mean())


def batches(task: Task, size: int, seed: int, *, shifted: bool) -> Iterator[Batch]:
    """Fresh data, for ever; the t-th batch depends on the seed and on t alone."""
    t = 0
    while True:
        yield task.data(size, [seed, t], shifted=shifted)
        t += 1


def pretrain(
    task: Task, steps: int, *, seed: int = 0, keep: tuple[int, ...] = ()
) -> Iterator[tuple[int, dict[str, Tensor]]]:
    """Train by backpropagation (Adam); yields the parameters after each step of `keep`."""
    model = task.new(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=task.rate)
    for step, (inputs, answers) in zip(
        range(steps + 1), batches(task, 64, seed, shifted=False), strict=False
    ):
        if step in keep:
            yield step, {name: w.detach().clone() for name, w in model.named_parameters()}
        optimizer.zero_grad()
        loss_of(model(inputs), answers).backward()
        optimizer.step()
