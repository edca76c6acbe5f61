"""Looking at what a step is about: partitions, nodes, the level, and who leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any, Final

import msgspec

from connectors.pegasus.rpc.client import MetaClient
from core.actions.model import Observation
from core.errors import NotFoundError, RemoteError
from core.pegasus.answers import NodeEntry
from core.pegasus.levels import parse_level
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import ProposalContext
from core.pegasus.steps.partition import Partition

AFTER_FAILOVER_S: Final = 12.0
"""How long what an old leader had begun may still show: a tick of a real meta server, and some."""

Pending = Callable[[], frozenset[str]]
"""Returns the partitions (gpid) that proposals of earlier runs may still change."""


class Members(msgspec.Struct, frozen=True, omit_defaults=True):
    """A partition's configuration as recorded in the journal.

    Attributes:
        ballot: Grows with every change.
        primary: Registered name; ``None`` if it has none.
        secondaries: Registered names.
        last_drops: Nodes that left, the latest last.
    """

    ballot: int
    primary: str | None = None
    secondaries: tuple[str, ...] = ()
    last_drops: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: PartitionConfig) -> Members:
        """Return those of a partition."""
        return cls(config.ballot, config.primary, config.secondaries, config.last_drops)

    def config(self, planned: Partition) -> PartitionConfig:
        """Return them in the form that the rules take."""
        app_id, _, index = planned.gpid.partition(".")
        return PartitionConfig(
            app_id=int(app_id),
            index=int(index),
            ballot=self.ballot,
            max_replica_count=planned.max_replica_count,
            primary=self.primary,
            secondaries=self.secondaries,
            last_drops=self.last_drops,
        )


class PartitionObservation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Observation of partitions.

    Attributes:
        items: By gpid; a partition that is gone is not there.
        reign: Who led, and since when its process runs; what is queued is lost with it.
    """

    items: dict[str, Members]
    reign: str = ""

    def text(self) -> str:
        """Return it for the journal."""
        return msgspec.json.encode(self).decode()


def seen_of(observation: Observation, planned: Iterable[Partition]) -> PartitionObservation:
    """Return the observation, else the state in the plan."""
    if observation.value is not None:
        try:
            return msgspec.json.decode(observation.value, type=PartitionObservation)
        except msgspec.MsgspecError:  # not written by us: the plan's own word is the next best
            pass
    return PartitionObservation({one.gpid: Members.of(one.config()) for one in planned})


class PartitionReader:
    """Reads from the leading meta server, without a cache.

    Args:
        client: Of the cluster's meta servers.
        pending: Partitions that are not proposed for; by default none is known.
        now_s: Seconds that only ever grow.
    """

    def __init__(
        self,
        client: MetaClient,
        pending: Pending = frozenset,
        now_s: Callable[[], float] = monotonic,
    ) -> None:
        self._client = client
        self._pending = pending
        self._now_s = now_s
        self._reign = ""
        self._reign_seen_s = now_s()
        self._elsewhere: set[tuple[str, str]] = set()

    def partitions(self, planned: Iterable[Partition]) -> dict[str, PartitionConfig]:
        """Return the partitions that are there, by gpid.

        Raises:
            RemoteError: They cannot be read.
        """
        by_table: dict[str, list[Partition]] = {}
        for one in planned:
            by_table.setdefault(one.table, []).append(one)
        found: dict[str, PartitionConfig] = {}
        for table, wanted in by_table.items():
            found |= self._of_table(table, {one.gpid for one in wanted})
        return found

    def _of_table(self, table: str, gpids: set[str]) -> dict[str, PartitionConfig]:
        indices = sorted(int(gpid.partition(".")[2]) for gpid in gpids)
        try:
            configs = self._client.fetch_partitions(table, indices)
        except NotFoundError:
            return {}
        # another table may have taken the name: its partitions have another id
        return {config.gpid: config for config in configs if config.gpid in gpids}

    def every_partition(self) -> list[PartitionConfig]:
        """Return all partitions of all tables that serve.

        Raises:
            RemoteError: They cannot be read.
        """
        names = [table.name for table in self._client.fetch_tables()]
        found = self._client.fetch_all_partitions(names)
        return [config for name in names for config in found[name]]

    def nodes(self) -> Mapping[str, NodeEntry]:
        """Return the nodes by registered name."""
        return {node.name: node for node in self._client.fetch_nodes()}

    def cluster(self) -> ProposalContext:
        """Return the context of proposal checks, just read."""
        info = self._client.fetch_cluster_info()
        return ProposalContext(self.nodes(), parse_level(info.level_word), self._pending())

    def reign(self) -> str:
        """Return the leader and its start time: ``host:port since TIME``."""
        reign = self._reported_reign()
        if reign != self._reign:
            self._reign, self._reign_seen_s = reign, self._now_s()
        return reign

    def _reported_reign(self) -> str:
        leader = self._client.fetch_cluster_info().leader
        info: Any = self._client.send_command("server-info")
        since = info.get("start_time", "") if isinstance(info, Mapping) else ""
        return f"{leader} since {since}" if since else leader

    # -- whether what was queued is lost -----------------------------------------------------------

    def note_sent(
        self, gpids: Iterable[str], reign: str, endpoint: str, *, is_answered: bool = True
    ) -> None:
        """Note whether who led before has got the proposals: only that one can have lost them.

        Args:
            gpids: Partitions.
            reign: What :meth:`reign` gave before they were sent.
            endpoint: Of the server that they were sent to.
            is_answered: It answered.
        """
        is_same = endpoint == f"pegasus {reign.partition(' since ')[0]}"
        if not is_same and is_answered:  # perhaps another name of the same server
            try:
                is_same = self.reign() == reign
            except RemoteError:  # no server leads right now: which one had it queued is unknown
                is_same = False
        if not is_same:
            self._elsewhere.update((gpid, reign) for gpid in gpids)

    def is_lost(self, gpid: str, reign: str) -> bool:
        """Return whether proposals of an earlier leader can certainly no longer be executed.

        Args:
            gpid: Partition.
            reign: Who led before the proposal was sent.
        """
        if not reign or reign == self._reign or (gpid, reign) in self._elsewhere:
            return False
        return self._now_s() - self._reign_seen_s >= AFTER_FAILOVER_S
