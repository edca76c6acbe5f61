"""Charts and key figures on a page: all of them shown the same way.

A page shows its key figures right under its title, before the chart::

    figures.key_figures(
        [
            KeyFigure(
                label="Max deviation", value="+122%", note="target ±20%", status="bad", trend=points
            ),
            KeyFigure(label="Bundles", value="71", note="mean 50"),
        ],
        key="broker_figures",
    )

and every chart by :func:`chart` with the sentence that says what it shows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
import streamlit as st
from streamlit.elements.lib.streamlit_plotly_theme import configure_streamlit_plotly_theme

from dashboard.charts.readable import readable
from dashboard.charts.template import ACCENT, CONFIG, TOOLBAR_FROM_PX, TOOLBAR_PX, picture_address
from dashboard.components import words
from dashboard.presenters.figures import KeyFigure, Status
from dashboard.presenters.guides import meaning

__all__ = ["KeyFigure", "Status", "chart", "key_figures", "plot"]

_USED_TRACES: Final = ("heatmap", "scatter")
_USED_LAYOUT: Final = ("colorway", "colorscale", "coloraxis")


def _slim_template() -> None:
    """Reduce Streamlit's template to the used parts: every chart carries a copy of it."""
    configure_streamlit_plotly_theme()
    whole = pio.templates["streamlit"]
    pio.templates["trimtab"] = go.layout.Template(
        data={name: whole.data[name] for name in _USED_TRACES},
        layout={name: whole.layout[name] for name in _USED_LAYOUT},
    )
    pio.templates.default = "trimtab"


_slim_template()

_SIGNS: Final[dict[Status, str]] = {"ok": "● ", "warning": "▲ ", "bad": "✖ ", "unknown": "? "}
_COLORS: Final[dict[Status, Any]] = {"ok": "green", "warning": "orange", "bad": "red"}
_TREND_PX: Final = (42, 18)


def key_figures(figures: Sequence[KeyFigure], *, key: str) -> None:
    """Show the row of key figures of a page; it wraps where the window is narrow.

    Args:
        figures: At most seven.
        key: Unique on the page; values change in place.
    """
    names = [f"figure_{one.status or 'plain'}_{key}_{at}" for at, one in enumerate(figures)]
    rules = [
        f"{_class_of(name)} [data-testid='stMetric'] {{ background-image: url(\"{picture}\"); }}"
        for name, one in zip(names, figures, strict=True)
        if (picture := _sparkline(one.trend))
    ]
    if rules:
        st.html(f"<style>{' '.join(rules)}</style>")
    with st.container(horizontal=True, gap="small", key=f"figures_{key}"):
        for name, one in zip(names, figures, strict=True):
            with st.container(key=name):
                st.metric(
                    words.plain(one.label),
                    words.plain(one.value),
                    words.plain(_SIGNS.get(one.status, "") + one.note) or None,
                    delta_color=_COLORS.get(one.status, "gray"),
                    delta_arrow="off",
                    help=words.plain(one.help or meaning(one.label)) or None,
                    border=True,
                )


def _class_of(key: str) -> str:
    """Return the selector of Streamlit's element with a key."""
    return "." + re.sub(r"[^a-zA-Z0-9_-]", "-", f"st-key-{key}")


def _sparkline(trend: Sequence[float]) -> str:
    """Return the picture of a trend, empty without one; the value is next to it.

    Sparklines of Streamlit's own are charts of Vega: each visit of a page waits for them.
    """
    wide, high = _TREND_PX
    values = np.asarray(list(trend)[-wide:], dtype=float)
    values = values[np.isfinite(values)]
    if len(values) < 2:  # a line has two ends
        return ""
    low, spread = values.min(), np.ptp(values)
    heights = (values - low) / spread if spread else np.full(len(values), 0.5)
    across = np.linspace(1, wide - 1, len(values))
    points = " ".join(
        f"{x:.1f},{y:.1f}" for x, y in zip(across, high - 2 - heights * (high - 4), strict=True)
    )
    return picture_address(
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{wide}' "
        f"height='{high}'><polyline points='{points}' fill='none' stroke='{ACCENT}' "
        "stroke-width='1.5' stroke-linejoin='round'/></svg>"
    )


def chart(figure: go.Figure, *, key: str, alt: str) -> None:
    """Show a chart; ``alt`` says its takeaway in one plain sentence."""
    plot(figure, key=key, alt=alt)


def config_of(figure: go.Figure) -> dict[str, Any]:
    """Return what a chart is shown with; a low one has no toolbar."""
    return CONFIG if _has_toolbar(figure) else CONFIG | {"displayModeBar": False}


def _has_toolbar(figure: go.Figure) -> bool:
    height = figure.layout.height
    return height is None or height >= TOOLBAR_FROM_PX


def plot(figure: go.Figure, *, key: str, **options: Any) -> Any:
    """Show a chart as ``st.plotly_chart`` does, with the names of others made legible.

    The browser draws a chart with other values again: its place is held meanwhile, so that nothing
    below it jumps.
    """
    with st.container(key=f"place_{key}"):
        if height := figure.layout.height:
            place = _class_of(f"place_{key}")
            height += TOOLBAR_PX if _has_toolbar(figure) else 0
            st.html(f"<style>{place} {{ min-height: {height}px; }}</style>")
        return st.plotly_chart(
            readable(figure),
            config=config_of(figure),
            theme="streamlit",
            key=key,
            **options,
        )
