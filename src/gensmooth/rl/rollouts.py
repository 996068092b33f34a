"""From a batch of the search to episodes: where each starts, and which parameters it has."""

from collections.abc import Mapping, Sequence
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import streams
from gensmooth.batch import Batch
from gensmooth.rl.environments.base import Episodes, Simulator
from gensmooth.rl.normalize import Scaling
from gensmooth.rl.policies import Policy
from gensmooth.search import SearchState
from gensmooth.streams import Purpose


class Rollouts(Protocol):
    """Whoever runs the episodes of a training. The result never depends on who does.

    Attributes:
        faults: What went wrong in the last call, by kind.
    """

    faults: Mapping[str, int]

    @property
    def workers(self) -> int:
        """How many work at it."""
        ...

    def train(self, state: SearchState, batch: Batch, scaling: Scaling) -> Episodes:
        """An episode for each evaluation of the batch, with moments of the observations."""
        ...

    def test(self, state: SearchState, scaling: Scaling, episodes: int) -> Episodes:
        """Episodes of the parameters of ``state``, from starts that training never sees."""
        ...


@final
class Local:
    """Runs episodes in this process, in the simulator's threads.

    Args:
        simulator: The simulator.
        policy: The shape of the policy.
        threads: At most so many; ``None``: as many as there are cores.
    """

    workers = 1

    def __init__(self, simulator: Simulator, policy: Policy, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"`threads` must be at least 1, but is {threads}.")
        self._simulator = simulator
        self._policy = policy
        self._threads = threads
        self.faults: Mapping[str, int] = {}

    def train(self, state: SearchState, batch: Batch, scaling: Scaling) -> Episodes:  # noqa: ARG002
        """See :class:`Rollouts`."""
        return self._run(batch.block(0, len(batch)), list(batch.rngs()), scaling, observe=True)

    def test(self, state: SearchState, scaling: Scaling, episodes: int) -> Episodes:
        """See :class:`Rollouts`."""
        parameters = np.broadcast_to(state.x, (episodes, state.x.size))
        rngs = test_rngs(state.seed, state.step, episodes)
        return self._run(parameters, rngs, scaling, observe=False)

    def _run(
        self,
        parameters: NDArray[np.float64],
        rngs: Sequence[np.random.Generator],
        scaling: Scaling,
        *,
        observe: bool,
    ) -> Episodes:
        found = self._simulator.rollout(
            self._policy,
            parameters,
            scaling,
            self._simulator.starts(rngs),
            observe=observe,
            threads=self._threads,
        )
        failed = int(np.count_nonzero(~np.isfinite(found.returns)))
        self.faults = {"non-finite": failed} if failed else {}
        return found


def test_rngs(seed: int, step: int, episodes: int) -> list[np.random.Generator]:
    """The generators of test episodes after ``step`` iterations, whose purpose is their own."""
    return [
        streams.generator(seed, Purpose.TEST, step=step, index=index) for index in range(episodes)
    ]
