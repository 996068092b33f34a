"""The paper's reinforcement learning: six environments, six methods, L ∈ {2, 6, 20}, N = 1."""

from collections.abc import Mapping, Sequence
from typing import Any

from gensmooth.lab.experiments.grid import Grid, SpacingAndRate, choose
from gensmooth.lab.experiments.spec import RunRecord, RunSpec, Study
from gensmooth.lab.experiments.verdicts import Scores
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.paper.rl.claims import judge
from gensmooth.lab.paper.rl.run import execute
from gensmooth.lab.paper.rl.scores import complete, coverage, made_on, made_on_words, returns, score
from gensmooth.lab.paper.rl.settings import (
    CPU,
    DEFAULT_RESETS,
    ENVIRONMENTS,
    SIZES,
    RlOptions,
    Setting,
    choice_of,
    config_of,
    cost,
    device_of,
    named,
    scale_of,
    setting_of,
    settings_of,
)
from gensmooth.lab.report.tables import Cell


def _cases(options: RlOptions) -> list[dict[str, Any]]:
    """Settings × methods, each as a part of a run's configuration."""
    return [
        config_of(options, setting, name)
        for setting in settings_of(options)
        for name in scale_of(options, setting).methods
    ]


def _where(config: Mapping[str, Any]) -> str:
    return setting_of(config).words


def _paper(config: Mapping[str, Any]) -> SpacingAndRate | None:
    return choice_of(setting_of(config), config["method"])


GRID = Grid("rl", paper.RL_SPACINGS, paper.RL_RATES, SIZES, _cases, _where, _paper)


def _tuning(options: RlOptions) -> list[RunSpec]:
    """The grid search; its runs are tested only at their end, because only that is compared."""
    specs = [spec.config for spec in GRID.tuning(options)]
    return [RunSpec("rl", {**config, "test_every": config["rounds"]}) for config in specs]


def _select(options: RlOptions, records: Sequence[RunRecord]) -> list[Cell]:
    if options.hyperparameters == "paper":
        for case in _cases(options):
            if _paper(case) is None:
                raise ValueError(
                    f"The paper has no spacing and learning rate for {case['method']} at "
                    f"{_where(case)}: leave it out, or use --hyperparameters search."
                )
        return GRID.select(options, ())
    # Choose only between finished searches: otherwise the cheap ones would win by finishing first.
    wanted = len(GRID.spacings) * len(GRID.rates) * len(GRID.tuning_seeds(options))
    groups: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        groups.setdefault((_where(record.config), record.config["method"]), []).append(record)
    finished = [record for group in groups.values() if len(group) == wanted for record in group]
    best = choose(finished, lambda config: (_where(config), config["method"]))
    return [
        Cell(*where, best[where][0], _paper(case), -best[where][1])
        for case in _cases(options)
        if (where := (_where(case), case["method"])) in best
    ]


def _gather(
    options: RlOptions, cells: Sequence[Cell], records: Sequence[RunRecord]
) -> list[RunRecord]:
    """Return the runs that the options select and that exist, with any number of test trials.

    If a run exists with several numbers of test trials, the one with the most is used. All runs of
    a setting come from one device: the one in the options; by default, the one that made most of
    them, and the CPU if there is a tie.
    """
    asked = None if options.device is None else options.device.split(":")[0]
    specs = [spec.config for spec in GRID.reporting(options, cells)]
    wanted = {_identity(config): number for number, config in enumerate(specs)}
    by_device: dict[Setting, dict[str, dict[int, RunRecord]]] = {}
    for record in records:
        number, device = wanted.get(_identity(record.config)), device_of(record.config)
        if number is None or asked not in (None, device):
            continue
        if options.test_trials not in (None, record.config["test_trials"]):
            continue
        here = by_device.setdefault(setting_of(record.config), {}).setdefault(device, {})
        before = here.get(number)
        if before is None or before.config["test_trials"] < record.config["test_trials"]:
            here[number] = record
    chosen: dict[int, RunRecord] = {}
    for devices in by_device.values():
        chosen |= devices[min(devices, key=lambda name: (-len(devices[name]), name != CPU, name))]
    return [chosen[number] for number in sorted(chosen)]


def _identity(config: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return the configuration without the numbers of test trials and the device."""
    other = ("test_trials", "last_trials", "device")
    return tuple(sorted((k, v) for k, v in config.items() if k not in other))


def _score(options: RlOptions, records: Sequence[RunRecord]) -> Scores:
    return score(complete(records, GRID.seeds(options)))


def _facts(options: RlOptions, records: Sequence[RunRecord]) -> dict[str, Any]:
    settings = settings_of(options)
    judged = complete(records, GRID.seeds(options))
    return {
        "environments": ", ".join(dict.fromkeys(s.environment for s in settings)),
        "settings": len(settings),
        "settings × methods with all seeds, at the paper's length": len(
            {(setting_of(r.config), r.config["method"]) for r in judged}
        ),
        "resets": options.resets or DEFAULT_RESETS,
        "made on": ", ".join(made_on(records)) or "nothing",
        "reporting seeds": list(GRID.seeds(options)),
    }


def _prose(options: RlOptions, records: Sequence[RunRecord]) -> str:
    trials = sorted({record.config["test_trials"] for record in records})
    lengths = sorted({r.config["rounds"] * r.config["iterations"] for r in records})
    size = (
        f"Here: {_span(lengths)} of the paper's 1000 iterations, {_span(trials)} of its 1000 test "
        "trials per round. "
        if records
        else "Nothing of it has been run here. "
    )
    size += made_on_words(records)
    if options.profile == "quick":
        size += (
            "The quick profile shows that all six environments run; it is far too short to learn "
            "much or to judge anything, and no claim is judged by it. "
        )
    starts = {
        "independent": "each from its own start (and hidden goal)",
        "shared-goal": "each from its own start, with one hidden goal where there is one",
        "paired": "both from one start (and hidden goal)",
    }[options.resets or DEFAULT_RESETS]
    return (
        "The return of a policy in a simulator, maximised. The paper's protocol, after ARS: "
        "linear policies without bias, started at zero; each iteration L directions, each with "
        f"two trajectories, {starts}; observations standardised, "
        "returns divided by their standard deviation in the iteration, the survival bonus left "
        "out in training and counted in tests; 100 rounds of 10 iterations, after each round a "
        "test on fresh starts that training never sees. "
        f"{size}\n\nThe time to sample the directions of an iteration at HalfCheetahRandVel's "
        "dimension, 6 × 17 = 102, is the study “Time to sample the directions” (tab:rltimes)."
    )


def _span(values: Sequence[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


def _device(options: RlOptions) -> str | None:
    return None if options.device == CPU else options.device


def _unavailable(options: RlOptions) -> str | None:
    from gensmooth.rl.environments.catalogue import make

    asked = [named(name) for name in options.environments or ENVIRONMENTS]
    known = [ENVIRONMENTS[name] for name in asked if name in ENVIRONMENTS]
    try:
        for environment in known:
            make(environment.name, device=options.device or "cpu")
    except ImportError as error:
        return str(error)
    return None


STUDY = Study(
    name="rl",
    title="Reinforcement learning",
    prose=_prose,
    reporting=GRID.reporting,
    execute=execute,
    options=RlOptions,
    device=_device,
    tuning=_tuning,
    select=_select,
    score=_score,
    judge=judge,
    draw="gensmooth.lab.paper.rl.figures:draw",
    tables=lambda _, records: [coverage(records)],
    files=lambda _, records: returns(records),
    facts=_facts,
    cost=cost,
    gather=_gather,
    searched=("paper",),
    unavailable=_unavailable,
)
