# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
"""ML1-Reach and ML1-Push, compiled: Meta-World's arm, its V1 reward or the current one.

The model, its limits and the reset law are read from Meta-World's own environment. A reset there
simulates the hand to its place, always the same way; here this is done once. Observation, reward
and reset law stand in docs/environments.md.
"""

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth.rl.environments import library
from gensmooth.rl.environments import metaworld_rewards as rewards
from gensmooth.rl.environments import metaworld_world as sawyer
from gensmooth.rl.environments.base import Info, missing_extra
from gensmooth.rl.environments.engine import Compiled, Task
from gensmooth.rl.environments.native import Physics

Array = NDArray[np.float64]

STEPS: dict[str, Callable[..., Any]] = {
    "ML1-Reach": rewards.step_reach_v1,
    "ML1-Push": rewards.step_push_v1,
    "ML1-Reach-v3": rewards.step_reach_current,
    "ML1-Push-v3": rewards.step_push_current,
}
NAMES = tuple(STEPS)
HORIZON = 150

_NEWEST_MUJOCO = (3, 16)
_NEWEST_PYTHON = (3, 13)
_RESUMES = ("3.3.0",)  # the MuJoCo versions whose `mj_step` is known to be what `RESUME` says


def make(name: str, *, resume: bool = True) -> Compiled:
    """The simulator of ``"ML1-Reach"``, ``"ML1-Push"`` (V1 reward) or either with ``"-v3"``.

    Args:
        name: Which.
        resume: Whether the first physics step of a step may take over what the forward pass
            before it has computed: the same bits, in less time. Only done with the MuJoCo
            version that Meta-World asks for.
    """
    reference = require()
    own = reference.ML1(name).unwrapped
    arm = _settle(own)
    space = own._random_reset_space
    resume = resume and library.load().__version__ in _RESUMES
    info = Info(name, sawyer.OBSERVATION, 4, HORIZON, fast=True, goal=True)

    def start(_: Any, rng: np.random.Generator) -> Array:
        row = reference.draw(space.low, space.high, rng)
        if "Push" in name:  # both on the table, as high as the object came to rest
            row[2] = row[5] = arm.height
        return row

    task = Task(
        info,
        model=lambda: own.model,
        world=partial(_world, arm, _limits(own), resume),
        start=start,
        begin=sawyer.begin,
        observe=sawyer.observe,
        step=STEPS[name],
    )
    return Compiled(task, (partial(make, resume=resume), (name,)))


def require() -> Any:
    """The module with Meta-World's own environments, or an error that says what to install."""
    version: str = library.load().__version__
    if tuple(int(part) for part in version.split(".")[:2]) > _NEWEST_MUJOCO:
        newest = ".".join(map(str, _NEWEST_MUJOCO))
        raise ImportError(
            f"Meta-World works with MuJoCo 3.3.0 (and up to {newest}), but {version} is "
            "installed: pip install 'mujoco==3.3.0'",
            name="mujoco",
        )
    try:
        return import_module("gensmooth.rl.environments.metaworld_reference")
    except ImportError as error:
        if sys.version_info[:2] > _NEWEST_PYTHON:
            newest = ".".join(map(str, _NEWEST_PYTHON))
            raise ImportError(
                f"Meta-World runs on Python up to {newest}, but this is Python "
                f"{sys.version_info[0]}.{sys.version_info[1]}: use an environment with an older "
                "Python and pip install 'gensmooth[rl]' there.",
                name=error.name,
            ) from error
        raise missing_extra(error) from error


class _Arm(NamedTuple):
    """The arm after the part of a reset that is always the same."""

    state: sawyer.State
    tip: Array
    height: float


def _settle(own: Any) -> _Arm:
    """Simulate 50 steps with the handle held still and the gripper open, as Meta-World does."""
    mujoco = library.load()
    data = mujoco.MjData(own.model)
    for _ in range(50):
        data.mocap_pos[0] = own.hand_init_pos
        data.mocap_quat[0] = (1.0, 0.0, 1.0, 0.0)
        data.ctrl[:] = (-1.0, 1.0)
        mujoco.mj_step(own.model, data, own.frame_skip)
    views = sawyer.views_of(own.model, data)
    copies = sawyer.State(*(array.copy() for array in sawyer.state_of(data)))
    return _Arm(copies, (views.right_tip + views.left_tip) / 2.0, float(views.object[2]))


def _limits(own: Any) -> sawyer.Limits:
    hand = own._HAND_SPACE
    return sawyer.Limits(
        np.array(own.mocap_low, np.float64),
        np.array(own.mocap_high, np.float64),
        np.array(hand.low, np.float64),
        np.array(hand.high, np.float64),
        float(own.action_scale),
        int(own.frame_skip),
    )


def _world(
    arm: _Arm, limits: sawyer.Limits, resume: bool, model: Any, data: Any, physics: Physics
) -> sawyer.World:
    functions = [library.address(name) for name in sawyer.RESUME] if resume else []
    episode = sawyer.Episode(
        target=np.zeros(3),
        object_start=np.zeros(3),
        tip_start=arm.tip,
        tip=np.zeros(3),
        now=np.zeros(sawyer.HALF),
        before=np.zeros(sawyer.HALF),
    )
    return sawyer.World(
        physics,
        np.array(functions, np.int64),
        sawyer.views_of(model, data),
        sawyer.state_of(data),
        arm.state,
        limits,
        episode,
    )
