"""The JSON objects of the commands on Pulsar clusters: stable shapes that people script against."""

from __future__ import annotations

from typing import Any

from core.findings.measures import Spread
from core.pulsar.lookup import TopicLookup
from core.pulsar.measures import Measures
from core.pulsar.placement import Placement
from core.pulsar.served import service_json


def measures(found: Measures) -> dict[str, Any]:
    """The four spreads by name; ``null`` is unknown."""
    return {spread.name: _spread(spread) for spread in found}


def lookup(topic_lookup: TopicLookup) -> dict[str, Any]:
    """Return the bundle, the owner and the lookup steps of a topic."""
    return {
        "topic": topic_lookup.topic,
        "hash": topic_lookup.hash,
        "namespace": topic_lookup.namespace,
        "bundle": topic_lookup.bundle,
        "owner": topic_lookup.owner,
        "owner_known": topic_lookup.is_owner_known,
        "owner_service_url": topic_lookup.owner_service_url,
        **service_json(topic_lookup.service),
        "steps": [{"title": step.title, "detail": step.detail} for step in topic_lookup.steps],
        "notes": list(topic_lookup.notes),
    }


def placement(placed: Placement, elapsed_ms: float) -> dict[str, Any]:
    """Return the distribution, the excluded brokers, and the duration of the computation."""
    body: dict[str, Any] = {
        "distribution": placed.distribution,
        "ruled_out": dict(placed.ruled_out),
        "elapsed_ms": round(elapsed_ms, 3),
        "bundle": placed.bundle,
        "strategy": placed.strategy,
        "scores": placed.scores,
        "score_label": placed.score_label,
        "notes": list(placed.notes),
    }
    if not placed.distribution:
        body["why"] = placed.why
    return body


def _spread(spread: Spread) -> dict[str, Any]:
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
