"""Since when brokers are empty that a plan drained.

An empty broker is a destination like any other: a new one, a restarted one, and one whose only
bundle was moved elsewhere or back. It is *drained* if it owned bundles in one snapshot and none in
the next, its process the same in both, and a plan in between drained it (:func:`drained_by`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa

from core.plan.model import Plan
from core.pulsar.measures import owned_bundle_counts
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms

_COLUMNS = ("broker", "started_at", "emptied_at")
_FEWEST: Final = 2
"""Bundles that a plan unloads at least to drain a broker: one alone is a move like any other."""
_STEP_LASTS: Final = timedelta(minutes=5)
"""The step that moved the last bundle may have begun before the earlier snapshot."""


def drained_by(plans: Iterable[Plan]) -> frozenset[str]:
    """Return the brokers that plans drain: they unload bundles of no other broker.

    An undo drains none: it restores what was before. Nor does a plan with a single bundle, or one
    with steps of another kind.
    """
    found: set[str] = set()
    for plan in plans:
        owners = {step.owner if step.is_placed_by_cluster else None for step in plan.steps}
        if plan.undoes is None and len(plan.steps) >= _FEWEST and len(owners) == 1:
            found |= owners - {None}  # type: ignore[arg-type]  # None is taken out
    return frozenset(found)


def _drained_since(
    before: PulsarSnapshot,
    snapshot: PulsarSnapshot,
    plans: Callable[[datetime, datetime], Iterable[Plan]] | None,
) -> frozenset[str]:
    if plans is None:
        return frozenset()
    return drained_by(plans(before.manifest.taken_at - _STEP_LASTS, snapshot.manifest.taken_at))


def with_emptied(
    snapshot: PulsarSnapshot,
    before: PulsarSnapshot | None,
    plans: Callable[[datetime, datetime], Iterable[Plan]] | None = None,
) -> PulsarSnapshot:
    """Return a snapshot whose brokers have ``emptied_at``.

    Args:
        snapshot: A new one.
        before: The one before it; ``None`` if there is none.
        plans: Returns the plans that were executed between two moments; called only if a broker
            became empty. ``None``: no broker becomes drained.
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
    drained: Collection[str] | None = None
    found: list[int | None] = []
    for row, count in zip(snapshot.brokers.select(_COLUMNS).to_pylist(), held, strict=True):
        earlier, count_before = known.get(row["broker"], (None, np.nan))
        is_same = earlier is not None and earlier["started_at"] == row["started_at"]
        if count != 0 or earlier is None or not is_same or row["started_at"] is None:
            found.append(None)
        elif earlier["emptied_at"] is not None:
            found.append(earlier["emptied_at"])
        elif count_before > 0:
            drained = _drained_since(before, snapshot, plans) if drained is None else drained
            found.append(now_ms if row["broker"] in drained else None)
        else:
            found.append(None)
    if not any(found):
        return snapshot
    at = snapshot.brokers.schema.get_field_index("emptied_at")
    field = snapshot.brokers.schema.field(at)
    column = pa.array(found, field.type)
    return snapshot.with_tables({"brokers": snapshot.brokers.set_column(at, field, column)})
