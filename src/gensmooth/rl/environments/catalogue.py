"""From names to simulators.

The paper's environments have fast, exact simulators; every other Gymnasium id works through the
ordinary API.
"""

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from gensmooth.rl.environments.base import Simulator, UnknownEnvironmentError, missing_extra

# The layouts of the paper's time (Gym's v2) are those of Gymnasium's v4. Of Ant they had contact
# forces, which v4 leaves out unless it is told otherwise: that is our "Ant".
ALIASES = {"Hopper": "Hopper-v4", "Walker2d": "Walker2d-v4", "HalfCheetah": "HalfCheetah-v4"}

_SPACE = "gensmooth/"  # of the ids that we register with Gymnasium
_REFERENCES: dict[str, dict[str, Any]] = {
    "Ant": {
        "entry_point": "gymnasium.envs.mujoco.ant_v4:AntEnv",
        "max_episode_steps": 1000,
        "kwargs": {"use_contact_forces": True},
    },
    "HalfCheetahRandVel": {
        "entry_point": "gensmooth.rl.environments.locomotion_reference:HalfCheetahRandVel",
        "max_episode_steps": 200,
    },
}


def make(name: str, *, fast: bool = True) -> Simulator:
    """The simulator of an environment.

    Args:
        name: One of :func:`names`, or any id of Gymnasium with a Box observation and a Box or
            Discrete action space.
        fast: Whether to use the compiled simulator where there is one. With ``False`` the
            environment runs through the ordinary API: the oracle.

    Raises:
        UnknownEnvironmentError: When there is no such environment; near matches are named.
        UnsupportedEnvironmentError: When its spaces are not supported.
        ImportError: When a package is missing, or cannot be used.
    """
    name = canonical(name)
    if name.startswith("ML1-"):
        return _module("metaworld").make(name, fast=fast)
    if name not in _module("locomotion").ROBOTS:
        return _gymnasium(name)
    if fast:
        return _module("locomotion").make(name)
    return _module("gymnasium").Gymnasium(reference(name), raw_actions=True)


def names() -> list[str]:
    """The environments that have a fast simulator, by their full names."""
    return [*_module("locomotion").ROBOTS, *_module("metaworld").NAMES]


def canonical(name: str) -> str:
    """The full name of an environment: two names with the same full name mean the same."""
    name = name.removeprefix(_SPACE)
    return ALIASES.get(name, name)


def reference(name: str) -> str:
    """The id under which Gymnasium knows the environment as an ordinary one, for rendering.

    Ours are registered first.
    """
    name = canonical(name)
    if name not in _REFERENCES:
        return name
    try:
        gymnasium: Any = import_module("gymnasium")
    except ImportError as error:
        raise missing_extra(error) from error
    if _SPACE + name not in gymnasium.registry:
        gymnasium.register(id=_SPACE + name, **_REFERENCES[name])
    return _SPACE + name


def _gymnasium(name: str) -> Simulator:
    module = _module("gymnasium")
    try:
        return module.Gymnasium(name)
    except UnknownEnvironmentError:
        near = get_close_matches(name, [*ALIASES, *names()], n=3, cutoff=0.7)
        near += [known for known in module.near_matches(name) if known not in near]
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise UnknownEnvironmentError(
            f"There is no environment {name!r}. {hint}Fast ones are {', '.join(names())}; any "
            "other must be an id of Gymnasium: gymnasium.pprint_registry() lists them."
        ) from None


def _module(name: str) -> Any:
    """A module of this package, when it is needed: they import Numba, Gymnasium, MuJoCo."""
    return import_module(f"gensmooth.rl.environments.{name}")
