"""Studies and claims by name: the paper's four, two of ours, and those of other modules."""

import re
from typing import TypeVar

from gensmooth import checks, naming
from gensmooth.studies.spec import Claim, Study

T = TypeVar("T")

STUDIES = {
    name: f"gensmooth.studies.{name}.study:STUDY"
    for name in ("controller", "linreg", "dfo", "rl", "timing", "untuned")
}


def find_study(name: str) -> Study:
    """The study called ``name``: one of :data:`STUDIES`, or ``module:NAME`` of one's own.

    The module is imported now, not before; it is looked for in the current folder too.
    """
    if name not in STUDIES and ":" not in name:
        raise ValueError(
            f"There is no study {name!r}.{checks.did_you_mean(name, STUDIES)} Known: "
            f"{', '.join(STUDIES)}, all; or module:NAME for one of your own."
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
    module, _, name = reference.partition(":")
    if not (module and name):
        raise ValueError(f"A {kind.__name__.lower()} is module:NAME, not {reference!r}.")
    found = naming.find(reference)
    if not isinstance(found, kind):
        raise ValueError(f"{reference} must be a {kind.__name__}, but is {type(found).__name__}.")
    return found
