"""Options side by side: chosen on some seeds, judged on others, nothing run twice."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

import gensmooth as gs
from gensmooth.lab.sweep import read_values
from gensmooth.lab.trials.table import TrialTable


def noisy(x, rng):
    return float(((x - 1) ** 2).sum()) + 0.1 * float(rng.standard_normal())


def score(x):
    return float(((x - 1) ** 2).sum())


HOW = {"samples": "independent", "score": score, "budget": 200, "seeds": 2, "fresh_seeds": 3}


def _runs(folder: Path) -> dict[str, int]:
    runs = folder / "trials" / "runs"
    return {path.name: path.stat().st_mtime_ns for path in runs.iterdir()}


def test_the_best_cell_is_chosen_on_some_seeds_and_judged_on_others(tmp_path):
    found = gs.sweep(
        noisy,
        np.zeros(3),
        method=["bes", "gs"],
        spacing=[0.1, 1.0],
        learning_rate="0.001:0.1:log3",
        folder=tmp_path,
        **HOW,
    )
    assert len(found.cells) == 12
    for cell in found.cells:
        finals = [
            score(
                gs.minimize(
                    noisy,
                    np.zeros(3),
                    method=cell.method,
                    samples="independent",
                    budget=200,
                    seed=seed,
                    **cell.values,
                ).x
            )
            for seed in (0, 1)
        ]
        assert cell.mean == sum(finals) / 2
    for best in found.best:
        rivals = [cell for cell in found.cells if cell.method == best.method]
        assert best.chosen_by == min(cell.mean for cell in rivals)
        fresh = [
            score(
                gs.minimize(
                    noisy,
                    np.zeros(3),
                    method=best.method,
                    samples="independent",
                    budget=200,
                    seed=seed,
                    **best.values,
                ).x
            )
            for seed in (1001, 1002, 1003)
        ]
        assert best.mean == pytest.approx(math.exp(np.log(fresh).mean()))
        assert best.low < best.mean < best.high
    with (tmp_path / "tables" / "cells.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 12
    assert "on fresh seeds" in found.page.read_text()
    before = _runs(tmp_path)
    assert len(before) == 12 * 2 + 2 * 3
    label = found.best[0].label
    gs.compare(
        noisy,
        np.zeros(3),
        methods=[label],
        samples="independent",
        score=score,
        budget=200,
        seeds=[0, 1, 1001],
        folder=tmp_path,
    )
    assert _runs(tmp_path) == before  # a comparison takes over what a sweep has run
    assert TrialTable.read(tmp_path).kind == "comparison"


def test_a_cell_in_which_a_run_failed_is_out(tmp_path):
    found = gs.sweep(
        noisy,
        np.zeros(3),
        learning_rate=[0.1],
        vary={"spacing": "0.1,1e200"},
        folder=tmp_path,
        **HOW,
    )
    failed = {cell.values["spacing"]: cell.failed for cell in found.cells}
    assert failed == {0.1: 0, 1e200: 2}
    assert found.best[0].values["spacing"] == 0.1


def test_values_are_numbers_or_a_range():
    assert read_values("spacing", "0.01:1:log3") == ((0.01, 0.1, 1.0), True)
    assert read_values("spacing", "1:2:lin3") == ((1.0, 1.5, 2.0), False)
    assert read_values("num_directions", "2:9:log3")[0] == (2, 4, 9)
    for bad in ("", "a", "1:2", "0:1:log3", "1,1", "nan", "1:2:log0", [], [0.1, math.inf]):
        with pytest.raises(ValueError, match="spacing"):
            read_values("spacing", bad)
    with pytest.raises(ValueError, match="whole numbers"):
        read_values("num_directions", [1.5])


def test_what_cannot_be_swept_is_refused_before_anything_is_run(tmp_path):
    out = tmp_path / "out"
    for options, words in [
        ({}, "nothing to vary"),
        ({"spacing": [-1.0, 0.1]}, "`spacing` must be positive"),
        ({"method": "auto", "spacing": [0.1]}, "method='auto' chooses `spacing` itself"),
        ({"method": "bess", "spacing": [0.1]}, "Did you mean 'bes'"),
        ({"vary": {"spaceing": [1]}}, "Did you mean 'spacing'"),
        ({"spacing": [0.1], "fresh_seeds": [1]}, "must differ from `seeds`"),
        ({"spacing": [0.1], "search": "random"}, "`search` must be one of"),
    ]:
        with pytest.raises(ValueError) as error:
            gs.sweep(noisy, np.zeros(3), **{**HOW, "folder": out, **options})
        assert words in str(error.value)
    assert not out.exists()


def test_optuna_proposes_the_same_again(tmp_path):
    how = {"spacing": "0.01:1:log5", "search": "optuna", "trials": 4, "folder": tmp_path, **HOW}
    try:
        import optuna
    except ImportError:
        with pytest.raises(ImportError, match=r"gensmooth\[optuna\]"):
            gs.sweep(noisy, np.zeros(3), **how)
        return
    assert optuna
    first = gs.sweep(noisy, np.zeros(3), **how)
    before = _runs(tmp_path)
    assert len(before) == 4 * 2 + 3
    again = gs.sweep(noisy, np.zeros(3), **how)
    assert _runs(tmp_path) == before
    assert again.best == first.best
    assert all(0.01 <= cell.values["spacing"] <= 1 for cell in first.cells)
