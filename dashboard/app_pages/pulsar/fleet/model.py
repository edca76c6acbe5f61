"""Trends of Pulsar clusters for their row in the fleet overview."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa

from core.arrays import column_values
from core.pulsar.measures import drained_rows


def trends(history: Sequence[tuple[datetime, pa.Table]]) -> tuple[list[float], list[float]]:
    """Return the traffic deviation of the busiest broker and the traffic; unknown left out.

    Args:
        history: Time and brokers table of saved snapshots, oldest first.
    Returns:
        Percent, and MB/s, oldest first.
    """
    deviations: list[float] = []
    traffic: list[float] = []
    for _, table in history:
        load = column_values(table, "msg_throughput_in") + column_values(
            table, "msg_throughput_out"
        )
        known = load[np.isfinite(load) & ~drained_rows(table)]
        if known.size and known.mean() > 0:
            deviations.append(float((known.max() / known.mean() - 1) * 100))
            traffic.append(float(known.sum() / 1e6))
    return deviations, traffic
