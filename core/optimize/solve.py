"""From a laid-out fleet to the moves: which band to aim at, and the search for it.

*Repair* is greedy: the broker with the max deviation outside the band comes first. A broker above
it gives bundles to the coolest brokers that may have them, one below it takes from the hottest.
Large bundles go first, and the last one is the one that fits best: few moves, little more traffic
than has to move. Where no single bundle fits, two brokers exchange bundles, and those that came
from elsewhere may be sent on; where that does not help either, any move that brings the worse of
two brokers nearer is taken.

*Improvement* is local: moves are reverted, or replaced by smaller ones. Every change leaves both
brokers of the move as they should be, so the goal stays reached; where it was not reached, no
broker gets farther from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.errors import InvariantError
from core.optimize.balance import Balance, Band
from core.optimize.bounds import Bounds, find_bounds
from core.optimize.curve import deviation
from core.optimize.fleet import FleetColumns
from core.optimize.request import OptimizeRequest
from core.pulsar.bundle_counts import Ints
from core.pulsar.view import Flags, Floats

_MEAN_ROUNDS: Final = 4
"""The mean usage shifts while bundles move (brokers differ in limits); then the band is redone."""

_BUDGET_ROUNDS: Final = 6
"""Halvings of the search for the tightest band that a budget of moves reaches."""

_AMPLE_TIMES: Final = 2
_AMPLE: Final = 50
"""So many moves are tried before some are found needless, times the budget and more."""

_PEAK_ROOM_RATIO: Final = 0.005
"""Whole bundles need a little more room than the liquid of the linear programme."""

_SEED: Final = 1
_HAIR_RATIO: Final = 1e-8

_MAX_TRIES: Final = 12
_BUNDLES_TO_TRY: Final = 12_000
"""Small fleets are hard (few bundles have to fit) and quick: so many are worth another try."""

_GOOD_RATIO: Final = 1.02
"""Nothing is tried again that moves this little more than the least."""

_WORTH_RATIO: Final = 0.99
"""A smaller bundle has to be smaller by one in a hundred to be worth the exchange."""

_FINISH_RATIO: Final = 0.1
"""The last bundle may be larger than needed by this share of what was needed at first."""

_COARSE_FINISH_RATIO: Final = 0.15
"""And by this share where smaller bundles would take more than :data:`_SMALL_RATIO` steps."""

_SMALL_RATIO: Final = 0.25
_GENTLE_RATIO: Final = 0.9
"""Among bundles of nearly the same size the one that disturbs least is taken."""

_MAX_EXCHANGES: Final = 20
"""And one more a broker: exchanges may go round in circles, single moves cannot."""

_BLUR: Final = (0.85, 1.15)
_PORTIONS: Final = (4, 32, 128)
_PARTNERS: Final = 24
_BUNDLES: Final = 160
_PROGRESS_RATIO: Final = 0.9
"""A move that does not repair a broker has to bring it nearer by a tenth at least."""


@dataclass(frozen=True, slots=True)
class SolverOutcome:
    """The fleet after the moves; ``band`` is the goal, and ``bounds`` are the goal's.

    ``is_spent``: the goal takes more moves than the budget has.
    """

    balance: Balance
    band: Band
    bounds: Bounds
    is_spent: bool = False


def solve(fleet: FleetColumns, request: OptimizeRequest) -> SolverOutcome:
    """Find the moves.

    Where it is proven that the busiest broker cannot come into the band, the lowest peak that it
    can come to is aimed at instead. A budget that does not suffice is spent on the tightest band
    that it reaches; one that suffices changes nothing.
    """
    mean = _mean(fleet, fleet.load)
    band = goal_band(mean, request)
    bounds = find_bounds(fleet, band)
    balance = Balance(fleet)
    if is_inside(balance, band):
        return SolverOutcome(balance, band, bounds)
    aim = _reachable(fleet, band, bounds)
    budget = request.max_moves
    # far enough that a plan within the budget is the one that there is without any
    enough = None if budget is None else _AMPLE_TIMES * budget + _AMPLE
    balance = _search(fleet, aim, enough, bounds)
    for _ in range(_MEAN_ROUNDS if fleet.measure == "usage" and request.relief is None else 0):
        band = goal_band(_mean(fleet, balance.load), request)
        if balance.is_cut or is_inside(balance, band):
            break
        bounds = find_bounds(fleet, band)
        aim = _reachable(fleet, band, bounds)
        balance = _search(fleet, aim, enough, bounds)
    if budget is None or (len(balance.order) <= budget and not balance.is_cut):
        return SolverOutcome(balance, band, bounds)
    balance = _search(fleet, aim, budget, bounds)
    if not is_inside(balance, band):
        balance = _spend(fleet, request, balance, budget)
        # the widest band that it helped to aim at leaves brokers outside the goal as they are
        Repair(balance, aim, budget).run()
    return SolverOutcome(balance, band, bounds, is_spent=True)


def goal_band(mean: float, request: OptimizeRequest) -> Band:
    """Return the requested band."""
    if request.relief is not None:
        return Band(-np.inf, request.relief)
    if request.within is None:
        raise InvariantError("The target of the cluster is not set.")
    return Band(mean * (1 - request.within), mean * (1 + request.within))


def is_inside(balance: Balance, band: Band) -> bool:
    """Return whether every broker of known load is in the band."""
    outside = band.violation(balance.load) > band.slack
    return not bool((outside & balance.fleet.known).any())


def _reachable(fleet: FleetColumns, band: Band, bounds: Bounds) -> Band:
    """A hair inside the goal: sums in another order shall not lead out of it again."""
    peak = min(bounds.min_peak * (1 + _PEAK_ROOM_RATIO), float(fleet.load[fleet.known].max()))
    high = max(band.high, peak)
    return Band(band.low + _HAIR_RATIO * abs(band.high), high - _HAIR_RATIO * abs(band.high))


def _mean(fleet: FleetColumns, load: np.ndarray) -> float:
    return float(load[fleet.known].mean())


def _search(fleet: FleetColumns, band: Band, max_moves: int | None, bounds: Bounds) -> Balance:
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


def _may_be_reached(fleet: FleetColumns, band: Band, bounds: Bounds) -> bool:
    """Return whether the band is not proven unreachable."""
    floor = _mean(fleet, fleet.load) * (1 + bounds.deviation_floor)
    return bounds.least_bytes_per_s is not None and (
        fleet.measure == "usage" or floor <= band.high + band.slack
    )


def _try(
    fleet: FleetColumns, band: Band, max_moves: int | None, rng: np.random.Generator | None
) -> Balance:
    balance = Balance(fleet)
    Repair(balance, band, max_moves, rng).run()
    improve(balance, band)
    return balance


def _rank(balance: Balance, band: Band) -> tuple[float, float, int]:
    """Sort key: closer to the band, less traffic, fewer moves."""
    violation = np.where(balance.fleet.known, band.violation(balance.load), 0.0)
    worst = float(violation.max())
    return worst if worst > band.slack else 0.0, moved_bytes(balance), len(balance.order)


def moved_bytes(balance: Balance) -> float:
    """Return the traffic of all moves, bytes/s."""
    return float(balance.fleet.bytes_per_s[balance.order].sum())


def _spend(
    fleet: FleetColumns, request: OptimizeRequest, found: Balance, max_moves: int
) -> Balance:
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


class Repair:
    """Moves bundles until every broker is inside the band, or nothing helps any more.

    With ``rng`` sizes and loads are blurred a little, so that it finds other plans.
    """

    def __init__(
        self,
        balance: Balance,
        band: Band,
        max_moves: int | None,
        rng: np.random.Generator | None = None,
    ) -> None:
        fleet = balance.fleet
        self._balance = balance
        self._fleet = fleet
        self._band = band
        self._rng = rng
        self._exchanges_left = _MAX_EXCHANGES + len(fleet.view.brokers)
        self._budget = fleet.rows.size if max_moves is None else max_moves
        self._first_need = np.maximum(band.violation(balance.load), 0.0)
        self._kinds_at = np.zeros((len(fleet.view.brokers), len(fleet.where.allowed)), np.bool_)
        self._kinds_at[fleet.owner, fleet.kind] = True

    def run(self) -> None:
        """Repair one broker after the other, the worst first."""
        self._run(self._move_one)
        self._run(lambda broker: self._move_one(broker) or self._swap(broker))
        self._run(lambda broker: self._move_one(broker) or self._swap(broker) or self._ease(broker))
        self._balance.is_cut |= self._left() <= 0

    def _run(self, repair: Callable[[int], bool]) -> None:
        stuck = ~self._fleet.known
        while self._left() > 0 and self._exchanges_left > 0 and not stuck.all():
            violation = np.where(stuck, -np.inf, self._band.violation(self._balance.load))
            broker = int(violation.argmax())
            if violation[broker] <= self._band.slack:
                return
            stuck[broker] = not repair(broker)

    def _left(self) -> int:
        return self._budget - len(self._balance.order)

    def _move_one(self, broker: int) -> bool:
        is_over = self._balance.load[broker] > self._band.high
        return self._relieve(broker) if is_over else self._feed(broker)

    def _relieve(self, source: int) -> bool:
        """Give one bundle to the coolest broker that may have one."""
        balance, band = self._balance, self._band
        bundles = balance.staying(source)
        left = balance.load_without(source, bundles)
        gain = balance.load[source] - left
        useful = (gain > band.slack) & (left >= band.low - band.slack)
        bundles, gain = bundles[useful], gain[useful]
        if not bundles.size:
            return False
        need = float(balance.load[source] - band.high)
        for partners in _in_portions(self._coolest(source)):
            column = partners[:, None]
            fits = balance.may_take(column, bundles)
            fits &= balance.load_with(column, bundles) <= band.high + band.slack
            some = fits.any(axis=1)
            if some.any():
                at = int(some.argmax())
                chosen = fits[at]
                self._move_best(source, bundles[chosen], gain[chosen], need, int(partners[at]))
                return True
        return False

    def _feed(self, destination: int) -> bool:
        """Take one bundle from the hottest broker that has a fitting one."""
        balance, band = self._balance, self._band
        need = float(band.low - balance.load[destination])
        for partners in _in_portions(self._hottest(destination)):
            bundles = np.concatenate([balance.staying(partner) for partner in partners.tolist()])
            owners = balance.fleet.owner[bundles]
            filled = balance.load_with(destination, bundles)
            gain = filled - balance.load[destination]
            fits = (gain > band.slack) & (filled <= band.high + band.slack)
            fits &= balance.load_without(owners, bundles) >= band.low - band.slack
            fits &= balance.may_take(destination, bundles)
            if fits.any():
                chosen = fits & (owners == owners[fits.argmax()])
                self._move_best(destination, bundles[chosen], gain[chosen], need, destination)
                return True
        return False

    def _move_best(
        self, broker: int, bundles: Ints, gain: Floats, need: float, destination: int
    ) -> None:
        first = max(float(self._first_need[broker]), need)
        seen = gain if self._rng is None else gain * self._rng.uniform(*_BLUR, gain.size)
        best = best_fit(seen, need, first, self._fleet.points[bundles])
        self._balance.move(int(bundles[best]), destination)

    def _coolest(self, source: int) -> Ints:
        """Brokers that may take something of the source's, the coolest first."""
        open_to = self._kinds_at[source] @ self._fleet.where.allowed
        partners = np.flatnonzero(open_to & (self._balance.load < self._band.high))
        partners = partners[partners != source]
        return self._by(partners, self._balance.load[partners])

    def _hottest(self, destination: int) -> Ints:
        """Brokers that have something the destination may take, the hottest first."""
        having = self._kinds_at @ self._fleet.where.allowed[:, destination]
        partners = np.flatnonzero(having & (self._balance.load > self._band.low))
        partners = partners[partners != destination]
        return self._by(partners, -self._balance.load[partners])

    def _partners(self, broker: int) -> Ints:
        """Return the partners of a broker outside the band, at the other end."""
        is_over = self._balance.load[broker] > self._band.high
        others = np.flatnonzero(self._fleet.known)
        others = others[others != broker]
        key = self._balance.load[others] if is_over else -self._balance.load[others]
        return self._by(others, key)[:_PARTNERS]

    def _by(self, brokers: Ints, key: Floats) -> Ints:
        if self._rng is not None:
            key = key * self._rng.uniform(*_BLUR, key.size)
        return np.asarray(brokers[np.argsort(key, kind="stable")], np.int64)

    def _swap(self, broker: int) -> bool:
        """Exchange two bundles so that the broker comes inside, or nearer, at least traffic."""
        if self._left() < 2:
            return False
        best: tuple[float, float, int, int, int] | None = None
        mine = _sample(self._balance.present(broker))
        for partner in self._partners(broker).tolist():
            theirs = _sample(self._balance.present(partner))
            found = self._best_swap(broker, partner, mine, theirs)
            if found is not None and (best is None or found < best[:2]):
                at = self._swap_at
                best = (*found, partner, int(mine[at[0]]), int(theirs[at[1]]))
        if best is None:
            return False
        self._balance.relocate(best[3], best[2])
        self._balance.relocate(best[4], broker)
        self._exchanges_left -= 1
        return True

    def _best_swap(
        self, broker: int, partner: int, mine: Ints, theirs: Ints
    ) -> tuple[float, float] | None:
        """Return (violation left, bytes moved) of the best exchange; remembers which it is."""
        if not mine.size or not theirs.size:
            return None
        balance, band, fleet = self._balance, self._band, self._fleet
        both = fleet.amount[theirs][None, :, :] - fleet.amount[mine][:, None, :]
        here = (balance.used[broker] + both * fleet.scale[broker]).max(axis=-1)
        there = (balance.used[partner] - both * fleet.scale[partner]).max(axis=-1)
        now = float(band.violation(balance.load[[broker]])[0])
        partner_now = max(float(band.violation(balance.load[[partner]])[0]), band.slack)
        left = np.maximum(band.violation(here), 0.0)
        fits = (left <= _PROGRESS_RATIO * now) & (band.violation(there) <= partner_now)
        fits &= balance.may_come(partner, mine)[:, None]
        fits &= balance.may_come(broker, theirs)[None, :]
        if not fits.any():
            return None
        left = np.where(left <= band.slack, 0.0, left)
        cost = balance.added_bytes(mine, partner)[:, None]
        cost = cost + balance.added_bytes(theirs, broker)[None, :]
        least = float(left[fits].min())
        cost = np.where(fits & (left <= least), cost, np.inf)
        self._swap_at = np.unravel_index(int(cost.argmin()), cost.shape)
        return least, float(cost.min())

    def _ease(self, broker: int) -> bool:
        """Move one bundle so that the worse of two brokers is nearer to the band than before."""
        balance, band = self._balance, self._band
        is_over = balance.load[broker] > band.high
        best: tuple[float, int, int] | None = None
        now = float(band.violation(balance.load[[broker]])[0])
        for partner in self._partners(broker).tolist():
            source, destination = (broker, partner) if is_over else (partner, broker)
            bundles = balance.present(source)
            bundles = bundles[balance.may_come(destination, bundles)]
            if not bundles.size:
                continue
            left = np.maximum(
                band.violation(balance.load_without(source, bundles)),
                band.violation(balance.load_with(destination, bundles)),
            )
            at = int(left.argmin())
            if left[at] <= _PROGRESS_RATIO * now and (best is None or left[at] < best[0]):
                best = (float(left[at]), int(bundles[at]), destination)
        if best is None:
            return False
        balance.relocate(best[1], best[2])
        self._exchanges_left -= 1
        return True


def best_fit(gain: Floats, need: float, first_need: float, points: Floats) -> int:
    """Return the position of the bundle to move next.

    The one that ends the need with little to spare; else the largest below the need; and among
    bundles of nearly that size the one with the least disruption.

    Args:
        gain: What each bundle brings, above 0; not empty.
        need: What is still needed, same unit.
        first_need: What was needed before anything moved.
        points: Disruption of each.
    Example:
        >>> best_fit(np.array([9.0, 5.0, 4.1, 1.0]), 4.0, 4.0, np.zeros(4))
        2
    """
    ends = gain >= need
    close = ends & (gain <= need + _FINISH_RATIO * first_need)
    if close.any():
        return _gentlest(close, points)
    largest = float(np.where(ends, 0.0, gain).max())
    smallest = float(np.where(ends, gain, np.inf).min())
    is_near = smallest - need <= _COARSE_FINISH_RATIO * first_need
    if largest <= 0 or (largest < _SMALL_RATIO * need and is_near):
        return int(np.where(ends, gain, np.inf).argmin())
    similar: Flags = ~ends & (gain >= _GENTLE_RATIO * largest)
    return _gentlest(similar, points / gain)


def _in_portions(partners: Ints) -> Iterator[Ints]:
    """Cut the partners into growing portions: the first ones will do most of the time."""
    start = 0
    for size in itertools.chain(_PORTIONS, itertools.repeat(_PORTIONS[-1])):
        if start >= partners.size:
            return
        yield partners[start : start + size]
        start += size


def _gentlest(among: Flags, points: Floats) -> int:
    return int(np.where(among, points, np.inf).argmin())


def _sample(bundles: Ints) -> Ints:
    """At most :data:`_BUNDLES` of them, evenly from large to small."""
    if bundles.size <= _BUNDLES:
        return bundles
    return bundles[np.linspace(0, bundles.size - 1, _BUNDLES).astype(np.int64)]


def improve(balance: Balance, band: Band) -> None:
    """Revert needless moves, largest first; then move less where less is enough."""
    _revert_needless(balance, band)
    _move_less(balance, band)
    _revert_needless(balance, band)


def _largest_first(balance: Balance) -> list[int]:
    return sorted(balance.order, key=lambda bundle: -balance.fleet.bytes_per_s[bundle])


def _revert_needless(balance: Balance, band: Band) -> None:
    for bundle in _largest_first(balance):
        source = int(balance.fleet.owner[bundle])
        destination = int(balance.destination[bundle])
        one = np.array([bundle])
        if (
            balance.load_with(source, one)[0] <= band.high + band.slack
            and balance.load_without(destination, one)[0] >= band.low - band.slack
        ):
            balance.undo(bundle)


def _move_less(balance: Balance, band: Band) -> None:
    """Replace each moved bundle by the smallest of its broker's that does as well."""
    for bundle in _largest_first(balance):
        source = int(balance.fleet.owner[bundle])
        destination = int(balance.destination[bundle])
        bounds = [
            max(band.slack, float(value))
            for value in band.violation(balance.load[[source, destination]])
        ]
        at, chosen = balance.undo(bundle), bundle
        others = balance.staying(source)
        smaller = (
            balance.fleet.bytes_per_s[others] < _WORTH_RATIO * balance.fleet.bytes_per_s[bundle]
        )
        others = others[smaller]
        fits = balance.may_take(destination, others)
        fits &= band.violation(balance.load_without(source, others)) <= bounds[0]
        fits &= band.violation(balance.load_with(destination, others)) <= bounds[1]
        others = others[fits]
        if others.size:
            chosen = int(others[balance.fleet.bytes_per_s[others].argmin()])
        balance.move(chosen, destination, at=at)
