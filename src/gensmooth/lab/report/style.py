"""The style of all figures: a colour, dash and marker per method, and Matplotlib's options.

The colours of the paper's six methods are close to Okabe and Ito's, which people with any of the
three kinds of colour blindness can distinguish. Each has a counterpart for dark pages. Dashes and
markers distinguish the methods in grey, and those that we added.
"""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from gensmooth.directions import METHODS

# Figures are drawn in the light colours; `figure.inline` turns each into a CSS variable, so a
# colour must have one meaning only.
INK, MUTED, GRID = "#22262b", "#5f6670", "#dfe2e6"

# Inches. A panel is as wide as a phone's column, so that its text has the same size everywhere.
PANEL = (3.6, 2.55)
SWATCH = (0.46, 0.17)


class MethodStyle(NamedTuple):
    """How a method is drawn.

    Attributes:
        color: On white.
        dark: On a dark page.
        dash: Matplotlib's on-off lengths in units of the line width; ``()`` is solid.
        marker: Matplotlib's marker.
    """

    color: str
    dark: str
    dash: tuple[float, ...]
    marker: str


_STYLES = {
    "gs": MethodStyle("#30343a", "#e4e7eb", (), "o"),
    "bes": MethodStyle("#0072b2", "#4f9df0", (5, 1.6), "s"),
    "gs-shrinkage": MethodStyle("#c44a10", "#f57c35", (7, 1.6, 1.6, 1.6), "^"),
    "bes-shrinkage": MethodStyle("#009e73", "#2fd3a0", (2.6, 1.4), "D"),
    "orthogonal-es": MethodStyle("#cc79a7", "#e07cb8", (9, 2.4), "v"),
    "guided-es": MethodStyle("#bfa000", "#f5dc5a", (5, 1.6, 1.4, 1.6, 1.4, 1.6), "P"),
    "sphere": MethodStyle("#7a828c", "#a2abb7", (12, 2), "<"),
    "orthogonal": MethodStyle("#5b4bb5", "#ab9dff", (4, 3), ">"),
    "orthogonal-bes": MethodStyle("#00869c", "#55d0e6", (9, 2, 3, 2), "p"),
    "sphere-shrinkage": MethodStyle("#8c4a2f", "#d39c83", (3, 1, 1, 1), "h"),
    "orthogonal-shrinkage": MethodStyle("#c2304a", "#ff8093", (6, 1, 1, 1, 1, 1), "X"),
    "orthogonal-bes-shrinkage": MethodStyle("#5f8a00", "#abd14c", (1.6, 1), "*"),
    "pilot": MethodStyle("#d1001f", "#ff6b66", (), "H"),
}
_TITLES = {"pilot": "Pilot"}  # of names that are not among METHODS
_UNKNOWN = MethodStyle("#6d6a75", "#b9b4c4", (3, 3), "d")
_ALSO = {"auto": "pilot"}  # aliases
# For names without a style, if several of them are drawn together.
_SPARE = (
    MethodStyle("#a6611a", "#e0a868", (), "s"),
    MethodStyle("#1b6ca8", "#7cbcea", (), "^"),
    MethodStyle("#4d7d1c", "#9bd35a", (), "D"),
    MethodStyle("#8e3b8a", "#d68ad2", (), "v"),
    MethodStyle("#00777a", "#4fcfd2", (), "<"),
    MethodStyle("#b03060", "#f083a8", (), ">"),
    MethodStyle("#5a5f00", "#c3c94a", (), "p"),
    MethodStyle("#3d4fb8", "#94a2f5", (), "h"),
    MethodStyle("#7d5a44", "#c9a68f", (), "X"),
    MethodStyle("#336b52", "#7fc2a4", (), "*"),
)


_DASHES = ((), (4, 2), (1.5, 1.5), (7, 2, 1.5, 2))


def method_style(name: str) -> MethodStyle:
    """Return the style of a method; an unknown method is grey."""
    return _STYLES.get(name, _UNKNOWN)


def assign_styles(names: Sequence[str]) -> dict[str, MethodStyle]:
    """Return a style for each name: its own or, in turn, a spare colour and dash.

    >>> styles = assign_styles(["gs", "gs(spacing=1.0)", "gs(spacing=2.0)"])
    >>> styles["gs"] == method_style("gs"), len({style.color for style in styles.values()})
    (True, 3)
    """
    styles: dict[str, MethodStyle] = {}
    spare = 0
    for name in names:
        known = _STYLES.get(_ALSO.get(name, name))
        if known is not None:
            styles[name] = known
            continue
        turn, which = divmod(spare, len(_SPARE))
        styles[name] = _SPARE[which]._replace(dash=_DASHES[turn % len(_DASHES)])
        spare += 1
    return styles


def method_title(name: str) -> str:
    """Return the title of a method."""
    return METHODS[name].title if name in METHODS else _TITLES.get(name, name)


def method_order(name: str) -> tuple[int, str]:
    """Return a sort key for the order of :data:`~gensmooth.directions.METHODS`."""
    return (list(METHODS).index(name) if name in METHODS else len(METHODS), name)


def css_variables() -> dict[str, tuple[str, str, str]]:
    """Return the CSS variable of each colour, with its light and dark values."""
    neutral = {
        INK: ("--ink", INK, "#e9ebee"),
        MUTED: ("--muted", MUTED, "#a4abb5"),
        GRID: ("--grid", GRID, "#343a42"),
    }
    spares = {f"spare-{i}": style for i, style in enumerate(_SPARE)}
    methods = {
        style.color: (f"--m-{name}", style.color, style.dark)
        for name, style in {**_STYLES, "unknown": _UNKNOWN, **spares}.items()
    }
    return neutral | methods


@contextmanager
def drawing() -> Generator[None]:
    """Set Matplotlib's options while figures are drawn and saved, and restore them."""
    import matplotlib as mpl

    settings: dict[str, Any] = {
        "font.family": ["sans-serif"],
        "font.size": 8.5,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": MUTED,
        "axes.linewidth": 0.6,
        "axes.titlesize": 9,
        "axes.titlecolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "text.color": INK,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.major.size": 2.5,
        "ytick.major.size": 0,
        "xtick.minor.size": 0,
        "ytick.minor.size": 0,
        "legend.frameon": False,
        "lines.dash_capstyle": "butt",
        "path.simplify": False,
        "svg.fonttype": "none",
        "text.parse_math": False,  # a label is text: "$x_{$" is not a formula
        "svg.hashsalt": "gensmooth",
        "savefig.dpi": 160,
    }
    # Start from Matplotlib's defaults and not from a user's file, so that figures are the same
    # everywhere. The backend is not touched, because reading or setting it would load one.
    defaults = {
        key: mpl.rcParamsDefault[key] for key in mpl.rcParamsDefault if "backend" not in key
    }
    with mpl.rc_context(cast("Any", defaults | settings)):
        yield
