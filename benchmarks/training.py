"""Trainings by default, with many seeds: when a test first reaches a target, and when it is held.

    python -m benchmarks.training Hopper-v5 --target 2500 --seeds 9201-9210 --out tests.csv
    python -m benchmarks.training Ant-v5 --target 3000 --seeds 101-110 --device cuda --out tests.csv

A target is held when five tests in a row have reached it. A training ends there, or when its time
or its iterations are used up. On a GPU (and on ``warp-cpu``) every iteration is tested, on 64
episodes, since that costs nothing there; with ``--device cpu`` every tenth, on 20. Trainings use
all cores of the process (``taskset -c 0`` leaves one). Times count from the start of the training
and include compiling what is not cached. Every test becomes a row of ``--out``. A seed that has
ended in that file is not repeated, so the command can be interrupted and repeated. ``--table`` only
prints the results in the file.
"""

import argparse
import csv
import os
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gensmooth as gs
from benchmarks import CORES
from benchmarks.record import markdown

PLATEAU = 5  # tests in a row
COLUMNS = (
    *("environment", "device", "seed", "iteration", "seconds"),
    *("trajectories", "env_steps", "mean_return", "ended"),
)
Row = dict[str, str]
HELD_OUT = {  # tables of docs/training-results.md: environment, device, target, seeds from, to
    "cpu": [("Hopper-v5", "cpu", 2500, 9201, 9210), ("HalfCheetah-v5", "cpu", 3000, 9301, 9310)],
    "trainings-h200": [
        ("Walker2d-v5", "cuda", 2500, 201, 210),
        ("Ant-v5", "cuda", 2500, 201, 210),
        ("Ant-v5", "cuda", 3000, 201, 210),
    ],
    "one-core": [
        ("Hopper-v5", "warp-cpu", 2500, 201, 210),
        ("HalfCheetah-v5", "warp-cpu", 3000, 201, 210),
    ],
}
TIMES = ("seconds", "iteration", "env_steps")


class Training(NamedTuple):
    """The tests of one training."""

    environment: str
    device: str
    seed: int
    tests: Sequence[Row]

    def reached(self, target: float) -> int | None:
        """The first test that reaches the target."""
        return next((i for i, test in enumerate(self.tests) if _return(test) >= target), None)

    def held(self, target: float) -> int | None:
        """The test from which on the target counts as held."""
        row = 0
        for i, test in enumerate(self.tests):
            row = row + 1 if _return(test) >= target else 0
            if row == PLATEAU:
                return i
        return None


def trainings(rows: Iterable[Row]) -> list[Training]:
    """The trainings in the rows of a file, in the same order."""
    tests_of: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        tests_of.setdefault((row["environment"], row["device"], int(row["seed"])), []).append(row)
    return [Training(*key, tests) for key, tests in tests_of.items()]


def train(name: str, options: Any, seed: int, write: Any) -> None:
    """Train with one seed, and write a row for each test."""
    began = time.perf_counter()
    tests: list[Row] = []
    every, episodes = (10, 20) if options.device == "cpu" else (1, 64)

    def look(intermediate_result: Any) -> bool:
        test = intermediate_result.test
        if test is None:
            return False
        now = time.perf_counter() - began
        tests.append({"mean_return": repr(test.mean_return)})
        here = Training(name, options.device, seed, tests)
        held = here.held(options.target) is not None
        late = "time" if now > options.seconds else ""
        ended = "held" if held else "iterations" if test.step >= options.iterations else late
        row = (name, options.device, seed, test.step, f"{now:.1f}", test.trajectories)
        write([*row, test.env_steps, f"{test.mean_return:.2f}", ended])
        print(
            f"{name} {seed}: {test.step:4} {now:7.1f} s {test.env_steps:13,} steps, "
            f"test {test.mean_return:7.0f} ± {test.deviation:.0f} {ended}",
            flush=True,
        )
        return bool(ended)

    gs.rl.train(
        name,
        device=options.device,
        seed=seed,
        max_steps=10**6,
        test_every=every,
        test_episodes=episodes,
        target=None,
        callback=look,
    )


def table(shown: Sequence[Training], target: float) -> str:
    """A table of trainings, with a line for each."""
    head = ("environment", "device", "target", "seed", "first reached", "held")
    lines: list[list[object]] = []
    for training in shown:
        first, held = training.reached(target), training.held(target)
        last = training.tests[-1 if held is None else held]
        line = [training.environment, training.device, f"{target:g}", training.seed]
        line += [_when(training, first), _when(training, held), last["iteration"]]
        lines.append([*line, f"{float(last['env_steps']) / 1e6:.1f} million"])
    return markdown([*head, "iterations", "env steps"], lines)


def page_tables(results: Path, records: Mapping[str, Any]) -> dict[str, str]:
    """The tables of docs/training-results.md that are computed.

    Args:
        results: The folder of ``training.csv``, ``humanoid.csv`` and ``rl-devices.csv``.
        records: What is known besides: trainings whose tests were not kept, settings of Humanoid.
    """
    known = trainings(_read(results / "training.csv"))
    lines: dict[str, list[list[str]]] = {}
    for name, groups in HELD_OUT.items():
        for environment, device, target, first, last in groups:
            seeds = {(environment, device, seed) for seed in range(first, last + 1)}
            shown = [training for training in known if training[:3] in seeds]
            lines.setdefault(name, []).append(_line(shown, target, on_cpu=device == "cpu"))
    head = ["environment", "target", "seeds"]
    times = ["sustained", "after seconds", "iterations", "env steps, million"]
    episodes = [
        "first test at the target, after steps",
        "sustained, after steps",
        "episodes by then",
    ]
    early = _early(records["trainings-h200"])
    names = [line[0] for line in early]
    on_gpu = sorted(early + lines["trainings-h200"], key=lambda line: names.index(line[0]))
    return {
        "cpu": markdown([*head, *episodes], lines["cpu"]),
        "trainings-h200": markdown([*head, *times], on_gpu),
        "one-core": markdown([*head, *times], lines["one-core"]),
        "humanoid": _humanoid(_read(results / "humanoid.csv"), records["humanoid"]),
        "devices": _devices(_read(results / "rl-devices.csv")),
    }


def _line(shown: Sequence[Training], target: int, *, on_cpu: bool) -> list[str]:
    """How many of some trainings have held the target, and after how much."""
    first, held = (
        [training.tests[i] for training in shown if (i := when(training, target)) is not None]
        for when in (Training.reached, Training.held)
    )
    seeds = [training.seed for training in shown]
    line = [shown[0].environment, str(target), f"{min(seeds)} to {max(seeds)}"]
    if on_cpu:
        for tests in (first, held):
            line.append(f"{len(tests)} of {len(shown)}: {_span(tests, 'iteration')}")
        return [*line, _span(held, "trajectories")]
    return [*line, f"{len(held)} of {len(shown)}", *(_span(held, name) for name in TIMES)]


def _early(record: Mapping[str, Any]) -> list[list[str]]:
    """The same for trainings of which only the test that held the target is known."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in record["rows"]:
        test = dict(zip(record["columns"], row, strict=True))
        groups.setdefault((test["environment"], test["target"]), []).append(test)
    lines: list[list[str]] = []
    for (environment, target), held in groups.items():
        seeds = ", ".join(str(test["seed"]) for test in held)
        number = f"{len(held)} of {len(held)}"
        spans = (_span(held, name) for name in TIMES)
        lines.append([environment, str(target), seeds, number, *spans])
    return lines


def _span(tests: Sequence[Row], name: str) -> str:
    """The median, and the smallest and the largest of those that are known."""
    unit = 1e6 if name == "env_steps" else 1
    values = [float(test[name]) / unit for test in tests if test[name] != ""]
    middle, least, most = (
        f"{value:,.0f}" for value in (statistics.median(values), min(values), max(values))
    )
    return middle if len(values) == 1 else f"{middle} ({least}–{most})"


def _humanoid(rows: Sequence[Row], record: Mapping[str, Any]) -> str:
    """The settings of each way to train Humanoid, and how far it came."""
    lines: list[list[str]] = []
    for variant, *settings in record["rows"]:
        tests = [row for row in rows if row["variant"] == variant]
        last, plateau = tests[-1], tests[-PLATEAU:]
        means = (
            f"{statistics.fmean(float(test[name]) for test in plateau):,.0f}"
            for name in ("mean_return", "mean_length")
        )
        steps = f"{float(last['env_steps']) / 1e6:.0f}"
        lines.append([*settings, last["iteration"], steps, *means])
    measured = ("after iterations", "env steps, million", "test return", "mean length")
    return markdown([*record["columns"][1:], *measured], lines)


def _devices(rows: Sequence[Row]) -> str:
    """Mean differences between runs on a GPU and the same runs on a CPU."""
    by = ("environment", "num_directions", "part", "method", "seed")
    runs: dict[str, dict[tuple[str, ...], Row]] = {"cpu": {}, "cuda": {}}
    for row in rows:
        runs[row["device"]][tuple(row[name] for name in by)] = row
    lines: list[list[str]] = []
    for environment in dict.fromkeys(row["environment"] for row in rows):
        on_cpu = {key: row for key, row in runs["cpu"].items() if key[0] == environment}
        pairs = [(runs["cuda"][key], row) for key, row in on_cpu.items()]
        line = [environment, str(len(pairs))]
        for name in ("beginning", "end", "whole"):
            differences = [float(gpu[name]) - float(cpu[name]) for gpu, cpu in pairs]
            mean = statistics.fmean(differences)
            error = statistics.stdev(differences) / len(pairs) ** 0.5
            digits = 1 if error < 2 else 0
            line.append(f"{mean:.{digits}f} ± {error:.{digits}f}".replace("-", "−"))
        lines.append(line)
    return markdown(["", "pairs", "first tenth of the tests", "last tenth", "all"], lines)


def _when(training: Training, test: int | None) -> str:
    if test is None:
        return f"no: {_return(training.tests[-1]):.0f} at the end"
    row = training.tests[test]
    return f"{row['seconds']} s" if row["seconds"] else f"iteration {row['iteration']}"


def _return(test: Row) -> float:
    return float(test["mean_return"])


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _seeds(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def main() -> None:
    """Train what is missing, and print the table."""
    if hasattr(os, "sched_setaffinity"):  # trainings may use every core
        os.sched_setaffinity(0, CORES)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("environment")
    parser.add_argument("--target", type=float, required=True)
    parser.add_argument("--seeds", default="0", help="one, or the first and the last: 101-110")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each seed")
    parser.add_argument("--iterations", type=int, default=10**6, help="for each seed, at most")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true", help="train nothing")
    options = parser.parse_args()
    seeds = [(options.environment, options.device, seed) for seed in _seeds(options.seeds)]
    if not options.table:
        _train_missing(seeds, options)
    shown = [training for training in trainings(_read(options.out)) if training[:3] in seeds]
    if not shown:
        where = f"{options.environment} on {options.device}"
        raise SystemExit(f"{options.out} has no {where} of these seeds.")
    print(table(shown, options.target))


def _train_missing(seeds: Sequence[tuple[str, str, int]], options: Any) -> None:
    """Train the seeds that have not ended, those that were interrupted from the start."""
    known = trainings(_read(options.out))
    ended = {training[:3] for training in known if training.tests[-1]["ended"]}
    missing = [seed for seed in seeds if seed not in ended]
    kept = options.out.with_suffix(".new")  # the old file stays until this is complete
    with kept.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for training in known:
            if training[:3] not in missing:
                writer.writerows([test[name] for name in COLUMNS] for test in training.tests)
    kept.replace(options.out)
    with options.out.open("a", newline="", buffering=1) as file:
        for name, _, seed in missing:
            train(name, options, seed, csv.writer(file).writerow)


if __name__ == "__main__":
    main()
