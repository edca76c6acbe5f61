"""One partition as the meta server keeps it: the stored configuration and what it remembers."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from core.pegasus.balance.model import ProposalAction
from core.pegasus.ids import gpid_text

UNKNOWN: int = -1
"""A ballot or a decree that was not reported."""


@dataclass(frozen=True)
class PartitionConfig:
    """Stored configuration of a partition.

    Attributes:
        app_id: Table.
        index: Place in the table.
        ballot: Grows with every change; -1: not registered yet.
        max_replica_count: Wanted replicas.
        primary: Node, ``None`` without one.
        secondaries: Nodes in the order in which they were added.
        last_drops: Nodes that left, the latest last, three at most.
        last_committed_decree: Of the configuration.
    """

    app_id: int
    index: int
    ballot: int
    max_replica_count: int
    primary: str | None
    secondaries: tuple[str, ...] = ()
    last_drops: tuple[str, ...] = ()
    last_committed_decree: int = 0

    @property
    def gpid(self) -> str:
        """``app.index``."""
        return gpid_text(self.app_id, self.index)

    @property
    def members(self) -> tuple[str, ...]:
        """The primary, if there is one, then the secondaries."""
        return ((self.primary,) if self.primary else ()) + self.secondaries

    @property
    def replica_count(self) -> int:
        """Members."""
        return len(self.members)

    @property
    def is_child(self) -> bool:
        """Whether it is an unregistered child of a partition split."""
        return self.ballot == UNKNOWN and not self.members

    @property
    def is_ddd(self) -> bool:
        """Whether every replica was lost: no member, but former nodes."""
        return not self.members and bool(self.last_drops)


class ReplicaStatus(enum.IntEnum):
    """Upstream ``partition_status``: the role of a replica as its own server reports it."""

    INVALID = 0
    INACTIVE = 1
    ERROR = 2
    PRIMARY = 3
    SECONDARY = 4
    POTENTIAL_SECONDARY = 5
    PARTITION_SPLIT = 6


@dataclass(frozen=True)
class ReplicaEntry:
    """One replica as its server reports it, open or closed (upstream ``replica_info``).

    Attributes:
        app_id: Table.
        index: Place in the table.
        status: Role by the server's own account.
        ballot: Of its configuration.
        last_committed_decree: Last write that is committed.
        last_prepared_decree: Last write that it has prepared.
        disk: Tag of the disk that holds it.
    """

    app_id: int
    index: int
    status: ReplicaStatus
    ballot: int
    last_committed_decree: int
    last_prepared_decree: int
    disk: str


@dataclass(frozen=True)
class DroppedReplica:
    """The meta server's record of a replica that is no longer a member.

    Attributes:
        node: Its node.
        time_ms: When it was dropped; 0: learned from a report, as good as long ago.
        ballot: -1: unknown.
        last_committed_decree: -1: unknown.
        last_prepared_decree: -1: unknown.
    """

    node: str
    time_ms: int = 0
    ballot: int = UNKNOWN
    last_committed_decree: int = UNKNOWN
    last_prepared_decree: int = UNKNOWN


@dataclass(frozen=True)
class PartitionMemory:
    """The leading meta server's memory of a partition; lost with its leadership.

    Attributes:
        pending: Actions still to be done; only the first is ever sent.
        is_pending_abnormal: The learner of the first action has failed since it began.
        dropped: Ascending by time.
        prefered_dropped: Index into ``dropped`` at which the search starts; ``None`` for its end.
        learner: Last report of the node that the first action adds, while it learns; ``None`` if it
            has not reported that it learns.
        serving: Disk tag by node, of members that have reported their replica.
    """

    pending: tuple[ProposalAction, ...] = ()
    is_pending_abnormal: bool = False
    dropped: tuple[DroppedReplica, ...] = ()
    prefered_dropped: int | None = None
    learner: ReplicaEntry | None = None
    serving: Mapping[str, str] = field(default_factory=dict)

    def dropped_on(self, node: str) -> DroppedReplica | None:
        """Return the record of the dropped replica on a node."""
        return next((one for one in self.dropped if one.node == node), None)


def membership(config: PartitionConfig) -> str:
    """Return the members of a partition: ``primary n1:34801, secondaries n2:34801, n3:34801``."""
    seconds = ", ".join(config.secondaries) or "none"
    return f"primary {config.primary or 'none'}, secondaries {seconds}"
