"""docs/contributing/study.md and claim.md, followed to the letter outside the source tree."""

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gensmooth

ROOT = Path(__file__).parents[2]
SOURCE = Path(gensmooth.__file__).parents[1]


def blocks(page, language):
    text = (ROOT / "docs" / "contributing" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.M | re.S)


def follow(page, folder):
    """Write the files of a page and return its commands."""
    for code in blocks(page, "python"):
        name = re.match(r"# (\w+\.py)\n", code)[1]
        (folder / name).write_text(code, encoding="utf-8")
    (commands,) = blocks(page, "sh")
    return [line.partition("#")[0].split() for line in commands.splitlines()]


def run(words, folder):
    assert words[0] == "gensmooth"
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    commands = follow("study.md", folder)
    return folder, commands, [run(words, folder) for words in commands]


def test_a_study_of_ones_own_runs_and_reports(followed):
    folder, commands, (made, judged) = followed
    assert "--workers" in commands[0]
    out = folder / "out"
    assert len(list((out / "bowl" / "runs").iterdir())) == 2 * 2 * 5
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "A noisy bowl" in page
    assert 'class="panel"' in page
    assert {p.name for p in (out / "figures").iterdir()} == {"bowl.svg", "bowl.png"}
    (claim,) = read(out / "tables" / "claims.csv")
    assert (claim["study"], claim["id"]) == ("bowl", "bowl-bes-lower")
    assert claim["verdict"] in ("holds", "does not hold", "undecided")
    assert claim["verdict"] in made.stdout
    assert judged.stdout.splitlines() == made.stdout.splitlines()[: len(judged.stdout.splitlines())]
    assert len(read(out / "tables" / "runs-bowl.csv")) == 20


def test_it_goes_on_where_it_was(followed):
    folder, commands, (made, _) = followed
    runs = folder / "out" / "bowl" / "runs"
    before = {p: p.stat().st_mtime_ns for p in runs.rglob("metrics.jsonl")}
    lost = sorted(runs.iterdir())[:3]
    for run_folder in lost:
        shutil.rmtree(run_folder)
    again = run(commands[0], folder)
    assert again.stdout == made.stdout  # the same numbers, whoever makes them
    after = {p: p.stat().st_mtime_ns for p in runs.rglob("metrics.jsonl")}
    assert after.keys() == before.keys()
    changed = {p.parent for p in before if after[p] != before[p]}
    assert changed == set(lost)


def test_a_claim_of_ones_own_is_judged_beside_the_papers(tmp_path):
    words, shipped = follow("claim.md", tmp_path)
    said = run(words, tmp_path).stdout
    assert "BeS has the lower test loss at (20, 50)." in said
    rows = read(tmp_path / "out" / "tables" / "claims.csv")
    mine = [row for row in rows if row["id"] == "my-bes-loss"]
    assert len(mine) == 1
    assert len(rows) > 15
    assert shipped[-2:] == ["--judge", "docs/results"]
    for tables in ("out/tables", str(ROOT / "docs" / "results")):
        again = run([*shipped[:-1], tables], tmp_path).stdout
        assert "BeS has the lower test loss at (20, 50)." in again


def test_mistakes_are_told_plainly(tmp_path):
    follow("study.md", tmp_path)
    (tmp_path / "wrong.py").write_text("STUDY = 3\n")
    for words, message in (
        ("my_study:STUDI", "Module 'my_study' has no 'STUDI'."),
        ("wrong:STUDY", "wrong:STUDY must be a Study, but is int."),
        ("nowhere:STUDY", "There is no module 'nowhere'"),
        ("linrek", "Did you mean 'linreg'?"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "gensmooth", "reproduce", words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 1
        assert message in done.stderr
        assert "Traceback" not in done.stderr
