"""The verdicts of the full-size runs, which are published in docs/results.

A page about smaller runs shows them beside its curves, because smaller runs cannot judge the
paper's claims.
"""

import csv
from importlib.resources import files
from typing import Any

from gensmooth.lab.report.tables import ClaimRow, Published

# Each file is a copy of a table in docs/results, with the command that made it.
FILES = {
    "claims.csv": (
        "20 seeds, at the paper’s size",
        "gensmooth reproduce linreg,dfo,timing --profile paper --seeds 20",
    ),
    "untuned.csv": ("20 seeds, at the paper’s size", "gensmooth reproduce untuned --profile paper"),
}


def published(study: str) -> Published | None:
    """Return the published verdicts of a study, if there are any.

    >>> full_size = published("linreg")
    >>> full_size.size, full_size.claims[0].verdict in ("holds", "does not hold", "undecided")
    ('20 seeds, at the paper’s size', True)
    >>> published("my-study") is None
    True
    """
    for name, (size, command) in FILES.items():
        text = (files(__name__) / name).read_text(encoding="utf-8")
        rows: list[dict[str, Any]] = list(csv.DictReader(text.splitlines(keepends=True)))
        claims = [
            ClaimRow(**{field: row[field] for field in ClaimRow._fields})
            for row in rows
            if row["study"] == study
        ]
        if claims:
            return Published(claims, size, command)
    return None
