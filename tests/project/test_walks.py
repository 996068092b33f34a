"""How many files a newcomer passes to follow a call: it must not grow without a reason.

Before runs had one way to run, ``gs.minimize(..., workers=2, folder=...)`` passed 39 files and
led from one to another 144 times before its first step, ``gensmooth train`` 48 and 121. With one
way they were 24 and 117, and 30 and 115. Since then files are smaller and more: the pilot is five
files instead of one, the entry points are two each, `fields.py` checks what files contain, and one
place per choice checks retries (`evaluators/base.py`) and optimisers (`optimizers.py`). What all
searches check, and how all of them start, is in `searches/protocol.py`, to which each one leads.
Each number that the pilot remembers adds two changes, because the first checkpoint stores it.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import gensmooth
from walks import ARCHITECTURE, Walk, drawn

HELPERS = Path(__file__).parents[1] / "helpers"
BOUNDS = {"minimize": (32, 179), "train": (41, 161)}


@pytest.mark.usefixtures("fresh_interpreters")  # what is imported already is not passed
@pytest.mark.parametrize("name", BOUNDS)
def test_a_call_passes_few_files(name):
    if name == "train":
        pytest.importorskip("mujoco")
    done = subprocess.run(
        [sys.executable, HELPERS / "walks.py", name], capture_output=True, text=True, check=True
    )
    files, changes, *names = done.stdout.split()
    assert len(names) == int(files) == len(set(names))
    assert "searches/pilot.py" in names
    assert int(files) <= BOUNDS[name][0], names
    assert int(changes) <= BOUNDS[name][1]
    assert drawn(name, Walk(names, int(changes))) in ARCHITECTURE.read_text()
    ours = [file for file in names if file.startswith(("runs/", "observe/"))]
    assert len(ours) <= 8, ours


def test_the_walkthroughs_name_what_exists():
    """Each step of docs/architecture.md begins with a file and a function or class in it."""
    page = ARCHITECTURE.read_text()
    named = re.findall(r"^ *(?:\d+\.|-) `([\w/]+\.py)`, `([\w.]+)`", page, re.MULTILINE)
    assert len(named) > 40
    for file, name in named:
        source = (Path(gensmooth.__file__).parent / file).read_text()
        for part in name.split("."):
            assert re.search(
                rf"^ *(?:(?:async )?def|class) {part}\b|^{part}\b.* = ", source, re.M
            ), (
                file,
                name,
            )
