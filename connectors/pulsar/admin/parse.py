"""Answers of the admin REST to tables."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from core.pulsar.snapshot.znodes.records import INT64_MAX, Count, Rate
from core.schemas.pulsar import TOPICS
from core.snapshot.problems import ProblemLog


class _Subscription(msgspec.Struct, rename="camel", gc=False):
    msg_backlog: Count = 0
    consumers: list[msgspec.Raw] = []


class _Topic(msgspec.Struct, rename="camel", gc=False):
    msg_rate_in: Rate | None = None
    msg_rate_out: Rate | None = None
    msg_throughput_in: Rate | None = None
    msg_throughput_out: Rate | None = None
    producer_count: Count | None = None
    publishers: list[msgspec.Raw] = []
    subscriptions: dict[str, _Subscription] = {}
    storage_size: Count | None = None


BrokerTopics = dict[str, dict[str, dict[str, dict[str, _Topic]]]]
"""Namespace -> range -> domain -> topic -> statistics: ``broker-stats/topics``."""


def topics_table(answer: BrokerTopics, bundle: str | None) -> pa.Table:
    """Return the table of :data:`core.schemas.pulsar.TOPICS`, sorted by hash.

    Args:
        answer: What one broker answered about the topics it serves.
        bundle: Only the topics of this bundle; ``None`` for all of them.
    """
    rows: list[dict[str, Any]] = []
    for namespace, ranges in answer.items():
        for range_text, domains in ranges.items():
            name = f"{namespace}/{range_text}"
            if bundle is None or name == bundle:
                rows += [
                    _row(topic, name, stats)
                    for topics in domains.values()
                    for topic, stats in topics.items()
                ]
    rows.sort(key=lambda row: (row["hash"], row["topic"]))
    return pa.Table.from_pylist(rows, schema=TOPICS)


def _row(topic: str, bundle: str, stats: _Topic) -> dict[str, Any]:
    subscriptions = stats.subscriptions.values()
    producers = stats.producer_count
    return {
        "topic": topic,
        "bundle": bundle,
        "hash": zlib.crc32(topic.encode()),
        "msg_rate_in": stats.msg_rate_in,
        "msg_rate_out": stats.msg_rate_out,
        "msg_throughput_in": stats.msg_throughput_in,
        "msg_throughput_out": stats.msg_throughput_out,
        "producer_count": len(stats.publishers) if producers is None else producers,
        "consumer_count": sum(len(each.consumers) for each in subscriptions),
        "subscription_count": len(subscriptions),
        "backlog": min(sum(each.msg_backlog for each in subscriptions), INT64_MAX),
        "storage_bytes": stats.storage_size,
    }


def address_of(broker: str, base: str) -> str:
    """Return a broker's web address: its id names host and port, the known address the scheme."""
    return f"{base.partition('://')[0]}://{broker}"


def stub_report(url: str, own: Mapping[str, str]) -> bytes:
    """Return the registry entry of a broker that has no load report, from its settings."""
    return msgspec.json.encode(
        {
            "webServiceUrl": url,
            "loadManagerClassName": own.get("loadManagerClassName"),
            "brokerVersion": own.get("brokerVersion"),
        }
    )


def group_names(raw: bytes | None, place: str, problems: ProblemLog) -> list[str]:
    """Return the names of the resource groups; brokers that know none have no such list.

    Args:
        raw: The answer, ``None`` if there was none.
        place: Where it was read.
        problems: Filled here.
    """
    try:
        return msgspec.json.decode(raw or b"[]", type=list[str])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        what = "It is not a JSON list of names."
        problems.add("malformed", place, what, done="Resource groups are unknown.")
        return []
