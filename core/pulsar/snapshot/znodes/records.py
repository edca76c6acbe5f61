"""The JSON of Pulsar's load-balancer znodes as typed records.

Every field may be absent or null: Pulsar omits nulls, and what is not there is *unknown*.

Source:
    Pulsar ``LocalBrokerData``, ``LoadReport``, ``BrokerLookupData``, ``NamespaceBundleStats``,
    ``BundleData``, ``TimeAverageMessageData``, ``TimeAverageBrokerData``,
    ``NamespaceEphemeralData``, ``LocalPolicies``, ``Policies``, ``LeaderBroker``.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

import msgspec

INT64_MAX: Final = 2**63 - 1

Count = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
Rate = Annotated[float, msgspec.Meta(ge=0)]


class Record(msgspec.Struct, rename="camel", gc=False):
    """Base of all of them.

    Attributes:
        required: JSON names of the fields whose absence is a problem.
    """

    required: ClassVar[tuple[str, ...]] = ()


class ResourceUsage(Record):
    """Usage and limit in the resource's own unit."""

    required = ("usage", "limit")
    usage: float | None = None
    limit: float | None = None


class BundleStats(Record):
    """Last statistics of one bundle: msgs/s, bytes/s, counts, bytes of cache."""

    required = (
        *("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut"),
        *("topics", "producerCount", "consumerCount", "cacheSize"),
    )
    msg_rate_in: Rate | None = None
    msg_rate_out: Rate | None = None
    msg_throughput_in: Rate | None = None
    msg_throughput_out: Rate | None = None
    topics: Count | None = None
    producer_count: Count | None = None
    consumer_count: Count | None = None
    cache_size: Count | None = None


class Listener(Record):
    """Addresses that a broker gives to clients which name a listener (``AdvertisedListener``)."""

    broker_service_url: str | None = None
    broker_service_url_tls: str | None = None
    broker_http_url: str | None = None
    broker_https_url: str | None = None


class BrokerReport(Record):
    """A broker's registry znode under any load manager.

    ``load_report_type``, ``under_loaded`` and ``broker_version`` show which one wrote it.
    """

    required = (
        *("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut"),
        *("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut"),
        *("lastUpdate", "lastStats", "loadManagerClassName", "brokerVersionString"),
        *("numTopics", "numBundles", "numProducers", "numConsumers", "startTimestamp"),
        *("bundles", "lastBundleGains", "lastBundleLosses"),
        *("persistentTopicsEnabled", "nonPersistentTopicsEnabled"),
    )
    web_service_url: str | None = None
    web_service_url_tls: str | None = None
    pulsar_service_url: str | None = None
    pulsar_service_url_tls: str | None = None
    persistent_topics_enabled: bool | None = None
    non_persistent_topics_enabled: bool | None = None
    cpu: ResourceUsage | None = None
    memory: ResourceUsage | None = None
    direct_memory: ResourceUsage | None = None
    bandwidth_in: ResourceUsage | None = None
    bandwidth_out: ResourceUsage | None = None
    msg_rate_in: Rate | None = None
    msg_rate_out: Rate | None = None
    msg_throughput_in: Rate | None = None
    msg_throughput_out: Rate | None = None
    last_update: Count | None = None
    last_stats: dict[str, BundleStats] | None = None
    num_topics: Count | None = None
    num_bundles: Count | None = None
    num_producers: Count | None = None
    num_consumers: Count | None = None
    bundles: list[str] | None = None
    last_bundle_gains: list[str] | None = None
    last_bundle_losses: list[str] | None = None
    broker_version_string: str | None = None
    broker_version: str | None = None  # BrokerLookupData's name for it
    load_manager_class_name: str | None = None
    start_timestamp: Count | None = None
    load_report_type: str | None = None
    under_loaded: bool | None = None  # LoadReport only
    advertised_listeners: dict[str, Listener | None] | None = None
    protocols: dict[str, str | None] | None = None


class Averages(Record):
    """One time average of a bundle."""

    required = (
        *("numSamples", "msgRateIn", "msgRateOut"),
        *("msgThroughputIn", "msgThroughputOut"),
    )
    num_samples: Count | None = None
    msg_rate_in: Rate | None = None
    msg_rate_out: Rate | None = None
    msg_throughput_in: Rate | None = None
    msg_throughput_out: Rate | None = None


class BundleData(Record):
    """Both time averages of one bundle."""

    required = ("shortTermData", "longTermData", "topics")
    short_term_data: Averages | None = None
    long_term_data: Averages | None = None
    topics: Count | None = None


class BrokerAverages(Record):
    """Time averages of one broker, msgs/s and bytes/s."""

    required = tuple(
        f"{term}TermMsg{name}"
        for term in ("short", "long")
        for name in ("RateIn", "RateOut", "ThroughputIn", "ThroughputOut")
    )
    short_term_msg_rate_in: Rate | None = None
    short_term_msg_rate_out: Rate | None = None
    short_term_msg_throughput_in: Rate | None = None
    short_term_msg_throughput_out: Rate | None = None
    long_term_msg_rate_in: Rate | None = None
    long_term_msg_rate_out: Rate | None = None
    long_term_msg_throughput_in: Rate | None = None
    long_term_msg_throughput_out: Rate | None = None


class Ownership(Record):
    """Owner of a bundle: the value of its ephemeral znode."""

    required = ("disabled",)
    native_url: str | None = None
    native_url_tls: str | None = None
    http_url: str | None = None
    http_url_tls: str | None = None
    disabled: bool | None = None


class BundlesOfNamespace(Record):
    """Boundaries as texts ``0x%08x``."""

    required = ("boundaries",)
    boundaries: list[str] | None = None
    num_bundles: Count | None = None


class LocalPolicies(Record):
    """A namespace's policies in the cluster."""

    required = ("bundles",)
    bundles: BundlesOfNamespace | None = None
    namespace_anti_affinity_group: str | None = None


_ByCluster = dict[str, msgspec.Raw] | None


class NamespacePolicies(msgspec.Struct, gc=False):
    """A namespace's policies for all clusters; field names as in upstream."""

    required: ClassVar[tuple[str, ...]] = ("replication_clusters",)
    bundles: BundlesOfNamespace | None = None
    replication_clusters: list[str] | None = None
    resource_group_name: str | None = None
    # rates by cluster
    publish_rates: _ByCluster = msgspec.field(default=None, name="publishMaxMessageRate")
    dispatch_rates: _ByCluster = msgspec.field(default=None, name="topicDispatchRate")
    subscription_dispatch_rates: _ByCluster = msgspec.field(
        default=None, name="subscriptionDispatchRate"
    )
    # of all remote clusters; rates of a single one have keys of another form
    replicator_dispatch_rates: _ByCluster = msgspec.field(
        default=None, name="replicatorDispatchRate"
    )
    subscribe_rates: _ByCluster = msgspec.field(default=None, name="clusterSubscribeRate")

    # of its data
    retention_policies: dict[str, Any] | None = None
    message_ttl_in_seconds: int | None = None
    backlog_quota_map: dict[str, Any] | None = None
    persistence: dict[str, Any] | None = None

    def storage(self) -> dict[str, Any]:
        """Return retention, time to live, quotas and copies that are set, by upstream name."""
        stored = {
            "retention_policies": self.retention_policies,
            "message_ttl_in_seconds": self.message_ttl_in_seconds,
            "backlog_quota_map": self.backlog_quota_map or None,
            "persistence": self.persistence,
        }
        return {name: value for name, value in stored.items() if value is not None}

    def rates_of(self, cluster: str) -> dict[str, bytes]:
        """Return the rates that are set for a cluster, by their kind of policy."""
        stored = {
            "publish_rate": self.publish_rates,
            "dispatch_rate": self.dispatch_rates,
            "subscription_dispatch_rate": self.subscription_dispatch_rates,
            "replicator_dispatch_rate": self.replicator_dispatch_rates,
            "subscribe_rate": self.subscribe_rates,
        }
        return {kind: bytes(by[cluster]) for kind, by in stored.items() if by and cluster in by}


class FailureDomain(Record):
    """Broker ids that fail together."""

    required = ("brokers",)
    brokers: list[str] | None = None


class Leader(Record):
    """The leader election's winner; old releases write only the URL."""

    broker_id: str | None = None
    service_url: str | None = None
