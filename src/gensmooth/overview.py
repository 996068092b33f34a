"""A page of any folder: a run, a training, a comparison, a sweep, or the paper's studies."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

import json
import math
import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, expressions, report
from gensmooth.comparisons import page, plan
from gensmooth.describe import describe, number
from gensmooth.report.tables import Table
from gensmooth.runs import CheckpointError, container
from gensmooth.runs.files import read_bytes
from gensmooth.runs.folder import ARRAYS, CHECKPOINT, CONFIG, METRICS, TIMES, UNUSABLE, read_config
from gensmooth.studies.run import ASKED, report_again

Floats = NDArray[np.float64]

_RELOAD = 5.0
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
        folder: What ``minimize`` was given as ``checkpoint``, ``train`` or ``compare`` or ``sweep``
            or ``reproduce`` as ``out``.
        out: The folder for the page; by default beside what it is about.
        live: Write the page again and again while the run goes on, in a way that a browser loads
            it again by itself; until the run has ended, or Ctrl-C.
        every: Seconds between two pages.

    Returns:
        The path of the page.

    Raises:
        ValueError: When the folder holds nothing that a page can be written of.
    """
    where = checks.path("folder", folder)
    target = checks.optional(checks.path, "out", out)
    every = checks.positive("every", every)
    write = _writer(where, target)
    if not checks.flag("live", live):
        return write(None)[0]
    told = False
    while True:
        path, ended = write(every)
        if not told:
            print(f"page: {path}", flush=True)
            told = True
        if ended:
            return write(None)[0]
        try:
            time.sleep(every)
        except KeyboardInterrupt:
            return write(None)[0]


def _writer(where: Path, out: Path | None) -> Callable[[float | None], tuple[Path, bool]]:
    """What writes the page, and tells whether the folder is complete."""
    if not where.is_dir():
        raise ValueError(f"{where} is not a folder of a run, a comparison, a sweep or a study.")
    if (where / plan.FILE).exists():
        return partial(_comparison, where, out or where)
    if (where / CONFIG).exists():
        return partial(_run, where, out or where / "report")
    if (where / ASKED).exists():
        return lambda _: (report_again(where, out), True)
    if list(where.glob("*/study.json")):
        raise ValueError(
            f"{where} holds runs of studies, but not what was asked of them: "
            f"gensmooth reproduce STUDY --no-run --out {where}"
        )
    raise ValueError(
        f"{where} holds no run ({CONFIG}), no comparison or sweep ({plan.FILE}) and no study "
        f"({ASKED})."
    )


def _comparison(where: Path, out: Path, reload: float | None) -> tuple[Path, bool]:
    order = plan.Order.read(where)
    records = plan.found(where, order)
    ended = len(records) == len(order.specs())
    if order.kind == "sweep":
        from gensmooth.comparisons.sweep_page import write_found

        return write_found(where, out, order, records, reload=reload), ended
    return page.write_comparison(page.conclude(order, records), out, live=reload), ended


# --- a run ---------------------------------------------------------------------------------------


class Look(NamedTuple):
    """A run as its folder tells it.

    Attributes:
        config: Its configuration.
        steps: A row per step that is complete on disk.
        end: How it ended, if it has.
        times: Lines of ``times.jsonl``.
    """

    config: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]
    end: Mapping[str, Any] | None
    times: Sequence[Mapping[str, Any]]

    def series(self, name: str) -> Floats:
        """A number of every step; NaN where it has none."""
        found = [step.get(name) for step in self.steps]
        return np.array([math.nan if v is None else number(v) for v in found], np.float64)

    @property
    def training(self) -> bool:
        """Whether it is a training."""
        return self.config["kind"] == "training"

    @property
    def unit(self) -> str:
        """What an evaluation is."""
        return "episodes" if self.training else "evaluations"

    @property
    def name(self) -> str:
        """What people call it."""
        if self.training:
            return str(self.config["environment"]["name"])
        return str(self.config.get("objective") or "a function")


def look_at(where: Path) -> Look:
    """Read a run's folder, also while the run goes on."""
    config = read_config(where / CONFIG)
    if config["kind"] not in ("minimisation", "training"):
        kind = str(config["kind"])[:40]
        raise ValueError(f"{where} holds a {kind}, of which no page can be written.")
    end: Mapping[str, Any] | None = None
    with suppress(CheckpointError, OSError, *UNUSABLE):
        end = container.read(where / CHECKPOINT).meta.get("end")
    return Look(config, _lines(where / METRICS), end, _lines(where / TIMES))


def _lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a file that may be growing."""
    found: list[dict[str, Any]] = []
    with suppress(OSError):
        for line in read_bytes(path).decode(errors="replace").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                break  # half a line: the run is writing it
            if isinstance(row, dict):
                found.append(cast(dict[str, Any], row))
    return found


def speeds(look: Look) -> tuple[Floats, Floats]:
    """Evaluations so far, and evaluations per second around then."""
    evaluations = look.series("evaluations")
    at, rate = list[float](), list[float]()
    for before, after in zip(look.times, look.times[1:], strict=False):
        with suppress(KeyError, TypeError, IndexError):
            if after.get("begin"):
                continue  # the time between two parts of a run is not its own
            first, last = int(before["step"]), int(after["step"])
            seconds = float(after["time"]) - float(before["time"])
            if last > first and seconds > 0 and last <= len(evaluations):
                began = evaluations[first - 1] if first else 0.0
                at.append(float(evaluations[last - 1]))
                rate.append(float(evaluations[last - 1] - began) / seconds)
    compiles = 1 if len(at) > 2 else 0  # in the first step
    return np.array(at[compiles:]), np.array(rate[compiles:])


def _run(where: Path, out: Path, reload: float | None) -> tuple[Path, bool]:
    with report.named_extra():
        from gensmooth.report.page import Section
    look = look_at(where)
    section = Section(
        name="run",
        title="The training" if look.training else "The run",
        prose=_prose(look),
        drawn=_drawn(look),
        tables=_tables(look),
        facts=_facts(look.config),
        files=[_steps_table(look)],
    )
    out.mkdir(parents=True, exist_ok=True)
    written = report.write_report(
        [section],
        out,
        title=f"{look.name}: {_ending(look)}",
        lede=_lede(look),
        command=command_of(look.config, where, out),
        reload=reload,
    )
    return written, look.end is not None


def _ending(look: Look) -> str:
    if look.end is None:
        return f"{len(look.steps)} steps so far"
    return f"ended after {len(look.steps)} steps"


def _lede(look: Look) -> str:
    if not look.steps:
        return "No step has been made yet."
    made = int(look.series("evaluations")[-1])
    text = f"{made} {look.unit} in {len(look.steps)} steps."
    if look.end is not None:
        why = look.end.get("why") or ""
        text += f" It ended: {look.end.get('reason')}{f' ({why})' if why else ''}."
        if "value" in look.end:
            text += f" The final value is {number(look.end['value']):.6g}"
            error = look.end.get("error")
            text += f" ± {number(error):.2g}." if error is not None else "."
    return text


def _prose(look: Look) -> str:
    if not look.steps:
        return "Nothing has been recorded yet."
    value = look.series("value")
    said = f"The value began at {value[0]:.4g} and is {value[-1]:.4g} in the last step."
    signal = look.series("signal_to_noise")
    if np.isfinite(signal).any():
        recent = float(np.nanmedian(signal[-max(1, len(signal) // 5) :]))
        said += f" In the last fifth the estimate is {recent:.2g} times its standard error (median)"
        said += "." if recent > 1 else ": mostly noise; more directions or samples would help."
    _, rate = speeds(look)
    if len(rate):
        said += f" The median speed is {float(np.median(rate)):.4g} {look.unit} per second."
    return said


def _tables(look: Look) -> list[Table]:
    found: list[Table] = []
    faults = Counter[str]()
    for step in look.steps:
        faults.update(cast("dict[str, int]", step.get("faults") or {}))
    dropped = int(np.nansum(look.series("dropped"))) if look.steps else 0
    rows: list[list[Any]] = [[kind, count] for kind, count in sorted(faults.items())]
    if dropped:
        rows.append(["directions left out", dropped])
    note = "" if rows else "Nothing went wrong."
    found.append(Table("failures", "Failures", ["Kind", "Number"], rows or [["none", 0]], note))
    tests = [cast("dict[str, Any]", s["test"]) for s in look.steps if s.get("test")]
    if tests:
        names = ["step", "trajectories", "episodes", "mean_return", "deviation", "mean_length"]
        listed = [[_cell(test.get(name)) for name in names] for test in tests]
        found.append(Table("tests", "Tests", names, listed))
    return found


def _cell(value: Any) -> Any:
    return number(value) if isinstance(value, str) else value


def _steps_table(look: Look) -> Table:
    names = [n for n in dict.fromkeys(k for s in look.steps for k in s) if n not in _NOT_NUMBERS]
    rows = [[_cell(step.get(name, "")) for name in names] for step in look.steps]
    return Table("steps", "Every step", names, rows)


_NOT_NUMBERS = ("faults", "test", "diverged")


def _facts(config: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """The configuration, flat."""
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
        label: What it is.
        x: Along the axis.
        y: Up.
        color: Its colour.
        width: Its width.
    """

    label: str
    x: Floats
    y: Floats
    color: str
    width: float = 1.2


def _drawn(look: Look) -> Any:
    from gensmooth.report.curves import Drawn
    from gensmooth.report.figure import Figure, LegendItem, Panel

    if not look.steps:
        return Drawn(())
    x = look.series("evaluations")
    better = np.fmax if _maximizes(look) else np.fmin
    best = better.accumulate(look.series("best_value"))
    value = "training return" if look.training else "value"
    panels: list[tuple[str, list[DrawnLine]]] = [
        (
            value,
            [
                DrawnLine("best single value so far", x, best, _GREEN, 0.9),
                DrawnLine("as each step saw it", x, look.series("value"), _BLUE),
            ],
        ),
        (
            "estimate",
            [
                DrawnLine("its standard error", x, look.series("standard_error"), _RED),
                DrawnLine("norm of the estimate", x, look.series("gradient_norm"), _BLUE),
            ],
        ),
        (
            "signal to noise",
            [DrawnLine("norm over standard error", x, look.series("signal_to_noise"), _BLUE)],
        ),
        ("step", _steps(look, x)),
    ]
    at, rate = speeds(look)
    if len(at):
        panels.append((f"{look.unit} per second", [DrawnLine("speed", at, rate, _BLUE)]))
    tests = [cast("dict[str, Any]", s["test"]) for s in look.steps if s.get("test")]
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
        title=f"{look.name}: {_ending(look)}",
        heading="Step by step",
        caption=f"Against {look.unit}. Axes are logarithmic where everything is above zero and "
        "spans more than a factor of 8.",
        columns=3,
        panels=[
            Panel(title, "", _text(title, lines), partial(_draw, lines=lines, unit=look.unit))
            for title, lines in shown
        ],
        legend=list(items.values()),
    )
    return Drawn([figure])


def _steps(look: Look, x: Floats) -> list[DrawnLine]:
    lines = [DrawnLine("change of x", x, look.series("step_size"), _BLUE)]
    spacing = look.series("spacing") if any("spacing" in s for s in look.steps) else None
    if spacing is None and isinstance(
        fixed := look.config.get("search", {}).get("spacing"), int | float
    ):
        spacing = np.full(len(x), float(fixed))
    if spacing is not None:
        lines.append(DrawnLine("spacing", x, spacing, _RED))
    return lines


def _maximizes(look: Look) -> bool:
    return look.training or bool(look.config.get("search", {}).get("maximize"))


def _finite(values: Floats) -> bool:
    return bool(np.isfinite(values).any())


def _text(title: str, lines: Sequence[DrawnLine]) -> str:
    ends = [f"{line.label} {line.y[-1]:.3g}" for line in lines if len(line.y)]
    return f"{title}. At the end: {'; '.join(ends)}."


def _draw(ax: Any, *, lines: Sequence[DrawnLine], unit: str) -> None:
    from gensmooth.report.curves import label_axes, ticks

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
    """What repeats a run exactly; where that cannot be written, what tells it again."""
    words = _train_words(config) if config["kind"] == "training" else _words(config, where, out)
    if words is not None:
        return shlex.join(words)
    name = config.get("objective") or "fun"
    return f"gs.resume({str(where)!r}, {name})  # parts of this run have no words for a shell"


def _words(config: Mapping[str, Any], where: Path, out: Path) -> list[str] | None:
    search: dict[str, Any] = dict(config["search"])
    if config["objective"] is None or search.pop("bounds", None) is not None:
        return None
    if search.pop("structure") is not None:
        return None
    words = ["gensmooth", "minimize", str(config["objective"])]
    words += ["--x0", _start(config["x0"], where, out)]
    if search.pop("log_scale", None) is not None or config.get("extensions"):
        return None
    if isinstance(search.get("x_scale"), dict):
        return None
    optimizer = search.pop("optimizer", None)
    if isinstance(optimizer, dict) and set(cast("dict[str, Any]", optimizer)) == {"learning_rate"}:
        words += ["--optimizer", repr(cast("dict[str, Any]", optimizer)["learning_rate"])]
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
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value not in (None, False):
            words += [flag, str(value)]
    return words


def _start(x0: Mapping[str, Any], where: Path, out: Path) -> str:
    """x0 for a shell: as numbers, or as a file beside the page."""
    values: Any = x0.get("values")
    if values is not None and len(x0["shape"]) == 1 and x0["dtype"] == "float64":
        for word, value in (("zeros", 0.0), ("ones", 1.0)):
            if all(each == value and math.copysign(1, each) > 0 for each in values):
                return f"{word}:{len(values)}"
        if len(values) <= _SHORT:
            return ",".join(map(repr, values))
    if values is None:
        array = container.read(where / ARRAYS).arrays[x0["name"]]
    else:
        array = np.array([number(v) for v in values], x0["dtype"]).reshape(x0["shape"])
    path = out / "x0.npy"
    np.save(path, array)
    return str(path)


def expression(description: Any) -> str | None:
    """A choice as one writes it in Python, if that gives the same choice again.

    >>> expression({"kind": "Sgd", "learning_rate": 0.1})
    'sgd(learning_rate=0.1)'
    """
    text = _text_of(description)
    names = expressions.public("gensmooth")
    try:
        same = describe(expressions.build(text, names)) == _unresolved(description)
    except (SyntaxError, ValueError, TypeError):
        return None
    return text if same else None


def _unresolved(description: Any) -> Any:
    """Without what follows from the number of parameters, and is filled in when a run begins."""
    if isinstance(description, list):
        return [_unresolved(each) for each in cast("list[Any]", description)]
    if not isinstance(description, dict):
        return description
    found = {n: _unresolved(v) for n, v in cast("dict[str, Any]", description).items()}
    return {**found, "factor": None} if found.get("kind") == "Shrunk" else found


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
    if search["samples"] == "paired":
        words.append("--paired-resets")
    for name, value in schedule.items():
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words
