"""No public name disappears by accident.

``tests/data/public-names.json`` lists the public names of each module. After adding, removing or
renaming one on purpose, run ``python tests/project/test_public_names.py``, which writes the list,
and say so in the changelog.
"""

import json
from importlib import import_module
from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "data" / "public-names.json"
NAMES = json.loads(FILE.read_text())


@pytest.mark.parametrize("module", NAMES)
def test_every_public_name_is_still_there(module):
    found = import_module(module)
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []


def public(module):
    """The names in ``__all__``; without one, those of the functions and classes defined there."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    own = (n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__)
    return sorted(name for name in own if not name.startswith("_"))


if __name__ == "__main__":
    listed = {module: " ".join(public(import_module(module))) for module in NAMES}
    FILE.write_text(json.dumps(listed, indent=1) + "\n")
