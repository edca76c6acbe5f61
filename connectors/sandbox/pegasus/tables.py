"""Tables of the sandbox that are made or changed while it runs, as a shell or a client would do.

Each function changes the books at once; call it by :meth:`PegasusSandbox.change`.
"""

from __future__ import annotations

from dataclasses import replace

from connectors.sandbox.pegasus.state import ClusterState, Partition
from core.pegasus.answers import BackupPolicyEntry, DuplicationEntry, TableEntry, TableStatus
from core.pegasus.partition import UNKNOWN, PartitionConfig, PartitionMemory

_FIRST_BALLOT = 1


def create_table(state: ClusterState, name: str, partitions: int, replicas: int) -> int:
    """Add a whole table, placed in turn, and return its id."""
    app_id = max(state.tables, default=0) + 1
    names = list(state.nodes)
    state.tables[app_id] = TableEntry(
        app_id=app_id,
        name=name,
        status=TableStatus.AVAILABLE,
        partition_count=partitions,
        max_replica_count=replicas,
        envs={},
        create_s=1_700_000_000,
        drop_s=0,
        expire_s=0,
        is_bulk_loading=False,
        is_duplicating=False,
    )
    for index in range(partitions):
        members = [names[(index + role) % len(names)] for role in range(replicas)]
        config = PartitionConfig(
            app_id=app_id,
            index=index,
            ballot=_FIRST_BALLOT,
            max_replica_count=replicas,
            primary=members[0],
            secondaries=tuple(members[1:]),
        )
        partition = Partition(config, {}, size_mb=100.0, reads_per_s=10.0, writes_per_s=5.0)
        state.partitions[app_id, index] = partition
        for node in members:
            partition.disks[node] = state.roomiest_disk(node, app_id)
        partition.memory = PartitionMemory(serving=dict(partition.disks))
    return app_id


def drop_table(state: ClusterState, name: str) -> None:
    """Drop a table: its partitions are on no node any more."""
    app_id = _table(state, name).app_id
    del state.tables[app_id]
    for gpid in [gpid for gpid in state.partitions if gpid[0] == app_id]:
        del state.partitions[gpid]


def set_env(state: ClusterState, name: str, key: str, value: str | None) -> None:
    """Set one value of a table's environment; ``None`` deletes it."""
    table = _table(state, name)
    envs = {one: text for one, text in table.envs.items() if one != key}
    _replace(state, replace(table, envs=envs if value is None else {**envs, key: value}))


def begin_split(state: ClusterState, name: str) -> None:
    """Double the partitions of a table: each child has to register before it serves."""
    table = _table(state, name)
    for index in range(table.partition_count, 2 * table.partition_count):
        config = PartitionConfig(
            app_id=table.app_id,
            index=index,
            ballot=UNKNOWN,
            max_replica_count=table.max_replica_count,
            primary=None,
        )
        state.partitions[table.app_id, index] = Partition(config, {}, 0.0, 0.0, 0.0)
    state.partitions = dict(sorted(state.partitions.items()))
    _replace(state, replace(table, partition_count=2 * table.partition_count))


def register_children(state: ClusterState, name: str, count: int) -> None:
    """Let the next children of a split register: each is where its parent is."""
    table = _table(state, name)
    left = [one for one in state.of_table(table.app_id) if one.config.is_child]
    for child in left[:count]:
        parent = state.partitions[table.app_id, child.config.index - table.partition_count // 2]
        child.config = replace(
            parent.config, index=child.config.index, ballot=parent.config.ballot + 1
        )
        child.disks = dict(parent.disks)
        child.memory = PartitionMemory(serving=dict(parent.disks))
        parent.size_mb = child.size_mb = parent.size_mb / 2
        parent.reads_per_s = child.reads_per_s = parent.reads_per_s / 2
        parent.writes_per_s = child.writes_per_s = parent.writes_per_s / 2


def duplicate(state: ClusterState, name: str, entry: DuplicationEntry) -> None:
    """Add or change a duplication of a table; the id of the table is set here."""
    table = _table(state, name)
    entry = replace(entry, app_id=table.app_id)
    others = [one for one in state.duplications if one.dup_id != entry.dup_id]
    state.duplications = [*others, entry]
    _replace(state, replace(table, is_duplicating=True))


def add_policy(state: ClusterState, policy: BackupPolicyEntry) -> None:
    """Add a policy of periodic backups."""
    state.policies = [*state.policies, policy]


def _table(state: ClusterState, name: str) -> TableEntry:
    table = state.table_named(name)
    if table is None:
        raise KeyError(name)
    return table


def _replace(state: ClusterState, table: TableEntry) -> None:
    state.tables[table.app_id] = table
