"""
A network without gradients
===========================

This network consists of step functions, whose derivative is zero wherever it exists, so
backpropagation cannot train it. Random search needs only values. All points of a step use the same
mini-batch (``samples="shared"``), so the choice of the batch cancels in their differences.
"""

import matplotlib.pyplot as plt
import numpy as np

import gensmooth as gs

HIDDEN = 24


def two_moons(count, rng):
    """Points on two interleaved half circles, and the circle (−1 or 1) of each."""
    angle = rng.uniform(0, np.pi, count)
    side = rng.integers(0, 2, count)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points[side == 1] = [1, 0.5] - points[side == 1]
    return points + 0.12 * rng.standard_normal((count, 2)), 2.0 * side - 1


def network(x, points):
    """The output. x holds the hidden layer's weights and thresholds, then the output's."""
    first, thresholds, last = np.split(x[:-1], [2 * HIDDEN, 3 * HIDDEN])
    return np.sign(points @ first.reshape(2, HIDDEN) + thresholds) @ last + x[-1]


POINTS, LABELS = two_moons(2000, np.random.default_rng(0))
TEST = two_moons(2000, np.random.default_rng(1))


def loss(x, rng):
    """The hinge loss of a mini-batch."""
    batch = rng.integers(0, len(POINTS), 200)
    return float(np.maximum(0, 1 - LABELS[batch] * network(x, POINTS[batch])).mean())


def accuracy(x):
    points, labels = TEST
    return float((np.sign(network(x, points)) == labels).mean())


start = 0.5 * np.random.default_rng(2).standard_normal(4 * HIDDEN + 1)
curve = []
res = gs.minimize(
    loss,
    start,
    samples="shared",
    method="bes",
    estimator=gs.Antithetic(),
    num_directions=30,
    spacing=0.1,
    optimizer=gs.adam(0.03),
    budget=18_000,
    callback=lambda now: curve.append((now.nfev, now.fun)),
    seed=0,
)
print(f"{start.size} parameters, {res.nfev} evaluations of 200 points each")
print(f"test accuracy: {accuracy(start):.3f} at first, {accuracy(res.x):.3f} at the end")

# %%
# The loss of each step's mini-batch, and the network's answer in each point of the plane.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(*np.array(curve).T)
left.set(xlabel="evaluations", ylabel="hinge loss")
grid = np.stack(np.meshgrid(np.linspace(-1.6, 2.6, 200), np.linspace(-1.2, 1.7, 150)), axis=-1)
said = network(res.x, grid.reshape(-1, 2)).reshape(150, 200)
right.contourf(
    grid[..., 0], grid[..., 1], said, levels=[-99, 0, 99], colors=["C0", "C1"], alpha=0.3
)
right.scatter(*POINTS[:500].T, c=np.where(LABELS[:500] > 0, "C1", "C0"), s=4)
right.set(xticks=[], yticks=[])
plt.show()
