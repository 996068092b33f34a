"""The file format of results: readable JSON that restores every bit.

``x`` is a nested list, accompanied by its ``dtype`` and ``shape``; or a structure of such lists,
accompanied by a description of the ``structure``. A float is written with the fewest digits that
restore it exactly. Infinities and NaN, which JSON lacks, are strings. ``sha256`` is a checksum of
all other fields. Reading a file executes no code.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, fields
from gensmooth._version import __version__
from gensmooth.runs.container import MAGIC
from gensmooth.runs.files import CheckpointError, open_file, read_json, write_text
from gensmooth.runs.folder import CONFIG
from gensmooth.trees import Tree, plain

Array = NDArray[Any]

KIND = "result"
FORMAT = 1
_ARRAYS = ("x", "best_x")
_FOLDER_HINT = "is a run's folder: gs.resume(folder, fun) returns its result"


def header(x: Array, structure: Any = None) -> dict[str, Any]:
    """Return the entries that describe the file and its arrays ``x`` and ``best_x``.

    Args:
        x: The array; flat if it has a structure.
        structure: The structure as JSON (:meth:`gensmooth.Tree.to_json`).
    """
    entries = {
        "kind": KIND,
        "format": FORMAT,
        "gensmooth": __version__,
        "dtype": x.dtype.name,
        "shape": list(x.shape),
    }
    return entries if structure is None else entries | {"structure": structure}


def write_result(path: Path, entries: Mapping[str, Any]) -> None:
    """Write ``entries``, which :func:`sealed` returned, to the file atomically."""
    if path.is_dir():
        raise ValueError(f"A result is saved to a file such as best.json, but {path} is a folder.")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"The folder {path.parent}, to save {path.name} in, does not exist: create it first."
        )
    text = json.dumps(entries, indent=1, allow_nan=False, ensure_ascii=False)
    write_text(path, f"{text}\n")


def sealed(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contents of the file: plain JSON with a checksum."""
    return fields.seal(as_plain_json(entries))


def read_result(path: Path) -> dict[str, Any]:
    """Read what :func:`write_result` wrote; ``x`` and ``best_x`` become arrays or structures.

    Raises:
        CheckpointError: If it is not a result file.
    """
    if path.is_dir():
        hint = _FOLDER_HINT if (path / CONFIG).exists() else "is a folder"
        raise CheckpointError(path, f"{hint}. gs.load reads a result file.")
    try:
        with open_file(path, follow=True) as file:
            first = file.peek(len(MAGIC))[: len(MAGIC)]
            if first == MAGIC:
                raise CheckpointError(
                    path,
                    "is not a result but a policy or a checkpoint: gs.rl.load_policy reads a "
                    "policy, and gs.resume takes the folder of a checkpoint.",
                )
            text = read_json(file, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise CheckpointError(path, f"is not a result: {error}.") from error
    except MemoryError as error:
        raise CheckpointError(path, "is too large for the available memory.") from error
    try:
        return _checked(fields.parse(text, _entries))
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError) as error:
        raise CheckpointError(
            path, f"is not a result that res.save(...) or `gensmooth minimize` wrote: {error}."
        ) from error


def as_plain_json(value: Any) -> Any:
    """Convert to plain JSON, in which infinities and NaN are strings."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(k): as_plain_json(v) for k, v in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [as_plain_json(item) for item in cast(list[Any], value)]
    return value


# --- what the file may hold ----------------------------------------------------------------------

_TEXT = fields.text(100_000)
_ENTRIES = fields.record(
    {
        "kind": fields.one_of(KIND),
        "format": fields.one_of(FORMAT),
        "gensmooth": fields.NAME,
        "dtype": fields.one_of("float32", "float64"),
        "shape": fields.many(fields.count(0, 2**48), 64),
        "x": fields.plain(),
        "best_x": fields.plain(),
        "fun": fields.real(),
        "best_fun": fields.real(),
        "nfev": fields.count(),
        "nit": fields.count(),
        "success": fields.flag,
        "status": fields.count(0, 99),
        "reason": fields.NAME,
        "message": _TEXT,
        "dropped": fields.count(),
        "faults": fields.table(fields.count()),
        "seed": fields.SEED,
        "error": fields.nullable(fields.real()),
        "noise": fields.nullable(fields.real()),
        "warnings": fields.many(_TEXT, 10_000),
    },
    {"structure": fields.PLAIN, "history": fields.table(fields.plain(3))},
    others=fields.PLAIN,
)
_CHECKSUMMED = fields.sealed(_ENTRIES)


def _entries(value: Any, name: str) -> dict[str, Any]:
    """Check the contents of the file; if its format is newer than ours, the error says so."""
    version: Any = cast(dict[str, Any], value).get("format") if isinstance(value, dict) else None
    if type(version) is int and version > FORMAT:
        raise ValueError(
            f"it has format {str(version)[:20]}, but this version of gensmooth reads format "
            f"{FORMAT}: use the version that wrote it"
        )
    return _CHECKSUMMED(value, name)


def _checked(entries: dict[str, Any]) -> dict[str, Any]:
    dtype, shape = entries["dtype"], entries["shape"]
    tree = None
    if entries.get("structure") is not None:
        tree = Tree.of_names(entries["structure"])
        if shape != [tree.size]:
            raise ValueError("its structure does not match its shape")
    for name in _ARRAYS:
        if _numbers_in(entries[name]) != math.prod(shape):  # before memory is allocated
            raise ValueError(f"`{name}` is not an array of numbers of the shape {str(shape)[:80]}")
        if tree is not None:
            numbers = np.asarray(checks.reals(name, tree.like(name, entries[name])), dtype)
            built = tree.build(np.broadcast_to(numbers, (tree.size,)).copy())
            if plain(built) != entries[name]:
                raise ValueError(f"`{name}` does not match its structure")
            entries[name] = built
            continue
        array = np.array(entries[name])
        if array.dtype.kind not in "iuf" or list(array.shape) != shape:
            raise ValueError(f"`{name}` is not an array of numbers of the shape {str(shape)[:80]}")
        entries[name] = array.astype(dtype)
    return entries


def _numbers_in(value: Any) -> int:
    """Count the numbers in nested lists and objects."""
    if isinstance(value, dict):
        value = list(cast(dict[str, Any], value).values())
    if isinstance(value, list):
        return sum(map(_numbers_in, cast(list[Any], value)))
    return 1
