"""A fork of the warm interpreter behaves as a fresh interpreter does."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import warm_python

pytestmark = pytest.mark.skipif(
    warm_python.installed is None, reason="forks are warm on Linux alone"
)

CASES = {
    "prints": "print('out'); import sys; print('err', file=sys.stderr)",
    "arguments": "import sys; print(sys.argv, sys.path[0], __name__, sys.modules['__main__'].x)",
    "input": "print(input() + '!')",
    "folder": "import os; print(os.getcwd(), os.environ['HERE'])",
    "exit": "raise SystemExit",
    "exit 3": "raise SystemExit(3)",
    "exit with words": "raise SystemExit('sorry')",
    "exception": "1 / 0",
    "interrupt": "raise KeyboardInterrupt",
    "killed": "import os; print('lost'); os.kill(os.getpid(), 9)",
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "interrupted": "import os, time; os.kill(os.getpid(), 2); time.sleep(9)",
    "handlers": "import atexit; atexit.register(print, 'bye'); print('hello', end=' ')",
    "thread": "import threading as t; t.Timer(0.1, print, ['late']).start()",
    "child": "import subprocess as s, sys; print(s.call([sys.executable, '-c', 'exit(5)']))",
    "orphan": "import os; os.fork() or os._exit(0); os.wait(); print('reaped')",
    "tty": "import sys; print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stdout.encoding)",
    "path": "import sys; print(sys.path)",
    "signals": "import signal; print(*(signal.getsignal(s) for s in (2, 13, 15, 17)))",
    "descriptors": "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:3])",
    "group": "import os; print(os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid())",
    "parent": "import os, sys; print(os.getppid() == int(os.environ['PARENT']))",
}


def outcome(code: str, folder: object, **options: object) -> tuple[int, str, str]:
    environment = {**os.environ, "HERE": "here", "PARENT": str(os.getpid())}
    done = subprocess.run(
        [sys.executable, "-c", f"x = 1\n{code}", "a", "-b"],
        input="line\n",
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
        **options,
    )
    error = done.stderr.splitlines()[-1:]  # the last line: frames of ours come before it
    return done.returncode, done.stdout, "".join(error)


@pytest.mark.parametrize("name", CASES)
def test_it_does_what_a_fresh_one_does(name, tmp_path, monkeypatch):
    options = {"start_new_session": True} if name == "group" else {}
    warm = outcome(CASES[name], tmp_path, **options)
    monkeypatch.setattr(warm_python.installed, "enabled", False)
    assert warm == outcome(CASES[name], tmp_path, **options)


@pytest.mark.usefixtures("fresh_interpreters")
def test_its_path_does_not_depend_on_the_variable_with_which_the_warm_one_was_started():
    code = f"""
import os, subprocess, sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "helpers")!r})
import warm_python
warm_python.install()
show = [sys.executable, "-c", "import sys; print(sys.path)"]
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
subprocess.run(show, capture_output=True, check=True)
os.environ["PYTHONPATH"] = "/elsewhere"
warm = subprocess.run(show, capture_output=True, check=True).stdout
warm_python.installed.enabled = False
fresh = subprocess.run(show, capture_output=True, check=True).stdout
print(warm_python.installed._socket is not None, warm == fresh, b"site-packages" in fresh)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True True True\n", "")


def test_descriptors_keep_their_numbers_and_the_group_is_its_own():
    reading, writing = os.pipe()
    code = f"import os; os.write({writing}, str(os.getpgrp()).encode())"
    with subprocess.Popen(
        [sys.executable, "-c", code], pass_fds=[writing], process_group=0
    ) as running:
        os.close(writing)
        assert int(os.read(reading, 100)) == running.pid
    os.close(reading)
    assert running.returncode == 0


def test_it_can_be_stopped_and_ended_with_its_group():
    line = [sys.executable, "-c", "import time; time.sleep(1000)"]
    with subprocess.Popen(line, start_new_session=True) as running:
        os.killpg(running.pid, signal.SIGSTOP)
        os.killpg(running.pid, signal.SIGKILL)
        assert running.wait(60) == -signal.SIGKILL


def test_modules_are_there_before_they_are_asked_for_only_where_it_is_warm(tmp_path, monkeypatch):
    code = "import sys; print('gensmooth' in sys.modules)"
    assert outcome(code, tmp_path)[1] == "True\n"
    monkeypatch.setenv("PYTHONHASHSEED", "3")  # read by an interpreter when it starts
    assert outcome(code, tmp_path)[1] == "False\n"
