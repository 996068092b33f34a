"""Settings shared by all tests."""

import gc
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


def pytest_configure(config: pytest.Config) -> None:
    """Fork processes from a warm interpreter; `make test-all` starts fresh ones, as users do."""
    gc.disable()  # collecting the tests creates half a million objects that stay until the end
    if not config.getoption("--extended"):
        warm_python.install()


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at the modules of all tests again and again."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def fresh_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that this test starts are fresh interpreters, not forks of a warm one."""
    if warm_python.installed is not None:
        monkeypatch.setattr(warm_python.installed, "enabled", False)


# It registers a method when it is imported, which looking for doctests does.
collect_ignore = ["search_cases.py"]

# Ray's workers give way to all else on a machine, by a niceness of 15; here tests wait for them.
os.environ.setdefault("RAY_worker_niceness", "0")

# XLA spends most of its time on optimising programs that the tests run once.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# Workers of pytest take whole files, in this order. The first file compiles the kernels of all
# directions, which takes longer than anything else. The other worker begins with files that need
# other kernels, so that nothing is compiled twice. Then come the files that take longest, so that
# no worker is left alone with one at the end.
FIRST = (
    "test_directions.py",
    "test_rl_metaworld.py",
    "test_evaluators_identity.py",
    "test_rl_own.py",
    "test_rl_legged.py",
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = __file__.removesuffix("conftest.py")

    def turn(item: pytest.Item) -> int:
        if item.path.name in FIRST:
            return FIRST.index(item.path.name)
        return len(FIRST) + (not str(item.path).startswith(ours))  # examples of src at the end

    items.sort(key=turn)
