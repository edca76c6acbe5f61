"""What happened between two snapshots of one cluster, as rows of ``events``."""

from __future__ import annotations

import pyarrow as pa

from core.history.store.layout import EVENT_COLUMNS
from core.snapshot.record import AnyRecord
from core.snapshot.store import Storable


def events_between(system: AnyRecord, before: Storable, after: Storable) -> pa.Table:
    """Return the events between two snapshots.

    Args:
        system: The system of the later one.
        before: The earlier one.
        after: The later one; the clusters' names may differ.
    Returns:
        Columns of :data:`core.history.store.layout.EVENT_COLUMNS`; ``by`` is empty: unknown yet.
        No rows if the cluster was built again as another system in between.
    Cost:
        O(rows) in columns, Python only for what happened.
    """
    is_same = before.manifest.kind == after.manifest.kind
    rows = [{"by": ""} | row for row in system.events(before, after)] if is_same else []
    return pa.Table.from_pylist(rows, schema=EVENT_COLUMNS)
