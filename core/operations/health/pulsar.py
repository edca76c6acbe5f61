"""Health of a Pulsar cluster: findings, and how even the load of its brokers is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self, TypedDict

import pyarrow as pa

from core.findings.json import verdict_json
from core.findings.measures import Spread
from core.findings.request import HealthRequest
from core.findings.starts import Spans
from core.findings.verdict import Verdict
from core.operations.health.tables import finding_lines, health_tables
from core.operations.operation import Aged, Answer, Cells, Line
from core.progress import Progress
from core.pulsar.facts import PulsarFacts
from core.pulsar.load import usage_sources
from core.pulsar.measures import (
    CLUSTER_TARGET,
    TARGETS,
    Measures,
    Target,
    balance_sentence,
    cluster_target,
)
from core.pulsar.rules.verdict import verdict_of
from core.pulsar.settings import EffectiveSettings
from core.snapshot import Manifest, PulsarSnapshot
from core.units import format_ratio


class PulsarHealthJson(TypedDict):
    """The JSON of the answer.

    Attributes:
        cluster: Its name.
        snapshot_id: Snapshot that it was read from.
        taken_at: Time of the snapshot.
        answer: How even the load is, in words.
        state: ``bad``, ``attention``, ``unknown`` or ``ok``.
        findings: The findings, worst first.
        scope: What was examined, and what was not, with the reason.
        target: What counts as balanced.
        target_percent: Allowed deviation from the mean, percent; null: the target is another one.
        measures: Mean, spread and the busiest broker, by measure.
        usage_source: What makes the usage of the busiest broker; null: it is unknown.
        problems: Parts that could not be read.
    """

    cluster: str
    snapshot_id: str
    taken_at: str
    answer: str
    state: str
    findings: list[dict[str, Any]]
    scope: list[dict[str, Any]]
    target: str
    target_percent: float | None
    measures: dict[str, Any]
    usage_source: str | None
    problems: list[dict[str, str]]


@dataclass(frozen=True, eq=False)
class PulsarHealth(Answer):
    """The answer.

    Attributes:
        snapshot_id: Snapshot that it was read from.
        manifest: Of the snapshot.
        measures: How even the load is.
        verdict: The verdict on the cluster.
        target: What counts as balanced.
        source: What makes the usage of the busiest broker; empty: it is unknown.
    """

    snapshot_id: str
    manifest: Manifest
    measures: Measures
    verdict: Verdict
    target: Target
    source: str

    def body(self) -> PulsarHealthJson:
        """Return the JSON object."""
        judged = verdict_json(self.verdict)
        return {
            "cluster": self.manifest.cluster,
            "snapshot_id": self.snapshot_id,
            "taken_at": self.manifest.taken_at.isoformat(),
            "answer": balance_sentence(self.measures, self.target),
            "state": judged["state"],
            "findings": judged["findings"],
            "scope": judged["scope"],
            "target": self.target.code,
            "target_percent": _percent(self.target, self.measures),
            "measures": measures_json(self.measures),
            "usage_source": self.source or None,
            "problems": [one.as_json() for one in self.manifest.problems],
        }

    def dated(self, spans: Spans | None, moment: datetime) -> Self:
        """Return the answer with the time since when its findings hold."""
        return replace(self, verdict=self.verdict.dated(spans, moment))

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables of a job."""
        identity = (self.snapshot_id, self.manifest)
        state = self.measures.verdict(self.target)
        verdict = (state, balance_sentence(self.measures, self.target))
        return health_tables(identity, verdict, list(_spreads(self.measures)), self.verdict)

    def text(self, _: HealthRequest) -> Iterator[Line]:
        """Return the text for people."""
        measures, target = self.measures, self.target
        yield balance_sentence(measures, target)
        if target.code != measures.target.code:
            yield (
                f"Target of this request: {target.code} ({target.label}); "
                f"configured target of the cluster: {measures.target.label}."
            )
        cluster = self.manifest.cluster.replace("{", "{{").replace("}", "}}")
        sentence = self.verdict.sentence.replace("{", "{{").replace("}", "}}")
        yield Aged(f"{cluster}, {{age}}: {sentence}")
        yield ""
        head = ("measure", "mean", "maximum", "above mean", "spread / mean", "worst broker")
        yield Cells(head, [_row(spread) for spread in measures])
        if self.source:
            yield f"Usage of {measures.usage.worst}: {self.source}."
        yield from finding_lines(self.verdict.findings)


def _row(spread: Spread) -> tuple[str, ...]:
    return (
        spread.label,
        spread.text_of(spread.mean),
        spread.text_of(spread.maximum),
        format_ratio(spread.max_deviation_ratio),
        format_ratio(spread.coefficient_ratio),
        spread.worst or "unknown",
    )


def measures_json(found: Measures) -> dict[str, Any]:
    """Return the spreads by name; ``null`` is unknown."""
    return {spread.name: _spread_json(spread) for spread in found}


def _spread_json(spread: Spread) -> dict[str, Any]:
    return {
        "unit": spread.unit,
        "mean": spread.mean,
        "std": spread.std,
        "max": spread.maximum,
        "min": spread.minimum,
        "max_deviation_ratio": spread.max_deviation_ratio,
        "coefficient_ratio": spread.coefficient_ratio,
        "worst": spread.worst,
        "known_brokers": spread.known_count,
        "brokers": len(spread.brokers),
    }


def _percent(target: Target, measures: Measures) -> float | None:
    """Return the allowed deviation from the mean, percent; ``None``: the target is another one."""
    is_share = target.statistic == measures.target.statistic
    return round(target.bound * 100, 3) if is_share else None


def pulsar_health(facts: PulsarFacts, request: HealthRequest, progress: Progress) -> PulsarHealth:
    """Return the findings of a cluster."""
    snapshot, settings = facts.snapshot, facts.settings
    target = target_of(request, snapshot.manifest)
    return PulsarHealth(
        snapshot_id=snapshot.snapshot_id,
        manifest=snapshot.manifest,
        measures=facts.measures,
        verdict=verdict_of(snapshot, settings, target=target, progress=progress),
        target=target,
        source=source_of_worst(snapshot, facts.measures, settings),
    )


def source_of_worst(
    snapshot: PulsarSnapshot, measures: Measures, settings: EffectiveSettings
) -> str:
    """Return the source of the busiest broker's usage; empty if the usage is unknown."""
    worst = measures.usage.worst
    if worst is None:
        return ""
    row = measures.brokers.index(worst)
    return usage_sources(snapshot.brokers.slice(row, 1), settings)[0]


def target_of(request: HealthRequest, manifest: Manifest) -> Target:
    """Return the target that a request names: the cluster's own, or another for this question."""
    if request.target == CLUSTER_TARGET:
        return cluster_target(manifest)
    return next(target for target in TARGETS if target.code == request.target)


def _spreads(measures: Measures) -> Iterator[dict[str, Any]]:
    for spread in measures:
        yield {
            "measure": spread.name,
            "unit": spread.unit,
            "mean": spread.mean,
            "std": spread.std,
            "maximum": spread.maximum,
            "minimum": spread.minimum,
            "max_deviation_ratio": spread.max_deviation_ratio,
            "worst": spread.worst,
            "known": spread.known_count,
            "count": len(spread.brokers),
        }
