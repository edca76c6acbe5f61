"""What no plan can undercut: the least traffic that has to move, and the least deviation.

*Sum*: what stands above the band has to leave, what is missing below it has to come; one bundle
does both, so the larger of the two sums counts. A broker that has to give gives a whole bundle.
*Linear programme*: the same with bundles that can be cut at will, but with every broker's allowed
destinations: no plan of whole bundles can be better. It may also prove that there is no plan.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from core.optimize.balance import Band
from core.optimize.fleet import Fleet
from core.pulsar.ranges import Ints
from core.pulsar.view import Flags, Floats

_MAX_VARIABLES: Final = 150_000


def least_bytes(fleet: Fleet, band: Band) -> float | None:
    """Return the traffic that has to move at least, bytes/s; ``None``: no plan can do it.

    Args:
        fleet: As it is.
        band: Where every broker has to be. For usage the mean may shift a little while bundles
            move; the bound is that of the band given.
    """
    if fleet.measure == "usage":
        return _usage_bytes(fleet, band)
    by_sum = _sum_bytes(fleet, band)
    by_programme = _programme_bytes(fleet, band)
    return None if by_programme is None else max(by_sum, by_programme)


def deviation_floor(fleet: Fleet, mean: float) -> float:
    """Return the deviation that no plan comes below, share of the mean.

    What cannot leave a broker stays there, and the largest bundle has to be somewhere.
    """
    if mean <= 0 or not fleet.known.any():
        return 0.0
    if fleet.measure == "usage":
        return 0.0
    moving = np.bincount(fleet.owner, weights=fleet.bytes_per_s, minlength=len(fleet.view.brokers))
    stays = np.where(fleet.known, fleet.load - moving, 0.0).max()
    largest = float(fleet.bytes_per_s.max(initial=0.0))
    return max((max(float(stays), largest) - mean) / mean, 0.0)


def _sum_bytes(fleet: Fleet, band: Band) -> float:
    over, under = _needs(fleet, band)
    smallest = np.full(over.size, 0.0)
    for broker in np.flatnonzero(over > 0).tolist():
        smallest[broker] = fleet.bytes_per_s[fleet.bundles_of(broker)].min(initial=np.inf)
    smallest = np.where(np.isfinite(smallest), smallest, 0.0)
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


def _programme_bytes(fleet: Fleet, band: Band) -> float | None:
    """Solve the transport of kinds of bundles; 0 where the sum says all there is to say."""
    over, under = _needs(fleet, band)
    is_free = bool(fleet.where.allowed[np.unique(fleet.kind)][:, fleet.known].all())
    if not (over.any() or under.any()):
        return 0.0
    kinds, numbers = np.unique(fleet.kind, return_inverse=True)
    size = kinds.size * over.size
    mass: Floats = (
        np.bincount(
            numbers.reshape(-1) * over.size + fleet.owner,
            weights=fleet.bytes_per_s,
            minlength=size,
        )
        .astype(np.float64)
        .reshape(kinds.size, over.size)
    )
    if is_free and (mass.sum(axis=0) >= over).all():
        return 0.0  # who has enough may give to anybody: the sums are the answer
    if 2 * size > _MAX_VARIABLES:
        return 0.0
    return _solve(fleet, band, mass, fleet.where.allowed[kinds])


def _solve(fleet: Fleet, band: Band, mass: Floats, allowed: Flags) -> float | None:
    """Least total outflow: ``out[k, b] <= mass``, ``into[k, b]`` where allowed, equal per kind."""
    from scipy.optimize import linprog  # noqa: PLC0415 - most fleets need no programme
    from scipy.sparse import csr_matrix, vstack  # noqa: PLC0415 - see above

    known = np.flatnonzero(fleet.known)
    mass, allowed = mass[:, known], allowed[:, known]
    unit = max(abs(band.high), 1.0)
    out_k, out_b = np.nonzero(mass > 0)
    in_k, in_b = np.nonzero(allowed & (mass.sum(axis=1) > 0)[:, None])
    n_out, n_in = out_k.size, in_k.size
    columns = np.arange(n_out + n_in)
    sign = np.repeat([1.0, -1.0], [n_out, n_in])
    balance = csr_matrix((sign, (np.append(out_k, in_k), columns)), (mass.shape[0], columns.size))
    net = csr_matrix((-sign, (np.append(out_b, in_b), columns)), (known.size, columns.size))
    load = fleet.load[known] / unit
    rows, limits = [net], [band.high / unit - load]
    if np.isfinite(band.low):
        rows.append(-net)
        limits.append(load - band.low / unit)

    found = linprog(
        np.repeat([1.0, 0.0], [n_out, n_in]),
        A_ub=vstack(rows).tocsr(),
        b_ub=np.concatenate(limits) + 1e-12,
        A_eq=balance,
        b_eq=np.zeros(mass.shape[0]),
        bounds=np.column_stack(
            [np.zeros(columns.size), np.append(mass[out_k, out_b] / unit, np.full(n_in, np.inf))]
        ),
        method="highs",
    )
    if found.status == 2:
        return None
    return float(found.fun) * unit if found.status == 0 else 0.0


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
