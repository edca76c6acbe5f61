"""In which order the moves help most, and what each of them achieves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from core.optimize.balance import Balance
from core.optimize.fleet import FleetColumns, load_of
from core.optimize.model import CurvePoint
from core.pulsar.view import Floats

MAX_POINTS: Final = 200
"""A curve of more moves is thinned out to so many points, both ends included."""


def deviation(fleet: FleetColumns, load: Floats, relief: float | None) -> float:
    """Return the deviation of a fleet with these loads; see :class:`Proposal`."""
    values = load[fleet.known]
    if relief is not None:
        return max(float(values.max(initial=0.0)) / relief - 1.0, 0.0)
    mean = float(values.mean()) if values.size else 0.0
    return float(np.abs(values - mean).max()) / mean if mean > 0 else 0.0


def _mean_deviation(fleet: FleetColumns, load: Floats, relief: float | None) -> float:
    """Return the deviation of all brokers together; see :class:`CurvePoint`."""
    values = load[fleet.known]
    if not values.size:
        return 0.0
    if relief is not None:
        return float(np.maximum(values / relief - 1.0, 0.0).mean())
    mean = float(values.mean())
    return float(np.abs(values - mean).mean()) / mean if mean > 0 else 0.0


def best_order(balance: Balance) -> list[int]:
    """Return the moved bundles, those first that relieve the worst broker at that moment.

    Cost:
        O(moves * brokers), a NumPy step a move.
    """
    fleet = balance.fleet
    used = fleet.used.copy()
    load = load_of(used)
    centre = float(load[fleet.known].mean()) if fleet.known.any() else 0.0
    queues: dict[int, list[int]] = {}
    for bundle in sorted(balance.order, key=lambda one: fleet.bytes_per_s[one]):
        for broker in (int(fleet.owner[bundle]), int(balance.destination[bundle])):
            queues.setdefault(broker, []).append(bundle)
    done: set[int] = set()
    order: list[int] = []
    waiting = np.zeros(load.size, np.bool_)
    waiting[list(queues)] = True
    while waiting.any():
        broker = int(np.where(waiting, np.abs(load - centre), -1.0).argmax())
        queue = queues[broker]
        while queue and queue[-1] in done:
            queue.pop()
        if not queue:
            waiting[broker] = False
            continue
        bundle = queue.pop()
        done.add(bundle)
        order.append(bundle)
        _apply(balance, used, load, bundle)
    return order


def _apply(balance: Balance, used: Floats, load: Floats, bundle: int) -> None:
    fleet = balance.fleet
    source, destination = int(fleet.owner[bundle]), int(balance.destination[bundle])
    used[source] -= fleet.amount[bundle] * fleet.scale[source]
    used[destination] += fleet.amount[bundle] * fleet.scale[destination]
    load[[source, destination]] = used[[source, destination]].max(axis=1)


def efficiency(
    balance: Balance, order: Sequence[int], relief: float | None
) -> tuple[CurvePoint, ...]:
    """Return gain and cost of the first k moves, from none to all."""
    fleet = balance.fleet
    used = fleet.used.copy()
    load = load_of(used)
    drawn = set(np.linspace(0, len(order), MAX_POINTS + 1).round().astype(int).tolist())
    moved, clients = 0.0, 0
    points = [_point(fleet, load, relief, (0, 0.0, 0))]
    for count, bundle in enumerate(order, 1):
        _apply(balance, used, load, bundle)
        moved += float(fleet.bytes_per_s[bundle])
        clients += int(np.nan_to_num(fleet.clients[bundle]))
        if count in drawn:
            points.append(_point(fleet, load, relief, (count, moved, clients)))
    return tuple(points)


def _point(
    fleet: FleetColumns, load: Floats, relief: float | None, cost: tuple[int, float, int]
) -> CurvePoint:
    return CurvePoint(
        moves=cost[0],
        deviation=deviation(fleet, load, relief),
        mean_deviation=_mean_deviation(fleet, load, relief),
        moved_bytes_per_s=cost[1],
        clients=cost[2],
    )
