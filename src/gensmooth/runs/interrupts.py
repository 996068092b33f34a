"""Ctrl-C and SIGTERM: the first one ends a run cleanly, a second Ctrl-C leaves at once."""

import contextlib
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Keeps signals out of the places where they would tear a step apart.

    Within :meth:`watch`, the first Ctrl-C or SIGTERM raises ``KeyboardInterrupt`` only inside of
    :meth:`allowed`, where a step is made (its state is not changed until it is whole); elsewhere it
    is remembered and raised at the next entry. A second Ctrl-C raises wherever it arrives; further
    SIGTERMs change nothing, because whoever sends them to a group of processes sends some twice.

    Where Python is not asked to raise on Ctrl-C or to die on SIGTERM (in another thread than the
    main one, under a handler of the user's own) nothing is changed.
    """

    def __init__(self) -> None:
        self.terminated = False
        self._count = 0
        self._allowed = False

    @property
    def urgent(self) -> bool:
        """Whether the user wants to leave at once."""
        return self._count > 1

    @contextmanager
    def watch(self, *, terminate: bool) -> Generator[None]:
        """Take over Ctrl-C and, if ``terminate``, SIGTERM; and give them back."""
        main = threading.current_thread() is threading.main_thread()
        interrupt = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        terminate = terminate and main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        try:
            if interrupt:
                signal.signal(signal.SIGINT, self._interrupt)
            if terminate:
                signal.signal(signal.SIGTERM, self._terminate)
            yield
        finally:
            if interrupt:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            if terminate:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    @contextmanager
    def allowed(self) -> Generator[None]:
        """Where a first signal may raise."""
        self._allowed = True
        try:
            if self._count or self.terminated:
                raise KeyboardInterrupt
            yield
        finally:
            self._allowed = False

    def leave(self) -> None:
        """End the process as SIGTERM would have, if that is why the run ended."""
        if self.terminated:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            signal.raise_signal(signal.SIGTERM)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._count += 1
        if self._allowed or self.urgent:
            raise KeyboardInterrupt

    def _terminate(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        first, self.terminated = not self.terminated, True
        if first and self._allowed:
            raise KeyboardInterrupt
