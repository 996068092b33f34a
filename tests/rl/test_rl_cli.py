"""The commands: train, evaluate, resume, and plain words for what is wrong."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gensmooth as gs
from gensmooth.cli.main import app, main

pytest.importorskip("gymnasium")
from rl_cases import SLIDER

SETTINGS = ["-L4", "-c0.1", "-r0.05", "--test-every=3", "--test-episodes=5", "--seed=3"]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_train_evaluate_and_go_on(tmp_path):
    folder = tmp_path / "run"
    done = run("train", SLIDER, *SETTINGS, "-n", 4, "--folder", folder)
    assert done.exit_code == 0, done.output
    assert "The maximum number of steps was reached" in done.output
    here = gs.rl.train(
        SLIDER,
        num_directions=4,
        spacing=0.1,
        learning_rate=0.05,
        test_every=3,
        test_episodes=5,
        seed=3,
        max_steps=9,
    )
    further = run("resume", folder, "--max-steps", 9)
    assert further.exit_code == 0, further.output
    last = gs.rl.load_policy(folder / "policy-last")
    assert last.parameters.tobytes() == here.policy.parameters.tobytes()

    out = tmp_path / "found.json"
    done = run("evaluate", folder, "-n", 8, "--out", out)
    assert done.exit_code == 0, done.output
    found = json.loads(out.read_text())
    assert found["mean_return"] == gs.rl.evaluate(folder, episodes=8).mean_return
    assert len(found["returns"]) == found["episodes"] == 8
    assert "(95 %)" in done.output
    assert "(99.5 %)" in run("evaluate", folder, "-n", 2, "--confidence", 0.995).output


def test_without_a_folder_a_new_one_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        done = run("train", "CartPole-v1", "-L", 2, "-n", 1, "--test-episodes", 2)
        assert done.exit_code == 0, done.output
        assert (tmp_path / "runs" / f"CartPole-v1-{number}" / "policy-best").exists()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["train", "Hoper-v5"], "Did you mean 'Hopper"),
        (["train", "rl_cases:Dictionary-v0"], "observations in Dict"),
        (["train", "hopper v5"], "Did you mean 'Hopper"),
        (["train", ""], "There is no environment ''"),
        (["train", SLIDER, "--hidden", "x"], "`--hidden` must be sizes"),
        (["train", SLIDER, "--hidden", "64,64"], "`hidden` is for policy='mlp'"),
        (["train", SLIDER, "--workers", "0"], "`workers` must be at least 1"),
        (["train", SLIDER, "-n1", "--folder", __file__], "cannot be created"),
        (["evaluate", "nowhere"], "nowhere does not exist"),
        (["render", "nowhere", "-o", "film.mp4"], "nowhere does not exist"),
        (["resume", "nowhere"], "nowhere is not a folder"),
    ],
)
def test_what_is_wrong_is_one_plain_line(words, error, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "from gensmooth.cli.main import main; main()", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 1
    assert error in done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_checkpoint_is_one_plain_line_too(tmp_path, monkeypatch, capsys):
    gs.rl.train(SLIDER, max_steps=1, num_directions=2, test_episodes=1, folder=tmp_path / "run")
    (tmp_path / "run" / "checkpoint").write_bytes(b"nothing")
    monkeypatch.setattr(sys, "argv", ["gensmooth", "resume", str(tmp_path / "run")])
    with pytest.raises(SystemExit, match="1"):
        main()
    said = capsys.readouterr().err
    assert "checkpoint is not a gensmooth checkpoint" in said
    assert "Traceback" not in said


def test_resume_with_other_threads(tmp_path):
    gs.rl.train(SLIDER, max_steps=1, num_directions=2, test_episodes=1, folder=tmp_path / "run")
    done = run("resume", tmp_path / "run", "--max-steps", 2, "--threads", 1)
    assert done.exit_code == 0, done.output
    done = run("resume", tmp_path / "run", "--max-steps", 3, "--threads", 0)
    assert "`threads` must be a whole number of at least 1" in str(done.exception)


def test_a_training_takes_no_objective(tmp_path):
    gs.rl.train(SLIDER, max_steps=1, num_directions=2, test_episodes=1, folder=tmp_path / "run")
    done = run("resume", tmp_path / "run", "--budget", 5)
    assert "holds a training, but `--budget` is only for a minimisation" in str(done.exception)


def test_the_documentation_runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "rl.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/rl.md", "exec"), {"__name__": "__docs__"})
