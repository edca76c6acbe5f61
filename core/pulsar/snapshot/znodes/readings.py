"""What was read of a cluster, before anything is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

BROKERS: Final = "/loadbalance/brokers"
BROKER_AVERAGES: Final = "/loadbalance/broker-time-average"
BUNDLE_DATA: Final = "/loadbalance/bundle-data"
RESOURCE_QUOTA: Final = "/loadbalance/resource-quota"
LEADERS: Final = ("/loadbalance/leader", "/loadbalance/extension/leader")
OWNERSHIP: Final = "/namespace"
LOCAL_POLICIES: Final = "/admin/local-policies"
POLICIES: Final = "/admin/policies"
RESOURCE_GROUPS: Final = "/admin/resourcegroups"
CONFIGURATION: Final = "/admin/configuration"
CLUSTERS: Final = "/admin/clusters"


class ZnodeOwnership(NamedTuple):
    """Session of a znode.

    Attributes:
        session_id: Session that it lives with; 0: it is no ephemeral; ``None`` if unknown.
        created_at: When it was created, ms since the epoch; ``None`` if unknown.
        modified_at: When its value was last written, ms since the epoch; ``None`` if unknown.
    """

    session_id: int | None
    created_at: int | None
    modified_at: int | None = None


@dataclass(slots=True, kw_only=True)
class Readings:
    """Raw values by the name of what they describe.

    Attributes:
        brokers: Broker id -> registry znode; empty bytes stand for one that could not be read.
        broker_place: Where a broker's report was read, with ``{}`` for the broker id.
        broker_averages: Broker id -> ``broker-time-average`` znode.
        averages_written: Broker id -> when that was written last, ms since the epoch.
        bundle_data: Bundle -> ``bundle-data`` znode.
        bundle_data_written: When any of those was written last, ms since the epoch.
        brokers_held: Broker id -> how its registry znode is held.
        ownership: Bundle -> the value of its ownership ephemeral.
        ownership_held: Bundle -> how that is held.
        owners: Bundle -> broker id, as brokers themselves say it (REST).
        owners_known: Whether a bundle that is in neither has no owner.
        unread_owners: Tenants, namespaces and bundles whose ownership could not be read.
        local_policies: Namespace -> ``local-policies`` znode.
        policies: Namespace -> ``policies`` znode.
        boundaries: Namespace -> boundaries as brokers answer them (REST).
        isolation: Isolation policies of the cluster, one JSON object; ``None`` if there are none.
        failure_domains: Name -> JSON.
        resource_quotas: Bundle or ``default`` -> JSON.
        resource_groups: Name -> JSON.
        dynamic: ``/admin/configuration``, ``None`` when it was not read.
        leader: Value of the leader znode, ``None`` when there is none.
        leader_place: Where that was read.
        leader_held: How it is held, ``None`` when that is unknown.
        pulsar_cluster: The cluster's own name.
    """

    brokers: dict[str, bytes] = field(default_factory=dict)
    broker_place: str = BROKERS + "/{}"
    broker_averages: dict[str, bytes] = field(default_factory=dict)
    averages_written: dict[str, int] = field(default_factory=dict)
    bundle_data: dict[str, bytes] = field(default_factory=dict)
    bundle_data_written: int | None = None
    brokers_held: dict[str, ZnodeOwnership] = field(default_factory=dict)
    ownership: dict[str, bytes] = field(default_factory=dict)
    ownership_held: dict[str, ZnodeOwnership] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    owners_known: bool = False
    unread_owners: set[str] = field(default_factory=set)
    local_policies: dict[str, bytes] = field(default_factory=dict)
    policies: dict[str, bytes] = field(default_factory=dict)
    boundaries: dict[str, bytes] = field(default_factory=dict)
    isolation: bytes | None = None
    failure_domains: dict[str, bytes] = field(default_factory=dict)
    resource_quotas: dict[str, bytes] = field(default_factory=dict)
    resource_groups: dict[str, bytes] = field(default_factory=dict)
    dynamic: bytes | None = None
    leader: bytes | None = None
    leader_place: str = LEADERS[0]
    leader_held: ZnodeOwnership | None = None
    pulsar_cluster: str | None = None

    def broker_path(self, broker: str) -> str:
        """Return the path of that broker's report."""
        return self.broker_place.format(broker)


def own_cluster(clusters: Mapping[str, bytes] | Iterable[str]) -> str | None:
    """Return the cluster's own name when only one local cluster is known, else ``None``.

    ``global`` is a placeholder that older releases store next to the real ones.
    """
    local = [name for name in clusters if name != "global"]
    return local[0] if len(local) == 1 else None
