"""How fast a run is, and how long it will take."""

from collections import deque
from typing import final

_WINDOW = 30.0  # seconds that the rate is taken over
_SPACING = 0.2  # seconds between the moments that are remembered for it


@final
class Meter:
    """Evaluations a second over the last half minute.

    Args:
        now: When the run begins or goes on, in seconds of any clock.
        evaluations: Evaluations made before.
    """

    def __init__(self, now: float, evaluations: int) -> None:
        self._began = now
        self._before = evaluations
        self._seen: deque[tuple[float, int]] = deque()

    def rate(self, now: float, evaluations: int) -> float:
        """The rate after a step that ended ``now``."""
        seen = self._seen
        if not seen:  # the first step starts workers and compiles: no measure of the others
            seen.append((now, evaluations))
            return (evaluations - self._before) / max(now - self._began, 1e-9)
        if now - seen[-1][0] >= _SPACING or len(seen) == 1:
            seen.append((now, evaluations))
            while len(seen) > 2 and now - seen[0][0] > _WINDOW:
                seen.popleft()
        then, before = seen[0]
        return (evaluations - before) / max(now - then, 1e-9)
