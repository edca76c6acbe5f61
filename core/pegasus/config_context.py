"""What the leading meta server remembers of a partition, and how changes and reports alter it.

The list of dropped replicas decides who becomes a secondary again and who leads a partition that
lost every replica. It has two sources: configuration changes (with the time of the change) and the
reports of replica servers, every 30 s (with ballot and decrees). It is lost with the leader.

Source: Pegasus ``config_context``, ``collect_replica``, ``construct_replica`` (``meta_data.cpp``)
and ``partition_guardian::reconfig`` (2.6.0-SNAPSHOT, db756dc).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from core.pegasus.balance.model import ConfigType
from core.pegasus.partition import (
    UNKNOWN,
    DroppedReplica,
    PartitionConfig,
    PartitionMemory,
    ReplicaEntry,
    ReplicaStatus,
)

MAX_RESERVED_DROPPED: Final = 1
"""``max_reserved_dropped_replicas``: the compiled default; the shipped configuration has 0."""

_ADDED: Final = (
    ConfigType.ASSIGN_PRIMARY,
    ConfigType.UPGRADE_TO_PRIMARY,
    ConfigType.UPGRADE_TO_SECONDARY,
)
_REMOVED: Final = (ConfigType.DOWNGRADE_TO_INACTIVE, ConfigType.REMOVE)
_LEARNING: Final = (ConfigType.ADD_SECONDARY, ConfigType.ADD_SECONDARY_FOR_LB)
_FAILED: Final = (ReplicaStatus.ERROR, ReplicaStatus.INACTIVE)


def record_change(
    config: PartitionConfig,
    memory: PartitionMemory,
    change: ConfigType,
    node: str,
    *,
    now_ms: int,
    max_reserved: int = MAX_RESERVED_DROPPED,
) -> PartitionMemory:
    """Return the memory after a configuration change was written (``reconfig``).

    Any change removes the first pending action, also one that has nothing to do with it.

    Args:
        config: The partition after the change.
        memory: Before it.
        change: What was written: a learner that has finished is ``UPGRADE_TO_SECONDARY``.
        node: Whose role changed.
        now_ms: Milliseconds since the epoch.
        max_reserved: ``max_reserved_dropped_replicas``.
    """
    memory = replace(memory, pending=memory.pending[1:], is_pending_abnormal=False, learner=None)
    known = memory.dropped_on(node)
    if change in _ADDED:
        dropped = tuple(one for one in memory.dropped if one != known)
        if _fitting(config, dropped, max_reserved) == memory.dropped:
            return memory
    elif change in _REMOVED:
        serving = {name: disk for name, disk in memory.serving.items() if name != node}
        memory = replace(memory, serving=serving)
        dropped = memory.dropped
        if known is None:
            dropped = (*dropped, DroppedReplica(node, now_ms))
    else:
        return memory
    return _with_dropped(config, memory, dropped, max_reserved)


def collect_replica(
    config: PartitionConfig,
    memory: PartitionMemory,
    node: str,
    report: ReplicaEntry,
    *,
    max_reserved: int = MAX_RESERVED_DROPPED,
) -> tuple[PartitionMemory, bool]:
    """Return the memory after a server reported a replica, and whether that replica is of use.

    One that is of no use is deleted by its server, at lively only.

    Args:
        memory: Before the report.
        node: Who reports.
        max_reserved: ``max_reserved_dropped_replicas``.
    """
    if config.ballot == UNKNOWN:
        return memory, False
    if node in config.members:
        return replace(memory, serving={**memory.serving, node: report.disk}), True
    memory = _track_learner(memory, node, report)
    known = memory.dropped_on(node)
    current = DroppedReplica(
        node,
        known.time_ms if known is not None else 0,
        report.ballot,
        report.last_committed_decree,
        report.last_prepared_decree,
    )
    others = [one for one in memory.dropped if one is not known]
    others.insert(bisect_left(others, _order(current), key=_order), current)
    memory = _with_dropped(config, memory, others, max_reserved)
    is_dropped_copy = memory.dropped_on(node) is not None
    return memory, is_dropped_copy or report.status is ReplicaStatus.POTENTIAL_SECONDARY


def construct_replica(
    config: PartitionConfig, memory: PartitionMemory, max_replica_count: int
) -> tuple[PartitionConfig, PartitionMemory] | None:
    """Return a partition that is rebuilt from reports alone, as the recovery of a meta server does.

    The last of the dropped list becomes primary; the ones before it become ``last_drops``.

    Args:
        config: The partition without any member.
        memory: What the reports left.
        max_replica_count: Wanted replicas.

    Returns:
        Configuration and memory; ``None`` if no server reported a replica.
    """
    if not memory.dropped:
        return None
    *rest, chosen = memory.dropped
    room = max_replica_count - 1
    drops = tuple(one.node for one in rest[-room:]) if room else ()
    built = replace(
        config,
        ballot=chosen.ballot,
        max_replica_count=max_replica_count,
        primary=chosen.node,
        last_drops=drops,
    )
    return built, replace(memory, dropped=tuple(rest), prefered_dropped=None)


def _with_dropped(
    config: PartitionConfig,
    memory: PartitionMemory,
    dropped: Sequence[DroppedReplica],
    max_reserved: int,
) -> PartitionMemory:
    """Return a memory with another list; the search for a secondary begins at its end again."""
    fitting = _fitting(config, dropped, max_reserved)
    return replace(memory, dropped=fitting, prefered_dropped=None)


def _fitting(
    config: PartitionConfig, dropped: Sequence[DroppedReplica], max_reserved: int
) -> tuple[DroppedReplica, ...]:
    """Return the newest: as many as the partition lacks and the reserve allows (check_size)."""
    room = max(config.max_replica_count + max_reserved - config.replica_count, 0)
    return tuple(dropped)[-room:] if room else ()


def _track_learner(memory: PartitionMemory, node: str, report: ReplicaEntry) -> PartitionMemory:
    """Note how the node learns that the first pending action adds; one that failed is abnormal."""
    if not memory.pending or memory.pending[0].node != node:
        return memory
    if memory.pending[0].type not in _LEARNING:
        return memory
    if report.status in _FAILED:
        # without a report that it learns, it may only not have begun yet
        return replace(memory, is_pending_abnormal=True) if memory.learner is not None else memory
    if report.status is ReplicaStatus.POTENTIAL_SECONDARY:
        return replace(memory, is_pending_abnormal=False, learner=report)
    return memory


def _order(one: DroppedReplica) -> tuple[int, int, int, int]:
    """Sort key ``dropped_cmp``: roughly, later ones have more data."""
    return one.time_ms, one.ballot, one.last_committed_decree, one.last_prepared_decree
