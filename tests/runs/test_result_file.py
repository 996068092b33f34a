"""A result is a file: every bit comes back, and what is no result says so."""

import json
import math
import tracemalloc
from contextlib import suppress
from dataclasses import fields, replace

import numpy as np
import pytest

import gensmooth as gs
from gensmooth.fields import seal


def noisy(x, rng):
    return float((x**2).sum() + rng.standard_normal())


@pytest.mark.parametrize(
    "x0",
    [np.ones((2, 3), np.float32) / 3, np.linspace(-1, 1, 5), np.float64(0.1), [[[0.5]]]],
    ids=["float32", "float64", "scalar", "nested"],
)
def test_everything_but_the_state_comes_back(x0, tmp_path):
    res = gs.minimize(noisy, x0, samples="independent", budget=400, seed=3)
    file = tmp_path / "best.json"
    res.save(file)
    found = gs.load(file)
    for name in ("x", "best_x"):
        assert found[name].dtype == res[name].dtype
        assert found[name].shape == res[name].shape
        assert found[name].tobytes() == res[name].tobytes()
    rest = {f.name for f in fields(res)} - {"x", "best_x", "history", "state"}
    for name in rest:
        assert found[name] == res[name] or (name == "fun" and math.isnan(res.fun)), name
    assert found.error is not None
    for ours, theirs in zip(found.history[:-1], res.history[:-1], strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()
    assert list(found.history.faults) == list(res.history.faults)
    assert found.state is None
    again = tmp_path / "again.json"
    found.save(again)
    assert again.read_bytes() == file.read_bytes()


def test_odd_numbers_come_back(tmp_path):
    res = gs.minimize(lambda x: (x**2).sum(), [1.0, 2.0], method="bes", budget=200, seed=0)
    odd = replace(
        res,
        x=np.array([-0.0, 5e-324]),
        fun=math.inf,
        best_fun=math.nan,
        warnings=("ζ ≠ 0", "two"),
        faults={"timeout": 2},
        seed=2**64 - 1,
    )
    odd.save(tmp_path / "odd.json")
    found = gs.load(tmp_path / "odd.json")
    assert found.x.tobytes() == odd.x.tobytes()
    assert found.fun == math.inf
    assert math.isnan(found.best_fun)
    assert (found.warnings, found.faults, found.seed) == (odd.warnings, odd.faults, odd.seed)


def test_the_file_is_plain_json(tmp_path):
    res = gs.minimize(lambda x: (x**2).sum(), [1.0, 2.0], budget=100, seed=0)
    res.save(tmp_path / "best.json")
    found = json.loads((tmp_path / "best.json").read_text())
    assert found["x"] == res.x.tolist()
    assert found["message"] == res.message


def test_what_is_no_result_says_so(tmp_path):
    res = gs.minimize(lambda x: (x**2).sum(), [1.0, 2.0], budget=100, seed=0)
    res.save(tmp_path / "best.json")
    good = json.loads((tmp_path / "best.json").read_text())
    file = tmp_path / "bad.json"
    for change, words in [
        ({"x": [1.0]}, "`x` is not an array"),
        ({"x": [1.0, "2"]}, "`x` is not an array"),
        ({"x": [1.0, [2.0]]}, "is not a result"),
        ({"dtype": "object"}, "`dtype` must be 'float32' or 'float64', but is 'object'"),
        ({"kind": "policy"}, "`kind` must be 'result', but is 'policy'"),
        ({"format": 99}, "format 99"),
        ({"reason": "fine"}, "its reason 'fine'"),
        ({"nfev": -1}, "`nfev` must be a whole number of at least 0, but is -1"),
        ({"fun": [1]}, "`fun` must be a number, but is a list of 1"),
        ({"message": 5}, "`message` must be text, but is 5"),
        ({"history": {"evaluations": [1]}}, "is not a result"),
        ({"seed": "x"}, "seed"),
    ]:
        file.write_text(json.dumps(seal({**good, **change})))
        with pytest.raises(gs.CheckpointError, match=r"bad\.json") as error:
            gs.load(file)
        assert words in str(error.value)
    for text in ("", "[1]", "{", "\0\0", "[" * 100_000):
        file.write_text(text)
        with pytest.raises(gs.CheckpointError, match="is not a result"):
            gs.load(file)
    with pytest.raises(gs.CheckpointError, match=r"cannot be read: No such file"):
        gs.load(tmp_path / "missing.json")


def test_a_changed_digit_is_found(tmp_path):
    res = gs.minimize(lambda x: ((x - 0.3) ** 2).sum(), [1.0, 2.0], budget=100, seed=0)
    file = tmp_path / "best.json"
    res.save(file)
    text = file.read_text()
    digits = [i for i, letter in enumerate(text) if letter.isdigit()]
    changes = [f"{text[:i]}{(int(text[i]) + 5) % 10}{text[i + 1 :]}" for i in digits]
    for changed in [*changes, text.replace('"nfev": 1', '"nfev": 01')]:  # 01 is not JSON
        file.write_text(changed)
        with suppress(json.JSONDecodeError):
            if json.loads(changed) == json.loads(text):  # a digit beyond the precision
                continue
        with pytest.raises(gs.CheckpointError, match=r"checksum differs|format|is not valid"):
            gs.load(file)
    bare = json.loads(text)
    del bare["sha256"]
    file.write_text(json.dumps(bare))
    with pytest.raises(gs.CheckpointError, match="checksum differs"):
        gs.load(file)


def test_a_large_shape_takes_no_memory(tmp_path):
    res = gs.minimize(lambda x: float(x["a"]) ** 2, {"a": 1.0}, budget=50, seed=0)
    res.save(tmp_path / "best.json")
    good = json.loads((tmp_path / "best.json").read_text())
    for size in (50_000_000, 10**10):
        node = {"shape": [size], "dtype": "float64"}
        tree = {"kind": "dict", "names": ["a"], "children": [node]}
        for change in ({"structure": tree, "shape": [size]}, {"structure": None, "shape": [size]}):
            (tmp_path / "bad.json").write_text(json.dumps(seal({**good, **change})))
            tracemalloc.start()
            with pytest.raises(gs.CheckpointError, match="is not an array of numbers"):
                gs.load(tmp_path / "bad.json")
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 10_000_000


def test_folders_and_policies_have_their_own_readers(tmp_path):
    run = tmp_path / "run"
    gs.minimize(lambda x: (x**2).sum(), [1.0], budget=50, seed=0, folder=run)
    with pytest.raises(gs.CheckpointError, match=r"gs\.resume\(folder, fun\)"):
        gs.load(run)
    with pytest.raises(gs.CheckpointError, match=r"gs\.rl\.load_policy reads a policy"):
        gs.load(run / "checkpoint")  # the container that a policy is in, too
    with pytest.raises(ValueError, match="is a folder"):
        gs.minimize(lambda x: (x**2).sum(), [1.0], budget=50, seed=0).save(tmp_path)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    res = gs.minimize(lambda x: float((x**2).sum()), [1.0], budget=30, seed=0)
    with pytest.raises(
        FileNotFoundError, match=r"folder .*nowhere, to save best\.json in, does not exist"
    ):
        res.save(tmp_path / "nowhere" / "best.json")
