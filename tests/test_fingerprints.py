"""Results are what they were, to the last bit: every fingerprint is equal to the recorded one.

On another type of processor, or with other versions of what computes, bits differ: there the
leading numbers are compared, and chaotic simulations not at all.
"""

import json
from importlib.util import find_spec

import pytest

import fingerprints
import gensmooth as gs

RECORDED = json.loads(fingerprints.FILE.read_text())
CASES = fingerprints.cases()
SAME_MACHINE = fingerprints.machine() == RECORDED["machine"]
# float32 has seven digits, a few steps lose some; wrong formulas lose all.
ELSEWHERE = 1e-3


def compare(group: str, members) -> None:
    if group.startswith(("train", "study rl")) and not find_spec("mujoco"):
        pytest.skip("MuJoCo has no release for this Python")
    recorded = RECORDED["groups"][group]
    found = {name: run() for name, run in members.items()}
    if SAME_MACHINE:
        changed = [name for name in found if found[name] != recorded[name]]
        assert not changed, f"{len(changed)} of {len(found)} changed"
        return
    for name, each in found.items():
        for exact in ("keys", "runs"):
            assert each.get(exact) == recorded[name].get(exact), name
        now, then = ([float(number) for number in run["lead"]] for run in (each, recorded[name]))
        assert now == pytest.approx(then, rel=ELSEWHERE, abs=ELSEWHERE, nan_ok=True), name


def test_every_case_is_recorded():
    for group, members in CASES.items():
        assert members.keys() == RECORDED["groups"][group].keys()
    assert CASES.keys() == RECORDED["groups"].keys()
    assert set(fingerprints.METHODS) <= set(gs.METHODS)


@pytest.mark.parametrize("group", [name for name in CASES if name not in ("train", "keys")])
def test_results(group):
    compare(group, CASES[group])


@pytest.mark.parametrize("name", CASES["train"])
def test_trainings(name):
    compare("train", {name: CASES["train"][name]})


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


def test_workers_of_its_own_do_not_show():
    name = "guided-es/forward/independent/float64"
    compare("workers", {name: lambda: fingerprints.worked(name, 2)})


@pytest.mark.parametrize("name", ["HalfCheetahRandVel", "rl_cases:Slider-v0"])
def test_workers_do_not_show_in_training(name):
    compare("train", {name: lambda: fingerprints.trained(name, workers=2)})
