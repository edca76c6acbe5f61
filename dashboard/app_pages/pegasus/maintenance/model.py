"""Texts of the Maintenance page: the state of the nodes, and the operations."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from core.actions.views import RunView
from core.pegasus.plan.maintenance import (
    MAX_UNDER_REPLICATED,
    OFFLINE_RATE_MB_PER_S,
    REBALANCE_RATE_MB_PER_S,
)
from core.pegasus.snapshot import PegasusFacts
from core.units import listed
from dashboard.presenters.pegasus.headline import NODE_STATUS_WORDS
from dashboard.queries.pegasus.plans import MaintenanceOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDescription:
    """Description of a maintenance operation.

    Attributes:
        name: Its name on the command line.
        label: Its name on the page.
        icon: Name of a Material symbol.
        explained: Its effect and its end.
        nodes: Number of nodes it takes: ``none``, ``one``, ``some``, ``all``: every alive
            node if none is selected.
        rate_mb_per_s: Default copy rate; ``None`` if it sets none.
        script: The upstream script that it replaces.
        max_under_replicated: Default limit of partitions that lack a replica; ``None``
            if unlimited.
    """

    name: MaintenanceOperation
    label: str
    icon: str
    explained: str
    nodes: str
    script: str
    rate_mb_per_s: int | None = None
    max_under_replicated: int | None = None


OPERATIONS: Final = (
    OperationDescription(
        name="migrate",
        label="Migrate primaries",
        icon="move_up",
        explained="Moves all primaries of one node to their secondaries. No data is copied; the "
        "node "
        "keeps its replicas.",
        nodes="one",
        script="migrate_node.sh",
    ),
    OperationDescription(
        name="drain",
        label="Drain",
        icon="output",
        explained="Drains nodes one by one: moves primaries, then removes secondaries in "
        "batches, which "
        "the guardian copies to other nodes. Processes keep running. Afterwards, the guardian "
        "and, at lively, the balancer can use the nodes again.",
        nodes="some",
        script="migrate_node.sh, downgrade_node.sh",
        max_under_replicated=MAX_UNDER_REPLICATED,
    ),
    OperationDescription(
        name="offline",
        label="Take offline",
        icon="power_settings_new",
        explained="Decommissions nodes: drains each node and closes its replicas, then waits "
        "until you "
        "stop its process and all partitions are healthy.",
        nodes="some",
        script="pegasus_offline_node_list.sh",
        rate_mb_per_s=OFFLINE_RATE_MB_PER_S,
        max_under_replicated=MAX_UNDER_REPLICATED,
    ),
    OperationDescription(
        name="rolling-update",
        label="Rolling update",
        icon="restart_alt",
        explained="Updates nodes one by one: drains the node, waits until you restart its "
        "process with "
        "the new version, restores its replicas and waits until all partitions are healthy.",
        nodes="all",
        script="pegasus_rolling_update.sh",
    ),
    OperationDescription(
        name="rebalance",
        label="Rebalance to convergence",
        icon="balance",
        explained="Sets the level to lively, waits until the balancer has no more changes in "
        "several "
        "readings, then restores the level.",
        nodes="none",
        script="pegasus_rebalance_cluster.sh",
        rate_mb_per_s=REBALANCE_RATE_MB_PER_S,
    ),
)
BY_LABEL: Final = {operation.label: operation for operation in OPERATIONS}


def answer(facts: PegasusFacts, active_run: RunView | None) -> str:
    """Return the nodes out of service and the run in progress; empty without either."""
    dead = [node.name for node in facts.nodes if not node.is_alive]
    empty = empty_nodes(facts)
    parts = []
    if dead:
        parts.append(f"Down: {listed(dead)}.")
    if empty:
        parts.append(f"Without replicas: {listed(empty)}.")
    if active_run is not None:
        parts.append(f"Run {active_run.run_id} in progress.")
    return " ".join(parts)


def empty_nodes(facts: PegasusFacts) -> list[str]:
    """Return living nodes without any replica."""
    columns = facts.columns
    held = columns.counts(primaries_only=False).sum(axis=0)
    return [
        name
        for name, count, is_alive in zip(
            columns.nodes, held.tolist(), columns.is_alive.tolist(), strict=True
        )
        if is_alive and not count
    ]


def nodes_frame(facts: PegasusFacts) -> pd.DataFrame:
    """Return one row a node: state, replicas, free space; dead nodes first."""
    columns = facts.columns
    led = columns.counts(primaries_only=True).sum(axis=0)
    held = columns.counts(primaries_only=False).sum(axis=0)
    free = {
        name: float(sum(disk.available_mb for disk in disks)) for name, disks in facts.disks.items()
    }
    rows = {row["node"]: row for row in facts.rows("nodes")}
    order = np.lexsort((np.arange(len(columns.nodes)), columns.is_alive))
    names = [columns.nodes[at] for at in order]
    return pd.DataFrame(
        {
            "node": names,
            "status": [NODE_STATUS_WORDS[columns.node_statuses[at]] for at in order],
            "primaries": led[order],
            "replicas": held[order],
            "size_mb": columns.per_node("size_mb", primaries_only=False)[order],
            "free_mb": pd.Series([free.get(name) for name in names], dtype="float64"),
            "version": [rows[name]["version"] for name in names],
            "started": [rows[name].get("started_at") for name in names],
        }
    )


def barred_words(facts: PegasusFacts) -> str:
    """Return the nodes excluded from new replicas by a setting; empty if none."""
    barred = facts.snapshot.settings.get("assign_secondary_black_list", "")
    if not barred:
        return ""
    return (
        f"Already on the blacklist, so the guardian adds no secondaries there: {barred}. A run "
        "restores the blacklist that it finds."
    )


def command(
    operation: OperationDescription,
    cluster: str,
    nodes: Sequence[str],
    rate: int | None,
    max_under_replicated: int | None = None,
) -> str:
    """Return the line of the command line that prepares the same plan."""
    line = ["trimtab", "pegasus", operation.name, cluster, *nodes]
    if operation.rate_mb_per_s is not None and rate not in (None, operation.rate_mb_per_s):
        line += ["--rate", str(rate)]
    if max_under_replicated not in (None, operation.max_under_replicated):
        line += ["--max-under-replicated", str(max_under_replicated)]
    return shlex.join(line)
