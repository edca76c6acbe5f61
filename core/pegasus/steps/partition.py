"""A partition as a step of a plan holds it."""

from __future__ import annotations

import msgspec

from core.pegasus.partition import PartitionConfig


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as it was when the plan was made: the precondition of what is done to it.

    Attributes:
        gpid: ``app.index``.
        table: Name of its table.
        ballot: Grows with every change of its configuration.
        max_replica_count: Wanted replicas.
        primary: Registered name of the node; ``None`` if it had none.
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
