"""Read JSON from files that may come from anybody: a shape lists what each field may hold.

A shape is a function ``shape(value, name)`` that returns the value, or raises a ``ValueError`` that
names the field. Shapes are put together::

    PLAN = record(
        {"format": one_of(1), "seeds": many(count(most=2**64), 10_000), "label": text(200)},
        optional={"note": text(1000)},
    )
    plan = parse(data, PLAN)

Only what a shape lists is accepted. A shape checks types, ranges, lengths and names; it imports
nothing, and creates nothing larger than the file.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")
Shape = Callable[[Any, str], Any]

NAME_LENGTH = 400  # characters of a name: an objective, an environment, a method with its options
LONGEST = 20_000  # characters of any other text
DEEPEST = 64  # levels of nested lists and objects
_SEAL = "sha256"
_NO_NUMBERS = ("inf", "-inf", "nan")  # floats that JSON lacks


class FieldError(ValueError):
    """A field of a file holds something that it may not hold; the message names the field."""


# --- parsing -------------------------------------------------------------------------------------


def parse(data: bytes | str, shape: Shape) -> Any:
    """Parse JSON and check it.

    Raises:
        ValueError: If the data is not JSON, or does not have the shape.

    >>> parse('{"seed": 3}', record({"seed": count()}))
    {'seed': 3}
    >>> parse('{"seed": "3"}', record({"seed": count()}))
    Traceback (most recent call last):
    gensmooth.fields.FieldError: `seed` must be a whole number of at least 0, but is '3'
    """
    try:
        value = json.loads(data, parse_constant=_no_constant)
    except RecursionError:
        raise FieldError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise FieldError("it is not text in UTF-8") from None
    except json.JSONDecodeError as error:
        raise FieldError(f"it is not valid JSON ({error.msg} in line {error.lineno})") from None
    return shape(value, "")


def _no_constant(text: str) -> Any:
    raise FieldError(f"it contains {text}, which is not JSON")


def _refuse(name: str, expected: str, value: Any) -> FieldError:
    subject = f"`{name[:200]}`" if name else "its content"
    return FieldError(f"{subject} must be {expected}, but is {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        article, kind = ("a", "list") if isinstance(value, list) else ("an", "object")
        length = len(cast("list[Any]", value))
        return f"{article} {kind} of {length}" if length else f"an empty {kind}"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return "a very large number"
    return text if len(text) <= 80 else f"{text[:77]}..."


# --- single values -------------------------------------------------------------------------------


def text(most: int = LONGEST, pattern: str | None = None, least: int = 0) -> Shape:
    """Accept text of limited length that matches a regular expression as a whole."""
    expression = None if pattern is None else re.compile(pattern)

    def shape(value: Any, name: str) -> str:
        if not isinstance(value, str):
            raise _refuse(name, "text", value)
        if not least <= len(value) <= most:
            raise _refuse(name, f"at most {most} characters long", value)
        if expression is not None and not expression.fullmatch(value):
            raise _refuse(name, f"of the form {pattern}", value)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _refuse(name, "valid Unicode", value) from None
        return value

    return shape


def count(least: int = 0, most: int = 2**63 - 1) -> Shape:
    """Accept a whole number in a range."""

    def shape(value: Any, name: str) -> int:
        if type(value) is not int or not least <= value <= most:
            limit = f" and at most {most}" if most < 2**63 - 1 else ""
            raise _refuse(name, f"a whole number of at least {least}{limit}", value)
        return value

    return shape


def real(least: float = -math.inf, most: float = math.inf, *, finite: bool = False) -> Shape:
    """Accept a number; infinities and NaN, which are written as text, become floats."""

    def shape(value: Any, name: str) -> float:
        known = type(value) in (int, float) or (not finite and value in _NO_NUMBERS)
        try:
            number = float(value) if known else math.nan
        except OverflowError:
            raise _refuse(name, "a number that fits into a float", value) from None
        if not known or (finite and not math.isfinite(number)) or number < least or number > most:
            limits = (
                "" if (least, most) == (-math.inf, math.inf) else f" from {least:g} to {most:g}"
            )
            raise _refuse(name, f"a {'finite ' * finite}number{limits}", value)
        return value if type(value) is int else number

    return shape


def flag(value: Any, name: str) -> bool:
    """Accept true or false."""
    if not isinstance(value, bool):
        raise _refuse(name, "true or false", value)
    return value


def one_of(*values: Any) -> Shape:
    """Accept one of some plain values, of the same type."""

    def shape(value: Any, name: str) -> Any:
        for each in values:
            if type(each) is type(value) and each == value:
                return each
        listed = " or ".join("null" if each is None else repr(each) for each in values)
        raise _refuse(name, listed, value)

    return shape


def version(supported: int) -> Shape:
    """Accept the number of a file's format; :func:`record` checks it before all other fields."""

    def shape(value: Any, name: str) -> int:
        del name
        if type(value) is not int or value != supported:
            raise FieldError(
                f"it has format {_shown(value)}, but this version of gensmooth reads format "
                f"{supported}"
            )
        return value

    return shape


# --- combinations --------------------------------------------------------------------------------


def nullable(shape: Shape) -> Shape:
    """Accept null, or what another shape accepts."""
    return lambda value, name: None if value is None else shape(value, name)


def either(*shapes: Shape) -> Shape:
    """Accept what one of several shapes accepts; the error is that of the last."""

    def shape(value: Any, name: str) -> Any:
        for each in shapes[:-1]:
            try:
                return each(value, name)
            except FieldError:
                continue
        return shapes[-1](value, name)

    return shape


def many(item: Shape, most: int, least: int = 0) -> Shape:
    """Accept a list of limited length."""

    def shape(value: Any, name: str) -> list[Any]:
        if not isinstance(value, list):
            raise _refuse(name, "a list", value)
        items = cast("list[Any]", value)
        if not least <= len(items) <= most:
            raise _refuse(name, f"a list of {least} to {most} items", items)
        return [item(each, f"{name}[{i}]") for i, each in enumerate(items)]

    return shape


def record(
    required: Mapping[str, Shape],
    optional: Mapping[str, Shape] | None = None,
    *,
    others: Shape | None = None,
) -> Shape:
    """Accept an object with certain fields.

    Args:
        required: The fields that it must have.
        optional: The fields that it may have.
        others: What fields with other names may hold; by default there may be none.
    """
    known = {**required, **(optional or {})}

    def shape(value: Any, name: str) -> dict[str, Any]:
        fields = _fields(value, name)
        prefix = f"{name}." if name else ""
        if "format" in fields and "format" in known:
            known["format"](fields["format"], f"{prefix}format")
        for field in required:
            if field not in fields:
                raise FieldError(f"`{prefix}{field}` is missing")
        read: dict[str, Any] = {}
        for field, each in fields.items():
            inner = known.get(field, others)
            if inner is None:
                raise FieldError(f"`{prefix}{field[:80]}` is not a known field")
            read[field] = inner(each, f"{prefix}{field[:80]}")
        return read

    return shape


def table(value_shape: Shape, most: int = 1000, names: Shape | None = None) -> Shape:
    """Accept an object with any names, of limited number and length, and values of one shape."""
    check_name = text(NAME_LENGTH) if names is None else names

    def shape(value: Any, name: str) -> dict[str, Any]:
        fields = _fields(value, name)
        if len(fields) > most:
            raise _refuse(name, f"an object of at most {most} fields", fields)
        prefix = f"{name}." if name else ""
        return {
            check_name(field, f"{prefix}{field[:80]}"): value_shape(each, f"{prefix}{field[:80]}")
            for field, each in fields.items()
        }

    return shape


def plain(depth: int = DEEPEST, longest: int = LONGEST) -> Shape:
    """Accept any JSON value whose texts, names and nesting are limited."""
    words, names = text(longest), text(NAME_LENGTH)

    def shape(value: Any, name: str, left: int = depth) -> Any:
        if isinstance(value, str):
            return words(value, name)
        if isinstance(value, list | dict):
            if not left:
                raise _refuse(name, f"nested at most {depth} levels deep", value)
            if isinstance(value, list):
                items = cast("list[Any]", value)
                return [shape(each, f"{name}[]", left - 1) for each in items]
            return {
                names(field, name): shape(each, f"{name}.{field[:80]}", left - 1)
                for field, each in cast("dict[str, Any]", value).items()
            }
        return value

    return shape


def _fields(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _refuse(name, "an object", value)
    return cast("dict[str, Any]", value)


PLAIN = plain()
PLAIN_NAMES = plain(longest=NAME_LENGTH)
NAME = text(NAME_LENGTH)
SEED = count(0, 2**64 - 1)
LINE = text(2000)  # a sentence or two
SHA256 = text(64, "[0-9a-f]{64}")


# --- checksums -----------------------------------------------------------------------------------


def checksum(content: Mapping[str, Any], *, but: Iterable[str] = ()) -> str:
    """Return the SHA-256 of an object, excluding its own checksum and the fields in ``but``."""
    left_out = {_SEAL, *but}
    hashed = {name: value for name, value in content.items() if name not in left_out}
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()


def seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with its checksum, for a file."""
    plain_content: dict[str, Any] = json.loads(json.dumps(content))
    return {**plain_content, _SEAL: checksum(plain_content)}


def sealed(shape: Shape) -> Shape:
    """Accept what :func:`seal` returned, if its checksum is right; it is left out.

    Args:
        shape: What the rest must be.
    """

    def sealed_shape(value: Any, name: str) -> Any:
        fields = dict(_fields(value, name))
        stored = fields.pop(_SEAL, None)
        if stored != checksum(fields):
            raise FieldError("it is damaged or was edited: its checksum differs")
        return shape(fields, name)

    return sealed_shape
