"""Made-up records of the reinforcement-learning study, in the shape that its runs have."""

import numpy as np

from gensmooth.lab import RunRecord
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.paper.rl import settings as rl_settings
from gensmooth.lab.paper.rl.settings import RlOptions

PAPER = RlOptions(profile="paper", hyperparameters="paper")


def record(setting, method, seed, *, level=0.0, options=PAPER, diverged=False) -> RunRecord:
    """A curve that rises to ``level`` + 100 percent of the environment's range.

    Its noise depends on the seed alone, but for a little.
    """
    choice = rl_settings.choice_of(setting, method) or (0.1, 0.01)
    config = {
        **rl_settings.config_of(options, setting, method),
        "spacing": choice[0],
        "learning_rate": choice[1],
        "seed": seed,
    }
    rounds = config["rounds"]
    made = (np.arange(rounds) + 1) * config["iterations"] * 2 * config["num_directions"]
    rng = np.random.default_rng([seed, setting.num_directions])
    # Methods differ by a little more than a constant: no paired test sees a deviation of zero.
    own = np.random.default_rng([seed, sum(map(ord, method))]).normal(size=rounds)
    curve = (100 + level) * np.linspace(0.2, 1, rounds) + rng.normal(size=rounds) + 0.1 * own
    known = rl_settings.ENVIRONMENTS[setting.environment]
    curve *= (known.learned - known.still) / 100
    series = {
        "return": curve.tolist(),
        "deviation": [1.0] * rounds,
        "trajectories": [float(n) for n in made],
        "env_steps": [200.0 * n for n in made],
    }
    if diverged:
        return RunRecord(config, {}, float("inf"), True, 1.0)
    return RunRecord(config, series, -series["return"][-1], False, 1.0)


def study(levels, *, settings=rl_settings.PAPER, methods=paper.METHODS, seeds=5, options=PAPER):
    """Records of many cells; ``levels`` gives a cell's level from its setting and method."""
    return [
        record(setting, method, 1001 + seed, level=levels(setting, method), options=options)
        for setting in settings
        for method in methods
        for seed in range(seeds)
    ]
