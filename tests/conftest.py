"""Settings shared by all tests."""

import os
import signal

import pytest
from hypothesis import settings

import warm_python

# The same examples every time, however busy the machine is; no files left behind.
settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")

# A shell that starts the tests in the background lets them ignore Ctrl-C, and they would hand that
# on to every process whose Ctrl-C they test.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_warm = warm_python.install()


@pytest.fixture
def fresh_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that this test starts are fresh interpreters, not forks of a warm one."""
    if _warm is not None:
        monkeypatch.setattr(_warm, "enabled", False)


# Ray's workers give way to all else on a machine, by a niceness of 15; here tests wait for them.
os.environ.setdefault("RAY_worker_niceness", "0")

# Workers of pytest take whole files, in this order. First those that compile most kernels in their
# own process, which processes of others then find compiled; then those that take a minute and more,
# so that no worker is left alone with one at the end. Those that can use what CI makes beside the
# tests (pages of the gallery, kernels for Warp) come when it is there, before the many short ones
# of src.
FIRST = (
    "test_evaluators_identity.py",
    "test_directions.py",
    "test_estimators.py",
    "test_evaluators_hostile.py",
    "test_evaluators_ray.py",
    "test_evaluators_faults.py",
    "test_cli.py",
    "test_soak.py",
    "test_fingerprints.py",
    "test_jax.py",
    "test_contributing.py",
    "test_comparisons.py",
)
LATE = ("test_examples.py", "test_fused.py", "test_warp.py", "test_mechanics.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = __file__.removesuffix("conftest.py")

    def turn(item: pytest.Item) -> int:
        if not str(item.path).startswith(here):
            return len(FIRST) + 1 + len(LATE)
        if item.path.name in FIRST:
            return FIRST.index(item.path.name)
        return len(FIRST) + 1 + LATE.index(item.path.name) if item.path.name in LATE else len(FIRST)

    items.sort(key=turn)
