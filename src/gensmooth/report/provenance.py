"""What was run: configuration, seeds, versions and times, in words."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

from gensmooth._version import __version__
from gensmooth.studies.spec import Outcome

Facts = list[tuple[str, str]]


def versions() -> Facts:
    """Of the interpreter and of what the numbers depend on."""
    found = [("gensmooth", __version__), ("Python", platform.python_version())]
    packages = ("numpy", "numba", "scipy", "nevergrad", "mujoco", "gymnasium", "metaworld")
    for name in (*packages, "matplotlib"):
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return [*found, ("platform", f"{platform.system()} {platform.machine()}")]


def provenance(outcome: Outcome) -> Facts:
    """What is known of how a study was run."""
    options = asdict(outcome.options)
    rows: Facts = [(name, _words(value)) for name, value in options.items() if value is not None]
    records = outcome.records
    rows.append(("reporting runs", str(len(records))))
    seeds = sorted({record.config["seed"] for record in records if "seed" in record.config})
    if seeds:
        rows.append(("reporting seeds", f"{len(seeds)}: {_ranges(seeds)}"))
    ended = sum(record.diverged for record in records)
    if ended:
        rows.append(("diverged", f"{ended} of {len(records)}"))
    seconds = sum(record.seconds for record in records)
    if seconds:
        rows.append(("time of the runs", f"{seconds:.1f} s in all"))
    common = _common([record.config for record in records])
    if common:
        rows.append(("the same in all runs", ", ".join(f"{k} = {v}" for k, v in common.items())))
    # What the study says of itself goes before what is worked out here.
    stated = {str(name): _words(value) for name, value in outcome.facts.items()}
    return list((dict(rows) | stated).items())


def _common(configs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The entries that all configurations share."""
    if len(configs) < 2:
        return {}
    return {
        key: _words(value)
        for key, value in configs[0].items()
        if all(key in config and config[key] == value for config in configs)
    }


def _words(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return ", ".join(f"{k}: {_words(v)}" for k, v in items)
    if isinstance(value, (list, tuple)):
        parts = cast("Sequence[Any]", value)
        nested = [f"({_words(p)})" if isinstance(p, (list, tuple)) else _words(p) for p in parts]
        return ", ".join(nested) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _ranges(numbers: Sequence[Any]) -> str:
    """Whole numbers with their runs joined.

    >>> _ranges([0, 1, 2, 3, 7, 9, 10])
    '0–3, 7, 9, 10'
    """
    parts: list[str] = []
    run: list[Any] = []
    for number in [*numbers, None]:
        if run and (number is None or number != run[-1] + 1):
            parts += [f"{run[0]}–{run[-1]}"] if len(run) > 2 else [str(n) for n in run]
            run = []
        run.append(number)
    return ", ".join(parts)
