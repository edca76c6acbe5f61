"""A cluster of either kind, opened to be acted on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from connectors.config.model import ClusterConfig
from connectors.journal.journal import SqlJournal
from connectors.pegasus.acting.cluster import PegasusCluster
from connectors.pegasus.acting.pending import PendingProposals
from connectors.pulsar.acting.cluster import PulsarCluster
from core.actions.ports import Cluster
from core.snapshot import AnySnapshot


class OpenCluster(Cluster, Protocol):
    """A cluster with connections, as the executor acts on it."""

    def snapshot(self) -> AnySnapshot:
        """Return a fresh snapshot.

        Raises:
            RemoteError: Nothing could be read.
        """
        ...

    def close(self) -> None:
        """End every session and connection; twice is harmless."""
        ...


def open_cluster(
    config: ClusterConfig,
    limits: Callable[[], ClusterConfig] | None = None,
    journal: SqlJournal | None = None,
) -> OpenCluster:
    """Return a cluster to act on; whoever opens it closes it.

    Args:
        config: The cluster.
        limits: Returns it with the limits that hold at that moment; by default they never change.
        journal: Of earlier runs; what they may have left pending is not proposed for again.

    Raises:
        ConfigError: A secret or certificate cannot be read.
    """
    if config.kind == "pegasus":
        if journal is None:
            return PegasusCluster(config, limits)
        return PegasusCluster(config, limits, pending=PendingProposals(journal, config.name))
    return PulsarCluster(config, limits)
