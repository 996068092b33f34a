"""The examples of gs.torch, each where its users work: a plain loop, Trainer, Lightning."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from torch_cases import torch  # noqa: F401 (skips where there is none)

ROOT = Path(__file__).parent.parent


def example(name):
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"))


def test_a_plain_loop(tmp_path):
    before, after = example("torch_loop")["train"](tmp_path)
    assert after < 0.7 * before
    assert example("torch_loop")["train"](tmp_path)[1] == after  # nothing left to do


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_trainer_of_hugging_face(tmp_path, accumulate):
    pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    pytest.importorskip("accelerate", reason="needs accelerate: pip install accelerate")
    losses = example("torch_trainer")["train"](str(tmp_path), steps=20, accumulate=accumulate)
    assert len(losses) == 4
    assert losses[-1] < losses[0] - 0.1


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
        [sys.executable, str(ROOT / "tests" / "torch_triton.py")],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
