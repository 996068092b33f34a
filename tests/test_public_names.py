"""No public name is lost: what could be imported before the redraw can be imported from there.

``data/public-names.json`` has every ``__all__`` of the package as it was, and the public names of
the modules in ``gensmooth.__all__`` that had none of their own.
"""

import json
import pickle
import shutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import gensmooth as gs
from gensmooth import checkpoint
from gensmooth.checkpoint import Limits, RunConfig, RunFolder, Snapshot
from gensmooth.describe import describe

DATA = Path(__file__).parent / "data"
NAMES = json.loads((DATA / "public-names.json").read_text())
SEARCH = gs.RandomSearch(gs.Bernoulli(), 4, 0.1, num_samples=3, samples="shared")


@pytest.mark.parametrize("module", NAMES)
def test_every_public_name_is_still_where_it_was(module):
    found = import_module(module)
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []


@pytest.mark.parametrize("name", ["minimize", "minimize-large"])
def test_a_run_of_then_is_read_and_written_down_again_as_it_was(name, tmp_path):
    folder = Path(shutil.copytree(DATA / "old" / name, tmp_path / name))
    before = json.loads((folder / "config.json").read_text())
    with RunFolder(folder, create=False) as held:
        config = RunConfig.of(held)
        snapshot = Snapshot.of(held, config)
    found, arrays = checkpoint.to_json(config)
    assert json.loads(json.dumps(found)) == {**before, "gensmooth": gs.__version__}
    assert list(arrays) == (["x0"] if name == "minimize-large" else [])
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert snapshot.position.lines == snapshot.state.step <= len(lines)
    values = [json.loads(line)["best_value"] for line in lines[: snapshot.state.step]]
    assert snapshot.best == min(values)
    assert (snapshot.end, snapshot.limits) == (None, config.limits)


def test_a_run_config_extends_as_its_program_does():
    limits = checkpoint.make_limits(SEARCH, 400, None, None, None)
    search = SEARCH.changed(optimizer=checkpoint.falling(0.2, SEARCH, limits))
    execution = checkpoint.Execution()
    config = RunConfig("ab", "m:f", np.ones(3), 7, search, 0.2, False, limits, execution)
    assert config.extended(limits, 5) is config
    longer = config.extended(Limits(800, 20), 5)
    assert longer.extensions == (
        {"until_step": 5, "budget": 400, "max_steps": None, "target": None, "tolerance": None},
    )
    assert (longer.run, longer.limits, longer.seed) == ("ab", Limits(800, 20), 7)
    anew = checkpoint.falling(0.2, SEARCH, Limits(800, 20))
    assert describe(longer.search.optimizer) == describe(anew) != describe(search.optimizer)
    assert checkpoint.to_json(longer)[0]["search"]["optimizer"] == {"learning_rate": 0.2}
    assert pickle.loads(pickle.dumps(longer)).limits == longer.limits


def test_the_rate_falls_over_the_steps_that_the_limits_allow():
    per_step = len(SEARCH.plan)
    for limits, steps in [(Limits(9 * per_step), 9), (Limits(9 * per_step, 4), 4), (Limits(1), 1)]:
        optimizer = checkpoint.falling(0.2, SEARCH, limits)
        state, x = optimizer.init(np.ones(1)), np.ones(1)
        for _ in range(steps):
            update, state = optimizer.update(np.ones(1), state, x)
            assert update[0] != 0
        assert optimizer.update(np.ones(1), state, x)[0][0] == 0


def test_limits_are_checked():
    least = len(SEARCH.plan) + 3
    assert checkpoint.make_limits(SEARCH, 1e3, 5, 1, 0.5) == Limits(1000, 5, 1.0, 0.5)
    assert checkpoint.make_limits(SEARCH, least, None, None, None).budget == least
    for budget in (least - 1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="`budget`"):
            checkpoint.make_limits(SEARCH, budget, None, None, None)
