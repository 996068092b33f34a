"""The examples of docs/evaluators.md run as they stand."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from patience import LONG

PAGE = Path(__file__).parents[2] / "docs" / "evaluators.md"
BLOCKS = re.findall(r"^```python(?: ([\w.]+))?\n(.*?)^```", PAGE.read_text(), re.S | re.M)


def run(command: list[str], folder: Path) -> str:
    found = subprocess.run(command, capture_output=True, text=True, timeout=LONG, cwd=folder)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_the_page_as_one_script(tmp_path: Path) -> None:
    page = "\n".join(code for name, code in BLOCKS if not name)
    assert page.count("gs.minimize") >= 6
    (tmp_path / "page.py").write_text(_unindented_main(page))
    run([sys.executable, "page.py"], tmp_path)


def _unindented_main(page: str) -> str:
    """As a module that children may import: what follows the functions is for the parent."""
    lines = page.splitlines()
    return "if __name__ == '__main__':\n" + "\n".join(f"    {line}" for line in lines)


def _block(name: str) -> str:
    return next(code for found, code in BLOCKS if found == name)


@pytest.mark.skipif(find_spec("distributed") is None, reason="Dask's distributed is not installed")
def test_dask(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(_block("dask.py"))
    assert int(run([sys.executable, "example.py"], tmp_path)) > 190


def test_mpi(tmp_path: Path) -> None:
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if find_spec("mpi4py") is None or not mpiexec.exists():
        pytest.skip("MPI is not installed: pip install mpi4py mpich")
    (tmp_path / "mpi.py").write_text(_block("mpi.py"))
    command = [str(mpiexec), "-n", "3", sys.executable, "-m", "mpi4py.futures", "mpi.py"]
    assert int(run(command, tmp_path).split()[0]) > 190


def test_the_tables_of_scale_follow_from_the_measured_constants() -> None:
    root = PAGE.parent.parent
    if not (root / "docs" / "results" / "benchmarks-evaluators.json").exists():
        pytest.skip("python -m benchmarks.evaluators has not been run")
    run([sys.executable, "-m", "benchmarks.scale", "--check"], root)
