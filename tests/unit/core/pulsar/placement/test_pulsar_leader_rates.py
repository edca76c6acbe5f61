"""What ZooKeeper cannot tell of the leader's averages is shared out, never predicted as certain."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from core.pulsar.placement import PlacementMemory, place_bundle
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from core.snapshot import Manifest, PulsarSnapshot, TableManifest

MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
MOVING = "t/n/0x00000000_0x40000000"


def broker(name: str, long_rate: float) -> dict[str, Any]:
    return {
        "broker": name,
        "is_leader": False,
        "load_manager": MODULAR,
        "cpu_usage": 10.0,
        "cpu_limit": 100.0,
        "msg_rate_in": 1.0,
        "long_msg_rate_in": long_rate,
        "long_msg_rate_out": 0.0,
        "persistent_topics_enabled": True,
    }


def bundle(index: int, owner: str, rate: float, *, is_averaged: bool) -> dict[str, Any]:
    lower = index * 0x40000000
    average = rate if is_averaged else None
    return {
        "bundle": f"t/n/0x{lower:08x}_0x{lower + 0x40000000:08x}",
        "namespace": "t/n",
        "lower": lower,
        "upper": lower + 0x40000000,
        "owner": owner,
        "reported_by": owner,
        "is_broker_bound": False,
        "msg_rate_in": rate,
        "msg_rate_out": 0.0,
        "long_msg_rate_in": average,
        "long_msg_rate_out": None if average is None else 0.0,
        "topic_count": 1,
    }


def snapshot(source: str, *, is_averaged: bool) -> PulsarSnapshot:
    manifest = Manifest(
        cluster="c",
        taken_at=datetime(2026, 11, 21, tzinfo=UTC),
        tables={"brokers": TableManifest(source=source, rows=0)},
        load_manager="modular",
        release="4.2.4",
    )
    brokers = [broker("a:1", 300.0), broker("b:1", 200.0)]
    bundles = [
        bundle(0, "a:1", 300.0, is_averaged=True),
        bundle(1, "b:1", 200.0, is_averaged=is_averaged),
    ]
    return PulsarSnapshot.build(
        manifest,
        {"brokers": pa.Table.from_pylist(brokers), "bundles": pa.Table.from_pylist(bundles)},
    )


def distribution(found: PulsarSnapshot, memory: PlacementMemory | None = None) -> dict[str, float]:
    settings = effective_settings(found)
    view = LoadView.of(found, settings)
    return place_bundle(view, MOVING, settings, memory=memory).distribution


def test_with_every_average_stored_the_least_rate_is_certain() -> None:
    assert distribution(snapshot("zookeeper", is_averaged=True)) == {"b:1": 1.0}


def test_a_bundle_without_a_stored_average_puts_its_broker_in_doubt() -> None:
    found = snapshot("zookeeper", is_averaged=False)
    assert distribution(found) == {"a:1": 0.5, "b:1": 0.5}
    settings = effective_settings(found)
    placement = place_bundle(LoadView.of(found, settings), MOVING, settings)
    assert any("has the same probability" in note for note in placement.notes)


def test_a_dump_is_judged_as_it_is() -> None:
    assert distribution(snapshot("dump", is_averaged=False)) == {"b:1": 1.0}


def test_nothing_is_in_doubt_when_the_leaders_memory_is_given() -> None:
    known = PlacementMemory()
    assert distribution(snapshot("zookeeper", is_averaged=False), known) == {"b:1": 1.0}


def test_a_doubt_that_cannot_turn_the_order_changes_nothing() -> None:
    found = snapshot("zookeeper", is_averaged=False)
    far = [broker("a:1", 3_000.0), broker("b:1", 200.0)]
    bundles = found.bundles.to_pylist()
    bundles[0] |= {"msg_rate_in": 3_000.0, "long_msg_rate_in": 3_000.0}
    made = PulsarSnapshot.build(
        replace(found.manifest),
        {"brokers": pa.Table.from_pylist(far), "bundles": pa.Table.from_pylist(bundles)},
    )
    assert distribution(made) == {"b:1": 1.0}
