"""What a Pegasus cluster answers, as values: nodes, tables, disks, cluster information."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from core.pegasus.ddd import DddNode
from core.pegasus.partition import PartitionConfig
from core.pegasus.verdict import OperationCounts


class TableStatus(enum.IntEnum):
    """Upstream ``app_status``."""

    INVALID = 0
    AVAILABLE = 1
    CREATING = 2
    CREATE_FAILED = 3
    DROPPING = 4
    DROP_FAILED = 5
    DROPPED = 6
    RECALLING = 7


@dataclass(frozen=True)
class NodeEntry:
    """A replica server as the meta server lists it.

    Attributes:
        name: The registered name ``host:port``: the only one that proposals may use.
        address: The same as IPv4 and port; ``None`` if not reported.
        is_alive: The failure detector's word.
    """

    name: str
    address: str | None
    is_alive: bool


@dataclass(frozen=True, eq=False)
class TableEntry:
    """A table as the meta server lists it; times are seconds since the epoch, 0 is never.

    Each is a key of its own: two answers about one table are two entries.
    """

    app_id: int
    name: str
    status: TableStatus
    partition_count: int
    max_replica_count: int
    envs: Mapping[str, str]
    create_s: int
    drop_s: int
    expire_s: int
    is_bulk_loading: bool
    is_duplicating: bool


@dataclass(frozen=True)
class DiskEntry:
    """A disk of a replica server.

    Attributes:
        tag: Its name in ``data_dirs``.
        directory: Its path.
        capacity_mb: Megabytes in all; measured every ten minutes.
        available_mb: Megabytes free; the same.
        primaries: Partitions ``(app_id, index)`` that it holds the primary of; counted every ten
            minutes, none before ten minutes after the server's start.
        secondaries: Partitions that it holds a secondary of; the same.
    """

    tag: str
    directory: str
    capacity_mb: int
    available_mb: int
    primaries: frozenset[tuple[int, int]]
    secondaries: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class DddEntry:
    """A partition without any replica, as the last tick that cured left it."""

    config: PartitionConfig
    dropped: tuple[DddNode, ...]
    reason: str


DUPLICATION_STATES: Final = ("init", "prepare", "app", "log", "pause", "removed")
"""Upstream ``duplication_status``, by number."""
FAIL_MODES: Final = ("slow", "skip", "fast")
"""Upstream ``duplication_fail_mode``, by number."""


@dataclass(frozen=True)
class DuplicationEntry:
    """A duplication of a table, as the meta server lists it.

    Attributes:
        app_id: The table.
        dup_id: Which of its duplications.
        status: One of :data:`DUPLICATION_STATES`.
        remote: Name of the other cluster.
        remote_table: Its name there; ``None`` if not reported.
        fail_mode: One of :data:`FAIL_MODES`; ``None`` if not reported.
        create_ms: When it was added; milliseconds since the epoch.
        partitions: Partitions that are reported.
        lags: Mutations that are committed here and not confirmed there, by partition; empty: not
            reported, as by releases before 2.6.
    """

    app_id: int
    dup_id: int
    status: str
    remote: str
    remote_table: str | None
    fail_mode: str | None
    create_ms: int
    partitions: int
    lags: Mapping[int, int]


@dataclass(frozen=True)
class BackupPolicyEntry:
    """A policy of periodic backups.

    Attributes:
        name: Of the policy.
        provider: Where backups go.
        interval_s: From one backup to the next; ``None`` if not reported.
        app_ids: Its tables.
        kept: Backups that are kept.
        start_time: ``hour:minute``; empty: any.
        is_disabled: Whether it is switched off.
        last_start_ms: Of the last backup; 0: there was none.
        last_end_ms: 0: it runs, or there was none.
    """

    name: str
    provider: str
    interval_s: int | None
    app_ids: tuple[int, ...]
    kept: int
    start_time: str
    is_disabled: bool
    last_start_ms: int = 0
    last_end_ms: int = 0


@dataclass(frozen=True)
class ClusterInfo:
    """Cluster info of the leading meta server.

    Attributes:
        meta_servers: ``host:port``, as configured.
        leader: The leading one.
        level_word: The effective level, without ``fl_``; it reads ``freezed`` while nodes are few.
        operations: The balancer's counts; ``None`` if not reported.
        primary_stddev: Of primaries over nodes.
        replica_stddev: Of replicas over nodes.
        values: All reported values, by key.
    """

    meta_servers: tuple[str, ...]
    leader: str
    level_word: str
    operations: OperationCounts | None
    primary_stddev: float | None
    replica_stddev: float | None
    values: Mapping[str, str]
