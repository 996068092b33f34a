"""Run studies: what is missing of them, in parallel, never twice; and then the report."""

import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from gensmooth import checks
from gensmooth.evaluators import cores
from gensmooth.report.tables import Cell, ClaimRow
from gensmooth.runs.files import read_bytes, write_text
from gensmooth.studies.making import Completed, Maker
from gensmooth.studies.outcome import judge_again, write_report
from gensmooth.studies.progress import Say
from gensmooth.studies.registry import STUDIES, find_claim, find_study
from gensmooth.studies.spec import Claim, Options, Outcome, Profile, Study
from gensmooth.studies.store import StudyStore

ASKED = "reproduce.json"  # what was asked, in the output folder

# Parameters that a shell calls by another name, given once for each of their values.
_REPEATED = {"environments": "env", "parts": "part", "claims": "claim", "num_directions": "-L"}
_JOINED = {"methods": "methods", "objectives": "objective"}  # and those in one word, with commas


class Reproduced(NamedTuple):
    """What came of it.

    Attributes:
        claims: The claims, judged.
        outcomes: The studies; none where only the verdicts were asked for.
        page: The report, if one was written.
    """

    claims: list[ClaimRow]
    outcomes: list[Outcome]
    page: Path | None


def reproduce(
    study: str,
    *,
    profile: Profile = "quick",
    workers: int | None = None,
    out: str | PathLike[str] | None = None,
    seeds: int | None = None,
    hyperparameters: Literal["search", "paper"] | None = None,
    methods: Sequence[str] | None = None,
    offline: bool = False,
    objectives: Sequence[str] | None = None,
    environments: Sequence[str] | None = None,
    num_directions: Sequence[int] | None = None,
    parts: Sequence[str] | None = None,
    iterations: int | None = None,
    test_trials: int | None = None,
    resets: Literal["independent", "paired"] | None = None,
    device: str | None = None,
    ray: str | None = None,
    piece: str | None = None,
    claims: Sequence[str] | None = None,
    no_run: bool = False,
    judge: str | PathLike[str] | None = None,
) -> Reproduced:
    """Run the paper's studies, or your own, and write a report that judges their claims one by one.

    Runs what is missing: the same call again continues what was interrupted, and a larger study
    reuses the runs it shares with a smaller one. Runs that were made apart, with ``piece`` or with
    other options, are merged by copying their ``runs`` folders together.

    Args:
        study: controller, linreg, dfo, rl, timing, untuned, module:NAME for one of your own,
            several with commas, or all.
        profile: The size: quick takes about a minute, paper is the paper's own.
        workers: Processes; by default one per core. With Ray, runs at a time.
        out: The folder for runs and report; by default out/PROFILE.
        seeds: Seeds of the reported runs, instead of 5 (untuned: 20).
        hyperparameters: Search the paper's grids, or use the paper's tables. By default they are
            searched, but not in rl's quick profile.
        methods: The methods, instead of the paper's.
        offline: linreg: a fixed data set and mini-batches.
        objectives: dfo, untuned: the objectives, such as sphere or nevergrad:rastrigin.
        environments: rl: the environments.
        num_directions: rl: the values of L, instead of all.
        parts: rl: main, mlp or antithetic (the ablations), instead of all.
        iterations: rl: iterations of a run, instead of 1000.
        test_trials: rl: test episodes per round, instead of 1000.
        resets: rl: a start and goal for each trajectory of training, or one for the two of a
            direction; by default independent.
        device: rl: run the episodes of all runs side by side on a GPU, such as "cuda"; `workers` is
            then how many runs are made at a time, by default all. These are runs of their own,
            never mixed with the CPU's in one setting. With `no_run`, the runs of this device alone
            are reported ("cpu" too); by default a setting's are of the device that has most of
            them, the CPU if that is as good as any.
        ray: Run on Ray: a cluster's address, "auto", or "local" to start one.
        piece: I/N: make only every N-th run, from the I-th on, as one of N machines.
        claims: Claims of your own, each as module:NAME.
        no_run: Make no runs: report on those that are there.
        judge: Make no runs and no report: judge the claims again from the tables in this folder
            (runs-STUDY.csv), as a report writes them.
    """
    given = dict(locals())
    for name in ("workers", "seeds", "iterations", "test_trials"):
        if given[name] is not None:
            checks.count(name, given[name])
    names = list(STUDIES) if study == "all" else study.split(",")
    found = {name: find_study(name) for name in names}  # an unknown one is an error at once
    extra = [find_claim(name) for name in claims or ()]
    for claim in extra:
        if claim.study not in [each.name for each in found.values()]:
            raise ValueError(f"A claim is about the study {claim.study!r}, which is not asked for.")
    if judge is not None:
        rows = [row for name in names for row in judge_again(name, Path(judge), extra)]
        return Reproduced(rows, [], None)
    options = Options(
        profile=profile,
        seeds=seeds,
        hyperparameters=hyperparameters,
        methods=_tuple(methods),
        offline=offline,
        objectives=_tuple(objectives),
        environments=_tuple(environments),
        parts=_tuple(parts),
        num_directions=_tuple(num_directions),
        iterations=iterations,
        test_trials=test_trials,
        resets=resets,
        device=None
        if device == "cpu" and not no_run
        else checks.optional(checks.text, "device", device),
    )
    if options.device not in (None, "cpu") and (ray is not None or [*found] != ["rl"]):
        raise ValueError("`device` is for the study rl alone, and not with `ray`.")
    if not no_run:
        found = _available(found, options, all_of_them=study == "all")
    folder = Path("out") / profile if out is None else Path(out)
    outcomes: list[Outcome] = []
    for number, (name, each) in enumerate(found.items(), 1):
        outcome = run_study(
            name,
            options,
            folder / each.name,
            workers=cores() if workers is None and ray is None and device is None else workers,
            ray=ray,
            piece=_piece(piece),
            make=not no_run,
            claims=extra,
            say=_say,
        )
        if outcome is None:
            continue
        outcomes.append(outcome)
        if number < len(found) and not no_run:  # something to look at while the others run
            page = write_report(outcomes, folder, command=_command(given))
            _say(f"{each.name} is done ({number} of {len(found)}); to look at: {page}")
    _write_asked(folder, given)
    rows = [row for outcome in outcomes for row in outcome.claims]
    if not outcomes:  # a piece, of which alone nothing can be said
        return Reproduced(rows, outcomes, None)
    return Reproduced(rows, outcomes, write_report(outcomes, folder, command=_command(given)))


def report_again(folder: Path, out: Path | None = None) -> Path:
    """The report of a folder that :func:`reproduce` has written to, from the runs that are there.

    Args:
        folder: The folder.
        out: Another folder for the page.

    Raises:
        ValueError: When what was asked cannot be read.
    """
    given = _read_asked(folder / ASKED)
    unused = {"workers": None, "ray": None, "piece": None}  # they only matter when runs are made
    again: dict[str, Any] = {**given, **unused, "out": folder, "no_run": True}
    found = reproduce(**again)
    if found.page is None:
        raise ValueError(f"{folder} has no runs that a page can be written of.")
    if out is None:
        return found.page
    return write_report(found.outcomes, out, command=_command(given))


def _read_asked(path: Path) -> dict[str, Any]:
    """The options in a ``reproduce.json``, which may come from a stranger.

    Every field must be on the list below, with a value of the listed form. In particular no value
    can name a module: a study, a claim or an environment that would have to be imported is refused.

    Raises:
        ValueError: If the file cannot be read, or a field is not on the list.
    """
    try:
        options: Any = json.loads(read_bytes(path))
        if not isinstance(options, dict):
            raise ValueError("it must hold an object")
        for name, value in cast("dict[str, Any]", options).items():
            allowed = _ALLOWED.get(name)
            if allowed is None:
                raise ValueError(f"the option {name[:50]!r} is unknown")
            if not allowed(value):
                raise ValueError(
                    f"`{name}` is {checks.shown(value)}, which is not accepted from a file. If you "
                    "trust it, repeat the command that made the runs yourself, with --no-run"
                )
        if "study" not in options:
            raise ValueError("it names no study")
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be used: {error}.") from error
    return cast("dict[str, Any]", options)


def _matches(pattern: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and bool(re.fullmatch(pattern, value))


def _each(allowed: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(allowed, cast("list[Any]", value)))


def _is_count(value: Any) -> bool:
    return type(value) is int and 1 <= value <= 1_000_000


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_paper_environment(value: Any) -> bool:
    from gensmooth.studies.rl.settings import ENVIRONMENTS

    known = [name.lower() for ours, e in ENVIRONMENTS.items() for name in (ours, e.name)]
    return isinstance(value, str) and value.lower() in known


def _are_studies(value: Any) -> bool:
    names = value.split(",") if isinstance(value, str) else [value]
    return names == ["all"] or all(isinstance(n, str) and n in STUDIES for n in names)


# The fields that a `reproduce.json` may have, and the values that are accepted from a file.
_ALLOWED: Mapping[str, Callable[[Any], bool]] = {
    "study": _are_studies,
    "profile": _matches("quick|paper"),
    "hyperparameters": _matches("search|paper"),
    "resets": _matches("independent|paired"),
    "device": _matches(r"cpu|warp-cpu|cuda(:\d{1,3})?"),
    "ray": _matches(r"[\w.:/-]{1,200}"),
    "piece": _matches(r"\d{1,6}/\d{1,6}"),
    "offline": _is_flag,
    "workers": _is_count,
    "seeds": _is_count,
    "iterations": _is_count,
    "test_trials": _is_count,
    "num_directions": _each(_is_count),
    "parts": _each(_matches("main|mlp|antithetic")),
    "methods": _each(_matches(r"[a-z0-9-]{1,50}")),
    "objectives": _each(_matches(r"(nevergrad:)?\w{1,50}")),
    "environments": _each(_is_paper_environment),
}


def _write_asked(folder: Path, given: Mapping[str, Any]) -> None:
    """Keep what was asked, so that the page can be written again."""
    kept: dict[str, Any] = {
        name: value
        for name, value in given.items()
        if value is not None and name not in ("out", "judge", "no_run")
    }
    with suppress(OSError, TypeError):
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / ASKED, f"{json.dumps(kept)}\n")


def _available(
    found: Mapping[str, Study], options: Options, *, all_of_them: bool
) -> dict[str, Study]:
    """Without the studies that cannot be run with what is installed, if all were asked for."""
    kept: dict[str, Study] = {}
    for name, study in found.items():
        why = study.unavailable(options) if study.unavailable is not None else None
        if why is None:
            kept[name] = study
        elif all_of_them:
            _say(f"{name} is left out: {why}")
        else:
            raise ImportError(why)
    return kept


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _tuple(values: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return tuple(values) if values else None


def _piece(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, slash, of = text.partition("/")
    if not (slash and first.isdigit() and of.isdigit() and 1 <= int(first) <= int(of)):
        raise ValueError(f"`piece` must be such as 2/5, the second of five, but is {text!r}.")
    return int(first), int(of)


def _command(given: Mapping[str, Any]) -> str:
    """What a reader types to repeat it.

    >>> _command({"study": "rl", "profile": "paper", "num_directions": (2, 6), "no_run": True})
    'gensmooth reproduce rl --profile paper -L 2 -L 6 --no-run'
    """
    words = ["gensmooth", "reproduce", given["study"]]
    for name, value in given.items():
        flag = _REPEATED.get(name, _JOINED.get(name, name))
        flag = flag if flag.startswith("-") else f"--{flag.replace('_', '-')}"
        if name == "study" or value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif name in _REPEATED:
            words += [word for each in value for word in (flag, str(each))]
        else:
            words += [flag, str(value) if name not in _JOINED else ",".join(value)]
    return shlex.join(words)


# --- one study -----------------------------------------------------------------------------------


def run_study(
    name: str,
    options: Options,
    folder: Path,
    *,
    workers: int | None = 1,
    ray: str | None = None,
    piece: tuple[int, int] | None = None,
    make: bool = True,
    claims: Sequence[Claim] = (),
    say: Say = print,
) -> Outcome | None:
    """Run a study to its end: grid search, reporting runs, conclusions.

    Args:
        name: The study: one of the paper's, or ``module:NAME`` of one's own.
        options: How.
        folder: Where its runs are kept; what is there already is not run again.
        workers: Processes; with Ray, runs at a time, and ``None`` for all of its processors.
        ray: Run on Ray instead: an address, ``"auto"`` or ``"local"``.
        piece: ``(i, n)``: make only the i-th of n equal parts of the runs, as one of n machines.
        make: Whether to run what is missing. Otherwise the outcome is about what is there.
        claims: Claims to judge beside the study's own; those about other studies are left out.
        say: Where to say what a user should know.

    Returns:
        The outcome; ``None`` where a piece leaves a study, or its grid search, incomplete that
        can only be concluded complete.
    """
    study = find_study(name)
    if options.hyperparameters is None:
        how = "search" if options.profile in study.searched else "paper"
        options = replace(options, hyperparameters=how)
    if study.alone:
        workers, ray = 1, None
    store = StudyStore(folder, study.name)
    maker = Maker(
        study.name,
        store,
        workers,
        ray,
        say,
        reference=name,
        cost=study.cost,
        piece=piece,
        make=make,
        others={},
        together=options.device is not None,
    )
    began = time.time()
    tuning = study.tuning(options)
    first = maker.complete(tuning, f"{study.name}: grid search")
    if piece and len(first.records) < len(tuning):
        return _apart(study.name, "grid search", say)
    cells = study.select(options, first.records)
    specs = study.reporting(options, cells)
    second = maker.complete(specs, f"{study.name}: runs")
    if not make:
        second = _found(study, options, maker.store, cells, second, wanted=len(specs))
    elif study.gather is None and len(second.records) < len(specs):
        return _apart(study.name, "study", say)
    outcome = study.conclude(options, second.records, cells)
    facts = {
        "runs": len(first.records) + len(second.records),
        "runs made now": first.made + second.made,
        "seconds of computing": round(sum(r.seconds for r in (*first.records, *second.records)), 1),
        "seconds of this call": round(time.time() - began, 1),
        "workers": "Ray" if ray else options.device or workers,
    }
    own = [c.judge(outcome.scores, cells) for c in claims if c.study == study.name]
    return replace(outcome, claims=[*outcome.claims, *own], facts={**outcome.facts, **facts})


def _apart(name: str, what: str, say: Say) -> None:
    say(
        f"{name}: this piece of the {what} is done, and others are missing. Copy the `runs` "
        "folders of all pieces together, then run the same command without --piece."
    )


def _found(
    study: Study,
    options: Options,
    store: StudyStore,
    cells: Sequence[Cell],
    loaded: Completed,
    wanted: int,
) -> Completed:
    """What a report without further runs is about."""
    if study.gather is not None:
        return Completed(study.gather(options, cells, list(store.everything().records.values())), 0)
    if len(loaded.records) < wanted:
        raise RuntimeError(
            f"{wanted - len(loaded.records)} of {wanted} runs of {study.name} are missing, and it "
            "is reported complete or not at all: leave out --no-run, and they will be made."
        )
    return loaded
