"""The pages of a run, of a result that is stored alone, and of the log of a torch optimiser."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from gensmooth.describe import number
from gensmooth.lab import report
from gensmooth.lab.report.tables import Table, vector
from gensmooth.lab.run_page.command import NEW_LIMITS, command_of
from gensmooth.lab.run_page.figure import draw
from gensmooth.lab.run_page.recorded import RecordedRun, naming_folder, read_run, result_of, speeds
from gensmooth.observe.observers import flat_settings
from gensmooth.results import Result, load
from gensmooth.rl.program import TRAINING_MESSAGES
from gensmooth.runs import MESSAGES, End, array_from_json
from gensmooth.runs.files import make_folder

RESULT = "result.json"  # of `gensmooth minimize`


def write_run(where: Path, chosen: Path | None, reload: float | None) -> tuple[Path, bool]:
    """Write the page of a run; return its path, and whether the run has ended."""
    run = read_run(where)
    with naming_folder(where):
        out = _folder(where, chosen)
        result = None if run.training else result_of(run, where)
        command = command_of(run.config, where, out, run.series("evaluations").tolist())
        written = _written(
            out,
            f"{run.name}: {'the result' if run.end is not None else 'still running'}",
            _answer(run, result, where),
            heading="The training" if run.training else "The run",
            prose=_prose(run) if command else f"{_prose(run)} {NEW_LIMITS}",
            drawn=draw(run),
            tables=_tables(run),
            facts=_facts(run.config),
            files=[_steps_table(run), *([] if result is None else [_x_table(result.x)])],
            command=command,
            reload=reload,
        )
    return written, run.end is not None


def _folder(where: Path, chosen: Path | None) -> Path:
    """Create the folder of a page; the one in a run's folder must not be a link."""
    out = where / "report" if chosen is None else chosen
    return make_folder(out, inside=where if chosen is None else None)


def write_result(where: Path, out: Path | None, reload: float | None) -> tuple[Path, bool]:
    """Write the page of a result without a run's folder."""
    del reload
    result = load(where / RESULT)
    return _written(
        _folder(where, out),
        "The result",
        [
            *_value_rows(result, ""),
            ("ended", result.message),
            ("evaluations", f"{result.nfev:,} in {result.nit:,} steps"),
        ],
        prose="Only the result is stored. With --folder, gensmooth minimize stores the whole run, "
        "and its page has the curves and a command that repeats it.",
        facts=[("seed", str(result.seed))],
        files=[_x_table(result.x)],
    ), True


def write_torch_log(where: Path, out: Path | None, reload: float | None) -> tuple[Path, bool]:
    """Write the page of the log of a torch optimiser."""
    del reload
    from gensmooth.torch.log import Log

    header, records = Log(where).read()
    steps = [
        {"evaluations": each.step + 1, "value": each.loss, "step_size": each.rates[0]}
        for each in records
    ]
    settings = {k: v for k, v in (header or {}).items() if k not in ("groups", "base", "visited")}
    run = RecordedRun({"kind": "log", "objective": where.name, **settings}, steps, None, [])
    answer = [("steps", str(len(steps)))]
    if records:
        answer.insert(0, ("last loss", f"{records[-1].loss:.6g}"))
    return _written(
        out or where.with_name(f"{where.stem}-report"),
        where.name,
        answer,
        prose="gs.torch.replay rebuilds the trained parameters from the log and the base weights.",
        drawn=draw(run),
        facts=_facts(run.config),
        files=[_steps_table(run)],
    ), True


def _written(out: Path, title: str, answer: Sequence[tuple[str, str]], **parts: Any) -> Path:
    """Write a page with one section that begins with an answer."""
    with report.naming_the_extra():
        from gensmooth.lab.report.page import Front, Section
    command, reload = parts.pop("command", ""), parts.pop("reload", None)
    section = Section(name="run", title=parts.pop("heading", "The run"), **parts)
    front = Front(answer=answer)
    return report.write_report(
        [section], out, title=title, lede="", command=command, front=front, reload=reload
    )


def _value_rows(result: Result, how: str) -> list[tuple[str, str]]:
    """Return x, its value and its noise."""
    rows = [(name, vector(value)) for name, value in _named(result.x)]
    error = f" ± {result.error:.2g}{how}" if result.error else ""
    rows.append(("value", f"{result.fun:.6g}{error}"))
    if result.noise is not None:
        noise = f"{result.noise:.2g}, the standard deviation of one value"
        rows.append(("noise", noise if result.noise else "none (values are exact)"))
    return rows


def _answer(run: RecordedRun, result: Result | None, where: Path) -> list[tuple[str, str]]:
    """Return the answer: x and its value, or the tests of a training; and how it ended."""
    rows: list[tuple[str, str]] = []
    made = int(run.series("evaluations")[-1]) if run.steps else 0
    words = TRAINING_MESSAGES if run.training else MESSAGES
    ended = "" if run.end is None else End(run.end["reason"], run.end["why"]).message(words)
    if result is not None and run.end is None:
        rows = [(name, vector(value)) for name, value in _named(result.x)]
        rows.append(("value near x", f"{result.fun:.6g}, the estimate of the last step"))
    elif result is not None and run.end is not None:
        made, ended = result.nfev, result.message
        rows = _value_rows(result, f", the mean of {run.end.get('evaluations')} values at x")
    tests = run.tests
    best = max(tests, key=lambda test: number(test["mean_return"]), default=None)
    for name, test in (("best test", best), ("last test", tests[-1] if tests else None)):
        if test is not None:
            mean, episodes = number(test["mean_return"]), int(test["episodes"])
            error = number(test["deviation"]) / math.sqrt(episodes)
            after = f"{episodes} episodes after {test['step']} steps"
            rows.append((name, f"a mean return of {_with_error(mean, error)}, {after}"))
    if best is not None:
        rows.append(("policy", f"{where / 'policy-best'}; to test it: gensmooth evaluate {where}"))
    rows.append(("ended", ended) if run.end is not None else ("state", "still running"))
    return [*rows, (run.unit, f"{made:,} in {len(run.steps):,} steps")]


def _with_error(mean: float, error: float) -> str:
    """Return a mean and its standard error, which has two digits and says how many the mean has.

    >>> _with_error(-1226.56, 245.1), _with_error(3.14159, 0.0251), _with_error(500.0, 0.0)
    ('−1,227 ± 250', '3.142 ± 0.025', '500 ± 0')
    """
    if not 0 < error < math.inf:
        return f"{mean:,.6g} ± {error:g}".replace("-", "−")
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{mean:,.{digits}f} ± {float(f'{error:.2g}'):,.{digits}f}".replace("-", "−")


def _named(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the arrays of a structure with their names.

    >>> list(_named({"gain": 2.0, "layers": [{"w": 1.0}]})), list(_named(3.0))
    ([('gain', 2.0), ('layers[0].w', 1.0)], [('x', 3.0)])
    """
    if isinstance(value, dict):
        for name, part in cast("dict[str, Any]", value).items():
            yield from _named(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list | tuple):
        for i, part in enumerate(cast("list[Any]", value)):
            yield from _named(part, f"{path}[{i}]")
    else:
        yield path or "x", value


def _x_table(x: Any) -> Table:
    rows = [
        [name, i, float(each)]
        for name, value in _named(x)
        for i, each in enumerate(np.asarray(value).reshape(-1))
    ]
    return Table("x", "x", ["name", "entry", "value"], rows)


def _prose(run: RecordedRun) -> str:
    if not run.steps:
        return "No step has been recorded yet."
    text: list[str] = []
    signal = run.series("signal_to_noise")
    last = signal[-max(1, len(signal) // 5) :]
    if np.isfinite(last).any():
        recent = float(np.nanmedian(last))
        ending = "." if recent > 1 else ", so it is mostly noise: use more directions or samples."
        text.append(
            "In the last fifth of the steps, the gradient estimate is (median) "
            f"{recent:.2g} times its standard error{ending}"
        )
    _, rate = speeds(run)
    if len(rate):
        text.append(f"The median speed is {float(np.median(rate)):,.4g} {run.unit} per second.")
    return " ".join(text)


def _tables(run: RecordedRun) -> list[Table]:
    faults = Counter[str]()
    for step in run.steps:
        faults.update(cast("dict[str, int]", step.get("faults") or {}))
    rows: list[list[Any]] = [[kind, count] for kind, count in sorted(faults.items())]
    if run.steps and (dropped := int(np.nansum(run.series("dropped")))):
        rows.append(["directions left out", dropped])
    tables = [Table("failures", "Failures", ["Kind", "Number"], rows)] if rows else []
    if run.tests:
        names = ["step", "trajectories", "episodes", "mean_return", "deviation", "mean_length"]
        listed = [[_cell(test.get(name)) for name in names] for test in run.tests]
        words = {"trajectories": "training episodes", "episodes": "test episodes"}
        columns = [words.get(name, name.replace("_", " ")) for name in names]
        tables.append(Table("tests", "Tests", columns, listed))
    return tables


def _cell(value: Any) -> Any:
    return number(value) if isinstance(value, str) else value


def _steps_table(run: RecordedRun) -> Table:
    apart = ("faults", "test", "diverged")
    names = [n for n in dict.fromkeys(k for s in run.steps for k in s) if n not in apart]
    rows = [[_cell(step.get(name, "")) for name in names] for step in run.steps]
    return Table("steps", "Every step", names, rows)


def _facts(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the settings of a run, without those that are not set."""
    apart = {"x0", "format", "run", "sha256", "source"}
    settings = flat_settings({k: _arrays_as_text(v) for k, v in config.items() if k not in apart})
    return [(name, str(value)) for name, value in settings.items() if value is not None]


def _arrays_as_text(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = cast("dict[str, Any]", value)
    if "dtype" in inner and "values" in inner:
        return vector(array_from_json(inner, {}))
    if "dtype" in inner and "in" in inner:
        return f"an array of shape {tuple(inner['shape'])}"
    return {name: _arrays_as_text(each) for name, each in inner.items()}
