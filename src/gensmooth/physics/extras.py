"""The error for a package of the extra ``rl`` that is not installed."""

import sys


def missing_extra(error: ImportError) -> ImportError:
    """Return the error to raise when a package of the extra ``rl`` cannot be imported.

    Args:
        error: The error that Python raised.
    """
    remedy = "pip install 'gensmooth[rl]'"
    if sys.version_info >= (3, 14):
        remedy = (
            f"it has no release for Python {sys.version_info[0]}.{sys.version_info[1]} that "
            f"Meta-World can use, so use Python 3.11 to 3.13 and {remedy}"
        )
    return ImportError(
        f"Reinforcement learning needs {error.name or 'Gymnasium and MuJoCo'}: {remedy}",
        name=error.name,
    )
