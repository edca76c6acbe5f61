"""Tiers in this process: DuckDB over rows that the store reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from core.history.store.layout import EVENTS, HOUR_MS, MINUTES
from core.history.store.reading import TimeRange, is_committed, where
from core.history.tiers.model import CLUSTER_KIND, SystemTiers
from core.history.tiers.partitions import condition_of_hours
from core.history.tiers.registry import DAYS, HOURS, PROFILES, tier_tables
from core.history.tiers.sql import (
    Dialect,
    day_query,
    hour_query,
    minute_query,
    profile_query,
    views,
)
from core.snapshot.record import CLUSTER, SEGMENT, TAKEN_AT, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from core.history.store.store import HistoryStore

RowsOfHours = Callable[["HistoryStore", str, SystemTiers, Sequence[int]], pa.Table]

DUCKDB: Final = Dialect(
    quote='"',
    listed=lambda column, order: f"list({column} ORDER BY {order})",
    spread=lambda rows, keys, bins, counts: (
        f"SELECT {keys}, unnest({bins}) AS b, unnest({counts}) AS c FROM {rows} hours"  # noqa: S608  # names of ours
    ),
)
_READ_AT_ONCE: Final = 1_000_000
"""Rows of the history that are read at once: hours of a small cluster share a query."""

_OPTIONS: Final = {"autoinstall_known_extensions": "false", "memory_limit": "2GB", "threads": "1"}


def hours_here(
    store: HistoryStore, cluster: str, system: SystemTiers, hours: Sequence[int]
) -> pa.Table:
    """Return the rows of some hours, computed one after the other.

    Args:
        store: The history.
        cluster: Its name.
        system: Its system; minutes of another one do not count.
        hours: Starts, ms.
    Returns:
        Columns of :data:`core.history.tiers.registry.HOURS`.
    Raises:
        HistoryError: The minutes cannot be read.
    """
    parts = [tier_columns(HOURS).empty_table()]
    at, size = 0, 1
    while at < len(hours):
        some = hours[at : at + size]
        rows, read = _hours(store, cluster, system, some)
        parts.append(rows)
        at += len(some)
        size = max(1, _READ_AT_ONCE * len(some) // max(read, 1))
    return ordered(pa.concat_tables(parts))


def profiles_here(
    store: HistoryStore, cluster: str, system: SystemTiers, hours: Sequence[int]
) -> pa.Table:
    """Return the weekly profiles of some hours of the tier.

    Args:
        store: The history.
        cluster: Its name.
        system: Its system.
        hours: Starts, ms, of all weeks that count for their hours of the week.
    Returns:
        Columns of :data:`core.history.tiers.registry.PROFILES`.
    Raises:
        HistoryError: The hours cannot be read.
    """
    tiers = tier_tables(store)
    rows = tiers.scan(HOURS, profile_columns(system), condition_of_hours(cluster, hours))
    connection = _connected()
    connection.register("tier_hours", _named(rows, cluster))
    return _rows(connection, PROFILES, [profile_query(one) for one in system.everything])


def profile_columns(system: SystemTiers) -> list[str]:
    """Return the columns of hours that profiles are made of."""
    measures = (one.name for subject in system.everything for one in subject.profiled)
    return [TAKEN_AT, "kind", "subject", *dict.fromkeys(f"{one}_mean" for one in measures)]


class TierEngine(Protocol):
    """What computes the rows of tiers: this process or Spark, with equal results."""

    def hours(
        self, store: HistoryStore, cluster: str, system: SystemTiers, hours: Sequence[int], /
    ) -> pa.Table:
        """Return the rows of some hours, as :func:`hours_here` does."""
        ...

    def profiles(
        self, store: HistoryStore, cluster: str, system: SystemTiers, hours: Sequence[int], /
    ) -> pa.Table:
        """Return the profiles of some hours, as :func:`profiles_here` does."""
        ...


@dataclass(frozen=True)
class LocalTiers:
    """Computes the rows of tiers in this process."""

    hours: RowsOfHours = hours_here
    profiles: RowsOfHours = profiles_here


IN_PROCESS: Final = LocalTiers()


def subject_hours(
    store: HistoryStore,
    cluster: str,
    system: SystemTiers,
    hours: Sequence[int],
    kind: str,
    name: str,
) -> pa.Table:
    """Return the hours of one subject and of the cluster, computed from minutes.

    Args:
        store: The history.
        cluster: Its name.
        system: Its system.
        hours: Starts, ms.
        kind: Of the subject.
        name: Of the subject.
    Returns:
        Columns of :data:`core.history.tiers.registry.HOURS`.
    Raises:
        HistoryError: The minutes cannot be read.
    """
    rows, _ = _hours(store, cluster, system.narrowed(kind), hours, (kind, name))
    return rows.filter(
        ((pc.field("kind") == kind) & (pc.field("subject") == name))
        | (pc.field("kind") == CLUSTER_KIND)
    )


def subject_minutes(
    store: HistoryStore,
    cluster: str,
    system: SystemTiers,
    hours: Sequence[int],
    kind: str,
    name: str,
) -> pa.Table:
    """Return the minutes of one subject, by time: ``taken_at`` and its measures.

    Args:
        store: The history.
        cluster: Its name.
        system: Its system.
        hours: Starts of the hours that are read, ms.
        kind: Of the subject.
        name: Of the subject.
    Raises:
        HistoryError: The minutes cannot be read.
    """
    connection = _connected()
    narrowed = system.narrowed(kind)
    _prepare(connection, store, cluster, narrowed, hours, (kind, name))
    subject = next(one for one in narrowed.everything if one.kind == kind)
    rows = connection.sql(minute_query(subject), params={"name": name}).to_arrow_table()
    connection.close()
    return rows


def days_here(cluster: str, system: SystemTiers, hours: pa.Table) -> pa.Table:
    """Return the days of a cluster from all of their hours.

    Args:
        cluster: Its name.
        system: Its system.
        hours: Rows of :data:`core.history.tiers.registry.HOURS`.
    """
    connection = _connected()
    connection.register("tier_hours", _named(hours, cluster))
    return _rows(connection, DAYS, [day_query(one, DUCKDB) for one in system.everything])


def tier_columns(kind: Kind) -> pa.Schema:
    """Return the columns of a tier with the time in front."""
    return pa.schema([pa.field(TAKEN_AT, pa.int64()), *kind.columns])


def _hours(
    store: HistoryStore,
    cluster: str,
    system: SystemTiers,
    hours: Sequence[int],
    only: tuple[str, str] | None = None,
) -> tuple[pa.Table, int]:
    """Return the rows of some hours, and how many rows were read for them.

    Args:
        only: Kind and name of the one subject that is needed, next to the servers.
    """
    connection = _connected()
    read = _prepare(connection, store, cluster, system, hours, only)
    queries = [hour_query(system, one, DUCKDB) for one in system.everything]
    return _rows(connection, HOURS, queries), read


def _prepare(
    connection: duckdb.DuckDBPyConnection,
    store: HistoryStore,
    cluster: str,
    system: SystemTiers,
    hours: Sequence[int],
    only: tuple[str, str] | None,
) -> int:
    """Give a connection the relations that hours are made from; return how many rows were read."""
    read = 0
    for name, rows in _sources(store, cluster, system, hours, only):
        connection.register(name, rows)
        read += rows.num_rows
    for name, sql in views(system, DUCKDB):
        form = "VIEW" if name.startswith("tier_spans") else "TABLE"
        connection.execute(f"CREATE TEMP {form} {name} AS {sql}")
    return read


def _sources(
    store: HistoryStore,
    cluster: str,
    system: SystemTiers,
    hours: Sequence[int],
    only: tuple[str, str] | None,
) -> Iterator[tuple[str, pa.Table]]:
    span = TimeRange(min(hours), max(hours) + HOUR_MS - 1)
    starts = ", ".join(str(one) for one in hours)
    of_hours = where(cluster, span, f"{TAKEN_AT} - {TAKEN_AT} % {HOUR_MS} IN ({starts})")
    of_system = f"{of_hours} AND system = '{system.system}'"
    minutes = store.tables.scan(MINUTES, (TAKEN_AT, SEGMENT), of_system)
    yield "tier_minutes", _named(minutes, cluster)
    columns = [TAKEN_AT, SEGMENT, *EVENTS.columns.names]
    events = store.tables.scan(EVENTS, columns, of_hours)
    events = events.filter(pa.array(is_committed(events, minutes)))
    yield "tier_events", _named(events, cluster)
    members = "" if only is None else _members(system, *only)
    for subject in system.subjects:
        if subject.rows:
            kind = store.tables.kinds.of(subject.rows)
            books = (TAKEN_AT, SEGMENT, "gone", "copy")
            is_limited = members and not subject.is_server
            predicate = f"{of_hours} AND {members}" if is_limited else of_hours
            rows = store.tables.scan(kind, [*books, *subject.columns], predicate)
            yield f"tier_rows_{subject.rows}", _named(rows, cluster)


def _members(system: SystemTiers, kind: str, name: str) -> str:
    subject = next(one for one in system.everything if one.kind == kind)
    return subject.members(name)


def _named(rows: pa.Table, cluster: str) -> pa.Table:
    return rows.append_column(CLUSTER, pa.repeat(pa.scalar(cluster), rows.num_rows))


def _connected() -> duckdb.DuckDBPyConnection:
    import duckdb  # noqa: PLC0415  # commands that ask nothing start fast

    return duckdb.connect(":memory:", config=dict(_OPTIONS))


def _rows(connection: duckdb.DuckDBPyConnection, kind: Kind, queries: list[str]) -> pa.Table:
    parts = [completed(kind, connection.sql(query).to_arrow_table()) for query in queries]
    connection.close()
    return ordered(pa.concat_tables(parts))


def completed(kind: Kind, rows: pa.Table) -> pa.Table:
    """Return rows of one subject with all columns of the tier; those of others are null."""
    names = set(rows.column_names)
    columns = [
        rows[one.name].cast(one.type) if one.name in names else pa.nulls(rows.num_rows, one.type)
        for one in tier_columns(kind)
    ]
    return pa.table(columns, schema=tier_columns(kind))


def ordered(rows: pa.Table) -> pa.Table:
    """Return rows by kind, subject and time: those of a subject compress best together."""
    return rows.sort_by([(name, "ascending") for name in ("kind", "subject", TAKEN_AT)])
