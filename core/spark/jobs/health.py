"""Health of many clusters: what is wrong in each, and how even its load is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from core.findings.finding import Finding, findings_sentence, overall_state
from core.pegasus.balance.score import count_spread
from core.pegasus.rules.registry import assess_pegasus
from core.pegasus.snapshot import PegasusFacts
from core.pulsar.measures import TARGETS, Measures, Target, balance_sentence, measure
from core.pulsar.requests import HealthRequest
from core.pulsar.rules.registry import assess
from core.pulsar.settings import effective_settings
from core.snapshot import Manifest
from core.snapshot.pegasus import PegasusSnapshot
from core.spark.fleet import Operation, Snapshot
from core.units import datetime_to_ms

HEALTH: Final = pa.schema(
    [
        pa.field("system", pa.string(), nullable=False),
        pa.field("snapshot_id", pa.string(), nullable=False),
        pa.field("taken_at", pa.int64(), metadata={"unit": "ms"}),
        pa.field("state", pa.string(), nullable=False),  # bad | attention | unknown | ok
        pa.field(
            "verdict", pa.string(), nullable=False
        ),  # balanced | unbalanced | not_balanced | unknown
        pa.field("answer", pa.string(), nullable=False),
        pa.field("findings", pa.string(), nullable=False),
    ]
)
"""One row a cluster."""

MEASURES: Final = pa.schema(
    [
        pa.field("measure", pa.string(), nullable=False),
        pa.field("unit", pa.string(), nullable=False),
        pa.field("mean", pa.float64()),
        pa.field("std", pa.float64()),
        pa.field("maximum", pa.float64()),
        pa.field("minimum", pa.float64()),
        pa.field("max_deviation_ratio", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("worst", pa.string()),
        pa.field("known", pa.int64(), nullable=False),  # brokers or nodes
        pa.field("count", pa.int64(), nullable=False),
    ]
)
"""One row a cluster and measure."""

FINDINGS: Final = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("severity", pa.string(), nullable=False),
        pa.field("code", pa.string(), nullable=False),
        pa.field("subject_kind", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("sentence", pa.string(), nullable=False),
        pa.field("hint", pa.string(), nullable=False),
        pa.field("evidence", pa.string(), nullable=False),  # JSON
    ]
)
"""One row a finding, worst first."""


def health_cluster(snapshot: Snapshot, request: HealthRequest) -> Mapping[str, pa.Table]:
    """Return the findings of a cluster of either system."""
    if isinstance(snapshot, PegasusSnapshot):
        return _pegasus(snapshot)
    target = target_of(request)
    settings = effective_settings(snapshot)
    found = assess(snapshot, settings, target=target)
    identity = (snapshot.snapshot_id, snapshot.manifest)
    return health_tables(identity, measure(snapshot, settings), found, target)


def health_tables(
    identity: tuple[str, Manifest],
    measures: Measures,
    found: tuple[Finding, ...],
    target: Target,
) -> Mapping[str, pa.Table]:
    """Return the tables of one Pulsar cluster, whoever measured it.

    Args:
        identity: Id and manifest of the snapshot.
        measures: How even its load is.
        found: Its findings.
        target: What counts as balanced.
    """
    verdict = (measures.verdict(target), balance_sentence(measures, target))
    return _tables(identity, verdict, list(_spreads(measures)), found)


def target_of(request: HealthRequest) -> Target:
    """Return the target that a request names."""
    return next(target for target in TARGETS if target.code == request.target)


HEALTH_OF_CLUSTERS: Final = Operation(
    health_cluster, {"health": HEALTH, "measures": MEASURES, "findings": FINDINGS}
)
"""The findings of each cluster, and how even its load is."""


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


def _pegasus(snapshot: PegasusSnapshot) -> Mapping[str, pa.Table]:
    facts = PegasusFacts(snapshot)
    found = assess_pegasus(facts)
    verdict = facts.verdict()
    view = facts.view()
    spread = count_spread(view)
    rows = [
        _counted(view.nodes, name, counts, std)
        for name, counts, std in (
            ("primaries", spread.primaries, spread.primary_stddev),
            ("replicas", spread.replicas, spread.replica_stddev),
        )
    ]
    identity = (snapshot.snapshot_id, snapshot.manifest)
    return _tables(identity, (verdict.state, verdict.sentence), rows, found)


def _counted(nodes: tuple[str, ...], name: str, counts: np.ndarray, std: float) -> dict[str, Any]:
    mean = float(counts.mean()) if counts.size else None
    return {
        "measure": name,
        "unit": name,
        "mean": mean,
        "std": std,
        "maximum": float(counts.max()) if counts.size else None,
        "minimum": float(counts.min()) if counts.size else None,
        "max_deviation_ratio": float(counts.max()) / mean - 1 if mean else None,
        "worst": nodes[int(counts.argmax())] if counts.size else None,
        "known": len(nodes),
        "count": len(nodes),
    }


def _tables(
    identity: tuple[str, Manifest],
    verdict: tuple[str, str],
    spreads: list[dict[str, Any]],
    found: tuple[Finding, ...],
) -> Mapping[str, pa.Table]:
    snapshot_id, manifest = identity
    row = {
        "system": manifest.kind,
        "snapshot_id": snapshot_id,
        "taken_at": datetime_to_ms(manifest.taken_at),
        "state": overall_state(found),
        "verdict": verdict[0],
        "answer": verdict[1],
        "findings": findings_sentence(found),
    }
    findings = [
        {
            "number": number,
            "severity": one.severity,
            "code": one.code,
            "subject_kind": one.subject_kind,
            "subject": one.subject,
            "sentence": one.sentence,
            "hint": one.hint,
            "evidence": msgspec.json.encode(dict(one.evidence)).decode(),
        }
        for number, one in enumerate(found, 1)
    ]
    return {
        "health": pa.Table.from_pylist([row], schema=HEALTH),
        "measures": pa.Table.from_pylist(spreads, schema=MEASURES),
        "findings": pa.Table.from_pylist(findings, schema=FINDINGS),
    }
