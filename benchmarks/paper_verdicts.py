"""Judge the paper's sentences again from the numbers in docs/results, and write the tables.

    python -m benchmarks.paper_verdicts

writes, next to each ``runs-STUDY.csv``, its ``claims.csv``; for runs with 20 seeds also
``claims-5-seeds.csv`` (the first five, as many as the paper has) and ``claims-15-seeds.csv`` (the
others, which nobody had looked at when the sentences were written down); and ``readings.csv``, the
verdicts of reinforcement learning under each reading of its resets. It makes no runs; some seconds.
"""

import csv
from collections.abc import Iterable
from pathlib import Path

from gensmooth.lab import find_study, judge_again
from gensmooth.lab.experiments.verdicts import Scores
from gensmooth.lab.report.tables import ClaimRow, claims_table, write_csv

RESULTS = Path(__file__).parents[1] / "docs" / "results"
# The folders with runs of each study; the first has the runs that its verdicts are counted by.
FOLDERS = {
    "linreg": (".",),
    "dfo": (".",),
    "timing": (".",),
    "untuned": ("untuned",),
    "rl": ("rl-shared-goal", "rl-paired", "rl-independent", "rl-20-seeds", "rl-search"),
}
READINGS = ("rl-shared-goal", "rl-independent", "rl-paired")
SEEN = 1005  # the last seed that had been looked at before


def subset(study: str, folder: str, *, unseen: bool) -> list[ClaimRow]:
    """Judge a study on the first five seeds, or on the others."""
    with (RESULTS / folder / f"runs-{study}.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if (int(row["seed"]) > SEEN) == unseen]
    found = find_study(study).judge(Scores.read(rows), [])
    return [row for row in found if row.id != "dfo-cigar"]  # judged by the grid search


def write(path: Path, claims: Iterable[tuple[str, ClaimRow]]) -> None:
    """Write a table of claims."""
    table = claims_table(list(claims))
    write_csv(path, table.columns, table.rows)


def main() -> None:
    """Write every table of verdicts."""
    judged: dict[str, list[tuple[str, ClaimRow]]] = {}
    for study, folders in FOLDERS.items():
        for folder in folders:
            if (RESULTS / folder / f"runs-{study}.csv").exists():
                rows = judge_again(study, RESULTS / folder)
                judged.setdefault(folder, []).extend((study, row) for row in rows)
    for folder, claims in judged.items():
        write(RESULTS / folder / "claims.csv", claims)
    package = Path(__file__).parents[1] / "src/gensmooth/lab/paper/published"
    write(package / "claims.csv", judged["."])
    for name, unseen in (("claims-5-seeds.csv", False), ("claims-15-seeds.csv", True)):
        studies = ("linreg", "dfo")
        both = [(study, row) for study in studies for row in subset(study, ".", unseen=unseen)]
        write(RESULTS / name, both)
        rows = subset("rl", "rl-20-seeds", unseen=unseen)
        write(RESULTS / "rl-20-seeds" / name, [("rl", row) for row in rows])
    verdicts = {
        folder: {row.id: row for study, row in judged.get(folder, ()) if study == "rl"}
        for folder in READINGS
    }
    table = [
        [row.id, row.claim, *(verdicts[folder][name].verdict for folder in READINGS)]
        for name, row in verdicts[READINGS[0]].items()
    ]
    write_csv(RESULTS / "readings.csv", ["id", "claim", *READINGS], table)


if __name__ == "__main__":
    main()
