"""The zoo: every policy is what its row says, and ``zoo:NAME`` is understood everywhere."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import gensmooth as gs
from gensmooth.cli.main import app
from gensmooth.rl.policy_file import as_policy
from gensmooth.rl.zoo_catalogue import FOLDER, ZooPolicy, zoo_file
from gensmooth.runs import CheckpointError

pytest.importorskip("gymnasium")

ROOT = Path(__file__).parents[2]
ROWS = {row.name: row for row in gs.rl.zoo()}
FAST = ("cart-pole", "acrobot")  # whose episodes are short


def run(*words):
    done = CliRunner().invoke(app, words)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_policy_is_what_its_row_says(row):
    policy = gs.rl.load_policy(f"zoo:{row.name}", environment=row.environment)
    assert policy.policy.sizes == (policy.statistics.mean.size, policy.policy.sizes[-1])  # linear
    assert policy.parameters.size == row.num_parameters
    assert (policy.environment, policy.seed, policy.step) == (
        row.environment,
        row.seed,
        row.iterations,
    )
    assert np.any(policy.parameters != 0)
    assert row.command.startswith(f"gensmooth train {row.environment} --seed {row.seed} ")
    assert row.file.stat().st_size < 4096


def test_no_file_is_without_a_row_and_nothing_else_is_there():
    files = {path.name for path in FOLDER.iterdir() if path.name != "__pycache__"}
    assert files == {"zoo.json", *(row.file.name for row in ROWS.values())}
    assert len(ROWS) == len(gs.rl.zoo())


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_an_interval_is_students(row):
    scipy_stats = pytest.importorskip("scipy.stats")
    quantile = scipy_stats.t.ppf(0.5 + row.confidence / 2, row.episodes - 1)
    half = quantile * row.deviation / math.sqrt(row.episodes)
    assert row.episodes == 100
    assert row.high - row.mean_return == pytest.approx(half, abs=1e-9 * abs(row.mean_return))
    assert row.mean_return - row.low == pytest.approx(half, abs=1e-9 * abs(row.mean_return))


def z_score(row: ZooPolicy, found: gs.rl.Evaluation) -> float:
    """Of the difference of two means of returns with the deviation that the row says."""
    error = row.deviation * math.sqrt(1 / row.episodes + 1 / found.episodes)
    return (found.mean_return - row.mean_return) / error


@pytest.mark.parametrize("name", FAST)
def test_other_episodes_have_the_return_that_is_stated(name):
    """And those of a policy that was not trained have another."""
    row, policy = ROWS[name], gs.rl.load_policy(f"zoo:{name}")
    found = gs.rl.evaluate(policy, episodes=10, seed=row.evaluation_seed + 1)
    if row.deviation == 0:
        assert (found.returns == row.mean_return).all()
    else:
        assert abs(z_score(row, found)) < 4
    policy.parameters[:] = 0
    untrained = gs.rl.evaluate(policy, episodes=10, seed=row.evaluation_seed + 1)
    if row.deviation == 0:
        assert (untrained.returns != row.mean_return).all()
    else:
        assert abs(z_score(row, untrained)) > 10


def test_the_statement_is_repeated_by_the_command():
    row = ROWS["acrobot"]
    told = json.loads(run("evaluate", "zoo:acrobot", "--json"))
    assert (told["episodes"], told["seed"]) == (row.episodes, row.evaluation_seed)
    # Another processor may round otherwise, and an episode end a step sooner.
    assert told["mean_return"] == pytest.approx(row.mean_return, abs=row.deviation / 10)


def test_one_name_in_every_place():
    policy = gs.rl.load_policy("zoo:cart-pole")
    for given in ("zoo:cart-pole", Path("zoo:cart-pole"), "zoo:CartPole-v1", "zoo:cartpole"):
        assert (as_policy(given).parameters == policy.parameters).all()
    found = gs.rl.evaluate("zoo:cart-pole", episodes=2, seed=5)
    assert found.returns.tolist() == [500, 500]
    assert "500" in run("evaluate", "zoo:cart-pole", "--episodes", "2")


def test_a_film(tmp_path):
    pytest.importorskip("pygame")
    pytest.importorskip("imageio")
    code = "from gensmooth.cli.main import main; main()"
    words = ["render", "zoo:cart-pole", "-o", "film.gif", "--max-steps", "4", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "SDL_VIDEODRIVER": "dummy"},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["frames"] == 5
    assert (tmp_path / "film.gif").stat().st_size > 0


@pytest.mark.parametrize("name", ["hoper", "Cart-Pol", "", "../zoo/hopper", "\x1b[31m", "x" * 999])
def test_an_unknown_name(name):
    with pytest.raises(ValueError, match="The zoo has no policy") as caught:
        gs.rl.evaluate(f"zoo:{name}")
    words = str(caught.value)
    assert f"Known: {', '.join(ROWS)}." in words
    hints = {"hoper": "Did you mean 'hopper'?", "Cart-Pol": "Did you mean 'cart-pole'?"}
    assert hints.get(name, "") in words
    assert "\x1b" not in words
    assert len(words) < 1200


def test_an_unknown_name_in_the_shell(tmp_path):
    code = "from gensmooth.cli.main import main; main()"
    for command in (["evaluate", "zoo:hoper"], ["render", "zoo:hoper", "-o", "film.gif"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *command],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 1
        assert "Did you mean 'hopper'?" in done.stderr
        assert "Traceback" not in done.stderr
    assert not any(tmp_path.iterdir())


def test_a_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gs.rl.load_policy("zoo:acrobot").save("zoo:cart-pole")
    assert gs.rl.load_policy("zoo:cart-pole").environment == "CartPole-v1"
    assert gs.rl.load_policy("./zoo:cart-pole").environment == "Acrobot-v1"
    assert "Acrobot-v1" in run("evaluate", "./zoo:cart-pole", "--episodes", "1")
    with pytest.raises(CheckpointError):
        gs.rl.load_policy("zoo/cart-pole")
    assert zoo_file("zoo") is None


def test_another_environment_is_refused():
    with pytest.raises(ValueError, match="trained in CartPole-v1 and cannot run in Acrobot-v1"):
        gs.rl.evaluate("zoo:cart-pole", environment="Acrobot-v1")


OFFLINE = """
import socket

def refuse(*_, **__):
    raise OSError("there is no network")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
import gensmooth as gs
assert len(gs.rl.zoo()) > 1
print(gs.rl.evaluate("zoo:cart-pole", episodes=2).mean_return)
"""


def test_nothing_is_downloaded(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout.strip() == "500.0", done.stderr


# --- the list ----------------------------------------------------------------------------------


def test_the_list_in_the_shell():
    lines = run("zoo").splitlines()
    assert lines[0].split() == ["name", "environment", "mean", "return", "d"]
    for row, line in zip(ROWS.values(), lines[1:], strict=False):
        assert line.split()[:3] == [row.name, row.environment, f"{row.mean_return:.6g}"]
    assert max(map(len, lines)) <= 80
    assert [ZooPolicy(**row) for row in json.loads(run("zoo", "--json"))] == list(ROWS.values())


def test_the_help_says_so():
    for command in ("evaluate", "render"):
        assert "zoo:hopper" in re.sub(r"[│\s]+", " ", run(command, "--help"))


# --- the page ----------------------------------------------------------------------------------


def test_the_page_says_what_was_measured_and_shows_each():
    page = (ROOT / "docs" / "zoo.md").read_text()
    lines = [line for line in page.splitlines() if "](zoo/" in line]
    assert len(lines) == len(ROWS)
    for row, line in zip(ROWS.values(), lines, strict=True):
        film = ROOT / "docs" / "zoo" / f"{row.name}.gif"
        assert f"(zoo/{film.name})" in line
        assert 0 < film.stat().st_size <= 150_000
        found = f"{row.mean_return:,.1f} ({row.low:,.1f} … {row.high:,.1f})".replace("-", "−")
        assert f"| `zoo:{row.name}` | {row.environment} | {row.num_parameters} | {found} |" in line
        assert f"`{row.command}`" in line


def test_the_page_runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "zoo.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(block, "docs/zoo.md", "exec"), {"__name__": "__docs__"})
