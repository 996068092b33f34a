"""docs/network.md says what docs/results say."""

import csv
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'gensmooth[report]'")
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
from examples.network_theory import page  # noqa: E402


def test_the_tables_of_the_page_are_those_of_the_results():
    text = (ROOT / "docs" / "network.md").read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in text for name in page.TABLES)
    assert page.with_tables(text, RESULTS) == text


def test_figures_are_drawn(tmp_path):
    page.draw(RESULTS, tmp_path)
    assert {file.stem for file in tmp_path.iterdir()} == {name for name, _, _ in page.FIGURES}


def test_rates_are_chosen_on_seeds_that_are_not_reported():
    runs = list(csv.DictReader((RESULTS / "network-runs.csv").read_text().splitlines()))
    seeds = {use: {r["seed"] for r in runs if r["use"] == use} for use in ("tuning", "reporting")}
    assert seeds["tuning"].isdisjoint(seeds["reporting"])
    scores = {}
    for r in runs:
        if r["use"] == "tuning":
            arm = scores.setdefault((r["task"], r["method"], r["num_directions"]), {})
            arm.setdefault(r["rate"], []).append(float(r["score"]))
    for r in runs:
        if r["use"] == "reporting" and r["method"] != "pilot":
            arm = scores[r["task"], r["method"], r["num_directions"]]
            assert r["rate"] == min(arm, key=lambda rate: sum(arm[rate]))
