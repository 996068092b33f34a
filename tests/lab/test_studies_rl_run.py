"""Runs of the reinforcement-learning study: they go on where they were, to the last bit."""

import logging
import math
from dataclasses import replace

import numpy as np
import pytest

from gensmooth.lab.paper.rl import run as rl_run
from gensmooth.lab.paper.rl import settings as rl_settings
from gensmooth.lab.paper.rl.settings import Setting
from rl_records import PAPER

pytest.importorskip("mujoco")

SMALL = replace(PAPER, iterations=40, test_trials=3)


def config(method="guided-es", environment="HalfCheetahRandVel", part="main", seed=1001):
    case = rl_settings.config_of(SMALL, Setting(environment, 2, part), method)
    return {**case, "spacing": 0.1, "learning_rate": 0.01, "seed": seed}


def test_a_run_has_a_test_a_round(tmp_path):
    made = rl_run.execute(config("bes"), tmp_path / "scratch")
    assert made.series["trajectories"] == [40, 80, 120, 160]
    assert made.series["env_steps"] == [8000, 16000, 24000, 32000]
    assert made.final == -made.series["return"][-1]
    assert not made.diverged
    once = rl_run.execute({**config("bes"), "test_every": 4}, tmp_path / "other")
    assert once.series["return"] == made.series["return"][-1:]  # tests do not change the training


@pytest.mark.parametrize("part", ["main", "mlp", "antithetic"])
def test_a_run_goes_on_where_it_was_to_the_same_bits(tmp_path, monkeypatch, caplog, part):
    caplog.set_level(logging.INFO, "gensmooth")
    whole = rl_run.execute(config(part=part), tmp_path / "whole")
    monkeypatch.setattr(rl_run, "_EVERY", 0.0)
    calls = []
    advance = rl_run.advance

    def dying(*arguments):
        calls.append(1)
        if len(calls) in (20, 21, 37):
            raise KeyboardInterrupt
        return advance(*arguments)

    monkeypatch.setattr(rl_run, "advance", dying)
    scratch = tmp_path / "killed"
    caplog.clear()
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            rl_run.execute(config(part=part), scratch)
    again = rl_run.execute(config(part=part), scratch)
    assert len(calls) == 40 + 4 + 3  # nothing was made twice
    assert again._replace(seconds=0) == whole._replace(seconds=0)
    started, *resumed = [line for line in caplog.messages if line.startswith("The run ")]
    assert started == "The run starts."
    assert resumed == ["The run resumes from its checkpoint."] * 3


def test_a_checkpoint_that_is_not_this_runs_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(rl_run, "_EVERY", 0.0)
    first = rl_run.execute(config("gs"), tmp_path)
    other = rl_run.execute(config("gs", seed=1002), tmp_path)
    assert other.series != first.series
    (tmp_path / "checkpoint").write_bytes(b"not one")
    assert rl_run.execute(config("gs"), tmp_path).series == first.series


def test_a_policy_that_leaves_the_simulator_ends_its_run(tmp_path, monkeypatch):
    advance = rl_run.advance

    class Broken:
        def __init__(self, rollouts):
            self.rollouts = rollouts

        def __getattr__(self, name):
            def run(*arguments):
                found = getattr(self.rollouts, name)(*arguments)
                return found._replace(returns=np.full_like(found.returns, math.nan))

            return run

    def later(progress, config, trainer, rollouts):
        broken = progress.state.search.step >= 12
        return advance(progress, config, trainer, Broken(rollouts) if broken else rollouts)

    monkeypatch.setattr(rl_run, "advance", later)
    made = rl_run.execute(config("gs"), tmp_path)
    assert made.diverged
    assert made.final == math.inf
    assert len(made.series["return"]) == 1


def test_the_study_runs_from_the_command_line(tmp_path, capsys):
    from gensmooth.cli.main import app

    words = "reproduce rl --profile paper --hyperparameters paper --env HalfCheetahRandVel -L 2 "
    words += "--methods gs,bes --iterations 20 --test-trials 2 --seeds 2 --workers 1"
    app([*words.split(), "--folder", str(tmp_path)], standalone_mode=False)
    assert len(list((tmp_path / "rl" / "runs").iterdir())) == 4
    assert list((tmp_path / "rl" / "partial").glob("*")) == []
    said = capsys.readouterr()
    assert "report:" in said.out
    table = (tmp_path / "tables" / "rl-coverage.csv").read_text()
    assert '"HalfCheetahRandVel, L=2",2 of 5,2 of 5,,,,,20 of 1000,2 of 1000' in table
    app([*words.split(), "--no-run", "--folder", str(tmp_path)], standalone_mode=False)
    half = [*words.split(), "--piece", "2/2", "--folder", str(tmp_path / "half")]
    app(half, standalone_mode=False)
    assert len(list((tmp_path / "half" / "rl" / "runs").iterdir())) == 2
