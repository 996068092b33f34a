"""No public name disappears by accident.

``tests/data/public-names.json`` lists the public names of each module. After adding, removing or
renaming one on purpose, run ``python tests/project/test_public_names.py``, which writes the list,
and say so in the changelog.
"""

import inspect
import json
from importlib import import_module
from pathlib import Path

import pytest

import gensmooth as gs

FILE = Path(__file__).parents[1] / "data" / "public-names.json"
NAMES = json.loads(FILE.read_text())


@pytest.mark.parametrize("module", NAMES)
def test_every_public_name_is_still_there(module):
    found = import_module(module)
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []


# What users receive, and do not create.
RETURNED = ("Comparison", "IntermediateResult", "Result", "Sweep")


@pytest.mark.parametrize("name", NAMES["gensmooth"].split())
def test_arguments_beyond_the_second_are_passed_by_name(name):
    value = getattr(gs, name)
    returned = name in RETURNED or (
        isinstance(value, type) and issubclass(value, tuple | Exception)
    )
    if not callable(value) or returned:
        return
    positional = [
        each.name
        for each in inspect.signature(value).parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    assert len(positional) <= 2, positional


def test_required_arguments_have_no_default():
    search = inspect.signature(gs.RandomSearch).parameters
    for name in ("num_directions", "spacing"):
        assert search[name].default is inspect.Parameter.empty
    with pytest.raises(TypeError, match="spacing"):
        gs.RandomSearch(method="bes", num_directions=3)


def public(module):
    """The names in ``__all__``; without one, those of the functions and classes defined there."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    own = (n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__)
    return sorted(name for name in own if not name.startswith("_"))


if __name__ == "__main__":
    listed = {module: " ".join(public(import_module(module))) for module in NAMES}
    FILE.write_text(json.dumps(listed, indent=1) + "\n")
