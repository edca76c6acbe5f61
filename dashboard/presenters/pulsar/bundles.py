"""Bundles for people: rows of a table, numbers of a treemap and of a ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.arrays import column_values
from core.ids import range_text
from core.units import pluralize
from dashboard.charts.ring import LESS_BUSY, NOT_OWNED, OWNER_UNKNOWN, RingData
from dashboard.charts.treemap import REST, ROOT, TreemapData

Floats = NDArray[np.float64]
_OWNERLESS: Final = (NOT_OWNED, OWNER_UNKNOWN)
GroupBy = Literal["owner", "namespace"]

MAX_GROUPS: Final = 14
MAX_LEAVES: Final = 6
MAX_RING: Final = 200
"""Arcs of a ring: more are thinner than a finger, and cost the browser more than all the rest."""


def rows_of(table: pa.Table) -> pd.DataFrame:
    """Return bundle rows as a page shows them: MB/s, msg/s; NaN and None are unknown."""
    floats = {name: np.array(table[name].cast(pa.float64())) for name in _NUMBERS}
    return pd.DataFrame(
        {
            "bundle": table["bundle"].to_pylist(),
            "namespace": table["namespace"].to_pylist(),
            "owner": owner_words(table),
            "throughput": floats["throughput"] / 1e6,
            "msg_rate": floats["msg_rate"],
            "short_rate": floats["short_msg_rate"],
            "long_rate": floats["long_msg_rate"],
            "long_throughput": floats["long_throughput"] / 1e6,
            "topics": floats["topic_count"],
            "producers": floats["producer_count"],
            "consumers": floats["consumer_count"],
            "share": ring_share(table),
        }
    )


def total_traffic(history: Sequence[tuple[datetime, pa.Table]]) -> list[float]:
    """Return the traffic of every broker together over time, MB/s; unknown is left out.

    Args:
        history: Time and brokers table, oldest first.
    """
    totals = []
    for _, table in history:
        load = column_values(table, "msg_throughput_in") + column_values(
            table, "msg_throughput_out"
        )
        known = load[np.isfinite(load)]
        if known.size:
            totals.append(float(known.sum() / 1e6))
    return totals


def owner_names(table: pa.Table) -> pa.ChunkedArray:
    """Return each bundle's owner, :data:`NOT_OWNED` or :data:`OWNER_UNKNOWN`."""
    no_owner = pc.if_else(pc.is_valid(table["owner_source"]), NOT_OWNED, OWNER_UNKNOWN)
    return pc.coalesce(table["owner"], no_owner)


def owner_words(table: pa.Table) -> list[str | None]:
    """Return each bundle's owner; ``None`` where it is unknown whether anybody owns it."""
    no_owner = pc.if_else(pc.is_valid(table["owner_source"]), NOT_OWNED, None)
    return pc.coalesce(table["owner"], no_owner).to_pylist()  # type: ignore[no-any-return]  # Arrow has no types


_NUMBERS: Final = (
    "throughput",
    "msg_rate",
    "short_msg_rate",
    "long_msg_rate",
    "long_throughput",
    "topic_count",
    "producer_count",
    "consumer_count",
)


def ring_share(table: pa.Table) -> Floats:
    """Return the share of each bundle in its namespace's hash range, percent."""
    width = np.asarray(table["upper"], dtype=np.float64) - np.asarray(
        table["lower"], dtype=np.float64
    )
    shares: Floats = width / float(0xFFFFFFFF) * 100
    return shares


def treemap_data(bundles: pa.Table, group_by: GroupBy) -> TreemapData:
    """Return the largest groups with their largest bundles; the rest of each is one leaf.

    Args:
        bundles: Bundles with ``throughput``.
        group_by: ``owner`` or ``namespace``.
    """
    named = owner_names(bundles) if group_by == "owner" else bundles[group_by]
    keys = named.combine_chunks().dictionary_encode()
    names = keys.dictionary.to_pylist()
    code = np.asarray(keys.indices)
    load = np.nan_to_num(np.array(bundles["throughput"].cast(pa.float64())))
    totals = np.bincount(code, weights=load, minlength=len(names))
    groups = np.argsort(-totals, kind="stable")
    nodes = _Nodes()
    for group in groups[:MAX_GROUPS].tolist():
        rows = np.flatnonzero(code == group)
        rows = rows[np.argsort(-load[rows], kind="stable")]
        nodes.group(names[group], float(totals[group]), pluralize(len(rows), "bundle"))
        for row in rows[:MAX_LEAVES].tolist():
            name = bundles["bundle"][row].as_py()
            label = _leaf_label(bundles, row, group_by)
            nodes.leaf(name, label, names[group], float(load[row]), _note(bundles, row, group_by))
        if rest := rows[MAX_LEAVES:].tolist():
            text = f"{len(rest):,} more"
            nodes.leaf(f"{names[group]}{REST}", text, names[group], float(load[rest].sum()), text)
    return nodes.data()


class _Nodes:
    """Collects groups and leaves in the form the treemap wants."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.labels: list[str] = []
        self.parents: list[str] = []
        self.values: list[float] = []
        self.notes: list[str] = []

    def group(self, name: str, value: float, note: str) -> None:
        self._add(f"group|{name}", name, ROOT, value, note)

    def leaf(self, name: str, label: str, group: str, value: float, note: str) -> None:
        self._add(name, label, f"group|{group}", value, note)

    def _add(self, key: str, label: str, parent: str, value: float, note: str) -> None:
        self.ids.append(key)
        self.labels.append(label)
        self.parents.append(parent)
        self.values.append(value)
        self.notes.append(note)

    def data(self) -> TreemapData:
        total = sum(
            value for value, up in zip(self.values, self.parents, strict=True) if up == ROOT
        )
        self._add(ROOT, "all", "", total, pluralize(self.parents.count(ROOT), "group"))
        values = np.array(self.values, dtype=np.float64)
        return TreemapData(self.ids, self.labels, self.parents, values, "bytes/s", self.notes)


def _leaf_label(bundles: pa.Table, row: int, group_by: GroupBy) -> str:
    bounds = range_text(bundles["lower"][row].as_py(), bundles["upper"][row].as_py())
    lower = bounds.partition("_")[0]
    return lower if group_by == "namespace" else f"{bundles['namespace'][row].as_py()}<br>{lower}"


def _note(bundles: pa.Table, row: int, group_by: GroupBy) -> str:
    owner = bundles["owner"][row].as_py()
    is_known = bundles["owner_source"][row].is_valid
    where = f"on {owner}" if owner else NOT_OWNED if is_known else OWNER_UNKNOWN
    name = str(bundles["bundle"][row].as_py())
    return f"{name}<br>{where}" if group_by == "namespace" else name


def ring_data(
    bundles: pa.Table,
    namespace: str,
    *,
    marked: str | None = None,
    topic_hash: int | None = None,
    topic_hashes: Sequence[int] = (),
    max_bundles: int = MAX_RING,
) -> RingData | None:
    """Return the ring of a namespace; ``None`` when none of its bundles is known.

    Of more than ``max_bundles`` the busiest have an arc of their own, and the marked one; those
    between two of them are one arc, which stands for their mean.
    """
    table = bundles.filter(pc.equal(bundles["namespace"], namespace)).sort_by("lower")
    if table.num_rows == 0:
        return None
    names = table["bundle"].to_pylist()
    row = names.index(marked) if marked in names else None
    ring = RingData(
        lower=np.asarray(table["lower"], dtype=np.int64),
        upper=np.asarray(table["upper"], dtype=np.int64),
        owners=owner_names(table).to_pylist(),
        values=np.array(table["throughput"].cast(pa.float64())),
        unit="bytes/s",
        marked=row,
        topic_hash=topic_hash,
        topic_hashes=list(topic_hashes),
    )
    return ring if table.num_rows <= max_bundles else _merged(ring, max_bundles // 2)


def _merged(ring: RingData, busiest: int) -> RingData:
    """Return the ring with neighbours that are not among the busiest as one arc."""
    alone = np.zeros(ring.lower.size, np.bool_)
    alone[np.argsort(-np.nan_to_num(ring.values), kind="stable")[:busiest]] = True
    if ring.marked is not None:
        alone[ring.marked] = True
    begins = alone.copy()
    begins[0] = True
    begins[1:] |= alone[:-1] | (ring.lower[1:] != ring.upper[:-1])
    ownerless = np.array([name if name in _OWNERLESS else LESS_BUSY for name in ring.owners])
    begins[1:] |= ownerless[1:] != ownerless[:-1]  # bundles without an owner stay apart
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], begins.size)
    sizes = ends - starts
    sums = np.add.reduceat(np.nan_to_num(ring.values), starts)
    known = np.add.reduceat((~np.isnan(ring.values)).astype(np.int64), starts)
    return replace(
        ring,
        lower=ring.lower[starts],
        upper=ring.upper[ends - 1],
        owners=[
            ring.owners[start] if size == 1 else str(ownerless[start])
            for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
        ],
        values=np.where(known > 0, sums / np.maximum(known, 1), np.nan),
        marked=None if ring.marked is None else int(begins[: ring.marked + 1].sum()) - 1,
    )


def namespaces_by_load(bundles: pa.Table) -> list[str]:
    """Return every namespace, the one with most traffic first."""
    if bundles.num_rows == 0:
        return []
    grouped = bundles.group_by("namespace").aggregate([("throughput", "sum")])
    return grouped.sort_by([("throughput_sum", "descending")])["namespace"].to_pylist()  # type: ignore[no-any-return]  # Arrow has no types
