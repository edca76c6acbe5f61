"""Rules about nodes and their disks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pegasus.rules.context import PegasusContext
from core.units import format_ratio

SHORT_RATIO: Final = 0.10
"""Below this share of free space a replica server takes no new replica on a disk.

Source: Pegasus ``disk_min_available_space_ratio``, 10 percent as compiled.
"""

SCARCE_RATIO: Final = 0.20


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
    """Nodes with a disk that is nearly full, by the fullest one."""
    worst: dict[str, tuple[float, str]] = {}
    for row in context.facts.rows("disks"):
        if row["capacity_mb"] > 0:
            free = row["available_mb"] / row["capacity_mb"]
            at = (free, row["disk"])
            worst[row["node"]] = min(at, worst.get(row["node"], at))
    for node, (free, disk) in sorted(worst.items(), key=lambda item: item[1]):
        if free >= SCARCE_RATIO:
            return
        is_short = free < SHORT_RATIO
        yield Finding(
            code="disk_short" if is_short else "disk_scarce",
            title="Disk space is short" if is_short else "Disk space is scarce",
            measured=Quantity(free, "ratio"),
            limit=Quantity(SHORT_RATIO if is_short else SCARCE_RATIO, "ratio"),
            severity="error" if is_short else "warning",
            subject_kind="node",
            subject=node,
            sentence=f"{disk} of {node} has {format_ratio(free)} of its space free"
            + ("; below 10% it takes no new replica." if is_short else "."),
            evidence={"disk": disk, "available_ratio": free},
            hint="Move replicas away by size (Balance), or add space.",
        )
