"""Keeping a history small: files of closed hours put together, old days dropped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.history.store.layout import (
    HOUR_MS,
    MINUTES,
    quoted,
    segment_begun_ms,
)
from core.history.store.reading import TimeRange, is_committed, where
from core.history.store.tables import ConflictingCommitError, Tables, translated
from core.snapshot.clock import ClockJump, clock_jump
from core.snapshot.record import (
    CLUSTER,
    DAY,
    SEGMENT,
    TAKEN_AT,
    Kind,
)

_DAY_HOURS: Final = 24
_CLOSED_AFTER_MS: Final = 300_000
"""An hour is closed this long after its end: a slow writer may still be at its last minute."""

_GIVEN_UP_MS: Final = 2 * HOUR_MS
"""Uncommitted rows of segments that were begun longer ago were left by a writer that is gone."""

_MAX_ROWS: Final = 8_000_000
"""Rows that are sorted at once; a larger hour stays in several files."""

_DAY_ROWS: Final = 1_000_000
"""A closed day of a kind with fewer rows is one file, else each hour: few files to open for what is
small, few rows to pass over for what is large."""

_ATTEMPTS: Final = 5
_SAFE_HOURS: Final = 24
"""Files that a commit took out of a table are removed from storage this long after, so that no
reader who began to read before misses one: a job over a year of a large fleet takes hours."""


@dataclass(frozen=True, slots=True)
class KindSize:
    """Size of one kind of one cluster."""

    files: int
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """Result of a compaction.

    Attributes:
        hours: Hours and days of single kinds that were put together.
        files_before: Files that they were in.
        busy: Hours that another process wrote to at the same time: left for the next turn.
        removed: Old files that were removed from storage.
    """

    hours: int = 0
    files_before: int = 0
    busy: int = 0
    removed: int = 0


def compact(
    tables: Tables, cluster: str, now_ms: int, *, most_rows: int = _MAX_ROWS
) -> CompactionResult:
    """Put files of closed hours together, sorted by key and time, without what was left behind.

    Small days become one file when they are over. Whoever reads or records meanwhile is not
    disturbed: what is put together is replaced in one commit, and its old files stay for a day.

    Args:
        tables: The history.
        cluster: Its name.
        now_ms: Now; hours that ended five minutes before are closed.
        most_rows: Rows that are sorted at once, and go into one file.
    Raises:
        HistoryError: Something cannot be read or written.
    """
    closed = (now_ms - _CLOSED_AFTER_MS) // HOUR_MS
    hours = files_before = busy = removed = 0
    for kind in tables.kinds:
        for files, spans in _loose(added_files(tables, kind, cluster), closed, most_rows):
            try:
                for span in spans:
                    _compact_span(tables, kind, cluster, span)
            except ConflictingCommitError:
                busy += 1
                continue
            hours += 1
            files_before += files
        removed += tidied(tables, kind)
    return CompactionResult(hours, files_before, busy, removed)


def retain(
    tables: Tables, cluster: str, now: datetime, max_age: timedelta, max_bytes: int
) -> list[str]:
    """Drop the oldest days of all kinds until the rest is young and small enough; never today.

    Returns:
        The days that were dropped, oldest first.
    Raises:
        HistoryError: Something cannot be read or written.
    """
    bytes_by_day: dict[str, int] = {}
    for kind in tables.kinds:
        added = added_files(tables, kind, cluster)
        for day, size in zip(added["day"].to_pylist(), added["bytes"].to_pylist(), strict=True):
            bytes_by_day[day] = bytes_by_day.get(day, 0) + size
    today = now.astimezone(UTC).strftime("%Y-%m-%d")
    oldest = (now - max_age).astimezone(UTC).strftime("%Y-%m-%d")
    total = sum(bytes_by_day.values())
    dropped = []
    for day in sorted(bytes_by_day):
        if day >= today or (day >= oldest and total <= max_bytes):
            break
        total -= bytes_by_day[day]
        dropped.append(day)
    if dropped:
        # minutes first: what they do not name is not seen any more
        for kind in (MINUTES, *(one for one in tables.kinds if one is not MINUTES)):
            _drop(tables, kind, cluster, dropped[-1])
    return dropped


def jump(tables: Tables, cluster: str, now: datetime, max_age: timedelta) -> ClockJump | None:
    """Return the jump of the clock for which retention waits, by the days that have minutes."""
    days = set(added_files(tables, MINUTES, cluster)["day"].to_pylist())
    moments = [datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC) for day in days]
    return clock_jump(moments, now, max_age, usual=timedelta(days=2))


def sizes(tables: Tables, cluster: str) -> dict[str, KindSize]:
    """Files, bytes and rows by kind, of kinds that have any."""
    found = {}
    for kind in tables.kinds:
        added = added_files(tables, kind, cluster)
        if added.num_rows:
            total = [int(pc.sum(added[name]).as_py() or 0) for name in ("bytes", "rows")]
            found[kind.name] = KindSize(added.num_rows, *total)
    return found


def added_files(tables: Tables, kind: Kind, cluster: str) -> pa.Table:
    """A kind's files of a cluster: ``day``, ``bytes``, ``rows``, ``first``, ``last`` (ms)."""
    schema = pa.schema(
        [("day", pa.string()), *[(name, pa.int64()) for name in ("bytes", "rows", "first", "last")]]
    )
    table = tables.table(kind.name)
    if table is None:
        return schema.empty_table()
    with translated(tables.address(kind.name)):
        actions = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    if not actions.num_rows:
        return schema.empty_table()
    mine = actions.filter(pc.equal(actions[f"partition.{CLUSTER}"], cluster))
    columns = (
        *(f"partition.{DAY}", "size_bytes", "num_records"),
        *(f"min.{TAKEN_AT}", f"max.{TAKEN_AT}"),
    )
    taken = [mine[name].cast(one.type) for name, one in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(taken, schema=schema)


def _loose(added: pa.Table, closed: int, most_rows: int) -> Iterator[tuple[int, list[TimeRange]]]:
    """Closed hours, and small days, in more files than they need.

    Returns:
        For each the number of its files, and the times of the new ones.
    """
    first, last, rows = (
        pc.fill_null(added[name], 0).to_numpy() for name in ("first", "last", "rows")
    )
    hours = first // HOUR_MS
    days = hours // _DAY_HOURS
    for day in np.unique(days[hours < closed]).tolist():
        of_day = days == day
        is_small = day < closed // _DAY_HOURS and int(rows[of_day].sum()) <= _DAY_ROWS
        groups = [of_day] if is_small else [of_day & (hours == h) for h in np.unique(hours[of_day])]
        for mine in groups:
            files = int(mine.sum())
            needed = max(1, -(-int(rows[mine].sum()) // most_rows))
            if files > needed and hours[mine].max() < closed:
                edges = np.linspace(first[mine].min(), last[mine].max() + 1, needed + 1)
                whole = edges.astype(np.int64).tolist()
                yield files, [TimeRange(start, end - 1) for start, end in pairwise(whole)]


def _compact_span(tables: Tables, kind: Kind, cluster: str, span: TimeRange) -> None:
    committed = tables.scan(MINUTES, (TAKEN_AT, SEGMENT), where(cluster, span))
    # one version for what is read and what is replaced: a row that came between them would be lost
    basis = tables.fresh(kind)
    rows = tables.scan(kind, kind.stored.names, where(cluster, span), basis)
    if kind is not MINUTES:
        # another recorder may be writing a young segment: its minute comes last
        begun_ms = segment_begun_ms(pc.fill_null(rows[SEGMENT], 0).to_numpy())
        is_young = begun_ms >= time.time_ns() // 1_000_000 - _GIVEN_UP_MS
        rows = rows.filter(pa.array(is_committed(rows, committed) | is_young))
    keys = [(name, "ascending") for name in (*kind.key, TAKEN_AT)]
    tables.replace(kind, rows.sort_by(keys), where(cluster, span), basis)


def tidied(tables: Tables, kind: Kind) -> int:
    """Remove files from storage that no version of the last day has."""
    table = tables.table(kind.name)
    if table is None:
        return 0
    with translated(tables.address(kind.name)):
        gone = table.vacuum(
            retention_hours=_SAFE_HOURS, dry_run=False, enforce_retention_duration=False, full=True
        )
    tables.drop_sums(kind.name, [PurePosixPath(one).name for one in gone])
    return len(gone)


def _drop(tables: Tables, kind: Kind, cluster: str, last_day: str) -> None:
    for attempt in range(_ATTEMPTS):
        table = tables.table(kind.name)
        if table is None:
            return
        try:
            with translated(tables.address(kind.name)):
                table.delete(f"{CLUSTER} = {quoted(cluster)} AND {DAY} <= {quoted(last_day)}")
        except ConflictingCommitError:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return
