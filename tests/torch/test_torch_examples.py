"""The examples of gs.torch, each where its users work: a plain loop, Trainer, Lightning."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from torch_cases import torch  # skips where there is none

ROOT = Path(__file__).parents[2]


def example(name):
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"))


def test_a_plain_loop(tmp_path):
    before, after = example("torch_loop")["train"](tmp_path)
    assert after < 0.7 * before
    assert example("torch_loop")["train"](tmp_path)[1] == after  # nothing left to do


@pytest.mark.filterwarnings("ignore")
def test_the_rule_for_a_learning_rate():
    """As docs/torch-results.md shows, the rule learns, and a tenth of it hardly does."""
    made = example("torch_rate")
    (_, before, after), (_, _, slow) = (
        made["train"](made["perceptron"], factor, steps=300) for factor in (1.0, 0.1)
    )
    assert after < 0.5 * before < 0.9 * before < slow
    assert made["train"](made["transformer"], 1.0, steps=30)[2] < 2.80
    _, _, burst = made["train"](made["perceptron"], 30.0, steps=300)
    assert not burst < 100 * before  # it is huge, or NaN


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_trainer_of_hugging_face(tmp_path, accumulate):
    pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    pytest.importorskip("accelerate", reason="needs accelerate: pip install accelerate")
    losses = example("torch_trainer")["train"](str(tmp_path), steps=20, accumulate=accumulate)
    assert len(losses) == 4
    assert losses[-1] < losses[0] - 0.1


@pytest.mark.filterwarnings("ignore")
def test_settings_of_the_trainer_work_or_are_refused(tmp_path):
    """Weight decay is that of the trainer's own optimisers: of weights, not of biases and norms."""
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    pytest.importorskip("accelerate", reason="needs accelerate: pip install accelerate")
    kind = example("torch_trainer")["ZerothOrderTrainer"]
    config = transformers.GPT2Config(vocab_size=16, n_positions=16, n_embd=8, n_layer=1, n_head=2)
    rows = [{"input_ids": torch.arange(4), "labels": torch.arange(4)}] * 4

    def trainer(zeroth_order=None, **how):
        how = {"max_grad_norm": 0, "learning_rate": 1e-3, "max_steps": 1} | how
        args = transformers.TrainingArguments(
            str(tmp_path), report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no", **how
        )
        torch.manual_seed(0)
        model = transformers.GPT2LMHeadModel(config)
        given = {"seed": 0, "num_directions": 2} | (zeroth_order or {})
        return kind(model=model, args=args, train_dataset=rows, zeroth_order=given)

    for bad, match in (({"max_grad_norm": 1.0}, "max_grad_norm=0"), ({}, "weight_decay")):
        with pytest.raises(ValueError, match=match):
            trainer(**bad, zeroth_order={} if bad else {"weight_decay": 0.1})
    ends = []
    for decay in (0.0, 100.0):
        made = trainer(weight_decay=decay)
        start = {name: w.detach().clone() for name, w in made.model.named_parameters()}
        made.train()
        ends.append({name: w.detach().clone() for name, w in made.model.named_parameters()})
    for name, w in start.items():
        kept = 0.9 if name.endswith("weight") and ".ln_" not in name else 1.0
        torch.testing.assert_close(ends[1][name], ends[0][name] - (1 - kept) * w)
    assert list(made.optimizer.optimizer.param_groups[0]["param_names"])


@pytest.mark.filterwarnings("ignore")
def test_manual_optimisation_of_lightning(tmp_path):
    pytest.importorskip("lightning", reason="needs lightning: pip install lightning")
    losses = example("torch_lightning")["train"](str(tmp_path), epochs=8)
    assert sum(losses[-4:]) < 0.2 * sum(losses[:4])


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "torch.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert blocks
    names = {"__name__": "__docs__"}
    for block in blocks:
        exec(compile(block, "torch.md", "exec"), names)


def test_triton_reads_the_same_numbers():
    """In a process of its own, in which Triton's kernels are interpreted on the CPU."""
    pytest.importorskip("triton", reason="needs triton: pip install triton")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "helpers" / "torch_triton.py")],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
