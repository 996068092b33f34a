"""Studies and claims by name: the paper's four, two of ours, and custom ones."""

import re
from typing import Any, TypeVar, cast

from gensmooth import checks, naming
from gensmooth.lab.experiments.spec import Claim, Study

T = TypeVar("T")

STUDIES = {
    name: f"gensmooth.lab.paper.{name}.study:STUDY"
    for name in ("controller", "linreg", "dfo", "rl", "timing", "untuned")
}


def find_study(name: str) -> Study[Any]:
    """Return a study by name: one of :data:`STUDIES`, or ``module:NAME`` for a custom study.

    The module is imported when it is needed. It may be in the current folder.
    """
    if name not in STUDIES and ":" not in name:
        raise ValueError(
            f"There is no study {name!r}.{checks.did_you_mean(name, STUDIES)} Known: "
            f"{', '.join(STUDIES)}, all; or module:NAME for a custom study."
        )
    study = cast("Study[Any]", _load(STUDIES.get(name, name), Study))
    if not re.fullmatch(r"[\w.-]+", study.name) or (study.name in STUDIES and name != study.name):
        raise ValueError(
            f"{name} is called {study.name!r}: the name of a study must consist of letters, "
            f"digits, dots and dashes, and differ from {', '.join(STUDIES)}."
        )
    return study


def find_claim(name: str) -> Claim:
    """Return the claim ``module:NAME``."""
    return _load(name, Claim)


def _load(reference: str, kind: type[T]) -> T:
    """Return the object ``module:NAME``, which must be of some kind."""
    module, _, name = reference.partition(":")
    if not (module and name):
        raise ValueError(f"A {kind.__name__.lower()} is module:NAME, not {reference!r}.")
    loaded = naming.find(reference)
    if not isinstance(loaded, kind):
        raise ValueError(f"{reference} must be a {kind.__name__}, but is {type(loaded).__name__}.")
    return loaded
