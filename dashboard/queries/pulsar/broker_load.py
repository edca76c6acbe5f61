"""Brokers and a bundle over time, and metrics of saved snapshots, each read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.errors import SnapshotError
from core.history.queries.query import Drain, step_of
from core.history.queries.sql import Period
from core.pulsar.liveness import liveness_of
from core.schemas.pulsar import BROKER_METRICS
from core.snapshot.store import CachedSnapshot, read_table
from core.units import ms_to_datetime
from dashboard.presenters.moves import ObservedMove
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
    table = rows.drop_columns(["taken_at"]).append_column(
        "emptied_at", _emptied(rows, history.queries().drains(period))
    )
    return [
        (ms_to_datetime(int(at[first])), table.slice(int(first), int(last - first)))
        for first, last in zip(starts, [*starts[1:], at.size], strict=True)
    ]


def _emptied(rows: pa.Table, drains: Sequence[Drain]) -> pa.Array:
    """Return since when the broker of each recorded row was drained; null where it was not."""
    at, names = rows["taken_at"].to_numpy(), rows["broker"].to_numpy(zero_copy_only=False)
    since = np.full(rows.num_rows, -1, np.int64)
    for one in drains:
        is_drained = (names == one.server) & (at >= one.start_ms) & (at < one.end_ms)
        since[is_drained] = one.start_ms
    return pa.array(since, mask=since < 0)


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
    if not _is_late(config, entries, period):
        return broker_history(thinned(entries))
    saved = broker_history(thinned(entries))
    try:
        recorded = _recorded_tables((history_of(config, cluster), period))
    except SnapshotError:
        return saved  # the History page says why
    return _joined(recorded, saved)


def _is_late(config: Config, entries: Sequence[CachedSnapshot], period: Period) -> bool:
    """Whether the saved snapshots of a period begin so late that the record is read."""
    late = entries[0].taken_at - period.start if entries else period.span
    limit_s = max(_LATE * period.span.total_seconds(), config.collect_every_s)
    return late.total_seconds() > limit_s


@dataclass(frozen=True, kw_only=True)
class RecordedBundle:
    """One bundle as recorded, oldest first.

    Attributes:
        times: From the first minute with load on, aware UTC.
        rates: Traffic in and out, bytes/s; each has the length of ``times``.
        moves: Changes of its owner.
        end: The last recorded minute.
    """

    times: list[datetime]
    rates: Mapping[str, NDArray[np.float64]]
    moves: list[ObservedMove]
    end: datetime


_RECORDED: Final = ("msg_throughput_in", "msg_throughput_out")


def _bundle_over(key: tuple[ClusterHistory, Period, str]) -> RecordedBundle | None:
    history, period, bundle = key
    minutes = history.minutes(period)
    if not len(minutes):
        return None
    rows = history.queries().bundle_series(
        bundle, minutes, period, step_of(minutes, MAX_POINTS), {one: one for one in _RECORDED}
    )
    rates = {one: rows[one].to_numpy() for one in _RECORDED}
    busy = np.flatnonzero(sum(rates.values()))
    if not busy.size:
        return None
    # before its first load it may not have existed
    first = int(busy[0])
    events = history.events().events(period, kinds=("move",), subject=bundle)
    moves = [move for move in _moves_of(events) if move.bundle == bundle]
    return RecordedBundle(
        times=[ms_to_datetime(at) for at in rows["at"].to_pylist()[first:]],
        rates={one: values[first:] for one, values in rates.items()},
        moves=moves,
        end=minutes.moment(len(minutes) - 1),
    )


def _moves_of(events: pa.Table) -> list[ObservedMove]:
    """Return recorded moves, which are newest first, oldest first."""
    return [
        ObservedMove(
            seen_at=ms_to_datetime(row["taken_at"]),
            bundle=row["subject"],
            from_broker=row["before"] or None,
            to_broker=row["after"] or None,
        )
        for row in reversed(events.to_pylist())
    ]


_recorded_bundles = cached(_bundle_over, max_entries=16)


def bundle_over(
    config: Config,
    cluster: Cluster,
    entries: Sequence[CachedSnapshot],
    period: Period,
    bundle: str,
) -> RecordedBundle | None:
    """Return a bundle as recorded; ``None`` if the saved snapshots suffice or nothing is recorded.

    Args:
        config: The configuration.
        cluster: Whose.
        entries: Saved snapshots within the period, oldest first.
        period: When.
        bundle: Its name.
    """
    if not _is_late(config, entries, period):
        return None
    try:
        return _recorded_bundles((history_of(config, cluster), period, bundle))
    except SnapshotError:
        return None  # the History page says why


_MAX_MOVES: Final = 2_000


def _broker_moves(key: tuple[ClusterHistory, Period, str]) -> list[ObservedMove]:
    history, period, broker = key
    found = history.events().events(period, kinds=("move",), server=broker, limit=_MAX_MOVES)
    return _moves_of(found)


_recorded_moves = cached(_broker_moves, max_entries=16)


def moves_over(
    config: Config,
    cluster: Cluster,
    entries: Sequence[CachedSnapshot],
    period: Period,
    broker: str,
) -> list[ObservedMove]:
    """Return the moves to and from a broker over a period, oldest first: recorded, then as saved.

    Args:
        config: The configuration.
        cluster: Whose.
        entries: Saved snapshots within the period, oldest first.
        period: When.
        broker: Its id.
    """
    seen = moves_seen(thinned(entries, _MOVE_POINTS))
    saved = [move for move in seen if broker in (move.from_broker, move.to_broker)]
    if not _is_late(config, entries, period):
        return saved
    end = entries[0].taken_at if entries else period.end
    try:
        recorded = _recorded_moves((history_of(config, cluster), Period(period.start, end), broker))
    except SnapshotError:
        return saved  # the History page says why
    return [*recorded, *saved]


_MOVE_POINTS: Final = 30


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
