"""Trained policies and their files, which contain all data to run a policy, and no code.

The file is a checkpoint container (:mod:`gensmooth.runs.container`): a JSON object and the
arrays ``parameters``, ``mean`` and ``m2``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import checks, fields
from gensmooth._version import __version__
from gensmooth.describe import plain
from gensmooth.rl.environments.catalogue import canonical
from gensmooth.rl.normalize import Scaling, Statistics, identity
from gensmooth.rl.policies import Policy
from gensmooth.rl.zoo_catalogue import zoo_file
from gensmooth.runs import CheckpointError, container

Array = NDArray[np.float64]

KIND = "policy"


@final
@dataclass(frozen=True, kw_only=True)
class TrainedPolicy:
    """A policy with its parameters.

    Attributes:
        environment: The name of the environment it was trained in.
        policy: Its shape.
        parameters: Its parameters.
        statistics: The statistics of the observations during its training.
        standardize: Whether its observations are standardised.
        method: The method that trained it.
        seed: The seed of the training.
        step: The number of training steps.
        mean_return: The mean return of its last test; NaN if there was none.
        version: The version of gensmooth that trained it.
    """

    environment: str
    policy: Policy
    parameters: Array
    statistics: Statistics
    standardize: bool
    method: str
    seed: int
    step: int
    mean_return: float
    version: str = __version__

    @property
    def scaling(self) -> Scaling:
        """The transformation of observations before they reach the policy."""
        size = self.policy.sizes[0]
        return self.statistics.scaling() if self.standardize else identity(size)

    def __call__(self, observation: ArrayLike) -> Array:
        """Return the action (or the scores of the actions) for an environment's raw observation.

        Clip the action to the action space if the environment does not do so itself.
        """
        raw = np.asarray(observation, np.float64).reshape(-1)
        return self.policy.act(self.parameters, self.scaling(raw))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the file atomically."""
        meta = {
            "kind": KIND,
            "gensmooth": self.version,
            "environment": self.environment,
            "sizes": list(self.policy.sizes),
            "biases": self.policy.biases,
            "standardize": self.standardize,
            "observations": self.statistics.seen,
            "method": self.method,
            "seed": self.seed,
            "step": self.step,
            "mean_return": plain(self.mean_return),
        }
        arrays = {
            "parameters": self.parameters,
            "mean": self.statistics.mean,
            "m2": self.statistics.m2,
        }
        container.write(Path(path), meta, arrays)

    def check_environment(self, name: str) -> None:
        """Raise an error unless the policy was trained in the environment ``name``."""
        if canonical(name) != canonical(self.environment):
            raise ValueError(
                f"This policy was trained in {self.environment} and cannot run in {name}."
            )


def load_policy(path: str | PathLike[str], *, environment: str | None = None) -> TrainedPolicy:
    """Read a policy from its file, or the best policy from the folder of a training.

    Args:
        path: The file, a training's folder, or ``"zoo:hopper"``, one of the policies that come with
            the package (:func:`zoo`).
        environment: The environment that the policy must have been trained in; by default any.

    Raises:
        CheckpointError: If there is no policy or it is damaged.
        ValueError: If it was trained in another environment, or the zoo has no such policy.
    """
    location = checks.path("path", path)
    file = zoo_file(path) or find_policy(location)
    follow = file == location  # a user named it; in a training's folder, it must not be a link

    def fits(meta: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        try:
            _check_sizes(meta, sizes)
        except (LookupError, TypeError, ValueError) as error:
            raise CheckpointError(file, f"is not a policy: {error}.") from error

    meta, arrays = container.read(file, fits, follow=follow)
    try:
        policy = _policy(meta, arrays)
    except (LookupError, TypeError, ValueError) as error:
        raise CheckpointError(file, f"is not a policy: {error}.") from error
    if environment is not None:
        policy.check_environment(environment)
    return policy


def as_policy(policy: TrainedPolicy | str | PathLike[str]) -> TrainedPolicy:
    """Return a policy, given as an object, its file, its training's folder, or ``"zoo:NAME"``."""
    if isinstance(policy, TrainedPolicy):
        return policy
    checks.path("policy", policy)
    return load_policy(policy)


def find_policy(path: Path) -> Path:
    """Return the policy's file: ``path``, or the best (else the last) in a training's folder."""
    if not path.is_dir():
        return path
    for name in ("policy-best", "policy-last"):
        if (path / name).exists():
            return path / name
    raise CheckpointError(path, "has no policy yet: neither policy-best nor policy-last.")


_META = fields.record(
    {
        "kind": fields.one_of(KIND),
        "gensmooth": fields.NAME,
        "environment": fields.NAME,
        "sizes": fields.many(fields.count(1, 2**40), 1000, 2),
        "biases": fields.flag,
        "standardize": fields.flag,
        "observations": fields.count(),
        "method": fields.NAME,
        "seed": fields.SEED,
        "step": fields.count(),
        "mean_return": fields.real(),
    },
    others=fields.PLAIN,
)


def _check_sizes(meta: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """Raise an error if arrays do not fit the policy, before memory is allocated for them."""
    if meta.get("kind") != KIND:
        raise ValueError(f"its kind is not {KIND!r}")
    read = _META(meta, "")
    policy = Policy(tuple(read["sizes"]), read["biases"])
    size = policy.sizes[0]
    if sizes != {"parameters": policy.num_parameters, "mean": size, "m2": size}:
        raise ValueError("its arrays do not match the sizes of its layers")


def _policy(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> TrainedPolicy:
    read = _META(meta, "")
    policy = Policy(tuple(read["sizes"]), read["biases"])
    size = policy.sizes[0]
    for name, length in {"parameters": policy.num_parameters, "mean": size, "m2": size}.items():
        array, shape = arrays[name], (length,)
        if array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
            raise ValueError(f"its array {name!r} must be {shape}, float64 and finite")
    return TrainedPolicy(
        environment=read["environment"],
        policy=policy,
        parameters=arrays["parameters"],
        statistics=Statistics(read["observations"], arrays["mean"], arrays["m2"]),
        standardize=read["standardize"],
        method=read["method"],
        seed=read["seed"],
        step=read["step"],
        mean_return=float(read["mean_return"]),
        version=read["gensmooth"],
    )
