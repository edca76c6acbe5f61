"""Statistics of one topic, in the form of ``/admin/v2/broker-stats/topics``."""

from __future__ import annotations

from typing import Final

from connectors.sandbox.pulsar.documents import Json
from connectors.sandbox.pulsar.state import FleetState

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
