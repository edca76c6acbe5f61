"""What no plan can undercut: the traffic that has to move, and the deviation that remains.

*Sum*: load above the band has to leave, load missing below it has to come; one bundle does both,
so the larger of the two sums counts. A broker that has to give gives a whole bundle.

*Linear programme*: the same with bundles of one kind as a liquid that flows to brokers, but only
to allowed destinations. What a whole-bundle plan can do, cut bundles can do as well; so what the
liquid needs at least, or cannot do at all, holds for every plan. Variables are the outflow of each
kind from each broker and its inflow at each broker that may take it. HiGHS solves it, and nothing
else here calls a solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from core.optimize.balance import Band
from core.optimize.fleet import FleetColumns
from core.pulsar.bundle_counts import Ints
from core.pulsar.view import Flags, Floats

MAX_VARIABLES: Final = 150_000
"""Larger programmes are skipped; the sums are a bound as well."""

_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of every plan.

    Attributes:
        least_bytes_per_s: Has to move at least; ``None`` if nothing reaches the band.
        min_peak: Load that the busiest broker cannot come below, measure's unit; 0: unknown.
        deviation_floor: Deviation that cannot be undercut, share of the mean.
    """

    least_bytes_per_s: float | None
    min_peak: float = 0.0
    deviation_floor: float = 0.0


def find_bounds(fleet: FleetColumns, band: Band) -> Bounds:
    """Return the bounds of the current fleet.

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
    least = flow.min_flow(band)
    if least is not None:
        return Bounds(max(by_sum, least), deviation_floor=floor)
    return Bounds(
        None,
        min_peak=flow.min_peak() or 0.0,
        deviation_floor=max(floor, flow.min_deviation() or 0.0),
    )


def _floor(fleet: FleetColumns, mean: float) -> float:
    """Return the load floor: immovable load stays, and the largest bundle must be somewhere."""
    if mean <= 0:
        return 0.0
    moving = np.bincount(fleet.owner, weights=fleet.bytes_per_s, minlength=fleet.load.size)
    stays = float(np.where(fleet.known, fleet.load - moving, 0.0).max())
    largest = float(fleet.bytes_per_s.max(initial=0.0))
    return max((max(stays, largest) - mean) / mean, 0.0)


def _sum_bytes(fleet: FleetColumns, over: Floats, under: Floats) -> float:
    smallest = np.zeros(over.size)
    for broker in np.flatnonzero(over > 0).tolist():
        # sorted by owner, largest first
        bundles = fleet.bundles_of(broker)
        smallest[broker] = fleet.bytes_per_s[bundles[-1]] if bundles.size else 0.0
    least = float(fleet.bytes_per_s.min(initial=np.inf)) if fleet.rows.size else 0.0
    out = np.where(over > 0, np.maximum(over, smallest), 0.0).sum()
    into = np.where(under > 0, np.maximum(under, least), 0.0).sum()
    return float(max(out, into))


def _needs(fleet: FleetColumns, band: Band) -> tuple[Floats, Floats]:
    """Return the surplus and need of each broker, without rounding errors."""
    over = np.where(fleet.known, fleet.load - band.high, 0.0)
    under = np.where(fleet.known, band.low - fleet.load, 0.0)
    return (
        np.where(over > band.slack, over, 0.0),
        np.where(under > band.slack, under, 0.0),
    )


def _usage_bytes(fleet: FleetColumns, band: Band) -> float:
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


@dataclass(frozen=True, eq=False)
class Transport:
    """One fleet as a transport problem, in units of the mean load.

    Attributes:
        load: ``(n_known,)``.
        mass: ``(n_kinds, n_known)``: what may move, by where it is.
        allowed: Same shape: where it may go.
        unit: bytes/s of one unit.
    """

    load: Floats
    mass: Floats
    allowed: Flags
    unit: float

    @classmethod
    def of(cls, fleet: FleetColumns) -> Transport:
        """Sum a fleet's bundles up by kind and broker; throughput only."""
        kinds, numbers = np.unique(fleet.kind, return_inverse=True)
        size = len(fleet.view.brokers)
        mass = np.bincount(
            numbers.reshape(-1) * size + fleet.owner,
            weights=fleet.bytes_per_s,
            minlength=kinds.size * size,
        ).astype(np.float64)
        known = fleet.known
        unit = max(float(fleet.load[known].mean()), 1e-300)
        return cls(
            load=fleet.load[known] / unit,
            mass=mass.reshape(kinds.size, size)[:, known] / unit,
            allowed=fleet.where.allowed[kinds][:, known],
            unit=unit,
        )

    @property
    def is_small(self) -> bool:
        """Whether it is small enough to solve."""
        return self.mass.size > 0 and 2 * self.mass.size <= MAX_VARIABLES

    def is_free(self, over: Floats) -> bool:
        """Return whether all moves are eligible and sufficient, so that sums decide.

        Args:
            over: ``(n_known,)``: what each broker has to give, bytes/s.
        """
        has_enough = self.mass.sum(axis=0) >= over / self.unit
        return bool(self.allowed.all() and has_enough.all())

    def min_flow(self, band: Band) -> float | None:
        """Return the least traffic that has to move, bytes/s; ``None`` if nothing does it."""
        rows, limits = [self._net], [band.high / self.unit - self.load]
        if np.isfinite(band.low):
            rows.append(-self._net)
            limits.append(self.load - band.low / self.unit)
        found = self._solve(self._outflow, rows, np.concatenate(limits), extra=0)
        if found is not None and found.status == 2:
            return None
        return float(found.fun) * self.unit if found is not None and found.status == 0 else 0.0

    def min_peak(self) -> float | None:
        """Return the lowest load that the busiest broker can come down to, bytes/s."""
        found = self._minimise_edge([self._net], [-self.load])
        return None if found is None else found * self.unit

    def min_deviation(self) -> float | None:
        """Return the least ``max |load - mean| / mean`` that can be reached."""
        return self._minimise_edge([self._net, -self._net], [1.0 - self.load, self.load - 1.0])

    def _minimise_edge(self, rows: list[Any], limits: list[Floats]) -> float | None:
        """Minimise one more variable that every row may exceed its limit by."""
        from scipy.sparse import csr_matrix, hstack  # noqa: PLC0415 - most fleets need no programme

        edge = csr_matrix(-np.ones((self.load.size, 1)))
        wide = [hstack([row, edge]) for row in rows]
        cost = np.append(np.zeros(self._outflow.size), 1.0)
        found = self._solve(cost, wide, np.concatenate(limits), extra=1)
        return float(found.fun) if found is not None and found.status == 0 else None

    def _solve(self, cost: Floats, rows: list[Any], limits: Floats, *, extra: int) -> Any:
        from scipy.optimize import linprog  # noqa: PLC0415 - most fleets need no programme
        from scipy.sparse import csr_matrix, hstack, vstack  # noqa: PLC0415 - see above

        even = self._even
        if extra:
            even = hstack([even, csr_matrix((even.shape[0], extra))])
        upper = np.append(self._most, np.full(extra, np.inf))
        return linprog(
            cost,
            A_ub=vstack(rows).tocsr(),
            b_ub=limits + _TOLERANCE,
            A_eq=even.tocsr(),
            b_eq=np.zeros(even.shape[0]),
            bounds=np.column_stack([np.zeros(upper.size), upper]),
            method="highs",
        )

    @cached_property
    def _flows(self) -> tuple[Any, Any, Any, Any]:
        """Kind and broker of every outflow and of every inflow."""
        moving = self.mass.sum(axis=1, keepdims=True) > 0
        left, right = np.nonzero(self.mass > 0), np.nonzero(self.allowed & moving)
        return left[0], left[1], right[0], right[1]

    @cached_property
    def _sign(self) -> Floats:
        out, _, into, _ = self._flows
        return np.repeat([1.0, -1.0], [out.size, into.size])

    @cached_property
    def _outflow(self) -> Floats:
        return np.maximum(self._sign, 0.0)

    @cached_property
    def _most(self) -> Floats:
        out, at, into, _ = self._flows
        return np.append(self.mass[out, at], np.full(into.size, np.inf))

    @cached_property
    def _even(self) -> Any:
        """Of each kind as much arrives as leaves."""
        out, _, into, _ = self._flows
        return self._matrix(self._sign, np.append(out, into), self.mass.shape[0])

    @cached_property
    def _net(self) -> Any:
        """Return the change of each broker's load."""
        _, left, _, right = self._flows
        return self._matrix(-self._sign, np.append(left, right), self.load.size)

    def _matrix(self, values: Floats, rows: Any, height: int) -> Any:
        from scipy.sparse import csr_matrix  # noqa: PLC0415 - most fleets need no programme

        return csr_matrix((values, (rows, np.arange(values.size))), (height, values.size))
