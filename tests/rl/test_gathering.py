"""Trainings that share one batch of worlds: nobody notices the others."""

import re
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gensmooth import lab
from gensmooth.rl.environments import catalogue, gathering
from gensmooth.rl.environments.base import Episodes
from gensmooth.rl.environments.gathering import Gathering
from gensmooth.rl.normalize import EpisodeMoments, Scaling
from gensmooth.rl.policies import Policy
from gensmooth.rl.rollouts import batch_starts
from gensmooth.rl.rollouts import test_rngs as rngs_of
from gensmooth.rl.rollouts import test_starts as starts_of
from gensmooth.searches import RandomSearch

pytest.importorskip("mujoco")


class Grouping:
    """The CPU's simulator of Hopper in the place of a GPU's: group after group."""

    def __init__(self, name="Hopper-v4"):
        self._simulator = catalogue.make(name)
        self.info = replace(self._simulator.info, device="cuda")
        self.batches = []  # how many groups ran together

    def starts(self, rngs):
        return self._simulator.starts(rngs)

    def rollout_grouped(self, policy, given, *, observe=False):
        self.batches.append(len(given.scalings))
        parts = []
        for group, scaling in enumerate(given.scalings):
            these = given.groups == group
            x, starts = given.parameters[these], given.starts[these]
            parts.append(self._simulator.rollout(policy, x, scaling, starts, observe=observe))
        moments = EpisodeMoments(
            *(np.concatenate(each) for each in zip(*(p.moments for p in parts), strict=True))
        )
        joined = [np.concatenate([getattr(p, n) for p in parts]) for n in Episodes._fields[:3]]
        return Episodes(*joined, moments)


def request(simulator, seed, policy=None, number=3):
    policy = Policy((11, 3)) if policy is None else policy
    rng = np.random.default_rng(seed)
    x = 0.1 * rng.standard_normal((number, policy.num_parameters))
    scaling = Scaling(rng.standard_normal(11), 1 + rng.random(11))
    return policy, x, scaling, simulator.starts([np.random.default_rng(seed + i) for i in range(3)])


def together(simulator, requests, rounds=3):
    """What threads find that each run their request so many times."""
    shared = Gathering(simulator)
    found = [[] for _ in requests]
    ready = threading.Barrier(len(requests))

    def work(index):
        with shared.member():
            ready.wait()
            for _ in range(rounds + index % 2):  # some leave earlier than others
                found[index].append(shared.rollout(*requests[index], observe=True))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return found


def test_each_finds_what_it_would_find_alone():
    simulator = Grouping()
    deep = Policy((11, 4, 3), biases=True)
    requests = [request(simulator, s, deep if s == 2 else None) for s in range(4)]
    found = together(simulator, requests)
    alone = catalogue.make("Hopper-v4")
    for given, results in zip(requests, found, strict=True):
        expected = alone.rollout(*given, observe=True)
        for result in results:
            assert np.array_equal(result.returns, expected.returns)
            assert np.array_equal(result.lengths, expected.lengths)
            assert np.array_equal(result.moments.m2, expected.moments.m2)
    # three rounds of the three linear policies and of the one deep; then two that stay longer
    assert simulator.batches.count(3) == 3
    assert simulator.batches.count(2) == 1
    assert sum(simulator.batches) == 3 * 4 + 2


def test_what_breaks_is_told_to_all_and_a_stop_interrupts():
    simulator = Grouping()

    def broken(*_, **__):
        raise RuntimeError("the device is gone")

    simulator.rollout_grouped = broken
    shared = Gathering(simulator)
    with shared.member(), pytest.raises(RuntimeError, match="gone"):
        shared.rollout(*request(simulator, 0))
    shared.stop()
    with shared.member(), pytest.raises(KeyboardInterrupt):
        shared.rollout(*request(simulator, 0))


def test_one_that_waits_is_interrupted():
    simulator = Grouping()
    shared, seen = Gathering(simulator), []

    def wait():
        with shared.member():
            try:
                shared.rollout(*request(simulator, 0))
            except KeyboardInterrupt:
                seen.append("interrupted")

    with shared.member():  # who never asks, so that the other waits
        thread = threading.Thread(target=wait)
        thread.start()
        while not shared._waiting:
            time.sleep(0.01)
        shared.stop()
        thread.join(30)
    assert seen == ["interrupted"]
    assert simulator.batches == []


def test_members_take_turns():
    """After its first episodes a member runs alone, and each gets as many turns as it asks for."""
    simulator = Grouping()
    shared, inside, most = Gathering(simulator), [], []
    asked = [request(simulator, s) for s in range(4)]
    ready = threading.Barrier(4)

    def work(index):
        with shared.member():
            ready.wait()
            for _ in range(5):
                shared.rollout(*asked[index], observe=True)
                inside.append(index)
                most.append(len(inside))
                time.sleep(0.002)  # lets go of the interpreter: others would run now
                inside.remove(index)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert most == [1] * 20
    assert simulator.batches == [4] * 5


def test_who_is_no_member_keeps_no_turn():
    simulator = Grouping()
    shared, given = Gathering(simulator), request(simulator, 0)
    shared.rollout(*given)
    assert not gathering._TURNS.mine()
    together(simulator, [given, given], rounds=1)  # others have theirs


def test_one_that_gives_up_waiting_is_not_waited_for():
    turns = gathering.Turns()
    turns.take()
    gone, granted, last = gathering.closed(), gathering.closed(), gathering.closed()
    for gate in (gone, granted, last):
        turns.admit(gate)
    turns.withdraw(gone)  # before its turn
    turns.give()
    assert not granted.locked()
    turns.withdraw(granted)  # in its turn, which goes on to the next
    assert not last.locked()
    turns.wait(last)
    assert turns.mine()
    turns.give()
    assert not turns.mine()


@pytest.mark.parametrize("samples", ["paired", "independent", "shared"])
def test_starts_are_those_of_each_evaluations_own_generator(samples):
    """Trainings of one seed share them, and pairs their one start, to the bit."""
    simulator = Grouping()
    shared = Gathering(simulator)
    searches = [
        RandomSearch(method=method, num_directions=3, spacing=0.1, samples=samples)
        for method in ("gs", "bes")
    ]
    for seed in (0, 1):
        states = [each.init(np.zeros(5), seed=seed) for each in searches]
        for search, state in zip(searches, states, strict=True):
            batch = search.ask(state)
            expected = simulator.starts(list(batch.rngs()))
            assert np.array_equal(batch_starts(simulator, batch), expected)
            assert np.array_equal(batch_starts(shared, batch), expected)
            tests = simulator.starts(rngs_of(seed, 0, 4))
            assert np.array_equal(starts_of(shared, state, 4), tests)
            assert not np.array_equal(starts_of(shared, state, 4)[:3], expected[:3])
    assert len(shared._starts) == 4  # two seeds, an iteration and a test of each


@pytest.fixture
def on_a_device(monkeypatch):
    """A device that is the CPU."""
    made = []
    plain = catalogue.make

    def make(name, *, device="cpu", **given):
        if device == "cpu":
            return plain(name, **given)
        made.append(Grouping(name))
        return made[-1]

    monkeypatch.setattr(catalogue, "make", make)
    yield made
    gathering.stop_all()


def asked(out: Path, **given):
    return lab.reproduce(
        "rl",
        profile="quick",
        environments=["Hopper"],
        hyperparameters="paper",
        seeds=2,
        iterations=8,
        test_trials=2,
        folder=out,
        **given,
    )


def final(found):
    return {
        (r.config["method"], r.config["seed"]): r.series["return"]
        for r in found.outcomes[0].records
    }


def test_a_study_on_a_device_makes_its_runs_side_by_side(on_a_device, tmp_path):
    apart = asked(tmp_path / "cpu", workers=1)
    found = asked(tmp_path / "gpu", device="cuda")
    assert final(found) == final(apart)  # the same simulator under both, so to the bit
    assert all(r.config["device"] == "cuda" for r in found.outcomes[0].records)
    assert not any("device" in r.config for r in apart.outcomes[0].records)
    (simulator,) = on_a_device[-1:]
    assert max(simulator.batches) == 4  # two methods, two seeds
    again = asked(tmp_path / "gpu", device="cuda")
    assert again.outcomes[0].facts["runs made now"] == 0


def test_a_study_on_a_device_says_how_far_its_runs_are(on_a_device, tmp_path, monkeypatch, capfd):  # noqa: ARG001
    """They end together: by those that are finished nothing would be said until then."""
    monkeypatch.setattr("gensmooth.lab.experiments.progress._EVERY", 0.0)
    asked(tmp_path, device="cuda")
    said = re.findall(r"rl: runs: (\d) of 4, (\d+)% of the work", capfd.readouterr().err)
    shares = [int(share) for finished, share in said if finished == "0"]
    assert shares == sorted(shares)
    assert len(set(shares)) >= 8  # iterations
    assert ("4", "100") in said


def test_a_device_is_for_this_study_alone(tmp_path):
    with pytest.raises(
        ValueError, match=r"`device` \(--device\) is an option of rl, not of linreg"
    ):
        lab.reproduce("linreg", device="cuda", folder=tmp_path)
    with pytest.raises(ValueError, match="cannot be combined"):
        asked(tmp_path, device="cuda", ray="local")
