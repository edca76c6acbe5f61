"""The steps of plans for a Pegasus cluster: level, proposals, settings of servers, and waiting.

A proposal is queued by the meta server and carried out at its next tick; so a step holds the
partition as it was when the plan was made, and is verified by ballot and membership.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from core.pegasus.partition import PartitionConfig
from core.plan.step_base import StepBase

LEVEL_KEY: Final = "meta level"
"""How the function level is called where settings are saved and put back."""

LEADER: Final = ""
EVERY_NODE: Final = "*"

Move = Literal["move_pri", "copy_pri", "copy_sec"]
Change = Literal["ASSIGN_PRIMARY", "ADD_SECONDARY", "DOWNGRADE_TO_INACTIVE", "REMOVE"]
Awaited = Literal[
    "no_primaries",
    "no_replicas",
    "closed",
    "gone",
    "running",
    "restarted",
    "healthy",
    "balanced",
]


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as it was when the plan was made: the precondition of what is done to it.

    Attributes:
        gpid: ``app.index``.
        table: Name of its table.
        ballot: Grows with every change of its configuration.
        max_replica_count: Wanted replicas.
        primary: Registered name of the node; ``None``: it had none.
        secondaries: Registered names, in the order of their addition.
        last_drops: Nodes that left, the latest last.
    """

    gpid: str
    table: str
    ballot: int
    max_replica_count: int
    primary: str | None
    secondaries: tuple[str, ...] = ()
    last_drops: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: PartitionConfig, table: str) -> Partition:
        """Return a partition as its configuration has it."""
        return cls(
            gpid=config.gpid,
            table=table,
            ballot=config.ballot,
            max_replica_count=config.max_replica_count,
            primary=config.primary,
            secondaries=config.secondaries,
            last_drops=config.last_drops,
        )

    def config(self) -> PartitionConfig:
        """Return it in the form that the rules take."""
        app_id, _, index = self.gpid.partition(".")
        return PartitionConfig(
            app_id=int(app_id),
            index=int(index),
            ballot=self.ballot,
            max_replica_count=self.max_replica_count,
            primary=self.primary,
            secondaries=self.secondaries,
            last_drops=self.last_drops,
        )


class SetMetaLevel(StepBase, frozen=True, kw_only=True, tag="set_meta_level"):
    """Set the function level of the meta server; steady or below throws away what is pending.

    Attributes:
        before: Stored level when the plan was made, ``steady``: the precondition.
        level: What it shall be.
        is_restored: Put back when the run ends, however it ends.
    """

    before: str
    level: str
    is_restored: bool = False

    @property
    def subject(self) -> str:
        """The level."""
        return LEVEL_KEY

    @property
    def kept(self) -> str | None:
        """The value, where it is put back."""
        return self.level if self.is_restored else None

    @property
    def is_paced(self) -> bool:
        """It moves nothing."""
        return False


class MoveReplica(StepBase, frozen=True, kw_only=True, tag="move_replica"):
    """Move a primary, or copy a replica from one node to another, as ``balance`` of the shell.

    Attributes:
        partition: As it was when the plan was made.
        move: ``move_pri`` (roles change, no data moves), ``copy_pri`` or ``copy_sec``.
        source: Registered name of the node that gives.
        target: Registered name of the node that takes.
        size_mb: What is copied; ``None``: unknown, 0: nothing.
    """

    partition: Partition
    move: Move
    source: str
    target: str
    size_mb: float | None = None

    @property
    def subject(self) -> str:
        """The partition's gpid."""
        return self.partition.gpid

    @property
    def scopes(self) -> tuple[str, ...]:
        """The table."""
        return (self.partition.table,)

    @property
    def owner(self) -> str | None:
        """The node that gives."""
        return self.source

    @property
    def destination(self) -> str | None:
        """The node that takes."""
        return self.target


class ChangeReplica(StepBase, frozen=True, kw_only=True, tag="change_replica"):
    """One single safe change of a partition, as ``propose`` of the shell without force.

    Attributes:
        partition: As it was when the plan was made.
        change: Upstream's word without ``CT_``.
        node: Registered name of the node that becomes or ceases to be a member.
    """

    partition: Partition
    change: Change
    node: str

    @property
    def subject(self) -> str:
        """The partition's gpid."""
        return self.partition.gpid

    @property
    def scopes(self) -> tuple[str, ...]:
        """The table."""
        return (self.partition.table,)

    @property
    def owner(self) -> str | None:
        """The partition's primary."""
        return self.partition.primary

    @property
    def destination(self) -> str | None:
        """The node, where it becomes a member."""
        return self.node if self.change in ("ASSIGN_PRIMARY", "ADD_SECONDARY") else None


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of many; ``target``: who becomes its primary, ``None`` where nobody does."""

    partition: Partition
    target: str | None = None


class ProposeMany(StepBase, frozen=True, kw_only=True, tag="propose_many"):
    """The same for many partitions of one node, all proposed together and awaited together.

    Attributes:
        node: Registered name of the node that gives up primaries or replicas.
        verb: ``move_pri`` (each to its ``target``) or ``DOWNGRADE_TO_INACTIVE`` of secondaries.
        items: The partitions.
    """

    node: str
    verb: Literal["move_pri", "DOWNGRADE_TO_INACTIVE"]
    items: tuple[Proposed, ...]

    @property
    def subject(self) -> str:
        """The node."""
        return self.node

    @property
    def scopes(self) -> tuple[str, ...]:
        """The tables."""
        return tuple(dict.fromkeys(item.partition.table for item in self.items))

    @property
    def owner(self) -> str | None:
        """The node."""
        return self.node


class CloseReplicas(StepBase, frozen=True, kw_only=True, tag="close_replicas"):
    """Close replicas on a node that are no members any more (``replica.kill_partition``).

    Attributes:
        node: Registered name.
        partitions: gpids.
    """

    node: str
    partitions: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The node."""
        return self.node

    @property
    def owner(self) -> str | None:
        """The node."""
        return self.node


class SetServerSetting(StepBase, frozen=True, kw_only=True, tag="set_server_setting"):
    """Change a setting of servers at run time; none of them survives a restart of its server.

    Attributes:
        key: Name of a remote command (``meta.lb.only_move_primary``,
            ``nfs.max_copy_rate_megabytes_per_disk``) or of a flag (``balance_cluster``).
        server: :data:`LEADER`: the leading meta server; :data:`EVERY_NODE`: every living replica
            server; else the registered name of one.
        how: ``command``: a remote command; ``flag``: ``/updateConfig``.
        before: What it was when the plan was made, as the server writes it; where nodes differ a
            JSON object of node to value; ``None``: unknown. The precondition where known.
        value: What it shall be.
        is_restored: Put back when the run ends, however it ends.
    """

    key: str
    value: str
    server: str = LEADER
    how: Literal["command", "flag"] = "command"
    before: str | None = None
    is_restored: bool = False

    @property
    def subject(self) -> str:
        """The key, with the server where it is not the leading meta server."""
        return self.key if self.server == LEADER else f"{self.key}@{self.server}"

    @property
    def kept(self) -> str | None:
        """The value, where it is put back."""
        return self.value if self.is_restored else None

    @property
    def is_paced(self) -> bool:
        """It moves nothing."""
        return False


class AwaitState(StepBase, frozen=True, kw_only=True, tag="await_state"):
    """Change nothing: wait until the cluster, or a node of it, is in a state.

    Attributes:
        state: ``no_primaries``, ``no_replicas``: of ``node``; ``closed``: by its own count its
            process has no replica open; ``gone``: it is not alive any more; ``running``: it is
            alive and tells since when; ``restarted``: its process is another one than that;
            ``healthy``: every partition has its replicas; ``balanced``: at lively, nothing is left
            to do on several readings.
        node: Registered name, for the states of a node.
        within_s: Longest wait; then the step fails. ``None``: as long as it takes, until somebody
            stops the run.
        started_at: For ``restarted``: since when the process runs that has to end, in the server's
            own words; a run takes it from the wait for ``running`` before.
    """

    state: Awaited
    node: str | None = None
    within_s: float | None = None
    started_at: str | None = None

    @property
    def subject(self) -> str:
        """The node, or the whole cluster."""
        return self.node or "cluster"

    @property
    def is_paced(self) -> bool:
        """It moves nothing."""
        return False
