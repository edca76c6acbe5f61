"""A tape out of the history: only what changed is read, not one snapshot a minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.errors import InputError
from core.history.backtest.pegasus.building import (
    LOAD_COLUMNS,
    MinuteRows,
    minute_of,
    minute_rows,
    partition_keys,
    sizes_of_replicas,
    tape_of_minutes,
)
from core.history.backtest.pegasus.tape import PegasusTape, Times
from core.history.store.layout import HistoryError
from core.history.store.store import HistoryStore
from core.pegasus.view import Flags
from core.schemas.pegasus import PARTITIONS, SETTINGS, TABLES
from core.snapshot.pegasus import PegasusSnapshot
from core.snapshot.record import GONE, SEGMENT, TAKEN_AT
from core.units import ms_to_datetime

_JUST_BEFORE: Final = timedelta(milliseconds=1)


def tape_of_history(
    store: HistoryStore,
    cluster: str,
    start: datetime,
    end: datetime,
    *,
    minute_s: float = 60.0,
) -> PegasusTape:
    """Return one window of a recorded cluster.

    Args:
        store: The history.
        cluster: Its name.
        start: First moment.
        end: Last moment, which itself does not belong to it.
        minute_s: Seconds of the record that count as a minute of the cluster; of several recorded
            moments of a minute the last one counts.
    Raises:
        HistoryError: No minute was recorded in the window, or it cannot be read.
        InputError: The cluster is no Pegasus cluster.
    """
    end = end - _JUST_BEFORE
    listed = store.minutes(cluster, start, end)
    if not listed.num_rows:
        raise HistoryError(
            f"Nothing of {cluster!r} was recorded from {start:%Y-%m-%d %H:%M}Z to "
            f"{end:%Y-%m-%d %H:%M}Z.",
            hint="Choose a range within the record.",
        )
    times = listed[TAKEN_AT].to_pylist()
    kept = {minute_of(at_ms, times[0], minute_s): at_ms for at_ms in times}
    chosen = list(kept.values())
    first = store.snapshot_at(cluster, ms_to_datetime(chosen[0]))
    if not isinstance(first, PegasusSnapshot):
        raise InputError(
            f"{cluster} is a Pulsar cluster; policies and switches of Pegasus do not apply to it.",
            hint="Name Pegasus clusters under `clusters` of the grid.",
        )
    return tape_of_minutes(first, _Walk.of(store, first, chosen, _segment_starts(listed)).minutes())


@dataclass(eq=False)
class _Walk:
    """Goes through a window minute by minute."""

    first: PegasusSnapshot
    chosen: list[int]
    rows: Mapping[str, _ByTime]
    store: HistoryStore
    segment_starts: Times
    there: Times = field(default_factory=lambda: np.zeros(0, np.int64))
    settings: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, store: HistoryStore, first: PegasusSnapshot, chosen: list[int], starts: Times
    ) -> _Walk:
        wanted = {
            "nodes": ["node", "is_alive"],
            "partitions": [*PARTITIONS.names[:6], GONE],
            "tables": [*TABLES.names, GONE],
            "settings": [*SETTINGS.names, GONE],
            "replica_loads": [*LOAD_COLUMNS, GONE],
        }
        start, end = ms_to_datetime(chosen[0]), ms_to_datetime(chosen[-1])
        cluster = first.manifest.cluster
        rows = {
            kind: _ByTime.of(store.rows(kind, cluster, start, end, columns))
            for kind, columns in wanted.items()
        }
        return cls(first, chosen, rows, store, starts)

    def minutes(self) -> list[MinuteRows]:
        # the first minute has everything, as the rows after it tell no more than changes
        begun = replace(minute_rows(self.first, None), at_ms=self.chosen[0])
        self.there = partition_keys(self.first.tables["partitions"])
        self.settings = dict(self.first.settings)
        found = [begun]
        for before, at_ms in zip(self.chosen[:-1], self.chosen[1:], strict=True):
            found.append(self._minute(before, at_ms))
        return found

    def _minute(self, after_ms: int, at_ms: int) -> MinuteRows:
        parts = self.rows["partitions"].within(after_ms, at_ms)
        tables = self.rows["tables"].within(after_ms, at_ms)
        tables = tables.filter(np.asarray(tables["status"]) == "available")
        begun = self.segment_starts
        begun_ms = max(begun[(begun > after_ms) & (begun <= at_ms)].tolist(), default=None)
        partitions, gone = self._partitions(parts, begun_ms)
        return MinuteRows(
            at_ms=at_ms,
            nodes=self.rows["nodes"].within(at_ms - 1, at_ms),
            partitions=partitions,
            gone=gone,
            loads=self.rows["replica_loads"].within(
                after_ms if begun_ms is None else begun_ms - 1, at_ms
            ),
            has_all_loads=begun_ms is not None,
            tables=tables if tables.num_rows else None,
            sizes=self._sizes(at_ms, partitions),
            settings=self._settings(self.rows["settings"].within(after_ms, at_ms), begun_ms),
        )

    def _partitions(self, rows: pa.Table, begun_ms: int | None) -> tuple[pa.Table | None, Times]:
        """Return changed rows and vanished keys, and remember which are there."""
        if not rows.num_rows:
            return None, np.zeros(0, np.int64)
        keys = partition_keys(rows)
        rows, keys = _last_of(rows, keys)
        is_gone = _is_gone(rows)
        gone = keys[is_gone]
        if begun_ms is not None:  # what is not told again has vanished meanwhile
            told = keys[rows[TAKEN_AT].to_numpy() >= begun_ms]
            gone = np.union1d(gone, np.setdiff1d(self.there, told))
        self.there = np.setdiff1d(np.union1d(self.there, keys[~is_gone]), gone)
        return rows.filter(pa.array(~is_gone)), gone

    def _sizes(self, at_ms: int, partitions: pa.Table | None) -> pa.Table | None:
        """Return sizes where a table has just come; others have theirs from the first minute."""
        if partitions is None:
            return None
        known = self.first.tables["tables"]["app_id"].to_pylist()
        if not set(partitions["app_id"].to_pylist()) - set(known):
            return None
        moment = ms_to_datetime(at_ms)
        columns = ["app_id", "index", "is_primary", "size_mb"]
        return sizes_of_replicas(
            self.store.rows("replicas", self.first.manifest.cluster, moment, moment, columns)
        )

    def _settings(self, rows: pa.Table, begun_ms: int | None) -> Mapping[str, str] | None:
        if not rows.num_rows:
            return None
        if begun_ms is not None:
            rows = rows.filter(pc.greater_equal(rows[TAKEN_AT], begun_ms))
        told = dict(self.settings) if begun_ms is None else {}
        for row in rows.to_pylist():
            if row[GONE]:
                told.pop(row["name"], None)
            else:
                told[row["name"]] = row["value"]
        if told == self.settings:
            return None
        self.settings = told
        return told


@dataclass(frozen=True, eq=False)
class _ByTime:
    """Rows sorted by time."""

    table: pa.Table
    times: Times

    @classmethod
    def of(cls, table: pa.Table) -> _ByTime:
        return cls(table, np.asarray(table[TAKEN_AT].to_numpy(), dtype=np.int64))

    def within(self, after_ms: int, until_ms: int) -> pa.Table:
        """Return rows later than one moment, up to another."""
        start, end = np.searchsorted(self.times, [after_ms, until_ms], side="right").tolist()
        return self.table.slice(start, end - start)


def _last_of(rows: pa.Table, keys: Times) -> tuple[pa.Table, Times]:
    """Return the last row of each key."""
    _, backwards = np.unique(keys[::-1], return_index=True)
    kept = np.sort(len(keys) - 1 - backwards)
    return rows.take(pa.array(kept)), keys[kept]


def _is_gone(rows: pa.Table) -> Flags:
    return np.asarray(pc.fill_null(pc.cast(rows[GONE], pa.int8()), 0).to_numpy(), np.bool_)


def _segment_starts(minutes: pa.Table) -> Times:
    """Return the moments at which a segment began: everything that there is was written then."""
    segments = minutes[SEGMENT].fill_null(-1).to_numpy()
    times = np.asarray(minutes[TAKEN_AT].to_numpy(), dtype=np.int64)
    return np.asarray(times[1:][segments[1:] != segments[:-1]], dtype=np.int64)
