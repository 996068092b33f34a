"""Runs without a budget: what ends them, what says so in advance, and that they plan with nothing.

How many evaluations will be made is then unknown, so no step may depend on it.
"""

import json
import logging
import math

import numpy as np
import pytest

import gensmooth as gs
from gensmooth.searches.choose import falling


def sphere(x) -> float:
    return float(((x - 3) ** 2).sum())


def kinks(x) -> float:
    return float(np.abs(x - 1).sum())


def noisy(x, rng) -> float:
    return sphere(x) + float(rng.standard_normal())


PLANS = {
    "pilot": (sphere, {}),
    "kinks": (kinks, {}),
    "independent": (noisy, {"samples": "independent"}),
    "shared": (noisy, {"samples": "shared"}),
    "bes": (sphere, {"method": "bes"}),
    "spsa": (sphere, {"method": "spsa"}),
    "cma-es": (sphere, {"method": "cma-es"}),
    "phase": (kinks, {"search": gs.MirroredES(budget=400)}),  # has its own
}


@pytest.mark.parametrize("name", PLANS)
def test_stopped_and_resumed_it_is_the_same_run(name, tmp_path):
    fun, options = PLANS[name]
    options = {"budget": None, "max_steps": 30, "seed": 5} | options
    whole = gs.minimize(fun, np.zeros(4), **options)
    part = gs.minimize(
        fun, np.zeros(4), **options, folder=tmp_path, callback=lambda now: now.nit == 11
    )
    assert (part.reason, part.nit) == ("callback", 11)
    again = gs.resume(tmp_path, fun)
    assert whole.reason in ("max_steps", "converged")
    assert np.array_equal(again.x, whole.x)
    assert (again.fun, again.nfev, again.reason) == (whole.fun, whole.nfev, whole.reason)
    assert again.history.value.tolist() == whole.history.value.tolist()
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["limits"]["budget"] is None


@pytest.mark.parametrize("name", ["pilot", "kinks", "independent", "shared", "bes"])
def test_a_longer_run_begins_with_the_shorter_one(name, tmp_path):
    """With a budget or a rate that falls, this could not be."""
    fun, options = PLANS[name]
    options = {"budget": None, "seed": 5} | options
    if name == "bes":
        options["optimizer"] = gs.adam(0.1)
    gs.minimize(fun, np.zeros(4), **options, max_steps=10, folder=tmp_path)
    longer = gs.resume(tmp_path, fun, max_steps=25)
    once = gs.minimize(fun, np.zeros(4), **options, max_steps=25)
    assert np.array_equal(longer.x, once.x)
    assert longer.nfev == once.nfev
    with_a_budget = gs.resume(tmp_path, fun, budget=once.nfev + 40, max_steps=10**6)
    assert with_a_budget.nfev <= once.nfev + 40


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [1, 20, 600])
def test_on_exact_values_it_ends_by_itself(dim, dtype):
    result = gs.minimize(sphere, np.zeros(dim, dtype), budget=None, seed=0)
    assert (result.reason, result.success) == ("converged", True)
    assert result.fun < 1e-8 * 9 * dim
    with_a_budget = gs.minimize(sphere, np.zeros(dim, dtype), budget=10**9, restarts=False, seed=0)
    assert np.array_equal(result.x, with_a_budget.x)  # a huge budget plans the same steps


def test_without_progress_it_ends_too():
    def steps(x) -> float:
        return float(np.floor(np.abs(x - 3)).sum())

    def flat(x) -> float:  # noqa: ARG001
        return 1.0

    for fun in (steps, flat):
        assert gs.minimize(fun, np.full(5, 20.2), budget=None, seed=0).reason == "converged"


def test_wanted_restarts_are_made():
    run = gs.minimize(sphere, np.zeros(2), budget=None, restarts=True, max_steps=400, seed=0)
    assert run.reason == "max_steps"


def test_noise_is_averaged_by_a_bounded_number_of_points():
    """Only noise is left at the optimum. With a budget, the population may grow with it."""
    rng, dim = np.random.default_rng(0), 3

    def only_noise(x) -> float:  # noqa: ARG001
        return float(rng.standard_normal())

    how = {"x0": np.zeros(dim), "max_steps": 200, "seed": 0}
    unknown = gs.minimize(only_noise, budget=None, **how)
    assert np.diff(unknown.history.evaluations).max() <= 2 * 20 * dim * (1 + 1 / 30) + 1
    assert unknown.reason == "max_steps"
    assert 0.1 < unknown.error < 1  # at most 30 values, whose noise is 1
    known = gs.minimize(only_noise, budget=10**9, **how)
    assert np.diff(known.history.evaluations).max() > 4 * 20 * dim


def test_the_final_values_are_a_share_of_what_was_spent():
    for steps in (1, 2, 60):
        run = gs.minimize(
            noisy, np.zeros(3), samples="independent", budget=None, max_steps=steps, seed=0
        )
        spent = int(run.history.evaluations[-1])
        assert run.nfev - spent <= max(spent / 20, spent / 200, 1)


def test_what_ends_it_is_said_in_advance(caplog):
    def stop(now) -> bool:
        return now.nit == 2

    def said(**how) -> str:
        caplog.clear()
        with caplog.at_level(logging.WARNING, "gensmooth"):
            gs.minimize(sphere, np.zeros(2), seed=0, **{"budget": None} | how)
        return " ".join(record.message for record in caplog.records)

    warning = said()
    assert "goes on until the search converges, which it cannot if values are noisy" in warning
    assert "or until you press Ctrl-C" in warning
    assert "until a value reaches the target, or until the search" in said(target=1.0)
    assert "goes on until you press" in said(method="bes", callback=stop).replace(
        "the callback returns true, or until ", ""
    )
    for limit in ({"budget": 100}, {"max_steps": 3}, {"max_seconds": 60.0}):
        assert "no limit" not in said(**limit)


def test_a_resumed_run_says_it_again_and_takes_a_limit(tmp_path, caplog):
    stopped = {"budget": None, "folder": tmp_path, "seed": 0, "samples": "independent"}
    gs.minimize(noisy, np.zeros(2), **stopped, callback=lambda now: now.nit == 3)
    caplog.clear()
    run = gs.resume(tmp_path, noisy, callback=lambda now: now.nit == 5)
    assert run.nit == 5
    assert "goes on until the callback returns true, or until you press" in caplog.text
    caplog.clear()
    assert gs.resume(tmp_path, noisy, budget=200).reason == "budget"
    assert "no limit" not in caplog.text


def test_a_finished_run_does_not_say_that_it_goes_on(tmp_path, caplog):
    how = {"budget": None, "folder": tmp_path, "seed": 0}
    first = gs.minimize(sphere, np.zeros(2), **how)
    assert "no limit" in caplog.text
    caplog.clear()
    assert gs.minimize(sphere, np.zeros(2), **how).nfev == first.nfev
    assert "no limit" not in caplog.text


def test_a_rate_without_limits_is_constant():
    search = gs.RandomSearch(gs.Bernoulli(), num_directions=4, spacing=0.1)
    optimizer, constant = falling(0.1, search, None), gs.adam(0.1)
    state, same, x = optimizer.init(np.ones(2)), constant.init(np.ones(2)), np.ones(2)
    for _ in range(50):
        update, state = optimizer.update(np.ones(2), state, x)
        expected, same = constant.update(np.ones(2), same, x)
        assert np.array_equal(update, expected)
    steps = falling(0.1, search, None, 3)
    state = steps.init(np.ones(2))
    for _ in range(3):
        update, state = steps.update(np.ones(2), state, x)
        assert update[0] != 0
    assert steps.update(np.ones(2), state, x)[0][0] == 0


@pytest.mark.parametrize("name", ["auto", "bes", "snes"])
def test_ask_and_tell_do_not_need_one(name):
    search = gs.search(name, np.zeros(3), budget=None)
    state = search.init(np.zeros(3), seed=0)
    for _ in range(200):
        if search.converged(state) is not None:
            break
        batch = search.ask(state)
        state, _ = search.tell(state, batch, [sphere(x) for x in batch.points()])
    assert sphere(search.recommend(state)) < 0.3 * sphere(np.zeros(3))
    assert (search.converged(state) is not None) == (name == "auto")


def test_descent_takes_its_usual_number_of_directions():
    unknown, plenty = (gs.GreedyDescent(budget=b, samples="shared") for b in (None, 10**9))
    first = [search.init(np.zeros(7), seed=0).sent.number for search in (unknown, plenty)]
    assert first[0] == first[1] == 4 + int(3 * math.log(7))
