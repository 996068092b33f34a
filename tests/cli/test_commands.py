"""Every command that a page, an example or a docstring prints is one that there is.

Commands are parsed, not run: the sub-command, its options, and the form of their values. Of
benchmarks, the module and its options are looked for.
"""

import ast
import importlib
import inspect
import io
import json
import re
import shlex
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "integrations").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.rst")),
    *sorted((ROOT / "examples").rglob("*.ipynb")),
    *sorted((ROOT / "examples").rglob("*.py")),
    *sorted((ROOT / "src").rglob("*.py")),
    *sorted((ROOT / "benchmarks").rglob("*.py")),
]
MAIN: Any = importlib.import_module("gensmooth.cli.main")  # `gensmooth.cli.main` is a function
APP: Any = typer.main.get_command(MAIN.app)


class Printed(NamedTuple):
    """A command as it is printed somewhere."""

    text: str
    prose: bool  # whether it stands in a sentence, which may only mention a command


# --- where commands stand ------------------------------------------------------------------------

_FENCE = re.compile(r"^ *(```+)(\w*)[^\n]*\n(.*?)^ *\1 *$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_CALLED = re.compile(r"(?:gensmooth|python -m gensmooth|python -m benchmarks\.\w+)(?=\s|$)")
_LINE = re.compile(rf"^( *)['\"]?({_CALLED.pattern}.*?)['\"]?$", re.MULTILINE)
_NAMED = re.compile(r"gensmooth\s+(?!import\b)[a-z-]|python\S*\s+-m")
_BEFORE = re.compile(r"^(?:do\s+|\w+=\S*\s+|\$ |!|taskset -c \S+ |\S*/(?=(?:python|gensmooth) ))+")


@cache
def commands(path: Path) -> list[Printed]:
    """The commands that a file prints."""
    text = path.read_text(encoding="utf-8")
    if not _NAMED.search(text):
        return []
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        return [each for cell in cells for each in of_page("".join(cell["source"]))]
    if path.suffix == ".py":
        return [each for words in _said(text) for each in of_docstring(words)]
    return of_page(text)


def of_page(text: str) -> list[Printed]:
    """Commands in blocks of code, and in spans of code."""
    found: list[Printed] = []
    for _, language, code in _FENCE.findall(text):
        if language in ("", "sh", "bash", "console", "shell"):
            found += of_shell(code)
    return found + _of_spans(_FENCE.sub("", text))


def of_docstring(text: str) -> list[Printed]:
    """Commands on lines of their own, and in spans of code."""
    lines = [
        Printed(line, False)
        for indented, line in _LINE.findall(_joined(inspect.cleandoc(text)))
        if len(indented) >= 4 or line.startswith("python") or _is_known(line)
    ]
    return lines + _of_spans(text)


def _is_known(line: str) -> bool:
    """Whether a line is a command rather than a sentence about gensmooth."""
    words = line.split()
    return len(words) > 1 and words[1] in APP.commands


def of_shell(code: str, *, prose: bool = False) -> Iterator[Printed]:
    """Commands in a block of shell, where a name may stand for the beginning of one."""
    names: dict[str, str] = {}
    for line in _joined(code).splitlines():
        if given := re.search(r"\bfor (\w+) in (\w+)", line):
            names[given[1]] = given[2]
        for name, value in names.items():
            line = re.sub(rf"\${name}\b", value, line)
        if given := re.fullmatch(r'\s*(\w+)="(.*)"\s*', line):
            names[given[1]] = given[2]
            continue
        line = re.sub(r"(?:^|\s)#\s.*", "", line)
        for part in re.split(r"&&|\|\||;|\|(?=\s)", line):
            command = _BEFORE.sub("", part.strip())
            if _CALLED.match(command):
                yield Printed(command, prose)


def _of_spans(text: str) -> list[Printed]:
    spans = (" ".join(code.split()) for _, code in _SPAN.findall(text))
    return [printed for span in spans for printed in of_shell(span, prose=True)]


def _said(source: str) -> Iterator[str]:
    """What a module says: its strings, and its comments, those on consecutive lines as one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
    last, lines = -2, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1:
                yield "\n".join(lines)
                lines = []
            last = token.start[0]
            lines.append(token.string.lstrip("# "))
    yield "\n".join(lines)


def _joined(text: str) -> str:
    """Lines that end in a backslash, with the next."""
    return re.sub(r"\s*\\\n\s*", " ", text)


# --- whether they parse --------------------------------------------------------------------------


def check(printed: Printed) -> None:
    """Raise a ``ValueError`` if there is no such command."""
    words = shlex.split(printed.text, comments=True)
    if words[0] == "python":
        module, words = words[2], words[2:]
        if module != "gensmooth":
            _check_benchmark(module, words[1:])
            return
    _check_ours(words[1:], prose=printed.prose)


def _check_ours(words: list[str], *, prose: bool, group: Any = APP, module: Any = MAIN) -> None:
    if not words:
        return
    name, *rest = words
    if name.startswith("-"):
        if not any(name in option.opts for option in group.get_params(typer.Context(group))):
            raise ValueError(f"there is no option {name}")
        return
    if name not in group.commands:
        raise ValueError(f"there is no command {name!r}")
    if hasattr(group.commands[name], "commands"):
        below = importlib.import_module(f"gensmooth.cli.{name}")
        _check_ours(rest, prose=prose, group=group.commands[name], module=below)
        return
    if prose and not rest:
        return  # a command's name
    partly = any(word in ("…", "...", "--help", "-h") for word in rest)
    rest = [word for word in rest if word not in ("…", "...", "--help", "-h")]
    command = group.commands[name]
    try:
        given = command.make_context(name, rest, parent=typer.Context(group)).params
    except Exception as error:  # of Typer's, whose classes have no public name
        if partly and type(error).__name__ == "MissingParameter":
            return
        raise ValueError(getattr(error, "message", "") or str(error)) from error
    for option in vars(module)[name].options:
        value = given.get(option.name)
        if option.shell.read is not None and value and not _is_the_users(value):
            option.shell.read(value)


def _is_the_users(value: Any) -> bool:
    """Whether a value names something in a module of the reader's, which is not there."""
    name = r"[\w.]+:[A-Za-z_]\w*(?:\(.*\))?"  # module:name, or module:name(fields)
    return isinstance(value, str) and re.fullmatch(name, value) is not None


def _check_benchmark(module: str, words: list[str]) -> None:
    path = ROOT / f"{module.replace('.', '/')}.py"
    if not path.exists():
        raise ValueError(f"there is no module {module}")
    source = path.read_text(encoding="utf-8")
    if '__name__ == "__main__"' not in source:
        raise ValueError(f"{module} is not a program")
    for word in words:
        option = word.strip("[]").partition("=")[0]
        if option.startswith("--") and f'"{option}"' not in source:
            raise ValueError(f"{module} has no option {option}")


def wrong(path: Path) -> list[str]:
    """The commands of a file that do not parse, each with the reason."""
    found: list[str] = []
    for printed in commands(path):
        try:
            check(printed)
        except ValueError as error:
            found.append(f"{printed.text}: {error}")
    return found


def test_every_printed_command_parses():
    found = {str(path.relative_to(ROOT)): wrong(path) for path in PAGES}
    assert {path: errors for path, errors in found.items() if errors} == {}


@pytest.mark.parametrize(
    "printed",
    [
        "```sh\ngensmooth minimise model:loss --x0 zeros:3\n```",
        "```sh\ngensmooth minimize model:loss --x0 zeros:3 --bugdet 100\n```",
        "```sh\ngensmooth minimize model:loss \\\n  --x0 zeros:3 --budget many\n```",
        "```sh\ngensmooth minimize model:loss\n```",
        "```sh\ngensmooth minimize model:loss --x0 zeros:3 --bounds 1,2,3\n```",
        '```sh\nP="gensmooth reproduce rl --profile paper"\n$P --resets wrong\n```',
        "```sh\n$ gensmooth reproduce linreg --methods bes,bse\n```",
        "Of these, `gensmooth train\nHopper-v5 --iteration 3`, the last.",
        "Of these, `gensmooth learn`, the last.",
        "`for s in 1 2; do gensmooth train Ant --seed $s --sed 1; done`",
        "`python -m benchmarks.none`",
        "`python -m benchmarks.core --row bernoulli`",
        "`gensmooth --instal-completion`",
    ],
)
def test_a_wrong_command_is_noticed(printed: str, tmp_path: Path):
    page = tmp_path / "page.md"
    right = (ROOT / "docs" / "command.md").read_text(encoding="utf-8")
    assert wrong(ROOT / "docs" / "command.md") == []
    page.write_text(f"{right}\n{printed}\n", encoding="utf-8")
    assert len(wrong(page)) == 1
    module = tmp_path / "module.py"
    module.write_text(f"X = 1\n{text_of(printed)}", encoding="utf-8")
    assert len(wrong(module)) == 1


def text_of(printed: str) -> str:
    """The same in a docstring of a function."""
    if printed.startswith("```"):
        lines = printed.splitlines()[1:-1]
        if len(lines) == 2 and lines[0].startswith("P="):
            lines = [lines[1].replace("$P", lines[0][3:-1])]
        lines = [f"    {line.lstrip('$ ')}" for line in lines]
        printed = "\n".join(["For example::", "", *lines, "", "That is all."])
    return f"def f():\n    {printed!r}\n"


def test_commands_are_found_where_they_stand():
    found = [printed.text for path in PAGES for printed in commands(path)]
    assert len(found) > 250
    for text in (
        "gensmooth methods --dim 1000 --num-directions 20",  # in a block
        "gensmooth reproduce linreg,dfo,timing --profile paper",  # in a sentence
        "gensmooth train own_robot:Cart --max-steps 20 --seed 2 --folder cart",  # in an example
        "gensmooth evaluate zoo:hopper",  # in a docstring
        "python -m benchmarks.coco_page",
    ):
        assert text in found
