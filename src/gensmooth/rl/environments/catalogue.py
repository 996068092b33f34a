"""From names to simulators.

The paper's environments and more of Gymnasium's robots have fast, exact simulators
(:mod:`gensmooth.physics.robots`); every other Gymnasium id works through the ordinary API.
"""

import ast
import os
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, cast

from gensmooth import checks, naming
from gensmooth.physics import registry
from gensmooth.physics.extras import missing_extra
from gensmooth.rl.environments.base import (
    EnvironmentLike,
    Simulator,
    UnknownEnvironmentError,
    UnsupportedEnvironmentError,
)

GIVEN = " (given)"  # ends the name of an environment that cannot be made from its name

_PACKAGE = "gensmooth.rl.environments"

registry.add_folder(f"{_PACKAGE}.metaworld")


def make(
    environment: EnvironmentLike,
    *,
    fast: bool = True,
    env_args: Mapping[str, Any] | None = None,
    device: str = "cpu",
) -> Simulator:
    """Make the simulator of an environment.

    Args:
        environment: One of :func:`names`; or any Gymnasium id with a Box observation and a Box or
            Discrete action space, also as ``"module:Name-v0"`` and with arguments, as in
            ``"Pendulum-v1(g=5.0)"``; or a Gymnasium environment, as ``gymnasium.make`` returns it;
            or a function without arguments that makes one; or a simulator, which is returned.
        fast: Whether to use the compiled simulator if there is one. With ``False`` the environment
            runs through the ordinary API, to compare the two.
        env_args: Arguments for Gymnasium's environment; they become part of its name. Compiled
            simulators take no arguments, so the environment then runs through the ordinary API.
        device: Where trajectories run. ``"cuda"`` (or ``"cuda:1"``) is a GPU, for compiled
            environments: a robot with a file in ``robots``, or one registered by
            :func:`register_robot`. ``"warp-cpu"`` runs the same code on the CPU.

    Raises:
        UnknownEnvironmentError: If there is no such environment; the message names near matches.
        UnsupportedEnvironmentError: If its spaces are not supported.
        ImportError: If a package is missing or cannot be used.
    """
    fast = checks.flag("fast", fast)
    if not (isinstance(device, str) and device == "cpu"):  # pyright: ignore[reportUnnecessaryIsInstance]
        return _on_device(environment, fast, env_args, device)
    arguments = checks.mapping("env_args", {} if env_args is None else env_args)
    if not isinstance(environment, str):
        if arguments:
            raise ValueError("`env_args` must be None if `environment` is not a name.")
        return _from_object(environment)
    if environment.endswith(GIVEN):
        raise UnknownEnvironmentError(
            f"The environment {environment.removesuffix(GIVEN)!r} was passed as an object or a "
            "function, so it cannot be made from its name. Pass it again as `environment` of "
            "gs.rl.evaluate, or repeat the call of gs.rl.train that started the training."
        )
    name, in_name = _full(environment)
    import_module_of(name)
    if in_name or arguments:
        return _gymnasium(join_name(reference(name), {**in_name, **arguments}))
    entry = registry.find(name)
    if entry is None:
        return _gymnasium(name)
    if fast:
        return _compiled(name, entry)
    return _module("gymnasium").GymnasiumSimulator(reference(name), raw_actions=True)


def _on_device(
    environment: EnvironmentLike, fast: bool, env_args: object, device: object
) -> Simulator:
    warp = _module("warp")
    name = warp.check_device(device)
    arm = isinstance(environment, str) and canonical(environment).startswith("ML1-")
    simulator = None if arm else make(environment)
    if simulator is None or env_args or not fast or not hasattr(simulator, "on_device"):
        shown = environment if simulator is None else simulator.info.name
        raise UnsupportedEnvironmentError(
            f"{shown} runs through {'Meta-World' if arm else 'Gymnasium'}, which needs the CPU. A "
            f"GPU runs {', '.join(n for n in names() if not n.startswith('ML1'))}, and robots "
            "registered by gs.rl.register_robot."
        )
    return cast(Any, simulator).on_device(name)


def names() -> list[str]:
    """Return the environments that have a compiled simulator, by their full names."""
    return registry.names()


def canonical(name: str) -> str:
    """Return the full name of an environment, which is the same for all of its names."""
    return join_name(*_full(name))


def check_trusted(name: str, *, trust: bool) -> None:
    """Refuse an environment named by a file if the name could have side effects.

    A module that is already imported is accepted, and so is everything that the caller has named.

    Raises:
        ValueError: If the name is ``module:Name`` and the module is not imported yet, or if an
            argument may be the path of a file (``xml_file``) or open a window (``render_mode``).
    """
    module = name.partition("(")[0].rpartition(":")[0]
    try:
        if module:
            naming.check_trusted(module, trust=trust)
        if not trust:
            _check_arguments(split_name(name)[1])
    except ValueError as error:
        message = f"The name of the environment {name[:200]!r} comes from a file: {error}."
        raise ValueError(message) from None


_WORD = re.compile(r"[\w-]{0,80}", re.ASCII)  # such as a map's name; never a path


def _check_arguments(value: Any, name: str = "") -> None:
    """Raise an error if arguments that a file gives to an environment could have side effects."""
    if isinstance(value, dict):
        for key, item in cast(dict[Any, Any], value).items():
            _check_arguments(item, str(key))
    elif isinstance(value, list | tuple | set):
        for item in cast(Sequence[Any], value):
            _check_arguments(item, name)
    elif name == "render_mode" or (
        isinstance(value, str | bytes) and not _WORD.fullmatch(os.fsdecode(value))
    ):
        raise ValueError(
            f"its argument {name[:80]!r} could open a file or a window. If you trust it, pass "
            "trust=True (--trust in a shell)"
        )


def reference(name: str) -> str:
    """Return the id by which Gymnasium makes the ordinary environment, for example to render it.

    If Gymnasium does not know the environment, it is registered there first.
    """
    name = canonical(name)  # a name with arguments is Gymnasium's and stays as it is
    entry = registry.find(name)
    if entry is None or entry.spec is None:
        return name
    spec = entry.spec
    try:
        gymnasium: Any = import_module("gymnasium")
    except ImportError as error:
        raise missing_extra(error) from error
    if spec.require is not None:
        spec.require()
    if spec.id not in gymnasium.registry:
        gymnasium.register(
            id=spec.id,
            entry_point=spec.entry_point,
            max_episode_steps=spec.horizon,
            kwargs=dict(spec.arguments),
        )
    return spec.id


def reward_threshold(name: str) -> float | None:
    """Return the mean return at which Gymnasium calls an environment solved, if it has one.

    An environment with arguments or wrappers is a different one, which has no threshold.
    """
    if "(" in name:
        return None
    try:
        spec: Any = import_module("gymnasium").spec(reference(name))
    except Exception:  # no Gymnasium, or not in its registry
        return None
    return None if spec.reward_threshold is None else float(spec.reward_threshold)


def _full(name: str) -> tuple[str, dict[str, Any]]:
    """Return the full name and the arguments of an environment."""
    name, arguments = split_name(name)
    return registry.canonical(name), arguments


def _compiled(name: str, entry: registry.RobotEntry) -> Simulator:
    """Make the compiled simulator of a robot; other processes recreate it from its full name."""
    return _module("compiled").CompiledSimulator(entry.make(), (make, (name,)))


def _from_object(environment: Any) -> Simulator:
    """Make the simulator of an environment that was passed as an object or a function."""
    if hasattr(environment, "rollout"):
        return cast(Simulator, environment)
    module = _module("gymnasium")
    source = module.source_of(environment)
    name: str = module.name_of(source)
    full = canonical(name)
    entry = registry.find(full)
    return module.GymnasiumSimulator(source) if entry is None else _compiled(full, entry)


def _gymnasium(name: str) -> Simulator:
    module = _module("gymnasium")
    stem, _, version = name.rpartition("-v")
    if version in ("1", "2", "3") and stem in registry.known_names():
        raise UnknownEnvironmentError(
            f"Gymnasium no longer has {name}; {stem!r} has the same observations and rewards."
        )
    try:
        return module.GymnasiumSimulator(name)
    except UnknownEnvironmentError:
        known = dict.fromkeys([*registry.known_names(), *module.ids()])
        hint = checks.did_you_mean(name, known, most=3, cutoff=0.7)
        raise UnknownEnvironmentError(
            f"There is no environment {name!r}.{hint} Fast ones are {', '.join(names())}; any "
            "other must be a Gymnasium id: gymnasium.pprint_registry() lists them."
        ) from None


def _module(name: str) -> Any:
    """Import a module of this package only when needed: they import Numba, Gymnasium, MuJoCo."""
    return import_module(f"{_PACKAGE}.{name}")


# --- names --------------------------------------------------------------------------------------


def import_module_of(name: str) -> None:
    """Import the module of ``module:Name``, which registers the robot.

    The module may be in the current folder.

    Raises:
        UnknownEnvironmentError: If that is not the name of a module.
        ValueError: If there is no such module.
    """
    module, colon, _ = name.rpartition(":")
    if not colon:
        return
    if not all(part.isidentifier() for part in module.split(".")):
        raise UnknownEnvironmentError(
            f"There is no environment {name!r}: {module!r} is not the name of a module."
        )
    naming.load_module(module)


def split_name(name: str) -> tuple[str, dict[str, Any]]:
    """Split ``"Name-v0(a=1, b='x')"`` into the id and the arguments.

    >>> split_name("Pendulum-v1(g=5.0)"), split_name("CartPole-v1")
    (('Pendulum-v1', {'g': 5.0}), ('CartPole-v1', {}))
    """
    id, bracket, rest = name.partition("(")
    if not bracket or name.endswith(GIVEN):
        return name, {}
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or len(name) > 1000:
            raise ValueError
        arguments = {each.arg or "": ast.literal_eval(each.value) for each in call.keywords}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        arguments = {"": None}
    if "" in arguments:
        raise UnknownEnvironmentError(
            f"There is no environment {name[:200]!r}. Arguments must be plain values, such as "
            "numbers and strings, as in Pendulum-v1(g=5.0)."
        )
    return id.strip(), arguments


def join_name(id: str, arguments: Mapping[str, Any]) -> str:
    """Write the name of an environment with arguments, always in the same form.

    >>> join_name("Pendulum-v1", {"g": 5.0, "max_episode_steps": 50})
    'Pendulum-v1(g=5.0, max_episode_steps=50)'
    """
    if not arguments:
        return id
    listed = ", ".join(f"{name}={arguments[name]!r}" for name in sorted(arguments))
    return f"{id}({listed})"
