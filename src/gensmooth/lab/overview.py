"""Writes the page of any folder: a run, a training, a comparison, a sweep, or studies."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

import io
import math
import shlex
import time
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields as fields_of
from functools import partial
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, expressions, fields
from gensmooth.describe import describe, number, rebuild
from gensmooth.lab import report
from gensmooth.lab.paper.reproduce import ASKED, report_again
from gensmooth.lab.report.tables import Table, vector
from gensmooth.lab.trials import comparison_page, sweep_page, table
from gensmooth.observe.observers import flat_settings
from gensmooth.optimize import Minimization, minimize
from gensmooth.parameters import as_bounds
from gensmooth.results import Result, load
from gensmooth.rl.program import TRAINING_MESSAGES
from gensmooth.runs import MESSAGES, CheckpointError, End, array_from_json, container
from gensmooth.runs.config import sizes_in
from gensmooth.runs.files import (
    Position,
    exists,
    make_folder,
    open_file,
    read_bytes,
    write_bytes,
)
from gensmooth.runs.folder import (
    ARRAYS,
    CHECKPOINT,
    CONFIG,
    METRICS,
    TIMES,
    UNUSABLE,
    read_config,
    read_end,
    sizes_fit,
    sizes_match,
)
from gensmooth.searches import AUTO
from gensmooth.searches.choose import LEARNING_RATE
from gensmooth.trees import Tree

Floats = NDArray[np.float64]
Array = NDArray[Any]

_RELOAD = 5.0
_RESULT = "result.json"  # of `gensmooth minimize`
_TORCH_LOG = b"gensmooth torch log"  # the first bytes of a gs.torch.Log
_SHORT = 32  # the most numbers of an array that are written into a command


def overview(
    folder: str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    live: bool = False,
    every: float = _RELOAD,
) -> Path:
    """Write the page of a folder, or of the log of a torch optimiser.

    Args:
        folder: The ``folder`` of ``minimize``, ``train``, ``compare``, ``sweep`` or ``reproduce``,
            a folder in which ``gensmooth minimize`` wrote its result, or the file of a
            ``gs.torch.Log``.
        out: The folder for the page; by default the same one.
        live: Write the page again and again until the run ends or you press Ctrl-C. A browser
            reloads it by itself.
        every: Seconds between two pages.

    Returns:
        The path of the page.

    Raises:
        ValueError: If the folder holds none of these.
    """
    where = checks.path("folder", folder)
    target = checks.optional(checks.path, "out", out)
    every = checks.positive("every", every)
    write = _writer(where, target)
    if not checks.flag("live", live):
        return write(None)[0]
    printed = False
    while True:
        path, ended = write(every)
        if not printed:
            print(f"page: {path}", flush=True)
            printed = True
        if ended:
            return write(None)[0]
        try:
            time.sleep(every)
        except KeyboardInterrupt:
            return write(None)[0]


def _writer(where: Path, out: Path | None) -> Callable[[float | None], tuple[Path, bool]]:
    """Return a function that writes the page, and returns whether all runs have ended."""
    if where.is_file():
        with open_file(where, follow=True) as file:
            if file.read(len(_TORCH_LOG)) == _TORCH_LOG:
                return partial(_torch_log, where, out)
    if not where.is_dir():
        raise ValueError(
            f"{where} is not a folder of a run, a comparison, a sweep or a study, and no log of a "
            "torch optimiser."
        )
    if (where / table.FILE).exists():
        return partial(_comparison, where, out or where)
    if (where / CONFIG).exists():
        return partial(_run, where, out)
    if (where / ASKED).exists():
        return partial(_studies, where, out)
    if (where / _RESULT).exists():
        return partial(_result_alone, where, out)
    if list(where.glob("*/study.json")):
        raise ValueError(
            f"{where} holds runs of studies, but no {ASKED}. To write their page: "
            f"gensmooth reproduce STUDY --no-run --folder {where}"
        )
    raise ValueError(
        f"{where} holds no run ({CONFIG} or {_RESULT}), no comparison or sweep ({table.FILE}) and "
        f"no study ({ASKED})."
    )


@contextmanager
def _naming(where: Path) -> Generator[None]:
    """Turn the errors that a damaged or malicious folder may cause into one that names it."""
    try:
        yield
    except OSError as error:
        file = Path(error.filename) if isinstance(error.filename, str) else where
        raise CheckpointError(
            file, f"cannot be read or written: {error.strerror or error}."
        ) from error
    except UNUSABLE as error:
        raise CheckpointError(where, f"cannot be shown: {error}.") from error


def _comparison(where: Path, out: Path, reload: float | None) -> tuple[Path, bool]:
    """Write the page of a comparison or a sweep from the runs that are there."""
    trials, fetch = table.TrialTable.read(where), table.stored(where)
    with _naming(where):
        specs = trials.specs()
        ended = len(fetch(specs, "")) == len(specs)
        if trials.kind == "sweep":
            conclusion = sweep_page.conclude(trials, fetch)
            return sweep_page.write_sweep(conclusion, out, reload=reload), ended
        ranking = comparison_page.conclude(trials, fetch)
        return comparison_page.write_comparison(ranking, out, reload=reload), ended


def _studies(where: Path, out: Path | None, reload: float | None) -> tuple[Path, bool]:
    """Write the page of studies from the runs that are there; it does not reload."""
    del reload
    try:
        return report_again(where, out), True
    except OSError as error:
        raise CheckpointError(where, f"cannot be read or written: {error}.") from error


# --- a run ---------------------------------------------------------------------------------------


class RecordedRun(NamedTuple):
    """A run as it is recorded in its folder.

    Attributes:
        config: Its configuration.
        steps: One row for each step whose line is complete.
        end: How it ended, if it has.
        times: The lines of ``times.jsonl``.
    """

    config: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]
    end: Mapping[str, Any] | None
    times: Sequence[Mapping[str, Any]]

    def series(self, name: str) -> Floats:
        """Return a number of every step; NaN where it is missing."""
        values = [step.get(name) for step in self.steps]
        return np.array([math.nan if v is None else number(v) for v in values], np.float64)

    @property
    def tests(self) -> list[Mapping[str, Any]]:
        """The tests of a training."""
        return [step["test"] for step in self.steps if step.get("test")]

    @property
    def training(self) -> bool:
        """Whether it trains a policy."""
        return self.config["kind"] == "training"

    @property
    def unit(self) -> str:
        """What one evaluation is."""
        kinds = {"training": "episodes", "log": "steps"}
        return kinds.get(self.config["kind"], "evaluations")

    @property
    def name(self) -> str:
        """The name of the objective or environment."""
        if self.training:
            return str(self.config["environment"]["name"])
        return str(self.config.get("objective") or "a function")


def read_run(where: Path) -> RecordedRun:
    """Read a run's folder; the run may still be in progress."""
    config = read_config(where / CONFIG)
    if config["kind"] not in _CONFIGS:
        kind = str(config["kind"])[:40]
        raise ValueError(f"{where} holds a {kind}, for which there is no page.")
    try:
        config = _CONFIGS[config["kind"]](config, "")
    except ValueError as error:
        raise CheckpointError(where / CONFIG, f"cannot be used: {error}.") from error
    end, position = _checkpoint(where / CHECKPOINT)
    steps = _complete_lines(where / METRICS)
    if zlib.crc32(steps[: position.bytes]) != position.crc32:
        raise CheckpointError(
            where / METRICS, "is damaged: its checksum differs from the checkpoint's."
        )
    times: list[dict[str, Any]] = []
    with suppress(ValueError):  # only decoration, so it is not shown if it cannot be read
        times = _rows(where / TIMES, _complete_lines(where / TIMES), _TIME)
    return RecordedRun(config, _rows(where / METRICS, steps, _STEP), end, times)


def _checkpoint(path: Path) -> tuple[Mapping[str, Any] | None, Position]:
    """Return how the run ended, if it has, and which lines of the metrics the checkpoint covers."""
    if not exists(path):
        return None, Position()
    try:
        read = _CHECKPOINT(container.read_meta(path), "")
    except ValueError as error:
        raise CheckpointError(path, f"does not match its run: {error}.") from error
    return read["end"], Position(**read["metrics"])


def _complete_lines(path: Path) -> bytes:
    """Return the contents of a file up to its last complete line; it may still be written."""
    if not exists(path):
        return b""
    try:
        text = read_bytes(path)
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror or error}.") from error
    return text[: text.rfind(b"\n") + 1]


def _rows(path: Path, text: bytes, shape: fields.Shape) -> list[dict[str, Any]]:
    try:
        return [fields.parse(line, shape) for line in text.splitlines()]
    except ValueError as error:
        raise CheckpointError(path, f"is damaged: {error}.") from error


# --- what the files of a run may hold ------------------------------------------------------------

_VALUE = fields.nullable(fields.real())
_ARRAY = fields.record(
    {
        "dtype": fields.one_of("float32", "float64"),
        "shape": fields.many(fields.count(0, 2**48), 32),
    },
    {
        "values": fields.many(fields.real(), 10_000),
        "in": fields.one_of("arrays"),
        "name": fields.NAME,
        "sha256": fields.SHA256,
    },
)
_CONFIGS = {
    "minimisation": fields.record(
        {
            "seed": fields.SEED,
            "objective": fields.nullable(fields.NAME),
            "x0": _ARRAY,
            "search": fields.table(fields.PLAIN),
            "limits": fields.table(_VALUE),
        },
        others=fields.PLAIN,
    ),
    "training": fields.record(
        {
            "seed": fields.SEED,
            "environment": fields.record({"name": fields.NAME}, others=fields.PLAIN),
            "policy": fields.record(
                {"sizes": fields.many(fields.count(1, 2**31), 100, 2)}, others=fields.PLAIN
            ),
            "standardize": fields.flag,
            "method": fields.NAME,
            "search": fields.record({"samples": fields.nullable(fields.NAME)}, others=fields.PLAIN),
            "schedule": fields.table(_VALUE),
        },
        others=fields.PLAIN,
    ),
}
_CHECKPOINT = fields.record(
    {
        "end": fields.nullable(
            fields.record(
                {"reason": fields.NAME, "why": fields.LINE},
                {"value": fields.real(), "error": _VALUE},
                others=fields.PLAIN,
            )
        ),
        "metrics": fields.record({name: fields.count() for name in Position._fields}),
    },
    others=fields.PLAIN,
)
_STEP = fields.record(
    {"evaluations": fields.count(), "value": _VALUE},
    {
        "faults": fields.table(fields.count()),
        "diverged": fields.nullable(fields.LINE),
        "test": fields.nullable(
            fields.record({"trajectories": fields.count(), "mean_return": _VALUE}, others=_VALUE)
        ),
    },
    others=fields.either(_VALUE, fields.flag),
)
_TIME = fields.record(
    {"step": fields.count(), "time": fields.real(finite=True)}, {"begin": fields.flag}
)


def speeds(run: RecordedRun) -> tuple[Floats, Floats]:
    """Return numbers of evaluations, and the speed in evaluations per second at each."""
    evaluations = run.series("evaluations")
    at, rate = list[float](), list[float]()
    for before, after in zip(run.times, run.times[1:], strict=False):
        with suppress(KeyError, TypeError, IndexError):
            if after.get("begin"):
                continue  # the pause before a run was resumed
            first, last = int(before["step"]), int(after["step"])
            seconds = float(after["time"]) - float(before["time"])
            if last > first and seconds > 0 and last <= len(evaluations):
                began = evaluations[first - 1] if first else 0.0
                at.append(float(evaluations[last - 1]))
                rate.append(float(evaluations[last - 1] - began) / seconds)
    compiles = 1 if len(at) > 2 else 0  # the first step also compiles
    return np.array(at[compiles:]), np.array(rate[compiles:])


# --- the page of a run ---------------------------------------------------------------------------


def _run(where: Path, chosen: Path | None, reload: float | None) -> tuple[Path, bool]:
    run = read_run(where)
    with _naming(where):
        out = _folder(where, chosen)
        result = None if run.training else result_of(run, where)
        written = _written(
            out,
            f"{run.name}: {'the result' if run.end is not None else 'still running'}",
            _answer(run, result, where),
            heading="The training" if run.training else "The run",
            prose=_prose(run),
            drawn=_drawn(run),
            tables=_tables(run),
            facts=_facts(run.config),
            files=[_steps_table(run), *([] if result is None else [_x_table(result.x)])],
            command=command_of(run.config, where, out),
            reload=reload,
        )
    return written, run.end is not None


def _folder(where: Path, chosen: Path | None) -> Path:
    """Create the folder of a page; the one in a run's folder must not be a link."""
    out = where / "report" if chosen is None else chosen
    return make_folder(out, inside=where if chosen is None else None)


def _result_alone(where: Path, out: Path | None, reload: float | None) -> tuple[Path, bool]:
    """Write the page of a result without a run's folder."""
    del reload
    result = load(where / _RESULT)
    return _written(
        _folder(where, out),
        "The result",
        [
            *_value_rows(result, ""),
            ("ended", result.message),
            ("evaluations", f"{result.nfev} in {result.nit} steps"),
        ],
        prose="Only the result is stored. With --folder, gensmooth minimize stores the whole run, "
        "and its page has the curves and a command that repeats it.",
        facts=[("seed", str(result.seed))],
        files=[_x_table(result.x)],
    ), True


def _torch_log(where: Path, out: Path | None, reload: float | None) -> tuple[Path, bool]:
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
        drawn=_drawn(run),
        facts=_facts(run.config),
        files=[_steps_table(run)],
    ), True


def _written(out: Path, title: str, answer: Sequence[tuple[str, str]], **parts: Any) -> Path:
    """Write a page with one section that begins with an answer."""
    with report.named_extra():
        from gensmooth.lab.report.page import Front, Section
    command, reload = parts.pop("command", ""), parts.pop("reload", None)
    section = Section(name="run", title=parts.pop("heading", "The run"), **parts)
    front = Front(answer=answer)
    return report.write_report(
        [section], out, title=title, lede="", command=command, front=front, reload=reload
    )


def program_of(config: Mapping[str, Any], where: Path) -> Minimization | None:
    """Return the program of a run's configuration; ``None`` if it needs the user's own classes.

    Nothing is imported or called for it: dataclasses and named tuples become dicts.

    Raises:
        ValueError: If the start of the run cannot be read.
    """
    large: Mapping[str, Array] = {}
    if (sizes := sizes_in(config)) and exists(where / ARRAYS):
        large = container.read(where / ARRAYS, sizes_match(sizes)).arrays
    array_from_json(config["x0"], large)  # an error names what is wrong
    structure = config["search"].get("structure")
    if structure is not None:
        names = Tree.of_names(structure).to_json()
        config = {**config, "search": {**config["search"], "structure": names}}
    try:
        return Minimization.from_json(config, large, {})
    except UNUSABLE:
        return None


def result_of(run: RecordedRun, where: Path) -> Result | None:
    """Return the result in a run's checkpoint; ``None`` if there is none that can be read."""
    program = program_of(run.config, where)
    if program is None or not exists(where / CHECKPOINT):
        return None
    try:
        meta, arrays = container.read(where / CHECKPOINT, sizes_fit(program))
        state = program.unpack(meta, arrays)
        records = [program.read_record(dict(row)) for row in run.steps[: state.search.step]]
        end = read_end(run.end, program) or End("interrupted")
        return program.result(state, records, end)
    except UNUSABLE as error:
        raise CheckpointError(where / CHECKPOINT, f"does not match its run: {error}.") from error


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
            rows.append((name, f"a mean return of {mean:.6g} ± {error:.2g}, {after}"))
    if best is not None:
        rows.append(("policy", f"{where / 'policy-best'}; to test it: gensmooth evaluate {where}"))
    rows.append(("ended", ended) if run.end is not None else ("state", "still running"))
    return [*rows, (run.unit, f"{made} in {len(run.steps)} steps")]


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
        text.append(f"The median speed is {float(np.median(rate)):.4g} {run.unit} per second.")
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
        tables.append(Table("tests", "Tests", [n.replace("_", " ") for n in names], listed))
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
    settings = flat_settings({k: v for k, v in config.items() if k not in apart})
    return [(name, str(value)) for name, value in settings.items() if value is not None]


# --- figures -------------------------------------------------------------------------------------


class DrawnLine(NamedTuple):
    """A line of a panel.

    Attributes:
        label: Its label.
        y: Vertical coordinates.
        color: Its colour, one of :func:`~gensmooth.lab.report.style.css_variables`.
        x: Horizontal coordinates; by default the evaluations of each step.
    """

    label: str
    y: Floats
    color: str
    x: Floats | None = None


_DIFFERENT = (
    " The value at the top of the page was measured at x at the end; a step sees values around its "
    "own point."
)


def _drawn(run: RecordedRun) -> Any:
    from gensmooth.lab.report.curves import Drawn
    from gensmooth.lab.report.figure import Figure, LegendItem, Panel

    if not run.steps:
        return Drawn(())
    is_log = run.config["kind"] == "log"
    maximizes = run.training or run.config.get("search", {}).get("maximize")
    better = np.fmax if maximizes else np.fmin
    at, rate = speeds(run)
    tests = [(float(t["trajectories"]), number(t["mean_return"])) for t in run.tests]
    spacing = run.series("spacing")
    fixed = run.config.get("search", {}).get("spacing")
    if isinstance(fixed, int | float):
        spacing = np.full(len(run.steps), float(fixed))

    def line(label: str, name: str, color: str) -> DrawnLine:
        return DrawnLine(label, run.series(name), color)

    means = np.array([mean for _, mean in tests])
    best = better.accumulate(run.series("best_value"))
    panels = {
        "test return": [
            DrawnLine("mean of a test", means, "#bfa000", np.array([when for when, _ in tests]))
        ],
        "loss" if is_log else "training return" if run.training else "value": [
            DrawnLine("best single value so far", best, "#009e73"),
            line("loss" if is_log else "estimate of each step near x", "value", "#0072b2"),
        ],
        "gradient estimate": [
            line("its standard error", "standard_error", "#c44a10"),
            line("its norm", "gradient_norm", "#5b4bb5"),
        ],
        "signal to noise": [line("norm over standard error", "signal_to_noise", "#cc79a7")],
        "step": [
            line("learning rate" if is_log else "change of x", "step_size", "#30343a"),
            DrawnLine("spacing", spacing, "#00869c"),
        ],
        f"{run.unit} per second": [DrawnLine("speed", rate, "#8c4a2f", at)],
    }
    if not np.isfinite(run.series("standard_error")).any():  # the pilot has none
        del panels["gradient estimate"]
    if len(rate) < 3:
        del panels[f"{run.unit} per second"]
    if len(tests) < 2:  # one test is at the top of the page
        del panels["test return"]
    finite = {t: [x for x in lines if np.isfinite(x.y).any()] for t, lines in panels.items()}
    shown = {title: lines for title, lines in finite.items() if lines}
    steps = run.series("evaluations")
    figure = Figure(
        name="run",
        title=run.name,
        heading="Step by step",
        caption=f"Against {run.unit}. Axes are logarithmic where all values are positive and span "
        f"more than a factor of 8.{'' if is_log or run.training else _DIFFERENT}",
        columns=3,
        panels=[
            Panel(title, "", _text(title, lines), partial(_draw, lines=lines, at=steps, run=run))
            for title, lines in shown.items()
        ],
        legend=[
            LegendItem(line.label, "thin", line.color) for lines in shown.values() for line in lines
        ],
    )
    return Drawn([figure])


def _text(title: str, lines: Sequence[DrawnLine]) -> str:
    return f"{title}. At the end: {'; '.join(f'{x.label} {x.y[-1]:.3g}' for x in lines)}."


def _draw(ax: Any, *, lines: Sequence[DrawnLine], at: Floats, run: RecordedRun) -> None:
    from gensmooth.lab.report.curves import WIDE, label_axes, padded, ticks

    finite = np.concatenate([line.y[np.isfinite(line.y)] for line in lines])
    positive = finite[finite > 0]
    log = len(positive) > 0.9 * len(finite) and positive.max() > WIDE * positive.min()
    scale = "log" if log else "linear"
    shown = positive if log else finite
    limits = padded(float(shown.min()), float(shown.max()), scale)
    ax.set_yscale(scale)
    right = 0.0
    for line in lines:
        x = at if line.x is None else line.x
        keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), 600)).round().astype(np.intp))
        y = np.where(line.y[keep] > 0, line.y[keep], np.nan) if log else line.y[keep]
        mark = "o" if len(keep) < 3 else ""
        ax.plot(x[keep], y, color=line.color, lw=1.2, marker=mark, ms=3)
        right = max(right, float(x[-1]))
    ax.set_ylim(*limits)
    ax.set_xlim(0, right)
    label_axes(ax, run.unit, "")
    ticks(ax, "y", scale, limits)
    ticks(ax, "x", "linear", (0.0, right))


# --- the command ---------------------------------------------------------------------------------

_PARTS = ("directions", "estimator", "optimizer")
_AGAIN = "again"  # a folder for the repeated run


def command_of(config: Mapping[str, Any], where: Path, out: Path) -> str:
    """Return the command that repeats a run.

    A training, and a run that options cannot express, is repeated by copying its configuration to a
    new folder and resuming it there, from the beginning.

    Args:
        config: The run's configuration.
        where: The run's folder.
        out: The folder of the page; arrays that are too long for a command are files there.
    """
    training = config["kind"] == "training"
    words = None if training else _words(config, where, out)
    if words is not None:
        return shlex.join(words)
    files = [str(where / name) for name in (CONFIG, ARRAYS) if exists(where / name)]
    copy = f"mkdir {_AGAIN} && {shlex.join(['cp', *files, _AGAIN])}"
    resume = ["gensmooth", "resume", _AGAIN]
    if training:
        trust = ":" in str(config["environment"]["name"])  # it is in a module of the user's
        return f"{copy} && {shlex.join([*resume, *(['--trust'] if trust else [])])}"
    if config["objective"] is not None:
        return f"{copy} && {shlex.join([*resume, '--objective', str(config['objective'])])}"
    return f"{copy}  # then in Python: gs.resume({_AGAIN!r}, fun)"


def _words(config: Mapping[str, Any], where: Path, out: Path) -> list[str] | None:
    """Return the words of a ``gensmooth minimize`` command; ``None`` if options do not suffice."""
    program, search = program_of(config, where), dict(config["search"])
    special = any(search.pop(name, None) for name in ("structure", "log_scale", "held"))
    if program is None or special or config["objective"] is None or config.get("extensions"):
        return None
    words = ["gensmooth", "minimize", str(config["objective"])]
    words += ["--x0", _numbers(program.x0, out / "x0.npy", short=True)]
    if search.pop("bounds") is not None:
        sides = as_bounds(program.search.bounds, program.x0)
        pairs = np.stack([side.reshape(-1) for side in sides], axis=-1)
        pairs = pairs[:1] if (pairs == pairs[0]).all() else pairs
        listed = [",".join("" if np.isinf(v) else repr(float(v)) for v in pair) for pair in pairs]
        if len(pairs) > _SHORT:
            listed = [_saved(pairs, out / "bounds.npy")]
        words += [word for text in listed for word in ("--bounds", text)]
    if isinstance(search.get("x_scale"), dict):
        scale: Array = cast(Any, program.search).x_scale
        words += ["--x-scale", _numbers(scale, out / "x_scale.npy")]
        del search["x_scale"]
    for name in _PARTS:
        part = search.pop(name, None)
        if part is None or part == {"learning_rate": LEARNING_RATE}:  # what minimize chooses
            continue
        text = expression(part)
        if text is None:
            return None
        words += [f"--{name}", text]
    vectorized = search.pop("vectorized")
    if vectorized:
        words += ["--vectorized", *([] if vectorized is True else ["--block", str(vectorized)])]
    defaults = {name: known.default for name, known in signature(minimize).parameters.items()}
    own = {known.name: describe(known.default) for known in fields_of(cast(Any, program.search))}
    for name, value in {**search, **config["limits"], "seed": config["seed"]}.items():
        is_auto = (name, value) == ("method", AUTO)
        if value in (None, False) or is_auto or value == defaults.get(name):
            continue
        is_named = (name, ":") == ("method", value)
        if name not in defaults or isinstance(value, dict | list) or is_named:
            if value != own.get(name):
                return None
            continue
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def _numbers(array: Array, path: Path, *, short: bool = False) -> str:
    """Return an array for a shell: as numbers, or as a file in the folder of the page."""
    values: list[float] = array.reshape(-1).tolist()
    if array.ndim != 1 or array.dtype != np.float64:
        return _saved(array, path)
    for word, value in (("zeros", 0.0), ("ones", 1.0)) if short else ():
        if all(each == value and math.copysign(1, each) > 0 for each in values):
            return f"{word}:{len(values)}"
    return ",".join(map(repr, values)) if len(values) <= _SHORT else _saved(array, path)


def _saved(array: Array, path: Path) -> str:
    data = io.BytesIO()
    np.save(data, array)
    write_bytes(path, data.getbuffer(), durable=False)
    return str(path)


def expression(description: Any) -> str | None:
    """Return a description as Python code, if the code gives the same object again.

    >>> expression({"kind": "Sgd", "learning_rate": 0.1})
    'sgd(learning_rate=0.1)'
    """
    names = expressions.public("gensmooth")
    try:
        rebuild(description)  # only the parts of a search, so that no other name is called below
        text = _text_of(description)
        same = describe(expressions.build(text, names)) == _unresolved(description)
    except (SyntaxError, ValueError, TypeError):
        return None
    return text if same else None


def _unresolved(description: Any) -> Any:
    """Return the description without values that are computed when a run begins."""
    if isinstance(description, list):
        return [_unresolved(each) for each in cast("list[Any]", description)]
    if not isinstance(description, dict):
        return description
    resolved = {n: _unresolved(v) for n, v in cast("dict[str, Any]", description).items()}
    return {**resolved, "factor": None} if resolved.get("kind") == "Shrunk" else resolved


def _text_of(description: Any) -> str:
    if isinstance(description, list):
        parts = [_text_of(each) for each in cast("list[Any]", description)]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if not isinstance(description, dict) or "kind" not in description:
        return repr(cast(Any, description))
    fields = dict(cast("dict[str, Any]", description))
    kind = str(fields.pop("kind"))
    if kind == "Shrunk":
        return f"shrunk({_text_of(fields['base'])}, scale={fields['scale']!r})"
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in kind).lstrip("_")
    names = expressions.public("gensmooth")
    called = kind if kind in names else snake if snake in names else kind.lower()
    inner = ", ".join(f"{n}={_text_of(v)}" for n, v in fields.items() if v is not None)
    return f"{called}({inner})"
