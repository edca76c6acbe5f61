"""Rules about nodes and their disks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow.compute as pc

from core.findings.finding import FREE, Finding
from core.findings.quantity import Quantity
from core.pegasus.columns import BLACK_LIST
from core.pegasus.rules.context import PegasusContext, partitions_cost
from core.pegasus.snapshot import DISK_MIN_AVAILABLE, DISK_MIN_AVAILABLE_RATIO
from core.units import format_band, format_deviation, format_ratio, pluralize

MIN_OFF_COUNT: Final = 2.0
"""Replicas that a node has more or less than the mean before its deviation is a finding."""

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
                sentence=f"{node.name} is dead: the failure detector receives no beacon.",
                hint="Start it again, or decommission it; its replicas are copied elsewhere when "
                "the waiting time ends.",
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
            sentence=f"{name} is suspected dead: the failure detector receives its beacon, but it "
            "does not answer; its disks, sizes and rates are unknown. Plans exclude it "
            "as a target.",
            hint="Check its process and load. The failure detector declares a node dead that "
            "sends no beacon for its grace period (22 s by default).",
        )


def set_aside_nodes(context: PegasusContext) -> Iterator[Finding]:
    """Nodes that are empty on purpose, or are being emptied; no mean counts them."""
    columns = context.facts.columns
    held = dict(zip(columns.nodes, columns.counts(primaries_only=False).sum(axis=0), strict=True))
    for name in columns.nodes_with("drained"):
        yield _of_node(
            "node_drained",
            "Node is drained",
            name,
            0,
            f"{name} has no replicas: it was drained. It is not compared with the other nodes.",
            "Level lively, or a balance plan that includes it, moves replicas to it again.",
        )
    for name in columns.nodes_with("excluded"):
        count = int(held[name])
        yield _of_node(
            "node_excluded",
            "Node is excluded",
            name,
            count,
            f"{name} is on the {BLACK_LIST} and has {pluralize(count, 'replica')}: it "
            "receives no new secondary. It is not compared with the other nodes.",
            f"Remove it from meta.lb.{BLACK_LIST} when its maintenance is over.",
        )


def _of_node(code: str, title: str, name: str, count: int, sentence: str, hint: str) -> Finding:
    return Finding(
        code=code,
        title=title,
        measured=Quantity(count, "replicas"),
        severity="info",
        subject_kind="node",
        subject=name,
        sentence=sentence,
        hint=hint,
    )


def nodes_off_target(context: PegasusContext) -> Iterator[Finding]:
    """Nodes whose primaries or replicas are farther from the mean than the target allows.

    Not while partitions are unhealthy: a repair moves replicas. Not for less than
    :data:`MIN_OFF_COUNT` replicas: a small cluster cannot be more even.
    """
    columns, target = context.facts.columns, context.facts.target_ratio
    if context.ill_count or not columns.is_read.all() or not columns.is_compared.any():
        return
    found: list[tuple[float, str, str, int, float]] = []
    counts = {
        "primaries": columns.counts(primaries_only=True).sum(axis=0),
        "replicas": columns.counts(primaries_only=False).sum(axis=0),
    }
    offs = {
        "primaries": columns.deviations(primaries_only=True),
        "replicas": columns.deviations(primaries_only=False),
    }
    means = {name: float(one[columns.is_compared].mean()) for name, one in counts.items()}
    for at in np.flatnonzero(columns.is_compared).tolist():
        what = max(offs, key=lambda name: abs(np.nan_to_num(offs[name][at])))
        off, count = float(offs[what][at]), int(counts[what][at])
        if abs(off) > target and abs(count - means[what]) >= MIN_OFF_COUNT:
            found.append((off, columns.nodes[at], what, count, means[what]))
    for off, name, what, count, mean in sorted(found, key=lambda one: -abs(one[0])):
        yield Finding(
            code="node_deviation",
            title=f"{what.capitalize()} outside the target band",
            measured=Quantity(off, "deviation"),
            limit=Quantity(target, "band"),
            severity="warning",
            subject_kind="node",
            subject=name,
            sentence=f"{name} has {count:,} {what}, {format_deviation(off)} from the mean of "
            f"{mean:,.1f}; the target is {format_band(target)}.",
            evidence={"measure": what, "count": count, "mean": mean, "deviation": off},
            hint="Balance shows the moves that balance the nodes.",
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
        origin = (
            f"{DISK_MIN_AVAILABLE} of the node" if is_reported else "compiled default, not reported"
        )
        yield Finding(
            code="disk_short" if is_short else "disk_scarce",
            title="Disk space is critically low" if is_short else "Disk space is low",
            measured=Quantity(free, "ratio"),
            limit=Quantity(limit if is_short else SCARCE_FACTOR * limit, "ratio"),
            severity="error" if is_short else "warning",
            subject_kind="node",
            subject=node,
            sentence=f"{disk} of {node} has {format_ratio(free)} free space; {below} ({origin}).",
            evidence={"disk": disk, "available_ratio": free, "limit_ratio": limit},
            hint="Move replicas away by size (Balance), or add disks.",
            keys=(DISK_MIN_AVAILABLE,),
            cost=partitions_cost(_held_on(context, node, disk)) if is_short else FREE,
            assumed=() if is_reported else (DISK_MIN_AVAILABLE,),
        )


def _held_on(context: PegasusContext, node: str, disk: str) -> int:
    """Return the number of partitions with a replica on a disk."""
    rows = context.snapshot.tables["replicas"]
    is_there = pc.and_(pc.equal(rows["node"], node), pc.equal(rows["disk"], disk))
    return int(pc.sum(pc.fill_null(is_there, fill_value=False)).as_py() or 0)
