"""The tables of a Pulsar snapshot.

Null means *unknown*: it is never zero and never green. Rates are messages/s, throughputs bytes/s,
usage ratios 0..1 (``<resource>_ratio`` is null where the broker reports no limit). Times are
milliseconds since the epoch, UTC.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

RESOURCES: Final = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
RATES: Final = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
_USAGE_UNITS: Final = {
    "cpu": "percent of one core, summed",
    "memory": "MiB of JVM heap",
    "direct_memory": "MiB",
    "bandwidth_in": "kbit/s",
    "bandwidth_out": "kbit/s",
}


def _field(name: str, kind: pa.DataType, unit: str = "", *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"unit": unit} if unit else None)


def _rates(prefix: str = "") -> list[pa.Field]:
    units = ("msgs/s", "msgs/s", "bytes/s", "bytes/s")
    return [
        _field(prefix + name, pa.float64(), unit) for name, unit in zip(RATES, units, strict=True)
    ]


def _resource(name: str) -> list[pa.Field]:
    unit = _USAGE_UNITS[name]
    return [
        _field(f"{name}_usage", pa.float64(), unit),
        _field(f"{name}_limit", pa.float64(), unit),
        _field(f"{name}_ratio", pa.float64(), "ratio"),
    ]


_NAMES = pa.list_(pa.string())

BROKERS: Final = pa.schema(
    [
        _field("broker", pa.string(), nullable=False),  # id host:webPort, the row's key
        _field("web_url", pa.string()),
        _field("web_url_tls", pa.string()),
        _field("service_url", pa.string()),
        _field("service_url_tls", pa.string()),
        _field("version", pa.string()),
        _field("load_manager", pa.string()),  # class name as the broker reports it
        _field("is_leader", pa.bool_(), nullable=False),
        _field("started_at", pa.int64(), "ms"),
        _field("reported_at", pa.int64(), "ms"),  # lastUpdate of the load report
        _field("persistent_topics_enabled", pa.bool_()),
        _field("non_persistent_topics_enabled", pa.bool_()),
        *[field for resource in RESOURCES for field in _resource(resource)],
        *_rates(),
        _field("topic_count", pa.int64()),
        _field("bundle_count", pa.int64()),
        _field("producer_count", pa.int64()),
        _field("consumer_count", pa.int64()),
        *_rates("short_"),  # /loadbalance/broker-time-average
        *_rates("long_"),
        _field("last_bundle_gains", _NAMES),
        _field("last_bundle_losses", _NAMES),
        _field("failure_domain", pa.string()),
        # name:URL, as broker.conf writes them; null: none, or unknown
        _field("advertised_listeners", _NAMES),
        _field("protocols", _NAMES),  # of protocol handlers, the same form
        _field("emptied_at", pa.int64(), "ms"),  # it gave up its last bundle while it ran
    ]
)
"""One row a broker, sorted by ``broker``. A broker whose report could not be read keeps its row:
nulls."""

BUNDLES: Final = pa.schema(
    [
        _field("bundle", pa.string(), nullable=False),  # tenant/namespace/0xL_0xU, the row's key
        _field("namespace", pa.string(), nullable=False),
        _field("lower", pa.int64(), nullable=False),
        _field("upper", pa.int64(), nullable=False),  # exclusive, but 0xffffffff is inclusive
        _field("owner", pa.string()),  # null: nobody owns it, or unknown (see owner_source)
        _field("owner_source", pa.string()),  # ownership | report | rest | channel; null: unknown
        _field("reported_by", pa.string()),  # the broker whose lastStats name it
        _field("is_broker_bound", pa.bool_(), nullable=False),  # heartbeat or SLA namespace
        *_rates(),  # last stats
        _field("topic_count", pa.int64()),
        _field("producer_count", pa.int64()),
        _field("consumer_count", pa.int64()),
        _field("cache_size_bytes", pa.int64(), "bytes"),
        *_rates("short_"),  # /loadbalance/bundle-data
        _field("short_samples", pa.int64()),
        *_rates("long_"),
        _field("long_samples", pa.int64()),
        _field("averaged_topic_count", pa.int64()),
    ]
)
"""One row a bundle, sorted by ``(namespace, lower, upper)``."""

NAMESPACES: Final = pa.schema(
    [
        _field("namespace", pa.string(), nullable=False),
        _field("tenant", pa.string(), nullable=False),
        _field("boundaries", pa.list_(pa.int64())),  # n + 1 values for n bundles; null: unknown
        # local-policies | policies | bundle-names | rest; null: unknown
        _field("boundaries_source", pa.string()),
        _field("anti_affinity_group", pa.string()),
        _field("resource_group", pa.string()),
        _field("replication_clusters", _NAMES),
        _field("is_broker_bound", pa.bool_(), nullable=False),
    ]
)
"""One row a namespace, sorted by ``namespace``."""

SETTINGS: Final = pa.schema(
    [
        _field(
            "broker", pa.string()
        ),  # null: every broker that has no row of its own for this name
        _field("name", pa.string(), nullable=False),  # upstream key
        _field("value", pa.string(), nullable=False),  # as upstream writes it
        _field("origin", pa.string(), nullable=False),  # default | file | dynamic | stored
    ]
)
"""Load-balancer settings in force. ``file``: the running value differs from the release's default
and is not overridden dynamically. ``stored``: a dynamic value that no broker goes by, or knows; its
name has :data:`STORED_PREFIX` before the key. A setting that has no row is unknown on this cluster:
the release's default is then assumed by kernels, and shown as assumed."""

STORED_PREFIX: Final = "stored:"
"""Before the key of a dynamic value that is stored and not in force."""

NAMESPACE_STORAGE: Final = "namespace_storage"
"""Kind of the policy that holds what a namespace sets for its data, by upstream field names."""

POLICIES: Final = pa.schema(
    [
        # isolation, failure_domain ... (core.pulsar.policy_kinds), or NAMESPACE_STORAGE
        _field("kind", pa.string(), nullable=False),
        _field("name", pa.string(), nullable=False),  # of the policy, or the namespace or bundle
        _field("body", pa.string(), nullable=False),  # the JSON as the cluster stores it
    ]
)
"""Cluster-wide policies, sorted by ``(kind, name)``; isolation policies keep their stored order."""

TOPICS: Final = pa.schema(
    [
        _field("topic", pa.string(), nullable=False),  # full name with domain and partition
        _field("bundle", pa.string(), nullable=False),
        _field("hash", pa.int64(), nullable=False),  # CRC-32 of the full name
        *_rates(),
        _field("producer_count", pa.int64()),
        _field("consumer_count", pa.int64()),
        _field("subscription_count", pa.int64()),
        _field("backlog", pa.int64(), "messages"),
        _field("storage_bytes", pa.int64(), "bytes"),
    ]
)
"""Topics of the bundles that were requested (on demand), sorted by ``hash``."""

BROKER_LOADS: Final = pa.schema(
    [
        _field("broker", pa.string(), nullable=False),
        _field("weighted_max_ema", pa.float64(), "ratio"),  # smoothed by the broker itself
        _field("msg_throughput_ema", pa.float64(), "bytes/s"),
        _field("max_resource_ratio", pa.float64(), "ratio"),  # unweighted, as the broker says it
        _field("updated_at", pa.int64(), "ms"),
        _field("reported_before_at", pa.int64(), "ms"),  # 0: this was its first report
    ]
)
"""What brokers of the extensible manager publish about themselves, sorted by ``broker``. A broker
without a row has published nothing that was read; its last record may also have been withdrawn."""

TOP_BUNDLES: Final = pa.schema(
    [
        _field("broker", pa.string(), nullable=False),
        _field("position", pa.int64(), nullable=False),  # 0 is the coldest of the hottest
        _field("bundle", pa.string(), nullable=False),
        *_rates(),
        _field("topic_count", pa.int64()),
        _field("producer_count", pa.int64()),
        _field("consumer_count", pa.int64()),
        _field("cache_size_bytes", pa.int64(), "bytes"),
    ]
)
"""The hottest bundles of each broker of the extensible manager, as it publishes them."""

UNIT_STATES: Final = pa.schema(
    [
        _field("bundle", pa.string(), nullable=False),
        _field("state", pa.string(), nullable=False),  # Owned, Assigning, Releasing, Splitting ...
        _field("broker", pa.string()),  # where it is, or goes to
        _field("source_broker", pa.string()),  # where it comes from
        _field("changed_at", pa.int64(), "ms"),
        _field("version", pa.int64()),
    ]
)
"""State of every bundle in the extensible manager's ownership channel, sorted by ``bundle``."""

CLAIMS: Final = pa.schema(
    [
        _field("subject_kind", pa.string(), nullable=False),  # bundle | broker | leader | averages
        _field("subject", pa.string(), nullable=False),  # bundle, broker id, or path
        _field("source", pa.string(), nullable=False),  # znode | report | written
        _field("broker", pa.string()),  # who claims it; null: the znode does not tell
        _field("session_id", pa.int64()),  # ephemeralOwner; 0: no ephemeral; null: unknown
        _field("created_at", pa.int64(), "ms"),  # ctime of the znode
        _field("reported_at", pa.int64(), "ms"),  # lastUpdate of the report that names the bundle
        _field("modified_at", pa.int64(), "ms"),  # mtime of the znode
        _field("is_disabled", pa.bool_()),  # of a bundle's znode: its owner unloads or splits it
    ]
)
"""Who says that it holds what, sorted by ``(subject_kind, subject, source, broker)``: a row for
every znode of ownership, registration and leadership, and one for every broker whose load report
names a bundle that another report names too. ``averages``: when the leader wrote those of bundles
or brokers last, by the path of their folder. A cluster read through REST alone has none."""

BROKER_METRICS: Final = pa.schema(
    [
        _field("broker", pa.string(), nullable=False),
        _field("source", pa.string(), nullable=False),  # prometheus | scrape
        _field("sampled_at", pa.int64(), "ms"),  # when the broker was scraped
        _field("window_s", pa.float64(), "s"),  # over which counters became rates
        *_rates(),
        _field("topic_count", pa.int64()),
        _field("producer_count", pa.int64()),
        _field("consumer_count", pa.int64()),
        _field("connection_count", pa.int64()),
        *[_field(f"{name}_ratio", pa.float64(), "ratio") for name in RESOURCES],  # pulsar_lb_*
        _field("heap_used_ratio", pa.float64(), "ratio"),
        _field("direct_used_ratio", pa.float64(), "ratio"),
        _field("gc_time_ratio", pa.float64(), "ratio"),  # share of the time in pauses
        _field("gc_rate", pa.float64(), "1/s"),
        _field("write_p99_ms", pa.float64(), "ms"),  # storage writes of the last minute
        _field("write_count", pa.float64(), "entries"),  # what that quantile is of
        _field("publish_p99_ms", pa.float64(), "ms"),
        _field("lookup_p99_ms", pa.float64(), "ms"),
        _field("topic_load_p99_ms", pa.float64(), "ms"),
        _field("lookups_pending", pa.float64()),
        _field("topic_loads_pending", pa.float64()),
        _field("lookup_failure_rate", pa.float64(), "1/s"),
        _field("unload_broker_total", pa.float64()),  # counted by the leader since it started
        _field("unload_bundle_total", pa.float64()),
        _field("unload_bundle_rate", pa.float64(), "1/s"),
        _field("split_bundle_total", pa.float64()),
        _field("process_started_at", pa.int64(), "ms"),
    ]
)
"""What brokers expose as metrics, from a Prometheus server or their own ``/metrics``, sorted by
``broker``. A broker without a row has no metrics that were read."""

BUNDLE_METRICS: Final = pa.schema(
    [
        _field("bundle", pa.string(), nullable=False),
        _field("broker", pa.string(), nullable=False),  # that exposes it
        *_rates(),
    ]
)
"""Rates of bundles as brokers expose them (``exposeBundlesMetricsInPrometheus``), sorted by
``(bundle, broker)``."""

ADDED_LATER: Final[dict[str, tuple[str, ...]]] = {
    "brokers": ("advertised_listeners", "protocols", "emptied_at"),
    "claims": ("modified_at", "is_disabled"),
}
"""Columns that older snapshots do not have, by table; unknown throughout they do not count in a
snapshot's id, so that an older one keeps its own."""

PULSAR_TABLES: Final[dict[str, pa.Schema]] = {
    "brokers": BROKERS,
    "bundles": BUNDLES,
    "namespaces": NAMESPACES,
    "settings": SETTINGS,
    "policies": POLICIES,
    "topics": TOPICS,
    "broker_loads": BROKER_LOADS,
    "top_bundles": TOP_BUNDLES,
    "unit_states": UNIT_STATES,
    "claims": CLAIMS,
    "broker_metrics": BROKER_METRICS,
    "bundle_metrics": BUNDLE_METRICS,
}

OPTIONAL_TABLES: Final = frozenset(
    {"broker_loads", "top_bundles", "unit_states", "claims", "broker_metrics", "bundle_metrics"}
)
"""Tables that not every cluster has: of the extensible manager, of sessions, of metrics. Without
rows they are not written, and no part of a snapshot's identity: snapshots that were taken before
they existed stay what they are."""

METRIC_TABLES: Final = frozenset({"broker_metrics", "bundle_metrics"})
"""Tables of what brokers expose as metrics."""
