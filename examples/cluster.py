"""
On a cluster
============

``workers=gs.evaluators.Ray("auto")`` evaluates on every machine of a Ray cluster; ``Ray("local")``
starts one on this machine, as here. A worker receives the parameters once per step and generates
its own directions, so an evaluation sends only a few bytes. The answer is the same to the last bit
as without a cluster, even if evaluations fail and are retried.
"""

import os
import time

import matplotlib.pyplot as plt
import numpy as np

import gensmooth as gs


def simulation(x, rng):
    """A simulation of 10 ms; now and then, its machine fails."""
    time.sleep(0.01)
    if os.environ.get("FLAKY") and os.urandom(1)[0] < 8:
        raise ConnectionError("the licence server did not answer")
    return float(((x - 1) ** 2).sum() + 0.1 * rng.standard_normal())


def run(workers):
    return gs.minimize(
        simulation,
        np.zeros(20),
        samples="independent",
        method="bes",
        num_directions=10,
        learning_rate=0.1,
        budget=400,
        workers=workers,
        seed=0,
    )


flaky = {"runtime_env": {"env_vars": {"FLAKY": "1"}}}
here = run(1)
there = run(gs.evaluators.Ray("local", num_workers=2, retries=5, actor_options=flaky))
print(f"faults on the cluster: {dict(there.faults)}")
print(f"the same answer to the last bit: {np.array_equal(here.x, there.x)}")

# %%
# The curves coincide: it does not matter where an evaluation ran, or how often it was retried.

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.plot(here.history.evaluations, here.history.value, linewidth=5, alpha=0.3, label="here")
axes.plot(there.history.evaluations, there.history.value, "k--", linewidth=1, label="on Ray")
axes.set(xlabel="evaluations", ylabel="value", yscale="log")
axes.legend(frameon=False)
plt.show()
