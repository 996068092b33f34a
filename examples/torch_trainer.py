"""Hugging Face's Trainer without backward: a small random GPT-2 learns to count.

python examples/torch_trainer.py      (needs transformers and accelerate)
"""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from gensmooth.torch.huggingface import ZerothOrderMixin


class ZerothOrderTrainer(ZerothOrderMixin, Trainer):
    """A Trainer whose steps are evaluations of the loss."""


def train(folder: str, steps: int = 30, accumulate: int = 1) -> list[float]:
    """Train, and return the losses that the trainer logged."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=16, n_positions=16, n_embd=32, n_layer=1, n_head=2)
    model = GPT2LMHeadModel(config)
    rows = [(torch.arange(12) + start) % 16 for start in range(64)]
    data = [{"input_ids": row, "labels": row} for row in rows]
    args = TrainingArguments(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=16,
        gradient_accumulation_steps=accumulate,
        learning_rate=0.04,
        max_grad_norm=0,  # there are no gradients to clip
        lr_scheduler_type="constant",
        logging_steps=5,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = ZerothOrderTrainer(
        model=model,
        args=args,
        train_dataset=data,
        zeroth_order={"num_directions": 32, "spacing": 0.01, "normalize": "spread", "seed": 0},
    )
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print("losses:", train(temporary))
