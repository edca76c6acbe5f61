"""The stretch of history that the doctor compares a cluster with."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from core.history.queries.sql import HistoryReader, Period
from core.history.store.layout import EVENTS
from core.history.store.store import HistoryStore
from core.pulsar.rules.recorded_past import LeaderCount, Peak, RecordedPast
from core.units import ms_to_datetime

_PEAKS: Final = (
    "SELECT broker, max(msg_throughput_in) AS peak_in, "
    "arg_max(taken_at, msg_throughput_in) AS at_in, max(msg_throughput_out) AS peak_out, "
    "arg_max(taken_at, msg_throughput_out) AS at_out, min(taken_at) AS first, "
    "max(taken_at) AS last FROM rows GROUP BY broker"
)
_COUNTS: Final = (
    "SELECT broker, min(taken_at) AS first, max(taken_at) AS last, "
    "arg_min(unload_bundle_total, taken_at) AS before, "
    "arg_max(unload_bundle_total, taken_at) AS after FROM rows "
    "WHERE unload_bundle_total IS NOT NULL GROUP BY broker, process_started_at "
    "HAVING count(*) > 1 ORDER BY after - before DESC, last - first DESC, broker LIMIT 1"
)
"""One that led before goes on exposing what it counted then: who counted most is the leader."""

_SEEN: Final = (
    "SELECT count(*) AS seen FROM rows WHERE kind = 'move' AND taken_at > $after "
    "AND coalesce(before, '') <> '' AND coalesce(\"by\", '') <> 'trimtab' "
    "AND NOT EXISTS (FROM rows AS down "
    "WHERE down.kind = 'broker_down' AND down.taken_at = rows.taken_at "
    "AND down.subject = rows.before)"
)
"""A move is counted where it left: seen in two halves it is one, and a first owner is none."""


def recorded_past(store: HistoryStore, cluster: str, period: Period) -> RecordedPast | None:
    """Return the recorded period for the doctor, or ``None`` if nothing was recorded.

    Args:
        cluster: A cluster of Pulsar.
        period: When.
    Raises:
        SnapshotError: The history is damaged.
    Cost:
        Three questions to the files of the period: the load of the brokers, the counters among
        their metrics, and the moves.
    """
    reader = HistoryReader(store, cluster)
    rows = _rows(reader.ask(_PEAKS, "brokers", period))
    if not rows:
        return None
    return RecordedPast(
        start=ms_to_datetime(min(row["first"] for row in rows)),
        end=ms_to_datetime(max(row["last"] for row in rows)),
        traffic={
            row["broker"]: {
                side: Peak(float(row[f"peak_{side}"]), ms_to_datetime(row[f"at_{side}"]))
                for side in ("in", "out")
                if row[f"peak_{side}"] is not None
            }
            for row in rows
        },
        counted=_count(reader, period),
    )


def _count(reader: HistoryReader, period: Period) -> LeaderCount | None:
    found = _rows(reader.ask(_COUNTS, "broker_metrics", period))
    if not found or found[0]["after"] < found[0]["before"]:
        return None
    row = found[0]
    span = Period(ms_to_datetime(row["first"]), ms_to_datetime(row["last"]))
    seen = _rows(reader.ask(_SEEN, EVENTS.name, span, after=row["first"]))
    return LeaderCount(
        broker=row["broker"],
        start=span.start,
        end=span.end,
        unloads=round(row["after"] - row["before"]),
        seen=seen[0]["seen"] if seen else 0,
    )


def _rows(table: pa.Table | None) -> list[dict[str, Any]]:
    return [] if table is None else table.to_pylist()
