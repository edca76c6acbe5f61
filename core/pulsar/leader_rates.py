"""The leader's long-term rates, and how far they may be from what ZooKeeper shows.

The leader places by averages in its memory; ZooKeeper has them as of its last write. A bundle that
moved since has no stored average: the leader forgot it when no broker reported it, and began a
new one with whatever the first reports of the new owner said, zero included.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.pulsar.load import Floats
from core.snapshot import PulsarSnapshot

Flags = NDArray[np.bool_]

_STARTED: Final = (
    "Some brokers have a stored long-term rate of 0 although their bundles "
    "have traffic: they started after the leader's last write, and the "
    "leader itself may have newer rates."
)
_SAME_RATIO: Final = 1e-3
"""Two sums of averages that differ by less were written together."""
_MOVED_RATIO: Final = 0.1  # averages drift by less between two writes, a moved bundle is more
_AGED_RATIO: Final = 0.05
"""What a minute of samples may change while bundles move."""


def leader_long_rates(stored: Floats, bundles: dict[str, Any]) -> tuple[Floats, str]:
    """Return each broker's long-term rate as the leader holds it, and a note.

    ZooKeeper has it as of the leader's last write, up to 15 minutes ago, and all zero for a broker
    that started since. The leader itself adds up the averages of the bundles that are reported
    *now*. Where both sums cover the same traffic (the totals agree), brokers whose bundles changed
    since that write get the present sum. Where they cover about the same, that shows in a larger
    difference; otherwise the stored value is all there is.

    Args:
        stored: Each broker's rate in ZooKeeper, msg/s; NaN where there is none.
        bundles: Columns of the bundles: ``reporter``, ``bundle_long_rate``.
    """
    reported = np.asarray(bundles["reporter"]) >= 0
    present = _added_up(bundles, "bundle_long_rate", reported, stored.size)
    unknown = np.isnan(stored)
    if unknown.all():
        summed = "Long-term rates of brokers are sums over their bundles."
        return present, summed * bool(reported.any())
    known_total = float(stored[~unknown].sum())
    same_write = not unknown.any() and _close(present.sum(keepdims=True), known_total).all()
    if not (same_write or _close(present.sum(keepdims=True), known_total, _MOVED_RATIO).all()):
        started = bool(((stored == 0) & (present > 0)).any())
        return np.where(unknown, present, stored), _STARTED * started
    moved = unknown | ~_close(present, stored, _SAME_RATIO if same_write else _MOVED_RATIO)
    note = "Long-term rates of brokers whose bundles changed are sums over their current bundles."
    return np.where(moved, present, stored), note if moved.any() else ""


def _added_up(bundles: dict[str, Any], column: str, chosen: Flags, n_brokers: int) -> Floats:
    """Sum a column of the chosen bundles for each broker that reports them."""
    rows = np.asarray(bundles["reporter"])[chosen]
    values = np.asarray(bundles[column], np.float64)[chosen]
    return np.bincount(rows, weights=values, minlength=n_brokers).astype(np.float64)


def _close(one: Floats, other: Floats | float, ratio: float = _SAME_RATIO) -> Flags:
    with np.errstate(invalid="ignore"):
        return np.abs(one - other) <= ratio * np.maximum(np.abs(one), np.abs(other))


def long_rate_doubt(
    snapshot: PulsarSnapshot, bundles: dict[str, Any], long_rate: Floats, *, has_moved: bool
) -> Floats:
    """Return the uncertainty of each broker's long-term rate, msg/s.

    A dump is judged as it is: no doubt. Of a live cluster, each reported bundle without a stored
    average counts with all of its rate, a stored value with its distance from the present sum, and
    while bundles move, so does a share of the whole.

    Args:
        snapshot: The cluster.
        bundles: Columns of its bundles: ``reporter``, ``bundle_msg_rate``.
        long_rate: msg/s, one a broker.
        has_moved: Whether bundles changed hands since the leader's last write.
    Source:
        Pulsar ``ModularLoadManagerImpl#updateBundleData``, ``#cleanupDeadBrokersData``.
    """
    if not is_live(snapshot):
        return np.zeros_like(long_rate)
    column: pa.ChunkedArray = snapshot.bundles.column("long_msg_rate_in")
    return doubt_of(np.asarray(pc.is_null(column)), bundles, long_rate, has_moved=has_moved)


def is_live(snapshot: PulsarSnapshot) -> bool:
    """Return whether the load of brokers is from ZooKeeper, and not from a dump."""
    entry = snapshot.manifest.tables.get("brokers")
    return entry is not None and "zookeeper" in entry.source


def doubt_of(
    is_new: Flags, bundles: dict[str, Any], long_rate: Floats, *, has_moved: bool
) -> Floats:
    """Return the same for a live cluster; ``is_new``: bundles without a stored average."""
    reported = np.asarray(bundles["reporter"]) >= 0
    fresh = is_new & reported
    present = _added_up(bundles, "bundle_long_rate", reported, long_rate.size)
    doubt = _added_up(bundles, "bundle_msg_rate", fresh, long_rate.size) + np.abs(
        long_rate - present
    )
    is_moving = has_moved or bool(fresh.any())
    return doubt + _AGED_RATIO * long_rate if is_moving else doubt
