"""Studies and claims by name: the paper's four, and whatever a module of one's own holds."""

import re
import sys
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from gensmooth.studies.spec import Claim, Study

T = TypeVar("T")

STUDIES = {
    name: f"gensmooth.studies.{name}.study:STUDY" for name in ("linreg", "dfo", "rl", "timing")
}


def find_study(name: str) -> Study:
    """The study called ``name``: one of :data:`STUDIES`, or ``module:NAME`` of one's own.

    The module is imported now, not before; it is looked for in the current folder too.
    """
    if name not in STUDIES and ":" not in name:
        near = get_close_matches(name, STUDIES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"There is no study {name!r}.{hint} Known: {', '.join(STUDIES)}, all; or module:NAME "
            "for one of your own."
        )
    study = _load(STUDIES.get(name, name), Study)
    if not re.fullmatch(r"[\w.-]+", study.name) or (study.name in STUDIES and name != study.name):
        raise ValueError(
            f"{name} is called {study.name!r}: a study's name must be of letters, digits, dots "
            f"and dashes, and none of {', '.join(STUDIES)}."
        )
    return study


def find_claim(name: str) -> Claim:
    """The claim ``module:NAME``."""
    return _load(name, Claim)


def _load(reference: str, kind: type[T]) -> T:
    """What a module calls by a name, if it is of the right kind."""
    module, colon, name = reference.partition(":")
    if not (module and colon and name):
        raise ValueError(f"A {kind.__name__.lower()} is module:NAME, not {reference!r}.")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = getattr(import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise ValueError(
            f"There is no module {module!r} in {Path.cwd()} or on the Python path."
        ) from None
    if not isinstance(found, kind):
        what = "nothing" if found is None else type(found).__name__
        raise ValueError(f"{reference} must be a {kind.__name__}, but is {what}.")
    return found
