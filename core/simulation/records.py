"""What brokers of the extensible manager publish after a round: their load, their hottest bundles.

Source: Pulsar ``BrokerLoadData#update``, ``BrokerLoadDataReporter``, ``TopBundlesLoadData``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.arrays import column_values, row_of
from core.ids import SYSTEM_NAMESPACE
from core.pulsar.bundle_counts import Ints
from core.pulsar.liveness import liveness_of, loads_of
from core.pulsar.load import (
    RATE_STEP_MSGS_S,
    TRAFFIC_STEP_BYTES_S,
    in_steps,
    max_resource_usage,
    next_smoothed_usage,
    weighted_max_usage,
)
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.view import Flags, Floats, LoadView
from core.schemas.pulsar import BROKER_LOADS, RATES, TOP_BUNDLES
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms

TICKS_PER_MINUTE: Final = 12
"""Brokers smooth their usage every 5 s (``loadBalancerReportUpdateMinIntervalMillis``)."""

_COUNTS: Final = ("topic_count", "producer_count", "consumer_count", "cache_size_bytes")


def after_reports(
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings,
    minutes: float,
    touched: Collection[str],
    tops: pa.Table | None = None,
) -> PulsarSnapshot:
    """Return the snapshot with the records that brokers publish ``minutes`` later.

    A broker that gave or took a bundle withdraws its record and begins to smooth again; the others
    go on smoothing.

    Args:
        snapshot: After the round; a broker without a record publishes its first one.
        settings: For the weights, the share of history and the number of hottest bundles.
        minutes: Since the last records.
        touched: Brokers that gave or took a bundle.
        tops: What :func:`top_bundles` gives; ``None`` if it is worked out of the bundles, which a
            snapshot without them must not leave to it.
    """
    later = snapshot.manifest.taken_at + timedelta(minutes=minutes)
    tables = {
        **snapshot.tables,
        "broker_loads": _loads(snapshot, settings, minutes, touched, datetime_to_ms(later)),
        "top_bundles": top_bundles(snapshot, settings) if tops is None else tops,
    }
    return PulsarSnapshot.build(replace(snapshot.manifest, taken_at=later), tables)


def _loads(
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings,
    minutes: float,
    touched: Collection[str],
    now_ms: int,
) -> pa.Table:
    brokers, loads = loads_of(snapshot), snapshot.broker_loads
    known = np.isfinite(weighted_max_usage(brokers, settings))
    at = row_of(loads["broker"], brokers["broker"])[known]
    names = np.array(brokers["broker"].to_pylist(), object)[known]
    usage = weighted_max_usage(brokers, settings)[known]
    flow = _flow(brokers)[known]
    ticks = max(round(minutes * TICKS_PER_MINUTE), 1)
    history = settings.number("loadBalancerHistoryResourcePercentage") ** ticks
    restarted = np.isin(names.astype(str), list(touched)) | (at < 0)
    columns = {
        name: np.where(restarted | np.isnan(past), value, next_smoothed_usage(past, value, history))
        for name, value in (("weighted_max_ema", usage), ("msg_throughput_ema", flow))
        for past in (np.append(column_values(loads, name), np.nan)[at],)
    }
    before = np.append(column_values(loads, "updated_at"), 0)[at]
    made = pa.Table.from_pydict(
        {
            "broker": names.tolist(),
            **columns,
            "max_resource_ratio": max_resource_usage(brokers)[known],
            "updated_at": [now_ms] * names.size,
            "reported_before_at": np.nan_to_num(before).astype(np.int64),
        },
        schema=BROKER_LOADS,
    )
    lost = pa.array([*liveness_of(snapshot, effective_settings(snapshot)).unreported], pa.string())
    kept = loads.filter(pc.is_in(loads["broker"], value_set=lost))  # what is dead reports no more
    return pa.concat_tables([made, kept]).sort_by("broker")


def _flow(table: pa.Table) -> np.ndarray:
    return np.nan_to_num(
        column_values(table, "msg_throughput_in") + column_values(table, "msg_throughput_out")
    )


def top_bundles(snapshot: PulsarSnapshot, settings: EffectiveSettings) -> pa.Table:
    """Return each broker's hottest bundles, the coldest of them first.

    Left out are idle bundles, system namespaces, excluded ones and, unless the setting says
    otherwise, those with an isolation policy or an anti-affinity group.

    Source:
        Pulsar ``TopKBundles#update``; throughput counts by 100 kB/s, rates by 100 msg/s.
    """
    view = LoadView.of(snapshot, settings)
    bundles = snapshot.bundles
    directions = [
        column_values(bundles, f"msg_throughput_{direction}") for direction in ("in", "out")
    ]
    listed, owner, rank = hottest(view, settings, directions)
    count = np.bincount(owner, minlength=len(view.brokers))[owner] if owner.size else owner
    chosen = bundles.take(pa.array(listed, pa.int64()))
    columns: dict[str, object] = {name: chosen[name] for name in (*RATES, *_COUNTS)}
    names = pa.array([view.brokers[row] for row in owner.tolist()], pa.string())
    table = pa.table(
        {"broker": names, "position": count - 1 - rank, "bundle": chosen["bundle"], **columns}
    )
    cast = pa.Table.from_arrays(
        [pc.cast(table[field.name], field.type) for field in TOP_BUNDLES], schema=TOP_BUNDLES
    )
    return cast.sort_by([("broker", "ascending"), ("position", "ascending")])


def hottest(
    view: LoadView, settings: EffectiveSettings, directions: Sequence[Floats]
) -> tuple[Ints, Ints, Ints]:
    """Return the bundles that each broker publishes: rows, broker rows, rank from 0 (hottest).

    Args:
        view: The cluster.
        settings: For the number of them, and what is left out.
        directions: Throughput in and out of each bundle, bytes/s; NaN: unknown.
    """
    flow = np.nan_to_num(directions[0] + directions[1])
    listed = np.flatnonzero(_is_listed(view, settings) & (flow > 0) & (view.owner >= 0))
    keys = [in_steps(direction[listed], TRAFFIC_STEP_BYTES_S) for direction in directions]
    rate = in_steps(view.bundle_msg_rate[listed], RATE_STEP_MSGS_S)
    owner = view.owner[listed].astype(np.int64)
    order = np.lexsort((-rate, -keys[1], -keys[0], owner))
    listed, owner = listed[order], owner[order]
    rank = np.arange(owner.size) - np.searchsorted(owner, owner)
    is_reported = rank < int(settings.number("loadBalancerMaxNumberOfBundlesInBundleLoadReport"))
    return listed[is_reported], owner[is_reported], rank[is_reported]


def _is_listed(view: LoadView, settings: EffectiveSettings) -> Flags:
    """Whether a bundle's namespace allows it among the hottest, per bundle."""
    excluded = {SYSTEM_NAMESPACE, *settings.excluded_namespaces}
    free = np.array([name not in excluded for name in view.namespaces], np.bool_)
    if not settings.flag("loadBalancerSheddingBundlesWithPoliciesEnabled"):
        free &= (view.namespace_policy < 0) & (view.namespace_group < 0)
    return np.asarray(free[view.bundle_namespace] & ~view.is_broker_bound, np.bool_)
