# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
# pyright: reportCallIssue=false
# ruff: noqa: ARG001 (the arguments of an intrinsic are Numba's choice)
"""C functions and an atomic counter in compiled code.

Addresses travel as arguments and are never part of the machine code, so that the code can be
cached on disk and used by the next process, where MuJoCo lies elsewhere.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic


class Physics(NamedTuple):
    """One MjData, its model, and what can be called on them, as ``call(physics.step, physics)``.

    Attributes:
        model: The address of the mjModel.
        data: The address of the mjData.
        step: The address of ``mj_step``.
        forward: That of ``mj_forward``.
        reset: That of ``mj_resetData``.
        forces: That of ``mj_rnePostConstraint``.
        warnings: MuJoCo's counters of positions, velocities, accelerations and controls that were
            not finite or too large: where one is not zero, the simulation broke down.
    """

    model: int
    data: int
    step: int
    forward: int
    reset: int
    forces: int
    warnings: np.ndarray


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
    """Call one of MuJoCo's functions, given by its address, on a model and its data."""
    _call(function, physics.model, physics.data)


@intrinsic
def _add_one(typingctx, counter):
    """Add one to ``counter[0]`` and return what it was; no two threads get the same."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(counter), generate


@njit(nogil=True)
def take(counter):
    """The next number that no other thread has taken; ``counter`` is an int64 array of one."""
    return _add_one(counter)
