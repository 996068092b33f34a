"""The guides to checkpoints and observability run as they stand, in order."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def run_blocks(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)
    assert blocks
    names = {"__name__": "__docs__"}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_checkpoints(tmp_path, monkeypatch):
    run_blocks("checkpoints.md", tmp_path, monkeypatch)


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_observability(tmp_path, monkeypatch):
    pytest.importorskip("tensorboardX")
    pytest.importorskip("mlflow")
    run_blocks("observability.md", tmp_path, monkeypatch)
