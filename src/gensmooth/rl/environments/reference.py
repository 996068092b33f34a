# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# pyright: reportMissingTypeArgument=false, reportPrivateUsage=false
"""Meta-World's tasks as ordinary Gymnasium environments.

They are slow. Videos are rendered from them, and tests compare the compiled simulators with them.
"""

from importlib import import_module
from typing import Any, final

import gymnasium
import numpy as np

from gensmooth.rl.environments.metaworld.sawyer import draw


@final
class ML1(gymnasium.Wrapper):
    """Meta-World's environment with the goal hidden and a new task at every reset.

    Meta-World draws a task when a benchmark is made and keeps it over resets. The paper tests "on
    reinitializations of the environment (which includes the task for meta-RL)", so here every
    reset draws a new task by the same law. ``reset(seed=...)`` repeats a task, and
    ``reset(options={"start": row})`` takes object and goal from a row of the simulator's
    ``starts``. Unless you name a camera, frames show the table from the robot's right.

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
        task: Any = self.unwrapped
        task._set_task_called = True
        self._task = task

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Settle the hand, draw a task, and put the object at the task's position."""
        if seed is not None:
            self._task.np_random = np.random.default_rng(seed)
        start = (options or {}).get("start")
        if start is None:
            space = self._task._random_reset_space
            start = draw(space.low, space.high, self._task.np_random)
        # Left alone, Meta-World would draw from NumPy's global generator, twice per reset.
        self._task._last_rand_vec = np.array(start, np.float64)
        return self.env.reset()

    def render(self) -> Any:
        """Draw a frame; Meta-World's best view is upside down, so it is turned around."""
        frame: Any = super().render()
        turn = self._turned and isinstance(frame, np.ndarray)
        return np.ascontiguousarray(frame[::-1, ::-1]) if turn else frame
