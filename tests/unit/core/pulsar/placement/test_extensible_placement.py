"""The extensible manager's chain: its filters in their order, and its one strategy."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from core.pulsar.placement import Placement, place_all, place_bundle
from core.pulsar.settings import effective_settings
from core.pulsar.snapshot.znodes.assemble import EXTENSIBLE_LACKS
from core.pulsar.view import LoadView
from core.snapshot import Manifest, PulsarSnapshot

EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ONE = "t/n/0x00000000_0xffffffff"


def broker(name: str, **facts: Any) -> dict[str, Any]:
    return {
        "broker": name,
        "is_leader": name == "a:1",
        "version": "4.2.4",
        "load_manager": EXTENSIBLE,
        "topic_count": 1,
        **facts,
    }


def bundle(name: str, owner: str | None = "a:1") -> dict[str, Any]:
    return {
        "bundle": name,
        "namespace": name.rpartition("/")[0],
        "lower": 0,
        "upper": 0xFFFFFFFF,
        "owner": owner,
        "owner_source": "rest",
        "is_broker_bound": False,
    }


def ask(
    brokers: list[dict[str, Any]],
    loads: dict[str, float],
    *,
    bundles: list[dict[str, Any]] | None = None,
    overrides: dict[str, object] | None = None,
    strategy: str | None = None,
    unavailable: tuple[str, ...] = (),
    **tables: list[dict[str, Any]],
) -> Placement:
    manifest = Manifest(
        cluster="c",
        taken_at=NOON,
        tables={},
        load_manager="extensible",
        leader="a:1",
        release="4.2.4",
        unavailable=unavailable,
    )
    published = [{"broker": name, "weighted_max_ema": usage} for name, usage in loads.items()]
    rows = {
        "brokers": brokers,
        "bundles": bundles or [bundle(ONE)],
        "broker_loads": published,
        **tables,
    }
    made = {name: pa.Table.from_pylist(part) for name, part in rows.items() if part}
    snapshot = PulsarSnapshot.build(manifest, made)
    settings = effective_settings(snapshot, overrides=overrides)
    view = LoadView.of(snapshot, settings)
    placed = place_bundle(view, ONE, settings, strategy=strategy)
    if strategy is None:
        assert place_all(view, settings).distribution(ONE) == placed.distribution
    for name in view.brokers:
        reasons = (name in placed.distribution) + (name in placed.ruled_out)
        assert reasons == (1 if placed.is_known else 0), name
    return placed


THREE = [broker(name) for name in ("a:1", "b:1", "c:1")]


def test_the_broker_far_enough_below_the_mean_wins() -> None:
    placed = ask(THREE, {"a:1": 0.5, "b:1": 0.6, "c:1": 0.2})
    assert placed.distribution == {"c:1": 1.0}
    assert "below the mean" in placed.ruled_out["a:1"]


def test_nobody_far_enough_below_the_mean_means_anybody() -> None:
    placed = ask(THREE, {"a:1": 0.5, "b:1": 0.5, "c:1": 0.45})
    assert set(placed.distribution) == {"a:1", "b:1", "c:1"}


def test_a_broker_without_published_load_is_drawn_only_when_nobody_is_far_enough_below() -> None:
    near = ask(THREE, {"a:1": 0.5, "b:1": 0.5})
    assert near.distribution == pytest.approx(dict.fromkeys(("a:1", "b:1", "c:1"), 1 / 3))
    apart = ask(THREE, {"a:1": 0.9, "b:1": 0.1})
    assert apart.distribution == {"b:1": 1.0}
    assert "published no load" in apart.ruled_out["c:1"]


def test_the_most_topics_are_one_too_many_and_nothing_is_restored() -> None:
    brokers = [broker("a:1", topic_count=10), broker("b:1", topic_count=9)]
    loads = {"a:1": 0.1, "b:1": 0.9}
    limit = {"loadBalancerBrokerMaxTopics": 10}
    assert ask(brokers, loads, overrides=limit).distribution == {"b:1": 1.0}
    none = ask(brokers, loads, overrides={"loadBalancerBrokerMaxTopics": 9})
    assert (none.distribution, none.is_known) == ({}, True)
    assert "No broker is" in none.why


def test_brokers_of_another_load_manager_or_an_older_version_are_left_out() -> None:
    brokers = [broker("a:1"), broker("b:1", load_manager=MODULAR), broker("c:1", version="4.0.8")]
    loads = dict.fromkeys(("a:1", "b:1", "c:1"), 0.5)
    found = ask(brokers, loads, overrides={"preferLaterVersions": True})
    assert found.distribution == {"a:1": 1.0}
    assert found.ruled_out["b:1"].startswith("BrokerLoadManagerClassFilter")
    assert found.ruled_out["c:1"].startswith("BrokerVersionFilter")


def test_an_anti_affinity_group_counts_bundles_and_not_namespaces() -> None:
    pair = [{"namespace": name, "tenant": "t", "anti_affinity_group": "g", "is_broker_bound": False}
            for name in ("t/n", "t/m")]  # fmt: skip
    bundles = [
        bundle(ONE, None),
        bundle("t/m/0x00000000_0x80000000", "a:1"),
        bundle("t/m/0x80000000_0xc0000000", "a:1"),
        bundle("t/m/0xc0000000_0xffffffff", "b:1"),
    ]
    two = [broker("a:1"), broker("b:1")]
    found = ask(two, {"a:1": 0.1, "b:1": 0.9}, bundles=bundles, namespaces=pair)
    assert found.distribution == {"b:1": 1.0}
    assert "2 bundles of anti-affinity group" in found.ruled_out["a:1"]


def test_isolation_is_the_last_filter() -> None:
    policy = {
        "namespaces": ["t/.*"],
        "primary": ["b"],
        "secondary": ["c"],
        "auto_failover_policy": {"parameters": {"min_limit": "1", "usage_threshold": "80"}},
    }
    rows = [{"kind": "isolation", "name": "p", "body": json.dumps(policy)}]
    loads = dict.fromkeys(("a:1", "b:1", "c:1"), 0.5)
    assert ask(THREE, loads, policies=rows).distribution == {"b:1": 1.0}
    full = [broker("a:1"), broker("b:1", topic_count=99), broker("c:1")]
    stepped_in = ask(full, loads, policies=rows, overrides={"loadBalancerBrokerMaxTopics": 50})
    assert stepped_in.distribution == {"c:1": 1.0}


def test_an_overloaded_pick_stands() -> None:
    found = ask(THREE, {"a:1": 1.2, "b:1": 1.5, "c:1": 0.95})
    assert found.distribution == {"c:1": 1.0}


def test_where_no_broker_published_its_load_all_candidates_are_equal() -> None:
    found = ask(THREE, {})
    assert found.distribution == dict.fromkeys(("a:1", "b:1", "c:1"), 1 / 3)
    assert found.is_known


def test_without_published_loads_the_answer_names_the_remedy() -> None:
    found = ask(THREE, {}, unavailable=(EXTENSIBLE_LACKS,))
    assert (found.distribution, found.is_known) == ({}, False)
    assert "`trimtab capture`" in found.why


def test_another_strategy_is_refused_with_the_reason() -> None:
    found = ask(THREE, {"a:1": 0.5}, strategy="LeastLongTermMessageRate")
    assert found.is_known is False
    assert "only LeastResourceUsageWithWeight" in found.why
