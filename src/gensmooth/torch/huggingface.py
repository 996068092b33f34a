"""A mixin that lets Hugging Face's ``Trainer`` train without backward passes.

    class ZerothOrderTrainer(ZerothOrderMixin, Trainer): ...

    trainer = ZerothOrderTrainer(model, args, train_dataset=data,
                                 zeroth_order={"num_directions": 8, "seed": 0})

The trainer controls the learning rate, its schedule, weight decay, accumulation, logging and
checkpoints. There are no gradients to clip, so ``max_grad_norm=0`` is required.
"""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import nn

from gensmooth.torch.zeroth_order import ZerothOrder


class ZerothOrderMixin:
    """Trains by evaluating the loss only; list it before ``Trainer`` in the bases of your class.

    Args:
        args: The positional arguments of ``Trainer``.
        zeroth_order: The arguments of :class:`ZerothOrder`, except the learning rate and weight
            decay. With several processes, ``ranks`` is ``"batches"`` by default.
        kwargs: The keyword arguments of ``Trainer``.
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
                raise ValueError(
                    f"`zeroth_order` must not contain {name!r}: set `{theirs}` in the trainer's "
                    "TrainingArguments instead."
                )
        super().__init__(*args, **kwargs)
        clip = self.args.max_grad_norm
        if clip is not None and clip > 0:
            raise ValueError(
                f"`max_grad_norm` is {clip} (1.0 is the trainer's default), but there are no "
                "gradients to clip: pass TrainingArguments(max_grad_norm=0)."
            )
        if self.args.n_gpu > 1:
            raise ValueError(
                "The trainer would use DataParallel for several devices, which is not supported: "
                "start one process per device with torchrun."
            )

    def create_optimizer(self, model: Any = None) -> Any:
        """Create the optimiser, once the trainer has placed the model on its device."""
        if self.optimizer is None:
            chosen = self.model if model is None else model
            options: dict[str, Any] = {"ranks": "batches"} if self.args.world_size > 1 else {}
            params = chosen
            if self.args.weight_decay:  # on the same parameters as the trainer's own optimisers
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
            options |= self._zeroth_order
            self.optimizer = ZerothOrder(params, lr=self.args.learning_rate, **options)
        return self.optimizer

    def training_step(
        self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Collect a batch; take a step once all batches to accumulate are present."""
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
                    inputs: Any = dict(cast(Mapping[str, Any], batch))
                    losses.append(
                        trainer.compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
                    )
            total = torch.stack(losses).sum()
            shared = num_items_in_batch is not None and trainer.model_accepts_loss_kwargs
            return total if shared else total / len(losses)

        optimizer = getattr(self.optimizer, "optimizer", self.optimizer)
        loss: float = optimizer.step(closure)
        optimizer.done_ahead = True  # the trainer calls step() itself, without a closure
        return torch.tensor(loss, device=self.args.device)
