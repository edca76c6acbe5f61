"""Every node and every table, in sums; a sum with an unknown is unknown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan
from typing import Final

import numpy as np

from core.pegasus.columns import Floats, NodeStatus
from core.pegasus.health import HealthState, ListedHealth
from core.pegasus.ids import gpid_text
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.table_envs import denial_of, throttles_of
from core.pegasus.view import NO_NODE, Flags
from core.schemas.pegasus import ADDED_LATER
from core.units import is_whole

MIN_2PC: Final = "mutation_2pc_min_replica_count"
_COMPILED_MIN_2PC: Final = 2
NODE_STATS: Final = tuple(
    name
    for name in ADDED_LATER["nodes"]
    if name
    not in ("started_at", "is_answering", "disk_min_available_ratio", "min_2pc_replica_count")
)
"""What a node reports of itself beyond the columns of :class:`NodeSummary`."""


@dataclass(frozen=True)
class ReplicaLoad:
    """Total load of replicas; ``None`` if unknown for one of them.

    Attributes:
        size_mb: Of all replicas.
        read_rate: Requests/s; only primaries serve them.
        write_rate: Requests/s, as the primaries count them.
    """

    size_mb: float | None
    read_rate: float | None
    write_rate: float | None


@dataclass(frozen=True)
class NodeSummary:
    """A node.

    Attributes:
        name: Registered name.
        is_alive: The failure detector's word.
        status: Such as ``alive``, ``drained`` or ``down``; see :data:`NodeStatus`.
        primaries: It serves.
        secondaries: It keeps.
        carried: By its replicas.
        disk_capacity_mb: Of its disks; ``None`` if unknown.
        disk_available_mb: The same.
        memory_mb: Resident; ``None`` if unknown.
        learning: Replicas that it is copying; ``None`` if unknown.
        version: ``None`` if unknown.
        stats: What ``nodes -u -q`` and ``server_stat`` show of it, by column of the snapshot.
    """

    name: str
    is_alive: bool
    status: NodeStatus
    primaries: int
    secondaries: int
    carried: ReplicaLoad
    disk_capacity_mb: int | None
    disk_available_mb: int | None
    memory_mb: float | None
    learning: int | None
    version: str | None
    stats: dict[str, float | int | None]


def summarize_nodes(facts: PegasusFacts) -> list[NodeSummary]:
    """Return every node, by host and port; counts of partitions that were read."""
    columns = facts.columns
    led = columns.counts(primaries_only=True).sum(axis=0).tolist()
    held = columns.counts(primaries_only=False).sum(axis=0).tolist()
    carried = _carried(
        columns.per_node("size_mb", primaries_only=False),
        columns.per_node("read_rate", primaries_only=True),
        columns.per_node("write_rate", primaries_only=True),
    )
    capacity, available = _disk_sums(facts)
    return [
        NodeSummary(
            name=row["node"],
            is_alive=row["is_alive"],
            status=columns.node_statuses[at],
            primaries=led[at],
            secondaries=held[at] - led[at],
            carried=carried[at],
            disk_capacity_mb=capacity.get(row["node"]),
            disk_available_mb=available.get(row["node"]),
            memory_mb=row["resident_memory_mb"],
            learning=row["learning_replicas"],
            version=row["version"],
            stats={name: row[name] for name in NODE_STATS},
        )
        for at, row in enumerate(facts.rows("nodes"))
    ]


def _disk_sums(facts: PegasusFacts) -> tuple[dict[str, int], dict[str, int]]:
    """Return capacity and room by node; a node that did not report its disks is not there."""
    capacity: dict[str, int] = {}
    available: dict[str, int] = {}
    for row in facts.rows("disks"):
        node = row["node"]
        capacity[node] = capacity.get(node, 0) + row["capacity_mb"]
        available[node] = available.get(node, 0) + row["available_mb"]
    return capacity, available


def _carried(size_mb: Floats, reads: Floats, writes: Floats) -> list[ReplicaLoad]:
    sums = zip(size_mb.tolist(), reads.tolist(), writes.tolist(), strict=True)
    return [ReplicaLoad(*(None if isnan(value) else value for value in one)) for one in sums]


@dataclass(frozen=True)
class TableSummary:
    """An available table.

    Attributes:
        app_id: Its id.
        name: Its name.
        partition_count: Partitions.
        max_replica_count: Wanted replicas.
        carried: By its replicas.
        states: Partitions by state, counting ``states``; ``None`` if they were not read.
        listed: Counting ``listed`` by upstream's words; the same.
        unwritable: Partitions that take no write now, for whatever reason; the same.
        notes: What else concerns its clients or the balancer, a few words each.
        stats: What ``app_stat`` shows of it: sums over its primaries, and ratios of 0 to 1.
    """

    app_id: int
    name: str
    partition_count: int
    max_replica_count: int
    carried: ReplicaLoad
    states: dict[str, int] | None
    listed: dict[str, int] | None
    unwritable: int | None
    notes: tuple[str, ...]
    stats: dict[str, float | None]


def summarize_tables(facts: PegasusFacts) -> list[TableSummary]:
    """Return every available table by id."""
    columns = facts.columns
    states = columns.table_states(minimum_2pc(facts))
    carried = _carried(
        columns.per_table("size_mb", primaries_only=False),
        columns.per_table("read_rate", primaries_only=True),
        columns.per_table("write_rate", primaries_only=True),
    )
    unwritable = np.bincount(
        columns.part_table[unwritable_partitions(facts)], minlength=columns.table_count
    )
    stats = {name: _known(values) for name, values in facts.app_stat.per_table().items()}
    return [
        TableSummary(
            app_id=int(app_id),
            name=columns.app_names[at],
            partition_count=int(columns.partition_counts[at]),
            max_replica_count=int(columns.max_replica_counts[at]),
            carried=carried[at],
            states=_by_word(states[at]) if columns.is_read[at] else None,
            listed=_listed(columns.listed, at) if columns.is_read[at] else None,
            unwritable=int(unwritable[at]) if columns.is_read[at] else None,
            notes=table_notes(facts, int(app_id)),
            stats={name: values[at] for name, values in stats.items()},
        )
        for at, app_id in enumerate(columns.app_ids)
    ]


def _known(values: Floats) -> list[float | None]:
    return [None if isnan(value) else value for value in values.tolist()]


def minimum_2pc(facts: PegasusFacts) -> int:
    """Return ``mutation_2pc_min_replica_count`` as reported, else as compiled."""
    reported = facts.snapshot.settings.get(MIN_2PC, "")
    return int(reported) if is_whole(reported) else _COMPILED_MIN_2PC


def unwritable_partitions(facts: PegasusFacts) -> Flags:
    """Return the partitions that refuse writes now, shape ``(n_partitions,)``.

    Without a primary, with fewer replicas than a write needs, or because the table's environment
    denies writes; a child of a split that has not registered is served by its parent.
    """
    columns = facts.columns
    denied = [
        app_id
        for app_id, table in facts.tables.items()
        if (denial := denial_of(table.envs)) is not None and "writes" in denial.requests
    ]
    is_denied = np.isin(columns.app_ids[columns.part_table], denied)
    is_headless = (columns.part_primary == NO_NODE) & ~columns.is_child
    return np.asarray(columns.refuses_writes(minimum_2pc(facts)) | is_headless | is_denied)


def table_notes(facts: PegasusFacts, app_id: int) -> tuple[str, ...]:
    """Return notes on a table for clients or the balancer, except health, a few words each."""
    table = facts.tables[app_id]
    denial = denial_of(table.envs)
    notes = [f"denies {' and '.join(denial.requests)}"] if denial is not None else []
    limited = {one.requests for one in throttles_of(table.envs, table.partition_count)}
    notes += [f"limits {requests}" for requests in sorted(limited)]
    left = facts.children_of.get(app_id, 0)
    if left:
        notes.append(f"split: {left:,} to register")
    if table.is_bulk_loading:
        notes.append("bulk load")
    notes += facts.duplication_notes.get(app_id, ["duplicated"] if table.is_duplicating else [])
    return (*notes, *(f"backup {name}" for name in facts.policies_of.get(app_id, ())))


def guardian_unhealthy(facts: PegasusFacts) -> list[str]:
    """Return the gpids that the guardian counts as unhealthy, without pending proposals."""
    columns = facts.columns
    unhealthy = ~columns.is_guardian_healthy
    app_ids = columns.app_ids[columns.part_table[unhealthy]].tolist()
    indexes = columns.part_index[unhealthy].tolist()
    return [gpid_text(*one) for one in sorted(zip(app_ids, indexes, strict=True))]


def _by_word(counts: Iterable[int]) -> dict[str, int]:
    pairs = zip(HealthState, counts, strict=True)
    return {state.name.lower(): int(count) for state, count in pairs}


def _listed(listed: ListedHealth, place: int) -> dict[str, int]:
    return {
        "fully_healthy": int(listed.fully_healthy[place]),
        "unhealthy": int(listed.unhealthy[place]),
        "write_unhealthy": int(listed.write_unhealthy[place]),
        "read_unhealthy": int(listed.read_unhealthy[place]),
    }
