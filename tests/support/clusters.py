"""Small clusters for rules: brokers with groups of bundles, as the reports' files describe them."""

from __future__ import annotations

from typing import Any

from report_cluster import Report

from core.pulsar.rules.registry import assess
from core.snapshot import PulsarSnapshot

GROUP = {"bundles": 8, "in": 1000, "mb_in": 5, "mb_out": 10}


def cluster(
    brokers: list[dict[str, Any]],
    *,
    release: str = "4.0.5",
    manager: str = "modular",
    settings: dict[str, Any] | None = None,
    **parts: Any,
) -> PulsarSnapshot:
    """Return the snapshot of some brokers; each has eight equal bundles unless it names others."""
    filled = [{"cpu": 40, "groups": [GROUP]} | one for one in brokers]
    facts = {
        "cluster": {"release": release} | parts.pop("cluster", {}),
        "brokers": filled,
        "settings": settings or {},
        "expected": {},
        **parts,
    }
    if manager == "extensible":
        facts["cluster"]["load_manager"] = manager
    return Report("c", facts).snapshot()


def problems(snapshot: PulsarSnapshot, *codes: str) -> dict[str, str]:
    """Return code to severity of the findings with those codes, notes included."""
    return {one.code: one.severity for one in assess(snapshot) if one.code in codes}
