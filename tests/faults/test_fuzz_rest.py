"""Mutated REST bodies: no capture stops, and whatever is lost from the tables is named."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pytest
from mutations import mutate
from small_broker import SmallBroker, serve_cluster

from connectors.config.model import ClusterConfig
from connectors.pulsar.admin.errors import reason_of
from connectors.pulsar.collect import PulsarCollector, fetch_topics
from core.errors import ProtocolError, RemoteError
from core.schemas import PULSAR_TABLES, conform

TOPICS = {
    "acme/orders": {
        "0x00000000_0xffffffff": {
            "persistent": {
                "persistent://acme/orders/a": {
                    "msgRateIn": 1.0,
                    "subscriptions": {"s": {"msgBacklog": 1, "consumers": [{}]}},
                    "publishers": [{}],
                    "storageSize": 3,
                }
            }
        }
    }
}
COMPARED = ("brokers", "bundles", "namespaces")
SILENT = {
    # whose absence is a good answer, so that an emptied body loses nothing that anyone promised
    "/admin/v2/brokers/leaderBroker",
    "/admin/v2/tenants",
    "/admin/v2/namespaces/acme",
}


@pytest.fixture
def broker() -> Iterator[SmallBroker]:
    with SmallBroker() as running:
        serve_cluster(running)
        running.answers["/admin/v2/clusters/test/namespaceIsolationPolicies"] = (
            200,
            {},
            json.dumps({"p": {"namespaces": ["acme/orders"], "primary": ["x"]}}).encode(),
        )
        yield running


def config_for(broker: SmallBroker) -> ClusterConfig:
    return ClusterConfig(name="c", admin_urls=[broker.url], timeouts={"read_s": 2.0})


def lost(before: dict[str, pa.Table], after: dict[str, pa.Table]) -> list[str]:
    return [
        f"{name}.{column}"
        for name in COMPARED
        for column in before[name].column_names
        if after[name].column(column).null_count > before[name].column(column).null_count
        or after[name].num_rows < before[name].num_rows
    ]


def tells_other_owners(path: str, body: bytes) -> bool:
    """Whether the answer is a good one that only names other bundles as owned."""
    try:
        return path.endswith("/ownedNamespaces") and isinstance(json.loads(body), dict)
    except (ValueError, RecursionError):
        return False


def run(broker: SmallBroker, count: int, seed: int) -> None:
    rng = random.Random(seed)
    config = config_for(broker)
    collector = PulsarCollector(config)
    whole = collector.collect()
    collector.close()
    assert whole.manifest.problems == ()
    # a mutated list of brokers makes names that a resolver may take seconds to deny: see below
    paths = sorted(set(broker.answers) - {"/admin/v2/brokers"})
    good = dict(broker.answers)
    named = 0
    for number in range(count):
        path = rng.choice(paths)
        status, headers, body = good[path]
        damaged = mutate(body, rng)
        broker.answers[path] = (status, headers, damaged)
        collector = PulsarCollector(config)
        try:
            snapshot = collector.collect()
        finally:
            collector.close()
            broker.answers[path] = good[path]
        for name, table in snapshot.tables.items():
            conform(table, PULSAR_TABLES[name], name=name)
        gone = lost(dict(whole.tables), dict(snapshot.tables))
        problems = snapshot.manifest.problems
        is_good = path in SILENT or tells_other_owners(path, damaged)
        assert problems or not gone or is_good, f"{number}: {path} {damaged!r} {gone}"
        named += bool(problems)
    assert named > count // 4


def test_hundred_and_fifty_mutated_answers_are_each_named(broker: SmallBroker) -> None:
    run(broker, 150, seed=21)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_ten_thousand_mutated_answers_are_each_named(broker: SmallBroker) -> None:
    run(broker, 10_000, seed=22)


def test_mutated_list_of_brokers_is_a_snapshot_or_one_clean_error(broker: SmallBroker) -> None:
    rng = random.Random(25)
    status, headers, body = broker.answers["/admin/v2/brokers"]
    for _ in range(12):
        damaged = mutate(body, rng)
        broker.answers["/admin/v2/brokers"] = (status, headers, damaged)
        collector = PulsarCollector(config_for(broker))
        try:
            snapshot = collector.collect()
        except RemoteError:
            continue  # nothing at all could be read, and that is said
        finally:
            collector.close()
        names = snapshot.brokers.column("broker").to_pylist()
        assert snapshot.manifest.problems or names in ([], [broker.name])


def test_mutated_topics_are_a_table_or_one_clean_error(broker: SmallBroker) -> None:
    rng = random.Random(23)
    path = "/admin/v2/broker-stats/topics"
    body = json.dumps(TOPICS).encode()
    for _ in range(200):
        broker.answers[path] = (200, {}, mutate(body, rng))
        with suppress(ProtocolError):
            table = fetch_topics(config_for(broker), broker.url, None)
            conform(table, PULSAR_TABLES["topics"], name="topics")


def test_two_thousand_mutated_error_bodies_are_each_one_clean_line() -> None:
    rng = random.Random(24)
    trace = "\n --- x ---\n\nMessage: null\n\nStacktrace:\n\njava.lang.X\n\tat a.b.C.d(C.java:1)\n"
    bodies = [
        json.dumps({"reason": trace}).encode(),
        b"<html><head><title>Error 404 Not Found</title></head></html>",
        b'{"reason":"Namespace not found"}',
    ]
    for _ in range(2_000):
        reason = reason_of(mutate(rng.choice(bodies), rng))
        assert len(reason) <= 303
        assert reason.isprintable()
        assert "\tat" not in reason
