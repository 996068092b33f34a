"""Splitting the evaluations of a step among the ranks of ``torch.distributed``.

Ranks exchange one float64 per evaluation in each step. Every rank then computes the same weights
from the same values and moves its own copy of the parameters, so they stay bit-identical.
"""

from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed as _distributed

distributed: Any = _distributed  # untyped
Split = Literal["directions", "batches"]


class RanksError(RuntimeError):
    """The ranks disagree, or one of them failed or is lost; this step was not taken."""


@final
class Ranks:
    """The processes that share the evaluations of each step.

    Args:
        split: ``"directions"``: each evaluation runs on one rank, on a batch that all ranks share;
            the parameters do not depend on the number of ranks. ``"batches"``: each rank performs
            all evaluations on its own batch, and values are averaged over ranks.
        group: The process group of ``torch.distributed``; by default all processes.
    """

    def __init__(self, split: Split, group: Any = None) -> None:
        if not (distributed.is_available() and distributed.is_initialized()):
            raise ValueError(
                f"ranks={split!r} needs torch.distributed: call "
                "torch.distributed.init_process_group() first."
            )
        self.split: Split = split
        self._group = group
        self.number = distributed.get_world_size(group)
        self.rank = distributed.get_rank(group)
        self._agreed = False
        on_cpu = "gloo" in str(distributed.get_backend(group))
        self._device = torch.device("cpu" if on_cpu else "cuda")

    def mine(self, evaluation: int) -> bool:
        """Return whether this rank performs an evaluation."""
        return self.split == "batches" or evaluation % self.number == self.rank

    def agree(self, facts: dict[str, Any], step: int) -> None:
        """Check once that all ranks have the same facts.

        Raises:
            RanksError: If a fact differs; the message gives its value on each rank.
        """
        if self._agreed:
            return
        all_facts: list[Any] = [None] * self.number
        self._call(step, distributed.all_gather_object, all_facts, facts, group=self._group)
        for name in facts:
            others = [each[name] for each in all_facts]
            if any(each != others[0] for each in others):
                shown = ", ".join(f"rank {i}: {each}" for i, each in enumerate(others[:8]))
                raise RanksError(
                    f"The ranks must start with the same {name}, but have {shown}. The step was "
                    "not taken."
                )
        self._agreed = True

    def exchange(
        self, values: NDArray[np.float64], step: int, failure: BaseException | None
    ) -> NDArray[np.float64]:
        """Exchange values and return those of all evaluations.

        Args:
            values: One value for each evaluation; those of other ranks are ignored.
            step: The step's number.
            failure: The exception raised on this rank, if any.
        """
        sent = self._pack(step, failure, values)
        received = [torch.empty_like(sent) for _ in range(self.number)]
        self._call(step, distributed.all_gather, received, sent, group=self._group)
        table = torch.stack(received).cpu().numpy()
        if failure is not None:
            raise failure
        steps, failed = table[:, 0], np.flatnonzero(table[:, 1])
        if (steps != step).any():
            shown = ", ".join(f"rank {i}: {int(each)}" for i, each in enumerate(steps))
            raise RanksError(f"The ranks are at different steps: {shown}. The step was not taken.")
        if len(failed):
            raise RanksError(
                f"Step {step} failed on rank {int(failed[0])}, where the exception says why. The "
                "step was not taken."
            )
        by_rank = table[:, 2:]
        if self.split == "batches":
            total = np.zeros(by_rank.shape[1])
            for row in by_rank:  # in the same order on every rank
                total += row
            return total / self.number
        return np.array([by_rank[e % self.number, e] for e in range(by_rank.shape[1])])

    def _pack(
        self, step: int, failure: BaseException | None, values: NDArray[np.float64]
    ) -> torch.Tensor:
        head = np.array([float(step), float(failure is not None)])
        return torch.tensor(np.concatenate([head, values]), device=self._device)

    def _call(self, step: int, function: Any, *arguments: Any, **named: Any) -> None:
        try:
            function(*arguments, **named)
        except Exception as error:
            raise RanksError(
                f"Step {step}: the exchange with the other ranks failed ({error}). The step was "
                "not taken on this rank. If the run has a log, start all ranks again with the base "
                "weights and the same log to continue."
            ) from error
