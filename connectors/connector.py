"""What the collector, the worker and the commands use of a system: readers and actions.

A connector belongs to one system and is in the system's folder; :mod:`connectors.config.kinds`
lists them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from connectors.check import CheckResult
from connectors.config.model import ClusterConfig, TrimtabConfig
from connectors.journal.journal import SqlJournal
from core.actions.ports import Cluster
from core.history.analysis.accuracy.shadow import Shadow
from core.plan.model import Plan
from core.snapshot.store import Storable
from core.systems import KnownSystem

ExecutedPlans = Callable[[datetime, datetime], Sequence[Plan]]
"""Plans of a cluster with a step that began between two moments, aware UTC."""


def no_plans(_since: datetime, _until: datetime) -> Sequence[Plan]:
    """Return no plan: there is no journal."""
    return ()


class Collector(Protocol):
    """Collector of one cluster's snapshots."""

    @property
    def changed(self) -> threading.Event:
        """Set when something came or went, so that the next snapshot is taken soon."""
        ...

    def collect(self) -> Storable:
        """Take one snapshot.

        Raises:
            RemoteError: Nothing at all could be read.
        """
        ...

    def close(self) -> None:
        """End every connection; twice is harmless."""
        ...


class OpenCluster(Cluster, Protocol):
    """A cluster with connections, as the executor acts on it."""

    def snapshot(self) -> Storable:
        """Return a fresh snapshot.

        Raises:
            RemoteError: Nothing could be read.
        """
        ...

    def close(self) -> None:
        """End every session and connection; twice is harmless."""
        ...


class Observer(Protocol):
    """Observer of a cluster between two snapshots."""

    @property
    def status(self) -> Any:
        """Its status, written into the collector's status file."""
        ...

    def put(self, snapshot: Any) -> None:
        """Use the settings of a new snapshot."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Connector(Protocol):
    """A system, with what reads its clusters and changes them."""

    @property
    def system(self) -> KnownSystem:
        """The system."""
        ...

    def collector(
        self,
        cluster: ClusterConfig,
        latest: Path | None = None,
        plans: ExecutedPlans = no_plans,
    ) -> Collector:
        """Return the collector of a cluster.

        Args:
            latest: Directory of its newest snapshot, which may have more than one reading gives.
            plans: Returns the plans of the cluster that runs executed between two moments.
        Raises:
            ConfigError: A secret or certificate cannot be read.
        """
        ...

    def open(
        self,
        cluster: ClusterConfig,
        limits: Callable[[], ClusterConfig] | None = None,
        journal: SqlJournal | None = None,
    ) -> OpenCluster:
        """Return a cluster to act on; whoever opens it closes it.

        Args:
            limits: Returns it with the limits that hold at that moment; by default they never
                change.
            journal: Of earlier runs; what they may have left pending is not sent again.
        Raises:
            ConfigError: A secret or certificate cannot be read.
        """
        ...

    def check(self, cluster: ClusterConfig) -> list[CheckResult]:
        """Try every endpoint of a cluster; never raises for one that does not work."""
        ...

    def observer(
        self, config: TrimtabConfig, cluster: ClusterConfig, on_change: Callable[[], None]
    ) -> Observer | None:
        """Return the observer of a cluster, or ``None`` if not supported."""
        ...

    def shadow(self, config: TrimtabConfig, cluster: ClusterConfig) -> Shadow:
        """Return the shadow balancer of a cluster, which predicts moves on every snapshot."""
        ...
