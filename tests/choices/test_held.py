"""Parameters whose two limits are equal are held, and the search is that of the others alone."""

import json

import numpy as np
import pytest
import scipy.optimize

import gensmooth as gs
from gensmooth.coordinates import Coordinates, FixedParameters, inward
from gensmooth.runs.config import checksum

LOWER, UPPER = np.array([-5.0, 2.5, -5.0, 7.0]), np.array([5.0, 2.5, 5.0, 7.0])
GOAL = np.array([1.0, 2.0, 3.0, 4.0])
FREE = [0, 2]
METHODS = ["auto", "bes", "orthogonal-es", "guided-es", "snes", "xnes", "ars", "spsa"]


def bowl(x):
    return float((np.arange(1, 5) * (x.reshape(-1) - GOAL) ** 2).sum())


def noisy(x, rng):
    return bowl(x) + rng.standard_normal()


def of_the_others(fun):
    """The function of the free parameters, written out."""

    def called(y, *more):
        x = UPPER.copy()
        x[FREE] = y
        return fun(x, *more)

    return called


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("samples", [None, "independent", "shared"])
def test_it_is_the_search_of_the_others_to_the_last_bit(method, samples):
    fun, how = bowl if samples is None else noisy, {"method": method, "budget": 200, "seed": 3}
    fixed = gs.minimize(fun, np.zeros(4), bounds=(LOWER, UPPER), samples=samples, **how)
    alone = gs.minimize(of_the_others(fun), np.zeros(2), bounds=(-5.0, 5.0), samples=samples, **how)
    assert fixed.x[FREE].tobytes() == alone.x.tobytes()
    assert fixed.best_x[FREE].tobytes() == alone.best_x.tobytes()
    assert (fixed.x[[1, 3]] == UPPER[[1, 3]]).all()
    assert (fixed.fun, fixed.nfev, fixed.nit) == (alone.fun, alone.nfev, alone.nit)
    assert fixed.history.value.tobytes() == alone.history.value.tobytes()


def test_no_evaluation_moves_them_in_any_shape_vectorized_or_in_processes():
    seen = []

    def stacked(points):
        seen.append(points.copy())
        return np.array([bowl(x) for x in points])

    start = np.zeros((2, 2), np.float32)
    limits = gs.Bounds(LOWER.reshape(2, 2), UPPER.reshape(2, 2))
    how = {"bounds": limits, "budget": 300, "seed": 1, "method": "bes"}
    res = gs.minimize(stacked, start, vectorized=True, **how)
    points = np.concatenate(seen)
    assert points.shape[1:] == (2, 2)
    assert points.dtype == res.x.dtype == np.float32
    assert (points.reshape(-1, 4)[:, [1, 3]] == UPPER[[1, 3]]).all()
    again = gs.minimize(bowl, start, workers=2, **how)
    assert again.x.tobytes() == res.x.tobytes()


def test_stopped_and_resumed(tmp_path):
    above = np.maximum(LOWER, 1e-3)

    def run(folder, upper=UPPER, **more):
        return gs.minimize(
            *(noisy, np.ones(4)),
            bounds=(above, upper),
            log_scale=[True, False, False, True],
            x_scale=[0.5, 1.0, 2.0, 1.0],
            samples="independent",
            budget=400,
            folder=folder,
            seed=2,
            **more,
        )

    class Stop(Exception):  # noqa: N818
        pass

    def stop(now):
        if now.info.step == 5:
            raise Stop

    whole = run(tmp_path / "whole")
    with pytest.raises(Stop):
        run(tmp_path / "parts", every=1, callback=stop)
    parts = gs.resume(tmp_path / "parts", noisy)
    assert whole.nit > 6
    assert parts.history.value.tobytes() == whole.history.value.tobytes()
    assert parts.x.tobytes() == whole.x.tobytes()
    assert (parts.x[1], parts.x[3]) == (2.5, 7.0)
    with pytest.raises(gs.CheckpointError, match="`held`"):
        run(tmp_path / "whole", upper=np.where(above == UPPER, UPPER + 1, UPPER))


def test_a_folder_whose_held_parameters_do_not_fit_is_refused(tmp_path):
    gs.minimize(bowl, np.zeros(4), bounds=(LOWER, UPPER), budget=99, folder=tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_text())
    config["search"]["held"]["free"]["values"][1] = 1.0
    config["sha256"] = checksum(config)
    path.write_text(json.dumps(config))
    with pytest.raises(gs.CheckpointError, match="fixed parameters do not fit"):
        gs.resume(tmp_path / "run", bowl)


def test_in_a_structure():
    seen = []

    def fun(p):
        seen.append(p["b"])
        return float(((p["a"] - 1) ** 2).sum() + (p["b"] - 2) ** 2)

    start = {"a": np.zeros(3), "b": 0.0}
    res = gs.minimize(fun, start, bounds={"a": (None, None), "b": (5, 5)}, budget=300, seed=0)
    assert set(map(float, seen)) == {5.0}
    np.testing.assert_allclose(res.x["a"], 1, atol=1e-3)
    assert res.x["b"] == 5
    assert res.fun == pytest.approx(9)


@pytest.mark.parametrize("name", ["auto", "bes"])
def test_through_scipy_and_its_callback(name):
    told = []
    res = scipy.optimize.minimize(
        bowl,
        np.zeros(4),
        method=gs.scipy.method(name),
        bounds=list(zip(LOWER, UPPER, strict=True)),
        callback=lambda xk: told.append(xk),
        options={"budget": 600, "seed": 0},
    )
    peer = scipy.optimize.minimize(bowl, np.zeros(4), bounds=scipy.optimize.Bounds(LOWER, UPPER))
    np.testing.assert_allclose(res.x, peer.x, atol=0.2 if name == "bes" else 1e-4)
    assert all(x.shape == (4,) and (x[[1, 3]] == UPPER[[1, 3]]).all() for x in told)


def test_in_a_comparison_with_a_score(tmp_path):
    def score(x):
        assert (x[[1, 3]] == UPPER[[1, 3]]).all()
        return bowl(x)

    found = gs.compare(
        *(noisy, np.zeros(4)),
        methods=["auto", "bes"],
        samples="independent",
        bounds=(LOWER, UPPER),
        score=score,
        seeds=2,
        budget=200,
        folder=tmp_path,
    )
    assert [each.failed for each in found.standings] == [0, 0]


def test_what_cannot_be_held_is_refused():
    for bounds, words in [
        ((LOWER, np.where(LOWER == UPPER, 0.0, UPPER)), "lower limit below its upper limit"),
        ((UPPER, UPPER), "fix every parameter"),
        ((np.array([0, 0, 0, np.inf]), np.array([1, 1, 1, np.inf])), "must be finite where"),
    ]:
        with pytest.raises(ValueError, match=words):
            gs.minimize(bowl, np.zeros(4), bounds=bounds)
    with pytest.raises(ValueError, match=r"`x_scale` must be .* the shape \(4,\) of x0"):
        gs.minimize(bowl, np.zeros(4), bounds=(LOWER, UPPER), x_scale=[1.0, 1.0])
    with pytest.raises(ValueError, match=r"Only gs\.minimize accepts fixed parameters"):
        gs.RandomSearch(gs.Gaussian(), num_directions=4, spacing=0.1, bounds=(LOWER, UPPER)).init(
            np.zeros(4), seed=0
        )


def test_of_a_structure_whole_arrays_keep_their_shapes():
    start = {"w": np.ones((2, 3)), "b": np.ones(2), "v": np.ones((2, 2))}
    limits = gs.Bounds({"w": 0, "b": 1, "v": [[0, 1], [0, 0]]}, {"w": 9, "b": 1, "v": 1})
    found = inward(start, bounds=limits)
    assert found.coordinates.tree.shapes == ((2, 3), (2,), (2, 2))
    assert found.coordinates.shapes(found.x) == ((2, 3), (3,))
    res = gs.minimize(
        lambda p: float(((p["w"] - 3) ** 2).sum() + p["b"].sum() + p["v"].sum()),
        start,
        method="low-rank",
        bounds=limits,
        budget=2000,
        seed=0,
    )
    np.testing.assert_allclose(res.x["w"], 3, atol=0.2)
    assert res.x["v"][0, 1] == 1


def test_there_and_back():
    found = inward(
        np.arange(4.0).reshape(2, 2), bounds=gs.Bounds([[0, 9], [0, 9]], [[9, 9], [9, 9]])
    )
    assert found.x.tolist() == [0.0, 2.0]
    assert found.coordinates.outward(np.array([5.0, 6.0])).tolist() == [[5.0, 9.0], [6.0, 9.0]]
    fixed = found.coordinates.fixed
    assert isinstance(fixed, FixedParameters)
    assert fixed.outward(np.zeros((3, 2))).shape == (3, 2, 2)
    assert inward([1.0, 2.0], bounds=(0, 9)).coordinates == Coordinates()
