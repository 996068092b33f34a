"""Start Python processes by forking a warm interpreter.

The tests start more than a thousand Python processes: workers, commands, scripts to be killed. A
fresh interpreter spends about a second of CPU on imports before it does anything. Here, one
interpreter per test session imports everything once, and each process that a test starts is a fork
of it.

``install()`` changes how ``subprocess.Popen`` starts ``sys.executable`` and the ``gensmooth``
command. Everything else about ``Popen`` stays as it is, because the new process really is our
child: the warm interpreter forks twice, and the kernel gives the orphan to the nearest ancestor
that has asked for orphans (a "subreaper"), which is us.

The workers of pytest-xdist are such processes, too. So with empty caches, packages are compiled to
bytecode once, and the kernels of the everyday calls to machine code once.

A test that is about a fresh interpreter (what it imports, how long it takes) uses the fixture
``fresh_interpreters`` of conftest.py. A process whose environment differs in a variable that
libraries read while they are imported is started the ordinary way.
"""

import array
import atexit
import ctypes
import fcntl
import gc
import inspect
import io
import json
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

_PRELOAD = (
    "gensmooth.cli.main", "gensmooth.evaluators.worker", "gensmooth.evaluators.processes",
    "gensmooth.runs.folder", "gensmooth.optimize", "gensmooth.searches.algorithms",
    "gensmooth.lab.compare", "gensmooth.lab.paper.reproduce", "gensmooth.rl.front",
    "gensmooth.lab.report.page", "cloudpickle", "scipy.special", "scipy.stats", "matplotlib.figure",
    "matplotlib.backends.backend_agg", "jinja2", "gymnasium", "rich.live", "typer.core",
)  # fmt: skip
# Variables that libraries read when they are imported: a process with others is not forked.
# (PYTHONPATH is applied by the fork; Ray sets PYTHONBREAKPOINT, which nothing here reads.)
_READ_ON_IMPORT = re.compile(
    "PYTHON(?!PATH|BREAKPOINT)|NUMBA|OMP|MKL|OPENBLAS|MPL|LANG|LC_|HOME|XDG"
)
_PYTHON = sys.executable  # a test may change it
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of <linux/prctl.h>


# --- the side of the tests -----------------------------------------------------------------------


class _Warm:
    """The connection to the warm interpreter, which starts when it is first needed."""

    def __init__(self, connection: socket.socket | None, environment: dict[str, str]) -> None:
        self.enabled = True
        self._lock = threading.Lock()
        self._socket = connection
        self._pid = os.getpid()
        self._environment = environment
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)

    def takes(self, options: dict[str, Any]) -> bool:
        """Whether a process with these options of ``Popen`` can be a fork."""
        line = options["args"]
        words = [] if isinstance(line, str | bytes | os.PathLike) else list(map(os.fspath, line))
        environment = os.environ if options["env"] is None else options["env"]
        return (
            self.enabled
            and self._pid == os.getpid()
            and _job_of(words) is not None
            and os.fspath(options["executable"] or words[0]) == words[0]
            and not (options["shell"] or options["preexec_fn"])
            and options["close_fds"]
            and all(options[name] in (None, -1) for name in ("gid", "gids", "uid", "umask"))
            and os.path.isdir(options["cwd"] or ".")
            and all(isinstance(word, str) for word in (*words, *environment))
            and self._start() == _relevant(environment)
        )

    def _start(self) -> dict[str, str]:
        with self._lock:
            if self._socket is None:
                ours, theirs = socket.socketpair()
                self._environment = dict(os.environ)
                # -c, so that sys.path begins as that of an interpreter without a script
                code = f"exec(compile(open({__file__!r}).read(), {__file__!r}, 'exec'))"
                self.enabled = False  # this one is started the ordinary way
                self._process = subprocess.Popen(  # kept: a forgotten one is warned about
                    [sys.executable, "-c", code, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                )
                self.enabled = True
                theirs.close()
                self._socket = ours
        return _relevant(self._environment)

    def start(self, options: dict[str, Any]) -> int:
        """Start a process and return its number."""
        given = [options[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        standard = [number if fd == -1 else fd for number, fd in enumerate(given)]
        passed = sorted(options["pass_fds"])
        request = {
            "argv": [os.fspath(word) for word in options["args"]],
            "environment": dict(os.environ if options["env"] is None else options["env"]),
            "folder": os.path.abspath(options["cwd"] or "."),
            "descriptors": [0, 1, 2, *passed],
            "session": options["start_new_session"],
            "group": options["process_group"],
        }
        body = json.dumps(request).encode()
        with self._lock:
            assert self._socket is not None
            head = len(body).to_bytes(8, "little")
            socket.send_fds(self._socket, [head], [*standard, *passed])
            self._socket.sendall(body)
            return int.from_bytes(_receive(self._socket, 8), "little")


installed: _Warm | None = None


def _relevant(environment: Any) -> dict[str, str]:
    return {k: v for k, v in environment.items() if _READ_ON_IMPORT.match(k)}


def _job_of(words: list[Any]) -> str | None:
    """What the command line runs: -c, -m, or the path of a script; ``None`` for anything else."""
    words = _without_unbuffered(words)
    if len(words) > 1 and words[0] == _PYTHON:
        if words[1] == "-c" and len(words) > 2:
            return "-c"
        if words[1:3] == ["-m", "gensmooth"]:
            return "-m"
        return words[1] if words[1].endswith(".py") else None
    if words and words[0] == str(Path(_PYTHON).with_name("gensmooth")):
        return words[0]
    return None


def _without_unbuffered(words: list[Any]) -> list[Any]:
    return [words[0], *words[2:]] if words[1:2] == ["-u"] else words


def install(
    connection: socket.socket | None = None, environment: Mapping[str, str] | None = None
) -> None:
    """Have ``subprocess.Popen`` start Python by forking, on Linux.

    In a fork this has been done already.

    Args:
        connection: To a warm interpreter that is a child of this process, if there is one.
        environment: What the environment was when that one was started.
    """
    ordinary: Callable[..., None] = subprocess.Popen._execute_child  # type: ignore[attr-defined]
    signature = inspect.signature(ordinary)
    global installed
    if installed or sys.platform != "linux" or "process_group" not in signature.parameters:
        return
    installed = warm = _Warm(connection, dict(environment or {}))

    def execute_child(self: Any, *args: Any) -> None:
        options = signature.bind(self, *args).arguments
        if not warm.takes(options):
            return ordinary(self, *args)
        self.pid = warm.start(options)
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(options[name] for name in pipes))
        return None

    subprocess.Popen._execute_child = execute_child  # type: ignore[attr-defined]


# --- the side of the warm interpreter ------------------------------------------------------------

_path_of_its_own: list[str] = []  # sys.path without the first entry and without PYTHONPATH


class _Request(NamedTuple):
    """What a fork has to become, and its own connection to a warm interpreter."""

    options: dict[str, Any]
    connection: int | None


def _serve(control: socket.socket) -> _Request:
    """Fork for each request. Returns in the forks only."""
    while True:
        head, descriptors = _receive_with_descriptors(control)
        if not head:
            os._exit(0)  # the process that we serve has ended
        options = json.loads(_receive(control, int.from_bytes(head, "little")))
        reading, writing = os.pipe()
        between = os.fork()
        if between:
            os.close(writing)
            pid = os.read(reading, 8)
            os.close(reading)
            os.waitpid(between, 0)
            for fd in descriptors:
                os.close(fd)
            control.sendall(pid)
            continue
        middle = os.getpid()
        ready, tell = os.pipe()
        child = os.fork()
        if child:  # once the child has its group, nobody needs us
            os.close(tell)
            os.read(ready, 1)
            os.write(writing, child.to_bytes(8, "little"))
            os._exit(0)
        if options["session"]:
            os.setsid()
        if options["group"] is not None and options["group"] >= 0:
            os.setpgid(0, options["group"])
        os.write(tell, b"r")
        while os.getppid() == middle:  # until the kernel has given us to the tests
            os.sched_yield()
        wanted = options["descriptors"]
        number = control.detach()  # or it would close what is given its number
        words = options["argv"]
        if "evaluators.worker" in " ".join(words[:3]) or "--multiprocessing-fork" in words:
            # It starts no processes.
            _place(descriptors, wanted)
            return _Request(options, None)
        ours, theirs = socket.socketpair()
        if os.fork() == 0:  # a warm interpreter of its own, which ends with it
            os.setsid()  # not in its group, which tests ask for whether all have ended
            ours.close()
            _place([theirs.detach()], [number])
            control = socket.socket(fileno=number)
            continue
        theirs.close()
        connection = max(wanted) + 1
        _place([*descriptors, ours.detach()], [*wanted, connection])
        os.set_inheritable(connection, False)
        return _Request(options, connection)


def _receive_with_descriptors(control: socket.socket) -> tuple[bytes, list[int]]:
    numbers = array.array("i")
    size = socket.CMSG_SPACE(256 * numbers.itemsize)
    data, ancillary, _, _ = control.recvmsg(8, size)
    for _, _, body in ancillary:
        numbers.frombytes(body[: len(body) - len(body) % numbers.itemsize])
    return data, list(numbers)


def _receive(control: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = control.recv(size - len(parts))
        if not part:
            raise EOFError("The warm interpreter is gone.")
        parts += part
    return bytes(parts)


def _place(received: list[int], wanted: list[int]) -> None:
    """Give the descriptors the numbers they have in the tests' process; close all others."""
    above = max([*received, *wanted]) + 1
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, above) for fd in received]
    for fd, number in zip(high, wanted, strict=True):
        os.dup2(fd, number)
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        if fd > 2 and fd not in wanted:
            with suppress(OSError):  # the listing's own is closed already
                os.close(fd)


def _become(options: dict[str, Any]) -> Callable[[], None]:
    """Make this process what a fresh interpreter with that command line would be."""
    now = [part for part in options["environment"].get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[1:] = now + [path for path in _path_of_its_own if path not in now]
    os.environ.clear()
    os.environ.update(options["environment"])
    os.chdir(options["folder"])
    argv = _without_unbuffered(options["argv"])
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED")) or argv != options["argv"]
    sys.stdin = sys.__stdin__ = os.fdopen(0)
    for fd, name in ((1, "stdout"), (2, "stderr")):
        old = getattr(sys, name)
        stream = io.TextIOWrapper(
            os.fdopen(fd, "wb", 0 if unbuffered else -1),
            old.encoding,
            old.errors,
            line_buffering=fd == 2 or os.isatty(fd),
            write_through=unbuffered,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.modules["numpy"].random.seed()
    if "multiprocessing.process" in sys.modules:  # it looks for a script from there
        sys.modules["multiprocessing.process"].ORIGINAL_DIR = options["folder"]
    job = _job_of(argv)
    sys.modules["warm_python"] = sys.modules["__main__"]  # for the conftest.py of a worker of xdist
    main = ModuleType("__main__")
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    if job == "-c":
        sys.argv = ["-c", *argv[3:]]
        sys.path[0] = ""
        return lambda: exec(compile(argv[2], "<string>", "exec"), main.__dict__)
    if job == "-m":
        sys.argv = ["-m", *argv[3:]]
        sys.path[0] = options["folder"]
        return lambda: runpy._run_module_as_main(argv[2])  # type: ignore[attr-defined]
    script = argv[1] if argv[0] == _PYTHON else argv[0]
    sys.argv = argv[1:] if argv[0] == _PYTHON else argv
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    main.__file__ = script
    return lambda: exec(compile(Path(script).read_bytes(), script, "exec"), main.__dict__)


def _path_without_variable() -> list[str]:
    """Return the ``sys.path`` of an interpreter without PYTHONPATH, which may name parts of it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    line = [sys.executable, "-c", "import sys; print(*sys.path[1:], sep='\\n')"]
    shown = subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout
    return shown.splitlines()


def _warm_up() -> None:
    """Import what processes of the tests import, and load the kernels of the everyday calls."""
    from importlib import import_module

    for name in _PRELOAD:
        with suppress(ImportError):  # an extra that is not installed
            import_module(name)
    import numpy as np

    import gensmooth as gs

    for method in (None, "bes"):
        how = {} if method is None else {"method": method}
        gs.minimize(lambda x: float(x @ x), np.ones(4), budget=60, seed=0, **how)


def main() -> Callable[[], None]:
    """In the warm interpreter: serve; in each of its forks: what it has to run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which then end us
    control = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()
    global _path_of_its_own
    _path_of_its_own = _path_without_variable()
    _warm_up()
    gc.freeze()  # a collection in a fork would copy all of our memory
    gc.enable()
    before = dict(os.environ)
    options, connection = _serve(control)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if connection is not None:
        install(socket.socket(fileno=connection), before)
    return _become(options)


def _run(job: Callable[[], None]) -> int:
    """Run the job and return the exit code that an interpreter would have ended with."""
    try:
        job()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _end(code: int) -> None:
    """End as an interpreter does, but free no objects: that takes a second."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except ValueError:  # closed
        pass
    except OSError:
        code = 120
    if code < 0:  # as Ctrl-C ends a program
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 255)


if __name__ == "__main__":
    _end(_run(main()))
