"""``reproduce``: execute the missing runs of studies, and write their report."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field
from dataclasses import fields as fields_of
from inspect import Parameter, signature
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from gensmooth import checks, fields
from gensmooth.evaluators import cores
from gensmooth.lab.experiments.options import Accepts, Options, is_count, matches, read_options
from gensmooth.lab.experiments.progress import duration, print_line
from gensmooth.lab.experiments.registry import STUDIES, find_claim, find_study
from gensmooth.lab.experiments.runner import MANY, on_cores
from gensmooth.lab.experiments.spec import Outcome, Study
from gensmooth.lab.experiments.study import expected_runs, run_study
from gensmooth.lab.paper.page import judge_again, write_report
from gensmooth.lab.report.tables import ClaimRow
from gensmooth.runs.files import exists, make_folder, read_bytes, write_text

ASKED = "reproduce.json"  # the arguments, in the output folder

# Flags of arguments that have several values: one flag for each value, or values with commas.
_REPEATED = {"environments": "env", "parts": "part", "claims": "claim", "num_directions": "-L"}
_JOINED = {"methods": "methods", "objectives": "objective"}


class Reproduced(NamedTuple):
    """The result of :func:`reproduce`.

    Attributes:
        claims: The claims with their verdicts.
        outcomes: The outcome of each study; none if `judge` was passed.
        page: The report, if one was written.
    """

    claims: list[ClaimRow]
    outcomes: list[Outcome]
    page: Path | None


def reproduce(  # noqa: D417
    study: str,
    *,
    workers: int | None = None,
    folder: str | PathLike[str] | None = None,
    ray: str | None = None,
    piece: str | None = None,
    claims: Sequence[str] | None = None,
    no_run: bool = False,
    judge: str | PathLike[str] | None = None,
    **options: Any,
) -> Reproduced:
    """Run studies and write a report that judges their claims one by one.

    Only missing runs are made: the same call continues after an interruption, and a larger study
    reuses the runs that it shares with a smaller one. To merge runs that were made separately, with
    ``piece`` or with other options, copy their ``runs`` folders together.

    Every study declares its own options. Of several studies, each takes those that it has; an
    option that none of them has is an error.

    Args:
        study: controller, linreg, dfo, rl, timing, untuned, module:NAME for a custom study,
            several with commas, or all.
        workers: Processes, by default one per core. With Ray, runs at a time.
        folder: The folder for runs and report, by default out/PROFILE.
        ray: Run on Ray, at a cluster's address, "auto", or "local" to start one.
        piece: Make only every N-th run, from the I-th on, as one of N machines, written I/N.
        claims: Custom claims, each as module:NAME.
        no_run: Report on the runs that exist, without making any.
        judge: Judge the claims again from the tables in this folder (runs-STUDY.csv), as a report
            writes them. This makes no runs and no report.
    """
    options = {"profile": "quick", **options}
    checks.optional(checks.count, "workers", workers)
    names = list(STUDIES) if study == "all" else study.split(",")
    studies = {name: find_study(name) for name in names}  # an unknown one is an error at once
    _refuse_others(studies, options)
    settings = {name: read_options(each.options, options) for name, each in studies.items()}
    extra = [find_claim(name) for name in claims or ()]
    for claim in extra:
        if claim.study not in [each.name for each in studies.values()]:
            raise ValueError(
                f"A claim is about {claim.study!r}, which is not among the studies to run."
            )
    if judge is not None:
        rows = [row for name in names for row in judge_again(name, Path(judge), extra)]
        return Reproduced(rows, [], None)
    devices = {name: each.device(settings[name]) for name, each in studies.items()}
    if ray is not None and any(devices.values()):
        raise ValueError("`device` and `ray` cannot be combined: leave out one of them.")
    if not no_run:
        studies = _available(studies, settings, all_of_them=study == "all")
    home = Path("out") / options["profile"] if folder is None else Path(folder)
    arguments: dict[str, Any] = {
        "study": study,
        **options,
        "workers": workers,
        "folder": folder,
        "ray": ray,
        "piece": piece,
        "claims": claims,
        "no_run": no_run,
    }
    if not (no_run or piece or ray or any(devices.values())):
        _announce(studies, settings, home, workers or cores())
    outcomes: list[Outcome] = []
    for number, (name, each) in enumerate(studies.items(), 1):
        per_core = workers is None and ray is None and devices[name] is None
        outcome = run_study(
            name,
            settings[name],
            home / each.name,
            workers=cores() if per_core else workers,
            ray=ray,
            piece=_piece(piece),
            make=not no_run,
            claims=extra,
            say=print_line,
        )
        if outcome is None:
            continue
        outcomes.append(outcome)
        if number < len(studies) and not no_run:  # a preliminary page while the others run
            page = write_report(outcomes, home, command=_command(arguments))
            print_line(f"{each.name} is done ({number} of {len(studies)}); to look at: {page}")
    if not (no_run and exists(home / ASKED)):  # a report changes nothing but the page
        _write_asked(home, arguments)
    rows = [row for outcome in outcomes for row in outcome.claims]
    if not outcomes:  # one piece of several, which allows no conclusion
        return Reproduced(rows, outcomes, None)
    return Reproduced(rows, outcomes, write_report(outcomes, home, command=_command(arguments)))


def _announce(
    studies: Mapping[str, Study[Any]], settings: Mapping[str, Options], home: Path, workers: int
) -> None:
    """Say how many runs are missing in all, and about how long they take.

    Each part of a study announces its own runs when it starts, so this is left out if there is only
    one part. Custom studies are not counted.
    """
    missing: dict[str, tuple[Study[Any], Mapping[str, Any]]] = {}
    parts = 0
    for name, study in studies.items():
        for specs in expected_runs(study, settings[name]) if name in STUDIES else ():
            left = [s for s in specs if not exists(home / s.study / "runs" / s.key)]
            parts += bool(left)
            missing |= {s.key: (find_study(s.study), s.config) for s in left}
    if parts < 2 or len(missing) <= MANY:
        return
    seconds, unknown = 0.0, dict[str, None]()
    for study, config in missing.values():
        if study.cost is None:
            unknown[study.name] = None
        else:
            seconds += study.cost(config) / (1 if study.alone else workers)
    known = f"about {duration(seconds)}" if seconds else ""
    rest = f"the time of {' and '.join(unknown)} is not known in advance" if unknown else ""
    print_line(
        f"In all about {len(missing):,} runs, {workers} at a time on {on_cores()}; "
        f"{', and '.join(filter(None, (known, rest)))}."
    )


# --- options -------------------------------------------------------------------------------------


def _declared() -> dict[str, dict[str, Field[Any]]]:
    """Return the options of our studies: for each name, the studies that declare it, and how."""
    declared: dict[str, dict[str, Field[Any]]] = {}
    for name in STUDIES:
        for each in fields_of(find_study(name).options):
            declared.setdefault(each.name, {})[name] = each
    return declared


def _refuse_others(studies: Mapping[str, Study[Any]], options: Mapping[str, Any]) -> None:
    """Refuse options that none of the studies has, unless they have their default values.

    Raises:
        ValueError: For an option of other studies.
        TypeError: For an option of no study.
    """
    known = {each.name for study in studies.values() for each in fields_of(study.options)}
    asked = " or ".join(each.name for each in studies.values())
    for name, value in options.items():
        if name in known:
            continue
        owners = _declared().get(name)
        if owners is None:
            hint = checks.did_you_mean(name, known)
            if name == "out":
                hint = " Use `folder`, the folder for runs and report."
            raise TypeError(
                f"`{name}` is not an option of {asked}.{hint} Options: {', '.join(sorted(known))}."
            )
        if value != next(iter(owners.values())).default:
            raise ValueError(
                f"`{name}` ({_flag(name)}) is an option of {' and '.join(owners)}, not of {asked}."
            )


def _with_options(function: Callable[..., Reproduced]) -> None:
    """Add the options of our studies to the signature and the docstring of a function.

    The command line reads both.
    """
    before = signature(function)
    parameters = [each for each in before.parameters.values() if each.kind != each.VAR_KEYWORD]
    lines: list[str] = []
    for name, owners in _declared().items():
        first = next(iter(owners.values()))
        missing = [study for study in STUDIES if study not in owners]
        which = f"all but {', '.join(missing)}" if len(missing) == 1 else ", ".join(owners)
        prefix = f"({which}) " if missing else ""
        lines.append(f"        {name}: {prefix}{first.metadata['words']}")
        parameters.append(
            Parameter(name, Parameter.KEYWORD_ONLY, default=first.default, annotation=first.type)
        )
    setattr(function, "__signature__", before.replace(parameters=parameters))  # noqa: B010
    function.__doc__ = "\n".join([(function.__doc__ or "").rstrip(), *lines, "    "])


_with_options(reproduce)


def report_again(folder: Path, out: Path | None = None) -> Path:
    """Write the report of a folder of :func:`reproduce` again, from the runs that are there.

    Args:
        folder: The folder.
        out: Another folder for the page.

    Raises:
        ValueError: If ``reproduce.json`` cannot be used, or there are no runs.
    """
    arguments = _read_asked(folder / ASKED)
    unused = {"workers": None, "ray": None, "piece": None}  # they only matter when runs are made
    again: dict[str, Any] = {**arguments, **unused, "folder": folder, "no_run": True}
    reproduced = reproduce(**again)
    if reproduced.page is None:
        raise ValueError(f"{folder} has no runs to report on.")
    if out is None:
        return reproduced.page
    return write_report(reproduced.outcomes, out, command=_command(arguments))


def _read_asked(path: Path) -> dict[str, Any]:
    """Return the options in a ``reproduce.json``, which may come from an untrusted source.

    Every field must be an argument or an option of our studies, and both the field and its value
    must be accepted from a file. In particular, no value can name a module: a study, a claim or an
    environment that would have to be imported is refused.

    Raises:
        ValueError: If the file cannot be read, or a field is not accepted.
    """
    try:
        options: dict[str, Any] = fields.parse(read_bytes(path), _ASKED)
        for name, value in options.items():
            accepts = _allowed(name)
            if accepts is None:
                raise ValueError(f"the option {name[:50]!r} is unknown")
            if not accepts(value):
                raise ValueError(
                    f"`{name}` is {checks.shown(value)}, which is not accepted from a file. If you "
                    "trust it, repeat the command that made the runs yourself, with --no-run"
                )
        if "study" not in options:
            raise ValueError("it has no field `study`")
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be used: {error}.") from error
    return options


_ASKED = fields.sealed(fields.table(fields.PLAIN_NAMES, 100))


def _are_studies(value: Any) -> bool:
    names = value.split(",") if isinstance(value, str) else [value]
    return names == ["all"] or all(isinstance(n, str) and n in STUDIES for n in names)


def _allowed(name: str) -> Accepts | None:
    """Return the check of a field of ``reproduce.json``; ``None`` if there is no such field."""
    common: dict[str, Accepts] = {
        "study": _are_studies,
        "workers": is_count,
        "ray": matches(r"[\w.:/-]{1,200}"),
        "piece": matches(r"\d{1,6}/\d{1,6}"),
    }
    owners = _declared().get(name)
    if owners is None:
        return common.get(name)
    every: list[Accepts | None] = [each.metadata["accepts"] for each in owners.values()]
    return lambda value: all(accepts is not None and accepts(value) for accepts in every)


def _write_asked(folder: Path, arguments: Mapping[str, Any]) -> None:
    """Write the arguments to a file, so that the page can be written again."""
    kept: dict[str, Any] = {
        name: value
        for name, value in arguments.items()
        if value is not None and name not in ("folder", "no_run")
    }
    with suppress(OSError, TypeError):
        make_folder(folder)
        write_text(folder / ASKED, f"{json.dumps(fields.seal(kept))}\n")


def _available(
    studies: Mapping[str, Study[Any]], settings: Mapping[str, Options], *, all_of_them: bool
) -> dict[str, Study[Any]]:
    """Return the studies whose packages are installed; an error names a missing one.

    If all studies were requested, those that cannot run are skipped.
    """
    kept: dict[str, Study[Any]] = {}
    for name, study in studies.items():
        reason = study.unavailable(settings[name]) if study.unavailable is not None else None
        if reason is None:
            kept[name] = study
        elif all_of_them:
            print_line(f"{name} is left out: {reason}")
        else:
            raise ImportError(reason)
    return kept


def _piece(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, slash, of = text.partition("/")
    if not (slash and first.isdigit() and of.isdigit() and 1 <= int(first) <= int(of)):
        raise ValueError(f"`piece` must be written like 2/5, the second of five, but is {text!r}.")
    return int(first), int(of)


def _command(arguments: Mapping[str, Any]) -> str:
    """Return the command that repeats a call.

    >>> _command({"study": "rl", "profile": "paper", "num_directions": (2, 6), "no_run": True})
    'gensmooth reproduce rl --profile paper -L 2 -L 6 --no-run'
    """
    words = ["gensmooth", "reproduce", arguments["study"]]
    for name, value in arguments.items():
        if name == "study" or value is None or value is False:
            continue
        if value is True:
            words.append(_flag(name))
        elif name in _REPEATED:
            words += [word for each in value for word in (_flag(name), str(each))]
        else:
            words += [_flag(name), str(value) if name not in _JOINED else ",".join(value)]
    return shlex.join(words)


def _flag(name: str) -> str:
    """Return the flag of an argument on the command line.

    >>> _flag("environments"), _flag("test_trials"), _flag("num_directions")
    ('--env', '--test-trials', '-L')
    """
    flag = _REPEATED.get(name, _JOINED.get(name, name))
    return flag if flag.startswith("-") else f"--{flag.replace('_', '-')}"
