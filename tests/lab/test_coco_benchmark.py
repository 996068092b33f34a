"""The benchmark on COCO's problems, small: what it writes down is what it says it is."""

import importlib.util
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from patience import LONG

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("cocoex") is None, reason="coco-experiment is not installed"
    ),
    pytest.mark.skipif(
        not (ROOT / "benchmarks").is_dir(), reason="benchmarks come with the repository alone"
    ),
]
SPHERE, ROSENBROCK = 1, 8
TARGETS = [10 ** (2 - k / 5) for k in range(51)]
RUNS = ("--dimension", "5", "--functions", "1,8", "--instances", "6-7")
BUDGETS = ("--budget-multipliers", "5,20")


def program(name, *words, folder, fails=False):
    paths = [str(ROOT), *(path for path in sys.path if path)]
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *words],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert (done.returncode != 0) == fails, done.stdout[-5000:] + done.stderr[-5000:]
    return done.stdout + done.stderr


def coco(*words, folder):
    program("coco", *RUNS, *BUDGETS, *words, "--out", "coco.json", folder=folder)
    return json.loads((folder / "coco.json").read_text())["tables"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("coco")


@pytest.fixture(scope="module")
def tables(folder):
    noises = ("--noise", "none,relative:0.1,additive:1")
    rivals = ("--rivals", "gensmooth,scipy-lbfgsb,random,optimum")
    return coco(*noises, *rivals, folder=folder)


def share(best):
    return sum(best <= target * (1 + 1e-9) for target in TARGETS) / 51


def test_shares_are_those_of_the_recorded_values(tables):
    assert [table["noise"] for table in tables] == ["none", "relative:0.1", "additive:1"]
    for table in tables:
        assert table["functions"] == [1, 1, 8, 8]
        assert table["instances"] == [6, 7, 6, 7]
        ours = table["methods"]["gensmooth"]["best"]
        for method in table["methods"].values():
            assert method["failed"] == 0
            for k, best in enumerate(method["best"]):
                shares = [share(value) for value in best]
                mean, error = mean_and_error(shares)
                assert method["shares"][k] == pytest.approx(mean, abs=1e-6)
                assert method["errors"][k] == pytest.approx(error, abs=1e-6)
                if "ours_minus" in method:
                    paired = [share(a) - b for a, b in zip(ours[k], shares, strict=True)]
                    mean, error = mean_and_error(paired)
                    assert method["ours_minus"][k] == pytest.approx(mean, abs=1e-6)
                    assert method["ours_minus_errors"][k] == pytest.approx(error, abs=1e-6)
            assert all(
                late <= early
                for earlier, later in zip(method["best"], method["best"][1:], strict=False)
                for early, late in zip(earlier, later, strict=True)
            )


def mean_and_error(values):
    """Of two functions with two instances each."""
    spread = statistics.variance(values[:2]) / 2 + statistics.variance(values[2:]) / 2
    return statistics.mean(values), spread**0.5 / 2


def test_the_optimum_reaches_all_targets_and_l_bfgs_b_those_of_the_sphere(tables):
    for table in tables:
        assert table["methods"]["optimum"]["best"] == [[0.0] * 4] * 2
        assert table["methods"]["optimum"]["shares"] == [1.0, 1.0]
    best = tables[0]["methods"]["scipy-lbfgsb"]["best"][1]
    assert [share(value) for value in best[:2]] == [1.0, 1.0]
    assert tables[1]["methods"]["scipy-lbfgsb"]["best"][1] != best


def test_targets_are_judged_without_the_noise(tables):
    # who does not look at values finds the same ones, whatever the noise
    found = [table["methods"]["random"]["best"] for table in tables]
    assert found[0] == found[1] == found[2]
    ours = [table["methods"]["gensmooth"]["best"] for table in tables]
    assert ours[0] != ours[1] != ours[2]


def test_workers_change_nothing_and_what_is_not_run_again_stays(tables, folder):
    again = coco("--rivals", "gensmooth,random", "--workers", "2", folder=folder)
    assert [table["noise"] for table in again] == ["relative:0.1", "additive:1", "none"]
    assert again[:2] == tables[1:]
    methods = again[2]["methods"]
    assert list(methods) == list(tables[0]["methods"])
    for name, method in methods.items():
        assert method["best"] == tables[0]["methods"][name]["best"]
    assert "--workers 2" in methods["gensmooth"]["command"]
    assert "--workers 2" not in methods["optimum"]["command"]


def test_runs_that_were_recorded_are_not_repeated(tables, tmp_path):
    words = ("--rivals", "random,optimum", "--runs", "runs.jsonl")
    (table,) = coco(*words, folder=tmp_path)
    record = tmp_path / "runs.jsonl"
    lines = record.read_text().splitlines()
    assert len(lines) == 8
    record.write_text("\n".join(lines[:-3]) + "\n")  # interrupted
    said = program("coco", *RUNS, *BUDGETS, *words, "--out", "coco.json", folder=tmp_path)
    assert "2 of 2 done" in said
    assert sorted(map(str, record.read_text().splitlines())) != sorted(lines[:-3])
    (again,) = json.loads((tmp_path / "coco.json").read_text())["tables"]
    for name in ("random", "optimum"):
        assert again["methods"][name]["best"] == table["methods"][name]["best"]
        assert again["methods"][name]["best"] == tables[0]["methods"][name]["best"]


def test_methods_with_fewer_budgets_stay_beside_those_with_more(tmp_path):
    coco("--rivals", "random", folder=tmp_path)
    words = ("--rivals", "scipy-lbfgsb", "--budget-multipliers", "5,20,40")
    (table,) = coco(*words, folder=tmp_path)
    assert table["multipliers"] == [5, 20, 40]
    assert [len(table["methods"][name]["best"]) for name in ("random", "scipy-lbfgsb")] == [2, 3]
    program("coco_page", "--results", "coco.json", "--page", "coco.md", folder=tmp_path)
    rows = [line.split(" | ") for line in (tmp_path / "coco.md").read_text().splitlines()]
    (cells,) = (row for row in rows if row[0] == "| random" and len(row) == 5)
    assert cells[3] == "–"


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("slsqp", "scipy"),
        ("bfgs", "scipy"),
        ("cobyqa", "scipy"),
        ("newuoa", "nlopt"),
        ("bobyqa", "nlopt"),
        ("bipop-cma", "cma"),
        ("lq-cma", "cma"),
    ],
)
def test_each_rival_solves_the_sphere_and_spends_its_budget(name, module, tmp_path):
    pytest.importorskip(module)
    words = ("--functions", "1,3", "--instances", "6", "--budget-multipliers", "10,500")
    (table,) = coco(*words, "--rivals", name, "--runs", "runs.jsonl", folder=tmp_path)
    method = table["methods"][name]
    assert method["failed"] == 0
    sphere, rastrigin = (
        json.loads(line)[-2] for line in (tmp_path / "runs.jsonl").read_text().splitlines()
    )
    if name in ("cobyqa", "lq-cma"):  # which are given at most 300 d
        assert len(method["best"]) == 1
        assert rastrigin == 50
    else:
        assert method["best"][1][0] < 1e-8
        assert sphere < 2500  # a run ends when its last target is reached
        assert rastrigin == 2500  # and starts again until then


def test_coco_s_own_output_has_the_same_precision(tables, tmp_path):
    program("coco", *RUNS, *BUDGETS, "--rivals", "random", "--observer", "ours", folder=tmp_path)
    for k, function in enumerate((SPHERE, ROSENBROCK)):
        (file,) = tmp_path.glob(f"exdata/ours/**/*_f{function}.info")
        ends = file.read_text().split(".dat, ")[1].split(", ")  # such as 6:100|2.1e+01
        best = tables[0]["methods"]["random"]["best"][1][2 * k :][:2]
        assert ends == [f"{i}:100|{b:.1e}" for i, b in zip((6, 7), best, strict=True)]


def test_the_page_has_the_shares(tables, folder):
    program("coco_page", "--results", "coco.json", "--page", "coco.md", folder=folder)
    page = (folder / "coco.md").read_text()
    assert "chosen on instances 1–5; the ones reported here are 6–7" in " ".join(page.split())
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    for table in tables:
        for name, method in table["methods"].items():
            shares = [f"{share:.3f}" for share in method["shares"]]
            assert [f"| {name}", *shares] in [
                [cell.split(" ± ")[0] for cell in row][:3] for row in rows
            ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rivals", "nobody"), "no method named nobody"),
        (("--noise", "loud"), "--noise"),
        (("--dimensions", "7"), "no problems with d = 7"),
        (("--suite", "bbob-mixint"), "--suite"),
        (("--functions", "25"), "--functions"),
    ],
)
def test_what_cannot_be_run_is_said(words, said, tmp_path):
    out = program("coco", "--budget-multipliers", "1", *words, folder=tmp_path, fails=True)
    assert said in out
    assert "Traceback" not in out


def test_places_where_the_default_trails_are_listed(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.coco_scores import behind

    good, bad = [1e-8, 1e-8], [1.0, 1.0]
    table = {
        "suite": "bbob",
        "dimension": 5,
        "noise": "none",
        "functions": [1, 1, 10, 10],
        "instances": [6, 7, 6, 7],
        "multipliers": [10, 30, 100],
        "methods": {
            "gensmooth": {"best": [bad + bad, good + bad, good + good]},
            "pycma": {"best": [bad + good, bad + good]},
            "scipy-lbfgsb": {"best": [bad + bad]},
        },
    }
    assert behind(table) == [
        ["bbob, d = 5, noise-free", "10 d", "all", "pycma", "−0.392 ± 0.000"],
        ["bbob, d = 5, noise-free", "30 d", "ill-conditioned", "pycma", "−0.784 ± 0.000"],
    ]


def test_the_published_pages_are_those_of_the_published_results(tmp_path):
    for name in ("README.md", "docs/coco.md"):
        page = tmp_path / name
        page.parent.mkdir(exist_ok=True)
        page.write_text((ROOT / name).read_text())
    results = ROOT / "docs" / "results" / "coco.json"
    program("coco_page", "--results", str(results), folder=tmp_path)
    for name in ("README.md", "docs/coco.md"):
        assert (tmp_path / name).read_text() == (ROOT / name).read_text(), "make bench writes it"
