"""What the fleet overview shows: one row a cluster, and the findings of the chosen one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from core.health.answer import balance_sentence, findings_sentence
from core.health.findings import Finding, State, overall_state
from core.health.measures import Measures, column_values
from core.pulsar.settings import EffectiveSettings
from core.snapshot import Manifest
from core.units import counted, format_age, format_bytes_per_s, format_msgs_per_s, format_ratio

STATE_WORDS: Final[dict[State, str]] = {
    "bad": "✖ errors",
    "attention": "▲ attention",
    "unknown": "? unknown",
    "ok": "● fine",
}
NO_SNAPSHOT: Final = "? no snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSummary:
    """One cluster in a row; ``None`` is unknown.

    Attributes:
        state: Worst finding.
        sentence: Is it balanced?
        findings: How many of each severity, in words.
        brokers: Brokers in the snapshot.
        bundles: Bundles that can move.
        traffic_bytes_per_s: In plus out.
        deviation_ratio: Of the busiest broker from the mean, by traffic.
        worst: The busiest broker by weighted usage, with its usage.
        balancer: Whether the cluster's own balancer sheds load.
        taken_at: When the snapshot was taken.
    """

    state: State
    sentence: str
    findings: str
    brokers: int
    bundles: int | None
    traffic_bytes_per_s: float | None
    deviation_ratio: float | None
    worst: str
    balancer: str
    taken_at: datetime


def summary(
    manifest: Manifest,
    measures: Measures,
    findings: tuple[Finding, ...],
    settings: EffectiveSettings,
) -> ClusterSummary:
    """Return a cluster's row."""
    usage = measures.usage
    worst = f"{usage.worst} at {format_ratio(usage.maximum)}" if usage.worst else "unknown"
    return ClusterSummary(
        state=overall_state(findings),
        sentence=balance_sentence(measures),
        findings=findings_sentence(findings),
        brokers=len(measures.brokers),
        bundles=measures.owned_bundle_count,
        traffic_bytes_per_s=measures.throughput.total,
        deviation_ratio=measures.throughput.max_deviation_ratio,
        worst=worst,
        balancer=balancer_words(settings),
        taken_at=manifest.taken_at,
    )


def balancer_words(settings: EffectiveSettings) -> str:
    """Return whether the cluster's own balancer runs, and with which strategy."""
    if not settings.value("loadBalancerEnabled"):
        return "balancer off"
    if not settings.value("loadBalancerSheddingEnabled"):
        return "shedding off"
    strategy = str(settings.value("loadBalancerLoadSheddingStrategy")).rpartition(".")[2]
    origin = settings.origin("loadBalancerLoadSheddingStrategy")
    return f"{strategy} (assumed)" if origin == "assumed" else strategy


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """What may be done on a cluster from here, and what is being done.

    Attributes:
        access: ``read-only``, ``may act``, or why nothing can be applied all the same.
        run: The run that has not ended, in a few words; empty: there is none.
    """

    access: str
    run: str


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
                "age": "never"
                if one is None
                else f"{format_age((now - one.taken_at).total_seconds())} ago",
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
    head = f"{len(bad)} of {counted(len(rows), 'cluster')} {verb} attention"
    if unsure:
        head += f", {len(unsure)} cannot be judged"
    worst = max(
        (item for item in known if item[1].deviation_ratio is not None),
        key=lambda item: item[1].deviation_ratio or 0.0,
        default=None,
    )
    if worst is not None:
        over = format_ratio(worst[1].deviation_ratio)
        head += f"; the least even is {worst[0]}, its busiest broker {over} over the mean"
    return head + (f"; {counted(len(unseen), 'cluster')} without a snapshot." if unseen else ".")


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
            "How far the busiest broker stands above the mean; the target is 20 %.",
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
