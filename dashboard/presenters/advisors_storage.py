"""What the advisors of ledgers and retention say: sentences, tables, chart numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.planning.advisors.ledger import (
    Rollover,
    RolloverRule,
    next_rollover,
)
from core.planning.advisors.retention import (
    CompactionRule,
    Phase,
    RetentionRule,
    fate_of_log,
)
from core.units import format_age, format_ratio
from dashboard.charts.advisors_storage import CompactionCurve, Filling, span
from dashboard.presenters.advisors_inputs import Number

Floats = NDArray[np.float64]

_MIB_BYTES: Final = 1024**2
_CAUSES: Final = {"entries": "its entries", "size": "its size", "age": "its age"}
_POINTS: Final = 81


# -- rollover --------------------------------------------------------------------------------------


def rule_of(given: Mapping[str, Number]) -> RolloverRule:
    """Return the rule that the inputs describe.

    Raises:
        InputError: It cannot be.
    """
    prefix = "managedLedger"
    return RolloverRule(
        min_minutes=float(given[f"{prefix}MinLedgerRolloverTimeMinutes"]),
        max_minutes=float(given[f"{prefix}MaxLedgerRolloverTimeMinutes"]),
        max_entries=int(given[f"{prefix}MaxEntriesPerLedger"]),
        max_megabytes=int(given[f"{prefix}MaxSizePerLedgerMbytes"]),
    )


def rollover_of(rule: RolloverRule, given: Mapping[str, Number]) -> Rollover | None:
    """Return when the ledger ends, its content taken from its age and the rates.

    Raises:
        InputError: A negative number.
    """
    entries_per_s, bytes_per_s = float(given["entries"]), given["written"] * 1e6
    age_s = given["age"] * 60
    return next_rollover(
        rule,
        entries_per_s=entries_per_s,
        bytes_per_s=bytes_per_s,
        age_minutes=float(given["age"]),
        entries=entries_per_s * age_s,
        size_bytes=bytes_per_s * age_s,
    )


def rollover_answer(found: Rollover | None) -> str:
    """Return when the next ledger begins, in one sentence."""
    if found is None:
        return "Never: nothing is written, and an empty ledger is not rolled over."
    held = ""
    if found.held_by_minimum:
        held = (
            "; it is full earlier, but the least age keeps it open and it grows beyond its bounds"
        )
    late = ""
    if found.latest_minutes > found.age_minutes:
        late = f" (up to {found.latest_minutes:,.0f} min: the timer may be 5 % late)"
    return (
        f"The next ledger begins in {found.in_minutes:,.1f} min, at an age of "
        f"{found.age_minutes:,.1f} min{late}, by {_CAUSES[found.cause]}: {found.entries:,.0f} "
        f"entries and {found.size_bytes / _MIB_BYTES:,.0f} MiB{held}."
    )


def bounds_table(rule: RolloverRule, found: Rollover, given: Mapping[str, Number]) -> pd.DataFrame:
    """Return one row a bound: when it is reached, and how full it is at the rollover."""
    minutes = {
        "entries": _until(rule.max_entries, float(given["entries"])),
        "size": _until(rule.max_megabytes * _MIB_BYTES, given["written"] * 1e6),
        "age": rule.max_minutes,
    }
    most_bytes = rule.max_megabytes * _MIB_BYTES
    full = {
        "entries": found.entries / rule.max_entries,
        "size": found.size_bytes / most_bytes,
        "age": found.age_minutes / rule.max_minutes,
    }
    formulas = {
        "entries": f"{rule.max_entries:,} / {given['entries']:,g} entries/s",
        "size": f"{rule.max_megabytes:,} MiB / {given['written']:,g} MB/s",
        "age": f"{rule.max_minutes:g} min",
    }
    return pd.DataFrame(
        [
            {
                "bound": name,
                "mark": "◆ ends it" if name == found.cause else "",
                "minutes": minutes[name] if np.isfinite(minutes[name]) else None,
                "full": full[name] * 100,
                "formula": formulas[name],
            }
            for name in minutes
        ]
    )


def _until(bound: float, per_s: float) -> float:
    return bound / per_s / 60 if per_s > 0 else np.inf


def filling(rule: RolloverRule, found: Rollover, given: Mapping[str, Number]) -> Filling:
    """Return how a ledger fills up to a little after its end."""
    minutes = np.linspace(0, max(found.age_minutes, rule.min_minutes) * 1.15, _POINTS)
    entries, size = float(given["entries"]) * minutes * 60, given["written"] * 1e6 * minutes * 60
    return Filling(
        minutes=minutes,
        shares={
            "entries": entries / rule.max_entries * 100,
            "size": size / (rule.max_megabytes * _MIB_BYTES) * 100,
            "age": minutes / rule.max_minutes * 100,
        },
        least_minutes=rule.min_minutes,
        ends_at=found.age_minutes,
        now=float(given["age"]),
    )


# -- compaction ------------------------------------------------------------------------------------


def compaction_of(given: Mapping[str, Number]) -> CompactionRule:
    """Return the rule that the inputs describe.

    Raises:
        InputError: It cannot be.
    """
    return CompactionRule(
        minor_threshold=float(given["minorCompactionThreshold"]),
        minor_interval_s=float(given["minorCompactionInterval"]),
        major_threshold=float(given["majorCompactionThreshold"]),
        major_interval_s=float(given["majorCompactionInterval"]),
    )


def compaction_words(rule: CompactionRule, live_ratio: float) -> str:
    """Return what becomes of a log with so much live data, and what dead data stay for good.

    Raises:
        InputError: A share outside 0..1.
    """
    fate = fate_of_log(rule, live_ratio)
    stays = (
        f"Logs with {format_ratio(rule.major_threshold)} live data or more are never rewritten: up "
        f"to {format_ratio(1 - rule.major_threshold)} of the disk may hold dead data for good."
    )
    if fate.within_s is None:
        return f"A log with {format_ratio(live_ratio)} of live data stays as it is. {stays}"
    when = format_age(fate.within_s)
    if fate.action == "deleted":
        return f"A log without live data is deleted, within {when} or sooner. {stays}"
    return (
        f"A log with {format_ratio(live_ratio)} of live data is rewritten by {fate.action} "
        f"compaction within {when}: {format_ratio(fate.freed_ratio)} of it comes back, for "
        f"{format_ratio(fate.rewritten_ratio)} written again. {stays}"
    )


def compaction_curve(rule: CompactionRule, live_ratio: float) -> CompactionCurve:
    """Return how long dead data stay, for every share of live data."""
    live = np.linspace(0, 1, 101)
    waits = [fate_of_log(rule, share).within_s for share in live.tolist()]
    return CompactionCurve(
        live=live * 100,
        dead=(1 - live) * 100,
        wait_s=np.array([np.nan if wait is None else wait for wait in waits], np.float64),
        thresholds=(rule.minor_threshold * 100, rule.major_threshold * 100),
        asked=live_ratio * 100,
    )


# -- retention -------------------------------------------------------------------------------------


def retention_of(given: Mapping[str, Number]) -> RetentionRule:
    """Return the rule that the inputs describe.

    Raises:
        InputError: It cannot be.
    """
    return RetentionRule(
        retention_minutes=float(given["defaultRetentionTimeInMinutes"]),
        retention_megabytes=float(given["defaultRetentionSizeInMB"]),
        ttl_s=float(given["ttlDurationDefaultInSeconds"]),
        rollover_minutes=float(given["managedLedgerMaxLedgerRolloverTimeMinutes"]),
        expiry_check_s=float(given["messageExpiryCheckIntervalInMinutes"]) * 60,
        retention_check_s=float(given["retentionCheckIntervalInSeconds"]),
        copies=int(given["managedLedgerDefaultWriteQuorum"]),
    )


def consumed_after(given: Mapping[str, Number]) -> float | None:
    """Return when everybody has read a message, minutes; ``None``: never."""
    return None if given["consumed"] == -1 else float(given["consumed"])


def retention_answer(phases: Sequence[Phase], held: str) -> str:
    """Return how long a message lives and what that takes on disk, in one sentence.

    Args:
        phases: Of its life.
        held: By :func:`core.planning.advisors.retention.held_words`.
    """
    last = phases[-1]
    if last.ends is None:
        verb = "is never deleted" if last.name == "kept" else "stays in the backlog"
        return f"A message {verb}: {last.why}."
    first = phases[0].ends or 0.0
    return (
        f"A message is backlog for {span(first)} and gone after {span(last.ends)} at the latest; "
        f"until then {held}."
    )


def phases_table(phases: Sequence[Phase]) -> pd.DataFrame:
    """Return one row a phase."""
    return pd.DataFrame(
        [
            {
                "phase": one.name,
                "from": span(one.begins),
                "until": "without end" if one.ends is None else span(one.ends),
                "why": one.why,
            }
            for one in phases
        ]
    )
