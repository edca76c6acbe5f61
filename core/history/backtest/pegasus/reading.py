"""A tape out of the history: only what changed is read, not one snapshot a minute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.errors import IncompleteSnapshotError, InputError
from core.history.backtest.pegasus.tape import Floats, PegasusTape, RowChange, Times
from core.history.store.layout import HistoryError
from core.history.store.store import HistoryStore
from core.pegasus.ids import parse_node
from core.pegasus.view import NO_NODE, ClusterView, Flags, Ints
from core.schemas.pegasus import PARTITIONS, SETTINGS, TABLES
from core.snapshot.pegasus import PegasusSnapshot
from core.snapshot.record import GONE, SEGMENT, TAKEN_AT
from core.units import datetime_to_ms, ms_to_datetime

_JUST_BEFORE: Final = timedelta(milliseconds=1)

_INDEX_BITS: Final = 32
_DEFAULT_MB_PER_S: Final = 500.0
"""Where a node does not limit its copying, or does not report it: the shipped value."""


LOAD_COLUMNS: Final = ("app_id", "index", "node", "read_rate", "write_rate")


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
            f"No history of {cluster!r} is recorded from {start:%Y-%m-%d %H:%M}Z to "
            f"{end:%Y-%m-%d %H:%M}Z.",
            hint="Choose a recorded range.",
        )
    times = listed[TAKEN_AT].to_pylist()
    by_minute = {minute_of(at_ms, times[0], minute_s): at_ms for at_ms in times}
    chosen = list(by_minute.values())
    first = store.snapshot_at(cluster, ms_to_datetime(chosen[0]))
    if not isinstance(first, PegasusSnapshot):
        raise InputError(
            f"{cluster} is a Pulsar cluster; Pegasus policies and switches do not apply to it.",
            hint="List Pegasus clusters under `clusters` of the grid.",
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
        # the first minute has everything, as the rows after it hold only changes
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
        if begun_ms is not None:  # what is not reported again has vanished meanwhile
            reported = keys[rows[TAKEN_AT].to_numpy() >= begun_ms]
            gone = np.union1d(gone, np.setdiff1d(self.there, reported))
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
        reported = dict(self.settings) if begun_ms is None else {}
        for row in rows.to_pylist():
            if row[GONE]:
                reported.pop(row["name"], None)
            else:
                reported[row["name"]] = row["value"]
        if reported == self.settings:
            return None
        self.settings = reported
        return reported


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
    by_minute = np.sort(len(keys) - 1 - backwards)
    return rows.take(pa.array(by_minute)), keys[by_minute]


def _is_gone(rows: pa.Table) -> Flags:
    return np.asarray(pc.fill_null(pc.cast(rows[GONE], pa.int8()), 0).to_numpy(), np.bool_)


def _segment_starts(minutes: pa.Table) -> Times:
    """Return the moments at which a segment began: everything that there is was written then."""
    segments = minutes[SEGMENT].fill_null(-1).to_numpy()
    times = np.asarray(minutes[TAKEN_AT].to_numpy(), dtype=np.int64)
    return np.asarray(times[1:][segments[1:] != segments[:-1]], dtype=np.int64)


@dataclass(frozen=True)
class MinuteRows:
    """Rows of one recorded minute; ``None`` repeats the previous minute.

    Attributes:
        at_ms: When.
        nodes: Rows of the schema ``NODES``.
        partitions: Rows of ``PARTITIONS`` that are new or changed.
        gone: Keys of partitions that are there no more.
        loads: Columns app_id, index, node, read_rate, write_rate; of the history also taken_at
            and gone. Only the primary's count; a replica without a row is as it was reported last:
            unknown, or else idle.
        has_all_loads: A replica without a row is unknown, whatever was reported before.
        tables: Rows of ``TABLES`` that are new or changed.
        sizes: Columns app_id, index, size_mb, largest last.
        settings: Everything that the meta server reported.
    """

    at_ms: int
    nodes: pa.Table
    partitions: pa.Table | None
    gone: Times
    loads: pa.Table
    has_all_loads: bool = False
    tables: pa.Table | None = None
    sizes: pa.Table | None = None
    settings: Mapping[str, str] | None = None


def partition_keys(table: pa.Table) -> Times:
    """Return one number a partition, ascending as gpids are."""
    app_ids = table["app_id"].to_numpy().astype(np.int64)
    return np.asarray((app_ids << _INDEX_BITS) | table["index"].to_numpy(), dtype=np.int64)


def minute_of(at_ms: int, start_ms: int, minute_s: float) -> int:
    """Return the zero-based minute of a recorded timestamp."""
    return int(np.rint((at_ms - start_ms) / (minute_s * 1000.0)))


def tape_of_snapshots(
    snapshots: Iterable[PegasusSnapshot], *, minute_s: float = 60.0
) -> PegasusTape:
    """Return the tape of snapshots of one cluster, oldest first; of one minute the last counts.

    Args:
        snapshots: Read once.
        minute_s: Seconds of the record that count as a minute of the cluster.
    Raises:
        IncompleteSnapshotError: There is none, or the first one has no partitions.
    """
    by_minute: dict[int, PegasusSnapshot] = {}
    start_ms: int | None = None
    for snapshot in snapshots:
        at_ms = datetime_to_ms(snapshot.manifest.taken_at)
        start_ms = at_ms if start_ms is None else start_ms
        by_minute[minute_of(at_ms, start_ms, minute_s)] = snapshot
    chosen = list(by_minute.values())
    if not chosen:
        raise IncompleteSnapshotError(
            "No recorded minute to simulate.",
            hint="Choose a range in which the cluster was recorded.",
        )
    pairs = zip(chosen, [None, *chosen[:-1]], strict=True)
    return tape_of_minutes(chosen[0], [minute_rows(*pair) for pair in pairs])


def minute_rows(snapshot: PegasusSnapshot, before: PegasusSnapshot | None) -> MinuteRows:
    """Return the difference of a snapshot to the one before it."""
    tables = snapshot.tables
    changed: dict[str, pa.Table | None] = {
        name: None if before is not None and rows.equals(before.tables[name]) else rows
        for name, rows in tables.items()
    }
    gone = np.zeros(0, dtype=np.int64)
    if before is not None and changed["partitions"] is not None:
        was = partition_keys(before.tables["partitions"])
        gone = np.setdiff1d(was, partition_keys(tables["partitions"]))
    settings = dict(snapshot.settings) if changed["settings"] is not None else None
    return MinuteRows(
        at_ms=datetime_to_ms(snapshot.manifest.taken_at),
        nodes=tables["nodes"],
        partitions=changed["partitions"],
        gone=gone,
        loads=tables["replicas"].select(list(LOAD_COLUMNS)),
        has_all_loads=True,
        tables=changed["tables"],
        sizes=None if changed["partitions"] is None else sizes_of_replicas(tables["replicas"]),
        settings=settings,
    )


def sizes_of_replicas(replicas: pa.Table) -> pa.Table:
    """Return the copy size of each partition; the primary's value takes precedence."""
    known = replicas.filter(pc.is_valid(replicas["size_mb"]))
    return known.sort_by("is_primary").select(["app_id", "index", "size_mb"])


def tape_of_minutes(first: PegasusSnapshot, minutes: Sequence[MinuteRows]) -> PegasusTape:
    """Return the tape of recorded minutes.

    Args:
        first: The cluster at the first minute: disks, and everything whose changes do not count.
        minutes: Oldest first; the first one holds everything.
    """
    return _Builder.of(first, minutes).tape()


@dataclass(eq=False)
class _Builder:
    """Puts all names into one numbering first, then everything into columns."""

    first: PegasusSnapshot
    minutes: Sequence[MinuteRows]
    nodes: list[str]
    keys: Times
    table_rows: dict[int, dict[str, object]]
    width: int
    place_of_node: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.place_of_node = {name: place for place, name in enumerate(self.nodes)}

    @classmethod
    def of(cls, first: PegasusSnapshot, minutes: Sequence[MinuteRows]) -> _Builder:
        names = {name for minute in minutes for name in minute.nodes["node"].to_pylist()}
        reported = [minute.partitions for minute in minutes if minute.partitions is not None]
        keys = np.unique(np.concatenate([partition_keys(rows) for rows in reported]))
        if not len(keys) or not names:
            raise IncompleteSnapshotError(
                f"The record of {first.manifest.cluster} has no nodes or no partitions.",
                hint="See the problems of its snapshots for the reason.",
            )
        tables = [minute.tables for minute in minutes if minute.tables is not None]
        table_rows = {row["app_id"]: row for rows in tables for row in rows.to_pylist()}
        keys = keys[np.isin(keys >> _INDEX_BITS, list(table_rows))]
        most = max(int(pc.max(rows["max_replica_count"]).as_py() or 1) for rows in reported)
        longest = max(
            int(pc.max(pc.list_value_length(rows["secondaries"])).as_py() or 0) for rows in reported
        )
        nodes = sorted(names, key=parse_node)
        return cls(first, minutes, nodes, keys, table_rows, max(most, longest + 1) + 1)

    def tape(self) -> PegasusTape:
        changes, exists = self._members()
        start = self._start(changes.pop(0, RowChange(np.zeros(0, np.int32), self._no_node(0))))
        reads, writes = self._loads(start, changes)
        receive, send = (
            self._rates_of(column) for column in ("copy_rate_mb_per_s", "send_rate_mb_per_s")
        )
        return PegasusTape(
            cluster=self.first.manifest.cluster,
            at_ms=np.array([minute.at_ms for minute in self.minutes], dtype=np.int64),
            start=start,
            is_alive=self._is_alive(),
            exists=exists,
            reads=reads,
            writes=writes,
            size_mb=self._sizes(),
            changes=changes,
            settings=tuple(
                (number, dict(minute.settings))
                for number, minute in enumerate(self.minutes)
                if minute.settings is not None
            ),
            receive_mb_per_s=receive,
            send_mb_per_s=send,
        )

    # -- rows -----------------------------------------------------------------------------------

    def _rows(self, keys: Times) -> tuple[Ints, NDArray[np.bool_]]:
        """Return the rows of keys, and which of the keys have one."""
        places = np.searchsorted(self.keys, keys)
        places[places == len(self.keys)] = 0
        known = self.keys[places] == keys
        return places[known].astype(np.int32), known

    def _no_node(self, count: int) -> Ints:
        return np.full((count, self.width), NO_NODE, dtype=np.int32)

    def _members(self) -> tuple[dict[int, RowChange], NDArray[np.bool_]]:
        exists = np.zeros((len(self.minutes), len(self.keys)), dtype=np.bool_)
        there = np.zeros(len(self.keys), dtype=np.bool_)
        now = self._no_node(len(self.keys))
        changes: dict[int, RowChange] = {}
        for number, minute in enumerate(self.minutes):
            before, was_there = (
                (now.copy(), there.copy()) if self._changes_of(minute) else (now, there)
            )
            gone, _ = self._rows(minute.gone)
            now[gone], there[gone] = NO_NODE, False
            if minute.partitions is not None:
                rows, known = self._rows(partition_keys(minute.partitions))
                now[rows] = self._coded(minute.partitions)[known]
                there[rows] = True
            exists[number] = there
            if before is not now:
                differs = (before != now).any(axis=1) | (was_there != there)
                rows = np.nonzero(differs)[0].astype(np.int32)
                changes[number] = RowChange(rows, now[rows])
        return {number: one for number, one in changes.items() if len(one.rows)}, exists

    @staticmethod
    def _changes_of(minute: MinuteRows) -> bool:
        return minute.partitions is not None or bool(len(minute.gone))

    def _coded(self, parts: pa.Table) -> Ints:
        """Return node codes, the primary first, then the secondaries in their order."""
        names = pa.array(self.nodes)
        coded = self._no_node(parts.num_rows)
        primaries = pc.index_in(parts["primary"], value_set=names)
        coded[:, 0] = pc.fill_null(primaries, NO_NODE).to_numpy()
        lists = parts["secondaries"].combine_chunks()
        flat = pc.fill_null(pc.index_in(lists.flatten(), value_set=names), NO_NODE).to_numpy()
        lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
        rows = np.repeat(np.arange(parts.num_rows), lengths)
        ends = np.cumsum(lengths)
        places = np.arange(len(flat)) - np.repeat(ends - lengths, lengths)
        coded[rows, places + 1] = flat
        return coded

    # -- the start ------------------------------------------------------------------------------

    def _start(self, first: RowChange) -> ClusterView:
        app_ids, counts = np.unique(self.keys >> _INDEX_BITS, return_counts=True)
        members = self._no_node(len(self.keys))
        members[first.rows] = first.members
        rows = [self.table_rows[app_id] for app_id in app_ids.tolist()]
        disks = self.first.tables["disks"]
        tags = sorted(set(disks["disk"].to_pylist()))
        return ClusterView(
            nodes=tuple(self.nodes),
            disks=tuple(tags) or ("unknown",),
            app_ids=app_ids.astype(np.int32),
            app_names=tuple(str(row["name"]) for row in rows),
            max_replica_counts=np.array([row["max_replica_count"] for row in rows], np.int32),
            is_balanceable=np.array([not row["is_bulk_loading"] for row in rows], np.bool_),
            first_rows=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
            members=members,
            member_disks=self._disks_of(members, tags),
            node_disks=self._node_disks(tags),
        )

    def _node_disks(self, tags: list[str]) -> tuple[tuple[int, ...], ...]:
        rows = self.first.tables["disks"].select(["node", "disk"]).to_pylist()
        found: dict[str, list[int]] = {}
        for row in rows:
            found.setdefault(row["node"], []).append(tags.index(row["disk"]))
        # a node that came later is taken to have the disks of the others
        every = tuple(range(max(len(tags), 1)))
        return tuple(tuple(found.get(name, every)) for name in self.nodes)

    def _disks_of(self, members: Ints, tags: list[str]) -> Ints:
        """Return the disks of replicas; by default the first disk of its node."""
        firsts = np.array([disks[0] for disks in self._node_disks(tags)], dtype=np.int32)
        found = np.where(members == NO_NODE, NO_NODE, firsts[members])
        held = self.first.tables["replicas"]
        held = held.filter(pc.is_valid(held["disk"]))
        rows, known = self._rows(partition_keys(held))
        nodes = pc.fill_null(pc.index_in(held["node"], value_set=pa.array(self.nodes)), NO_NODE)
        places = pc.fill_null(
            pc.index_in(held["disk"], value_set=pa.array(tags, pa.string())), NO_NODE
        )
        node_codes, disk_codes = nodes.to_numpy()[known], places.to_numpy()[known]
        is_there = (members[rows] == node_codes[:, None]) & (disk_codes >= 0)[:, None]
        at, roles = np.nonzero(is_there)
        found[rows[at], roles] = disk_codes[at]
        return np.asarray(found, dtype=np.int32)

    # -- what minutes hold ----------------------------------------------------------------------

    def _is_alive(self) -> NDArray[np.bool_]:
        alive = np.zeros((len(self.minutes), len(self.nodes)), dtype=np.bool_)
        for number, minute in enumerate(self.minutes):
            names = minute.nodes.filter(minute.nodes["is_alive"])["node"].to_pylist()
            alive[number, [self.place_of_node[name] for name in names]] = True
        return alive

    def _loads(
        self, start: ClusterView, changes: Mapping[int, RowChange]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        shape = len(self.minutes), len(self.keys)
        found = np.zeros((2, *shape), np.float32)
        # by kind of request, partition and node: whether what a replica gets is unknown
        unknown = np.ones((2, shape[1], len(self.nodes)), np.bool_)
        primaries = start.members[:, 0].copy()
        everyone = np.arange(shape[1])
        for number, minute in enumerate(self.minutes):
            if number in changes:
                primaries[changes[number].rows] = changes[number].members[:, 0]
            if minute.has_all_loads:
                unknown[:] = True
            rows, nodes, reported, is_now = self._reported_loads(minute)
            unknown[:, rows, nodes] = np.isnan(reported)
            is_dark = unknown[:, everyone, primaries] | (primaries == NO_NODE)
            found[:, number] = np.where(is_dark, found[:, max(number - 1, 0)], 0.0)
            counts = is_now & (nodes == primaries[rows])
            for kind in range(2):
                is_reported = counts & ~np.isnan(reported[kind])
                found[kind, number, rows[is_reported]] = reported[kind, is_reported]
        return found[0], found[1]

    def _reported_loads(self, minute: MinuteRows) -> tuple[Ints, Ints, Floats, NDArray[np.bool_]]:
        """Return row, node, both rates and whether they are of this very moment."""
        loads = minute.loads
        rows, known = self._rows(partition_keys(loads))
        names = pa.array(self.nodes)
        nodes = pc.fill_null(pc.index_in(loads["node"], value_set=names), NO_NODE).to_numpy()[known]
        columns = [pc.fill_null(loads[name], float("nan")) for name in LOAD_COLUMNS[3:]]
        reported = np.stack([column.to_numpy()[known] for column in columns])
        is_now = np.ones(len(rows), np.bool_)
        if "gone" in loads.column_names:
            gone = pc.fill_null(pc.cast(loads["gone"], pa.int8()), 0).to_numpy()[known]
            reported[:, gone == 1] = np.nan
            is_now = loads["taken_at"].to_numpy()[known] == minute.at_ms
        listed = nodes != NO_NODE
        return rows[listed], nodes[listed].astype(np.int32), reported[:, listed], is_now[listed]

    def _sizes(self) -> Floats:
        sizes = np.zeros(len(self.keys))
        for minute in reversed(self.minutes):  # the earliest word on a partition stays
            if minute.sizes is not None:
                rows, known = self._rows(partition_keys(minute.sizes))
                sizes[rows] = minute.sizes["size_mb"].to_numpy()[known]
        return sizes

    def _rates_of(self, column: str) -> Floats:
        """Return limits by node; 0 is without limit, and then the shipped value is taken."""
        rates = np.full(len(self.nodes), _DEFAULT_MB_PER_S)
        nodes = self.minutes[0].nodes
        if column in nodes.column_names:
            for name, value in zip(
                nodes["node"].to_pylist(), nodes[column].to_pylist(), strict=True
            ):
                if value:
                    rates[self.place_of_node[name]] = value
        return rates
