"""The zoo: trained policies that come with the package, by name.

``"zoo:hopper"`` is understood wherever a policy's file is. The files are ordinary policy files, and
``zoo.json`` beside them says how each was trained and how good it is; ``python -m benchmarks.zoo``
makes both. Nothing is downloaded.
"""

import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from gensmooth import checks

PREFIX = "zoo:"
FOLDER = Path(__file__).parent / "zoo"
SUFFIX = ".policy"


class ZooPolicy(NamedTuple):
    """A policy of the zoo: where it is from, and how good it is.

    Attributes:
        name: Its name; ``"zoo:" + name`` is the policy.
        environment: The environment that it was trained in.
        command: The command that trained it.
        seed: The seed of the training.
        iterations: Iterations of training until its test was the best.
        training_episodes: Episodes of the whole training, those of tests not counted.
        num_parameters: d.
        mean_return: The mean return of episodes that neither training nor the choice of the best
            policy has seen.
        low: The lower end of the confidence interval of the mean (Student's t).
        high: The upper end.
        confidence: The level of the interval.
        deviation: The standard deviation of the returns.
        episodes: How many episodes these were.
        evaluation_seed: The seed of their starts: ``gensmooth evaluate`` repeats them.
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


def zoo() -> list[ZooPolicy]:
    """The trained policies that come with the package.

    >>> import gensmooth as gs
    >>> [each.environment for each in gs.rl.zoo() if each.name == "cart-pole"]
    ['CartPole-v1']
    >>> policy = gs.rl.load_policy("zoo:cart-pole")
    >>> int(policy([0.0, 0.0, 0.1, 0.0]).argmax())  # the pole leans to the right: push there
    1
    """
    rows = json.loads((FOLDER / "zoo.json").read_text(encoding="utf-8"))
    return [ZooPolicy(**row) for row in rows]


def zoo_file(path: str | os.PathLike[str]) -> Path | None:
    """The file of ``"zoo:NAME"``; ``None`` if a path is no such name.

    The environment's name will do too. A file of your own that is called so is ``"./zoo:NAME"``.

    Raises:
        ValueError: When the zoo has no such policy; near matches are named.

    >>> zoo_file("hopper/policy-best") is None
    True
    >>> zoo_file("zoo:CartPole-v1").name
    'cart-pole.policy'
    """
    given = os.fspath(path)
    if not given.startswith(PREFIX):
        return None
    wanted = given.removeprefix(PREFIX)
    rows = zoo()
    known = {_letters(name): row for row in rows for name in (row.environment, row.name)}
    found = known.get(_letters(wanted))
    if found is not None:
        return found.file
    names = [row.name for row in rows]
    hint = checks.did_you_mean(wanted.lower(), names) if wanted else ""
    raise ValueError(
        f"The zoo has no policy {wanted[:200]!r}.{hint} Known: {', '.join(names)}. A file of that "
        f"name is {f'./{given[:200]}'!r}."
    )


def _letters(name: str) -> str:
    """A name in small letters and digits: ``HalfCheetah`` is ``half-cheetah``."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
