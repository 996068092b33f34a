"""The reinforcement-learning study: its size, its verdicts, what it says of itself, its runs."""

from dataclasses import replace

import pytest

from gensmooth.lab import RunSpec, run_study
from gensmooth.lab.experiments.store import StudyStore
from gensmooth.lab.experiments.verdicts import Scores
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.paper.linreg.study import LinregOptions
from gensmooth.lab.paper.rl import claims, scores
from gensmooth.lab.paper.rl import settings as rl_settings
from gensmooth.lab.paper.rl.scores import complete, coverage
from gensmooth.lab.paper.rl.settings import RlOptions, Setting
from gensmooth.lab.paper.rl.study import STUDY
from rl_records import PAPER, record, study

SIX = paper.METHODS


# --- the paper's size ----------------------------------------------------------------------------


def test_the_papers_tables():
    """Spots of every table; the whole was compared with the paper's source by a program."""
    table = paper.RL
    assert table["Ant"]["gs-shrinkage"] == {2: (0.1, 1e-3), 6: (0.1, 1e-3), 20: (0.01, 1e-4)}
    assert table["Ant"]["guided-es"][20] == (0.1, 1e-3)
    assert table["Walker2d"]["bes-shrinkage"] == {2: (0.1, 1e-3), 6: (0.01, 1e-4), 20: (0.1, 0.01)}
    assert table["Walker2d"]["gs"][2] == (0.01, 1e-4)
    assert table["HalfCheetahRandVel"]["bes"][2] == (0.01, 1e-4)
    assert table["HalfCheetahRandVel"]["guided-es"][6] == (0.1, 0.01)
    assert table["ML1-Reach"]["gs"] == {2: (0.1, 1e-3), 6: (0.1, 1e-3), 20: (0.01, 1e-4)}
    assert table["ML1-Reach"]["bes"][20] == (0.1, 0.01)
    assert table["Hopper"]["guided-es"] == dict.fromkeys((2, 6, 20), (0.1, 0.01))
    assert table["Hopper"]["bes-shrinkage"][6] == (0.1, 1e-3)
    assert {choice[0] for row in table["ML1-Push"].values() for choice in row.values()} == {0.1}
    assert paper.RL_MLP["gs-shrinkage"] == (0.1, 0.01)
    assert paper.RL_ANTITHETIC["bes-shrinkage"] == (0.01, 0.01)


def test_every_choice_is_of_the_grid():
    choices = [c for table in paper.RL.values() for row in table.values() for c in row.values()]
    choices += [*paper.RL_MLP.values(), *paper.RL_ANTITHETIC.values()]
    assert len(choices) == 6 * 6 * 3 + 12
    assert {c for c, _ in choices} == set(paper.RL_SPACINGS)
    assert {rate for _, rate in choices} == set(paper.RL_RATES)


def test_the_papers_number_of_runs():
    cells = STUDY.select(PAPER, [])
    specs = STUDY.reporting(PAPER, cells)
    main = [s for s in specs if rl_settings.setting_of(s.config).part == "main"]
    assert len(main) == 6 * 3 * 6 * 5
    assert len(specs) == len(main) + 2 * 6 * 5
    assert {s.config["rounds"] * s.config["iterations"] for s in specs} == {1000}
    assert {s.config["test_trials"] for s in specs} == {1000}
    assert STUDY.tuning(PAPER) == []
    searched = STUDY.tuning(replace(PAPER, hyperparameters="search"))
    assert len(searched) == (6 * 3 + 2) * 6 * 6 * 3
    assert all(s.config["test_every"] == s.config["rounds"] for s in searched)  # one test, the last


def test_pieces_of_the_study_are_runs_of_the_whole():
    whole = {spec.key for spec in STUDY.reporting(PAPER, STUDY.select(PAPER, []))}
    asked = replace(PAPER, environments=("halfcheetahrandvel",), num_directions=(2, 20), seeds=2)
    piece = STUDY.reporting(asked, STUDY.select(asked, []))
    assert len(piece) == 2 * 6 * 2
    assert {spec.key for spec in piece} < whole
    ablation = replace(PAPER, parts=("mlp",), methods=("gs", "bes"))
    specs = STUDY.reporting(ablation, STUDY.select(ablation, []))
    assert len(specs) == 2 * 5
    assert {spec.config["policy"] for spec in specs} == {"mlp"}
    assert {spec.key for spec in specs} < whole


def test_the_grid_search_takes_the_best_and_finished_ones_only():
    few = replace(PAPER, environments=("Hopper",), num_directions=(2,), methods=("gs", "bes"))
    options = replace(few, hyperparameters="search")
    records = []
    for spec in STUDY.tuning(options):
        good = (spec.config["spacing"], spec.config["learning_rate"]) == (0.01, 1e-3)
        made = record(Setting("Hopper", 2), "gs", 1, level=50 if good else 0)
        records.append(made._replace(config=spec.config))
    (gs, bes) = STUDY.select(options, records)
    assert (gs.chosen, gs.paper) == ((0.01, 1e-3), (0.1, 1e-3))
    assert gs.score == pytest.approx(1.5 * 2971, rel=0.1)  # a return, not a loss
    assert [cell.method for cell in STUDY.select(options, records[:-1])] == ["gs"]
    assert bes.chosen == (0.01, 1e-3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (replace(PAPER, parts=("mpl",)), "no part 'mpl'.*main, mlp, antithetic"),
        (replace(PAPER, parts=("mlp",), environments=("Hopper",)), "Nothing.*Ant with L = 20"),
        (replace(PAPER, iterations=15), "multiple of 10"),
        (replace(PAPER, num_directions=(3,)), "no spacing and learning rate.*search"),
        (replace(PAPER, methods=("sphere",)), "no spacing and learning rate for sphere"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_said(options, words):
    with pytest.raises(ValueError, match=words):
        STUDY.reporting(options, STUDY.select(options, []))


def test_runs_with_other_resets_are_other_runs():
    independent, paired = (
        STUDY.reporting(options, STUDY.select(options, []))
        for options in (replace(PAPER, resets=r) for r in ("independent", "paired"))
    )
    assert {s.config["samples"] for s in independent} == {"independent"}
    assert {s.config["samples"] for s in paired} == {"paired"}
    assert not {s.key for s in independent} & {s.key for s in paired}


def test_a_shared_goal_reuses_the_runs_that_it_equals():
    """By default a direction has one goal; runs have the spelling, and so the keys, they had."""
    shared = STUDY.reporting(PAPER, STUDY.select(PAPER, []))
    spelled = {s.config["environment"]: s.config["samples"] for s in shared}
    assert spelled == {
        "Ant": "independent",
        "Walker2d-v4": "independent",
        "Hopper-v4": "independent",
        "HalfCheetahRandVel": "shared-goal",
        "ML1-Reach": "paired",
        "ML1-Push": "paired",
    }
    for resets in ("independent", "paired"):
        options = replace(PAPER, resets=resets)
        keys = {s.key for s in STUDY.reporting(options, STUDY.select(options, []))}
        equal = {s.key for s in shared if s.config["samples"] == resets}
        assert equal
        assert equal <= keys
    assert all("last_trials" not in s.config for s in shared)


def test_long_runs_cost_more():
    def cost(environment, number, **changes):
        options = replace(PAPER, **changes)
        return rl_settings.cost(rl_settings.config_of(options, Setting(environment, number), "gs"))

    assert cost("Ant", 20) > cost("Ant", 2) > cost("HalfCheetahRandVel", 2)
    assert cost("Ant", 2, test_trials=100) < cost("Ant", 2) / 5  # tests are nearly all of it


# --- verdicts ------------------------------------------------------------------------------------


def verdicts(levels, **options):
    return judged(study(levels, **options))


def judged(records):
    return {row.id: row for row in claims.judge(scores.score(records), [])}


def test_every_claim_can_be_decided_both_ways():
    """Methods ordered for each sentence make it hold, and in the other order make it fail."""
    order = {"orthogonal-es": 5, "guided-es": 4, "bes-shrinkage": 3, "gs-shrinkage": 2, "bes": 1}
    up = verdicts(lambda _s, m: 20 * order.get(m, 0))
    down = verdicts(lambda _s, m: -20 * order.get(m, 0) + 100)
    assert up.keys() == down.keys()
    for name in (
        "rl-bes-higher",
        "rl-shrinkage-locomotion",
        "rl-reach-orthogonal",
    ):
        assert up[name].verdict == "holds", up[name]
        assert down[name].verdict == "does not hold", down[name]
    assert up["rl-additional-gs"].verdict == "does not hold"
    assert down["rl-additional-gs"].verdict == "holds"
    assert up["rl-walker-twenty-late"].verdict == "holds"
    assert up["rl-hopper-six"].verdict == "does not hold"  # Orthogonal ES is higher
    assert [row.id for row in up.values() if row.verdict == "not run"] == ["rl-ant-momentum"]


def test_claims_about_speed_are_judged_by_two_measures_of_speed():
    """They hold if both measures say so, and depend on the measure if one does not."""
    here = [Setting("HalfCheetahRandVel", number) for number in (2, 6, 20)]

    def verdict(early, rounds):
        rows = scores.score(study(lambda _s, _m: 0.0, settings=here)).rows
        for row in rows:
            ahead = row["method"].endswith("shrinkage")
            row["speed"] = -250.0 + early * ahead + row["seed"] % 7
            row["rounds"] = 40 - rounds * ahead + row["seed"] % 3
        judged = {row.id: row for row in claims.judge(Scores(rows), [])}
        return judged["rl-cheetah-fastest"].verdict

    assert verdict(early=30, rounds=20) == "holds"
    assert verdict(early=-30, rounds=-20) == "does not hold"
    assert verdict(early=30, rounds=-20) == "depends on the reading"


def test_the_speed_of_a_run_is_the_rounds_to_half_of_what_is_learned():
    here = Setting("HalfCheetahRandVel", 2)
    runs = study(lambda _s, m: 20.0 * (m == "bes"), settings=[here])
    for row in scores.score(runs).rows:
        run = next(
            r
            for r in runs
            if (r.config["method"], r.config["seed"]) == (row["method"], row["seed"])
        )
        curve = run.series["return"]
        assert row["speed"] == pytest.approx(sum(curve[:20]) / 20)
        assert 1 <= row["rounds"] <= 101


def test_methods_that_are_all_alike():
    rows = verdicts(lambda _s, _m: 0.0)
    assert rows["rl-push-six"].verdict == "holds"
    assert rows["rl-ours-competitive"].verdict == "holds"
    assert rows["rl-bes-never-behind"].verdict == "holds"
    assert rows["rl-ant-guided-two"].verdict == "holds"
    assert rows["rl-ant-shrinkage"].verdict == "does not hold"  # a large margin is asked for
    assert rows["rl-bes-higher"].verdict == "undecided"
    assert rows["rl-antithetic-learn"].verdict == "holds"  # all curves rise
    assert rows["rl-mlp-deteriorate"].verdict == "depends on the reading"  # on how a network starts


def test_the_ablation_is_compared_with_the_main_runs():
    better = verdicts(lambda s, _m: 30.0 if s.part == "antithetic" else 0.0)
    worse = verdicts(lambda s, _m: -30.0 if s.part == "antithetic" else 0.0)
    assert better["rl-antithetic-improves"].verdict == "holds"
    assert worse["rl-antithetic-improves"].verdict == "does not hold"


def test_a_likely_misprint_in_the_paper_is_a_reading_of_its_own():
    def but_one(setting, method):
        return 30.0 * (-1) ** (method == "bes-shrinkage") * (setting.part == "antithetic")

    assert verdicts(but_one)["rl-antithetic-improves"].verdict == "depends on the reading"


def test_gains_with_few_directions():
    def gain(at_two):
        return lambda s, m: 40.0 * (m.endswith("shrinkage") and (s.num_directions == 2) == at_two)

    assert verdicts(gain(True))["rl-shrinkage-few"].verdict == "holds"
    assert verdicts(gain(False))["rl-shrinkage-few"].verdict == "does not hold"


def test_sentences_without_runs_are_not_judged():
    here = [s for s in rl_settings.PAPER if s.environment == "HalfCheetahRandVel"]
    rows = verdicts(lambda _s, m: 20.0 * m.endswith("shrinkage"), settings=here)
    assert rows["rl-cheetah-two"].verdict == "holds"
    assert rows["rl-cheetah-caught-up"].verdict == "does not hold"
    assert rows["rl-walker-two"].verdict == "not run"
    assert rows["rl-walker-two"].evidence == "none of its cases has been run"
    partly = rows["rl-shrinkage-locomotion"]  # 6 of its 18 cases are there: too few to decide
    assert partly.verdict == "not run"
    assert "shown in 6 of 18, the opposite in 0, 12 not run" in partly.evidence
    # "always" is refuted by what is there, whatever the rest would say
    behind = verdicts(lambda _s, m: -50.0 * (m == "bes"), settings=here)
    assert behind["rl-bes-never-behind"].verdict == "does not hold"
    assert all(row.verdict == "not run" for row in judged([]).values())


def test_a_diverged_run_is_the_worst():
    setting = Setting("Hopper", 6)
    records = study(lambda _s, m: 20.0 * (m == "guided-es"), settings=[setting])
    broken = [
        record(setting, "gs", r.config["seed"], diverged=True) if r.config["method"] == "gs" else r
        for r in records
    ]
    assert judged(broken)["rl-hopper-six"].verdict == "holds"
    lost = [
        record(setting, r.config["method"], r.config["seed"], diverged=True)
        if r.config["method"] == "guided-es"
        else r
        for r in records
    ]
    assert judged(lost)["rl-hopper-six"].verdict == "does not hold"


def test_differences_are_in_units_of_a_fixed_range():
    """A method that collapses does not widen the margin of the others."""
    setting = Setting("ML1-Push", 6)
    near = study(lambda _s, m: 4.0 * (m == "bes"), settings=[setting])
    apart = study(lambda _s, m: 30.0 * (m == "bes"), settings=[setting])
    assert judged(near)["rl-push-six"].verdict == "holds"
    assert judged(apart)["rl-push-six"].verdict == "does not hold"
    collapsed = study(
        lambda _s, m: {"bes": 30.0, "guided-es": -1000.0}.get(m, 0.0), settings=[setting]
    )
    row = judged(collapsed)["rl-push-six"]
    assert row.verdict == "does not hold"
    assert row.evidence == judged(apart)["rl-push-six"].evidence
    rows = {row["method"]: row for row in scores.score(near).rows}
    assert rows["bes"]["end"] == pytest.approx(1.0e5, rel=0.05)  # as they are in the file


def test_which_shrinkage_is_better_depends():
    here = [s for s in rl_settings.PAPER if s.environment in ("Ant", "Walker2d")]
    here = [s for s in here if s.part == "main"]

    def levels(setting, method):
        best = "bes-shrinkage" if setting.environment == "Ant" else "gs-shrinkage"
        return 30.0 * (method == best)

    assert verdicts(levels, settings=here)["rl-shrinkage-depends"].verdict == "holds"
    always = verdicts(lambda _s, m: 30.0 * (m == "bes-shrinkage"))
    assert always["rl-shrinkage-depends"].verdict == "does not hold"


def test_the_conclusions_with_an_mlp():
    order = {"bes": 20.0, "gs-shrinkage": 40.0, "bes-shrinkage": 60.0}
    here = [Setting("Ant", 20, "mlp")]
    ours = verdicts(lambda _s, m: order.get(m, 0.0), settings=here)["rl-mlp-remains"]
    assert ours.verdict == "holds"
    theirs = verdicts(lambda _s, m: 100.0 * (m == "guided-es"), settings=here)["rl-mlp-remains"]
    assert theirs.verdict == "depends on the reading"  # where a network starts is our choice
    assert theirs.evidence.startswith("does not hold for networks that start by doing nothing")
    assert verdicts(lambda _s, _m: 0.0, settings=here)["rl-mlp-remains"].verdict == "undecided"


# --- what has been run ---------------------------------------------------------------------------


def test_coverage_counts_what_is_there():
    here = [Setting("HalfCheetahRandVel", 2)]
    trials = replace(PAPER, test_trials=100)
    records = study(lambda _s, _m: 0, settings=here, options=trials)
    records = [r for r in records if r.config["method"] != "gs" or r.config["seed"] < 1004]
    table = coverage(records)
    assert len(table.rows) == 20  # every setting of the paper, run or not
    rows = {row[0]: row for row in table.rows}
    assert rows["HalfCheetahRandVel, L=2"][1:3] == ["3 of 5", "5 of 5"]
    assert rows["HalfCheetahRandVel, L=2"][-2:] == ["1000 of 1000", "100 of 1000"]
    assert set(rows["Ant, L=20, MLP policy"][1:]) == {""}
    assert "28 of the paper's 600 runs" in table.note
    judged = complete(records, range(1001, 1006))
    assert {r.config["method"] for r in judged} == set(SIX) - {"gs"}
    short = study(lambda _s, _m: 0, settings=here, options=replace(PAPER, iterations=500))
    assert complete(short, range(1001, 1006)) == []
    more = study(lambda _s, _m: 0, settings=here, seeds=20)
    assert ["HalfCheetahRandVel, L=2", "20"] in [row[:2] for row in coverage(more).rows]
    assert "0 of the paper's 600 runs" in coverage(short).note
    long_test = study(lambda _s, _m: 0, settings=here, options=replace(trials, last_trials=1000))
    assert coverage(long_test).rows[9][-1] == "100 of 1000; last round 1000 of 1000"


def test_reporting_on_what_is_there(tmp_path):
    """Pieces made apart, with other numbers of test trials, copied into one folder."""
    here = [Setting("HalfCheetahRandVel", 2)]
    first, second = (StudyStore(tmp_path / name / "rl", "rl") for name in ("one", "two"))
    for store, trials, seeds in ((first, 100, 5), (second, 1000, 2)):
        options = replace(PAPER, test_trials=trials)
        for made in study(lambda _s, _m: 1, settings=here, seeds=seeds, options=options):
            store.save(RunSpec("rl", made.config), made)
    merged = tmp_path / "merged" / "rl" / "runs"
    merged.mkdir(parents=True)
    for store in (first, second):
        for folder in store.runs.iterdir():
            folder.rename(merged / folder.name)
    outcome = run_study("rl", PAPER, merged.parent, make=False)
    assert len(outcome.records) == 30
    by_seed = {r.config["seed"]: r.config["test_trials"] for r in outcome.records}
    assert by_seed == {1001: 1000, 1002: 1000, 1003: 100, 1004: 100, 1005: 100}
    assert outcome.facts["runs made now"] == 0
    assert [c for c in outcome.claims if c.verdict != "not run"]
    fewer = run_study("rl", replace(PAPER, test_trials=1000), merged.parent, make=False)
    assert {r.config["seed"] for r in fewer.records} == {1001, 1002}
    assert all(c.verdict == "not run" for c in fewer.claims)  # no cell has all five seeds
    linreg = LinregOptions("paper", hyperparameters="paper")
    with pytest.raises(RuntimeError, match=r"180 of 180 runs of linreg are missing.*--no-run"):
        run_study("linreg", linreg, tmp_path / "linreg", make=False)
    with pytest.raises(TypeError, match="options of linreg are LinregOptions, not RlOptions"):
        run_study("linreg", PAPER, tmp_path / "linreg", make=False)


def test_a_setting_is_of_one_device(tmp_path):
    """The CPU's where complete; else the GPU's where complete; never some of both."""
    both, slow, fast = (Setting("HalfCheetahRandVel", number) for number in (2, 6, 20))
    gpu_only, more_on_gpu, more_on_cpu = (Setting("Ant", number) for number in (2, 6, 20))
    store = StudyStore(tmp_path / "rl", "rl")
    cpu, gpu = PAPER, replace(PAPER, device="cuda:1", test_trials=20)
    for options, level, settings, seeds in (
        (cpu, 1, [both], 5),
        (gpu, 2, [both, slow, gpu_only], 5),
        (cpu, 1, [slow], 4),  # most of its runs are there, but not all
        (cpu, 1, [more_on_cpu, fast], 3),
        (gpu, 2, [more_on_cpu], 2),
        (cpu, 1, [more_on_gpu], 1),
        (gpu, 2, [more_on_gpu], 3),
    ):
        levels = dict.fromkeys(settings, level)
        made_up = study(
            lambda s, _m, at=levels: at[s], settings=settings, seeds=seeds, options=options
        )
        for made in made_up:
            store.save(RunSpec("rl", made.config), made)
    outcome = run_study("rl", PAPER, store.folder, make=False)
    found = {
        setting: {rl_settings.device_of(r.config) for r in records}
        for (setting, _), records in scores.cells(outcome.records).items()
    }
    assert found == {
        both: {"cpu"},
        slow: {"cuda"},
        fast: {"cpu"},
        gpu_only: {"cuda"},
        more_on_gpu: {"cuda"},
        more_on_cpu: {"cpu"},
    }
    seeds = {where: len(records) for where, records in scores.cells(outcome.records).items()}
    assert seeds[more_on_gpu, "gs"] == seeds[more_on_cpu, "gs"] == 3
    judged = {(r["environment"], r["num_directions"]): r["device"] for r in outcome.scores.rows}
    assert judged == {
        ("HalfCheetahRandVel", 2): "cpu",
        ("HalfCheetahRandVel", 6): "cuda",
        ("Ant", 2): "cuda",
    }
    cuda = run_study("rl", replace(PAPER, device="cuda"), store.folder, make=False)
    assert {rl_settings.device_of(r.config) for r in cuda.records} == {"cuda"}
    assert len(cuda.records) == (3 * 5 + 2 + 3) * 6
    plain = run_study("rl", replace(PAPER, device="cpu"), store.folder, make=False)
    assert {rl_settings.device_of(r.config) for r in plain.records} == {"cpu"}
    assert len(plain.records) == (5 + 4 + 3 + 3 + 1) * 6


def test_a_report_says_what_was_made_on_which_device(tmp_path):
    from gensmooth.lab import write_report

    here, there = Setting("HalfCheetahRandVel", 2), Setting("Ant", 2)
    on_cpu = study(lambda _s, _m: 5.0, settings=[here])
    on_gpu = study(lambda _s, _m: 5.0, settings=[there], options=replace(PAPER, device="cuda"))
    cells = STUDY.select(PAPER, [])

    def written(records, name):
        outcome = STUDY.conclude(PAPER, records, cells)
        page = write_report([outcome], tmp_path / name, command="x").read_text()
        tables = tmp_path / name / "tables"
        return outcome, page, tables

    outcome, page, tables = written([*on_cpu, *on_gpu], "both")
    said = "Runs made with --device cuda: Ant, L=2."
    assert page.count(said) == 2  # what was done, and the caption
    assert outcome.facts["made on"] == "cpu, cuda"
    rows = {row[0]: row for row in coverage([*on_cpu, *on_gpu]).rows}
    assert (rows[here.words][-1], rows[there.words][-1]) == ("cpu", "cuda")
    assert rows["Ant, L=6"][-1] == ""
    for name in ("runs-rl", "returns-rl-Ant", "returns-rl-HalfCheetahRandVel"):
        head, first = (tables / f"{name}.csv").read_text().splitlines()[:2]
        assert head.split(",")[0] == "device"
        assert first.split(",")[0] == ("cuda" if "Ant" in name else "cpu")
    # Verdicts from the tables are those of the page.
    from gensmooth.lab import reproduce

    again = reproduce("rl", judge=tables)
    assert [c.verdict for c in again.claims] == [c.verdict for c in outcome.claims]
    _, page, _ = written(on_gpu, "gpu")
    assert page.count("All runs were made with --device cuda.") == 2
    _, page, tables = written(on_cpu, "cpu")
    assert "--device" not in page
    assert "device" not in (tables / "runs-rl.csv").read_text()


# --- the report ----------------------------------------------------------------------------------


def test_figures_and_tables_of_a_partial_study(tmp_path):
    from gensmooth.lab import write_report

    settings = [Setting("HalfCheetahRandVel", 2), Setting("Ant", 20, "mlp")]
    settings += [Setting("ML1-Push", 6)]
    records = study(lambda _s, _m: 5.0, settings=settings)
    options = replace(PAPER, seeds=5)
    cells = STUDY.select(options, [])
    page = write_report(
        [STUDY.conclude(options, records, cells)], tmp_path, command="x"
    ).read_text()
    for name in ("rl", "rl-additional", "rl-ablations"):
        assert (tmp_path / "figures" / f"{name}.svg").exists()
    for words in ("HalfCheetahRandVel, L = 2", "Ant, L = 20, MLP policy", "of the paper's size"):
        assert words in page or words.replace("'", "&#39;") in page
    curves = (tmp_path / "tables" / "curves-rl.csv").read_text().splitlines()
    assert len(curves) == 1 + 3 * 6 * 100
    assert curves[0].startswith(
        "environment,policy,estimator,optimizer,num_directions,method,round"
    )
    assert len((tmp_path / "tables" / "rl-coverage.csv").read_text().splitlines()) == 21
    nothing = write_report([STUDY.conclude(options, [], cells)], tmp_path / "none", command="x")
    assert "Nothing of it has been run" in nothing.read_text()


def test_quick_has_all_six_environments_and_judges_nothing():
    options = RlOptions(profile="quick", hyperparameters="paper")
    specs = STUDY.reporting(options, STUDY.select(options, []))
    assert {s.config["environment"] for s in specs} == {
        known.name for known in rl_settings.ENVIRONMENTS.values()
    }
    records = [
        record(rl_settings.setting_of(s.config), s.config["method"], 1, options=options)._replace(
            config=s.config
        )
        for s in specs
    ]
    outcome = STUDY.conclude(options, records, STUDY.select(options, []))
    assert {row.verdict for row in outcome.claims} == {"not run"}
    assert "no claim is judged" in outcome.prose
