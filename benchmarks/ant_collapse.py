"""Rare episodes with negative returns, of a linear policy on Gymnasium's Ant, and their causes.

    python -m benchmarks.ant_collapse --episodes 900

The policy is one of the paper's study (GS-shrinkage, L = 20, seed 1004, after 909 iterations). For
each episode with a negative return, the output has the return, its control cost, the largest
action, the largest standardised observation, and the bodies whose contact forces exceeded 100
standard deviations.
"""

import argparse
import warnings
from pathlib import Path

import gymnasium
import numpy as np

import gensmooth as gs

POLICY = Path("docs/results/ant-gs-shrinkage-1004.policy")
FORCES = 27  # index of the first contact force in an observation; each body has six


def main() -> None:
    """Run the episodes, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=900)
    options = parser.parse_args()
    policy = gs.rl.load_policy(POLICY)
    scaling = policy.scaling
    warnings.simplefilter("ignore")  # Gymnasium warns that Ant-v4 is out of date
    env = gymnasium.make("Ant-v4", use_contact_forces=True)
    names = [env.unwrapped.model.body(i).name or f"body {i}" for i in range(14)]
    print("| episode | return | of it for actions | largest action | deviations | bodies |")
    print("|---|---|---|---|---|---|")
    returns: list[float] = []
    for episode in range(options.episodes):
        observation, _ = env.reset(seed=episode)
        total, paid, action_size, beyond = 0.0, 0.0, 0.0, np.zeros(observation.size)
        ended = False
        while not ended:
            beyond = np.maximum(beyond, np.abs(scaling(observation)))
            action = policy(observation)
            action_size = max(action_size, float(np.abs(action).max()))
            paid -= 0.5 * float(np.square(action).sum())
            observation, reward, fell, late, _ = env.step(action)
            total, ended = total + float(reward), fell or late
        returns.append(total)
        if total < 0:
            touched = np.flatnonzero((beyond[FORCES:].reshape(14, 6) > 100).any(axis=1))
            print(
                f"| {episode} | {total:,.0f} | {paid:,.0f} | {action_size:.0f} | "
                f"{beyond.max():.0f} | {', '.join(names[i] for i in touched)} |",
                flush=True,
            )
    good = [value for value in returns if value >= 0]
    print(f"\n{len(good)} others: median {np.median(good):.0f}, largest {max(good):.0f}")


if __name__ == "__main__":
    main()
