"""Judge the paper's sentences again from the numbers in docs/results, and write the tables.

    python -m benchmarks.paper_verdicts

It executes no runs and takes some seconds. It writes:

- next to each ``runs-STUDY.csv`` its ``claims.csv``, and for runs with 20 seeds also
  ``claims-5-seeds.csv`` (the first five, as many as the paper has) and ``claims-15-seeds.csv`` (the
  others, which had not been looked at when the claims were fixed);
- ``readings.csv``, the verdicts of reinforcement learning under each reading of its resets;
- ``verdicts.md``, all of this as tables.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.record import markdown
from gensmooth.directions import METHODS
from gensmooth.lab import find_study, judge_again
from gensmooth.lab.experiments.verdicts import Scores
from gensmooth.lab.report.tables import ClaimRow, claims_table, write_csv

RESULTS = Path(__file__).parents[1] / "docs" / "results"
# The folders with runs of each study; the verdicts in the first one count.
FOLDERS = {
    "linreg": (".",),
    "dfo": (".",),
    "timing": (".",),
    "untuned": ("untuned",),
    "rl": (
        *("rl-shared-goal", "rl-paired", "rl-independent", "rl-search"),
        *("rl-20-seeds", "rl-shared-goal-20-seeds"),
    ),
}
TWENTY_SEEDS = ("rl-shared-goal-20-seeds", "rl-20-seeds")
READINGS = ("rl-shared-goal", "rl-independent", "rl-paired")
HYPERPARAMETERS = {
    "Linear regression, searched": "hyperparameters-linreg.csv",
    "Noisy benchmark, searched": "hyperparameters-dfo.csv",
    "Reinforcement learning, searched": "rl-search/hyperparameters-rl.csv",
    "Reinforcement learning, not searched: the paper’s values, used by all other runs": (
        "rl-paired/hyperparameters-rl.csv"
    ),
    "Untuned study (ours), searched: six methods on both problems": (
        "untuned/hyperparameters-untuned.csv"
    ),
}
LABELS = {
    "fig:linreg": "Figure 1",
    "fig:rl": "Figure 2",
    "fig:rlablations": "Figure 3",
    "fig:benchmark": "Figure 4",
    "fig:linregmse_full": "Figure 5",
    "fig:linregloss_full": "Figure 6",
    "fig:rl2": "Figure 7",
    "tab:rltimes": "Table 2",
    "Appendix sec:gsvsbsshrinkage": "Appendix B.4",
}
FIFTEEN = "claims-15-seeds.csv"
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


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def verdict_words(row: ClaimRow) -> str:
    """Return a verdict, with the number of seeds where that is what it depends on."""
    numbers = {int(n) for n in re.findall(r"n=(\d+)", row.evidence)}
    if row.verdict == "undecided" and numbers:
        return f"undecided at n = {min(numbers)}"
    return row.verdict


def place_words(place: str) -> str:
    """Return a place in the paper, with the numbers of its PDF instead of LaTeX labels.

    >>> place_words("Caption of fig:benchmark"), place_words("Section 5.2, tab:rltimes")
    ('Caption of Figure 4', 'Section 5.2, Table 2')
    """
    return re.sub(r"(Appendix )?\b(?:fig|tab|sec):\w+", lambda found: LABELS[found[0]], place)


def page(judged: Mapping[str, Sequence[tuple[str, ClaimRow]]]) -> str:
    """Return every verdict, choice and time as tables to read."""
    lines = ["# All verdicts, hyperparameters and times", ""]
    lines += [
        "`python -m benchmarks.paper_verdicts` writes this page from the tables in this folder. "
        "The `claims.csv` linked below each heading has the test of each claim and the numbers of "
        "every comparison. [The paper, checked](../paper.md#how-to-read-a-verdict) explains the "
        "verdicts and has the findings. “Unseen” are the 15 of 20 seeds that nobody had looked at "
        "when most claims were written down. All 20 were known when some rows were added or scored "
        "by another measure (`linreg-loss-main-difference`, `linreg-loss-early-error`, "
        "`dfo-objectives`, and with paired resets the claims about speed); for these, the column "
        "shows only how much a verdict depends on the seeds. A blank there means that a row is not "
        "a test over seeds.",
        "",
    ]
    for title, folder, unseen in (
        ("Linear regression, noisy benchmark and times (20 seeds)", ".", FIFTEEN),
        ("Reinforcement learning, one goal per direction (5 seeds)", "rl-shared-goal", None),
        ("Reinforcement learning, paired resets (5 seeds)", "rl-paired", None),
        *(
            (f"Reinforcement learning, {reading} (20 seeds)", folder, f"{folder}/{FIFTEEN}")
            for folder, reading in zip(
                TWENTY_SEEDS, ("one goal per direction", "paired resets"), strict=True
            )
        ),
    ):
        others = {row["id"]: row["verdict"] for row in read(RESULTS / unseen)} if unseen else {}
        path = "claims.csv" if folder == "." else f"{folder}/claims.csv"
        lines += [f"## {title}", "", f"[`{path}`]({path})", ""]
        rows = [
            [
                verdict_words(row),
                *([others.get(row.id, "")] if unseen else []),
                row.claim + ("" if row.is_papers else " *(Ours, not counted.)*"),
                f"{place_words(row.place)}; `{row.id}`",
            ]
            for _, row in judged.get(folder, ())
            if row.verdict != "not run" or row.id == "rl-ant-momentum"
        ]
        columns = ["verdict", *(["on the 15 unseen seeds"] if unseen else []), "claim", "where"]
        lines += [markdown(columns, rows), ""]
        missing = [row.id for _, row in judged.get(folder, ()) if row.verdict == "not run"]
        if missing:
            number = "1 claim needs" if len(missing) == 1 else f"{len(missing)} claims need"
            which = ": " + ", ".join(f"`{name}`" for name in missing) if len(missing) < 10 else ""
            lines += [f"{number} runs that have not been made{which}.", ""]
    lines += ["## Where the reading of the resets changes a verdict", ""]
    changed = [
        row
        for row in read(RESULTS / "readings.csv")
        if len({row[folder] for folder in READINGS} - {"not run"}) > 1
    ]
    head = ["claim", "one goal, two starts", "two goals, two starts", "one goal, one start"]
    rows = [[f"{row['claim']} `{row['id']}`", *(row[f] for f in READINGS)] for row in changed]
    lines += [
        "These are the verdicts on five seeds. With 20 seeds, the main reading and paired resets "
        "agree on every claim that was judged under both.",
        "",
    ]
    lines += [markdown(head, rows), ""]
    lines += ["## Time to sample the directions", ""]
    times = read(RESULTS / "timing.csv")
    lines += [markdown(list(times[0]), [list(row.values()) for row in times]), ""]
    lines += [
        "## Hyperparameters",
        "",
        "Spacing · learning rate. If a grid search made another choice than the paper, the paper’s "
        "follows in parentheses.",
        "",
    ]
    for title, name in HYPERPARAMETERS.items():
        lines += [f"### {title}", "", f"[`{name}`]({name})", "", choices(read(RESULTS / name)), ""]
    return "\n".join(lines).rstrip() + "\n"


def choices(rows: Sequence[Mapping[str, str]]) -> str:
    """Return a table of settings by methods."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        ours = (
            f"{float(row['spacing']):g} · {float(row['learning_rate']):g}"
            if row["spacing"]
            else "all diverged"
        )
        theirs = ""
        if row["paper_spacing"] and row["agrees"] == "no":
            theirs = f" ({float(row['paper_spacing']):g} · {float(row['paper_learning_rate']):g})"
        cells.setdefault(row["setting"], {})[row["method"]] = ours + theirs
    table = [[setting, *(here.get(m, "") for m in methods)] for setting, here in cells.items()]
    return markdown(["setting", *(METHODS[m].title for m in methods)], table)


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
    for name, unseen in (("claims-5-seeds.csv", False), (FIFTEEN, True)):
        studies = ("linreg", "dfo")
        both = [(study, row) for study in studies for row in subset(study, ".", unseen=unseen)]
        write(RESULTS / name, both)
        for folder in TWENTY_SEEDS:
            rows = subset("rl", folder, unseen=unseen)
            write(RESULTS / folder / name, [("rl", row) for row in rows])
    verdicts = {
        folder: {row.id: row for study, row in judged.get(folder, ()) if study == "rl"}
        for folder in READINGS
    }
    table = [
        [row.id, row.claim, *(verdicts[folder][name].verdict for folder in READINGS)]
        for name, row in verdicts[READINGS[0]].items()
    ]
    write_csv(RESULTS / "readings.csv", ["id", "claim", *READINGS], table)
    (RESULTS / "verdicts.md").write_text(page(judged), encoding="utf-8")


if __name__ == "__main__":
    main()
