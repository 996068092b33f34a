"""
A study of your own
===================

A study is a list of runs and the conclusions from them. You define the runs, how to make one, and
which numbers decide; gensmooth provides workers, resuming, statistics and a report. This study asks
whether shrinkage helps on a noisy bowl if the step size is not tuned.
"""

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gensmooth as gs
from gensmooth.lab import Case, Measure, RunRecord, RunSpec, Scores, Sentence, Study, better

METHODS, COUNTS = ("bes", "bes-shrinkage"), (2, 10)


def bowl(x, rng):
    return float(x @ x) + 0.1 * rng.standard_normal()


def reporting(options, cells):
    """All runs. A run depends only on its configuration, which is plain JSON."""
    return [
        RunSpec("bowl", {"method": method, "num_directions": L, "seed": seed})
        for method in METHODS
        for L in COUNTS
        for seed in range(options.seeds or 8)
    ]


def execute(config, scratch):
    """Make one run, and record ‖x‖² after each of 60 steps."""
    began, values = time.perf_counter(), []
    gs.minimize(
        bowl,
        np.ones(40),
        method=config["method"],
        num_directions=config["num_directions"],
        spacing=0.3,
        optimizer=gs.sgd(0.02),
        samples="independent",
        max_steps=60,
        callback=lambda now: values.append(float(now.x @ now.x)),
        progress=False,
        seed=config["seed"],
    )
    return RunRecord(config, {"value": values}, values[-1], False, time.perf_counter() - began)


def score(options, records):
    """One row for each run; a run that diverged would have +∞."""
    return Scores([{**record.config, "final": record.final} for record in records])


def judge(scores, cells):
    """Test a sentence with final values that are paired by seed."""
    cases = [
        Case(f"L={L}", *(scores.sample("final", method=m, num_directions=L) for m in METHODS[::-1]))
        for L in COUNTS
    ]
    sentence = Sentence("bowl-shrinkage", "my notebook", "Shrinkage ends lower than BeS.")
    return [better(sentence, cases, Measure("final ‖x‖²"))]


STUDY = Study(
    name="bowl",
    title="A noisy bowl",
    prose=lambda options, records: f"‖x‖² in d = 40 with noise of 0.1, {len(records)} runs.",
    reporting=reporting,
    execute=execute,
    score=score,
    judge=judge,
)

# %%
# ``gensmooth reproduce own_study:STUDY --folder out`` runs it and writes ``out/report.html``. In
# Python:

if __name__ == "__main__":
    from gensmooth.lab import reproduce

    with tempfile.TemporaryDirectory() as out:
        found = reproduce("own_study:STUDY", workers=1, folder=Path(out))
    for row in found.claims:
        print(f"{row.claim} It {row.verdict}: {row.evidence}")

    figure, panels = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", sharey=True)
    records = found.outcomes[0].records
    for panel, L in zip(panels, COUNTS, strict=True):
        for colour, method in enumerate(METHODS):
            curves = [
                record.series["value"]
                for record in records
                if (record.config["method"], record.config["num_directions"]) == (method, L)
            ]
            panel.plot(np.transpose(curves), color=f"C{colour}", alpha=0.4, linewidth=0.8)
            panel.plot(np.mean(curves, axis=0), color=f"C{colour}", label=method)
        panel.set(title=f"L = {L}", xlabel="steps", yscale="log")
    panels[0].set_ylabel("‖x‖²")
    panels[0].legend(frameon=False)
    plt.show()
