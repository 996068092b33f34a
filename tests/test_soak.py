"""The soak and the fuzzer of files, small: what benchmarks do at length, in a minute."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patience import LONG

pytest.importorskip("gymnasium")
ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.skipif(
    not (sys.platform == "linux" and (ROOT / "benchmarks").is_dir()),
    reason="looks into /proc; benchmarks come with the repository alone",
)


def benchmark(name, *words, out):
    paths = [str(ROOT), *(path for path in sys.path if path)]
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *words, "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=3 * LONG,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return json.loads(out.read_text())


def test_disturbed_runs_come_to_the_same_bits_and_leave_nothing(tmp_path):
    found = benchmark("soak", "--points", "20", "--seed", "2", out=tmp_path / "soak.json")
    assert found["points"] == sum(row["points"] for row in found["rows"]) == 20
    assert found["problems"] == []
    assert {row["what"] for row in found["rows"]} == {"minimize", "train", "study"}


def test_damaged_files_are_detected_or_recovered_and_forged_ones_run_nothing(tmp_path):
    found = benchmark("fuzz_files", "--cases", "300", out=tmp_path / "fuzz.json")
    assert found["cases"] == 300
    assert found["problems"] == []
    assert len(found["specimens"]) == 9
    outcomes = {name for row in found["rows"] for name in row["outcomes"]}
    assert (
        {"detected", "recovered"} <= outcomes <= {"detected", "recovered", "used", "still running"}
    )
