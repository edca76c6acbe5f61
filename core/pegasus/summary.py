"""What a snapshot says of every node and every table, in sums; a sum with an unknown is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from core.pegasus.health import (
    HealthState,
    ListedHealth,
    Membership,
    guardian_healthy,
    health_states,
    state_counts,
)
from core.pegasus.ids import gpid_text
from core.pegasus.snapshot import PegasusFacts

MIN_2PC: Final = "mutation_2pc_min_replica_count"
_COMPILED_MIN_2PC: Final = 2


@dataclass(frozen=True)
class Carried:
    """What replicas carry together; ``None``: of one of them it is unknown.

    Attributes:
        size_mb: Of all replicas.
        read_rate: Requests/s; only primaries serve them.
        write_rate: Requests/s, as the primaries count them.
    """

    size_mb: float | None
    read_rate: float | None
    write_rate: float | None

    @classmethod
    def of(cls, replicas: Iterable[Mapping[str, Any]]) -> Carried:
        """Add up; rates of primaries only."""
        every = list(replicas)
        led = [one for one in every if one["is_primary"]]
        return cls(
            _sum(one["size_mb"] for one in every),
            _sum(one["read_rate"] for one in led),
            _sum(one["write_rate"] for one in led),
        )


@dataclass(frozen=True)
class NodeSummary:
    """A node.

    Attributes:
        name: Registered name.
        is_alive: The failure detector's word.
        primaries: It serves.
        secondaries: It keeps.
        carried: By its replicas.
        disk_capacity_mb: Of its disks; ``None``: unknown.
        disk_available_mb: The same.
        memory_mb: Resident; ``None``: unknown.
        learning: Replicas that it is copying; ``None``: unknown.
        version: ``None``: unknown.
    """

    name: str
    is_alive: bool
    primaries: int
    secondaries: int
    carried: Carried
    disk_capacity_mb: int | None
    disk_available_mb: int | None
    memory_mb: float | None
    learning: int | None
    version: str | None


def summarize_nodes(facts: PegasusFacts) -> list[NodeSummary]:
    """Return every node, by host and port; counts of partitions that were read."""
    replicas: dict[str, list[dict[str, Any]]] = {}
    for row in facts.rows("replicas"):
        replicas.setdefault(row["node"], []).append(row)
    found = []
    for row in facts.rows("nodes"):
        held = replicas.get(row["node"], [])
        led = sum(one["is_primary"] for one in held)
        disks = facts.disks.get(row["node"])
        found.append(
            NodeSummary(
                name=row["node"],
                is_alive=row["is_alive"],
                primaries=led,
                secondaries=len(held) - led,
                carried=Carried.of(held),
                disk_capacity_mb=sum(one.capacity_mb for one in disks) if disks else None,
                disk_available_mb=sum(one.available_mb for one in disks) if disks else None,
                memory_mb=row["resident_memory_mb"],
                learning=row["learning_replicas"],
                version=row["version"],
            )
        )
    return found


@dataclass(frozen=True)
class TableSummary:
    """An available table.

    Attributes:
        app_id: Its id.
        name: Its name.
        partition_count: Partitions.
        max_replica_count: Wanted replicas.
        carried: By its replicas.
        states: Partitions by state, counting ``states``; ``None``: they were not read.
        listed: Counting ``listed`` by upstream's words; the same.
    """

    app_id: int
    name: str
    partition_count: int
    max_replica_count: int
    carried: Carried
    states: dict[str, int] | None
    listed: dict[str, int] | None


def summarize_tables(facts: PegasusFacts) -> list[TableSummary]:
    """Return every available table by id."""
    ids = sorted(facts.tables)
    membership = membership_of(facts)
    states = state_counts(
        health_states(membership, minimum_2pc(facts)), membership.tables, len(ids)
    )
    listed = ListedHealth.of(membership, len(ids))
    replicas: dict[int, list[dict[str, Any]]] = {}
    for row in facts.rows("replicas"):
        replicas.setdefault(row["app_id"], []).append(row)
    found = []
    for place, app_id in enumerate(ids):
        table = facts.tables[app_id]
        is_read = len(facts.partitions[app_id]) == table.partition_count
        found.append(
            TableSummary(
                app_id=app_id,
                name=table.name,
                partition_count=table.partition_count,
                max_replica_count=table.max_replica_count,
                carried=Carried.of(replicas.get(app_id, []))
                if is_read
                else Carried(None, None, None),
                states=_by_word(states[place]) if is_read else None,
                listed=_listed(listed, place) if is_read else None,
            )
        )
    return found


def minimum_2pc(facts: PegasusFacts) -> int:
    """Return ``mutation_2pc_min_replica_count`` as told, else as compiled."""
    told = facts.snapshot.settings.get(MIN_2PC, "")
    return int(told) if told.isdecimal() else _COMPILED_MIN_2PC


def membership_of(facts: PegasusFacts) -> Membership:
    """Return what health is judged by, of all partitions that were read, in gpid order."""
    ids = sorted(facts.tables)
    configs = [config for app_id in ids for config in facts.partitions[app_id]]
    places = {app_id: place for place, app_id in enumerate(ids)}
    return Membership(
        has_primary=np.array([config.primary is not None for config in configs], dtype=np.bool_),
        secondary_counts=np.array([len(one.secondaries) for one in configs], dtype=np.int32),
        max_replica_counts=np.array([one.max_replica_count for one in configs], dtype=np.int32),
        tables=np.array([places[one.app_id] for one in configs], dtype=np.int32),
    )


def guardian_ill(facts: PegasusFacts) -> list[str]:
    """Return the gpids that the guardian calls ill, pending proposals left out of account."""
    ids = sorted(facts.tables)
    names = [gpid_text(one.app_id, one.index) for key in ids for one in facts.partitions[key]]
    healthy = guardian_healthy(membership_of(facts), np.zeros(len(names), dtype=np.bool_))
    return [name for name, is_fine in zip(names, healthy.tolist(), strict=True) if not is_fine]


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


def _sum(values: Iterable[float | None]) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total
