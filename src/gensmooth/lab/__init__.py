"""Experiments: the paper's studies and custom ones, comparisons, sweeps, and their pages.

A study is a :class:`Study`, a deterministic list of runs. :func:`run_study` executes the missing
runs and judges the claims, and :func:`write_report` writes the page. docs/contributing/study.md
shows how to add one.
"""

from gensmooth.lab.experiments.options import GridOptions, Options, SeededOptions, option
from gensmooth.lab.experiments.registry import STUDIES, find_claim, find_study
from gensmooth.lab.experiments.spec import Claim, Outcome, RunRecord, RunSpec, Study
from gensmooth.lab.experiments.study import run_study
from gensmooth.lab.experiments.verdicts import (
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
from gensmooth.lab.paper.page import judge_again, write_report
from gensmooth.lab.paper.reproduce import Reproduced, reproduce
from gensmooth.lab.report.tables import Cell, ClaimRow, Table

__all__ = [
    "STUDIES",
    "AllOf",
    "AnyOf",
    "Case",
    "Cell",
    "Claim",
    "ClaimRow",
    "GridOptions",
    "Measure",
    "Options",
    "Outcome",
    "Reproduced",
    "RunRecord",
    "RunSpec",
    "Scores",
    "SeededOptions",
    "Sentence",
    "Study",
    "Table",
    "alike",
    "better",
    "counted",
    "find_claim",
    "find_study",
    "judge_again",
    "option",
    "reproduce",
    "run_study",
    "write_report",
]
