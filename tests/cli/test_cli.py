"""The command is the API: every parameter is an option, declared where the function is."""

import ast
import inspect
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import gensmooth as gs
from gensmooth.cli import options
from gensmooth.cli.common import report
from gensmooth.cli.compare import compare
from gensmooth.cli.evaluate import evaluate
from gensmooth.cli.main import app, explain
from gensmooth.cli.methods import methods
from gensmooth.cli.minimize import minimize
from gensmooth.cli.options import Sets, documented, read_as
from gensmooth.cli.render import render
from gensmooth.cli.reproduce import reproduce
from gensmooth.cli.resume import resume
from gensmooth.cli.sweep import sweep
from gensmooth.cli.train import train
from gensmooth.cli.values import read_bounds, read_object
from patience import LONG

CLI = Path(options.__file__).parent
COMMANDS = [
    (minimize, "gensmooth.optimize:minimize"),
    (resume, "gensmooth.optimize:resume"),
    (resume, "gensmooth.rl.front:resume"),
    (train, "gensmooth.rl.front:train"),
    (evaluate, "gensmooth.rl.evaluation:evaluate"),
    (render, "gensmooth.rl.rendering:render"),
    (methods, "gensmooth.directions:predictions"),
]
NOT_IN_A_SHELL: dict[str, set[str]] = {}  # by target: parameters that no option can set
MODEL = """
import numpy as np
import gensmooth as gs

def loss(x):
    return float(((x - 1) ** 2).sum())

def stacked(points):
    assert len(points) <= 3
    return ((points - 1) ** 2).sum(axis=1)

def raises(x):
    return helper(x)

def helper(x):
    return {}["here"]

def stop(now):
    return now.info.step >= 2

class Mine(gs.Gaussian):
    pass

mine = gs.Sphere()
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a user's module."""
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "model", raising=False)
    yield tmp_path
    sys.modules.pop("model", None)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def shell(folder, *words):
    """The command in a process of its own."""
    line = [sys.executable, "-m", "gensmooth", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, check=False, cwd=folder)


# --- every parameter is an option ---------------------------------------------------------------


@pytest.mark.parametrize(("command", "target"), COMMANDS, ids=[name for _, name in COMMANDS])
def test_every_parameter_has_an_option_with_the_docstrings_words(command, target):
    function = Sets(target).find()
    built = get_command(app).commands[command.function.__name__]
    context = built.make_context("it", ["--help"], resilient_parsing=True)
    known = {param.name: param for param in built.get_params(context)}
    by_parameter = {option.parameter: option for option in command.by_target[target]}
    said = documented(function, target.partition(":")[0])
    for name, parameter in inspect.signature(function).parameters.items():
        if name in NOT_IN_A_SHELL.get(target, ()):
            continue
        assert name in by_parameter, f"no option of `{command.function.__name__}` sets `{name}`"
        option = by_parameter[name]
        assert option.help.startswith(said[name]), name
        first = re.search(rf"^ +{name}: (\S+ ?\S*)", function.__doc__, re.MULTILINE)[1]
        assert first.startswith("As in") or first.replace("`", "").strip() in option.help
        there = known[option.name]
        if target == COMMANDS[[each for each, _ in COMMANDS].index(command)][1]:  # not its twin's
            assert there.help == option.help.replace("[", r"\[")
        required = parameter.default is inspect.Parameter.empty
        assert there.required == required, name
        if isinstance(parameter.default, bool | int | float | str) and option.shell.read is None:
            assert there.default == parameter.default, name


@pytest.mark.parametrize("command", [minimize, train, resume, compare, sweep, reproduce])
def test_the_help_fits_on_two_screens_and_help_all_lists_every_option(command, monkeypatch):
    name = command.function.__name__
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERMINAL_WIDTH", "100")
    short, full = run(name, "--help").output, run(name, "--help-all").output
    assert len(short.splitlines()) <= 80
    assert "--help-all" in short
    options = {option.flags[0].partition("/")[0] for option in command.options}
    options -= {option.flags[0] for option in command.options if option.shell.argument}
    assert all(option in full for option in options)
    assert "--min-fraction" not in short
    assert "--last-trials" not in short
    assert set(command.common) <= {option.name for option in command.options} | {
        "max_seconds",
        "max_steps",
    }


def test_no_help_is_written_but_in_docstrings():
    for path in CLI.glob("*.py"):
        if path.name in ("reproduce.py", "options.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("typer.Option"):
                assert path.name == "main.py"


def test_a_parameter_that_a_shell_cannot_say_is_an_error_of_ours():
    def run_it(*, when: complex = 1j) -> None:
        """Run.

        Args:
            when: When.
        """

    found = options._options(run_it, "", {}, None)
    with pytest.raises(TypeError, match="No shell type for `when"):
        list(found)


def test_what_the_docstring_says_is_found():
    said = documented(gs.resume, "gensmooth")
    assert said["callback"] == documented(gs.minimize)["callback"]
    assert "``" not in " ".join(said.values())
    assert "Raises" not in " ".join(said.values())


def test_types():
    assert read_as(bool | None) is bool
    assert read_as(str | list[int] | None) is str
    assert read_as(list[int]) is None


def test_help_is_quick_and_options_are_looked_up_late(tmp_path):
    heavy = ["numba", "scipy", "matplotlib", "ray", "gymnasium", "mujoco", "pandas", "mlflow"]
    for words, none in (
        (["--help"], [*heavy, "numpy", "gensmooth.optimize", "gensmooth.rl"]),
        (["minimize", "--help"], heavy),
        (["train", "--help"], heavy),
    ):
        line = [sys.executable, "-X", "importtime", "-m", "gensmooth", *words]
        done = subprocess.run(line, capture_output=True, text=True, check=True, cwd=tmp_path)
        loaded = {row.rpartition("|")[2].strip() for row in done.stderr.splitlines()}
        assert "typer" in loaded
        assert not loaded & set(none)


# --- the same as in Python ----------------------------------------------------------------------


def result_of(*words):
    done = run("minimize", *words, "--out", "found.json")
    assert done.exit_code == 0, done.output + str(done.exception)
    return json.loads(Path("found.json").read_text())


@pytest.mark.usefixtures("here")
def test_what_python_can_do_a_shell_can():
    import model

    x0 = np.arange(6.0).reshape(2, 3).astype(np.float32)
    np.save("start.npy", x0)
    found = result_of(
        *("model.py:loss", "--x0", "start.npy", "--directions", "Guided(alpha=0.3)", "-L", 5),
        *("--estimator", "Antithetic()", "--optimizer", "sgd(cosine_decay(0.1, steps=9))"),
        *("--max-steps", 7, "--tolerance", "1e-9", "--min-fraction", 0.3, "--threads", 2),
        *("--bounds", "0,1", "--bounds", ",2", *["--bounds", "-1,"] * 4, "--seed", 3, "-w", 2),
    )
    bounds = [(0, 1), (-math.inf, 2), *[(-1, math.inf)] * 4]
    same = gs.minimize(
        model.loss,
        x0,
        directions=gs.Guided(alpha=0.3),
        num_directions=5,
        estimator=gs.Antithetic(),
        optimizer=gs.sgd(gs.cosine_decay(0.1, steps=9)),
        max_steps=7,
        tolerance=1e-9,
        bounds=bounds,
        min_fraction=0.3,
        seed=3,
    )
    assert found["nit"] == 7
    assert found["x"] == same.x.tolist()
    assert found["fun"] == same.fun


@pytest.mark.parametrize(
    ("words", "python"),
    [
        (["-r", "0.05"], {"optimizer": gs.sgd(0.05)}),
        (["--method", "auto", "--x-scale", "0.5"], {"x_scale": 0.5}),
        (["--x-scale", "0.5,1,2"], {"method": "auto", "x_scale": [0.5, 1, 2]}),
        (["--log-scale", "0,1,1"], {"log_scale": [False, True, True]}),
        (["--noise", "0.1"], {"noise": 0.1}),
        (["--no-restarts"], {"restarts": False}),
        (["--optimizer", "momentum(0.01)"], {"optimizer": gs.momentum(0.01)}),
        (["--estimator", "antithetic"], {"estimator": gs.Antithetic()}),
        (["--optimizer", "greedy"], {"optimizer": gs.greedy()}),
        (["--optimizer", "greedy(0.1, speed=0.1)"], {"optimizer": gs.greedy(0.1, speed=0.1)}),
        (["--estimator", "one-point"], {"estimator": gs.OnePoint("others")}),
        (["--estimator", "ranked"], {"estimator": gs.Ranked()}),
        (["--directions", "gs.shrunk(gs.Bernoulli())"], {"method": "bes-shrinkage"}),
        (["--directions", "model:Mine"], {"directions": gs.Gaussian()}),
        (["--directions", "model.py:Mine()"], {"directions": gs.Gaussian()}),
        (["--directions", "model:mine"], {"directions": gs.Sphere()}),
        (["--bounds", "-1,0.5"], {"bounds": (-1, 0.5)}),
        (["--workers", "Threads(2)"], {}),
        (["--workers", "Processes(1, timeout=30)"], {}),
        (["--threads", "2"], {}),
    ],
)
@pytest.mark.usefixtures("here")
def test_objects_in_words(words, python):
    import model

    found = result_of("model:loss", "--x0", "0,0.5,2", "-b", 100, "--seed", 1, *words)
    same = gs.minimize(model.loss, [0, 0.5, 2], budget=100, seed=1, **python)
    assert found["x"] == same.x.tolist()


@pytest.mark.usefixtures("here")
def test_a_budget_may_be_unknown_or_round(caplog):
    words = ("minimize", "model:loss", "--x0", "zeros:2", "--seed", 1, "--json", "--budget")
    assert json.loads(run(*words, "none").stdout)["reason"] == "converged"
    assert "goes on until the search converges" in caplog.text
    assert json.loads(run(*words, "1e2").stdout)["nfev"] <= 100
    for wrong in ("1.5", "many", "nan", "inf"):
        found = run(*words, wrong)
        assert "`--budget` must be a whole number or none" in found.output + str(found.exception)


def test_callbacks_blocks_and_trackers(here):
    common = ["--x0", "zeros:2", "-b", "100", "--seed", "1"]
    stopped = run("minimize", "model:loss", *common, "--callback", "model:stop")
    assert stopped.exit_code == 1
    assert "The callback requested a stop" in stopped.output
    assert result_of("model:stacked", *common, "--vectorized", "--block", 3)["success"]
    tracker = ["--tracker", "TensorBoard('logs')", "--tensorboard", "more"]
    pytest.importorskip("tensorboardX")
    assert result_of("model:loss", *common, *tracker)["success"]
    assert list(here.glob("logs/*"))
    assert list(here.glob("more/*"))


@pytest.mark.usefixtures("here")
def test_resume_takes_what_gs_resume_takes():
    words = ["model:loss", "--x0", "zeros:2", "-b", 60, "--seed", 1, "--folder", "run"]
    assert run("minimize", *words, "--directions", "model:Mine").exit_code == 0
    further = ["--budget", 120, "--tolerance", "1e-12", "--directions", "model:Mine()"]
    done = run("resume", "run", *further, "--trust", "--out", "found.json")
    assert done.exit_code == 0, done.output + str(done.exception)
    assert json.loads(Path("found.json").read_text())["nit"] > 7
    refused = run("resume", "run", "--optimizer", "0.1")
    assert "`--optimizer` must be an object as in Python" in str(refused.exception)
    refused = run("resume", "run", "--threads", 2)
    assert "run holds a minimisation, but `--threads` is only for a training" in str(
        refused.exception
    )


def test_methods_in_python():
    done = run("methods", "-d", 10, "-L", 4, "--noise", 2, "--samples", "shared", "--json")
    rows = json.loads(done.output)
    told = {"noise": 2.0, "samples": "shared"}
    assert rows == [
        *gs.directions.predictions(10, 4, **told),
        *gs.searches.algorithms.rows(10, 4, **told),
    ]
    assert gs.theory.mse(gs.Bernoulli().moments(10, 4), gradient_norm2=1.0, noise_trace=2.0,
                         num_samples=1, samples="shared") == rows[1]["relative_mse"]  # fmt: skip


# --- --folder and --out ----------------------------------------------------------------------


@pytest.mark.usefixtures("here")
def test_folder_is_for_the_run_and_out_for_the_result():
    words = ["model:loss", "--x0", "zeros:2", "-b", 60, "--seed", 1]
    assert run("minimize", *words, "--out", "found.json").exit_code == 0
    assert run("minimize", *words, "--folder", "run").exit_code == 0
    assert {path.name for path in Path("run").iterdir()} >= {"config.json", "result.json"}
    found = json.loads(Path("found.json").read_text())
    assert json.loads(Path("run/result.json").read_text()) == found
    again = run("resume", "run", "--objective", "model:loss", "--out", "again.json")
    assert again.exit_code == 0
    assert json.loads(Path("again.json").read_text()) == found
    assert run("minimize", *words, "--folder", "kept", "-o", "plain.json").exit_code == 0
    assert json.loads(Path("plain.json").read_text()) == found
    mistaken = run("minimize", *words, "--out", "run2")
    assert "For the folder of a run, use `--folder run2`" in str(mistaken.exception)
    for refused in (
        run("minimize", *words, "--checkpoint", "run2"),
        run("compare", *words[:3], "--out", "run2"),
        run("reproduce", "linreg", "--out", "run2"),
    ):
        assert "use --folder" in refused.output
    assert not Path("run2").exists()


@pytest.mark.usefixtures("here")
def test_out_of_a_training():
    pytest.importorskip("gymnasium")
    words = ["CartPole-v1", "-L", 2, "-n", 1, "--test-episodes", 2, "--seed", 0]
    assert run("train", *words, "--folder", "kept.v2").exit_code == 0
    assert run("train", *words, "--out", "found.json").exit_code == 0
    found = json.loads(Path("found.json").read_text())
    there = json.loads(Path("kept.v2/result.json").read_text())
    assert Path(found.pop("folder")) == Path("runs/CartPole-v1-1")
    assert there.pop("folder") == "kept.v2"
    assert found == there
    assert found["tests"][-1]["step"] == found["nit"] == 1


# --- errors -------------------------------------------------------------------------------------

BROKEN = {
    "imports": ("import numpyy\n", "imports.py, line 1: No module named 'numpyy'"),
    "deeper": ("import imports\n", "imports.py, line 1: No module named 'numpyy'"),
    "syntax": (
        "x = 1\ndef loss(x)\n    return 1.0\n",
        "syntax.py is not valid Python: expected ':' in",
    ),
    "divides": ("\n\nvalue = 1 / 0\n", "divides.py, line 3: division by zero"),
    "leaves": ("import json\njson.loads('no')\n", "leaves.py, line 2: Expecting value"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_error_in_the_users_module_shows_his_file_and_line_alone(name, here):
    for file, (text, _) in BROKEN.items():
        (here / f"{file}.py").write_text(text)
    for command in (
        ["minimize", f"{name}:loss", "--x0", "0"],
        ["minimize", f"{name}.py:loss", "--x0", "0"],
    ):
        done = shell(here, *command)
        assert done.returncode == 1
        assert BROKEN[name][1] in done.stderr.splitlines()[-1]
        assert done.stderr.splitlines()[-1].startswith("Error: ")
        assert f'File "{here / name}.py", line' in done.stderr
        for ours in ("gensmooth/cli", "typer", "<frozen", "naming.py"):
            assert ours not in done.stderr


@pytest.mark.parametrize("words", [[], ["--workers", "2"]])
def test_an_error_inside_the_objective_is_said_once_with_his_file_and_line(words, here):
    done = shell(here, "minimize", "model:raises", "--x0", "zeros:3", *words)
    assert done.returncode == 1
    assert f'{here / "model.py"}", line 16, in helper' in done.stderr
    assert done.stderr.count("The objective raised KeyError") == 1
    for ours in ("objective.py", "_InWorker", "not logged"):
        assert ours not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--timeout", "3"], 'pass --workers "Processes(1, timeout=3)", or use more workers'),
        (
            ["--directions", "Guide(alpha=1)"],
            "There is no function or class 'Guide'. Did you mean 'Guided'?",
        ),
        (["--directions", "Guided"], '`--directions` must be an object as in Python, such as "Gui'),
        (["--directions", "nowhere:Mine"], "There is no module 'nowhere' in"),
        (["--directions", "model:Nothing"], "Module 'model' has no 'Nothing'"),
        (
            ["--directions", "Guided(alpha=__import__('os'))"],
            "There is no function or class '__import__'",
        ),
        (
            ["--estimator", "foward"],
            "`--estimator` must be one of forward, antithetic, one-point, r",
        ),
        (["--optimizer", "adan"], "`--optimizer` must be an object as in Python"),
        (["--optimizer", "sgd"], "write `--optimizer 'sgd(0.01)'`"),
        (["--optimizer", "0.1"], "use `--learning-rate 0.1`"),
        (["--optimizer", "sgd(0.1)", "-r", "1"], "Pass either `learning_rate` or `optimizer`"),
        (["--workers", "two"], "`--workers` must be an object as in Python, such as"),
        (["--bounds", "1"], "`--bounds` must be lower,upper, such as -1,1, but is '1'"),
        (
            ["--bounds", "0,1", "--bounds", "0,1"],
            "one pair (lower, upper) for each of the 3 parameters",
        ),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_a_shell(words, said, here):
    done = shell(here, "minimize", "model:loss", "--x0", "zeros:3", *words)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_error_inside_an_environment_shows_his_file_and_line_too(here):
    (here / "fragile.py").write_text("def step():\n    raise ValueError('fell over')\n")
    sys.path.insert(0, str(here))
    try:
        __import__("fragile").step()
    except ValueError as cause:
        error = gs.EvaluationError("It broke down.", step=0, index=0)
        error.__cause__ = cause
    finally:
        sys.path.remove(str(here))
        sys.modules.pop("fragile")
    where, what = explain(error)
    assert what == "It broke down."
    assert f'{here / "fragile.py"}", line 2, in step' in where


def test_a_file_that_is_not_there(here):
    done = shell(here, "minimize", "nowhere/model.py:loss", "--x0", "0")
    assert done.stderr == f"Error: There is no file {here / 'nowhere' / 'model.py'}.\n"


def test_a_file_whose_name_is_taken(here):
    (here / "json.py").write_text("def loss(x):\n    return 1.0\n")
    done = run("minimize", "json.py:loss", "--x0", "0")
    assert "json.py: Python already imports 'json' from" in str(done.exception)


def test_objects_are_calls_of_public_names_with_literals_alone():
    assert read_object("OnePoint('others')", option="estimator") == gs.OnePoint("others")
    for text in ("1 + 1", "adam", "(lambda: 1)()", "adam(*[1])", "adam(**{})", "adam(x)"):
        with pytest.raises(ValueError):
            read_object(text, option="optimizer")
    assert read_bounds(["0,1 ,2"]) == [(0.0, 1.0), (-math.inf, 2.0)]


# --- nothing is lost ----------------------------------------------------------------------------

SMALL = ["model:loss", "--x0", "zeros:40", "-b", "60", "--seed", "1"]


def test_all_of_x_is_printed_where_there_is_no_terminal_and_kept_in_a_file(here):
    done = shell(here, "minimize", *SMALL)
    assert done.returncode == 0, done.stderr
    rows = dict(row.split(maxsplit=1) for row in done.stdout.splitlines())
    kept = json.loads((here / rows["result"]).read_text())
    assert rows["result"] == "runs/model-loss-1/result.json"
    assert json.loads(rows["x"]) == kept["x"]
    assert len(kept["x"]) == 40
    again = shell(here, "minimize", *SMALL)
    assert "runs/model-loss-2/result.json" in again.stdout
    for words in (["minimize", *SMALL, "--folder", "run"], ["resume", "run", "--trust"]):
        assert "run/result.json" in shell(here, *words).stdout
        assert json.loads((here / "run/result.json").read_text()) == kept


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals here")
def test_on_a_terminal_long_values_are_cut_and_the_file_is_named(here):
    ours, theirs = os.openpty()
    line = [sys.executable, "-m", "gensmooth", "minimize", *SMALL]
    done = subprocess.run(
        line, stdout=theirs, stderr=subprocess.PIPE, check=False, cwd=here, timeout=120
    )
    os.close(theirs)
    said = os.read(ours, 100_000).decode()
    os.close(ours)
    assert done.returncode == 0, done.stderr
    assert "(complete in the" in said
    assert "runs/model-loss-1/result.json" in said
    assert (here / "runs/model-loss-1/result.json").exists()


@pytest.mark.usefixtures("here")
def test_a_long_run_prints_lines_where_there_is_no_terminal(monkeypatch):
    words = ("minimize", "model:loss", "--x0", "zeros:2", "--budget", 60, "--seed", 1)
    assert "evaluations/s" not in run(*words).stderr
    monkeypatch.setattr("gensmooth.cli.common.LONG_RUN_SECONDS", 0.0)
    said = run(*words).stderr
    assert "step 1 " in said
    assert "end: The evaluation budget is used up." in said


def test_json_and_out_to_standard_output(here):
    printed = shell(here, "minimize", *SMALL, "--json")
    assert json.loads(printed.stdout) == json.loads(
        (here / "runs/model-loss-1/result.json").read_text()
    )
    assert "result: runs/model-loss-1/result.json" in printed.stderr
    (here / "runs/model-loss-1/result.json").unlink()
    (here / "runs/model-loss-1").rmdir()
    assert shell(here, "minimize", *SMALL, "--out", "-").stdout == printed.stdout
    assert not list((here / "runs").iterdir())
    for words in (["version"], ["methods"]):
        assert json.loads(shell(here, *words, "--json").stdout)


def test_json_of_a_training(here):
    pytest.importorskip("gymnasium")
    words = ["CartPole-v1", "-L", 2, "-n", 1, "--test-episodes", 2, "--seed", 0, "--json"]
    done = shell(here, "train", *words)
    found = json.loads(done.stdout)
    assert found == json.loads((here / "runs/CartPole-v1-1/result.json").read_text())
    evaluated = json.loads(shell(here, "evaluate", found["folder"], "-n", 3, "--json").stdout)
    assert len(evaluated["returns"]) == 3
    further = shell(here, "resume", found["folder"], "-n", 2, "--out", "-")
    assert json.loads(further.stdout)["nit"] == 2


def test_what_cannot_be_is_json_all_the_same(here):
    report({"fun": math.nan, "x": [math.inf, 1.0]}, {}, file=here / "a.json", as_json=True)
    found = json.loads((here / "a.json").read_text(), parse_constant=pytest.fail)
    assert found == {"fun": "nan", "x": ["inf", 1.0]}


@pytest.mark.parametrize("words", [[], ["--workers", "2"]])
def test_what_the_objective_prints_goes_to_standard_error(words, here):
    (here / "chatty.py").write_text(
        "import os\n\ndef loss(x):\n    print('said in Python')\n"
        "    os.write(1, b'written below Python\\n')\n    return float(x @ x)\n"
    )
    done = shell(here, "minimize", "chatty:loss", *SMALL[1:], "--json", *words)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["x"]) == 40
    for line in ("said in Python", "written below Python"):
        assert line in done.stderr


def test_a_run_that_fails_leaves_what_it_had_found(here):
    (here / "tired.py").write_text(
        "calls = 0\n\ndef loss(x):\n    global calls\n    calls += 1\n"
        "    return float(x @ x) if calls < 50 else 1 / 0\n"
    )
    done = shell(here, "minimize", "tired:loss", "--x0", "1,1", "--seed", 0)
    assert done.returncode == 1
    assert "The objective raised ZeroDivisionError" in done.stderr
    kept = json.loads((here / "runs/tired-loss-1/result.json").read_text())
    assert kept["nit"] > 0
    assert not kept["success"]
    done = shell(here, "minimize", "model:raises", "--x0", "1,1")
    assert not (here / "runs/model-raises-1").exists()


def test_a_file_that_cannot_be_written_is_found_before_the_run(here):
    (here / "loud.py").write_text("def loss(x):\n    print('called')\n    return float(x @ x)\n")
    for out in ("nowhere/found.json", "/proc/found.json", f"{'x' * 300}.json"):
        done = shell(here, "minimize", "loud:loss", *SMALL[1:], "--out", out)
        assert done.returncode == 1, out
        assert "`--out` " in done.stderr
        assert "called" not in done.stderr
        assert "Traceback" not in done.stderr
    (here / "found.json").write_text("old")
    shell(here, "minimize", "loud:loss", "--x0", "x", "--out", "found.json")
    assert (here / "found.json").read_text() == "old"


def test_a_result_that_cannot_be_written_after_all_is_printed(here, capsys):
    (here / "file").write_text("")
    report({"x": [1.0]}, {"x": [1.0]}, file=here / "file" / "result.json")
    said = capsys.readouterr()
    assert json.loads(said.out) == {"x": [1.0]}
    assert "could not be written" in said.err


def test_a_function_of_x_and_a_generator_without_samples_is_explained(here):
    (here / "noisy.py").write_text(
        "def loss(x, rng):\n    return float(x @ x) + rng.normal()\n\n"
        "def either(x, rng=None):\n    return float(x @ x)\n"
    )
    done = shell(here, "minimize", "noisy:loss", *SMALL[1:])
    assert done.returncode == 1
    assert "noisy:loss(x, rng) is called as fun(x), which lacks an argument" in done.stderr
    assert "`--samples independent`" in done.stderr
    assert shell(here, "minimize", "noisy:loss", *SMALL[1:], "--samples", "paired").returncode == 0
    assert shell(here, "minimize", "noisy:either", *SMALL[1:]).returncode == 0
    done = shell(here, "minimize", *SMALL, "--samples", "paired")
    assert "model:loss(x) is called as fun(x, rng) because of `--samples`" in done.stderr


# --- reading it ---------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [200, 100, 80, 60, 40])
def test_methods_drops_columns_never_digits(columns, tmp_path):
    line = [sys.executable, "-m", "gensmooth", "methods", "--dim", "1000"]
    env = {**os.environ, "COLUMNS": str(columns)}
    done = subprocess.run(line, capture_output=True, text=True, check=True, cwd=tmp_path, env=env)
    assert "…" not in done.stdout
    assert all(len(row) <= columns for row in done.stdout.splitlines())
    cells = {row.split("│")[1].strip(): row for row in done.stdout.splitlines() if "│" in row}
    for row in gs.directions.predictions(1000):
        shown = cells[row["method"] + " •" * row["in_paper"]]
        if row["relative_mse"] is not None:
            assert f"{row['relative_mse']:.4g} │" in shown
    dropped = "No room for" in " ".join(done.stdout.split())
    assert dropped == (columns < 100)
    assert ("0.01963" in done.stdout) == (columns >= 60)  # BeS-shrinkage's variance


def test_methods_of_a_users_module(here):
    done = shell(here, "methods", "model", "--json")
    assert [row["method"] for row in json.loads(done.stdout)] == [
        *gs.directions.METHODS,
        *gs.searches.algorithms.ALGORITHMS,
    ]
    assert "There is no module 'nowhere' in" in shell(here, "methods", "nowhere").stderr


def test_version(tmp_path):
    assert shell(tmp_path, "--version").stdout == f"gensmooth {gs.__version__}\n"
    assert shell(tmp_path, "version").stdout == f"gensmooth {gs.__version__}\n"
    assert set(json.loads(shell(tmp_path, "version", "-v", "--json").stdout)) == {
        *("gensmooth", "Python", "numpy", "numba")
    }


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("mini", "minimize"),
        ("minimize --spac", "--spacing"),
        ("minimize --method bes-", "bes-shrinkage"),
        ("train --policy l", "linear"),
    ],
)
def test_the_shell_completes(words, offered, tmp_path):
    line = f"gensmooth {words}"
    env = {
        **os.environ,
        "_GENSMOOTH_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    command = Path(sys.executable).with_name("gensmooth")
    done = subprocess.run([command], capture_output=True, text=True, check=False, env=env,
                          cwd=tmp_path)  # fmt: skip
    assert offered in done.stdout.split()


@pytest.mark.extended("documentation, examples and packaging")
def test_the_documentation_runs_as_it_stands(here):
    page = (Path(__file__).parents[2] / "docs" / "command.md").read_text()
    (block,) = re.findall(r"```bash\n(.*?)```", page, flags=re.DOTALL)
    for line in block.splitlines():
        done = shell(here, *shlex.split(line)[1:])
        assert done.returncode == 0, line + done.stderr
    for text in re.findall(r'--directions "([^"]+)"', page):
        assert isinstance(read_object(text, option="directions"), gs.Directions)
    for text in re.findall(r'--optimizer "([^"]+)"', page):
        assert hasattr(read_object(text, option="optimizer"), "update")


# --- folders of strangers, and streams that are not there ---------------------------------------


def test_a_result_is_not_written_to_where_a_link_leads(here):
    run("minimize", "model:loss", "--x0", "zeros:3", "--max-steps", 2, "--folder", "run")
    (here / "precious").write_text("mine")
    (here / "run" / "result.json").unlink()
    (here / "run" / "result.json").symlink_to(here / "precious")
    done = run("resume", "run", "--objective", "model:loss", "--max-steps", 4)
    assert done.exit_code == 0, done.output
    assert (here / "precious").read_text() == "mine"
    assert json.loads((here / "run" / "result.json").read_text())["nit"] == 4


@pytest.mark.parametrize("replaced", [False, True])
def test_a_result_is_not_left_in_a_folder_that_was_removed(replaced, here):
    (here / "removes.py").write_text(
        "import os, shutil\n"
        "def stop(now):\n"
        "    if now.nit == 3:\n"
        "        shutil.rmtree('run')\n"
        f"        if {replaced}:\n"
        "            os.mkdir('run')\n"
        "            open('run/config.json', 'w').write('another\\'s')\n"
    )
    line = ["minimize", "model:loss", "--x0", "zeros:3", "--max-steps", 4, "--folder", "run"]
    done = shell(here, *line, "--callback", "removes:stop")
    assert done.returncode == 0, done.stderr
    assert "was removed or replaced" in done.stderr
    assert "result  " not in done.stdout
    left = [path.name for path in here.glob("run/*")]
    assert left == (["config.json"] if replaced else [])


# What an interpreter whose descriptors are closed finds, without the second that it takes to start.
CLOSED = """
import os, sys
for number in map(int, sys.argv.pop(1)):
    os.close(number)
    name = ("stdin", "stdout", "stderr")[number]
    setattr(sys, name, None)
    setattr(sys, f"__{name}__", None)
from gensmooth.cli.main import main
main()
"""


@pytest.mark.parametrize("closed", ["0", "1", "2", "012"])
@pytest.mark.parametrize("workers", [1, 2])
def test_streams_that_the_shell_has_closed(closed, workers, here):
    words = ["minimize", "model:loss", "--x0", "zeros:3", "--max-steps", "3"]
    words += ["--workers", str(workers), "--folder", "run"]
    done = subprocess.run([sys.executable, "-c", CLOSED, closed, *words], cwd=here, check=False)
    assert done.returncode == 0
    assert json.loads((here / "run" / "result.json").read_text())["nit"] == 3


def test_streams_that_a_real_shell_has_closed(here):
    line = [sys.executable, "-m", "gensmooth", "minimize", "model:loss", "--x0", "zeros:3"]
    line += ["--max-steps", "3", "--workers", "2", "--folder", "run"]
    done = subprocess.run(f"{shlex.join(line)} <&- >&- 2>&-", shell=True, cwd=here, check=False)
    assert done.returncode == 0
    assert json.loads((here / "run" / "result.json").read_text())["nit"] == 3


@pytest.mark.parametrize(
    ("words", "workers"), [([], gs.evaluators.cores()), (["--workers", "1"], 1)]
)
@pytest.mark.parametrize("name", ["compare", "sweep"])
def test_runs_take_one_core_each_unless_there_are_fewer_workers(name, words, workers, monkeypatch):
    passed = []

    def run(*arguments, command):
        passed.append((command, arguments[-1]["workers"]))
        raise ValueError("enough")

    module, entry = f"gensmooth.lab.{name}", "run_comparison" if name == "compare" else "run_sweep"
    monkeypatch.setattr(import_module(module), entry, run)
    CliRunner().invoke(app, [name, "noisy:sphere:4", *words])
    assert [each for _, each in passed] == [workers]
    shown = " ".join(CliRunner().invoke(app, [name, "--help"]).output.replace("│", " ").split())
    assert "By default one per core" in shown
    assert "one per core. [default: 1]" not in shown


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.usefixtures("fresh_interpreters")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_a_comparison_that_starts_its_workers_shows_no_traceback(number, tmp_path):
    (tmp_path / "model.py").write_text(
        "import time\ndef slow(x):\n    time.sleep(0.05)\n    return float(x @ x)\n"
    )
    words = ["compare", "model:slow", "--x0", "zeros:3", "--seeds", "4", "--budget", "2000"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # inherited: not ignored
    started = subprocess.Popen(
        [sys.executable, "-m", "gensmooth", *words, "--workers", "2", "--folder", "compared"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # signals to its group reach its workers too
    )
    signal.signal(signal.SIGINT, before)
    while not (tmp_path / "compared" / "trials").is_dir():  # its workers start next
        assert started.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(started.pid, number) if number == signal.SIGINT else started.send_signal(number)
    _, shown = started.communicate(timeout=LONG)
    assert "Finished runs are kept: repeat the same command to continue." in shown
    assert ("SIGTERM" in shown) == (number == signal.SIGTERM)
    assert "Traceback" not in shown
    assert "leaked" not in shown
    assert started.returncode == (130 if number == signal.SIGINT else -signal.SIGTERM)
