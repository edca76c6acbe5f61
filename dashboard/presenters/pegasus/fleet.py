"""A Pegasus cluster in a row: its state, health, balance and level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.findings.finding import Finding, State, findings_sentence, overall_state
from core.pegasus.health import HealthState
from core.pegasus.levels import FunctionLevel
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import minimum_2pc
from core.pegasus.verdict import BalanceVerdict
from core.pegasus.verdict import State as Balance
from core.units import pluralize
from dashboard.presenters.pegasus.headline import node_status_words, trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class PegasusSummary:
    """One Pegasus cluster in a row; ``None`` is unknown.

    Attributes:
        state: Worst finding.
        sentence: Is it whole and balanced?
        trouble: Nodes that are down or do not answer, unhealthy partitions; empty: none.
        findings: How many of each severity, in words.
        balance: What may be said of its balance.
        healthy: Partitions with all their replicas, counting ``states``; ``None``: not all read.
        partitions: Partitions of its available tables.
        level: Effective level, and the stored one where it is another.
        alive: Nodes that are alive.
        nodes: Nodes.
        tables: Available tables.
        taken_at: When the snapshot was taken.
    """

    state: State
    sentence: str
    trouble: str
    findings: str
    balance: Balance
    healthy: int | None
    partitions: int
    level: str
    alive: int
    nodes: int
    tables: int
    taken_at: datetime

    @property
    def deviation_ratio(self) -> None:
        """No broker's traffic: nothing to compare by."""
        return

    @property
    def unhealthy(self) -> int | None:
        """Partitions that miss replicas; ``None``: not all were read."""
        return None if self.healthy is None else self.partitions - self.healthy


def pegasus_summary(
    facts: PegasusFacts, findings: tuple[Finding, ...], verdict: BalanceVerdict
) -> PegasusSummary:
    """Return a cluster's row."""
    columns = facts.columns
    partitions = int(columns.partition_counts.sum())
    healthy = healthy_count(facts)
    alive = int(columns.is_alive.sum())
    named = node_status_words(columns)
    badge = trouble(facts)
    return PegasusSummary(
        state=overall_state(findings),
        sentence=sentence_of(healthy, partitions, named, len(columns.nodes), verdict),
        trouble="" if badge is None else badge.text,
        findings=findings_sentence(findings),
        balance=verdict.state,
        healthy=healthy,
        partitions=partitions,
        level=level_words(facts.stored_level, facts.effective_level),
        alive=alive,
        nodes=len(columns.nodes),
        tables=columns.table_count,
        taken_at=facts.snapshot.manifest.taken_at,
    )


def healthy_count(facts: PegasusFacts) -> int | None:
    """Return how many partitions are healthy, counting ``states``; ``None``: not all were read."""
    columns = facts.columns
    if not columns.table_count or not columns.is_read.all():
        return None
    return int((columns.states(minimum_2pc(facts)) == HealthState.HEALTHY).sum())


def sentence_of(
    healthy: int | None,
    partitions: int,
    named: Sequence[str],
    nodes: int,
    verdict: BalanceVerdict,
) -> str:
    """Return whether the cluster is whole and balanced, in one or two sentences.

    Args:
        healthy: Healthy partitions; ``None`` if not all were read.
        partitions: Partitions in all.
        named: Which nodes are down or do not answer.
        nodes: Nodes in all.
        verdict: On the balance.
    """
    if not nodes:
        return "No node is known: nothing can be said about this cluster."
    dead = "".join(f" {one}." for one in named)
    if healthy is None:
        return f"Not every partition could be read: its health is unknown.{dead}"
    if healthy < partitions:
        ill = partitions - healthy
        verb = "misses" if ill == 1 else "miss"
        return f"{ill:,} of {pluralize(partitions, 'partition')} {verb} replicas.{dead}"
    return f"All {pluralize(partitions, 'partition')} are healthy.{dead} {verdict.sentence}"


def level_words(stored: FunctionLevel | None, effective: FunctionLevel | None) -> str:
    """Return the level in force, with the stored one where that is another."""
    if effective is None:
        return "unknown" if stored is None else f"{stored.word} stored, effective: unknown"
    if stored is None or stored is effective:
        return effective.word
    return f"{effective.word} ({stored.word} stored)"
