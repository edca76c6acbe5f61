"""The kinds of clusters: the one list of them, with the rules of their configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, kw_only=True)
class KindRules:
    """Rules and parts of one kind of clusters.

    Parts are ``module:name``, imported on first use: reading the configuration must be fast.

    Attributes:
        connector: Its ``Connector``.
        jobs: Its kinds of jobs.
        fault: Returns what is wrong with the fields of a ``ClusterConfig``, for people; empty:
            nothing.
        fields: Fields that no other kind has.
        pace_per_min: Steps a minute of a run where the file does not say; ``None`` for the default.
    """

    connector: str
    jobs: str
    fault: Callable[[Any], str]
    fields: tuple[str, ...] = ()
    pace_per_min: float | None = None


def fault_of(cluster: Any) -> str:
    """Return the fault in the fields of a ``ClusterConfig``, or ""."""
    for kind, rules in KINDS.items():
        for name in rules.fields:
            if kind != cluster.kind and getattr(cluster, name):
                return _together(name, kind)
    own = KINDS.get(cluster.kind)
    return own.fault(cluster) if own else ""


def _together(field: str, kind: str) -> str:
    return f'{field} and kind = "{kind}" must be used together'


def _pulsar(cluster: Any) -> str:
    if cluster.zookeeper is None and not cluster.admin_urls:
        return "set zookeeper, admin_urls, or both"
    return ""


def _pegasus(cluster: Any) -> str:
    if not cluster.meta_servers:
        return _together("meta_servers", cluster.kind)
    if cluster.zookeeper is not None or cluster.admin_urls:
        return "a pegasus cluster needs meta_servers, not zookeeper or admin_urls"
    if cluster.prometheus is not None:
        return "prometheus is for pulsar clusters; Pegasus servers report their own metrics"
    return ""


KINDS: Final[Mapping[str, KindRules]] = {
    "pulsar": KindRules(
        connector="connectors.pulsar.connector:PULSAR",
        jobs="connectors.jobs.kinds.pulsar:KINDS",
        fault=_pulsar,
    ),
    "pegasus": KindRules(
        connector="connectors.pegasus.connector:PEGASUS",
        jobs="connectors.jobs.kinds.pegasus:KINDS",
        fault=_pegasus,
        fields=("meta_servers",),
        pace_per_min=120.0,  # moving a primary is cheap
    ),
}
"""By kind."""
