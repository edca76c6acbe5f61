"""Columns of Arrow tables as NumPy arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def row_of(keys: pa.ChunkedArray, values: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the row of each of ``values`` in ``keys``, -1 where it is null or not there."""
    found = pc.fill_null(pc.index_in(values, value_set=keys.combine_chunks(), skip_nulls=True), -1)
    rows: NDArray[np.int64] = np.asarray(found.to_numpy(), dtype=np.int64)
    return rows


def column_values(table: pa.Table, name: str) -> Floats:
    """Return a numeric column as float64, NaN for null."""
    values: Floats = table[name].cast(pa.float64()).to_numpy()
    return np.array(values, dtype=np.float64)
