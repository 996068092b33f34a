r"""The file format of checkpoints: named arrays and a JSON object.

Layout, little-endian:

====================  ==========================================================================
8 bytes               ``89 47 53 4D 54 48 0D 0A`` ("\x89GSMTH\r\n")
uint32                version of the format
uint32                CRC-32 of the header
uint64                length of the header in bytes
uint64                length of the file in bytes
header                JSON: ``{"meta": {}, "arrays": [[name, dtype, shape, CRC-32 in hex], ...]}``
arrays                raw, C order, each starting at the next multiple of 64 bytes
====================  ==========================================================================

Reading a file creates arrays of numbers and JSON values and executes no code. Declared sizes are
checked against the size of the file before memory is allocated.
"""

import json
import math
import os
import struct
import zlib
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import fields
from gensmooth.runs.files import (
    CheckpointError,
    open_file,
    read_json,
    reserve,
    write_all,
    write_whole,
)

MAGIC = b"\x89GSMTH\r\n"
VERSION = 1
DTYPES = frozenset(
    {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
    | {"float16", "float32", "float64", "complex64", "complex128"}
)

_PREAMBLE = struct.Struct("<8sIIQQ")
_ALIGN = 64
_MAX_DIMENSIONS = 32
_LARGEST_HEADER = 1 << 26  # bytes


_HEADER = fields.record(
    {
        "meta": fields.table(fields.PLAIN),
        "arrays": fields.many(fields.many(fields.PLAIN, 4, 4), 100_000),
    }
)
_SIZES = fields.many(fields.count(0, 2**48 - 1), _MAX_DIMENSIONS)
_CRC32 = fields.text(8, "[0-9a-f]{8}")

Fits = Callable[[Mapping[str, Any], Mapping[str, int]], None]


class Contents(NamedTuple):
    """The contents of a file."""

    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class _Entry(NamedTuple):
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    crc32: int

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def write(
    path: Path,
    meta: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    previous: Path | None = None,
) -> None:
    """Write a file atomically and durably; see :func:`write_whole`."""
    write_whole(path, lambda file: _fill(file, meta, arrays), previous=previous)


def read(path: Path, fits: Fits | None = None, *, follow: bool = False) -> Contents:
    """Read a file.

    Args:
        path: The file.
        fits: Called with the JSON object and the size of each array before memory is allocated;
            raises ``ValueError`` if they do not match what the caller expects.
        follow: Whether ``path`` may be a symbolic link; only for a path that the user passed.

    Raises:
        CheckpointError: If the file is not a checkpoint, is damaged, has another format, or is
            rejected by ``fits``.
    """
    with _opened(path, follow=follow) as file:
        return _read(path, file, fits)


def read_meta(path: Path) -> dict[str, Any]:
    """Read only the JSON object of a file, and none of its arrays.

    Raises:
        CheckpointError: As for :func:`read`, except that the arrays are not checked.
    """
    with _opened(path) as file:
        return _read_header(path, file)[0]


@contextmanager
def _opened(path: Path, *, follow: bool = False) -> Generator[BufferedReader]:
    try:
        with open_file(path, follow=follow) as file:
            yield file
    except FileNotFoundError as error:
        raise CheckpointError(path, "does not exist.") from error
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror or error}.") from error
    except MemoryError as error:
        raise CheckpointError(path, "is too large for the available memory.") from error


def _fill(file: FileIO, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    entries: list[_Entry] = []
    bodies: list[memoryview] = []
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise TypeError(f"an array of dtype {array.dtype} cannot be written to a checkpoint")
        plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        entries.append(_Entry(name, plain.dtype, array.shape, 0))
        bodies.append(plain.reshape(-1).view(np.uint8).data)
    header = _header(meta, entries)
    _parse(header)  # raises an error if it could not be read again
    offsets, length = _layout(len(header), entries)
    reserve(file, length)
    # The checksums are computed while the system copies the bytes.
    with ThreadPoolExecutor(1) as background:
        checksums = background.map(zlib.crc32, bodies)
        for offset, body in zip(offsets, bodies, strict=True):
            file.seek(offset)
            write_all(file, body)
        entries = [entry._replace(crc32=c) for entry, c in zip(entries, checksums, strict=True)]
    header = _header(meta, entries)
    file.seek(0)
    write_all(file, _PREAMBLE.pack(MAGIC, VERSION, zlib.crc32(header), len(header), length))
    write_all(file, header)


def _header(meta: Mapping[str, Any], entries: list[_Entry]) -> bytes:
    """The header; its length does not depend on the checksums."""
    index = [[e.name, e.dtype.name, list(e.shape), f"{e.crc32:08x}"] for e in entries]
    return json.dumps({"meta": meta, "arrays": index}, allow_nan=False).encode()


def _layout(header: int, entries: list[_Entry]) -> tuple[list[int], int]:
    """The offset of each array, and the length of the file."""
    offsets: list[int] = []
    position = _PREAMBLE.size + header
    for entry in entries:
        position = -(-position // _ALIGN) * _ALIGN
        offsets.append(position)
        position += entry.size
    return offsets, position


def _read_header(
    path: Path, file: BufferedReader
) -> tuple[dict[str, Any], list[_Entry], list[int]]:
    """Return the JSON object, and the entries and offsets of the arrays."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(_PREAMBLE.size)
    if len(start) < _PREAMBLE.size or start[:8] != MAGIC:
        raise CheckpointError(path, "is not a gensmooth checkpoint or policy.")
    _, version, crc32, header_size, length = _PREAMBLE.unpack(start)
    if version != VERSION:
        raise CheckpointError(
            path,
            f"has format {version}, but this version of gensmooth reads format "
            f"{VERSION}. Use the version that wrote it.",
        )
    if length != size:
        raise _damaged(path, f"it should have {length} bytes, but has {size}")
    if header_size > size:
        raise _damaged(path, "its header is truncated")
    if header_size > _LARGEST_HEADER:
        raise _damaged(path, f"its header has more than {_LARGEST_HEADER >> 20} MiB")
    try:
        header = read_json(file, header_size)
    except ValueError as error:
        raise _damaged(path, f"its header is invalid ({error})") from error
    if zlib.crc32(header) != crc32:
        raise _damaged(path, "the checksum of its header is wrong")
    try:
        meta, entries = _parse(header)
    except (ValueError, TypeError) as error:
        raise _damaged(path, f"its header is invalid ({error})") from error
    offsets, length = _layout(header_size, entries)
    if length != size:
        raise _damaged(path, f"its arrays should end at byte {length}, but it has {size}")
    return meta, entries, offsets


def _read(path: Path, file: BufferedReader, fits: Fits | None) -> Contents:
    meta, entries, offsets = _read_header(path, file)
    if fits is not None:
        try:
            fits(meta, {entry.name: math.prod(entry.shape) for entry in entries})
        except (ValueError, TypeError, LookupError) as error:
            raise CheckpointError(path, f"has unexpected contents: {error}.") from error
    arrays: dict[str, NDArray[Any]] = {}
    for entry, offset in zip(entries, offsets, strict=True):
        if any(file.read(offset - file.tell())):
            raise _damaged(path, f"the padding before {entry.name!r} is not zero")
        body = np.empty(entry.size, np.uint8)
        if file.readinto(body.data) != entry.size or zlib.crc32(body.data) != entry.crc32:
            raise _damaged(path, f"the checksum of {entry.name!r} is wrong")
        native = entry.dtype.newbyteorder("=")
        arrays[entry.name] = body.view(entry.dtype).astype(native, copy=False).reshape(entry.shape)
    return Contents(meta, arrays)


def _parse(header: bytes) -> tuple[dict[str, Any], list[_Entry]]:
    """Parse and check the header, which may be malicious even if its checksum is correct.

    Raises:
        ValueError: If it is invalid; ``TypeError`` may also be raised.
    """
    parsed = fields.parse(header, _HEADER)
    entries = [_entry(*item) for item in parsed["arrays"]]
    if len({entry.name for entry in entries}) != len(entries):
        raise ValueError("two arrays have the same name")
    return cast(dict[str, Any], parsed["meta"]), entries


def _entry(name: Any, dtype: Any, shape: Any, crc32: Any) -> _Entry:
    name, dtype = fields.NAME(name, "name"), fields.one_of(*sorted(DTYPES))(dtype, "dtype")
    sizes = _SIZES(shape, "shape")
    checksum = int(_CRC32(crc32, "CRC-32"), 16)
    return _Entry(name, np.dtype(dtype).newbyteorder("<"), tuple(sizes), checksum)


def _damaged(path: Path, why: str) -> CheckpointError:
    return CheckpointError(path, f"is damaged: {why}.")
