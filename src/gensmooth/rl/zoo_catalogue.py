"""The zoo: trained policies that come with the package.

``"zoo:hopper"`` is accepted wherever a policy's file is. The files are ordinary policy files, and
``zoo.json`` next to them describes how each was trained and evaluated. ``python -m benchmarks.zoo``
creates both. Nothing is downloaded.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from gensmooth import checks, fields
from gensmooth.runs.files import read_fields

PREFIX = "zoo:"
FOLDER = Path(__file__).parent / "zoo"
SUFFIX = ".policy"


class ZooPolicy(NamedTuple):
    """A policy in the zoo, with its training and evaluation.

    Attributes:
        name: Its name; load it as ``"zoo:" + name``.
        environment: The environment it was trained in.
        command: The command that trained it.
        seed: The seed of the training.
        iterations: The number of training steps before its test, the best of the training.
        training_episodes: The number of episodes in the whole training, without tests.
        num_parameters: d.
        mean_return: The mean return over held-out episodes, used neither in training nor in the
            choice of the best policy.
        low: The lower end of the confidence interval of the mean (Student's t).
        high: The upper end.
        confidence: The level of the interval.
        deviation: The standard deviation of the returns.
        episodes: The number of held-out episodes.
        evaluation_seed: The seed of their initial states, for ``gensmooth evaluate``.
    """

    name: str
    environment: str
    command: str
    seed: int
    iterations: int
    training_episodes: int
    num_parameters: int
    mean_return: float
    low: float
    high: float
    confidence: float
    deviation: float
    episodes: int
    evaluation_seed: int

    @property
    def file(self) -> Path:
        """The policy's file."""
        return FOLDER / f"{self.name}{SUFFIX}"


_KINDS = {str: fields.NAME, int: fields.count(), float: fields.real(finite=True)}
_ROWS = fields.many(
    fields.record({name: _KINDS[kind] for name, kind in ZooPolicy.__annotations__.items()}), 1000
)


def zoo() -> list[ZooPolicy]:
    """List the trained policies that come with the package.

    >>> import gensmooth as gs
    >>> [each.environment for each in gs.rl.zoo() if each.name == "cart-pole"]
    ['CartPole-v1']
    >>> policy = gs.rl.load_policy("zoo:cart-pole")
    >>> int(policy([0.0, 0.0, 0.1, 0.0]).argmax())  # the pole leans to the right: push there
    1
    """
    rows = read_fields(FOLDER / "zoo.json", _ROWS, what="the list of the zoo")
    return [ZooPolicy(**row) for row in rows]


def zoo_file(path: str | os.PathLike[str]) -> Path | None:
    """Return the file of ``"zoo:NAME"``; ``None`` if the path does not start with ``"zoo:"``.

    ``NAME`` may also be the environment's name. For a file whose own name starts with ``zoo:``,
    write ``"./zoo:NAME"``.

    Raises:
        ValueError: If the zoo has no such policy; the message suggests similar names.

    >>> zoo_file("hopper/policy-best") is None
    True
    >>> zoo_file("zoo:CartPole-v1").name
    'cart-pole.policy'
    """
    text = os.fspath(path)
    if not text.startswith(PREFIX):
        return None
    wanted = text.removeprefix(PREFIX)
    rows = zoo()
    known = {_letters(name): row for row in rows for name in (row.environment, row.name)}
    policy = known.get(_letters(wanted))
    if policy is not None:
        return policy.file
    names = [row.name for row in rows]
    hint = checks.did_you_mean(wanted.lower(), names) if wanted else ""
    raise ValueError(
        f"The zoo has no policy {wanted[:200]!r}.{hint} Known: {', '.join(names)}. To load a file "
        f"of that name, write {f'./{text[:200]}'!r}."
    )


def _letters(name: str) -> str:
    """Reduce a name to lowercase letters and digits: ``HalfCheetah`` matches ``half-cheetah``."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
