"""The JSON that brokers keep in ZooKeeper and answer with, key for key as Pulsar 4.2 writes it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from connectors.sandbox.pulsar.options import MODULAR
from connectors.sandbox.pulsar.state import NO_BROKER, Broker, FleetState
from connectors.sandbox.pulsar.workload import (
    CPU_LIMIT,
    DIRECT_LIMIT_MIB,
    HEAP_LIMIT_MIB,
    NIC_LIMIT_KBIT_S,
)
from core.pulsar.load import DEFAULT_BYTES_PER_S, DEFAULT_MSGS_PER_S, LONG_SAMPLES, SHORT_SAMPLES

Json = dict[str, Any]

DEFAULT_QUOTA: Final[Json] = {
    "msgRateIn": 40.0,
    "msgRateOut": 120.0,
    "bandwidthIn": 100000.0,
    "bandwidthOut": 300000.0,
    "memory": 80.0,
    "dynamic": True,
}
_UNMEASURED: Final = np.array(
    [DEFAULT_MSGS_PER_S, DEFAULT_BYTES_PER_S, DEFAULT_MSGS_PER_S, DEFAULT_BYTES_PER_S]
)


def load_report(state: FleetState, broker: Broker, now_ms: int) -> Json:
    """Return a broker's load report (``LocalBrokerData``)."""
    row = broker.row
    rows = state.served_rows(row)
    rates, counts = state.rates[rows], state.counts[rows]
    total, sums = rates.sum(axis=0).tolist(), counts.sum(axis=0).tolist()
    names = [state.names[index] for index in rows.tolist()]
    stats = {
        name: {
            "msgRateIn": rate[0],
            "msgThroughputIn": rate[1],
            "msgRateOut": rate[2],
            "msgThroughputOut": rate[3],
            "consumerCount": count[2],
            "producerCount": count[1],
            "topics": count[0],
            "cacheSize": count[3],
        }
        for name, rate, count in zip(names, rates.tolist(), counts.tolist(), strict=True)
    }
    usage = {
        "cpu": _usage(state.usage.cpu[row], CPU_LIMIT),
        "memory": _usage(state.usage.heap_mib[row], HEAP_LIMIT_MIB),
        "directMemory": _usage(state.usage.direct_mib[row], DIRECT_LIMIT_MIB),
        "bandwidthIn": _usage(state.usage.bandwidth_in_kbit_s[row], NIC_LIMIT_KBIT_S),
        "bandwidthOut": _usage(state.usage.bandwidth_out_kbit_s[row], NIC_LIMIT_KBIT_S),
    }
    return {
        "webServiceUrl": broker.web_url,
        "pulsarServiceUrl": broker.service_url,
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": True,
        **usage,
        "msgThroughputIn": total[1],
        "msgThroughputOut": total[3],
        "msgRateIn": total[0],
        "msgRateOut": total[2],
        "lastUpdate": now_ms,
        "lastStats": stats,
        "numTopics": sums[0],
        "numBundles": len(names),
        "numConsumers": sums[2],
        "numProducers": sums[1],
        "bundles": names,
        "lastBundleGains": sorted(broker.gains),
        "lastBundleLosses": sorted(broker.losses),
        "brokerVersionString": broker.version,
        "protocols": {},
        "advertisedListeners": {},
        "loadManagerClassName": MODULAR,
        "startTimestamp": broker.started_ms,
        "maxResourceUsage": _largest(usage),
        "loadReportType": "LocalBrokerData",
    }


def _usage(usage: float, limit: float) -> Json:
    return {"usage": float(usage), "limit": limit}


def _largest(usage: Json) -> float:
    named = ("cpu", "directMemory", "bandwidthIn", "bandwidthOut")
    ratios = [np.float32(usage[n]["usage"]) / np.float32(usage[n]["limit"]) for n in named]
    return float(max(ratios) * np.float32(100) / np.float32(100))


def bundle_data(state: FleetState, row: int) -> Json:
    """Return the averages of one bundle (``BundleData``)."""
    return {
        "shortTermData": _average(SHORT_SAMPLES, state.short_samples[row], state.short[row]),
        "longTermData": _average(LONG_SAMPLES, state.long_samples[row], state.long[row]),
        "topics": int(state.counts[row, 0]),
    }


def _average(most: int, samples: int, rates: Any) -> Json:
    rate_in, throughput_in, rate_out, throughput_out = rates.tolist()
    return {
        "maxSamples": most,
        "numSamples": int(samples),
        "msgThroughputIn": throughput_in,
        "msgThroughputOut": throughput_out,
        "msgRateIn": rate_in,
        "msgRateOut": rate_out,
    }


def broker_averages(state: FleetState) -> list[Json]:
    """Return every broker's averages (``TimeAverageBrokerData``).

    A bundle without a measurement counts with the defaults.
    """
    answers: list[Json] = [{} for _ in state.brokers]
    by = state.reported_by
    named = by != NO_BROKER
    for term, average, samples in (
        ("shortTerm", state.short, state.short_samples),
        ("longTerm", state.long, state.long_samples),
    ):
        values = np.where((samples > 0)[:, None], average, _UNMEASURED)[named]
        sums = np.column_stack(
            [
                np.bincount(by[named], values[:, column], minlength=len(answers))
                for column in range(4)
            ]
        ).tolist()
        for answer, (rate_in, throughput_in, rate_out, throughput_out) in zip(
            answers, sums, strict=True
        ):
            answer[f"{term}MsgThroughputIn"] = throughput_in
            answer[f"{term}MsgThroughputOut"] = throughput_out
            answer[f"{term}MsgRateIn"] = rate_in
            answer[f"{term}MsgRateOut"] = rate_out
    return answers


def no_averages() -> Json:
    """Return the initial document of a broker that starts."""
    return {
        f"{term}Msg{key}": 0.0
        for term in ("shortTerm", "longTerm")
        for key in ("ThroughputIn", "ThroughputOut", "RateIn", "RateOut")
    }


def ownership(broker: Broker) -> Json:
    """Return the value of an ownership node (``NamespaceEphemeralData``)."""
    return {
        "nativeUrl": broker.service_url,
        "httpUrl": broker.web_url,
        "disabled": False,
        "advertisedListeners": {},
    }


def leader(broker: Broker) -> Json:
    """Return the value of the leader node."""
    return {"brokerId": broker.broker_id, "serviceUrl": broker.web_url}


def bundles(boundaries: Any) -> Json:
    """Return the ``bundles`` part of policies."""
    return {
        "boundaries": [f"0x{bound:08x}" for bound in boundaries.tolist()],
        "numBundles": len(boundaries) - 1,
    }


def local_policies(boundaries: Any, group: str | None) -> Json:
    """Return ``/admin/local-policies`` of a namespace."""
    named = {} if group is None else {"namespaceAntiAffinityGroup": group}
    return {"bundles": bundles(boundaries), **named, "migrated": False}


def returned_policies(stored: Json) -> Json:
    """Return the policies of a namespace as REST reports them: with one default filled in."""
    return {**stored, "is_allow_auto_update_schema": True}


def policies(boundaries: Any, cluster: str) -> Json:
    """Return ``/admin/policies`` of a namespace."""
    return {
        "auth_policies": {
            "namespace_auth": {},
            "destination_auth": {},
            "subscription_auth_roles": {},
        },
        "replication_clusters": [cluster],
        "allowed_clusters": [],
        "bundles": bundles(boundaries),
        "backlog_quota_map": {},
        "clusterDispatchRate": {},
        "topicDispatchRate": {},
        "subscriptionDispatchRate": {},
        "replicatorDispatchRate": {},
        "clusterSubscribeRate": {},
        "publishMaxMessageRate": {},
        "latency_stats_sample_rate": {},
        "deleted": False,
        "encryption_required": False,
        "subscription_auth_mode": "None",
        "offload_threshold": -1,
        "offload_threshold_in_seconds": -1,
        "schema_compatibility_strategy": "UNDEFINED",
        "schema_validation_enforced": False,
        "subscription_types_enabled": [],
        "properties": {},
        "migrated": False,
    }


def storage_policies() -> Json:
    """Return the storage policies of a namespace: three days, three copies."""
    days_s = 3 * 86_400
    limit = {"limit": -1, "limitSize": 10 << 30, "limitTime": -1}
    return {
        "retention_policies": {"retentionTimeInMinutes": days_s // 60, "retentionSizeInMB": -1},
        "message_ttl_in_seconds": days_s,
        "backlog_quota_map": {
            "destination_storage": {**limit, "policy": "consumer_backlog_eviction"}
        },
        "persistence": {
            "bookkeeperEnsemble": 3,
            "bookkeeperWriteQuorum": 3,
            "bookkeeperAckQuorum": 2,
            "managedLedgerMaxMarkDeleteRate": 0.0,
        },
    }


def cluster(broker: Broker) -> Json:
    """Return ``/admin/clusters/<name>``."""
    return {
        "serviceUrl": broker.web_url,
        "brokerServiceUrl": broker.service_url,
        "brokerClientTlsEnabled": False,
        "tlsAllowInsecureConnection": False,
        "brokerClientTlsEnabledWithKeyStore": False,
        "brokerClientTlsTrustStoreType": "JKS",
        "brokerClientTlsKeyStoreType": "JKS",
        "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
    }


def isolation_policy(namespace: str, primary: list[str], secondary: list[str]) -> Json:
    """Return one namespace isolation policy."""
    return {
        "namespaces": [namespace],
        "primary": primary,
        "secondary": secondary,
        "auto_failover_policy": {
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
            "policy_type": "min_available",
        },
    }


_CLIENT: Final = "Pulsar-Java-v4.2.4"
_RETAINED_S: Final = 600.0


def topic_document(state: FleetState, topic: int) -> Json:
    """Return the statistics of a topic.

    Args:
        state: The cluster.
        topic: Row of the topic.
    """
    topics = state.layout.topics
    rate_in, bytes_in, rate_out, bytes_out = state.topic_rates[topic].tolist()
    size, fan_out = float(topics.message_bytes[topic]), int(topics.fan_out[topic])
    producers, consumers = int(topics.producers[topic]), int(topics.consumers[topic])
    publishers = [
        {
            "msgRateIn": rate_in / producers,
            "msgThroughputIn": bytes_in / producers,
            "averageMsgSize": size,
            "address": f"/127.0.0.1:{40000 + (topic * 7 + number) % 20000}",
            "producerId": number,
            "producerName": f"sandbox-{topic}-{number}",
            "connectedSince": "2026-01-01T00:00:00Z",
            "clientVersion": _CLIENT,
            "metadata": {},
        }
        for number in range(producers)
    ]
    return {
        "publishers": publishers,
        "replication": {},
        "subscriptions": {
            f"reader-{number}": _subscription(
                rate_out / fan_out, bytes_out / fan_out, _share(consumers, fan_out, number)
            )
            for number in range(fan_out)
        },
        "producerCount": producers,
        "averageMsgSize": size,
        "msgRateIn": rate_in,
        "msgRateOut": rate_out,
        "msgInCount": int(rate_in * _RETAINED_S),
        "bytesInCount": int(bytes_in * _RETAINED_S),
        "msgOutCount": int(rate_out * _RETAINED_S),
        "bytesOutCount": int(bytes_out * _RETAINED_S),
        "msgThroughputIn": bytes_in,
        "msgThroughputOut": bytes_out,
        "storageSize": int(bytes_in * _RETAINED_S),
        "backlogSize": int(bytes_in),
        "pendingAddEntriesCount": 0,
        "filteredEntriesCount": 0,
    }


def _share(consumers: int, fan_out: int, number: int) -> int:
    """Consumers of one of several subscriptions: evenly, the rest to the first ones."""
    return consumers // fan_out + (number < consumers % fan_out)


def _subscription(rate: float, throughput: float, consumers: int) -> Json:
    connected = [
        {
            "consumerName": f"c{number}",
            "availablePermits": 900,
            "connectedSince": "2026-01-01T00:00:00Z",
            "msgRateOut": rate / consumers,
            "msgThroughputOut": throughput / consumers,
            "msgRateRedeliver": 0.0,
            "unackedMessages": 0,
            "blockedConsumerOnUnackedMsgs": False,
            "clientVersion": _CLIENT,
            "metadata": {},
        }
        for number in range(consumers)
    ]
    return {
        "consumers": connected,
        "msgBacklog": int(rate),
        "msgRateExpired": 0.0,
        "msgRateOut": rate,
        "messageAckRate": rate,
        "msgThroughputOut": throughput,
        "msgRateRedeliver": 0.0,
        "type": "Shared",
        "unackedMessages": 0,
    }
