"""A mixin for Hugging Face's ``Trainer``, whose own training step calls backward.

    class ZerothOrderTrainer(ZerothOrderMixin, Trainer): ...

    trainer = ZerothOrderTrainer(model, args, train_dataset=data,
                                 zeroth_order={"num_directions": 8, "seed": 0})

The learning rate, its schedule, accumulation, logging and checkpoints are the trainer's.
"""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import nn

from gensmooth.torch.zeroth_order import ZerothOrder


class ZerothOrderMixin:
    """Trains by evaluations of the loss alone; put it before ``Trainer`` in a class of yours.

    Args:
        args: What ``Trainer`` takes.
        zeroth_order: The arguments of :class:`ZerothOrder`, the learning rate excepted.
        kwargs: What ``Trainer`` takes.
    """

    optimizer: Any
    model: Any
    args: Any
    accelerator: Any

    def __init__(
        self, *args: Any, zeroth_order: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        self._zeroth_order = dict(zeroth_order or {})
        self._waiting: list[Any] = []
        super().__init__(*args, **kwargs)

    def create_optimizer(self, model: Any = None) -> Any:
        """The optimiser, made when the trainer has put the model in its place."""
        if self.optimizer is None:
            chosen = self.model if model is None else model
            self.optimizer = ZerothOrder(chosen, lr=self.args.learning_rate, **self._zeroth_order)
        return self.optimizer

    def training_step(
        self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """A step on the batches since the last one, once as many as are accumulated are there."""
        trainer: Any = self
        model.train()
        self._waiting.append(trainer._prepare_inputs(inputs))
        if not self.accelerator.sync_gradients:
            return torch.zeros((), device=self.args.device)
        batches: list[Any]
        batches, self._waiting = self._waiting, []

        def closure() -> torch.Tensor:
            losses: list[torch.Tensor] = []
            with trainer.compute_loss_context_manager():
                for batch in batches:
                    given: Any = dict(cast(Mapping[str, Any], batch))
                    losses.append(
                        trainer.compute_loss(model, given, num_items_in_batch=num_items_in_batch)
                    )
            total = torch.stack(losses).sum()
            shared = num_items_in_batch is not None and trainer.model_accepts_loss_kwargs
            return total if shared else total / len(losses)

        optimizer = getattr(self.optimizer, "optimizer", self.optimizer)
        loss: float = optimizer.step(closure)
        optimizer.done_ahead = True  # the trainer calls step() itself, without a closure
        return torch.tensor(loss, device=self.args.device)
