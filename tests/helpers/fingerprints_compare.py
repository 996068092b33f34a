"""How a fingerprint is compared with the recorded one.

On another type of processor, or with other versions of the numerical libraries, bits differ: there
the leading numbers are compared, and chaotic simulations are not compared.
"""

import json
from collections.abc import Callable, Mapping
from importlib.metadata import version

import pytest

import fingerprints
from fingerprints import Fingerprint

RECORDED = json.loads(fingerprints.FILE.read_text())
SAME_MACHINE = fingerprints.machine() == RECORDED["machine"]
# float32 has seven digits. A few steps lose some of them, a wrong formula loses all.
ELSEWHERE = 1e-3


def compare(group: str, members: Mapping[str, Callable[[], Fingerprint]]) -> None:
    """Run the cases of a group whose packages are installed, and compare them with the record."""
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
    packages = fingerprints.packages(group, name)
    return SAME_MACHINE and all(version(package) == recorded[package] for package in packages)
