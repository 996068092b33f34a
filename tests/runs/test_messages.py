"""What a run prints is true in the situation in which it prints it."""

import contextlib
import io
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import gensmooth as gs
from gensmooth.observe.observers import Observers, Start, StepData
from gensmooth.observe.table import Lines
from gensmooth.searches import StepInfo


def bowl(x):
    return float(((x - 1) ** 2).sum())


def valley(x):
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def test_a_run_ended_by_an_error_says_so():
    def fails(_):
        raise ZeroDivisionError("no luck")

    with pytest.raises(gs.EvaluationError, match="on_failure='drop' would leave") as caught:
        gs.minimize(fails, np.zeros(2), seed=0)
    result = caught.value.result
    assert (result.reason, result.status, result.success) == ("failed", 4, False)
    assert result.message.startswith("Ended by an error: The objective raised ZeroDivisionError")
    assert "keyboard" not in result.message


def test_ctrl_c_is_called_ctrl_c():
    def interrupted(_):
        raise KeyboardInterrupt

    result = gs.minimize(interrupted, np.zeros(2), seed=0)
    assert result.message.startswith("Interrupted from the keyboard (Ctrl-C).")


@pytest.mark.skipif(os.name != "posix", reason="SIGTERM is POSIX's")
def test_sigterm_is_called_sigterm(tmp_path):
    program = f"""
        import os, signal
        import numpy as np
        import gensmooth as gs
        from gensmooth.observe.table import Lines

        def fun(x):
            os.kill(os.getpid(), signal.SIGTERM)
            return float(x @ x)

        gs.minimize(fun, np.zeros(2), seed=0, folder={str(tmp_path / "run")!r}, progress=True)
    """
    code = textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == -signal.SIGTERM
    assert "end: Ended by the signal SIGTERM." in done.stderr
    assert "keyboard" not in done.stderr


def test_a_budget_that_outlasts_the_search_is_called_that():
    result = gs.minimize(bowl, np.zeros(2), budget=5_000, seed=0)
    assert result.reason == "budget"
    assert result.message.startswith("The evaluation budget is used up. The search had converged a")
    assert "converged" not in gs.minimize(bowl, np.zeros(20), budget=200, seed=0).message


def test_the_end_of_a_budget_says_whether_values_were_still_improving():
    def message(budget):
        return gs.minimize(valley, np.zeros(10), budget=budget, seed=0).message

    found = re.search(r"had converged after ([\d,]+) of 3,9\d\d evaluations", message(4_000))
    assert found
    converged = int(found[1].replace(",", ""))
    improving, spent = message(converged // 2), message(3 * converged // 2)
    assert improving.startswith("The evaluation budget is used up. The best value was still impr")
    assert re.search(r"There was no progress in the last \d{3} evaluations\.", spent)


def test_a_huge_first_value_does_not_make_later_gains_negligible():
    def penalised(x):
        return valley(x) + 1e12 * max(0.0, np.abs(x).max() - 2) ** 2

    result = gs.minimize(penalised, np.full(10, 5.0), budget=3_000, seed=1)
    best = np.minimum.accumulate(result.history.best_value)
    assert best[len(best) // 2] > 2 * best[-1]
    assert result.message.endswith("The best value was still improving.")


def test_noisy_values_are_called_noisy():
    def noisy(x, rng):
        return bowl(x) + float(rng.standard_normal())

    result = gs.minimize(noisy, np.zeros(3), samples="independent", budget=600, seed=0)
    assert result.best_fun < 0  # which the function without noise never is
    assert result.error is not None
    assert abs(result.fun - bowl(result.x)) < 4 * result.error
    assert "`best_fun` is the luckiest single value, and therefore too good." in result.message
    assert "luckiest" not in gs.minimize(bowl, np.zeros(3), budget=600, seed=0).message


def info(step, evaluations):
    return StepInfo(step, evaluations, 1.0, 0.5, 0, 1.0, 0.2, 5.0, 1.0, 0, 0.1, None)


def shown(monkeypatch, start, steps):
    """The lines for steps, each at a time and with a number of evaluations."""
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    out = io.StringIO()
    observers = Observers([Lines(0.0, out)])
    observers.start(start, {})
    for step, (now, evaluations) in enumerate(steps):
        clock[0] = now
        observers.step(StepData(info(step, evaluations), 1), {})
    return out.getvalue().splitlines()


def test_the_first_step_does_not_predict_the_rest(monkeypatch):
    """It compiles for 17 s; the run then takes 15 s, not 18 minutes."""
    start = Start("run", {}, 0, budget=6_400)
    lines = shown(monkeypatch, start, [(17.0, 100), (17.2, 200), (19.0, 900)])
    assert [line.rpartition("time left ")[2] for line in lines] == ["?", "0:00:12", "0:00:13"]


def test_a_budget_that_is_not_known_is_not_shown(monkeypatch):
    """A training that chooses its population is limited by its iterations."""
    lines = shown(monkeypatch, Start("run", {}, 0, max_steps=5), [(9.0, 30), (12.0, 90)])
    assert "step 2 / 5  evaluations 90  " in lines[-1]
    assert lines[-1].endswith("time left 0:00:06")


def test_a_training_counts_its_trajectories_right():
    pytest.importorskip("gymnasium")
    from rl_cases import SLIDER

    starts = []

    class Notes:
        def start(self, start):
            starts.append(start)

        def step(self, progress):
            starts.append(progress.info.evaluations)

        def end(self, summary):
            pass

    gs.rl.train(SLIDER, num_directions=3, max_steps=4, seed=0, trackers=[Notes()])
    assert starts[0].budget in (None, starts[-1])


def test_what_the_default_does_not_estimate_is_not_shown(capsys):
    gs.minimize(bowl, np.zeros(2), budget=100, seed=0, progress=True)
    err = capsys.readouterr().err
    assert "gradient norm" not in err
    assert "SNR" not in err
    gs.minimize(bowl, np.zeros(2), method="bes", budget=100, seed=0, progress=True)
    assert "SNR" in capsys.readouterr().err


def test_every_start_says_which_case_it_is(tmp_path, caplog):
    def stop(now):
        if now.info.evaluations > 20:
            raise KeyboardInterrupt

    caplog.set_level(logging.INFO, "gensmooth")
    options = {"budget": 60, "seed": 0, "folder": tmp_path / "run", "method": "bes"}
    gs.minimize(bowl, np.zeros(2), callback=stop, **options)
    assert caplog.messages.pop(0) == f"The run starts. It is stored in {tmp_path / 'run'}."
    caplog.clear()
    gs.minimize(bowl, np.zeros(2), **options)
    assert caplog.messages[0].startswith(f"The run in {tmp_path / 'run'} resumes after 2")
    assert "from the checkpoint after" in caplog.messages[0]
    assert caplog.records[0].levelno == logging.WARNING
    caplog.clear()
    gs.minimize(bowl, np.zeros(2), **options)
    assert "The stored result is returned and nothing is run." in caplog.messages[0]


def test_one_step_is_counted_in_the_singular(tmp_path, caplog):
    def stop(now):
        if now.info.evaluations:
            raise KeyboardInterrupt

    caplog.set_level(logging.INFO, "gensmooth")
    options = {"budget": 60, "seed": 0, "folder": tmp_path / "run", "method": "bes"}
    gs.minimize(bowl, np.zeros(2), callback=stop, **options)
    caplog.clear()
    gs.minimize(bowl, np.zeros(2), **options)
    assert "from the checkpoint after 1 step)." in caplog.messages[0]


def test_the_page_counts_the_evaluations_that_the_terminal_counts(tmp_path):
    pytest.importorskip("matplotlib")
    from gensmooth.lab import overview

    result = gs.minimize(bowl, np.zeros(2), budget=300, seed=0, folder=tmp_path / "run")
    page = overview.overview(tmp_path / "run").read_text()
    assert f"<dd>{result.nfev} in {result.nit} steps</dd>" in page


@pytest.mark.parametrize("name", ["budget", "spacing", "num_directions", "workers", "vectorized"])
def test_a_duration_is_not_a_number(name):
    """NumPy registers timedelta64 as an integer."""
    with pytest.raises((TypeError, ValueError), match=f"`{name}` must be .* but is NaT"):
        gs.minimize(bowl, np.zeros(2), **{name: np.timedelta64("NaT")})


def test_masked_parameters_are_refused():
    with pytest.raises(ValueError, match="`x0` must have no masked entries"):
        gs.minimize(bowl, np.ma.masked_array([0.0, 1.0], [True, False]))


INTERRUPTS = []


def interruptible(x):
    if INTERRUPTS:
        raise INTERRUPTS.pop()
    return bowl(x)


def finished(folder, **options):
    """Its checkpoints are then removed by hand."""
    gs.minimize(interruptible, np.zeros(2), folder=folder, **options)
    (folder / "checkpoint").unlink()
    (folder / "checkpoint.previous").unlink(missing_ok=True)


def killed_after_some_steps(folder, **options):
    """A copy of the folder of a live run; the calls are too fast for the journal."""
    whole = folder.with_name("whole")

    def copy(now):
        if now.nit == 3:
            shutil.copytree(whole, folder, dirs_exist_ok=True)

    gs.minimize(interruptible, np.zeros(2), folder=whole, callback=copy, **options)


def killed_at_once(folder, **options):
    """Only ``config.json`` has been written."""
    killed_after_some_steps(folder, **options)
    for path in folder.iterdir():
        if path.name != "config.json":
            path.unlink()


def interrupted_in_the_first_step(folder, **options):
    INTERRUPTS.append(KeyboardInterrupt)
    gs.minimize(interruptible, np.zeros(2), folder=folder, **options)


def interrupted_in_the_first_step_and_then_killed(folder, **options):
    """The only checkpoint is older than the steps that the second process completed."""
    interrupted_in_the_first_step(folder.with_name("whole"), **options)
    killed_after_some_steps(folder, **options)
    assert (folder / "checkpoint").exists()


@pytest.mark.parametrize(
    "before",
    [
        finished,
        killed_after_some_steps,
        killed_at_once,
        interrupted_in_the_first_step,
        interrupted_in_the_first_step_and_then_killed,
    ],
)
def test_a_start_from_the_beginning_says_only_what_is_true(before, tmp_path, caplog):
    options = {"budget": 60, "seed": 0, "method": "bes"}
    folder = tmp_path / "run"
    before(folder, **options)
    caplog.set_level(logging.INFO, "gensmooth")
    caplog.clear()
    result = gs.minimize(interruptible, np.zeros(2), folder=folder, **options)
    assert caplog.messages[0] == (
        f"The run in {folder} starts from the beginning: no checkpoint has a complete step, and no "
        "evaluations are in the journal."
    )
    assert result.nit > 3


def test_a_setting_in_two_parts_of_the_configuration_is_named_once(tmp_path):
    options = {"seed": 0, "folder": tmp_path / "run"}
    gs.minimize(bowl, np.zeros(2), budget=100, **options)
    with pytest.raises(gs.CheckpointError, match="budget") as caught:
        gs.minimize(bowl, np.zeros(2), budget=200, **options)
    assert str(caught.value).count("`budget`") == 1


def test_the_result_of_a_run_without_a_folder_is_called_that(tmp_path):
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(gs.CheckpointError, match="of a run that was made without `folder`"):
        gs.resume(tmp_path, bowl)
    with pytest.raises(gs.CheckpointError, match="it is not a run's folder"):
        gs.minimize(bowl, np.zeros(2), budget=60, folder=tmp_path)


def on_a_terminal(program, folder, **environment):
    """What a program prints on a terminal."""
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    code = textwrap.dedent(program)
    done = subprocess.Popen(
        [sys.executable, "-c", code], stderr=follower, env={**os.environ, **environment}, cwd=folder
    )
    os.close(follower)
    parts = []
    with open(leader, "rb", buffering=0) as stream, contextlib.suppress(OSError):
        while part := stream.read(65536):  # an error means that the other end is closed
            parts.append(part)
    return done.wait(), b"".join(parts).decode()


def test_compiling_is_announced_when_numba_compiles_and_only_then(tmp_path):
    program = """
        import numpy as np
        from gensmooth import kernels
        kernels.on_moments()  # none of whose kernels is called
        import gensmooth as gs
        gs.minimize(lambda x: float(x @ x), np.ones(3), method="bes", max_steps=1, progress=False)
    """
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    (_, cold), (_, warm) = (on_a_terminal(program, tmp_path, **cache) for _ in range(2))
    assert cold.count("compiling kernels") == 1
    assert "compiling" not in warm


def test_sigterm_on_a_terminal_is_reported(tmp_path):
    program = """
        import os, signal
        import numpy as np
        import gensmooth as gs

        def fun(x):
            os.kill(os.getpid(), signal.SIGTERM)
            return float(x @ x)

        gs.minimize(fun, np.zeros(2), seed=0, folder="run")
    """
    status, shown = on_a_terminal(program, tmp_path)
    assert status == -signal.SIGTERM
    assert "Ended by the signal SIGTERM." in shown
