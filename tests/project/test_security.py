"""A folder or a policy is data from a stranger: nothing runs, nothing else is overwritten."""

import ast
import json
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import zlib
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import gensmooth as gs
from gensmooth.fields import seal
from gensmooth.lab.overview import overview
from gensmooth.rl.environments.catalogue import check_trusted
from gensmooth.rl.normalize import statistics
from gensmooth.runs import CheckpointError, container
from gensmooth.runs.config import checksum, pretty
from gensmooth.runs.files import read_npy


def bowl(x):
    return float((x**2).sum())


class _Killed(BaseException):
    pass


def started(folder, *, fun=bowl, x0=(1.0, 2.0, 3.0), stop=4, **options):
    """A run that was stopped after some steps."""
    gs.minimize(
        fun,
        x0,
        folder=folder,
        every=1,
        callback=lambda now: now.info.step == stop,
        **{"max_steps": 9, "seed": 3, **options},
    )
    return Path(folder)


def rewritten(folder, change, *, consistent=True):
    """Change ``config.json``, as somebody would who knows of the checksum, or does not."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    if consistent:
        config["sha256"] = checksum(config)
    path.write_text(pretty(config))


# --- nothing is imported because a file says so --------------------------------------------------


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that tells when it is imported."""
    (tmp_path / "evil.py").write_text(
        "import pathlib\npathlib.Path('ran').touch()\n"
        "def loss(x):\n    return float((x**2).sum())\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    yield tmp_path
    sys.modules.pop("evil", None)


def test_an_objective_is_not_imported_unless_trusted(module):
    folder = started(module / "run")
    (folder / "checkpoint").unlink()  # whoever forges a folder need not have one
    (folder / "checkpoint.previous").unlink()
    rewritten(folder, lambda config: config.update(objective="evil:loss"))
    with pytest.raises(CheckpointError, match=r"'evil:loss', which would be imported and called"):
        gs.resume(folder)
    assert not (module / "ran").exists()
    named = gs.resume(folder, bowl)
    assert not (module / "ran").exists()
    shutil.rmtree(folder)
    started(folder)
    for name in ("checkpoint", "checkpoint.previous"):
        (folder / name).unlink()
    rewritten(folder, lambda config: config.update(objective="evil:loss"))
    trusted = gs.resume(folder, trust=True)
    assert (module / "ran").exists()
    assert trusted.x.tobytes() == named.x.tobytes()


@pytest.mark.parametrize("name", ["builtins:exec", "os:system", "subprocess:run", "os.path:exists"])
def test_an_objective_of_python_itself_is_refused_even_with_trust(name, tmp_path):
    folder = started(tmp_path / "run")
    for file in ("checkpoint", "checkpoint.previous"):
        (folder / file).unlink()
    rewritten(folder, lambda config: config.update(objective=name))
    with pytest.raises(CheckpointError, match="not a user's function"):
        gs.resume(folder, trust=True)


def test_directions_are_not_imported_unless_trusted(module):
    folder = started(module / "run", method="bes")
    kind = {"kind": "evil:Mine"}
    rewritten(folder, lambda config: config["search"].update(directions=kind))
    with pytest.raises(CheckpointError, match=r"'evil', which would be imported"):
        gs.resume(folder, bowl)
    assert not (module / "ran").exists()


def test_the_command_shows_the_name_and_takes_trust(module):
    folder = started(module / "run")
    for name in ("checkpoint", "checkpoint.previous"):
        (folder / name).unlink()
    rewritten(folder, lambda config: config.update(objective="evil:loss"))
    line = [sys.executable, "-m", "gensmooth", "resume", "run"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "evil:loss" in done.stderr
    assert "--trust" in done.stderr
    assert not (module / "ran").exists()
    subprocess.run([*line, "--trust"], capture_output=True, check=True)
    assert (module / "ran").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"study": "rl", "environments": ["evil:Foo-v0"]},
        {"study": "rl", "environments": ["evil"]},
        {"study": "rl", "environments": "evil:Foo-v0"},
        {"study": "rl", "device": "evil:cuda"},
        {"study": "evil:STUDY"},
        {"study": ["evil:STUDY"]},
        {"study": "linreg,evil:STUDY"},
        {"study": "linreg", "claims": ["evil:CLAIM"]},
        {"study": "linreg", "methods": ["evil:Mine"]},
        {"study": "dfo", "objectives": ["evil:loss"]},
        {"study": "dfo", "objectives": ["nevergrad:evil:loss"]},
        {"study": "dfo", "ray": "evil()"},
        {"study": "dfo", "folder": "elsewhere"},
        {"study": "dfo", "judge": "elsewhere"},
        {"study": "dfo", "profile": "evil"},
        {"study": "dfo", "seeds": 10**9},
        {"study": "dfo", "seeds": "2"},
        {"environments": []},
        ["study"],
        "study",
    ],
)
def test_a_study_folder_cannot_have_a_module_imported(options, module):
    (module / "reproduce.json").write_text(json.dumps(options))
    with pytest.raises(ValueError, match=r"reproduce\.json cannot be used"):
        overview(module)
    assert not (module / "ran").exists()
    assert sorted(os.listdir(module)) == ["evil.py", "reproduce.json"]


@pytest.mark.parametrize(
    "name", ["numpy._core.numeric:builtins.exec", "gensmooth.checks:os.remove"]
)
def test_nor_by_way_of_a_module_that_has_imported_it(name, tmp_path):
    folder = started(tmp_path / "run")
    for file in ("checkpoint", "checkpoint.previous"):
        (folder / file).unlink()
    rewritten(folder, lambda config: config.update(objective=name))
    with pytest.raises(CheckpointError, match="not a user's function"):
        gs.resume(folder, trust=True)


def test_a_name_in_a_file_puts_no_folder_on_the_path(tmp_path, monkeypatch):
    """From there on, what is imported late would be looked for among a stranger's files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    folder = started(tmp_path / "run", method="bes")
    rewritten(folder, lambda config: config["search"].update(directions={"kind": "numpy:ndarray"}))
    with pytest.raises(CheckpointError, match="is not known to this version"):
        gs.resume(folder, bowl)
    assert str(tmp_path) not in sys.path


# --- checksums -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["budget", "p"])
def test_a_flipped_bit_in_the_configuration_is_found(value, tmp_path):
    folder = started(tmp_path / "run", method="bes")

    def flip(config):
        if value == "p":
            config["search"]["directions"]["p"] = 0.25
        else:
            config["limits"]["budget"] += 1 << 12

    rewritten(folder, flip, consistent=False)
    with pytest.raises(CheckpointError, match="damaged or was edited"):
        gs.resume(folder, bowl)


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path):
    folder = started(tmp_path / "run", method="bes")
    rewritten(folder, lambda config: config["search"].update(spacing=0.2))
    with pytest.raises(CheckpointError, match=r"does not match config\.json"):
        gs.resume(folder, bowl)


def test_a_configuration_that_lost_its_checksum_is_found(tmp_path):
    folder = started(tmp_path / "run")
    rewritten(folder, lambda config: config.pop("sha256"), consistent=False)
    with pytest.raises(CheckpointError, match="its checksum differs"):
        gs.resume(folder, bowl)


def test_a_configuration_of_another_format_is_refused_by_its_number(tmp_path):
    folder = started(tmp_path / "run")
    rewritten(folder, lambda config: config.update(format=7, gensmooth="8.0"))
    with pytest.raises(CheckpointError, match=r"has format 7, .* reads format 1\. .* \(8\.0\)"):
        gs.resume(folder, bowl)


def test_another_version_of_gensmooth_does_not_make_it_another_run(tmp_path):
    folder = started(tmp_path / "run")
    rewritten(folder, lambda config: config.update(gensmooth="0.1.7"))
    assert gs.resume(folder, bowl).nit == 9


def test_other_limits_do_not_make_it_another_run(tmp_path):
    folder = started(tmp_path / "run")
    longer = gs.resume(folder, bowl, max_steps=12)
    whole = gs.minimize(bowl, (1.0, 2.0, 3.0), max_steps=12, seed=3)
    assert longer.nit == whole.nit == 12
    assert gs.resume(folder, bowl).x.tobytes() == longer.x.tobytes()


def test_arrays_of_another_start_are_not_taken_for_ours(tmp_path, monkeypatch):
    """Killed between `arrays` and `config.json`, begun anew elsewhere, killed, resumed."""
    first, second = np.full(20_000, 1.0), np.full(20_000, 2.0)

    def kill(*_, **__):
        raise _Killed

    with monkeypatch.context() as patched:
        patched.setattr("gensmooth.runs.folder.write_text", kill)
        with pytest.raises(_Killed):
            started(tmp_path / "run", x0=first)
    assert (tmp_path / "run" / "arrays").exists()
    assert not (tmp_path / "run" / "config.json").exists()
    with monkeypatch.context() as patched:
        patched.setattr("gensmooth.runs.loop.Run.execute", kill)
        with pytest.raises(_Killed):
            started(tmp_path / "run", x0=second)
    found = gs.resume(tmp_path / "run", bowl, max_steps=1)
    alone = gs.minimize(bowl, second, max_steps=1, seed=3, num_directions=None)
    assert found.history.value[0] == alone.history.value[0]


def test_stale_arrays_are_found(tmp_path):
    one = started(tmp_path / "one", x0=np.full(20_000, 1.0))
    other = started(tmp_path / "other", x0=np.full(20_000, 2.0))
    shutil.copy(one / "arrays", other / "arrays")
    with pytest.raises(CheckpointError, match="`arrays` is damaged or belongs to another run"):
        gs.resume(other, bowl)


# --- links ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", ".checkpoint.new", ".config.json.new", ".lock", "checkpoint.previous"]
)
def test_what_a_link_points_to_is_not_touched(name, tmp_path):
    folder = started(tmp_path / "run")
    target = tmp_path / "precious"
    target.write_text("mine")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target)
    try:
        gs.resume(folder, bowl, max_steps=12)
    except CheckpointError as error:
        assert "link" in str(error) or "damaged" in str(error)  # noqa: PT017
    assert target.read_text() == "mine"
    assert list(target.parent.glob("*")) == [folder, target] or set(target.parent.iterdir()) == {
        folder,
        target,
    }


@pytest.mark.parametrize("shared", ["a backup", "a file"])
def test_another_name_of_the_metrics_keeps_what_it_has(shared, tmp_path):
    """A backup of hard links, ``cp -al``; or a file of ours that a stranger's folder names too."""
    folder, other = started(tmp_path / "run"), tmp_path / "other"
    metrics = folder / "metrics.jsonl"
    if shared == "a file":
        for name in ("checkpoint", "checkpoint.previous", "metrics.jsonl"):
            (folder / name).unlink()
        other.write_text("precious")
        os.link(other, metrics)
    else:
        os.link(metrics, other)
    before = other.read_bytes()
    assert gs.resume(folder, bowl).nit == 9
    assert other.read_bytes() == before
    assert len(metrics.read_text().splitlines()) == 9
    assert gs.resume(folder, bowl, max_steps=10).nit == 10


# --- sizes ---------------------------------------------------------------------------------------


def forged(path, meta, *, name="x", numbers=400_000_000, header=None):
    """A container of 4 kB on disk that claims 3.2 GB, of an array or of its header."""
    entry = container._Entry(name, np.dtype("<f8"), (numbers,), 0)
    text = container._header(meta, [entry]) if header is None else b""
    _, length = container._layout(len(text), [entry])
    checksum, size = zlib.crc32(text), len(text)
    if header is not None:
        checksum, size, length = 0, header, container._PREAMBLE.size + header
    preamble = container._PREAMBLE.pack(container.MAGIC, container.VERSION, checksum, size, length)
    path.write_bytes(preamble + text)
    os.truncate(path, length)


SMALL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
import gensmooth as gs
from gensmooth.runs import CheckpointError
try:
    {}
    print("done")
except CheckpointError as error:
    print(error)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def in_small_memory(call):
    """What comes of a call in a process that may take 2 GB, and did not.

    The process tells the peak of its own memory in kB. What `getrusage` says is no use here: of
    "children" the largest of all that this test run has started, a browser among them; of "self"
    what the parent held at the fork.
    """
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    line = [sys.executable, "-c", SMALL.format(call)]
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=environment)
    said, peak = done.stdout.rstrip("\n").rsplit("\n", 1)
    assert int(peak) < 2 * 1024**2
    return said


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("an array", "'x' has 400000000 numbers"),
        ("the header", "its header has more than 64 MiB"),
        ("the metrics", "it contains zero bytes"),
        ("arrays", "'x0' has 400000000 numbers"),
        ("arrays of nobody", "done"),
    ],
)
def test_a_sparse_file_takes_no_memory(what, words, tmp_path):
    large = np.ones(10_001) if what == "arrays" else (1.0, 2.0, 3.0)
    folder = started(tmp_path / "run", x0=large)
    meta, arrays = container.read(folder / "checkpoint")
    if what == "the metrics":
        meta["metrics"] |= {"bytes": 3_200_000_000}
        container.write(folder / "checkpoint", meta, arrays)
        os.truncate(folder / "metrics.jsonl", 3_200_000_000)
    elif what.startswith("arrays"):
        forged(folder / "arrays", {}, name="x0")
    else:
        forged(folder / "checkpoint", meta, header=3_200_000_000 if "header" in what else None)
    said = in_small_memory(f"gs.resume({str(folder)!r}, lambda x: 0.0)")
    assert words in said
    assert "too large for the available memory" not in said


@pytest.mark.parametrize("kind", ["policy", "checkpoint"])
def test_a_sparse_policy_takes_no_memory(kind, tmp_path):
    meta = {"kind": kind, "sizes": [399_999_999, 1], "biases": True}
    forged(tmp_path / "policy", meta, name="parameters")
    said = in_small_memory(f"gs.rl.load_policy({str(tmp_path / 'policy')!r})")
    assert "policy is not a policy" in said


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "checkpoint"])
@pytest.mark.parametrize("kind", ["pipe", "endless", "huge"])
def test_what_never_ends_is_not_read(name, kind, tmp_path):
    """A pipe that nobody writes to, a device, and a file of a terabyte that takes no room."""
    folder = tmp_path / "run"
    gs.minimize(bowl, [1.0, 2.0], seed=1, folder=folder, max_steps=5)
    path = folder / name
    if kind == "huge":
        os.truncate(path, 2**40)
    else:
        path.unlink()
        os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    if (name, kind) == ("metrics.jsonl", "huge"):  # what is beyond the checkpoint is cut off
        assert gs.resume(folder, bowl, max_steps=6).nit == 6
    else:
        with pytest.raises(CheckpointError, match=name):
            gs.resume(folder, bowl)


def test_a_billion_threads_are_not_started_because_a_file_says_so(tmp_path):
    folder = started(tmp_path / "run")
    rewritten(folder, lambda config: config["execution"].update(threads=10**9))
    with pytest.raises(CheckpointError, match="`threads` must be at most 1024, but is 1000000000"):
        gs.resume(folder, bowl)


def test_a_billion_directions_are_refused_at_once():
    with pytest.raises(ValueError, match=r"`num_directions` × `num_samples` must be at most"):
        gs.minimize(bowl, [1.0], num_directions=10**9, budget=10**12)


@pytest.mark.parametrize("named", [1 + gs.evaluators.cores(), 1000, 10**400])
@pytest.mark.parametrize("checkpoint", [True, False], ids=["checkpoint", "no checkpoint"])
def test_no_more_workers_than_cores_are_started_because_a_file_says_so(
    tmp_path, caplog, monkeypatch, checkpoint, named
):
    from gensmooth.evaluators import processes

    folder = started(tmp_path / "run")
    rewritten(folder, lambda config: config["execution"].update(workers=named))
    if not checkpoint:
        for name in ("checkpoint", "checkpoint.previous"):
            (folder / name).unlink(missing_ok=True)
    most = gs.evaluators.cores()
    sizes: list[int] = []
    kept = processes.ProcessPool.__init__

    def counted(pool, size, *rest):
        sizes.append(size)
        kept(pool, size, *rest)

    monkeypatch.setattr(processes.ProcessPool, "__init__", counted)
    with caplog.at_level(logging.WARNING, "gensmooth"):
        found = gs.resume(folder, bowl)
    assert sizes == ([most] if most > 1 else [])
    had = named if named < 10**6 else 10**15
    assert f"The run had {had} workers and continues with {most}, one per core." in caplog.text
    assert found.x.tobytes() == gs.minimize(bowl, (1.0, 2.0, 3.0), max_steps=9, seed=3).x.tobytes()


# --- the lock, and a folder that goes ------------------------------------------------------------


def test_the_lock_outlives_a_copy_of_the_folder(tmp_path):
    seen = []

    def look(now):
        if now.info.step == 2:
            shutil.copytree(tmp_path / "run", tmp_path / "copy")  # opens and closes `.lock`
            code = f"import gensmooth as gs; gs.resume({str(tmp_path / 'run')!r}, lambda x: 0.0)"
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=False
            )
            seen.append(done.stderr)

    gs.minimize(bowl, [1.0], max_steps=4, folder=tmp_path / "run", callback=look, seed=0)
    assert "is in use" in seen[0]


def test_a_folder_that_was_replaced_is_left_alone(tmp_path, caplog):
    folder = tmp_path / "run"

    def replace(now):
        if now.info.step == 2:
            shutil.rmtree(folder)
            folder.mkdir()
            (folder / "config.json").write_text("another's")

    with caplog.at_level(logging.WARNING, "gensmooth"):
        gs.minimize(bowl, [1.0], max_steps=6, folder=folder, every=1, callback=replace, seed=0)
    assert [path.name for path in folder.iterdir()] == ["config.json"]
    assert (folder / "config.json").read_text() == "another's"
    assert [r.message for r in caplog.records if "removed or replaced" in r.message]
    assert "The checkpoint" not in caplog.text


@pytest.mark.parametrize("gone", ["everything", "metrics.jsonl", "config.json"])
def test_a_folder_that_was_emptied_gets_no_checkpoints_that_are_of_no_use(gone, tmp_path, caplog):
    """``rm -rf run/*`` leaves the lock."""
    folder = tmp_path / "run"

    def empty(now):
        if now.info.step == 2:
            for path in folder.glob("[!.]*") if gone == "everything" else [folder / gone]:
                path.unlink()

    with caplog.at_level(logging.WARNING, "gensmooth"):
        res = gs.minimize(bowl, [1.0], max_steps=6, folder=folder, every=1, callback=empty, seed=0)
    assert res.nit == 6
    assert [r.message for r in caplog.records if "removed or replaced" in r.message]
    if gone == "everything":
        assert [path.name for path in folder.iterdir()] == [".lock"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore")  # of a fork in a process with threads
def test_a_fork_of_a_callback_does_not_write(tmp_path):
    """It would go on as a second run with the first one's lock."""
    folder = tmp_path / "run"
    code = f"""
import os, sys
import gensmooth as gs
children = []
def fork(now):
    if now.info.step == 2:
        children.append(os.fork())
    if now.info.step == 3 and children[0]:
        os.waitpid(children[0], 0)  # which has made all of its steps
        assert b'"step": 4' not in open({str(folder / "metrics.jsonl")!r}, "rb").read()
res = gs.minimize(
    lambda x: float(x @ x), [1.0], max_steps=9, seed=0, every=1,
    folder={str(folder)!r}, callback=fork,
)
print(res.nit) if children[0] else os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "9\n", done.stderr
    assert "Could not write" not in done.stderr
    found = gs.resume(folder, lambda x: float(x @ x))
    assert found.nit == 9


def test_a_checkpoint_is_not_due_at_no_time(tmp_path):
    folder = started(tmp_path / "run")
    for seconds in ("nan", "-inf", -1.0):
        rewritten(folder, lambda config, s=seconds: config["execution"].update(every=[None, s]))
        with pytest.raises(CheckpointError, match="`every` must"):
            gs.resume(folder, bowl, max_steps=12)


# --- pages: nothing is written through a link, and nothing waits for a pipe -----------------------


@contextmanager
def deadline(seconds):
    """Fail instead of waiting for ever."""

    def fail(*_):
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def long_run(folder):
    """A run whose x0 does not fit into a command, so that its page has a file for it."""
    started(folder, x0=np.linspace(0, 1, 40))
    rewritten(folder, lambda config: config.update(objective="model:loss"))
    for name in ("checkpoint", "checkpoint.previous"):
        (folder / name).unlink()
    return folder


WRITTEN = ["x0.npy", "tables/steps.csv", "figures/run.svg", "figures/run.png", "report.html"]


@pytest.mark.parametrize("kind", ["symbolic", "hard", "pipe"])
def test_a_page_is_not_written_through_links_or_into_pipes(kind, tmp_path):
    pytest.importorskip("matplotlib")
    folder, precious = long_run(tmp_path / "run"), tmp_path / "precious"
    precious.write_text("mine")
    for name in WRITTEN:
        for path in (
            folder / "report" / name,
            (folder / "report" / name).with_name(f".{Path(name).name}.new"),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "symbolic":
                path.symlink_to(precious)
            elif kind == "hard":
                os.link(precious, path)
            else:
                os.mkfifo(path)
    with deadline(300):
        overview(folder)
    assert precious.read_text() == "mine"
    for name in WRITTEN:
        status = os.lstat(folder / "report" / name)
        assert stat.S_ISREG(status.st_mode)
        assert status.st_nlink == 1
        assert status.st_size > 4


@pytest.mark.parametrize("name", ["report", "report/tables", "report/figures"])
def test_a_page_is_not_written_into_a_folder_that_is_a_link(name, tmp_path):
    pytest.importorskip("matplotlib")
    folder, elsewhere = long_run(tmp_path / "run"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).symlink_to(elsewhere)
    with pytest.raises(CheckpointError, match="symbolic link, which is not followed"):
        overview(folder)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("name", ["times.jsonl", "metrics.jsonl", ".lock", "checkpoint.previous"])
def test_resuming_does_not_wait_for_a_pipe(name, tmp_path):
    folder = started(tmp_path / "run")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with deadline(300):
        try:
            assert gs.resume(folder, bowl, max_steps=12).nit == 12
        except CheckpointError as error:
            assert name in str(error) or "not a regular file" in str(error)  # noqa: PT017


# --- pages: what the files say -------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"search": []},
        {"limits": None},
        {"x0": None},
        {"x0": {"dtype": "float64", "shape": [3], "values": [1.0]}},
        {"x0": {"dtype": "float64", "shape": [10**12], "in": "arrays", "name": "x0"}},
        {"seed": "a"},
        {"objective": "x" * 60_000},
        {"objective": {"a": 1}},
        {"limits": {"budget": "many"}},
    ],
    ids=str,
)
def test_a_page_of_a_forged_configuration_is_refused_in_plain_words(change, tmp_path):
    pytest.importorskip("matplotlib")
    folder = long_run(tmp_path / "run")
    rewritten(folder, lambda config: config.update(change))
    with deadline(120), pytest.raises(CheckpointError, match=r"run.*(cannot|is not|does not)"):
        overview(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"end": "abc"},
        {"end": {"reason": 3, "why": ""}},
        {"metrics": None},
        {"metrics": {"lines": 1, "bytes": -1, "crc32": 0}},
    ],
    ids=str,
)
def test_a_page_of_a_forged_checkpoint_is_refused_in_plain_words(change, tmp_path):
    pytest.importorskip("matplotlib")
    folder = started(tmp_path / "run")
    meta, arrays = container.read(folder / "checkpoint")
    container.write(folder / "checkpoint", meta | change, arrays)
    with pytest.raises(CheckpointError, match="checkpoint does not match its run"):
        overview(folder)


COMPLETE = {"reason": "max_steps", "why": "", "value": 1.0, "error": None}
COMPLETE |= {"evaluations": 1, "faults": {}}


@pytest.mark.parametrize(
    "change",
    [
        {"evaluations": None},
        {"evaluations": -1},
        {"value": "x"},
        {"error": []},
        {"faults": [1]},
        {"reason": "never"},
        {"new": 1},
    ],
    ids=str,
)
def test_a_forged_end_is_refused_in_plain_words(change, tmp_path):
    folder = started(tmp_path / "run")
    meta, arrays = container.read(folder / "checkpoint")
    container.write(folder / "checkpoint", meta | {"end": COMPLETE}, arrays)
    assert gs.resume(folder, bowl).nit == 5
    container.write(folder / "checkpoint", meta | {"end": COMPLETE | change}, arrays)
    with pytest.raises(CheckpointError, match="checkpoint does not match its run"):
        gs.resume(folder, bowl)
    with pytest.raises(CheckpointError, match="checkpoint does not match its run"):
        overview(folder)


def test_a_checkpoint_that_names_jax_does_not_import_it(tmp_path, monkeypatch):
    """It may be installed, and takes seconds to import."""
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    folder = started(tmp_path / "run", method="bes", optimizer=gs.adam(0.1))
    meta, arrays = container.read(folder / "checkpoint")
    meta["kept"] = json.loads(json.dumps(meta["kept"]).replace('"numpy"', '"jax"'))
    container.write(folder / "checkpoint", meta, arrays)
    with pytest.raises(CheckpointError, match=r"kept\.mean is an array of JAX, which this run"):
        gs.resume(folder, bowl)
    assert "jax" not in sys.modules


@pytest.mark.parametrize(
    "arguments",
    ["xml_file='{}'", "render_mode='human'", "a=[1, ('{}',)]", "a={{'b': '{}'}}", "a=b'{}'"],
)
def test_an_environment_gets_no_path_and_no_window_from_a_file(arguments, tmp_path):
    name = f"Hopper-v5({arguments.format('../x.xml')})"
    with pytest.raises(ValueError, match=r"comes from a file: its argument .* trust=True"):
        check_trusted(name, trust=False)
    check_trusted(name, trust=True)
    check_trusted("FrozenLake-v1(map_name='8x8', is_slippery=False, p=0.5)", trust=False)
    policy = gs.rl.Policy((11, 3))

    parameters = np.zeros(policy.num_parameters)
    trained = gs.rl.TrainedPolicy(
        environment=name,
        policy=policy,
        parameters=parameters,
        statistics=statistics(11),
        standardize=False,
        method="bes",
        seed=0,
        step=0,
        mean_return=0.0,
    )
    trained.save(tmp_path / "policy")
    with pytest.raises(ValueError, match="comes from a file: its argument"):
        gs.rl.evaluate(tmp_path / "policy", episodes=1)


# --- text that is not only read ------------------------------------------------------------------

ESCAPE = "\x1b]0;owned\x07"  # a terminal that prints it changes its title


@pytest.mark.parametrize("text", [ESCAPE, "\u202egpj.exe", "two\nlines"], ids=ascii)
@pytest.mark.parametrize(
    "where", ["objective", "kind", "a key", "a part", "the end", "metrics", "a fault"]
)
def test_a_file_sends_nothing_to_the_terminal(where, text, tmp_path):
    folder = started(tmp_path / "run")
    meta, arrays = container.read(folder / "checkpoint")
    path = folder / "metrics.jsonl"
    line = json.loads(path.read_text().splitlines()[0])
    changes = {
        "objective": {"objective": f"{text}:loss"},
        "kind": {"kind": text},
        "a key": {text: 1},
        "a part": {"method": text},
    }
    if where in changes:
        rewritten(folder, lambda config: config.update(changes[where]))
    elif where == "the end":
        end = COMPLETE | {"reason": text}
        with pytest.MonkeyPatch.context() as forger:  # we would not write it
            forger.setattr(container, "_parse", lambda _: None)
            container.write(folder / "checkpoint", meta | {"end": end}, arrays)
    else:
        changed = {text: 1.0} if where == "metrics" else {"faults": {text: 1}}
        lines = f"{json.dumps(line | changed)}\n".encode()
        rest = path.read_bytes().partition(b"\n")[2]
        path.write_bytes(lines + rest)
        meta["metrics"] |= {"bytes": len(lines + rest), "crc32": zlib.crc32(lines + rest)}
        container.write(folder / "checkpoint", meta, arrays)
    for read in (lambda: gs.resume(folder, bowl), lambda: overview(folder)):
        with pytest.raises(CheckpointError) as found:
            read()
        assert not set("\x1b\x07\u202e\n") & set(str(found.value))


def test_what_could_not_be_read_again_is_refused_at_the_start(tmp_path):
    """Otherwise its evaluations would be lost."""
    for name in ("a" * 500, f"a{ESCAPE}"):
        with pytest.raises(ValueError, match="This run cannot be stored: `search"):
            gs.minimize(
                lambda x: x["a"] ** 2 if "a" in x else 0.0,
                {"a": 1.0, name: 2.0},
                folder=tmp_path / "run",
            )
        assert not (tmp_path / "run" / "config.json").exists()


def test_an_error_of_the_objective_can_be_stored_and_read(tmp_path):
    def fails(_):
        raise gs.EvaluationError(f"{ESCAPE}{'x' * 200_000}")

    with pytest.raises(gs.EvaluationError) as found:
        gs.minimize(fails, [1.0], max_steps=3)
    found.value.result.save(tmp_path / "result.json")
    message = gs.load(tmp_path / "result.json").message
    assert ESCAPE not in message
    assert len(message) < 100_000


def test_a_spreadsheet_computes_nothing_in_our_tables(tmp_path):
    from gensmooth.lab.report.tables import write_csv

    rows = [["=1+1", "@a", "-a", "+a", "-1.5", "-1e-07", "a", -2.0, ""]]
    text = write_csv(tmp_path / "t.csv", ["=HYPERLINK(0)"], rows).read_text()
    assert text == "'=HYPERLINK(0)\n'=1+1,'@a,'-a,'+a,-1.5,-1e-07,a,-2.0,\n"


@pytest.mark.parametrize(
    ("header", "size"),
    [
        ({"descr": "|S0", "fortran_order": False, "shape": (10**9,)}, None),
        ({"descr": "<U2", "fortran_order": False, "shape": (8,)}, 64),
        ({"descr": "<f8", "fortran_order": False, "shape": (-1, -8)}, 64),
        ("{'descr':'<f8', 'fortran_order':False, 'shape':(8,), 'x':" + "-" * 9000 + "1}", 64),
        (2**31, 2**32),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_array_of_a_stranger_is_not_read_unless_it_holds_numbers(header, size, tmp_path):
    path = tmp_path / "x0.npy"
    text = ("" if isinstance(header, int) else str(header)).encode()
    length = header if isinstance(header, int) else len(text)
    path.write_bytes(b"\x93NUMPY\x02\x00" + length.to_bytes(4, "little") + text)
    if size is not None:
        os.truncate(path, path.stat().st_size + size)
    with pytest.raises(ValueError, match=r"x0\.npy is not an array in NumPy's format: \w"):
        read_npy(path)


@pytest.mark.parametrize(
    "line",
    [{"faults": 7}, {"faults": {"a": "b"}}, {"evaluations": []}, {"test": 3}, {"value": "x"}, [1]],
    ids=str,
)
def test_a_page_of_forged_metrics_is_refused_in_plain_words(line, tmp_path):
    pytest.importorskip("matplotlib")
    folder = long_run(tmp_path / "run")
    first = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])
    forged = {**first, **line} if isinstance(line, dict) else line
    (folder / "metrics.jsonl").write_text(f"{json.dumps(forged)}\n")
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl is damaged"):
        overview(folder)


def test_a_label_is_text_and_not_a_formula(tmp_path):
    pytest.importorskip("matplotlib")
    folder = long_run(tmp_path / "run")
    rewritten(folder, lambda config: config.update(objective="$x_{$"))
    assert "$x_{$" in overview(folder).read_text()


@pytest.mark.parametrize(
    "part",
    [
        {"kind": "load", "path": "opened"},
        {"kind": "resume", "folder": "opened"},
        {"kind": "Bernoulli", "p": {"kind": "load", "path": "opened"}, "m": None},
        {"kind": "torch"},
        {"kind": "gensmooth:torch.Log"},
    ],
    ids=str,
)
@pytest.mark.usefixtures("fresh_interpreters")
def test_a_page_calls_nothing_because_a_part_of_the_search_names_it(part, tmp_path):
    """The command on the page is Python for the parts of a search; a part is not any call."""
    folder = started(tmp_path / "run", method="bes")
    for name in ("checkpoint", "checkpoint.previous"):
        (folder / name).unlink()
    forged = {"objective": "model:loss"}
    rewritten(folder, lambda config: config.update(forged))
    rewritten(folder, lambda config: config["search"].update(directions=part))
    code = (
        "import sys, gensmooth as gs\n"
        "from gensmooth.lab.overview import overview\n"
        "from gensmooth.results import load\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, args: event == 'open' and opened.append(str(args[0])))\n"
        f"page = overview({str(folder)!r})\n"
        "assert 'torch' not in sys.modules\n"
        "assert not [name for name in opened if name.endswith('opened')], opened\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


@pytest.mark.usefixtures("fresh_interpreters")
@pytest.mark.parametrize("name", ["gensmooth:torch.Log", "gensmooth:torch", "gensmooth:rl.train"])
def test_a_name_in_a_file_does_not_load_a_part_of_the_package(name, tmp_path):
    folder = started(tmp_path / "run", method="bes")
    rewritten(folder, lambda config: config["search"].update(directions={"kind": name}))
    code = (
        "import sys, gensmooth as gs\n"
        "try:\n"
        f"    gs.resume({str(folder)!r}, lambda x: 0.0)\n"
        "except gs.CheckpointError as error:\n"
        "    print(error)\n"
        "assert 'gensmooth.torch' not in sys.modules and 'gensmooth.rl' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "has no" in done.stdout


# --- comparisons ---------------------------------------------------------------------------------


def stopped_comparison(folder, *, at=100):
    """A comparison that was interrupted in a trial with a score; and how to go on."""
    calls, stop = [], str(folder.parent / "stop")

    def loss(x):
        calls.append(1)  # in a copy of this list: the function is pickled
        if len(calls) == at and os.path.exists(stop):
            raise KeyboardInterrupt
        return float(((x - 1) ** 2).sum())

    def go_on():
        return gs.compare(
            loss,
            [0.0] * 4,
            methods=["gs"],
            seeds=1,
            budget=300,
            score=bowl,
            folder=folder,
        )

    Path(stop).touch()
    with pytest.raises(KeyboardInterrupt):
        go_on()
    Path(stop).unlink()
    (partial,) = (folder / "trials" / "partial").iterdir()
    assert (partial / "scores.jsonl").exists()
    return partial, go_on


@pytest.mark.parametrize(
    "what", ["nothing", "link", "folder", "pipe", "forged", "missing", "cut", "half"]
)
def test_the_scores_of_an_interrupted_trial_are_checked(what, tmp_path):
    pytest.importorskip("matplotlib")
    partial, go_on = stopped_comparison(tmp_path / "compared")
    scores, elsewhere = partial / "scores.jsonl", tmp_path / "elsewhere"
    whole = gs.compare(
        lambda x: float(((x - 1) ** 2).sum()),
        [0.0] * 4,
        methods=["gs"],
        seeds=1,
        budget=300,
        score=bowl,
        folder=tmp_path / "whole",
    )
    text = scores.read_text()
    if what == "link":
        elsewhere.write_text(text)
        scores.unlink()
        scores.symlink_to(elsewhere)
    elif what == "folder":
        shutil.move(partial, elsewhere)
        partial.symlink_to(elsewhere)
    elif what == "pipe":
        scores.unlink()
        os.mkfifo(scores)
    elif what == "forged":
        part, evaluations, _, check = json.loads(text.splitlines()[0])
        scores.write_text(f"{json.dumps([part, evaluations, -1e9, check])}\n{text}")
    elif what == "missing":
        scores.unlink()
    elif what == "cut":
        scores.write_text("\n".join(text.splitlines()[:-1]) + "\n")
    elif what == "half":
        scores.write_text(text + "[3, 4")
    before = {p: p.read_bytes() for p in elsewhere.rglob("*") if p.is_file()}
    with deadline(300):
        compared = go_on()
    assert before == {p: p.read_bytes() for p in elsewhere.rglob("*") if p.is_file()}
    ours, theirs = compared.runs["gs"][0], whole.runs["gs"][0]
    assert ours.series == theirs.series
    assert ours.final == theirs.final


CELL = {"label": "a", "config": {"method": "gs", "options": {}}}


@pytest.mark.parametrize(
    "change",
    [
        {"cells": []},
        {"cells": [{"label": "a", "config": 5}]},
        {"cells": [{"label": "x" * 60_000, "config": {"method": "gs", "options": {}}}]},
        {"config": 5},
        {"kind": "other"},
        {"seeds": [[]]},
        {"seeds": []},
        {"problem": "x" * 60_000},
        {"format": 9},
        {"new": 1},
        {"kind": "sweep"},
        {"seeds": [*range(20_001)], "cells": [CELL] * 10},
    ],
    ids=lambda change: str(change)[:60],
)
def test_a_forged_plan_is_refused_in_plain_words(change, tmp_path):
    pytest.importorskip("matplotlib")
    gs.compare(bowl, [1.0] * 3, methods=["gs"], seeds=1, budget=60, folder=tmp_path / "compared")
    path = tmp_path / "compared" / "comparison.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, **change}))
    with pytest.raises(CheckpointError, match=r"comparison\.json is not the plan.*checksum"):
        overview(path.parent)
    path.write_text(json.dumps(seal({**content, **change})))
    words = r"comparison\.json (is not the plan|cannot be used)"
    with deadline(120), pytest.raises(CheckpointError, match=words):
        overview(path.parent)


# --- logs of torch -------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "run.log"
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    with gs.torch.Log(path) as opened:
        optimizer = gs.torch.ZerothOrder(model, lr=1e-2, num_directions=4, log=opened)
        for _ in range(5):
            optimizer.step(lambda: (model.weight**2).sum() + (model.bias**2).sum())
    return path


def replayed(path):
    import torch

    torch.manual_seed(0)
    return gs.torch.replay(torch.nn.Linear(3, 2), path)


def reheaded(path, change):
    """Change the header, as somebody would who knows of the checksum."""
    magic, rest = path.read_bytes().split(b"\n", 1)
    line, records = rest[4:].split(b"\n", 1)
    text = change(json.loads(line))
    text = text if isinstance(text, bytes) else json.dumps(text).encode()
    checked = zlib.crc32(text).to_bytes(4, "little")
    path.write_bytes(magic + b"\n" + checked + text + b"\n" + records)


def test_a_flipped_bit_in_the_last_record_of_a_log_is_found(log):
    assert replayed(log) == 5
    data = log.read_bytes()
    size = (len(data) - data.index(b"\n", 30) - 1) // 5
    for place in range(len(data) - size, len(data), 7):
        flipped = bytearray(data)
        flipped[place] ^= 4
        log.write_bytes(flipped)
        with pytest.raises(gs.torch.LogError, match="the checksum of record 4 is wrong"):
            replayed(log)
    log.write_bytes(data[:-size] + data[-size:-40] + bytes(40))  # never written: the machine failed
    assert replayed(log) == 4
    log.write_bytes(data[:-3])  # the process was killed
    assert replayed(log) == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header | {"num_directions": "4d1000000000"},
        lambda header: header | {"num_directions": 10**12},
        lambda header: header | {"groups": 5},
        lambda header: header | {"groups": [[["weight"]]]},
        lambda header: header | {"law": ["coin"]},
        lambda header: header | {"seed": -1},
        lambda header: {name: value for name, value in header.items() if name != "groups"},
        lambda _: b"[" * 100_000,
        lambda _: b"5",
    ],
)
def test_a_forged_header_of_a_log_is_refused_in_plain_words(change, log):
    reheaded(log, change)
    with pytest.raises(gs.torch.LogError, match=r"run\.log has an invalid header"):
        replayed(log)


def test_a_log_that_is_a_pipe_a_link_or_huge_does_not_hang(log, tmp_path):
    import torch

    def go_on(path):
        return gs.torch.ZerothOrder(torch.nn.Linear(3, 2), lr=1e-2, log=gs.torch.Log(path))

    data = log.read_bytes()
    os.mkfifo(tmp_path / "pipe")
    with deadline(60), pytest.raises(gs.torch.LogError, match="not a regular file"):
        replayed(tmp_path / "pipe")
    precious = tmp_path / "precious"
    precious.touch()
    (tmp_path / "link").symlink_to(precious)
    os.link(precious, tmp_path / "name")
    for name, words in (("pipe", "regular file"), ("link", "symbolic link"), ("name", "hard link")):
        with deadline(60), pytest.raises(gs.torch.LogError, match=words):
            go_on(tmp_path / name)
    assert precious.read_bytes() == b""
    os.truncate(log, 2**40)
    with deadline(60), pytest.raises(gs.torch.LogError, match="record 5 is wrong"):
        replayed(log)
    flipped = data.replace(b"\n", b"\v", 2).replace(b"\v", b"\n", 1)  # the end of the header
    log.write_bytes(flipped)
    with pytest.raises(gs.torch.LogError, match="damaged"):
        go_on(log)
    assert log.read_bytes() == flipped


# --- one module opens files ----------------------------------------------------------------------

# What else opens a file, and which: none of them belongs to a folder that a user names.
ELSEWHERE = {
    "runs/files.py": "the one module",
    "cli/common.py": "standard streams that are closed",
    "evaluators/session.py": "/proc",
    "evaluators/ray.py": "/proc",
    "lab/paper/published/__init__.py": "tables in the package",
    "physics/host_compiler.py": "a temporary folder for the compiler",
    "rl/environments/trajectory.py": "the sources of the package",
}
METHODS_OF_PATHS = {"read_text", "write_text", "read_bytes", "write_bytes"}


def test_only_one_module_opens_files():
    root, opening = Path(gs.__file__).parent, set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called in ("open", "os.open", "io.open", "np.load", "np.save") or (
                isinstance(node.func, ast.Attribute) and node.func.attr in METHODS_OF_PATHS
            ):
                to_memory = called == "np.save" and ast.unparse(node.args[0]) == "data"
                opening |= set() if to_memory else {path.relative_to(root).as_posix()}
    assert opening <= set(ELSEWHERE), opening - set(ELSEWHERE)
