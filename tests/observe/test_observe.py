"""Following a run: table, lines, trackers; real packages, local files."""

import io
import json
import logging
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter

import numpy as np
import pytest

import gensmooth as gs
from gensmooth.observe import Lines, display, scalars
from gensmooth.observe.observers import Meter
from patience import wait_until

OPTIONS = {"x0": np.ones(4), "method": "bes", "budget": 300, "seed": 1}


def bowl(x):
    return float((x**2).sum())


class Notes:
    """A tracker in ten lines, as a user would write it."""

    def __init__(self):
        self.starts, self.steps, self.ends = [], [], []

    def start(self, start):
        self.starts.append(start)

    def step(self, progress):
        self.steps.append(progress)

    def end(self, summary):
        self.ends.append(summary)


def interrupted(folder, steps, kept=None, **options):
    """A run that was stopped after some steps; with ``kept``, as if killed after a checkpoint."""

    def callback(now):
        if now.info.step + 1 == steps:
            raise KeyboardInterrupt

    gs.minimize(bowl, folder=folder, callback=callback, every=kept, **OPTIONS, **options)
    if kept:
        (folder / "checkpoint.previous").replace(folder / "checkpoint")


def test_a_tracker_hears_of_the_start_every_step_and_the_end():
    notes = Notes()
    result = gs.minimize(bowl, trackers=[notes], **OPTIONS)
    (start,), (end,) = notes.starts, notes.ends
    assert (start.step, start.evaluations, start.budget) == (0, 0, 300)
    assert start.config["search"]["spacing"] == 0.1
    assert [p.info.step for p in notes.steps] == list(range(result.nit))
    assert [p.info.value for p in notes.steps] == result.history.value.tolist()
    assert all(p.workers == 1 and p.rate > 0 and p.faults == {} for p in notes.steps)
    assert notes.steps[-1].remaining < notes.steps[1].remaining
    assert end == {name: result[name] for name in end}
    assert end["reason"] == "budget"


def test_a_resumed_run_keeps_its_name_and_counts_on(tmp_path):
    interrupted(tmp_path, 5)
    notes = Notes()
    result = gs.resume(tmp_path, bowl, trackers=[notes])
    assert notes.starts[0].step == 5
    assert notes.starts[0].run == json.loads((tmp_path / "config.json").read_text())["run"]
    assert [p.info.step for p in notes.steps] == list(range(5, result.nit))


def test_an_ended_run_that_is_told_again_starts_no_tracker(tmp_path):
    gs.minimize(bowl, folder=tmp_path, **OPTIONS)
    notes = Notes()
    gs.resume(tmp_path, bowl, trackers=[notes])
    assert not notes.starts
    assert not notes.ends


def test_a_tracker_that_fails_is_left_out_and_the_run_goes_on(caplog):
    class Broken(Notes):
        def step(self, progress):
            super().step(progress)
            if progress.info.step == 2:
                raise ConnectionError("no route to host")

    broken, notes = Broken(), Notes()
    with caplog.at_level(logging.WARNING):
        result = gs.minimize(bowl, trackers=[broken, notes], **OPTIONS)
    assert result.reason == "budget"
    assert len(broken.steps) == 3
    assert len(notes.steps) == result.nit
    assert caplog.messages == [
        "The tracker Broken raised ConnectionError and is not called again in this run: "
        "no route to host"
    ]


def test_a_tracker_that_cannot_start_stops_the_run_before_it_costs_anything():
    class Broken(Notes):
        def start(self, start):
            raise ConnectionError(f"cannot follow {start.run}")

    def never(_):
        raise AssertionError("evaluated")

    notes = Notes()
    with pytest.raises(ConnectionError):
        gs.minimize(never, trackers=[notes, Broken()], **OPTIONS)
    assert notes.ends[0]["reason"] == "failed"


def test_a_failed_run_ends_its_trackers():
    notes = Notes()
    with pytest.raises(gs.EvaluationError):
        gs.minimize(lambda _: 1 / 0, trackers=[notes], **OPTIONS)
    assert notes.ends[0]["reason"] == "failed"
    assert "ZeroDivisionError" in notes.ends[0]["message"]


def test_what_is_no_tracker_is_refused():
    with pytest.raises(TypeError, match="`trackers` must be objects with the methods start"):
        gs.minimize(bowl, trackers=[print], **OPTIONS)


def test_the_rate_is_that_of_the_last_half_minute():
    meter, clock, rates = Meter(0.0, 1000), 0.0, []
    for step in range(400):
        clock += 60.0 if step == 0 else 0.1 if step < 200 else 0.5  # first, workers start
        rates.append(meter.rate(clock, 1000 + 20 * (step + 1)))
    assert rates[0] == pytest.approx(20 / 60)
    assert rates[100] == pytest.approx(200, rel=0.02)
    assert rates[-1] == pytest.approx(40, rel=0.02)


def test_lines_say_what_the_table_says():
    out = io.StringIO()
    result = gs.minimize(bowl, trackers=[Lines(0.0, out)], **OPTIONS)
    lines = out.getvalue().splitlines()
    assert len(lines) == result.nit + 3
    assert lines.pop(0) == "The run starts."
    assert re.fullmatch(
        r"step 1  evaluations 9 / 300  evaluations/s [\d.,e+]+  value 4  gradient norm [\d.]+  "
        r"SNR [\d.]+  workers 1  faults none  time left \?",
        lines[0],
    )
    assert lines[-1].startswith("end: The evaluation budget is used up.")


def test_lines_tell_faults_by_kind_and_where_a_run_goes_on(tmp_path):
    interrupted(tmp_path, 5)
    out = io.StringIO()

    def unlucky(x):
        calls["all"] += 1
        return float("nan") if calls["all"] == 4 else bowl(x)

    calls = Counter()
    gs.resume(tmp_path, unlucky, on_failure="retry", retries=1, trackers=[Lines(0.0, out)])
    resumed = f"The run in {tmp_path} resumes after 45 evaluations (from the checkpoint after 5"
    assert out.getvalue().startswith(f"{resumed} steps).\n")
    assert "faults non-finite 1" in out.getvalue()


def test_off_a_terminal_nothing_is_shown_unless_asked(capsys):
    assert display(None) == []
    assert display(False) == []
    gs.minimize(bowl, **OPTIONS)
    assert capsys.readouterr() == ("", "")
    gs.minimize(bowl, progress=True, **OPTIONS)
    assert "evaluations/s" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_on_a_terminal_there_is_a_live_table():
    code = """
        import time
        import gensmooth as gs
        def bowl(x):
            time.sleep(0.002)
            return float((x**2).sum())
        gs.minimize(bowl, [1.0] * 4, method="bes", budget=400, seed=1)
    """
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    ) as running:
        os.close(theirs)
        seen = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            seen += piece
    os.close(ours)
    assert running.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    for name in ("step", "evaluations", "evaluations/s", "value", "gradient norm", "SNR"):
        assert name in text
    for name in ("workers", "faults", "time left"):
        assert name in text
    assert "none" in text
    assert "396 / 400" in text  # the last state stays
    assert text.count("evaluations/s") > 2  # redrawn


@pytest.mark.extended("trackers")
def test_tensorboard_shows_every_step_once_even_after_a_kill(tmp_path):
    pytest.importorskip("tensorboardX")
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    logs = tmp_path / "logs"
    interrupted(tmp_path / "run", 12, kept=10, trackers=[gs.observe.TensorBoard(logs)])
    result = gs.resume(tmp_path / "run", bowl, trackers=[gs.observe.TensorBoard(logs)])
    found = reader.EventAccumulator(str(logs))
    found.Reload()
    events = found.Scalars("value")
    assert [event.step for event in events] == list(range(result.nit))
    np.testing.assert_allclose([e.value for e in events], result.history.value, rtol=1e-6)
    assert {"gradient_norm", "signal_to_noise", "evaluations_per_second", "workers"} <= set(
        found.Tags()["scalars"]
    )
    config = found.Tensors("config/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "search.directions.kind: Bernoulli" in config


@pytest.mark.extended("trackers")
@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_mlflow_has_one_run_with_every_step(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    monkeypatch.chdir(tmp_path)
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    interrupted(tmp_path / "run", 12, trackers=[gs.observe.MLflow(uri, experiment="bowls")])
    client = mlflow.MlflowClient(tracking_uri=uri)
    where = client.get_experiment_by_name("bowls").experiment_id
    assert [run.info.status for run in client.search_runs([where])] == ["KILLED"]
    tracker = gs.observe.MLflow(uri, experiment="bowls")
    result = gs.resume(tmp_path / "run", bowl, trackers=[tracker])
    (run,) = client.search_runs([where])
    assert run.info.status == "FINISHED"
    assert run.data.params["search.directions.kind"] == "Bernoulli"
    assert run.data.metrics["final/fun"] == result.fun
    values = sorted(client.get_metric_history(run.info.run_id, "value"), key=lambda m: m.step)
    assert [metric.step for metric in values] == list(range(result.nit))
    assert [metric.value for metric in values] == result.history.value.tolist()


@pytest.mark.extended("trackers")
@pytest.mark.filterwarnings("ignore")  # Weights & Biases' own
def test_weights_and_biases_offline(tmp_path):
    pytest.importorskip("wandb")
    tracker = gs.observe.WandB("bowls", mode="offline", folder=tmp_path)
    gs.minimize(bowl, trackers=[tracker], **OPTIONS)

    def logged():  # by a process of its own
        return [path.read_bytes() for path in tmp_path.glob("wandb/offline-run-*/*.wandb")]

    assert wait_until(lambda: any(b"gradient_norm" in log for log in logged()))
    assert len(logged()) == 1


@pytest.mark.usefixtures("fresh_interpreters")
def test_a_missing_package_is_named_with_its_extra():
    code = """
        import sys
        for name in ("tensorboardX", "mlflow", "wandb"):
            sys.modules[name] = None  # as if it were not installed
        from gensmooth import observe
        for make in (lambda: observe.TensorBoard("x"), observe.MLflow, observe.WandB):
            try:
                make()
            except ImportError as error:
                print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "This tracker needs tensorboardX: pip install 'gensmooth[tensorboard]'",
        "This tracker needs mlflow: pip install 'gensmooth[mlflow]'",
        "This tracker needs wandb: pip install 'gensmooth[wandb]'",
    ]


def test_scalars_leave_out_what_there_is_not():
    notes = Notes()
    gs.minimize(bowl, num_directions=1, trackers=[notes], **OPTIONS)
    found = scalars(notes.steps[0])
    assert "standard_error" not in found
    assert found["evaluations"] == 2
