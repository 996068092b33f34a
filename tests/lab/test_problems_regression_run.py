"""A compiled run against random search by `ask` and `tell` on the same data, and its edges."""

import json
import math

import numpy as np
import pytest

import gensmooth as gs
from cases import FAMILIES
from gensmooth.directions.draw import stream_key
from gensmooth.lab.paper import protocol, sampling
from gensmooth.problems import regression
from gensmooth.streams import Purpose, generator

SETTING = {
    "spacing": 0.3,
    "learning_rate": 0.02,
    "seed": 13,
    "num_directions": 5,
    "num_samples": 3,
    "dim": 7,
}
SHORT = {**SETTING, "rounds": 3, "iterations": 4, "test_size": 50}
ESTIMATORS = {"forward": gs.ForwardDifference(), "antithetic": gs.Antithetic()}


def _search(directions, estimator="forward"):
    return gs.RandomSearch(
        directions,
        num_directions=SETTING["num_directions"],
        spacing=SETTING["spacing"],
        estimator=ESTIMATORS[estimator],
        optimizer=gs.sgd(SETTING["learning_rate"]),
        samples="shared",
        num_samples=SETTING["num_samples"],
    )


def _values(batch, data):
    """The loss of every data point at every point of the batch, in the batch's order."""
    points = np.array(list(batch.points()))[:: len(data.y)]
    return (0.5 * (data.y - points @ data.x.T) ** 2).ravel()


def _reference(directions, data_of, exact_of, estimator="forward"):
    """Series of a short run by `ask` and `tell`."""
    dim, seed = SETTING["dim"], SETTING["seed"]
    test = regression.draw_data(50, dim=dim, seed=seed, purpose=Purpose.TEST)
    search = _search(directions, estimator)
    state = search.init(generator(seed, Purpose.START).standard_normal(dim), seed=seed)
    errors, losses, evaluations = [], [], []
    for _ in range(SHORT["rounds"]):
        for _ in range(SHORT["iterations"]):
            batch = search.ask(state)
            values = _values(batch, data_of(state.step))
            found = search.estimate(batch, values).gradient
            errors.append(((found - exact_of(state.x)) ** 2).sum())
            state, _ = search.tell(state, batch, values)
        losses.append(np.mean(0.5 * (test.y - test.x @ state.x) ** 2))
        evaluations.append(state.evaluations)
    return np.reshape(errors, (SHORT["rounds"], -1)).mean(axis=1), losses, evaluations


def _online(step):
    return regression.draw_data(SETTING["num_samples"], dim=7, seed=SETTING["seed"], step=step)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_run_is_random_search_on_the_same_data(name):
    found = regression.run(FAMILIES[name], **SHORT)
    errors, losses, evaluations = _reference(FAMILIES[name], _online, regression.gradient)
    np.testing.assert_allclose(found.series["mse"], errors, rtol=1e-9)
    np.testing.assert_allclose(found.series["test_loss"], losses, rtol=1e-10)
    assert found.evaluations.tolist() == evaluations
    assert found.rounds.tolist() == [1, 2, 3]
    assert found.final == found.series["test_loss"][-1]
    assert not found.diverged


def test_the_same_with_antithetic_differences():
    found = regression.run(gs.Gaussian(), **SHORT, estimator="antithetic")
    errors, losses, evaluations = _reference(
        gs.Gaussian(), _online, regression.gradient, "antithetic"
    )
    np.testing.assert_allclose(found.series["mse"], errors, rtol=1e-9)
    np.testing.assert_allclose(found.series["test_loss"], losses, rtol=1e-10)
    assert found.evaluations.tolist() == evaluations
    forward = regression.run(gs.Gaussian(), **SHORT)
    assert not np.allclose(found.series["mse"], forward.series["mse"])


def test_the_same_offline():
    size, seed = 20, SETTING["seed"]
    everything = regression.draw_data(size, dim=7, seed=seed)

    def data_of(step):
        chosen = np.empty(SETTING["num_samples"], np.int64)
        sampling.subset(stream_key(seed, Purpose.SAMPLE, step), np.arange(size), chosen)
        return regression.Data(everything.x[chosen], everything.y[chosen])

    def exact_of(theta):
        return everything.x.T @ (everything.x @ theta - everything.y) / size

    for directions in (gs.Bernoulli(), gs.Orthogonal()):
        found = regression.run(directions, **SHORT, dataset_size=size)
        errors, losses, _ = _reference(directions, data_of, exact_of)
        np.testing.assert_allclose(found.series["mse"], errors, rtol=1e-9)
        np.testing.assert_allclose(found.series["test_loss"], losses, rtol=1e-10)
        assert "predicted_mse" not in found.series


def test_offline_with_the_whole_data_set_has_no_noise():
    # All points in every batch and d orthogonal rows: the antithetic estimate is the gradient.
    setting = {**SHORT, "num_directions": 7, "num_samples": 12, "estimator": "antithetic"}
    found = regression.run(gs.Orthogonal(), **setting, dataset_size=12)
    assert found.series["mse"].max() < 1e-20 * found.series["gradient_norm2"].max()
    online = regression.run(gs.Orthogonal(), **setting)
    assert online.series["mse"].min() > 0.01


@pytest.mark.parametrize("room", [1, 80, 10**9])
def test_how_many_steps_are_laid_out_together_changes_no_bit(monkeypatch, room):
    directions = gs.shrunk(gs.Bernoulli())
    plain = regression.run(directions, **SHORT)
    monkeypatch.setattr(protocol, "_ROOM", room)
    again = regression.run(directions, **SHORT)
    for name in plain.series:
        np.testing.assert_array_equal(plain.series[name], again.series[name])


def test_methods_share_start_data_and_test_set():
    one = {**SHORT, "rounds": 1, "iterations": 1, "learning_rate": 1e-300}
    results = [regression.run(FAMILIES[name], **one) for name in FAMILIES]
    for name in ("gradient_norm2", "noise_trace", "test_loss"):
        assert len({result.series[name][0] for result in results}) == 1
    other = regression.run(gs.Gaussian(), **{**one, "seed": 14})
    assert other.series["test_loss"][0] != results[0].series["test_loss"][0]


def test_the_lines_of_the_theory_go_through_the_measurements():
    setting = {**SETTING, "dim": 100, "num_directions": 20, "num_samples": 50}
    run = regression.run(gs.Bernoulli(), **{**setting, "spacing": 0.1, "learning_rate": 0.01})
    measured, exact = run.series["mse"].sum(), run.series["predicted_mse"].sum()
    assert measured == pytest.approx(exact, rel=0.03)
    assert abs(run.series["lemma_mse"].sum() / measured - 1) > 0.1
    # At the paper's settings the run learns: from F(θ₀) ≈ 117 to near the minimum.
    floor = regression.objective(np.full(100, regression.minimizer(100)))
    assert floor < run.final < 1.5 * floor


def test_guided_directions_have_no_line():
    run = regression.run(gs.Guided(history=3), **SHORT)
    assert set(run.series) == {"mse", "test_loss", "gradient_norm2", "noise_trace"}


@pytest.mark.parametrize("name", ["gaussian", "orthogonal", "guided"])
@pytest.mark.parametrize("dataset_size", [None, 20])
def test_divergence_is_a_result(name, dataset_size):
    setting = {**SHORT, "learning_rate": 50.0, "rounds": 40, "dataset_size": dataset_size}
    run = regression.run(FAMILIES[name], **setting)
    assert run.diverged
    assert run.final == math.inf
    assert 0 < len(run.rounds) < 40
    assert all(np.isfinite(values).all() for values in run.series.values())
    assert all(len(values) == len(run.rounds) for values in run.series.values())


def test_divergence_in_the_first_round_leaves_nothing():
    run = regression.run(gs.Gaussian(), **{**SHORT, "learning_rate": 1e200})
    assert run.diverged
    assert len(run.rounds) == len(run.evaluations) == len(run.series) == 0


def test_a_result_is_plain_numbers():
    run = regression.run(gs.Gaussian(), **SHORT)
    text = json.dumps({name: values.tolist() for name, values in run.series.items()})
    assert json.loads(text)["mse"] == run.series["mse"].tolist()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"spacing": 0.0}, "`spacing` must be positive, but is 0.0"),
        ({"spacing": math.nan}, "`spacing` must be positive"),
        ({"learning_rate": -1}, "`learning_rate` must be positive, but is -1"),
        ({"learning_rate": math.inf}, "`learning_rate` must be finite, but is inf"),
        ({"num_directions": 0}, "`num_directions` must be a whole number of at least 1"),
        ({"num_samples": 1.5}, "`num_samples` must be a whole number"),
        ({"dim": True}, "`dim` must be a whole number"),
        ({"rounds": 0}, "`rounds` must be a whole number"),
        ({"test_size": -3}, "`test_size` must be a whole number"),
        ({"dataset_size": 2}, "`dataset_size` must be at least `num_samples`, 3"),
        ({"dataset_size": 0}, "`dataset_size` must be a whole number"),
        ({"estimator": "central"}, "`estimator` must be one of"),
        ({"seed": -1}, "`seed` must be in"),
    ],
)
def test_bad_input(wrong, message):
    with pytest.raises(ValueError, match=message):
        regression.run(gs.Gaussian(), **{**SHORT, **wrong})


def test_directions_must_be_directions():
    with pytest.raises(TypeError, match="must be directions"):
        regression.run("gs", **SHORT)
