"""The figure of the controller: the cost of flights, and one flight before and after."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

import numpy as np
from matplotlib.axes import Axes

from gensmooth.lab.experiments.spec import Outcome
from gensmooth.lab.paper.controller.model import START, STEP, STEPS, fly
from gensmooth.lab.paper.controller.study import gains_of, wind
from gensmooth.lab.report.curves import Drawn
from gensmooth.lab.report.figure import Figure, LegendItem, Panel
from gensmooth.lab.report.style import INK, MUTED, method_style


def draw(outcome: Outcome) -> Drawn:
    """Cost against flights, a line for each seed; height against time."""
    records = outcome.records
    color = method_style("pilot").color
    budget = int(records[0].config["budget"])

    def costs(axes: Axes) -> None:
        for record in records:
            values = record.series["cost"]
            axes.plot(np.linspace(0, budget, len(values)), values, color=color, linewidth=1.2)
        axes.set(xlabel="flights", ylabel="mean cost of a flight", yscale="log")
        axes.set_yticks([0.1, 0.2, 0.5, 1.0, 2.0], ["0.1", "0.2", "0.5", "1", "2"])
        axes.minorticks_off()

    def heights(axes: Axes) -> None:
        seconds = STEP * np.arange(STEPS)
        axes.axhline(1.0, color=MUTED, linewidth=0.8, linestyle=":")
        gusts = wind()[:, :1]
        axes.plot(seconds, fly(START, gusts)[1], color=INK, linewidth=0.9)
        axes.plot(seconds, fly(gains_of(records[0]), gusts)[1], color=color, linewidth=1.6)
        axes.set(xlabel="seconds", ylabel="height, metres")

    first, ends = records[0].series["cost"][0], [record.final for record in records]
    figure = Figure(
        name="controller",
        title="A drone in gusts",
        heading="Learning to hold a height",
        caption="Left: the mean cost of 100 test flights with the gains that the search is at, one "
        "line for each seed; lower is better. Right: one of these flights, with the gains at the "
        "start and with those that the first search ended with, in the same gusts. The dotted line "
        "is the height to hold.",
        columns=2,
        panels=[
            Panel(
                "Cost",
                f"n = {len(records)}",
                f"The mean cost falls from {first:.3f} to {min(ends):.3f} to {max(ends):.3f}.",
                costs,
            ),
            Panel("A flight", "", "Height against time, before and after.", heights),
        ],
        legend=[
            LegendItem("gs.minimize, untuned", "thin", color, width=1.6),
            LegendItem("the gains at the start", "thin", INK, width=0.9),
        ],
        left=0.16,
    )
    return Drawn([figure])
