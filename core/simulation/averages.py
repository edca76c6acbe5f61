"""The leader's time averages, one sample further: what every broker reports at the end of a round.

Source: Pulsar ``ModularLoadManagerImpl#updateBundleData``, ``TimeAverageBrokerData#reset``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.health.measures import column_values, row_of
from core.pulsar.load import LONG_SAMPLES, SHORT_SAMPLES, next_average
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot

Floats = NDArray[np.float64]

_TERMS: Final = (("short", SHORT_SAMPLES), ("long", LONG_SAMPLES))


def after_sample(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    """Return the snapshot after one more sample of every reported bundle's last statistics.

    A broker's average is the sum over the bundles that it reports. A bundle without an average
    begins one; one that nobody reports, or without statistics, keeps what it has.

    Cost:
        O(bundles), no Python loop.
    """
    bundles, brokers = snapshot.bundles, snapshot.brokers
    reporter = row_of(brokers["broker"], bundles["reported_by"])
    for term, most in _TERMS:
        held = np.nan_to_num(column_values(bundles, f"{term}_samples")).astype(np.int64)
        counted = held
        for rate in RATES:
            name = f"{term}_{rate}"
            values = column_values(bundles, name)
            last = column_values(bundles, rate)
            sampled = (reporter >= 0) & np.isfinite(last)
            begun = np.where(np.isfinite(values), held, 0)
            average, samples = next_average(
                np.nan_to_num(values), begun, np.nan_to_num(last), max_samples=most
            )
            values = np.where(sampled, average, values)
            counted = np.where(sampled, samples, counted)
            bundles = _set(bundles, name, pa.array(values, pa.float64(), mask=np.isnan(values)))
            brokers = _set(brokers, name, _sums(brokers, name, reporter, values))
        bundles = _set(bundles, f"{term}_samples", pa.array(counted, pa.int64()))
    tables = {**snapshot.tables, "bundles": bundles, "brokers": brokers}
    return PulsarSnapshot.build(snapshot.manifest, tables)


def _sums(brokers: pa.Table, name: str, reporter: NDArray[np.int64], values: Floats) -> pa.Array:
    """Sum over reported bundles; a broker of which nothing is known keeps that."""
    here = (reporter >= 0) & np.isfinite(values)
    total = np.bincount(reporter[here], weights=values[here], minlength=brokers.num_rows)
    unknown = np.isnan(column_values(brokers, name)) & (total == 0)
    return pa.array(total, pa.float64(), mask=unknown)


def _set(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(name), values)
