"""Lightning's manual optimisation without backward.

python examples/torch_lightning.py      (needs lightning)
"""

import tempfile

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gensmooth as gs


class Regression(lightning.LightningModule):
    """A small perceptron that is trained by evaluations of its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
        self.losses: list[float] = []

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> None:
        """One step on one batch."""
        x, y = batch
        loss = self.optimizers().step(lambda: (self.net(x) - y).square().mean())
        self.losses.append(float(loss))

    def configure_optimizers(self) -> gs.torch.ZerothOrder:
        """Return the optimiser: the one line that changes."""
        return gs.torch.ZerothOrder(self, lr=0.05, num_directions=8, seed=0)


def train(folder: str, epochs: int = 10) -> list[float]:
    """Train, and return the loss of each step."""
    lightning.seed_everything(0, verbose=False)
    x = torch.randn(128, 4)
    data = DataLoader(TensorDataset(x, x[:, :1] - x[:, 1:2]), batch_size=32)
    model = Regression()
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    trainer.fit(model, data)
    return model.losses


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        losses = train(temporary)
        print(f"loss of the first and the last step: {losses[0]:.3f} {losses[-1]:.3f}")
