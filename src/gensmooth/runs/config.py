"""``config.json``: what a run is, readable and enough to repeat it; and how a run is carried out.

Programs say what they are in plain JSON (:meth:`~gensmooth.runs.Program.settings`). Arrays of more
than 10,000 numbers are kept in the file ``arrays`` beside it, and the JSON has their SHA-256.
"""

import hashlib
import json
import math
import re
import time
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.describe import describe_parts, number, plain, whole

Array = NDArray[Any]

FORMAT = 1

_INLINE = 10_000
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SHARE = 0.1  # of the time that checkpoints may take, when nobody said how often


# --- how a run is carried out --------------------------------------------------------------------


class Every(NamedTuple):
    """Steps and seconds between checkpoints; whichever has passed first calls for one."""

    steps: int | None = None
    seconds: float | None = None


DEFAULT = Every(seconds=30.0)


def parse_every(every: int | str | Every | None) -> Every | None:
    """``100`` steps; ``"30s"``, ``"5m"``, ``"2h"``; or both, ``"100,30s"``: the earlier counts.

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
    found = Every()
    for part in (every if isinstance(every, str) else checks.shown(every)).split(","):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", part)
        amount = float(match[1]) if match else math.inf
        if not match or math.isinf(amount) or not (match[2] or amount.is_integer()):
            raise ValueError(
                "`every` must be a number of steps such as 100, a time such as '30s', '5m' or "
                f"'2h', or both as '100,30s', but is {checks.shown(every)}."
            )
        if match[2]:
            found = found._replace(seconds=amount * _UNITS[match[2]])
        else:
            found = found._replace(steps=int(amount))
    return found


class Cadence:
    """Says when the next checkpoint is due.

    Unless the user chose, it is due every 30 seconds, but never so often that writing takes more
    than a tenth of the time.
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
        """One was written (or tried) in ``took`` seconds."""
        self._step, self._time = step, time.monotonic()
        if self._least is not None:
            self._least = took / _SHARE


_MOST_THREADS = 1024  # that a file may ask for: it may be a stranger's


class Execution(NamedTuple):
    """What a run's result does not depend on: how it is carried out."""

    workers: int | None = 1  # None: an evaluator of the user's, to be passed again
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
        """What a user's arguments ask for."""
        return cls(
            every=parse_every(every),
            workers=int(workers) if isinstance(workers, Integral) else None,
            timeout=checks.optional(checks.positive, "timeout", timeout),
            retries=checks.count("retries", retries, 0),
            threads=checks.count("threads", threads, 0),
        )

    def to_json(self) -> dict[str, Any]:
        """For ``config.json``."""
        return describe_parts(self, self._fields[:-1]) | {"every": self.every}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Execution":
        """From ``config.json``, checked."""
        workers, timeout, retries, threads, every = (found[name] for name in cls._fields)
        if every is not None:
            steps, seconds = every
            every = parse_every(
                Every(
                    None if steps is None else whole(steps),
                    None if seconds is None else number(seconds),
                )
            )
        if type(workers) not in (int, type(None)):
            raise TypeError(f"`workers` is {str(workers)[:80]}")
        if whole(threads) > _MOST_THREADS:
            raise ValueError(f"`threads` is {threads}, more than {_MOST_THREADS}")
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
    """What differs between two configurations, in words.

    Args:
        now: One configuration.
        before: The other.
        compared: The names that are compared. Where both values are objects they are compared
            part by part, and the text says what a part is called (``"`{}`"``); with ``None``
            they are compared as a whole.

    >>> differences({"seed": 2, "search": {"spacing": 0.1}}, {"seed": 1, "search": {"spacing": 1}},
    ...             {"seed": None, "search": "`{}`"})
    ['`seed` (there 1, here 2)', '`spacing` (there 1, here 0.1)']
    """
    words: list[str] = []
    for name, template in compared.items():
        new, old = now[name], before.get(name)
        if template is None or not isinstance(new, dict):
            new, old, label = {name: new}, {name: old}, "`{}`"
        else:
            label = template
        then = cast(dict[str, Any], old) if isinstance(old, dict) else {}
        here = cast(dict[str, Any], new)
        for key in {**here, **then}:  # also what was set then, and is left out now
            value = here.get(key)
            if value != then.get(key):
                told = f" (there {then.get(key)}, here {value})"
                words.append(label.format(key) + (told if len(told) < 140 else ""))
    return words


def pretty(found: Any, indent: str = "") -> str:
    """JSON with a line for each setting, and lists of numbers on one line."""
    if not isinstance(found, dict) or not found or len(indent) > 2:
        return json.dumps(found, allow_nan=False)
    inner = f"{indent} "
    items = cast(dict[str, Any], found).items()
    lines = (f"{inner}{json.dumps(name)}: {pretty(value, inner)}" for name, value in items)
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def array_to_json(name: str, array: Array, large: dict[str, Array]) -> dict[str, Any]:
    """An array's numbers; or a reference to it, and the array itself into ``large``."""
    found: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    flat = np.ascontiguousarray(array).reshape(-1)
    if len(flat) <= _INLINE:
        values = flat.tolist()
        finite = bool(np.isfinite(flat).all())
        return found | {"values": values if finite else [plain(value) for value in values]}
    large[name] = array
    return found | {"in": "arrays", "name": name, "sha256": _sha256(flat)}


def array_from_json(found: Mapping[str, Any], large: Mapping[str, Array]) -> Array:
    """The array; the inverse of :func:`array_to_json`."""
    dtype, shape = found["dtype"], tuple(found["shape"])
    if dtype not in ("float32", "float64"):
        raise ValueError(f"an array has the dtype {str(dtype)[:80]}")
    if "in" not in found:
        array = np.array([number(value) for value in found["values"]], dtype).reshape(shape)
    elif found["name"] not in large:
        raise ValueError("the file `arrays` is missing, or of another run")
    else:
        array = large[found["name"]]
        if array.dtype.name == dtype and _sha256(array.reshape(-1)) != found["sha256"]:
            raise ValueError(
                "the file `arrays` is damaged, or of another run: its checksum differs"
            )
    if array.shape != shape or array.dtype.name != dtype:
        raise ValueError("an array is not what its description says")
    return array


def sizes_in(found: Any) -> dict[str, int]:
    """How many numbers each array has that a configuration keeps in the file ``arrays``."""
    sizes: dict[str, int] = {}
    if not isinstance(found, dict):
        return sizes
    d = cast(dict[str, Any], found)
    if "in" in d and isinstance(name := d.get("name"), str) and isinstance(d.get("shape"), list):
        shape = cast(list[Any], d["shape"])
        return {name: math.prod(size for size in shape if type(size) is int)}
    for value in d.values():
        sizes |= sizes_in(value)
    return sizes


def _sha256(flat: Array) -> str:
    return hashlib.sha256(flat.astype(flat.dtype.newbyteorder("<"), copy=False).data).hexdigest()


def checksum(config: Mapping[str, Any], *, but: Iterable[str] = ()) -> str:
    """SHA-256 of a configuration, without its own checksum and the settings named in ``but``."""
    left_out = {"sha256", *but}
    kept = {name: value for name, value in config.items() if name not in left_out}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
