"""Many processes: the evaluations of a step split over the ranks of ``torch.distributed``.

What travels per step is one float64 per evaluation. Every rank then computes the same weights from
the same values and moves its own copy of the parameters: they stay bit-identical on all ranks.
"""

from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed as _distributed

distributed: Any = _distributed  # untyped
Split = Literal["directions", "batches"]


class RanksError(RuntimeError):
    """The ranks do not agree, or one of them is lost; nothing has moved in this step."""


@final
class Ranks:
    """The processes that share the evaluations of each step.

    Args:
        split: ``"directions"``: each evaluation is made by one rank, on a batch that all ranks
            share; the parameters do not depend on the number of ranks. ``"batches"``: each rank
            makes all evaluations, on its own batch, and values are averaged over ranks.
        group: Of ``torch.distributed``; by default all processes.
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
        """Whether this rank makes an evaluation."""
        return self.split == "batches" or evaluation % self.number == self.rank

    def agree(self, facts: dict[str, Any], step: int) -> None:
        """Compare what all ranks must have in common, once.

        Raises:
            RanksError: When they differ: which fact, on which ranks.
        """
        if self._agreed:
            return
        found: list[Any] = [None] * self.number
        self._call(step, distributed.all_gather_object, found, facts, group=self._group)
        for name in facts:
            others = [each[name] for each in found]
            if any(each != others[0] for each in others):
                shown = ", ".join(f"rank {i}: {each}" for i, each in enumerate(others[:8]))
                raise RanksError(
                    f"The ranks must start with the same {name}, but have {shown}. Nothing moved."
                )
        self._agreed = True

    def exchange(
        self, values: NDArray[np.float64], step: int, failure: BaseException | None
    ) -> NDArray[np.float64]:
        """The values of all evaluations, from those of this rank.

        Args:
            values: One for each evaluation; those of other ranks are not read.
            step: Its number.
            failure: What went wrong on this rank, if anything did.
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
            raise RanksError(f"The ranks are at different steps: {shown}. Nothing moved.")
        if len(failed):
            raise RanksError(
                f"Step {step}: the closure failed on rank {int(failed[0])}, which says why. "
                "Nothing moved."
            )
        found = table[:, 2:]
        if self.split == "batches":
            total = np.zeros(found.shape[1])
            for row in found:  # in the order of the ranks, on all of them
                total += row
            return total / self.number
        return np.array([found[e % self.number, e] for e in range(found.shape[1])])

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
                f"Step {step}: another rank was lost before its values arrived ({error}). Nothing "
                f"moved here; a log has all steps before {step}. Start all ranks again with the "
                "base weights and the same log to go on from there."
            ) from error
