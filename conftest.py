"""Which tests are run, in which order, and with which settings.

`make test` runs some tests and leaves the others to `make test-all`. Plain `pytest` runs everything
for which the packages are installed. The folders of tests have the names of those in src/gensmooth;
`foundations`, `choices` and `integrations` test modules that are single files, and `project` the
repository itself. Shared code is in tests/helpers.
"""

import gc
import os
import signal
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

import warm_python

# Some virtual machines claim to have AMX, a processor's matrix units, and do not: there torch's
# first product in bfloat16 kills the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

# Ray gives its workers a niceness of 15, but the tests wait for them.
os.environ.setdefault("RAY_worker_niceness", "0")

# By default XLA spends most of its time optimising programs that the tests run once.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# The same examples every time, however busy the machine is; no files left behind.
settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")

# A shell makes background jobs ignore Ctrl-C, and child processes inherit that, also those whose
# reaction to Ctrl-C is tested.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent
collect_ignore_glob = ["tests/helpers/*", "tests/smoke.py"]  # they have no tests

# The groups of tests that `make test` leaves to `make test-all`, and the files that belong to them
# as a whole. A single test of another file belongs to a group by `@pytest.mark.extended("group")`.
EXTENDED = {
    "torch": (
        "src/gensmooth/torch/*",
        "tests/torch/*",
    ),
    "Warp": (
        "src/gensmooth/physics/*_kernels.py",
        "src/gensmooth/rl/environments/*_kernels.py",
        "tests/rl/test_warp.py",
        "tests/physics/test_fused.py",
        "tests/physics/test_robots_fused.py",
    ),
    "reports, also in a browser": (
        "tests/lab/test_report.py",
        "tests/lab/test_overview.py",
        "tests/lab/test_demo.py",
    ),
    "films": (),
    "records of whole studies, and every robot term by term": (
        "tests/physics/test_physics_compare.py",
    ),
    "soak tests and fuzzers": ("tests/project/test_soak.py",),
    "misbehaving objectives": (
        "tests/evaluators/test_evaluators_hostile.py",
        "tests/evaluators/test_evaluators_resources.py",
    ),
    "faults on a Ray cluster": (),
    "Nevergrad and Optuna": (
        "src/gensmooth/nevergrad.py",
        "src/gensmooth/optuna.py",
        "tests/integrations/test_nevergrad_methods.py",
        "tests/integrations/test_optuna.py",
    ),
    "trackers": (),  # TensorBoard, MLflow, Weights & Biases
    "documentation, examples and packaging": (
        "tests/project/test_docs.py",
        "tests/*/test_*_docs.py",
        "tests/project/test_examples.py",
        "tests/project/test_contributing.py",
        "tests/project/test_contributing_physics.py",
        "tests/project/test_studies_contributing.py",
        "tests/lab/test_network_page.py",
        "tests/project/test_walks.py",
        "tests/project/test_packaging.py",
        "tests/lab/test_coco_benchmark.py",
    ),
}

# Files that cannot even be read without a package.
_NEEDED = {
    "src/gensmooth/torch/*": "torch",
    "src/gensmooth/torch/gpu*.py": "triton",
    "src/gensmooth/physics/*_kernels.py": "warp",
    "src/gensmooth/rl/environments/*_kernels.py": "warp",
    "tests/torch/*": "torch",
    # The extra `rl` is empty where MuJoCo has no release for this Python.
    "tests/rl/test_rl_*.py": "mujoco",
    "tests/lab/test_studies_rl*.py": "mujoco",
}

# Workers of pytest take whole files, in this order. The first file compiles the kernels of all
# directions, which takes longer than anything else. Meanwhile the other worker takes files that
# need other kernels, those of the simulators, so that nothing is compiled twice. Then come the
# files that take longest, so that no worker is left alone with one at the end.
FIRST = (
    "test_directions.py",
    "test_rl_metaworld.py",
    "test_rl_legged.py",
    "test_rl_own.py",
    "test_evaluators_identity.py",
    "test_jax.py",
    "test_evaluators_hostile.py",
    "test_fingerprints.py",
    "test_evaluators_ray.py",
    "test_soak.py",
    "test_warp.py",
    "test_contributing.py",
    "test_estimators.py",
    "test_evaluators_faults.py",
    "test_cli.py",
    "test_comparisons.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--core`` and ``--extended``."""
    parser.addoption("--core", action="store_true", help="what `make test` runs")
    parser.addoption(
        "--extended", action="store_true", help="what `make test-all` runs beyond that"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Fork processes from a warm interpreter; `make test-all` starts fresh ones, as users do."""
    gc.disable()  # collecting the tests creates half a million objects that stay until the end
    if not config.getoption("--extended"):
        warm_python.install()


def pytest_collection_finish() -> None:
    """Exempt the modules of all tests from garbage collection."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def fresh_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that this test starts are fresh interpreters, not forks of a warm one."""
    if warm_python.installed is not None:
        monkeypatch.setattr(warm_python.installed, "enabled", False)


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
    """Keep the tests that were asked for, in the order of ``FIRST``."""
    items.sort(key=_turn)
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


def _turn(item: pytest.Item) -> int:
    if item.path.name in FIRST:
        return FIRST.index(item.path.name)
    return len(FIRST) + (not item.path.is_relative_to(ROOT / "tests"))  # examples of src at the end


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """List what was left out, and the command that runs it."""
    if config.getoption("--core"):
        groups = "; ".join(EXTENDED)
        terminalreporter.write_line(f"\nNot part of `make test`, and not run: {groups}.")
        terminalreporter.write_line("To run them: make test-all")
        missing = {_NEEDED[each] for each in _unreadable() if _group_of(ROOT / each) is None}
        for package in sorted(missing):
            terminalreporter.write_line(f"Not run, because {package} is not installed: its tests.")
