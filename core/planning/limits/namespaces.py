"""What each namespace, and each broker on behalf of some of them, carries right now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_COUNTS = ("topic_count", "consumer_count")


@dataclass(frozen=True, eq=False)
class NamespaceUse:
    """Live use by namespace; heartbeat and SLA namespaces are excluded.

    Attributes:
        namespaces: Names, sorted; length ``n``.
        tenants: Of each.
        groups: Resource group of each, ``None`` if not attached.
        rates: Shape ``(n, 4)``, columns :data:`core.schemas.pulsar.RATES`: messages/s and bytes/s,
            summed over the bundles whose traffic is known.
        bundles: How many, shape ``(n,)``.
        topics: Loaded, as the bundles' owners report them, shape ``(n,)``.
        consumers: The same of consumers.
        silent: Bundles with an owner and without reported traffic, shape ``(n,)``.
        storage_bytes: Of the topics that were read, shape ``(n,)``; NaN: none was.
    """

    namespaces: tuple[str, ...]
    tenants: tuple[str, ...]
    groups: tuple[str | None, ...]
    rates: Floats
    bundles: Ints
    topics: Ints
    consumers: Ints
    silent: Ints
    storage_bytes: Floats

    def rate(self, column: str) -> Floats:
        """Return one column of :attr:`rates`."""
        return np.asarray(self.rates[:, RATES.index(column)], np.float64)

    def row_of(self, namespace: str) -> int:
        """Return a namespace's row, -1: there is none."""
        return self.namespaces.index(namespace) if namespace in self.namespaces else -1


def namespace_use(snapshot: PulsarSnapshot) -> NamespaceUse:
    """Return the traffic of each namespace.

    Cost:
        One pass over the bundles.
    """
    spaces = snapshot.namespaces.filter(pc.invert(snapshot.namespaces["is_broker_bound"]))
    bundles = snapshot.bundles
    rows = _rows_in(bundles["namespace"], spaces["namespace"])
    meant = rows >= 0
    at, count = rows[meant], spaces.num_rows

    def summed(values: Floats) -> Floats:
        total = np.bincount(at, weights=np.nan_to_num(values[meant]), minlength=count)
        return np.asarray(total, np.float64)

    rates = [floats_of(bundles, name) for name in RATES]
    silent = np.isnan(rates[0]) & bundles["owner"].is_valid().to_numpy(zero_copy_only=False)
    return NamespaceUse(
        namespaces=tuple(spaces["namespace"].to_pylist()),
        tenants=tuple(spaces["tenant"].to_pylist()),
        groups=tuple(spaces["resource_group"].to_pylist()),
        rates=np.column_stack([summed(column) for column in rates]),
        bundles=np.bincount(at, minlength=count),
        topics=summed(floats_of(bundles, _COUNTS[0])).astype(np.int64),
        consumers=summed(floats_of(bundles, _COUNTS[1])).astype(np.int64),
        silent=summed(silent.astype(np.float64)).astype(np.int64),
        storage_bytes=_storage(snapshot, spaces["namespace"], count),
    )


def use_by_broker(snapshot: PulsarSnapshot, namespaces: tuple[str, ...], column: str) -> Floats:
    """Return the traffic of some namespaces per broker, in the order of the broker rows.

    Args:
        snapshot: The cluster.
        namespaces: Whose bundles count.
        column: Of :data:`core.schemas.pulsar.RATES`.
    """
    bundles = snapshot.bundles
    wanted = _rows_in(bundles["namespace"], pa.array(namespaces, pa.string())) >= 0
    owners = _rows_in(bundles["owner"], snapshot.brokers["broker"])
    meant = wanted & (owners >= 0)
    return np.bincount(
        owners[meant],
        weights=np.nan_to_num(floats_of(bundles, column)[meant]),
        minlength=snapshot.brokers.num_rows,
    ).astype(np.float64)


def floats_of(table: pa.Table, column: str) -> Floats:
    """Return a column of numbers, NaN where unknown."""
    values = table[column].cast(pa.float64()).to_numpy(zero_copy_only=False)
    return np.asarray(values, np.float64)


def _rows_in(values: pa.ChunkedArray, known: pa.Array | pa.ChunkedArray) -> Ints:
    """Return the position of each value among the known ones, or -1."""
    places = pc.fill_null(pc.index_in(values, value_set=known), -1)
    return np.asarray(places.to_numpy(zero_copy_only=False), np.int64)


def _storage(snapshot: PulsarSnapshot, namespaces: pa.ChunkedArray, count: int) -> Floats:
    topics = snapshot.topics
    found = np.full(count, np.nan)
    if not topics.num_rows:
        return found
    spaces = pc.replace_substring_regex(topics["bundle"], r"/[^/]*$", "")
    rows = _rows_in(spaces, namespaces)
    sizes = floats_of(topics, "storage_bytes")
    known = (rows >= 0) & np.isfinite(sizes)
    total = np.bincount(rows[known], weights=sizes[known], minlength=count)
    found[np.unique(rows[known])] = total[np.unique(rows[known])]
    return found
