"""Whether an installed gensmooth works, with nothing but Python: ``python tests/smoke.py``.

Run it in a fresh environment, away from the source: it refuses to test a source tree.
"""

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

import gensmooth as gs
from gensmooth import theory

MODEL = "def loss(x):\n    return float(((x - 1) ** 2).sum())\n"


def bowl(x: np.ndarray, shift: float = 0.0) -> float:
    return float(((x - 3 - shift) ** 2).sum())


def check_python() -> None:
    found = gs.minimize(bowl, np.zeros(4), budget=500, seed=0)
    assert abs(found.x - 3).max() < 1e-3, found
    for method in gs.directions.METHODS:
        named = gs.minimize(bowl, np.zeros((2, 2)), method=method, budget=200, seed=0)
        assert np.isfinite(named.fun), method
    one, two = (gs.minimize(bowl, np.zeros(4), budget=80, seed=1, workers=n) for n in (1, 2))
    assert one.x.tolist() == two.x.tolist()
    assert theory.information_limit(100, 20) == 0.8
    with tempfile.TemporaryDirectory() as folder:
        begun = gs.minimize(bowl, np.zeros(4), budget=80, seed=1, folder=f"{folder}/run")
        assert gs.resume(f"{folder}/run", bowl).x.tolist() == begun.x.tolist()


def check_scipy() -> str:
    try:
        import scipy.optimize
        import scipy.stats
    except ImportError:
        return "not installed"
    directions = gs.shrunk(gs.IID(scipy.stats.laplace()))
    assert np.isfinite(gs.minimize(bowl, np.zeros(4), directions=directions, budget=100).fun)
    found = scipy.optimize.minimize(
        bowl, np.zeros(4), args=(1.0,), method=gs.scipy.method("auto"), options={"budget": 500}
    )
    assert abs(found.x - 4).max() < 1e-3, found
    return version("scipy")


def check_command() -> None:
    command = Path(sys.executable).with_name("gensmooth.exe" if os.name == "nt" else "gensmooth")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.py").write_text(MODEL)

        def run(*words: str) -> str:
            done = subprocess.run(
                [str(command), *words], cwd=folder, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        assert run("--version").split() == ["gensmooth", gs.__version__]
        found = json.loads(run("minimize", "model:loss", "--x0", "zeros:3", "-b", "300", "--json"))
        assert max(abs(x - 1) for x in found["x"]) < 1e-2, found
        assert json.loads(run("methods", "--json"))
        assert "minimize" in run("--help")


def main() -> None:
    home = Path(gs.__file__).resolve()
    assert "site-packages" in home.parts, f"this is no installed package: {home}"
    assert version("gensmooth") == gs.__version__
    assert (home.parent / "py.typed").exists()
    check_python()
    scipy = check_scipy()
    check_command()
    print(
        f"gensmooth {gs.__version__} works: Python {sys.version.split()[0]}, "
        f"NumPy {version('numpy')}, Numba {version('numba')}, SciPy {scipy}"
    )


if __name__ == "__main__":
    main()
