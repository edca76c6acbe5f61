"""What ``app_stat`` shows, of every partition and table: operations as their primaries report them.

Ratios of caches and bloom filters are of the sums since the replicas were opened, and unknown where
nothing was looked up: the shell shows zero there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.pegasus.columns import Counts, Floats, PegasusColumns, sums_by_place
from core.pegasus.stats import EVENT_RATES, LOOKUPS, OPERATION_RATES, STORAGE
from core.pegasus.view import NO_NODE, Ints

SUMS: Final = (*OPERATION_RATES, *EVENT_RATES, *STORAGE)
RATIOS: Final = ("cache_hit_ratio", "seek_negative_ratio", "point_negative_ratio", "point_fp_ratio")
"""The shell's ``hit_rate``, ``seek_n_rate``, ``point_n_rate`` and ``point_fp_rate``, 0 to 1."""
_INDEX_BITS: Final = 32


@dataclass(frozen=True, eq=False)
class AppStat:
    """The operations of one snapshot.

    Attributes:
        columns: The partitions.
        values: By column of ``operations``, shape ``(n_partitions,)``; NaN: unknown.
    """

    columns: PegasusColumns
    values: Mapping[str, Floats]

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table], columns: PegasusColumns) -> AppStat:
        """Bring the operations of a snapshot in the order of its partitions."""
        operations = tables["operations"]
        keys = _keys(operations["app_id"].to_numpy(), operations["index"].to_numpy())
        wanted = _keys(columns.app_ids[columns.part_table], columns.part_index)
        places = pc.index_in(pa.array(wanted), value_set=pa.array(keys))
        values = {}
        for name in (*SUMS, *LOOKUPS):
            found = operations[name].combine_chunks().take(places)
            known = pc.fill_null(found, float("nan")).to_numpy(zero_copy_only=False)
            values[name] = np.asarray(known, dtype=np.float64)
        return cls(columns, values)

    def per_table(self) -> dict[str, Floats]:
        """Return sums and ratios by column, shape ``(n_tables,)``; NaN: some part is unknown.

        Partitions without a primary are not served: they add nothing.
        """
        columns = self.columns
        is_led = columns.part_primary != NO_NODE
        places = columns.part_table[is_led]
        sums = {
            name: np.where(
                columns.is_read,
                sums_by_place(places, self.values[name][is_led], columns.table_count),
                np.nan,
            )
            for name in (*SUMS, *LOOKUPS)
        }
        return {name: sums[name] for name in SUMS} | _ratios(sums)

    def of_partitions(self, rows: Counts) -> dict[str, Floats]:
        """Return values and ratios by column, of the partitions at these places."""
        values = {name: self.values[name][rows] for name in (*SUMS, *LOOKUPS)}
        return {name: values[name] for name in SUMS} | _ratios(values)


def _keys(app_ids: Counts, indexes: Counts | Ints) -> Counts:
    return (app_ids.astype(np.int64) << _INDEX_BITS) | indexes.astype(np.int64)


def _ratios(values: Mapping[str, Floats]) -> dict[str, Floats]:
    negatives = values["point_negatives"]
    positives = values["point_positives"]
    false_positives = positives - values["point_true_positives"]
    return {
        "cache_hit_ratio": _ratio(values["cache_hits"], values["cache_lookups"]),
        "seek_negative_ratio": _ratio(values["seek_negatives"], values["seek_lookups"]),
        "point_negative_ratio": _ratio(negatives, negatives + positives),
        "point_fp_ratio": _ratio(false_positives, false_positives + negatives),
    }


def _ratio(part: Floats, whole: Floats) -> Floats:
    return part / np.where(whole > 0, whole, np.nan)
