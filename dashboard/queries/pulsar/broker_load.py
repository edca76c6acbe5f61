"""Brokers over time, and metrics of saved snapshots, each read once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.errors import SnapshotError
from core.history.queries.sql import Period
from core.pulsar.liveness import liveness_of
from core.schemas.pulsar import BROKER_METRICS
from core.snapshot.store import CachedSnapshot, read_table
from core.units import ms_to_datetime
from dashboard.presenters.pulsar.metrics import counters_sentence
from dashboard.queries.cache import cached
from dashboard.queries.history import ClusterHistory, history_of
from dashboard.queries.pulsar.snapshots import BROKER_COLUMNS, broker_history, moves_seen
from dashboard.queries.snapshots import MAX_POINTS, span_minutes, thinned

if TYPE_CHECKING:
    from core.pulsar.settings import EffectiveSettings
    from core.snapshot import PulsarSnapshot
    from dashboard.services import Cluster, Config

_MAX_TABLES = 64


def _read(stored: CachedSnapshot) -> pa.Table | None:
    try:
        table = read_table(stored.path, "broker_metrics")
        return table.cast(BROKER_METRICS)
    except (SnapshotError, pa.ArrowException, ValueError, KeyError):
        return None  # from before there were metrics, or dropped meanwhile


broker_metrics_of = cached(_read, max_entries=_MAX_TABLES)
"""``broker_metrics`` of a saved snapshot; ``None`` where it has none."""


def counted_and_seen(entries: Sequence[CachedSnapshot], shown: pa.Table, end: datetime) -> str:
    """Return the leader's counters next to the moves in the saved snapshots.

    Args:
        entries: Saved snapshots of the stretch of time, oldest first.
        shown: ``broker_metrics`` of the shown one.
        end: When that was taken.
    """
    window = [entry for entry in entries if entry.taken_at <= end]
    if len(window) < 2:
        return ""
    before = broker_metrics_of(window[0])
    return counters_sentence(before, shown, len(moves_seen(window)), span_minutes(window))


_LATE: Final = 0.1
"""Of a period: what is saved may begin so much later, before the record is read."""


def _brokers_over(key: tuple[ClusterHistory, Period]) -> list[tuple[datetime, pa.Table]]:
    history, period = key
    rows = history.queries().servers_over(period, BROKER_COLUMNS, MAX_POINTS)
    if not rows.num_rows:
        return []
    at = rows["taken_at"].to_numpy()
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    table = rows.drop_columns(["taken_at"])
    return [
        (ms_to_datetime(int(at[first])), table.slice(int(first), int(last - first)))
        for first, last in zip(starts, [*starts[1:], at.size], strict=True)
    ]


_recorded_tables = cached(_brokers_over, max_entries=8)


def brokers_over(
    config: Config, cluster: Cluster, entries: Sequence[CachedSnapshot], period: Period
) -> list[tuple[datetime, pa.Table]]:
    """Return the brokers' load over a period: as saved, or where that is too short, as recorded.

    Args:
        config: The configuration.
        cluster: Whose.
        entries: Saved snapshots within the period, oldest first.
        period: When.
    Returns:
        Time and brokers table, oldest first, about ``MAX_POINTS`` of them.
    """
    late = entries[0].taken_at - period.start if entries else period.span
    if late.total_seconds() <= max(_LATE * period.span.total_seconds(), config.collect_every_s):
        return broker_history(thinned(entries))
    saved = broker_history(thinned(entries))
    try:
        recorded = _recorded_tables((history_of(config, cluster), period))
    except SnapshotError:
        return saved  # the History page says why
    return _joined(recorded, saved)


def _joined(
    recorded: list[tuple[datetime, pa.Table]], saved: list[tuple[datetime, pa.Table]]
) -> list[tuple[datetime, pa.Table]]:
    """Return the recorded load, which begins earlier, with what was saved since its end."""
    if not recorded or (saved and saved[0][0] <= recorded[0][0]):
        return saved
    return [*recorded, *(one for one in saved[-1:] if one[0] > recorded[-1][0])]


def believed(
    history: Sequence[tuple[datetime, pa.Table]],
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings,
) -> list[tuple[datetime, pa.Table]]:
    """Return the brokers over time without the loads that outlive the reports of a broker.

    Args:
        history: Time and brokers table, oldest first.
        snapshot: The shown one: which brokers are dead, suspected or without reports in it.
        settings: Effective ones, for the interval of reports.
    Returns:
        The same tables; from the time on at which a broker's report was due, its loads are null.
    """
    liveness = liveness_of(snapshot, settings)
    due_ms = {
        name: (liveness.by_broker[name].reported_at or 0) + liveness.late_s * 1000
        for name in liveness.unreported
    }
    return [
        (moment, _without(table, [name for name, at in due_ms.items() if at < _ms(moment)]))
        for moment, table in history
    ]


def _ms(moment: datetime) -> float:
    return moment.timestamp() * 1000


def _without(table: pa.Table, brokers: list[str]) -> pa.Table:
    """Return the table with the loads of some brokers unknown."""
    if not brokers:
        return table
    is_lost = pc.is_in(table["broker"], value_set=pa.array(brokers, pa.string()))
    for at, name in enumerate(table.schema.names):
        if name != "broker":
            nothing = pa.scalar(None, table.schema.field(name).type)
            table = table.set_column(at, name, pc.if_else(is_lost, nothing, table[name]))
    return table
