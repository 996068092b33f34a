"""Ctrl-C: the first one ends a run cleanly, the second one leaves at once."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Keeps Ctrl-C out of the places where it would tear a step apart.

    Within :meth:`watch`, the first Ctrl-C raises ``KeyboardInterrupt`` only inside of
    :meth:`allowed`, where evaluations are waited for; elsewhere it is remembered and raised at
    the next entry to it. The second raises wherever it arrives.

    Where Python is not asked to raise on Ctrl-C (another thread than the main one, a handler of
    the user's own) nothing is changed.
    """

    def __init__(self) -> None:
        self.count = 0
        self._allowed = False

    @contextmanager
    def watch(self) -> Generator[None]:
        """Take over Ctrl-C, and give it back."""
        if (
            threading.current_thread() is not threading.main_thread()
            or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        ):
            yield
            return
        signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextmanager
    def allowed(self) -> Generator[None]:
        """Where a first Ctrl-C may raise."""
        self._allowed = True
        try:
            if self.count:
                raise KeyboardInterrupt
            yield
        finally:
            self._allowed = False

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.count += 1
        if self._allowed or self.count > 1:
            raise KeyboardInterrupt
