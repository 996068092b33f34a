"""Settings shared by all tests."""

import signal
from importlib.util import find_spec

from hypothesis import settings

# The same examples every time, however busy the machine is; no files left behind.
settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")

# A shell that starts the tests in the background lets them ignore Ctrl-C, and they would hand that
# on to every process whose Ctrl-C they test.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The extra `rl` is empty where MuJoCo has no release for this Python; then its tests have nothing
# to test. Everywhere else a missing package is a failure, as it should be.
collect_ignore_glob = [] if find_spec("mujoco") else ["test_rl_*.py", "test_studies_rl*.py"]
if not find_spec("triton"):
    # they are run by tests, which say that it is missing
    collect_ignore_glob += ["torch_triton.py", "torch_radii.py"]
