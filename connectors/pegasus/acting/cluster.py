"""A Pegasus cluster as the executor acts on it: fresh snapshots, actions of steps, settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from connectors.config.model import ClusterConfig
from connectors.pegasus.acting.partition_reader import PartitionReader, Pending
from connectors.pegasus.acting.settings import ServerSettings
from connectors.pegasus.actions import ACTIONS
from connectors.pegasus.actions.wait import CLOSING_DELAY, ClusterProbe
from connectors.pegasus.collect import PegasusCollector
from connectors.pegasus.http.client import HttpClient
from connectors.pegasus.rpc.client import MetaClient
from connectors.worker.limits import LimitedCluster
from core.actions.ports import Action
from core.errors import InvariantError, ProtocolError, UnreachableError
from core.pegasus.answers import NodeEntry
from core.pegasus.proposal import Proposal
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.system import PEGASUS
from core.snapshot.pegasus import PegasusSnapshot
from core.step import Step
from core.units import is_whole

T = TypeVar("T")


class PegasusCluster(LimitedCluster):
    """One cluster, acted on by one worker; usable from one thread.

    Args:
        limits: Returns it with the limits that hold at that moment; by default they never change.
        pending: Partitions that are not proposed for; by default none is known.
        readings_apart_s: Seconds between two readings that say that nothing is left to balance;
            ``None`` for three ticks of the meta server.
    """

    system = PEGASUS

    def __init__(
        self,
        config: ClusterConfig,
        limits: Callable[[], ClusterConfig] | None = None,
        *,
        pending: Pending = frozenset,
        readings_apart_s: float | None = None,
    ) -> None:
        super().__init__(config, limits)
        self.readings_apart_s = readings_apart_s
        self._pending = pending
        answer_s, max_bytes = config.timeouts.answer_s, config.read_limits.answer_bytes
        self._client = MetaClient(config.meta_servers, timeout_s=answer_s, max_bytes=max_bytes)
        self._collector = PegasusCollector(config)
        self.reader = PartitionReader(self._client, pending)
        self.settings = ServerSettings(self._client, answer_s, max_bytes)
        nodes = ReplicasOpen(answer_s, max_bytes)
        self.senses = ClusterProbe(
            reader=self.reader,
            settings=self.settings,
            info=self._client.fetch_cluster_info,
            open_replicas=nodes.of,
            closing_delay_s=nodes.closing_delay_s,
        )

    # -- life -----------------------------------------------------------------------------------

    def close(self) -> None:
        """End every connection; twice is harmless."""
        self._collector.close()
        self._client.close()

    def snapshot(self) -> PegasusSnapshot:
        """Return a fresh snapshot.

        Raises:
            RemoteError: The leading meta server was not found, or reports no nodes or tables.
        """
        return self._collector.collect()

    # -- acting ---------------------------------------------------------------------------------

    def action(self, step: Step) -> Action:
        """Return the action that executes a step."""
        make = ACTIONS.get(type(step))
        if make is None:
            raise InvariantError(f"A Pegasus cluster does not support steps of kind {step.kind}.")
        return make(step, self)

    def pending(self) -> frozenset[str]:
        """Return the partitions (gpid) that proposals of earlier runs may still change.

        Raises:
            RemoteError: The journal cannot be read.
        """
        return self._pending()

    def propose(self, proposal: Proposal) -> str:
        """Send a proposal, once; return the endpoint of the server that has queued it.

        Raises:
            RemoteError: It was refused, or its outcome is unknown.
            GuardRefusedError: It is not sent.
        """
        return self._client.apply_proposal(proposal)

    def facts(self) -> PegasusFacts:
        """Return the facts of a fresh snapshot."""
        return PegasusFacts(self.snapshot())

    # -- settings -------------------------------------------------------------------------------

    def dynamic_setting(self, key: str) -> str | None:
        """Return the value of a setting of servers, ``None`` if no server reports it.

        Raises:
            RemoteError: It cannot be read.
        """
        return self.settings.value(key)

    def set_dynamic_setting(self, key: str, value: str | None) -> None:
        """Set a setting of servers; ``None`` to reset it.

        Raises:
            RemoteError: It was refused, or its outcome is unknown.
        """
        self.settings.set_value(key, value)


_COUNTS: Final = ("total_replicas", "opening_replicas", "closing_replicas")


class ReplicasOpen:
    """Asks servers for their metrics.

    Args:
        timeout_s: For one answer.
        max_bytes: Of the longest answer that is read.
    """

    def __init__(self, timeout_s: float, max_bytes: int) -> None:
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes

    def of(self, node: NodeEntry) -> int:
        """Return the number of replicas that a node serves, opens or closes.

        Asked by its name, else by its address.

        Raises:
            RemoteError: It cannot be reached, or does not report.
        """
        return self._ask(node, self._count)

    def closing_delay_s(self, node: NodeEntry) -> float:
        """Return the time that a node keeps a replica it has closed itself in memory, s.

        Raises:
            RemoteError: It cannot be reached, or does not report.
        """
        return self._ask(node, _closing_delay_s)

    def _ask(self, node: NodeEntry, read: Callable[[HttpClient, str], T]) -> T:
        addresses = [node.name, *([node.address] if node.address else [])]
        for address in addresses[:-1]:
            try:
                return self._at(address, read)
            except UnreachableError:
                continue
        return self._at(addresses[-1], read)

    def _at(self, address: str, read: Callable[[HttpClient, str], T]) -> T:
        client = HttpClient(address, timeout_s=self._timeout_s, max_bytes=self._max_bytes)
        try:
            return read(client, address)
        finally:
            client.close()

    @staticmethod
    def _count(client: HttpClient, address: str) -> int:
        sample = client.fetch_metrics(types=("server",), metrics=_COUNTS)
        found = [
            values[name] for values in sample.values.values() for name in _COUNTS if name in values
        ]
        if len(found) < len(_COUNTS):
            raise ProtocolError(
                f"{address} does not report its replica count in /metrics.",
                endpoint=address,
                operation="GET /metrics",
                outcome="refused",
                hint="Its version may be too old; check the server's own pages.",
            )
        return int(sum(found))


def _closing_delay_s(client: HttpClient, address: str) -> float:
    value = client.fetch_flag(CLOSING_DELAY).value
    if not is_whole(value):
        raise ProtocolError(
            f"{address} reports {value} for {CLOSING_DELAY}.",
            endpoint=address,
            operation="GET /config",
            outcome="refused",
            hint="The value must be a number of milliseconds.",
        )
    return int(value) / 1000.0
