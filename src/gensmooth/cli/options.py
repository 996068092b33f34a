"""A command's options, declared once: by the function that they set, and its docstring.

``gensmooth minimize … --spacing 0.1`` is ``gs.minimize(…, spacing=0.1)``. The option has the name,
the type and the default of the parameter, and its help is what the docstring says of it; a command
adds only what a shell must say otherwise (:class:`Shell`). The function is imported when its
command is run or asked for help, not before.
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import typer
from typer.core import TyperCommand

from gensmooth import checks

SHORT = {
    "budget": "-b",
    "dim": "-d",
    "episodes": "-n",
    "iterations": "-n",
    "learning_rate": "-r",
    "method": "-m",
    "num_directions": "-L",
    "num_samples": "-N",
    "out": "-o",
    "spacing": "-c",
    "verbose": "-v",
    "workers": "-w",
}


class Shell(NamedTuple):
    """How a shell says a parameter for which Python has an object.

    Attributes:
        name: The option's name, if it is another than the parameter's.
        type: What the shell reads, if that does not follow from the parameter's type.
        read: From what the shell has read to the parameter's value.
        how: How to write it, in words that follow those of the docstring.
        flags: The option's spellings, if they do not follow from its name.
        argument: Whether it goes without a ``--name``, by its place.
        complete: The words to choose from, for completion.
    """

    name: str | None = None
    type: Any = None
    read: Callable[[Any], Any] | None = None
    how: str = ""
    flags: tuple[str, ...] = ()
    argument: bool = False
    complete: Callable[[], list[str]] | None = None


class Sets(NamedTuple):
    """A function (or class) whose parameters a command sets.

    Attributes:
        target: Where it is, ``module:name``.
        only: The parameters that are options, each with the option's name; by default all.
    """

    target: str
    only: Mapping[str, str] | None = None

    def find(self) -> Callable[..., Any]:
        """Import it."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)


class Option(NamedTuple):
    """An option, and the parameter that it sets.

    Attributes:
        name: Its name, as an identifier.
        parameter: The parameter's name.
        type: What the shell reads.
        default: Its value when it is not given; ``...`` if it must be.
        help: What it is for.
        shell: How a shell says it.
    """

    name: str
    parameter: str
    type: Any
    default: Any
    help: str
    shell: Shell

    def for_typer(self) -> inspect.Parameter:
        """As Typer wants it: a parameter of the command's function."""
        complete = self.shell.complete
        options: dict[str, Any] = {
            "help": self.help.replace("[", r"\["),  # Rich would take it for a style
            "autocompletion": None if complete is None else lambda: complete(),
        }
        default = inspect.Parameter.empty if self.default is ... else self.default
        if self.shell.argument:
            info = typer.Argument(show_default=False, **options)
        else:
            info = typer.Option(*self.flags, **options)
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[self.type, info],
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """How it is spelt."""
        if self.shell.flags:
            return self.shell.flags
        words = self.name.replace("_", "-")
        yes_or_no = bool in (self.type, *get_args(self.type)) and self.default is not False
        long = f"--{words}/--no-{words}" if yes_or_no else f"--{words}"
        return (long, *([SHORT[self.name]] if self.name in SHORT else []))


@contextmanager
def users_code() -> Generator[None]:
    """While the user's code runs, or is imported: what it prints goes to standard error.

    Standard output is the result's alone, also for worker processes, which inherit it.
    """
    sys.stdout.flush()
    kept = None
    with suppress(OSError, ValueError):  # not a file, as in a test
        if sys.stdout.fileno() == 1:
            kept = os.dup(1)
            os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


class Given:
    """The options of a command as they were given, under the names of the shell.

    Args:
        command: The command.
        values: The value of each option.

    Attributes:
        all: The value of each option.
        values: The values of those that were given, and are not their defaults.
    """

    def __init__(self, command: "Command", values: Mapping[str, Any]) -> None:
        self._command = command
        self.all = dict(values)
        self.values = {
            option.name: values[option.name]
            for option in command.options
            if option.name in values and values[option.name] != option.default
        }

    def __getitem__(self, name: str) -> Any:
        """What was said, or ``None``."""
        return self.values.get(name)

    def arguments(self, target: str) -> dict[str, Any]:
        """What was given of a function's parameters, as the function wants it."""
        with users_code():  # some are looked up in the user's modules, which may print
            return {
                option.parameter: option.shell.read(value) if option.shell.read else value
                for option in self._command.by_target[target]
                if (value := self.values.get(option.name)) is not None
            }

    def foreign(self, target: str) -> list[str]:
        """What was given that other functions take, and this one does not."""
        known = {option.name for option in self._command.by_target[target]}
        others = {
            option.name
            for sets in self._command.sets
            if sets.only is None and sets.target != target
            for option in self._command.by_target[sets.target]
        }
        return [name for name in self.values if name in others - known]


@dataclass(frozen=True)
class Command:
    """A sub-command: a function of what was given, and the functions whose options it has.

    Attributes:
        function: ``function(given, **own)``, where ``own`` are keyword-only parameters of its own:
            options that only a shell has.
        sets: The functions whose parameters are options.
        shell: How a shell says some of them.
    """

    function: Callable[..., None]
    sets: tuple[Sets, ...]
    shell: Mapping[str, Shell]

    @cached_property
    def by_target(self) -> dict[str, list[Option]]:
        """The options that each function has; its own are under ``""``."""
        found = {sets.target: list(options_of(sets, self.shell)) for sets in self.sets}
        own = {
            name: name for name in inspect.signature(self.function).parameters if name != "given"
        }
        found[""] = list(_options(self.function, "", self.shell, own))
        return found

    @cached_property
    def options(self) -> list[Option]:
        """All options, each once."""
        unique: dict[str, Option] = {}
        for options in self.by_target.values():
            for option in options:
                unique.setdefault(option.name, option)
        return sorted(unique.values(), key=lambda option: not option.shell.argument)

    def add_to(self, app: typer.Typer) -> None:
        """Make it a command of ``app``, whose options are looked up when they are needed."""
        build = self._build

        class Late(TyperCommand):
            def get_params(self, ctx: Any) -> list[Any]:
                if not self.params:
                    built: Any = build()
                    self.params, self.callback = built.params, built.callback
                return super().get_params(ctx)

            def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
                try:
                    return super().parse_args(ctx, args)
                except Exception as error:
                    _answer(error)
                    raise

        def stub() -> None: ...

        stub.__name__ = self.function.__name__
        stub.__doc__ = inspect.cleandoc(self.function.__doc__ or "").partition("\nArgs:\n")[0]
        app.command(cls=Late)(stub)

    def _build(self) -> Any:
        parameters = [option.for_typer() for option in self.options]

        def run(**values: Any) -> None:
            own = {option.name: values[option.name] for option in self.by_target[""]}
            self.function(Given(self, values), **own)

        setattr(run, "__signature__", inspect.Signature(parameters))  # noqa: B010 (pyright)
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        alone = typer.Typer(add_completion=False)
        alone.command()(run)
        return typer.main.get_command(alone)


def _answer(error: Any) -> None:
    """Answer an unknown option that another library has with ours."""
    name = str(getattr(error, "option_name", "")).lstrip("-").replace("-", "_")
    hint = checks.FOREIGN.get(name)
    if hint is not None:
        ours = re.sub(r"`(\w+)`", lambda word: f"--{word[1].replace('_', '-')}", hint)
        error.message = f"No such option: {error.option_name}: {ours}."
        error.possibilities = None


def command(
    *sets: Sets, shell: Mapping[str, Shell] | None = None
) -> Callable[[Callable[..., None]], Command]:
    """Make a function of ``given`` a command with the options of other functions.

    Args:
        sets: The functions.
        shell: How a shell says some of their parameters.
    """
    return lambda function: Command(function, sets, {} if shell is None else shell)


def options_of(sets: Sets, shell: Mapping[str, Shell]) -> Iterator[Option]:
    """The options that set a function's parameters."""
    return _options(sets.find(), sets.target.partition(":")[0], shell, sets.only)


def _options(
    function: Callable[..., Any],
    module: str,
    shell: Mapping[str, Shell],
    only: Mapping[str, str] | None,
) -> Iterator[Option]:
    said = documented(function, module)
    for parameter in inspect.signature(function).parameters.values():
        if only is not None and parameter.name not in only:
            continue
        how = shell.get(parameter.name if only is None else only[parameter.name], Shell())
        name = how.name or (parameter.name if only is None else only[parameter.name])
        default, kind = _default_and_type(function, parameter, how)
        if only is not None and default is ...:
            default, kind = None, kind | None  # a part of an optional object
        part = f"{_first_line(function)} " if inspect.isclass(function) else ""
        words = f"{part}{said[parameter.name]} {how.how}".strip()
        yield Option(name, parameter.name, kind, default, words, how)


def _default_and_type(
    function: Callable[..., Any], parameter: inspect.Parameter, how: Shell
) -> tuple[Any, Any]:
    default: Any = ... if parameter.default is inspect.Parameter.empty else parameter.default
    kind: Any = how.type
    if kind is None:
        kind = read_as(parameter.annotation)
    if kind is None:
        raise TypeError(
            f"A shell cannot say `{parameter.name}: {parameter.annotation}` of "
            f"{function.__module__}.{function.__qualname__}: give the command a Shell for it."
        )
    if default is not ... and not isinstance(default, _plain(kind)):
        default = None  # an object, which the docstring has words for
    return default, kind | None if default is None else kind


def _plain(kind: Any) -> type | tuple[type, ...]:
    """The types of values that a shell can show as a default."""
    if _is_literal(kind):
        return str
    return (int, float) if kind is float else get_origin(kind) or kind


def read_as(annotation: Any) -> Any:
    """What a shell reads for a parameter of such a type; ``None`` if it cannot say it.

    >>> read_as(float | None), read_as(int | str), read_as(str | PathLike[str]), read_as(bytes)
    (<class 'float'>, <class 'str'>, <class 'pathlib.Path'>, None)
    """
    union = get_origin(annotation) in (Union, UnionType)
    members = [each for each in get_args(annotation) if each is not NoneType] if union else []
    members = members or [annotation]
    if any(get_origin(each) is PathLike or each is Path for each in members):
        return Path
    if len(members) == 1 and (members[0] in (int, float, str, bool) or _is_literal(members[0])):
        return members[0]
    return str if str in members else None


def _is_literal(annotation: Any) -> bool:
    return get_origin(annotation) is Literal


# --- docstrings --------------------------------------------------------------------------------

_ENTRY = re.compile(r" {4}(\w+): (.*)")
_AS_IN = re.compile(r"As in :func:`~?([\w.]+)`[.;,]? ?")


def documented(function: Callable[..., Any], module: str = "") -> dict[str, str]:
    """What a Google-style docstring says of each argument, in plain words.

    "As in :func:`minimize`; …" stands for what is said there, and goes on with what follows.

    Args:
        function: The function, or class.
        module: The module in which a function that it refers to is looked up.
    """
    found: dict[str, list[str]] = {}
    _, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\nArgs:\n")
    words: list[str] = []
    for line in rest.splitlines():
        if line and not line.startswith("    "):
            break  # the next section
        entry = _ENTRY.fullmatch(line)
        if entry:
            words = found[entry[1]] = [entry[2]]
        elif line:
            words.append(line.strip())
    return {name: _plain_words(name, " ".join(lines), module) for name, lines in found.items()}


def _first_line(function: Callable[..., Any]) -> str:
    return inspect.cleandoc(function.__doc__ or "").partition("\n")[0]


def _plain_words(name: str, text: str, module: str) -> str:
    reference = _AS_IN.match(text)
    if reference:
        home, _, other = reference[1].rpartition(".")
        there = getattr(import_module(home or module), other)
        rest = text[reference.end() :]
        before = documented(there, home or module)[name]
        return f"{before} {rest[:1].upper()}{rest[1:]}".strip()
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    return text.replace("``", "")
