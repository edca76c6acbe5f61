"""How load follows bundles from broker to broker: the arithmetic behind every "after".

A bundle takes its own last statistics along: rates, throughput, topics, clients. Of the broker's
bandwidth in and out it takes its share of the broker's throughput in that direction. Of CPU and
direct memory, which a broker uses without any traffic too, it takes what its traffic costs by the
fleet's own figures: the median slope of usage over throughput between all pairs of brokers (which
one noisy broker does not bend), and never more than its share of the broker's throughput. These
amounts (not the percentages) are added at the destination, whose own limits then give its
percentage; the weighted maximum over the resources is the usage. Load is taken from where the
reports count it, which for a bundle that moved since the last report is not the present owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.arrays import column_values, row_of
from core.errors import InvariantError
from core.pulsar.load import WEIGHED
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = Callable[[str], Floats]
"""Returns a column by its name; NaN where unknown."""

COUNTS: Final = ("topic_count", "producer_count", "consumer_count")
AVERAGES: Final = tuple(prefix + name for prefix in ("short_", "long_") for name in RATES)
OWN: Final = (*RATES, *COUNTS, *AVERAGES)
"""What a bundle has of its own, under the same name in the brokers and in the bundles table."""

_FLOWS: Final = ("msg_throughput_in", "msg_throughput_out")
RESOURCES: Final = tuple(f"{name}_usage" for name in WEIGHED)
CARRIED: Final = (*OWN, "bundle_count", *RESOURCES)
"""Components of what moves with a bundle, in the order of the columns below."""

MAX_SLOPE_BROKERS: Final = 400
_TOLERANCE: Final = 1e-6


@dataclass(frozen=True, eq=False)
class TransferredLoad:
    """Load of each step.

    Attributes:
        amounts: Shape ``(n_steps, n_carried)`` in the order of :data:`CARRIED`; 0 where unknown.
        counted_at: Broker row whose report counts the bundle, -1: none; shape ``(n_steps,)``.
        owned_at: Broker row of the owner, -1: none.
        unknown_bundles: Bundles without statistics: they are moved as if they carried nothing.
    """

    amounts: Floats
    counted_at: Ints
    owned_at: Ints
    unknown_bundles: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class LoadChange:
    """Load changes of the touched brokers, in every scenario.

    Attributes:
        touched: Broker rows, ascending; shape ``(n_touched,)``.
        delta: Shape ``(n_scenarios, n_touched, n_carried)``.
        expected: Shape ``(n_touched, n_carried)``: the mean over all outcomes, by the steps'
            distributions: exact even for those that the scenarios only sample at the end.
        probability: Shape ``(n_scenarios,)``, sums to 1.
        arrivals: Shape ``(n_touched,)``: bundles that come, expected.
        departures: Shape ``(n_touched,)``: bundles that leave.
    """

    touched: Ints
    delta: Floats
    probability: Floats
    expected: Floats
    arrivals: Floats
    departures: Floats


def carried_by(snapshot: PulsarSnapshot, bundle_rows: Ints) -> TransferredLoad:
    """Return the load of the bundles in those rows of the bundles table."""
    brokers = snapshot.brokers
    bundles = snapshot.bundles.take(pa.array(bundle_rows, pa.int64()))
    owned_at = row_of(brokers["broker"], bundles["owner"])
    reported = row_of(brokers["broker"], bundles["reported_by"])
    counted_at = np.where(reported >= 0, reported, owned_at)
    columns = partial(column_values, bundles), partial(column_values, brokers)
    amounts = amounts_of(*columns, counted_at)
    unknown = np.isnan(column_values(bundles, "msg_throughput_in"))
    names = bundles["bundle"].to_pylist()
    missing = tuple(names[row] for row in np.flatnonzero(unknown))
    return TransferredLoad(amounts, counted_at, owned_at, missing)


def amounts_of(
    bundles: Columns,
    brokers: Columns,
    counted_at: Ints | NDArray[np.int32],
    *,
    own: Sequence[str] = OWN,
    slope: Callable[[str], float | None] | None = None,
) -> Floats:
    """Return the load of bundles; 0 where unknown.

    Args:
        bundles: Their columns.
        counted_at: Broker row whose report counts each bundle, -1: none.
        own: Columns of :data:`OWN` that are returned.
        slope: Returns the :func:`usage_per_byte` of a resource; ``None`` to compute it here.
    Returns:
        Shape ``(n_bundles, len(own) + 1 + len(WEIGHED))``: those columns, 1 for ``bundle_count``,
        the usage of each resource: by default in the order of :data:`CARRIED`.
    """
    amounts = np.zeros((counted_at.size, len(own) + 1 + len(WEIGHED)))
    for column, name in enumerate(own):
        amounts[:, column] = bundles(name)
    flow_in, flow_out = (amounts[:, own.index(name)] for name in _FLOWS)
    flow = flow_in + flow_out
    if not np.isfinite(amounts).all():
        flow = np.where(np.isfinite(flow), flow, 0.0)
        np.nan_to_num(amounts, copy=False)
    amounts[:, len(own)] = 1.0
    whole_in, whole_out = (_known(brokers(name)) for name in _FLOWS)
    share_in = _share(flow_in, _at(whole_in, counted_at))
    share_out = _share(flow_out, _at(whole_out, counted_at))
    share = _share(flow_in + flow_out, _at(whole_in + whole_out, counted_at))
    shares = {"bandwidth_in": share_in, "bandwidth_out": share_out}
    for column, resource in enumerate(WEIGHED, start=len(own) + 1):
        usage = brokers(f"{resource}_usage")
        most = shares.get(resource, share) * np.maximum(_at(_known(usage), counted_at), 0.0)
        if resource not in shares:
            per_byte = slope(resource) if slope else usage_per_byte(usage, _throughput(brokers))
            most = most if per_byte is None else np.minimum(most, per_byte * flow)
        amounts[:, column] = most
    return amounts


def shift_of(
    carried: TransferredLoad,
    ends: Ints,
    probability: Floats,
    chances: Sequence[Mapping[str, float]],
    broker_rows: Mapping[str, int],
) -> LoadChange:
    """Return the load changes of the touched brokers, in every scenario.

    Args:
        carried: What each step takes along.
        ends: Broker row of each step's bundle, -1: none; shape ``(n_scenarios, n_steps)``.
        probability: Of each scenario.
        chances: Each step's distribution over brokers.
        broker_rows: Row of each broker.
    Raises:
        InvariantError: Load appeared or was lost.
    """
    drawn_step, drawn_at, drawn_p = _drawn(chances, broker_rows)
    touched, leaving, delta = _moved(carried, ends, drawn_at)
    expected = leaving.copy()
    arrivals = np.zeros(touched.size)
    drawn = np.searchsorted(touched, drawn_at)
    np.add.at(expected, drawn, carried.amounts[drawn_step] * drawn_p[:, None])
    np.add.at(arrivals, drawn, drawn_p)
    departures = np.zeros(touched.size)
    owners = carried.owned_at[carried.owned_at >= 0]
    np.add.at(departures, np.searchsorted(touched, owners), 1.0)
    return LoadChange(
        touched=touched,
        delta=delta,
        probability=probability,
        expected=expected,
        arrivals=arrivals,
        departures=departures,
    )


def load_moved(carried: TransferredLoad, ends: Ints) -> tuple[Ints, Floats]:
    """Return the touched broker rows and their load change, ``(n_touched, n_carried)``.

    Args:
        carried: What each bundle takes along.
        ends: Broker row of each bundle, -1: none.
    Raises:
        InvariantError: Load appeared or was lost.
    """
    touched, _, delta = _moved(carried, ends[None, :], np.zeros(0, np.int64))
    return touched, delta[0]


def _moved(carried: TransferredLoad, ends: Ints, drawn_at: Ints) -> tuple[Ints, Floats, Floats]:
    """Return the touched broker rows, what leaves them and, by scenario, how their load changes."""
    rows = np.concatenate([ends.ravel(), drawn_at, carried.counted_at, carried.owned_at])
    touched = np.unique(rows[rows >= 0])
    leaving = np.zeros((touched.size, len(CARRIED)))
    count_at = CARRIED.index("bundle_count")
    loads = carried.amounts.copy()
    loads[:, count_at] = 0.0
    _leave(leaving, touched, carried.counted_at, loads)
    ones = np.zeros_like(loads)
    ones[:, count_at] = 1.0
    _leave(leaving, touched, carried.owned_at, ones)
    delta = np.repeat(leaving[None, :, :], len(ends), axis=0)
    scenario_of, step_of = np.nonzero(ends >= 0)
    columns = np.searchsorted(touched, ends[scenario_of, step_of])
    np.add.at(delta, (scenario_of, columns), carried.amounts[step_of])
    _check_conserved(carried, delta, (ends < 0).astype(np.float64) @ carried.amounts)
    return touched, leaving, delta


def usage_per_byte(usage: Floats, throughput: Floats) -> float | None:
    """Return the cost of one byte/s: the median slope over all broker pairs, at least 0.

    Args:
        usage: Shape ``(n_brokers,)``, any unit; NaN: unknown.
        throughput: Same shape, bytes/s; NaN: unknown.
    Returns:
        Usage for one byte/s; ``None`` with fewer than three different throughputs: no telling.
    Cost:
        O(n^2) up to :data:`MAX_SLOPE_BROKERS` brokers, evenly chosen by throughput beyond.
    """
    known = np.isfinite(usage) & np.isfinite(throughput)
    order = np.flatnonzero(known)[np.argsort(throughput[known], kind="stable")]
    if order.size > MAX_SLOPE_BROKERS:
        order = order[np.linspace(0, order.size - 1, MAX_SLOPE_BROKERS).astype(np.int64)]
    x, y = throughput[order], usage[order]
    if np.unique(x).size < 3:
        return None
    first, second = _pairs(x.size)
    apart = x[second] > x[first]
    slopes = (y[second] - y[first])[apart] / (x[second] - x[first])[apart]
    return max(float(np.median(slopes)), 0.0)


@lru_cache(maxsize=8)
def _pairs(count: int) -> tuple[Ints, Ints]:
    """Return the positions of all pairs of so many, which are long to number."""
    pairs = np.triu_indices(count, k=1)
    for part in pairs:
        part.setflags(write=False)
    return pairs


def _throughput(columns: Columns) -> Floats:
    return columns(_FLOWS[0]) + columns(_FLOWS[1])


def _share(own: Floats, whole: Floats) -> Floats:
    """Return the share of a broker's resource that each bundle is taken to use, 0..1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(whole > 0, own / whole, 0.0)
    return np.clip(share, 0.0, 1.0)


def _known(values: Floats) -> Floats:
    """Return numbers with 0 for NaN: ``nan_to_num`` takes several times as long."""
    return values if np.isfinite(values).all() else np.nan_to_num(values)


def _at(values: Floats, rows: Ints | NDArray[np.int32]) -> Floats:
    """Values at rows, 0 for row -1."""
    if not values.size:
        return np.zeros(rows.shape)
    return np.where(rows >= 0, values[np.maximum(rows, 0)], 0.0)


def _drawn(
    chances: Sequence[Mapping[str, float]], index: Mapping[str, int]
) -> tuple[Ints, Ints, Floats]:
    """Step, broker row and probability of everything that the steps may come to."""
    triples = [
        (step, index[name], p) for step, chance in enumerate(chances) for name, p in chance.items()
    ]
    whole = np.array(triples, np.float64).reshape(-1, 3)
    return whole[:, 0].astype(np.int64), whole[:, 1].astype(np.int64), whole[:, 2]


def _leave(leaving: Floats, touched: Ints, rows: Ints, amounts: Floats) -> None:
    """Take ``amounts`` of each step from its broker row."""
    here = rows >= 0
    np.subtract.at(leaving, np.searchsorted(touched, rows[here]), amounts[here])


def _check_conserved(carried: TransferredLoad, delta: Floats, unassigned: Floats) -> None:
    """Check that all load that left arrived or is unplaced, per scenario and component."""
    count_at = CARRIED.index("bundle_count")
    from_brokers = np.where(carried.counted_at[:, None] >= 0, carried.amounts, 0.0)
    from_brokers[:, count_at] = carried.owned_at >= 0
    appeared = carried.amounts.sum(axis=0) - from_brokers.sum(axis=0)
    balance = delta.sum(axis=1) + unassigned - appeared
    scale = np.maximum(np.abs(carried.amounts).sum(axis=0), 1.0)
    if np.any(np.abs(balance) > _TOLERANCE * scale):
        worst = int(np.argmax(np.max(np.abs(balance) / scale, axis=0)))
        raise InvariantError(
            f"The projection does not conserve {CARRIED[worst]}: "
            f"off by {float(np.abs(balance[:, worst]).max()):g}.",
            component=CARRIED[worst],
        )
