"""The command that repeats a run."""

import io
import itertools
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields as fields_of
from inspect import signature
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import expressions
from gensmooth.describe import describe, number, rebuild
from gensmooth.lab.run_page.recorded import program_of
from gensmooth.optimize import minimize
from gensmooth.parameters import as_bounds
from gensmooth.runs.files import exists, write_bytes
from gensmooth.runs.folder import ARRAYS, CONFIG
from gensmooth.runs.stopping import Limits
from gensmooth.searches import AUTO
from gensmooth.searches.choose import LEARNING_RATE

Array = NDArray[Any]

_SHORT = 32  # the most numbers of an array that are written into a command
_PARTS = ("directions", "estimator", "optimizer")
_AGAIN = "again"  # a folder for the repeated run
NEW_LIMITS = "The run was given new limits on the way, and no command repeats it."


def command_of(
    config: Mapping[str, Any], where: Path, out: Path, evaluations: Sequence[float] = ()
) -> str:
    """Return the command that repeats a run.

    A training, and a run that options cannot express, is repeated by copying its configuration to a
    new folder and resuming it there, from the beginning. A run that was given new limits after it
    had reached the old ones is repeated in the same stages. If it was given them earlier, or if
    options cannot express it, there is no command.

    Args:
        config: The run's configuration.
        where: The run's folder.
        out: The folder of the page; arrays that are too long for a command are files there.
        evaluations: The number of evaluations after each of the run's steps.
    """
    training = config["kind"] == "training"
    stages = _stages(config)
    words = None if training else _words({**config, "limits": stages[0]}, where, out)
    if len(stages) > 1:
        if words is None or not all(_used_up(stage, evaluations) for stage in stages[:-1]):
            return ""
        commands = [[*words, "--folder", _AGAIN]]
        for before, after in itertools.pairwise(stages):
            commands.append(["gensmooth", "resume", _AGAIN, "--objective", config["objective"]])
            changed = [name for name in Limits._fields if after[name] != before[name]]
            commands[-1] += [f"--{name.replace('_', '-')}={after[name]}" for name in changed]
        return " && ".join(map(shlex.join, commands))
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


def _stages(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the limits that a run had, one after the other; the last ones are its limits now."""
    replaced = {each["until_step"]: each for each in reversed(config.get("extensions", ()))}
    return [replaced[step] for step in sorted(replaced) if step] + [config.get("limits", {})]


def _used_up(limits: Mapping[str, Any], evaluations: Sequence[float]) -> bool:
    """Return whether a run had reached its earlier limits when it was given others."""
    step, budget = int(limits["until_step"]), limits["budget"]
    if step == limits["max_steps"]:
        return True
    reached = evaluations[step] if step < len(evaluations) else -math.inf
    return budget is not None and reached >= number(budget)


def _words(config: Mapping[str, Any], where: Path, out: Path) -> list[str] | None:
    """Return the words of a ``gensmooth minimize`` command; ``None`` if options do not suffice."""
    program, search = program_of(config, where), dict(config["search"])
    special = any(search.pop(name, None) for name in ("structure", "log_scale", "held"))
    if program is None or special or config["objective"] is None:
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
    is_auto = search.get("method") == AUTO
    defaults = {name: known.default for name, known in signature(minimize).parameters.items()}
    own = {known.name: describe(known.default) for known in fields_of(cast(Any, program.search))}
    if is_auto:  # the pilot has its own value for what minimize leaves open
        defaults |= {name: own[name] for name in own if name in defaults and defaults[name] is None}
    limits = {name: config["limits"].get(name) for name in Limits._fields}
    for name, value in {**search, **limits, "seed": config["seed"]}.items():
        if name == "budget" and value is None:
            words += ["--budget", "none"]
        if value is None or (name == "method" and is_auto):
            continue
        if name in defaults and (value, type(value)) == (defaults[name], type(defaults[name])):
            continue
        is_named = (name, ":") == ("method", value)
        if name not in defaults or isinstance(value, dict | list) or is_named:
            if value != own.get(name):
                return None
            continue
        option = name.replace("_", "-")
        words += [f"--no-{option}"] if value is False else [f"--{option}"]
        words += [] if isinstance(value, bool) else [str(value)]
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
