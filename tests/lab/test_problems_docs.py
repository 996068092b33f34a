"""The examples of docs/problems.md give what the page shows."""

import doctest
from pathlib import Path


def test_examples():
    page = Path(__file__).parents[2] / "docs" / "problems.md"
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert result.attempted > 5
    assert result.failed == 0
