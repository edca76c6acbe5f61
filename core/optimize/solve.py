"""From a laid-out fleet to the moves: which band to aim at, and the search for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from core.optimize.balance import Balance, Band
from core.optimize.bounds import Bounds, find_bounds
from core.optimize.curve import deviation
from core.optimize.fleet import Fleet
from core.optimize.improve import improve
from core.optimize.repair import Repair
from core.optimize.request import OptimizeRequest

_MEAN_ROUNDS: Final = 4
"""The mean usage shifts while bundles move (brokers differ in limits); then the band is redone."""

_BUDGET_ROUNDS: Final = 6
"""Halvings of the search for the tightest band that a budget of moves reaches."""

_PEAK_ROOM_RATIO: Final = 0.005
"""Whole bundles need a little more room than the liquid of the linear programme."""

_SEED: Final = 1
_HAIR_RATIO: Final = 1e-8

_MAX_TRIES: Final = 12
_BUNDLES_TO_TRY: Final = 12_000
"""Small fleets are hard (few bundles have to fit) and quick: so many are worth another try."""

_GOOD_RATIO: Final = 1.02
"""Nothing is tried again that moves this little more than the least."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The fleet after the moves; ``band`` is the goal, and ``bounds`` are the goal's."""

    balance: Balance
    band: Band
    bounds: Bounds


def solve(fleet: Fleet, request: OptimizeRequest) -> Outcome:
    """Find the moves.

    Where it is proven that the busiest broker cannot come into the band, the lowest peak that it
    can come to is aimed at instead. A budget that does not suffice is spent on the tightest band
    that it reaches.
    """
    mean = _mean(fleet, fleet.load)
    band = goal_band(mean, request)
    bounds = find_bounds(fleet, band)
    balance = Balance(fleet)
    if is_inside(balance, band):
        return Outcome(balance, band, bounds)
    aim = _reachable(fleet, band, bounds)
    balance = _search(fleet, aim, request.max_moves, bounds)
    for _ in range(_MEAN_ROUNDS if fleet.measure == "usage" and request.relief is None else 0):
        band = goal_band(_mean(fleet, balance.load), request)
        if is_inside(balance, band):
            break
        bounds = find_bounds(fleet, band)
        aim = _reachable(fleet, band, bounds)
        balance = _search(fleet, aim, request.max_moves, bounds)
    if request.max_moves is not None and not is_inside(balance, band):
        balance = _spend(fleet, request, balance, request.max_moves)
    return Outcome(balance, band, bounds)


def goal_band(mean: float, request: OptimizeRequest) -> Band:
    """Return the band that the request asks for."""
    if request.relief is not None:
        return Band(-np.inf, request.relief)
    return Band(mean * (1 - request.within), mean * (1 + request.within))


def is_inside(balance: Balance, band: Band) -> bool:
    """Return whether every broker of known load is in the band."""
    outside = band.violation(balance.load) > band.slack
    return not bool((outside & balance.fleet.known).any())


def _reachable(fleet: Fleet, band: Band, bounds: Bounds) -> Band:
    """A hair inside the goal: sums in another order shall not lead out of it again."""
    peak = min(bounds.least_peak * (1 + _PEAK_ROOM_RATIO), float(fleet.load[fleet.known].max()))
    high = max(band.high, peak)
    return Band(band.low + _HAIR_RATIO * abs(band.high), high - _HAIR_RATIO * abs(band.high))


def _mean(fleet: Fleet, load: np.ndarray) -> float:
    return float(load[fleet.known].mean())


def _search(fleet: Fleet, band: Band, max_moves: int | None, bounds: Bounds) -> Balance:
    """Return the best of a first try and, where that is not good enough, of blurred ones."""
    best = _try(fleet, band, max_moves, None)
    rng = np.random.default_rng(_SEED)
    tries = min(_MAX_TRIES, _BUNDLES_TO_TRY // max(fleet.rows.size, 1))
    for _ in range(tries if _may_be_reached(fleet, band, bounds) else 0):
        if is_inside(best, band) and moved_bytes(best) <= _GOOD_RATIO * (
            bounds.least_bytes_per_s or 0.0
        ):
            break
        tried = _try(fleet, band, max_moves, rng)
        if _rank(tried, band) < _rank(best, band):
            best = tried
    return best


def _may_be_reached(fleet: Fleet, band: Band, bounds: Bounds) -> bool:
    """Return whether nothing proves that the band cannot be reached."""
    floor = _mean(fleet, fleet.load) * (1 + bounds.deviation_floor)
    return bounds.least_bytes_per_s is not None and (
        fleet.measure == "usage" or floor <= band.high + band.slack
    )


def _try(
    fleet: Fleet, band: Band, max_moves: int | None, rng: np.random.Generator | None
) -> Balance:
    balance = Balance(fleet)
    Repair(balance, band, max_moves, rng).run()
    improve(balance, band)
    return balance


def _rank(balance: Balance, band: Band) -> tuple[float, float, int]:
    """What is better first: nearer to the band, less traffic, fewer moves."""
    violation = np.where(balance.fleet.known, band.violation(balance.load), 0.0)
    worst = float(violation.max())
    return worst if worst > band.slack else 0.0, moved_bytes(balance), len(balance.order)


def moved_bytes(balance: Balance) -> float:
    """Return the traffic of all moves, bytes/s."""
    return float(balance.fleet.bytes_per_s[balance.order].sum())


def _spend(fleet: Fleet, request: OptimizeRequest, found: Balance, max_moves: int) -> Balance:
    """Return the best that the budget does, over wider and wider bands."""
    best, least = found, deviation(fleet, found.load, request.relief)
    centre = _mean(fleet, fleet.load) if request.relief is None else request.relief
    low, high = 0.0, deviation(fleet, fleet.load, request.relief)
    for _ in range(_BUDGET_ROUNDS):
        middle = (low + high) / 2
        bottom = -np.inf if request.relief is not None else centre * (1 - middle)
        band = Band(bottom, centre * (1 + middle))
        tried = _try(fleet, band, max_moves, None)
        reached = deviation(fleet, tried.load, request.relief)
        if reached < least:
            best, least = tried, reached
        low, high = (low, middle) if is_inside(tried, band) else (middle, high)
    return best
