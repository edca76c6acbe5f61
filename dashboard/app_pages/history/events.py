"""Events as shown: lanes of the timeline, rows of a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pandas as pd
import pyarrow as pa

from core.history.queries.events import moment_of
from core.units import ms_to_datetime
from dashboard.app_pages.history.charts import Lane
from dashboard.charts.template import ACCENT, SERIES

TRIMTAB: Final = "trimtab"
MOVE_KINDS: Final = ("move", "primary")


@dataclass(frozen=True, slots=True)
class LaneKind:
    """One lane of the timeline: its events and their style.

    Attributes:
        key: Stable word, in the address.
        name: For people.
        kinds: Of events.
        whose: Only ``trimtab``'s, only ``others``', ``every`` event.
        symbol: Plotly's name of the mark.
        color: Of the marks.
        noun: What one event is called.
    """

    key: str
    name: str
    kinds: tuple[str, ...]
    whose: Literal["trimtab", "others", "every"]
    symbol: str
    color: str
    noun: str


LANES: Final = (
    LaneKind("moves", "Moves by the cluster", ("move",), "others", "circle", SERIES[7], "move"),
    LaneKind(
        "primaries",
        "Primaries moved",
        ("primary",),
        "others",
        "circle",
        SERIES[7],
        "primary change",
    ),
    LaneKind(
        "ours",
        "Moves by Trimtab",
        ("move", "primary"),
        "trimtab",
        "circle",
        ACCENT,
        "move by Trimtab",
    ),
    LaneKind(
        "splits",
        "Splits and merges",
        ("split", "merge"),
        "every",
        "diamond",
        SERIES[3],
        "split or merge",
    ),
    LaneKind("replicas", "Replicas", ("replica",), "every", "square", SERIES[6], "replica change"),
    LaneKind("leaders", "Leader", ("leader",), "every", "star", SERIES[5], "leader change"),
    LaneKind("level", "Level", ("level",), "every", "hexagon", SERIES[3], "level change"),
    LaneKind(
        "servers",
        "Restarts",
        ("broker_up", "broker_down", "node_up", "node_down", "node_restart"),
        "every",
        "triangle-up",
        SERIES[1],
        "server up or down",
    ),
    LaneKind(
        "settings",
        "Settings and policies",
        ("setting", "policy"),
        "every",
        "cross",
        SERIES[2],
        "change",
    ),
    LaneKind(
        "runs",
        "Runs",
        ("run", "step"),
        "every",
        "triangle-right",
        ACCENT,
        "run entry",
    ),
)
"""From the top of the timeline."""

KIND_WORDS: Final[Mapping[str, str]] = {
    "move": "moved",
    "primary": "primary moved",
    "replica": "replicas changed",
    "split": "split",
    "merge": "merged",
    "leader": "leader changed",
    "level": "level changed",
    "broker_up": "broker up",
    "broker_down": "broker down",
    "node_up": "node up",
    "node_down": "node down",
    "node_restart": "node restarted",
    "setting": "setting changed",
    "policy": "policy changed",
    "run": "run",
    "step": "run step",
}
_BY_WORDS: Final = {"cluster": "cluster", TRIMTAB: "Trimtab"}
_MAX_TEXT: Final = 90
_RESTARTED: Final = '"restarted": true'


def lane_of(kind: str, by: str) -> LaneKind | None:
    """Return the lane in which an event stands, ``None`` for an unknown kind."""
    return next(
        (
            lane
            for lane in LANES
            if kind in lane.kinds
            and (lane.whose == "every" or (lane.whose == TRIMTAB) == (by == TRIMTAB))
        ),
        None,
    )


def lanes(counts: pa.Table, wanted: Sequence[str] = ()) -> list[Lane]:
    """Return the lanes that have something, from the top.

    Args:
        counts: As ``EventQueries.counts`` returns them.
        wanted: Keys of lanes; empty: all.
    """
    found: dict[str, dict[int, _Mark]] = {}
    for row in counts.to_pylist():  # one a stretch of time, kind and who: bounded by the timeline
        lane = lane_of(row["kind"], row["by"])
        if lane is None or (wanted and lane.key not in wanted):
            continue
        marks = found.setdefault(lane.key, {})
        held = marks.get(row["at"])
        first = held is None or row["first_at"] < held.first_at
        marks[row["at"]] = _Mark(
            size=int(row["count"]) + (held.size if held else 0),
            first_at=row["first_at"] if held is None or first else held.first_at,
            text=_brief(row) if held is None or first else held.text,
        )
    return [_lane(lane, found[lane.key]) for lane in LANES if lane.key in found]


@dataclass(frozen=True, slots=True)
class _Mark:
    """Events of one lane and stretch of time: how many, and the first of them."""

    size: int
    first_at: int
    text: str


def _lane(lane: LaneKind, marks: Mapping[int, _Mark]) -> Lane:
    ordered = [marks[at] for at in sorted(marks)]
    return Lane(
        name=lane.name,
        key=lane.key,
        times=[ms_to_datetime(one.first_at) for one in ordered],
        sizes=[one.size for one in ordered],
        texts=[
            one.text if one.size == 1 else f"{one.size:,}x {lane.noun}, first<br>{one.text}"
            for one in ordered
        ],
        symbol=lane.symbol,
        color=lane.color,
    )


def _brief(row: Mapping[str, object]) -> str:
    """Return one event in a line."""
    words = KIND_WORDS.get(str(row["kind"]), str(row["kind"]))
    return f"{row['subject']} {words}{_change(row['before'], row['after'])}"


def _change(before: object, after: object) -> str:
    if before is None and after is None:
        return ""
    return f": {_short(before)} → {_short(after)}"


def _short(value: object) -> str:
    text = "none" if value in (None, "") else str(value)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


def events_frame(events: pa.Table, wanted: Sequence[str] = ()) -> pd.DataFrame:
    """Return the events as rows, the newest first.

    Args:
        events: As ``EventQueries.events`` returns them.
        wanted: Keys of lanes; empty: all.
    """
    rows = []
    newest = sorted(events.to_pylist(), key=moment_of, reverse=True)
    for row in newest:
        lane = lane_of(row["kind"], row["by"] or "")
        if wanted and (lane is None or lane.key not in wanted):
            continue
        rows.append(
            {
                "at": ms_to_datetime(moment_of(row)[0]),
                "what": what_words(row["kind"], row["details"] or ""),
                "subject": row["subject"],
                "before": row["before"] or "",
                "after": row["after"] or "",
                "by": _BY_WORDS.get(row["by"] or "", row["by"] or ""),
                "who": row["actor"] or "",
                "why": row["reason"] or "",
                "run": row["run_id"] or "",
                "details": row["details"] or "",
            }
        )
    names = ("at", "what", "subject", "before", "after", "by", "who", "why", "run", "details")
    return pd.DataFrame(rows, columns=list(names))


def what_words(kind: str, details: str = "") -> str:
    """Return the label of an event; a broker back after a short absence was restarted."""
    if kind == "broker_up" and _RESTARTED in details:
        return "broker restarted"
    return KIND_WORDS.get(kind, kind)


def details_of(text: str) -> list[tuple[str, str]]:
    """Return an event's details as names and values; empty when there are none."""
    try:
        held = json.loads(text) if text else {}
    except ValueError:
        return [("details", text)]
    if not isinstance(held, dict):
        return [("details", text)]
    return [(str(name).replace("_", " "), str(value)) for name, value in held.items()]
