# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportMissingTypeArgument=false
"""HalfCheetahRandVel as an ordinary Gymnasium environment: the slow path, and the oracle.

Meta-RL's half-cheetah with a random target velocity (Finn et al. 2017), by the law of the ProMP
repository (Rothfuss et al. 2019), which the paper used.
"""

from typing import Any, final

import numpy as np
from gymnasium.envs.mujoco import MujocoEnv
from gymnasium.spaces import Box
from gymnasium.utils import EzPickle
from numpy.typing import NDArray

_Outcome = tuple[NDArray[np.float64], np.float64, bool, bool, dict[str, np.float64]]


@final
class HalfCheetahRandVel(MujocoEnv, EzPickle):
    """A half-cheetah that is paid for running at a velocity that it is not told.

    Every reset draws a new goal ~ U(0, 3), after the positions and velocities.

    Args:
        keywords: Handed on to Gymnasium's ``MujocoEnv``, such as ``render_mode``.
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
