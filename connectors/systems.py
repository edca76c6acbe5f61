"""The connectors of a configuration and of its clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from pkgutil import resolve_name
from typing import Final

from connectors.access.key import key_path, signature_check
from connectors.config.kinds import KINDS
from connectors.config.model import ClusterConfig, TrimtabConfig
from connectors.connector import Connector, ExecutedPlans, OpenCluster
from connectors.journal.journal import SqlJournal
from core.actions.runs import fold
from core.errors import ConfigError, OpsError
from core.plan.model import Plan
from core.systems import KnownSystem, steps_of

CONNECTORS: Final[tuple[Connector, ...]] = tuple(
    resolve_name(rules.connector) for rules in KINDS.values()
)


def connectors_of(config: TrimtabConfig) -> tuple[Connector, ...]:
    """Return the connectors that a configuration was read with; by default those there are."""
    return config.connectors or CONNECTORS


def systems_of(config: TrimtabConfig) -> tuple[KnownSystem, ...]:
    """Return the systems whose clusters a configuration may name."""
    return tuple(connector.system for connector in connectors_of(config))


def target_ratio(config: TrimtabConfig, cluster: ClusterConfig) -> float:
    """Return the deviation from the mean that a cluster may have, as configured or by default.

    Raises:
        ConfigError: No system has the cluster's kind.
    """
    own = cluster.target_ratio
    return connector_of(config, cluster).system.default_target_ratio if own is None else own


def target_of(config: TrimtabConfig, names: Iterable[str]) -> float | None:
    """Return the target that some clusters share; ``None`` where they share none, or are unknown.

    Args:
        config: The configuration.
        names: Of the clusters; none: all that are configured.
    """
    chosen = set(names)
    found = {
        target_ratio(config, one) for one in config.clusters if one.name in chosen or not chosen
    }
    return found.pop() if len(found) == 1 else None


def open_journal(config: TrimtabConfig) -> SqlJournal:
    """Open the journal of a configuration; its forged entries are marked.

    Raises:
        ConfigError: ``journal_url`` is none, or its driver is not installed.
        RemoteError: The database cannot be opened.
    """
    is_genuine = signature_check(key_path(config.access))
    return SqlJournal(config.journal_address, steps_of(systems_of(config)), is_genuine)


def plans_of(config: TrimtabConfig, cluster: ClusterConfig) -> ExecutedPlans:
    """Return the function that reads the executed plans of a cluster in the journal.

    It returns none while the journal cannot be read: a snapshot does not depend on it.
    """

    def executed(since: datetime, until: datetime) -> list[Plan]:
        try:
            journal = open_journal(config)
        except OpsError:
            return []
        try:
            runs = journal.runs_acting(cluster.name, since, until)
            return [fold(journal.entries(run_id=run_id)).plan for run_id in runs]
        except OpsError:
            return []
        finally:
            journal.close()

    return executed


def connector_of(config: TrimtabConfig, cluster: ClusterConfig) -> Connector:
    """Return the connector of a cluster.

    Raises:
        ConfigError: No system has the cluster's kind.
    """
    known = connectors_of(config)
    for connector in known:
        if connector.system.name == cluster.kind:
            return connector
    raise ConfigError(
        f"Cluster {cluster.name} has the unknown kind {cluster.kind!r}.",
        hint=f"Available: {', '.join(one.system.name for one in known)}.",
    )


def open_cluster(
    config: TrimtabConfig,
    cluster: ClusterConfig,
    limits: Callable[[], ClusterConfig] | None = None,
    journal: SqlJournal | None = None,
) -> OpenCluster:
    """Return a cluster to act on; see :meth:`connectors.connector.Connector.open`."""
    return connector_of(config, cluster).open(cluster, limits, journal)
