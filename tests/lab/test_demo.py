"""What `make demo` shows: a drone first, then small runs beside the published verdicts."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import chromium
from fingerprints import of_study
from fingerprints_compare import compare
from gensmooth.lab import find_study, reproduce
from gensmooth.lab.paper.controller import model
from gensmooth.lab.paper.published import FILES, published

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

ROOT = Path(__file__).parents[2]
SOURCES = {"claims.csv": "claims.csv", "untuned.csv": "untuned/claims.csv"}


@pytest.mark.parametrize("name", FILES)
def test_the_published_verdicts_are_those_of_the_results(name):
    ours = ROOT / "src" / "gensmooth" / "lab" / "paper" / "published" / name
    assert ours.read_bytes() == (ROOT / "docs" / "results" / SOURCES[name]).read_bytes()


@pytest.mark.parametrize(
    ("study", "options", "judged"),
    [
        ("linreg", {"profile": "quick"}, False),
        ("linreg", {"profile": "paper"}, True),
        ("linreg", {"profile": "paper", "seeds": 4}, False),
        ("dfo", {"profile": "quick", "seeds": 20}, False),
        ("dfo", {"profile": "paper", "seeds": 20}, True),
        ("timing", {"profile": "quick"}, False),
        ("untuned", {"profile": "quick"}, False),
        ("untuned", {"profile": "paper"}, True),
    ],
)
def test_runs_smaller_than_the_papers_judge_nothing(study, options, judged):
    assert (find_study(study).smaller(find_study(study).options(**options)) is None) == judged
    assert published(study).claims


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    found = reproduce("linreg", seeds=1, hyperparameters="paper", workers=1, folder=out)
    return found, found.page.read_text(encoding="utf-8")


def test_a_small_page_has_the_published_verdicts_and_says_so(small):
    found, page = small
    assert {row.verdict for row in found.claims} == {"not run"}
    assert "Small runs: 300 of 1000 iterations, 1 of 5 seeds." in page
    papers = [row.verdict for row in published("linreg").claims if row.is_papers]
    assert f"Published verdicts: {papers.count('holds')} hold" in page
    for row in published("linreg").claims:
        place = page.index(f'id="claim-{row.id}"')
        assert row.verdict in page[place : place + 400]


def test_a_page_of_a_study_begins_with_its_finding_and_the_sizes_of_its_runs(small):
    _, page = small
    body = page[page.index("<body") :]
    parts = ("Scaling random directions down", "On this page (quick)", 'class="symbols"', "<figure")
    places = [body.index(part) for part in parts]
    assert places == sorted(places)


def test_a_small_page_prints_on_few_pages(small, tmp_path):
    found = chromium.find()
    if found is None:
        pytest.skip("no Chromium found")
    paper = tmp_path / "page.pdf"
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    words += [profile, f"--print-to-pdf={paper}", small[0].page.as_uri()]
    subprocess.run([found, *words], check=True, capture_output=True, timeout=300)
    sheets = re.findall(rb"/Type\s*/Page[^s]", paper.read_bytes())
    assert 2 <= len(sheets) <= 5  # the whole demo has seven


def test_a_small_page_fits_a_phone(small, tmp_path):
    found = chromium.find()
    if found is None:
        pytest.skip("no Chromium found")
    with chromium.Chromium(found, tmp_path / "profile") as browser:
        browser.open(small[0].page, width=390)
        assert browser.evaluate("document.documentElement.scrollWidth") == 390


def test_every_verdict_leads_to_its_curves(small):
    _, page = small
    rows = re.findall(r'<tr role="row" id="claim-.*?</tr>', page, flags=re.S)
    assert len(rows) == len(published("linreg").claims)
    for row in rows:
        target = re.search(r'href="#(fig-[^"]+)"', row)[1]
        assert f'id="{target}"' in page
    losses = [row for row in rows if "claim-linreg-loss" in row]
    assert losses
    assert all("#fig-linreg-loss" in row for row in losses)
    assert not re.search(r"\b(fig|tab|sec):\w", "".join(rows))  # no labels of the paper's source


def test_the_message_is_there_only_if_its_claim_holds(monkeypatch, small):
    from gensmooth.lab.paper import page as outcome

    found, _ = small
    assert outcome._message(found.outcomes)
    refuted = published("linreg")
    refuted = refuted._replace(
        claims=[row._replace(verdict="does not hold") for row in refuted.claims]
    )
    monkeypatch.setattr(outcome, "published", lambda _: refuted)
    assert outcome._message(found.outcomes) == ""


def test_the_drone_learns_and_its_flight_is_on_the_page(tmp_path):
    found = reproduce("controller", seeds=1, workers=1, folder=tmp_path)
    (record,) = found.outcomes[0].records
    costs = record.series["cost"]
    assert costs[-1] < costs[0] / 5
    # the error bar that the run reports covers the cost in flights that it has not seen
    assert abs(record.series["reported"][-1] - costs[-1]) < 5 * record.series["error"][-1]
    page = found.page.read_text(encoding="utf-8")
    body = page[page.index("<body") :]
    parts = ("gensmooth minimises functions", "proportional gain", 'id="fig-controller"', "Before")
    places = [body.index(part) for part in parts]
    assert places == sorted(places)
    assert f"{costs[-1]:.3f}" in page
    # and the run is what it was, to the last bit: see test_fingerprints.py
    compare("study controller", {"controller": lambda: of_study("controller", tmp_path)})


def test_gusts_have_their_deviation_and_memory_and_flights_their_physics():
    wind = model.gusts(np.random.default_rng(0), 4000)
    assert wind.std(axis=1) == pytest.approx(np.full(model.STEPS, 0.8), rel=0.08)
    lag = round(0.5 / model.STEP)
    assert np.mean(wind[:-lag] * wind[lag:]) / 0.64 == pytest.approx(np.exp(-1), rel=0.08)
    calm = np.zeros((model.STEPS, 1))
    assert np.array_equal(model.fly((0, 0, 0), calm)[1], calm)  # nobody pushes: it stays
    assert model.fly((6, 0.1, 5), calm)[1][-1] == pytest.approx(1, abs=0.05)


def test_the_demo_installs_only_what_it_needs():
    rule = (ROOT / "Makefile").read_text(encoding="utf-8").split("$(VENV)/demo:")[1]
    assert "--extras report$(if $(RAY),$(COMMA)ray)" in rule.split("\n\n")[0]
