"""The files that a call passes before its first step: what a newcomer has to read to follow it.

    python walks.py minimize|train         prints the files in the order they are entered
    python walks.py draw                   draws both in docs/architecture.md

A file is passed when one of its functions is called, in a fresh process; importing a module and
making its classes do not count. Every call that leads from one file to another is a change.
"""

import inspect
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import gensmooth as gs
from gensmooth.cli.main import app  # its options are declared when it is imported

ROOT = Path(gs.__file__).parent
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"


class Walk(NamedTuple):
    """The files passed, in order of first entry, and how often one led to another."""

    files: Sequence[str]
    changes: int


class _Arrived(BaseException):
    pass


def loss(x):
    return float((x**2).sum())


def minimize(folder: str) -> None:
    """``gs.minimize`` with two workers and a checkpoint."""
    gs.minimize(loss, [1.0, 2.0, 3.0], workers=2, folder=folder, seed=0)


def train(folder: str) -> None:
    """``gensmooth train``."""
    app(["train", "Hopper-v5", "--seed", "0", "--folder", folder], standalone_mode=False)


WALKS = {"minimize": minimize, "train": train}


def _imports(frame) -> bool:
    """Whether a call is made by a module of ours that is being imported, such as a decorator."""
    while frame := frame.f_back:
        code = frame.f_code
        if code.co_name == "<module>" and ROOT in Path(code.co_filename).parents:
            return True
    return False


def walk(call: Callable[[str], None]) -> Walk:
    """The walk of a call, until it asks for the first batch of evaluations."""
    goals = (gs.RandomSearch.ask.__code__, gs.Pilot.ask.__code__)
    passed: list[str] = []

    def look(frame, event, _):
        code = frame.f_code
        if event != "call" or not code.co_flags & inspect.CO_OPTIMIZED:
            return  # a module or the body of a class
        path = Path(code.co_filename)
        if ROOT not in path.parents:
            return
        if _imports(frame):
            return
        name = path.relative_to(ROOT).as_posix()
        if not passed or passed[-1] != name:
            passed.append(name)
        if code in goals:
            sys.setprofile(None)
            raise _Arrived

    with tempfile.TemporaryDirectory() as folder:
        sys.setprofile(look)
        try:
            call(f"{folder}/run")
        except _Arrived:
            pass
        finally:
            sys.setprofile(None)
    return Walk(list(dict.fromkeys(passed)), len(passed) - 1)


TITLES = {
    "minimize": "`gs.minimize(fun, x0, workers=2, folder=...)`",
    "train": "`gensmooth train Hopper-v5`",
}


def drawn(name: str, found: Walk) -> str:
    """A walk as docs/architecture.md shows it."""
    arrows = textwrap.fill(" → ".join(found.files), 96, break_long_words=False)
    return f"{TITLES[name]}, {len(found.files)} files:\n\n```text\n{arrows}\n```\n"


def draw() -> None:
    """Draw both walks, each in a process of its own: what is loaded already is not passed again."""
    page = ARCHITECTURE.read_text()
    for name in WALKS:
        line = [sys.executable, __file__, name]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        _, changes, *files = done.stdout.splitlines()[-1].split()
        start = page.index(f"<!-- walk {name} -->")
        end = page.index("<!--", start + 1)
        text = drawn(name, Walk(files, int(changes)))
        page = f"{page[:start]}<!-- walk {name} -->\n\n{text}\n{page[end:]}"
    ARCHITECTURE.write_text(page)


if __name__ == "__main__":
    if sys.argv[1] == "draw":
        draw()
    else:
        found = walk(WALKS[sys.argv[1]])
        print(len(found.files), found.changes, *found.files)
