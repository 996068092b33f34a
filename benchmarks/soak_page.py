"""Write docs/soak.md from the results of benchmarks.soak and benchmarks.fuzz_files.

python -m benchmarks.soak_page
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path("docs/results")
PAGE = Path("docs/soak.md")

HEAD = """\
# Fault-injection tests

These tests kill runs, kill or freeze workers, and damage or forge files. This page shows what was
done, how often, and what went wrong. They test the promises of [Checkpoints](checkpoints.md) for
runs and of [Security](security.md) for files. `python -m benchmarks.soak_page` writes this page
from `docs/results`. That a node of a Ray cluster is lost is tested in
`tests/evaluators/test_evaluators_ray.py`, not here.
"""

RUNS = """
## Killed runs, and killed or frozen workers

```sh
python -m benchmarks.soak --points 2000 --ray --out docs/results/soak.json
```

After an interruption, the same command continues. A *point* is a disturbance at a random instant:

- The run gets SIGKILL or SIGTERM.
- One of its two workers gets SIGKILL, or SIGSTOP without ever being woken.
- A worker is frozen by SIGSTOP, and then the run is killed.
- The disk is full for a while. If the run ends meanwhile, it is resumed.
- The clock jumps by up to 30 days, forwards or backwards.

A run gets up to three points. It is resumed until it ends, by the same call or by `resume`, chosen
at random. Its result (x, best point, statistics, policies, metrics, tables) must then equal that of
the undisturbed run, bit for bit. It must leave nothing behind: no process, open file, temporary
file or shared memory.

There are three exceptions. Open files are not counted with Ray and with ranks of torch, because Ray
and Gloo keep some of their own. Two of Ray's own processes, its agents, get two minutes to end,
because after a SIGKILL they try for one minute to reach the server that was killed with the run.
Only workers of `minimize` and `train` are frozen, because only these have a time limit for an
evaluation.

The runs are `minimize` (d = 6 … 300,000; the pilot with exact, noisy and paired values, and five
methods), `train` (Hopper with the pilot and with BeS, HalfCheetah with Guided ES), studies of the
paper, `compare`, `sweep`, `reproduce`, and `gs.torch.ZerothOrder` with a log. They run in one
process, with two worker processes (torch: two ranks), and on Ray.
"""

FILES = """
## Damaged and forged files

```sh
python -m benchmarks.fuzz_files --cases 10000 --out docs/results/fuzz-files.json
python -m benchmarks.fuzz_files --cases 10000 --cold --out docs/results/fuzz-files-cold.json
```

Every kind of file in the [table of files](security.md#every-file) is damaged or forged, and then
read by the commands that read it. In the first command, the cases share processes, which have
compiled everything that they call. In the second one, every case has a process of its own, a fork
of one that has compiled nothing, and Numba's cache is emptied before every 100th case. So the first
cases after that compile what they call and save it, and later ones load it. The outcomes are:

- *detected*: a plain error names the file, and the folder is unchanged;
- *recovered*: the result is the same as without the damage, to the last bit, because the file is
  not needed or is made again;
- *used*: a forgery with correct checksums is used as what it claims to be, or a damaged file is
  used on which nothing depends;
- *still running*: a forged run was still running when its time was up.

Everything else is a problem: another result, a bare Python error, a crash, a hang, 400 MB of
memory, anything imported, executed or started because a file says so, a file opened by anything but
`runs/files.py`, or anything written outside the folder. Replacing a file that belongs to nothing
else (a policy, a result, a log, a plan) by another one is not damage.
"""


FIXES = {  # words of a problem, and how it was fixed
    "left 1 processes: ray::RayWorker": (
        "A Ray actor was left behind if it was frozen just before its run was killed. Fixed: the "
        "kernel ends it together with Ray's local server."
    ),
    "timed out during startup": (
        "Ray gives up if it has not started within 30 s, which happened with 25 and more "
        "processes on two cores. Fixed: this is now a plain error, and the test starts such a run "
        "again, up to five times."
    ),
    "A worker did not answer for 120 s": (
        "On the same busy machine, a run took longer than the 300 s that the test allowed. The "
        "test now allows 600 s, and a frozen actor is replaced before 120 s have passed."
    ),
}


def page(soaks: Sequence[Mapping[str, Any]], fuzzes: Sequence[Mapping[str, Any]]) -> str:
    """The page, with a table for each file of results."""
    text = HEAD + RUNS
    for soak in sorted(soaks, key=lambda soak: soak["date"]):
        text += f"\n### {soak['points']:,} points, {soak['date']}\n"
        text += (
            "\n| what | by | runs | points | disturbances | problems |\n|---|---|---|---|---|---|\n"
        )
        for row in soak["rows"]:
            cells = (
                row["what"],
                row["means"],
                row["runs"],
                row["points"],
                _counts(row["blows"], after="; "),
            )
            text += _row(*cells, row["problems"])
        runs, points = f"{soak['runs']:,}", f"{soak['points']:,}"
        wrong = [f"{p['what']}: {'; '.join(p['found'])}" for p in soak["problems"]]
        text += f"\n{points} points in {runs} runs, {_problems(wrong)}"
        if soak.get("note"):
            text += f"\n{soak['note']}\n"
        if soak.get("mended"):
            text += _fixed(soak["mended"])
        text += _origin(soak)
    text += FILES
    for fuzz in sorted(fuzzes, key=lambda fuzz: fuzz.get("cache", "") == "cold"):
        cache = f", {fuzz['cache']} cache" if "cache" in fuzz else ""
        text += f"\n### {fuzz['cases']:,} cases{cache}\n"
        text += "\n| what | cases | outcomes | problems |\n|---|---|---|---|\n"
        for row in fuzz["rows"]:
            text += _row(row["what"], row["cases"], _counts(row["outcomes"]), row["problems"])
        wrong = [f"{p['specimen']}, {p['what']}: {p['problem']}" for p in fuzz["problems"]]
        text += f"\n{fuzz['cases']:,} cases, {_problems(wrong)}"
        text += f"\nCases by file: {_counts(fuzz['specimens'], ': ', '; ')}.\n{_origin(fuzz)}"
        if compiled := fuzz.get("compiled"):
            text += "{cases:,} of the cases compiled {functions:,} functions.\n".format(**compiled)
        if (planned := fuzz.get("planned", 0)) > fuzz["cases"]:
            text += f"It was stopped after {fuzz['cases']:,} of {planned:,} cases.\n"
    return text


def _row(*cells: Any) -> str:
    return f"| {' | '.join(f'{c:,}' if isinstance(c, int) else c for c in cells)} |\n"


def _counts(counts: Mapping[str, int], between: str = " ", after: str = ", ") -> str:
    if between == " ":
        return after.join(f"{n:,}{between}{name}" for name, n in sorted(counts.items()))
    return after.join(f"{name}{between}{n:,}" for name, n in sorted(counts.items()))


def _fixed(problems: Sequence[Mapping[str, Any]]) -> str:
    """The problems of earlier trials, by how they were fixed."""
    text = (
        "\nThese problems were found in a first run and fixed. The table counts the repetition of "
        "these trials.\n\n"
    )
    rest = list(problems)
    for words, fix in FIXES.items():
        ours = [problem for problem in rest if words in "; ".join(problem["found"])]
        rest = [problem for problem in rest if problem not in ours]
        if ours:
            names = ", ".join(re.sub(".*, ", "", problem["what"]) for problem in ours)
            commits = ", ".join({problem["commit"] for problem in ours})
            text += f"- {fix} ({names}, at commit {commits})\n"
    return text + "".join(f"- {p['what']}: {'; '.join(p['found'])}\n" for p in rest)


def _problems(wrong: Sequence[str]) -> str:
    if not wrong:
        return "no problems.\n"
    return f"{len(wrong)} with a problem:\n\n" + "".join(f"- {words}\n" for words in wrong)


def _origin(results: Mapping[str, Any]) -> str:
    parts = f" ({results['parts']} parts together)" if results.get("parts", 1) > 1 else ""
    return (
        f"\nRun {results['date']} at commit {results['commit']} with `{results['command']}`, in "
        f"{results['minutes']:g} minutes{parts}, on {results['machine']}.\n"
    )


def main() -> None:
    """Read the results, and write the page."""
    soaks, fuzzes = (
        [json.loads(path.read_text()) for path in sorted(RESULTS.glob(pattern))]
        for pattern in ("soak*.json", "fuzz-files*.json")
    )
    PAGE.write_text(page(soaks, fuzzes), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
