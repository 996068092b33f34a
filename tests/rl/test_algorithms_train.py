"""The algorithms of the literature in training: ARS as published, and every other by its name."""

import json

import numpy as np
import pytest

import algorithms_literal as literal
import gensmooth as gs
from gensmooth.directions import Address, normals
from gensmooth.rl.policies import Linear
from gensmooth.rl.trainer import Trainer
from gensmooth.searches import algorithms
from gensmooth.searches.algorithms import ars

pytest.importorskip("gymnasium")
from rl_cases import SLIDER, Formula

OPTIONS = {"max_steps": 4, "test_every": 2, "test_episodes": 3, "seed": 7}
SIZE, ACTIONS = 5, 2


def same(one, other):
    assert one.state.search.x.tobytes() == other.state.search.x.tobytes()
    assert one.state.statistics.m2.tobytes() == other.state.statistics.m2.tobytes()
    assert one.history == other.history
    assert one.tests == other.tests


@pytest.mark.parametrize(("name", "b"), [("ars-v1", 8), ("ars-v2-t", 4)])
def test_an_iteration_is_that_of_algorithm_2(name, b):
    policy = Linear().policy(SIZE, ACTIONS)
    search = gs.search(name, policy.initial(0), samples="independent", maximize=True)
    trainer = Trainer(Formula.info(SIZE, ACTIONS), policy, search, standardize=name == "ars-v2-t")
    state = trainer.init(11)
    for _ in range(3):
        rewards = []

        def reward(x, i, told=rewards):
            told.append(float(np.sin(x).sum() + 0.3 * (x**2).sum() + np.cos(7 * i)))
            return told[-1]

        x, step = state.search.x, state.search.step
        delta = normals(Address(11, step, ars.DIRECTIONS, x.size, x.dtype)).block()
        state, _ = trainer.step(state, Formula(reward, SIZE))
        plus, minus = -np.array(rewards).reshape(-1, 2).T  # the survival bonus is left out
        expected = literal.ars(x, delta, plus, minus, alpha=ars.STEP, b=b)
        assert np.allclose(state.search.x, expected, rtol=1e-9, atol=1e-12)


def test_the_versions_of_ars_are_their_parts():
    given = {
        "directions": gs.Gaussian(),
        "num_directions": 8,
        "spacing": ars.DEVIATION,
        "optimizer": gs.sgd(2 * ars.STEP * ars.DEVIATION),
    }
    for name, estimator, standardize in [
        ("ars-v1", gs.BestPairs(), False),
        ("ars-v1-t", gs.BestPairs(4), False),
        ("ars-v2", gs.BestPairs(), True),
        ("ars-v2-t", gs.BestPairs(4), True),
        ("ars", gs.BestPairs(4), True),
    ]:
        one = gs.rl.train(SLIDER, method=name, **OPTIONS)
        parts = gs.rl.train(
            SLIDER, estimator=estimator, standardize=standardize, **given, **OPTIONS
        )
        same(one, parts)
        assert one.best.standardize is standardize
        assert one.best.method == name


@pytest.mark.parametrize("name", ["ars-v1-t", "openai-es", "spsa", "snes", "xnes", "cma-es"])
def test_a_training_stopped_and_resumed_is_the_uninterrupted_one(name, tmp_path):
    whole = gs.rl.train(SLIDER, method=name, **OPTIONS)
    part = gs.rl.train(
        SLIDER, method=name, **OPTIONS, folder=tmp_path, callback=lambda now: now.nit == 2
    )
    assert part.nit == 2
    same(gs.rl.resume(tmp_path, max_steps=4, trust=True), whole)
    found = json.loads((tmp_path / "config.json").read_text())
    assert found["method"] == name
    assert found["search"].get("method", name) == name


def test_ars_learns_to_slide():
    result = gs.rl.train(SLIDER, method="ars", learning_rate=0.2, max_steps=40, seed=1,
                         test_every=10)  # fmt: skip
    assert result.tests[-1].mean_return > result.tests[0].mean_return + 10


def test_numbers_of_a_users_own_count():
    result = gs.rl.train(SLIDER, method="ars-v1", num_directions=3, max_steps=1, seed=0)
    assert result.nfev == 6
    assert gs.rl.train(SLIDER, method="bes", max_steps=1, seed=0).nfev == 40


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"method": "ars-v1", "standardize": True}, "use 'ars-v2', which is otherwise the same"),
        (
            {"method": "ars-v2-t", "standardize": False},
            "use 'ars-v1-t', which is otherwise the same",
        ),
        ({"method": "ars", "standardize": False}, "use 'ars-v1-t', which is otherwise the same"),
        ({"method": "ars", "directions": gs.Gaussian()}, "its own directions"),
        ({"method": "cma-es", "learning_rate": 0.1}, "its own steps"),
        ({"method": "snes", "estimator": "forward"}, "estimator"),
        ({"method": "arss"}, "Did you mean 'ars'"),
        ({"num_directions": 0}, "num_directions"),
        ({"method": "snes", "num_directions": 4}, "use `population`"),
        ({"method": "ars", "population": 4}, "use `num_directions`"),
        ({"population": 4}, "use `num_directions`"),
    ],
)
def test_what_cannot_be_is_said_at_the_call(given, words):
    with pytest.raises(ValueError, match=words):
        gs.rl.train(SLIDER, **given)
    assert "ars-v2" in algorithms.names(training=True)
