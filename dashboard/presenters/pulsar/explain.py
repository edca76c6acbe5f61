"""Shedding decisions, load reports and the leader: tables and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa

from core.pulsar.explain import BrokerReason, BundleReason, Explanation
from core.pulsar.leader.facts import LeaderFacts
from core.pulsar.load import weighted_max_usage
from core.pulsar.reports import ReportedLoad, ReportTrigger, report_triggers
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import BrokerTrace
from core.pulsar.shedding.gates import distance_in_words
from core.pulsar.split import SplitCondition
from core.units import (
    format_age,
    format_bytes_per_s,
    format_msgs_per_s,
    format_percent,
    format_ratio,
    ms_to_datetime,
)
from dashboard.presenters.naming import clock
from dashboard.presenters.pulsar.rebalance import trail_table

MAX_LEADER_ROWS: Final = 8
MAX_RESTING: Final = 100
_MAX_INTERVAL: Final = "loadBalancerReportUpdateMaxIntervalMinutes"
_THRESHOLD: Final = "loadBalancerReportUpdateThresholdPercentage"
_MEASURES: Final = {
    "msg_rate": "Messages in + out",
    "msg_throughput": "Traffic in + out",
    "bundle_count": "Bundles",
    "usage": "Weighted usage",
}
_MET: Final = {True: "● met", False: "○ not met", None: "? unknown"}
_KINDS: Final = {
    "switch": "must hold",
    "guard": "must hold",
    "trigger": "one must hold",
    "memory": "broker memory",
}


# -- shedding --------------------------------------------------------------------------------------


def off_words(explanation: Explanation) -> str:
    """Return that the cluster sheds nothing by itself; blank when it does."""
    key = explanation.off
    return f"Shedding is off: {key} is false. If enabled:" if key else ""


def broker_trail(reason: BrokerReason) -> pd.DataFrame:
    """Return every gate on the way to shedding a broker."""
    trace = BrokerTrace(
        broker=reason.broker, sheds=reason.sheds, gates=reason.gates, sentence=reason.sentence
    )
    rows = trail_table(trace)
    rows["state"] = [
        f"{state}, one is sufficient" if gate.is_alternative else state
        for state, gate in zip(rows.get("state", ()), reason.gates, strict=True)
    ]
    return rows


def broker_notes(reason: BrokerReason) -> list[str]:
    """Return the selected and the excluded bundles."""
    shown = [f"Selected: {name}." for name in reason.bundles[:MAX_LEADER_ROWS]]
    more = len(reason.bundles) - len(shown)
    if more > 0:
        shown.append(f"{more} more.")
    held = [f"Excluded: {name}: {why}." for name, why in reason.skipped[:MAX_LEADER_ROWS]]
    return [*shown, *held]


def shed_conditions_table(reason: BundleReason) -> pd.DataFrame:
    """Return the conditions for shedding a bundle, up to the first unmet one."""
    return pd.DataFrame(
        [
            {
                "condition": condition.name,
                "state": _MET[condition.is_met],
                "distance": ""
                if condition.distance is None
                else distance_in_words(condition.distance, condition.unit),
                "why": condition.sentence,
            }
            for condition in reason.conditions
        ]
    )


def landing_words(reason: BundleReason) -> str:
    """Return the destination of a bundle that would be shed; empty for one that stays."""
    if not reason.destinations:
        return ""
    ranked = sorted(reason.destinations.items(), key=lambda item: -item[1])
    best, chance = ranked[0]
    rest = f", or one of {len(ranked) - 1} others" if len(ranked) > 1 else ""
    return f"Destination: {best} ({format_ratio(chance)}){rest}."


# -- splits ----------------------------------------------------------------------------------------


def split_conditions_table(conditions: Sequence[SplitCondition]) -> pd.DataFrame:
    """Return every condition of an automatic split with its distance."""
    return pd.DataFrame(
        [
            {
                "condition": item.name,
                "state": _MET[item.is_met],
                "reached": None
                if item.measured is None or not item.threshold or item.kind != "trigger"
                else item.measured / item.threshold * 100,
                "kind": _KINDS[item.kind],
                "why": item.sentence,
            }
            for item in conditions
        ]
    )


# -- load reports ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """Time and trigger of a broker's load reports.

    Attributes:
        due: When the next report is due at the latest, in words.
        why: Why the last one was written; blank when the one before is not saved.
        rows: Per measure: the last report, and at which values the next one is written.
    """

    due: str
    why: str
    rows: pd.DataFrame


def report_facts(
    row: pa.Table, before: pa.Table | None, settings: EffectiveSettings, taken_at: datetime
) -> ReportFacts | None:
    """Return the report times of a broker; ``None`` if its report is unknown.

    Args:
        row: Its row of the brokers' table.
        before: The same with the report before that, ``None``: none is saved.
        settings: In force.
        taken_at: When the row was read.
    """
    if row.num_rows != 1 or not row["reported_at"][0].is_valid:
        return None
    load = _reported(row, settings)
    reported_at = ms_to_datetime(row["reported_at"][0].as_py())
    return ReportFacts(
        due=_due(reported_at, settings, taken_at),
        why="" if before is None else _why(before, row, settings),
        rows=_bounds(load, None if before is None else _reported(before, settings), settings),
    )


def _reported(row: pa.Table, settings: EffectiveSettings) -> ReportedLoad:
    return ReportedLoad(
        msg_rate=_total(row, "msg_rate"),
        msg_throughput=_total(row, "msg_throughput"),
        bundle_count=_number(row, "bundle_count"),
        usage=weighted_max_usage(row, settings)[0],
    )


def _number(row: pa.Table, name: str) -> float:
    value = row[name][0].as_py()
    return float("nan") if value is None else float(value)


def _total(row: pa.Table, name: str) -> float:
    return _number(row, f"{name}_in") + _number(row, f"{name}_out")


def _due(reported_at: datetime, settings: EffectiveSettings, taken_at: datetime) -> str:
    longest = timedelta(minutes=settings.number(_MAX_INTERVAL))
    left_s = (reported_at + longest - taken_at).total_seconds()
    when = f"within {format_age(left_s)}" if left_s > 0 else "now (max age reached)"
    return (
        f"Written {clock(reported_at)}; next report {when} ({_MAX_INTERVAL} "
        f"{settings.number(_MAX_INTERVAL):g}), or on a change of more than "
        f"{settings.number(_THRESHOLD):g}% ({_THRESHOLD})."
    )


def _why(before: pa.Table, row: pa.Table, settings: EffectiveSettings) -> str:
    age_ms = row["reported_at"][0].as_py() - before["reported_at"][0].as_py()
    triggers = report_triggers(
        _reported(before, settings), _reported(row, settings), float(age_ms), settings
    )
    fired = [_fired(trigger) for trigger in triggers if bool(np.all(trigger.fires))]
    last = clock(ms_to_datetime(before["reported_at"][0].as_py()))
    if not fired:
        return f"No measure has changed enough since the report of {last}."
    return f"Triggers of the last report (since {last}): {', '.join(fired)}."


def _fired(trigger: ReportTrigger) -> str:
    value = float(trigger.value)
    if trigger.name == "age":
        return f"{format_age(value / 1000)} elapsed"
    name = _MEASURES[trigger.name].lower()
    if not np.isfinite(value):
        return f"{name} from zero"
    size = f"{value:.1f} points" if trigger.name == "usage" else format_percent(value)
    return f"{name} changed by {size}"


def _bounds(
    load: ReportedLoad, before: ReportedLoad | None, settings: EffectiveSettings
) -> pd.DataFrame:
    """At which values the next report is written: they are compared strictly."""
    share = settings.number(_THRESHOLD) / 100.0
    rows = []
    for name, label in _MEASURES.items():
        value = float(getattr(load, name))
        away = share if name == "usage" else share * value
        past = None if before is None else float(getattr(before, name))
        rows.append(
            {
                "measure": label,
                "before": "" if past is None else _text(name, past),
                "last": _text(name, value),
                "below": _text(name, value - away) if value - away > 0 else "never",
                "above": _text(name, value + away) if value else "anything",
            }
        )
    return pd.DataFrame(rows)


def _text(name: str, value: float) -> str:
    if not np.isfinite(value):
        return "unknown"
    if name == "msg_rate":
        return format_msgs_per_s(value)
    if name == "msg_throughput":
        return format_bytes_per_s(value)
    return format_ratio(value) if name == "usage" else f"{value:,.6g}"


# -- the leader ------------------------------------------------------------------------------------


def timers_table(facts: LeaderFacts) -> pd.DataFrame:
    """Return the leader's timers."""
    return pd.DataFrame(
        [
            {"timer": timer.name, "when": timer.sentence, "setting": timer.setting}
            for timer in facts.timers
        ]
    )


def resting_table(facts: LeaderFacts) -> pd.DataFrame:
    """Return the bundles that may be in their grace period, the one that rests longest first."""
    return pd.DataFrame(
        [
            {
                "bundle": one.bundle,
                "from": one.left,
                "to": one.came_to,
                "seen_at": one.seen_at,
                "until": one.until,
            }
            for one in facts.resting[:MAX_RESTING]
        ],
        columns=["bundle", "from", "to", "seen_at", "until"],
    )


def next_table(explanation: Explanation) -> pd.DataFrame:
    """Return the brokers of the next round: those that shed, then those closest to it."""
    return pd.DataFrame(
        [
            {
                "broker": trace.broker,
                "verdict": "▶ sheds" if trace.sheds else "■ no move",
                "why": trace.sentence,
            }
            for trace in explanation.ranked()[:MAX_LEADER_ROWS]
        ],
        columns=["broker", "verdict", "why"],
    )
