"""Any folder becomes a page: run, training, comparison, sweep, study; also while it goes on."""

import html
import json
import re
import shlex
import threading
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import gensmooth as gs
from gensmooth.cli.main import app
from gensmooth.fields import seal
from gensmooth.lab.overview import RecordedRun, command_of, expression, overview, read_run, speeds
from gensmooth.runs.folder import read_config

MODEL = "def loss(x):\n    return float((x - 1) @ (x - 1))\n"


@pytest.fixture
def model(tmp_path, monkeypatch):
    (tmp_path / "page_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    from gensmooth import naming

    return naming.find_function("page_model:loss")


def _command(page: Path) -> str:
    return html.unescape(re.search(r"<pre[^>]*><code>(.*?)</code>", page.read_text(), re.S)[1])


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"method": "bes-shrinkage", "optimizer": gs.adam(gs.cosine_decay(0.1, steps=20))},
        {"method": "guided-es", "spacing": 0.2, "estimator": gs.Antithetic(), "maximize": False},
        {"method": "orthogonal", "learning_rate": 0.05, "num_directions": 3},
    ],
    ids=["auto", "shrinkage", "guided", "rate"],
)
def test_the_command_on_the_page_repeats_the_run(how, model):
    x0 = np.array([0.5, -1.25, 3.0, 1 / 3])
    res = gs.minimize(model, x0, budget=150, seed=4, folder="run", **how)
    words = shlex.split(_command(overview("run")))
    assert words[0] == "gensmooth"
    done = CliRunner().invoke(app, [*words[1:], "--out", "again.json"])
    assert done.exit_code == 0, done.output
    assert np.array_equal(gs.load("again.json").x, res.x)


def test_a_start_that_is_long_or_not_float64_is_a_file(model):
    x0 = np.linspace(0, 1, 50, dtype=np.float32)
    res = gs.minimize(model, x0, method="bes", budget=300, seed=1, folder="run")
    words = shlex.split(_command(overview("run")))
    done = CliRunner().invoke(app, [*words[1:], "--out", "again.json"])
    assert done.exit_code == 0, done.output
    again = gs.load("again.json").x
    assert again.dtype == np.float32
    assert np.array_equal(again, res.x)


def test_what_has_no_words_says_how_to_go_on(tmp_path):
    gs.minimize(lambda x: x @ x, [1.0], budget=50, seed=0, folder=tmp_path / "run")
    assert "gs.resume(" in _command(overview(tmp_path / "run"))


def test_the_page_of_a_run_has_what_was_recorded(tmp_path):
    calls = iter(range(10**6))

    def sometimes(x):
        return float("nan") if next(calls) % 50 == 49 else float(x @ x)

    run = tmp_path / "run"
    res = gs.minimize(
        sometimes, np.ones(3), method="bes", on_failure="drop", budget=400, seed=0, folder=run
    )
    page = overview(run)
    assert page == run / "report" / "report.html"
    text = page.read_text()
    for words in ("signal to noise", "estimate", "its standard error", "directions left out"):
        assert words in text
    assert "http-equiv" not in text
    steps = (run / "report" / "tables" / "steps.csv").read_text().splitlines()
    assert len(steps) == res.nit + 1
    assert gs.resume(run, sometimes).nit == res.nit  # the page has not harmed the run


def test_speeds_are_of_the_time_that_a_run_ran():
    steps = [{"evaluations": 10 * (i + 1)} for i in range(6)]
    times = [
        {"step": 0, "time": 0.0, "begin": True},
        {"step": 2, "time": 2.0},
        {"step": 2, "time": 1000.0, "begin": True},
        {"step": 6, "time": 1001.0},
    ]
    at, rate = speeds(RecordedRun({}, steps, None, times))
    assert at.tolist() == [20, 60]
    assert rate.tolist() == [10, 40]


def test_a_training_becomes_a_page(tmp_path):
    pytest.importorskip("gymnasium")
    how = {"method": "gs", "num_directions": 2, "max_steps": 3, "test_every": 2}
    trained = gs.rl.train("CartPole-v1", test_episodes=2, seed=0, folder=tmp_path / "t", **how)
    page = overview(tmp_path / "t")
    assert "test return" in page.read_text()
    words = shlex.split(_command(page))
    done = CliRunner().invoke(app, [*words[1:], "--folder", str(tmp_path / "again")])
    assert done.exit_code == 0, done.output
    again = gs.rl.load_policy(tmp_path / "again" / "policy-last")
    assert np.array_equal(again.parameters, trained.policy.parameters)


def test_a_comparison_and_a_sweep_become_their_pages_again(tmp_path):
    out = tmp_path / "c"
    found = gs.compare(lambda x: x @ x, [1.0, 1.0], methods=["bes"], seeds=2, budget=60, folder=out)
    before = found.page.read_bytes()
    found.page.unlink()
    assert overview(out).read_bytes() == before
    out = tmp_path / "s"
    swept = gs.sweep(
        lambda x: x @ x,
        [1.0, 1.0],
        spacing=[0.1, 1.0],
        seeds=1,
        fresh_seeds=2,
        budget=60,
        folder=out,
    )
    before = swept.page.read_bytes()
    swept.page.unlink()
    assert overview(out).read_bytes() == before


def test_a_study_becomes_its_page_again_and_a_strangers_module_is_not_imported(tmp_path):
    from gensmooth.lab import reproduce

    made = reproduce(
        "dfo",
        folder=tmp_path,
        seeds=2,
        hyperparameters="paper",
        methods=("gs", "bes"),
        objectives=("sphere",),
        workers=1,
    )
    made.page.unlink()
    assert overview(tmp_path) == tmp_path / "report.html"
    asked = json.loads((tmp_path / "reproduce.json").read_text())
    forged = {**asked, "study": "stranger:STUDY"}
    cases = (forged, "checksum differs"), (seal(forged), "not accepted from a file")
    for content, words in cases:
        (tmp_path / "reproduce.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match=words):
            overview(tmp_path)


def test_a_live_page_reloads_itself_until_the_run_has_ended(model, tmp_path):
    go = threading.Event()
    began = threading.Event()

    def waits(now):
        if now.info.step == 3:
            began.set()
            go.wait(60)

    run = threading.Thread(
        target=lambda: gs.minimize(
            model, np.zeros(3), method="bes", budget=200, seed=0, folder="run", callback=waits
        )
    )
    run.start()
    assert began.wait(60)
    seen = []

    def follow():
        seen.append(overview("run", live=True, every=0.2))

    page = threading.Thread(target=follow)
    page.start()
    file = tmp_path / "run" / "report" / "report.html"
    for _ in range(600):
        if file.exists() and 'http-equiv="refresh"' in file.read_text():
            break
        threading.Event().wait(0.1)
    else:
        pytest.fail("no page that reloads itself")
    go.set()
    run.join(60)
    page.join(60)
    assert seen
    assert "http-equiv" not in file.read_text()
    assert "ended" in file.read_text()


def test_what_is_no_folder_of_ours_says_so(tmp_path):
    with pytest.raises(ValueError, match="is not a folder"):
        overview(tmp_path / "missing")
    with pytest.raises(ValueError, match="holds no run"):
        overview(tmp_path)
    (tmp_path / "linreg").mkdir()
    (tmp_path / "linreg" / "study.json").write_text("{}")
    with pytest.raises(ValueError, match="gensmooth reproduce STUDY --no-run"):
        overview(tmp_path)


def test_half_a_line_is_left_out(tmp_path):
    run = tmp_path / "run"
    gs.minimize(lambda x: x @ x, [1.0], budget=50, seed=0, method="bes", folder=run)
    whole = len(read_run(run).steps)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 99, "eval')
    assert len(read_run(run).steps) == whole
    assert command_of(read_config(run / "config.json"), run, run).startswith("gs.resume")


def test_a_choice_is_written_only_if_it_reads_back_the_same():
    assert expression({"kind": "Sgd", "learning_rate": 0.1}) == "sgd(learning_rate=0.1)"
    assert expression({"kind": "Sgd", "rate": 0.1}) is None
    assert expression({"given": "optax.adam"}) is None
