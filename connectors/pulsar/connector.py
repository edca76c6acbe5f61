"""The connector of Pulsar; see :class:`connectors.connector.Connector`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from connectors.check import CheckResult
from connectors.config.model import ClusterConfig, TrimtabConfig
from connectors.connector import Connector, ExecutedPlans, no_plans
from connectors.journal.journal import SqlJournal
from connectors.pulsar.acting.cluster import PulsarCluster
from connectors.pulsar.check import check_cluster
from connectors.pulsar.collect import PulsarCollector
from connectors.pulsar.leader.observer import LeaderObserver, forecast_path, last_round
from core.errors import OpsError
from core.history.analysis.accuracy.pulsar import PulsarShadow
from core.history.analysis.accuracy.shadow import Shadow
from core.pulsar.shedding.registry import known_shedding_strategy
from core.pulsar.system import PULSAR as SYSTEM
from core.snapshot.store import load_snapshot
from core.systems import KnownSystem


class PulsarConnector:
    """Reads ZooKeeper, admin interface and load topics; acts through the admin interface."""

    system: KnownSystem = SYSTEM

    def collector(
        self,
        cluster: ClusterConfig,
        latest: Path | None = None,
        plans: ExecutedPlans = no_plans,
    ) -> PulsarCollector:
        """Return the collector of a cluster; drained brokers are as in the latest snapshot."""
        collector = PulsarCollector(cluster, plans)
        if latest is not None:
            # a damaged one, or another version's: it begins from nothing
            with contextlib.suppress(OpsError, LookupError, TypeError, ValueError):
                collector.recall(load_snapshot(latest))
        return collector

    def open(
        self,
        cluster: ClusterConfig,
        limits: Callable[[], ClusterConfig] | None = None,
        journal: SqlJournal | None = None,
    ) -> PulsarCluster:
        """Return a cluster to act on."""
        del journal  # an unload is not repeated by a broker
        return PulsarCluster(cluster, limits)

    def check(self, cluster: ClusterConfig) -> list[CheckResult]:
        """Try every endpoint of a cluster."""
        return check_cluster(cluster)

    def observer(
        self, config: TrimtabConfig, cluster: ClusterConfig, on_change: Callable[[], None]
    ) -> LeaderObserver | None:
        """Return the observer of the leader's load data, where ZooKeeper is configured."""
        if cluster.zookeeper is None:
            return None
        return LeaderObserver(
            cluster,
            config.state_dir / "leader",
            minute_s=config.history.minute_s,
            on_change=on_change,
        )

    def shadow(self, config: TrimtabConfig, cluster: ClusterConfig) -> Shadow:
        """Return the shadow balancer of the configured strategies."""
        forecast = forecast_path(config.state_dir / "leader", cluster.name)
        names = [name for name in config.history.shadow if known_shedding_strategy(name)]
        return PulsarShadow(names, config.history.minute_s, partial(last_round, forecast))


PULSAR: Final[Connector] = PulsarConnector()
