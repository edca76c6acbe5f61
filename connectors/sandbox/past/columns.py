"""What both systems' pasts share: tables with other columns, and the pace of the minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.snapshot import Manifest
from core.units import ms_to_datetime

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

STEP_MS: Final = 120_000
"""Between two minutes of the past; of a longer distance the back-test makes a gap."""

NOTE: Final = "This minute is simulated; the demo generated it for the time before its start."


def with_columns(table: pa.Table, values: Mapping[str, object]) -> pa.Table:
    """Return a table with other values in some columns, of the same types."""
    for name, column in values.items():
        at = table.schema.get_field_index(name)
        one = table.schema.field(at)
        array = column if isinstance(column, pa.Array) else pa.array(column, from_pandas=True)
        table = table.set_column(at, one, array.cast(one.type))
    return table


def scaled(table: pa.Table, factors: Mapping[str, Floats]) -> pa.Table:
    """Return a table with some columns multiplied; what is unknown stays unknown."""
    return with_columns(
        table,
        {
            name: table[name].to_numpy().astype(np.float64) * factor
            for name, factor in factors.items()
        },
    )


def named(names: pa.Array, rows: Rows) -> pa.Array:
    """Return the names at places; null where a place is negative."""
    return names.take(pa.array(rows, mask=rows < 0))


def of_moment(manifest: Manifest, moment_ms: int, tables: Mapping[str, pa.Table]) -> Manifest:
    """Return the manifest of a simulated minute, marked as such: its tables are complete."""
    shift = moment_ms - round(manifest.taken_at.timestamp() * 1000)
    entries = {
        name: replace(
            entry,
            expected=None if entry.expected is None else tables[name].num_rows,
            source=entry.source if entry.source == "none" else f"{entry.source}+simulated",
            oldest_at=None if entry.oldest_at is None else entry.oldest_at + shift,
        )
        for name, entry in manifest.tables.items()
    }
    return replace(
        manifest,
        taken_at=ms_to_datetime(moment_ms),
        tables=entries,
        problems=(),
        unavailable=(*manifest.unavailable, NOTE),
    )
