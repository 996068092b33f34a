"""Folders that an earlier gensmooth wrote still open, go on to the same bits, and report.

``data/old`` says how each was made. What came of them in the gensmooth that wrote them, without an
interruption, is in ``data/old/expected.json``.
"""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import fingerprints
import gensmooth as gs
from fingerprints import ITERATION, STEP, digest, of_lines, of_results

OLD = Path(__file__).parent / "data" / "old"
EXPECTED = json.loads((OLD / "expected.json").read_text())
SAME_MACHINE = fingerprints.machine() == EXPECTED["machine"]

needs_mujoco = pytest.mark.skipif(not find_spec("mujoco"), reason="needs MuJoCo")


def copied(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD / name, tmp_path / name))


def check(name: str, found: str) -> None:
    """Bits, where they can be the same."""
    if SAME_MACHINE:
        assert found == EXPECTED[name]


@pytest.mark.parametrize(("name", "at", "steps"), [("minimize", 10, 24), ("minimize-large", 3, 9)])
def test_a_run_goes_on(name, at, steps, tmp_path):
    folder = copied(name, tmp_path)
    seen = []
    found = gs.resume(folder, trust=True, callback=lambda info, _: seen.append(info.step))
    assert seen == list(range(at, steps))  # not from the beginning, and not twice
    assert found.nit == steps
    check(name, digest([of_results([found]), of_lines(folder / "metrics.jsonl", STEP)]))
    again = gs.resume(folder, trust=True, callback=lambda *_: pytest.fail("it has ended"))
    assert again.x.tobytes() == found.x.tobytes()


def command(words):
    line = [sys.executable, "-m", "gensmooth", *words]
    done = subprocess.run(line, cwd=Path(__file__).parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_run_goes_on_by_the_same_call_and_by_the_command(tmp_path):
    by_call, by_command = copied("minimize", tmp_path), tmp_path / "again"
    shutil.copytree(by_call, by_command)
    gs.minimize(
        fingerprints.noisy,
        np.linspace(-1, 1.5, 6, dtype=np.float32).reshape(2, 3),
        directions=gs.Guided(alpha=0.3, history=3),
        num_directions=4,
        estimator=gs.Antithetic(),
        samples="independent",
        num_samples=2,
        bounds=(-0.8, 1.2),
        budget=400,
        target=-100.0,
        tolerance=1e-9,
        checkpoint=by_call,
        seed=11,
    )
    command(["resume", str(by_command), "--trust"])
    lines = [(folder / "metrics.jsonl").read_bytes() for folder in (by_call, by_command)]
    assert lines[0] == lines[1]
    check("minimize, metrics", of_lines(by_call / "metrics.jsonl", STEP)["hash"])


@needs_mujoco
@pytest.mark.parametrize(("name", "at", "steps"), [("train", 6, 10), ("train-gymnasium", 6, 12)])
def test_a_training_goes_on(name, at, steps, tmp_path):
    folder = copied(name, tmp_path)
    before = gs.rl.load_policy(folder / "policy-last")
    assert np.isfinite(before.parameters).all()
    seen = []
    found = gs.rl.resume(
        folder, trust=True, callback=lambda iteration, *_: seen.append(iteration.info.step)
    )
    assert seen == list(range(at, steps))
    assert found.iterations == steps
    last = gs.rl.load_policy(folder / "policy-last")
    best = gs.rl.load_policy(folder / "policy-best")
    parts = [last.parameters, best.parameters, of_lines(folder / "metrics.jsonl", ITERATION)]
    check(name, digest(parts))


@needs_mujoco
def test_a_study_goes_on(tmp_path):
    """The test of the first round was changed by hand: only a run that goes on has it."""
    folder = copied("study-rl", tmp_path)
    text = "reproduce rl --env HalfCheetahRandVel --methods gs,bes-shrinkage --seeds 2"
    words = text.split()
    command([*words, "--no-run", "--out", str(folder)])
    assert (folder / "report.html").exists()
    (half,) = (where.name for where in (folder / "rl" / "partial").iterdir())
    (done,) = (where.name for where in (folder / "rl" / "runs").iterdir())
    command([*words, "--workers", "1", "--out", str(folder)])
    made = {where.name: where for where in (folder / "rl" / "runs").iterdir()}
    assert {half, done} < made.keys()
    assert len(made) == 4
    assert not any((folder / "rl" / "partial").iterdir())
    assert fingerprints.run_of(made[half])["rounds"][0]["return"] == 123.0
    check("study-rl", digest([{key: fingerprints.run_of(where) for key, where in made.items()}]))


def test_a_finished_study_reports(tmp_path):
    folder = copied("study-dfo", tmp_path)
    text = "reproduce dfo --hyperparameters paper --seeds 2 --methods gs,bes-shrinkage"
    words = [*text.split(), "--objective", "sphere", "--out", str(folder)]
    before = {path: path.stat().st_mtime_ns for path in (folder / "dfo" / "runs").rglob("*")}
    command([*words, "--no-run"])
    curves = (folder / "tables" / "curves-dfo.csv").read_text()
    check("curves", digest([curves]))
    assert (folder / "report.html").exists()
    command([*words, "--workers", "1"])  # there is nothing left to do
    assert before == {
        path: path.stat().st_mtime_ns for path in (folder / "dfo" / "runs").rglob("*")
    }
