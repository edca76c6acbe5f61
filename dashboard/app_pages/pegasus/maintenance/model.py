"""What the Maintenance page says: the state of the nodes, and what each wizard is for."""

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
from core.units import pluralize
from dashboard.presenters.naming import listed
from dashboard.presenters.pegasus.headline import NODE_STATUS_WORDS
from dashboard.queries.pegasus.plans import Wizard


@dataclass(frozen=True, slots=True, kw_only=True)
class WizardWords:
    """What a person should know of a wizard.

    Attributes:
        wizard: As the command line calls it.
        label: For the choice.
        icon: Name of a Material symbol.
        explained: What it does, and how it ends.
        nodes: How many nodes it takes: ``none``, ``one``, ``some``, ``all``: all that live where
            none is chosen.
        rate_mb_per_s: Usual copy rate; ``None``: it does not set one.
        script: Upstream's own, which it stands for.
        max_under_replicated: Default limit of partitions that lack a replica; ``None``: none.
    """

    wizard: Wizard
    label: str
    icon: str
    explained: str
    nodes: str
    script: str
    rate_mb_per_s: int | None = None
    max_under_replicated: int | None = None


WIZARDS: Final = (
    WizardWords(
        wizard="migrate",
        label="Migrate primaries",
        icon="move_up",
        explained="Moves every primary off one node to its secondaries, fewest primaries first. "
        "No data moves, and the node keeps its replicas.",
        nodes="one",
        script="migrate_node.sh",
    ),
    WizardWords(
        wizard="drain",
        label="Drain",
        icon="output",
        explained="Empties nodes one after the other: primaries move, then secondaries leave in "
        "batches, and the guardian copies them elsewhere. Processes keep running. Afterwards the "
        "guardian and, at lively, the balancer may use the nodes again.",
        nodes="some",
        script="migrate_node.sh, downgrade_node.sh",
        max_under_replicated=MAX_UNDER_REPLICATED,
    ),
    WizardWords(
        wizard="offline",
        label="Take offline",
        icon="power_settings_new",
        explained="Takes nodes out for good: each is emptied and its replicas are closed; then the "
        "run waits until you have stopped its process, and until every partition is healthy again.",
        nodes="some",
        script="pegasus_offline_node_list.sh",
        rate_mb_per_s=OFFLINE_RATE_MB_PER_S,
        max_under_replicated=MAX_UNDER_REPLICATED,
    ),
    WizardWords(
        wizard="rolling-update",
        label="Rolling update",
        icon="restart_alt",
        explained="Node by node: empties it, waits until you have restarted its process with the "
        "new version, lets its replicas come back, and waits until every partition is healthy.",
        nodes="all",
        script="pegasus_rolling_update.sh",
    ),
    WizardWords(
        wizard="rebalance",
        label="Rebalance until done",
        icon="balance",
        explained="Sets the level to lively and waits until the cluster's own balancer finds "
        "nothing left to do on several readings; then the level is put back.",
        nodes="none",
        script="pegasus_rebalance_cluster.sh",
        rate_mb_per_s=REBALANCE_RATE_MB_PER_S,
    ),
)
BY_LABEL: Final = {one.label: one for one in WIZARDS}


def answer(facts: PegasusFacts, going: RunView | None) -> str:
    """Return what is out of service, and what is under way."""
    dead = [one.name for one in facts.nodes if not one.is_alive]
    empty = empty_nodes(facts)
    alive = len(facts.nodes) - len(dead)
    parts = [f"{alive} of {pluralize(len(facts.nodes), 'node')} alive"]
    if dead:
        parts.append(f"{listed(dead)} {'is' if len(dead) == 1 else 'are'} down")
    if empty:
        holds = "holds" if len(empty) == 1 else "hold"
        parts.append(f"{listed(empty)} {holds} no replica")
    if going is not None:
        parts.append(f"run {going.run_id} is under way")
    return f"{'; '.join(parts)}."


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
    """Return one row a node: alive or not, what it holds, its room; dead ones first."""
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
    """Return which nodes get no new replicas by setting; empty: none."""
    barred = facts.snapshot.settings.get("assign_secondary_black_list", "")
    if not barred:
        return ""
    return (
        f"On the black list, so that the guardian adds no secondary there: {barred}. It was set "
        "before; a run of Trimtab puts back what it finds."
    )


def command(
    one: WizardWords,
    cluster: str,
    nodes: Sequence[str],
    rate: int | None,
    max_under_replicated: int | None = None,
) -> str:
    """Return the line of the command line that prepares the same plan."""
    line = ["trimtab", "pegasus", one.wizard, cluster, *nodes]
    if one.rate_mb_per_s is not None and rate not in (None, one.rate_mb_per_s):
        line += ["--rate", str(rate)]
    if max_under_replicated not in (None, one.max_under_replicated):
        line += ["--max-under-replicated", str(max_under_replicated)]
    return shlex.join(line)
