"""Settings shared by all tests."""

from hypothesis import settings

# The same examples every time, however busy the machine is; no files left behind.
settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")
