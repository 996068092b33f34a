"""The figures of reinforcement learning: test return against trajectories, a panel per setting."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gensmooth.lab.experiments.spec import Outcome
from gensmooth.lab.paper.rl.scores import made_on_words
from gensmooth.lab.paper.rl.settings import ENVIRONMENTS, setting_of, title
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
from gensmooth.lab.report.tables import Cell

_KEYS = ("environment", "policy", "estimator", "num_directions")
_RARE = 0.03  # of a curve's tests: collapses of some rounds must not set the scale of a panel
_MAIN = ("Ant", "Walker2d", "ML1-Reach", "HalfCheetahRandVel")


class _Figure(NamedTuple):
    name: str
    title: str
    heading: str
    settings: Sequence[Setting]


def draw(outcome: Outcome) -> Drawn:
    """Draw the paper's fig:rl, fig:rl2 and fig:rlablations, as far as they have been run."""
    plotted = curves(outcome.records, _KEYS, series=("return", "deviation", "env_steps", "success"))
    settings = list(dict.fromkeys(curve.setting for curve in plotted))
    figures = [
        _figure(figure, plotted, outcome) for figure in _figures(settings) if figure.settings
    ]
    return Drawn(figures, plotted, _KEYS)


def _figures(settings: Sequence[Setting]) -> list[_Figure]:
    """Return the settings that have runs, by the figure of the paper that they belong to."""
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
    return Figure(
        name=figure.name,
        title=figure.title,
        heading=figure.heading,
        caption=f"Mean return of the policy over {tested} test episodes after each round, survival "
        "bonus counted, against the trajectories made in training (tests not counted); higher is "
        "better. Each panel has its own vertical axis. It leaves out values that a curve and its "
        f"band reach in at most {_RARE:.0%} of the rounds, and values that are further below the "
        "return of doing nothing than a learned return is above it; arrowheads mark means beyond "
        "the axis. "
        f"{made_on_words(runs)}{means(here)}",
        columns=max(len(numbers), min(2, len(figure.settings))),
        panels=[_panel(here, setting) for setting in _in_order(figure.settings)],
        legend=legend(here),
        remarks=remarks(here, _words, _spelled(outcome, figure)),
        tables=[last(here, "return", figure.name, _words)],
        left=0.16,
        right=0.93,
    )


def _panel(plotted: Sequence[Curve], setting: Setting) -> Panel:
    here = [curve for curve in plotted if curve.setting == setting]
    known = ENVIRONMENTS.get(_of(setting).environment)
    floor = -math.inf if known is None else 2 * known.still - known.learned
    view = View(
        "return",
        (),
        _trajectories,
        "trajectories",
        "return",
        "linear",
        "linear",
        limits(here, ["return"], "linear", rare=_RARE, floor=floor),
    )
    return panel(here, setting, view, _words)


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
    return tuple(config[key] for key in _KEYS)


def _of(setting: Setting) -> Described:
    return setting_of(dict(zip(_KEYS, setting, strict=True)))


def _words(setting: Setting) -> str:
    place = _of(setting)
    ending = "" if place.part == "main" else f", {title(place.part)}"
    return f"{place.environment}, L = {place.num_directions}{ending}"
