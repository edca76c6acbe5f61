"""Destinations on a cluster of the extensible manager: its filters are known by their names."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from core.plan.model import Plan
from core.pulsar.plan.build import build_unload_plan
from core.snapshot import Manifest, PulsarSnapshot

EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ONE, OTHER = "t/n/0x00000000_0xffffffff", "t/m/0x00000000_0xffffffff"
ISOLATION = {
    "kind": "isolation",
    "name": "own-brokers",
    "body": json.dumps(
        {
            "namespaces": ["t/n"],
            "primary": ["a", "b"],
            "secondary": [],
            "auto_failover_policy": {"parameters": {"min_limit": "1", "usage_threshold": "80"}},
        }
    ),
}


def planned(
    destination: str, *, topics: int = 1, group: str | None = None, **tables: list[dict[str, Any]]
) -> Plan:
    """Plan to send ONE from a:1 somewhere; b:1 owns OTHER, of the same group."""
    names = ("a:1", "b:1", "c:1")
    rows = {
        "brokers": [
            {
                "broker": name,
                "is_leader": name == "a:1",
                "version": "4.2.4",
                "load_manager": EXTENSIBLE,
                "topic_count": topics,
            }
            for name in names
        ],
        "bundles": [
            {
                "bundle": name,
                "namespace": name.rpartition("/")[0],
                "lower": 0,
                "upper": 0xFFFFFFFF,
                "owner": owner,
                "owner_source": "rest",
                "is_broker_bound": False,
            }
            for name, owner in ((ONE, "a:1"), (OTHER, "b:1"))
        ],
        "namespaces": [
            {"namespace": name, "tenant": "t", "anti_affinity_group": group}
            | {"is_broker_bound": False}
            for name in ("t/n", "t/m")
        ],
        "broker_loads": [
            {"broker": name, "weighted_max_ema": 0.5, "topics": topics} for name in names
        ],
        **tables,
    }
    manifest = Manifest(
        cluster="c",
        taken_at=NOON,
        tables={},
        load_manager="extensible",
        leader="a:1",
        release="4.2.4",
    )
    made = {name: pa.Table.from_pylist(part) for name, part in rows.items() if part}
    snapshot = PulsarSnapshot.build(manifest, made)
    now = NOON + timedelta(seconds=20)
    overrides = {"loadBalancerBrokerMaxTopics": 10}
    return build_unload_plan(snapshot, [ONE], destination=destination, now=now, overrides=overrides)


def severities(plan: Plan) -> dict[str, str]:
    return {item.code: item.severity for item in plan.diagnostics}


def test_a_destination_that_nothing_forbids_is_checked_and_taken() -> None:
    plan = planned("c:1")
    assert severities(plan) == {}
    assert plan.applyable


def test_isolation_forbids_a_destination() -> None:
    plan = planned("c:1", policies=[ISOLATION])
    assert severities(plan)["destination_not_allowed"] == "error"
    assert planned("b:1", policies=[ISOLATION]).applyable


def test_isolation_is_not_hidden_by_a_filter_before_it() -> None:
    plan = planned("c:1", topics=99, policies=[ISOLATION])
    assert severities(plan)["destination_not_allowed"] == "error"


def test_isolation_is_checked_where_no_load_was_read() -> None:
    plan = planned("c:1", policies=[ISOLATION], broker_loads=[])
    assert severities(plan)["destination_not_allowed"] == "error"


def test_anti_affinity_forbids_a_broker_that_serves_the_group() -> None:
    plan = planned("b:1", group="g")
    assert severities(plan)["destination_anti_affinity"] == "error"
    assert planned("c:1", group="g").applyable


def test_many_topics_are_a_warning() -> None:
    plan = planned("c:1", topics=99)
    assert severities(plan)["destination_topics"] == "warning"
