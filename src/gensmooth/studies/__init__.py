"""Studies: the paper's evaluation, or one of your own, as deterministic lists of runs.

A study is a :class:`Study`; :func:`run_study` makes the runs that are missing and concludes, and
:func:`write_report` writes the page. CONTRIBUTING.md shows how to add one from your own module.
"""

from gensmooth.report.tables import Cell, ClaimRow, Table
from gensmooth.studies.outcome import judge_again, write_report
from gensmooth.studies.registry import STUDIES, find_claim, find_study
from gensmooth.studies.run import Reproduced, reproduce, run_study
from gensmooth.studies.spec import Claim, Options, Outcome, RunRecord, RunSpec, Study
from gensmooth.studies.verdicts import (
    AllOf,
    AnyOf,
    Case,
    Measure,
    Scores,
    Sentence,
    alike,
    better,
    counted,
)

__all__ = [
    "STUDIES",
    "AllOf",
    "AnyOf",
    "Case",
    "Cell",
    "Claim",
    "ClaimRow",
    "Measure",
    "Options",
    "Outcome",
    "Reproduced",
    "RunRecord",
    "RunSpec",
    "Scores",
    "Sentence",
    "Study",
    "Table",
    "alike",
    "better",
    "counted",
    "find_claim",
    "find_study",
    "judge_again",
    "reproduce",
    "run_study",
    "write_report",
]
