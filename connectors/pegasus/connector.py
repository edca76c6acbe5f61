"""The connector of Pegasus; see :class:`connectors.connector.Connector`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from connectors.check import CheckResult
from connectors.config.model import ClusterConfig, TrimtabConfig
from connectors.connector import Connector, ExecutedPlans, no_plans
from connectors.journal.journal import SqlJournal
from connectors.pegasus.acting.cluster import PegasusCluster
from connectors.pegasus.acting.pending import PendingProposals
from connectors.pegasus.check import check_cluster
from connectors.pegasus.collect import PegasusCollector
from core.errors import OpsError
from core.history.analysis.accuracy.pegasus import POLICIES, PegasusShadow
from core.history.analysis.accuracy.shadow import Shadow
from core.pegasus.system import PEGASUS as SYSTEM
from core.snapshot.pegasus import load_pegasus_snapshot
from core.systems import KnownSystem


class PegasusConnector:
    """Reads meta and replica servers; acts through the leading meta server."""

    system: KnownSystem = SYSTEM

    def collector(
        self,
        cluster: ClusterConfig,
        latest: Path | None = None,
        plans: ExecutedPlans = no_plans,
    ) -> PegasusCollector:
        """Return the collector of a cluster; it continues from the latest snapshot."""
        del plans  # a node keeps no replica by chance: one that gave up all of them was drained
        collector = PegasusCollector(cluster)
        if latest is not None:
            # a damaged one, or another version's: it begins from nothing
            with contextlib.suppress(OpsError, LookupError, TypeError, ValueError):
                collector.recall(load_pegasus_snapshot(latest))
        return collector

    def open(
        self,
        cluster: ClusterConfig,
        limits: Callable[[], ClusterConfig] | None = None,
        journal: SqlJournal | None = None,
    ) -> PegasusCluster:
        """Return a cluster to act on; pending proposals of earlier runs are not sent again."""
        if journal is None:
            return PegasusCluster(cluster, limits)
        return PegasusCluster(cluster, limits, pending=PendingProposals(journal, cluster.name))

    def check(self, cluster: ClusterConfig) -> list[CheckResult]:
        """Try every endpoint of a cluster."""
        return check_cluster(cluster)

    def observer(
        self, config: TrimtabConfig, cluster: ClusterConfig, on_change: Callable[[], None]
    ) -> None:
        """Return nothing: the meta server announces no rounds."""
        del config, cluster, on_change

    def shadow(self, config: TrimtabConfig, cluster: ClusterConfig) -> Shadow:
        """Return the shadow balancer of the configured policies."""
        del cluster
        return PegasusShadow([name for name in config.history.shadow if name in POLICIES])


PEGASUS: Final[Connector] = PegasusConnector()
