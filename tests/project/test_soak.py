"""The soak and the fuzzer of files, small: what benchmarks do at length, in a minute."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patience import LONG

pytest.importorskip("gymnasium")
ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(
        not (sys.platform == "linux" and (ROOT / "benchmarks").is_dir()),
        reason="looks into /proc; benchmarks come with the repository alone",
    ),
    pytest.mark.usefixtures("fresh_interpreters"),  # it finds its processes by their environment
]


BLOWS = ["SIGKILL", "SIGTERM", "worker killed", "worker frozen", "worker frozen, then SIGKILL"]
BLOWS += ["full disk", "clock jump"]


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
    found = benchmark("soak", "--points", "50", "--seed", "2", out=tmp_path / "soak.json")
    assert found["points"] == sum(row["points"] for row in found["rows"]) == 50
    assert found["problems"] == []
    kinds = {"minimize", "train", "study", "compare", "sweep", "reproduce", "torch"}
    assert {row["what"] for row in found["rows"]} <= kinds
    assert len(found["rows"]) > 4


LEFT = """
import os, signal, subprocess, sys, tempfile, time
from pathlib import Path
from benchmarks import soak

soak.GOING = 0.5
kind = sys.argv[1]
with tempfile.TemporaryDirectory() as folder:
    where = Path(folder)
    for name in ("tmp", "disk"):
        (where / name).mkdir()
    title = "ray::DashboardAgent" if kind == "agent" else "ray::RayWorker.step"
    # As Ray's processes are: in the session of their run, with a title where the mark was.
    words = ["-c", "import time; time.sleep(1000)"]
    child = subprocess.Popen([title, *words], executable=sys.executable, env={}, process_group=0)
    while title.encode() not in soak._command(child.pid):
        time.sleep(0.01)
    problems, late = soak._left(where, soak._shared_memory(), [os.getsid(0)], set())
    print(len(problems), [left.pid for left in late] == [child.pid])
    case = soak.Case("minimize", "fake", "ray", (), None)
    trial = soak.Trial(case, [], problems, 0.0)
    waiting = soak._still_there(dict.fromkeys(late, trial), 1000.0)
    print(len(waiting), len(problems))
    if len(sys.argv) > 2:
        child.kill()
        child.wait()
    print(len(soak._still_there(waiting, 0.0)), "; ".join(problems))
    child.kill()
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["actor"], "1 False|0 1|0 left 1 processes: ray::RayWorker.step"),
        (["agent", "goes"], "0 True|1 0|0 "),
        (["agent"], "0 True|1 0|0 left an agent of Ray's for 0 s"),
    ],
    ids=["an actor", "an agent that goes", "an agent that stays"],
)
def test_what_ray_leaves_is_seen_without_a_mark_and_its_agents_are_given_time(words, expected):
    paths = [str(ROOT), *(path for path in sys.path if path)]
    done = subprocess.run(
        [sys.executable, "-c", LEFT, *words],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "|".join(done.stdout.splitlines()).startswith(expected)


ORPHAN = """
import subprocess, sys, tempfile
from pathlib import Path
from benchmarks import soak

soak.GOING = 0.5
soak._adopt()
words = "setsid env -i sleep 1000 >/dev/null 2>&1 & sleep 0.5"
with tempfile.TemporaryDirectory() as folder:
    where = Path(folder)
    for name in ("tmp", "disk"):
        (where / name).mkdir()
    for known in (False, True):
        before = soak._orphans()
        if not known:
            subprocess.run(["sh", "-c", words], check=True)
        left, _ = soak._left(where, soak._shared_memory(), [], before)
        print("; ".join(left))
"""


def test_a_process_that_left_its_session_and_its_environment_is_found():
    paths = [str(ROOT), *(path for path in sys.path if path)]
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.stdout == "left 1 processes: sleep 1000\n\n", done.stderr[-3000:]


def test_a_soak_that_was_stopped_goes_on(tmp_path):
    out = tmp_path / "soak.json"
    words = ("--points", "4", "--seed", "2", "--kinds", "minimize", "--means", "serial")
    whole = benchmark("soak", *words, out=out)
    assert not out.with_suffix(".jsonl").exists()
    told = {"seed": 2, "ray": False, "kinds": "minimize", "means": "serial", "blows": BLOWS}
    case = ["minimize", "bes, d = 10", "serial"]
    made = {"number": 7, "case": case, "blows": ["SIGKILL"] * 3, "problems": [], "seconds": 1.0}
    lines = [told, made | {"commit": "abc", "minutes": 60.0}]
    out.with_suffix(".jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    part = {**made, "number": 10_000, "blows": ["SIGTERM"], "commit": "def", "minutes": 30.0}
    text = "".join(json.dumps(line) + "\n" for line in [told, part])
    out.with_suffix(".1.jsonl").write_text(text)
    rest = benchmark("soak", *words[:1], "5", *words[2:], out=out)
    assert list(tmp_path.iterdir()) == [out]
    assert whole["points"] == 4
    assert rest["points"] == 5
    assert 2 < rest["runs"] < 7
    assert rest["minutes"] >= 90
    assert rest["commit"] == f"abc, def, {whole['commit']}"
    assert rest["rows"][0]["blows"]["SIGKILL"] >= 3
    assert rest["mended"] == []


def test_trials_with_a_problem_are_made_again_and_told(tmp_path):
    out = tmp_path / "soak.json"
    words = ("--points", "2", "--seed", "2", "--kinds", "minimize", "--means", "serial", "--again")
    told = {"seed": 2, "ray": False, "kinds": "minimize", "means": "serial", "blows": BLOWS}
    case = ["minimize", "bes, d = 10", "serial"]
    made = {"case": case, "blows": ["SIGKILL"], "seconds": 1.0, "commit": "abc", "minutes": 1.0}
    good = made | {"number": 1, "problems": [], "blows": ["SIGKILL"] * 2}
    bad = made | {"number": 10_003, "problems": ["left a mess"]}
    for name, lines in ((".jsonl", [told, good]), (".1.jsonl", [told, bad])):
        out.with_suffix(name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = benchmark("soak", *words, out=out)
    assert found["problems"] == []
    assert found["runs"] == 2
    what = "minimize bes, d = 10 (serial), trial 10003"
    assert found["mended"] == [{"what": what, "commit": "abc", "found": ["left a mess"]}]


def test_damaged_files_are_detected_or_recovered_and_forged_ones_run_nothing(tmp_path):
    found = benchmark("fuzz_files", "--cases", "300", out=tmp_path / "fuzz.json")
    assert found["cases"] == 300
    assert found["problems"] == []
    assert len(found["specimens"]) >= 15
    outcomes = {name for row in found["rows"] for name in row["outcomes"]}
    assert (
        {"detected", "recovered"} <= outcomes <= {"detected", "recovered", "used", "still running"}
    )


def test_with_a_cold_cache_cases_compile_what_they_call(tmp_path):
    found = benchmark("fuzz_files", "--cases", "6", "--cold", out=tmp_path / "fuzz.json")
    assert found["problems"] == []
    assert 0 < found["compiled"]["cases"] <= 6
    assert found["compiled"]["functions"] > 10


def test_a_file_that_the_security_page_does_not_list_is_found(tmp_path):
    sys.path.insert(0, str(ROOT))
    try:
        from benchmarks import fuzz_files
    finally:
        sys.path.remove(str(ROOT))
    rows = fuzz_files.promises()
    assert len(rows) > 25
    for kind, name in (
        ("RUN", "config.json"),
        ("RUN", ".checkpoint.new"),
        ("RUN", "report/tables/steps.csv"),
        ("TRIALS", "trials/partial/0123/scores.jsonl"),
        ("STUDIES", "dfo/runs/0123/metrics.jsonl"),
        ("a policy", "policy"),
    ):
        assert fuzz_files.promise_of(kind, name) is not None
    (tmp_path / "config.json").touch()
    (tmp_path / "new.json").touch()
    assert fuzz_files.unlisted("RUN", tmp_path) == ["new.json"]


OPENS = """
import sys
from pathlib import Path
from benchmarks import fuzz_files
from gensmooth.runs.files import read_bytes
from gensmooth import fields
folder = Path(sys.argv[1]) / "folder"
folder.mkdir()
(folder / "a.json").write_text("{}")
watch = fuzz_files.Watch()
code = compile("def bypass(path):\\n    return open(path).read()", fields.__file__, "exec")
space = {}
exec(code, space)
for call in (read_bytes, space["bypass"]):
    watch.seen = []
    watch.folder = folder
    call(folder / "a.json")
    watch.folder = None
    print(len(watch.seen))
"""


def test_the_fuzzer_sees_an_open_that_bypasses_the_one_module(tmp_path):
    paths = [str(ROOT), *(path for path in sys.path if path)]
    done = subprocess.run(
        [sys.executable, "-c", OPENS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.stdout.split() == ["0", "1"], done.stderr[-3000:]


FULL = """
import os, sys
from pathlib import Path
import gensmooth as gs
from gensmooth.lab.overview import overview

disk, command = Path(sys.argv[1]), sys.argv[2]
loss = lambda x: float((x**2).sum())

def fill():
    free = os.statvfs(disk)
    with (disk / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_frsize))

def run(**how):
    return gs.minimize(loss, [1.0] * 50, method="bes", max_steps=9, seed=0, **how)

def full_later(state):
    if state.nit == 4:
        fill()

if command == "minimize":
    assert (run(folder=disk / "run", every=1, callback=full_later).x == run().x).all()
    (disk / "filler").unlink()
    assert (gs.resume(disk / "run", loss).x == run().x).all()
elif command == "report":
    run(folder=disk / "run")
    page = overview(disk / "run").read_bytes()
    (disk / "run" / "report" / "x0.npy").unlink(missing_ok=True)
    fill()
    try:
        overview(disk / "run")
    except gs.CheckpointError as error:
        assert "No space left on device" in str(error), error
    (disk / "filler").unlink()
    assert overview(disk / "run").read_bytes() == page
elif command == "compare":
    fill()
    try:
        gs.compare(loss, [1.0] * 4, methods=["gs"], seeds=1, budget=60, folder=disk / "compared")
    except RuntimeError as error:
        assert "No space left on device" in str(error), error
    else:
        raise AssertionError("nothing was said")
else:
    result = run()
    result.save(disk / "best.json")
    fill()
    try:
        result.save(disk / "best.json")
    except OSError as error:
        assert "best.json" in str(error), error
    assert (gs.load(disk / "best.json").x == result.x).all()
print("done")
"""


@pytest.mark.parametrize("command", ["minimize", "report", "compare", "save"])
def test_a_disk_that_is_full(command, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        done = subprocess.run(
            [sys.executable, "-c", FULL, str(disk), command],
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    assert done.stdout.endswith("done\n"), done.stderr[-3000:]
