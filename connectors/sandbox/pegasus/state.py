"""The books of the Pegasus sandbox: tables, partitions, nodes, settings, founded from a seed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from connectors.pegasus.rpc.wire import WireError
from connectors.sandbox.pegasus.options import TABLES, PegasusOptions
from core.pegasus.answers import (
    BackupPolicyEntry,
    DiskEntry,
    DuplicationEntry,
    NodeEntry,
    TableEntry,
    TableStatus,
)
from core.pegasus.balance.model import ProposalAction
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import (
    PartitionConfig,
    PartitionMemory,
    ReplicaEntry,
    ReplicaStatus,
)
from core.pegasus.verdict import OperationCounts

MIN_2PC: Final = 2
_MAX_CALLS: Final = 10_000


class CallFaults:
    """A record of calls, and which answers are to be lost."""

    def __init__(self) -> None:
        self._heard: deque[str] = deque(maxlen=_MAX_CALLS)
        self._losses: Counter[str] = Counter()
        self.answer: str | None = None

    def count(self, call: str) -> int:
        """Return the number of calls that meta servers received, including non-leading ones."""
        return self._heard.count(call)

    def lose_replies(self, call: str, times: int = 1) -> None:
        """Let the next calls of that name be executed, and their connection break then."""
        self._losses[call] += times

    def answer_commands(self, answer: str | None) -> None:
        """Let replica servers answer this to every remote command; ``None`` to reset it."""
        self.answer = answer

    def hear(self, call: str) -> None:
        """Note a call."""
        self._heard.append(call)

    def check_reply(self, call: str) -> None:
        """Let the reply pass.

        Raises:
            WireError: It gets lost; the connection is closed.
        """
        if self._losses[call] > 0:
            self._losses[call] -= 1
            raise WireError(f"the reply to {call} gets lost, as was requested")


DISK_TAGS: Final = ("ssd1", "ssd2", "ssd3")
DISK_MB: Final = 200_000
_REPLICAS: Final = 3
_MEAN_MB: Final = 400.0
_DAY_S: Final = 86_400
_GENTLE_DROP: Final = 0.45
"""How much rarer each next node is chosen at the founding: what makes the sandbox uneven."""


@dataclass
class Node:
    """A replica server.

    Attributes:
        name: Registered name ``localhost:port``.
        address: The same with an IPv4 address.
        is_running: The process is there.
        is_alive: The failure detector's word.
        has_collected: It has reported its replicas since it came alive.
        is_mute: It answers no remote command: ``unknown command`` to all of them.
        is_frozen: It accepts connections and answers nothing, as after SIGSTOP.
        outages: How often its beacons stopped; distinguishes one silence from the next.
        started_s: Monotonic seconds: its counters count from then.
        disk_stats: How often it has counted what its disks hold since then.
        holdings: What it counted the last time, by gpid: disk tag, and whether it led.
        flags: Flags of its own, by name.
    """

    name: str
    address: str
    is_running: bool = True
    is_alive: bool = True
    has_collected: bool = True
    is_mute: bool = False
    is_frozen: bool = False
    outages: int = 0
    started_s: float = 0.0
    disk_stats: int = 0
    holdings: dict[tuple[int, int], tuple[str, bool]] = field(default_factory=dict)
    flags: dict[str, float] = field(
        default_factory=lambda: {
            "disk_min_available_space_ratio": 10,
            "mutation_2pc_min_replica_count": MIN_2PC,
        }
    )

    @property
    def is_working(self) -> bool:
        """Whether its process is running and active."""
        return self.is_running and not self.is_frozen

    @property
    def entry(self) -> NodeEntry:
        """As the meta server lists it."""
        return NodeEntry(self.name, self.address, self.is_alive)


@dataclass
class Leftover:
    """A replica on a node that is no member of its partition.

    Attributes:
        status: Role by its server's own account.
        ballot: Of its configuration when it left.
        is_open: In the server's list of open replicas: only there a command finds it.
        since_s: Monotonic seconds: when it was opened, or began to be closed.
        is_closing: Still in memory for a quick return, and out of reach of commands.
    """

    status: ReplicaStatus
    ballot: int
    is_open: bool
    since_s: float
    is_closing: bool = False

    def close(self) -> None:
        """Take it out of memory; its data stay on the disk."""
        self.status, self.is_open, self.is_closing = ReplicaStatus.ERROR, False, False


@dataclass
class Partition:
    """One partition with everything that is known of it.

    Attributes:
        config: What is stored.
        memory: What the leading meta server remembers; lost with it.
        disks: Disk tag by node, of its replicas.
        size_mb: Of one replica.
        reads_per_s: At the primary.
        writes_per_s: At the primary.
        running: The action that is being executed right now.
        learner: The node that is copying it right now.
        leftovers: Replicas on nodes that are no members, by node.
    """

    config: PartitionConfig
    disks: dict[str, str]
    size_mb: float
    reads_per_s: float
    writes_per_s: float
    memory: PartitionMemory = field(default_factory=PartitionMemory)
    running: ProposalAction | None = None
    learner: str | None = None
    leftovers: dict[str, Leftover] = field(default_factory=dict)

    @property
    def gpid(self) -> tuple[int, int]:
        """``(app_id, index)``."""
        return self.config.app_id, self.config.index


@dataclass
class MetaSettings:
    """Settings that remote commands and flags change in the leading meta server; lost with it."""

    only_move_primary: bool = False
    only_primary_balancer: bool = False
    balancer_in_turn: bool = False
    assign_delay_ms: int = 600_000
    black_list: tuple[str, ...] = ()
    ignored_app_ids: tuple[int, ...] = ()
    add_secondary_enable_flow_control: bool = False
    add_secondary_max_count_for_one_node: int = 10
    live_percentage: int = 65
    balance_cluster: bool = False
    balance_op_count_per_round: int = 10
    min_live_node_count_for_unfreeze: int = 3


@dataclass
class ClusterState:
    """The whole cluster.

    Attributes:
        nodes: By name, in the order of names.
        numbering: The balancer's own order of nodes.
        tables: By id.
        partitions: By ``(app_id, index)``, in gpid order.
        stored_level: What was set, any number.
        counts: Of the last look of the balancer.
        led_since_s: Monotonic seconds: since when the leading meta server runs.
        faults: What was requested, and answers that get lost.
        duplications: Of tables that are duplicated.
        policies: Of periodic backups.
        has_backups: Cold backups are enabled.
    """

    nodes: dict[str, Node]
    numbering: tuple[str, ...]
    tables: dict[int, TableEntry]
    partitions: dict[tuple[int, int], Partition]
    settings: MetaSettings = field(default_factory=MetaSettings)
    stored_level: int = FunctionLevel.STEADY
    counts: OperationCounts = field(default_factory=lambda: OperationCounts(-1, 0, 0, 0))
    led_since_s: float = 0.0
    faults: CallFaults = field(default_factory=CallFaults)
    duplications: list[DuplicationEntry] = field(default_factory=list)
    policies: list[BackupPolicyEntry] = field(default_factory=list)
    has_backups: bool = True

    def table_named(self, name: str) -> TableEntry | None:
        """Return an available table."""
        return next((table for table in self.tables.values() if table.name == name), None)

    def of_table(self, app_id: int) -> list[Partition]:
        """Return the partitions of a table in order."""
        count = self.tables[app_id].partition_count
        return [self.partitions[app_id, index] for index in range(count)]

    def replicas_of(self, node: str) -> list[ReplicaEntry]:
        """Return every replica of a node as its server reports it, in gpid order."""
        return [
            ReplicaEntry(
                *partition.gpid,
                status=status,
                ballot=ballot,
                last_committed_decree=partition.config.last_committed_decree,
                last_prepared_decree=partition.config.last_committed_decree,
                disk=partition.disks[node],
            )
            for partition in self.partitions.values()
            for status, ballot in self._reported(partition, node)
        ]

    @staticmethod
    def _reported(partition: Partition, node: str) -> list[tuple[ReplicaStatus, int]]:
        config = partition.config
        if node in config.members:
            role = ReplicaStatus.PRIMARY if node == config.primary else ReplicaStatus.SECONDARY
            return [(role, config.ballot)]
        if partition.learner == node and node in partition.disks:
            return [(ReplicaStatus.POTENTIAL_SECONDARY, config.ballot)]
        left = partition.leftovers.get(node)
        return [] if left is None else [(left.status, left.ballot)]

    def count_disks(self, node: Node) -> None:
        """Let a node count what its disks hold, as ``on_disk_stat`` does now and then."""
        node.holdings = {
            partition.gpid: (partition.disks[node.name], partition.config.primary == node.name)
            for partition in self.partitions.values()
            if node.name in partition.config.members
        }

    def reported_disks(self, node: Node, app_id: int | None = None) -> list[DiskEntry]:
        """Return the disks of a node as its server reports them: holdings as last counted."""
        held = {
            is_primary: {
                disk: {
                    gpid
                    for gpid, holding in node.holdings.items()
                    if holding == (disk, is_primary) and app_id in (None, gpid[0])
                }
                for disk in DISK_TAGS
            }
            for is_primary in (True, False)
        }
        return [
            replace(
                disk,
                primaries=frozenset(held[True][disk.tag]),
                secondaries=frozenset(held[False][disk.tag]),
            )
            for disk in self.disks_of(node.name)
        ]

    def serving_disks(self, node: str) -> list[DiskEntry]:
        """Return the disks of a node as the leading meta server knows them from its reports."""
        held: dict[str, set[tuple[int, int]]] = {tag: set() for tag in DISK_TAGS}
        for partition in self.partitions.values():
            tag = partition.memory.serving.get(node)
            if tag is not None:
                held[tag].add(partition.gpid)
        return [
            DiskEntry(tag, "", DISK_MB, DISK_MB, frozenset(), frozenset(held[tag]))
            for tag in DISK_TAGS
        ]

    def disks_of(self, node: str, app_id: int | None = None) -> list[DiskEntry]:
        """Return the disks of a node with the replicas on them, of one table or of all."""
        held: dict[str, tuple[set[tuple[int, int]], set[tuple[int, int]]]] = {
            tag: (set(), set()) for tag in DISK_TAGS
        }
        used = dict.fromkeys(DISK_TAGS, 0.0)
        for partition in self.partitions.values():
            tag = partition.disks.get(node)
            if tag is None or node not in partition.config.members:
                continue
            used[tag] += partition.size_mb
            if app_id in (None, partition.config.app_id):
                held[tag][partition.config.primary != node].add(partition.gpid)
        return [
            DiskEntry(
                tag,
                f"/data/{tag}/replica/reps",
                DISK_MB,
                int(DISK_MB - used[tag]),
                frozenset(primaries),
                frozenset(secondaries),
            )
            for tag, (primaries, secondaries) in held.items()
        ]

    def roomiest_disk(self, node: str, app_id: int) -> str:
        """Return a node's disk for a new replica: fewest of the table, then fewest of all.

        Source:
            Pegasus ``fs_manager`` ``find_best_dir_for_new_replica``.
        """
        of_table, of_all = dict.fromkeys(DISK_TAGS, 0), dict.fromkeys(DISK_TAGS, 0)
        for partition in self.partitions.values():
            tag = partition.disks.get(node)
            if tag is not None:
                of_all[tag] += 1
                of_table[tag] += partition.config.app_id == app_id
        return min(DISK_TAGS, key=lambda tag: (of_table[tag], of_all[tag]))


def found_cluster(
    options: PegasusOptions, ports: Sequence[int], *, now_s: int, now_mono_s: float
) -> ClusterState:
    """Return a healthy, uneven cluster.

    Args:
        options: Size and seed.
        ports: Of the replica servers, ascending.
        now_s: Seconds since the epoch.
        now_mono_s: Monotonic seconds.
    """
    rng = np.random.default_rng(options.seed)
    nodes = {
        f"localhost:{port}": Node(f"localhost:{port}", f"127.0.0.1:{port}", started_s=now_mono_s)
        for port in ports
    }
    names = list(nodes)
    numbering = tuple(names[at] for at in rng.permutation(len(names)))
    state = ClusterState(nodes, numbering, {}, {}, led_since_s=now_mono_s)
    for app_id, (name, count) in enumerate(TABLES, 1):
        state.tables[app_id] = TableEntry(
            app_id=app_id,
            name=name,
            status=TableStatus.AVAILABLE,
            partition_count=count,
            max_replica_count=_REPLICAS,
            envs={},
            create_s=now_s - _DAY_S * (30 - app_id),
            drop_s=0,
            expire_s=0,
            is_bulk_loading=False,
            is_duplicating=False,
        )
        _found_table(state, app_id, count, rng)
    return state


def _found_table(state: ClusterState, app_id: int, count: int, rng: np.random.Generator) -> None:
    names = list(state.nodes)
    preference = (1 - _GENTLE_DROP) ** np.arange(len(names))[rng.permutation(len(names))]
    heat = rng.lognormal(0.0, 1.0)
    for index in range(count):
        chosen = rng.choice(
            len(names), size=_REPLICAS, replace=False, p=preference / preference.sum()
        )
        members = [names[at] for at in chosen]
        config = PartitionConfig(
            app_id=app_id,
            index=index,
            ballot=_REPLICAS,
            max_replica_count=_REPLICAS,
            primary=members[0],
            secondaries=tuple(members[1:]),
            last_committed_decree=0,
        )
        partition = Partition(
            config,
            {},
            size_mb=float(_MEAN_MB * rng.lognormal(0.0, 0.4)),
            reads_per_s=float(200 * heat * rng.lognormal(0.0, 0.5)),
            writes_per_s=float(80 * heat * rng.lognormal(0.0, 0.5)),
        )
        state.partitions[app_id, index] = partition
        for name in members:
            partition.disks[name] = state.roomiest_disk(name, app_id)
        partition.memory = PartitionMemory(serving=dict(partition.disks))
