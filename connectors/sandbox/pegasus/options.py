"""Size and pace of the Pegasus sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.errors import InputError

TABLES: Final = (
    ("stat", 8),
    ("temp", 8),
    ("orders", 16),
    ("profiles", 32),
    ("events", 64),
    ("features", 128),
)
"""Names and partitions of the tables; ids count from 1 in this order."""


@dataclass(frozen=True)
class PegasusOptions:
    """Everything that is random follows from ``seed``.

    Attributes:
        nodes: Replica servers, 3 or more.
        metas: Meta servers; the first leads.
        seed: Of placement, sizes, traffic, and the order of nodes that breaks ties.
        cluster: The cluster's own name.
        tick_s: Seconds between two looks of the guardian and the balancer; 10 in the real server.
        step_s: How long a change of roles takes.
        learn_mb_per_s: How fast a new replica is copied.
        grace_s: How long after its end a node is taken for dead; 22 in the real server.
        failover_s: How long after its end the leading meta server is replaced; 30 in the real one.
        replica_port: Of the first replica server; the others follow. Taken ones: any free ones.
        meta_port: Of the first meta server; the same.
        former_replica_ports: Ports of an earlier run, taken again where all are free.
        former_meta_ports: The same of the meta servers.
        is_living: Traffic goes up and down; else it stays at its mean.
    """

    nodes: int = 5
    metas: int = 2
    seed: int = 7
    cluster: str = "sandbox-pegasus"
    tick_s: float = 2.0
    step_s: float = 0.02
    learn_mb_per_s: float = 500.0
    grace_s: float = 5.0
    failover_s: float = 3.0
    replica_port: int = 34801
    meta_port: int = 34601
    former_replica_ports: tuple[int, ...] = ()
    former_meta_ports: tuple[int, ...] = ()
    is_living: bool = False

    @property
    def config_sync_s(self) -> float:
        """Report interval of a replica server: three ticks; 30 s in the real server."""
        return 3 * self.tick_s

    @property
    def disk_stat_s(self) -> float:
        """Disk statistics interval of a replica server: 60 ticks; 600 s in the real one.

        It counts for the first time that long after its start.
        """
        return 60 * self.tick_s

    @property
    def close_after_s(self) -> float:
        """Time that a removed healthy replica stays open: 60 ticks; 600 s in the real server."""
        return 60 * self.tick_s

    def __post_init__(self) -> None:
        """Refuse what cannot be a cluster.

        Raises:
            InputError: Too few servers, or a time that is not positive.
        """
        if self.nodes < 3 or self.metas < 1:
            raise InputError(
                f"{self.nodes} replica servers and {self.metas} meta servers do not form a "
                "cluster.",
                hint="Use at least 3 replica servers and 1 meta server.",
            )
        paces = (self.tick_s, self.step_s, self.learn_mb_per_s, self.grace_s, self.failover_s)
        if min(paces) <= 0:
            raise InputError(
                "A time or a rate of the sandbox is not positive.", hint="Use the default."
            )
