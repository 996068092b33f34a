"""A search in a user's own module works wherever ours do (C10)."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gensmooth as gs
from gensmooth import points
from gensmooth.searches import algorithms
from gensmooth.searches.wanted import Wanted
from search_cases import ShrinkingBall, bowl

NAME = "search_cases:shrinking-ball"
HELPERS = Path(__file__).parents[1] / "helpers"
WITH_HELPERS = os.environ | {"PYTHONPATH": os.pathsep.join([str(HELPERS), *sys.path])}
ENTRY = algorithms.ALGORITHMS.pop("shrinking-ball")  # other tests list the names of this package


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(algorithms.ALGORITHMS, "shrinking-ball", ENTRY)


def test_it_finds_a_minimum_as_an_object_and_by_its_name():
    res = gs.minimize(bowl, np.zeros(3), search=ShrinkingBall(), budget=2000, seed=0)
    assert res.fun < 1e-4
    assert res.reason == "budget"
    for name in (NAME, "shrinking-ball"):
        again = gs.minimize(bowl, np.zeros(3), method=name, budget=2000, seed=0)
        assert np.array_equal(again.x, res.x)


def test_an_old_batch_and_wrong_arguments_are_errors_as_for_our_searches():
    search = ShrinkingBall()
    first = search.init(np.zeros(3), seed=0)
    batch = search.ask(first)
    later, _ = search.tell(first, batch, [bowl(x) for x in batch.points()])
    with pytest.raises(
        ValueError, match="The batch is of step 0, but the state is at step 1: pass"
    ):
        search.tell(later, batch, np.zeros(len(batch)))
    with pytest.raises(ValueError, match=f"The step needs {len(batch)} values, but `tell` got 2"):
        search.tell(first, batch, [1.0, 2.0])
    with pytest.raises(ValueError, match="`samples` must be one of 'shared'"):
        ShrinkingBall(samples="common")
    with pytest.raises(ValueError, match="there are no samples to average"):
        ShrinkingBall(num_samples=2)


@pytest.mark.parametrize("workers", [2, gs.evaluators.Threads(3)])
def test_workers_do_not_change_a_bit(workers):
    alone, many = (
        gs.minimize(bowl, np.zeros(4), search=ShrinkingBall(), budget=300, seed=1, workers=number)
        for number in (1, workers)
    )
    assert np.array_equal(alone.x, many.x)
    assert np.array_equal(alone.history.value, many.history.value)


def test_a_stopped_run_resumes_to_the_same_bits(tmp_path):
    search = ShrinkingBall(radius=0.5, points=5)
    whole = gs.minimize(bowl, np.zeros(3), search=search, budget=500, seed=2)
    gs.minimize(bowl, np.zeros(3), search=search, budget=500, seed=2, folder=tmp_path, max_steps=37)
    resumed = gs.resume(tmp_path, bowl, max_steps=10**6)
    assert np.array_equal(resumed.x, whole.x)
    assert resumed.nfev == whole.nfev
    assert resumed.fun == whole.fun


def test_a_file_cannot_import_its_module(tmp_path):
    gs.minimize(bowl, np.zeros(2), search=ShrinkingBall(), budget=50, seed=0, folder=tmp_path)
    code = "import sys, gensmooth as gs; gs.resume(sys.argv[1], lambda x: 0.0)"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, cwd=HELPERS
    )
    assert "trust=True" in done.stderr


def test_a_search_that_has_no_name_is_passed_again(tmp_path):
    Local = type("Local", (ShrinkingBall,), {"__module__": "__main__"})
    gs.minimize(bowl, np.zeros(2), search=Local(), budget=50, seed=0, folder=tmp_path)
    with pytest.raises(gs.CheckpointError, match=r"pass it again.*search=\.\.\."):
        gs.resume(tmp_path, bowl, budget=100)
    with pytest.raises(gs.CheckpointError, match="cannot be changed to a Pilot"):
        gs.resume(tmp_path, bowl, budget=100, search=gs.Pilot(budget=100))
    assert gs.resume(tmp_path, bowl, budget=100, search=Local()).nfev > 50


def test_it_is_noisy_bounded_and_maximises():
    def fun(x, rng):
        return -bowl(x) + 0.01 * rng.standard_normal()

    search = ShrinkingBall(samples="independent", num_samples=3, maximize=True, bounds=(-1.0, 0.5))
    res = gs.minimize(fun, np.zeros(2), search=search, budget=2000, seed=0)
    assert np.allclose(res.x, 0.5, atol=0.05)
    assert res.error is not None


def test_it_trains():
    pytest.importorskip("mujoco")
    made = [
        gs.rl.train(
            "InvertedPendulum-v5", **how, max_steps=3, test_every=3, test_episodes=2, seed=0
        )
        for how in (
            {"search": ShrinkingBall(maximize=True, samples="independent")},
            {"method": NAME},
            {"method": NAME, "workers": 2},
        )
    ]
    assert all(np.array_equal(each.state.search.x, made[0].state.search.x) for each in made)
    assert made[0].nfev == 24
    with pytest.raises(ValueError, match="maximize=True"):
        gs.rl.train("InvertedPendulum-v5", search=ShrinkingBall(), max_steps=1)


def test_it_is_compared_and_asked_point_by_point(tmp_path):
    how = {"budget": 60, "seeds": 2, "folder": tmp_path}
    table = gs.compare(bowl, np.zeros(2), methods=["auto", NAME], **how)
    assert NAME in repr(table) + str(table)
    with pytest.raises(ValueError, match="register it with other settings under another name"):
        gs.compare(bowl, np.zeros(2), methods=[f"{NAME}(radius=0.5)"], **how)
    asked = points.PointByPoint(points.make_search(2, Wanted(method=NAME)), np.zeros(2), seed=0)
    for _ in range(200):
        ticket, x = asked.ask()
        asked.tell(ticket, bowl(x))
    assert asked.best()[1] < 0.1


class Corner(ShrinkingBall):
    """Recommends another point than the one at which its steps are."""

    def recommend(self, state):
        return np.full_like(state.x, 3.0)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_training_tests_and_returns_the_policy_that_it_recommends(workers, tmp_path):
    pytest.importorskip("mujoco")
    from gensmooth.rl import rollouts
    from gensmooth.rl.environments import catalogue

    search = Corner(maximize=True, samples="independent")
    how = {"test_every": 1, "test_episodes": 2, "workers": workers, "folder": tmp_path}
    trained = gs.rl.train("InvertedPendulum-v5", search=search, max_steps=2, seed=0, **how)
    for policy in (trained.policy, trained.best, gs.rl.load_policy(tmp_path / "policy-last")):
        assert (policy.parameters == 3.0).all()
    simulator, state = catalogue.make("InvertedPendulum-v5"), trained.state
    starts = rollouts.test_starts(simulator, state.search, 2)
    parameters = np.full((2, state.search.x.size), 3.0)
    scaling = state.statistics.scaling()
    expected = simulator.rollout(trained.policy.policy, parameters, scaling, starts).returns
    assert trained.tests[-1].mean_return == expected.mean()


def test_a_comparison_scores_the_point_that_it_recommends(monkeypatch, tmp_path):
    monkeypatch.setattr(algorithms.table, "ALGORITHMS", dict(algorithms.ALGORITHMS))
    algorithms.register("corner", Corner)
    compared = gs.compare(
        bowl,
        np.zeros(2),
        methods=["corner"],
        budget=60,
        seeds=1,
        score=lambda x: float(x.sum()),
        folder=tmp_path,
    )
    (run,) = compared.runs["corner"]
    assert run.series["score"][-10:] == [6.0] * 10
    assert run.more["value"] == 6.0


@pytest.mark.parametrize("library", ["scipy", "nevergrad", "optuna"])
def test_other_libraries_take_it(library):
    """With their defaults, which must not contain what a custom search does not have."""
    host = pytest.importorskip(library)
    if library == "scipy":
        optimize, options = pytest.importorskip("scipy.optimize"), {"budget": 200, "seed": 0}
        method = gs.scipy.method(NAME)
        best = optimize.minimize(bowl, np.zeros(2), method=method, options=options).fun
    elif library == "nevergrad":
        parameters = host.p.Array(shape=(2,))
        parameters.random_state.seed(0)
        optimizer = gs.nevergrad.Gensmooth(method=NAME)(parametrization=parameters, budget=200)
        best = bowl(optimizer.minimize(bowl).value)
    else:
        host.logging.set_verbosity(host.logging.WARNING)
        study = host.create_study(sampler=gs.optuna.GensmoothSampler(NAME, seed=0, budget=200))
        study.optimize(lambda trial: (trial.suggest_float("x", -3, 3) - 1) ** 2, n_trials=200)
        best = study.best_value
    assert best < 0.05


def test_the_command_line_takes_it(tmp_path):
    command = [sys.executable, "-m", "gensmooth", "minimize", "search_cases:bowl"]
    command += ["--x0", "0,0", "--method", NAME, "--budget", "800", "--seed", "0"]
    by_name = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=WITH_HELPERS
    )
    assert by_name.returncode == 0, by_name.stderr
    at = command.index("--method")
    command[at : at + 2] = ["--search", "search_cases:ShrinkingBall(radius=1.0)"]
    as_object = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=WITH_HELPERS
    )
    assert as_object.returncode == 0, as_object.stderr
    assert "0.9" in by_name.stdout or "1.0" in by_name.stdout


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"method": "bes"}, "`method` cannot be passed along with `search`"),
        ({"samples": "paired"}, "`samples` cannot be passed along with `search`"),
        ({"bounds": (0, 1)}, "`bounds` cannot be passed along with `search`"),
        ({"num_samples": 2}, "`num_samples` cannot be passed along with `search`"),
    ],
)
def test_a_search_is_complete(more, words):
    with pytest.raises(ValueError, match=words):
        gs.minimize(bowl, np.zeros(2), search=ShrinkingBall(), **more)


def test_what_is_no_search_and_a_taken_name_are_refused():
    with pytest.raises(TypeError, match="to choose one by its name, pass `method`"):
        gs.minimize(bowl, np.zeros(2), search="bes")
    with pytest.raises(ValueError, match="already"):
        gs.searches.register("snes", ShrinkingBall)
    with pytest.raises(ValueError, match=r"`spacing` cannot be used with.*its own"):
        gs.minimize(bowl, np.zeros(2), method=NAME, spacing=0.1)


@pytest.mark.parametrize(
    "search",
    [
        gs.QuasiNewton(budget=400),
        gs.MirroredES(budget=2000),
        gs.GreedyDescent(budget=2000),
        gs.RandomSearch(method="bes", num_directions=4, spacing=1e-3, optimizer=gs.sgd(0.1)),
    ],
    ids=lambda search: type(search).__name__,
)
def test_each_search_of_the_pilot_stands_on_its_own_and_resumes(search, tmp_path):
    res = gs.minimize(bowl, np.zeros(3), search=search, budget=2000, seed=0)
    assert res.fun < 1e-3
    gs.minimize(bowl, np.zeros(3), search=search, budget=2000, seed=0, folder=tmp_path, max_steps=3)
    resumed = gs.resume(tmp_path, bowl, max_steps=10**6)
    assert np.array_equal(resumed.x, res.x)


def test_a_search_that_converges_says_so_and_one_that_needs_exact_values_too():
    res = gs.minimize(bowl, np.zeros(3), search=gs.QuasiNewton(budget=2000), budget=2000, seed=0)
    assert (res.reason, res.success) == ("converged", True)
    rng = np.random.default_rng(0)
    with pytest.raises(Exception, match="exact values"):
        gs.minimize(
            lambda x: bowl(x) + rng.standard_normal(), np.zeros(2), search=gs.QuasiNewton(budget=99)
        )


def test_x_scale_multiplies_the_spacing_of_every_method():
    for method, spacing in (("bes", 0.1), ("ars-v1", 0.03), ("spsa", 0.1)):
        with_scale, with_spacing = (
            gs.minimize(bowl, np.zeros(3), method=method, budget=200, seed=0, **how)
            for how in ({"x_scale": 4.0}, {"spacing": 4.0 * spacing})
        )
        assert np.array_equal(with_scale.x, with_spacing.x)
