"""The one look of every chart, for light and dark alike.

Grounds are transparent and text, grid and series colours are left to the page's theme, so a chart
follows the theme without being drawn again. Colours named here mean something and are mid tones
that read on both grounds; none of them is ever the only sign of what it means.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

import plotly.graph_objects as go
import plotly.io as pio

from core.units import format_band

NEUTRAL: Final = "rgba(128, 140, 150, 0.55)"
FAINT: Final = "rgba(128, 140, 150, 0.16)"
LINE: Final = "rgba(128, 140, 150, 0.75)"
ACCENT: Final = "#2b8aa3"
WITHIN: Final = "#2b8aa3"
NEAR: Final = "#c99a2e"
FAR: Final = "#cf5a2b"
UNKNOWN: Final = "rgba(128, 140, 150, 0.25)"

SERIES: Final = (
    "#2b8aa3",
    "#d98a35",
    "#74a653",
    "#9677c4",
    "#c8659a",
    "#a89a2e",
    "#5aa0dc",
    "#8c98a1",
)
"""Eight colours that stay apart for colour-blind eyes; the last is for everything else."""

FONT_PX: Final = 12

TOOLBAR_PX: Final = 14
"""Below a chart: with the gap to the next element, the row in which its toolbar appears."""

TOOLBAR_FROM_PX: Final = 126
"""A chart that is lower, without that row, has no toolbar."""

_LEGEND_PX: Final = 26
_NAMES_PX: Final = 20
"""Above a plot without a legend: for the names of lines and panels."""

_LOOK: Final = {
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"size": FONT_PX},
    "hoverlabel": {"font": {"size": FONT_PX}, "align": "left"},
    "dragmode": False,
    "bargap": 0.25,
    "modebar": {"bgcolor": "rgba(0,0,0,0)"},
}
_LEGEND: Final = {
    "orientation": "h",
    "x": 0,
    "xanchor": "left",
    "y": 1.0,
    "yanchor": "bottom",
    "font": {"size": FONT_PX},
}


def styled(figure: go.Figure, *, height: int, legend: bool = False) -> go.Figure:
    """Apply the house style to ``figure`` in place, and return it.

    Args:
        figure: Any figure.
        height: Pixels, with the row of the toolbar.
        legend: Whether to show a legend, above the plot, left.
    """
    is_low = height < TOOLBAR_FROM_PX + TOOLBAR_PX
    top = _LEGEND_PX if legend else 8 if is_low else _NAMES_PX
    layout = figure.layout.to_plotly_json()
    axes = {name for name in layout if name.startswith(("xaxis", "yaxis"))} | {"xaxis", "yaxis"}
    # the layout is set at once: plotly's update functions take five times as long
    figure.layout = {
        **layout,
        **_LOOK,
        **{name: _axis(layout.get(name, {})) for name in axes},
        "template": pio.templates.default,
        "height": min(height, TOOLBAR_FROM_PX - 1) if is_low else height - TOOLBAR_PX,
        "margin": {"l": 8, "r": 8, "t": top, "b": 8, "pad": 2},
        "showlegend": legend,
        "legend": {**layout.get("legend", {}), **_LEGEND},
    }
    return figure


def _axis(axis: dict[str, Any]) -> dict[str, Any]:
    """Return an axis with the house look; what it says of itself beyond that stays."""
    font = {"size": 11}
    return {
        **axis,
        "zeroline": False,
        "automargin": True,
        "tickfont": {**axis.get("tickfont", {}), **font},
        "title": {"standoff": 6, **axis.get("title", {}), "font": font},
    }


def picture_address(svg: str) -> str:
    """Return an SVG as an address that a cell or a style shows."""
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


def band_color(deviation_ratio: float, tolerance_ratio: float) -> str:
    """Return the colour of a deviation from the mean: within its band, outside, twice as far.

    Args:
        deviation_ratio: To either side.
        tolerance_ratio: Half width of the target band.
    """
    size = abs(deviation_ratio)
    if size <= tolerance_ratio:
        return WITHIN
    return NEAR if size <= 2 * tolerance_ratio else FAR


def band_legend(tolerance_ratio: float) -> dict[str, str]:
    """Return the meaning of each colour of :func:`band_color`."""
    band, double = format_band(tolerance_ratio), format_band(2 * tolerance_ratio)
    return {WITHIN: f"within {band}", NEAR: f"outside {band}", FAR: f"outside {double}"}


CONFIG: Final = {
    "displaylogo": False,
    "displayModeBar": "hover",
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
    "responsive": True,
}
"""What every chart is shown with."""
