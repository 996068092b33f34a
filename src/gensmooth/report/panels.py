"""What figures of curves are made of: a panel a setting, one legend, the numbers at the end."""

from collections.abc import Callable, Sequence
from functools import partial

from gensmooth.report.axes import View, draw_curves, plain
from gensmooth.report.curves import Curve, Setting, number_of_runs
from gensmooth.report.sheets import (
    BAND_ITEM,
    LEMMA_ITEM,
    PREDICTED_ITEM,
    LegendItem,
    Panel,
    method_item,
)
from gensmooth.report.style import method_order, method_title
from gensmooth.studies.spec import Table


def panel(
    found: Sequence[Curve], setting: Setting, view: View, words: Callable[[Setting], str]
) -> Panel:
    """The panel of a setting; it says so where there is nothing to draw."""
    here = [curve for curve in found if curve.setting == setting]
    ends = "; ".join(
        f"{method_title(c.method)} {plain(float(f'{c.bands[view.series].mean[-1]:.3g}'))}"
        for c in here
        if view.series in c.bands
    )
    return Panel(
        title=words(setting),
        note=number_of_runs(here),
        text=f"{view.ylabel} against {view.xlabel}, {words(setting)}. "
        + (f"At the end: {ends}." if ends else "No finite run."),
        draw=partial(draw_curves, found=here, view=view),
    )


def legend(found: Sequence[Curve], *, theory: bool = False) -> list[LegendItem]:
    """The methods that have a curve, the band, and theory where it is drawn."""
    methods = sorted({curve.method for curve in found if curve.n}, key=method_order)
    items = [method_item(name) for name in methods]
    many = any(curve.n > 1 for curve in found)
    return [
        *items,
        *([BAND_ITEM] if many else []),
        *([PREDICTED_ITEM, LEMMA_ITEM] if theory else []),
    ]


def means(found: Sequence[Curve]) -> str:
    """What lines and bands are, for a caption."""
    return (
        f"Lines are means over seeds ({number_of_runs(found)}), bands one standard deviation of "
        "the seeds to either side, computed at each round; on a logarithmic axis a band that "
        "reaches below the axis is cut there. Markers are staggered, so that methods whose curves "
        "coincide can be told apart."
    )


def last(found: Sequence[Curve], series: str, name: str, words: Callable[[Setting], str]) -> Table:
    """Mean ± deviation at the last round, settings by methods."""
    methods = sorted({curve.method for curve in found}, key=method_order)
    cells: dict[tuple[Setting, str], str] = {}
    for curve in found:
        if series in curve.bands:
            band = curve.bands[series]
            text = f"{band.mean[-1]:.4g}"
            if band.n[-1] > 1:
                text += f" ± {band.sd[-1]:.2g}"
            cells[curve.setting, curve.method] = text
        else:
            cells[curve.setting, curve.method] = "diverged"
    settings = dict.fromkeys(curve.setting for curve in found)
    return Table(
        name=f"{name}-last",
        title="At the last round",
        columns=["Setting", *(method_title(method) for method in methods)],
        rows=[[words(s), *(cells.get((s, m), "") for m in methods)] for s in settings],
        note="Mean ± one standard deviation over seeds.",
    )
