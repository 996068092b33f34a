"""The search of CONTRIBUTING.md, taken from its text, and a function to minimise."""

import re
from pathlib import Path

_GUIDE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
_SECTION = re.search(r"## Add a search\n(.*?)\n## ", _GUIDE, re.DOTALL)
assert _SECTION is not None
exec(re.findall(r"```python\n(.*?)```", _SECTION[1], re.DOTALL)[0])


def bowl(x):
    return float(((x - 1) ** 2).sum())
