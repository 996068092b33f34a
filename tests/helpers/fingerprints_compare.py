"""How a fingerprint is compared with the recorded one.

On another type of processor, or with other versions of what computes, bits differ: there the
leading numbers are compared, and chaotic simulations not at all.
"""

import json
from collections.abc import Callable, Mapping
from importlib.metadata import version

import pytest

import fingerprints
from fingerprints import Fingerprint

RECORDED = json.loads(fingerprints.FILE.read_text())
SAME_MACHINE = fingerprints.machine() == RECORDED["machine"]
# float32 has seven digits, a few steps lose some; wrong formulas lose all.
ELSEWHERE = 1e-3


def compare(group: str, members: Mapping[str, Callable[[], Fingerprint]]) -> None:
    """Run members of a group, those whose packages are installed, and compare."""
    here = {name: run for name, run in members.items() if _is_runnable(group, name)}
    if not here:
        pytest.skip(f"{group}: a package is not installed, or has no release for this Python")
    recorded = RECORDED["groups"][group]
    found = {name: run() for name, run in here.items()}
    exact = [name for name in found if _has_same_bits(group, name)]
    changed = [name for name in exact if found[name] != recorded[name]]
    assert not changed, f"{len(changed)} of {len(found)} changed"
    for name in found.keys() - set(exact):
        now, then = found[name], recorded[name]
        for key in ("keys", "runs"):
            assert now.get(key) == then.get(key), name
        numbers, before = ([float(number) for number in run["lead"]] for run in (now, then))
        assert numbers == pytest.approx(before, rel=ELSEWHERE, abs=ELSEWHERE, nan_ok=True), name


def _is_runnable(group: str, name: str) -> bool:
    found = fingerprints.versions(*fingerprints.packages(group, name))
    return "none" not in found.values()


def _has_same_bits(group: str, name: str) -> bool:
    recorded = {**RECORDED["machine"], **RECORDED["packages"]}
    own = fingerprints.packages(group, name)
    return SAME_MACHINE and all(version(package) == recorded[package] for package in own)
