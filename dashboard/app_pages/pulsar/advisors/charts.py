"""Figures of the advisors: bundles, lookups, partitions, stalls, ledgers, disks, retention."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core.planning.advisors.bundle_count import BundleCount
from core.planning.advisors.disks import DiskPicture
from core.planning.advisors.partitions import CountAdvice
from core.planning.advisors.retention import Phase
from core.planning.advisors.stalls import RoutedStall
from dashboard.charts.once import drawn_once
from dashboard.charts.template import (
    ACCENT,
    FAINT,
    FAR,
    LINE,
    NEAR,
    NEUTRAL,
    SERIES,
    UNKNOWN,
    styled,
)

# -- bundles, lookups, partitions, producers -------------------------------------------------------

Floats = NDArray[np.float64]

_HEIGHT_PX = 270
_PERCENT = 100
_BUNDLE_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
MAX_TALLY = 12


@dataclass(frozen=True, eq=False, kw_only=True)
class Tally:
    """Numbers of bundles by partition count.

    Attributes:
        held: 0, 1, 2 ...
        bundles: By these hashes.
        random: Expected for random names.
        after: After the cuts; empty: there are none.
    """

    held: Sequence[int]
    bundles: Sequence[int]
    random: Floats
    after: Sequence[int] = ()


@drawn_once
def count_lines(
    tried: Sequence[BundleCount], *, within: float, required: int, present: int
) -> go.Figure:
    """Return the lowest possible excess of the busiest broker over the mean, by bundle count."""
    at = [one.bundles for one in tried]
    figure = go.Figure(
        go.Scatter(
            x=at,
            y=[one.reachable_ratio * _PERCENT for one in tried],
            mode="lines+markers",
            name="busiest broker",
            line={"color": ACCENT, "width": 2},
            customdata=[one.per_broker for one in tried],
            hovertemplate="<b>%{x} bundles</b>, %{customdata:.1f} per broker<br>"
            "%{y:.1f}% above the mean<extra></extra>",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=at,
            y=[one.step_ratio * _PERCENT for one in tried],
            mode="lines",
            name="change per bundle move",
            line={"color": SERIES[1], "width": 1.4, "dash": "dash"},
            hovertemplate="<b>%{x} bundles</b><br>a move changes %{y:.1f}% of a broker"
            "<extra></extra>",
        )
    )
    styled(figure, height=_HEIGHT_PX + 20, legend=True)
    figure.add_hline(y=within * _PERCENT, line={"color": LINE, "width": 1, "dash": "dot"})
    for place, color, text in ((required, ACCENT, "required"), (present, NEUTRAL, "current")):
        if place:
            figure.add_vline(x=place, line={"color": color, "width": 1.5})
            figure.add_annotation(
                x=np.log10(place),  # annotations of a log axis are placed by the logarithm
                y=0.9 if text == "current" else 1.0,  # below the other one, which may be near
                yref="paper",
                yanchor="top",
                xanchor="right" if text == "current" else "left",
                text=f"{text}: {place}",
                font={"size": 11},
                showarrow=False,
            )
    figure.update_xaxes(
        type="log",
        tickvals=_BUNDLE_TICKS,
        ticktext=list(map(str, _BUNDLE_TICKS)),
        title_text="bundles",
    )
    top = max(1.5 * within * _PERCENT, min(200.0, _PERCENT * tried[0].reachable_ratio))
    figure.update_yaxes(range=[0, top * 1.05], ticksuffix="%", title_text="above the mean")
    return figure


@drawn_once
def tally_bars(data: Tally) -> go.Figure:
    """Return the number of bundles by partition count: now, for random names, after the splits."""
    held = list(data.held)[: MAX_TALLY + 1]
    figure = go.Figure()
    for values, name, color in (
        (data.bundles, "this topic", ACCENT),
        (data.after, "after splits", SERIES[1]),
    ):
        if len(values):
            figure.add_trace(
                go.Bar(
                    x=held,
                    y=list(values)[: len(held)],
                    name=name,
                    marker_color=color,
                    text=[f"{value:,}" if value else "" for value in list(values)[: len(held)]],
                    textposition="outside",
                    cliponaxis=False,
                    hovertemplate="%{y:,} bundles with %{x}<extra>" + name + "</extra>",
                )
            )
    figure.add_trace(
        go.Scatter(
            x=held,
            y=data.random[: len(held)],
            mode="markers",
            name="random names, expected",
            marker={"symbol": "line-ew-open", "size": 22, "color": LINE, "line": {"width": 2.5}},
            hovertemplate="%{y:.1f} bundles with %{x}<extra>random names</extra>",
        )
    )
    styled(figure, height=_HEIGHT_PX, legend=True)
    figure.update_xaxes(dtick=1, title_text="partitions per bundle")
    figure.update_yaxes(rangemode="tozero", title_text="bundles", tickformat=",d")
    return figure


@drawn_once
def curve_lines(curve: Sequence[CountAdvice], *, partitions: int) -> go.Figure:
    """Return the share of the traffic in the fullest bundle, by number of partitions."""
    at = [one.partitions for one in curve]
    bundles = round(curve[0].unevenness / curve[0].bundle_share)
    figure = go.Figure()
    lines = (
        ("this topic", [one.bundle_share for one in curve], ACCENT, "solid"),
        ("random names", [one.expected_worst / one.partitions for one in curve], LINE, "dash"),
        ("evenly", [max(1 / one.partitions, 1 / bundles) for one in curve], NEAR, "dot"),
    )
    for name, shares, color, dash in lines:
        figure.add_trace(
            go.Scatter(
                x=at,
                y=np.array(shares) * _PERCENT,
                mode="lines",
                name=name,
                line={"color": color, "width": 2 if dash == "solid" else 1.5, "dash": dash},
                customdata=[
                    one.worst if name == "this topic" else one.expected_worst for one in curve
                ],
                hovertemplate="<b>%{x} partitions</b><br>fullest bundle: %{y:.1f}% of the traffic"
                + ("<br>%{customdata:.3g} partitions" if name != "evenly" else "")
                + f"<extra>{name}</extra>",
            )
        )
    styled(figure, height=_HEIGHT_PX, legend=True)
    figure.add_vline(x=partitions, line={"color": FAR, "width": 1.2, "dash": "dot"})
    figure.update_xaxes(type="log", title_text="partitions", dtick="D2")
    figure.update_yaxes(
        type="log", ticksuffix="%", title_text="traffic in the fullest bundle", dtick="D2"
    )
    return figure


def by_crowding(ring: go.Figure) -> go.Figure:
    """Colour the bundles of a ring by their partitions, the same before and after, in a copy."""
    ring = go.Figure(ring)
    for trace in ring.data:
        if trace.type == "barpolar":
            trace.marker.color = {"none": UNKNOWN, "within": ACCENT}.get(trace.name, FAR)
    return ring


@drawn_once
def bundle_count_bars(counts: Sequence[tuple[int, int, float]], *, bundles: int) -> go.Figure:
    """Return the partitions in the fullest of so many even bundles."""
    names = [f"{count:,}" for count, _, _ in counts]
    figure = go.Figure(
        go.Bar(
            x=names,
            y=[worst for _, worst, _ in counts],
            name="this topic",
            marker_color=[ACCENT if count == bundles else NEUTRAL for count, _, _ in counts],
            text=[str(worst) for _, worst, _ in counts],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{x} even bundles<br><b>%{y}</b> in the fullest<extra></extra>",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=names,
            y=[expected for _, _, expected in counts],
            mode="markers",
            name="random names, expected",
            marker={"symbol": "line-ew-open", "size": 18, "color": LINE, "line": {"width": 2.5}},
            hovertemplate="%{y:.1f} expected<extra>random names</extra>",
        )
    )
    styled(figure, height=_HEIGHT_PX - 20, legend=True)
    figure.update_xaxes(type="category", title_text="even bundles")
    figure.update_yaxes(rangemode="tozero", title_text="fullest bundle")
    return figure


@drawn_once
def stall_lines(
    lines: Sequence[tuple[str, Sequence[RoutedStall]]], *, partitions: int, timeout_s: float
) -> go.Figure:
    """Return the time until a bad broker blocks a producer, by partition count and routing."""
    figure = go.Figure()
    for rank, (name, found) in enumerate(lines):
        figure.add_trace(
            go.Scatter(
                x=[one.partitions for one in found],
                y=[one.stall.blocked_after_s for one in found],
                mode="lines",
                name=name,
                line={"color": SERIES[rank], "width": 2, "dash": "solid" if rank == 0 else "dash"},
                customdata=[
                    [one.silent, f"{one.queue:,}" if one.queue else "no limit", 100 * one.hit_ratio]
                    for one in found
                ],
                hovertemplate="<b>%{x} partitions</b>, %{customdata[0]} on the bad "
                "broker<br>blocked after "
                "%{y:.3g} s<br>queue: %{customdata[1]}<br>%{customdata[2]:.1f}% of "
                "producers<extra>" + name + "</extra>",
            )
        )
    styled(figure, height=_HEIGHT_PX + 10, legend=True)
    figure.add_vline(x=partitions, line={"color": FAR, "width": 1.2, "dash": "dot"})
    if timeout_s:
        counts = [one.partitions for one in lines[0][1]]
        figure.add_trace(
            go.Scatter(
                x=[counts[0], counts[-1]],
                y=[timeout_s, timeout_s],
                mode="lines",
                name="sendTimeout",
                line={"color": LINE, "width": 1.2, "dash": "dot"},
                hovertemplate="messages fail after %{y:g} s<extra>sendTimeout</extra>",
            )
        )
    figure.update_xaxes(type="log", title_text="partitions", dtick="D2")
    figure.update_yaxes(type="log", ticksuffix=" s", title_text="time to block")
    return figure


@drawn_once
def pressure_bars(clients: Floats, *, pace_per_min: float) -> go.Figure:
    """Return lookups over time: all at once at the start, or bundle after bundle.

    Args:
        clients: Of each bundle, in ring order; NaN unknown.
        pace_per_min: Bundles a minute.
    """
    known = np.nan_to_num(clients)
    minutes = np.arange(known.size) / pace_per_min
    whole = float(known.sum())
    figure = go.Figure(
        go.Bar(
            x=minutes,
            y=known,
            width=0.8 / pace_per_min,
            name="bundle by bundle",
            marker_color=ACCENT,
            hovertemplate="after %{x:.1f} min<br><b>%{y:,.0f}</b> client lookups<extra></extra>",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=[0],
            y=[whole],
            mode="markers+text",
            name="whole namespace at once",
            marker={"color": FAR, "size": 12, "symbol": "diamond"},
            text=[f"  {whole:,.0f} at once"],
            textposition="middle right",
            hovertemplate="<b>%{y:,.0f}</b> client lookups at once<extra></extra>",
        )
    )
    styled(figure, height=_HEIGHT_PX, legend=True)
    figure.add_hrect(y0=0, y1=float(known.max(initial=0.0)), fillcolor=FAINT, line_width=0)
    figure.update_xaxes(ticksuffix=" min", title_text="since the start")
    figure.update_yaxes(rangemode="tozero", title_text="client lookups", tickformat=",d")
    return figure


# -- ledgers, disks, retention ---------------------------------------------------------------------

_STORAGE_HEIGHT_PX = 260
_MOST_TICKS = 7
_STEPS = (
    *(1 / 60, 5 / 60, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 180.0, 360.0, 720.0),
    *(1440.0 * days for days in (1, 2, 5, 10, 30, 60, 90, 180, 365)),
)
_UNITS = ((1440.0, "d"), (60.0, "h"), (1.0, "min"), (0.0, "s"))
_COLORS = {"backlog": SERIES[1], "kept": SERIES[0], "waits for deletion": SERIES[7]}


@dataclass(frozen=True, eq=False, kw_only=True)
class Filling:
    """Fill level of a ledger over time.

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
        marked: The share that is looked at, percent.
    """

    live: Floats
    dead: Floats
    wait_s: Floats
    thresholds: tuple[float, float]
    marked: float


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


@drawn_once
def filling_lines(data: Filling) -> go.Figure:
    """Return the fill level of each bound of a ledger by its age, with the time of closing."""
    figure = go.Figure()
    for rank, (name, shares) in enumerate(data.shares.items()):
        figure.add_trace(
            go.Scatter(
                x=data.minutes,
                y=shares,
                mode="lines",
                name=name,
                line={"color": SERIES[rank], "width": 2, "dash": ("solid", "dash", "dot")[rank]},
                hovertemplate="after %{x:,.1f} min<br><b>%{y:.1f}%</b> of the bound<extra>"
                + name
                + "</extra>",
            )
        )
    styled(figure, height=_STORAGE_HEIGHT_PX + 10, legend=True)
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
        range=[0, max(130.0, min(top, 600.0))], ticksuffix="%", title_text="of the bound"
    )
    return figure


@drawn_once
def disk_bars(data: DiskPicture) -> go.Figure:
    """Return the data volume that each directory of a bookie gets from one round of ledgers."""
    names = [f"directory {number}" for number in range(data.uneven.size_bytes.size)]
    gigabytes = data.uneven.size_bytes / 1e9
    figure = go.Figure(
        go.Bar(
            x=names,
            y=gigabytes,
            name="current topics",
            marker_color=ACCENT,
            customdata=data.uneven.ledgers,
            hovertemplate="%{x}<br><b>%{y:.2f} GB</b>, %{customdata:,} ledgers<extra></extra>",
        )
    )
    styled(figure, height=_STORAGE_HEIGHT_PX)
    figure.add_hline(
        y=float(gigabytes.mean()),
        line={"color": LINE, "width": 1.4, "dash": "dot"},
        annotation={"text": "assumed uniform", "font": {"size": 11}},
    )
    figure.update_xaxes(type="category", showticklabels=len(names) <= 16)
    figure.update_yaxes(ticksuffix=" GB", rangemode="tozero")
    return figure


@drawn_once
def compaction_line(data: CompactionCurve) -> go.Figure:
    """Return the dead share of a log by its live share, and which compaction takes it."""
    minor, major = data.thresholds
    figure = go.Figure()
    parts = (
        ("minor compaction", 0.0, minor, ACCENT),
        ("major compaction", minor, major, NEAR),
        ("never rewritten", major, 100.0, FAR),
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
                hovertemplate="%{x:.1f}% live, <b>%{y:.1f}%</b> dead<extra>" + name + "</extra>",
            )
        )
    styled(figure, height=_STORAGE_HEIGHT_PX, legend=True)
    figure.add_vline(x=data.marked, line={"color": LINE, "width": 1.6})
    figure.update_xaxes(ticksuffix="%", range=[0, 100], title_text="live data in an entry log")
    figure.update_yaxes(ticksuffix="%", range=[0, 100], title_text="dead data")
    return figure


@drawn_once
def life_bars(phases: Sequence[Phase]) -> go.Figure:
    """Return the phases of a message's life on a time line; one without end runs off the chart."""
    ends = [phase.ends for phase in phases if phase.ends is not None]
    end = max(ends, default=60.0) or 1.0
    shown_end = end if phases[-1].ends is not None else max(end * 1.5, 60.0)
    figure = go.Figure()
    for one in phases:
        until = shown_end if one.ends is None else one.ends
        text = "unlimited" if one.ends is None else span(until - one.begins)
        figure.add_trace(
            go.Bar(
                x=[until - one.begins],
                base=[one.begins],
                y=["message"],
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
