"""A mixin for Hugging Face's ``Trainer``, whose own training step calls backward.

    class ZerothOrderTrainer(ZerothOrderMixin, Trainer): ...

    trainer = ZerothOrderTrainer(model, args, train_dataset=data,
                                 zeroth_order={"num_directions": 8, "seed": 0})

The learning rate, its schedule, weight decay, accumulation, logging and checkpoints are the
trainer's. Gradients cannot be clipped, as there are none: ``max_grad_norm=0`` must be given.
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
        zeroth_order: The arguments of :class:`ZerothOrder`, except the learning rate and weight
            decay. With several processes, ``ranks`` is ``"batches"`` by default.
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
        for name, theirs in (("lr", "learning_rate"), ("weight_decay", "weight_decay")):
            if name in self._zeroth_order:
                raise ValueError(f"Give the trainer `{theirs}`, not `zeroth_order` {name!r}.")
        super().__init__(*args, **kwargs)
        clip = self.args.max_grad_norm
        if clip is not None and clip > 0:
            raise ValueError(
                f"`max_grad_norm` is {clip} (1.0 is the trainer's default), but there are no "
                "gradients to clip: pass TrainingArguments(max_grad_norm=0)."
            )
        if self.args.n_gpu > 1:
            raise ValueError(
                "The trainer would spread the model over several devices by DataParallel, which is "
                "not supported: start one process for each device, with torchrun."
            )

    def create_optimizer(self, model: Any = None) -> Any:
        """The optimiser, made when the trainer has put the model in its place."""
        if self.optimizer is None:
            chosen = self.model if model is None else model
            how: dict[str, Any] = {"ranks": "batches"} if self.args.world_size > 1 else {}
            params = chosen
            if self.args.weight_decay:  # of the same parameters as with the trainer's optimisers
                trainer: Any = self
                named = dict(chosen.named_parameters())
                decayed = set(trainer.get_decay_parameter_names(chosen)) & set(named)
                params = [
                    {
                        "params": [(name, named[name]) for name in named if name in decayed],
                        "weight_decay": self.args.weight_decay,
                    },
                    {"params": [(name, named[name]) for name in named if name not in decayed]},
                ]
            how |= self._zeroth_order
            self.optimizer = ZerothOrder(params, lr=self.args.learning_rate, **how)
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
