"""The studies by name."""

from difflib import get_close_matches
from importlib import import_module

from gensmooth.studies.spec import Study

STUDIES = ("linreg", "dfo", "rl", "timing")


def find_study(name: str) -> Study:
    """The study called ``name``; its module is imported now, not before."""
    if name not in STUDIES:
        near = get_close_matches(name, STUDIES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"There is no study {name!r}.{hint} Known: {', '.join(STUDIES)}, all.")
    study: Study = import_module(f"gensmooth.studies.{name}").STUDY
    return study
