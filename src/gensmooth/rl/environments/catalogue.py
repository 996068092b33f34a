"""From names to simulators.

The paper's environments have fast, exact simulators; every other Gymnasium id works through the
ordinary API.
"""

from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

from gensmooth.rl.environments.base import Simulator, UnknownEnvironmentError, missing_extra

# The layouts of the paper's time (Gym's v2) are those of Gymnasium's v4. Of Ant they had contact
# forces, which v4 leaves out unless it is told otherwise: that is our "Ant".
ALIASES = {"Hopper": "Hopper-v4", "Walker2d": "Walker2d-v4", "HalfCheetah": "HalfCheetah-v4"}


class _Ours(NamedTuple):
    """An environment that Gymnasium does not know by itself, and how it is registered there."""

    id: str
    entry_point: str
    horizon: int
    arguments: dict[str, Any]


_PACKAGE = "gensmooth.rl.environments"
_OURS = {
    "Ant": _Ours(
        "gensmooth/Ant-v2",  # Gym's v2 had this layout
        "gymnasium.envs.mujoco.ant_v4:AntEnv",
        1000,
        {"use_contact_forces": True},
    ),
    "HalfCheetahRandVel": _Ours(
        "gensmooth/HalfCheetahRandVel-v0",
        f"{_PACKAGE}.locomotion_reference:HalfCheetahRandVel",
        200,
        {},
    ),
    **{
        name: _Ours(f"gensmooth/{id}", f"{_PACKAGE}.metaworld_reference:ML1", 150, {"name": name})
        for name, id in {
            "ML1-Reach": "ML1-Reach-v1",
            "ML1-Push": "ML1-Push-v1",
            "ML1-Reach-v3": "ML1-Reach-v3",
            "ML1-Push-v3": "ML1-Push-v3",
        }.items()
    },
}
_NAMES = {ours.id: name for name, ours in _OURS.items()}


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
    if name not in names():
        return _gymnasium(name)
    if fast:
        return _module("metaworld" if name.startswith("ML1-") else "locomotion").make(name)
    return _module("gymnasium").Gymnasium(reference(name), raw_actions=True)


def names() -> list[str]:
    """The environments that have a fast simulator, by their full names."""
    return [*_module("locomotion").ROBOTS, *_module("metaworld").NAMES]


def canonical(name: str) -> str:
    """The full name of an environment: two names with the same full name mean the same."""
    return ALIASES.get(name) or _NAMES.get(name) or name


def reference(name: str) -> str:
    """The id under which Gymnasium makes the environment as an ordinary one, to render for example.

    Ours are registered first.
    """
    name = canonical(name)
    if name not in _OURS:
        return name
    try:
        gymnasium: Any = import_module("gymnasium")
    except ImportError as error:
        raise missing_extra(error) from error
    if name.startswith("ML1-"):
        _module("metaworld").require()
    ours = _OURS[name]
    if ours.id not in gymnasium.registry:
        gymnasium.register(
            id=ours.id,
            entry_point=ours.entry_point,
            max_episode_steps=ours.horizon,
            kwargs=ours.arguments,
        )
    return ours.id


def _gymnasium(name: str) -> Simulator:
    module = _module("gymnasium")
    stem, _, version = name.rpartition("-v")
    if stem in (*ALIASES, "Ant") and version in ("1", "2", "3"):
        raise UnknownEnvironmentError(
            f"Gymnasium has no {name} any more, but {stem!r} has its observations and rewards."
        )
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
    return import_module(f"{_PACKAGE}.{name}")
