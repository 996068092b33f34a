"""The options of studies: each study declares its own, as the fields of one dataclass."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from typing import Any, Literal, TypeVar, cast

from gensmooth import checks, fields

Profile = Literal["quick", "paper"]
Accepts = Callable[[Any], bool]

_MAX_NUMBER = 1_000_000  # the largest number that is accepted from a file


def option(
    words: str,
    default: Any = None,
    *,
    check: Callable[[str, Any], Any] | None = None,
    accepts: Accepts | None = None,
) -> Any:
    """Declare an option: a field of a dataclass.

    Args:
        words: Its description, for the help of the command line.
        default: Its default.
        check: Raises an error if a value is invalid.
        accepts: Returns whether a value is accepted from a ``reproduce.json``, which may come from
            an untrusted source; by default no value is. No accepted value may name a module.
    """
    return field(default=default, metadata={"words": words, "check": check, "accepts": accepts})


def has(shape: fields.Shape) -> Accepts:
    """Return a check that accepts the values of a shape; see :mod:`gensmooth.fields`."""

    def accepts(value: Any) -> bool:
        try:
            shape(value, "")
        except fields.FieldError:
            return False
        return True

    return accepts


def matches(pattern: str) -> Accepts:
    """Return a check that accepts strings that match a regular expression."""
    return has(fields.text(fields.NAME_LENGTH, pattern))


def list_of(accepts: Accepts) -> Accepts:
    """Return a check that accepts lists of at most a thousand accepted items."""
    is_list = has(fields.many(fields.PLAIN, 1000))
    return lambda value: is_list(value) and all(map(accepts, cast("list[Any]", value)))


is_count = has(fields.count(1, _MAX_NUMBER))
is_flag = has(fields.flag)


METHOD_NAMES = list_of(matches(r"[a-z0-9-]{1,50}"))


@dataclass(frozen=True)
class Options:
    """The option that every study has."""

    profile: Profile = option(  # noqa: RUF009
        "The size, quick (about a minute) or paper (the size in the paper).",
        "quick",
        check=lambda name, value: checks.one_of(name, value, ("quick", "paper")),
        accepts=matches("quick|paper"),
    )


@dataclass(frozen=True)
class SeededOptions(Options):
    """Options of a study whose runs have seeds."""

    seeds: int | None = option(
        "Seeds of the reported runs, instead of 5, or 20 in untuned.",
        check=checks.count,
        accepts=is_count,
    )


@dataclass(frozen=True)
class GridOptions(SeededOptions):
    """Options of a study that searches the hyperparameters of its methods."""

    hyperparameters: Literal["search", "paper"] | None = option(
        "Search the paper's grids, or use the paper's tables. By default they are searched, but "
        "not in rl's quick profile.",
        accepts=matches("search|paper"),
    )
    methods: tuple[str, ...] | None = option(
        "The methods, instead of the paper's.", accepts=METHOD_NAMES
    )


O = TypeVar("O", bound=Options)  # noqa: E741


def read_options(kind: type[O], values: Mapping[str, Any]) -> O:
    """Return the options of a study from values by name; ignores names that it does not declare.

    Lists become tuples, and empty ones ``None``.

    Raises:
        ValueError: If a value is invalid.
        TypeError: If a value is of the wrong type.
    """
    read: dict[str, Any] = {}
    for declared in fields_of(kind):
        value = values.get(declared.name)
        if isinstance(value, Iterable) and not isinstance(value, str):
            value = tuple(cast("Iterable[Any]", value)) or None
        if value is None:
            continue
        check = declared.metadata.get("check")
        if check is not None:
            check(declared.name, value)
        read[declared.name] = value
    return kind(**read)
