"""Tables as dense arrays: names to columns, and the arrays of a series out of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.pulsar.load import WEIGHED
from core.schemas.pulsar import RATES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]

BROKER_NUMBERS: Final = (
    *RATES,
    *(f"{name}_usage" for name in WEIGHED),
    *(f"{name}_limit" for name in WEIGHED),
    *("topic_count", "bundle_count", "reported_at", "started_at"),
)
"""What of a broker is read every minute."""

CLIENTS: Final = ("producer_count", "consumer_count")


class Columns:
    """Names in the order of their first occurrence, and their columns."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._index: dict[str, int] = {}
        self._last: tuple[pa.ChunkedArray, Ints] | None = None

    def of(self, names: pa.ChunkedArray) -> Ints:
        """Return the column of each name; new names get new ones."""
        if self._last is not None and self._last[0].equals(names):
            return self._last[1]
        index = self._index
        found = [index.setdefault(name, len(index)) for name in names.to_pylist()]
        self.names = list(index)
        self._last = (names, np.array(found, np.int64))
        return self._last[1]

    def codes(self, names: pa.ChunkedArray) -> Codes:
        """Return the column of each name; -1 for null and for names without a column."""
        known = pa.array(self.names, pa.string())
        found = pc.fill_null(pc.index_in(names, value_set=known), -1)
        return np.asarray(found.to_numpy(zero_copy_only=False), np.int32)


def unseen_rows(columns: Columns, table: pa.Table, key: str) -> list[pa.Table]:
    """Return the rows with names that have no column yet."""
    before = len(columns.names)
    at = columns.of(table[key])
    is_new = at >= before
    return [table.filter(pa.array(is_new))] if is_new.any() else []


def sorted_rows(table: pa.Table, keys: Sequence[str]) -> pa.Array:
    """Return the row numbers of a table in the order of some columns."""
    return pc.sort_indices(table, sort_keys=[(key, "ascending") for key in keys])


def places(order: pa.Array) -> Ints:
    """Return each row's position in that order, with a last entry -1 for code -1."""
    rows = np.asarray(order.to_numpy(), np.int64)
    at = np.full(rows.size + 1, -1, np.int64)
    at[rows] = np.arange(rows.size)
    return at


def broker_fields(numbers: Floats, here: Flags) -> dict[str, Any]:
    """Return the brokers' arrays of a series.

    Args:
        numbers: In the order of :data:`BROKER_NUMBERS`, ``(T, b, k)``.
        here: ``(T, b)``.
    """
    width = len(WEIGHED)
    counts = np.nan_to_num(numbers[:, :, -4:-2])
    present = numbers[:, :, :-2]
    same = (present[1:] == present[:-1]) | (np.isnan(present[1:]) & np.isnan(present[:-1]))
    reported_at, started_at = numbers[:, :, -2], numbers[:, :, -1]
    restarted = np.zeros(here.shape, np.bool_)
    restarted[1:] = started_at[1:] > started_at[:-1]
    newer = np.nan_to_num(reported_at[1:]) > np.nan_to_num(reported_at[:-1])
    reported = np.ones(here.shape, np.bool_)
    reported[1:] = (newer | ~same.all(axis=2)) & here[1:]
    return {
        "broker_rates": np.ascontiguousarray(numbers[:, :, :4]),
        "broker_usage": np.ascontiguousarray(numbers[:, :, 4 : 4 + width]),
        "broker_limit": np.ascontiguousarray(numbers[:, :, 4 + width : 4 + 2 * width]),
        "broker_topics": counts[:, :, 0],
        "broker_bundles": counts[:, :, 1],
        "has_reported": reported & here,
        "has_restarted": restarted,
    }


def bundle_fields(columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the bundles' arrays of a series out of dense columns by name."""
    rates = tuple(columns[name] for name in RATES)
    same = ("owner", "reporter", "is_known", "topics", "clients")
    fields: dict[str, Any] = {name: columns[name] for name in same}
    return fields | {"rates": rates}


def parents_of(bundles: pa.Table, here: Flags) -> Codes:
    """Return the parent of each bundle that was split in the window; -1 for none.

    A part comes in the minute in which the smallest range around it goes.

    Args:
        bundles: Template rows, sorted by namespace, lower and upper.
        here: ``(T, n)``.
    Cost:
        O(T n) to find who comes and goes; then only those are compared.
    """
    count = here.shape[1]
    parent = np.full(count, -1, np.int32)
    if here.shape[0] < 2:
        return parent
    comes = np.argmax(here, axis=0)
    goes = here.shape[0] - np.argmax(here[::-1], axis=0)
    new = np.flatnonzero(comes > 0)
    gone = np.flatnonzero(goes < here.shape[0])
    if not new.size or not gone.size:
        return parent
    spaces = np.asarray(bundles["namespace"].to_numpy(), object)
    lower, upper = (np.asarray(bundles[name].to_numpy(), np.float64) for name in ("lower", "upper"))
    for part in new.tolist():
        fits = (
            (spaces[gone] == spaces[part])
            & (lower[gone] <= lower[part])
            & (upper[gone] >= upper[part])
            & (goes[gone] <= comes[part])
            & (gone != part)
        )
        around = gone[fits]
        if around.size:
            # the one that went last, and of several that went together the narrowest
            order = np.lexsort((upper[around] - lower[around], -goes[around]))
            parent[part] = around[order[0]]
    return parent
