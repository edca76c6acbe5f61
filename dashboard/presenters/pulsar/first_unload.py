"""The hot broker of a fleet, and the bundle whose unload relieves it: for a first try."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.pulsar.view import LoadView
from core.units import format_ratio, pluralize


@dataclass(frozen=True, slots=True)
class HotSpot:
    """A broker with the highest usage, and one of its bundles.

    Attributes:
        broker: Its id.
        bundle: The largest that it can give without falling below the mean.
        sentence: How hot it is.
    """

    broker: str
    bundle: str
    sentence: str


def hot_spot(view: LoadView) -> HotSpot | None:
    """Return the hot broker of a fleet; ``None``: no broker has a bundle with traffic."""
    if not view.usage_known.any():
        return None
    usage = np.where(view.usage_known, view.usage, -np.inf)
    broker = int(np.argmax(usage))
    movable = (view.owner == broker) & ~view.is_broker_bound & (view.bundle_throughput > 0)
    rows = np.flatnonzero(movable)
    if not rows.size:
        return None
    surplus = view.broker_throughput[broker] - np.nanmean(view.broker_throughput)
    rows = rows[np.argsort(view.bundle_throughput[rows])]
    fitting = rows[view.bundle_throughput[rows] <= surplus]
    bundle = fitting[-1] if fitting.size else rows[0]
    name, count = view.brokers[broker], pluralize(len(view.brokers), "broker")
    return HotSpot(
        broker=name,
        bundle=str(view.bundles[bundle]),
        sentence=f"{name}: {format_ratio(float(usage[broker]))} usage, the highest of {count}.",
    )
