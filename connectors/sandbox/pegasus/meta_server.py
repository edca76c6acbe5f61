"""The leading meta server at work: it looks at every partition on its tick, repairs, balances.

Source: Pegasus ``server_state`` and ``meta_service`` (2.6.0-SNAPSHOT, db756dc).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from time import monotonic, time
from typing import Any, Final

import numpy as np

from connectors.sandbox.pegasus.balancing import (
    Promises,
    active_level,
    count_kinds,
    plan_round,
)
from connectors.sandbox.pegasus.options import PegasusOptions
from connectors.sandbox.pegasus.state import MIN_2PC, ClusterState, Leftover, Node, Partition
from core.pegasus.balance.model import ConfigType, PlanKind, ProposalAction
from core.pegasus.balance.rounds import pick_by_seed
from core.pegasus.config_context import collect_replica, record_change
from core.pegasus.ddd import DddNode
from core.pegasus.guardian import Cure, CureStatus, Guardian, GuardianOptions, adds_to_send
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import (
    DroppedReplica,
    PartitionConfig,
    PartitionMemory,
    ReplicaStatus,
)
from core.pegasus.reconfigure import apply_action
from core.pegasus.verdict import OperationCounts

_ADDS: Final = (ConfigType.ADD_SECONDARY, ConfigType.ADD_SECONDARY_FOR_LB)
_AWAY: Final = (ConfigType.DOWNGRADE_TO_INACTIVE, ConfigType.REMOVE)
_PRIMARY: Final = (ConfigType.ASSIGN_PRIMARY, ConfigType.UPGRADE_TO_PRIMARY)


class MetaServer:
    """The leading meta server; one for the whole sandbox, whichever server answers.

    Args:
        options: Pace.
        state: The books.
    """

    def __init__(self, options: PegasusOptions, state: ClusterState) -> None:
        self._options = options
        self._state = state
        self._pick = pick_by_seed(options.seed)
        self._orders = np.random.default_rng(options.seed + 1)
        self._tasks: set[asyncio.Task[None]] = set()
        self.ddd: dict[tuple[int, int], str] = {}
        self.ticks = 0
        self.has_leader = True

    async def run(self) -> None:
        """Tick for ever."""
        while True:
            await asyncio.sleep(self._options.tick_s)
            if self.has_leader:
                self.tick()

    async def stop(self) -> None:
        """End what is being executed."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a background task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- the tick -------------------------------------------------------------------------------

    def tick(self) -> None:
        """Look at every partition, repair; balance when all of them are healthy."""
        self.ticks += 1
        level = active_level(self._state)
        if level <= FunctionLevel.FREEZED:
            return
        self.ddd.clear()
        if self._cure_all() and self._may_balance():
            self._balance(level)

    def _cure_all(self) -> bool:
        """Repair unhealthy partitions; return whether every partition is healthy."""
        promises = Promises(self._state)
        adds: list[tuple[Partition, ProposalAction]] = []
        healthy = 0
        for table in sorted(self._state.tables.values(), key=lambda one: one.name):
            for partition in self._state.of_table(table.app_id):
                if partition.config.is_child:
                    continue  # and it is not healthy: nothing is balanced
                cure = self._cure(partition, promises)
                healthy += cure.status is CureStatus.HEALTHY
                if cure.action is None:
                    continue
                if cure.action.type in _ADDS:
                    adds.append((partition, cure.action))
                else:
                    self._send(partition, cure.action)
        settings = self._state.settings
        most = (
            settings.add_secondary_max_count_for_one_node
            if settings.add_secondary_enable_flow_control
            else None
        )
        wanted = [(partition.config, action) for partition, action in adds]
        for at in adds_to_send(wanted, most_per_node=most):
            self._send(*adds[at])
        return healthy == len(self._state.partitions)

    def _cure(self, partition: Partition, promises: Promises) -> Cure:
        """Ask the guardian about one partition and keep what it decided."""
        config, settings = partition.config, self._state.settings
        options = GuardianOptions(MIN_2PC, settings.assign_delay_ms, frozenset(settings.black_list))
        guardian = Guardian(promises.guarded(), options, round(time() * 1000))
        cure = guardian.next_cure(config, partition.memory)
        if cure.is_from_pending:
            return cure
        memory = partition.memory
        prefered = cure.prefered_dropped
        memory = replace(
            memory,
            pending=(cure.action,) if cure.action is not None else (),
            is_pending_abnormal=False,
            prefered_dropped=memory.prefered_dropped if prefered is None else prefered,
        )
        partition.memory = memory
        if cure.action is not None:
            is_primary = cure.action.type in _PRIMARY
            is_new = cure.action.node not in config.members
            promises.book(
                cure.action.node, config.app_id, primary=int(is_primary), replica=int(is_new)
            )
        if cure.status is CureStatus.DEAD and cure.action is None and config.is_ddd:
            self.ddd[partition.gpid] = cure.reason
        return cure

    def _may_balance(self) -> bool:
        held = {name for each in self._state.partitions.values() for name in each.config.members}
        return all(node.is_alive or name not in held for name, node in self._state.nodes.items())

    def _balance(self, level: FunctionLevel) -> None:
        if level is FunctionLevel.LIVELY:
            plans = plan_round(self._state, self._pick, is_check=False)
            if plans:
                for gpid, _, actions in plans:
                    partition = self._state.partitions[gpid]
                    partition.memory = replace(partition.memory, pending=actions)
                self._count([kind for _, kind, _ in plans])
                self._cure_all()  # upstream looks again at once when there are new proposals
                return
        counted = plan_round(self._state, self._pick, is_check=True)
        if counted is None:
            self._state.counts = OperationCounts(-1, 0, 0, 0)
        else:
            self._count([kind for _, kind, _ in counted])

    def _count(self, kinds: list[PlanKind]) -> None:
        self._state.counts = count_kinds(kinds)

    # -- proposals ------------------------------------------------------------------------------

    def propose(self, partition: Partition, actions: tuple[ProposalAction, ...]) -> bool:
        """Queue a proposal; ``False``: another one is pending. The next tick sends it."""
        if partition.memory.pending:
            return False
        partition.memory = replace(partition.memory, pending=actions, is_pending_abnormal=False)
        return True

    def clear_proposals(self) -> None:
        """Throw away everything that is pending, as setting a level up to steady does."""
        for partition in self._state.partitions.values():
            partition.memory = replace(partition.memory, pending=(), is_pending_abnormal=False)

    def forget(self) -> None:
        """Begin as a meta server that has just taken over: what was only remembered is gone."""
        self._state.led_since_s = monotonic()
        # its map of nodes was filled in another sequence
        names = list(self._state.numbering)
        order = self._orders.permutation(len(names)).tolist()
        self._state.numbering = tuple(names[at] for at in order)
        self._state.stored_level = FunctionLevel.STEADY
        self._state.settings = type(self._state.settings)()
        self.ddd.clear()
        for node in self._state.nodes.values():
            node.has_collected = False
        for partition in self._state.partitions.values():
            partition.memory = PartitionMemory()

    # -- what replica servers do ----------------------------------------------------------------

    def _send(self, partition: Partition, action: ProposalAction) -> None:
        """Notify a replica server; what is being executed already is left to itself."""
        if partition.running is None:
            partition.running = action
            self.spawn(self._execute(partition, action))

    async def _execute(self, partition: Partition, action: ProposalAction) -> None:
        try:
            done = await self._act(partition, action)
        finally:
            partition.running = partition.learner = None
        if done and self.has_leader:
            self._follow_up(partition)

    async def _act(self, partition: Partition, action: ProposalAction) -> bool:
        """Do one action, as long as it takes; return whether the configuration changed."""
        ballot = partition.config.ballot
        if not self._is_running(action.target):
            return False
        if action.type in _ADDS:
            if action.node == partition.config.primary or not self._is_running(action.node):
                return False
            partition.learner = action.node
            self.place(partition, action.node)
            await asyncio.sleep(partition.size_mb / self._options.learn_mb_per_s)
        await asyncio.sleep(self._options.step_s)
        is_current = partition.config.ballot == ballot
        both_run = self._is_running(action.target) and (
            action.type in _AWAY or self._is_running(action.node)
        )
        accepts = self.has_leader and active_level(self._state) > FunctionLevel.FREEZED
        if not (is_current and both_run and accepts):
            return False
        self.change(partition, action)
        return True

    def _follow_up(self, partition: Partition) -> None:
        """Go on with what is pending at once; an addition waits for the tick under flow control."""
        if active_level(self._state) <= FunctionLevel.FREEZED:
            return
        action = self._cure(partition, Promises(self._state)).action
        is_held = self._state.settings.add_secondary_enable_flow_control
        if action is not None and not (is_held and action.type in _ADDS):
            self._send(partition, action)

    def _is_running(self, name: str) -> bool:
        return name in self._state.nodes and self._state.nodes[name].is_working

    def change(self, partition: Partition, action: ProposalAction) -> None:
        """Write a changed configuration and remember what it means."""
        before, node = partition.config, action.node
        partition.config = apply_action(before, action)
        change = ConfigType.UPGRADE_TO_SECONDARY if action.type in _ADDS else action.type
        partition.memory = record_change(
            partition.config, partition.memory, change, node, now_ms=round(time() * 1000)
        )
        if node in partition.config.members:
            partition.leftovers.pop(node, None)
            self.place(partition, node)
        elif action.type in _AWAY:
            partition.leftovers[node] = self._leftover(before, action)

    def place(self, partition: Partition, node: str) -> None:
        """Choose the disk of a replica that a node has not held before."""
        if node not in partition.disks:
            partition.disks[node] = self._state.roomiest_disk(node, partition.config.app_id)

    def _leftover(self, before: PartitionConfig, action: ProposalAction) -> Leftover:
        """Return the leftover of a node that is no longer a member.

        A node that is removed is informed and closes its replica later; one that is downgraded
        learns of it by its next report, as does one whose process has ended when it is back.

        Source:
            ``replica::on_remove``, ``replica_stub::begin_close_replica`` and
            ``on_node_query_reply_scatter2``.
        """
        node, now_s = action.node, monotonic()
        if not self._is_running(node):
            return Leftover(ReplicaStatus.INACTIVE, before.ballot, is_open=False, since_s=now_s)
        if action.type is ConfigType.REMOVE:
            ballot, inactive = before.ballot + 1, ReplicaStatus.INACTIVE
            return Leftover(inactive, ballot, is_open=False, since_s=now_s, is_closing=True)
        role = ReplicaStatus.PRIMARY if node == before.primary else ReplicaStatus.SECONDARY
        return Leftover(
            role, before.ballot, is_open=True, since_s=self._state.nodes[node].started_s
        )

    # -- nodes ----------------------------------------------------------------------------------

    def bury(self, name: str) -> None:
        """Record that a node is dead, on every partition that it served."""
        node = self._state.nodes[name]
        node.is_alive = node.has_collected = False
        level = active_level(self._state)
        for partition in self._state.partitions.values():
            config = partition.config
            leads = config.primary == name and level > FunctionLevel.BLIND
            helps = (
                name in config.secondaries
                and config.primary is not None
                and level > FunctionLevel.FREEZED
            )
            if leads or helps:
                target = name if leads else str(config.primary)
                action = ProposalAction(ConfigType.DOWNGRADE_TO_INACTIVE, target, name)
                self.change(partition, action)

    def welcome(self, name: str) -> None:
        """Record that a node is back with what it held; it reports at once."""
        node = self._state.nodes[name]
        node.is_alive = True
        node.disk_stats, node.holdings = 0, {}
        for partition in self._state.partitions.values():
            left = partition.leftovers.get(name)
            if left is not None:
                left.status, left.is_open, left.since_s = (
                    ReplicaStatus.INACTIVE,
                    True,
                    node.started_s,
                )
        self.sync(node)

    # -- what replica servers report ------------------------------------------------------------

    async def keep_reporting(self) -> None:
        """Let every replica server report its replicas at its interval, for ever."""
        while True:
            await asyncio.sleep(self._options.config_sync_s)
            for node in self._state.nodes.values():
                self.sync(node)

    async def keep_counting_disks(self) -> None:
        """Let every replica server count what its disks hold at its interval, for ever."""
        while True:
            await asyncio.sleep(self._options.tick_s)
            for node in self._state.nodes.values():
                due = int((monotonic() - node.started_s) / self._options.disk_stat_s)
                if node.is_running and due > node.disk_stats:
                    node.disk_stats = due
                    self._state.count_disks(node)

    def sync(self, node: Node) -> None:
        """Let one replica server report its replicas to the leader, and follow the answer.

        Source:
            ``server_state::on_config_sync`` and ``replica_stub::on_node_query_reply``.
        """
        if not (self.has_leader and node.is_running and node.is_alive):
            return
        node.has_collected = True
        is_lively = active_level(self._state) is FunctionLevel.LIVELY
        for report in self._state.replicas_of(node.name):
            partition = self._state.partitions[report.app_id, report.index]
            partition.memory, is_useful = collect_replica(
                partition.config, partition.memory, node.name, report
            )
            left = partition.leftovers.get(node.name)
            if left is None or partition.learner == node.name:
                continue
            if not is_useful and is_lively and not left.is_open and not left.is_closing:
                del partition.leftovers[node.name], partition.disks[node.name]
            elif self._is_to_be_closed(left):
                left.close()

    def _is_to_be_closed(self, left: Leftover) -> bool:
        """Return whether a server closes a replica that the leader did not list."""
        is_due = monotonic() - left.since_s >= self._options.close_after_s
        if left.is_closing:
            return is_due
        return left.is_open and (left.status is not ReplicaStatus.INACTIVE or is_due)

    def kill(self, node: str, gpid: tuple[int, int]) -> bool:
        """Close a replica at once, as ``replica.kill_partition``; false if it is not open.

        A member that is closed is taken out of its partition.

        Source:
            ``replica_stub::on_kill_replica``, ``replica::handle_local_failure``.
        """
        partition = self._state.partitions.get(gpid)
        if partition is None:
            return False
        if node in partition.config.members:
            leader = partition.config.primary or node
            self.change(partition, ProposalAction(ConfigType.DOWNGRADE_TO_INACTIVE, leader, node))
        left = partition.leftovers.get(node)
        if left is None or not left.is_open:
            return False
        left.close()
        return True

    def ddd_nodes(self, partition: Partition) -> tuple[DddNode, ...]:
        """Return the former members of a partition that lost all of them."""
        return tuple(self._ddd_node(one) for one in partition.memory.dropped)

    def _ddd_node(self, one: DroppedReplica) -> DddNode:
        node = self._state.nodes[one.node]
        is_known = node.is_alive and node.has_collected
        return DddNode(
            node=one.node,
            drop_time_ms=one.time_ms,
            is_alive=node.is_alive,
            is_collected=node.has_collected,
            ballot=one.ballot if is_known else -1,
            last_committed_decree=one.last_committed_decree if is_known else -1,
            last_prepared_decree=one.last_prepared_decree if is_known else -1,
        )
