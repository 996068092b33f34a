"""The figures of reinforcement learning: test return against trajectories, a panel per setting."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gensmooth.lab.experiments.spec import Outcome
from gensmooth.lab.paper.rl.scores import made_on_words
from gensmooth.lab.paper.rl.settings import (
    DEFAULT_RESETS,
    ENVIRONMENTS,
    PARTS,
    RlOptions,
    scale_of,
    setting_of,
    settings_of,
    title,
)
from gensmooth.lab.paper.rl.settings import Setting as Described
from gensmooth.lab.report.curves import (
    Curve,
    Drawn,
    Floats,
    Setting,
    View,
    curves,
    last,
    legend,
    limits,
    means,
    panel,
    remarks,
)
from gensmooth.lab.report.figure import Figure, Panel
from gensmooth.lab.report.style import method_title
from gensmooth.lab.report.tables import Cell

_KEYS = ("environment", "policy", "estimator", "optimizer", "num_directions")
_RARE = 0.03  # share of tests that may be off a panel, so that collapses do not set its scale
_MAIN = ("Ant", "Walker2d", "ML1-Reach", "HalfCheetahRandVel")


class _Figure(NamedTuple):
    name: str
    title: str
    heading: str
    settings: Sequence[Setting]


def draw(outcome: Outcome) -> Drawn:
    """Draw the paper's fig:rl, fig:rl2 and fig:rlablations, as far as they have been run."""
    named = [r._replace(config={"optimizer": "sgd", **r.config}) for r in outcome.records]
    plotted = curves(named, _KEYS, series=("return", "deviation", "env_steps", "success"))
    made = {curve.setting for curve in plotted}
    wanted = [_keys(setting) for setting in settings_of(_options(outcome))]
    figures = [
        _figure(figure, plotted, outcome)
        for figure in _figures(list(dict.fromkeys([*wanted, *sorted(made)])))
        if made & set(figure.settings)
    ]
    return Drawn(figures, plotted, _KEYS)


def _options(outcome: Outcome) -> RlOptions:
    assert isinstance(outcome.options, RlOptions)
    return outcome.options


def _figures(settings: Sequence[Setting]) -> list[_Figure]:
    """Return settings by the figure of the paper that they belong to."""
    main = [s for s in settings if _of(s).part == "main"]
    study = "Reinforcement learning: "
    return [
        _Figure(
            "rl",
            f"{study}test return",
            "Test return",
            [s for s in main if _of(s).environment in _MAIN],
        ),
        _Figure(
            "rl-additional",
            f"{study}test return, additional environments",
            "Test return, additional environments",
            [s for s in main if _of(s).environment not in _MAIN],
        ),
        _Figure(
            "rl-ablations",
            f"{study}ablations",
            "Ablations",
            [s for s in settings if _of(s).part != "main"],
        ),
    ]


def _figure(figure: _Figure, plotted: Sequence[Curve], outcome: Outcome) -> Figure:
    here = [curve for curve in plotted if curve.setting in figure.settings]
    numbers = {s[-1] for s in figure.settings}
    runs = [record for record in outcome.records if _setting(record.config) in figure.settings]
    trials = sorted({record.config["test_trials"] for record in runs})
    tested = f"{trials[0]}" if len(trials) == 1 else f"{trials[0]} to {trials[-1]}"
    at_the_end = [record.config.get("last_trials", 0) for record in runs]
    if any(at_the_end):
        tested += f" (in some runs {max(at_the_end)} in the last round)"
    resets = _options(outcome).resets or DEFAULT_RESETS
    return Figure(
        name=figure.name,
        title=figure.title,
        heading=figure.heading,
        caption=f"Mean return of the policy over {tested} test episodes after each round, survival "
        "bonus counted, against the trajectories made in training (tests not counted); higher is "
        "better. Each panel has its own vertical axis. It leaves out values that a curve and its "
        f"bars reach in at most {_RARE:.0%} of the rounds, and values that are further below the "
        "return of doing nothing than a learned return is above it; filled arrowheads mark "
        f"means beyond the axis. Resets: {resets}. "
        f"{made_on_words(runs)}{means(here)}",
        columns=max(len(numbers), min(2, len(figure.settings))),
        panels=[
            panel_of(here, setting, absent=_absent(here, setting, _options(outcome)))
            for setting in _in_order(figure.settings)
        ],
        legend=legend(here),
        remarks=remarks(here, _words, _spelled(outcome, figure)),
        tables=[last(here, "return", figure.name, _words)],
        left=0.16,
        right=0.93,
    )


def _absent(plotted: Sequence[Curve], setting: Setting, options: RlOptions) -> str:
    """Name the methods that have not been run."""
    made = {curve.method for curve in plotted if curve.setting == setting}
    if not made:
        return "not run"
    lost = [method_title(m) for m in scale_of(options, _of(setting)).methods if m not in made]
    return f"not run: {', '.join(lost)}" if lost else ""


def panel_of(
    plotted: Sequence[Curve], setting: Setting, *, absent: str = "", cut: bool = True
) -> Panel:
    """Return the panel of a setting: test return against trajectories.

    Args:
        plotted: The curves, of this setting and of others.
        setting: The setting.
        absent: A note about missing methods.
        cut: Whether the axis leaves out returns far below that of doing nothing.
    """
    here = [curve for curve in plotted if curve.setting == setting]
    known = ENVIRONMENTS.get(_of(setting).environment)
    floor = 2 * known.still - known.learned if known and cut else -math.inf
    ylim = limits(here, ["return"], "linear", rare=_RARE, floor=floor)
    view = View("return", (), _trajectories, "trajectories", "return", "linear", "linear", ylim)
    return panel(here, setting, view, _words, absent=absent)


def _trajectories(curve: Curve, rounds: Floats) -> Floats:
    return rounds * curve.iterations * 2 * curve.num_directions


def _in_order(settings: Sequence[Setting]) -> list[Setting]:
    """Sort settings as in the paper: a row for each environment, L from left to right."""
    known = list(ENVIRONMENTS)

    def order(setting: Setting) -> tuple[int, str, str, int]:
        name = _of(setting).environment
        place = known.index(name) if name in known else len(known)
        return place, name, _of(setting).part, setting[-1]

    return sorted(settings, key=order)


def _spelled(outcome: Outcome, figure: _Figure) -> list[Cell]:
    """Return the hyperparameter choices of this figure's settings, worded as in figures."""
    words = {_of(setting).words: _words(setting) for setting in figure.settings}
    return [c._replace(setting=words[c.setting]) for c in outcome.cells if c.setting in words]


def _setting(config: Mapping[str, object]) -> Setting:
    return _keys(setting_of(config))


def _keys(setting: Described) -> Setting:
    known = ENVIRONMENTS.get(setting.environment)
    name = known.name if known else setting.environment
    return (name, *PARTS[setting.part].values(), setting.num_directions)


def _of(setting: Setting) -> Described:
    return setting_of(dict(zip(_KEYS, setting, strict=True)))


def _words(setting: Setting) -> str:
    place = _of(setting)
    ending = "" if place.part == "main" else f", {title(place.part)}"
    return f"{place.environment}, L = {place.num_directions}{ending}"
