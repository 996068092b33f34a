"""gensmooth as a sampler of Optuna's."""

import importlib.util
import pickle
from pathlib import Path

import numpy as np
import pytest

import gensmooth as gs
from gensmooth.points import PointByPoint, make_search
from gensmooth.searches.wanted import Wanted

optuna = pytest.importorskip("optuna")
sampler = pytest.importorskip("gensmooth.optuna")
HUB = Path(__file__).parents[2] / "integrations/optunahub/package/samplers/gensmooth"
optuna.logging.set_verbosity(optuna.logging.ERROR)
pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


def loss(trial):
    x = trial.suggest_float("x", -4.0, 6.0)
    y = trial.suggest_float("y", 1e-4, 1.0, log=True)
    return (x - 2) ** 2 + (np.log10(y) + 2) ** 2


def study_with(how=None, **more):
    made = sampler.GensmoothSampler(**{"seed": 3, "budget": 120, **(how or {})})
    return optuna.create_study(sampler=made, **more)


def values_of(study):
    return [trial.value for trial in study.trials]


def test_it_samples_what_the_search_asks_in_the_units_of_the_parameters():
    """After the first trial, whose space is not known, it is the search on the unit square."""
    study = study_with()
    study.optimize(loss, n_trials=60)
    search = make_search(2, Wanted(method="auto", budget=120, bounds=(0, 1)))
    points = PointByPoint(search, [0.5, 0.5], seed=3)
    for trial in study.trials[1:]:
        ticket, unit = points.ask()
        expected = (-4 + 10 * unit[0], 10 ** (-4 + 4 * unit[1]))
        assert (trial.params["x"], trial.params["y"]) == pytest.approx(expected, rel=1e-12)
        points.tell(ticket, trial.value)
    assert study.best_value < 1e-4


# In the units of the unit square the curvature is up to 200: plain descent diverges from 0.01 on.
@pytest.mark.parametrize("steps", [{"learning_rate": 0.005}, {"optimizer": gs.adam(0.05)}])
@pytest.mark.parametrize("method", ["bes", "guided-es"])
def test_methods_and_maximising(method, steps):
    study = study_with({"method": method, **steps}, direction="maximize")
    study.optimize(lambda trial: -loss(trial), n_trials=120)
    assert study.best_value > -0.1


def test_bounds_are_kept_to_the_last_bit():
    study = study_with()

    def corner(trial):
        return trial.suggest_float("x", 0.1, 0.7) - trial.suggest_float("y", 1e-7, 0.3, log=True)

    study.optimize(corner, n_trials=60)
    xs, ys = zip(*((t.params["x"], t.params["y"]) for t in study.trials), strict=True)
    assert min(xs) == 0.1
    assert max(ys) == 0.3


def test_a_study_that_is_loaded_again_goes_on_as_if_it_had_never_stopped(tmp_path):
    whole = study_with()
    whole.optimize(loss, n_trials=50)
    storage = f"sqlite:///{tmp_path / 'studies.db'}"
    parts = study_with(storage=storage, study_name="parts")
    for trials in (1, 19, 30):
        again = sampler.GensmoothSampler(seed=3, budget=120)  # a new process has a new one
        study = optuna.load_study(study_name="parts", storage=storage, sampler=again)
        study.optimize(loss, n_trials=trials)
    assert values_of(parts) == values_of(whole)


def test_processes_with_one_storage_share_one_search(tmp_path):
    """Two samplers that know of each other by the storage alone make the run that one makes."""
    alone = study_with()
    alone.optimize(loss, n_trials=40)
    storage = f"sqlite:///{tmp_path / 'studies.db'}"
    study = study_with(storage=storage, study_name="shared")
    one = sampler.GensmoothSampler(seed=3, budget=120)
    two = sampler.GensmoothSampler(budget=120)  # the study knows the seed
    for number in range(40):
        study.sampler = two if number > 1 and number % 2 else one
        study.optimize(loss, n_trials=1)
    assert values_of(study) == values_of(alone)


def test_asked_together_they_are_different_and_told_in_any_order():
    study = study_with({"method": "gs", "num_workers": 8})
    study.optimize(loss, n_trials=1)
    for _ in range(5):
        asked = [study.ask() for _ in range(8)]
        found = [loss(trial) for trial in asked]
        assert len(set(found)) == 8
        for i in np.random.default_rng(0).permutation(8):
            study.tell(asked[i], found[i])
    assert study.sampler._points.step == 5
    study.optimize(loss, n_trials=24, n_jobs=3)
    assert len(study.trials) == 1 + 40 + 24


def test_trials_that_fail_or_are_pruned_have_no_value():
    study = study_with()
    study.optimize(loss, n_trials=1)
    for number in range(60):
        trial = study.ask()
        value = loss(trial)
        if number % 7 == 3:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        elif number % 7 == 5:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(trial, value)
    assert np.isfinite(study.sampler._points.state.x).all()
    assert study.best_value < 1


def test_other_parameters_are_the_independent_samplers():
    def mixed(trial):
        kind = trial.suggest_categorical("kind", ["a", "b"])
        layers = trial.suggest_int("layers", 1, 3)
        step = trial.suggest_float("step", 0, 1, step=0.25)
        once = trial.suggest_float("once", 0, 1) if kind == "a" else 0
        return loss(trial) + layers + step + once

    study = study_with()
    study.optimize(mixed, n_trials=30)
    space = study.sampler.infer_relative_search_space(study, study.trials[-1])
    assert set(space) == {"x", "y"}
    assert {t.params["layers"] for t in study.trials} == {1, 2, 3}
    study.sampler.reseed_rng()


def test_another_space_begins_anew():
    study = study_with()
    study.optimize(loss, n_trials=20)
    before = study.sampler._points
    study.optimize(lambda trial: trial.suggest_float("x", -4, 6) ** 2, n_trials=20)
    assert study.sampler._points is not before
    assert study.best_value < 1e-2


def test_the_start():
    study = study_with({"x0": {"x": 2.0, "y": 0.01}})
    study.optimize(loss, n_trials=2)
    assert study.trials[0].params == {"x": 2.0, "y": 0.01}
    assert study.trials[1].params == pytest.approx({"x": 2.0, "y": 0.01})
    wrong = study_with({"x0": {"x": 200.0}})
    with pytest.raises(ValueError, match="`x0` must be between"):
        wrong.optimize(loss, n_trials=1)


def test_what_it_refuses():
    with pytest.raises(ValueError, match="There is no method 'tpe'"):
        sampler.GensmoothSampler("tpe")
    with pytest.raises(ValueError, match="method='auto' chooses `spacing` itself"):
        sampler.GensmoothSampler(spacing=0.1)
    study = optuna.create_study(sampler=sampler.GensmoothSampler(), directions=["minimize"] * 2)
    with pytest.raises(ValueError, match="a single objective"):
        study.optimize(lambda t: (t.suggest_float("x", 0, 1),) * 2, n_trials=2)


def test_a_sampler_can_be_pickled():
    study = study_with()
    study.optimize(loss, n_trials=10)
    study.sampler = pickle.loads(pickle.dumps(study.sampler))
    study.optimize(loss, n_trials=10)
    whole = study_with()
    whole.optimize(loss, n_trials=20)
    assert values_of(study) == values_of(whole)


def test_the_form_that_optunahub_wants():
    """A package with a sampler, front matter, a licence, requirements and an example that runs."""
    spec = importlib.util.spec_from_file_location("hub_gensmooth", HUB / "__init__.py")
    package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    assert package.__all__ == ["GensmoothSampler"]
    assert package.GensmoothSampler is sampler.GensmoothSampler
    matter = (HUB / "README.md").read_text().split("---")[1]
    for name in ("author", "title", "description", "tags", "optuna_versions", "license"):
        assert f"\n{name}: " in matter
    assert (HUB / "LICENSE").read_text().startswith("MIT License")
    assert "gensmooth[optuna]" in (HUB / "requirements.txt").read_text()
    example = (HUB / "example.py").read_text()
    assert "optunahub.load_module" in example
    local = example.replace('optunahub.load_module("samplers/gensmooth")', "package")
    names = {"package": package, "__name__": "__main__"}
    exec(local.replace("import optunahub\n", ""), names)
    assert names["study"].best_value < 1e-2
    assert gs.__version__
