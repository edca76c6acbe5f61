"""Rules about nodes and their disks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow.compute as pc

from core.findings.finding import FREE, Finding
from core.findings.quantity import Quantity
from core.pegasus.rules.context import PegasusContext, partitions_cost
from core.pegasus.snapshot import DISK_MIN_AVAILABLE, DISK_MIN_AVAILABLE_RATIO
from core.units import format_ratio

SCARCE_FACTOR: Final = 2.0
"""Free space below so many times the limit is scarce."""


def dead_nodes(context: PegasusContext) -> Iterator[Finding]:
    """Nodes that the failure detector has given up."""
    for node in context.facts.nodes:
        if not node.is_alive:
            yield Finding(
                code="node_dead",
                title="Node is dead",
                severity="error",
                subject_kind="node",
                subject=node.name,
                sentence=f"{node.name} is dead: the failure detector hears nothing of it.",
                hint="Start it again, or take it out of service; its replicas are copied elsewhere "
                "once the time that it is waited for is over.",
            )


def silent_nodes(context: PegasusContext) -> Iterator[Finding]:
    """Nodes that are alive for the failure detector and did not answer the capture."""
    for name in context.facts.columns.nodes_with("not answering"):
        yield Finding(
            code="node_not_answering",
            title="Node does not answer",
            severity="error",
            subject_kind="node",
            subject=name,
            sentence=f"{name} is suspected dead: the failure detector hears it, but it does not "
            "answer; its disks, sizes and rates are unknown. No plan gives it anything.",
            hint="Check its process and load. The failure detector gives up a node that sends no "
            "beacon for its grace period (22 s by default).",
        )


def disks_short_of_space(context: PegasusContext) -> Iterator[Finding]:
    """Nodes with a disk that is nearly full, by the fullest one, and by the node's own flag."""
    worst: dict[str, tuple[float, str]] = {}
    for row in context.facts.rows("disks"):
        if row["capacity_mb"] > 0:
            free = row["available_mb"] / row["capacity_mb"]
            at = (free, row["disk"])
            worst[row["node"]] = min(at, worst.get(row["node"], at))
    limits = context.facts.full_disk_ratios
    for node, (free, disk) in sorted(worst.items(), key=lambda item: item[1]):
        limit, is_reported = limits.get(node, (DISK_MIN_AVAILABLE_RATIO, False))
        if free >= SCARCE_FACTOR * limit:
            continue
        is_short = free < limit
        below = (
            f"below {format_ratio(limit)} it takes no new replica, and every partition on it "
            "rejects writes unless reject_write_when_disk_insufficient is false"
        )
        origin = f"{DISK_MIN_AVAILABLE} of the node" if is_reported else "compiled, not reported"
        yield Finding(
            code="disk_short" if is_short else "disk_scarce",
            title="Disk space is short" if is_short else "Disk space is scarce",
            measured=Quantity(free, "ratio"),
            limit=Quantity(limit if is_short else SCARCE_FACTOR * limit, "ratio"),
            severity="error" if is_short else "warning",
            subject_kind="node",
            subject=node,
            sentence=f"{disk} of {node} has {format_ratio(free)} of its space free; {below} "
            f"({origin}).",
            evidence={"disk": disk, "available_ratio": free, "limit_ratio": limit},
            hint="Move replicas away by size (Balance), or add space.",
            keys=(DISK_MIN_AVAILABLE,),
            cost=partitions_cost(_held_on(context, node, disk)) if is_short else FREE,
            assumed=() if is_reported else (DISK_MIN_AVAILABLE,),
        )


def _held_on(context: PegasusContext, node: str, disk: str) -> int:
    """Return how many partitions have a replica on a disk."""
    rows = context.snapshot.tables["replicas"]
    is_there = pc.and_(pc.equal(rows["node"], node), pc.equal(rows["disk"], disk))
    return int(pc.sum(pc.fill_null(is_there, fill_value=False)).as_py() or 0)
