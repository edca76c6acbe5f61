"""The guardian: what it does next for a partition that is not as it should be, and why.

Source: Pegasus ``partition_guardian`` and ``newly_partitions`` (2.6.0-SNAPSHOT, db756dc).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from core.pegasus.balance.model import ConfigType, ProposalAction
from core.pegasus.ddd import NodeReport, choose_lost_primary
from core.pegasus.health import min_2pc_count
from core.pegasus.partition import PartitionConfig, PartitionMemory
from core.units import pluralize


class CureStatus(enum.Enum):
    """The guardian's partition status."""

    HEALTHY = "healthy"
    ILL = "ill"
    DEAD = "dead"


@dataclass(frozen=True)
class GuardedNode:
    """A node as the guardian counts it: what it holds and what was promised to it.

    Attributes:
        name: ``host:port``.
        is_alive: The failure detector's word.
        has_collected_replicas: It has reported its replicas since it came alive.
        table_primaries: Primaries by table id.
        table_partitions: Replicas by table id.
        primary_count: Over all tables.
        partition_count: Over all tables.
    """

    name: str
    is_alive: bool = True
    has_collected_replicas: bool = True
    table_primaries: Mapping[int, int] = field(default_factory=dict)
    table_partitions: Mapping[int, int] = field(default_factory=dict)
    primary_count: int = 0
    partition_count: int = 0

    def primaries_first(self, app_id: int) -> tuple[int, int, int, int]:
        """Sort key ``less_primaries``."""
        table = self.table_primaries.get(app_id, 0), self.table_partitions.get(app_id, 0)
        return (*table, self.primary_count, self.partition_count)

    def partitions_first(self, app_id: int) -> tuple[int, int]:
        """Sort key ``less_partitions``."""
        return self.table_partitions.get(app_id, 0), self.partition_count


@dataclass(frozen=True)
class GuardianOptions:
    """Settings of the guardian.

    Attributes:
        min_2pc_count: ``mutation_2pc_min_replica_count``; 0: more than half of the replicas.
        assign_delay_ms: ``meta.lb.assign_delay_ms``: wait for a lost secondary to come back.
        black_list: ``meta.lb.assign_secondary_black_list``: never chosen for new replicas.
    """

    min_2pc_count: int = 2
    assign_delay_ms: int = 600_000
    black_list: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Cure:
    """Next action for one partition.

    Attributes:
        status: How the guardian calls it now.
        action: What it sends; ``None`` if nothing.
        reason: One sentence for people.
        is_from_pending: The action was proposed before, by a person or by the balancer.
        drops_pending: What was pending cannot be done any more and is discarded, all of it.
        prefered_dropped: Where the next search among dropped replicas starts.
    """

    status: CureStatus
    action: ProposalAction | None
    reason: str
    is_from_pending: bool = False
    drops_pending: bool = False
    prefered_dropped: int | None = None


@dataclass(frozen=True)
class Guardian:
    """The guardian at one moment.

    Attributes:
        nodes: In the order of the node map, which breaks ties.
        options: Its settings.
        now_ms: Milliseconds since the epoch.
    """

    nodes: Sequence[GuardedNode]
    options: GuardianOptions
    now_ms: int

    def next_cure(self, config: PartitionConfig, memory: PartitionMemory) -> Cure:
        """Return the guardian's action for a partition at this tick."""
        if memory.pending and self._is_valid(config, memory):
            return Cure(
                CureStatus.ILL,
                memory.pending[0],
                f"{memory.pending[0].type.name} is proposed and pending.",
                is_from_pending=True,
            )
        cure = self._cure(config, memory)
        if not memory.pending:
            return cure
        return Cure(
            cure.status,
            cure.action,
            f"The pending proposal is no longer possible and is dropped. {cure.reason}",
            drops_pending=True,
            prefered_dropped=cure.prefered_dropped,
        )

    def _cure(self, config: PartitionConfig, memory: PartitionMemory) -> Cure:
        if config.primary is None:
            return self._missing_primary(config, memory)
        if config.replica_count < config.max_replica_count:
            return self._missing_secondary(config.primary, config, memory)
        if config.replica_count > config.max_replica_count:
            return self._redundant_secondary(config.primary, config)
        return Cure(CureStatus.HEALTHY, None, "All replicas are present.")

    # -- pending actions ------------------------------------------------------------------------

    def _is_valid(self, config: PartitionConfig, memory: PartitionMemory) -> bool:
        action = memory.pending[0]
        alive = self._alive_names()
        if action.target not in alive or action.node not in alive or memory.is_pending_abnormal:
            return False
        check = _VALIDITY.get(action.type)
        return check is not None and check(config, action)

    # -- no primary -----------------------------------------------------------------------------

    def _missing_primary(self, config: PartitionConfig, memory: PartitionMemory) -> Cure:
        if config.secondaries:
            return self._promote(config)
        if config.last_drops:
            reports = {
                node.name: NodeReport(node.is_alive, node.has_collected_replicas)
                for node in self.nodes
            }
            choice = choose_lost_primary(config, memory, reports)
            action = None
            if choice.node is not None:
                action = ProposalAction(ConfigType.ASSIGN_PRIMARY, choice.node, choice.node)
            return Cure(CureStatus.DEAD, action, f"Every replica was lost. {choice.reason}")
        alive = [node for node in self.nodes if node.is_alive]
        if not alive:
            return Cure(CureStatus.ILL, None, "It is new, and no live node can take it.")
        best = min(alive, key=lambda node: node.primaries_first(config.app_id))
        return Cure(
            CureStatus.ILL,
            ProposalAction(ConfigType.ASSIGN_PRIMARY, best.name, best.name),
            f"It is new: {best.name} has the fewest primaries of the table.",
        )

    def _promote(self, config: PartitionConfig) -> Cure:
        by_name = {node.name: node for node in self.nodes}
        alive = [
            by_name[name]
            for name in config.secondaries
            if name in by_name and by_name[name].is_alive
        ]
        if not alive:
            return Cure(
                CureStatus.DEAD, None, "It has no primary, and none of its secondaries is alive."
            )
        best = min(alive, key=lambda node: node.primaries_first(config.app_id))
        return Cure(
            CureStatus.ILL,
            ProposalAction(ConfigType.UPGRADE_TO_PRIMARY, best.name, best.name),
            f"It has no primary: {best.name} has the fewest primaries among its secondaries.",
        )

    # -- too few secondaries --------------------------------------------------------------------

    def _missing_secondary(
        self, primary: str, config: PartitionConfig, memory: PartitionMemory
    ) -> Cure:
        urgency = self._urgency(config, memory)
        if urgency is None:
            return self._wait_for_last(primary, memory)
        node, prefered = self._from_dropped(memory)
        why = f"{node} had it before"
        if node is None or node in self.options.black_list:
            fresh = self._freshest(config)
            if fresh is not None:
                node, why = fresh, f"{fresh} has the fewest replicas of the table"
        if node is None:
            reason = f"{urgency}, but no node can take it."
            return Cure(CureStatus.ILL, None, reason, prefered_dropped=prefered)
        return Cure(
            CureStatus.ILL,
            ProposalAction(ConfigType.ADD_SECONDARY, primary, node),
            f"{urgency}: {why}.",
            prefered_dropped=prefered,
        )

    def _urgency(self, config: PartitionConfig, memory: PartitionMemory) -> str | None:
        """Return the reason to add a secondary at once, or ``None`` to wait for the old node."""
        needed = min_2pc_count(config.max_replica_count, self.options.min_2pc_count)
        held = config.replica_count
        if config.max_replica_count > needed and held < needed:
            return f"Writes need {needed} replicas; it has {held}"
        if not memory.dropped:
            return "A replica is missing and no previous node is known"
        last = memory.dropped[-1]
        if self.now_ms > last.time_ms + self.options.assign_delay_ms:
            return f"{last.node} did not return in time"
        if last.node in self.options.black_list:
            return f"{last.node} is on the black list"
        return None

    def _wait_for_last(self, primary: str, memory: PartitionMemory) -> Cure:
        last = memory.dropped[-1]
        if last.node in self._alive_names():
            return Cure(
                CureStatus.ILL,
                ProposalAction(ConfigType.ADD_SECONDARY, primary, last.node),
                f"{last.node}, its last node, is back.",
            )
        left_s = (last.time_ms + self.options.assign_delay_ms - self.now_ms) // 1000
        return Cure(
            CureStatus.ILL, None, f"Its last node {last.node} has {left_s} s left to return."
        )

    def _from_dropped(self, memory: PartitionMemory) -> tuple[str | None, int | None]:
        """Return the first living holder, from the preferred one downwards, and the next start."""
        if not memory.dropped:
            return None, None
        end = len(memory.dropped) - 1
        prefered = memory.prefered_dropped
        # an index out of range, -1 after the last one was tried, begins at the end again
        start = prefered if prefered is not None and 0 <= prefered <= end else end
        alive = self._alive_names()
        for at in range(start, -1, -1):
            if memory.dropped[at].node in alive:
                return memory.dropped[at].node, at - 1
        return None, -1

    def _freshest(self, config: PartitionConfig) -> str | None:
        free = [
            node
            for node in self.nodes
            if node.is_alive
            and node.name not in config.members
            and node.name not in self.options.black_list
        ]
        if not free:
            return None
        return min(free, key=lambda node: node.partitions_first(config.app_id)).name

    # -- too many secondaries -------------------------------------------------------------------

    def _redundant_secondary(self, primary: str, config: PartitionConfig) -> Cure:
        held = {node.name: node.partition_count for node in self.nodes}
        most = max(config.secondaries, key=lambda name: held.get(name, 0))
        extra = pluralize(config.replica_count - config.max_replica_count, "replica")
        return Cure(
            CureStatus.ILL,
            ProposalAction(ConfigType.REMOVE, primary, most),
            f"It has {extra} surplus replicas: {most} has the most replicas of all tables.",
        )

    def _alive_names(self) -> frozenset[str]:
        return frozenset(node.name for node in self.nodes if node.is_alive)


def _is_assignable(config: PartitionConfig, action: ProposalAction) -> bool:
    is_free = config.primary is None and action.node not in config.secondaries
    return action.node == action.target and is_free


def _is_upgradable(config: PartitionConfig, action: ProposalAction) -> bool:
    is_ready = config.primary is None and action.node in config.secondaries
    return action.node == action.target and is_ready


def _is_addable(config: PartitionConfig, action: ProposalAction) -> bool:
    # a node that is the primary itself passes here, and then kills it: the guard is the caller's
    return action.target == config.primary and action.node not in config.secondaries


def _is_removable(config: PartitionConfig, action: ProposalAction) -> bool:
    return action.target == config.primary and action.node in config.members


def _is_downgradable(config: PartitionConfig, action: ProposalAction) -> bool:
    return action.node == action.target == config.primary


_VALIDITY: Mapping[ConfigType, Callable[[PartitionConfig, ProposalAction], bool]] = {
    ConfigType.ASSIGN_PRIMARY: _is_assignable,
    ConfigType.UPGRADE_TO_PRIMARY: _is_upgradable,
    ConfigType.ADD_SECONDARY: _is_addable,
    ConfigType.ADD_SECONDARY_FOR_LB: _is_addable,
    ConfigType.DOWNGRADE_TO_INACTIVE: _is_removable,
    ConfigType.REMOVE: _is_removable,
    ConfigType.DOWNGRADE_TO_SECONDARY: _is_downgradable,
}
"""When a pending action can still be done; every other type never can."""


def adds_to_send(
    wanted: Sequence[tuple[PartitionConfig, ProposalAction]], *, most_per_node: int | None
) -> list[int]:
    """Return the additions sent in one tick, as positions in ``wanted``, in sending order.

    Partitions without any secondary come first. With flow control a node gets so many a tick;
    what it is still learning from ticks before does not count.

    Args:
        wanted: Partition and action, in the order of table name and index.
        most_per_node: ``add_secondary_max_count_for_one_node``; ``None`` if no flow control.
    """
    urgent = [at for at, (config, _) in enumerate(wanted) if not config.secondaries]
    others = [at for at, (config, _) in enumerate(wanted) if config.secondaries]
    running: dict[str, int] = {}
    sent = []
    for at in (*urgent, *others):
        node = wanted[at][1].node
        if most_per_node is not None and running.get(node, 0) >= most_per_node:
            continue
        running[node] = running.get(node, 0) + 1
        sent.append(at)
    return sent
