"""The leader's time averages: what the reports of one round make of them.

Source: Pulsar ``ModularLoadManagerImpl#updateBundleData``, ``TimeAverageBrokerData#reset``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.health.measures import column_values, row_of
from core.pulsar.load import LONG_SAMPLES, SHORT_SAMPLES
from core.pulsar.quotas import quota_seeds
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_TERMS: Final = (("short", SHORT_SAMPLES), ("long", LONG_SAMPLES))


def after_samples(snapshot: PulsarSnapshot, count: int) -> PulsarSnapshot:
    """Return the snapshot after ``count`` more samples of every reported bundle's statistics.

    A broker's average is the sum over the bundles that it reports. A bundle without an average
    begins one, with its resource quota where it has one; one that nobody reports, or without
    statistics, keeps what it has.

    Args:
        snapshot: The statistics are the same in every sample.
        count: The leader takes one of every bundle whenever any broker writes its report.
    Cost:
        O(bundles), no Python loop; independent of ``count``.
    """
    bundles, brokers = snapshot.bundles, snapshot.brokers
    reporter = row_of(brokers["broker"], bundles["reported_by"])
    seeds = {} if snapshot.manifest.load_manager == "extensible" else quota_seeds(snapshot)
    for term, most in _TERMS:
        held = np.nan_to_num(column_values(bundles, f"{term}_samples")).astype(np.int64)
        counted = held
        for rate in RATES:
            name = f"{term}_{rate}"
            values, last = column_values(bundles, name), column_values(bundles, rate)
            sampled = (reporter >= 0) & np.isfinite(last)
            begun = np.where(np.isfinite(values), held, 0)
            if seeds:  # a quota counts for as many samples as an average holds
                is_seeded = np.isnan(values) & np.isfinite(seeds[rate])
                values = np.where(is_seeded, seeds[rate], values)
                begun = np.where(is_seeded, most, begun)
            average = last + (np.nan_to_num(values) - last) * part_left(begun, count, most)
            values = np.where(sampled, average, values)
            counted = np.where(sampled, np.minimum(begun + count, most), counted)
            bundles = _set(bundles, name, pa.array(values, pa.float64(), mask=np.isnan(values)))
            brokers = _set(brokers, name, _sums(brokers, name, reporter, values))
        bundles = _set(bundles, f"{term}_samples", pa.array(counted, pa.int64()))
    tables = {**snapshot.tables, "bundles": bundles, "brokers": brokers}
    return PulsarSnapshot.build(snapshot.manifest, tables)


def part_left(held: Ints, count: int, most: int) -> Floats:
    """Return how much of an average is left of what it was, after ``count`` samples of one value.

    A plain mean up to ``most`` samples: ``held`` out of ``held + count`` are the old ones. From
    then on each sample leaves ``(most - 1) / most`` of what is there.

    Example:
        >>> part_left(np.array([0, 1, 10]), 1, 10).round(3).tolist()
        [0.0, 0.5, 0.9]
    """
    filled = np.minimum(held + count, most)
    beyond = np.maximum(held + count - most, 0)
    return np.asarray(held / np.maximum(filled, 1) * ((most - 1) / most) ** beyond, np.float64)


def _sums(brokers: pa.Table, name: str, reporter: Ints, values: Floats) -> pa.Array:
    """Sum over reported bundles; a broker of which nothing is known keeps that."""
    here = (reporter >= 0) & np.isfinite(values)
    total = np.bincount(reporter[here], weights=values[here], minlength=brokers.num_rows)
    unknown = np.isnan(column_values(brokers, name)) & (total == 0)
    return pa.array(total, pa.float64(), mask=unknown)


def _set(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(name), values)
