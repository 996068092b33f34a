# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# pyright: reportMissingTypeArgument=false, reportPrivateUsage=false
"""ML1-Reach and ML1-Push through Meta-World's own environments: the slow path, and the oracle.

Meta-World draws a task when a benchmark is made and keeps it over resets; the paper tests "on
reinitializations of the environment (which includes the task for meta-RL)", so here every reset
draws a new one, by the same law.
"""

from typing import Any, final

import gymnasium
import numpy as np
from metaworld.envs import SawyerPushEnvV3, SawyerReachEnvV3
from numpy.typing import NDArray

_APART = 0.15  # m, at least, from the object to the goal, seen from above

# Names: Meta-World's class, and the name of the reward in it.
TASKS: dict[str, tuple[Any, str]] = {
    "ML1-Reach": (SawyerReachEnvV3, "v1"),
    "ML1-Push": (SawyerPushEnvV3, "v1"),
    "ML1-Reach-v3": (SawyerReachEnvV3, "v2"),
    "ML1-Push-v3": (SawyerPushEnvV3, "v2"),
}


def draw(low: NDArray[Any], high: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float64]:
    """Where the object (3 entries) and the goal (3) are: uniform, given that they are apart."""
    while True:
        start = rng.uniform(low, high)
        if np.linalg.norm(start[:2] - start[3:5]) >= _APART:
            return start


@final
class ML1(gymnasium.Wrapper):
    """Meta-World's environment with the goal hidden and a new task at every reset.

    ``reset(seed=...)`` repeats a task; ``reset(options={"start": row})`` takes object and goal from
    a row of the simulator's ``starts``.

    Args:
        name: One of ``TASKS``.
        keywords: Handed on to Meta-World, such as ``render_mode`` and ``camera_name``.

    Frames show the table from the robot's right, unless a camera is named.
    """

    def __init__(self, name: str, **keywords: Any) -> None:
        make, reward = TASKS[name]
        self._turned = "camera_name" not in keywords
        camera = {"camera_name": "corner2"} if self._turned else {}
        super().__init__(make(reward_function_version=reward, **camera, **keywords))
        own: Any = self.unwrapped
        own._set_task_called = True
        self._own = own

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Settle the hand, draw a task, and put the object where it says."""
        if seed is not None:
            self._own.np_random = np.random.default_rng(seed)
        start = (options or {}).get("start")
        if start is None:
            space = self._own._random_reset_space
            start = draw(space.low, space.high, self._own.np_random)
        # Left alone, Meta-World would draw from NumPy's global generator, twice a reset.
        self._own._last_rand_vec = np.array(start, np.float64)
        return self.env.reset()

    def render(self) -> Any:
        """A frame; Meta-World's best view stands on its head, so it is turned."""
        frame: Any = super().render()
        turn = self._turned and isinstance(frame, np.ndarray)
        return np.ascontiguousarray(frame[::-1, ::-1]) if turn else frame
