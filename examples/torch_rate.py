"""Choose a learning rate for gs.torch.ZerothOrder, and try multiples of it.

python examples/torch_rate.py      (four minutes on one core)

It prints the table of docs/torch-results.md.
"""

from collections.abc import Callable

import torch
from torch import nn

import gensmooth as gs


def choose_rate(
    model: nn.Module, closure: Callable[[], torch.Tensor], num_directions: int, probes: int = 32
) -> float:
    """The rate L F / (4000 |g|²), with which a step lowers the loss F by about L/4000 of its value.

    The squared norm of the gradient g is estimated by the mean of ((F(w + cε) - F(w)) / c)² over
    random directions ε.
    """
    c = 1e-3
    probe = gs.torch.ZerothOrder(model, lr=0.0, spacing=c, num_directions=probes, seed=0)
    with torch.no_grad():
        loss, total = float(closure()), 0.0
        for direction in range(probes):
            with probe.perturbed(direction=direction):
                total += ((float(closure()) - loss) / c) ** 2
    return num_directions * abs(loss) / (4000 * total / probes)


class Transformer(nn.Module):
    """Two encoder layers over tokens, and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(32, 16)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Logits of the token that occurs most often."""
        return self.head(self.encoder(self.embedding(words)).mean(1))


def perceptron() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A network with 13,130 parameters, to classify points in ten clusters, and its data."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
    model.append(nn.Linear(64, 10))
    answers = torch.arange(2560) % 10
    return model, torch.randn(10, 32)[answers] + torch.randn(2560, 32), answers


def transformer() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A network with 18,128 parameters, to find the most frequent of eight tokens, and its data."""
    torch.manual_seed(0)
    words = torch.randint(16, (2560, 8))
    return Transformer(), words, words.mode(1).values


def train(
    made: Callable[[], tuple[nn.Module, torch.Tensor, torch.Tensor]],
    factor: float,
    steps: int,
    num_directions: int = 8,
) -> tuple[float, float, float]:
    """The rate, and the mean loss over all data before and after training."""
    model, x, y = made()
    at = [0]

    def closure() -> torch.Tensor:
        batch = slice(at[0], at[0] + 128)
        return nn.functional.cross_entropy(model(x[batch]), y[batch])

    def whole() -> float:
        with torch.no_grad():
            return float(nn.functional.cross_entropy(model(x), y))

    rate = factor * choose_rate(model, closure, num_directions)
    opt = gs.torch.ZerothOrder(model, lr=rate, num_directions=num_directions, seed=0)
    before = whole()
    for step in range(steps):
        at[0] = step * 128 % len(x)
        try:
            opt.step(closure)
        except ValueError:  # the loss is not finite
            return rate, before, float("nan")
    return rate, before, whole()


def main(steps: int = 300) -> None:
    """Print the table."""
    print("| times the rule | perceptron: rate | loss | transformer: rate | loss |")
    print("|---|---|---|---|---|")
    for factor in (0.1, 0.5, 1.0, 2.0, 4.0, 8.0):
        cells: list[str] = []
        for made in (perceptron, transformer):
            rate, before, after = train(made, factor, steps)
            cells.append(f"{rate:.1e} | {before:.3f} → {after:.3g}")
        print(f"| {factor:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
