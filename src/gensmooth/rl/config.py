"""What a training is, before it has begun; as an object and as ``config.json``."""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, cast

from gensmooth._version import __version__
from gensmooth.checkpoint import Every, Execution
from gensmooth.checkpoint.config_file import FORMAT, execution_from
from gensmooth.checkpoint.plain import number, plain, whole
from gensmooth.describe import agree, describe, is_given, rebuild
from gensmooth.rl.environments.base import Info
from gensmooth.rl.policies import Policy
from gensmooth.rl.trainer import Trainer
from gensmooth.search import RandomSearch
from gensmooth.streams import check_seed

KIND = "training"

_SEARCH = ("directions", "estimator", "optimizer", "num_directions", "spacing", "samples")
_FAILURES = ("on_failure", "min_fraction")


class Schedule(NamedTuple):
    """How long a training goes on, and when it is tested.

    Attributes:
        iterations: Iterations to make.
        test_every: Iterations between tests.
        test_episodes: Episodes of a test.
        target: Stop when a test's mean return reaches this.
    """

    iterations: int
    test_every: int
    test_episodes: int
    target: float | None = None


@dataclass(frozen=True)
class TrainConfig:
    """A training, before it has begun.

    Attributes:
        run: A random name.
        trainer: Environment, policy and search.
        method: The name of the method, or of the directions' class.
        seed: Its seed.
        schedule: How long it goes on.
        execution: How it is carried out; the result does not depend on it.
    """

    run: str
    trainer: Trainer
    method: str
    seed: int
    schedule: Schedule
    execution: Execution

    def to_json(self) -> dict[str, Any]:
        """The contents of ``config.json``."""
        trainer, search = self.trainer, self.trainer.search
        execution: Mapping[str, Any] = self.execution._asdict()
        return {
            "format": FORMAT,
            "kind": KIND,
            "gensmooth": __version__,
            "run": self.run,
            "environment": asdict(trainer.info),
            "policy": {"sizes": list(trainer.policy.sizes), "biases": trainer.policy.biases},
            "standardize": trainer.standardize,
            "method": self.method,
            "seed": self.seed,
            "search": {name: describe(getattr(search, name)) for name in (*_SEARCH, *_FAILURES)},
            "schedule": {name: plain(value) for name, value in self.schedule._asdict().items()},
            "execution": {**execution, "timeout": plain(self.execution.timeout)},
        }

    def with_schedule(self, schedule: Schedule) -> "TrainConfig":
        """The training, for longer or shorter."""
        return replace(self, schedule=schedule)


def from_json(found: Mapping[str, Any]) -> TrainConfig:
    """The training of a ``config.json``.

    Raises:
        ValueError: When it is not one, or has something that cannot be written down; as are
            ``TypeError`` and ``LookupError``.
    """
    described: Mapping[str, Any] = found["search"]
    for name in _SEARCH:
        if is_given(described[name]):
            raise ValueError(
                f"its {name} are a {described[name]['given']}, which cannot be written down: "
                "repeat the call of gs.rl.train that began it"
            )
    info, policy = Info(**found["environment"]), found["policy"]
    search = RandomSearch(
        **{name: rebuild(described[name]) for name in (*_SEARCH, *_FAILURES)}, maximize=True
    )
    if not re.fullmatch("[0-9a-f]{1,64}", str(found["run"])):
        raise ValueError(f"`run` is {str(found['run'])[:80]!r}")
    return TrainConfig(
        run=str(found["run"]),
        trainer=Trainer(
            info,
            Policy(tuple(policy["sizes"]), policy["biases"]),
            search,
            standardize=bool(found["standardize"]),
        ),
        method=str(found["method"]),
        seed=check_seed(found["seed"]),
        schedule=schedule_from(found["schedule"]),
        execution=execution_from(found["execution"]),
    )


def schedule_from(found: Mapping[str, Any]) -> Schedule:
    """A schedule from JSON, checked."""
    target = found["target"]
    return Schedule(
        *(whole(found[name]) for name in Schedule._fields[:3]),
        target=None if target is None else number(target),
    )


def differences(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """What differs between two ``config.json``, in words, beside how they are carried out."""
    words: list[str] = []
    for name in ("environment", "policy", "standardize", "method", "seed", "search", "schedule"):
        pair: tuple[Any, Any] = now[name], before.get(name)
        parts = pair if all(isinstance(part, dict) for part in pair) else [{name: p} for p in pair]
        new, old = (cast(dict[str, Any], part) for part in parts)
        for key, value in new.items():
            then = old.get(key)
            if not agree(value, then):
                label = f"environment's {key}" if name == "environment" else f"`{key}`"
                words.append(f"{label} (there {str(then)[:60]}, here {str(value)[:60]})")
    return words


def make_schedule(
    iterations: int, test_every: int, test_episodes: int, target: float | None
) -> Schedule:
    """A schedule from a user, checked."""
    for name, value, least in (
        ("iterations", iterations, 0),
        ("test_every", test_every, 1),
        ("test_episodes", test_episodes, 1),
    ):
        if isinstance(value, bool) or not isinstance(cast(Any, value), int) or value < least:
            raise ValueError(
                f"`{name}` must be a whole number of at least {least}, but is {value!r}."
            )
    if target is not None and math.isnan(target):
        raise ValueError(f"`target` must be a number that a test can reach, but is {target!r}.")
    return Schedule(
        iterations, test_every, test_episodes, None if target is None else float(target)
    )


def make_execution(
    workers: Any, timeout: float | None, retries: int, threads: int | None, every: Every | None
) -> Execution:
    """How a training is carried out, as ``config.json`` tells it."""
    return Execution(
        workers=workers if isinstance(workers, int) else None,
        timeout=timeout,
        retries=retries,
        threads=0 if threads is None else threads,
        every=every,
    )
