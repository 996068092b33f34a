"""The figure of the controller: flights before and after, and their cost during the search."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from gensmooth.lab.experiments.spec import Outcome
from gensmooth.lab.paper.controller.model import START, STEP, STEPS, fly
from gensmooth.lab.paper.controller.study import gains_of, unseen_gusts
from gensmooth.lab.report.axes import label_axes
from gensmooth.lab.report.curves import Drawn
from gensmooth.lab.report.figure import Figure, LegendItem, Panel
from gensmooth.lab.report.style import MUTED, method_style

_FLIGHTS = 25  # drawn in each panel


def draw(outcome: Outcome) -> Drawn:
    """Flights before and after the search, and the cost against the number of flights."""
    records = outcome.records
    budget = int(records[0].config["budget"])
    before, after = method_style("gs").color, method_style("pilot").color
    seconds = STEP * np.arange(STEPS)
    gusts = unseen_gusts()[:, :_FLIGHTS]

    def flights(axes: Axes, gains: Sequence[float], color: str) -> None:
        heights = fly(gains, gusts)[1]
        axes.axhline(1.0, color=MUTED, linewidth=1.0, linestyle=":")
        axes.text(0.1, 1.15, "goal", color=MUTED)
        axes.plot(seconds, heights[:, 1:], color=color, linewidth=0.5, alpha=0.25)
        axes.plot(seconds, heights[:, 0], color=color, linewidth=2.0)
        axes.set(ylim=(-3.5, 5.0), xlim=(0, 8.2))
        label_axes(axes, "seconds", "height, metres")

    def costs(axes: Axes) -> None:
        for record in records:
            values = record.series["cost"]
            axes.plot(np.linspace(0, budget, len(values)), values, color=after, linewidth=1.2)
        axes.set(yscale="log")
        axes.set_yticks([0.1, 0.2, 0.5, 1.0, 2.0], ["0.1", "0.2", "0.5", "1", "2"])
        axes.minorticks_off()
        label_axes(axes, "flights", "mean cost of a flight")

    first, ends = records[0].series["cost"][0], [record.final for record in records]
    figure = Figure(
        name="controller",
        title="A drone in gusts, before and after tuning",
        heading="Before and after",
        caption=f"Left and middle: the height of the drone in {_FLIGHTS} flights, with the same "
        "gusts in both panels; one flight is drawn bold. Right: the mean cost of 100 test flights "
        "with the gains that the search is at, one line for each seed; lower is better.",
        columns=3,
        panels=[
            Panel(
                "Before: it swings up and down",
                "",
                "The height swings between −2 and 3 metres.",
                partial(flights, gains=START, color=before),
            ),
            Panel(
                "After: it climbs and stays",
                "",
                "The height rises to 1 metre and stays there.",
                partial(flights, gains=gains_of(records[0]), color=after),
            ),
            Panel(
                "How it learned",
                f"n = {len(records)}",
                f"The mean cost falls from {first:.3f} to {min(ends):.3f} to {max(ends):.3f}.",
                costs,
            ),
        ],
        legend=[
            LegendItem("gains at the start", "thin", before, width=2.0),
            LegendItem(f"gains after {budget} flights, found by gs.minimize", "thin", after),
        ],
    )
    return Drawn([figure])
