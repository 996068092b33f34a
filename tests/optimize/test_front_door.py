"""What a new user meets first: no answer is lost, and none is misread."""

import importlib.util
import inspect
import json
import linecache
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
from typer.main import get_command

import gensmooth as gs
from gensmooth import lab
from gensmooth.cli.main import app
from gensmooth.naming import source_hash
from gensmooth.observe import table
from gensmooth.parameters import as_bounds
from gensmooth.runs.config import checksum

RESULTS = Path(__file__).parents[2] / "docs/results"


def shell(folder, *words, **environment):
    """The command in a process of its own."""
    line = [sys.executable, "-m", "gensmooth", *map(str, words)]
    env = {**os.environ, **environment}
    return subprocess.run(line, capture_output=True, text=True, check=False, cwd=folder, env=env)


# --- what the command prints --------------------------------------------------------------------


def every_command(group):
    """The commands by name, those of a group within the command too."""
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from every_command(command)
        else:
            yield pytest.param(name, command, id=f"{group.name} {name}")


@pytest.mark.parametrize(("name", "command"), list(every_command(get_command(app))))
def test_every_command_prints_json(name, command):
    context = command.make_context(name, [], resilient_parsing=True)
    assert "--json" in {flag for option in command.get_params(context) for flag in option.opts}


def test_what_a_module_prints_when_it_is_imported_goes_to_standard_error(tmp_path):
    (tmp_path / "greeting.py").write_text(
        "import os\nprint('hello')\nos.write(1, b'from below\\n')\n\n"
        "def loss(x):\n    return float(x @ x)\n"
    )
    words = ["--x0", "1,1", "-b", 40, "--seed", 0, "--json"]
    done = shell(tmp_path, "minimize", "greeting:loss", *words)
    assert json.loads(done.stdout)["nfev"] <= 40
    assert "hello" in done.stderr
    assert "from below" in done.stderr
    listed = shell(tmp_path, "methods", "greeting", "--json")
    assert json.loads(listed.stdout)
    assert "hello" in listed.stderr


def test_verdicts_as_json(tmp_path):
    done = shell(tmp_path, "reproduce", "dfo", "--judge", RESULTS, "--json")
    found = json.loads(done.stdout)
    assert found["report"] is None
    judged = lab.reproduce("dfo", judge=RESULTS).claims
    assert [row["verdict"] for row in found["claims"]] == [row.verdict for row in judged]
    assert {"id", "claim", "evidence"} <= set(found["claims"][0])


@pytest.mark.parametrize("columns", [32, 24])
def test_names_of_methods_are_folded_before_a_number_goes(columns, tmp_path):
    done = shell(tmp_path, "methods", "--dim", 1000, COLUMNS=str(columns))
    rows = done.stdout.splitlines()
    assert all(len(row) <= columns for row in rows)
    assert "…" not in done.stdout
    errors = [row.split("│")[2].strip() for row in rows if row.count("│") == 3]
    every = gs.directions.predictions(1000) + gs.searches.algorithms.rows(1000)
    wanted = [row["relative_mse"] for row in every]
    assert [e for e in errors if e] == ["–" if w is None else f"{w:.4g}" for w in wanted]


# --- a function that has changed ----------------------------------------------------------------

BOWL = """
TARGET = 1.0

def distance(x):
    return ((x - TARGET) ** 2).sum()

def loss(x):
    return float(distance(x))
"""


def load(folder, text, name="bowls"):
    """A user's module as it is written now."""
    (folder / f"{name}.py").write_text(text)
    linecache.checkcache()
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(text, spec.origin, "exec"), module.__dict__)  # not from a cache of seconds
    return module


@pytest.fixture
def users(tmp_path):
    yield tmp_path
    sys.modules.pop("bowls", None)


HOW = {"budget": 60, "seed": 0}


def test_a_finished_run_that_is_loaded_says_so_and_one_that_goes_on_does_not(users, caplog):
    fun = load(users, BOWL).loss
    first = gs.minimize(fun, [0.0, 0.0], folder=users / "run", **HOW)
    assert not caplog.records
    again = gs.minimize(fun, [0.0, 0.0], folder=users / "run", **HOW)
    (record,) = caplog.records
    assert "holds this run, which ended" in record.message
    assert "nothing is run" in record.message
    assert again.fun == first.fun
    caplog.clear()
    gs.resume(users / "run", fun, budget=90)
    (record,) = caplog.records
    assert "resumes after" in record.message


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("float(distance(x))", "2 * float(distance(x))", True),
        ("** 2", "** 4", True),  # of a function that it calls
        ("def loss", "def other(x):\n    return 0\n\ndef loss", False),
        ("    return float", "    # a comment\n\n    return float", False),
    ],
)
def test_a_function_that_has_changed_is_warned_of(old, new, changed, users, caplog):
    gs.minimize(load(users, BOWL).loss, [0.0, 0.0], folder=users / "run", **HOW)
    fun = load(users, BOWL.replace(old, new)).loss
    for again in (
        lambda: gs.minimize(fun, [0.0, 0.0], folder=users / "run", **HOW),
        lambda: gs.resume(users / "run", fun),
        lambda: gs.resume(users / "run", budget=90, trust=True),
        lambda: gs.resume(users / "run", fun),  # what it began with is still what counts
    ):
        caplog.clear()
        again()
        said = any("The source of the objective" in record.message for record in caplog.records)
        assert said == changed


def test_nothing_is_said_of_a_change_where_the_source_was_not_known(users, caplog):
    fun = load(users, BOWL).loss
    whole = gs.minimize(fun, [0.0, 0.0], folder=users / "whole", budget=90, seed=0)
    gs.minimize(fun, [0.0, 0.0], folder=users / "run", **HOW)
    path = users / "run/config.json"
    config = json.loads(path.read_text())
    assert len(config["source"]) == 64
    config["source"] = None
    config["sha256"] = checksum(config)
    path.write_text(json.dumps(config))
    fun = load(users, BOWL.replace("float(dist", "0.0 + float(dist")).loss
    assert gs.resume(users / "run", fun, budget=90).x.tolist() == whole.x.tolist()
    (record,) = caplog.records
    assert "resumes after" in record.message


def test_what_a_source_is():
    offset = 1

    class Objective:
        def __init__(self, scale):
            self.scale = scale

        def __call__(self, x):
            return self.scale * float(x @ x)

        def method(self, x):
            return float(x @ x)

    def inner(x):
        return x + offset

    def outer(x):
        return inner(x)

    def other(x):
        return inner(x) + 1

    assert source_hash(outer) != source_hash(other) != source_hash(inner)
    assert source_hash(Objective(1)) == source_hash(Objective(2)) is not None
    assert source_hash(Objective(1).method) not in (None, source_hash(Objective(1)))
    first = source_hash(lambda x: x + 1)
    assert first == source_hash(lambda x: x + 1)  # wherever it stands
    second = source_hash(lambda x: x + 2)
    assert second not in (None, first)
    assert [source_hash(f) for f in (lambda: 1, lambda: 2)] == [None] * 2  # which is not known
    assert source_hash(eval("lambda x: x")) is None
    assert source_hash(outer, (1.0,)) != source_hash(outer, (2.0,))
    one, two = np.zeros(3), np.ones(3)
    assert source_hash(outer, (one,)) == source_hash(outer, (one.copy(),))
    assert source_hash(outer, (one,)) != source_hash(outer, (two,))
    assert source_hash(partial(outer, 1)) == source_hash(outer, (1,))


# --- bounds -------------------------------------------------------------------------------------


def read(bounds, dim):
    found = as_bounds(bounds, np.zeros(dim))
    return found.lower.tolist(), found.upper.tolist()


def test_lower_and_upper_limits_as_two_arrays():
    assert read((np.zeros(3), np.arange(1, 4)), 3) == ([0, 0, 0], [1, 2, 3])
    assert read(([0, 0, 0], [1, 2, 3]), 3) == ([0, 0, 0], [1, 2, 3])
    assert read((0, [1, 2, 3]), 3) == ([0, 0, 0], [1, 2, 3])
    assert read(([None, 0, 1], None), 3) == ([-np.inf, 0, 1], [np.inf] * 3)
    assert read(np.array([[0, 0, 0], [1, 2, 3]]), 3) == ([0, 0, 0], [1, 2, 3])
    matrix = np.zeros((2, 3))
    found = as_bounds((matrix, matrix + 1), matrix)
    assert np.array_equal(found.upper, matrix + 1)
    res = gs.minimize(lambda x: (x**2).sum(), np.full(3, 4.0), budget=300, seed=0,
                      bounds=(np.array([3.0, 2, 1]), np.array([9.0, 9, 9])))  # fmt: skip
    assert res.x.tolist() == [3, 2, 1]


def test_two_parameters_are_read_in_one_way_or_refused():
    """Branin's box: (−5, 10) and (0, 15)."""
    box = ([-5, 0], [10, 15])
    assert read([(-5, 10), (0, 15)], 2) == box  # SciPy's pairs
    assert read(((-5, 10), (0, 15)), 2) == box
    assert read((np.array([-5, 0]), np.array([10, 15])), 2) == box  # two arrays
    assert read(gs.Bounds(*box), 2) == read(scipy.optimize.Bounds(*box), 2) == box
    assert read([[0, 0], [1, 1]], 2) == ([0, 0], [1, 1])  # pairs would have no room
    assert read([[0, 1], [0, 1]], 2) == ([0, 0], [1, 1])  # and arrays here
    for unclear in ([[-5, 10], [0, 15]], np.array([[-5, 10], [0, 15]]), ([-5, 0], [10, 15])):
        with pytest.raises(ValueError, match=r"can be read in two ways.*gs.Bounds\(lower, upper\)"):
            read(unclear, 2)


def test_limits_that_do_not_fit_are_told_by_their_shape():
    with pytest.raises(ValueError, match=r"two arrays of shapes \(1000,\) and \(999,\)\.$"):
        read((np.zeros(1000), np.ones(999)), 1000)
    with pytest.raises(ValueError, match=r"but are an array of shape \(4, 2\)\.$"):
        read(np.zeros((4, 2)), 3)


# --- the words of others ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"tol": 1e-3}, "`tolerance`"),
        ({"maxiter": 10}, "`max_steps`"),
        ({"maxfev": 10}, "`budget`"),
        ({"max_evaluations": 10}, "`budget`"),
        ({"max_time": 10}, "`max_seconds`"),
        ({"options": {"maxiter": 10}}, "pass each option as its own argument"),
        ({"jac": True}, "derivatives are not used"),
        ({"constraints": ()}, "`bounds`"),
        ({"disp": True}, "`progress`"),
        ({"random_state": 1}, "`seed`"),
        ({"sigma0": 0.5}, "`spacing`"),
        ({"worker": 2}, "Did you mean 'workers'?"),
        ({"zzz": 2}, "its arguments are fun, x0, args, bounds"),
    ],
)
def test_an_argument_of_another_library_is_answered_with_ours(theirs, ours):
    (name,) = theirs
    with pytest.raises(TypeError, match=rf"minimize\(\) has no argument `{name}`: .*") as caught:
        gs.minimize(scaled, [0.0], **theirs)
    assert ours in str(caught.value)


def test_searches_answer_with_ours_too():
    size = {"num_directions": 2, "spacing": 0.1}
    with pytest.raises(TypeError, match=r"RandomSearch\(\) has no argument `lr`: use `learning_r"):
        gs.RandomSearch(gs.Bernoulli(), **size, lr=0.1)
    with pytest.raises(TypeError, match=r"search\(\) has no argument `popsize`: use `population`"):
        gs.search("snes", [0.0], popsize=10)
    with pytest.raises(TypeError, match=r"for a name, pass method='gs'\."):
        gs.RandomSearch("gs", **size)


@pytest.mark.parametrize("name", ["method", "METHODS", "algorithm", "algorithms"])
def test_four_former_names_are_answered_with_the_two_of_today(name):
    with pytest.raises(AttributeError, match=rf"'{name}': gs\.methods\(\) lists .* gs\.search\("):
        getattr(gs, name)


def test_what_is_given_by_its_place():
    with pytest.raises(TypeError, match="but got 3 positional arguments: pass the others by name"):
        gs.minimize(scaled, [0.0], (1,))
    assert "tolerance" in inspect.signature(gs.minimize).parameters  # for editors and help()


def scaled(x, scale, shift=0.0):
    return float(scale * ((x - shift) ** 2).sum())


def test_args_are_what_they_are_in_scipy(tmp_path):
    how = {"budget": 200, "seed": 0}
    plain = gs.minimize(lambda x: scaled(x, 3.0, 1.0), [0.0, 0.0], **how)
    for workers in (1, 2):
        given = gs.minimize(scaled, [0.0, 0.0], args=(3.0, 1.0), workers=workers, **how)
        assert given.x.tolist() == plain.x.tolist()
        assert given.fun == plain.fun
    assert gs.minimize(scaled, [1.0], args=3.0, **how).fun == pytest.approx(0)
    noisy = gs.minimize(lambda x, rng, scale: scale * float(x @ x) + rng.normal(), [1.0, 1.0],
                        args=(2.0,), samples="independent", **how)  # fmt: skip
    assert np.isfinite(noisy.fun)
    estimate = gs.gradient(scaled, [1.0, 1.0], args=(0.0,), seed=0)
    assert estimate.gradient.tolist() == [0, 0]
    gs.minimize(scaled, [0.0, 0.0], args=(3.0, 1.0), folder=tmp_path / "run", **how)
    with pytest.raises(gs.CheckpointError, match="objective has no name"):
        gs.resume(tmp_path / "run", trust=True)
    again = gs.resume(tmp_path / "run", scaled, args=(3.0, 1.0))
    assert again.x.tolist() == plain.x.tolist()
    with pytest.raises(gs.EvaluationError, match="missing 1 required positional") as caught:
        gs.minimize(scaled, [0.0])
    assert "parameters.py" not in caught.value.traceback


def test_args_in_the_shell(tmp_path):
    (tmp_path / "model.py").write_text("def loss(x, a, b):\n    return a * float(x @ x) + len(b)\n")
    words = ["--x0", "1,1", "-b", 60, "--seed", 0, "--json"]
    done = shell(tmp_path, "minimize", "model:loss", "--args", "2, 'four'", *words)
    assert json.loads(done.stdout)["fun"] == pytest.approx(4)
    refused = shell(tmp_path, "minimize", "model:loss", "--args", "import os", *words)
    assert "`--args` must be plain values" in refused.stderr


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("--tol", "--tolerance"), ("--maxiter", "--max-steps"), ("--options", "--budget")],
)
def test_an_option_of_another_library_is_answered_with_ours(theirs, ours, tmp_path):
    done = shell(tmp_path, "minimize", "m:f", "--x0", "1", theirs, "1", COLUMNS="300")
    assert done.returncode == 2
    assert f"No such option: {theirs}: " in done.stderr
    assert ours in done.stderr


def noisy(x, rng):
    return float(x @ x) + rng.standard_normal()


def test_a_function_of_x_and_a_generator_is_recognised_in_python_too():
    with pytest.raises(gs.EvaluationError, match=r"missing 1 .* pass samples='independent'"):
        gs.minimize(noisy, [1.0])
    with pytest.raises(gs.EvaluationError, match=r"takes .*with `samples` it is called"):
        gs.minimize(scaled, [1.0], samples="independent", args=(1.0, 2.0))

    def broken(x):
        return scaled(x)  # the user's own mistake: his traceback says where

    with pytest.raises(gs.EvaluationError, match=r"argument: 'scale', at") as caught:
        gs.minimize(broken, [1.0])
    assert "return scaled(x)" in caught.value.traceback


# --- small things -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "bes"])
def test_without_a_final_value_it_is_no_success(method):
    how = {"method": method, "budget": 40, "seed": 0, "on_failure": "drop"}
    calls = 0
    last = gs.minimize(lambda x: float(x @ x), [1.0, 1.0], **how).nfev

    def fails_at_last(x):
        nonlocal calls
        calls += 1
        return np.nan if calls == last else float(x @ x)

    found = gs.minimize(fails_at_last, [1.0, 1.0], **how)
    assert np.isnan(found.fun)
    assert not found.success
    assert "failed at the recommended point" in found.message
    assert np.isfinite(found.best_fun)


def test_a_single_tracker_is_one():
    class Tracker:
        steps = 0

        def start(self, start):
            pass

        def step(self, seen):
            self.steps += 1

        def end(self, summary):
            pass

    tracker = Tracker()
    res = gs.minimize(scaled, [1.0], args=(1.0,), budget=40, seed=0, trackers=tracker)
    assert tracker.steps == res.nit
    with pytest.raises(TypeError, match="`trackers` must be a tracker or a list of trackers"):
        gs.minimize(scaled, [1.0], args=(1.0,), trackers=3)


def test_counts_are_shown_in_full():
    assert table.number(1_106_520.0) == "1,106,520"
    assert table.number(52_345.6, 4) == "52,346"
    assert table.number(0.000123456789) == "0.000123457"
    assert table.number(float("nan")) == "nan"
