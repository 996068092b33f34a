# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
"""Drivers that run the physics on a device: the fused function of a robot, or MuJoCo Warp.

Both move worlds whose numbers are in :class:`~.warp_kernels.Worlds`. :class:`FusedPhysics` computes
in float64, needs only Warp and is many times faster. It supports hinges, slides and free joints,
and contacts between planes, spheres and capsules. :class:`MujocoWarpPhysics` runs every model that
MuJoCo Warp supports, in float32.
"""

import math
from functools import cache
from importlib import import_module
from typing import Any, Protocol, final

import numpy as np

from gensmooth.physics.fused.lanes import count_local_numbers
from gensmooth.physics.fused.outputs import FUSED_DATA
from gensmooth.physics.fused.source import FusedSource, fused
from gensmooth.physics.mechanics.mechanism import Mechanism
from gensmooth.physics.mechanics.models import UnsupportedMechanismError
from gensmooth.physics.mujoco_calls import quiet
from gensmooth.physics.symbols import one_at_a_time
from gensmooth.physics.tracing import DATA, DERIVED, PRIMARY, Traced, reads

_GROUPS = 1  # groups of 32 threads per multiprocessor of the GPU; more would share its cache
_STACK = 1 << 21  # bytes that a CPU thread may use for its worlds
_LOCAL_MEMORY = 1 << 19  # the most bytes of local memory that CUDA gives a thread
_CONTACTS, _CONSTRAINTS = 24, 96  # initial room per world; doubled when it is too small


@cache
def load_warp() -> Any:
    """Import Warp, or raise an error that says what to install."""
    warp = _load(
        "warp",
        "A device other than 'cpu'",
        "pip install 'gensmooth[rl,cuda]'. device='cpu' does not need it.",
    )
    if warp.config.log_level == warp.LOG_INFO:  # it prints a line for every kernel
        warp.config.log_level = warp.LOG_WARNING
    # On x86, all threads share one pointer to a kernel's stack memory, so a thread that ends may
    # take it from one that starts. Our kernels do not need this memory. `None` enables it only
    # where each thread has its own.
    warp.config.enable_tiles_in_stack_memory = None
    return warp


@cache
def load_mujoco_warp() -> Any:
    """Import MuJoCo Warp, or raise an error that says what to install."""
    return _load(
        "mujoco_warp",
        "MuJoCo Warp",
        "pip install 'gensmooth[gpu]' in a separate environment, because it needs a newer MuJoCo "
        "than Meta-World can use. device='cpu' runs every model.",
    )


def _load(name: str, feature: str, remedy: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        missing = error.name or name
        raise ImportError(f"{feature} needs {missing}: {remedy}", name=missing) from None


@cache
def lanes_of_a_core() -> int:
    """Return how many worlds a core of this machine moves side by side.

    Eight if a register holds eight numbers; otherwise four, in one register or in two.
    """
    try:
        features = import_module("llvmlite.binding").get_host_cpu_features()
    except RuntimeError:  # LLVM does not know this processor
        return 4
    return 8 if features.get("avx512f") else 4


def sizes(model: Any) -> dict[str, int]:
    """Return the size of each array of MuJoCo's data, for one world."""
    known = {
        "qpos": model.nq,
        "qvel": model.nv,
        "act": model.na,
        "ctrl": model.nu,
        "sensordata": model.nsensordata,
        "xpos": 3 * model.nbody,
        "xquat": 4 * model.nbody,
        "site_xpos": 3 * model.nsite,
        "geom_xpos": 3 * model.ngeom,
        "subtree_com": 3 * model.nbody,
        "cinert": 10 * model.nbody,
        "cvel": 6 * model.nbody,
        "qfrc_actuator": model.nv,
        "qfrc_constraint": model.nv,
        "cfrc_ext": 6 * model.nbody,
    }
    return {name: int(known[name]) for name in DATA}


class DevicePhysics(Protocol):
    """The interface of a driver: moves worlds.

    Attributes:
        forces_at_start: Whether :meth:`forward` computes ``cfrc_ext``, as MuJoCo does for sensors.
    """

    forces_at_start: bool

    def step(self) -> None:
        """Move all worlds that have a trial by one environment step."""
        ...

    def forward(self) -> None:
        """Compute the derived arrays of worlds that have just been placed, as ``mj_forward``."""
        ...

    def complete(self) -> bool:
        """Return whether there was room for every contact since :meth:`begin`."""
        ...

    def begin(self) -> None:
        """Prepare for a batch of episodes."""
        ...


@final
class FusedPhysics:
    """The fused function, in float64: one world per thread, on a CPU several side by side.

    Args:
        source: The physics as C.
        worlds: The worlds, a :class:`~.warp_kernels.Worlds`.
    """

    def __init__(self, source: FusedSource, worlds: Any) -> None:
        self.forces_at_start = False
        self._s, self._wp = worlds, load_warp()
        self._kernels = _compiled(source)

        # The 32 threads of a group wait for each other wherever their worlds branch differently, so
        # a group gets fewer worlds if there is room. Worlds are dealt to groups in turn, because
        # the first worlds are those that have a trial.
        device, number = self._wp.get_device(), worlds.worlds
        room = device.sm_count * _GROUPS if device.is_cuda else 1
        self._groups = max(math.ceil(number / 32), min(number, room))
        self._lanes = source.lanes

    @property
    def module(self) -> Any:
        """The Warp module of the step."""
        return self._kernels.step.module

    def step(self) -> None:
        """See :class:`DevicePhysics`."""
        launch, kernel = self._wp.launch, self._kernels.step
        if self._lanes > 1:
            launch(kernel, dim=self._s.worlds // self._lanes, inputs=[self._s])
        else:
            launch(kernel, dim=32 * self._groups, inputs=[self._s, self._groups], block_dim=32)

    def forward(self) -> None:
        """See :class:`DevicePhysics`."""
        self._wp.launch(self._kernels.forward, dim=self._s.worlds, inputs=[self._s])

    def begin(self) -> None:
        """See :class:`DevicePhysics`."""

    def complete(self) -> bool:
        """See :class:`DevicePhysics`."""
        return True


@cache
def _compiled(source: FusedSource) -> Any:
    shared: Any = import_module("gensmooth.physics.warp_kernels")
    return shared.physics_kernels(source)


@one_at_a_time
def write_fused(model: Any, law: Traced, lanes: int = 1, *, cuda: bool = False) -> FusedSource:
    """Write the physics of a robot as C.

    Args:
        model: The ``MjModel``.
        law: The law of the environment.
        lanes: The largest number of worlds side by side; fewer if a thread has no room for them.
        cuda: Whether it is for a GPU.

    Raises:
        UnsupportedMechanismError: If the model or the law has an unsupported feature, or more
            contacts than a thread has room for.
    """
    read = reads(law)
    for key in read:
        if key.array not in FUSED_DATA:
            raise UnsupportedMechanismError(f"an environment that reads `{key.array}`")
        if key.array == "cfrc_ext" and model.nsensor:
            raise UnsupportedMechanismError("contact forces beside sensors")
    source = fused(Mechanism(model), law.calls, read)
    room = (_LOCAL_MEMORY if cuda else _STACK) // (8 * count_local_numbers(source.step))
    if not room:
        raise UnsupportedMechanismError("more possible contacts than a thread has room for")
    while lanes > room:
        lanes //= 2
    return source._replace(lanes=lanes)


class ContactRoom:
    """How many contacts and constraints each world of MuJoCo Warp has room for."""

    def __init__(self) -> None:
        self.contacts, self.constraints = _CONTACTS, _CONSTRAINTS

    def double(self) -> None:
        """Double the room."""
        self.contacts *= 2
        self.constraints *= 2


@final
class MujocoWarpPhysics:
    """MuJoCo Warp, in float32.

    Args:
        model: The ``MjModel``.
        law: The law of the environment.
        worlds: The worlds, a :class:`~.warp_kernels.Worlds`.
        room: How many contacts and constraints a world has room for.
        deterministic: Whether sums run in a fixed order.
    """

    def __init__(
        self, model: Any, law: Traced, worlds: Any, room: ContactRoom, deterministic: bool
    ) -> None:
        self._s, self._wp, self._mjw = worlds, load_warp(), load_mujoco_warp()
        self._calls = law.calls
        with quiet():
            self._model = self._mjw.put_model(model)
            if deterministic:
                self._model.opt.deterministic = self._mjw.DeterminismType.ALL
            self._model.opt.warn_overflow = 0  # `complete` reports it
            self._data = self._mjw.make_data(
                model, nworld=worlds.worlds, nconmax=room.contacts, njmax=room.constraints
            )
        self.forces_at_start = bool(self._model.sensor_rne_postconstraint)
        self._shared: Any = import_module("gensmooth.physics.warp_kernels")
        width, read = sizes(model), {key.array for key in reads(law)}
        self._in = [(name, width[name], name) for name in PRIMARY if width[name]]
        self._in.append(("warm", width["qvel"], "qacc_warmstart"))
        derived = [(name, width[name], name) for name in DERIVED if name in read and width[name]]
        self._out = [each for each in self._in if each[0] != "ctrl"] + derived
        self._derived = derived

    def step(self) -> None:
        """See :class:`DevicePhysics`."""
        self._exchange(self._in, to_theirs=True)
        for call in self._calls:
            if call == "step":
                self._mjw.step(self._model, self._data)
            else:
                self._mjw.rne_postconstraint(self._model, self._data)
        self._exchange(self._out, to_theirs=False)

    def forward(self) -> None:
        """See :class:`DevicePhysics`."""
        self._exchange(self._in, to_theirs=True)
        self._mjw.forward(self._model, self._data)
        self._exchange(self._derived, to_theirs=False)

    def begin(self) -> None:
        """See :class:`DevicePhysics`."""
        self._data.overflow.zero_()

    def complete(self) -> bool:
        """See :class:`DevicePhysics`."""
        return not self._data.overflow.numpy().any()

    def _exchange(self, arrays: list[tuple[str, int, str]], *, to_theirs: bool) -> None:
        for ours, width, theirs in arrays:
            array = getattr(self._data, theirs)
            count = array.strides[0] // 4 * self._s.worlds
            flat = self._wp.array(
                ptr=array.ptr, dtype=self._wp.float32, shape=(count,), device=array.device
            )
            self._wp.launch(
                self._shared.exchange,
                dim=(width, self._s.worlds),
                inputs=[getattr(self._s, ours), flat, width, int(to_theirs)],
            )


def qpos0(model: Any) -> Any:
    """Return the model's initial positions, on the device."""
    wp = load_warp()
    return wp.array(np.asarray(model.qpos0, np.float64), dtype=wp.float64)
