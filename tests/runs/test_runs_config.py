"""Runs as JSON: what is written down comes back, and nothing else can be made from it."""

import functools
import json
import math
import pickle
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import gensmooth as gs
from cases import FAMILIES
from gensmooth.cli.common import finish
from gensmooth.describe import describe, must_be_passed_again, rebuild
from gensmooth.naming import find_function, name_of
from gensmooth.optimize import Minimization
from gensmooth.runs import Every, Limits, RunFolder, parse_every
from gensmooth.runs.folder import config_of
from gensmooth.searches.choose import falling

OPTIMIZERS = {
    "sgd": gs.sgd(0.1),
    "momentum": gs.momentum(gs.exponential_decay(0.1, rate=0.5, steps=10), 0.8, nesterov=True),
    "adam": gs.adam(gs.cosine_decay(0.1, steps=10, final=0.01), b1=0.5, eps=1e-6),
    "inverse": gs.sgd(gs.inverse_decay(0.3, steps=2.5, power=0.6)),
    "greedy": gs.greedy(0.1, memory=0.1, speed=0.2),
}
ESTIMATORS = [
    gs.ForwardDifference(),
    gs.Antithetic(),
    gs.OnePoint(),
    gs.OnePoint("others"),
    gs.Ranked(),
]
CHOICES = [*FAMILIES.values(), *OPTIMIZERS.values(), *ESTIMATORS, gs.OnePoint(np.float64(0.5))]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: type(choice).__name__)
def test_choices_come_back_from_json(choice):
    written = describe(choice)
    again = rebuild(json.loads(json.dumps(written, allow_nan=False)))
    assert type(again) is type(choice)
    assert describe(again) == written
    if not isinstance(choice, gs.Optimizer) and "scipy" not in str(written):  # do not compare
        assert again == choice


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_come_back_from_json_and_from_pickle_bit_for_bit(name):
    optimizer = OPTIMIZERS[name]
    for again in (rebuild(describe(optimizer)), pickle.loads(pickle.dumps(optimizer))):
        assert describe(again) == describe(optimizer)
        states = [o.init(np.zeros(3)) for o in (optimizer, again)]
        for step in range(5):
            g = np.array([1.0, -0.3, step])
            (one, states[0]), (other, states[1]) = (
                o.update(g, s, np.zeros(3)) for o, s in zip((optimizer, again), states, strict=True)
            )
            assert one.tobytes() == other.tobytes()


def test_a_scipy_distribution_keeps_its_numbers():
    distribution = rebuild(describe(gs.IID(scipy.stats.t(df=7.5, scale=2)))).distribution
    assert distribution.dist.name == "t"
    assert distribution.kwds == {"df": 7.5, "scale": 2}


class Mine(gs.Directions):
    def draw(self, *_, **__):
        raise NotImplementedError

    def moments(self, *_):
        raise NotImplementedError


class Odd(scipy.stats.rv_continuous):
    def _ppf(self, q):
        return q - 0.5


@pytest.mark.parametrize(
    "choice",
    [
        gs.sgd(lambda step: 1 / (1 + step)),
        gs.Optimizer(gs.sgd(0.1).init, gs.adam(0.1).update),
        Mine(),
        gs.IID(Odd(a=-0.5, b=0.5, name="laplace")()),
    ],
    ids=["schedule", "mixed", "directions", "distribution"],
)
def test_what_is_not_ours_is_never_written_as_if_it_were(choice):
    assert must_be_passed_again(describe(choice))


@pytest.mark.parametrize(
    "found",
    [
        {"kind": "Popen", "args": "true"},
        {"kind": "os.system"},
        {"kind": "Bernoulli"},
        {"kind": "Bernoulli", "p": 2.0, "m": None},
        {"kind": "Bernoulli", "p": 0.5, "m": None, "extra": 1},
        {"kind": ["Bernoulli"], "p": 0.5, "m": None},
        {"scipy": "rv_histogram", "args": [], "keywords": {}},
        {"scipy": "test", "args": [], "keywords": {}},
        {"scipy": "norm", "args": ["__import__('os')"], "keywords": {}},
        {"scipy": "norm", "args": [0, 1], "keywords": {"nonsense": 1}},
        {"given": "optax.GradientTransformation"},
        [],
    ],
)
def test_nothing_but_the_listed_choices_can_be_made(found):
    with pytest.raises(ValueError, match=r".+"):
        rebuild(found)


def test_names_of_functions():
    assert name_of(math.dist) == "math:dist"
    assert name_of(gs.minimize) == "gensmooth.optimize.front:minimize"
    assert name_of(np.linalg.norm) == "numpy.linalg:norm"
    assert find_function(name_of(gs.minimize)) is gs.minimize
    for nameless in (lambda x: x, functools.partial(math.dist, 1), Mine().draw, OPTIMIZERS):
        assert name_of(nameless) is None

    def inner(x):
        return x

    assert name_of(inner) is None


@pytest.mark.parametrize("script", ["__main__", "__mp_main__"])
def test_a_function_of_a_script_has_no_name(script, monkeypatch):
    module = types.ModuleType(script)
    exec("def loss(x): return 0.0", module.__dict__)
    monkeypatch.setitem(sys.modules, script, module)
    assert module.loss.__module__ == script
    assert name_of(module.loss) is None


@pytest.mark.parametrize(
    ("words", "every"),
    [
        (7, Every(7, None)),
        ("7", Every(7, None)),
        ("0.5s", Every(None, 0.5)),
        ("2h, 10", Every(10, 7200.0)),
        (Every(3, 4.0), Every(3, 4.0)),
        (None, None),
    ],
)
def test_every(words, every):
    assert parse_every(words) == every


def test_the_configuration_is_readable(tmp_path):
    gs.minimize(lambda x: float(x @ x), [1.0, 2.0], budget=100, bounds=(-3, math.inf), seed=1,
                target=-math.inf, folder=tmp_path)  # fmt: skip
    text = (tmp_path / "config.json").read_text()
    assert ' "x0": {\n  "dtype": "float64",\n  "shape": [2],\n  "values": [1.0, 2.0]\n },\n' in text
    assert '"upper": {"dtype": "float64", "shape": [], "values": ["inf"]}' in text
    assert '"target": "-inf"' in text


def read_program(folder):
    with RunFolder(folder, create=False) as held:
        program = held.read(
            Minimization.kind, lambda found, large: Minimization.from_json(found, large, {})
        )
        return program, held


@pytest.mark.parametrize("dim", [3, 20_000])
def test_a_configuration_that_is_read_is_written_again_as_it_was(dim, tmp_path):
    gs.minimize(math.fsum, np.ones(dim), method="bes", max_steps=2, bounds=(-2, 3), seed=1,
                target=-1e9, tolerance=1e-9, folder=tmp_path)  # fmt: skip
    before = json.loads((tmp_path / "config.json").read_text())
    program, held = read_program(tmp_path)
    arrays = {}
    again = json.loads(json.dumps(config_of(program, held.run, arrays)))
    assert again == {name: value for name, value in before.items() if name != "sha256"}
    assert list(arrays) == (["x0"] if dim > 10_000 else [])


def test_a_run_with_other_limits_lists_the_earlier_ones_and_falls_anew(tmp_path):
    gs.minimize(math.fsum, np.ones(3), method="bes", num_directions=4, budget=400,
                seed=7, folder=tmp_path)  # fmt: skip
    program, _ = read_program(tmp_path)
    limits = Limits(800, 20)
    longer = program.extended(limits, 5)
    assert longer.extensions == (
        {"until_step": 5, "budget": 400, "max_steps": None, "target": None, "tolerance": None},
    )
    assert (longer.limits, longer.seed) == (limits, 7)
    anew = falling(0.1, program.search, limits.budget, limits.max_steps)
    assert describe(longer.search.optimizer) == describe(anew) != describe(program.search.optimizer)
    assert longer.settings({})["search"]["optimizer"] == {"learning_rate": 0.1}


def test_the_rate_falls_over_the_steps_that_the_limits_allow():
    search = gs.RandomSearch(
        gs.Bernoulli(), num_directions=4, spacing=0.1, num_samples=3, samples="shared"
    )
    per_step = len(search.plan)
    for limits, steps in [(Limits(9 * per_step), 9), (Limits(9 * per_step, 4), 4), (Limits(1), 1)]:
        optimizer = falling(0.2, search, limits.budget, limits.max_steps)
        state, x = optimizer.init(np.ones(1)), np.ones(1)
        for _ in range(steps):
            update, state = optimizer.update(np.ones(1), state, x)
            assert update[0] != 0
        assert optimizer.update(np.ones(1), state, x)[0][0] == 0


def test_resume_says_what_is_wrong_in_one_line(tmp_path):
    command = [Path(sys.executable).with_name("gensmooth"), "resume", tmp_path / "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"Error: {tmp_path / 'nothing'} is not a folder.\n"


def command_line(folder, *words):
    (folder / "model.py").write_text("def loss(x):\n    return float((x**2).sum())\n")
    command = [Path(sys.executable).with_name("gensmooth"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def test_a_damaged_checkpoint_is_one_line_too(tmp_path):
    gs.minimize(lambda x: x[0], [0.0], max_steps=1, folder=tmp_path / "run")
    (tmp_path / "run" / "checkpoint").write_bytes(b"gone")
    done = command_line(tmp_path, "resume", "run", "--objective", "model:loss")
    path = tmp_path / "run" / "checkpoint"
    assert done.stderr == f"Error: {path} is not a gensmooth checkpoint or policy.\n"
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "nowhere/found.json"], "nowhere/found.json is in a folder that does not exist"),
        (["--out", "a.json"], "but a.json is a folder"),
        (["--workers", "0"], "`workers` must be at least 1, or -1 for all cores, but is 0"),
    ],
)
def test_what_cannot_be_is_refused_before_the_run(words, said, tmp_path):
    line = ["minimize", "model:loss", "--x0", "zeros:2", "--folder", "run", *words]
    (tmp_path / "a.json").mkdir()
    done = command_line(tmp_path, *line)
    assert done.returncode == 1
    assert said in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_result_without_a_value_is_json(tmp_path):
    result = gs.minimize(lambda x: x[0], [0.0], max_steps=1)
    out = tmp_path / "out.json"
    finish(replace(result, fun=math.nan), out)
    assert json.loads(out.read_text(), parse_constant=pytest.fail)["fun"] == "nan"
