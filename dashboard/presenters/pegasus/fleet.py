"""A Pegasus cluster in a row: its state, health, balance and level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.findings.verdict import Verdict
from core.pegasus.levels import FunctionLevel
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import NodeSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class PegasusSummary:
    """One Pegasus cluster in a row; ``None`` is unknown.

    Attributes:
        verdict: What is wrong, and what was examined.
        deviation_ratio: Largest of the living nodes' primaries from their mean, either way.
        target_ratio: Deviation that its target allows.
        requests_per_s: Reads and writes that the primaries serve.
        disk_ratio: Used of the disks of the fullest living node.
        fullest: That node.
        level: Effective level, and the stored one where it is another.
        alive: Nodes that are alive.
        nodes: Nodes.
        taken_at: When the snapshot was taken.
    """

    verdict: Verdict
    deviation_ratio: float | None
    target_ratio: float
    requests_per_s: float | None
    disk_ratio: float | None
    fullest: str
    level: str
    alive: int
    nodes: int
    taken_at: datetime


def pegasus_summary(
    facts: PegasusFacts, verdict: Verdict, nodes: Sequence[NodeSummary]
) -> PegasusSummary:
    """Return a cluster's row."""
    columns = facts.columns
    alive = [node for node in nodes if node.is_alive]
    led = columns.rep_is_primary
    requests = sum(float(columns.measures[name][led].sum()) for name in ("read_rate", "write_rate"))
    disks = {one.name: used for one in alive if (used := _disk_ratio(one)) is not None}
    fullest = max(disks, key=disks.__getitem__, default="")
    return PegasusSummary(
        verdict=verdict,
        deviation_ratio=columns.max_deviation(primaries_only=True),
        target_ratio=facts.target_ratio,
        requests_per_s=requests if led.any() and math.isfinite(requests) else None,
        disk_ratio=disks.get(fullest),
        fullest=f"{fullest} · disk" if fullest else "",
        level=level_words(facts.stored_level, facts.effective_level),
        alive=len(alive),
        nodes=len(columns.nodes),
        taken_at=facts.snapshot.manifest.taken_at,
    )


def _disk_ratio(node: NodeSummary) -> float | None:
    """Return the used share of a node's disks; ``None`` if unknown."""
    capacity, available = node.disk_capacity_mb, node.disk_available_mb
    return 1 - available / capacity if capacity and available is not None else None


def level_words(stored: FunctionLevel | None, effective: FunctionLevel | None) -> str:
    """Return the level in force, with the stored one where that is another."""
    if effective is None:
        return "unknown" if stored is None else f"{stored.word} stored, effective: unknown"
    if stored is None or stored is effective:
        return effective.word
    return f"{effective.word} ({stored.word} stored)"
