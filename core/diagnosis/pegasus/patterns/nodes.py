"""A node that gets nothing: its disks are full, or it is dead.

Source: Pegasus ``fs_manager::find_best_dir_for_new_replica``: only a disk in state normal takes a
replica.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from core.diagnosis.model import Cause
from core.diagnosis.pegasus.context import PegasusDiagnosisContext
from core.pegasus.server_settings import BLACK_LIST
from core.pegasus.snapshot import DISK_MIN_AVAILABLE_RATIO
from core.units import format_ratio

SPACE: Final = "disk_min_available_space_ratio"


def full_nodes(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """Copies to a node without space are refused, and planned again every time."""
    if not context.full_nodes:
        return
    full = frozenset(context.full_nodes)
    proof = None
    if context.unhealthy.size:
        proof = context.necessary(replace(context.full_repair, refusing=full))
    is_repair = proof is not None
    if proof is None:
        proof = context.proven(context.opened, replace(context.opened, has_space=True))
    if proof is None:
        return
    name = context.full_nodes[0]
    free = max(
        row["available_mb"] / row["capacity_mb"]
        for row in context.facts.rows("disks")
        if row["node"] == name
    )
    more = f" and {len(context.full_nodes) - 1} more" if context.full_nodes[1:] else ""
    limit, _ = context.facts.full_disk_ratios.get(name, (DISK_MIN_AVAILABLE_RATIO, False))
    yield Cause(
        code="node_disks_full",
        keys=(SPACE,),
        objects=context.full_nodes,
        summary=f"No disk with {format_ratio(limit)} free (max: {format_ratio(free)}) on "
        f"{name}{more}: copies there are refused and planned again{proof.scope}.",
        effect=proof.effect,
        hint=f"Add disks or free space on {name}. Until then "
        + ("partitions lack replicas." if is_repair else "the balancer does not converge."),
        measured=free,
        threshold=limit,
        unit="ratio",
    )


def dead_node(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """The node in question is dead."""
    if context.node is None or context.node in context.alive:
        return
    back = replace(context.opened, joined=(context.node,))
    proof = context.proven(context.opened, back, adds_places=True)
    if proof is None:
        return
    yield Cause(
        code="node_dead",
        objects=(context.node,),
        summary=f"{context.node} is dead: the failure detector receives no beacon (limit 22 s).",
        effect=proof.effect,
        hint=f"Start {context.node}; level lively then moves replicas to it.",
    )


def black_listed(context: PegasusDiagnosisContext) -> Iterator[str]:
    """Give a note where the black list is not what it seems to be."""
    if context.node in context.black_list and not context.unhealthy.size:
        yield (
            f"{context.node} is on {BLACK_LIST}: repairs exclude it, but the balancer "
            "ignores the list."
        )
