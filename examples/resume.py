"""
Interrupt a run and resume it
=============================

You can kill a run with a folder at any moment. The same call continues from the last checkpoint and
gives the same answer, bit for bit. Here, the objective itself presses Ctrl-C.
"""

import json
import signal
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gensmooth as gs

calls = 0


def loss(x):
    """An ellipsoid; after 1000 evaluations somebody presses Ctrl-C."""
    global calls
    calls += 1
    if calls == 1000:
        signal.raise_signal(signal.SIGINT)
    return float(np.linspace(1, 10, x.size) @ (x - 1) ** 2)


def run(folder):
    return gs.minimize(loss, np.zeros(30), method="bes", budget=4000, folder=folder, seed=0)


with tempfile.TemporaryDirectory() as place:
    folder = Path(place) / "run"
    stopped = run(folder)
    print(f"stopped: {stopped.message} {stopped.nfev} evaluations, value {stopped.fun:.3f}")
    resumed = run(folder)  # the same call
    print(f"resumed: {resumed.message} {resumed.nfev} evaluations, value {resumed.fun:.3f}")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    whole = run(Path(place) / "another")
print(f"as if it had never stopped: {np.array_equal(resumed.x, whole.x)}")

# %%
# The folder's ``metrics.jsonl`` contains both parts of the run.

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.plot([line["evaluations"] for line in lines], [line["value"] for line in lines])
axes.axvline(stopped.nfev, color="C3", linestyle=":", label="Ctrl-C, and the same call again")
axes.set(xlabel="evaluations", ylabel="value", yscale="log")
axes.legend(frameon=False)
plt.show()
