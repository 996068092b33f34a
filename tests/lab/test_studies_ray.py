"""Studies over processes and over Ray: the same records, and a lost run is made again."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from gensmooth.evaluators.ray import connect
from gensmooth.lab.experiments.spec import RunSpec
from gensmooth.lab.experiments.study import run_study
from gensmooth.lab.experiments.workers import Job, over_ray
from gensmooth.lab.paper.dfo.study import STUDY, DfoOptions

ray = pytest.importorskip("ray")
# Ray's own warnings, and JAX's where another test has loaded it: Ray forks to start its servers.
pytestmark = pytest.mark.filterwarnings("ignore")
SMALL = DfoOptions(profile="quick", seeds=1, hyperparameters="paper", methods=("gs", "bes"))


def quiet(line):
    assert line


def test_a_cluster_that_is_not_there_is_told_at_once():
    """Before the others: a program that is connected to Ray stays so."""
    with pytest.raises(RuntimeError, match=r"Could not connect to Ray at '127.0.0.1:1'.*local"):
        connect("127.0.0.1:1")


@pytest.fixture(scope="module")
def local():
    """A Ray that outlives single calls: starting one takes seconds."""
    before = signal.getsignal(signal.SIGTERM)
    connection = connect("local", num_cpus=2)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not know it
    yield
    connection.close()
    assert signal.getsignal(signal.SIGTERM) is before


def records(folder, **how):
    outcome = run_study("dfo", SMALL, folder, say=quiet, **how)
    return [record._replace(seconds=0) for record in outcome.records]


@pytest.mark.usefixtures("local")
def test_the_same_records_whoever_makes_them(tmp_path):
    alone = records(tmp_path / "one", workers=1)
    assert records(tmp_path / "two", workers=2) == alone
    assert records(tmp_path / "ray", ray="auto", workers=None) == alone
    assert ray.is_initialized()  # it was there before, and stays
    assert not list((tmp_path / "ray" / "runs").glob(".*"))


class Deadly(dict):
    """A configuration that kills the process that makes the run, the first time."""

    mark: Path

    def __getitem__(self, key):
        if key == "objective" and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(key)


def _series(runs):
    found = {json.dumps(dict(spec.config), sort_keys=True): record.series for spec, record in runs}
    assert len(found) == 3
    return found


@pytest.mark.usefixtures("local")
def test_a_lost_run_is_made_again(tmp_path):
    """A worker is killed in the middle of its run, as it would be with its node."""
    specs = STUDY.reporting(SMALL, STUDY.select(SMALL, []))[:3]
    jobs = [Job(spec, tmp_path / spec.key) for spec in specs]
    plain = _series(over_ray(jobs, "auto", 2)[1])
    config = Deadly(specs[1].config)
    config.mark = tmp_path / "mark"
    jobs[1] = Job(RunSpec("dfo", config), tmp_path / "x")
    number, runs = over_ray(jobs, "auto", None)
    assert number == 2
    assert _series(runs) == plain
    assert config.mark.exists()


@pytest.mark.usefixtures("local")
def test_a_run_that_raises_is_told_plainly(tmp_path):
    jobs = [Job(RunSpec("no-such-study", {}), tmp_path)]
    with pytest.raises(ValueError, match="There is no study 'no-such-study'"):
        list(over_ray(jobs, "auto", None)[1])
