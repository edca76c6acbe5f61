"""Frames and texts of the Ownership page; pure."""

from __future__ import annotations

from datetime import datetime
from functools import reduce
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from core.operations.drill.broker_failure import BrokerFailure, FailureEvent
from core.pulsar.leaders import LeaderHistory
from core.pulsar.measures import BundleCounts
from core.pulsar.owner_sessions import session_words
from core.pulsar.owners import (
    HELD,
    STATES,
    UNKNOWN,
    UNUSED,
    WRONG,
    Ownership,
    meaning_of,
    worst_first,
)
from core.units import UNKNOWN as UNKNOWN_TEXT
from core.units import datetime_to_ms, format_age, ms_to_datetime, pluralize
from dashboard.legible import addresses_labeled
from dashboard.presenters.figures import KeyFigure
from dashboard.presenters.moments import stamp

OWNERS: Final = "Bundles"
SESSIONS: Final = "Sessions"
SPREAD: Final = "Namespaces"
LEADER: Final = "Leader"
DEATH: Final = "Broker failure"
VIEWS: Final = (OWNERS, SESSIONS, SPREAD, LEADER, DEATH)

WRONG_ONLY: Final = "problems"
MOST: Final = 2_000
MOST_DRAINED: Final = 200
_MB: Final = 1e6
_MARKS: Final = dict.fromkeys(WRONG, "✖") | {UNKNOWN: "?", UNUSED: "○"}


def label_of(state: str) -> str:
    """Return a state as people read it: a held bundle is assigned, as on the other pages."""
    return "assigned" if state == HELD else state


def marked(state: str) -> str:
    """Return a state with its mark: never shown by colour alone."""
    return f"{_MARKS.get(state, '●')} {label_of(state)}"


def key_figures(
    ownership: Ownership,
    leader: str | None,
    counts: BundleCounts,
    bound: int,
    *,
    is_shedding: bool,
) -> list[KeyFigure]:
    """Return the number of bundles owned, unassigned, unknown and in a wrong state, and the leader.

    Args:
        ownership: Who owns what.
        leader: Broker id; ``None``: no leader is known.
        counts: Bundles that can move.
        bound: Heartbeat and SLA bundles in addition.
        is_shedding: The leader sheds bundles by itself.
    """
    wrong = {one: ownership.counts[one] for one in WRONG if ownership.counts.get(one)}
    unknown, unused = ownership.counts.get(UNKNOWN, 0), ownership.counts.get(UNUSED, 0)
    sessions = ownership.sessions.filter(pc.is_valid(ownership.sessions["session_id"]))
    strange = sessions.filter(pc.invert(sessions["is_registered"])).num_rows
    return [
        KeyFigure(
            label="Ownership problems",
            value=pluralize(sum(wrong.values()), "bundle"),
            note=", ".join(wrong) if wrong else "none",
            status="bad" if wrong else "ok",
        ),
        KeyFigure(
            label="Assigned",
            value=f"{counts.assigned:,}",
            note=f"and {bound:,} heartbeat/SLA" if bound else "",
            help="Bundles with an owner, without heartbeat and SLA bundles.",
        ),
        KeyFigure(
            label="Unassigned",
            value=f"{counts.unassigned:,}",
            note=f"{unused:,} without traffic" if counts.unassigned else "",
        ),
        KeyFigure(
            label="Unknown",
            value=f"{unknown:,}",
            note="owner not read" if unknown else "all known",
            status="unknown" if unknown else "",
        ),
        KeyFigure(
            label="Sessions",
            value=f"{sessions.num_rows:,}" if sessions.num_rows else UNKNOWN_TEXT,
            note=f"{strange} not registered" if strange else "all registered",
            status="bad" if strange else "ok" if sessions.num_rows else "unknown",
        ),
        KeyFigure(
            label="Leader",
            value=leader or "none",
            status="ok" if leader else "bad",
            note=""
            if not leader
            else "places and sheds bundles"
            if is_shedding
            else "places bundles; shedding is off",
        ),
    ]


def meaning(chosen: str) -> str:
    """Return the meaning of a choice of :func:`choices`; empty for several states."""
    return "" if chosen == WRONG_ONLY else meaning_of(chosen)


def _age(taken_at: datetime, at_ms: int | None) -> str | None:
    return None if at_ms is None else format_age((datetime_to_ms(taken_at) - at_ms) / 1000.0)


def choices(ownership: Ownership) -> list[str]:
    """Return the filters of the table of bundles."""
    return [WRONG_ONLY, *ownership.counts]


def first_choice(ownership: Ownership) -> str:
    """Return the default filter of the table: wrong states, else the most common state."""
    if any(ownership.counts.get(state) for state in WRONG) or not ownership.counts:
        return WRONG_ONLY
    return max(ownership.counts, key=lambda state: ownership.counts[state])


def owned_table(
    ownership: Ownership, chosen: str, contains: str, taken_at: datetime
) -> tuple[pd.DataFrame, int]:
    """Return the bundles in the chosen state, at most :data:`MOST`, and their total number.

    Args:
        ownership: Who owns what.
        chosen: :data:`WRONG_ONLY`, or a state.
        contains: Part of the name of a bundle, of its owner or of the owner's label; empty: all.
        taken_at: Of the snapshot.
    """
    states = WRONG if chosen == WRONG_ONLY else (chosen,)
    rows = worst_first(ownership.bundles, tuple(state for state in states if state in STATES))
    if contains:
        named = [
            pc.fill_null(pc.match_substring(rows[name], contains), fill_value=False)
            for name in ("bundle", "owner", "claimant")
        ]
        addresses = pa.array(addresses_labeled(contains), pa.string())
        named += [pc.is_in(rows[name], value_set=addresses) for name in ("owner", "claimant")]
        rows = rows.filter(reduce(pc.or_, named))
    shown = rows.slice(0, MOST).to_pylist()
    table = [
        {
            "bundle": row["bundle"],
            "state": marked(row["state"]),
            "owner": row["owner"] or "no broker",
            "claimant": row["claimant"] or "",
            "session": session_words(row["session_id"]),
            "held": _age(taken_at, row["held_since"]),
            "unserved": _age(taken_at, row["since"]),
            "traffic": None if row["throughput"] is None else row["throughput"] / _MB,
            "clients": row["clients"],
        }
        for row in shown
    ]
    names = (
        "bundle",
        "state",
        "owner",
        "claimant",
        "session",
        "held",
        "unserved",
        "traffic",
        "clients",
    )
    return pd.DataFrame(table, columns=list(names)), rows.num_rows


def sessions_table(sessions: pa.Table, taken_at: datetime) -> pd.DataFrame:
    """Return the sessions: owner, min age, owned bundles."""
    rows = [
        {
            "broker": row["broker"],
            "session": session_words(row["session_id"]),
            "what": _role(row),
            "age": _age(taken_at, row["oldest_at"]),
            "bundles": row["bundles"],
            "orphaned": row["orphaned"],
            "stale": row["stale"],
            "clients": row["clients"] or 0,
            "traffic": (row["throughput"] or 0.0) / _MB,
        }
        for row in sessions.to_pylist()
    ]
    return pd.DataFrame(rows)


def _role(row: dict[str, object]) -> str:
    if row["orphaned"]:
        return "✖ broker missing"
    if not row["is_registered"]:
        return "✖ session of another broker" if row["stale"] else "✖ not registered"
    return "★ leader" if row["leads"] else "● registered"


def sessions_answer(ownership: Ownership) -> str:
    """Return the sentence over the sessions."""
    table = ownership.sessions
    known = table.filter(pc.is_valid(table["session_id"]))
    if not known.num_rows:
        return "Sessions unknown; owned bundles are listed by broker name."
    busiest = max(known.to_pylist(), key=lambda row: row["bundles"])
    old = known.filter(pc.invert(known["is_registered"])).num_rows
    of_none = (
        f"{old} not owned by a registered broker" if old else "all owned by registered brokers"
    )
    return (
        f"{pluralize(known.num_rows, 'session')}; {of_none}. Largest: {busiest['broker']}, "
        f"{pluralize(busiest['bundles'], 'bundle')} (unassigned if the session ends)."
    )


def spread_table(spread: pa.Table) -> pd.DataFrame:
    """Return the namespaces with their spread over brokers."""
    frame: pd.DataFrame = spread.to_pandas()
    frame["mark"] = frame["is_concentrated"].map({True: "✖ few brokers", False: "● as expected"})
    frame["fullest_pct"] = frame["fullest_ratio"] * 100
    frame["hottest_pct"] = frame["hottest_ratio"] * 100
    frame["traffic"] = frame["throughput"] / _MB
    return frame


def leads_table(history: LeaderHistory, now: datetime) -> pd.DataFrame:
    """Return the terms of the leaders, newest first."""
    rows = []
    for lead in history.leads:
        ended = lead.until or now
        length = None if lead.since is None else (ended - lead.since).total_seconds()
        rows.append(
            {
                "broker": lead.broker or "none or unknown",
                "since": stamp(lead.since) if lead.since else "before recording",
                "until": stamp(lead.until) if lead.until else "now",
                "length": "unknown" if length is None else format_age(length),
            }
        )
    return pd.DataFrame(rows, columns=["broker", "since", "until", "length"])


def when(moment: FailureEvent) -> str:
    """Return the time of an event, seconds after the failure."""
    if moment.to_s == moment.from_s:
        return f"{moment.from_s:g} s"
    return f"{moment.from_s:g} to {moment.to_s:g} s"


def landing_table(broker_failure: BrokerFailure) -> pd.DataFrame:
    """Return the destinations of its bundles, summed by broker, the most traffic first."""
    table = broker_failure.landing
    if not table.num_rows:
        return pd.DataFrame(columns=["to", "bundles", "clients", "traffic"])
    by = table.group_by("to").aggregate(
        [("bundle", "count"), ("clients", "sum"), ("throughput", "sum")]
    )
    rows = [
        {
            "to": row["to"] or "✖ no eligible broker",
            "bundles": row["bundle_count"],
            "clients": row["clients_sum"],
            "traffic": row["throughput_sum"] / _MB,
        }
        for row in by.sort_by([("throughput_sum", "descending")]).to_pylist()
    ]
    return pd.DataFrame(rows)


def bundles_of(broker_failure: BrokerFailure) -> pd.DataFrame:
    """Return its bundles one by one, with where each lands; at most :data:`MOST`."""
    rows = [
        {
            "bundle": row["bundle"],
            "to": row["to"] or "✖ no broker",
            "clients": row["clients"],
            "traffic": row["throughput"] / _MB,
        }
        for row in broker_failure.landing.slice(0, MOST).to_pylist()
    ]
    return pd.DataFrame(rows, columns=["bundle", "to", "clients", "traffic"])


def groups_table(broker_failure: BrokerFailure) -> pd.DataFrame:
    """Return the isolation groups that the loss touches, those without room first."""
    return pd.DataFrame(
        [
            {
                "group": row["group"],
                "room": "● sufficient" if row["has_room"] else "✖ insufficient",
                "left": f"{row['brokers_left']} of {row['brokers_before']}",
                "bundles": row["bundles"],
                "unassigned": row["unassigned"],
                "coolest": None if row["coolest_usage"] is None else row["coolest_usage"] * 100,
            }
            for row in broker_failure.groups.sort_by([("has_room", "ascending")]).to_pylist()
        ]
    )


def hot_table(broker_failure: BrokerFailure) -> pd.DataFrame:
    """Return the brokers over the line afterwards."""
    return pd.DataFrame(
        [
            {
                "broker": row["broker"],
                "before": None if row["usage_before"] is None else row["usage_before"] * 100,
                "after": None if row["usage_after"] is None else row["usage_after"] * 100,
                "gained": row["bundles_gained"],
                "traffic": row["gained_bytes_per_s"] / _MB,
            }
            for row in broker_failure.hot.to_pylist()
        ]
    )


def to_drain(broker_failure: BrokerFailure) -> tuple[list[str], str]:
    """Return the bundles to unload before the broker is stopped, and the label of the button."""
    names = broker_failure.landing["bundle"].to_pylist()
    if len(names) <= MOST_DRAINED:
        return names, f"Preview drain ({pluralize(len(names), 'bundle')})"
    return names[:MOST_DRAINED], (
        f"Preview drain ({MOST_DRAINED} hottest of {len(names):,} bundles)"
    )


def since_text(ownership: Ownership) -> str:
    """Return the creation time of the oldest znode of a bundle, as a caption; empty if unknown."""
    oldest = pc.min(ownership.bundles["held_since"]).as_py()
    return f"Oldest ownership: {stamp(ms_to_datetime(oldest))} UTC." if oldest else ""
