"""Small Gymnasium environments, as ``rl_cases:Name-v0``, and episodes computed by a formula."""

import time
from collections.abc import Callable

import gymnasium
import numpy as np

import journal_runs
from gensmooth.rl.environments.base import EnvironmentInfo, Episodes
from gensmooth.rl.normalize import EpisodeMoments, Scaling

SLIDER = "rl_cases:Slider-v0"


class Slider(gymnasium.Env):
    """A point that is to slide to the origin of a plane; some of its observations are constant.

    ``healthy_reward`` is a survival bonus as Gymnasium's MuJoCo environments have one.
    """

    def __init__(self, trouble: str = ""):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2, 3), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._healthy_reward = 0.5
        self._trouble = trouble

    @property
    def healthy_reward(self):
        return self._healthy_reward * (np.abs(self._place) < 8).all()

    def _see(self):
        return np.array([[self._place[0], 7.0, self._place[1]], [0.1, self._place[0] * 100, 0.0]])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = self.np_random.uniform(-3, 3, 2)
        self._steps = 0
        self._bad = self.np_random.random() < 0.1
        return self._see(), {}

    def step(self, action):
        assert self.action_space.contains(action), "not clipped, or of the wrong dtype"
        self._place = self._place + 0.3 * action + 0.02 * self.np_random.standard_normal(2)
        self._steps += 1
        reward = 5.0 - float(np.abs(self._place).sum()) + self.healthy_reward
        seen = self._see()
        if self._bad and self._steps == 4:
            if self._trouble == "raise":
                raise RuntimeError("the belt broke")
            if self._trouble == "reward":
                reward = float("nan")
            if self._trouble == "observation":
                seen[0, 0] = np.inf
        return seen, reward, bool((np.abs(self._place) > 8).any()), False, {}


for kind in ("", "raise", "reward", "observation"):
    gymnasium.register(
        id=f"Slider{kind.capitalize()}-v0",
        entry_point=Slider,
        max_episode_steps=25,
        kwargs={"trouble": kind},
    )


class SlowSlider(Slider):
    """Slow episodes, whose begins and ends are written to a journal."""

    def reset(self, *, seed=None, options=None):
        seen = super().reset(seed=seed)
        self.start = np.array([*self._place, self.np_random.random()])
        journal_runs.note("began", self.start)
        time.sleep(journal_runs.SECONDS)
        return seen

    def step(self, action):
        answer = super().step(action)
        if self._steps == 5:
            journal_runs.note("ended", self.start)
        return answer


gymnasium.register(id="SlowSlider-v0", entry_point=SlowSlider, max_episode_steps=5)


class Dictionary(gymnasium.Env):
    """Observations that are not numbers."""

    observation_space = gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(3)})
    action_space = gymnasium.spaces.Discrete(2)


class Many(gymnasium.Env):
    """Actions of several discrete choices."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.MultiDiscrete([2, 3])


class Endless(gymnasium.Env):
    """Never ends, and counts actions from 3 on."""

    observation_space = gymnasium.spaces.Box(0, 255, (2, 2), np.uint8)
    action_space = gymnasium.spaces.Discrete(3, start=3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.full((2, 2), 9, np.uint8), {}

    def step(self, action):
        return np.full((2, 2), 9, np.uint8), float(action), False, False, {}


for env in (Dictionary, Many, Endless):
    gymnasium.register(id=f"{env.__name__}-v0", entry_point=env)


class Formula:
    """Rollouts whose returns are a function of the parameters; records how it is called."""

    workers = 1

    def __init__(self, reward: Callable[[np.ndarray, int], float], size: int):
        self.reward = reward
        self.size = size
        self.faults = {}
        self.scalings: list[Scaling] = []
        self.observations: list[list[np.ndarray]] = []  # of each iteration, by episode

    info = staticmethod(lambda n, m: EnvironmentInfo("Formula", n, m, 10, survival_bonus=1.0))

    def train(self, state, batch, scaling):
        self.scalings.append(scaling)
        points = batch.block(0, len(batch))
        rng = np.random.default_rng(state.step)
        lengths = rng.integers(2, 9, len(batch))
        bonuses = lengths.astype(float)
        rewards = np.array([self.reward(x, i) for i, x in enumerate(points)])
        seen = [rng.normal(3, 2, (n, self.size)) for n in lengths]
        moments = EpisodeMoments(
            lengths,
            np.array([o.mean(axis=0) for o in seen]),
            np.array([((o - o.mean(axis=0)) ** 2).sum(axis=0) for o in seen]),
        )
        self.observations.append(seen)
        return Episodes(rewards + bonuses, bonuses, lengths, moments)

    def test(self, state, x, scaling, episodes):
        self.scalings.append(scaling)
        rewards = np.array([self.reward(x, i) for i in range(episodes)])
        return Episodes(rewards + 5.0, np.full(episodes, 5.0), np.full(episodes, 5))
