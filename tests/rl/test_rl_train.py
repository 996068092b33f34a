"""Training from end to end: it learns, and nothing but the seed and the settings matters."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gensmooth as gs
from gensmooth.rl.defaults import ANY, TABLE, defaults
from gensmooth.rl.rollouts import batch_starts, distinct_resets
from gensmooth.runs import container

pytest.importorskip("gymnasium")
from rl_cases import SLIDER

HELPERS = Path(__file__).parents[1] / "helpers"
OPTIONS = {
    "num_directions": 4,
    "spacing": 0.1,
    "learning_rate": 0.05,
    "max_steps": 12,
    "test_every": 5,
    "test_episodes": 6,
    "seed": 7,
}


def same(one, other):
    """Whether two trainings are the same to the last bit."""
    a, b = one.state, other.state
    assert a.search.x.tobytes() == b.search.x.tobytes()
    assert a.statistics.mean.tobytes() == b.statistics.mean.tobytes()
    assert a.statistics.m2.tobytes() == b.statistics.m2.tobytes()
    assert a.env_steps == b.env_steps
    assert one.history == other.history
    assert one.tests == other.tests
    assert one.best.parameters.tobytes() == other.best.parameters.tobytes()


def stop_at(step):
    def stop(now):
        if now.info.step == step:
            raise KeyboardInterrupt

    return stop


def contents(folder: Path) -> dict[str, bytes]:
    names = ("metrics.jsonl", "checkpoint", "policy-best", "policy-last")
    return {name: (folder / name).read_bytes() for name in names}


# --- learning ------------------------------------------------------------------------------------


def test_it_learns_to_slide_to_the_origin():
    before = gs.rl.train(SLIDER, **OPTIONS | {"max_steps": 0})
    assert before.tests == ()
    result = gs.rl.train(SLIDER, **OPTIONS | {"max_steps": 60})
    first, last = result.tests[0], result.tests[-1]
    assert last.mean_return > first.mean_return + 20
    assert [test.step for test in result.tests] == list(range(5, 61, 5))
    assert result.best.mean_return == max(test.mean_return for test in result.tests)
    assert result.policy.mean_return == last.mean_return
    assert (result.nfev, result.success) == (60 * 8, True)
    # never-varying coordinates are left alone in what the policy sees
    assert np.array_equal(result.policy.scaling.inverse[[1, 3, 5]], [1, 1, 1])


def test_cartpole_with_the_defaults():
    result = gs.rl.train("CartPole-v1", num_directions=8, seed=0, test_every=5, target=195.0)
    assert (result.reason, result.status) == ("target", 0)
    assert result.nit <= 40


def test_a_number_of_directions_bounds_the_episodes():
    """Without one the pilot takes as many as noise asks for; to measure it, one in 30 again."""
    options = {"max_steps": 40, "test_every": 40, "test_episodes": 1, "seed": 3}
    free = gs.rl.train(SLIDER, **options)
    bound = gs.rl.train(SLIDER, num_directions=20, **options)
    ends = np.array([it.info.evaluations for it in bound.history])
    assert np.diff(ends, prepend=0).max() <= 2 * 20 + 2
    assert free.nfev > 1.2 * bound.nfev


def test_the_bound_is_part_of_the_folder(tmp_path):
    options = {"num_directions": 3, "max_steps": 30, "test_every": 30, "test_episodes": 1}
    whole = gs.rl.train(SLIDER, **options, seed=3)
    gs.rl.train(SLIDER, **options, seed=3, folder=tmp_path / "run", callback=stop_at(12))
    same(gs.rl.resume(tmp_path / "run"), whole)


@pytest.mark.parametrize("method", [None, "cma-es"])
def test_a_unit_of_weights_of_ones_own(method, tmp_path):
    """It sets how far the first points are, and a training that goes on knows it."""
    options = {"method": method, "max_steps": 6, "test_episodes": 2, "seed": 1}
    usual = gs.rl.train(SLIDER, **options)
    assert gs.rl.train(SLIDER, **options, x_scale=0.1).history == usual.history
    wide = gs.rl.train(SLIDER, **options, x_scale=0.7)
    assert wide.history != usual.history
    gs.rl.train(SLIDER, **options, x_scale=0.7, folder=tmp_path / "run", callback=stop_at(2))
    same(gs.rl.resume(tmp_path / "run"), wide)


def test_every_method_estimator_and_policy_runs():
    for method in gs.directions.METHODS:
        result = gs.rl.train(SLIDER, method=method, **OPTIONS | {"max_steps": 2})
        assert result.nit == 2
    for estimator in ("antithetic", "one-point", "ranked", gs.Antithetic()):
        result = gs.rl.train(SLIDER, estimator=estimator, **OPTIONS | {"max_steps": 2})
    result = gs.rl.train(SLIDER, policy="mlp", hidden=(8, 4), **OPTIONS | {"max_steps": 2})
    assert result.policy.policy == gs.rl.Policy((6, 8, 4, 2), biases=True)


def test_defaults_reach_as_far_and_step_as_long_whatever_the_length_of_the_directions():
    """A shrunk method with its defaults is the method itself; so no method has an advantage."""
    options = {"max_steps": 3, "num_directions": 4, "test_episodes": 1, "seed": 2}
    for base in ("gs", "bes", "sphere"):
        plain = gs.rl.train(SLIDER, method=base, **options).state.search.x
        shrunk = gs.rl.train(SLIDER, method=f"{base}-shrinkage", **options).state.search.x
        np.testing.assert_allclose(shrunk, plain, rtol=1e-6)
    estimate = gs.shrunk(gs.Gaussian(), scale="estimate")
    other = gs.rl.train(SLIDER, directions=estimate, **options).state.search.x
    plain = gs.rl.train(SLIDER, method="gs", **options).state.search.x
    np.testing.assert_allclose(other, plain, rtol=1e-6)


def test_defaults_by_environment():
    hopper = defaults("Hopper-v5", gs.Bernoulli(), 33, 20)
    assert hopper == defaults("Hopper-v4", gs.Gaussian(), 33, 60) == TABLE["Hopper"]
    assert defaults("Walker2d-v5", gs.Bernoulli(), 102, 20) == TABLE["Walker2d"]
    assert defaults("Anything-v0", gs.Bernoulli(), 9, 20) == ANY
    fewer = defaults("Hopper-v5", gs.Bernoulli(), 33, 5)
    assert fewer == hopper._replace(learning_rate=hopper.learning_rate / 2)
    guided = defaults("Hopper-v5", gs.Guided(), 33, 20)  # entries of variance 1/d
    np.testing.assert_allclose(guided[:2], (hopper[0] * 33**0.5, hopper[1] * 33))


# --- identities ----------------------------------------------------------------------------------


def test_pairs_start_alike_only_if_asked():
    """With paired resets and no step away from the centre, both episodes are the same."""
    options = OPTIONS | {"spacing": 1e-6, "max_steps": 1}
    alike = gs.rl.train(SLIDER, resets="paired", **options)
    apart = gs.rl.train(SLIDER, **options)
    assert 0 < alike.history[0].info.gradient_norm < 1e4
    assert apart.history[0].info.gradient_norm > 1e5  # noise divided by the spacing


def test_without_a_goal_sharing_it_changes_nothing():
    """Without tasks, "shared-goal" is "independent", bit for bit; unknown readings are refused."""
    same(gs.rl.train(SLIDER, **OPTIONS), gs.rl.train(SLIDER, resets="shared-goal", **OPTIONS))
    with pytest.raises(ValueError, match="'independent', 'shared-goal', 'paired'"):
        gs.rl.train(SLIDER, resets="same", **OPTIONS)  # pyright: ignore[reportArgumentType]


def test_a_shared_goal_is_all_that_two_episodes_share():
    """One goal per direction and a start per episode, wherever the episodes run."""
    pytest.importorskip("mujoco")
    simulator = gs.rl.make("HalfCheetahRandVel")
    search = gs.RandomSearch(
        gs.Bernoulli(), num_directions=3, spacing=0.1, samples="independent", maximize=True
    )
    batch = search.ask(search.init(np.zeros(102), seed=1))
    apart, shared = (batch_starts(simulator, batch, shared_goal=goal) for goal in (False, True))
    np.testing.assert_array_equal(shared[:, :-1], apart[:, :-1])
    assert len(np.unique(shared[:, 0])) == 6
    np.testing.assert_array_equal(shared[:, -1], np.repeat(apart[::2, -1], 2))
    options = {"method": "bes", "num_directions": 3, "max_steps": 3, "seed": 5}
    options |= {"test_every": 3, "test_episodes": 2, "resets": "shared-goal"}
    here = gs.rl.train("HalfCheetahRandVel", **options)
    same(here, gs.rl.train("HalfCheetahRandVel", workers=2, **options))
    other = gs.rl.train("HalfCheetahRandVel", **options | {"resets": "independent"})
    assert not np.array_equal(here.policy.parameters, other.policy.parameters)


def test_a_folder_remembers_that_goals_are_shared(tmp_path):
    pytest.importorskip("mujoco")
    options = {"method": "bes", "num_directions": 2, "seed": 5, "test_every": 2}
    options |= {"test_episodes": 2, "resets": "shared-goal"}
    whole = gs.rl.train("HalfCheetahRandVel", max_steps=4, **options)
    gs.rl.train("HalfCheetahRandVel", max_steps=2, folder=tmp_path / "run", **options)
    same(whole, gs.rl.resume(tmp_path / "run", max_steps=4))
    with pytest.raises(gs.CheckpointError, match="`resets` \\(there shared-goal, here None\\)"):
        gs.rl.train(
            "HalfCheetahRandVel",
            max_steps=2,
            folder=tmp_path / "run",
            **options | {"resets": "independent"},
        )


@pytest.mark.parametrize("task", ["ML1-Reach", "ML1-Push"])
def test_a_task_of_meta_world_is_all_of_its_start(task):
    """So "shared-goal" is "paired" there."""
    pytest.importorskip("metaworld")
    assert distinct_resets("shared-goal", gs.rl.make(task)) == "paired"


@pytest.mark.parametrize("method", ["bes", "guided-es"])
def test_processes_change_nothing(method):
    options = OPTIONS | {"method": method}
    here = gs.rl.train(SLIDER, **options)
    for workers in (2, gs.evaluators.Threads(3)):
        same(here, gs.rl.train(SLIDER, workers=workers, **options))


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_ray_changes_nothing(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")  # others may use the memory up
    options = OPTIONS | {"max_steps": 5}
    there = gs.rl.train(SLIDER, workers=gs.evaluators.Ray(num_workers=2), **options)
    same(gs.rl.train(SLIDER, **options), there)


def test_threads_change_nothing():
    pytest.importorskip("mujoco")
    options = OPTIONS | {"max_steps": 3, "test_every": 2}
    one = gs.rl.train("Hopper-v5", threads=1, **options)
    same(one, gs.rl.train("Hopper-v5", threads=3, **options))
    same(one, gs.rl.train("Hopper-v5", workers=2, **options))


def test_the_seed_is_all():
    one = gs.rl.train(SLIDER, **OPTIONS)
    same(one, gs.rl.train(SLIDER, **OPTIONS))
    other = gs.rl.train(SLIDER, **OPTIONS | {"seed": 8})
    assert not np.array_equal(one.state.search.x, other.state.search.x)
    drawn = gs.rl.train(SLIDER, **OPTIONS | {"seed": None})
    same(drawn, gs.rl.train(SLIDER, **OPTIONS | {"seed": drawn.seed}))


# --- folders -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["bes", "guided-es"])
def test_stopping_and_going_on_changes_nothing(method, tmp_path):
    options = OPTIONS | {"method": method, "optimizer": gs.momentum(0.05), "learning_rate": None}
    whole = gs.rl.train(SLIDER, folder=tmp_path / "whole", **options)
    part = tmp_path / "part"
    for step in (3, 4, 9):
        stopped = gs.rl.train(SLIDER, folder=part, callback=stop_at(step), **options)
        assert (stopped.reason, stopped.status) == ("interrupted", 2)
        assert stopped.nit == step + 1
    same(whole, gs.rl.train(SLIDER, folder=part, **options))
    one, other = contents(tmp_path / "whole"), contents(part)
    assert one["metrics.jsonl"] == other["metrics.jsonl"]
    for name in ("policy-best", "policy-last"):
        assert one[name] == other[name]


def test_resume_needs_the_folder_alone_and_may_go_further(tmp_path):
    whole = gs.rl.train(SLIDER, **OPTIONS | {"max_steps": 20})
    folder = tmp_path / "run"
    gs.rl.train(SLIDER, folder=folder, callback=stop_at(6), **OPTIONS)
    ended = gs.rl.resume(folder)
    assert ended.nit == 12
    before = contents(folder)
    same(ended, gs.rl.resume(folder))  # it has ended: told again, nothing is written
    same(ended, gs.rl.train(SLIDER, folder=folder, **OPTIONS))
    assert contents(folder) == before
    longer = gs.rl.resume(folder, max_steps=20, workers=2)
    assert longer.state.search.x.tobytes() == whole.state.search.x.tobytes()
    assert json.loads((folder / "config.json").read_text())["schedule"]["max_steps"] == 20


SCRIPT = """
import sys, time
import gensmooth as gs
sys.path.insert(0, {helpers!r})
slowly = lambda *_: time.sleep(0.02)  # or it might be over before it is killed
gs.rl.train("rl_cases:Slider-v0", folder={folder!r}, every=3, callback=slowly, **{options!r})
"""


def test_kill_minus_nine(tmp_path):
    options = OPTIONS | {"max_steps": 250, "test_every": 7, "test_episodes": 3}
    whole = gs.rl.train(SLIDER, folder=tmp_path / "whole", **options)
    folder = tmp_path / "killed"
    code = SCRIPT.format(helpers=str(HELPERS), folder=str(folder), options=options)
    kills = 0
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", code])
        began = _checkpoint(folder)
        while process.poll() is None and _checkpoint(folder) == began:
            time.sleep(0.005)
        time.sleep(0.05 + 0.07 * kills)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills == 4
    same(whole, gs.rl.train(SLIDER, folder=folder, **options))
    one, other = contents(tmp_path / "whole"), contents(folder)
    for name in ("metrics.jsonl", "policy-best", "policy-last"):
        assert one[name] == other[name]


def _checkpoint(folder: Path) -> float:
    try:
        return (folder / "checkpoint").stat().st_mtime_ns
    except FileNotFoundError:
        return 0.0


def test_metrics_and_policies_are_there_to_read(tmp_path):
    folder = tmp_path / "run"
    result = gs.rl.train(SLIDER, folder=folder, **OPTIONS)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(12))
    tests = [line["test"]["mean_return"] for line in lines if line["test"]]
    assert tests == [test.mean_return for test in result.tests]
    last = gs.rl.load_policy(folder / "policy-last")
    assert np.array_equal(last.parameters, result.policy.parameters)
    assert last.mean_return == result.tests[-1].mean_return
    best = gs.rl.load_policy(folder)
    assert best.mean_return == result.best.mean_return


def test_folders_that_hold_something_else(tmp_path):
    folder = tmp_path / "run"
    gs.rl.train(SLIDER, folder=folder, **OPTIONS | {"max_steps": 1})
    with pytest.raises(gs.CheckpointError, match=r"different configuration: `spacing` \(there 0.1"):
        gs.rl.train(SLIDER, folder=folder, **OPTIONS | {"max_steps": 1, "spacing": 0.2})
    with pytest.raises(gs.CheckpointError, match=r"environment's name \(there rl_cases:Slider"):
        gs.rl.train("Pendulum-v1", folder=folder, **OPTIONS | {"max_steps": 1})
    with pytest.raises(gs.CheckpointError, match="holds a training, not a minimisation"):
        gs.resume(folder, lambda _: 0.0)
    gs.minimize(lambda x: float(x @ x), [1.0], budget=100, folder=tmp_path / "other")
    with pytest.raises(gs.CheckpointError, match="holds a minimisation, not a training"):
        gs.rl.resume(tmp_path / "other")
    damaged = bytearray((folder / "checkpoint").read_bytes())
    damaged[-3] ^= 1
    (folder / "checkpoint").write_bytes(damaged)
    with pytest.raises(gs.CheckpointError, match="checksum"):
        gs.rl.resume(folder)


def test_a_folder_that_was_replaced_keeps_its_own_policies(tmp_path, caplog):
    folder = tmp_path / "run"

    def replace(now):
        if now.info.step == 2:
            shutil.rmtree(folder)
            folder.mkdir()
            for name in ("policy-best", "policy-last"):
                (folder / name).write_text("another's")

    gs.rl.train(SLIDER, **OPTIONS, folder=folder, every=1, callback=replace)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "policy-best": "another's",
        "policy-last": "another's",
    }
    assert [r.message for r in caplog.records if "removed or replaced" in r.message]


def test_policies_that_cannot_be_written_are_told_of_once(tmp_path, caplog, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gensmooth.rl.policy_file.TrainedPolicy.save", full)
    found = gs.rl.train(SLIDER, **OPTIONS, folder=tmp_path / "run", every=1)
    assert found.nit == OPTIONS["max_steps"]
    (said,) = [r.message for r in caplog.records if "Could not write" in r.message]
    assert "No space left on device. The run continues." in said


def test_an_optimiser_of_ones_own_needs_the_same_call(tmp_path):
    optimizer = gs.sgd(lambda step: 0.1 / (1 + step))
    options = {k: v for k, v in OPTIONS.items() if k != "learning_rate"} | {"optimizer": optimizer}
    gs.rl.train(SLIDER, folder=tmp_path / "run", callback=stop_at(3), **options)
    with pytest.raises(gs.CheckpointError, match="repeat the call"):
        gs.rl.resume(tmp_path / "run")
    same(gs.rl.train(SLIDER, folder=tmp_path / "run", **options), gs.rl.train(SLIDER, **options))


def test_an_environment_may_change_the_working_folder(tmp_path, monkeypatch):
    """All of a training's files stay in its folder, policies and the words about them too."""
    monkeypatch.chdir(tmp_path)
    Path("elsewhere").mkdir()

    def moving(*_):
        os.chdir(tmp_path / "elsewhere")

    found = gs.rl.train(SLIDER, folder="run", every=1, callback=moving, **OPTIONS)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert container.read(tmp_path / "run" / "checkpoint").meta["step"] == 12
    assert gs.rl.load_policy(tmp_path / "run" / "policy-last").step == 12
    same(found, gs.rl.resume(tmp_path / "run"))


@pytest.mark.parametrize(
    "schedule",
    [
        {"max_steps": "twelve", "test_every": 5, "test_episodes": 6, "target": None},
        {"max_steps": 12, "test_every": -5, "test_episodes": 6, "target": None},
        {"max_steps": 12, "test_every": 5, "test_episodes": 6, "target": "high"},
        {"max_steps": 12},
        None,
    ],
)
def test_a_checkpoint_with_a_schedule_that_is_none_is_refused(schedule, tmp_path):
    folder = tmp_path / "run"
    gs.rl.train(SLIDER, folder=folder, callback=stop_at(3), **OPTIONS)
    meta, arrays = container.read(folder / "checkpoint")
    container.write(folder / "checkpoint", {**meta, "schedule": schedule}, arrays)
    with pytest.raises(gs.CheckpointError, match="checkpoint does not match its run"):
        gs.rl.resume(folder)


def test_a_training_too_large_for_the_memory_is_a_plain_error(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    gs.rl.train(SLIDER, folder=folder, callback=stop_at(5), **OPTIONS)
    before = contents(folder)

    def too_large(*_):
        raise MemoryError("nothing is left")

    monkeypatch.setattr(gs.rl.Policy, "initial", too_large)
    with pytest.raises(gs.CheckpointError, match="does not match its run: nothing is left"):
        gs.rl.resume(folder)
    assert contents(folder) == before


def test_a_damaged_checkpoint_leaves_the_schedule_alone(tmp_path):
    folder = tmp_path / "run"
    gs.rl.train(SLIDER, folder=folder, callback=stop_at(3), **OPTIONS)
    (folder / "checkpoint").write_bytes(b"gone")
    before = (folder / "config.json").read_bytes()
    with pytest.raises(gs.CheckpointError, match="is not a gensmooth checkpoint"):
        gs.rl.resume(folder, max_steps=20)
    assert (folder / "config.json").read_bytes() == before


# --- troubles ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Raise", "Reward", "Observation"])
def test_an_environment_that_breaks_down(kind, tmp_path):
    name = f"rl_cases:Slider{kind}-v0"
    with pytest.raises(gs.EvaluationError, match="failed in") as caught:
        gs.rl.train(name, **OPTIONS)
    assert caught.value.result.reason == "failed"
    cause = "the belt broke" if kind == "Raise" else None  # the command prints its traceback
    assert cause is None or str(caught.value.__cause__) == cause
    options = OPTIONS | {"on_failure": "drop", "min_fraction": 0.1}
    result = gs.rl.train(name, folder=tmp_path / "run", **options)
    assert result.nit == 12
    assert result.faults["non-finite"] > 0
    assert sum(iteration.info.dropped for iteration in result.history) > 0
    assert np.isfinite(result.state.search.x).all()
    assert np.isfinite(result.state.statistics.m2).all()
    same(result, gs.rl.train(name, workers=2, **options))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_directions": 0}, "`num_directions` must be"),
        ({"spacing": -1.0}, "`spacing` must be positive"),
        ({"x_scale": 0.0}, "`x_scale` must be positive"),
        ({"x_scale": -1.0}, "`x_scale` must be positive"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"policy": "cnn"}, "`policy` must be"),
        ({"policy": "mlp", "hidden": (0,)}, "`hidden` must be"),
        ({"estimator": "central"}, "There is no estimator 'central'"),
        ({"method": "bess"}, "Did you mean 'bes'"),
        ({"method": "bes", "directions": gs.Gaussian()}, "not both"),
        ({"optimizer": gs.sgd(0.1)}, "either `learning_rate` or `optimizer`"),
        ({"max_steps": -1}, "`max_steps` must be"),
        ({"target": float("nan")}, "`target` must be a number"),
        ({"policy": "linear", "hidden": (8,)}, "`hidden` is for policy='mlp'"),
        ({"policy": "mlp", "hidden": 8}, "`hidden` must be"),
        ({"test_every": 0}, "`test_every` must be"),
        ({"test_episodes": 0}, "`test_episodes` must be"),
        ({"threads": 0}, "`threads` must be"),
        ({"timeout": 5.0}, "`timeout` needs a worker process"),
        ({"every": 3}, "pass `folder` too"),
        ({"on_failure": "shrug"}, "`on_failure` must be"),
    ],
)
def test_bad_settings_are_told(options, words):
    with pytest.raises(ValueError, match=words):
        gs.rl.train(SLIDER, **OPTIONS | options)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_of_evaluations_and_films_are_checked(seed, tmp_path):
    policy = gs.rl.train(SLIDER, **OPTIONS | {"max_steps": 0}).policy
    with pytest.raises(ValueError, match="`seed` must be in"):
        gs.rl.evaluate(policy, seed=seed)
    with pytest.raises(ValueError, match="`seed` must be in"):
        gs.rl.render(policy, tmp_path / "film.gif", seed=seed)


def test_environments_that_are_not_there():
    with pytest.raises(gs.rl.UnknownEnvironmentError, match="Did you mean 'Hopper"):
        gs.rl.train("Hoper-v5")
    with pytest.raises(gs.rl.UnsupportedEnvironmentError, match="observations in Dict"):
        gs.rl.train("rl_cases:Dictionary-v0")
