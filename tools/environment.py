"""Create a virtual environment with gensmooth in it, and show the progress.

    python3 tools/environment.py .venv demo --extras report
    python3 tools/environment.py .venv test-all --extras test-all --pip-first torch

The Makefile calls it. Only Python 3.11 or newer is needed. Packages are installed at the pinned
versions of constraints.txt, by uv if it can be installed (a tenth of pip's time), otherwise by
pip. The time stamp of the file NAME in the environment tells make when this was done.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGAN = time.monotonic()


def main() -> None:
    """Make the environment that the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--extras", default="", help="extras of pyproject.toml, with commas")
    parser.add_argument("--constraints", default="constraints.txt")
    parser.add_argument(
        "--pip-first",
        default="",
        metavar="PACKAGE",
        help="install this package alone, first and with pip, whose settings choose the build",
    )
    options = parser.parse_args()
    if sys.version_info < (3, 11):  # noqa: UP036 - this is where an older Python is told so
        version = sys.version.partition(" ")[0]
        raise SystemExit(
            f"gensmooth needs Python 3.11 or newer, but {sys.executable} is Python {version}. "
            "Choose another one: make PYTHON=python3.11 ..."
        )
    python = options.folder / "bin" / "python"
    if not python.exists():
        say(f"creating the virtual environment {options.folder}")
        run([sys.executable, "-m", "venv", options.folder])
    if options.pip_first:
        say(f"installing {options.pip_first} with pip")
        pip(python, "--no-compile", "--no-deps", "-c", options.constraints, options.pip_first)
    requirements = ["--editable", f".[{options.extras}]", "--constraint", options.constraints]
    say(f"installing gensmooth with the extras {options.extras}")
    install(python, requirements)
    (options.folder / options.name).touch()
    say("the environment is ready")


def install(python: Path, requirements: list[str]) -> None:
    """Install with uv; with pip if uv cannot be installed or fails."""
    uv = python.with_name("uv")
    if not uv.exists():
        pip(python, "uv", check=False)
    if uv.exists():
        if run([uv, "pip", "install", "--python", python, *requirements], check=False):
            return
        say("uv has failed; trying pip")
    pip(python, *requirements)


def pip(python: Path, *words: str, check: bool = True) -> bool:
    """Run ``pip install``; returns whether it succeeded."""
    return run([python, "-m", "pip", "install", "--disable-pip-version-check", *words], check=check)


def run(line: list[str | Path], *, check: bool = True) -> bool:
    """Run a command and show the lines of its output that report progress."""
    kept: list[str] = []
    words = list(map(str, line))
    with subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        for text in running.stdout:
            kept.append(text)
            if text.split(maxsplit=1)[:1] in _SHOWN:
                print(f"  {text.strip()}", flush=True)
    if running.returncode and check:
        raise SystemExit(f"{''.join(kept[-40:])}\nThis command failed: {' '.join(words)}")
    return running.returncode == 0


_SHOWN = [["Resolved"], ["Downloading"], ["Building"], ["Prepared"], ["Installed"], ["Installing"]]


def say(line: str) -> None:
    """Print a line, with the seconds since the start."""
    print(f"[{time.monotonic() - BEGAN:3.0f} s] {line}", flush=True)


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    main()
