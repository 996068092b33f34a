"""Stopping and going on gives the same run, bit for bit, whatever the run is made of."""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import optax
import pytest
import scipy.stats

import gensmooth as gs

DIM, STEPS = 7, 13  # Guided ES leans on its history after 10 steps


def quiet(x):
    return float(((x - 1) ** 2 * np.arange(1, x.size + 1).reshape(x.shape)).sum())


def noisy(x, rng):
    return quiet(x) + 0.1 * float(rng.standard_normal())


def louder(x):
    return 2 * quiet(x)


def stop_after_one(*_):
    raise KeyboardInterrupt


def never(_):
    raise AssertionError("not to be called")


OPTIMIZERS = {
    "sgd": lambda: gs.sgd(gs.inverse_decay(0.01, steps=5)),
    "momentum": lambda: gs.momentum(0.003, nesterov=True),
    "adam": lambda: gs.adam(gs.cosine_decay(0.1, steps=STEPS)),
    "optax": lambda: optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(optax.exponential_decay(0.1, 5, 0.5))
    ),
}


def same(a: gs.Result, b: gs.Result) -> None:
    assert a.x.tobytes() == b.x.tobytes()
    assert a.best_x.tobytes() == b.best_x.tobytes()
    for name in (
        "fun",
        "best_fun",
        "nfev",
        "nit",
        "status",
        "reason",
        "message",
        "seed",
        "dropped",
    ):
        assert a[name] == b[name], name
    assert a.faults == b.faults
    for one, other in zip(a.history[:-1], b.history[:-1], strict=True):
        np.testing.assert_array_equal(one, other)


def in_pieces(fun, folder: Path, **options) -> tuple[gs.Result, int]:
    """Run, interrupted after every step and begun again by the same command, to the end."""
    for piece in range(100):
        try:
            result = gs.minimize(fun, folder=folder, callback=stop_after_one, **options)
        except KeyboardInterrupt:
            raise AssertionError("the first interrupt must return a result") from None
        if result.reason != "interrupted":
            return result, piece
        assert result.nit == piece + 1
    raise AssertionError("no end")


@pytest.fixture
def in_memory(tmp_path):
    """A folder where synchronising costs nothing, for the tests that checkpoint all the time."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("method", gs.directions.METHODS)
def test_stopping_after_every_step_changes_nothing(method, optimizer, in_memory):
    dtype = np.float32 if optimizer == "optax" else np.float64
    for samples in ("shared", "paired", "independent"):
        options = {
            "x0": np.zeros((DIM, 1), dtype),
            "method": method,
            "num_directions": 4,
            "samples": samples,
            "num_samples": 2,
            "optimizer": OPTIMIZERS[optimizer](),
            "max_steps": STEPS,
            "seed": 3,
        }
        whole = gs.minimize(noisy, folder=in_memory / f"{samples}-whole", **options)
        pieces, count = in_pieces(noisy, in_memory / samples, **options)
        assert count == STEPS
        same(whole, pieces)
        same(whole, gs.minimize(noisy, **options))
        lines = [in_memory / name / "metrics.jsonl" for name in (samples, f"{samples}-whole")]
        assert lines[0].read_bytes() == lines[1].read_bytes()


CONFIGURATIONS = {
    "scipy": {
        "directions": gs.IID(scipy.stats.uniform(-1, 2)),
        "x0": np.zeros((2, 3), np.float32),
    },
    "guided": {"directions": gs.Guided(0.3, history=2)},
    "shrunk": {
        "directions": gs.shrunk(gs.Bernoulli(0.3), scale="estimate"),
        "bounds": (-0.5, 0.8),
    },
    "maximize": {"bounds": [(-1, None)] * DIM, "maximize": True, "estimator": gs.Antithetic()},
    "one-point": {"estimator": gs.OnePoint("others"), "tolerance": 1e-9, "target": -1e9},
    "scalar": {"x0": np.float64(0.5), "num_directions": 1},
    "rate": {"learning_rate": 0.3},
    "large": {"x0": np.linspace(-1, 1, 20_011), "method": "orthogonal-bes"},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_config_json_alone_repeats_and_resumes_a_run(name, tmp_path):
    options = CONFIGURATIONS[name]
    options = {"x0": np.zeros(DIM), "max_steps": 6, "seed": 1, **options}
    fun = (lambda x: -quiet(x)) if options.get("maximize") else quiet
    whole = gs.minimize(fun, **options)
    stopped = gs.minimize(fun, folder=tmp_path / "run", callback=stop_after_one, **options)
    assert stopped.reason == "interrupted"
    same(gs.resume(tmp_path / "run", fun), whole)
    for name in ("checkpoint", "checkpoint.previous", "metrics.jsonl"):
        (tmp_path / "run" / name).unlink(missing_ok=True)
    same(gs.resume(tmp_path / "run", fun), whole)


def test_the_same_command_tells_an_ended_run_again_without_an_evaluation(tmp_path):
    calls = []

    def fun(x):
        calls.append(0)
        return quiet(x)

    options = {"x0": np.zeros(3), "budget": 200, "folder": tmp_path}
    first = gs.minimize(fun, **options)  # the seed is drawn, and found again in the folder
    assert len(calls) == first.nfev
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    again = gs.minimize(fun, **options)
    same(again, first)
    same(gs.resume(tmp_path, fun), first)
    assert len(calls) == first.nfev
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("more", [{"budget": 900}, {"budget": 900, "tolerance": 1e-12}])
def test_a_longer_budget_goes_on_as_if_it_had_been_there_from_the_start(more, tmp_path):
    options = {"x0": np.zeros(5), "optimizer": gs.adam(0.05), "seed": 4, "method": "guided-es"}
    short = gs.minimize(quiet, budget=300, folder=tmp_path, **options)
    assert short.reason == "budget"
    same(gs.resume(tmp_path, quiet, **more), gs.minimize(quiet, **options, **more))
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["limits"]["budget"] == 900
    assert config["extensions"][0]["until_step"] == short.nit
    assert config["extensions"][0]["budget"] == 300


def test_a_rate_that_falls_over_the_budget_falls_anew_over_the_longer_one(tmp_path):
    options = {"method": "bes", "budget": 300, "seed": 4}
    short = gs.minimize(quiet, np.zeros(5), folder=tmp_path, **options)
    assert short.history.step_size[-1] < 0.01 * short.history.step_size[0]
    long = gs.resume(tmp_path, quiet, budget=600)
    assert long.history.step_size[short.nit] > 10 * short.history.step_size[-1]
    assert long.fun < short.fun


def test_a_killed_extension_goes_on_with_its_new_limits(tmp_path):
    options = {"x0": np.zeros(5), "optimizer": gs.sgd(0.01), "seed": 4}
    gs.minimize(quiet, max_steps=5, folder=tmp_path, **options)
    with pytest.raises(gs.EvaluationError):
        gs.resume(tmp_path, never, max_steps=9)
    same(gs.resume(tmp_path, quiet), gs.minimize(quiet, max_steps=9, **options))


def test_a_run_stopped_by_its_callback_ends_for_minimize_and_goes_on_for_resume(tmp_path):
    options = {"x0": np.zeros(5), "seed": 4, "budget": 300}
    command = {**options, "folder": tmp_path, "callback": lambda now: now.info.step == 3}
    assert gs.minimize(quiet, **command).reason == "callback"
    assert gs.minimize(quiet, **command).nit == 4
    same(gs.resume(tmp_path, quiet), gs.minimize(quiet, **options))


def test_a_diverged_run_stays_diverged(tmp_path):
    options = {"x0": np.ones(3), "optimizer": gs.sgd(1e6), "seed": 0, "budget": 10_000}
    first = gs.minimize(quiet, folder=tmp_path, **options)
    assert first.reason == "diverged"
    same(gs.resume(tmp_path, quiet, budget=20_000), first)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"spacing": 0.2}, r"`spacing` \(there 0.1, here 0.2\)"),
        ({"seed": 5}, r"`seed` \(there 4, here 5\)"),
        ({"budget": 400}, r"`budget` \(there 300, here 400\).*gs.resume"),
        ({"x0": np.ones(3)}, "`x0`"),
        ({"optimizer": gs.sgd(0.1)}, "`optimizer`"),
        ({"method": "gs"}, "`directions`"),
        ({"bounds": (0, 1)}, "`bounds`"),
    ],
)
def test_another_configuration_is_refused_by_name(change, words, tmp_path):
    options = {"method": "bes", "x0": np.zeros(3), "seed": 4, "budget": 300}
    gs.minimize(quiet, folder=tmp_path, **options)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(gs.CheckpointError, match=words):
        gs.minimize(quiet, folder=tmp_path, **{**options, **change})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_workers_threads_and_cadence_may_change(tmp_path):
    options = {"x0": np.zeros(3), "seed": 4, "budget": 300}
    gs.minimize(quiet, folder=tmp_path, callback=stop_after_one, **options)
    result = gs.minimize(quiet, folder=tmp_path, workers=map, threads=2, every="1s,7", **options)
    same(result, gs.minimize(quiet, **options))


def test_what_cannot_be_written_down_must_be_passed_again(tmp_path):
    options = {"x0": np.zeros(3), "seed": 4, "max_steps": 5, "optimizer": optax.sgd(0.1, 0.9)}
    gs.minimize(quiet, folder=tmp_path, callback=stop_after_one, **options)
    with pytest.raises(gs.CheckpointError, match=r"config.json.*pass it again.*optimizer=\.\.\."):
        gs.resume(tmp_path, quiet)
    with pytest.raises(gs.CheckpointError, match="checkpoint does not match its run: kept"):
        gs.resume(tmp_path, quiet, optimizer=optax.adam(0.1))
    with pytest.raises(gs.CheckpointError, match="cannot be changed to"):
        gs.resume(tmp_path, quiet, optimizer=gs.sgd(0.1))
    whole = gs.minimize(quiet, **options)
    same(gs.resume(tmp_path, quiet, optimizer=optax.sgd(0.1, 0.9)), whole)


def test_directions_of_ones_own_are_passed_again(tmp_path):
    class Mine(gs.Directions):
        def draw(self, state, at):
            return gs.Gaussian().draw(state, at)

        def moments(self, *_):
            raise gs.NoClosedForm("not known")

    options = {"x0": np.zeros(3), "seed": 4, "max_steps": 5}
    gs.minimize(quiet, directions=Mine(), folder=tmp_path, callback=stop_after_one, **options)
    with pytest.raises(gs.CheckpointError, match=r"Mine, which cannot be stored.*directions="):
        gs.resume(tmp_path, quiet)
    whole = gs.minimize(quiet, method="gs", **options)
    same(gs.resume(tmp_path, quiet, directions=Mine()), whole)


def test_what_was_filled_in_for_a_run_may_be_passed_again_without(tmp_path):
    options = {"x0": np.zeros(3), "seed": 4, "max_steps": 5, "directions": gs.Guided()}
    gs.minimize(quiet, folder=tmp_path, callback=stop_after_one, **options)
    result = gs.resume(tmp_path, quiet, directions=gs.Guided())  # its history was filled in
    same(result, gs.minimize(quiet, **options))


def test_an_optimizer_that_was_written_down_cannot_change(tmp_path):
    gs.minimize(quiet, np.zeros(3), optimizer=gs.sgd(0.1), max_steps=5, folder=tmp_path)
    gs.resume(tmp_path, quiet, optimizer=gs.sgd(0.1))
    with pytest.raises(gs.CheckpointError, match="cannot be changed to"):
        gs.resume(tmp_path, quiet, optimizer=gs.sgd(0.2))
    gs.minimize(quiet, np.zeros(3), method="bes", max_steps=5, folder=tmp_path / "rate")
    with pytest.raises(gs.CheckpointError, match=r"is {'learning_rate': 0.1} and cannot be"):
        gs.resume(tmp_path / "rate", quiet, optimizer=gs.sgd(0.2))


def test_a_state_that_cannot_be_written_is_refused_before_the_first_evaluation(tmp_path):
    optimizer = gs.Optimizer(lambda _: {"a": object()}, lambda g, s, _: (-g, s))
    with pytest.raises(TypeError, match=r"cannot be checkpointed: kept\.'a' is a object"):
        gs.minimize(never, np.zeros(3), optimizer=optimizer, folder=tmp_path)


def test_a_failing_objective_costs_nothing_when_it_is_mended(tmp_path):
    def broken(x):
        if len(seen) == 50:
            raise RuntimeError("out of luck")
        seen.append(0)
        return quiet(x)

    seen = []
    options = {"x0": np.zeros(4), "seed": 2, "budget": 300}
    with pytest.raises(gs.EvaluationError) as caught:
        gs.minimize(broken, folder=tmp_path, **options)
    assert caught.value.result.nit == caught.value.step > 0
    same(gs.resume(tmp_path, quiet), gs.minimize(quiet, **options))


def test_faults_are_counted_by_kind_and_survive_a_resume(tmp_path):
    def fun(x, rng):
        luck = rng.random()
        if luck < 0.05:
            raise OSError("no luck")
        return float("nan") if luck > 0.95 else quiet(x)

    options = {
        "x0": np.zeros(4),
        "seed": 2,
        "budget": 500,
        "on_failure": "drop",
        "samples": "independent",
        "min_fraction": 0.1,
    }
    whole = gs.minimize(fun, folder=tmp_path / "whole", **options)
    assert set(whole.faults) == {"exception", "non-finite"}
    assert whole.faults == {
        kind: sum(step.get(kind, 0) for step in whole.history.faults) for kind in whole.faults
    }
    pieces, _ = in_pieces(fun, tmp_path / "pieces", **options)
    same(whole, pieces)


def test_an_objective_may_change_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("elsewhere").mkdir()

    def moving(x):
        os.chdir(tmp_path / "elsewhere")
        return quiet(x)

    options = {"max_steps": 3, "seed": 0}
    found = gs.minimize(moving, np.zeros(DIM), folder="run", every=1, **options)
    same(found, gs.resume(tmp_path / "run", never))


def test_numbers_of_numpy_are_numbers(tmp_path):
    def block(points):
        return ((points - 1) ** 2).sum(axis=1)

    one, options = np.int64(1), {"seed": np.int64(3), "max_steps": np.int64(2)}
    options |= {"vectorized": np.int64(4), "maximize": np.bool_(True), "timeout": np.float32(9)}
    options |= {
        "threads": one,
        "on_failure": "retry",
        "retries": one,
        "workers": np.int64(2),
        "spacing": np.float32(0.1),
    }
    found = gs.minimize(block, np.zeros(DIM), folder=tmp_path, **options)
    same(found, gs.resume(tmp_path, never))
    config = json.loads((tmp_path / "config.json").read_text())
    execution = {"workers": 2, "timeout": 9.0, "retries": 1, "threads": 1, "every": None}
    assert config["execution"] == execution


def test_what_goes_on_otherwise_than_it_began_is_logged(tmp_path, caplog):
    options = {"max_steps": 2, "seed": 0, "folder": tmp_path}
    gs.minimize(quiet, np.zeros(DIM), workers=gs.evaluators.Threads(2), **options)
    gs.resume(tmp_path, quiet, max_steps=3, workers=1)
    (resumed,) = caplog.messages
    assert "resumes after 9 evaluations (from the checkpoint after 2 steps)" in resumed
    caplog.clear()
    gs.resume(tmp_path, never)
    changed, ended = caplog.messages
    assert changed.startswith("The source of the objective")
    assert "which ended after 3 steps" in ended
    caplog.clear()
    gs.resume(tmp_path, louder, max_steps=4)
    changed, began, here, resumed = caplog.messages
    assert "resumes after" in resumed
    assert changed.startswith("The source of the objective")
    assert began == f"The run began with {__name__}:quiet and continues with {__name__}:louder."
    assert here.startswith("The run had an evaluator, which cannot be stored")


def test_resume_needs_a_function_for_a_run_without_a_name(tmp_path):
    gs.minimize(lambda x: quiet(x), np.zeros(3), max_steps=3, folder=tmp_path)
    with pytest.raises(gs.CheckpointError, match=r"no name: pass it, gs\.resume"):
        gs.resume(tmp_path)


@pytest.mark.parametrize("every", ["soon", "1.5", "0", "-3", True, "5d", ""])
def test_every_is_steps_or_time(every, tmp_path):
    with pytest.raises(ValueError, match="`every` must be"):
        gs.minimize(quiet, np.zeros(3), folder=tmp_path, every=every)


def test_every_needs_a_checkpoint():
    with pytest.raises(ValueError, match="also pass `folder`"):
        gs.minimize(quiet, np.zeros(3), every=3)
