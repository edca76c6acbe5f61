"""A stretch of a cluster's record as dense arrays: one row a minute, one column a broker or bundle.

A broker that is there in some of the minutes has a column in all of them, and so has a bundle: a
split bundle and its parts are columns of their own. Brokers and bundles are in the order of their
tables' rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.errors import IncompleteSnapshotError
from core.health.measures import column_values
from core.history.backtest.dense import (
    BROKER_NUMBERS,
    CLIENTS,
    Codes,
    Columns,
    Flags,
    Floats,
    Ints,
    broker_fields,
    bundle_fields,
    counted_by,
    parents_of,
    places,
    sorted_rows,
    unseen_rows,
)
from core.plan.shift import usage_per_byte
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadSeries:
    """What was recorded of one cluster in one window. ``T`` minutes, ``b`` brokers, ``n`` bundles.

    Attributes:
        cluster: Name.
        minute_s: Seconds of the record that count as a minute.
        taken_at: ms since the epoch, ``(T,)``, rising.
        template: The tables at the start, with a row for every broker and bundle that comes later
            (as it was when it came): policies, settings, averages, versions.
        broker_here: Whether a broker is there, ``(T, b)``.
        broker_rates: In the order of ``RATES``, ``(T, b, 4)``; NaN: unknown.
        broker_usage: In the order of ``WEIGHED``, ``(T, b, 4)``; NaN: unknown.
        broker_limit: Likewise.
        broker_topics: ``(T, b)``; 0 where unknown.
        broker_bundles: ``(T, b)``; 0 where unknown.
        has_reported: Whether a broker wrote a report since the minute before, ``(T, b)``.
        bundle_here: Whether a bundle is there, ``(T, n)``.
        owner: Broker of each bundle, ``(T, n)``; -1: none.
        reporter: Broker whose report the leader counts it by, ``(T, n)``; -1: none.
        rates: In the order of ``RATES``, each ``(T, n)``; 0 where unknown.
        is_known: Whether a bundle's rates are known, ``(T, n)``.
        topics: ``(T, n)``; 0 where unknown.
        clients: Producers and consumers, ``(T, n)``; 0 where unknown.
        parent: Column of the bundle that it was split from in the window; -1: none, ``(n,)``.
        origin_ms: Moment that minutes are counted from; 0: the first one.
    """

    cluster: str
    minute_s: float
    taken_at: Ints
    template: PulsarSnapshot = field(repr=False)
    broker_here: Flags = field(repr=False)
    broker_rates: Floats = field(repr=False)
    broker_usage: Floats = field(repr=False)
    broker_limit: Floats = field(repr=False)
    broker_topics: Floats = field(repr=False)
    broker_bundles: Floats = field(repr=False)
    has_reported: Flags = field(repr=False)
    bundle_here: Flags = field(repr=False)
    owner: Codes = field(repr=False)
    reporter: Codes = field(repr=False)
    rates: tuple[Floats, Floats, Floats, Floats] = field(repr=False)
    is_known: Flags = field(repr=False)
    topics: Codes = field(repr=False)
    clients: Codes = field(repr=False)
    parent: Codes = field(repr=False)
    origin_ms: int = 0

    @cached_property
    def brokers(self) -> tuple[str, ...]:
        """Broker ids, in column order."""
        return tuple(self.template.brokers["broker"].to_pylist())

    @cached_property
    def bundles(self) -> NDArray[np.object_]:
        """Bundle names, in column order."""
        return np.asarray(self.template.bundles["bundle"].to_numpy(), object)

    @cached_property
    def is_bound(self) -> Flags:
        """Bundles that only their own broker may have, ``(n,)``."""
        return np.asarray(self.template.bundles["is_broker_bound"].to_numpy(), np.bool_)

    @cached_property
    def minutes(self) -> Ints:
        """Minute of each row, from 0; a gap in the record is a gap here."""
        found = minutes_of(self.taken_at, self.origin_ms or int(self.taken_at[0]), self.minute_s)
        return np.asarray(found - found[0], np.int64)

    @cached_property
    def traffic(self) -> Floats:
        """Throughput of each broker as recorded, in + out, bytes/s, ``(T, b)``; NaN: unknown."""
        both = self.broker_rates[:, :, 2] + self.broker_rates[:, :, 3]
        return np.where(self.broker_here, both, np.nan)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Minutes, brokers and bundles."""
        return self.owner.shape[0], self.broker_here.shape[1], self.owner.shape[1]

    @cached_property
    def _slopes(self) -> dict[tuple[int, int], float | None]:
        return {}

    def slope(self, row: int, resource: int) -> float | None:
        """Return what one byte/s costs of a resource in a minute; computed once for all runs."""
        key = (row, resource)
        if key not in self._slopes:
            usage = np.where(self.broker_here[row], self.broker_usage[row, :, resource], np.nan)
            self._slopes[key] = usage_per_byte(usage, self.traffic[row])
        return self._slopes[key]

    @property
    def size_bytes(self) -> int:
        """Memory of the arrays."""
        return sum(
            part.nbytes
            for value in vars(self).values()
            for part in (value if isinstance(value, tuple) else (value,))
            if isinstance(part, np.ndarray)
        )


def minutes_of(taken_at: Ints, origin_ms: int, minute_s: float) -> Ints:
    """Return the minute of each moment since an origin."""
    return np.rint((taken_at - origin_ms) / (minute_s * 1000.0)).astype(np.int64)


@dataclass
class _Gathered:
    """What the snapshots told so far, minute by minute, in the columns of their first sight."""

    brokers: Columns = field(default_factory=Columns)
    bundles: Columns = field(default_factory=Columns)
    taken_at: list[int] = field(default_factory=list)
    broker_rows: list[tuple[Ints, Floats]] = field(default_factory=list)
    bundle_rows: list[tuple[Ints, dict[str, np.ndarray]]] = field(default_factory=list)
    first: PulsarSnapshot | None = None
    new_brokers: list[pa.Table] = field(default_factory=list)
    new_bundles: list[pa.Table] = field(default_factory=list)

    def add(self, snapshot: PulsarSnapshot) -> None:
        self.first = self.first or snapshot
        self.taken_at.append(datetime_to_ms(snapshot.manifest.taken_at))
        self.new_brokers += unseen_rows(self.brokers, snapshot.brokers, "broker")
        self.new_bundles += unseen_rows(self.bundles, snapshot.bundles, "bundle")
        numbers = np.stack([column_values(snapshot.brokers, key) for key in BROKER_NUMBERS], axis=1)
        self.broker_rows.append((self.brokers.of(snapshot.brokers["broker"]), numbers))
        at = self.bundles.of(snapshot.bundles["bundle"])
        self.bundle_rows.append((at, self._bundle_columns(snapshot, numbers)))

    def replace_last(self, snapshot: PulsarSnapshot) -> None:
        """Take the newer of two snapshots of one minute."""
        for kept in (self.taken_at, self.broker_rows, self.bundle_rows):
            kept.pop()
        self.add(snapshot)

    def _bundle_columns(self, snapshot: PulsarSnapshot, numbers: Floats) -> dict[str, np.ndarray]:
        bundles = snapshot.bundles
        owner = self.brokers.codes(bundles["owner"])
        named = self.brokers.codes(bundles["reported_by"])
        has_report = np.zeros(len(self.brokers.names) + 1, np.bool_)
        known = np.isfinite(numbers[:, [0, *range(4, 8)]]).any(axis=1)
        has_report[self.brokers.of(snapshot.brokers["broker"])] = known
        columns: dict[str, np.ndarray] = {
            name: column_values(bundles, name) for name in (*RATES, "topic_count", *CLIENTS)
        }
        return columns | {"owner": owner, "reporter": counted_by(named, owner, has_report)}


def series_of(snapshots: Iterable[PulsarSnapshot], *, minute_s: float = 60.0) -> LoadSeries:
    """Return the series of snapshots of one cluster, oldest first.

    Of several snapshots of one minute the last one counts.

    Args:
        snapshots: Read once; none of them is kept.
        minute_s: Seconds that count as a minute.
    Raises:
        IncompleteSnapshotError: There is none.
    """
    gathered = _Gathered()
    start, last = 0, -1
    for snapshot in snapshots:
        now = datetime_to_ms(snapshot.manifest.taken_at)
        start = start if gathered.taken_at else now
        minute = int(minutes_of(np.array([now]), start, minute_s)[0])
        if minute == last:
            gathered.replace_last(snapshot)
        else:
            gathered.add(snapshot)
        last = minute
    return _series(gathered, minute_s, start)


def _series(gathered: _Gathered, minute_s: float, origin_ms: int) -> LoadSeries:
    first = gathered.first
    if first is None:
        raise IncompleteSnapshotError(
            "No minute was recorded in this window.",
            hint="Choose a range within the record.",
        )
    brokers = pa.concat_tables(gathered.new_brokers)
    bundles = pa.concat_tables(gathered.new_bundles) if gathered.new_bundles else first.bundles
    broker_order = sorted_rows(brokers, ["broker"])
    bundle_order = sorted_rows(bundles, ["namespace", "lower", "upper"])
    tables = {**first.tables, "brokers": brokers.take(broker_order)}
    tables["bundles"] = bundles.take(bundle_order)
    broker_at, bundle_at = places(broker_order), places(bundle_order)
    here, numbers = _dense_brokers(gathered, broker_at)
    there, columns = _dense_bundles(gathered, bundle_at, broker_at)
    template = PulsarSnapshot.build(first.manifest, tables)
    return LoadSeries(
        cluster=first.manifest.cluster,
        minute_s=minute_s,
        taken_at=np.array(gathered.taken_at, np.int64),
        template=template,
        broker_here=here,
        bundle_here=there,
        parent=parents_of(template.bundles, there),
        origin_ms=origin_ms,
        **broker_fields(numbers, here),
        **bundle_fields(columns),
    )


def _dense_brokers(gathered: _Gathered, at: Ints) -> tuple[Flags, Floats]:
    size = (len(gathered.taken_at), at.size - 1)
    here = np.zeros(size, np.bool_)
    numbers = np.full((*size, len(BROKER_NUMBERS)), np.nan)
    for row, (columns, values) in enumerate(gathered.broker_rows):
        here[row, at[columns]] = True
        numbers[row, at[columns]] = values
    return here, numbers


def _dense_bundles(
    gathered: _Gathered, at: Ints, broker_at: Ints
) -> tuple[Flags, dict[str, np.ndarray]]:
    size = (len(gathered.taken_at), at.size - 1)
    here = np.zeros(size, np.bool_)
    dense: dict[str, np.ndarray] = {name: np.zeros(size) for name in RATES}
    dense |= {name: np.zeros(size, np.int32) for name in ("topics", "clients")}
    dense |= {name: np.full(size, -1, np.int32) for name in ("owner", "reporter")}
    dense["is_known"] = np.zeros(size, np.bool_)
    for row, (columns, values) in enumerate(gathered.bundle_rows):
        to = at[columns]
        here[row, to] = True
        for name in RATES:
            dense[name][row, to] = np.nan_to_num(values[name])
        dense["is_known"][row, to] = np.isfinite(values["msg_throughput_in"])
        dense["topics"][row, to] = np.nan_to_num(values["topic_count"])
        dense["clients"][row, to] = sum(np.nan_to_num(values[name]) for name in CLIENTS)
        for name in ("owner", "reporter"):
            dense[name][row, to] = broker_at[values[name]]
    return here, dense
