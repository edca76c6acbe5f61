"""Numbers and texts of the fleet overview: the headline, a row a cluster, key figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from core.arrays import column_values
from core.findings.finding import State
from core.pegasus.columns import PegasusColumns
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.verdict import State as Balance
from core.pulsar.measures import Measures
from core.units import format_ago, format_bytes_per_s, format_msgs_per_s, format_ratio, pluralize
from dashboard.presenters.fleet import Acting, ClusterSummary
from dashboard.presenters.pegasus.fleet import PegasusSummary, healthy_count, level_words

STATE_WORDS: Final[dict[State, str]] = {
    "bad": "✖ errors",
    "attention": "▲ attention",
    "unknown": "? unknown",
    "ok": "● fine",
}


NO_SNAPSHOT: Final = "? no snapshot"


_MAX_TROUBLED: Final = 3
"""Clusters that the headline names with what is down or unhealthy."""


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


class Judged(Protocol):
    """What the answer needs of a cluster's row, whichever system it is of."""

    @property
    def state(self) -> State:
        """Worst finding."""

    @property
    def sentence(self) -> str:
        """Is it balanced?"""

    @property
    def trouble(self) -> str:
        """What is down or unhealthy, as counts; empty: nothing."""

    @property
    def deviation_ratio(self) -> float | None:
        """Of the busiest broker from the mean; ``None``: unknown, or there are no brokers."""


def answer(rows: Sequence[tuple[str, Judged | None]]) -> str:
    """Return one sentence over every cluster; that of the cluster itself when there is one."""
    if len(rows) == 1:
        name, only = rows[0]
        return f"There is no snapshot of {name} yet." if only is None else only.sentence
    bad = [name for name, one in rows if one is not None and one.state in ("bad", "attention")]
    unseen = [name for name, one in rows if one is None]
    known = [(name, one) for name, one in rows if one is not None]
    unsure = [name for name, one in rows if one is not None and one.state == "unknown"]
    verb = "needs" if len(bad) == 1 else "need"
    head = f"{len(bad)} of {pluralize(len(rows), 'cluster')} {verb} attention"
    if unsure:
        head += f", {len(unsure)} cannot be judged"
    troubled = [f"{name} has {one.trouble}" for name, one in known if one.trouble]
    head += "".join(f"; {one}" for one in troubled[:_MAX_TROUBLED])
    if len(troubled) > _MAX_TROUBLED:
        more = pluralize(len(troubled) - _MAX_TROUBLED, "more cluster")
        head += f"; {more} with nodes down or partitions unhealthy"
    worst = max(
        (item for item in known if item[1].deviation_ratio is not None),
        key=lambda item: item[1].deviation_ratio or 0.0,
        default=None,
    )
    if worst is not None:
        over = format_ratio(worst[1].deviation_ratio)
        head += f"; the least even is {worst[0]}, its busiest broker {over} over the mean"
    return head + (f"; {pluralize(len(unseen), 'cluster')} without a snapshot." if unseen else ".")


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
            "Deviation of the busiest broker from the mean; the target is 20 %.",
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


BALANCE_WORDS: Final[dict[Balance, str]] = {
    "balanced": "● balanced",
    "not_balanced": "▲ not balanced",
    "unknown": "? unknown",
}


def pegasus_clusters_table(
    rows: Sequence[tuple[str, str, PegasusSummary | None]],
    acting: Sequence[Acting],
    now: datetime,
) -> pd.DataFrame:
    """Return one row a cluster: name, environment, summary, what is done there.

    Args:
        rows: Name, environment and summary of each cluster.
        acting: The same clusters, in the same order.
        now: The present moment.
    """
    return pd.DataFrame(
        [
            {
                "cluster": name,
                "environment": environment,
                "state": NO_SNAPSHOT if one is None else STATE_WORDS[one.state],
                "balance": "" if one is None else BALANCE_WORDS[one.balance],
                "unhealthy": None if one is None else one.unhealthy,
                "partitions": None if one is None else one.partitions,
                "level": "" if one is None else one.level,
                "nodes": "" if one is None else f"{one.alive} of {one.nodes}",
                "tables": None if one is None else one.tables,
                "findings": "" if one is None else one.findings,
                "age": "never" if one is None else format_ago((now - one.taken_at).total_seconds()),
                "access": doing.access,
                "run": doing.run,
            }
            for (name, environment, one), doing in zip(rows, acting, strict=True)
        ]
    )


def pegasus_figures(facts: PegasusFacts) -> list[tuple[str, str, str]]:
    """Return label, value and help of the figures of the chosen cluster."""
    columns = facts.columns
    partitions, healthy = int(columns.partition_counts.sum()), healthy_count(facts)
    alive = int(columns.is_alive.sum())
    level = level_words(facts.stored_level, facts.effective_level)
    return [
        (
            "Healthy partitions",
            "unknown" if healthy is None else f"{healthy:,} of {partitions:,}",
            "With a primary and all wanted replicas: counting states.",
        ),
        ("Nodes alive", f"{alive} of {len(columns.nodes)}", "The failure detector's word."),
        ("Level", level, "Effective level; the stored one too if it differs."),
        *(
            (label, _rate(columns, names, unit), note)
            for label, names, unit, note in (
                ("Reads", ("read_rate",), "/s", "Requests that the primaries serve."),
                ("Writes", ("write_rate",), "/s", "Requests that the primaries serve."),
                (
                    "Capacity units",
                    ("read_units", "write_units"),
                    "/s",
                    "Of the primaries: read plus write.",
                ),
            )
        ),
    ]


def _rate(columns: PegasusColumns, names: tuple[str, ...], unit: str) -> str:
    """Return the sum over the primaries; unknown where one is unknown or none is known at all."""
    led = columns.rep_is_primary
    total = sum(float(columns.measures[name][led].sum()) for name in names)
    return f"{total:,.0f} {unit}" if led.any() and np.isfinite(total) else "unknown"
