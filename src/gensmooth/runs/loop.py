"""The run loop: step until there is a reason to stop, and save progress.

The first Ctrl-C or SIGTERM ends a run cleanly; a second Ctrl-C exits immediately.
"""

import contextlib
import logging
import math
import secrets
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from types import FrameType
from typing import Any, Generic

from gensmooth import fields
from gensmooth.observe.observers import Observers, Start
from gensmooth.runs.config import Every
from gensmooth.runs.folder import RunFolder, RunProgress, Scratch, config_of
from gensmooth.runs.program import Program, R, S, T
from gensmooth.runs.stopping import End, Limits

_LATER = 0.02  # seconds
_log = logging.getLogger("gensmooth")


def run(
    program: Program[Any, Any, T],
    *,
    folder: str | PathLike[str] | None = None,
    every: int | str | Every | None = None,
    observers: Observers | None = None,
    go_on: bool = False,
    max_seconds: float | None = None,
) -> T:
    """Run a program from the beginning or, if its folder holds this run, from the checkpoint.

    Args:
        program: The program.
        folder: The run's folder; by default nothing is stored. If the run in it has finished, its
            stored result is returned and nothing is run.
        every: How often to write a checkpoint; see :func:`gensmooth.minimize`.
        observers: The observers of the run.
        go_on: Whether to continue a run that its callback stopped.
        max_seconds: Stop after the first step that ends later than this.

    Raises:
        CheckpointError: If the folder holds something else or cannot be used.
    """
    if folder is None:
        return Run(program, observers=observers).execute(max_seconds=max_seconds)
    with RunFolder(Path(folder), create=True) as run_folder:
        progress = run_folder.take(program)
        current = Run(program, progress, folder=run_folder, every=every, observers=observers)
        return current.execute(go_on=go_on, max_seconds=max_seconds)


class Run(Generic[S, R, T]):
    """A run in progress.

    Args:
        program: The program.
        progress: The progress so far; by default none.
        folder: The run's folder; by default nothing is stored.
        every: How often to write a checkpoint.
        observers: The observers of the run.
    """

    def __init__(
        self,
        program: Program[S, R, T],
        progress: RunProgress[S, R] | None = None,
        *,
        folder: RunFolder | Scratch | None = None,
        every: int | str | Every | None = None,
        observers: Observers | None = None,
    ) -> None:
        self._progress = progress = progress or RunProgress(program.init(), 0, [])
        self.program = program
        self.state, self.step, self.records, self.end = progress[:4]
        self.folder = folder
        self._every = every
        self._observers = observers if observers else None
        self._interrupts = Interrupts()
        self._stopped = End("interrupted")  # the reason, if the run is stopped before its end
        self._deadline = math.inf

    def execute(self, *, go_on: bool = False, max_seconds: float | None = None) -> T:
        """Run until there is a reason to stop; if the run has finished, return its stored result.

        Ctrl-C and SIGTERM end a run after a last checkpoint. After Ctrl-C, the result so far is
        returned. SIGTERM ends the process.

        Args:
            go_on: Whether to continue a run that its callback stopped.
            max_seconds: Stop after the first step that ends later than this. A run that stopped
                for this reason is continued.
        """
        continued = ("max_seconds", "callback") if go_on else ("max_seconds",)
        if self.end is not None and self.end.reason not in continued:
            if isinstance(self.folder, RunFolder):
                self.folder.log_finished(self.program, self.end, self.step)
            return self._result()
        self.end = None
        if max_seconds is not None:
            self._deadline = time.monotonic() + max_seconds
        if self.folder is not None:
            self.folder.open(self._progress, self._every)
        try:
            result = self._execute_observed()
        finally:
            if self.folder is not None:
                self.folder.journal.close()
            self._interrupts.leave()
        return result

    def _execute_observed(self) -> T:
        """Run and notify the observers."""
        watched = self._interrupts.watch(terminate=self.folder is not None)
        try:
            self._announce()
            journal = None if self.folder is None else self.folder.journal
            with watched, self.program.session(journal) as session:
                self._until_end(session)
        except BaseException as error:
            if self._observers is not None:
                if not isinstance(error, KeyboardInterrupt):
                    self._stopped = End("failed", _describe_error(error))
                self._observers.end(self.program.summary(self._result()))
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
            if self._interrupts.terminated:
                self._stopped = End("terminated")
            if self._interrupts.urgent:
                raise
        except Exception as error:
            self._stopped = End("failed", _describe_error(error))
            if self.folder is not None:
                self.folder.journal.void_failures()
            if hasattr(error, "result"):  # such errors carry the result so far
                error.result = self._result()  # type: ignore[attr-defined]
            raise
        finally:
            if not self._interrupts.urgent:
                self._save()

    def _loop(self, session: Any) -> End:
        program, folder, allowed = self.program, self.folder, self._interrupts.allowed
        last: R | None = None
        while (end := program.stop(self.state, last)) is None:
            if last is not None and time.monotonic() >= self._deadline:
                return End("max_seconds")
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
                data = program.step_data(state, self.records, session)
                if data is not None:
                    self._observers.step(data, program.faults(last))
        return end

    def _save(self) -> None:
        if self.folder is not None:
            # Write the program's own files first: once a checkpoint records that the run has ended,
            # they are not written again.
            self.folder.write_files(self.program, self.state, self.records, saved=True)
            self.folder.save(self.program, self.state, self.step, self.end)

    def _result(self) -> T:
        return self.program.result(self.state, self.records, self.end or self._stopped)

    def _faults(self) -> Counter[str]:
        faults: Counter[str] = Counter()
        for record in self.records:
            faults.update(self.program.faults(record))
        return faults

    def _announce(self) -> None:
        """Report whether the run starts or resumes, from where, and what ends it if not a limit."""
        limits = self.program.limits
        unlimited = isinstance(limits, Limits) and limits.budget is None is limits.max_steps
        if unlimited and self._deadline == math.inf:
            _log.warning("%s", self.program.what_ends_it())
        quiet = self._observers is None and self.folder is None
        if quiet and not _log.isEnabledFor(logging.INFO):
            return
        start, folder = self._start(), self.folder
        recorded = 0 if folder is None else folder.journal.evaluations(self.step)
        message, notable = f"The {self.program.noun} starts.", False
        if folder is not None:
            message = folder.describe_start(self.program, self.step, start.evaluations, recorded)
            notable = isinstance(folder, RunFolder) and not folder.is_new
        shown = self._observers is not None and self._observers.has_display
        _log.log(logging.WARNING if notable and not shown else logging.INFO, "%s", message)
        if self._observers is not None:
            self._observers.start(start._replace(message=message), self._faults())

    def _start(self) -> Start:
        folder = self.folder if isinstance(self.folder, RunFolder) else None
        name = secrets.token_hex(8) if folder is None else folder.run
        config = config_of(self.program, name, {}) if folder is None else folder.config
        return self.program.start(self.state, Start(name, config, self.step))


def _describe_error(error: BaseException) -> str:
    text = fields.printable(str(error), lines=True)
    return text if hasattr(error, "result") else f"{type(error).__name__}: {text}"


class Interrupts:
    """Defers signals where an interrupt would leave the run in an inconsistent state.

    Within :meth:`watch`, the first Ctrl-C or SIGTERM raises ``KeyboardInterrupt`` only inside
    :meth:`allowed`, where the program computes a step and the state is replaced only afterwards.
    Elsewhere it is deferred to the next entry into :meth:`allowed`. A second Ctrl-C raises
    immediately. Further SIGTERMs are ignored, because a signal to a process group may arrive twice.
    While LLVM compiles, which an exception in one of its calls into Python would crash, signals
    count as arriving a little later.

    Outside the main thread, or if the user has installed a signal handler, nothing is changed.
    """

    def __init__(self) -> None:
        self.terminated = False
        self._count = 0
        self._allowed = False

    @property
    def urgent(self) -> bool:
        """Whether the user has asked to exit immediately."""
        return self._count > 1

    @contextmanager
    def watch(self, *, terminate: bool) -> Generator[None]:
        """Handle Ctrl-C and, if ``terminate``, SIGTERM; restores the handlers on exit."""
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
        """Allow the first signal to raise here."""
        self._allowed = True
        try:
            if self._count or self.terminated:
                raise KeyboardInterrupt
            yield
        finally:
            self._allowed = False

    def leave(self) -> None:
        """End the process by SIGTERM if a SIGTERM ended the run."""
        if self.terminated:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            signal.raise_signal(signal.SIGTERM)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if _postponed(number, frame):
            return
        self._count += 1
        if self._allowed or self.urgent:
            raise KeyboardInterrupt

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        if _postponed(number, frame):
            return
        first, self.terminated = not self.terminated, True
        if first and self._allowed:
            raise KeyboardInterrupt


def _postponed(number: int, frame: FrameType | None) -> bool:
    """Whether LLVM is compiling; the signal is then sent again a little later."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("llvmlite."):
            timer = threading.Timer(_LATER, _send_to_main, (number,))
            timer.daemon = True
            timer.start()
            return True
        frame = frame.f_back
    return False


def _send_to_main(number: int) -> None:
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, number)  # also ends a sleep
    else:
        signal.raise_signal(number)


def resumed_run(
    folder: RunFolder,
    program: Any,
    limits: Any,
    *,
    every: int | str | Every | None = None,
    observers: Observers | None = None,
) -> Run[Any, Any, Any]:
    """Return the run in a folder at its last checkpoint, optionally with other limits.

    Args:
        folder: The open folder.
        program: The folder's program; its method ``extended`` returns one with other limits.
        limits: The limits from now on. If they have changed, ``config.json`` is rewritten.
        every: How often to write a checkpoint.
        observers: The observers of the run.
    """
    progress = folder.load(program)
    if limits != program.limits:
        program = program.extended(limits, progress.step)
        progress = folder.load(program)
        folder.write(program)
    return Run(program, progress, folder=folder, every=every, observers=observers)
