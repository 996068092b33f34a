"""Results that must not change by a bit: the cases, and how each is run and recorded.

``python tests/helpers/fingerprints.py`` runs every case and writes tests/data/fingerprints.json. Do
that only when results are meant to change, and say in the changelog that they do. It needs torch
and Warp: ``make .venv/test-all`` installs them. To record new cases alone, name their groups, or
how their names begin: ``python tests/helpers/fingerprints.py pilot algorithm``.

Bits depend on the type of processor and on the versions of the numerical libraries, so both are
recorded. On another machine the hashes are useless, and the leading numbers are compared instead.

The cases of this file are the paper's methods, its environments and its studies.
``fingerprints_searches.py`` has those of all other searches, ``fingerprints_engines.py`` those of
every robot, of torch and of JAX.
"""

import hashlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy.stats
from typer.testing import CliRunner

import gensmooth as gs
from gensmooth.cli.main import app

FILE = Path(__file__).parents[1] / "data" / "fingerprints.json"

Fingerprint = dict[str, Any]  # "hash", and "lead": numbers that are nearly equal on all machines
_LEAD = 3


# Objectives: plain sums, no BLAS. They have names, so that workers and run folders can find them.


def bowl(x):
    """A bent bowl."""
    flat = np.asarray(x, np.float64).ravel()
    return float((flat**2).sum() + 0.1 * (flat[:-1] * flat[1:]).sum() + np.cos(flat[0]))


def noisy(x, rng):
    """The bowl, with noise in its value and in its place."""
    return bowl(x + 0.01 * rng.standard_normal(np.shape(x))) + 0.1 * float(rng.standard_normal())


def holes(x):
    """The bowl, not defined on stripes of the space."""
    place = float((np.asarray(x, np.float64).ravel() * np.arange(1.0, 1.0 + np.size(x))).sum())
    return float("nan") if np.sin(50 * place) > 0.7 else bowl(x)


def bowls(points):
    """The bowl on a block of points."""
    return np.array([bowl(x) for x in points])


def noisies(points, rngs):
    """The noisy bowl on a block of points."""
    return np.array([noisy(x, rng) for x, rng in zip(points, rngs, strict=True)])


METHODS = [
    "gs",
    "bes",
    "gs-shrinkage",
    "bes-shrinkage",
    "orthogonal-es",
    "guided-es",
    "sphere",
    "orthogonal",
    "orthogonal-bes",
    "sphere-shrinkage",
    "orthogonal-shrinkage",
    "orthogonal-bes-shrinkage",
]
FAMILIES: dict[str, Callable[[], Any]] = {
    "bernoulli m=0.7": lambda: gs.Bernoulli(m=0.7),
    "bernoulli p=0.2": lambda: gs.Bernoulli(p=0.2),
    "laplace": lambda: gs.IID(scipy.stats.laplace()),
    "uniform, not standardised": lambda: gs.IID(scipy.stats.uniform(-1, 2), standardize=False),
    "guided alpha=0.3": lambda: gs.Guided(alpha=0.3, history=3),
    "shrunk laplace": lambda: gs.shrunk(gs.IID(scipy.stats.laplace())),
    "shrunk gaussian, estimate": lambda: gs.shrunk(gs.Gaussian(), scale="estimate"),
    "shrunk bernoulli, estimate": lambda: gs.shrunk(gs.Bernoulli(), scale="estimate"),
    "shrunk orthogonal, estimate": lambda: gs.shrunk(gs.Orthogonal(), scale="estimate"),
}
ESTIMATORS: dict[str, Callable[[], Any]] = {
    "forward": gs.ForwardDifference,
    "antithetic": gs.Antithetic,
    "one-point": gs.OnePoint,
    "one-point-2": lambda: gs.OnePoint(2.0),
    "one-point-others": lambda: gs.OnePoint("others"),
}
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "default": lambda: None,
    "number": lambda: gs.adam(gs.cosine_decay(0.05, steps=4)),  # that is, over max_steps
    "sgd": lambda: gs.sgd(0.01),
    "sgd-inverse": lambda: gs.sgd(gs.inverse_decay(0.02, steps=2.0, power=0.7)),
    "momentum": lambda: gs.momentum(gs.exponential_decay(0.01, rate=0.5, steps=3), 0.8),
    "nesterov": lambda: gs.momentum(0.01, nesterov=True),
    "adam-cosine": lambda: gs.adam(gs.cosine_decay(0.1, steps=4, final=0.01), b2=0.99),
}
SAMPLES = (None, "shared", "paired", "independent")
DTYPES = ("float32", "float64")


def minimized(
    *,
    directions: str,
    estimator: str = "forward",
    samples: Any = None,
    dtype: str = "float64",
    optimizer: str = "sgd",
    shape: tuple[int, ...] = (2, 3),
    num_directions: int = 4,
    num_samples: int = 1,
    max_steps: int = 4,
    fun: Callable[..., Any] | None = None,
    **options: Any,
) -> gs.Result:
    """A short run; ``directions`` is the name of a method or of one of the families above."""
    size = int(np.prod(shape))
    named = directions in METHODS
    return gs.minimize(
        fun if fun is not None else bowl if samples is None else noisy,
        np.linspace(-1.0, 1.5, size).reshape(shape).astype(dtype),
        method=directions if named else None,
        directions=None if named else FAMILIES[directions](),
        num_directions=num_directions,
        estimator=ESTIMATORS[estimator](),
        optimizer=OPTIMIZERS[optimizer](),
        samples=samples,
        num_samples=num_samples,
        max_steps=max_steps,
        seed=7,
        **options,
    )


def of_results(results: Iterable[gs.Result], *, standard_error: bool = True) -> Fingerprint:
    """The fingerprint of all fields of some results."""
    runs = list(results)
    parts: list[Any] = []
    for result in runs:
        past = result.history
        parts += [result.x, result.best_x, result.fun, result.best_fun]
        parts += [result.nfev, result.nit, result.seed]
        parts += [result.reason, result.dropped, dict(result.faults)]
        parts += [past.evaluations, past.value, past.gradient_norm, past.step_size]
        if standard_error:
            parts.append(past.standard_error)
    last = runs[-1]
    return {"hash": digest(parts), "lead": lead([last.fun, *last.x.ravel()])}


def matrix(directions: str) -> Iterator[tuple[str, Callable[[], Fingerprint]]]:
    """Estimators × samples × dtypes, each with all optimisers in one hash."""
    named = directions in METHODS
    for estimator, samples, dtype in product(ESTIMATORS, SAMPLES, DTYPES):

        def run(estimator: str = estimator, samples: Any = samples, dtype: str = dtype):
            case: Any = {"estimator": estimator, "samples": samples, "dtype": dtype}
            results = [
                minimized(directions=directions, optimizer=name, **case)
                for name in (OPTIMIZERS if named else ("sgd", "adam-cosine"))
            ]
            if samples is not None:
                results.append(minimized(directions=directions, num_samples=3, **case))
            # The standard error with shared samples was once wrong, so it is not recorded: it left
            # out the noise that all directions share.
            return of_results(results, standard_error=samples != "shared")

        yield f"{directions}/{estimator}/{samples}/{dtype}", run


def sizes(directions: str) -> Iterator[tuple[str, Callable[[], Fingerprint]]]:
    """More directions than dimensions, one dimension, several tiles, threads."""
    shapes: list[Any] = [
        {"shape": (3,), "num_directions": 8},
        {"shape": (1,), "num_directions": 1, "fun": square},
        {"shape": (2049,), "num_directions": 3},
        {"shape": (9001,), "num_directions": 3, "threads": 2},
    ]
    for dtype in DTYPES:

        def run(dtype: str = dtype) -> Fingerprint:
            return of_results(
                minimized(
                    directions=directions,
                    estimator="antithetic",
                    optimizer="momentum",
                    dtype=dtype,
                    **case,
                )
                for case in shapes
            )

        yield f"{directions}/sizes/{dtype}", run


def square(x):
    """A bowl with one side."""
    return float(np.asarray(x, np.float64)[0] ** 2)


def variants() -> Iterator[tuple[str, Callable[[], Fingerprint]]]:
    """Options of ``minimize``, one by one, and ``gradient``."""
    bounds = (-0.8, 1.2)
    cases: dict[str, Any] = {
        "bounds": {"bounds": bounds},
        "bounds, antithetic": {"bounds": bounds, "estimator": "antithetic", "dtype": "float32"},
        "maximize": {"maximize": True},
        "maximize, noisy": {"maximize": True, "samples": "paired", "estimator": "antithetic"},
        "drop": {
            "fun": holes,
            "on_failure": "drop",
            "min_fraction": 0.1,
            "num_directions": 9,
            "estimator": "one-point-others",
            "max_steps": 1,
        },
        "drop, antithetic": {
            "fun": holes,
            "on_failure": "drop",
            "min_fraction": 0.1,
            "num_directions": 9,
            "estimator": "antithetic",
            "spacing": 0.5,
            "max_steps": 1,
        },
        "vectorized": {"fun": bowls, "vectorized": True},
        "vectorized in threes": {"fun": bowls, "vectorized": 3},
        "vectorized, noisy": {"fun": noisies, "vectorized": 4, "samples": "independent"},
        "target": {"target": 3.0, "max_steps": 200},
        "tolerance": {"tolerance": 1e-2, "max_steps": 200},
        "budget": {"budget": 123, "max_steps": None, "optimizer": "default"},
    }
    for (name, options), directions in product(
        cases.items(), ("bes-shrinkage", "guided-es", "orthogonal-bes", "laplace")
    ):

        def run(options: Any = options, directions: str = directions) -> Fingerprint:
            return of_results([minimized(directions=directions, **options)])

        yield f"{name}/{directions}", run
    for directions, samples in product((*METHODS, "laplace"), SAMPLES):

        def estimate(directions: str = directions, samples: Any = samples) -> Fingerprint:
            named = directions in METHODS
            found = gs.gradient(
                bowl if samples is None else noisy,
                np.linspace(-1, 1, 6),
                method=directions if named else None,
                directions=None if named else FAMILIES[directions](),
                num_directions=5,
                estimator=gs.Antithetic(),
                samples=samples,
                num_samples=1 if samples is None else 2,
                seed=3,
            )
            parts: list[Any] = [found.gradient, found.value, found.evaluations]
            if samples != "shared":
                parts.append(found.standard_error)
            return {"hash": digest(parts), "lead": lead(found.gradient)}

        yield f"gradient/{directions}/{samples}", estimate


# Each of these has the same fingerprint with every kind and number of workers.
WORKERS: dict[str, Any] = {
    f"{directions}/{estimator}/{samples}/{dtype}": {
        "directions": directions,
        "estimator": estimator,
        "samples": samples,
        "dtype": dtype,
        **options,
    }
    for directions, estimator, samples, dtype, options in (
        ("gs", "forward", None, "float64", {}),
        ("bes-shrinkage", "antithetic", "paired", "float32", {"optimizer": "adam-cosine"}),
        ("guided-es", "forward", "independent", "float64", {"num_samples": 2}),
        ("orthogonal-es", "antithetic", "independent", "float32", {}),
        ("orthogonal-bes", "one-point-others", None, "float64", {"bounds": (-0.8, 1.2)}),
        ("laplace", "antithetic", None, "float64", {"maximize": True}),
        ("shrunk bernoulli, estimate", "forward", "paired", "float64", {}),
        ("bes", "forward", None, "float64", {"fun": holes, "on_failure": "drop"}),
        ("sphere", "forward", "independent", "float64", {"fun": noisies, "vectorized": 3}),
    )
}


def worked(name: str, workers: Any) -> Fingerprint:
    """A run by workers, or by one process."""
    return of_results([minimized(min_fraction=0.1, **WORKERS[name], workers=workers)])


def checkpointed() -> Iterator[tuple[str, Callable[[], Fingerprint]]]:
    """The metrics files of runs."""
    for directions, optimizer in (("bes-shrinkage", "adam-cosine"), ("guided-es", "momentum")):

        def run(directions: str = directions, optimizer: str = optimizer) -> Fingerprint:
            with tempfile.TemporaryDirectory() as folder:
                minimized(
                    directions=directions,
                    optimizer=optimizer,
                    samples="independent",
                    max_steps=9,
                    folder=Path(folder) / "run",
                )
                return of_lines(Path(folder) / "run" / "metrics.jsonl", STEP)

        yield f"metrics/{directions}", run


STEP = [
    "step",
    "evaluations",
    "value",
    "best_value",
    "best_index",
    "gradient_norm",
    "standard_error",
    "signal_to_noise",
    "shrinkage",
    "dropped",
    "step_size",
    "diverged",
    "faults",
]
ITERATION = [*STEP, *["deviation", "env_steps", "mean_length", "test"]]
TEST = [
    "step",
    "trajectories",
    "env_steps",
    "episodes",
    "mean_return",
    "deviation",
    "mean_length",
    "success",
]


def of_lines(path: Path, names: list[str]) -> Fingerprint:
    """The named numbers of a file of metrics."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [{name: line.get(name) for name in names} for line in lines]
    for line in kept:
        if isinstance(line.get("test"), dict):
            line["test"] = {name: line["test"][name] for name in TEST}
    return {"hash": digest([kept]), "lead": lead([line["value"] for line in kept])}


# Reinforcement learning. It is chaotic: on another type of processor, rounding alone leads to
# different episodes. So there are no leading numbers.
TRAININGS: dict[str, dict[str, Any]] = {
    "Ant": {"method": "bes-shrinkage"},
    "Walker2d": {"method": "gs", "estimator": "forward"},
    "Hopper": {"method": "orthogonal-es", "policy": "mlp", "hidden": (4,)},
    "HalfCheetahRandVel": {"method": "guided-es", "max_steps": 4, "resets": "paired"},
    "HalfCheetahRandVel, bare": {"method": "gs-shrinkage", "standardize": False},
    "ML1-Reach": {"method": "bes", "estimator": "one-point"},
    "ML1-Push": {"method": "gs-shrinkage", "resets": "paired"},
    "Pendulum-v1": {"method": "bes-shrinkage", "policy": "mlp"},
    "rl_cases:Slider-v0": {"method": "orthogonal-bes", "max_steps": 5},
}


def trained(name: str, **options: Any) -> Fingerprint:
    """A short training."""
    usual = {"num_directions": 2, "test_episodes": 2, "estimator": "antithetic"}
    return of_training(name.partition(",")[0], **{**usual, **TRAININGS[name], **options})


def of_training(environment: str, **options: Any) -> Fingerprint:
    """Policies, tests and metrics of a training."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "training"
        usual = {"max_steps": 2, "test_every": 2, "seed": 5}
        result = gs.rl.train(environment, **{**usual, **options}, folder=out)
        lines = of_lines(out / "metrics.jsonl", ITERATION)
        kept = gs.rl.load_policy(out / "policy-best")
    parts = [result.policy.parameters, result.best.parameters, kept.parameters, lines["hash"]]
    ended = "iterations" if result.reason == "max_steps" else result.reason  # its former name
    parts += [result.nfev, result.env_steps, ended]
    parts += [[[getattr(test, field) for field in TEST] for test in result.tests]]
    return {"hash": digest(parts), "lead": []}


# Studies: their commands, as in the documentation, and the keys of all their runs.
STUDIES: dict[str, str] = {
    "linreg": "linreg --hyperparameters paper --seeds 1",
    "linreg, offline": "linreg --offline --hyperparameters paper --seeds 1 --methods bes-shrinkage",
    "linreg, search": "linreg --seeds 1 --methods sphere,orthogonal-bes",
    "dfo": "dfo --hyperparameters paper --seeds 1",
    "dfo, search": "dfo --seeds 1 --objective sphere --methods bes,gs-shrinkage",
    "rl": "rl --env HalfCheetahRandVel --env Hopper --seeds 1 --resets independent",
    "rl, paired": "rl --env HalfCheetahRandVel --methods gs,guided-es --seeds 1 --resets paired",
    "controller": "controller --seeds 1",
    "timing": "timing",
    "untuned": "untuned --seeds 1 --objective sphere --hyperparameters paper --piece 1/12",
}


def study(name: str) -> Fingerprint:
    """The keys and records of a study's runs, after its command."""
    words = STUDIES[name].split()
    with tempfile.TemporaryDirectory() as folder:
        with mock.patch("gensmooth.lab.paper.reproduce.write_report"):  # it takes most of the time
            done = CliRunner().invoke(
                app, ["reproduce", *words, "--workers", "1", "--folder", folder]
            )
        assert done.exit_code == 0, done.output
        return of_study(name, Path(folder))


def of_study(name: str, folder: Path) -> Fingerprint:
    """The keys and records of the runs in a study's folder."""
    called = STUDIES[name].split()[0]
    kept = {where.name: run_of(where) for where in Path(folder, called, "runs").iterdir()}
    finals = [kept[key]["final"] for key in sorted(kept)]
    if called == "timing":  # measured times differ in every run
        finals = []
        kept = {
            key: {**run, "final": None, "crc32": None, "rounds": len(run["rounds"])}
            for key, run in kept.items()
        }
    # Some runs of a grid search diverge; the pilot's decisions depend on comparing values.
    chaotic = called in ("rl", "controller", "untuned") or name.endswith("search")
    assert kept
    return {
        "hash": digest([kept]),
        "keys": digest([sorted(kept)]),
        "runs": len(kept),
        "lead": [] if chaotic else lead(finals),
    }


def run_of(where: Path) -> dict[str, Any]:
    """The record of a finished run without its times."""
    config = json.loads((where / "config.json").read_text())
    *rounds, end = [json.loads(line) for line in (where / "metrics.jsonl").read_text().splitlines()]
    kept = {name: end[name] for name in ("names", "final", "diverged", "crc32")}
    return {"config": config["config"], "study": config["study"], "rounds": rounds, **kept}


def keys(name: str, profile: Any) -> Fingerprint:
    """The keys of all runs of a study: its grid search, and the runs with the paper's tables."""
    from gensmooth.lab.experiments.registry import find_study

    study = find_study(name)
    grid = hasattr(study.options, "hyperparameters")
    reading = {"resets": "independent"} if hasattr(study.options, "resets") else {}
    searched, tables = (
        study.options(profile=profile, **reading, **({"hyperparameters": source} if grid else {}))
        for source in ("search", "paper")
    )
    specs = [*study.tuning(searched), *study.reporting(tables, study.select(tables, []))]
    names = [spec.key for spec in specs]
    return {"hash": digest([sorted(names)]), "runs": len(set(names)), "lead": []}


def cases() -> dict[str, dict[str, Callable[[], Fingerprint]]]:
    """The cases of this file, in groups: each group is a test."""
    groups: dict[str, dict[str, Callable[[], Fingerprint]]] = {
        f"minimize {name}": dict([*matrix(name), *sizes(name)]) for name in (*METHODS, *FAMILIES)
    }
    groups["options"] = dict(variants())
    groups["metrics"] = dict(checkpointed())
    groups["workers"] = {name: lambda name=name: worked(name, 1) for name in WORKERS}
    groups["train"] = {name: lambda name=name: trained(name) for name in TRAININGS}
    for name in STUDIES:
        groups[f"study {name}"] = {name: lambda name=name: study(name)}
    groups["keys"] = {
        f"{name}/{profile}": lambda name=name, profile=profile: keys(name, profile)
        for name, profile in product(
            ("linreg", "dfo", "rl", "timing", "controller", "untuned"), ("quick", "paper")
        )
    }
    return groups


def every_case() -> dict[str, dict[str, Callable[[], Fingerprint]]]:
    """The cases of this file and of the two other files."""
    import fingerprints_engines
    import fingerprints_searches

    return {**cases(), **fingerprints_searches.cases(), **fingerprints_engines.cases()}


def digest(parts: Iterable[Any]) -> str:
    """A hash of arrays (bytes, dtype and shape), and of plain values."""
    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            sha.update(f"{part.dtype.str}{part.shape}".encode())
            sha.update(np.ascontiguousarray(part).tobytes())
        else:  # `repr` of a float has all its bits
            sha.update(json.dumps(part, sort_keys=True, default=_plain).encode())
    return sha.hexdigest()[:20]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return value.item()


def lead(numbers: Iterable[float]) -> list[float | str]:
    """The first few numbers, with 12 digits; JSON has no infinities."""
    few = [float(f"{float(number):.12g}") for number in list(numbers)[:_LEAD]]
    return [number if np.isfinite(number) else str(number) for number in few]


def machine() -> dict[str, str]:
    """What all bits depend on: the type of processor and the numerical libraries."""
    from llvmlite import binding

    return {
        "processor": f"{platform.machine()} {binding.get_host_cpu_name()}",
        "vectors": " ".join(np.show_config(mode="dicts")["SIMD Extensions"]["found"]),
        "library": " ".join(platform.libc_ver()),
        **versions("numpy", "numba", "llvmlite", "scipy", "mujoco", "gymnasium", "metaworld"),
    }


def versions(*packages: str) -> dict[str, str]:
    """The installed versions; ``"none"`` for a package that is not installed."""
    installed: dict[str, str] = {}
    for package in packages:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            installed[package] = "none"
    return installed


def packages(group: str, name: str) -> tuple[str, ...]:
    """The other packages that a case needs; its bits depend on their versions too."""
    if group.startswith("torch"):
        return ("torch",)
    if group.startswith("JAX"):
        return ("jax", "jaxlib", "optax")
    if group.startswith("warp-cpu"):
        return ("warp-lang", "mujoco")
    if group.startswith(("train", "study rl")):
        return ("mujoco",)
    return ("cmaes",) if "cma-es" in name else ()


def main(beginnings: tuple[str, ...]) -> None:
    """Record the groups whose names have these beginnings."""
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")  # as in conftest.py
    groups = every_case()
    needed = {
        package for group in groups for name in groups[group] for package in packages(group, name)
    }
    extra = versions(*sorted(needed - {"mujoco"}))
    if missing := [package for package, installed in extra.items() if installed == "none"]:
        sys.exit(f"Not installed: {', '.join(missing)}. `make .venv/test-all` installs them.")
    before = json.loads(FILE.read_text())
    here = {"machine": machine(), "packages": extra}
    if beginnings and here["machine"] != before["machine"]:
        sys.exit("The rest was recorded on another type of machine: record all of it.")
    if beginnings:
        here["packages"] = {**extra, **before.get("packages", {})}
    kept: dict[str, Any] = {}
    for group, members in groups.items():
        old = before["groups"].get(group, {})
        if beginnings and not group.startswith(beginnings):
            kept[group] = old
            continue
        kept[group] = {name: run() for name, run in members.items()}
        new = [name for name in members if name not in old]
        changed = [name for name in members if name in old and old[name] != kept[group][name]]
        print(f"{group}: {len(members)} cases, {len(new)} new, {len(changed)} changed", flush=True)
    lines = ["{"]
    lines += [f"{json.dumps(name)}: {json.dumps(value)}," for name, value in here.items()]
    lines.append('"groups": {')
    for i, (group, members) in enumerate(kept.items()):
        lines.append(f"{',' if i else ''}{json.dumps(group)}: {{")
        lines.append(",\n".join(f" {json.dumps(n)}: {json.dumps(f)}" for n, f in members.items()))
        lines.append("}")
    FILE.write_text("\n".join([*lines, "}}\n"]))


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
