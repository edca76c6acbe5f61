"""What the fleet overview shows of Pegasus clusters: one row a cluster, and the chosen one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import pandas as pd

from core.health.answer import findings_sentence
from core.health.findings import Finding, State, overall_state
from core.pegasus.columns import PegasusColumns
from core.pegasus.health import HealthState
from core.pegasus.levels import FunctionLevel
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import minimum_2pc
from core.pegasus.verdict import BalanceVerdict
from core.pegasus.verdict import State as Balance
from core.units import counted, format_age
from dashboard.presenters.fleet import NO_SNAPSHOT, STATE_WORDS, Acting

BALANCE_WORDS: Final[dict[Balance, str]] = {
    "balanced": "● balanced",
    "not_balanced": "▲ not balanced",
    "unknown": "? unknown",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PegasusSummary:
    """One Pegasus cluster in a row; ``None`` is unknown.

    Attributes:
        state: Worst finding.
        sentence: Is it whole and balanced?
        findings: How many of each severity, in words.
        balance: What may be said of its balance.
        healthy: Partitions with all their replicas, counting ``states``; ``None``: not all read.
        partitions: Partitions of its available tables.
        level: Level in force, and the stored one where it is another.
        alive: Nodes that are alive.
        nodes: Nodes.
        tables: Available tables.
        taken_at: When the snapshot was taken.
    """

    state: State
    sentence: str
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
    return PegasusSummary(
        state=overall_state(findings),
        sentence=sentence_of(healthy, partitions, alive, len(columns.nodes), verdict),
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
    healthy: int | None, partitions: int, alive: int, nodes: int, verdict: BalanceVerdict
) -> str:
    """Return whether the cluster is whole and balanced, in one or two sentences."""
    if not nodes:
        return "No node is known: nothing can be said about this cluster."
    dead = f" {nodes - alive} of {counted(nodes, 'node')} dead." if alive < nodes else ""
    if healthy is None:
        return f"Not every partition could be read: its health is unknown.{dead}"
    if healthy < partitions:
        ill = partitions - healthy
        verb = "misses" if ill == 1 else "miss"
        return f"{ill:,} of {counted(partitions, 'partition')} {verb} replicas.{dead}"
    return f"All {counted(partitions, 'partition')} are healthy.{dead} {verdict.sentence}"


def level_words(stored: FunctionLevel | None, effective: FunctionLevel | None) -> str:
    """Return the level in force, with the stored one where that is another."""
    if effective is None:
        return "unknown" if stored is None else f"{stored.word} stored, in force: unknown"
    if stored is None or stored is effective:
        return effective.word
    return f"{effective.word} ({stored.word} stored)"


def pegasus_clusters_table(
    rows: Sequence[tuple[str, str, PegasusSummary | None]],
    acting: Sequence[Acting],
    now: datetime,
) -> pd.DataFrame:
    """Return one row a cluster: name, environment, summary, what is done there.

    Args:
        rows: Name, environment and summary of each cluster.
        acting: The same clusters, in the same order.
        now: The present moment.
    """
    return pd.DataFrame(
        [
            {
                "cluster": name,
                "environment": environment,
                "state": NO_SNAPSHOT if one is None else STATE_WORDS[one.state],
                "balance": "" if one is None else BALANCE_WORDS[one.balance],
                "unhealthy": None if one is None else one.unhealthy,
                "partitions": None if one is None else one.partitions,
                "level": "" if one is None else one.level,
                "nodes": "" if one is None else f"{one.alive} of {one.nodes}",
                "tables": None if one is None else one.tables,
                "findings": "" if one is None else one.findings,
                "age": "never"
                if one is None
                else f"{format_age((now - one.taken_at).total_seconds())} ago",
                "access": doing.access,
                "run": doing.run,
            }
            for (name, environment, one), doing in zip(rows, acting, strict=True)
        ]
    )


def pegasus_figures(facts: PegasusFacts) -> list[tuple[str, str, str]]:
    """Return label, value and help of the figures of the chosen cluster."""
    columns = facts.columns
    partitions, healthy = int(columns.partition_counts.sum()), healthy_count(facts)
    alive = int(columns.is_alive.sum())
    level = level_words(facts.stored_level, facts.effective_level)
    return [
        (
            "Healthy partitions",
            "unknown" if healthy is None else f"{healthy:,} of {partitions:,}",
            "With a primary and all wanted replicas: counting states.",
        ),
        ("Nodes alive", f"{alive} of {len(columns.nodes)}", "The failure detector's word."),
        ("Level", level, "In force; the stored one is named where it is another."),
        *(
            (label, _rate(columns, names, unit), note)
            for label, names, unit, note in (
                ("Reads", ("read_rate",), "/s", "Requests that the primaries serve."),
                ("Writes", ("write_rate",), "/s", "Requests that the primaries serve."),
                (
                    "Capacity units",
                    ("read_units", "write_units"),
                    "/s",
                    "Of the primaries: read plus write.",
                ),
            )
        ),
    ]


def _rate(columns: PegasusColumns, names: tuple[str, ...], unit: str) -> str:
    """Return the sum over the primaries; unknown where one is unknown or none is known at all."""
    led = columns.rep_is_primary
    total = sum(float(columns.measures[name][led].sum()) for name in names)
    return f"{total:,.0f} {unit}" if led.any() and np.isfinite(total) else "unknown"
