# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""Custom robots: a MuJoCo model and three plain functions become a fast simulator.

Numba compiles the functions for training. For films and comparisons they run as plain Python. In
both cases they receive a :class:`Robot` with MuJoCo's arrays.
"""

import inspect
import sys
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast, final

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from gensmooth import checks, naming
from gensmooth.physics import registry
from gensmooth.physics.environment import CompiledEnvironment
from gensmooth.physics.mujoco_calls import Physics, call, load_mujoco, physics, quiet
from gensmooth.physics.registry import GymnasiumSpec

Array = NDArray[np.float64]

_UNSET = np.zeros(0)


class Robot(NamedTuple):
    """The argument of a robot's functions: MuJoCo's arrays, under MuJoCo's names.

    Positions of bodies, sites and geoms, and the sensors, are those at the beginning of the last
    physics step; ``qpos`` and ``qvel`` are those at its end.

    Attributes:
        qpos: Positions of the joints.
        qvel: Velocities of the joints.
        before: ``qpos`` before the last step of the environment.
        ctrl: The controls.
        act: The state of the actuators.
        sensordata: The sensors of the model.
        xpos: Positions of the bodies, one row of three for each.
        xquat: Their orientations, one row of four for each.
        site_xpos: Positions of the sites.
        geom_xpos: Positions of the geoms.
        subtree_com: The centre of mass of each body and all bodies below it.
        cinert: The inertia of each body at the centre of mass of its tree, one row of ten.
        cvel: The velocity of each body there, angular and linear, one row of six.
        qfrc_actuator: The forces of the actuators along each joint.
        qfrc_constraint: The forces of limits and contacts along each joint.
        cfrc_ext: External forces on the bodies, one row of six for each.
        dt: Seconds per step of the environment.
        frames: Steps of the physics per step of the environment.
        physics: How compiled code calls MuJoCo.
    """

    qpos: np.ndarray
    qvel: np.ndarray
    before: np.ndarray
    ctrl: np.ndarray
    act: np.ndarray
    sensordata: np.ndarray
    xpos: np.ndarray
    xquat: np.ndarray
    site_xpos: np.ndarray
    geom_xpos: np.ndarray
    subtree_com: np.ndarray
    cinert: np.ndarray
    cvel: np.ndarray
    qfrc_actuator: np.ndarray
    qfrc_constraint: np.ndarray
    cfrc_ext: np.ndarray
    dt: float
    frames: int
    physics: Physics


@final
@dataclass(frozen=True)
class RobotDefinition:
    """The checked arguments of :func:`register_robot`."""

    name: str
    model: str | Path
    observation: Callable[..., Any]
    reward: Callable[..., Any]
    terminated: Callable[..., Any]
    start: Callable[[Any, np.random.Generator], Any]
    frame_skip: int
    horizon: int
    survival_bonus: float

    def load(self) -> Any:
        """Load the ``MjModel``."""
        mujoco = load_mujoco()
        make = mujoco.MjModel
        with quiet():
            try:
                if isinstance(self.model, Path):
                    return make.from_xml_path(str(self.model))
                return make.from_xml_string(self.model)
            except ValueError as error:
                raise ValueError(f"`model` of {self.name} is not a MuJoCo model: {error}") from None

    def views(self, model: Any, data: Any, physics: Physics) -> Robot:
        """Return the argument of the functions for one simulation."""
        ours = {
            "before": np.array(data.qpos),
            "dt": self.frame_skip * float(model.opt.timestep),
            "frames": self.frame_skip,
            "physics": physics,
        }
        theirs = {name: getattr(data, name) for name in Robot._fields if name not in ours}
        return Robot(**ours, **theirs)

    def environment(self) -> CompiledEnvironment:
        """Return the definition in the form of this package's robots."""
        model = self.load()
        observe, step = _compiled(
            self.observation, self.reward, self.terminated, self.survival_bonus, self.name
        )
        return CompiledEnvironment(
            self.name,
            self.observation_size(model),
            int(model.nu),
            self.horizon,
            model=lambda: model,
            state=self.views,
            start=self.draw,
            begin=begin,
            observe=observe,
            step=step,
            survival_bonus=self.survival_bonus,
        )

    def observation_size(self, model: Any) -> int:
        """Return the size of an observation; call each function once to find errors early."""
        mujoco = load_mujoco()
        if model.nu == 0:
            raise ValueError(
                f"The model of {self.name} has no actuator, so there is nothing to learn."
            )
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        robot = self.views(model, data, physics(model, data))
        seen = self.observe(robot)
        value = self.reward(robot, np.zeros(model.nu))
        if np.ndim(value) != 0:
            raise TypeError(
                f"`reward` of {self.name} must return a number, but returned {value!r}."
            )
        ended = self.terminated(robot)
        if not isinstance(ended, bool | np.bool_):
            raise TypeError(
                f"`terminated` of {self.name} must return True or False, but returned {ended!r}."
            )
        return len(seen)

    def observe(self, robot: Robot) -> Array:
        """Call the plain observation function and check its result."""
        seen = np.asarray(self.observation(robot))
        if seen.ndim != 1 or seen.dtype != np.float64 or not len(seen):
            raise TypeError(
                f"`observation` of {self.name} must return a one-dimensional float64 array, but "
                f"returned one of shape {seen.shape} and dtype {seen.dtype}."
            )
        return seen

    def draw(self, model: Any, rng: np.random.Generator) -> Array:
        """Draw where an episode starts: positions, then velocities."""
        row = np.asarray(self.start(model, rng), np.float64)
        if row.shape != (model.nq + model.nv,):
            raise ValueError(
                f"`start` of {self.name} must return {model.nq} positions and {model.nv} "
                f"velocities in one array, but returned shape {row.shape}."
            )
        return row

    def pay(self, robot: Robot, action: Array) -> tuple[float, bool]:
        """Return the reward with survival bonus, and whether the episode ends."""
        ended = bool(self.terminated(robot))
        bonus = 0.0 if ended else self.survival_bonus
        return float(self.reward(robot, action)) + bonus, ended


_definitions: dict[str, RobotDefinition] = {}


def register_robot(
    name: str,
    model: str | Path,
    *,
    observation: Callable[[Any], Any],
    reward: Callable[[Any, Any], Any],
    terminated: Callable[[Any], Any] | None = None,
    start: Callable[[Any, np.random.Generator], Any] | None = None,
    frame_skip: int = 5,
    horizon: int = 1000,
    survival_bonus: float = 0.0,
) -> str:
    """Register a robot: ``gensmooth train module:Name`` then trains it on a compiled simulator.

    The functions are plain Python and NumPy that Numba can compile, at the top level of a module.
    They receive a :class:`Robot`.

    Args:
        name: The name of the robot. Its full name is ``module:Name``, where ``module`` is the
            module of the functions.
        model: MuJoCo's XML: a file (relative to that module), or the text itself.
        observation: ``observation(robot)`` returns a one-dimensional float64 array.
        reward: ``reward(robot, action)`` returns a number; it is called after the physics step.
        terminated: ``terminated(robot)`` returns whether the episode ends; by default it never
            does.
        start: ``start(model, rng)`` returns positions and velocities in one array; by default those
            of the model, with U(−0.01, 0.01) added to every entry. It is not compiled.
        frame_skip: Steps of the physics per step of the environment.
        horizon: Steps per episode.
        survival_bonus: Added to the reward of each step in which the episode does not end.
            Training leaves it out, tests count it.

    Returns:
        The full name.
    """
    for label, function in (("observation", observation), ("reward", reward)):
        _check_plain(label, function)
    if terminated is not None:
        _check_plain("terminated", terminated)
    home = reward.__module__
    full = name if ":" in checks.text("name", name) or home == "__main__" else f"{home}:{name}"
    definition = RobotDefinition(
        full,
        _model_of(model, home),
        observation,
        reward,
        never if terminated is None else terminated,
        start_near if start is None else checks.function("start", start),
        checks.count("frame_skip", frame_skip),
        checks.count("horizon", horizon),
        checks.nonnegative("survival_bonus", survival_bonus),
    )
    _definitions[full] = definition
    spec = GymnasiumSpec(
        f"gensmooth/{full.replace(':', '-').replace('.', '-')}-v0",
        "gensmooth.physics.reference:CustomRobot",
        definition.horizon,
        {"robot": full},
    )
    registry.register(full, partial(RobotDefinition.environment, definition), spec=spec)
    return full


def definition_of(name: str) -> RobotDefinition:
    """Return the definition of a robot; the module of ``module:Name`` is imported first."""
    module, colon, _ = name.rpartition(":")
    if colon:
        naming.load_module(module)
    return _definitions[name]


def as_file(definition: RobotDefinition) -> str:
    """Return the path of the model, for Gymnasium; XML text is written to a new file."""
    if isinstance(definition.model, Path):
        return str(definition.model)
    with tempfile.NamedTemporaryFile("w", suffix=".xml", delete=False) as file:
        file.write(definition.model)
    return file.name


def _model_of(model: object, home: str) -> str | Path:
    if isinstance(model, str) and model.lstrip().startswith("<"):
        return model
    if not isinstance(model, str | Path):
        raise TypeError(
            f"`model` must be the path of an XML file, or XML text, but is {checks.shown(model)}."
        )
    folder = getattr(sys.modules.get(home), "__file__", None)
    path = Path(folder or "").parent / model
    if not path.is_file():
        raise ValueError(f"`model` must be the path of an XML file, but {path} does not exist.")
    return path.resolve()


def _check_plain(label: str, function: object) -> None:
    function = checks.function(label, function)
    plain = getattr(function, "py_func", function)
    if not inspect.isfunction(plain) or plain.__closure__ or "<" in plain.__qualname__:
        raise TypeError(
            f"`{label}` must be a function at the top level of a module, because workers import "
            f"it by its name, but is {checks.shown(function)}."
        )


# --- compiled functions --------------------------------------------------------------------------


def start_near(model: Any, rng: np.random.Generator) -> Array:
    """Return the model's initial state, with U(−0.01, 0.01) added to every entry."""
    noise = rng.uniform(-0.01, 0.01, model.nq + model.nv)
    return np.concatenate((model.qpos0, np.zeros(model.nv))) + noise


@register_jitable
def never(robot):  # noqa: ARG001
    """Never end an episode early."""
    return False


@register_jitable
def begin(robot, start):
    """Start at ``start``: positions, then velocities."""
    positions = len(robot.qpos)
    for i in range(positions):
        robot.qpos[i] = start[i]
        robot.before[i] = start[i]
    for i in range(len(robot.qvel)):
        robot.qvel[i] = start[positions + i]
    call(robot.physics.forward, robot.physics)


@register_jitable
def advance(robot, action):
    """Run the physics for one step of the environment."""
    for i in range(len(robot.qpos)):
        robot.before[i] = robot.qpos[i]
    for i in range(len(action)):
        robot.ctrl[i] = action[i]
    for _ in range(robot.frames):
        call(robot.physics.step, robot.physics)


def _compiled(
    observation: Any, reward: Any, terminated: Any, bonus: float, name: str
) -> tuple[Any, Any]:
    """Make the functions ``observe`` and ``step`` of a robot from its three plain functions."""
    seen, paid, ended = (register_jitable(each) for each in (observation, reward, terminated))

    def observe(robot, out):
        values = seen(robot)
        for i in range(len(out)):
            out[i] = values[i]

    def step(robot, action):
        advance(robot, action)
        over = ended(robot)
        survived = 0.0 if over else bonus
        return paid(robot, action) + survived, survived, over, False

    # Numba names machine code after the function and a counter of the process. The names of two
    # robots that were compiled in two processes could be equal in a third process, which loads both
    # from the cache. So every robot has its own function names.
    parts = [f"{each.__module__}.{each.__qualname__}" for each in (observation, reward, terminated)]
    tag = zlib.crc32(repr((name, *parts, bonus)).encode())
    robot_name = "custom_" + "".join(c if c.isalnum() else "_" for c in name)
    for function in (observe, step):
        function.__qualname__ = f"{robot_name}_{tag:08x}_{function.__name__}"
        function.__name__ = robot_name
    return cast("Any", register_jitable(observe)), cast("Any", register_jitable(step))
