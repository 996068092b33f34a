"""Episodes on a GPU: what the engines compute is what MuJoCo computes.

That is to rounding for physics that is one function (test_fused.py has its steps), and as far as
float32 goes for MuJoCo Warp, whose tests are left out where it is not installed. All of it runs on
Warp's own CPU device; where there is a GPU, the comparisons run there too. Warp's kernels are
compiled once (half a minute), and simulators are shared, with short episodes.
"""

import faulthandler
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("warp", reason="needs Warp (docs/gpu.md): make test-all")

import warp

import gensmooth as gs
from gensmooth.physics import drivers, symbols
from gensmooth.physics.environment import CompiledEnvironment
from gensmooth.physics.fused.lanes import count_local_numbers
from gensmooth.physics.mujoco_calls import load_mujoco, physics
from gensmooth.physics.robots.hopper import hopper
from gensmooth.rl.defaults import GPU_DIRECTIONS, NUM_DIRECTIONS
from gensmooth.rl.environments import catalogue, worlds_batch
from gensmooth.rl.environments.base import Episodes, UnsupportedEnvironmentError
from gensmooth.rl.environments.warp import Grouped, Usage, WarpOptions, WarpSimulator
from gensmooth.rl.normalize import EpisodeMoments, Scaling, identity
from gensmooth.rl.policies import MLP, Linear, Policy

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import own_robot

if not warp.get_cuda_devices():
    warp.config.optimization_level = 0  # half the time of compiling
mujoco: Any = load_mujoco()
HORIZON = 12
CUDA = bool(warp.get_cuda_devices())
DEVICES = [
    "warp-cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not CUDA, reason="there is no CUDA device here"),
        ],
    ),
]
MUJOCO_WARP = pytest.mark.skipif(
    find_spec("mujoco_warp") is None, reason="needs the extra gpu (docs/gpu.md): make test-all"
)
ENGINES = ["fused", pytest.param("mujoco-warp", marks=MUJOCO_WARP)]
SHORT = gs.rl.register_robot(
    "own_robot:Short",
    own_robot.MODEL,
    observation=own_robot.observation,
    reward=own_robot.reward,
    terminated=own_robot.terminated,
    frame_skip=2,
    horizon=HORIZON,
)
ELLIPTIC = "Ant-v5, elliptic"
# Steps, and how much returns and moments may differ. MuJoCo solves for contacts to 1e-8 of the
# inertia, and cheetah and ant double differences with every step. For float32 physics it is ten
# times the largest difference measured (docs/physics-results.md).
AGREEMENT = {
    ("own_robot:Cart", "fused"): (HORIZON, 1e-12),
    ("Hopper-v5", "fused"): (HORIZON, 1e-11),
    ("Walker2d-v5", "fused"): (HORIZON, 1e-11),
    ("HalfCheetahRandVel", "fused"): (HORIZON, 1e-9),
    ("Ant-v5", "fused"): (HORIZON, 1e-9),
    ("own_robot:Cart", "mujoco-warp"): (HORIZON, 5e-6),
    ("Hopper-v5", "mujoco-warp"): (HORIZON, 1e-4),
    (ELLIPTIC, "mujoco-warp"): (5, 4e-3),
}
AGREE = [
    pytest.param(*key, marks=[MUJOCO_WARP] if key[1] == "mujoco-warp" else []) for key in AGREEMENT
]


# --- simulators, and what they are compared with ------------------------------------------------


@cache
def environment_of(name: str, steps: int = HORIZON) -> CompiledEnvironment:
    """An environment whose episodes are short."""
    found = catalogue.make(name.partition(",")[0])._environment  # type: ignore[attr-defined]
    model = found.model()
    if name == ELLIPTIC:
        model.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    return replace(found, horizon=steps, model=lambda: model)


@cache
def simulator(
    name: str,
    device: str = "warp-cpu",
    worlds: int = 16,
    physics: str = "fused",
    steps: int = HORIZON,
) -> WarpSimulator:
    options = WarpOptions(worlds=worlds, physics=physics)
    return WarpSimulator(environment_of(name, steps), device, (int, ()), options)


class Request(NamedTuple):
    """The arguments of a rollout."""

    policy: Policy
    parameters: np.ndarray
    scaling: Scaling
    starts: np.ndarray


def request(name: str, trials: int = 8, *, scale: float = 0.1, shape: Any = None) -> Request:
    environment = environment_of(name)
    info, rng = environment, np.random.default_rng(1)
    policy = (shape or Linear()).policy(info.observation_size, info.action_size)
    scaling = Scaling(
        rng.normal(0, 0.1, info.observation_size), rng.uniform(0.5, 1.5, info.observation_size)
    )
    model = environment.model()
    starts = [environment.start(model, np.random.default_rng(i)) for i in range(trials)]
    parameters = scale * rng.standard_normal((trials, policy.num_parameters))
    return Request(policy, parameters, scaling, np.array(starts))


def by_mujoco(name: str, asked: Request, steps: int = HORIZON) -> Episodes:
    """The same episodes by MuJoCo and the plain functions, one step at a time."""
    environment = environment_of(name, steps)
    model = environment.model()
    data = mujoco.MjData(model)
    state = environment.state(model, data, physics(model, data))
    every = []
    for parameters, start in zip(asked.parameters, asked.starts, strict=True):
        mujoco.mj_resetData(model, data)
        environment.begin(state, start)
        seen, rewards, bonuses = np.empty(environment.observation_size), [], []
        observations = []
        for _ in range(environment.horizon):
            environment.observe(state, seen)
            observations.append(seen.copy())
            action = asked.policy.act(parameters, asked.scaling(seen))
            reward, bonus, ended, _ = environment.step(state, action)
            rewards.append(reward)
            bonuses.append(bonus)
            if ended:
                break
        each = np.array(observations)
        m2 = ((each - each.mean(axis=0)) ** 2).sum(axis=0)
        every.append((sum(rewards), sum(bonuses), len(rewards), each.mean(axis=0), m2))
    returns, bonuses, lengths, means, m2s = (
        np.array(column) for column in zip(*every, strict=True)
    )
    moments = EpisodeMoments(lengths, means, m2s)
    return Episodes(returns, bonuses, lengths, moments)


def assert_same_bits(one: Episodes, two: Episodes) -> None:
    for a, b in zip(one[:3], two[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    assert (one.moments is None) == (two.moments is None)
    for a, b in zip(one.moments or (), two.moments or (), strict=True):
        np.testing.assert_array_equal(a, b)


# --- the engines agree --------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "physics"), AGREE)
def test_episodes_are_those_of_mujoco(name: str, physics: str, device: str):
    steps, tolerance = AGREEMENT[name, physics]
    asked = request(name)
    found = simulator(name, device, physics=physics, steps=steps).rollout(*asked, observe=True)
    wanted = by_mujoco(name, asked, steps)
    np.testing.assert_array_equal(found.lengths, wanted.lengths)
    np.testing.assert_array_equal(found.bonuses, wanted.bonuses)
    assert np.abs(found.returns - wanted.returns).max() < tolerance
    assert found.moments is not None
    assert wanted.moments is not None
    np.testing.assert_array_equal(found.moments.counts, wanted.moments.counts)
    np.testing.assert_allclose(found.moments.means, wanted.moments.means, rtol=0, atol=tolerance)
    deviations = np.sqrt(found.moments.m2), np.sqrt(wanted.moments.m2)
    np.testing.assert_allclose(*deviations, rtol=0, atol=tolerance)


def costly(state, action):
    """Hopper's step at twice the cost of controls."""
    reward, *rest = hopper(state, action)
    for i in range(len(action)):
        reward -= 1e-3 * action[i] * action[i]
    return reward, *rest


def test_another_law_is_noticed():
    """Even with the tolerance of float32."""
    wrong = replace(environment_of("Hopper-v5"), step=costly)
    twin = WarpSimulator(wrong, "warp-cpu", (int, ()), WarpOptions(worlds=8))
    asked = request("Hopper-v5")
    found = twin.rollout(*asked).returns - by_mujoco("Hopper-v5", asked).returns
    assert np.abs(found).max() > 10 * AGREEMENT["Hopper-v5", "mujoco-warp"][1]


@pytest.mark.parametrize("name", ["Hopper-v5", "HalfCheetah", "Walker2d-v4", "Ant", "Ant-v4"])
def test_the_robots_of_the_catalogue_are_one_function(name: str):
    assert WarpSimulator(environment_of(name), "warp-cpu", (int, ())).fused is not None


@MUJOCO_WARP
def test_the_engine_can_be_declined():
    assert simulator("Hopper-v5", physics="mujoco-warp").fused is None
    other = WarpSimulator(environment_of(ELLIPTIC), "warp-cpu", (int, ()))
    assert other.fused is None
    assert other.declined == "elliptic friction cones"


def test_what_cannot_be_one_function_is_said():
    with pytest.raises(
        UnsupportedEnvironmentError,
        match="Ant-v5 has elliptic friction cones, which needs physics='mujoco-warp'",
    ):
        simulator(ELLIPTIC)


SENSED = own_robot.MODEL.replace(
    "</mujoco>", '<sensor><jointpos name="angle" joint="hinge"/></sensor></mujoco>'
)


def sensed(robot: Any) -> Any:
    return np.concatenate((robot.qpos, robot.sensordata))


def pushed(robot: Any) -> Any:
    return np.concatenate((robot.qpos, robot.cfrc_ext[1]))


@pytest.mark.parametrize(
    ("name", "observation", "words"),
    [
        ("Sensed", sensed, "an environment that reads `sensordata`"),
        ("Pushed", pushed, "contact forces beside sensors"),
    ],
)
def test_sensors_are_left_to_mujoco_warp(name: str, observation: Any, words: str):
    """MuJoCo computes contact forces with sensors at other times than without."""
    full = gs.rl.register_robot(name, SENSED, observation=observation, reward=own_robot.reward)
    with pytest.raises(
        UnsupportedEnvironmentError, match=f"{name} has {words}, which needs physics="
    ):
        simulator(full)


def test_what_only_mujoco_warp_computes_asks_for_it(monkeypatch: pytest.MonkeyPatch):
    """When the simulator is made, not when the first episode runs; with the reason."""
    drivers.load_mujoco_warp.cache_clear()
    monkeypatch.setitem(sys.modules, "mujoco_warp", None)
    words = r"Ant-v5 has elliptic friction cones.*needs mujoco_warp: pip install 'gensmooth\[gpu\]'"
    with pytest.raises(ImportError, match=rf"{words}.* device='cpu' runs every model"):
        WarpSimulator(environment_of(ELLIPTIC), "warp-cpu", (int, ()))


def test_without_warp_what_to_install_is_said_of_any_device(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "warp", None)
    words = (
        r"other than 'cpu' needs warp: pip install 'gensmooth\[rl,cuda\]'. device='cpu' does not"
    )
    with pytest.raises(ImportError, match=words):
        drivers.load_warp.__wrapped__()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"worlds": 0}, "`worlds`"),
        ({"worlds": 2.5}, "`worlds`"),
        ({"physics": "bullet"}, "`physics` must be one of 'fused', 'mujoco-warp', but is 'bullet'"),
        ({"physics": 1}, "`physics`"),
        ({"deterministic": "yes"}, "`deterministic`"),
    ],
)
def test_bad_options_are_refused(given: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        WarpOptions(**given)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [MLP((8,)), MLP((5, 3), biases=False)], ids=str)
def test_policies_with_hidden_layers_act_as_in_numpy(shape: Any, device: str):
    asked = request("own_robot:Cart", scale=1.0, shape=shape)
    found = simulator("own_robot:Cart", device).rollout(*asked)
    wanted = by_mujoco("own_robot:Cart", asked)
    np.testing.assert_array_equal(found.lengths, wanted.lengths)
    np.testing.assert_allclose(found.returns, wanted.returns, rtol=1e-13)


# --- where an episode runs is no part of its result ---------------------------------------------


def ragged(name: str = "own_robot:Cart", trials: int = 23) -> Request:
    """Episodes of different lengths: some carts begin so fast that they soon reach the end."""
    asked = request(name, trials, scale=1.0)
    asked.starts[:, 2] = np.linspace(0.0, 40.0, trials)
    return asked


def test_as_many_worlds_side_by_side_as_a_thread_has_room_for(monkeypatch: pytest.MonkeyPatch):
    usual = simulator("own_robot:Cart", worlds=4).fused
    assert usual is not None
    assert usual.lanes == 4
    need = 8 * count_local_numbers(usual.step)

    def made() -> WarpSimulator:
        options = WarpOptions(worlds=4, physics="fused")
        return WarpSimulator(environment_of("own_robot:Cart"), "warp-cpu", (int, ()), options)

    monkeypatch.setattr(drivers, "_STACK", 3 * need)
    fewer = made()
    assert fewer.fused == usual._replace(lanes=2)
    asked = ragged()
    assert_same_bits(fewer.rollout(*asked), simulator("own_robot:Cart").rollout(*asked))
    monkeypatch.setattr(drivers, "_STACK", need - 1)
    with pytest.raises(
        UnsupportedEnvironmentError, match="more possible contacts than a thread has room for"
    ):
        made()


@pytest.mark.parametrize("worlds", [1, 2, 8])
def test_a_network_acts_the_same_beside_any_other(worlds: int):
    """A processor adds up for several worlds at once, if there are so many, in whatever order."""
    asked = request("own_robot:Cart", 11, scale=1.0, shape=MLP((5,)))
    asked.starts[:, 2] = np.linspace(0.0, 40.0, 11)
    wanted = by_mujoco("own_robot:Cart", asked)
    assert len(set(wanted.lengths)) > 3
    all_at_once = simulator("own_robot:Cart", worlds=16).rollout(*asked, observe=True)
    np.testing.assert_allclose(all_at_once.returns, wanted.returns, rtol=1e-13)
    found = simulator("own_robot:Cart", worlds=worlds).rollout(*asked, observe=True)
    assert_same_bits(found, all_at_once)


@pytest.mark.parametrize("physics", ENGINES)
def test_worlds_that_are_refilled_give_the_same_bits(physics: str):
    """More episodes than worlds, as many, and in another order."""
    asked = ragged()
    few = simulator("own_robot:Cart", worlds=4, physics=physics)
    few.usage, few._lengths = Usage(), None
    one = few.rollout(*asked, observe=True)
    assert len(set(one.lengths)) > 3
    two = simulator("own_robot:Cart", worlds=32, physics=physics).rollout(*asked, observe=True)
    assert_same_bits(one, two)
    wanted = by_mujoco("own_robot:Cart", asked)
    np.testing.assert_array_equal(one.lengths, wanted.lengths)
    assert few.usage.simulated < 4 * 23 * HORIZON  # worlds do not wait for the longest
    assert few.usage.live == one.lengths.sum()
    order = np.random.default_rng(0).permutation(23)
    mixed = few.rollout(
        asked.policy, asked.parameters[order], asked.scaling, asked.starts[order], observe=True
    )
    np.testing.assert_array_equal(mixed.returns, one.returns[order])


def test_threads_share_episodes_and_change_no_bit():
    asked = request("Hopper-v5", trials=70)
    fresh = WarpSimulator(
        environment_of("Hopper-v5"), "warp-cpu", (int, ()), WarpOptions(worlds=24)
    )
    three = fresh.rollout(*asked, observe=True, threads=3)
    assert fresh.usage.live == three.lengths.sum()
    assert len({key[2] for key in fresh._batches if key[2][1] == 3}) == 3  # one batch for each
    assert all(worlds * shares <= 24 for _, worlds, (_, shares) in fresh._batches)
    for threads in (1, 2, None):
        assert_same_bits(fresh.rollout(*asked, observe=True, threads=threads), three)


@pytest.mark.parametrize(
    ("name", "physics"),
    [("Ant-v5", "fused"), pytest.param(ELLIPTIC, "mujoco-warp", marks=MUJOCO_WARP)],
)
def test_what_is_seen_at_the_start_is_known_to_worlds_that_are_refilled(name: str, physics: str):
    """Ant sees forces and its torso's place from before: a new episode has its own."""
    asked, steps = request(name, 3), AGREEMENT[name, physics][0]
    few, many = (simulator(name, worlds=n, physics=physics, steps=steps) for n in (2, 16))
    assert_same_bits(few.rollout(*asked, observe=True), many.rollout(*asked, observe=True))


def test_groups_with_scalings_of_their_own_run_side_by_side():
    asked = ragged(trials=12)
    scalings = [asked.scaling, identity(4), Scaling(np.full(4, 0.1), np.full(4, 2.0))]
    groups = np.arange(12) % 3
    engine = simulator("own_robot:Cart")
    together = engine.rollout_grouped(
        asked.policy, Grouped(asked.parameters, asked.starts, scalings, groups), observe=True
    )
    for group, scaling in enumerate(scalings):
        rows = groups == group
        alone = engine.rollout(
            asked.policy, asked.parameters[rows], scaling, asked.starts[rows], observe=True
        )
        np.testing.assert_array_equal(together.returns[rows], alone.returns)
        assert together.moments is not None
        assert alone.moments is not None
        np.testing.assert_array_equal(together.moments.m2[rows], alone.moments.m2)


def test_one_simulator_may_be_asked_by_several_threads():
    """They wait for each other: worlds are kept from call to call."""
    found, asked = simulator("own_robot:Cart"), [ragged(trials=23), ragged(trials=40)] * 4
    wanted = [simulator("own_robot:Cart").rollout(*each, observe=True) for each in asked[:2]] * 4
    with ThreadPoolExecutor(len(asked)) as pool:
        got = list(pool.map(lambda each: found.rollout(*each, observe=True), asked))
    for one, two in zip(got, wanted, strict=True):
        assert_same_bits(one, two)


def test_several_simulators_may_be_asked_by_several_threads():
    """On the processor Warp captures whatever any thread launches: they wait for each other."""

    def fresh(name: str):
        return WarpSimulator(environment_of(name), "warp-cpu", (int, ()), WarpOptions(worlds=16))

    asked = [("own_robot:Cart", ragged(trials=23)), ("Hopper-v5", request("Hopper-v5", 8))]
    wanted = [fresh(name).rollout(*each, observe=True) for name, each in asked] * 6
    with ThreadPoolExecutor(len(wanted)) as pool:
        got = list(pool.map(lambda each: fresh(each[0]).rollout(*each[1], observe=True), asked * 6))
    for one, two in zip(got, wanted, strict=True):
        assert_same_bits(one, two)


@pytest.mark.parametrize("started", [True, False])
def test_an_interrupt_while_threads_start_leaves_none_behind(
    started: bool, monkeypatch: pytest.MonkeyPatch
):
    """Whether or not the thread had started: no rollout afterwards shares its worlds with it."""
    asked = request("Hopper-v5", trials=64)
    here = WarpSimulator(environment_of("Hopper-v5"), "warp-cpu", (int, ()))
    wanted = here.rollout(*asked, observe=True, threads=2)
    start, calls = threading.Thread.start, []

    def interrupted(thread: threading.Thread) -> None:
        calls.append(thread)
        if len(calls) < 2 or started:
            start(thread)
        if len(calls) == 2:
            raise KeyboardInterrupt

    for _ in range(5):
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                here.rollout(*asked, observe=True, threads=2)
        assert_same_bits(here.rollout(*asked, observe=True, threads=2), wanted)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_does_not_wait_for_threads_that_it_does_not_have():
    asked, environment = request("own_robot:Cart", 3), environment_of("own_robot:Cart")
    wanted = simulator("own_robot:Cart").rollout(*asked).returns

    def in_fork() -> None:
        faulthandler.dump_traceback_later(60, exit=True)  # not for ever, should it hang
        found = WarpSimulator(environment, "warp-cpu", (int, ())).rollout(*asked).returns
        os._exit(not np.array_equal(found, wanted))

    ready, over = threading.Event(), threading.Event()

    def busy() -> None:
        with worlds_batch.captures, symbols._tracing:
            ready.set()
            over.wait()

    other = threading.Thread(target=busy)
    other.start()
    ready.wait()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python, and JAX where it is loaded, of forks
            child = os.fork()
        if child == 0:
            in_fork()
        assert os.waitpid(child, 0)[1] == 0
    finally:
        over.set()
        other.join()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["own_robot:Cart", "Ant-v5"])
def test_a_captured_step_is_the_step(name: str, device: str):
    asked = request(name, 5)
    captured, launched = (
        WarpSimulator(environment_of(name), device, (int, ()), WarpOptions(worlds=4))
        for _ in range(2)
    )
    found = captured.rollout(*asked, observe=True)
    assert all(batch._graph is not None for batch in captured._batches.values())
    launched.rollout(*asked)
    for batch in launched._batches.values():
        batch._graph = None
    assert_same_bits(launched.rollout(*asked, observe=True), found)


def test_no_episodes_are_no_episodes():
    asked = request("own_robot:Cart", 1)
    none = simulator("own_robot:Cart").rollout(
        asked.policy, asked.parameters[:0], asked.scaling, asked.starts[:0], observe=True
    )
    assert none.returns.shape == (0,)
    assert none.moments is not None
    assert none.moments.means.shape == (0, 4)


@MUJOCO_WARP
@pytest.mark.parametrize("device", DEVICES)
def test_too_little_room_for_contacts_is_doubled_until_it_suffices(device: str):
    asked = request("Hopper-v5", 4)
    asked.starts[:, 1] -= 0.08  # it stands on the floor, or in it
    options = WarpOptions(worlds=4, physics="mujoco-warp")
    tight = WarpSimulator(environment_of("Hopper-v5"), device, (int, ()), options)
    tight._room.contacts, tight._room.constraints = 1, 8
    found = tight.rollout(*asked)
    assert tight._room.contacts > 1
    _, tolerance = AGREEMENT["Hopper-v5", "mujoco-warp"]
    np.testing.assert_allclose(
        found.returns, by_mujoco("Hopper-v5", asked).returns, atol=10 * tolerance
    )


# --- faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("physics", ENGINES)
@pytest.mark.parametrize("name", ["own_robot:Cart", "Hopper-v5"])
def test_a_world_that_breaks_down_is_nan_and_disturbs_no_other(
    name: str, physics: str, device: str
):
    """Cart's reward does not see the action, and its motor clips it: NaN must not pass."""
    asked = request(name, 9)
    asked.parameters[2] = np.nan
    asked.parameters[3] = 1e30
    asked.parameters[4] = 1e300  # beyond float32
    asked.starts[5, 1] = np.nan
    asked.starts[6, 1] = 1e12
    engine = simulator(name, device, 4, physics)
    found = engine.rollout(*asked, observe=True)
    broken = [2, 3, 4, 5, 6]
    assert np.isnan(found.returns[broken]).all()
    assert np.isnan(found.bonuses[broken]).all()
    assert found.moments is not None
    assert (found.moments.counts[broken] == 0).all()
    whole = [0, 1, 7, 8]
    assert np.isfinite(found.returns[whole]).all()
    clean = engine.rollout(
        asked.policy, asked.parameters[whole], asked.scaling, asked.starts[whole], observe=True
    )
    if device == "warp-cpu" or physics == "fused":
        np.testing.assert_array_equal(clean.returns, found.returns[whole])


FLYWHEEL = """
<mujoco>
  <option timestep="0.0001"/>
  <worldbody>
    <body><joint name="axle" axis="0 0 1"/><geom size="0.01" mass="0.001"/></body>
  </worldbody>
  <actuator><motor joint="axle" gear="1000"/></actuator>
</mujoco>
"""


def spun(robot):
    return np.array([1.0, robot.qvel[0]])


def unpaid(robot, action):  # noqa: ARG001
    return 0.0 * robot.qvel[0]


@pytest.mark.parametrize("device", ["cpu", *DEVICES])
def test_an_acceleration_beyond_all_bounds_breaks_an_episode(device: str):
    """Where the velocity is not: MuJoCo would put the robot back to its start and go on."""
    name = gs.rl.register_robot(
        "own_robot:Flywheel", FLYWHEEL, observation=spun, reward=unpaid, horizon=3
    )
    engine: Any = gs.rl.make(name, device=device)
    policy = Linear().policy(2, 1)
    parameters = np.array([[0.1, 0.0], [10.0, 0.0]])  # radians/s²: 2.5e9 and 2.5e11
    starts = engine.starts([np.random.default_rng(i) for i in range(2)])
    found = engine.rollout(policy, parameters, identity(2), starts)
    assert np.isnan(found.returns).tolist() == [False, True]


def dazzled(robot):
    """What is seen grows beyond all bounds for a moment."""
    return np.array([robot.qpos[0], robot.qvel[0], np.exp(1e4 * (np.abs(robot.qvel[0]) - 0.05))])


@pytest.mark.parametrize("device", ["cpu", *DEVICES])
def test_an_observation_that_is_not_finite_breaks_its_episode_whatever_the_policy(device: str):
    name = gs.rl.register_robot(
        "own_robot:Dazzled",
        own_robot.MODEL,
        observation=dazzled,
        reward=own_robot.reward,
        terminated=own_robot.terminated,
        horizon=HORIZON,
    )
    engine: Any = gs.rl.make(name, device=device)
    policy = MLP((4,)).policy(3, 1)
    parameters = np.random.default_rng(0).standard_normal((12, policy.num_parameters))
    parameters[:6] = 0.0  # stand still
    starts = engine.starts([np.random.default_rng(i) for i in range(12)])
    found = engine.rollout(policy, parameters, identity(3), starts, observe=True)
    assert 0 < np.isnan(found.returns).sum() < 12
    assert ((found.moments.counts == 0) == np.isnan(found.returns)).all()
    fine = ~np.isnan(found.returns)
    assert np.isfinite(found.moments.means[fine]).all()


# --- training -----------------------------------------------------------------------------------

OPTIONS: dict[str, Any] = {
    "device": "warp-cpu",
    "num_directions": 3,
    "method": "bes",
    "max_steps": 4,
    "test_every": 2,
    "test_episodes": 3,
    "seed": 5,
}


def same(one: Any, other: Any) -> None:
    """Whether two trainings are the same to the last bit."""
    a, b = one.state, other.state
    assert a.search.x.tobytes() == b.search.x.tobytes()
    assert a.statistics.m2.tobytes() == b.statistics.m2.tobytes()
    assert a.env_steps == b.env_steps
    assert one.history == other.history
    assert one.tests == other.tests


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("warp") / "run"
    return gs.rl.train(SHORT, **OPTIONS, folder=folder), folder


def test_a_training_that_was_stopped_goes_on_to_the_same_bits(trained: Any, tmp_path: Path):
    whole, _ = trained

    def stop(now: Any) -> None:
        if now.info.step == 2:
            raise KeyboardInterrupt

    gs.rl.train(SHORT, **OPTIONS, folder=tmp_path / "run", callback=stop)
    same(gs.rl.resume(tmp_path / "run"), whole)


def test_the_folder_knows_its_device(trained: Any):
    _, folder = trained
    config = json.loads((folder / "config.json").read_text())
    assert config["environment"]["device"] == "warp-cpu"


def test_on_the_cpu_the_directions_are_the_same_and_the_folder_names_the_device(
    trained: Any, tmp_path: Path
):
    """The same training but for rounding."""
    whole, _ = trained
    cpu = gs.rl.train(SHORT, **{**OPTIONS, "device": "cpu"}, folder=tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["environment"]["device"] == "cpu"
    np.testing.assert_allclose(cpu.state.search.x, whole.state.search.x, rtol=1e-9, atol=1e-12)
    assert cpu.state.env_steps == whole.state.env_steps


def test_evaluations_on_both_devices_agree(trained: Any):
    _, folder = trained
    here, there = (
        gs.rl.evaluate(folder, episodes=5, seed=1, device=device, trust=True)
        for device in ("cpu", "warp-cpu")
    )
    np.testing.assert_allclose(there.returns, here.returns, rtol=1e-13)
    np.testing.assert_array_equal(there.lengths, here.lengths)


def test_an_iteration_has_more_directions_by_default(tmp_path: Path):
    for device in ("cpu", "warp-cpu"):
        gs.rl.train(SHORT, device=device, method="bes", max_steps=0, folder=tmp_path / device)
    numbers = [
        json.loads((tmp_path / device / "config.json").read_text())["search"]["num_directions"]
        for device in ("cpu", "warp-cpu")
    ]
    assert numbers == [NUM_DIRECTIONS, GPU_DIRECTIONS]
    assert GPU_DIRECTIONS > NUM_DIRECTIONS


# --- names, errors, processes -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "device", "options", "error", "words"),
    [
        (SHORT, "gpu", {}, ValueError, "'cpu', 'cuda', 'cuda:1' and so on"),
        (SHORT, 3, {}, ValueError, "`device` must be a non-empty string, but is 3"),
        (SHORT, "cuda:99", {}, ValueError, "no CUDA device|this machine has"),
        (
            "ML1-Reach",
            "warp-cpu",
            {},
            UnsupportedEnvironmentError,
            "Meta-World, which needs the CPU",
        ),
        ("CartPole-v1", "warp-cpu", {}, UnsupportedEnvironmentError, "which needs the CPU"),
        (
            "Hopper-v5",
            "warp-cpu",
            {"env_args": {"frame_skip": 2}},
            UnsupportedEnvironmentError,
            "which needs the CPU",
        ),
        (
            SHORT,
            "warp-cpu",
            {"workers": 2},
            ValueError,
            "omit `workers`, `timeout` and `retries`",
        ),
        (
            SHORT,
            "warp-cpu",
            {"timeout": 3.0},
            ValueError,
            "omit `workers`, `timeout` and `retries`",
        ),
    ],
)
def test_bad_devices_are_refused(
    name: str, device: Any, options: dict[str, Any], error: Any, words: str
):
    with pytest.raises(error, match=words):
        gs.rl.train(name, device=device, max_steps=1, **options)


@pytest.mark.skipif(CUDA, reason="there is a CUDA device here")
def test_where_there_is_no_cuda_device_that_is_said():
    with pytest.raises(ValueError, match="this machine has no CUDA device"):
        gs.rl.make("Hopper-v5", device="cuda")


def counted(robot: Any, action: Any) -> float:
    return float(int(robot.qpos[0])) + 0.0 * action[0]


def test_a_robot_that_cannot_be_traced_is_refused_by_name():
    name = gs.rl.register_robot(
        "Counted", own_robot.MODEL, observation=own_robot.observation, reward=counted
    )
    with pytest.raises(UnsupportedEnvironmentError, match=r"Counted cannot run on a GPU: .*int\("):
        gs.rl.make(name, device="warp-cpu")


def test_simulators_travel_to_other_processes():
    made: Any = gs.rl.make(SHORT, device="warp-cpu")
    again = pickle.loads(pickle.dumps(made))
    assert again.info == made.info
    assert again.info.device == "warp-cpu"
    asked = request("own_robot:Cart", 3)
    np.testing.assert_array_equal(again.rollout(*asked).returns, made.rollout(*asked).returns)


def test_the_command_line_takes_a_device_and_warp_prints_nothing_of_its_own(tmp_path: Path):
    shutil.copy(own_robot.__file__, tmp_path)
    line = [sys.executable, "-m", "gensmooth", "train", "own_robot:Cart", "--device", "warp-cpu"]
    done = subprocess.run(
        [*line, "--max-steps", "0", "--test-episodes", "2", "--seed", "0", "--folder", "cart"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "own_robot:Cart" in done.stdout
    assert "Warp 1" not in done.stdout + done.stderr  # its banner
    assert "Module" not in done.stdout + done.stderr  # a line for every kernel
    config = json.loads((tmp_path / "cart" / "config.json").read_text())
    assert config["environment"]["device"] == "warp-cpu"


def test_a_first_compilation_is_announced_on_a_terminal(monkeypatch: Any, capsys: Any):
    shared = simulator("own_robot:Cart")
    shared.rollout(*request("own_robot:Cart"))
    modules = next(iter(shared._batches.values()))._modules
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    worlds_batch._announce_compilation(modules, "Cart")
    assert capsys.readouterr().err == ""  # they are in the cache
    law, physics_of_a_step = modules
    others = [
        [law, SimpleNamespace(name="another")],
        [SimpleNamespace(name="another"), physics_of_a_step],
    ]
    for some in others:  # of a robot whose law was compiled for another device
        worlds_batch._announce_compilation(some, "Cart")
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("gensmooth: compiling Cart for ")


def test_the_page_runs(tmp_path: Path, monkeypatch: Any):
    """The robot of docs/gpu.md, as a module: made on this device, and the same on both."""
    text = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M)
    (tmp_path / "stick.py").write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    assert gs.rl.make("stick:Stick", device="warp-cpu").info.observation_size == 3
    asked = request("stick:Stick", 4, scale=1.0)
    found = simulator("stick:Stick").rollout(*asked)
    np.testing.assert_allclose(found.returns, by_mujoco("stick:Stick", asked).returns, rtol=1e-12)
    compiled = gs.rl.make("stick:Stick").rollout(*asked)  # which Numba must know, too
    assert (compiled.lengths == 200).all()


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="there is no CUDA device here")
@pytest.mark.parametrize("physics", ENGINES)
def test_a_step_is_one_graph_and_repeats_on_cuda(physics: str):
    asked = ragged(trials=64)
    engine = simulator("own_robot:Cart", "cuda", 16, physics)
    one = engine.rollout(*asked, observe=True)
    assert all(batch._graph is not None for batch in engine._batches.values())
    two = engine.rollout(*asked, observe=True)
    if physics == "fused":
        assert_same_bits(one, two)
    wanted = by_mujoco("own_robot:Cart", asked)
    _, tolerance = AGREEMENT["own_robot:Cart", physics]
    for found in (one, two):
        np.testing.assert_array_equal(found.lengths, wanted.lengths)
        np.testing.assert_allclose(found.returns, wanted.returns, atol=10 * tolerance)
