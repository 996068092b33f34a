"""The programs of the gallery run as they stand, and say what they promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gensmooth
from patience import LONG

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {"robot": ("gymnasium", "mujoco"), "cluster": ("ray",)}
SAYS = {
    "black_box": r"weight 1\.3[45]",
    "cluster": "last bit: True",
    "network": r"0\.9\d+ at the end",
    "resume": "never stopped: True",
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path):
    for module in NEEDS.get(example.stem, ()):
        pytest.importorskip(module)
    source = Path(gensmooth.__file__).parents[1]
    found = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:.*non-interactive", str(example)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(source), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert found.returncode == 0, found.stderr
    assert re.search(SAYS.get(example.stem, r"\d"), found.stdout)


def test_every_example_begins_with_a_title_and_ends_in_a_figure():
    for example in EXAMPLES:
        text = example.read_text(encoding="utf-8")
        assert re.match(r'"""\n?.+\n(=+\n)?', text), example
        assert "plt.show()" in text or "savefig" in text, example


def test_the_tour_runs_from_top_to_bottom(tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(Path(gensmooth.__file__).parents[1]))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    book = nbformat.read(ROOT / "examples" / "tour.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in book.cells)  # a repository keeps no output
    client = nbclient.NotebookClient(
        book, timeout=LONG, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    assert any("image/png" in str(out) for cell in book.cells for out in cell.get("outputs", ()))
