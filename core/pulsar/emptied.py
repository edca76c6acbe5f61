"""Since when brokers are empty that gave up their bundles while they ran: drained ones.

A new or restarted broker is empty as well. It differs in what was seen before: a drained broker
owned bundles in one snapshot and none in the next, its process the same in both.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from core.pulsar.measures import owned_bundle_counts
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms

_COLUMNS = ("broker", "started_at", "emptied_at")


def with_emptied(snapshot: PulsarSnapshot, before: PulsarSnapshot | None) -> PulsarSnapshot:
    """Return a snapshot whose brokers have ``emptied_at``.

    Args:
        snapshot: A new one.
        before: The one before it; ``None`` if there is none.
    """
    if before is None or not snapshot.bundles.num_rows:
        return snapshot
    held = owned_bundle_counts(snapshot)
    known = {
        row["broker"]: (row, count)
        for row, count in zip(
            before.brokers.select(_COLUMNS).to_pylist(), owned_bundle_counts(before), strict=True
        )
    }
    now_ms = datetime_to_ms(snapshot.manifest.taken_at)
    found: list[int | None] = []
    for row, count in zip(snapshot.brokers.select(_COLUMNS).to_pylist(), held, strict=True):
        earlier, count_before = known.get(row["broker"], (None, np.nan))
        is_same = earlier is not None and earlier["started_at"] == row["started_at"]
        if count != 0 or earlier is None or not is_same or row["started_at"] is None:
            found.append(None)
        elif earlier["emptied_at"] is not None:
            found.append(earlier["emptied_at"])
        else:
            found.append(now_ms if count_before > 0 else None)
    if not any(found):
        return snapshot
    at = snapshot.brokers.schema.get_field_index("emptied_at")
    field = snapshot.brokers.schema.field(at)
    column = pa.array(found, field.type)
    return snapshot.with_tables({"brokers": snapshot.brokers.set_column(at, field, column)})
