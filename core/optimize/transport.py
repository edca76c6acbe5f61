"""The linear programme behind the bounds: bundles of one kind as a liquid that flows to brokers.

What a whole-bundle plan can do, cut bundles can do as well; so what the liquid needs at least, or
cannot do at all, holds for every plan. Variables are the outflow of each kind from each broker and
its inflow at each broker that may take it; HiGHS solves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from core.optimize.balance import Band
from core.optimize.fleet import Fleet
from core.pulsar.view import Flags, Floats

MAX_VARIABLES: Final = 150_000
"""Larger programmes are left out; the sums are a bound as well."""

_TOLERANCE: Final = 1e-9


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
    def of(cls, fleet: Fleet) -> Transport:
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
        """Whether it is worth solving."""
        return self.mass.size > 0 and 2 * self.mass.size <= MAX_VARIABLES

    def is_free(self, over: Floats) -> bool:
        """Return whether everybody may take everything and has enough to give: sums say it all.

        Args:
            over: ``(n_known,)``: what each broker has to give, bytes/s.
        """
        has_enough = self.mass.sum(axis=0) >= over / self.unit
        return bool(self.allowed.all() and has_enough.all())

    def least_flow(self, band: Band) -> float | None:
        """Return the least traffic that has to move, bytes/s; ``None``: nothing does it."""
        rows, limits = [self._net], [band.high / self.unit - self.load]
        if np.isfinite(band.low):
            rows.append(-self._net)
            limits.append(self.load - band.low / self.unit)
        found = self._solve(self._outflow, rows, np.concatenate(limits), extra=0)
        if found is not None and found.status == 2:
            return None
        return float(found.fun) * self.unit if found is not None and found.status == 0 else 0.0

    def least_peak(self) -> float | None:
        """Return the lowest load that the busiest broker can come down to, bytes/s."""
        found = self._minimise_edge([self._net], [-self.load])
        return None if found is None else found * self.unit

    def least_deviation(self) -> float | None:
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
        """What each broker has more than before."""
        _, left, _, right = self._flows
        return self._matrix(-self._sign, np.append(left, right), self.load.size)

    def _matrix(self, values: Floats, rows: Any, height: int) -> Any:
        from scipy.sparse import csr_matrix  # noqa: PLC0415 - most fleets need no programme

        return csr_matrix((values, (rows, np.arange(values.size))), (height, values.size))
