"""The settings of the paper's reinforcement-learning study, and the size of each profile.

A setting is an environment, a number of directions L, and a part of the study: the main part has
linear policies and forward differences; the two ablations (Ant, L = 20) change one of these. The
part "momentum" (Ant, the shrinkage methods) is not in the paper, which only suggests it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Literal, NamedTuple, final

from gensmooth import checks
from gensmooth.lab.experiments.grid import Size, SpacingAndRate
from gensmooth.lab.experiments.options import (
    GridOptions,
    Profile,
    is_count,
    list_of,
    matches,
    option,
)
from gensmooth.lab.paper import tables as paper

_MAIN = {"policy": "linear", "estimator": "forward-difference", "optimizer": "sgd"}
PARTS: Mapping[str, Mapping[str, str]] = {
    "main": _MAIN,
    "mlp": {**_MAIN, "policy": "mlp"},
    "antithetic": {**_MAIN, "estimator": "antithetic"},
    "momentum": {**_MAIN, "optimizer": "momentum"},
}
MOMENTUM = 0.9  # the decay; the paper gives none
_ABLATED = ("Ant", 20)
_WITH_MOMENTUM, _MOMENTUM_METHODS = "Ant", ("gs-shrinkage", "bes-shrinkage")
# The likeliest reading of "for each direction, reinitialize the environment". The authors' README
# says that RL used the program of ARS, which resets the environment before each trajectory; and
# ProMP's HalfCheetahRandVel, like Meta-World, keeps its task when it is reset.
DEFAULT_RESETS = "shared-goal"
CPU = "cpu"  # the device of runs that name none


class Environment(NamedTuple):
    """One of the paper's environments.

    Attributes:
        name: Our name of the version that the paper used.
        horizon: The largest number of steps in an episode. The paper gives none for Hopper and
            ML1-Push; they have that of similar environments.
        speed: Rough number of steps per second on one core, to estimate the length of runs.
        still: The return of the policy that does nothing (measured to 1 %).
        task: What a reset keeps, and the two trajectories of a direction therefore share under
            ``"shared-goal"``: ``"none"``; ``"goal"``, a hidden goal but not the start; or
            ``"start"``, everything that distinguishes two starts (Meta-World: object and goal).
        learned: A return that counts as learned. Differences and margins are fractions of the range
            from ``still`` to this. The paper names no such return. We use, for Hopper, Walker2d and
            Ant, one that only a walking policy reaches; for HalfCheetahRandVel, the best return of
            a policy that does not see the goal, 200 · E|U(0, 3) − 1.5| below 0; for the Meta-World
            tasks, some 45 of the 150 steps at the goal, at about 2,200 each.
    """

    name: str
    horizon: int
    speed: float
    still: float
    learned: float
    task: Literal["none", "goal", "start"] = "none"


# In the order of the paper's figures.
ENVIRONMENTS: Mapping[str, Environment] = {
    "Ant": Environment("Ant", 1000, 3e3, still=994.0, learned=3580.0),
    "Walker2d": Environment("Walker2d-v4", 1000, 1e4, still=96.0, learned=4390.0),
    "ML1-Reach": Environment("ML1-Reach", 150, 7e3, still=213.0, learned=100_000.0, task="start"),
    "HalfCheetahRandVel": Environment(
        "HalfCheetahRandVel", 200, 2.2e4, still=-300.0, learned=-150.0, task="goal"
    ),
    "Hopper": Environment("Hopper-v4", 1000, 9e3, still=149.0, learned=3120.0),
    "ML1-Push": Environment("ML1-Push", 150, 6e3, still=-23.0, learned=100_000.0, task="start"),
}


def _is_paper_environment(value: Any) -> bool:
    known = [name.lower() for ours, e in ENVIRONMENTS.items() for name in (ours, e.name)]
    return isinstance(value, str) and value.lower() in known


@final
@dataclass(frozen=True)
class RlOptions(GridOptions):
    """Options of reinforcement learning."""

    environments: tuple[str, ...] | None = option(
        "The environments.", accepts=list_of(_is_paper_environment)
    )
    num_directions: tuple[int, ...] | None = option(
        "The values of L, instead of all.", accepts=list_of(is_count)
    )
    parts: tuple[str, ...] | None = option(
        "main, mlp or antithetic (the ablations), instead of these three; or momentum (Ant).",
        accepts=list_of(matches("main|mlp|antithetic|momentum")),
    )
    iterations: int | None = option(
        "Iterations of a run, instead of 1000.", check=checks.count, accepts=is_count
    )
    test_trials: int | None = option(
        "Test episodes per round, instead of 1000.", check=checks.count, accepts=is_count
    )
    last_trials: int | None = option(
        "Test episodes of the last round, instead of those of the other rounds.",
        check=checks.count,
        accepts=is_count,
    )
    resets: Literal["independent", "shared-goal", "paired"] | None = option(
        "What the two trajectories of a direction share in training: nothing, the goal, or start "
        "and goal; by default the goal.",
        accepts=matches("independent|shared-goal|paired"),
    )
    device: str | None = option(
        'Run the episodes of all runs side by side on a GPU, such as "cuda"; `workers` is then how '
        "many runs are made at a time, by default all. Runs on a GPU are never mixed with those of "
        "the CPU in one setting. With `no_run`, only the runs of this device are reported (also "
        '"cpu"); by default those of the device that has made most runs of a setting, and of the '
        "CPU if there is a tie.",
        check=checks.text,
        accepts=matches(r"cpu|warp-cpu|cuda(:\d{1,3})?"),
    )


class Setting(NamedTuple):
    """A panel of a figure.

    Attributes:
        environment: The paper's name of the environment, or the name of any other.
        num_directions: L.
        part: ``"main"``, or one of the ablations.
    """

    environment: str
    num_directions: int
    part: str = "main"

    @property
    def words(self) -> str:
        """The setting in words."""
        ending = "" if self.part == "main" else f", {title(self.part)}"
        return f"{self.environment}, L={self.num_directions}{ending}"


def title(part: str) -> str:
    """Return a part of the study in words."""
    words = {"mlp": "MLP policy", "antithetic": "antithetic estimator"}
    return words.get(part, part)


# Every setting of the paper: fig:rl, fig:rl2, fig:rlablations.
PAPER = tuple(
    Setting(environment, number) for environment, number in product(paper.RL, paper.RL_DIRECTIONS)
) + tuple(Setting(*_ABLATED, part) for part in ("mlp", "antithetic"))


def choice_of(setting: Setting, method: str) -> SpacingAndRate | None:
    """Return the paper's spacing and learning rate, where it gives them."""
    if setting.part in ("main", "momentum"):
        table = paper.RL.get(setting.environment, {})
        return table.get(method, {}).get(setting.num_directions)
    tables = {"mlp": paper.RL_MLP, "antithetic": paper.RL_ANTITHETIC}
    if (setting.environment, setting.num_directions) != _ABLATED:
        return None
    return tables[setting.part].get(method)


class Scale(NamedTuple):
    """The size of a profile's runs in an environment.

    Attributes:
        rounds: Rounds, each with a test at its end.
        iterations: Iterations per round.
        test_trials: Episodes of a test.
        methods: The methods that are run.
    """

    rounds: int
    iterations: int
    test_trials: int
    methods: tuple[str, ...]


SIZES: Mapping[Profile, Size] = {
    "quick": Size(rounds=0, tuning_seeds=1, seeds=2),
    "paper": Size(paper.RL_ROUNDS, 3, 5),
}
_FULL = Scale(paper.RL_ROUNDS, paper.RL_ITERATIONS, paper.RL_TEST_TRIALS, paper.METHODS)
# The quick profile only shows that everything runs; it takes some seconds per environment.
_QUICK_DIRECTIONS = 2
_TWO = ("gs", "bes-shrinkage")
_QUICK = {
    "Ant": Scale(2, 1, 1, _TWO),
    "Walker2d": Scale(5, 4, 4, _TWO),
    "ML1-Reach": Scale(5, 2, 2, _TWO),
    "HalfCheetahRandVel": Scale(5, 4, 5, paper.METHODS[:4]),
    "Hopper": Scale(5, 4, 4, _TWO),
    "ML1-Push": Scale(5, 2, 2, _TWO),
}


def scale_of(options: RlOptions, setting: Setting) -> Scale:
    """Return the size of the runs of a setting."""
    full = _FULL
    if options.profile == "quick":
        full = _QUICK.get(setting.environment, Scale(5, 2, 2, _TWO))
    rounds = full.rounds
    if options.iterations is not None:
        rounds, rest = divmod(options.iterations, full.iterations)
        if rest or not rounds:
            raise ValueError(
                f"--iterations must be a multiple of {full.iterations}, the iterations of a "
                f"round, but is {options.iterations}."
            )
    methods = _MOMENTUM_METHODS if setting.part == "momentum" else full.methods
    return full._replace(
        rounds=rounds,
        test_trials=options.test_trials or full.test_trials,
        methods=options.methods or methods,
    )


def settings_of(options: RlOptions) -> list[Setting]:
    """Return the settings that the options select.

    Raises:
        ValueError: If a name is unknown, or no setting is selected.
    """
    quick = options.profile == "quick"
    environments = [named(name) for name in options.environments or ENVIRONMENTS]
    numbers = options.num_directions or ((_QUICK_DIRECTIONS,) if quick else paper.RL_DIRECTIONS)
    parts = options.parts or (("main",) if quick else ("main", "mlp", "antithetic"))
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"There is no part {part!r} of the study. Known: {', '.join(PARTS)}.")
    selected = [Setting(e, n) for e, n in product(environments, numbers) if "main" in parts]
    environment, number = _ABLATED
    if environment in environments and number in numbers:
        selected += [Setting(*_ABLATED, part) for part in parts if part in ("mlp", "antithetic")]
    if "momentum" in parts and _WITH_MOMENTUM in environments:
        selected += [Setting(_WITH_MOMENTUM, n, "momentum") for n in numbers]
    if not selected:
        raise ValueError(
            f"Nothing to run: the ablations are of {environment} with L = {number}, and momentum "
            f"of {_WITH_MOMENTUM}, which are not among the selected environments and numbers of "
            "directions."
        )
    return selected


@cache
def named(name: str) -> str:
    """Return the paper's name of an environment in any spelling; of others, the full name.

    >>> named("halfcheetahrandvel"), named("Hopper-v4")
    ('HalfCheetahRandVel', 'Hopper')

    Raises:
        ValueError: If there is no such environment; the message names similar ones.
    """
    for ours, environment in ENVIRONMENTS.items():
        if name.lower() in (ours.lower(), environment.name.lower()):
            return ours
    from gensmooth.rl.environments.catalogue import make

    return make(name).info.name


def config_of(options: RlOptions, setting: Setting, method: str) -> dict[str, Any]:
    """Return a run's configuration, without spacing, learning rate and seed."""
    scale = scale_of(options, setting)
    known = ENVIRONMENTS.get(setting.environment)
    device = (options.device or CPU).split(":")[0]
    on_device = {} if device == CPU else {"device": device}
    # Part of the keys of the published runs, which do not name plain descent. A linear policy
    # always starts without an action.
    kind = {k: v for k, v in PARTS[setting.part].items() if (k, v) != ("optimizer", "sgd")}
    start = {} if kind["policy"] == "linear" else {"start": "no action"}
    return {
        "environment": known.name if known else setting.environment,
        **kind,
        **start,
        "method": method,
        "num_directions": setting.num_directions,
        "samples": samples_of(options.resets or DEFAULT_RESETS, setting.environment),
        "rounds": scale.rounds,
        "iterations": scale.iterations,
        "test_every": 1,
        "test_trials": scale.test_trials,
        **({} if options.last_trials is None else {"last_trials": options.last_trials}),
        **on_device,
    }


def samples_of(resets: str, environment: str) -> str:
    """Return the name of a kind of resets in a configuration; equal runs must have equal keys.

    If a reset keeps nothing, a shared goal is the same as independent resets. If it keeps
    everything that distinguishes two starts, a shared goal is the same as paired resets.

    >>> [samples_of("shared-goal", name) for name in ("Ant", "HalfCheetahRandVel", "ML1-Reach")]
    ['independent', 'shared-goal', 'paired']
    """
    if resets != "shared-goal":
        return resets
    known = ENVIRONMENTS.get(environment)
    task = "none" if known is None else known.task
    return {"none": "independent", "goal": "shared-goal", "start": "paired"}[task]


def device_of(config: Mapping[str, Any]) -> str:
    """Return the device of a run: ``"cpu"``, ``"cuda"``, or ``"warp-cpu"``."""
    return config.get("device", CPU)


def setting_of(config: Mapping[str, Any]) -> Setting:
    """Return the setting of a run."""
    kind = {"optimizer": "sgd"} | {key: config[key] for key in _MAIN if key in config}
    part = next(part for part, words in PARTS.items() if words == kind)
    name = config["environment"]
    ours = next((ours for ours, known in ENVIRONMENTS.items() if known.name == name), name)
    return Setting(ours, config["num_directions"], part)


def cost(config: Mapping[str, Any]) -> float:
    """Estimate how many seconds a run takes on one core."""
    setting = setting_of(config)
    known = ENVIRONMENTS.get(setting.environment, Environment("", 1000, 5e3, 0.0, 1.0))
    training = config["rounds"] * config["iterations"] * 2 * config["num_directions"]
    tests = config["rounds"] // config["test_every"] * config["test_trials"]
    return (training + tests) * known.horizon / known.speed
