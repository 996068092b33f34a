"""The paper's reinforcement learning: six environments, six methods, L ∈ {2, 6, 20}, N = 1."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gensmooth.studies import grid, paper_rl
from gensmooth.studies.rl_claims import judge
from gensmooth.studies.rl_coverage import complete, coverage
from gensmooth.studies.rl_run import execute
from gensmooth.studies.rl_settings import (
    DEFAULT_RESETS,
    ENVIRONMENTS,
    SIZES,
    Setting,
    choice_of,
    config_of,
    cost,
    scale_of,
    setting_of,
    settings_of,
)
from gensmooth.studies.spec import Cell, Options, Outcome, Record, RunSpec, Study


def _cases(options: Options) -> Iterator[tuple[Setting, str]]:
    """Settings × methods."""
    for setting in settings_of(options):
        for name in scale_of(options, setting).methods:
            yield setting, name


def _tuning(options: Options) -> list[RunSpec]:
    """The grid search; its runs are tested at their end alone, since that is what is compared."""
    if options.hyperparameters == "paper":
        return []
    cases = [config_of(options, *case) for case in _cases(options)]
    cases = [{**case, "test_every": case["rounds"]} for case in cases]
    seeds = grid.tuning_seeds(SIZES[options.profile])
    return grid.tuning_specs("rl", cases, paper_rl.SPACINGS, paper_rl.RATES, seeds)


def _select(options: Options, records: Sequence[Record]) -> list[Cell]:
    pairs = [(setting.words, name, choice_of(setting, name)) for setting, name in _cases(options)]
    if options.hyperparameters == "paper":
        for words, name, known in pairs:
            if known is None:
                raise ValueError(
                    f"The paper has no spacing and learning rate for {name} at {words}: leave it "
                    "out, or use --hyperparameters search."
                )
        return grid.paper_cells(pairs)
    # A choice is made between finished searches only: what is cheap must not win by being there.
    wanted = len(paper_rl.SPACINGS) * len(paper_rl.RATES) * SIZES[options.profile].tuning_seeds
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        where = (setting_of(record.config).words, record.config["method"])
        groups.setdefault(where, []).append(record)
    finished = [record for found in groups.values() if len(found) == wanted for record in found]
    best = grid.choose(finished, lambda c: (setting_of(c).words, c["method"]))
    return [
        Cell(words, name, chosen, known, -score)
        for words, name, known in pairs
        if (words, name) in best
        for chosen, score in [best[words, name]]
    ]


def _reporting(options: Options, cells: Sequence[Cell]) -> list[RunSpec]:
    cases = [config_of(options, *case) for case in _cases(options)]
    seeds = grid.reporting_seeds(SIZES[options.profile], options.seeds)
    return grid.reporting_specs("rl", cases, cells, lambda c: setting_of(c).words, seeds)


def _gather(options: Options, cells: Sequence[Cell], records: Sequence[Record]) -> list[Record]:
    """The runs that are there of those asked for, whatever their number of test trials.

    Where a run is there with several, the one with the most counts.
    """
    specs = [spec.config for spec in _reporting(options, cells)]
    wanted = {_but_trials(config): number for number, config in enumerate(specs)}
    found: dict[int, Record] = {}
    for record in records:
        number = wanted.get(_but_trials(record.config))
        if number is None or (
            options.test_trials is not None and record.config["test_trials"] != options.test_trials
        ):
            continue
        before = found.get(number)
        if before is None or before.config["test_trials"] < record.config["test_trials"]:
            found[number] = record
    return [found[number] for number in sorted(found)]


def _but_trials(config: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((key, value) for key, value in config.items() if key != "test_trials"))


def _conclude(options: Options, records: Sequence[Record], cells: Sequence[Cell]) -> Outcome:
    seeds = grid.reporting_seeds(SIZES[options.profile], options.seeds)
    settings = settings_of(options)
    judged = complete(records, seeds)
    return Outcome(
        study="rl",
        title="Reinforcement learning",
        prose=_prose(options, records),
        records=records,
        cells=cells,
        tables=[coverage(records)],
        claims=judge(judged),
        options=options,
        facts={
            "environments": ", ".join(dict.fromkeys(s.environment for s in settings)),
            "settings": len(settings),
            "settings × methods with all seeds, at the paper's length": len(
                {(setting_of(r.config), r.config["method"]) for r in judged}
            ),
            "resets": options.resets or DEFAULT_RESETS,
            "reporting seeds": list(seeds),
        },
    )


def _prose(options: Options, records: Sequence[Record]) -> str:
    trials = sorted({record.config["test_trials"] for record in records})
    lengths = sorted({r.config["rounds"] * r.config["iterations"] for r in records})
    size = (
        f"Here: {_span(lengths)} of the paper's 1000 iterations, {_span(trials)} of its 1000 test "
        "trials a round. "
        if records
        else "Nothing of it has been run here. "
    )
    if options.profile == "quick":
        size += (
            "The quick profile shows that all six environments run; it is far too short to learn "
            "much or to judge anything, and no claim is judged by it. "
        )
    starts = {
        "independent": "each from a start (and hidden goal) of its own",
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


def _unavailable() -> str | None:
    from gensmooth.rl.environments.catalogue import make

    try:
        for environment in ENVIRONMENTS.values():
            make(environment.name)
    except ImportError as error:
        return str(error)
    return None


STUDY = Study(
    name="rl",
    tuning=_tuning,
    select=_select,
    reporting=_reporting,
    execute=execute,
    conclude=_conclude,
    cost=cost,
    gather=_gather,
    searched=("paper",),
    unavailable=_unavailable,
)
