"""The series of snapshots in memory: what ``load_series`` must find of them in the history.

It reads whole snapshots, one after the other, and none of the history's changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from core.arrays import column_values
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
from core.pulsar.view import counted_by
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms


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
        self.bundle_rows.append((at, self._bundle_columns(snapshot)))

    def replace_last(self, snapshot: PulsarSnapshot) -> None:
        """Take the newer of two snapshots of one minute."""
        for kept in (self.taken_at, self.broker_rows, self.bundle_rows):
            kept.pop()
        self.add(snapshot)

    def _bundle_columns(self, snapshot: PulsarSnapshot) -> dict[str, np.ndarray]:
        bundles = snapshot.bundles
        owner = self.brokers.codes(bundles["owner"])
        named = self.brokers.codes(bundles["reported_by"])
        manager = snapshot.manifest.load_manager
        columns: dict[str, np.ndarray] = {
            name: column_values(bundles, name) for name in (*RATES, "topic_count", *CLIENTS)
        }
        return columns | {"owner": owner, "reporter": counted_by(named, owner, manager)}


def series_of(snapshots: Iterable[PulsarSnapshot], *, minute_s: float = 60.0) -> LoadSeries:
    """Return the series of snapshots of one cluster, oldest first.

    Of several snapshots of one minute the last one counts.

    Args:
        snapshots: Read once; none of them is kept. At least one.
        minute_s: Seconds that count as a minute.
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
    assert first is not None
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
