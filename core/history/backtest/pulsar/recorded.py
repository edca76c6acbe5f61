"""The series of a window, read out of the history in columns.

The first minute is put together as a snapshot; from then on only what changed is read. A bundle
without a row of its load in a minute is idle: no traffic, and everything else as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.arrays import column_values
from core.errors import InputError
from core.history.backtest.model import Window
from core.history.backtest.pulsar.dense import (
    BROKER_NUMBERS,
    CLIENTS,
    Columns,
    Flags,
    Floats,
    Ints,
    broker_fields,
    bundle_fields,
    parents_of,
    places,
    sorted_rows,
    unseen_rows,
)
from core.history.backtest.pulsar.series import LoadSeries, minutes_of
from core.history.store.layout import HistoryError
from core.pulsar.view import counted_by
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot
from core.snapshot.record import GONE, SEGMENT, TAKEN_AT
from core.units import ms_to_datetime

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

_LOADS: Final = (*RATES, "topic_count", *CLIENTS)
_TICK: Final = timedelta(milliseconds=1)


def load_series(
    store: HistoryStore, cluster: str, window: Window, *, minute_s: float = 60.0
) -> LoadSeries:
    """Return the recorded load of a cluster in a window.

    Of several recorded moments of one minute the last one counts.

    Args:
        cluster: Name in the history.
        window: Its end is not in it.
        minute_s: Seconds of the record that count as a minute of the cluster.
    Raises:
        HistoryError: Nothing was recorded then, or it cannot be read.
        InputError: It is no Pulsar cluster.
    """
    end = window.end - _TICK
    minutes = store.minutes(cluster, window.start, end)
    if not minutes.num_rows:
        raise HistoryError(
            f"No history of {cluster!r} is recorded from {window.start:%Y-%m-%d %H:%M}Z to "
            f"{window.end:%H:%M}Z.",
            hint="Choose a recorded range.",
        )
    reader = _Reader(store, cluster, minutes)
    return reader.series(minute_s)


@dataclass(frozen=True, eq=False)
class _RecordedChanges:
    """Rows of one kind: which minute and which column each belongs to."""

    table: pa.Table
    row: Ints
    column: Ints

    def values(self, name: str) -> Floats:
        return column_values(self.table, name)


class _Reader:
    """Reads one window of one cluster."""

    def __init__(self, store: HistoryStore, cluster: str, minutes: pa.Table) -> None:
        self._store = store
        self._cluster = cluster
        self._taken_at = minutes[TAKEN_AT].to_numpy()
        segments = minutes[SEGMENT].to_numpy()
        self._begins = np.append(np.False_, segments[1:] != segments[:-1])
        self._brokers = Columns()
        self._bundles = Columns()

    def _snapshot(self, row: int) -> PulsarSnapshot:
        found = self._store.snapshot_at(self._cluster, ms_to_datetime(int(self._taken_at[row])))
        if not isinstance(found, PulsarSnapshot):
            raise InputError(
                f"{self._cluster!r} is not a Pulsar cluster.",
                hint="Its back-test takes `policies` and `switches`.",
            )
        return found

    def _rows(self, kind: str, columns: Sequence[str]) -> pa.Table:
        return self._store.rows(
            kind,
            self._cluster,
            ms_to_datetime(int(self._taken_at[0])),
            ms_to_datetime(int(self._taken_at[-1])),
            columns,
        )

    def _changes(
        self, kind: str, key: str, columns: Sequence[str], names: Columns
    ) -> _RecordedChanges:
        """Read rows and number their minutes and names; all names are known already."""
        table = self._rows(kind, (key, GONE, *columns))
        row = np.searchsorted(self._taken_at, table[TAKEN_AT].to_numpy())
        column = names.codes(table[key]).astype(np.int64)
        return _RecordedChanges(table, row, column)

    def series(self, minute_s: float) -> LoadSeries:
        """Read everything."""
        first = self._snapshot(0)
        template = self._template(first)
        brokers, bundles = template.brokers, template.bundles
        broker_order = sorted_rows(brokers, ["broker"])
        bundle_order = sorted_rows(bundles, ["namespace", "lower", "upper"])
        numbers, here = self._broker_numbers()
        there, facts = self._facts(first)
        loads = self._loads(first)
        manager = first.manifest.load_manager
        facts["reporter"] = counted_by(facts["named"], facts["owner"], manager)
        chosen = _last_of_each(self._taken_at, minute_s)
        at = places(broker_order).astype(np.int32)
        for name in ("owner", "reporter"):
            facts[name] = at[facts[name]]
        order = np.asarray(bundle_order.to_numpy(), np.int64)
        columns = {
            name: np.ascontiguousarray(values[chosen][:, order])
            for name, values in (loads | facts).items()
            if name != "named"
        }
        by_name = np.asarray(broker_order.to_numpy(), np.int64)
        here, numbers = here[chosen][:, by_name], numbers[chosen][:, by_name]
        there = np.ascontiguousarray(there[chosen][:, order])
        tables = {**template.tables, "brokers": brokers.take(broker_order)}
        tables["bundles"] = bundles.take(bundle_order)
        whole = PulsarSnapshot.build(first.manifest, tables)
        return LoadSeries(
            cluster=self._cluster,
            minute_s=minute_s,
            taken_at=self._taken_at[chosen],
            template=whole,
            broker_here=here,
            bundle_here=there,
            parent=parents_of(whole.bundles, there),
            origin_ms=int(self._taken_at[0]),
            **broker_fields(numbers, here),
            **bundle_fields(columns),
        )

    def _template(self, first: PulsarSnapshot) -> PulsarSnapshot:
        """The first snapshot, with a row for whatever comes later, as it was when it came."""
        seen = {
            kind: self._rows(kind, (key,)) for kind, key in (("brokers", "broker"), _BUNDLE_KEY)
        }
        unseen_rows(self._brokers, first.brokers, "broker")
        unseen_rows(self._bundles, first.bundles, "bundle")
        parts = {"brokers": [first.brokers], "bundles": [first.bundles]}
        new = _first_seen(seen["brokers"], "broker", self._brokers)
        new |= _first_seen(seen["bundle_facts"], "bundle", self._bundles)
        for moment in sorted(new):
            later = self._snapshot(int(np.searchsorted(self._taken_at, moment)))
            parts["brokers"] += unseen_rows(self._brokers, later.brokers, "broker")
            parts["bundles"] += unseen_rows(self._bundles, later.bundles, "bundle")
        tables = dict(first.tables)
        # not built again: rows are not in order yet
        tables |= {name: pa.concat_tables(tables_) for name, tables_ in parts.items()}
        return PulsarSnapshot(first.manifest, tables)

    def _broker_numbers(self) -> tuple[Floats, Flags]:
        found = self._changes("brokers", "broker", BROKER_NUMBERS, self._brokers)
        size = self._taken_at.size, len(self._brokers.names)
        numbers = np.full((*size, len(BROKER_NUMBERS)), np.nan)
        here = np.zeros(size, np.bool_)
        stays = ~_gone(found.table)
        at = found.row[stays], found.column[stays]
        here[at] = True
        for place, name in enumerate(BROKER_NUMBERS):
            numbers[(*at, place)] = found.values(name)[stays]
        return numbers, here

    def _facts(self, first: PulsarSnapshot) -> tuple[Flags, dict[str, Any]]:
        """Return the bundles with their owners and reporters."""
        found = self._changes("bundle_facts", "bundle", ("owner", "reported_by"), self._bundles)
        gone = _gone(found.table)
        size = self._taken_at.size, len(self._bundles.names)
        here = np.zeros(size, np.bool_)
        reported = np.zeros(size, np.bool_)
        reported[found.row, found.column] = True
        leaves = np.zeros(size, np.bool_)
        leaves[found.row[gone], found.column[gone]] = True
        here[0, self._bundles.of(first.bundles["bundle"])] = True
        for row in range(1, size[0]):
            held = reported[row] if self._begins[row] else here[row - 1] | reported[row]
            here[row] = held & ~leaves[row]
        facts: dict[str, Any] = {}
        for name, source in (("owner", "owner"), ("named", "reported_by")):
            dense = np.full(size, -1, np.int32)
            dense[found.row, found.column] = self._brokers.codes(found.table[source])
            at = self._bundles.of(first.bundles["bundle"])
            dense[0, at] = self._brokers.codes(first.bundles[source])
            facts[name] = np.where(here, _carried_on(dense, reported), -1).astype(np.int32)
        return here, facts

    def _loads(self, first: PulsarSnapshot) -> dict[str, Any]:
        found = self._changes("bundle_loads", "bundle", _LOADS, self._bundles)
        size = self._taken_at.size, len(self._bundles.names)
        reported = np.zeros(size, np.bool_)
        reported[found.row, found.column] = True
        stays = ~_gone(found.table)
        at = found.row[stays], found.column[stays]
        to = self._bundles.of(first.bundles["bundle"])

        def dense(values: Floats, start: Floats, kind: Any) -> Any:
            whole = np.zeros(size, kind)
            whole[at] = np.nan_to_num(values[stays])
            whole[0, to] = np.nan_to_num(start)
            return whole

        loads = {
            name: dense(found.values(name), column_values(first.bundles, name), np.float64)
            for name in RATES
        }
        is_known = np.isfinite(found.values("msg_throughput_in"))
        at_start = np.isfinite(column_values(first.bundles, "msg_throughput_in"))
        chosen = {"is_known": dense(is_known, at_start, np.bool_)}
        chosen["topics"] = dense(
            found.values("topic_count"), column_values(first.bundles, "topic_count"), np.int32
        )
        clients = [
            sum(np.nan_to_num(values) for values in part)
            for part in (
                [found.values(name) for name in CLIENTS],
                [column_values(first.bundles, name) for name in CLIENTS],
            )
        ]
        chosen["clients"] = dense(np.asarray(clients[0]), np.asarray(clients[1]), np.int32)
        return loads | {name: _carried_on(values, reported) for name, values in chosen.items()}


_BUNDLE_KEY: Final = ("bundle_facts", "bundle")


def _gone(table: pa.Table) -> Flags:
    filled = pc.fill_null(table[GONE], False)  # noqa: FBT003  # Arrow's signature
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.bool_)


def _first_seen(table: pa.Table, key: str, known: Columns) -> set[int]:
    """Times at which names come up for the first time."""
    new = table.filter(pa.array(known.codes(table[key]) < 0))
    if not new.num_rows:
        return set()
    firsts = new.group_by(key).aggregate([(TAKEN_AT, "min")])
    return set(firsts[f"{TAKEN_AT}_min"].to_pylist())


def _carried_on(values: Any, reported: Flags) -> Any:
    """Fill minutes without a row with the value of the minute before."""
    for row in range(1, len(values)):
        values[row] = np.where(reported[row], values[row], values[row - 1])
    return values


def _last_of_each(taken_at: Ints, minute_s: float) -> Ints:
    """Rows of the last moment of each minute."""
    minute = minutes_of(taken_at, int(taken_at[0]), minute_s)
    return np.flatnonzero(np.append(minute[1:] != minute[:-1], np.True_))
