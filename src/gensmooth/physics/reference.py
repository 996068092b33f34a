# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# pyright: reportMissingTypeArgument=false, reportPrivateUsage=false
"""Robots that Gymnasium does not have, as ordinary Gymnasium environments.

They are slow. Videos are rendered from them, and tests compare the compiled simulators with them.
"""

from typing import Any, final

import numpy as np
from gymnasium.envs.mujoco import MujocoEnv
from gymnasium.spaces import Box
from gymnasium.utils import EzPickle
from mujoco import mj_step  # pyright: ignore[reportAttributeAccessIssue]
from numpy.typing import NDArray

from gensmooth.physics import custom
from gensmooth.physics.mujoco_calls import physics

_Outcome = tuple[NDArray[np.float64], np.float64, bool, bool, dict[str, np.float64]]


@final
class HalfCheetahRandVel(MujocoEnv, EzPickle):
    """A half-cheetah that is rewarded for running at a hidden target velocity.

    Every reset draws a new goal ~ U(0, 3), after the positions and velocities. Rewards follow
    :mod:`gensmooth.physics.robots.half_cheetah`.

    Args:
        keywords: Passed on to Gymnasium's ``MujocoEnv``, such as ``render_mode``.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium declares it so)
        "render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"],
        "render_fps": 20,
    }

    def __init__(self, **keywords: Any) -> None:
        EzPickle.__init__(self, **keywords)
        space = Box(low=-np.inf, high=np.inf, shape=(17,), dtype=np.float64)
        MujocoEnv.__init__(self, "half_cheetah.xml", 5, observation_space=space, **keywords)
        self.goal = 0.0

    def step(self, action: NDArray[Any]) -> _Outcome:
        """Pay −|forward velocity − goal| − 0.05 ‖a‖²; never end."""
        before = self.data.qpos[0]
        self.do_simulation(action, self.frame_skip)
        velocity = (self.data.qpos[0] - before) / self.dt
        reward = -abs(velocity - self.goal) - 0.05 * np.square(action).sum()
        if self.render_mode == "human":
            self.render()
        return self._observation(), reward, False, False, {"x_velocity": velocity}

    def reset_model(self) -> NDArray[np.float64]:
        """Draw positions ± 0.1 uniform, velocities 0.1 N(0, 1), then the goal."""
        qpos = self.init_qpos + self.np_random.uniform(-0.1, 0.1, self.model.nq)
        qvel = self.init_qvel + 0.1 * self.np_random.standard_normal(self.model.nv)
        self.goal = self.np_random.uniform(0.0, 3.0)
        self.set_state(qpos, qvel)
        return self._observation()

    def _observation(self) -> NDArray[np.float64]:
        return np.concatenate((self.data.qpos[1:], self.data.qvel))


@final
class CustomRobot(MujocoEnv, EzPickle):
    """A custom robot that calls its plain functions; see :mod:`gensmooth.physics.custom`.

    Args:
        robot: Its registered name.
        keywords: Passed on to Gymnasium's ``MujocoEnv``, such as ``render_mode``.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium declares it so)
        "render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"]
    }

    def __init__(self, robot: str, **keywords: Any) -> None:
        EzPickle.__init__(self, robot=robot, **keywords)
        self._definition = custom.definition_of(robot)
        size = self._definition.observation_size(self._definition.load())
        space = Box(low=-np.inf, high=np.inf, shape=(size,), dtype=np.float64)
        MujocoEnv.__init__(
            self,
            custom.as_file(self._definition),
            self._definition.frame_skip,
            observation_space=space,
            **keywords,
        )
        self.metadata = {**self.metadata, "render_fps": max(1, round(1.0 / self.dt))}
        self._robot = self._definition.views(self.model, self.data, physics(self.model, self.data))

    def step(self, action: NDArray[Any]) -> _Outcome:
        """Step the physics, then call the robot's functions."""
        np.copyto(self._robot.before, self.data.qpos)
        self.data.ctrl[:] = action
        for _ in range(self.frame_skip):
            mj_step(self.model, self.data)
        reward, ended = self._definition.pay(self._robot, action)
        if self.render_mode == "human":
            self.render()
        return self._definition.observe(self._robot), np.float64(reward), ended, False, {}

    def reset_model(self) -> NDArray[np.float64]:
        """Start at a state that the robot's ``start`` draws."""
        row = self._definition.draw(self.model, self.np_random)
        self.set_state(row[: self.model.nq], row[self.model.nq :])
        np.copyto(self._robot.before, self.data.qpos)
        return self._definition.observe(self._robot)
