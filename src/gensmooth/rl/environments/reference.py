# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# pyright: reportMissingTypeArgument=false, reportPrivateUsage=false
"""The paper's environments that Gymnasium does not have, as ordinary Gymnasium environments.

They are the slow path, what is filmed, and what the compiled simulators are compared with.
"""

from importlib import import_module
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium.envs.mujoco import MujocoEnv
from gymnasium.spaces import Box
from gymnasium.utils import EzPickle
from mujoco import mj_step  # pyright: ignore[reportAttributeAccessIssue]
from numpy.typing import NDArray

from gensmooth.rl.environments import own
from gensmooth.rl.environments.physics import physics
from gensmooth.rl.environments.robots.sawyer import draw

_Outcome = tuple[NDArray[np.float64], np.float64, bool, bool, dict[str, np.float64]]


@final
class HalfCheetahRandVel(MujocoEnv, EzPickle):
    """A half-cheetah that is paid for running at a velocity that it is not told.

    Every reset draws a new goal ~ U(0, 3), after the positions and velocities. The law is that of
    :mod:`gensmooth.rl.environments.robots.half_cheetah`.

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
        """Reward −|forward velocity − goal| − 0.05 ‖a‖²; never ends."""
        before = self.data.qpos[0]
        self.do_simulation(action, self.frame_skip)
        velocity = (self.data.qpos[0] - before) / self.dt
        reward = -abs(velocity - self.goal) - 0.05 * np.square(action).sum()
        if self.render_mode == "human":
            self.render()
        return self._observation(), reward, False, False, {"x_velocity": velocity}

    def reset_model(self) -> NDArray[np.float64]:
        """Positions ± 0.1 uniform, velocities 0.1 N(0, 1), then the goal."""
        qpos = self.init_qpos + self.np_random.uniform(-0.1, 0.1, self.model.nq)
        qvel = self.init_qvel + 0.1 * self.np_random.standard_normal(self.model.nv)
        self.goal = self.np_random.uniform(0.0, 3.0)
        self.set_state(qpos, qvel)
        return self._observation()

    def _observation(self) -> NDArray[np.float64]:
        return np.concatenate((self.data.qpos[1:], self.data.qvel))


@final
class ML1(gymnasium.Wrapper):
    """Meta-World's environment with the goal hidden and a new task at every reset.

    Meta-World draws a task when a benchmark is made and keeps it over resets; the paper tests "on
    reinitializations of the environment (which includes the task for meta-RL)", so here every
    reset draws a new one, by the same law. ``reset(seed=...)`` repeats a task;
    ``reset(options={"start": row})`` takes object and goal from a row of the simulator's
    ``starts``. Frames show the table from the robot's right, unless a camera is named.

    Args:
        environment: Meta-World's class, such as ``"SawyerReachEnvV3"``.
        reward: The version of the reward, as Meta-World calls it: ``"v1"`` or ``"v2"``.
        keywords: Passed on to Meta-World, such as ``render_mode`` and ``camera_name``.
    """

    def __init__(self, environment: str, reward: str, **keywords: Any) -> None:
        make = getattr(import_module("metaworld.envs"), environment)
        self._turned = "camera_name" not in keywords
        camera = {"camera_name": "corner2"} if self._turned else {}
        super().__init__(make(reward_function_version=reward, **camera, **keywords))
        own: Any = self.unwrapped
        own._set_task_called = True
        self._own = own

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Settle the hand, draw a task, and put the object where the task says."""
        if seed is not None:
            self._own.np_random = np.random.default_rng(seed)
        start = (options or {}).get("start")
        if start is None:
            space = self._own._random_reset_space
            start = draw(space.low, space.high, self._own.np_random)
        # Left alone, Meta-World would draw from NumPy's global generator, twice per reset.
        self._own._last_rand_vec = np.array(start, np.float64)
        return self.env.reset()

    def render(self) -> Any:
        """A frame; Meta-World's best view stands on its head, so it is turned around."""
        frame: Any = super().render()
        turn = self._turned and isinstance(frame, np.ndarray)
        return np.ascontiguousarray(frame[::-1, ::-1]) if turn else frame


@final
class OwnRobot(MujocoEnv, EzPickle):
    """A robot of a user's, by its plain functions; see :mod:`gensmooth.rl.environments.own`.

    Args:
        robot: Its name, as it was registered.
        keywords: Passed on to Gymnasium's ``MujocoEnv``, such as ``render_mode``.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium declares it so)
        "render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"],
    }

    def __init__(self, robot: str, **keywords: Any) -> None:
        EzPickle.__init__(self, robot=robot, **keywords)
        self._own = own.definition_of(robot)
        size = self._own.observation_size(self._own.load())
        space = Box(low=-np.inf, high=np.inf, shape=(size,), dtype=np.float64)
        MujocoEnv.__init__(
            self,
            own.as_file(self._own),
            self._own.frame_skip,
            observation_space=space,
            **keywords,
        )
        self.metadata = {**self.metadata, "render_fps": max(1, round(1.0 / self.dt))}
        self._robot = self._own.views(self.model, self.data, physics(self.model, self.data))

    def step(self, action: NDArray[Any]) -> _Outcome:
        """Move the physics, then ask the robot's functions."""
        np.copyto(self._robot.before, self.data.qpos)
        self.data.ctrl[:] = action
        for _ in range(self.frame_skip):
            mj_step(self.model, self.data)
        reward, ended = self._own.pay(self._robot, action)
        if self.render_mode == "human":
            self.render()
        return self._own.observe(self._robot), np.float64(reward), ended, False, {}

    def reset_model(self) -> NDArray[np.float64]:
        """Where the robot's own ``start`` says."""
        row = self._own.draw(self.model, self.np_random)
        self.set_state(row[: self.model.nq], row[self.model.nq :])
        np.copyto(self._robot.before, self.data.qpos)
        return self._own.observe(self._robot)
