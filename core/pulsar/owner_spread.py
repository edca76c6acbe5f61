"""Namespaces whose bundles sit on few brokers: how many serve each, and how many chance would use.

A namespace is as unavailable as its busiest broker, and as slow. With b bundles placed at random
among m brokers that may serve it, ``m * (1 - (1 - 1/m)**b)`` of them get at least one (the
occupancy of b balls in m bins); two standard deviations below that is no chance any more. Few is
that, and a quarter fewer than expected: a broker that joined just now is no finding.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from core.pulsar.bundle_counts import Ints
from core.pulsar.view import Flags, Floats, LoadView
from core.table import Column, Table
from core.units import pluralize

SPREAD_COLUMNS: Final = Table(
    Column("namespace", "Namespace"),
    Column("owned", "Bundles", "Assigned bundles.", "count"),
    Column("brokers_used", "Brokers used", kind="count"),
    Column("brokers_allowed", "Brokers allowed", "By isolation policies.", "count"),
    Column("expected_used", "Expected", "Brokers used by random placement.", "number"),
    Column("is_concentrated", "Few brokers", kind="flag"),
    Column("fullest", "Most bundles on"),
    Column("fullest_ratio", "Share of bundles", kind="ratio"),
    Column("hottest", "Most traffic on", none="no traffic"),
    Column("hottest_ratio", "Share of traffic", kind="ratio", none="no traffic"),
    Column("throughput", "Traffic", kind="bytes_per_s"),
)
SPREAD: Final = SPREAD_COLUMNS.schema
"""One row a namespace with at least two owned bundles, the most traffic on one broker first among
the crowded, then the others. ``brokers_allowed``: registered, and what isolation policies leave."""

_SIGMAS: Final = 2.0
_FEW: Final = 0.75


def expected_used(bundles: Ints | Floats, brokers: Ints | Floats) -> tuple[Floats, Floats]:
    """Return mean and deviation of the number of brokers used by random placement.

    Args:
        bundles: How many there are.
        brokers: How many may have one, at least 1.
    """
    m, b = np.maximum(brokers, 1).astype(np.float64), np.asarray(bundles, np.float64)
    empty, pair = (1 - 1 / m) ** b, np.maximum(1 - 2 / m, 0.0) ** b
    variance = m * (m - 1) * pair + m * empty - (m * empty) ** 2
    return m * (1 - empty), np.sqrt(np.maximum(variance, 0.0))


def spread_of(view: LoadView) -> pa.Table:
    """Return the table of :data:`SPREAD`.

    Cost:
        O(bundles log bundles), no loop over bundles.
    """
    rows = np.flatnonzero((view.owner >= 0) & ~view.is_broker_bound)
    size = max(len(view.brokers), 1)
    keys = view.bundle_namespace[rows].astype(np.int64) * size + view.owner[rows]
    pairs, place = np.unique(keys, return_inverse=True)
    bundles = np.bincount(place, minlength=pairs.size).astype(np.float64)
    traffic = np.bincount(
        place, weights=np.nan_to_num(view.bundle_throughput[rows]), minlength=pairs.size
    )
    namespace, broker = np.divmod(pairs, size)
    spaces, first = np.unique(namespace, return_index=True)
    if not spaces.size:
        return SPREAD.empty_table()
    owned, carried = np.add.reduceat(bundles, first), np.add.reduceat(traffic, first)
    used = np.diff([*first, pairs.size])
    allowed = np.maximum(_allowed(view)[view.namespace_policy[spaces]], used)
    expected, deviation = expected_used(owned, allowed)
    fullest = _largest(bundles, namespace, first)
    hottest = _largest(np.asarray(traffic, np.float64), namespace, first)
    names = np.array(view.brokers, object)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = traffic[hottest] / carried
    has_traffic = carried > 0
    table = pa.table(
        {
            "namespace": np.array(view.namespaces, object)[spaces],
            "owned": owned.astype(np.int64),
            "brokers_used": used.astype(np.int64),
            "brokers_allowed": allowed.astype(np.int64),
            "expected_used": expected,
            "is_concentrated": used
            < np.minimum(expected - _SIGMAS * deviation, _FEW * expected) - 1e-9,
            "fullest": names[broker[fullest]],
            "fullest_ratio": bundles[fullest] / owned,
            "hottest": pa.array(names[broker[hottest]], pa.string(), mask=~has_traffic),
            "hottest_ratio": pa.array(share, mask=~has_traffic),
            "throughput": carried,
        },
        schema=SPREAD,
    )
    several = table.filter(pa.array(owned >= 2))
    return several.sort_by(
        [
            ("is_concentrated", "descending"),
            ("hottest_ratio", "descending"),
            ("throughput", "descending"),
            ("namespace", "ascending"),
        ]
    )


def spread_sentence(spread: pa.Table) -> str:
    """Return the answer in words."""
    count = spread.num_rows
    if not count:
        return "No namespace has two owned bundles."
    worst = spread.slice(0, 1).to_pylist()[0]
    crowded = int(np.asarray(spread["is_concentrated"]).sum())
    if not crowded:
        return (
            f"{pluralize(count, 'namespace')} with several owned bundles: none uses "
            "far fewer brokers than expected."
        )
    on_one = ""
    if worst["hottest"] is not None:
        on_one = f", {worst['hottest_ratio']:.0%} of its traffic on {worst['hottest']}"
    allowed = pluralize(worst["brokers_allowed"], "broker")
    return (
        f"{crowded:,} of {pluralize(count, 'namespace')} use far fewer brokers "
        f"than expected. Worst: {worst['namespace']} has {worst['owned']:,} "
        f"bundles on {worst['brokers_used']:,} of {allowed}, about "
        f"{worst['expected_used']:.0f} expected{on_one}."
    )


def _allowed(view: LoadView) -> Ints:
    """Brokers that isolation leaves to each policy's namespaces; the last: to those without one."""
    shared: Flags = ~view.is_primary.any(axis=0) & view.serves_persistent
    members = np.vstack([view.is_primary | view.is_secondary, shared[None, :]])
    return np.asarray(members.sum(axis=1), np.int64)


def _largest(values: Floats, namespace: Ints, first: Ints) -> Ints:
    """Return the place of each namespace's largest value."""
    order = np.lexsort((-values, namespace))
    return np.asarray(order[first], np.int64)
