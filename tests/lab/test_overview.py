"""Any folder becomes a page: run, training, comparison, sweep, study; also while it goes on."""

import html
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import gensmooth as gs
from gensmooth import naming
from gensmooth.cli.main import app
from gensmooth.fields import seal
from gensmooth.lab.experiments.runner import on_cores
from gensmooth.lab.overview import overview
from gensmooth.lab.run_page.command import command_of, expression
from gensmooth.lab.run_page.recorded import RecordedRun, read_run, speeds
from gensmooth.runs.folder import read_config

MODEL = """
def loss(x):
    return float((x - 1) @ (x - 1))

def noisy(x, rng):
    return loss(x) + float(rng.standard_normal())

def structured(p):
    return (p["a"] - 2) ** 2 + float(((p["b"] - 1) ** 2).sum())
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    (tmp_path / "page_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return naming.find_function("page_model:loss")


def _command(page: Path) -> str:
    shown = re.search(r"<pre[^>]*><code>(.*?)</code>", page.read_text(), re.S)[1]
    return html.unescape(re.sub(r"</?span>", "", shown))


def _repeat(page: Path, folder: Path) -> Path:
    """Run the command on a page as a shell would, and return the folder of the repeated run."""
    command = _command(page)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    folder = folder / "again" if "resume again" in command else Path("repeated")
    if folder.name == "repeated":
        command += " --folder repeated"
    done = subprocess.run(
        command, shell=True, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_the_printed_command_works_in_a_shell(model, tmp_path):
    """With bounds, which it once could not express; and with what only Python can."""
    start = {"a": 0.5, "b": np.array([1.0, 2.0])}
    bounds = {"bounds": (None, 0.75)}
    cases = (model, np.zeros(3), bounds), (_structured(), start, {"log_scale": True})
    for fun, x0, how in cases:
        res = gs.minimize(fun, x0, budget=120, seed=4, folder="run", **how)
        again = _repeat(overview("run"), tmp_path)
        found = _answer(overview(again))
        assert found == _answer(overview("run"))
        assert found["evaluations"] == f"{res.nfev} in {res.nit} steps"
        for folder in ("run", again):
            shutil.rmtree(folder)


@pytest.mark.usefixtures("model")
def test_the_command_repeats_a_run_that_was_given_a_larger_budget(tmp_path):
    """The default search plans with its budget, so 120 and then 200 is not the same as 200."""
    how = {"samples": "independent", "seed": 0, "folder": "run"}
    fun = naming.find_function("page_model:noisy")
    gs.minimize(fun, np.zeros(3), budget=120, **how)
    gs.resume("run", fun, budget=160)
    res = gs.resume("run", fun, budget=200)
    page = overview("run")
    assert _command(page).count("gensmooth resume again") == 2
    again = gs.load(_repeat(page, tmp_path) / "result.json")
    assert (again.x == res.x).all()
    assert again.fun == res.fun
    assert (gs.minimize(fun, np.zeros(3), budget=200, **how | {"folder": None}).x != res.x).any()


def test_a_run_that_was_given_new_limits_in_the_middle_has_no_command(model):
    def stop(intermediate_result):
        return intermediate_result.nit == 1

    how = {"seed": 0, "folder": "run"}
    assert gs.minimize(model, np.zeros(3), callback=stop, budget=500, **how).nit == 1
    gs.resume("run", model, budget=600)
    text = overview("run").read_text()
    assert "no command repeats it" in text
    assert "gensmooth minimize" not in text


def _structured():
    return naming.find_function("page_model:structured")


def _answer(page: Path) -> dict[str, str]:
    box = re.search(r'<div class="answer">(.*?)</dl>', page.read_text(), re.S)[1]
    rows = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", box, re.S)
    return {html.unescape(name): html.unescape(text) for name, text in rows}


def test_the_page_begins_with_the_answer(model):
    def noisy(x, rng):
        return model(x) + 0.1 * rng.normal()

    start = {"gain": 0.5, "offsets": [np.zeros(2)]}
    res = gs.minimize(
        lambda p, rng: noisy(np.array([p["gain"], *p["offsets"][0]]), rng),
        start,
        samples="independent",
        budget=300,
        seed=0,
        folder="run",
    )
    page = overview("run")
    found = _answer(page)
    names = ["gain", "offsets[0]", "value", "noise", "ended", "evaluations"]
    assert list(found) == names
    assert found["gain"] == f"{res.x['gain']:.6g}"
    assert found["value"].startswith(f"{res.fun:.6g} ± {res.error:.2g}, ")
    assert found["noise"].startswith(f"{res.noise:.2g}, ")
    assert found["ended"] == re.sub(r"`(\w+)`", r"<code>\1</code>", res.message)
    assert "<code>x</code>" in found["ended"]
    assert found["evaluations"] == f"{res.nfev} in {res.nit} steps"
    text = page.read_text()
    assert text.index('class="answer"') < text.index("<figure")
    assert "gradient estimate" not in text  # the pilot has none at each step
    swatches = re.search(r'<ul class="legend".*?</ul>', text, re.S)[0]
    colors = re.findall(r"stroke: (var\([^)]*\)|#\w+)", swatches)
    assert len(set(colors)) == len(colors) == swatches.count("<li>")


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"bounds": [(None, 0.75), (-2, 4), (0, None), (-1, 1)], "x_scale": [1.0, 2.0, 1.0, 0.5]},
        {"method": "cma-es", "bounds": (-3, 3)},
        {"method": "snes"},
        {"method": "bes-shrinkage", "optimizer": gs.adam(gs.cosine_decay(0.1, steps=20))},
        {"method": "guided-es", "spacing": 0.2, "estimator": gs.Antithetic(), "maximize": False},
        {"method": "orthogonal", "learning_rate": 0.05, "num_directions": 3},
        {"method": "snes", "seed": 0},
        {"restarts": False},
        {"method": "bes", "target": 0.0, "tolerance": 0.0},
        {"budget": None},
    ],
    ids=[
        *("auto", "bounds", "cma-es", "snes", "shrinkage", "guided", "rate", "0", "no", "zeros"),
        "unknown",
    ],
)
def test_the_command_on_the_page_repeats_the_run(how, model):
    x0 = np.array([0.5, -1.25, 3.0, 1 / 3])
    how = {"budget": 150, "seed": 4, **how}
    res = gs.minimize(model, x0, folder="run", **how)
    page = overview("run")
    if "x_scale" in how:  # the settings have its numbers
        assert "<dt>search.x_scale</dt><dd>[1, 2, 1, 0.5]</dd>" in page.read_text()
    words = shlex.split(_command(page))
    assert "--restarts" not in words
    if how["budget"] is not None:
        assert ("--no-restarts" in words) == (how.get("restarts") is False)
    assert words[words.index("--seed") + 1] == str(how["seed"])
    for limit in ("target", "tolerance"):
        assert (f"--{limit}" in words) == (limit in how)
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
    for words in ("signal to noise", "gradient estimate", "its norm", "directions left out"):
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


def test_a_training_becomes_a_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("gymnasium")
    how = {"method": "gs", "num_directions": 2, "max_steps": 3, "test_every": 2}
    trained = gs.rl.train("CartPole-v1", test_episodes=2, seed=0, folder=tmp_path / "t", **how)
    page = overview(tmp_path / "t")
    found = _answer(page)
    assert found["best test"].startswith(f"a mean return of {trained.best.mean_return:.6g} ± ")
    assert found["ended"] == trained.message
    again = gs.rl.load_policy(_repeat(page, tmp_path) / "policy-last")
    assert np.array_equal(again.parameters, trained.policy.parameters)


def test_a_comparison_and_a_sweep_become_their_pages_again(tmp_path):
    out = tmp_path / "c"
    found = gs.compare(lambda x: x @ x, [1.0, 1.0], methods=["bes"], seeds=2, budget=60, folder=out)
    before = found.page.read_bytes()
    assert _answer(found.page)["best x"].startswith("[")
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


def test_a_study_becomes_its_page_again_and_a_strangers_module_is_not_imported(tmp_path, capsys):
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
    announced = capsys.readouterr().err.splitlines()[0]
    assert announced.startswith("dfo: runs: ")
    assert f" runs, 1 at a time on {on_cores()}; about 1 s." in announced
    made.page.unlink()
    assert overview(tmp_path) == tmp_path / "report.html"
    asked = json.loads((tmp_path / "reproduce.json").read_text())
    forged = {**asked, "study": "stranger:STUDY"}
    cases = (forged, "checksum differs"), (seal(forged), "not accepted from a file")
    for content, words in cases:
        (tmp_path / "reproduce.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match=words):
            overview(tmp_path)


@pytest.mark.usefixtures("model")
def test_a_result_without_a_folder_becomes_a_page():
    """As ``gensmooth minimize`` writes it by default."""
    words = ["minimize", "page_model:loss", "--x0", "zeros:2", "--budget", "60", "--seed", "1"]
    assert CliRunner().invoke(app, words).exit_code == 0
    done = CliRunner().invoke(app, ["report", "runs/page_model-loss-1"])
    assert done.exit_code == 0, done.output
    page = Path(done.output.split()[-1])
    found, res = _answer(page), gs.load("runs/page_model-loss-1/result.json")
    assert found["value"] == f"{res.fun:.6g}"
    assert found["evaluations"] == f"{res.nfev} in {res.nit} steps"
    assert "To repeat it" not in page.read_text()


def test_a_torch_log_becomes_a_page(tmp_path):
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(3, 1)
    with gs.torch.Log(tmp_path / "steps.log") as log:
        named = layer.named_parameters()
        opt = gs.torch.ZerothOrder(named, lr=0.1, num_directions=4, seed=0, log=log)
        losses = [opt.step(lambda: layer(torch.ones(3)).square().sum()) for _ in range(5)]
    found = _answer(overview(tmp_path / "steps.log"))
    assert found == {"last loss": f"{float(losses[-1]):.6g}", "steps": "5"}


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


def test_times_that_cannot_be_read_are_left_out(tmp_path):
    gs.minimize(
        lambda x: float(x @ x),
        np.zeros(2),
        method="bes",
        max_steps=4,
        seed=0,
        folder=tmp_path / "run",
    )
    (tmp_path / "run" / "times.jsonl").unlink()
    os.mkfifo(tmp_path / "run" / "times.jsonl")
    assert overview(tmp_path / "run").is_file()


def test_half_a_line_is_left_out(tmp_path):
    run = tmp_path / "run"
    gs.minimize(lambda x: x @ x, [1.0], budget=50, seed=0, method="bes", folder=run)
    whole = len(read_run(run).steps)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 99, "eval')
    assert len(read_run(run).steps) == whole
    command = command_of(read_config(run / "config.json"), run, run)
    assert command.endswith("# then in Python: gs.resume('again', fun)")


def test_a_choice_is_written_only_if_it_reads_back_the_same():
    assert expression({"kind": "Sgd", "learning_rate": 0.1}) == "sgd(learning_rate=0.1)"
    assert expression({"kind": "Sgd", "rate": 0.1}) is None
    assert expression({"given": "optax.adam"}) is None
