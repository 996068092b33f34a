"""Writes the page of any folder: a run, a training, a comparison, a sweep, or studies."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

import io
import json
import math
import shlex
import time
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, expressions, fields
from gensmooth.describe import describe, number, rebuild, whole
from gensmooth.lab import report
from gensmooth.lab.paper.reproduce import ASKED, report_again
from gensmooth.lab.report.tables import Table
from gensmooth.lab.trials import comparison_page, sweep_page, table
from gensmooth.runs import CheckpointError, array_from_json, container
from gensmooth.runs.config import sizes_in
from gensmooth.runs.files import Position, exists, make_folder, read_bytes, write_bytes
from gensmooth.runs.folder import (
    ARRAYS,
    CHECKPOINT,
    CONFIG,
    METRICS,
    TIMES,
    UNUSABLE,
    read_config,
    sizes_match,
)
from gensmooth.searches.choose import LEARNING_RATE

Floats = NDArray[np.float64]

_RELOAD = 5.0
# Settings of a search that have no option, with their defaults. Only an object has other values.
_ONLY_OBJECTS = {"widest": "inf", "by_rank": False, "most_directions": None}
_SHORT = 32  # numbers of x0 that are written into a command
_BLUE, _RED, _GREEN = "#0072b2", "#c44a10", "#009e73"  # colours that pages know


def overview(
    folder: str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    live: bool = False,
    every: float = _RELOAD,
) -> Path:
    """Write the page of a folder.

    Args:
        folder: The ``folder`` of ``minimize``, ``train``, ``compare``, ``sweep`` or ``reproduce``.
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
    if not where.is_dir():
        raise ValueError(f"{where} is not a folder of a run, a comparison, a sweep or a study.")
    if (where / table.FILE).exists():
        return partial(_comparison, where, out or where)
    if (where / CONFIG).exists():
        return partial(_run, where, out)
    if (where / ASKED).exists():
        return partial(_studies, where, out)
    if list(where.glob("*/study.json")):
        raise ValueError(
            f"{where} holds runs of studies, but no {ASKED}. To write their page: "
            f"gensmooth reproduce STUDY --no-run --folder {where}"
        )
    raise ValueError(
        f"{where} holds no run ({CONFIG}), no comparison or sweep ({table.FILE}) and no study "
        f"({ASKED})."
    )


@contextmanager
def _naming(where: Path) -> Generator[None]:
    """Turn what a damaged or malicious folder may cause into an error that names the folder."""
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
    def training(self) -> bool:
        """Whether it trains a policy."""
        return self.config["kind"] == "training"

    @property
    def unit(self) -> str:
        """What one evaluation is."""
        return "episodes" if self.training else "evaluations"

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
    with suppress(ValueError):  # decoration: what cannot be read is not shown
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


def _run(where: Path, chosen: Path | None, reload: float | None) -> tuple[Path, bool]:
    with report.named_extra():
        from gensmooth.lab.report.page import Section
    run = read_run(where)
    with _naming(where):
        out = where / "report" if chosen is None else chosen
        make_folder(out, inside=where if chosen is None else None)
        section = Section(
            name="run",
            title="The training" if run.training else "The run",
            prose=_prose(run),
            drawn=_drawn(run),
            tables=_tables(run),
            facts=_facts(run.config),
            files=[_steps_table(run)],
        )
        written = report.write_report(
            [section],
            out,
            title=f"{run.name}: {_ending(run)}",
            lede=_lede(run),
            command=command_of(run.config, where, out),
            reload=reload,
        )
    return written, run.end is not None


def _ending(run: RecordedRun) -> str:
    if run.end is None:
        return f"{len(run.steps)} steps so far"
    return f"ended after {len(run.steps)} steps"


def _lede(run: RecordedRun) -> str:
    if not run.steps:
        return "No step has been made yet."
    made = int(run.series("evaluations")[-1])
    if run.end is not None:
        made += whole(run.end.get("evaluations", 0))  # those at the recommended point
    text = f"{made} {run.unit} in {len(run.steps)} steps."
    if run.end is not None:
        why = run.end.get("why") or ""
        text += f" It ended: {run.end.get('reason')}{f' ({why})' if why else ''}."
        if "value" in run.end:
            text += f" The final value is {number(run.end['value']):.6g}"
            error = run.end.get("error")
            text += f" ± {number(error):.2g}." if error is not None else "."
    return text


def _prose(run: RecordedRun) -> str:
    if not run.steps:
        return "Nothing has been recorded yet."
    value = run.series("value")
    text = f"The value began at {value[0]:.4g} and is {value[-1]:.4g} in the last step."
    signal = run.series("signal_to_noise")
    last = signal[-max(1, len(signal) // 5) :]
    if np.isfinite(last).any():
        recent = float(np.nanmedian(last))
        text += f" In the last fifth the estimate is {recent:.2g} times its standard error (median)"
        text += "." if recent > 1 else ": mostly noise; more directions or samples would help."
    _, rate = speeds(run)
    if len(rate):
        text += f" The median speed is {float(np.median(rate)):.4g} {run.unit} per second."
    return text


def _tables(run: RecordedRun) -> list[Table]:
    tables: list[Table] = []
    faults = Counter[str]()
    for step in run.steps:
        faults.update(cast("dict[str, int]", step.get("faults") or {}))
    dropped = int(np.nansum(run.series("dropped"))) if run.steps else 0
    rows: list[list[Any]] = [[kind, count] for kind, count in sorted(faults.items())]
    if dropped:
        rows.append(["directions left out", dropped])
    note = "" if rows else "Nothing went wrong."
    tables.append(Table("failures", "Failures", ["Kind", "Number"], rows or [["none", 0]], note))
    tests = [cast("dict[str, Any]", s["test"]) for s in run.steps if s.get("test")]
    if tests:
        names = ["step", "trajectories", "episodes", "mean_return", "deviation", "mean_length"]
        listed = [[_cell(test.get(name)) for name in names] for test in tests]
        tables.append(Table("tests", "Tests", names, listed))
    return tables


def _cell(value: Any) -> Any:
    return number(value) if isinstance(value, str) else value


def _steps_table(run: RecordedRun) -> Table:
    names = [n for n in dict.fromkeys(k for s in run.steps for k in s) if n not in _NOT_NUMBERS]
    rows = [[_cell(step.get(name, "")) for name in names] for step in run.steps]
    return Table("steps", "Every step", names, rows)


_NOT_NUMBERS = ("faults", "test", "diverged")


def _facts(config: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return the configuration as one flat list."""
    rows: list[tuple[str, str]] = []
    for name, value in config.items():
        if name in ("sha256", "run", "format"):
            continue
        if isinstance(value, dict) and "kind" not in value and "values" not in value:
            rows += _facts(cast("dict[str, Any]", value), f"{prefix}{name}.")
        elif value is not None and value != []:
            text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
            rows.append((f"{prefix}{name}", text if len(text) <= 200 else f"{text[:197]}…"))
    return rows


# --- figures -------------------------------------------------------------------------------------


class DrawnLine(NamedTuple):
    """A line of a panel.

    Attributes:
        label: Its label.
        x: Horizontal coordinates.
        y: Vertical coordinates.
        color: Its colour.
        width: Its width.
    """

    label: str
    x: Floats
    y: Floats
    color: str
    width: float = 1.2


def _drawn(run: RecordedRun) -> Any:
    from gensmooth.lab.report.curves import Drawn
    from gensmooth.lab.report.figure import Figure, LegendItem, Panel

    if not run.steps:
        return Drawn(())
    x = run.series("evaluations")
    better = np.fmax if _maximizes(run) else np.fmin
    best = better.accumulate(run.series("best_value"))
    value = "training return" if run.training else "value"
    panels: list[tuple[str, list[DrawnLine]]] = [
        (
            value,
            [
                DrawnLine("best single value so far", x, best, _GREEN, 0.9),
                DrawnLine("as each step saw it", x, run.series("value"), _BLUE),
            ],
        ),
        (
            "estimate",
            [
                DrawnLine("its standard error", x, run.series("standard_error"), _RED),
                DrawnLine("norm of the estimate", x, run.series("gradient_norm"), _BLUE),
            ],
        ),
        (
            "signal to noise",
            [DrawnLine("norm over standard error", x, run.series("signal_to_noise"), _BLUE)],
        ),
        ("step", _steps(run, x)),
    ]
    at, rate = speeds(run)
    if len(at):
        panels.append((f"{run.unit} per second", [DrawnLine("speed", at, rate, _BLUE)]))
    tests = [cast("dict[str, Any]", s["test"]) for s in run.steps if s.get("test")]
    if tests:
        when = np.array([float(test["trajectories"]) for test in tests])
        mean = np.array([number(test["mean_return"]) for test in tests])
        panels.insert(0, ("test return", [DrawnLine("mean of a test", when, mean, _BLUE)]))
    shown = [(title, lines) for title, lines in panels if any(_finite(line.y) for line in lines)]
    items: dict[str, LegendItem] = {}
    for _, lines in shown:
        for line in lines:
            items.setdefault(line.label, LegendItem(line.label, "thin", line.color))
    figure = Figure(
        name="run",
        title=f"{run.name}: {_ending(run)}",
        heading="Step by step",
        caption=f"Against {run.unit}. Axes are logarithmic where everything is above zero and "
        "spans more than a factor of 8.",
        columns=3,
        panels=[
            Panel(title, "", _text(title, lines), partial(_draw, lines=lines, unit=run.unit))
            for title, lines in shown
        ],
        legend=list(items.values()),
    )
    return Drawn([figure])


def _steps(run: RecordedRun, x: Floats) -> list[DrawnLine]:
    lines = [DrawnLine("change of x", x, run.series("step_size"), _BLUE)]
    spacing = run.series("spacing") if any("spacing" in s for s in run.steps) else None
    if spacing is None and isinstance(
        fixed := run.config.get("search", {}).get("spacing"), int | float
    ):
        spacing = np.full(len(x), float(fixed))
    if spacing is not None:
        lines.append(DrawnLine("spacing", x, spacing, _RED))
    return lines


def _maximizes(run: RecordedRun) -> bool:
    return run.training or bool(run.config.get("search", {}).get("maximize"))


def _finite(values: Floats) -> bool:
    return bool(np.isfinite(values).any())


def _text(title: str, lines: Sequence[DrawnLine]) -> str:
    ends = [f"{line.label} {line.y[-1]:.3g}" for line in lines if len(line.y)]
    return f"{title}. At the end: {'; '.join(ends)}."


def _draw(ax: Any, *, lines: Sequence[DrawnLine], unit: str) -> None:
    from gensmooth.lab.report.curves import label_axes, ticks

    drawn = [line for line in lines if _finite(line.y)]
    finite = np.concatenate([line.y[np.isfinite(line.y)] for line in drawn])
    positive = finite[finite > 0]
    log = len(positive) > 0.9 * len(finite) and positive.max() > 8 * positive.min()
    ax.set_yscale("log" if log else "linear")
    for line in drawn:
        keep = _thinned(len(line.x))
        y = np.where(line.y[keep] > 0, line.y[keep], np.nan) if log else line.y[keep]
        mark = "o" if len(keep) < 3 else ""
        ax.plot(line.x[keep], y, color=line.color, lw=line.width, marker=mark, ms=3)
    ends = (positive.min(), positive.max()) if log else (finite.min(), finite.max())
    pad = (ends[1] / ends[0]) ** 0.06 if log else 0.06 * (ends[1] - ends[0]) or 1.0
    limits = (ends[0] / pad, ends[1] * pad) if log else (ends[0] - pad, ends[1] + pad)
    ax.set_ylim(*limits)
    right = max(float(line.x[-1]) for line in drawn)
    ax.set_xlim(0, right)
    label_axes(ax, unit, "")
    ticks(ax, "y", "log" if log else "linear", (float(limits[0]), float(limits[1])))
    ticks(ax, "x", "linear", (0.0, right))


def _thinned(length: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, length - 1, min(length, 600)).round().astype(np.intp))


# --- the command ---------------------------------------------------------------------------------


def command_of(config: Mapping[str, Any], where: Path, out: Path) -> str:
    """Return the command that repeats a run; if there is none, the call that returns its result."""
    words = _train_words(config) if config["kind"] == "training" else _words(config, where, out)
    if words is not None:
        return shlex.join(words)
    name = config.get("objective") or "fun"
    return f"gs.resume({str(where)!r}, {name})  # this run used Python objects"


def _words(config: Mapping[str, Any], where: Path, out: Path) -> list[str] | None:
    search: dict[str, Any] = dict(config["search"])
    if config["objective"] is None or search.pop("bounds", None) is not None:
        return None
    if search.pop("structure") is not None:
        return None
    words = ["gensmooth", "minimize", str(config["objective"])]
    words += ["--x0", _start(config, where, out)]
    if search.pop("log_scale", None) is not None or config.get("extensions"):
        return None
    if isinstance(search.get("x_scale"), dict):
        return None
    optimizer = search.pop("optimizer", None)
    if isinstance(optimizer, dict) and set(cast("dict[str, Any]", optimizer)) == {"learning_rate"}:
        if cast("dict[str, Any]", optimizer)["learning_rate"] != LEARNING_RATE:
            return None  # not minimize's default, which no option is needed for
    elif optimizer is not None:
        search["optimizer"] = optimizer
    for name in ("directions", "estimator", "optimizer"):
        if name in search:
            text = expression(search.pop(name))
            if text is None:
                return None
            words += [f"--{name}", text]
    vectorized = search.pop("vectorized", False)
    if vectorized:
        words += ["--vectorized", *([] if vectorized is True else ["--block", str(vectorized)])]
    limits: dict[str, Any] = {**config["limits"], "seed": config["seed"]}
    for name, value in {**search, **limits}.items():
        if name in _ONLY_OBJECTS:
            if value != _ONLY_OBJECTS[name]:
                return None
            continue
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value not in (None, False):
            words += [flag, str(value)]
    return words


def _start(config: Mapping[str, Any], where: Path, out: Path) -> str:
    """Return x0 for a shell: as numbers, or as a file in the folder of the page."""
    x0: Mapping[str, Any] = config["x0"]
    values: Any = x0.get("values")
    large: Mapping[str, NDArray[Any]] = {}
    if values is None:
        large = container.read(where / ARRAYS, sizes_match(sizes_in(config))).arrays
    array = array_from_json(x0, large)
    if values is not None and len(x0["shape"]) == 1 and x0["dtype"] == "float64":
        for word, value in (("zeros", 0.0), ("ones", 1.0)):
            if all(each == value and math.copysign(1, each) > 0 for each in values):
                return f"{word}:{len(values)}"
        if len(values) <= _SHORT:
            return ",".join(map(repr, values))
    path, data = out / "x0.npy", io.BytesIO()
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


def _train_words(config: Mapping[str, Any]) -> list[str] | None:
    search, schedule = dict(config["search"]), dict(config["schedule"])
    sizes: list[int] = config["policy"]["sizes"]
    words = ["gensmooth", "train", str(config["environment"]["name"])]
    words += ["--method", str(config["method"]), "--seed", str(config["seed"])]
    words += ["--num-directions", str(search["num_directions"])]
    optimizer = search.get("optimizer")
    if optimizer is not None:
        if set(optimizer) != {"kind", "learning_rate"} or optimizer["kind"] != "Sgd":
            return None
        words += ["--spacing", repr(search["spacing"])]
        words += ["--learning-rate", repr(optimizer["learning_rate"])]
        text = expression(search["estimator"])
        if text is None:
            return None
        words += ["--estimator", text]
    if len(sizes) > 2:
        words += ["--policy", "mlp", "--hidden", ",".join(map(str, sizes[1:-1]))]
    if not config["standardize"]:
        words.append("--raw")
    resets = config.get("resets", search["samples"])
    if resets != "independent":
        words += ["--resets", str(resets)]
    for name, value in schedule.items():
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words
