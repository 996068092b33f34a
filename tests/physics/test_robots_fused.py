"""Gymnasium's robots on Warp's own CPU device, by the physics that is one function, as by MuJoCo.

MuJoCo solves as exactly as it can here, so that what is compared is the law and not a tolerance.
"""

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("warp", reason="needs Warp (docs/gpu.md): make test-all")
pytest.importorskip("gymnasium")

import warp
from numba.extending import register_jitable

from gensmooth.physics.drivers import load_warp
from gensmooth.physics.environment import CompiledEnvironment
from gensmooth.physics.robots import inverted_double_pendulum
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.base import Episodes
from gensmooth.rl.environments.compiled import CompiledSimulator
from gensmooth.rl.environments.warp import WarpOptions, WarpSimulator
from gensmooth.rl.normalize import Scaling
from gensmooth.rl.policies import Linear, Policy
from mechanisms import exact

CUDA = bool(load_warp().get_cuda_devices())
if not CUDA:
    warp.config.optimization_level = 0  # half the time of compiling
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
# Steps, and how much returns and moments may differ: rounding grows with every step.
AGREEMENT = {
    "Swimmer-v4": (100, 1e-10),
    "Swimmer-v5": (100, 1e-10),
    "InvertedPendulum-v4": (60, 1e-10),
    "InvertedPendulum-v5": (60, 1e-10),
    "InvertedDoublePendulum-v4": (40, 1e-9),
    "InvertedDoublePendulum-v5": (40, 1e-9),
    "Humanoid-v4": (20, 1e-9),
    "Humanoid-v5": (20, 1e-9),
}
SCALE = {"Humanoid": 0.003}  # of a policy: it observes inertias and forces of hundreds


@cache
def environment_of(name: str) -> CompiledEnvironment:
    """An environment whose episodes are short, and whose physics MuJoCo solves exactly."""
    found = catalogue.make(name)._environment  # type: ignore[attr-defined]
    model = found.model()
    exact(model)
    return replace(found, horizon=AGREEMENT[name][0], model=lambda: model)


class Request(NamedTuple):
    """The arguments of a rollout."""

    policy: Policy
    parameters: np.ndarray
    scaling: Scaling
    starts: np.ndarray


def request(environment: CompiledEnvironment, trials: int = 8) -> Request:
    info, rng = environment, np.random.default_rng(1)
    policy = Linear().policy(info.observation_size, info.action_size)
    size = info.observation_size
    scaling = Scaling(rng.normal(0, 0.1, size), rng.uniform(0.5, 1.5, size))
    model = environment.model()
    starts = [environment.start(model, np.random.default_rng(i)) for i in range(trials)]
    scale = SCALE.get(info.name[:-3], 0.3)
    parameters = scale * rng.standard_normal((trials, policy.num_parameters))
    starts = np.array(starts)
    if info.name.startswith("Inverted"):  # some carts begin at the end of their rail
        starts[::2, 0] = np.linspace(-1.001, 1.001, len(starts[::2]))
    if info.name.startswith("Humanoid"):  # it stands on the floor, or in it, and some fall fast
        starts[:, 2] -= np.linspace(0.1, 0.2, trials)
        starts[::4, -21] = -10.0
    return Request(policy, parameters, scaling, starts)


def fused(environment: CompiledEnvironment, device: str) -> WarpSimulator:
    return WarpSimulator(environment, device, (int, ()), WarpOptions(worlds=4, physics="fused"))


def differences(one: Episodes, two: Episodes) -> dict[str, float]:
    """How far two batches of episodes are apart, each number by its size."""
    assert one.moments is not None
    assert two.moments is not None
    pairs: dict[str, Any] = {
        "lengths": (one.lengths, two.lengths),
        "bonuses": (one.bonuses, two.bonuses),
        "returns": (one.returns, two.returns),
        "means": (one.moments.means, two.moments.means),
        "deviations": (np.sqrt(one.moments.m2), np.sqrt(two.moments.m2)),
    }
    return {
        name: float((np.abs(a - b) / np.maximum(1.0, np.abs(b))).max())
        for name, (a, b) in pairs.items()
    }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", AGREEMENT)
def test_episodes_are_those_of_mujoco(name: str, device: str):
    environment = environment_of(name)
    asked = request(environment)
    found = fused(environment, device).rollout(*asked, observe=True)
    wanted = CompiledSimulator(environment, (int, ())).rollout(*asked, observe=True)
    gaps = differences(found, wanted)
    assert gaps["lengths"] == gaps["bonuses"] == 0
    assert max(gaps.values()) < AGREEMENT[name][1]
    ended = (wanted.lengths < environment.horizon).any()
    assert ended != name.startswith("Swimmer")


@pytest.mark.parametrize("name", ["InvertedDoublePendulum-v5", "Humanoid-v5"])
def test_mujoco_warp_reads_the_same_numbers(name: str):
    """Constraint forces; inertias, velocities, motor forces: as far as float32 goes, in 3 steps."""
    pytest.importorskip("mujoco_warp", reason="needs the extra gpu (docs/gpu.md): make test-all")
    usual = environment_of(name)
    environment = replace(usual, horizon=3)
    asked = request(environment)
    options = WarpOptions(worlds=8, physics="mujoco-warp")
    found = WarpSimulator(environment, "warp-cpu", (int, ()), options).rollout(*asked, observe=True)
    wanted = CompiledSimulator(environment, (int, ())).rollout(*asked, observe=True)
    gaps = differences(found, wanted)
    assert gaps["lengths"] == gaps["bonuses"] == 0
    assert max(gaps.values()) < 1e-3


@register_jitable
def without_the_rail(state, out):
    """As the double pendulum's, but the cart does not feel the ends of its rail."""
    inverted_double_pendulum.observe(state, out)
    out[8] = 0.0


def test_a_force_that_is_missing_is_noticed():
    """So the cart does run against the ends of its rail."""
    name = "InvertedDoublePendulum-v5"
    asked = request(environment_of(name))
    twin = replace(environment_of(name), observe=without_the_rail)
    found = fused(twin, "warp-cpu").rollout(*asked, observe=True)
    wanted = CompiledSimulator(environment_of(name), (int, ())).rollout(*asked, observe=True)
    assert differences(found, wanted)["means"] > 0.1
