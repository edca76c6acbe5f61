"""Figures made ready to be sent: names of others legible, moments short."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import plotly.graph_objects as go

from dashboard.legible import legible_values, needs_care, texts_of

_TEXTS: Final = (
    *("x", "y", "text", "hovertext", "labels", "parents", "ids", "customdata"),
    "legendgroup",
)
_PLACES: Final = ("x", "y", "text")
_MAX_TICK: Final = 64
"""Letters at an axis; a longer name leaves no room for the chart."""


def readable(figure: go.Figure) -> go.Figure:
    """Return the figure with names made legible, and moments to the second.

    Long names at an axis are cut to its room. What every trace repeats, its moments, is a third
    shorter.

    Args:
        figure: Stays as it is; it is the result where nothing has to change.
    """
    traces = {at: changes for at, trace in enumerate(figure.data) if (changes := _changes(trace))}
    axes = _ticks(figure)
    places = _places(figure)
    if not traces and not axes and not places:
        return figure
    changed = go.Figure(figure)
    changed.update_layout(places)
    for at, values in traces.items():
        for name, value in values.items():
            changed.data[at][name] = value
    for axis, ticks in axes.items():
        changed.layout[axis].update(ticks)
    return changed


def _changes(trace: Any) -> dict[str, Any]:
    """Return the values of a trace that change, by their names."""
    found: dict[str, Any] = {
        name: legible_values(trace[name])
        for name in _TEXTS
        if name in trace and needs_care(trace[name])
    }
    if isinstance(trace.name, str):
        [shown] = legible_values([trace.name])
        if _tick(shown) != trace.name:
            found["name"] = _tick(shown)
    moments = trace.x if "x" in trace else None  # an unknown one of pandas cannot be written
    if (
        isinstance(moments, tuple)
        and moments
        and all(type(moment) is datetime for moment in moments)
    ):
        found["x"] = [f"{moment:%Y-%m-%d %H:%M:%S}" for moment in moments]
    return found


def _places(figure: go.Figure) -> dict[str, Any]:
    """Return the order of names at axes, and annotations, that change with the names."""
    order = {
        name: {"categoryarray": legible_values(list(axis.categoryarray))}
        for name in ("xaxis", "yaxis")
        if (axis := figure.layout[name]).categoryarray is not None
        and needs_care(list(axis.categoryarray))
    }
    notes = [annotation.to_plotly_json() for annotation in figure.layout.annotations]
    if any(needs_care([note.get(place) for place in _PLACES]) for note in notes):
        shown = [
            {
                **note,
                **{at: legible_values(note[at]) for at in _PLACES if isinstance(note.get(at), str)},
            }
            for note in notes
        ]
        return {**order, "annotations": shown}
    return order


def _ticks(figure: go.Figure) -> dict[str, dict[str, Any]]:
    """Return the changes of the axes that have long names."""
    ends: dict[str, dict[str, None]] = {}
    for trace in figure.data:
        for letter in "xy":
            names = texts_of(trace[letter]) if letter in trace else []
            if any(len(one) > _MAX_TICK for one in names):
                axis = getattr(trace, f"{letter}axis", None) or letter
                shown = texts_of(legible_values(trace[letter]))
                ends.setdefault(f"{axis[0]}axis{axis[1:]}", {}).update(dict.fromkeys(shown))
    wanted = {
        axis: {
            "tickmode": "array",
            "tickvals": tuple(labels),
            "ticktext": tuple(_tick(label) for label in labels),
        }
        for axis, labels in ends.items()
    }
    return {
        axis: ticks
        for axis, ticks in wanted.items()
        if any(figure.layout[axis][name] != value for name, value in ticks.items())
    }


def _tick(name: str) -> str:
    return name if len(name) <= _MAX_TICK else f"{name[:20]}…{name[-12:]}"
