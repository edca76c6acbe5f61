"""Numbers and texts of Pulsar clusters: a row a cluster, key figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from core.arrays import column_values
from core.pulsar.measures import Measures
from core.units import format_ago, format_bytes_per_s, format_msgs_per_s, format_ratio
from dashboard.app_pages.fleet.model import NO_SNAPSHOT, STATE_WORDS
from dashboard.presenters.fleet import Acting
from dashboard.presenters.pulsar.fleet import ClusterSummary


def deviation_trend(history: Sequence[tuple[datetime, pa.Table]]) -> list[float]:
    """Return the traffic deviation of the busiest broker over time, percent; unknown left out."""
    points = []
    for _, table in history:
        load = column_values(table, "msg_throughput_in") + column_values(
            table, "msg_throughput_out"
        )
        known = load[np.isfinite(load)]
        if known.size and known.mean() > 0:
            points.append(float((known.max() / known.mean() - 1) * 100))
    return points


def clusters_table(
    rows: Sequence[tuple[str, str, ClusterSummary | None, list[float]]],
    acting: Sequence[Acting],
    now: datetime,
) -> pd.DataFrame:
    """Return one row a cluster: name, environment, summary, deviation trend, what is done there.

    Args:
        rows: Name, environment, summary and deviation trend of each cluster.
        acting: The same clusters, in the same order.
        now: The present moment.
    """
    return pd.DataFrame(
        [
            {
                "cluster": name,
                "environment": environment,
                "state": NO_SNAPSHOT if one is None else STATE_WORDS[one.state],
                "deviation": None if one is None else _percent(one.deviation_ratio),
                "trend": trend,
                "worst": "" if one is None else one.worst,
                "brokers": None if one is None else one.brokers,
                "bundles": None if one is None else one.bundles,
                "traffic": None
                if one is None or one.traffic_bytes_per_s is None
                else one.traffic_bytes_per_s / 1e6,
                "findings": "" if one is None else one.findings,
                "balancer": "" if one is None else one.balancer,
                "age": "never" if one is None else format_ago((now - one.taken_at).total_seconds()),
                "access": doing.access,
                "run": doing.run,
            }
            for (name, environment, one, trend), doing in zip(rows, acting, strict=True)
        ]
    )


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else ratio * 100


def _owned_words(owned: int | None, movable: int) -> str:
    """Say how the count of owned bundles fits into the others."""
    of = (
        f"Of {movable:,} bundles that can move"
        if owned is None
        else (f"{owned:,} of the {movable:,} bundles that can move have an owner")
    )
    return f"{of}. The brokers' own (heartbeat, SLA) are left out, here and everywhere."


def key_figures(measures: Measures, bundles: pa.Table) -> list[tuple[str, str, str]]:
    """Return label, value and help of the figures at the top."""
    usage, traffic = measures.usage, measures.throughput
    clients = [pc.sum(bundles[f"{side}_count"]).as_py() for side in ("producer", "consumer")]
    owned = measures.owned_bundle_count
    return [
        ("Traffic", format_bytes_per_s(traffic.total), "In plus out over all brokers."),
        (
            "Message rate",
            format_msgs_per_s(measures.msg_rate.total),
            "In plus out over all brokers.",
        ),
        (
            "Mean usage",
            format_ratio(usage.mean),
            "Mean of the brokers' weighted maximum over their resources.",
        ),
        ("Highest usage", format_ratio(usage.maximum), f"{usage.worst or 'unknown'}"),
        (
            "Traffic deviation",
            format_ratio(traffic.max_deviation_ratio),
            "Deviation of the busiest broker from the mean; the target is 20%.",
        ),
        (
            "Owned bundles",
            "unknown" if owned is None else f"{owned:,}",
            _owned_words(owned, bundles.num_rows),
        ),
        (
            "Clients",
            "unknown" if None in clients else f"{sum(clients):,}",
            "Producers and consumers of the bundles whose statistics are known.",
        ),
    ]
