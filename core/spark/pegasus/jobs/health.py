"""Health of Pegasus clusters: what is wrong in each, and how evenly its replicas lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from core.findings.request import HealthRequest
from core.pegasus.balance.score import count_spread
from core.pegasus.rules.registry import pegasus_verdict
from core.pegasus.snapshot import PegasusFacts
from core.snapshot.pegasus import PegasusSnapshot
from core.spark.jobs.health import health_tables


def pegasus_health(snapshot: PegasusSnapshot, request: HealthRequest) -> Mapping[str, pa.Table]:
    """Return the findings of a cluster; its counts are judged without a target."""
    del request
    facts = PegasusFacts(snapshot)
    found = pegasus_verdict(facts)
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
    return health_tables(identity, (verdict.state, verdict.sentence), rows, found)


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
