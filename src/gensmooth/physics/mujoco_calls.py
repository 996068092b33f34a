# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
# pyright: reportCallIssue=false
# ruff: noqa: ARG001 (Numba decides which arguments an intrinsic has)
"""Call MuJoCo's C functions from code that Numba compiles.

The addresses of the functions are arguments and never part of the machine code. So the code can be
cached on disk and used by another process, in which MuJoCo is loaded at another address.
"""

import ctypes
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from gensmooth.physics.extras import missing_extra

_BROKEN = ("mjWARN_BADQPOS", "mjWARN_BADQVEL", "mjWARN_BADQACC", "mjWARN_BADCTRL")
_LIBRARIES = {"win32": "mujoco*.dll", "darwin": "libmujoco*.dylib"}


class Physics(NamedTuple):
    """An mjModel, an mjData, and the functions to call on them: ``call(physics.step, physics)``.

    Attributes:
        model: The address of the mjModel.
        data: The address of the mjData.
        step: The address of ``mj_step``.
        forward: The address of ``mj_forward``.
        reset: The address of ``mj_resetData``.
        forces: The address of ``mj_rnePostConstraint``.
        warnings: MuJoCo's counters of positions, velocities, accelerations and controls that were
            not finite or too large. If one is not zero, the simulation has diverged.
    """

    model: int
    data: int
    step: int
    forward: int
    reset: int
    forces: int
    warnings: np.ndarray


def physics(model: Any, data: Any) -> Physics:
    """Return the addresses for an ``MjModel`` and an ``MjData``; the caller keeps both alive."""
    kinds = [int(getattr(load_mujoco().mjtWarning, name)) for name in _BROKEN]
    return Physics(
        model=int(model._address),
        data=int(data._address),
        step=address("mj_step"),
        forward=address("mj_forward"),
        reset=address("mj_resetData"),
        forces=address("mj_rnePostConstraint"),
        warnings=data.warning.number[min(kinds) : max(kinds) + 1],
    )


# --- called by compiled code --------------------------------------------------------------------


@intrinsic
def _call(typingctx, function, model, data):
    """Call a C function ``void f(void*, void*)``."""

    def generate(context, builder, signature, arguments):
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, pointer])
        target = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(target, [builder.inttoptr(value, pointer) for value in arguments[1:]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@njit(nogil=True)
def call(function, physics):
    """Call the MuJoCo function at an address on a model and its data."""
    _call(function, physics.model, physics.data)


@intrinsic
def _add_one(typingctx, counter):
    """Add one to ``counter[0]`` atomically and return its old value."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(counter), generate


@njit(nogil=True)
def take(counter):
    """Return the next number that no other thread has; ``counter`` has one int64."""
    return _add_one(counter)


# --- the shared library -------------------------------------------------------------------------


@cache
def load_mujoco() -> Any:
    """Import ``mujoco``; if it cannot be used, raise an error that says what to install."""
    try:
        import mujoco
    except ModuleNotFoundError as error:
        raise missing_extra(error) from error
    module: Any = mujoco
    if not hasattr(getattr(module, "MjData", None), "_address"):
        raise _unusable(module, "its MjData does not expose its address")
    return module


def address(name: str) -> int:
    """Return the address of a function of MuJoCo."""
    return ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value or 0


@cache
def _library() -> ctypes.CDLL:
    """Return the shared library that the ``mujoco`` module has loaded."""
    module = load_mujoco()
    pattern = _LIBRARIES.get(sys.platform, "libmujoco.so*")
    libraries = sorted(Path(module.__file__).parent.glob(pattern))
    if not libraries:
        raise _unusable(module, f"there is no {pattern} beside its Python module")
    return ctypes.CDLL(str(libraries[0]))


def _unusable(module: Any, reason: str) -> ImportError:
    version = getattr(module, "__version__", "of unknown version")
    return ImportError(
        f"The compiled environments cannot use the installed MuJoCo {version}: {reason}. "
        "pip install 'gensmooth[rl]' installs a version that works; fast=False works with any.",
        name="mujoco",
    )


_Handler = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


def _ignore(_: bytes) -> None:
    pass


_SILENT = _Handler(_ignore)
_LOCK = threading.Lock()
_handlers: list[int | None] = []  # the handler to restore, once for each active `quiet`


@contextmanager
def quiet() -> Generator[None]:
    """Keep MuJoCo from printing warnings and writing MUJOCO_LOG.TXT; we check its counters."""
    handler = ctypes.c_void_p.in_dll(_library(), "mju_user_warning")
    with _LOCK:
        _handlers.append(_handlers[0] if _handlers else handler.value)
        handler.value = ctypes.cast(_SILENT, ctypes.c_void_p).value
    try:
        yield
    finally:
        with _LOCK:
            before = _handlers.pop()
            if not _handlers:
                handler.value = before
