"""Arguments: NumPy's numbers count as Python's, and nonsense is refused in words."""

import json
import math
import re
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import gensmooth as gs
from gensmooth.describe import describe
from gensmooth.runs import Every

X0 = np.array([1.0, -2.0, 0.5], np.float32)


def f(x):
    return float(((x - 0.3) ** 2).sum())


# --- NumPy's numbers ----------------------------------------------------------------------------

# How an object is made of a number; one that float32 does not hold, to tell the two apart.
CHOICES = {
    "spacing": lambda n: {"spacing": n(0.1)},
    "learning_rate": lambda n: {"learning_rate": n(0.1)},
    "adam": lambda n: {"optimizer": gs.adam(n(0.1), b1=n(0.7), b2=n(0.9), eps=n(1e-6))},
    "momentum": lambda n: {"optimizer": gs.momentum(n(0.01), decay=n(0.7))},
    "sgd": lambda n: {"optimizer": gs.sgd(n(0.01))},
    "greedy": lambda n: {"optimizer": gs.greedy(n(0.3), memory=n(0.1), speed=n(0.2))},
    "cosine": lambda n: {
        "optimizer": gs.sgd(gs.cosine_decay(n(0.1), steps=np.int32(9), final=n(0.01)))
    },
    "exponential": lambda n: {
        "optimizer": gs.sgd(gs.exponential_decay(n(0.1), rate=n(0.9), steps=9))
    },
    "inverse": lambda n: {
        "optimizer": gs.sgd(gs.inverse_decay(n(0.1), steps=n(3.3), power=n(0.7)))
    },
    "Bernoulli": lambda n: {"directions": gs.Bernoulli(p=n(0.3), m=n(0.7))},
    "Guided": lambda n: {"directions": gs.Guided(alpha=n(0.3), history=np.int64(2))},
    "shrunk": lambda n: {"directions": gs.shrunk(gs.Bernoulli(p=n(0.3)))},
    "IID": lambda n: {
        "directions": gs.IID(scipy.stats.laplace(scale=n(0.3)), standardize=np.bool_(False))
    },
    "OnePoint": lambda n: {"estimator": gs.OnePoint(baseline=n(0.3))},
    "min_fraction": lambda n: {"min_fraction": n(0.3), "on_failure": "drop"},
    "family of a user": lambda n: {"directions": Mine(n(0.3))},
}


@dataclass(frozen=True)
class Mine(gs.Directions):
    size: float

    def draw(self, state, at):
        return gs.Gaussian().draw(state, at).rescaled(length=self.size**0.5)

    def moments(self, dim, num_directions):
        return gs.Gaussian().moments(dim, num_directions).scaled(self.size)


def same(one, other):
    assert np.array_equal(one.x, other.x)
    assert one.x.dtype == other.x.dtype
    assert one.fun == other.fun
    assert np.array_equal(one.history.value, other.history.value)


@pytest.mark.parametrize("number", [np.float32, np.float16, np.longdouble, np.float64])
@pytest.mark.parametrize("choice", CHOICES)
def test_a_run_with_numpys_numbers_is_resumed_to_the_bit(tmp_path, choice, number):
    options = {"num_directions": 3, "seed": 1, "budget": 200, **CHOICES[choice](number)}
    whole = gs.minimize(f, X0, max_steps=9, **options)

    def stop(now):
        return now.info.step == 3

    gs.minimize(f, X0, max_steps=9, **options, folder=tmp_path / "run", callback=stop)
    assert gs.resume(tmp_path / "run", f).nit == 9
    same(gs.resume(tmp_path / "run", f), whole)
    # the same as with Python's numbers, of which the configuration speaks
    python = CHOICES[choice](lambda value: float(number(value)))
    same(gs.minimize(f, X0, max_steps=9, **{**options, **python}), whole)
    search = json.loads((tmp_path / "run" / "config.json").read_text())["search"]
    for name, made in python.items():
        if name == "directions":
            made = made.resolve(3, 3)
        if not isinstance(made, float) or name != "learning_rate":
            assert search[name] == describe(made)


@pytest.mark.parametrize(
    "x0", [np.ones(2, np.float16), np.ones(2, np.longdouble), np.array([Decimal(1)])], ids=str
)
def test_parameters_that_no_kernel_knows_are_refused(x0):
    with pytest.raises(TypeError, match="`x0` must be numbers in float32 or float64"):
        gs.minimize(f, x0)


def test_values_of_any_float_are_told_as_float64():
    search = gs.RandomSearch(gs.Gaussian(), num_directions=2, spacing=0.1)
    state = search.init([1.0, 2.0], seed=0)
    batch = search.ask(state)
    told = [
        search.tell(state, batch, np.array([0.5, 0.25, 2.0], kind))[0].x
        for kind in (np.float64, np.float16, np.longdouble, object)
    ]
    assert all(np.array_equal(x, told[0]) for x in told)


# --- nonsense -----------------------------------------------------------------------------------

BAD = [
    ({"maximize": "no"}, "`maximize` must be True or False, but is 'no'"),
    ({"maximize": 1}, "`maximize` must be True or False, but is 1"),
    ({"max_steps": -3}, "`max_steps` must be a whole number of at least 0, but is -3"),
    ({"max_steps": 2.9}, "`max_steps` must be a whole number of at least 0, but is 2.9"),
    ({"max_steps": "2"}, "`max_steps` must be a whole number of at least 0, but is '2'"),
    ({"max_steps": True}, "`max_steps` must be a whole number of at least 0, but is True"),
    ({"max_steps": math.inf}, "`max_steps` must be a whole number of at least 0, but is inf"),
    ({"target": math.nan}, "`target` must be a number that a value can reach, but is nan"),
    ({"target": "1"}, "`target` must be a number, but is '1'"),
    ({"tolerance": -1}, "`tolerance` must not be negative, but is -1"),
    ({"tolerance": math.nan}, "`tolerance` must not be negative, but is nan"),
    ({"vectorized": 1.5}, "`vectorized` must be True or False, but is 1.5"),
    ({"vectorized": -1}, "`vectorized` must be a whole number of at least 0, but is -1"),
    ({"min_fraction": True}, "`min_fraction` must be a number, but is True"),
    ({"optimizer": True}, "`optimizer` must be an (init, update) pair"),
    ({"budget": 100.9}, "`budget` must be a whole number of at least 0, but is 100.9"),
    ({"budget": math.inf}, "`budget` must be a whole number of at least 0, but is inf"),
    ({"folder": ""}, "`folder` must be a path, but is ''"),
    ({"folder": "a\0b"}, "`folder` must be a path, but is 'a\\x00b'"),
    ({"every": Every(-1, -1)}, "`every` must be a whole number of at least 1, but is -1"),
    ({"every": Every(None, -1)}, "`every` must not be negative, but is -1"),
    ({"every": 10**400}, "`every` must be a number of steps such as 100"),
    ({"every": "9" * 400}, "`every` must be a number of steps such as 100"),
    ({"every": "9" * 400 + "s"}, "`every` must be a number of steps such as 100"),
    ({"every": 2**63}, "`every` must be below 2**63"),
    ({"bounds": ("0", "1")}, "`bounds` must be numbers"),
    ({"bounds": [("0", "1")] * 3}, "`bounds` must be numbers"),
    ({"bounds": (1j, 2)}, "`bounds` must be numbers"),
    ({"callback": 3}, "`callback` must be a function, but is 3"),
    ({"trackers": 3}, "`trackers` must be a tracker or a list of trackers, but is 3"),
    ({"progress": "no"}, "`progress` must be True or False, but is 'no'"),
    ({"optimizer": "0.1"}, "`optimizer` must be an (init, update) pair"),
    ({"retries": True, "on_failure": "retry"}, "`retries` must be a whole number of at least 1"),
    ({"workers": 2**70}, "`workers` must be below 2**63"),
]


@pytest.mark.parametrize(("options", "words"), BAD, ids=lambda value: str(value)[:60])
def test_nonsense_is_refused_before_anything_is_done(tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    calls = []
    folder = {"folder": tmp_path / "run"} if "every" in options else {}
    with pytest.raises((ValueError, TypeError), match=re.escape(words)):
        gs.minimize(lambda x: calls.append(x) or 0.0, X0, **{**folder, **options})
    assert not calls
    assert not list(tmp_path.iterdir())


def test_whole_numbers_may_be_written_as_floats():
    runs = [gs.minimize(f, X0, budget=budget, seed=0) for budget in (100, 1e2, np.int16(100))]
    same(runs[0], runs[1])
    same(runs[0], runs[2])


@pytest.mark.parametrize("spacing", [5e-324, 1e-310])
def test_an_estimate_that_overflows_is_not_given_without_a_word(spacing):
    with pytest.raises(ValueError, match=r"not finite: .* `spacing` of"):
        gs.gradient(lambda x: float(x @ x), np.zeros(2) + 1e-300 + 1.0, spacing=spacing)
    with pytest.raises(ValueError, match=r"not finite: .* `spacing` of"):
        gs.gradient(lambda x: float(np.sign(x).sum()), np.zeros(2), spacing=spacing)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: np.zeros((1, *x.shape)), "must return a change in the shape (3,) of x"),
        (lambda x: x[:2], "must return a change in the shape (3,) of x"),
        (lambda x: x * 1j, "`optimizer` must be numbers"),
        (lambda x: x.astype(str), "`optimizer` must be numbers"),
        (lambda _: None, "`optimizer` must be numbers"),
    ],
)
def test_what_an_optimizer_returns_is_looked_at(change, words):
    optimizer = gs.Optimizer(lambda _: (), lambda _, state, x: (change(x), state))
    with pytest.raises((ValueError, TypeError), match=re.escape(words)):
        gs.minimize(f, X0, optimizer=optimizer)


def test_a_number_as_parameters_is_optimised_as_one():
    found = gs.minimize(lambda x: float((x - 1) ** 2), 0.0, budget=400, seed=0)
    assert found.x.shape == ()
    assert abs(found.x - 1) < 0.05


@pytest.mark.parametrize("values", [["1", "2", "3"], np.array(["1", "2", "3"]), [1j, 2, 3]])
def test_words_and_complex_numbers_are_no_values(values):
    search = gs.RandomSearch(gs.Gaussian(), num_directions=2, spacing=0.1)
    state = search.init([1.0, 2.0], seed=0)
    with pytest.raises(TypeError, match="`values` must be numbers"):
        search.tell(state, search.ask(state), values)
    with pytest.raises(gs.EvaluationError, match="must return a number, but returned"):
        gs.minimize(lambda _: values[0] if values[0] != "1" else np.array("1"), X0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gs.sgd("0.1"), "`learning_rate` must be a number, but is '0.1'"),
        (lambda: gs.adam(0.1, eps=-1), "`eps` must not be negative, but is -1"),
        (lambda: gs.greedy(0), "`unit` must be positive, but is 0"),
        (lambda: gs.greedy(memory=0), r"`memory` must be in (0, 1], but is 0"),
        (lambda: gs.greedy(speed=-1), "`speed` must not be negative, but is -1"),
        (lambda: gs.momentum(0.1, nesterov="no"), "`nesterov` must be True or False"),
        (lambda: gs.cosine_decay(0.1, steps=-1), "`steps` must not be negative, but is -1"),
        (lambda: gs.exponential_decay(0.1, rate=0, steps=1), "`rate` must be positive"),
        (lambda: gs.inverse_decay("x"), "`initial` must be a number, but is 'x'"),
        (lambda: gs.Bernoulli(p="x"), "`p` must be a number, but is 'x'"),
        (lambda: gs.Guided(history=2.5), "`history` must be a whole number of at least 1"),
        (lambda: gs.OnePoint(math.nan), "`baseline` must be finite, but is nan"),
        (lambda: gs.evaluators.Threads(1.5), "`num_workers` must be a whole number"),
        (lambda: gs.evaluators.Processes(1, timeout=True), "`timeout` must be a number"),
        (
            lambda: gs.evaluators.Processes(1, environment={"A": 1}),
            "`environment` must have string values",
        ),
        (lambda: gs.evaluators.Processes(1, environment={"A=": "b"}), "`environment` must have na"),
        (lambda: gs.evaluators.Processes(1, environment={"A": "\0"}), "`environment` must have na"),
        (lambda: gs.Pilot(budget=9, widest=math.nan), "`widest` must be positive, but is nan."),
        (lambda: gs.theory.iid(2, 2, variance="x"), "`variance` must be a number, but is 'x'"),
        (lambda: gs.theory.iid(2, 2, variance=1e300), "`variance` must be between 0 and 1e75"),
    ],
)
def test_objects_refuse_nonsense_where_they_are_made(make, words):
    with pytest.raises((ValueError, TypeError), match=re.escape(words)):
        make()


# --- states and values at the edge ----------------------------------------------------------------


def test_a_state_of_another_search_is_refused():
    """It is refused, or has the same form, and is then as good as one of this search's own."""
    named = ("gs", "guided-es", "lmrs", "spsa", "ars", "openai-es", "snes", "xnes", "islands")
    searches = [gs.search(name, np.ones(5)) for name in named] + [gs.Pilot(budget=100)]
    refused = []
    for one in searches:
        state = one.init(np.ones(5), seed=0)
        for other in searches:
            try:
                batch = other.ask(state)
                other.tell(state, batch, [f(x) for x in batch.points()])
            except ValueError as error:
                refused.append(str(error))
                assert other is not one
    assert set(refused) == {
        "The state belongs to another search: pass one that `init` or `tell` of this search "
        "returned."
    }
    assert len(refused) > len(searches) ** 2 // 2


def test_trials_refuse_an_unknown_policy_before_anything_is_evaluated(tmp_path):
    calls = []
    how = {"seeds": 2, "budget": 60, "folder": tmp_path, "on_failure": "x"}
    with pytest.raises(ValueError, match="`on_failure` must be one of 'raise', 'drop', 'retry'"):
        gs.compare(calls.append, np.ones(3), methods=["gs"], **how)
    with pytest.raises(ValueError, match="`on_failure` must be one of 'raise', 'drop', 'retry'"):
        gs.sweep(calls.append, np.ones(3), spacing=[0.1, 1], **how)
    assert not calls
    assert not list(tmp_path.iterdir())


def test_a_sweep_takes_numpy_numbers():
    from gensmooth.lab.sweep import read_values

    assert read_values("spacing", np.float32(0.5)) == ((0.5,), False)
    assert read_values("spacing", [np.float32(0.5), np.float64(1)]) == ((0.5, 1.0), False)
    assert read_values("num_directions", np.int64(4)) == ((4,), False)


def largest(x):
    return 1e308 if x[0] > 0 else -1e308


def largest_slope(x):
    return 1e308 * math.tanh(x[0])


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("method", [None, "bes", "guided-es", "snes", "xnes"])
def test_values_near_the_largest_number_are_values(method):
    """They are not bad values, and their difference is not the same as their value."""
    how = {"method": method, "budget": 300, "seed": 0}
    same = gs.minimize(lambda _: 1e308, np.full(3, 0.5), **how)
    assert same.fun == 1e308
    assert method in ("snes", "xnes") or "All values were the same (1e+308)" in same.message
    sloped = gs.minimize(largest_slope, np.full(3, 0.5), **how)
    assert math.isfinite(sloped.fun)
    assert "All values were the same" not in sloped.message
    if sloped.reason == "diverged":
        assert "the gradient estimate of step 0 is not finite or overflows" in sloped.message


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_leap_to_the_smallest_number_is_not_called_convergence_before_it():
    result = gs.minimize(largest, np.full(3, 0.5), budget=300, seed=0)
    assert result.best_fun == -1e308
    found = int(result.history.evaluations[(result.history.best_value < 0).argmax()])
    assert f"had converged after {found} of" in result.message


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_tiny_scales_run_or_are_named():
    tiny = gs.minimize(f, np.full(3, 0.5), x_scale=1e-300, budget=100, seed=0)
    assert math.isfinite(tiny.fun)
    pytest.importorskip("cmaes")
    with pytest.raises(ValueError, match=r"needs \|x0 / x_scale\| < 1e\+32, but it is 5e\+39"):
        gs.minimize(f, np.full(3, 0.5), method="cma-es", x_scale=1e-40, budget=100, seed=0)


@pytest.mark.extended("soak tests and fuzzers")
def test_a_part_of_the_fuzzer_finds_nothing():
    # in a process of its own: benchmarks give theirs one thread
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fuzz_arguments", "--one-in", "13"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(" calls, 0 findings\n")
    assert int(done.stdout.split()[-4]) > 900
