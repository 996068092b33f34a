"""The files of a run's folder: exact, whole, and harmless whoever wrote them."""

import contextlib
import copy
import gc
import json
import os
import random
import struct
import subprocess
import sys
import textwrap
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gensmooth as gs
from gensmooth import fields
from gensmooth.optimize import Minimization
from gensmooth.runs import RunFolder, container
from gensmooth.runs import run as run_program
from gensmooth.runs.files import Lock
from gensmooth.runs.states import pack_tree, unpack_tree
from patience import LONG
from run_programs import Counter

SCALARS = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(sizes=(64, 128)),
)
ARRAYS = SCALARS.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0)))


def bowl(x):
    return float((x**2).sum())


def stop(*_):
    raise KeyboardInterrupt


@pytest.fixture
def run(tmp_path):
    """The folder of a run that was interrupted."""
    folder = tmp_path / "run"
    after = {"callback": lambda now: stop() if now.info.step == 11 else None, "every": 5}
    options = {"method": "guided-es", "num_directions": 3, "optimizer": gs.adam(0.1), "seed": 1}
    gs.minimize(bowl, np.ones(7), max_steps=14, folder=folder, **options, **after)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def load(folder: Path) -> None:
    with RunFolder(folder, create=False) as held:
        held.load(
            held.read(
                Minimization.kind, lambda found, large: Minimization.from_json(found, large, {})
            )
        )


ANY = st.text(max_size=50)
TEXT = ANY.filter(lambda text: fields.printable(text) == text)


@given(st.dictionaries(ANY, ARRAYS, max_size=4), st.dictionaries(ANY, st.integers()))
def test_what_cannot_be_read_is_not_written(tmp_path_factory, arrays, meta):
    path = tmp_path_factory.mktemp("container") / "file"
    try:
        container.write(path, meta, arrays)
    except ValueError:
        assert any(fields.printable(name) != name for name in (*arrays, *meta))
        assert not list(path.parent.iterdir())
    else:
        container.read(path)


@given(st.dictionaries(TEXT, ARRAYS, max_size=4), st.dictionaries(TEXT, st.integers()))
def test_what_is_written_is_read_to_the_last_bit(tmp_path_factory, arrays, meta):
    path = tmp_path_factory.mktemp("container") / "file"
    container.write(path, meta, arrays)
    found = container.read(path)
    assert found.meta == meta
    assert list(found.arrays) == list(arrays)
    for name, array in arrays.items():
        assert found.arrays[name].shape == array.shape
        assert found.arrays[name].dtype == array.dtype.newbyteorder("=")
        assert found.arrays[name].tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()


OPTAX = {
    "sgd": lambda: optax.sgd(0.1, momentum=0.9, nesterov=True),
    "adamw": lambda: optax.adamw(optax.cosine_decay_schedule(0.1, 10)),
    "lion": lambda: optax.lion(0.1),
    "rmsprop": lambda: optax.rmsprop(0.1, centered=True, momentum=0.5),
    "adafactor": lambda: optax.adafactor(0.1),
    "yogi": lambda: optax.yogi(0.1),
    "hyperparameters": lambda: optax.inject_hyperparams(optax.adam)(0.1),
    "several steps": lambda: optax.MultiSteps(optax.adam(0.1), 2),
    "if finite": lambda: optax.apply_if_finite(optax.adam(0.1), 3),
    "schedule free": lambda: optax.contrib.schedule_free_sgd(0.1),
}


@pytest.mark.parametrize("name", OPTAX)
def test_optax_states_survive(name, tmp_path):
    import jax

    optimizer, x = OPTAX[name](), np.ones((3, 2), np.float32)
    state = optimizer.init(x)
    for _ in range(3):
        change, state = optimizer.update(np.full_like(x, 0.3), state, x)
        x = x + np.asarray(change)
    skeleton, arrays = pack_tree(state, "optimizer")
    container.write(tmp_path / "file", {"optimizer": skeleton}, arrays)
    found = container.read(tmp_path / "file")
    again = unpack_tree(found.meta["optimizer"], found.arrays, optimizer.init(x), "optimizer")
    assert jax.tree.structure(again) == jax.tree.structure(state)
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(state), strict=True):
        assert type(one) is type(other)
        assert np.asarray(one).dtype == np.asarray(other).dtype
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda _: b"", "is not a gensmooth checkpoint"),
        (lambda _: b"PK\x03\x04 a zip file, for example, of some length", "is not a gensmooth"),
        (lambda data: data[:-1], "is damaged: it should have"),
        (lambda data: data[:40], "is damaged: it should have"),
        (lambda data: data + b"\0", "is damaged: it should have"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "is damaged: the checksum of"),
        (lambda data: data[:50] + b"~" + data[51:], "is damaged: the checksum of its header"),
        (
            lambda data: data[:8] + struct.pack("<I", 2) + data[12:],
            "format 2, but this version of gensmooth",
        ),
    ],
)
def test_a_damaged_foreign_or_newer_checkpoint_is_named_and_left_alone(damage, words, run):
    path = run / "checkpoint"
    path.write_bytes(damage(path.read_bytes()))
    before = files(run)
    for go_on in (
        lambda: gs.resume(run, bowl),
        lambda: gs.minimize(
            bowl,
            np.ones(7),
            method="guided-es",
            num_directions=3,
            optimizer=gs.adam(0.1),
            max_steps=14,
            seed=1,
            folder=run,
        ),
    ):
        with pytest.raises(gs.CheckpointError, match=words) as caught:
            go_on()
        assert str(path) in str(caught.value)
        assert "after 10 steps, is intact: rename checkpoint.previous" in str(caught.value)
        assert files(run) == before


def test_the_checkpoint_before_a_damaged_one_goes_on_to_the_same_end(run):
    (run / "checkpoint").write_bytes(b"gone")
    (run / "checkpoint.previous").rename(run / "checkpoint")
    result = gs.resume(run, bowl)
    options = {"method": "guided-es", "num_directions": 3, "optimizer": gs.adam(0.1), "seed": 1}
    assert result.x.tobytes() == gs.minimize(bowl, np.ones(7), max_steps=14, **options).x.tobytes()


def test_the_checkpoint_of_another_run_is_refused(run, tmp_path):
    gs.minimize(bowl, np.ones(7), max_steps=3, folder=tmp_path / "other")
    data = (tmp_path / "other" / "checkpoint").read_bytes()
    (run / "checkpoint").write_bytes(data)
    with pytest.raises(gs.CheckpointError, match="is the checkpoint of another run"):
        gs.resume(run, bowl)
    assert (run / "checkpoint").read_bytes() == data


def test_a_missing_checkpoint_is_not_a_reason_to_begin_anew(run):
    (run / "checkpoint").unlink()
    with pytest.raises(gs.CheckpointError, match=r"is missing, but checkpoint\.previous exists"):
        gs.resume(run, bowl)


@pytest.mark.parametrize("damage", [lambda t: t[:-9], lambda t: t.replace(b"1", b"2", 1)])
def test_damaged_metrics_are_named_and_left_alone(damage, run):
    path = run / "metrics.jsonl"
    path.write_bytes(damage(path.read_bytes()))
    before = files(run)
    with pytest.raises(gs.CheckpointError, match=r"metrics\.jsonl is damaged"):
        gs.resume(run, bowl)
    assert files(run) == before


def test_random_damage_is_a_plain_error(run):
    rng, path = random.Random(3), run / "checkpoint"
    whole = path.read_bytes()
    for _ in range(1500):
        data = bytearray(whole)
        kind = rng.randrange(4)
        if kind == 0:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[rng.randrange(len(data)) :]
        elif kind == 2:
            start = rng.randrange(len(data))
            data[start : start + rng.randrange(1, 40)] = rng.randbytes(rng.randrange(40))
        else:
            data[8 : 8 + rng.randrange(1, 60)] = rng.randbytes(rng.randrange(60))
        if data == whole:
            continue
        path.write_bytes(data)
        with pytest.raises(gs.CheckpointError):
            load(run)


NASTY = [
    None,
    True,
    -1,
    0,
    2**70,
    1e308,
    "",
    "nan",
    "inf",
    "x" * 99,
    [],
    {},
    [[]],
    {"a": 1},
    [0] * 9,
]


def nasty_versions(rng, found, count):
    """Copies of a JSON value with something in it replaced, removed or added."""
    for _ in range(count):
        made = copy.deepcopy(found)
        for _ in range(rng.choice([1, 1, 2])):
            place, depth = made, rng.randrange(1, 7)
            while depth:
                keys = list(place) if isinstance(place, dict) else list(range(len(place)))
                if not keys:
                    break
                key, depth = rng.choice(keys), depth - 1
                if depth == 0 or not isinstance(place[key], dict | list) or not place[key]:
                    if rng.random() < 0.1:
                        del place[key]
                    else:
                        place[key] = copy.deepcopy(rng.choice(NASTY))
                    break
                place = place[key]
        yield made


def test_a_checkpoint_by_a_malicious_author_is_a_plain_error_or_plain_data(run):
    rng, path = random.Random(4), run / "checkpoint"
    whole = path.read_bytes()
    size = struct.unpack("<Q", whole[16:24])[0]
    header, start = json.loads(whole[32 : 32 + size]), -(-(32 + size) // 64) * 64
    refused = 0
    for made in nasty_versions(rng, header, 1500):
        text = json.dumps(made).encode()
        body = bytes(-(32 + len(text)) % 64) + whole[start:]
        lengths = struct.pack("<IQQ", zlib.crc32(text), len(text), 32 + len(text) + len(body))
        path.write_bytes(whole[:12] + lengths + text + body)
        try:
            load(run)
        except gs.CheckpointError:
            refused += 1
    assert refused > 1000


def test_a_config_by_a_malicious_author_is_a_plain_error_or_plain_data(run):
    rng, path = random.Random(5), run / "config.json"
    found = json.loads(path.read_text())
    for made in nasty_versions(rng, found, 1500):
        path.write_text(json.dumps(made))
        with contextlib.suppress(gs.CheckpointError):
            load(run)


@pytest.mark.parametrize("shape", [[2**40], [2**47, 0], [-1], [10**30], [[1]], list(range(40))])
def test_a_huge_array_is_refused_before_it_is_made(shape, tmp_path):
    text = json.dumps({"meta": {}, "arrays": [["x", "float64", shape, "00000000"]]}).encode()
    head = struct.pack("<8sIIQQ", container.MAGIC, 1, zlib.crc32(text), len(text), 32 + len(text))
    (tmp_path / "file").write_bytes(head + text)
    with pytest.raises(gs.CheckpointError, match="is damaged"):
        container.read(tmp_path / "file")


def test_deep_nesting_is_a_plain_error(run):
    (run / "config.json").write_text("[" * 200_000)
    with pytest.raises(gs.CheckpointError, match=r"config\.json .* nested too deeply"):
        gs.resume(run, bowl)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder.mkdir(), "has no config.json: it is not a run's folder"),
        (lambda folder: folder.write_text("a file"), "is not a folder"),
        (lambda _: None, "is not a folder"),
    ],
)
def test_resume_refuses_what_is_no_run(make, words, tmp_path):
    make(tmp_path / "x")
    with pytest.raises(gs.CheckpointError, match=words):
        gs.resume(tmp_path / "x", bowl)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("do not touch")
    with pytest.raises(gs.CheckpointError, match="is not empty"):
        gs.minimize(bowl, np.ones(2), folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_two_runs_cannot_write_to_one_folder(run):
    with RunFolder(run, create=False):
        with pytest.raises(gs.CheckpointError, match="is in use"):
            gs.resume(run, bowl)
        code = f"import gensmooth as gs; gs.resume({str(run)!r}, abs)"
        other = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=LONG
        )
        assert "is in use: another run is writing to it" in other.stderr
    Lock(run).release()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files by /proc")
def test_open_files_do_not_grow(tmp_path):
    def bowls(x):
        if not slow:
            slow.append(time.sleep(0.02))  # the first step that takes 10 ms opens the journal
        return (x**2).sum(axis=1)

    def count(now):
        if now.info.step in (100, 9_900):
            files = Path("/proc/self/fd").iterdir()
            open_files.append([os.readlink(file) for file in files if file.exists()])

    open_files, slow = [], []
    gc.collect()  # what earlier tests have left must not go while we count
    gs.minimize(
        bowls,
        np.ones(3),
        method="bes",
        num_directions=1,
        vectorized=True,
        budget=10**6,
        max_steps=10_000,
        every=100,
        callback=count,
        folder=tmp_path / "run",
        seed=0,
    )
    early, late = open_files
    assert str(tmp_path / "run" / "journal") in early
    assert len(late) <= len(early), set(late) - set(early)


FULL_DISK = """
    import logging, os, resource, subprocess, sys
    import numpy as np
    import gensmooth as gs

    folder, how = sys.argv[1:]
    logging.basicConfig(format="LOG %(message)s")
    full, hard = 150, resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    def limit(size):
        if how == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    def callback(now):
        if now.info.step == 20:
            limit(30_000)  # metrics.jsonl and the checkpoint are larger
        if now.info.step == full:
            kept = gs.runs.container.read(run / "checkpoint").meta["step"]
            print("kept", kept, sorted(os.listdir(run)))
            limit(hard)

    from pathlib import Path
    run = Path(folder) / "run"
    options = dict(x0=np.zeros(5000), num_directions=2, optimizer=gs.adam(1e-3), seed=0)
    options["max_steps"] = 200
    fun = lambda x: float(((x - 1) ** 2).sum())
    part = gs.minimize(fun, folder=run, every=10, callback=callback, **options)
    whole = gs.minimize(fun, **options)
    assert part.x.tobytes() == whole.x.tobytes()
    print("lines", len((run / "metrics.jsonl").read_text().splitlines()))
    print("end", gs.runs.container.read(run / "checkpoint").meta["step"])
"""


def full_disk(folder, how):
    code = [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(folder), how]
    done = subprocess.run(code, capture_output=True, text=True, check=False, timeout=LONG)
    assert done.returncode == 0, done.stderr
    logged = [line for line in done.stderr.splitlines() if line.startswith("LOG")]
    # On a busy machine an evaluation may be slow enough for the journal, which reports its file.
    journal = [line for line in logged if "/run/journal:" in line]
    assert len(journal) <= 1
    return done.stdout, [line for line in logged if line not in journal]


@pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
def test_a_full_disk_is_reported_once_and_the_run_goes_on(tmp_path):
    out, logged = full_disk(tmp_path, "limit")
    assert len(logged) == 1
    assert "Could not write" in logged[0]
    assert "The checkpoint after 20 steps is kept. The run continues" in logged[0]
    # Nothing half-written is left, and when there is room again nothing is missing.
    assert "kept 20 ['.lock', 'checkpoint', 'checkpoint.previous', 'config.json'" in out
    assert "lines 200" in out
    assert "end 200" in out


def test_a_disk_that_is_really_full(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(tmp_path)]
    try:
        made = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        made = False
    if not made:
        pytest.skip("only root can mount a small disk")
    try:
        out, logged = full_disk(tmp_path, "mount")
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert len(logged) == 1
    assert "No space left on device" in logged[0]
    assert "kept 20 " in out
    assert "end 20\n" in out


class Killed(BaseException):
    """As if the process had been killed."""


@dataclass(frozen=True)
class Writer(Counter):
    """A program with a file of its own, killed while it writes it for the last time."""

    killed: list[bool] = field(default_factory=lambda: [True])

    def write_files(self, folder, state, records, *, saved):
        if saved and state[0] == self.until:
            if self.killed.pop():
                raise Killed
            (folder / "own").write_text("whole")


def test_a_run_has_not_ended_before_its_files_are_written(tmp_path):
    with pytest.raises(Killed):
        run_program(Writer(3), folder=tmp_path / "run")
    again = Writer(3, killed=[False])
    assert run_program(again, folder=tmp_path / "run") == run_program(Counter(3))
    assert (tmp_path / "run" / "own").read_text() == "whole"
