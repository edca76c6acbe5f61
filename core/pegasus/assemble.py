"""A ``ClusterView`` out of what a live cluster answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from core.errors import IncompleteSnapshotError
from core.pegasus.answers import DiskEntry, NodeEntry, TableEntry, TableStatus
from core.pegasus.ids import parse_node
from core.pegasus.partition import PartitionConfig
from core.pegasus.view import NO_NODE, ClusterView, Ints


def view_of_answers(
    nodes: Sequence[NodeEntry],
    tables: Mapping[TableEntry, Sequence[PartitionConfig]],
    disks: Mapping[str, Sequence[DiskEntry]],
    *,
    numbering: Sequence[str] | None = None,
) -> ClusterView:
    """Return the state that a cluster reported.

    Args:
        nodes: As the meta server lists them. A dead one counts while it has replicas, as it does
            for the meta server.
        tables: Available tables with all of their partitions.
        disks: Disks by node; a node that did not answer is left out, and the disks of its replicas
            are unknown.
        numbering: The order that breaks ties, of the nodes that count; by default that of names.
            The real one cannot be requested.

    Raises:
        IncompleteSnapshotError: A partition is missing, or on a node that is not listed.
    """
    configs = [
        one
        for table in sorted(tables, key=lambda table: table.app_id)
        for one in _whole(table, tables[table])
    ]
    serving = {name for config in configs for name in config.members}
    names = {node.name for node in nodes if node.is_alive or node.name in serving}
    strangers = sorted(serving - names)
    if strangers:
        raise IncompleteSnapshotError(
            f"A partition is on {strangers[0]}, which is not in the node list.",
            hint="Read both again: the node may have just joined or left.",
        )
    ordered = tuple(numbering) if numbering is not None else tuple(sorted(names, key=parse_node))
    tags = tuple(sorted({disk.tag for listed in disks.values() for disk in listed}))
    members, member_disks = _coded(configs, ordered, tags, disks)
    listed = sorted(tables, key=lambda table: table.app_id)
    counts = [table.partition_count for table in listed]
    return ClusterView(
        nodes=ordered,
        disks=tags,
        app_ids=np.array([table.app_id for table in listed], dtype=np.int32),
        app_names=tuple(table.name for table in listed),
        max_replica_counts=np.array([table.max_replica_count for table in listed], dtype=np.int32),
        is_balanceable=np.array(
            [_counts(table) and not any(one.is_child for one in tables[table]) for table in listed],
            dtype=np.bool_,
        ),
        first_rows=np.cumsum([0, *counts]).astype(np.int32),
        members=members,
        member_disks=member_disks,
        node_disks=tuple(
            tuple(tags.index(disk.tag) for disk in disks.get(name, ())) for name in ordered
        ),
        children=frozenset(row for row, config in enumerate(configs) if config.is_child),
    )


def _counts(table: TableEntry) -> bool:
    return table.status is TableStatus.AVAILABLE and not table.is_bulk_loading


def _whole(table: TableEntry, configs: Sequence[PartitionConfig]) -> list[PartitionConfig]:
    ordered = sorted(configs, key=lambda config: config.index)
    if [config.index for config in ordered] != list(range(table.partition_count)):
        raise IncompleteSnapshotError(
            f"Table {table.name} has {table.partition_count} partitions; {len(ordered)} were read.",
            hint="Read the table again.",
        )
    return ordered


def _coded(
    configs: Sequence[PartitionConfig],
    nodes: Sequence[str],
    tags: Sequence[str],
    disks: Mapping[str, Sequence[DiskEntry]],
) -> tuple[Ints, Ints]:
    node_code = {name: code for code, name in enumerate(nodes)}
    disk_of = {
        (name, gpid): tags.index(disk.tag)
        for name, listed in disks.items()
        for disk in listed
        for gpid in disk.primaries | disk.secondaries
    }
    width = max((1 + len(config.secondaries) for config in configs), default=1)
    members = np.full((len(configs), width), NO_NODE, dtype=np.int32)
    member_disks = members.copy()
    for row, config in enumerate(configs):
        for role, name in enumerate((config.primary, *config.secondaries)):
            if name is not None:
                members[row, role] = node_code[name]
                gpid = (config.app_id, config.index)
                member_disks[row, role] = disk_of.get((name, gpid), NO_NODE)
    return members, member_disks
