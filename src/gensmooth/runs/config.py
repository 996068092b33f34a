"""``config.json``, which is readable and sufficient to repeat a run, and execution options.

Programs describe themselves in plain JSON (:meth:`~gensmooth.runs.Program.settings`). Arrays of
more than 10,000 numbers are stored next to it in the file ``arrays``, and the JSON contains their
SHA-256.
"""

import hashlib
import json
import math
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.describe import describe_parts, number, plain, whole
from gensmooth.fields import checksum as checksum

Array = NDArray[Any]

FORMAT = 1

_INLINE = 10_000
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SHARE = 0.1  # the largest fraction of time spent on checkpoints at the default interval


# --- execution -----------------------------------------------------------------------------------


class Every(NamedTuple):
    """The steps and seconds between checkpoints; the first to elapse triggers one."""

    steps: int | None = None
    seconds: float | None = None


DEFAULT = Every(seconds=30.0)


def parse_every(every: int | str | Every | None) -> Every | None:
    """Parse ``100`` (steps), ``"30s"``, ``"5m"``, ``"2h"``, or both, as in ``"100,30s"``.

    >>> parse_every("100, 5m")
    Every(steps=100, seconds=300.0)
    """
    if every is None:
        return None
    steps, seconds = every if isinstance(every, Every) else _read_every(every)
    return Every(
        checks.optional(checks.count, "every", steps),
        checks.optional(checks.nonnegative, "every", seconds),
    )


def _read_every(every: object) -> Every:
    parsed = Every()
    for part in (every if isinstance(every, str) else checks.shown(every)).split(","):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", part)
        amount = float(match[1]) if match else math.inf
        if not match or math.isinf(amount) or not (match[2] or amount.is_integer()):
            raise ValueError(
                "`every` must be a number of steps such as 100, a time such as '30s', '5m' or "
                f"'2h', or both, as in '100,30s', but is {checks.shown(every)}."
            )
        if match[2]:
            parsed = parsed._replace(seconds=amount * _UNITS[match[2]])
        else:
            parsed = parsed._replace(steps=int(amount))
    return parsed


class Cadence:
    """Decides when the next checkpoint is due.

    By default, one is due every 30 seconds, or less often if writing would otherwise take more than
    a tenth of the time.
    """

    def __init__(self, every: int | str | Every | None, step: int) -> None:
        self._every = parse_every(every) or DEFAULT
        self._least = 0.0 if every is None else None
        self._step = step
        self._time = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether a checkpoint is due after ``step`` steps."""
        steps, seconds = self._every
        if steps is not None and step - self._step >= steps:
            return True
        if seconds is None:
            return False
        return time.monotonic() - self._time >= max(seconds, self._least or 0.0)

    def done(self, step: int, took: float) -> None:
        """Record that writing a checkpoint, successfully or not, took ``took`` seconds."""
        self._step, self._time = step, time.monotonic()
        if self._least is not None:
            self._least = took / _SHARE


_MAX_THREADS = 1024  # the most that a file may request, because files may be untrusted


class Execution(NamedTuple):
    """How a run is executed, which does not affect its result."""

    workers: int | None = 1  # None: an evaluator or a map, which must be passed again on resume
    timeout: float | None = None
    retries: int = 0
    threads: int = 1
    every: Every | None = None

    @classmethod
    def of(
        cls,
        workers: Any,
        *,
        timeout: float | None,
        retries: int,
        threads: int,
        every: int | str | Every | None,
    ) -> "Execution":
        """Check the user's arguments."""
        return cls(
            every=parse_every(every),
            workers=int(workers) if checks.is_whole(workers) else None,
            timeout=checks.optional(checks.positive, "timeout", timeout),
            retries=checks.count("retries", retries, 0),
            threads=checks.count("threads", threads, 0),
        )

    def to_json(self) -> dict[str, Any]:
        """The JSON form for ``config.json``."""
        return describe_parts(self, self._fields[:-1]) | {"every": self.every}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Execution":
        """Read and check the JSON form."""
        workers, timeout, retries, threads, every = (stored[name] for name in cls._fields)
        if every is not None:
            steps, seconds = every
            every = parse_every(
                Every(
                    None if steps is None else whole(steps),
                    None if seconds is None else number(seconds),
                )
            )
        if type(workers) not in (int, type(None)):
            raise TypeError(f"`workers` must be an integer or null, but is {str(workers)[:80]}")
        if whole(threads) > _MAX_THREADS:
            raise ValueError(f"`threads` must be at most {_MAX_THREADS}, but is {threads}")
        return cls(
            workers=workers,
            timeout=None if timeout is None else number(timeout),
            retries=whole(retries),
            threads=whole(threads),
            every=every,
        )


# --- config.json as text -------------------------------------------------------------------------


def differences(
    now: Mapping[str, Any], before: Mapping[str, Any], compared: Mapping[str, str | None]
) -> list[str]:
    """Describe the differences between two configurations.

    Args:
        now: The configuration of this call.
        before: The stored configuration.
        compared: The names to compare. ``None`` compares a value as a whole. A template such as
            ``"`{}`"`` compares the parts of an object and is filled in with the name of each part.

    >>> differences({"seed": 2, "search": {"spacing": 0.1}}, {"seed": 1, "search": {"spacing": 1}},
    ...             {"seed": None, "search": "`{}`"})
    ['`seed` (there 1, here 2)', '`spacing` (there 1, here 0.1)']
    """
    changes: dict[str, None] = {}  # a setting may be in two parts of a configuration
    for name, template in compared.items():
        new, old = now.get(name), before.get(name)
        if template is None or not isinstance(new, dict):
            new, old, label = {name: new}, {name: old}, "`{}`"
        else:
            label = template
        then = cast(dict[str, Any], old) if isinstance(old, dict) else {}
        here = cast(dict[str, Any], new)
        for key in {**here, **then}:  # includes settings that are now omitted
            value = here.get(key)
            if value != then.get(key):
                both = f" (there {then.get(key)}, here {value})"
                changes[label.format(key) + (both if len(both) < 140 else "")] = None
    return list(changes)


def pretty(settings: Any, indent: str = "") -> str:
    """Format JSON with one line per setting; lists of numbers stay on one line."""
    if not isinstance(settings, dict) or not settings or len(indent) > 2:
        return json.dumps(settings, allow_nan=False)
    inner = f"{indent} "
    items = cast(dict[str, Any], settings).items()
    lines = (f"{inner}{json.dumps(name)}: {pretty(value, inner)}" for name, value in items)
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def array_to_json(name: str, array: Array, large: dict[str, Array]) -> dict[str, Any]:
    """Describe an array by its numbers or, if it is large, by a reference to ``large[name]``."""
    described: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    flat = np.ascontiguousarray(array).reshape(-1)
    if len(flat) <= _INLINE:
        values = flat.tolist()
        finite = bool(np.isfinite(flat).all())
        return described | {"values": values if finite else [plain(value) for value in values]}
    large[name] = array
    return described | {"in": "arrays", "name": name, "sha256": _sha256(flat)}


def array_from_json(stored: Mapping[str, Any], large: Mapping[str, Array]) -> Array:
    """Restore an array; the inverse of :func:`array_to_json`."""
    dtype, shape = stored["dtype"], tuple(stored["shape"])
    if dtype not in ("float32", "float64"):
        raise ValueError(f"an array must be float32 or float64, but is {str(dtype)[:80]}")
    if "in" not in stored:
        array = np.array([number(value) for value in stored["values"]], dtype).reshape(shape)
    elif stored["name"] not in large:
        raise ValueError("the file `arrays` is missing or belongs to another run")
    else:
        array = large[stored["name"]]
        if array.dtype.name == dtype and _sha256(array.reshape(-1)) != stored["sha256"]:
            raise ValueError(
                "the file `arrays` is damaged or belongs to another run: its checksum differs"
            )
    if array.shape != shape or array.dtype.name != dtype:
        raise ValueError("an array does not have the shape and dtype in its description")
    return array


def sizes_in(config: Any) -> dict[str, int]:
    """The size of each array that a configuration stores in the file ``arrays``."""
    sizes: dict[str, int] = {}
    if not isinstance(config, dict):
        return sizes
    d = cast(dict[str, Any], config)
    if "in" in d and isinstance(name := d.get("name"), str) and isinstance(d.get("shape"), list):
        shape = cast(list[Any], d["shape"])
        known = len(shape) <= 64 and all(type(n) is int and 0 <= n < 2**48 for n in shape)
        return {name: math.prod(shape) if known else 0}
    for value in d.values():
        sizes |= sizes_in(value)
    return sizes


def _sha256(flat: Array) -> str:
    return hashlib.sha256(flat.astype(flat.dtype.newbyteorder("<"), copy=False).data).hexdigest()
