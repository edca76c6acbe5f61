"""What happened between two snapshots of one cluster, as rows of ``events``."""

from __future__ import annotations

import pyarrow as pa

from core.history.store.layout import EVENT_COLUMNS
from core.snapshot.record import AnyRecord
from core.snapshot.store import Storable


def events_between(system: AnyRecord, before: Storable, after: Storable) -> pa.Table:
    """Return the events between two snapshots.

    Args:
        system: The system of both.
        before: The earlier one.
        after: The later one; the clusters' names may differ.
    Returns:
        Columns of :data:`core.history.store.layout.EVENT_COLUMNS`; ``by`` is empty: unknown yet.
    Cost:
        O(rows) in columns, Python only for what happened.
    """
    rows = [{"by": ""} | row for row in system.events(before, after)]
    return pa.Table.from_pylist(rows, schema=EVENT_COLUMNS)
