"""Which tests are run: what `make test` runs, and what it leaves to `make test-all`.

Plain `pytest` runs everything for which the packages are installed.
"""

import os
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

# Some virtual machines announce AMX, a processor's units for matrices, and do not have it: there
# torch's first product in bfloat16 ends the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

ROOT = Path(__file__).parent

# The groups of tests that `make test` leaves to `make test-all`, and the files that belong to them
# as a whole. A single test of another file belongs to a group by `@pytest.mark.extended("group")`.
EXTENDED = {
    "torch": (
        "src/gensmooth/torch/*",
        "tests/test_torch_*.py",
        "tests/torch_*.py",
        "tests/test_network_example.py",
    ),
    "Warp": (
        "src/gensmooth/physics/*_kernels.py",
        "src/gensmooth/rl/environments/*_kernels.py",
        "tests/test_warp.py",
        "tests/test_fused.py",
        "tests/test_robots_fused.py",
    ),
    "reports, also in a browser": (
        "tests/test_report.py",
        "tests/test_overview.py",
        "tests/test_demo.py",
    ),
    "films": (),
    "records of whole studies, and every robot term by term": ("tests/test_physics_compare.py",),
    "soak tests and fuzzers": ("tests/test_soak.py",),
    "misbehaving objectives": (
        "tests/test_evaluators_hostile.py",
        "tests/test_evaluators_resources.py",
    ),
    "faults on a Ray cluster": (),
    "Nevergrad and Optuna": ("tests/test_nevergrad_methods.py", "tests/test_optuna.py"),
    "trackers": (),  # TensorBoard, MLflow, Weights & Biases
    "documentation, examples and packaging": (
        "tests/test_docs.py",
        "tests/test_*_docs.py",
        "tests/test_examples.py",
        "tests/test_contributing.py",
        "tests/test_contributing_physics.py",
        "tests/test_studies_contributing.py",
        "tests/test_network_page.py",
        "tests/test_walks.py",
        "tests/test_packaging.py",
        "tests/test_coco_benchmark.py",
    ),
}

# Files that cannot even be read without a package.
_NEEDED = {
    "src/gensmooth/torch/*": "torch",
    "src/gensmooth/torch/gpu*.py": "triton",
    "src/gensmooth/physics/*_kernels.py": "warp",
    "src/gensmooth/rl/environments/*_kernels.py": "warp",
    "tests/test_torch_*.py": "torch",
    "tests/torch_*.py": "torch",
    "tests/torch_triton.py": "triton",
    "tests/torch_radii.py": "triton",
    # The extra `rl` is empty where MuJoCo has no release for this Python.
    "tests/test_rl_*.py": "mujoco",
    "tests/test_studies_rl*.py": "mujoco",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--core`` and ``--extended``."""
    parser.addoption("--core", action="store_true", help="what `make test` runs")
    parser.addoption(
        "--extended", action="store_true", help="what `make test-all` runs beyond that"
    )


@cache
def _group_of(path: Path) -> str | None:
    """The group that a file belongs to as a whole."""
    for group, patterns in EXTENDED.items():
        if _matches(path, patterns):
            return group
    return None


@cache
def _unreadable() -> list[str]:
    return [pattern for pattern, package in _NEEDED.items() if find_spec(package) is None]


def _matches(path: Path, patterns: Sequence[str]) -> bool:
    return path.is_relative_to(ROOT) and any(path.relative_to(ROOT).match(p) for p in patterns)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that lack a package, and with ``--core`` those of the groups above."""
    if collection_path.is_dir():
        return None
    if _matches(collection_path, _unreadable()):
        return True
    if config.getoption("--core") and _group_of(collection_path) is not None:
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that were asked for."""
    core, extended = config.getoption("--core"), config.getoption("--extended")
    if core == extended:
        return
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        marker = item.get_closest_marker("extended")
        if marker is not None and marker.args[0] not in EXTENDED:
            raise pytest.UsageError(f"{item.nodeid}: there is no group {marker.args[0]!r}.")
        belongs = marker is not None or _group_of(item.path) is not None
        (kept if belongs == extended else left).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """List what was left out, and the command that runs it."""
    if config.getoption("--core"):
        groups = "; ".join(EXTENDED)
        terminalreporter.write_line(f"\nNot part of `make test`, and not run: {groups}.")
        terminalreporter.write_line("To run them: make test-all")
