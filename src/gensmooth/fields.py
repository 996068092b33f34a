"""Read JSON from untrusted files: a shape lists what each field may hold.

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
_NON_FINITE = ("inf", "-inf", "nan")  # floats that JSON lacks
# Characters that a terminal obeys, or that reverse the order of what it shows.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class FieldError(ValueError):
    """A field of a file has an invalid value; the message names the field."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def printable(value: str, most: int = LONGEST, *, lines: bool = False) -> str:
    r"""Return text that is safe to print: control characters are escaped, and the end is cut off.

    Args:
        value: The text.
        most: The largest number of characters.
        lines: Whether it may have several lines; otherwise line breaks are escaped, too.

    >>> printable("red: \x1b[31m!")
    'red: \\x1b[31m!'
    """
    value = _CONTROL.sub(lambda match: ascii(match[0])[1:-1], value)
    value = value if lines else value.replace("\n", r"\n")
    return value if len(value) <= most else f"{value[: most - 1]}…"


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


def _invalid(name: str, expected: str, value: Any) -> FieldError:
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


def text(
    most: int = LONGEST, pattern: str | None = None, least: int = 0, *, lines: bool = True
) -> Shape:
    """Accept text of limited length without control characters.

    Args:
        most: The largest number of characters.
        pattern: A regular expression that all of the text must match.
        least: The smallest number of characters.
        lines: Whether it may have several lines.
    """
    expression = None if pattern is None else re.compile(pattern)

    def shape(value: Any, name: str) -> str:
        if not isinstance(value, str):
            raise _invalid(name, "text", value)
        if not least <= len(value) <= most:
            raise _invalid(name, f"at most {most} characters long", value)
        if _CONTROL.search(value) or (not lines and "\n" in value):
            raise _invalid(name, f"{'' if lines else 'one line of '}text to print", value)
        if expression is not None and not expression.fullmatch(value):
            raise _invalid(name, f"of the form {pattern}", value)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _invalid(name, "valid Unicode", value) from None
        return value

    return shape


NAME = text(NAME_LENGTH, lines=False)


def count(least: int = 0, most: int = 2**63 - 1) -> Shape:
    """Accept a whole number in a range."""

    def shape(value: Any, name: str) -> int:
        if type(value) is not int or not least <= value <= most:
            limit = f" and at most {most}" if most < 2**63 - 1 else ""
            raise _invalid(name, f"a whole number of at least {least}{limit}", value)
        return value

    return shape


def real(least: float = -math.inf, most: float = math.inf, *, finite: bool = False) -> Shape:
    """Accept a number; infinities and NaN, which are written as text, become floats."""

    def shape(value: Any, name: str) -> float:
        known = type(value) in (int, float) or (not finite and value in _NON_FINITE)
        try:
            number = float(value) if known else math.nan
        except OverflowError:
            raise _invalid(name, "a number that fits into a float", value) from None
        if not known or (finite and not math.isfinite(number)) or number < least or number > most:
            limits = (
                "" if (least, most) == (-math.inf, math.inf) else f" from {least:g} to {most:g}"
            )
            raise _invalid(name, f"a {'finite ' * finite}number{limits}", value)
        return value if type(value) is int else number

    return shape


def flag(value: Any, name: str) -> bool:
    """Accept true or false."""
    if not isinstance(value, bool):
        raise _invalid(name, "true or false", value)
    return value


def one_of(*values: Any) -> Shape:
    """Accept one of some plain values, of the same type."""

    def shape(value: Any, name: str) -> Any:
        for option in values:
            if type(option) is type(value) and option == value:
                return option
        listed = " or ".join("null" if option is None else repr(option) for option in values)
        raise _invalid(name, listed, value)

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
    """Accept what one of several shapes accepts; if none does, raise the error of the last."""

    def shape(value: Any, name: str) -> Any:
        for alternative in shapes[:-1]:
            try:
                return alternative(value, name)
            except FieldError:
                continue
        return shapes[-1](value, name)

    return shape


def many(item: Shape, most: int, least: int = 0) -> Shape:
    """Accept a list of limited length."""

    def shape(value: Any, name: str) -> list[Any]:
        if not isinstance(value, list):
            raise _invalid(name, "a list", value)
        items = cast("list[Any]", value)
        if not least <= len(items) <= most:
            raise _invalid(name, f"a list of {least} to {most} items", items)
        return [item(member, f"{name}[{i}]") for i, member in enumerate(items)]

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
        others: What fields with other names may hold; by default, they are rejected.
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
        checked: dict[str, Any] = {}
        for field, content in fields.items():
            inner = known.get(field, others)
            if inner is None:
                raise FieldError(f"`{prefix}{field[:80]}` is not a known field")
            if field not in known:
                NAME(field, f"{prefix}{field[:80]}")
            checked[field] = inner(content, f"{prefix}{field[:80]}")
        return checked

    return shape


def table(value_shape: Shape, most: int = 1000, names: Shape | None = None) -> Shape:
    """Accept an object with any field names and values of one shape, of limited size."""
    check_name = NAME if names is None else names

    def shape(value: Any, name: str) -> dict[str, Any]:
        fields = _fields(value, name)
        if len(fields) > most:
            raise _invalid(name, f"an object of at most {most} fields", fields)
        prefix = f"{name}." if name else ""
        return {
            check_name(field, f"{prefix}{field[:80]}"): value_shape(
                content, f"{prefix}{field[:80]}"
            )
            for field, content in fields.items()
        }

    return shape


def plain(depth: int = DEEPEST, longest: int = LONGEST) -> Shape:
    """Accept any JSON value whose texts, names and nesting are limited."""
    check_text = text(longest)

    def shape(value: Any, name: str, levels: int = depth) -> Any:
        if isinstance(value, str):
            return check_text(value, name)
        if isinstance(value, list | dict):
            if not levels:
                raise _invalid(name, f"nested at most {depth} levels deep", value)
            if isinstance(value, list):
                items = cast("list[Any]", value)
                return [shape(item, f"{name}[]", levels - 1) for item in items]
            return {
                NAME(field, name): shape(item, f"{name}.{field[:80]}", levels - 1)
                for field, item in cast("dict[str, Any]", value).items()
            }
        return value

    return shape


def _fields(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _invalid(name, "an object", value)
    return cast("dict[str, Any]", value)


PLAIN = plain()
PLAIN_NAMES = plain(longest=NAME_LENGTH)
SEED = count(0, 2**64 - 1)
LINE = text(2000)  # a sentence or two
SHA256 = text(64, "[0-9a-f]{64}")


# --- checksums -----------------------------------------------------------------------------------


def checksum(content: Mapping[str, Any], *, exclude: Iterable[str] = ()) -> str:
    """Return the SHA-256 of an object without its own checksum and the fields in ``exclude``."""
    excluded = {_SEAL, *exclude}
    hashed = {name: value for name, value in content.items() if name not in excluded}
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()


def seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with its checksum, for a file."""
    plain_content: dict[str, Any] = json.loads(json.dumps(content))
    return {**plain_content, _SEAL: checksum(plain_content)}


def sealed(shape: Shape) -> Shape:
    """Accept an object that :func:`seal` returned; check its checksum and leave it out."""

    def sealed_shape(value: Any, name: str) -> Any:
        fields = dict(_fields(value, name))
        stored = fields.pop(_SEAL, None)
        if stored != checksum(fields):
            raise FieldError("it is damaged or was edited: its checksum differs")
        return shape(fields, name)

    return sealed_shape
