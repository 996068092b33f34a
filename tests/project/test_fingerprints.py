"""Results are what they were, to the last bit: every fingerprint is equal to the recorded one."""

import pytest

import fingerprints
import fingerprints_engines
import fingerprints_searches
import gensmooth as gs
from fingerprints_compare import RECORDED, compare

RECORDS = "records of whole studies, and every robot term by term"
CASES = fingerprints.every_case()
APART = (
    *("train", "train robots", "train searches", "warp-cpu", "keys"),  # a test for each member
    "JAX",  # in test_jax.py, which has it imported and its generator compiled
    "study controller",  # in test_demo.py, which makes this run
)


def test_every_case_is_recorded():
    for group, members in CASES.items():
        assert members.keys() == RECORDED["groups"][group].keys()
    assert CASES.keys() == RECORDED["groups"].keys()


def test_every_name_has_a_case():
    """A method, an algorithm, an estimator, a study or a robot that is added needs fingerprints."""
    from gensmooth.estimators import ESTIMATORS
    from gensmooth.lab import STUDIES
    from gensmooth.searches.algorithms import ALGORITHMS

    searches = fingerprints_searches
    ours = {name for name, entry in gs.directions.METHODS.items() if _is_ours(entry.make)}
    assert {*fingerprints.METHODS, *searches.NEWER} == ours
    ours = {name for name, entry in ALGORITHMS.items() if _is_ours(entry.make)}
    assert {*searches.ALGORITHMS, *searches.TRAINING_ONLY} == ours
    assert set(ESTIMATORS) <= set(searches.EVERY_ESTIMATOR)
    assert {words.split()[0] for words in fingerprints.STUDIES.values()} == set(STUDIES)


def _is_ours(made):
    """Other tests may have registered something."""
    return getattr(made, "func", made).__module__.startswith("gensmooth.")


def test_every_robot_has_a_case():
    pytest.importorskip("mujoco", reason="MuJoCo has no release for this Python")
    from gensmooth.rl.environments import catalogue

    ours = {name for name in catalogue.names() if ":" not in name}
    assert ours - set(fingerprints_engines.ROBOTS) == {n for n in ours if n.startswith("ML1-")}
    trained = {name.partition(",")[0] for name in fingerprints.TRAININGS}
    trained = {catalogue.canonical(name) for name in trained} | set(fingerprints_engines.SIMULATED)
    assert ours <= trained


def _group(name):
    marks = [pytest.mark.extended("torch")] if name == "torch" else []
    marks += [pytest.mark.extended(RECORDS)] if name.startswith("study ") else []
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("group", [_group(name) for name in CASES if name not in APART])
def test_results(group):
    compare(group, CASES[group])


@pytest.mark.parametrize("name", CASES["train"])
def test_trainings(name):
    compare("train", {name: CASES["train"][name]})


@pytest.mark.extended(RECORDS)
@pytest.mark.parametrize("name", CASES["train robots"])
def test_every_robot(name):
    compare("train robots", {name: CASES["train robots"][name]})


@pytest.mark.parametrize("name", CASES["train searches"])
def test_trainings_by_other_searches(name):
    compare("train searches", {name: CASES["train searches"][name]})


@pytest.mark.extended("Warp")
@pytest.mark.parametrize("name", CASES["warp-cpu"])
def test_every_robot_in_fused_physics(name):
    compare("warp-cpu", {name: CASES["warp-cpu"][name]})


@pytest.mark.parametrize("name", CASES["keys"])
def test_keys(name):
    """Keys are text: they are equal everywhere."""
    assert CASES["keys"][name]() == RECORDED["groups"]["keys"][name]


@pytest.fixture(scope="module")
def two():
    """Two processes for many runs: starting them takes longer than the runs."""
    with gs.evaluators.Processes(2) as started:
        yield started


@pytest.mark.parametrize("name", fingerprints.WORKERS)
def test_workers_do_not_show(name, two):
    compare("workers", {name: lambda: fingerprints.worked(name, two)})


@pytest.mark.parametrize("name", fingerprints_searches.WORKERS)
def test_workers_do_not_show_in_other_searches(name, two):
    group = "workers of algorithms"
    compare(group, {name: lambda: fingerprints_searches.worked(name, two)})


def test_workers_of_its_own_do_not_show():
    name = "guided-es/forward/independent/float64"
    compare("workers", {name: lambda: fingerprints.worked(name, 2)})


@pytest.mark.parametrize("name", ["HalfCheetahRandVel", "rl_cases:Slider-v0"])
def test_workers_do_not_show_in_training(name):
    compare("train", {name: lambda: fingerprints.trained(name, workers=2)})
