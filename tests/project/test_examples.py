"""The programs of the gallery run as they stand, and say what they promise.

`make docs` runs them too. What it made is looked at here instead of running them again, if nothing
has changed since.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gensmooth
from patience import LONG

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[2]
SOURCE = Path(gensmooth.__file__).parents[1]
GALLERY = ROOT / "docs" / "gallery"
ELSEWHERE = {  # no pages of the gallery
    "own_robot": "test_rl_own.py",
    "torch_lightning": "test_torch_examples.py",
    "torch_loop": "test_torch_examples.py",
    "torch_rate": "test_torch_examples.py",
    "torch_trainer": "test_torch_examples.py",
}
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.stem not in ELSEWHERE]
NEEDS = {"robot": ("gymnasium", "mujoco"), "cluster": ("ray",)}
SAYS = {
    "black_box": r"weight 1\.3[45]",
    "cluster": "last bit: True",
    "network": r"0\.9\d+ at the end",
    "resume": "never stopped: True",
}


def page_of(example, gallery=GALLERY, source=SOURCE):
    """The page that the site's build has made of a program that ran to its end, if it is fresh."""
    done = gallery / f"{example.name}.md5"  # written after a run without an error
    page = gallery / f"{example.stem}.rst"  # and this a moment later
    if not (done.exists() and page.exists()):
        return None
    changed = max(path.stat().st_mtime for path in (example, *source.rglob("*.py")))
    if done.stat().st_mtime <= changed:
        return None
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path):
    for module in NEEDS.get(example.stem, ()):
        pytest.importorskip(module)
    promised = SAYS.get(example.stem, r"\d")
    if (page := page_of(example)) is not None:
        said = "\n".join(re.findall(r"^ \.\. code-block:: none\n(.*?)^\S", page, flags=re.S | re.M))
        assert re.search(promised, said)
        assert "Warning:" not in said
        figures = re.findall(r"image-sg:: /gallery/(\S+)", page)
        assert figures
        assert all((GALLERY / figure).stat().st_size for figure in figures)
        return
    found = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:.*non-interactive", str(example)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert found.returncode == 0, found.stderr
    assert re.search(promised, found.stdout)


def test_a_page_counts_only_if_it_was_made_after_the_last_change(tmp_path):
    example, source, gallery = (tmp_path / name for name in ("a.py", "src", "gallery"))
    source.mkdir()
    gallery.mkdir()
    module, done = source / "module.py", gallery / "a.py.md5"
    for path, when in ((example, 1), (module, 2), (done, 3), (gallery / "a.rst", 3)):
        path.write_text("")
        os.utime(path, (when, when))
    assert page_of(example, gallery, source) == ""
    os.utime(module, (4, 4))
    assert page_of(example, gallery, source) is None
    done.unlink()
    assert page_of(example, gallery, source) is None


@pytest.mark.parametrize("stem", ELSEWHERE)
def test_the_other_examples_have_tests(stem):
    assert (ROOT / "examples" / f"{stem}.py").exists()
    assert stem in next((ROOT / "tests").rglob(ELSEWHERE[stem])).read_text(encoding="utf-8")


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
