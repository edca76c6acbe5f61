"""What a Pegasus snapshot holds, in the form that the kernels take."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from core.errors import IncompleteSnapshotError, OpsError
from core.pegasus.answers import DiskEntry, NodeEntry, TableEntry, TableStatus
from core.pegasus.app_stat import AppStat
from core.pegasus.assemble import view_of_answers
from core.pegasus.balance.model import BalanceOptions
from core.pegasus.columns import PegasusColumns
from core.pegasus.levels import FunctionLevel, level_of, parse_level
from core.pegasus.partition import PartitionConfig
from core.pegasus.verdict import BalanceVerdict, OperationCounts, judge_balance
from core.pegasus.view import ClusterView
from core.snapshot.pegasus import PegasusSnapshot
from core.units import is_whole

STORED_LEVEL: Final = "level.stored"
EFFECTIVE_LEVEL: Final = "level.effective"
OPERATIONS: Final = "balance_operation_count"
DISK_MIN_AVAILABLE: Final = "disk_min_available_space_ratio"
DISK_MIN_AVAILABLE_RATIO: Final = 0.10
"""Below this share of free space a replica server takes no new replica on a disk.

Source: Pegasus ``fs_manager``, 10 percent as compiled.
"""
DEFAULT_TARGET_RATIO: Final = 0.10
"""Deviation from the mean replicas that a cluster may have where its configuration is silent."""
SWITCHES: Final = ("only_primary_balancer", "only_move_primary", "balancer_in_turn")
_MS: Final = 1000


@dataclass(frozen=True)
class PegasusFacts:
    """A snapshot, read.

    Attributes:
        snapshot: It.
        earlier: Snapshots of the cluster before it, oldest first.
    """

    snapshot: PegasusSnapshot
    earlier: Sequence[PegasusSnapshot] = ()

    # -- tables as values -----------------------------------------------------------------------

    @cached_property
    def nodes(self) -> list[NodeEntry]:
        """The nodes."""
        return [
            NodeEntry(row["node"], row["address"], row["is_alive"]) for row in self.rows("nodes")
        ]

    @cached_property
    def tables(self) -> dict[int, TableEntry]:
        """The available tables by id."""
        return {
            row["app_id"]: _table(row)
            for row in self.rows("tables")
            if row["status"] == "available"
        }

    @cached_property
    def partitions(self) -> dict[int, list[PartitionConfig]]:
        """Partitions by table id; a table whose partitions were not read has none."""
        found: dict[int, list[PartitionConfig]] = {app_id: [] for app_id in self.tables}
        for row in self.rows("partitions"):
            found.setdefault(row["app_id"], []).append(partition_of(row))
        return found

    @cached_property
    def disks(self) -> dict[str, list[DiskEntry]]:
        """Disks by node, with the replicas on them, without nodes that did not answer."""
        held: dict[tuple[str, str | None, bool], set[tuple[int, int]]] = {}
        for row in self.rows("replicas"):
            key = row["node"], row["disk"], row["is_primary"]
            held.setdefault(key, set()).add((row["app_id"], row["index"]))
        found: dict[str, list[DiskEntry]] = {}
        for row in self.rows("disks"):
            node, tag = row["node"], row["disk"]
            disk = DiskEntry(
                tag,
                row["directory"],
                row["capacity_mb"],
                row["available_mb"],
                frozenset(held.get((node, tag, True), ())),
                frozenset(held.get((node, tag, False), ())),
            )
            found.setdefault(node, []).append(disk)
        return found

    @cached_property
    def full_disk_ratios(self) -> dict[str, tuple[float, bool]]:
        """By node: below which share of free space a disk is full, and whether it reported that."""
        return {
            row["node"]: (DISK_MIN_AVAILABLE_RATIO, False)
            if row["disk_min_available_ratio"] is None
            else (row["disk_min_available_ratio"], True)
            for row in self.rows("nodes")
        }

    @cached_property
    def children_of(self) -> dict[int, int]:
        """By table id: children of a partition split that have not registered."""
        columns = self.columns
        counts = np.bincount(columns.part_table[columns.is_child], minlength=columns.table_count)
        found = dict(zip(columns.app_ids.tolist(), counts.tolist(), strict=True))
        return {app_id: count for app_id, count in found.items() if count}

    @cached_property
    def duplication_notes(self) -> dict[int, list[str]]:
        """By table id: state and lag of each duplication, a few words each."""
        found: dict[int, list[str]] = {}
        for row in self.rows("duplications"):
            lag = row["max_lag"]
            behind = "lag unknown" if lag is None else f"lag {lag:,}"
            text = f"duplicated to {row['remote']}: {row['status']}, {behind}"
            found.setdefault(row["app_id"], []).append(text)
        return found

    @cached_property
    def policies_of(self) -> dict[int, list[str]]:
        """By table id: names of its policies of periodic backups; a disabled one says so."""
        found: dict[int, list[str]] = {}
        for row in self.rows("backup_policies"):
            name = f"{row['name']} (disabled)" if row["is_disabled"] else row["name"]
            for app_id in row["app_ids"]:
                found.setdefault(app_id, []).append(name)
        return found

    @cached_property
    def columns(self) -> PegasusColumns:
        """Replicas and partitions in columns, for operations on all of them."""
        return PegasusColumns.of(self.snapshot.tables)

    @cached_property
    def app_stat(self) -> AppStat:
        """Operations of every partition, as its primary reports them."""
        return AppStat.of(self.snapshot.tables, self.columns)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return a table's rows."""
        rows: list[dict[str, Any]] = self.snapshot.tables[table].to_pylist()
        return rows

    @property
    def target_ratio(self) -> float:
        """Deviation from the mean that is balanced enough: the cluster's own, or the default."""
        ratio = self.snapshot.manifest.target_ratio
        return DEFAULT_TARGET_RATIO if ratio is None else ratio

    # -- for the kernels ------------------------------------------------------------------------

    def view(self) -> ClusterView:
        """Return the state as columns.

        Raises:
            IncompleteSnapshotError: Partitions of some table were not read, or there are no nodes.
        """
        if not self.nodes:
            raise IncompleteSnapshotError(
                f"The snapshot of {self.snapshot.manifest.cluster} has no nodes.",
                hint="See its problems for what could not be read.",
            )
        tables = {table: self.partitions[app_id] for app_id, table in self.tables.items()}
        return view_of_answers(self.nodes, tables, self.disks)

    def options(self) -> tuple[BalanceOptions, list[str]]:
        """Return the balancer's switches, and the names of those that had to be assumed."""
        settings = self.snapshot.settings
        names = (*SWITCHES, "balance_cluster", "balance_op_count_per_round", "ignored_app_list")
        assumed = [name for name in names if name not in settings]
        is_on = {name: settings.get(name) == "true" for name in names}
        ignored = settings.get("ignored_app_list", "").split(",")
        count = settings.get("balance_op_count_per_round", "")
        most = int(count) if is_whole(count) else BalanceOptions.balance_op_count_per_round
        options = BalanceOptions(
            policy="cluster" if is_on["balance_cluster"] else "app",
            only_primary_balancer=is_on["only_primary_balancer"],
            only_move_primary=is_on["only_move_primary"],
            balancer_in_turn=is_on["balancer_in_turn"],
            balance_op_count_per_round=most,
            ignored_app_ids=frozenset(int(one) for one in ignored if is_whole(one)),
        )
        return options, assumed

    @property
    def stored_level(self) -> FunctionLevel | None:
        """The level that was set; ``None`` if unknown, or none of the five."""
        text = self.snapshot.settings.get(STORED_LEVEL)
        try:
            return None if text is None else level_of(int(text))
        except (OpsError, ValueError):
            return None

    @property
    def effective_level(self) -> FunctionLevel | None:
        """The effective level; ``None`` if unknown."""
        text = self.snapshot.settings.get(EFFECTIVE_LEVEL)
        try:
            return None if text is None else parse_level(text)
        except OpsError:
            return None

    @property
    def operations(self) -> OperationCounts | None:
        """The balancer's counts; ``None`` if not reported. A total of -1 is unknown, too."""
        try:
            counts = json.loads(self.snapshot.settings.get(OPERATIONS, ""))
            return OperationCounts(
                counts["total"],
                counts.get("move_pri", 0),
                counts.get("copy_pri", 0),
                counts.get("copy_sec", 0),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    @property
    def has_all_partitions(self) -> bool:
        """Whether the partitions of every available table were read."""
        return bool(self.columns.is_read.all())

    def verdict(self) -> BalanceVerdict:
        """Return whether the cluster is balanced, not balanced, or unknown."""
        level, counts = self.effective_level, self.operations
        columns = self.columns
        if level is None or counts is None:
            return BalanceVerdict("unknown", "The meta server reported neither level nor counts.")
        unhealthy = int((~columns.is_guardian_healthy).sum())
        children = int(columns.is_child.sum())
        policy = self.snapshot.settings.get("balance_cluster")
        return judge_balance(
            counts,
            level=level,
            # those that were read suffice to say that there are some
            unhealthy_count=unhealthy if unhealthy or self.has_all_partitions else None,
            partition_count=int(columns.partition_counts.sum()),
            down=columns.nodes_with("down"),
            splitting_count=children,
            is_cluster_policy=None if policy is None else policy == "true",
        )


def partition_of(row: Mapping[str, Any]) -> PartitionConfig:
    """Return a row of ``partitions`` as what is stored of a partition."""
    return PartitionConfig(
        app_id=row["app_id"],
        index=row["index"],
        ballot=row["ballot"],
        max_replica_count=row["max_replica_count"],
        primary=row["primary"],
        secondaries=tuple(row["secondaries"]),
        last_drops=tuple(row["last_drops"]),
        last_committed_decree=row["last_committed_decree"],
    )


def _table(row: Mapping[str, Any]) -> TableEntry:
    return TableEntry(
        app_id=row["app_id"],
        name=row["name"],
        status=TableStatus[row["status"].upper()],
        partition_count=row["partition_count"],
        max_replica_count=row["max_replica_count"],
        envs=json.loads(row["envs"]),
        create_s=(row["created_at"] or 0) // _MS,
        drop_s=(row["dropped_at"] or 0) // _MS,
        expire_s=(row["expires_at"] or 0) // _MS,
        is_bulk_loading=row["is_bulk_loading"],
        is_duplicating=row["is_duplicating"],
    )
