"""Charts of the advisors of ledgers, disks, compaction and retention."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core.planning.advisors.disks import DiskPicture
from core.planning.advisors.retention import Phase
from dashboard.charts.template import ACCENT, FAINT, FAR, LINE, NEAR, NEUTRAL, SERIES, styled

Floats = NDArray[np.float64]

_HEIGHT_PX = 260
_MOST_TICKS = 7
_STEPS = (
    *(1 / 60, 5 / 60, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 180.0, 360.0, 720.0),
    *(1440.0 * days for days in (1, 2, 5, 10, 30, 60, 90, 180, 365)),
)
_UNITS = ((1440.0, "d"), (60.0, "h"), (1.0, "min"), (0.0, "s"))
_COLORS = {"backlog": SERIES[1], "kept": SERIES[0], "waits for deletion": SERIES[7]}


@dataclass(frozen=True, eq=False, kw_only=True)
class Filling:
    """How full a ledger becomes.

    Attributes:
        minutes: Of its age.
        shares: Bound to the share of it that is reached, percent.
        least_minutes: Before that it is not closed.
        ends_at: When it is.
        now: Its age.
    """

    minutes: Floats
    shares: Mapping[str, Floats]
    least_minutes: float
    ends_at: float
    now: float


@dataclass(frozen=True, eq=False, kw_only=True)
class CompactionCurve:
    """Dead data of a log by its share of live data.

    Attributes:
        live: Percent.
        dead: Percent of the log that is dead.
        wait_s: How long that stays at the most; NaN: for good.
        thresholds: Minor and major, percent.
        asked: The share that is looked at, percent.
    """

    live: Floats
    dead: Floats
    wait_s: Floats
    thresholds: tuple[float, float]
    asked: float


def span(minutes: float) -> str:
    """Return minutes for people.

    Example:
        >>> span(0.5), span(90), span(1440 * 3)
        ('30 s', '90 min', '3.0 d')
    """
    if minutes < 1:
        return f"{minutes * 60:.0f} s"
    if minutes < 180:
        return f"{minutes:,.0f} min"
    return f"{minutes / 60:,.1f} h" if minutes < 2880 else f"{minutes / 1440:,.1f} d"


def filling_lines(data: Filling) -> go.Figure:
    """Return how full each bound of a ledger is by its age, and where it is closed."""
    figure = go.Figure()
    for rank, (name, shares) in enumerate(data.shares.items()):
        figure.add_trace(
            go.Scatter(
                x=data.minutes,
                y=shares,
                mode="lines",
                name=name,
                line={"color": SERIES[rank], "width": 2, "dash": ("solid", "dash", "dot")[rank]},
                hovertemplate="after %{x:,.1f} min<br><b>%{y:.0f} %</b> of its bound<extra>"
                + name
                + "</extra>",
            )
        )
    styled(figure, height=_HEIGHT_PX + 10, legend=True)
    figure.add_hline(y=100, line={"color": LINE, "width": 1.2})
    figure.add_vrect(x0=0, x1=data.least_minutes, fillcolor=FAINT, line_width=0, layer="below")
    figure.add_vline(
        x=data.ends_at,
        line={"color": FAR, "width": 1.6},
        annotation={"text": "closed", "font": {"size": 11}},
        annotation_position="top left",
    )
    if data.now:
        figure.add_vline(x=data.now, line={"color": NEUTRAL, "width": 1.4, "dash": "dot"})
    top = max(float(np.max(shares)) for shares in data.shares.values())
    figure.update_xaxes(ticksuffix=" min", title_text="age of the ledger", rangemode="tozero")
    figure.update_yaxes(
        range=[0, max(130.0, min(top, 600.0))], ticksuffix=" %", title_text="of the bound"
    )
    return figure


def disk_bars(data: DiskPicture) -> go.Figure:
    """Return what each directory of a bookie gets from one round of ledgers."""
    names = [f"directory {number}" for number in range(data.uneven.size_bytes.size)]
    gigabytes = data.uneven.size_bytes / 1e9
    figure = go.Figure(
        go.Bar(
            x=names,
            y=gigabytes,
            name="with the present topics",
            marker_color=ACCENT,
            customdata=data.uneven.ledgers,
            hovertemplate="%{x}<br><b>%{y:.2f} GB</b>, %{customdata:,} ledgers<extra></extra>",
        )
    )
    styled(figure, height=_HEIGHT_PX)
    figure.add_hline(
        y=float(gigabytes.mean()),
        line={"color": LINE, "width": 1.4, "dash": "dot"},
        annotation={"text": "all alike", "font": {"size": 11}},
    )
    figure.update_xaxes(type="category", showticklabels=len(names) <= 16)
    figure.update_yaxes(ticksuffix=" GB", rangemode="tozero")
    return figure


def compaction_line(data: CompactionCurve) -> go.Figure:
    """Return the dead share of a log by its live share, and which compaction takes it."""
    minor, major = data.thresholds
    figure = go.Figure()
    parts = (
        ("minor compaction", 0.0, minor, ACCENT),
        ("major compaction", minor, major, NEAR),
        ("stays for good", major, 100.0, FAR),
    )
    for name, low, high, color in parts:
        rows = (data.live >= low) & (data.live <= high)
        if not rows.any():
            continue
        figure.add_trace(
            go.Scatter(
                x=data.live[rows],
                y=data.dead[rows],
                mode="lines",
                fill="tozeroy",
                name=name,
                line={"color": color, "width": 1.6},
                hovertemplate="%{x:.0f} % live, <b>%{y:.0f} %</b> dead<extra>" + name + "</extra>",
            )
        )
    styled(figure, height=_HEIGHT_PX, legend=True)
    figure.add_vline(x=data.asked, line={"color": LINE, "width": 1.6})
    figure.update_xaxes(ticksuffix=" %", range=[0, 100], title_text="live data in an entry log")
    figure.update_yaxes(ticksuffix=" %", range=[0, 100], title_text="dead data in it")
    return figure


def life_bars(phases: Sequence[Phase]) -> go.Figure:
    """Return the phases of a message's life on a time line; one without end runs off the chart."""
    ends = [one.ends for one in phases if one.ends is not None]
    end = max(ends, default=60.0) or 1.0
    shown_end = end if phases[-1].ends is not None else max(end * 1.5, 60.0)
    figure = go.Figure()
    for one in phases:
        until = shown_end if one.ends is None else one.ends
        text = "without end" if one.ends is None else span(until - one.begins)
        figure.add_trace(
            go.Bar(
                x=[until - one.begins],
                base=[one.begins],
                y=["a message"],
                orientation="h",
                name=one.name,
                marker={"color": _COLORS[one.name], "line": {"width": 1, "color": LINE}},
                text=[text],
                textposition="inside",
                insidetextanchor="middle",
                insidetextfont={"color": "#101820"},
                hovertemplate=f"<b>{one.name}</b>, {text}<br>{one.why}<extra></extra>",
            )
        )
    styled(figure, height=130, legend=True)
    figure.update_layout(barmode="overlay", bargap=0.3)
    ticks = plain_ticks(shown_end)
    figure.update_xaxes(range=[0, shown_end], tickvals=list(ticks), ticktext=list(ticks.values()))
    figure.update_yaxes(visible=False)
    return figure


def plain_ticks(end: float) -> dict[float, str]:
    """Return moments that are whole in one unit, in minutes, as few as a narrow chart holds.

    Example:
        >>> plain_ticks(247.0)
        {0.0: '0', 60.0: '1 h', 120.0: '2 h', 180.0: '3 h', 240.0: '4 h'}
    """
    step = next((one for one in _STEPS if end / one <= _MOST_TICKS), 0.0)
    if not step:  # years
        step = _STEPS[-1] * math.ceil(end / _STEPS[-1] / _MOST_TICKS)
    size, name = next((size or 1 / 60, name) for size, name in _UNITS if step >= size)
    ticks = [number * step for number in range(1, int(end / step + 1e-9) + 1)]
    return {0.0: "0", **{tick: f"{tick / size:,.0f} {name}" for tick in ticks}}
