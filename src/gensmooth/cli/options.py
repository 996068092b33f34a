"""Options derived from the functions that they set, so that each is declared only once.

``gensmooth minimize … --spacing 0.1`` means ``gs.minimize(…, spacing=0.1)``. The option has the
name, type and default of the parameter, and its help text comes from the docstring. A command only
adds what is different in a shell (:class:`Shell`). The function is imported when its command runs
or shows its help, not before.
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
    "learning_rate": "-r",
    "max_steps": "-n",
    "method": "-m",
    "num_directions": "-L",
    "num_samples": "-N",
    "out": "-o",
    "spacing": "-c",
    "verbose": "-v",
    "workers": "-w",
}


class Shell(NamedTuple):
    """How an option differs from the parameter that it sets.

    Attributes:
        name: The option's name, if it differs from the parameter's.
        type: The type of the option, if it does not follow from the parameter's.
        read: Converts the option's value to the parameter's.
        how: How to write it in a shell; this is added to the text of the docstring.
        default: Its default value, if it differs from the parameter's.
        flags: The option's flags, if they do not follow from its name.
        argument: Whether it is a positional argument.
        complete: Returns the words for shell completion.
    """

    name: str | None = None
    type: Any = None
    read: Callable[[Any], Any] | None = None
    how: str = ""
    default: Any = ...
    flags: tuple[str, ...] = ()
    argument: bool = False
    complete: Callable[[], list[str]] | None = None


class Sets(NamedTuple):
    """A function (or class) whose parameters a command sets.

    Attributes:
        target: Its name, ``module:name``.
        only: The parameters that become options, each with the option's name; by default, all.
    """

    target: str
    only: Mapping[str, str] | None = None

    def find(self) -> Callable[..., Any]:
        """Import the function or class."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)


class Option(NamedTuple):
    """An option, and the parameter that it sets.

    Attributes:
        name: Its name, as an identifier.
        parameter: The parameter's name.
        type: Its type.
        default: Its default value; ``...`` if it is required.
        help: Its help text.
        brief: The start of its help text, for the short help of a command.
        shell: How it differs from the parameter.
    """

    name: str
    parameter: str
    type: Any
    default: Any
    help: str
    brief: str
    shell: Shell

    def for_typer(self) -> inspect.Parameter:
        """Return it as a parameter of the command's function, for Typer."""
        complete = self.shell.complete
        options: dict[str, Any] = {
            "help": self.help.replace("[", r"\["),  # Rich would read it as a style
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
        """The flags of the option."""
        if self.shell.flags:
            return self.shell.flags
        dashed = self.name.replace("_", "-")
        yes_or_no = bool in (self.type, *get_args(self.type)) and self.default is not False
        long = f"--{dashed}/--no-{dashed}" if yes_or_no else f"--{dashed}"
        return (long, *([SHORT[self.name]] if self.name in SHORT else []))


@contextmanager
def users_code() -> Generator[None]:
    """Run or import the user's code with its standard output redirected to standard error.

    Standard output is reserved for the result. Worker processes inherit the redirection.
    """
    sys.stdout.flush()
    saved = None
    with suppress(OSError, ValueError):  # not a file, as in a test
        if sys.stdout.fileno() == 1:
            saved = os.dup(1)
            os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if saved is not None:
            os.dup2(saved, 1)
            os.close(saved)


class ParsedOptions:
    """The parsed options of a command, by their names in the shell.

    Args:
        command: The command.
        values: The value of each option.

    Attributes:
        all: The value of each option.
        values: The values that differ from their defaults.
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
        """Return the value of an option, or ``None`` if it has its default."""
        return self.values.get(name)

    def arguments(self, target: str) -> dict[str, Any]:
        """Return the options that set a function's parameters, converted to its arguments."""
        with users_code():  # some values are imported from the user's modules, which may print
            return {
                option.parameter: option.shell.read(value) if option.shell.read else value
                for option in self._command.by_target[target]
                if (value := self.values.get(option.name)) is not None
            }

    def foreign(self, target: str) -> list[str]:
        """Return the options that were set but belong only to other functions of the command."""
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
    """A subcommand: its function, and the functions whose parameters are its options.

    Attributes:
        function: ``function(parsed, **extra)``; its keyword-only parameters are further options,
            which exist only in the shell.
        sets: The functions whose parameters are options.
        shell: How some options differ from the parameters.
        common: The options that ``--help`` lists, in brief; ``--help-all`` lists all options. If
            this is empty, ``--help`` lists all of them.
    """

    function: Callable[..., None]
    sets: tuple[Sets, ...]
    shell: Mapping[str, Shell]
    common: tuple[str, ...] = ()

    @cached_property
    def by_target(self) -> dict[str, list[Option]]:
        """The options of each function; those of the command itself are under ``""``."""
        options = {sets.target: list(options_of(sets, self.shell)) for sets in self.sets}
        extra = {
            name: name for name in inspect.signature(self.function).parameters if name != "parsed"
        }
        options[""] = list(_options(self.function, "", self.shell, extra))
        return options

    @cached_property
    def options(self) -> list[Option]:
        """All options without duplicates, positional arguments first."""
        unique: dict[str, Option] = {}
        for options in self.by_target.values():
            for option in options:
                unique.setdefault(option.name, option)
        return sorted(unique.values(), key=lambda option: not option.shell.argument)

    def add_to(self, app: typer.Typer) -> None:
        """Add the command to ``app``; its options are created when they are needed."""
        build, shortened = self._build, self._shortened

        class LazyCommand(TyperCommand):
            def get_params(self, ctx: Any) -> list[Any]:
                if not self.params:
                    built: Any = build()
                    self.params, self.callback = built.params, built.callback
                return super().get_params(ctx)

            def format_help(self, ctx: Any, formatter: Any) -> None:
                with shortened(self.get_params(ctx), everything=ctx.meta.get(_ALL, False)):
                    super().format_help(ctx, formatter)

            def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
                try:
                    return super().parse_args(ctx, args)
                except Exception as error:
                    _suggest(error)
                    raise

        def stub() -> None: ...

        stub.__name__ = self.function.__name__
        stub.__doc__ = inspect.cleandoc(self.function.__doc__ or "").partition("\nArgs:\n")[0]
        app.command(cls=LazyCommand)(stub)

    @contextmanager
    def _shortened(self, params: list[Any], *, everything: bool) -> Generator[None]:
        """Hide all but the common options, and shorten their texts, while the help is printed."""
        brief = {option.name: option.brief.replace("[", r"\[") for option in self.options}
        before = [(param, param.help, param.hidden) for param in params if param.name in brief]
        try:
            if self.common and not everything:
                for param, _, hidden in before:
                    argument = param.param_type_name == "argument"
                    param.hidden = hidden or not (argument or param.name in self.common)
                    param.help = brief[param.name]
            yield
        finally:
            for param, text, hidden in before:
                param.help, param.hidden = text, hidden

    def _build(self) -> Any:
        parameters = [option.for_typer() for option in self.options]
        if self.common:
            parameters.append(_HELP_ALL)

        def run(**values: Any) -> None:
            values.pop(_HELP_ALL.name, None)
            extra = {option.name: values[option.name] for option in self.by_target[""]}
            self.function(ParsedOptions(self, values), **extra)

        setattr(run, "__signature__", inspect.Signature(parameters))  # noqa: B010 (pyright)
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        app = typer.Typer(add_completion=False)
        app.command()(run)
        return typer.main.get_command(app)


_ALL = "gensmooth.help_all"  # in the context of a command: print the full help


def _print_all(context: typer.Context, requested: bool) -> None:
    if requested:
        context.meta[_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


_HELP_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--help-all",
            help="Show all options, with full descriptions.",
            callback=_print_all,
            is_eager=True,
        ),
    ],
)


def _suggest(error: Any) -> None:
    """If an unknown option is another library's name for one of our options, suggest ours."""
    name = str(getattr(error, "option_name", "")).lstrip("-").replace("-", "_")
    hint = checks.FOREIGN.get(name)
    if hint is not None:
        ours = re.sub(r"`(\w+)`", lambda word: f"--{word[1].replace('_', '-')}", hint)
        error.message = f"No such option: {error.option_name}: {ours}."
        error.possibilities = None


def command(
    *sets: Sets, shell: Mapping[str, Shell] | None = None, common: tuple[str, ...] = ()
) -> Callable[[Callable[..., None]], Command]:
    """Turn a function into a command with the options of other functions.

    Args:
        sets: The functions whose parameters become options.
        shell: How some options differ from the parameters.
        common: The options that ``--help`` lists; by default, all.
    """
    return lambda function: Command(function, sets, {} if shell is None else shell, common)


def options_of(sets: Sets, shell: Mapping[str, Shell]) -> Iterator[Option]:
    """Yield the options that set a function's parameters."""
    return _options(sets.find(), sets.target.partition(":")[0], shell, sets.only)


def _options(
    function: Callable[..., Any],
    module: str,
    shell: Mapping[str, Shell],
    only: Mapping[str, str] | None,
) -> Iterator[Option]:
    texts = documented(function, module)
    for parameter in inspect.signature(function).parameters.values():
        if only is not None and parameter.name not in only:
            continue
        override = shell.get(parameter.name if only is None else only[parameter.name], Shell())
        name = override.name or (parameter.name if only is None else only[parameter.name])
        default, kind = _default_and_type(function, parameter, override)
        if only is not None and default is ...:
            default, kind = None, kind | None  # the object itself is optional
        summary = f"{_first_line(function)} " if inspect.isclass(function) else ""
        text = f"{summary}{texts[parameter.name]}"
        brief = _brief(text, override.how)
        yield Option(
            name, parameter.name, kind, default, f"{text} {override.how}".strip(), brief, override
        )


def _brief(text: str, hint: str) -> str:
    """Return the beginning of a description, and how to write the option.

    >>> _brief("The limits of x: (lower, upper). One per parameter.", "In a shell: 0,1.")
    'The limits of x: 0,1.'
    """
    beginning = re.split(r"[.;:](?: |$)", text, maxsplit=1)[0]
    in_shell = hint.removeprefix("In a shell: ")
    if in_shell != hint:
        return f"{beginning}: {in_shell}"
    return f"{beginning}. {hint}".strip()


def _default_and_type(
    function: Callable[..., Any], parameter: inspect.Parameter, override: Shell
) -> tuple[Any, Any]:
    default: Any = ... if parameter.default is inspect.Parameter.empty else parameter.default
    if override.default is not ...:
        default = override.default
    kind: Any = override.type
    if kind is None:
        kind = read_as(parameter.annotation)
    if kind is None:
        raise TypeError(
            f"No shell type for `{parameter.name}: {parameter.annotation}` of "
            f"{function.__module__}.{function.__qualname__}: add a Shell for it to the command."
        )
    if default is not ... and not isinstance(default, _plain(kind)):
        default = None  # an object, which a shell cannot show
    return default, kind | None if default is None else kind


def _plain(kind: Any) -> type | tuple[type, ...]:
    """Return the types of default values that a shell can show."""
    if _is_literal(kind):
        return str
    return (int, float) if kind is float else get_origin(kind) or kind


def read_as(annotation: Any) -> Any:
    """Return the shell type for a parameter of this type, or ``None`` if there is none.

    >>> read_as(float | None), read_as(int | str), read_as(str | PathLike[str]), read_as(bytes)
    (<class 'float'>, <class 'str'>, <class 'pathlib.Path'>, None)
    """
    union = get_origin(annotation) in (Union, UnionType)
    members = [member for member in get_args(annotation) if member is not NoneType] if union else []
    members = members or [annotation]
    if any(get_origin(member) is PathLike or member is Path for member in members):
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
    """Return the text of each argument in a Google-style docstring, without markup.

    "As in :func:`minimize`; …" is replaced by the text of that function, followed by the rest.

    Args:
        function: The function or class.
        module: The module in which functions it refers to are looked up.
    """
    entries: dict[str, list[str]] = {}
    _, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\nArgs:\n")
    current: list[str] = []
    for line in rest.splitlines():
        if line and not line.startswith("    "):
            break  # the next section
        entry = _ENTRY.fullmatch(line)
        if entry:
            current = entries[entry[1]] = [entry[2]]
        elif line:
            current.append(line.strip())
    return {name: _plain_text(name, " ".join(lines), module) for name, lines in entries.items()}


def _first_line(function: Callable[..., Any]) -> str:
    return inspect.cleandoc(function.__doc__ or "").partition("\n")[0]


def _plain_text(name: str, text: str, module: str) -> str:
    reference = _AS_IN.match(text)
    if reference:
        home, _, other = reference[1].rpartition(".")
        quoted = documented(getattr(import_module(home or module), other), home or module)[name]
        rest = text[reference.end() :]
        return f"{quoted} {rest[:1].upper()}{rest[1:]}".strip()
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    return text.replace("``", "")
