"""A Pulsar cluster in a row: its state, balance and load."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from core.findings.verdict import Verdict
from core.pulsar.load import limiting_resource
from core.pulsar.measures import Measures
from core.pulsar.settings import EffectiveSettings
from core.snapshot import PulsarSnapshot
from dashboard.presenters.naming import resource_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSummary:
    """One cluster in a row; ``None`` is unknown.

    Attributes:
        verdict: What is wrong, and what was examined.
        brokers: Brokers in the snapshot.
        traffic_bytes_per_s: In plus out.
        deviation_ratio: Of the busiest broker from the mean, by traffic.
        target_ratio: Deviation that its target allows.
        usage_ratio: Weighted maximum of the fullest broker.
        hottest: That broker, with the resource that limits it.
        balancer: Whether the cluster's own balancer sheds load.
        taken_at: When the snapshot was taken.
    """

    verdict: Verdict
    brokers: int
    traffic_bytes_per_s: float | None
    deviation_ratio: float | None
    target_ratio: float
    usage_ratio: float | None
    hottest: str
    balancer: str
    taken_at: datetime


def summary(
    snapshot: PulsarSnapshot,
    measures: Measures,
    verdict: Verdict,
    settings: EffectiveSettings,
) -> ClusterSummary:
    """Return a cluster's row."""
    usage = measures.usage
    hottest = "unknown"
    if usage.worst is not None:
        row = usage.brokers.index(usage.worst)
        limiting = limiting_resource(snapshot.brokers.slice(row, 1), settings)[0]
        hottest = f"{usage.worst} · {resource_name(limiting)}"
    return ClusterSummary(
        verdict=verdict,
        brokers=len(measures.brokers),
        traffic_bytes_per_s=measures.throughput.total,
        deviation_ratio=measures.throughput.max_deviation_ratio,
        target_ratio=measures.target.bound,
        usage_ratio=usage.maximum,
        hottest=hottest,
        balancer=balancer_words(settings),
        taken_at=snapshot.manifest.taken_at,
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
