"""``make test`` installs versions that the tests are known to pass with: every one is pinned."""

import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
EXTRAS = ("all", "report", "test", "test-all", "lint")  # what the Makefile installs, and users may


def test_everything_that_is_installed_is_pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all("==" in pin and "@" not in pin for pin in pins)
    pinned = {canonicalize_name(pin.partition("==")[0]) for pin in pins}
    assert len(pinned) == len(pins)
    assert needed() - pinned == set()


def needed() -> set[str]:
    """What the extras need, and what that needs, as far as it is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ours = {
        (extra, line) for extra, each in project["optional-dependencies"].items() for line in each
    }
    found: set[tuple[str, str]] = set()
    waiting = [("gensmooth", extra) for extra in ("", *EXTRAS)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        if name == "gensmooth":
            lines = [line for of, line in ours if of == extra]
            lines += project["dependencies"] if not extra else []
        else:
            try:
                lines = requires(name) or []
            except PackageNotFoundError:  # not for this Python, or this system
                found.discard((name, extra))
                continue
        for requirement in map(Requirement, lines):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                next_one = canonicalize_name(requirement.name)
                waiting += [(next_one, each) for each in ("", *requirement.extras)]
    return {name for name, _ in found} - {"gensmooth"}
