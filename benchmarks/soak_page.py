"""Write docs/soak.md from what the soak and the fuzzer of files have found.

python -m benchmarks.soak_page
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SOAK, FUZZ = Path("docs/results/soak.json"), Path("docs/results/fuzz-files.json")
PAGE = Path("docs/soak.md")

HEAD = """\
# Soak: what was done to runs and files, and what came of it

Numbers on this page come from `docs/results`; `python -m benchmarks.soak_page` writes it.
[Checkpoints](checkpoints.md) says what is promised of runs, [security](security.md) what of files.
"""

RUNS = """
## Runs that are killed, and workers that are killed or frozen

```sh
python -m benchmarks.soak --points 1000 --ray --out docs/results/soak.json
```

The same command goes on where it was stopped. A point is one blow at a random instant: the run gets
SIGKILL or SIGTERM, or one of its two workers gets SIGKILL or SIGSTOP (and is never woken), or a
worker is frozen and then the run is killed. A run gets up to three, is resumed until it has ended
(by the same call or by `resume`, at random), and is compared with the run that nobody disturbed: x,
best point, statistics, policies and metrics, bit for bit. Then nothing may be left: no process,
open file (with Ray, which keeps some of its own, they are not counted), temporary file or shared
memory. Two processes of Ray's own, its agents, are given two minutes: after a SIGKILL they try for
one to report to the server that was killed with the run. Studies have no time limit for their runs,
so their workers are killed but not frozen. Runs are minimisations (d = 6 … 300,000; by the pilot,
with exact, noisy and paired values, and by five methods), trainings (Hopper by the pilot and by
BeS, HalfCheetah by Guided ES) and studies, in one process, with two worker processes, and on Ray.
"""

FILES = """
## Damaged and forged files

```sh
python -m benchmarks.fuzz_files --cases 10000 --out docs/results/fuzz-files.json
```

Every kind of file in the table of [security](security.md) is damaged, and then read by the
commands that read it. *Detected*: a plain error that names the file, and the folder is unchanged.
*Recovered*: the same result as without the damage, to the last bit, because the file is not needed
or is made again. A forgery has its checksums right; it may also be *used*, as what it says it is,
or be *still running* when its time was up. A damaged file on which nothing depends may be *used*,
too. A problem would be anything else: another result, a bare Python error, a crash, a hang, 400 MB
of memory, anything imported, executed or started because a file says so, a file that is opened by
anything but `runs/files.py`, or anything written outside the folder. A file that belongs to
nothing else (a policy, a result, a log, a plan) in place of another one is not counted as damage:
it is what it says.
"""


MENDS = {  # what was found, and what it was
    "left 1 processes: ray::RayWorker": (
        "An actor of Ray's that was frozen just before its run was killed stayed, frozen. Mended: "
        "the kernel ends it with its raylet."
    ),
    "timed out during startup": (
        "Ray gives up when it has not started within 30 s, as happened with 25 and more processes "
        "waiting for two cores. Now that is a plain error of ours, and the soak begins such a run "
        "again, up to five times."
    ),
    "A worker did not answer for 120 s": (
        "On the same busy machine a run took longer than the 300 s that the soak gave it; 120 of "
        "them are what an actor has to take a step in (`start_timeout`) before it is replaced. The "
        "soak gives 600 now."
    ),
}


def page(soak: Mapping[str, Any] | None, fuzz: Mapping[str, Any] | None) -> str:
    """The page; what was not run is left out."""
    text = HEAD
    if soak:
        text += (
            RUNS + "\n| what | by | runs | points | blows | problems |\n|---|---|---|---|---|---|\n"
        )
        for row in soak["rows"]:
            cells = (row["what"], row["means"], row["runs"], row["points"], _counts(row["blows"]))
            text += _row(*cells, row["problems"])
        runs, points = f"{soak['runs']:,}", f"{soak['points']:,}"
        wrong = [f"{p['what']}: {'; '.join(p['found'])}" for p in soak["problems"]]
        text += f"\n{points} points in {runs} runs, {_said(wrong)}"
        if soak.get("mended"):
            text += _mended(soak["mended"])
        text += _origin(soak)
    if fuzz:
        text += FILES + "\n| what | cases | what came of them | problems |\n|---|---|---|---|\n"
        for row in fuzz["rows"]:
            text += _row(row["what"], row["cases"], _counts(row["outcomes"]), row["problems"])
        wrong = [f"{p['specimen']}, {p['what']}: {p['problem']}" for p in fuzz["problems"]]
        cases = f"{fuzz['cases']:,} cases ({_counts(fuzz['specimens'], ': ', '; ')})"
        text += f"\n{cases}, {_said(wrong)}{_origin(fuzz)}"
    return text


def _row(*cells: Any) -> str:
    return f"| {' | '.join(f'{c:,}' if isinstance(c, int) else c for c in cells)} |\n"


def _counts(counts: Mapping[str, int], between: str = " ", after: str = ", ") -> str:
    if between == " ":
        return after.join(f"{n:,}{between}{name}" for name, n in sorted(counts.items()))
    return after.join(f"{name}{between}{n:,}" for name, n in sorted(counts.items()))


def _mended(found: Sequence[Mapping[str, Any]]) -> str:
    """What was found before, by what it was and what was done about it."""
    text = (
        "\nFound on the way, and made again by their numbers (above, they count as made again):\n\n"
    )
    rest = list(found)
    for words, told in MENDS.items():
        ours = [was for was in rest if words in "; ".join(was["found"])]
        rest = [was for was in rest if was not in ours]
        if ours:
            names = ", ".join(re.sub(".*, ", "", was["what"]) for was in ours)
            text += f"- {told} ({names}, at commit {', '.join({was['commit'] for was in ours})})\n"
    return text + "".join(f"- {was['what']}: {'; '.join(was['found'])}\n" for was in rest)


def _said(wrong: Sequence[str]) -> str:
    if not wrong:
        return "none with a problem.\n"
    return f"{len(wrong)} with a problem:\n\n" + "".join(f"- {words}\n" for words in wrong)


def _origin(found: Mapping[str, Any]) -> str:
    parts = f" ({found['parts']} parts together)" if found.get("parts", 1) > 1 else ""
    return (
        f"\nRun {found['date']} at commit {found['commit']} with `{found['command']}`, in "
        f"{found['minutes']:g} minutes{parts}, on {found['machine']}.\n"
    )


def main() -> None:
    """Read, write."""
    found = [json.loads(path.read_text()) if path.exists() else None for path in (SOAK, FUZZ)]
    PAGE.write_text(page(*found), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
