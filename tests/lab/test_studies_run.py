"""Who makes the runs of a study: order, time left, and workers that do not outlive their parent."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gensmooth import lab
from gensmooth.evaluators import cores
from gensmooth.lab.experiments import progress
from gensmooth.lab.experiments.progress import Shares, TimeLeft
from gensmooth.lab.experiments.spec import RunSpec
from gensmooth.lab.experiments.store import StudyStore
from gensmooth.lab.experiments.study import expected_runs, run_study
from gensmooth.lab.paper.dfo.study import STUDY as DFO
from gensmooth.lab.paper.dfo.study import DfoOptions
from gensmooth.lab.paper.dfo.study import cost as dfo_cost
from gensmooth.lab.paper.linreg.study import STUDY, LinregOptions
from patience import LONG, alive, children, wait_until

SMALL = LinregOptions(profile="quick", seeds=2, hyperparameters="paper", methods=("gs", "bes"))


@pytest.mark.parametrize("workers", [1, 2])
def test_the_time_left_is_right_from_the_first_line(monkeypatch, workers):
    """Runs of cost 6, then of cost 1, a second for each unit; the first ones also compile."""
    now, costs = 0.0, [6.0] * 60 + [1.0] * 60
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    time_left = TimeLeft(sum(costs), workers)
    assert time_left.left is None
    for i in range(0, len(costs), workers):
        compiling = 40.0 if i == 0 else 0.0
        now += costs[i] + compiling
        for cost in costs[i : i + workers]:
            time_left.add(cost, cost + compiling)
        if i >= 5:
            rest = sum(costs[i + workers :]) / workers
            assert time_left.left == pytest.approx(rest, rel=0.1), i  # a run more or less
        elif i < 4:
            assert time_left.left is None  # the first runs compile


def test_a_run_that_compiles_does_not_become_hours(monkeypatch):
    """What made "112 min to go" of ten seconds: one run in 400 took a hundred times as long."""
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    time_left, said = TimeLeft(400.0, 2), []
    for i in range(400):
        seconds = 3.0 if i in (0, 1, 2, 3) else 0.03
        now += seconds / 2
        time_left.add(1.0, seconds)
        said.append(time_left.left)
    assert all(left is None or left < 5 * 400 * 0.03 / 2 for left in said)
    assert said[200] == pytest.approx(200 * 0.03 / 2, rel=0.1)


def test_the_time_left_of_long_runs_does_not_wait_for_more_of_them():
    time_left = TimeLeft(10.0, 1)
    time_left.add(1.0, 620.0)  # it has also compiled
    time_left.add(1.0, 600.0)
    assert time_left.left == pytest.approx(8 * 600.0)


def test_runs_cores_and_time_are_announced_before_the_first_run(tmp_path, monkeypatch, capsys):
    """648 + 180 runs of the regression, 2,160 + 270 of the benchmark without cigar, 3 timings."""

    def nothing(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr("gensmooth.lab.paper.reproduce.run_study", nothing)
    lab.reproduce("linreg,dfo,timing", profile="paper", workers=2, folder=tmp_path)
    said = capsys.readouterr().err.splitlines()[0]
    assert f"In all about 3,261 runs, 2 at a time on {cores()} cores; about " in said
    lab.reproduce("linreg,untuned", profile="paper", folder=tmp_path)
    said = capsys.readouterr().err.splitlines()[0]
    assert said.endswith(", and the time of untuned is not known in advance.")


def test_the_estimate_agrees_with_a_measured_run():
    """Within a factor of ten: processors differ, and a busy one is slower."""
    options = DfoOptions(profile="paper", hyperparameters="paper", objectives=("sphere",), seeds=1)
    _, specs = expected_runs(DFO, options)
    assert len(specs) == 18
    for spec in specs:
        if spec.config["num_directions"] == 100 and spec.config["method"] in ("gs", "guided-es"):
            DFO.execute(spec.config, Path())  # compiles
            began = time.process_time()
            DFO.execute(spec.config, Path())
            seconds = time.process_time() - began
            assert dfo_cost(spec.config) / 10 < seconds < 10 * dfo_cost(spec.config)


def test_runs_side_by_side_tell_the_time_left(monkeypatch):
    """Costs 3 and 1, half of the first done by an earlier attempt; then 1 % of each per second."""
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    shares, heard = Shares({"long": 3.0, "short": 1.0}), []
    shares.on_report, shares.pause = lambda: heard.append(now), 10.0
    assert shares.left is None
    now = 100.0  # it compiled
    shares.tell("long", 0.5)
    shares.tell("short", 0.0)
    assert shares.done == pytest.approx(1.5 / 4)
    assert shares.left is None
    for second in range(1, 51):
        now += 1.0
        shares.tell("long", 0.5 + 0.01 * second)
        shares.tell("short", 0.01 * second)
        left = 3.0 * (0.5 - 0.01 * second) + 1.0 - 0.01 * second
        assert shares.left == pytest.approx(left / 0.04)  # by cost, at the speed since it began
    assert shares.runs == pytest.approx(1.5)
    assert heard == [110.0, 120.0, 130.0, 140.0, 150.0]
    shares.tell("short", 1.0)
    assert (shares.done, shares.left) == (pytest.approx(1.0), pytest.approx(0.0))


def test_long_runs_are_made_first(tmp_path, monkeypatch):
    """And whoever is in charge of a piece makes its share of long and short ones."""
    made = []

    def execute(config, scratch):
        made.append(config["num_directions"])
        return STUDY.execute(config, scratch)

    study = replace(STUDY, execute=execute, cost=lambda config: float(config["num_directions"]))
    for module in ("study", "workers"):
        monkeypatch.setattr(f"gensmooth.lab.experiments.{module}.find_study", lambda _: study)
    for i in (1, 2):
        folder = tmp_path / f"piece{i}"
        assert run_study("linreg", SMALL, folder, piece=(i, 2), say=str) is None
        assert made == sorted(made, reverse=True)
        assert len(made) == 18  # of 36
        assert {made.count(number) for number in (2, 6, 20)} == {6}
        made.clear()
    for run in (tmp_path / "piece2" / "runs").iterdir():
        run.rename(tmp_path / "piece1" / "runs" / run.name)
    assert len(run_study("linreg", SMALL, tmp_path / "piece1", say=str).records) == 36
    assert made == []


def test_a_scratch_folder_is_gone_when_its_run_is_kept(tmp_path):
    store = StudyStore(tmp_path, "linreg")
    spec = STUDY.reporting(SMALL, STUDY.select(SMALL, []))[0]
    scratch = store.scratch(spec)
    scratch.mkdir(parents=True)
    (scratch / "checkpoint").write_text("half")
    assert StudyStore(tmp_path, "linreg").scratch(spec).exists()  # a new process finds it
    store.save(spec, STUDY.execute(spec.config, scratch))
    assert not scratch.exists()
    other = RunSpec("linreg", {**spec.config, "seed": 9})
    assert store.scratch(other) != scratch


@pytest.mark.usefixtures("fresh_interpreters")
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes in /proc")
def test_workers_do_not_outlive_their_parent(tmp_path):
    """Or they would write to the same scratch folders as their successors."""
    options = "DfoOptions(profile='paper', hyperparameters='paper')"
    code = (
        "from pathlib import Path\n"
        "from gensmooth.lab.experiments.study import run_study\n"
        "from gensmooth.lab.paper.dfo.study import DfoOptions\n"
        f"if __name__ == '__main__':\n    run_study('dfo', {options}, Path('out'), workers=2)\n"
    )
    (tmp_path / "script.py").write_text(code)
    process = subprocess.Popen(
        [sys.executable, "script.py"], cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    assert wait_until(lambda: list(tmp_path.glob("out/runs/[0-9a-f]*")))
    workers = children(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(workers) >= 2
    assert wait_until(lambda: not any(map(alive, workers)))


def _gensmooth(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command where MuJoCo is not installed."""
    (tmp_path / "mujoco.py").write_text("raise ModuleNotFoundError('gone', name='mujoco')\n")
    return subprocess.run(
        [sys.executable, "-m", "gensmooth", *words, "--folder", tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=LONG,
    )


def test_without_mujoco_the_study_is_refused_in_one_line(tmp_path):
    done = _gensmooth(tmp_path, "reproduce", "rl")
    assert done.returncode == 1
    assert done.stderr == (
        "Error: Reinforcement learning needs mujoco: pip install 'gensmooth[rl]'\n"
    )


@pytest.mark.extended("documentation, examples and packaging")
def test_without_mujoco_all_studies_go_on_without_it(tmp_path):
    words = (
        "--methods",
        "gs",
        "--seeds",
        "1",
        "--hyperparameters",
        "paper",
        "--objective",
        "sphere",
    )
    done = _gensmooth(tmp_path, "reproduce", "all", *words)
    assert "rl is left out: Reinforcement learning needs mujoco" in done.stderr
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("study", "option", "words"),
    [
        ("dfo", {"offline": True}, "`offline` (--offline) is an option of linreg, not of dfo."),
        ("linreg", {"environments": ["Ant"]}, "(--env) is an option of rl, not of linreg."),
        ("timing", {"seeds": 3}, "and untuned, not of timing."),
        ("linreg,timing", {"device": "cuda"}, "an option of rl, not of linreg or timing."),
    ],
)
def test_an_option_of_another_study_is_refused(study, option, words, tmp_path):
    with pytest.raises(ValueError, match=re.escape(words)):
        lab.reproduce(study, **option, folder=tmp_path)
    with pytest.raises(TypeError, match=r"`seed` is not an option of linreg\. Did you mean"):
        lab.reproduce("linreg", seed=3)
    assert not list(tmp_path.iterdir())


def test_a_study_declares_its_own_options(tmp_path, monkeypatch):
    """And ``reproduce`` takes them; of several studies, each takes those that it has."""
    (tmp_path / "declared.py").write_text(
        "from dataclasses import dataclass\n"
        "from gensmooth.lab import Options, RunRecord, RunSpec, Study, option\n"
        "@dataclass(frozen=True)\n"
        "class Mine(Options):\n"
        "    height: int = option('How high.', 2)\n"
        "STUDY = Study('mine', 'Mine', lambda options, records: f'{options.height} high',\n"
        "    lambda options, cells: [RunSpec('mine', {'height': options.height})],\n"
        "    lambda config, scratch: RunRecord(config, {}, 0.0, False, 0.0), options=Mine)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    found = lab.reproduce("declared:STUDY,controller", height=7, seeds=1, workers=1, folder="out")
    assert [outcome.study for outcome in found.outcomes] == ["mine", "controller"]
    assert found.outcomes[0].records[0].config == {"height": 7}
    assert len(found.outcomes[1].records) == 1
