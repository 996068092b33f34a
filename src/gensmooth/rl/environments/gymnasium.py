# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Any Gymnasium environment by its id, through the ordinary API, one step after the other.

This is slow but works for every environment, and tests compare the compiled environments with it.
Episodes run one after the other in the calling thread, whatever ``threads`` is: environments are
not thread-safe, and Python would not run two at a time. Use worker processes instead. If several
threads call, each gets its own environment.
"""

import logging
import math
import warnings
from collections.abc import Sequence
from copy import deepcopy
from importlib import import_module
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.physics.extras import missing_extra
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.base import (
    EnvironmentInfo,
    Episodes,
    UnknownEnvironmentError,
    UnsupportedEnvironmentError,
    check,
)
from gensmooth.rl.environments.catalogue import GIVEN, import_module_of, join_name, split_name
from gensmooth.rl.normalize import EpisodeMoments, Scaling
from gensmooth.rl.policies import Policy

Array = NDArray[np.float64]

UNLIMITED = 10_000  # steps per episode if the environment sets no limit

_log = logging.getLogger("gensmooth")


@final
class GymnasiumSimulator:
    """A simulator for any Gymnasium environment with a Box observation and Box or Discrete action.

    An episode's start is a reset seed. Observations of any shape are flattened. An action in a Box
    is clipped to the finite bounds and has the dtype of the space, as the API requires. In a
    Discrete space, the action with the largest score is taken.

    Args:
        source: Gymnasium's id, such as ``"CartPole-v1"``, ``"module:Name-v0"`` or
            ``"Pendulum-v1(g=5.0)"``; or Gymnasium's specification of an environment; or a function
            that makes the environment.
        horizon: The largest number of steps per episode; by default the environment's limit, or
            10,000 if it has none.
        raw_actions: Whether to pass on the policy's outputs unchanged, float64 and not clipped, as
            the compiled environments do.
    """

    def __init__(
        self, source: Any, *, horizon: int | None = None, raw_actions: bool = False
    ) -> None:
        horizon = checks.optional(checks.count, "horizon", horizon)
        self._arguments = (source, horizon, raw_actions)
        environment = make_environment(source)
        name = name_of(source, environment)
        self._idle: list[Any] = [environment]  # environments that no rollout is using
        spec = environment.spec
        limit = spec.max_episode_steps if spec is not None else None
        size = _observation_size(name, environment.observation_space)
        self._actions = read_actions(name, environment.action_space, raw_actions)
        self._logged: set[str] = set()
        unwrapped = environment.unwrapped
        bonus = getattr(unwrapped, "_healthy_reward", 0.0) if _reports_bonus(unwrapped) else 0.0
        self.info = EnvironmentInfo(
            name=name,
            observation_size=size,
            action_size=self._actions.size,
            horizon=min(horizon or UNLIMITED, limit or horizon or UNLIMITED),
            survival_bonus=float(bonus),
            discrete=self._actions.low is None,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake, self._arguments

    def starts(self, rngs: Sequence[np.random.Generator]) -> Array:
        """Draw a reset seed from each generator, shape (B, 1)."""
        return np.array([[rng.integers(2**31)] for rng in rngs], np.float64).reshape(-1, 1)

    def rollout(
        self,
        policy: Policy,
        parameters: Array,
        scaling: Scaling,
        starts: Array,
        *,
        observe: bool = False,
        threads: int | None = None,  # noqa: ARG002
    ) -> Episodes:
        """See :class:`~gensmooth.rl.environments.base.Simulator`."""
        x, scaling, begin = check(self.info, 1, policy, parameters, scaling, starts)
        number, size = len(x), self.info.observation_size
        returns, bonuses = np.full(number, np.nan), np.full(number, np.nan)
        lengths = np.zeros(number, np.int64)
        moments = None
        if observe:
            zeros = np.zeros((number, size))
            moments = EpisodeMoments(np.zeros(number, np.int64), zeros, zeros.copy())
        try:
            environment = self._idle.pop()
        except IndexError:  # another thread is using it
            environment = make_environment(self._arguments[0])
        failure: BaseException | None = None
        for i in range(number):
            outcome = self._episode(environment, policy, x[i], scaling, int(begin[i, 0]), observe)
            lengths[i] = outcome.length
            if outcome.failure is not None:
                self._log(outcome.failure, outcome.error)
                failure = failure or outcome.error
                continue
            returns[i], bonuses[i] = outcome.reward, outcome.bonus
            if moments is not None and outcome.moments is not None:
                moments.counts[i] = outcome.length
                moments.means[i], moments.m2[i] = outcome.moments
        self._idle.append(environment)
        return Episodes(returns, bonuses, lengths, moments, failure=failure)

    def _episode(
        self, environment: Any, policy: Policy, x: Array, scaling: Scaling, seed: int, observe: bool
    ) -> "_Outcome":
        size = self.info.observation_size
        surviving = _reports_bonus(environment.unwrapped)
        reward = bonus = 0.0
        mean, m2 = np.zeros(size), np.zeros(size)
        step = 0
        try:
            seen, _ = environment.reset(seed=seed)
            while step < self.info.horizon:
                observation = np.asarray(seen, np.float64).reshape(-1)
                if not np.isfinite(observation).all():
                    return _Outcome(step, f"the observation of step {step} is not finite")
                action = self._actions.choose(policy.act(x, scaling(observation)))
                if observe:  # Welford (1962), in the order of the steps
                    delta = observation - mean
                    mean += delta / (step + 1)
                    m2 += delta * (observation - mean)
                seen, gained, terminated, truncated, _ = environment.step(action)
                step += 1
                reward += float(gained)
                if surviving:
                    bonus += float(environment.unwrapped.healthy_reward)
                if not math.isfinite(reward):
                    return _Outcome(step, f"the reward of step {step - 1} is {float(gained)}")
                if terminated or truncated:
                    break
        except Exception as error:
            reason = f"step {step} raised {type(error).__name__}: {error}"
            return _Outcome(step, reason, error)
        return _Outcome(step, None, None, reward, bonus, (mean, m2) if observe else None)

    def _log(self, failure: str, error: BaseException | None) -> None:
        """Log a failure once, with the traceback if the environment raised an exception."""
        if failure not in self._logged:
            self._logged.add(failure)
            _log.warning("An episode of %s failed: %s.", self.info.name, failure, exc_info=error)


class _Outcome(NamedTuple):
    """The result of an episode, or the reason why it failed."""

    length: int
    failure: str | None
    error: BaseException | None = None
    reward: float = math.nan
    bonus: float = math.nan
    moments: tuple[Array, Array] | None = None


class Actions(NamedTuple):
    """How the outputs of a policy become an action.

    Attributes:
        size: How many outputs the policy has.
        shape: The shape of an action.
        dtype: The dtype of an action.
        low: The lower bounds of a Box; ``None`` for a Discrete space.
        high: The upper bounds of a Box; ``None`` for a Discrete space.
        first: The first action of a Discrete space.
    """

    size: int
    shape: tuple[int, ...]
    dtype: Any
    low: Array | None
    high: Array | None
    first: int

    def choose(self, output: Array) -> Any:
        """Return the action for the outputs of the policy."""
        if self.low is None:
            return self.first + int(output.argmax())
        return np.clip(output, self.low, self.high).astype(self.dtype).reshape(self.shape)


def make_environment(source: Any, **keywords: Any) -> Any:
    """Make Gymnasium's environment from a source; see :class:`GymnasiumSimulator`.

    Raises:
        UnknownEnvironmentError: If there is none; the message names near matches.
        UnsupportedEnvironmentError: If it cannot be made with these arguments.
        ImportError: If Gymnasium, or a package that the environment needs, is not installed.
    """
    try:
        gymnasium: Any = import_module("gymnasium")
    except ImportError as error:
        raise missing_extra(error) from None
    if not isinstance(source, str) and callable(source):
        return _checked(source(), gymnasium)
    if isinstance(source, str):
        name, arguments = split_name(source)
        import_module_of(name)
        spec = name = catalogue.reference(name)  # registers our environments, also in a worker
    else:
        spec, name, arguments = source, source.id, dict[str, Any]()
    try:
        with warnings.catch_warnings():  # Gymnasium warns that a newer version exists
            warnings.simplefilter("ignore")
            return gymnasium.make(spec, disable_env_checker=True, **arguments, **keywords)
    except TypeError as error:
        if not arguments:
            raise
        raise UnsupportedEnvironmentError(f"{source} cannot be made: {error}") from error
    except gymnasium.error.DependencyNotInstalled as error:
        raise ImportError(f"{name} needs a package that is not installed: {error}") from None
    except gymnasium.error.Error as error:
        unknown = (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv)
        form = import_module("gymnasium.envs.registration").ENV_ID_RE
        if not isinstance(error, unknown) and form.fullmatch(name.rpartition(":")[2]):
            raise
        hint = checks.did_you_mean(name, ids(), most=3, cutoff=0.7)
        raise UnknownEnvironmentError(
            f"Gymnasium has no environment {name!r}.{hint} ({error})"
        ) from None


def source_of(environment: Any) -> Any:
    """Return a source from which an environment, passed as object or function, can be made again.

    Raises:
        UnsupportedEnvironmentError: If it cannot be made again.
        TypeError: If it is neither.
    """
    if not hasattr(environment, "action_space"):
        if callable(environment):
            return environment
        raise TypeError(
            "`environment` must be a name, a Gymnasium environment, a function that makes one, or "
            f"a simulator, but is {checks.shown(environment)}."
        )
    try:
        spec: Any = deepcopy(environment.spec)
    except (AttributeError, ValueError):  # Gymnasium raises it for a wrapper without arguments
        spec = None
    if spec is not None and all(part.kwargs is not None for part in spec.additional_wrappers):
        spec.kwargs.pop("render_mode", None)  # training renders nothing
        return spec
    raise UnsupportedEnvironmentError(
        f"{environment} cannot be made again, which every worker must do. Pass a function that "
        "makes it, as in gs.rl.train(lambda: MyWrapper(MyEnv()))."
    )


def name_of(source: Any, environment: Any = None) -> str:
    """Return the name of the environment that a source makes, as it is stored in files.

    If it cannot be made from a name (a function, a wrapper, arguments that are objects), the name
    ends in ``" (given)"``.
    """
    if isinstance(source, str):
        name, arguments = split_name(source)  # the name keeps its module
        spec: Any = getattr(environment, "spec", None)
        return source if spec is None or ":" in name else join_name(spec.id, arguments)
    if callable(source):
        return (type(environment.unwrapped).__name__ if environment else "function") + GIVEN
    spec = source
    known = import_module("gymnasium").registry.get(spec.id)
    if known is None:
        return spec.id + GIVEN
    defaults = {k: repr(v) for k, v in known.kwargs.items()}
    arguments = {k: v for k, v in spec.kwargs.items() if defaults.get(k) != repr(v)}
    if spec.max_episode_steps != known.max_episode_steps:
        arguments["max_episode_steps"] = spec.max_episode_steps
    name = join_name(spec.id, arguments)
    wrappers = "".join(f"+{part.name}" for part in spec.additional_wrappers)
    try:
        plain = split_name(name)[1] == arguments
    except UnknownEnvironmentError:
        plain = False
    return name if plain and not wrappers else spec.id + wrappers + GIVEN


def _checked(environment: Any, gymnasium: Any) -> Any:
    if isinstance(environment, gymnasium.Env):
        return environment
    raise TypeError(
        "A function passed as `environment` must return a Gymnasium environment, but returned "
        f"{type(environment).__name__}."
    )


def ids() -> list[str]:
    """Return the ids that Gymnasium can make; its registry also has ids that were removed."""
    registry: dict[str, Any] = import_module("gymnasium").registry
    return [
        known
        for known, spec in registry.items()
        if "_raise_" not in getattr(spec.entry_point, "__name__", "")
    ]


def _remake(source: Any, horizon: int | None, raw_actions: bool) -> GymnasiumSimulator:
    return GymnasiumSimulator(source, horizon=horizon, raw_actions=raw_actions)


def _reports_bonus(environment: Any) -> bool:
    return hasattr(type(environment), "healthy_reward")


def _observation_size(name: str, space: Any) -> int:
    if type(space).__name__ != "Box":
        raise UnsupportedEnvironmentError(
            f"{name} has observations in {space}, but a policy needs a Box. Gymnasium's wrapper "
            "FlattenObservation turns most spaces into one: pass a function that makes the wrapped "
            "environment, or register it under a new id."
        )
    return int(np.prod(space.shape))


def read_actions(name: str, space: Any, raw: bool) -> Actions:
    """Return how a policy's outputs become actions; with ``raw``, they are passed on unchanged."""
    kind = type(space).__name__
    if kind == "Discrete":
        return Actions(int(space.n), (), None, None, None, int(space.start))
    if kind != "Box" or not np.issubdtype(space.dtype, np.floating):
        raise UnsupportedEnvironmentError(
            f"{name} has actions in {space}, but a policy needs a Discrete space or a Box of "
            "floating-point numbers."
        )
    size = int(np.prod(space.shape))
    if raw:
        free = np.full(size, np.inf)
        return Actions(size, space.shape, np.float64, -free, free, 0)
    low, high = (np.asarray(b, np.float64).reshape(-1) for b in (space.low, space.high))
    return Actions(size, space.shape, space.dtype, low, high, 0)
