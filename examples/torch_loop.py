"""Fine-tunes a small network on a loss without a gradient: the number of wrong answers.

python examples/torch_loop.py
"""

from pathlib import Path

import torch
from torch import nn

import gensmooth as gs


def train(folder: Path, steps: int = 60) -> tuple[float, float]:
    """Train, and return the share of wrong answers before and after."""
    torch.manual_seed(0)
    x = torch.randn(256, 10)
    y = (x[:, 0] * x[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 2))

    def wrong() -> torch.Tensor:
        return (model(x).argmax(1) != y).double().mean()  # its gradient is zero wherever it exists

    before = float(wrong())
    with gs.torch.Log(folder / "run.log") as log:
        opt = gs.torch.ZerothOrder(
            model, lr=0.2, spacing=0.1, num_directions=64, normalize="spread", seed=0, log=log
        )
        for _ in range(opt.steps_done, steps):  # if run again, it continues where it stopped
            opt.step(wrong)
    return before, float(wrong())


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        print("wrong answers before and after: {:.3f} {:.3f}".format(*train(Path(temporary))))
