"""The one loop: step until there is a reason to stop, and lose nothing on the way.

Ctrl-C and SIGTERM: the first one ends a run cleanly, a second Ctrl-C leaves at once.
"""

import contextlib
import secrets
import signal
import sys
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from types import FrameType
from typing import Any, Generic

from gensmooth.observe.observers import Observers, Start
from gensmooth.runs.config import Every
from gensmooth.runs.folder import Found, RunFolder, Scratch, config_of
from gensmooth.runs.program import Program, R, S, T
from gensmooth.runs.stopping import End


def run(
    program: Program[Any, Any, T],
    *,
    folder: str | PathLike[str] | None = None,
    every: int | str | Every | None = None,
    observers: Observers | None = None,
    go_on: bool = False,
) -> T:
    """Run a program from its beginning or, if its folder holds it already, from its checkpoint.

    Args:
        program: What is run.
        folder: Where it is kept, if anywhere. A program that has ended there is not run again: its
            result is told again.
        every: How often a checkpoint is written; see :func:`gensmooth.minimize`.
        observers: Who follows it.
        go_on: Whether a run that its callback stopped goes on.

    Raises:
        CheckpointError: When the folder holds something else, or cannot be used.
    """
    if folder is None:
        return Run(program, observers=observers).execute()
    with RunFolder(Path(folder), create=True) as held:
        found = held.take(program)
        taken = Run(program, found, folder=held, every=every, observers=observers)
        return taken.execute(go_on=go_on)


class Run(Generic[S, R, T]):
    """A run in progress.

    Args:
        program: What is run.
        found: How far it has got.
        folder: Where it is kept, if anywhere.
        every: How often a checkpoint is written.
        observers: Who follows it.
    """

    def __init__(
        self,
        program: Program[S, R, T],
        found: Found[S, R] | None = None,
        *,
        folder: RunFolder | Scratch | None = None,
        every: int | str | Every | None = None,
        observers: Observers | None = None,
    ) -> None:
        self._found = found = found or Found(program.init(), 0, [])
        self.program = program
        self.state, self.step, self.records, self.end = found[:4]
        self.folder = folder
        self._every = every
        self._observers = observers if observers else None
        self._interrupts = Interrupts()

    def execute(self, *, go_on: bool = False) -> T:
        """Run until there is a reason to stop, or tell what came of it when it has ended.

        Ctrl-C and SIGTERM end a run after a last checkpoint. Ctrl-C then gives the result so far;
        SIGTERM then ends the process, as it would have done at once.

        Args:
            go_on: Whether a run that its callback stopped goes on.
        """
        if self.end is not None and not (go_on and self.end.reason == "callback"):
            if isinstance(self.folder, RunFolder):
                self.folder.say_that_it_has_ended(self.program, self.end, self.step)
            return self._result()
        self.end = None
        if self.folder is not None:
            self.folder.open(self._found, self._every)
        try:
            result = self._followed()
        finally:
            self._interrupts.leave()
        return result

    def _followed(self) -> T:
        """Run, and tell the observers."""
        watched = self._interrupts.watch(terminate=self.folder is not None)
        try:
            if self._observers is not None:
                self._observers.start(self._start(), self._faults())
            with watched, self.program.session() as session:
                self._until_end(session)
        except BaseException as error:
            failed = {"status": "failed", "message": f"{type(error).__name__}: {error}"}
            if self._observers is not None:
                self._observers.end({**self.program.summary(self._result()), **failed})
            raise
        result = self._result()
        if self._observers is not None:
            self._observers.end(self.program.summary(result))
        return result

    def _until_end(self, session: Any) -> None:
        try:
            end = self._loop(session)
            with self._interrupts.allowed():
                self.end = self.program.finish(self.state, end, session)
        except KeyboardInterrupt:
            if self._interrupts.urgent:
                raise
        except Exception as error:
            if hasattr(error, "result"):  # it tells what was found until then
                error.result = self._result()  # type: ignore[attr-defined]
            raise
        finally:
            if not self._interrupts.urgent:
                self._save()

    def _loop(self, session: Any) -> End:
        program, folder, allowed = self.program, self.folder, self._interrupts.allowed
        last: R | None = None
        while (end := program.stop(self.state, last)) is None:
            if last is not None and folder is not None and folder.due(self.step):
                self._save()
            with allowed():
                state, last = program.step(self.state, session)
            self.state, self.step = state, self.step + 1
            self.records.append(last)
            if folder is not None:
                folder.record(self.step - 1, program.write_record(last))
                folder.write_files(program, state, self.records, saved=False)
            if self._observers is not None:
                seen = program.seen(state, self.records, session)
                if seen is not None:
                    self._observers.step(seen, program.faults(last))
        return end

    def _save(self) -> None:
        if self.folder is not None:
            # First the program's own files: once a checkpoint says that a run has ended, nobody
            # writes them again.
            self.folder.write_files(self.program, self.state, self.records, saved=True)
            self.folder.save(self.program, self.state, self.step, self.end)

    def _result(self) -> T:
        return self.program.result(self.state, self.records, self.end)

    def _faults(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for record in self.records:
            found.update(self.program.faults(record))
        return found

    def _start(self) -> Start:
        kept = self.folder if isinstance(self.folder, RunFolder) else None
        name = secrets.token_hex(8) if kept is None else kept.run
        config = config_of(self.program, name, {}) if kept is None else kept.config
        return self.program.start(self.state, Start(name, config, self.step))


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
