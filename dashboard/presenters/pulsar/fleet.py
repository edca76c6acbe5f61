"""A Pulsar cluster in a row: its state, balance and load."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from core.findings.finding import Finding, State, findings_sentence, overall_state
from core.pulsar.measures import Measures, balance_sentence
from core.pulsar.settings import EffectiveSettings
from core.snapshot import Manifest
from core.units import format_ratio


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

    @property
    def trouble(self) -> str:
        """Nothing that the findings do not name."""
        return ""


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
