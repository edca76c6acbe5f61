"""Reading a history: minutes, rows of committed minutes, and the snapshot of any minute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.errors import InputError
from core.history.store.changes import KeyedRows, aligned, in_order, latest
from core.history.store.layout import (
    DAY_MS,
    HOUR_MS,
    MINUTES,
    HistoryError,
    day_of,
    quoted,
)
from core.history.store.tables import Tables
from core.snapshot import Manifest
from core.snapshot.record import (
    CLUSTER,
    COPY,
    DAY,
    GONE,
    ROW_AT,
    SEGMENT,
    TAKEN_AT,
    Kind,
)
from core.snapshot.store import Storable
from core.units import datetime_to_ms, ms_to_datetime

Bools = NDArray[np.bool_]

_LISTED: Final = (TAKEN_AT, "snapshot_id", SEGMENT, "system")
_COMMITTED: Final = (TAKEN_AT, SEGMENT)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A time range in ms, both ends in it; ``None`` if unbounded."""

    start: int | None = None
    end: int | None = None

    def predicate(self) -> list[str]:
        """Conditions, the partitions' first."""
        found = []
        if self.start is not None:
            found += [f"{DAY} >= {quoted(day_of(self.start))}", f"{TAKEN_AT} >= {self.start}"]
        if self.end is not None:
            found += [f"{DAY} <= {quoted(day_of(self.end))}", f"{TAKEN_AT} <= {self.end}"]
        return found


def between(start: datetime | None, end: datetime | None) -> TimeRange:
    """Return a time range."""
    return TimeRange(
        None if start is None else datetime_to_ms(start),
        None if end is None else datetime_to_ms(end),
    )


def where(cluster: str | None, span: TimeRange, *more: str) -> str:
    """Return a condition on a cluster's rows in a time range."""
    of = [] if cluster is None else [f"{CLUSTER} = {quoted(cluster)}"]
    return " AND ".join([*of, *span.predicate(), *more]) or "true"


def clusters(tables: Tables) -> list[str]:
    """Names of the clusters with a recorded minute, sorted."""
    table = tables.table(MINUTES.name)
    if table is None:
        return []
    return sorted({str(partition[CLUSTER]) for partition in table.partitions()})


def minutes(tables: Tables, cluster: str, span: TimeRange) -> pa.Table:
    """Recorded minutes, oldest first: ``taken_at``, ``snapshot_id``, ``segment``, ``system``."""
    return tables.scan(MINUTES, _LISTED, where(cluster, span)).sort_by(TAKEN_AT)


@dataclass(frozen=True)
class RowQuery:
    """Requested rows and columns of a kind; see :meth:`HistoryStore.rows`.

    Attributes:
        kind: The kind.
        columns: Wanted columns; ``None`` for all that readers see.
        matching: Columns of text, and the value that they have.
        max_rows: More are refused; ``None``: no limit.
    """

    kind: Kind
    columns: Sequence[str] | None = None
    matching: Mapping[str, str] = field(default_factory=dict)
    max_rows: int | None = None

    def names(self) -> list[str]:
        """Wanted columns, the time first.

        Raises:
            HistoryError: The kind does not have one of them.
        """
        shown = _shown(self.kind)
        names = shown if self.columns is None else list(self.columns)
        for name in (*names, *self.matching):
            if name not in self.kind.stored.names:
                raise HistoryError(
                    f"Rows of kind {self.kind.name!r} have no column {name!r}.",
                    hint=f"Columns: {', '.join(shown)}.",
                )
        return list(dict.fromkeys([TAKEN_AT, *names]))


def rows(tables: Tables, wanted: RowQuery, cluster: str, span: TimeRange) -> pa.Table:
    """Rows of one kind, sorted by ``taken_at``; see :meth:`HistoryStore.rows`."""
    names = wanted.names()
    # minutes first: whatever they name was committed before them
    committed = tables.scan(MINUTES, _COMMITTED, where(cluster, span))
    equal = [f'"{name}" = {quoted(value)}' for name, value in wanted.matching.items()]
    columns = list(dict.fromkeys([*names, SEGMENT]))
    predicate = where(cluster, span, *equal)
    if wanted.max_rows is None:
        found = tables.scan(wanted.kind, columns, predicate)
    else:
        found = _bounded(tables, wanted.kind, columns, predicate, wanted.max_rows)
    committed_rows = found.filter(pa.array(is_committed(found, committed)))
    return committed_rows.sort_by(TAKEN_AT).select(names)


def _bounded(
    tables: Tables, kind: Kind, columns: Sequence[str], predicate: str, max_rows: int
) -> pa.Table:
    """Return the rows that fit; reading ends with the first batch beyond a number of rows.

    Raises:
        InputError: There are more.
    """
    batches = [tables.scan(kind, columns, "false")]
    count = 0
    for batch in tables.batches(kind, columns, predicate):
        count += batch.num_rows
        if count > max_rows:
            raise InputError(
                f"More than {max_rows:,} rows of kind {kind.name} are in this time range.",
                hint="Request a shorter range.",
            )
        batches.append(batch)
    return pa.concat_tables(batches)


def is_committed(found: pa.Table, committed: pa.Table) -> Bools:
    """SQL filter of valid rows: without a segment, or of a committed minute.

    Args:
        found: ``taken_at`` and ``segment`` of one cluster.
        committed: The same of its ``minutes``.
    """
    alone: Bools = np.asarray(pc.is_null(found[SEGMENT]))
    if alone.all():
        return alone
    times, segments = (committed[name].to_numpy() for name in (TAKEN_AT, SEGMENT))
    if not times.size:
        return alone
    order = np.argsort(times)  # a cluster has a time once
    of = found[TAKEN_AT].to_numpy()
    places = order[np.minimum(np.searchsorted(times, of, sorter=order), times.size - 1)]
    mine = pc.fill_null(found[SEGMENT], 0).to_numpy()
    is_there: Bools = (times[places] == of) & (segments[places] == mine)
    return alone | is_there


def files(
    tables: Tables, kind: Kind, cluster: str | None, span: TimeRange, *more: str
) -> list[str]:
    """Addresses of Parquet files that may hold such rows."""
    table = tables.table(kind.name)
    if table is None:
        return []
    return sorted(table.file_uris(file_pruning_predicate=where(cluster, span, *more)))


def last_minute(tables: Tables, cluster: str, moment: int) -> dict[str, Any] | None:
    """The newest minute at or before ``moment`` with its manifest; ``None`` if there is none."""
    for start in (moment - HOUR_MS, moment - DAY_MS, None):
        listed = tables.scan(MINUTES, _COMMITTED, where(cluster, TimeRange(start, moment)))
        if listed.num_rows:
            at = pc.max(listed[TAKEN_AT]).as_py()
            columns = [*_LISTED, "manifest"]
            found = tables.scan(MINUTES, columns, where(cluster, TimeRange(at, at))).to_pylist()
            if found:
                return dict(found[0])
    return None


def snapshot_at(tables: Tables, cluster: str, moment: int) -> Storable:
    """Return the newest recorded snapshot at or before ``moment``.

    Raises:
        HistoryError: There is none, or its rows do not make up what was recorded.
    """
    minute = last_minute(tables, cluster, moment)
    if minute is None:
        raise HistoryError(
            f"No history of {cluster!r} is recorded before "
            f"{ms_to_datetime(moment):%Y-%m-%d %H:%M:%S}Z.",
            hint="Choose a later time; `trimtab history minutes` lists the first recorded minute.",
        )
    return rebuilt(tables, cluster, minute)


def rebuilt(tables: Tables, cluster: str, minute: dict[str, Any]) -> Storable:
    """Put a recorded minute together again.

    Raises:
        HistoryError: What is there does not have the recorded content.
    """
    taken_at, segment = minute[TAKEN_AT], minute[SEGMENT]
    # a segment never leaves its hour
    span = TimeRange(taken_at - taken_at % HOUR_MS, taken_at)
    of_segment = f"{SEGMENT} = {segment}"
    committed = tables.scan(MINUTES, _COMMITTED, where(cluster, span, of_segment))
    system = tables.kinds.system(minute["system"])
    kinds = system.kinds
    held: dict[str, KeyedRows] = {}
    for kind in kinds:
        found = _in_force(tables, kind, cluster, span, of_segment)
        held[kind.name] = latest(kind, found.filter(pa.array(is_committed(found, committed))))
    parts = {name: _table(name, kinds, held) for name in system.tables}
    manifest = msgspec.json.decode(minute["manifest"], type=Manifest)
    snapshot: Storable = system.build(manifest, parts)
    if snapshot.snapshot_id != minute["snapshot_id"]:
        raise HistoryError(
            f"The history of {cluster!r} is altered at "
            f"{ms_to_datetime(taken_at):%Y-%m-%d %H:%M:%S}Z: content {snapshot.snapshot_id}, "
            f"recorded {minute['snapshot_id']}.",
            hint="Its files were changed, or a newer version of Trimtab recorded it. Read it "
            "with that version.",
        )
    if manifest.cluster != cluster:  # taken in under another name
        snapshot = system.build(replace(manifest, cluster=cluster), parts)
    return snapshot


def _in_force(
    tables: Tables, kind: Kind, cluster: str, span: TimeRange, of_segment: str
) -> pa.Table:
    """Rows of a segment that may be in force at the end of ``span``."""
    columns = [name for name in kind.stored.names if name not in (CLUSTER, DAY)]
    at = where(cluster, TimeRange(span.end, span.end), of_segment)
    if kind.habit == "every":
        return tables.scan(kind, columns, at)
    whole = where(cluster, span, of_segment)
    if any(kind.columns.field(name).nullable for name in kind.key):
        return tables.scan(kind, columns, whole)
    return tables.last_rows(kind, columns, f"{whole} AND {TAKEN_AT} < {span.end}", at)


def _table(name: str, kinds: tuple[Kind, ...], held: dict[str, KeyedRows]) -> pa.Table:
    """One snapshot table out of its kinds."""
    spine = next(kind for kind in kinds if kind.table == name and kind.is_spine)
    whole = in_order(spine, held[spine.name])
    columns = {one: whole.rows[one] for one in spine.columns.names}
    for kind in kinds:
        if kind.table == name and kind is not spine:
            part = aligned(whole, held[kind.name])
            columns |= {one: part[one] for one in kind.columns.names if one not in columns}
    return pa.table(columns)


def _shown(kind: Kind) -> list[str]:
    """Columns that readers see unless they name others."""
    hidden = {CLUSTER, DAY, SEGMENT, ROW_AT, COPY} | (set() if kind.habit != "every" else {GONE})
    return [name for name in kind.stored.names if name not in hidden]
