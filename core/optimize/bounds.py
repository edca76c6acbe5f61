"""What no plan can undercut: the least traffic that has to move, and the least deviation.

*Sum*: what stands above the band has to leave, what is missing below it has to come; one bundle
does both, so the larger of the two sums counts. A broker that has to give gives a whole bundle.
*Linear programme* (:mod:`core.optimize.transport`): the same with bundles that can be cut at will,
but with every broker's allowed destinations. It may also prove that there is no plan.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.optimize.balance import Band
from core.optimize.fleet import Fleet
from core.optimize.transport import Transport
from core.pulsar.bundle_counts import Ints
from core.pulsar.view import Floats


@dataclass(frozen=True, slots=True)
class Bounds:
    """What holds for every plan.

    Attributes:
        least_bytes_per_s: Has to move at least; ``None``: nothing reaches the band.
        least_peak: Load that the busiest broker cannot come below, measure's unit; 0: unknown.
        deviation_floor: Deviation that cannot be undercut, share of the mean.
    """

    least_bytes_per_s: float | None
    least_peak: float = 0.0
    deviation_floor: float = 0.0


def find_bounds(fleet: Fleet, band: Band) -> Bounds:
    """Return the bounds for a fleet as it is.

    Args:
        fleet: As it is.
        band: Where every broker has to be. For usage the mean may shift a little while bundles
            move; the bound is that of the band given.
    """
    if fleet.measure == "usage":
        return Bounds(_usage_bytes(fleet, band))
    mean = float(fleet.load[fleet.known].mean())
    floor = _floor(fleet, mean)
    over, under = _needs(fleet, band)
    by_sum = _sum_bytes(fleet, over, under)
    flow = Transport.of(fleet)
    if by_sum == 0 or flow.is_free(over[fleet.known]) or not flow.is_small:
        return Bounds(by_sum, deviation_floor=floor)
    least = flow.least_flow(band)
    if least is not None:
        return Bounds(max(by_sum, least), deviation_floor=floor)
    return Bounds(
        None,
        least_peak=flow.least_peak() or 0.0,
        deviation_floor=max(floor, flow.least_deviation() or 0.0),
    )


def _floor(fleet: Fleet, mean: float) -> float:
    """What cannot leave a broker stays there, and the largest bundle has to be somewhere."""
    if mean <= 0:
        return 0.0
    moving = np.bincount(fleet.owner, weights=fleet.bytes_per_s, minlength=fleet.load.size)
    stays = float(np.where(fleet.known, fleet.load - moving, 0.0).max())
    largest = float(fleet.bytes_per_s.max(initial=0.0))
    return max((max(stays, largest) - mean) / mean, 0.0)


def _sum_bytes(fleet: Fleet, over: Floats, under: Floats) -> float:
    smallest = np.zeros(over.size)
    for broker in np.flatnonzero(over > 0).tolist():
        # sorted by owner, largest first
        bundles = fleet.bundles_of(broker)
        smallest[broker] = fleet.bytes_per_s[bundles[-1]] if bundles.size else 0.0
    least = float(fleet.bytes_per_s.min(initial=np.inf)) if fleet.rows.size else 0.0
    out = np.where(over > 0, np.maximum(over, smallest), 0.0).sum()
    into = np.where(under > 0, np.maximum(under, least), 0.0).sum()
    return float(max(out, into))


def _needs(fleet: Fleet, band: Band) -> tuple[Floats, Floats]:
    """What each broker has to give and to get; rounding is no need."""
    over = np.where(fleet.known, fleet.load - band.high, 0.0)
    under = np.where(fleet.known, band.low - fleet.load, 0.0)
    return (
        np.where(over > band.slack, over, 0.0),
        np.where(under > band.slack, under, 0.0),
    )


def _usage_bytes(fleet: Fleet, band: Band) -> float:
    """Per hot broker and resource: cut its bundles, the densest first; the dearest resource counts.

    Nothing that moves between two other brokers helps; so the brokers' needs add up.
    """
    total = 0.0
    for broker in np.flatnonzero(fleet.known & (fleet.load > band.high + band.slack)).tolist():
        bundles = fleet.bundles_of(broker)
        excess = fleet.used[broker] - band.high
        total += max(
            (
                _knapsack(
                    fleet.amount[bundles, part] * fleet.scale[broker, part],
                    fleet.bytes_per_s[bundles],
                    float(excess[part]),
                )
                for part in np.flatnonzero(excess > band.slack).tolist()
            ),
            default=0.0,
        )
    return total


def _knapsack(gain: Floats, cost: Floats, need: float) -> float:
    """Least cost of gaining ``need`` from divisible pieces; all of it where that is too little."""
    order: Ints = np.argsort(-(gain / cost), kind="stable")
    reached = np.cumsum(gain[order])
    whole = int(np.searchsorted(reached, need))
    if whole >= order.size:
        return float(cost.sum())
    before = float(reached[whole - 1]) if whole else 0.0
    part = (need - before) / float(gain[order[whole]])
    return float(cost[order[:whole]].sum() + part * cost[order[whole]])
