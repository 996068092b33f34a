"""A result as a file: plain JSON that a person reads, and that gives every bit back.

``x`` is a list (of lists, as its shape is), with its ``dtype`` and ``shape`` beside it; or a
structure of such lists, with the ``structure`` beside it that says which they are. A float is
written with the fewest digits that give the same float again; infinities and NaN, which JSON has
not, are words. Reading it makes numbers and text, and runs nothing.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth._version import __version__
from gensmooth.runs.container import MAGIC
from gensmooth.runs.files import CheckpointError, open_file, read_json, write_text
from gensmooth.runs.folder import CONFIG
from gensmooth.trees import Tree, plain

Array = NDArray[Any]

KIND = "result"
FORMAT = 1
_ARRAYS = ("x", "best_x")
_OF_FOLDERS = "is a folder: gs.resume(folder, fun) tells the result of the run that it holds"


def header(x: Array, structure: Any = None) -> dict[str, Any]:
    """What the file says of itself, and of the arrays ``x`` and ``best_x``.

    Args:
        x: The array; flat if it has a structure.
        structure: That, as JSON (:meth:`gensmooth.Tree.to_json`).
    """
    found = {
        "kind": KIND,
        "format": FORMAT,
        "gensmooth": __version__,
        "dtype": x.dtype.name,
        "shape": list(x.shape),
    }
    return found if structure is None else found | {"structure": structure}


def write_result(path: Path, found: Mapping[str, Any]) -> None:
    """Write the file; a reader sees the old one or the new one, complete."""
    if path.is_dir():
        raise ValueError(f"A result is saved to a file such as best.json, but {path} is a folder.")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {path.parent} to save {path.name} in: make it."
        )
    text = json.dumps(words(found), indent=1, allow_nan=False, ensure_ascii=False)
    write_text(path, f"{text}\n")


def read_result(path: Path) -> dict[str, Any]:
    """What :func:`write_result` wrote; ``x`` and ``best_x`` are arrays.

    Raises:
        CheckpointError: When it is no such file.
    """
    if path.is_dir():
        hint = _OF_FOLDERS if (path / CONFIG).exists() else "is a folder"
        raise CheckpointError(path, f"{hint}, and gs.load reads the file of a result.")
    try:
        with open_file(path) as file:
            first = file.peek(len(MAGIC))[: len(MAGIC)]
            if first == MAGIC:
                raise CheckpointError(
                    path,
                    "is no result, but a policy or a checkpoint: gs.rl.load_policy reads a policy, "
                    "gs.resume the folder of a checkpoint.",
                )
            text = read_json(file, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise CheckpointError(path, f"is not a result: {error}.") from error
    try:
        found: Any = json.loads(text)
        if not isinstance(found, dict) or "x" not in found:
            raise ValueError("it has no `x`")
        return _checked(cast(dict[str, Any], found))
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError) as error:
        raise CheckpointError(
            path, f"is not a result that res.save(...) or `gensmooth minimize` wrote: {error}."
        ) from error


def words(value: Any) -> Any:
    """Plain JSON, in which infinities and NaN are words."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(k): words(v) for k, v in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [words(each) for each in cast(list[Any], value)]
    return value


def _checked(found: dict[str, Any]) -> dict[str, Any]:
    if found.get("kind") != KIND:
        raise ValueError(f"its kind is {str(found.get('kind'))[:40]!r}")
    if found.get("format") != FORMAT:
        raise ValueError(
            f"it is of format {str(found.get('format'))[:20]}, this gensmooth reads {FORMAT} "
            f"(it was written by {str(found.get('gensmooth'))[:20]})"
        )
    dtype, shape = found["dtype"], found["shape"]
    if dtype not in ("float32", "float64"):
        raise ValueError(f"its dtype is {str(dtype)[:40]}")
    if found.get("structure") is not None:
        tree = Tree.of_names(found["structure"])
        if shape != [tree.size]:
            raise ValueError("its structure does not fit its shape")
        for name in _ARRAYS:
            numbers = np.asarray(checks.reals(name, tree.like(name, found[name])), dtype)
            built = tree.build(np.broadcast_to(numbers, (tree.size,)).copy())
            if plain(built) != found[name]:
                raise ValueError(f"`{name}` is not what its structure says")
            found[name] = built
        return found
    for name in _ARRAYS:
        array = np.array(found[name])
        if array.dtype.kind not in "iuf" or list(array.shape) != shape:
            raise ValueError(f"`{name}` is not an array of numbers of the shape {str(shape)[:80]}")
        found[name] = array.astype(dtype)
    return found
