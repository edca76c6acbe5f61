"""Columns of snapshot tables as NumPy arrays."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.pulsar.bundle_counts import Codes, Ints

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LARGEST: Final = 1e200
"""Larger than any rate is an error, and sums of it shall not overflow."""


def floats_of(table: pa.Table, name: str) -> Floats:
    """Return a column; null is NaN."""
    return np.asarray(table.column(name).to_numpy(zero_copy_only=False), np.float64)


def total_of(table: pa.Table, name: str, *, unknown: float = 0.0) -> Floats:
    """Return in plus out of a rate; ``unknown`` where neither is known."""
    return added(floats_of(table, f"{name}_in"), floats_of(table, f"{name}_out"), unknown=unknown)


def added(one: Floats, other: Floats, *, unknown: float = 0.0) -> Floats:
    """Return the sum of two columns, NaN counted as 0; ``unknown`` where both are NaN."""
    both = one, other
    if one.size and all(-LARGEST <= part.min() <= part.max() <= LARGEST for part in both):
        return one + other  # no gaps, which is nearly always so
    gaps = [np.isnan(part) for part in both]
    parts = [
        np.clip(np.where(gap, 0.0, part), -LARGEST, LARGEST)
        for part, gap in zip(both, gaps, strict=True)
    ]
    return np.where(gaps[0] & gaps[1], unknown, parts[0] + parts[1])


def ints_of(table: pa.Table, name: str) -> Ints:
    """Return a column; null is 0."""
    filled = pc.fill_null(table.column(name), 0)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def flags_of(table: pa.Table, name: str) -> Flags:
    """Return a column; null counts as true: what a broker that does not say so serves."""
    filled = pc.fill_null(table.column(name), pa.scalar(value=True))
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.bool_)


def codes_of(column: pa.ChunkedArray, names: pa.Array) -> Codes:
    """Return the position of each value in ``names``; -1 where it is not there, or null."""
    found = pc.fill_null(pc.index_in(column, value_set=names), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int32)
