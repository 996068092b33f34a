"""Methods side by side: the same seeds, nothing run twice, and a verdict that follows."""

import csv
import json
import linecache
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gensmooth as gs
from gensmooth import fields, naming
from gensmooth.lab.experiments.statistics import compare as paired
from gensmooth.lab.experiments.statistics import holm
from gensmooth.lab.trials import choices, identity, ranking
from gensmooth.lab.trials.problems import find_problem
from gensmooth.lab.trials.table import TrialTable
from gensmooth.lab.trials.trial import POINTS, outline
from patience import LONG, alive, children, wait_until


def bowl(x):
    return float(((x - 1) ** 2).sum())


def noisy(x, rng):
    return bowl(x) + 0.1 * float(rng.standard_normal())


def _runs(folder: Path) -> dict[str, tuple[int, str]]:
    return {
        path.name: (path.stat().st_mtime_ns, (path / "metrics.jsonl").read_text())
        for path in (folder / "trials" / "runs").glob("[0-9a-f]*")  # others are being written
    }


# --- runs ----------------------------------------------------------------------------------------


def test_a_run_is_minimize_itself(tmp_path):
    found = gs.compare(
        noisy,
        np.zeros(4),
        methods=["auto", "bes(spacing=0.2, optimizer=sgd(0.05))"],
        seeds=[3, 5],
        budget=400,
        samples="independent",
        values=7,
        folder=tmp_path,
    )
    for label, how in {
        "auto": {"method": "auto"},
        "bes(spacing=0.2, optimizer=sgd(0.05))": {
            "method": "bes",
            "spacing": 0.2,
            "optimizer": gs.sgd(0.05),
        },
    }.items():
        for seed, run in zip((3, 5), found.runs[label], strict=True):
            res = gs.minimize(
                noisy, np.zeros(4), budget=400, samples="independent", seed=seed, **how
            )
            assert run.more["x"] == res.x.tolist()
            rngs = [gs.streams.generator(seed, gs.streams.Purpose.TEST, index=i) for i in range(7)]
            fresh = [noisy(res.x, rng) for rng in rngs]  # the same for every method
            assert run.final == pytest.approx(np.mean(fresh), rel=1e-14)
            assert run.more["evaluations"] == res.nfev <= 400
            assert len(run.series["value"]) == POINTS
            assert run.series["best"][-1] == min(
                run.more["start"], *(float(v) for v in res.history.best_value)
            )


def structured(p, rng):
    assert set(p) == {"w", "b"}
    assert p["w"].shape == (2, 2)
    return float(((p["w"] - 1) ** 2).sum() + (p["b"] - 2) ** 2 + 0.1 * rng.standard_normal())


def worth(p):
    return float(((p["w"] - 1) ** 2).sum() + (p["b"] - 2) ** 2)


def test_a_structure_is_compared_as_minimize_takes_it(tmp_path):
    start = {"w": np.full((2, 2), 0.5), "b": np.array(1.0)}
    problem = {
        "bounds": {"w": (0.1, 1.5), "b": (0, 0)},
        "log_scale": {"w": True, "b": False},
        "samples": "independent",
        "budget": 300,
    }
    methods = ["auto", "low-rank(num_directions=4)", "bes"]
    found = gs.compare(
        *(structured, start),
        methods=methods,
        score=worth,
        seeds=2,
        start_spread=0.1,
        folder=tmp_path,
        **problem,
    )
    for label in methods:
        how = {"method": label.partition("(")[0]}
        how |= {"num_directions": 4} if "(" in label else {}
        for seed, run in enumerate(found.runs[label]):
            away = 0.1 * gs.streams.generator(seed, gs.streams.Purpose.START).standard_normal(5)
            flat, tree = gs.Tree.of(start)
            moved = tree.build(flat + away)
            res = gs.minimize(structured, moved, seed=seed, **how, **problem)
            assert run.more["x"] == gs.Tree.of(res.x)[0].tolist()
            assert res.x["b"] == 0
            assert run.final == worth(res.x)
            assert run.series["score"][-1] == run.final
    again = gs.compare(
        *(structured, start),
        methods=methods,
        score=worth,
        seeds=2,
        start_spread=0.1,
        folder=tmp_path,
        workers=2,
        **problem,
    )
    assert again.standings == found.standings


def test_what_is_finished_is_not_run_again_and_a_larger_comparison_takes_it_over(tmp_path):
    how = {"budget": 200, "folder": tmp_path}
    first = gs.compare(bowl, np.zeros(3), methods=["bes", "gs"], seeds=2, **how)
    before = _runs(tmp_path)
    assert len(before) == 4
    again = gs.compare(bowl, np.zeros(3), methods=["bes", "gs"], seeds=2, **how)
    assert _runs(tmp_path) == before
    assert again.pairs == first.pairs
    gs.compare(bowl, np.zeros(3), methods=["auto", "gs", "bes"], seeds=3, **how)
    after = _runs(tmp_path)
    assert len(after) == 9
    assert {name: after[name] for name in before} == before
    gs.compare(bowl, np.ones(3), methods=["bes"], seeds=1, **how)  # another start
    assert len(_runs(tmp_path)) == 10


def test_processes_give_the_same_to_the_last_bit(tmp_path):
    how = {"methods": ["auto", "guided-es"], "seeds": 2, "budget": 300, "start_spread": 0.5}
    scale = np.array([1.0, 3.0, 9.0])

    def local(x):  # has no name to import it by
        return float((scale * x) @ x)

    one = gs.compare(local, np.zeros(3), workers=1, folder=tmp_path / "1", **how)
    two = gs.compare(local, np.zeros(3), workers=2, folder=tmp_path / "2", **how)
    assert one.standings == two.standings
    for label in how["methods"]:
        for a, b in zip(one.runs[label], two.runs[label], strict=True):
            assert a.series == b.series
            assert a.more["x"] == b.more["x"]
    starts = {run.more["start"] for each in one.runs.values() for run in each}
    assert len(starts) == 2  # one for each seed, shared by the methods


SCRIPT = """
import os, time
def slow(x, rng):
    time.sleep(float(os.environ.get("SLEEP", "0")))
    return float(x @ x) + 0.1 * float(rng.standard_normal())
def score(x):
    return float(x @ x)
"""


def _command(folder: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "gensmooth", "compare", "slow:slow", "--x0", "ones:4"),
        *("--methods", "bes,auto", "--seeds", "2", "--budget", "400", "--samples", "independent"),
        *("--score", "slow:score", "--folder", str(folder), "--workers", "2"),
    ]


def test_after_kill_9_the_same_command_goes_on(tmp_path):
    (tmp_path / "slow.py").write_text(SCRIPT)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    environment = {**os.environ, "SLEEP": "0"}
    how = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": LONG}
    done = subprocess.run(_command(whole), env=environment, check=True, **how)
    assert "page: " in done.stdout
    assert len(_runs(whole)) == 4
    slow = {**os.environ, "SLEEP": "0.002"}
    process = subprocess.Popen(_command(cut), cwd=tmp_path, env=slow, stderr=subprocess.DEVNULL)
    finished = cut / "trials" / "runs"
    assert wait_until(lambda: list(finished.glob("[0-9a-f]*")))
    workers = children(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert wait_until(lambda: not any(map(alive, workers)))  # they may be writing a last run
    before = _runs(cut)
    subprocess.run(_command(cut), env=environment, check=True, **how)
    after = _runs(cut)
    assert {name: after[name] for name in before} == before
    assert set(after) == set(_runs(whole))
    tables = [_rows(folder / "tables" / "runs.csv") for folder in (whole, cut)]
    for a, b in zip(*tables, strict=True):
        for name in ("method", "seed", "final", "start", "best", "evaluations", "steps"):
            assert a[name] == b[name]
    curves = [(folder / "tables" / "curves-comparison.csv").read_text() for folder in (whole, cut)]
    assert curves[0] == curves[1]


@pytest.mark.parametrize("scored", [False, True])
def test_values_that_judge_are_not_computed_again(scored, tmp_path):
    """The values are on disk when they arrive, so an interruption is as good as kill -9 here."""
    calls, stop = [], []

    def slow(x):
        calls.append(x.copy())
        time.sleep(0.011)
        if len(calls) in stop:
            raise KeyboardInterrupt
        return float(((x - 1) ** 2).sum())

    def quick(x):
        return float(((x - 1) ** 2).sum())

    how = {"methods": ["bes"], "seeds": 1, "budget": 40, "workers": 1}
    fun = quick if scored else slow
    how |= {"score": slow} if scored else {"values": 6}
    whole = gs.compare(fun, np.zeros(3), folder=tmp_path / "whole", **how)
    needed = len(calls)
    calls.clear()
    stop += [4, needed - 2, needed]  # in the judgement of the start, and in that of the end
    for _ in range(9):
        try:
            found = gs.compare(fun, np.zeros(3), folder=tmp_path / "cut", **how)
            break
        except KeyboardInterrupt:
            continue
    assert found.runs["bes"][0].final == whole.runs["bes"][0].final
    assert found.runs["bes"][0].series == whole.runs["bes"][0].series
    again = len(calls) - needed
    assert again <= 2 * len(stop)  # the interrupted call, and the first check of each comparison


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# --- failures are results ------------------------------------------------------------------------


def fragile(x):
    if abs(x).max() > 3:
        raise RuntimeError("out of reach")
    return bowl(x)


def test_a_method_that_fails_or_diverges_is_shown_and_ranks_last(tmp_path):
    found = gs.compare(
        fragile,
        np.zeros(3),
        methods=["bes", "gs(optimizer=sgd(100.0))"],
        seeds=3,
        budget=200,
        folder=tmp_path,
    )
    assert [each.label for each in found.standings] == ["bes", "gs(optimizer=sgd(100.0))"]
    lost = found.runs["gs(optimizer=sgd(100.0))"]
    assert all(run.diverged and run.final == math.inf for run in lost)
    assert all("out of reach" in run.more["failure"] for run in lost)
    assert found.standings[1].failed == 3
    assert found.pairs[0].words == "gs(optimizer=sgd(100.0)) failed in all 3 runs."
    page = found.page.read_text()
    assert "out of reach" in page
    assert "Runs that failed or diverged" in page
    rows = [row for row in _rows(found.csv) if row["method"].startswith("gs")]
    assert {row["final"] for row in rows} == {"inf"}
    assert {row["status"] for row in rows} == {"failed"}


def unlicensed(x):
    if x.any():
        raise RuntimeError("the solver has no licence")
    return 1.0


def test_where_every_run_fails_the_terminal_says_why(tmp_path):
    start, methods = np.zeros(3), ["auto", "bes"]
    text = str(gs.compare(unlicensed, start, methods=methods, seeds=2, budget=99, folder=tmp_path))
    table, reasons, verdicts = text.split("\n\n")
    assert table.count("2 of 2 runs failed") == 2
    for line, label in zip(reasons.splitlines(), methods, strict=True):
        assert line.startswith(f"{label}: all 2 runs failed or diverged (The objective raised ")
        assert "RuntimeError: the solver has no licence, at evaluation" in line
    assert verdicts == "auto failed in all 2 runs; bes failed in all 2 runs."
    swept = gs.sweep(
        unlicensed, start, spacing=[0.1, 1.0], seeds=1, budget=99, folder=tmp_path / "sweep"
    )
    none, reason = str(swept).split("\n\n")
    assert none == "Every cell failed on some seed: there is no best one."
    assert "its one run failed or diverged (The objective raised RuntimeError: the solver" in reason


def test_one_method_or_one_seed_prints_no_empty_paragraph(tmp_path):
    for methods, seeds in [(["gs"], 2), (["gs"], 1), (["gs", "bes"], 1)]:
        how = {"methods": methods, "seeds": seeds, "budget": 99, "folder": tmp_path}
        found = gs.compare(bowl, np.zeros(3), **how)
        assert all(str(found).split("\n\n")), str(found)
        assert str(found) == str(found).strip()
        page = found.page.read_text()
        assert f"{len(methods)} method{'s' * (len(methods) > 1)} on test_comparisons:bowl" in page
        assert f"and {seeds} seed{'s' * (seeds > 1)}." in page


def test_divergence_is_a_failure(tmp_path):
    found = gs.compare(
        bowl,
        np.zeros(3),
        methods=["bes(optimizer=sgd(1e3))", "bes"],
        seeds=2,
        budget=3000,
        folder=tmp_path,
    )
    assert found.standings[0].label == "bes"
    assert found.standings[1].failed == 2


def test_what_cannot_be_run_is_refused_before_anything_is(tmp_path):
    out = tmp_path / "out"
    how = {"budget": 200, "folder": out}
    for methods, words in [
        (["bess"], "bess: There is no method 'bess'. Did you mean 'bes'?"),
        (["auto(spacing=0.1)"], "method='auto' chooses `spacing` itself"),
        (["bes(spaceing=1)"], "Did you mean 'spacing'"),
        (["bes(samples='shared')"], "which all methods share"),
        (["bes(spacing=-1)"], "`spacing` must be positive"),
        (["bes(spacing="], "options as in Python"),
        (["bes(__import__('os'))"], "options as in Python"),
        (["bes(optimizer=open('x'))"], "There is no function or class 'open'"),
        (["bes", "bes"], "'bes' twice"),
        ([], "is empty"),
    ]:
        with pytest.raises(ValueError) as error:
            gs.compare(bowl, np.zeros(3), methods=methods, **how)
        assert words in str(error.value)
    with pytest.raises(ValueError, match="allow at least"):
        gs.compare(bowl, np.zeros(3), methods=["bes"], budget=3, folder=out)
    with pytest.raises(ValueError, match="must be different seeds"):
        gs.compare(bowl, np.zeros(3), seeds=[1, 1], **how)
    with pytest.raises(ValueError, match="`x0` is missing"):
        gs.compare(bowl, **how)
    with pytest.raises(ValueError, match="The objective raised TypeError"):
        gs.compare(noisy, np.zeros(3), **how)  # needs samples
    assert not out.exists()


def test_an_unknown_problem_lists_the_known_ones(tmp_path):
    for name in ("nosy:sphere:3", "sphere", "gensmooth.theory:nothing"):
        with pytest.raises(ValueError, match=r"noisy:sphere:100, regression:6,15, bbob:f8:20"):
            gs.compare(name, np.zeros(3), folder=tmp_path)
    with pytest.raises(ValueError, match="Did you mean 'sphere'"):
        gs.compare("noisy:spere:3", folder=tmp_path)
    with pytest.raises(ValueError, match="cannot be changed for the built-in problem"):
        gs.compare("noisy:sphere:3", np.zeros(3), folder=tmp_path)
    for name in ("noisy:sphere", "regression:6", "regression:6,x", "bbob:8:20", "gym:"):
        with pytest.raises(ValueError, match="must be written"):
            find_problem(name)


# --- built-in problems ---------------------------------------------------------------------------


def test_the_noisy_benchmark_has_the_studys_start_and_oracle():
    from gensmooth.problems import noisy as model

    task = find_problem("noisy:sphere:20").at(7)
    assert task.score(task.x0) == model.starting_value("sphere", dim=20, seed=7)


def test_regression_is_judged_by_the_expected_loss(tmp_path):
    from gensmooth.problems import regression

    found = gs.compare(
        "regression:2,5", methods=["auto", "bes"], seeds=1, budget=600, folder=tmp_path
    )
    run = found.runs["bes"][0]
    assert run.final == regression.objective(np.array(run.more["x"]))
    assert run.more["steps"] == (600 - 5) // (3 * 5)  # L = 2, N = 5, and the last value
    problem = find_problem("regression:2,5")
    assert problem.budget == 1000 * 3 * 5


def test_coco_is_named_where_it_is_missing():
    try:
        import cocoex
    except ImportError:
        with pytest.raises(ImportError, match=r"gensmooth\[coco\]"):
            find_problem("bbob:f8:20")
        return
    assert cocoex
    task = find_problem("bbob:f8:5").at(3)
    again = find_problem("bbob:f8:5:4").at(3)
    assert task.fun(task.x0) == again.fun(again.x0) > 0  # seed 3 has the fourth instance
    assert find_problem("bbob:f8:5:5").at(3).fun(task.x0) != task.fun(task.x0)


def test_policies_are_compared_by_fresh_episodes(tmp_path):
    pytest.importorskip("gymnasium")
    found = gs.compare(
        "gym:CartPole-v1",
        methods=["auto", "bes(num_directions=2)"],
        seeds=1,
        budget=60,
        values=4,
        folder=tmp_path,
    )
    with pytest.raises(ValueError, match="allow at least 41"):
        gs.compare("gym:CartPole-v1", methods=["auto"], budget=24, folder=tmp_path)
    for label, runs in found.runs.items():
        assert not runs[0].diverged, runs[0].more
        assert 0 < runs[0].more["evaluations"] <= 60, label
        assert runs[0].more["value"] == -runs[0].final > 0


# --- verdicts ------------------------------------------------------------------------------------


def test_verdicts_are_the_paired_tests_corrected_over_all_pairs():
    rng = np.random.default_rng(0)
    base = rng.uniform(1, 2, 8)
    values = {
        "a": list(0.5 * base * np.exp(0.1 * rng.standard_normal(8))),
        "b": list(base),
        "c": list(base * np.exp(0.1 * rng.standard_normal(8))),
    }
    found = {(p.a, p.b): p for p in ranking.pairs(values)}
    logs = {name: np.log(each) for name, each in values.items()}
    tests = {pair: paired(logs[pair[0]], logs[pair[1]]) for pair in found}
    expected = holm([2 * min(t.p_less, t.p_greater) for t in tests.values()])
    for (pair, test), p in zip(tests.items(), expected, strict=True):
        assert found[pair].p == min(1.0, p)
        assert found[pair].effect == pytest.approx(math.exp(test.effect))
        assert found[pair].low <= found[pair].effect <= found[pair].high
    best = next(p for p in found.values() if p.decided)
    assert best.a == "a"
    assert best.words.startswith(f"a below {best.b} in 8 of 8 seeds, ratio 0.")
    undecided = next(p for p in found.values() if {p.a, p.b} == {"b", "c"})
    assert "cannot be told apart with 8 seeds" in undecided.words


def test_chance_is_rarely_a_verdict():
    """At 5 % over all pairs of four equal methods; without the correction it is above 10 %."""
    rng = np.random.default_rng(1)
    decided = uncorrected = 0
    trials = 400
    for _ in range(trials):
        values = {name: list(np.exp(rng.standard_normal(6))) for name in "abcd"}
        found = ranking.pairs(values)
        decided += any(p.decided for p in found)
        logs = {name: np.log(each) for name, each in values.items()}
        uncorrected += any(
            2 * min(t.p_less, t.p_greater) < 0.05
            for p in found
            for t in [paired(logs[p.a], logs[p.b])]
        )
    error = math.sqrt(0.05 * 0.95 / trials)
    assert decided / trials < 0.05 + 3 * error
    assert uncorrected / trials > 0.05 + 3 * error


def test_values_of_both_signs_are_compared_by_difference_and_high_ones_may_be_good():
    values = {"a": [-1.0, -2.0, -1.5], "b": [1.0, 0.4, 0.7]}
    (pair,) = ranking.pairs(values)
    assert (pair.a, pair.ratio) == ("a", False)
    assert pair.effect == pytest.approx(-2.2)
    (other,) = ranking.pairs(values, maximize=True)
    assert other.a == "b"
    assert other.effect == pytest.approx(2.2)
    assert other.low < 2.2 < other.high
    assert "b above a in 3 of 3 seeds" in other.words


def test_a_failed_run_is_the_worst_of_all():
    values = {"a": [1.0, 1.0, math.inf, 1.1], "b": [5.0, 6.0, 7.0, 8.0]}
    first, second = ranking.standings(values)
    assert (first.label, first.failed, second.failed) == ("a", 1, 0)
    (pair,) = ranking.pairs(values)
    assert pair.wins == 3
    assert "a failed in 1 of 4 runs" in pair.words


def test_one_seed_decides_nothing():
    (pair,) = ranking.pairs({"a": [1.0], "b": [2.0]})
    assert not pair.decided
    assert "decides nothing" in pair.words


# --- curves and identities -----------------------------------------------------------------------


def test_a_curve_is_the_mean_of_a_part_and_the_best_so_far():
    history = gs.minimize(bowl, np.zeros(2), method="bes", budget=60, seed=0).history
    found = outline(history, 1000, 9.0)
    steps = history.evaluations
    for part in (0, 1, 3):
        here = (steps > 10 * part) & (steps <= 10 * (part + 1))
        if here.any():
            assert found["value"][part] == history.value[here].mean()
    assert found["best"][-1] == min(9.0, *history.best_value)
    assert found["value"][99] == found["value"][6]  # it ended early, and stays where it was
    flipped = outline(history, 1000, 9.0, maximize=True)
    assert flipped["best"][-1] == 9.0


def test_a_function_is_known_by_its_code():
    def make(offset):
        def fun(x):
            return float(x @ x) + offset

        return fun

    assert identity.identity(make(1.0)) == identity.identity(make(1.0))
    assert identity.identity(make(1.0)) != identity.identity(make(2.0))
    assert identity.identity(lambda: 1.0)["code"] != identity.identity(lambda: 2.0)["code"]
    grid = np.arange(3.0)
    before = identity.identity(make(grid))
    grid[0] = 5.0
    assert identity.identity(make(grid)) != before


def test_a_module_that_was_edited_is_another_one(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "edited_model.py"

    def code_of(text):
        file.write_text(text)
        sys.modules.pop("edited_model", None)
        linecache.clearcache()
        return identity.identity(naming.find_function("edited_model:loss"))

    first = code_of("HALF = 0.5\ndef loss(x):\n    return HALF * (x @ x)\n")
    assert first["name"] == "edited_model:loss"
    same = code_of("# a remark\nHALF = 0.5\n\ndef loss(x):\n    return HALF * (x @ x)\n")
    assert same == first
    assert code_of("HALF = 0.6\ndef loss(x):\n    return HALF * (x @ x)\n") != first


def test_choices_are_read_as_python_writes_them():
    (plain,) = choices.read_choices("guided-es")
    assert plain == choices.Choice("guided-es", "guided-es", {})
    named = choices.read_choices({"mine": "bes(spacing=1e-2)", "gs": {"num_directions": 4}})
    assert [(c.label, c.method) for c in named] == [("mine", "bes"), ("gs", "gs")]
    a, b = choices.read_choices(
        ["bes(spacing=0.1, learning_rate=0.5)", "bes(learning_rate=0.5,spacing=.1)"]
    )
    assert a.config() == b.config()


def test_what_was_asked_is_written_down(tmp_path):
    gs.compare(bowl, np.zeros(3), methods=["bes"], seeds=2, budget=100, folder=tmp_path)
    asked = TrialTable.read(tmp_path)
    assert asked.seeds == (0, 1)
    assert asked.command == (
        f"gs.compare(bowl, x0, methods=['bes'], seeds=2, budget=100, folder='{tmp_path}')"
    )
    (tmp_path / "comparison.json").write_text(json.dumps(fields.seal({"format": 1})))
    with pytest.raises(gs.CheckpointError, match="not the plan of a comparison: `kind` is missing"):
        TrialTable.read(tmp_path)
    (tmp_path / "comparison.json").write_text(json.dumps(fields.seal({"format": 7})))
    with pytest.raises(gs.CheckpointError, match=r"has format 7, but this .* reads format 1"):
        TrialTable.read(tmp_path)
