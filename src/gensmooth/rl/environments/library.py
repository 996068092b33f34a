"""MuJoCo's shared library: where its functions are, whether we can use it, what it prints."""

import ctypes
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from gensmooth.rl.environments.base import missing_extra
from gensmooth.rl.environments.native import Physics

_BAD = ("mjWARN_BADQPOS", "mjWARN_BADQVEL", "mjWARN_BADQACC", "mjWARN_BADCTRL")
_LIBRARIES = {"win32": "mujoco*.dll", "darwin": "libmujoco*.dylib"}


@cache
def load() -> Any:
    """The ``mujoco`` module, or an error that says what to install."""
    try:
        import mujoco
    except ModuleNotFoundError as error:
        raise missing_extra(error) from error
    module: Any = mujoco
    if not hasattr(getattr(module, "MjData", None), "_address"):
        raise _unusable(module, "its MjData does not tell its address")
    return module


def physics(model: Any, data: Any) -> Physics:
    """The addresses for an ``MjModel`` and an ``MjData``; both must be kept alive."""
    kinds = [int(getattr(load().mjtWarning, name)) for name in _BAD]
    return Physics(
        model=int(model._address),
        data=int(data._address),
        step=address("mj_step"),
        forward=address("mj_forward"),
        reset=address("mj_resetData"),
        forces=address("mj_rnePostConstraint"),
        warnings=data.warning.number[min(kinds) : max(kinds) + 1],
    )


def address(name: str) -> int:
    """The address of a function of MuJoCo."""
    return ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value or 0


@cache
def _library() -> ctypes.CDLL:
    """The very library that the ``mujoco`` module has loaded."""
    module = load()
    pattern = _LIBRARIES.get(sys.platform, "libmujoco.so*")
    found = sorted(Path(module.__file__).parent.glob(pattern))
    if not found:
        raise _unusable(module, f"there is no {pattern} beside its Python module")
    return ctypes.CDLL(str(found[0]))


def _unusable(module: Any, reason: str) -> ImportError:
    version = getattr(module, "__version__", "of unknown version")
    return ImportError(
        f"The compiled environments cannot use the installed MuJoCo {version}: {reason}. "
        "pip install 'gensmooth[rl]' brings one that works; fast=False does without.",
        name="mujoco",
    )


_Handler = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


def _ignore(_: bytes) -> None:
    pass


_SILENT = _Handler(_ignore)
_LOCK = threading.Lock()
_before: list[int | None] = []  # the handlers to go back to; one entry for each who wants quiet


@contextmanager
def quiet() -> Generator[None]:
    """Keep MuJoCo from printing warnings and writing MUJOCO_LOG.TXT: we look at its counters."""
    handler = ctypes.c_void_p.in_dll(_library(), "mju_user_warning")
    with _LOCK:
        _before.append(_before[0] if _before else handler.value)
        handler.value = ctypes.cast(_SILENT, ctypes.c_void_p).value
    try:
        yield
    finally:
        with _LOCK:
            before = _before.pop()
            if not _before:
                handler.value = before
