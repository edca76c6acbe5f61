"""Where a topic lives: names, steps, owners, and what is not known."""

from __future__ import annotations

import pyarrow as pa
import pytest
from fleet_builder import NOON, make_snapshot

from core.errors import IncompleteSnapshotError, InputError, UnknownNameError
from core.pulsar.lookup import lookup_topic, parse_topic_name
from core.pulsar.ring import initial_boundaries
from core.snapshot import Manifest, PulsarSnapshot

URL = "pulsar://a:6650"


def _snapshot(
    *, boundaries: list[int] | None, owner: str | None = "a:1", bundles: list[tuple[int, int]]
) -> PulsarSnapshot:
    rows = [
        {
            "bundle": f"acme/orders/0x{lower:08x}_0x{upper:08x}",
            "namespace": "acme/orders",
            "lower": lower,
            "upper": upper,
            "owner": owner,
            "owner_source": "ownership",
            "is_broker_bound": False,
        }
        for lower, upper in bundles
    ]
    namespace = {
        "namespace": "acme/orders",
        "tenant": "acme",
        "boundaries": boundaries,
        "is_broker_bound": False,
    }
    broker = {"broker": "a:1", "is_leader": True, "service_url": URL}
    topics = {
        "topic": "persistent://acme/orders/parts-partition-0",
        "bundle": rows[0]["bundle"] if rows else "",
        "hash": 0,
    }
    tables = {
        "brokers": pa.Table.from_pylist([broker]),
        "namespaces": pa.Table.from_pylist([namespace]),
        "topics": pa.Table.from_pylist([topics]),
    }
    if rows:
        tables["bundles"] = pa.Table.from_pylist(rows)
    return PulsarSnapshot.build(Manifest(cluster="c", taken_at=NOON, tables={}), tables)


QUARTERS = list(initial_boundaries(4))
RANGES = [(QUARTERS[i], QUARTERS[i + 1]) for i in range(4)]


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("orders", "persistent://public/default/orders"),
        ("acme/shop/orders", "persistent://acme/shop/orders"),
        (" persistent://acme/shop/orders ", "persistent://acme/shop/orders"),
        ("non-persistent://acme/shop/orders", "non-persistent://acme/shop/orders"),
        ("persistent://acme/west/shop/orders", "persistent://acme/west/shop/orders"),
    ],
)
def test_short_names_are_completed(text: str, full: str) -> None:
    assert str(parse_topic_name(text)) == full


@pytest.mark.parametrize(
    "text", ["", "a/b", "a/b/c/d", "ftp://a/b/c", "persistent://a/b", "persistent://a//c"]
)
def test_what_is_no_topic_name_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(InputError, match="persistent://tenant/namespace/topic"):
        parse_topic_name(text)


def test_every_step_of_the_way_is_told() -> None:
    found = lookup_topic(_snapshot(boundaries=QUARTERS, bundles=RANGES), "acme/orders/t0")
    assert found.hash == 0x8616C3C4
    assert found.bundle == "acme/orders/0x80000000_0xc0000000"
    assert (found.owner, found.owner_service_url) == ("a:1", URL)
    assert [step.title for step in found.steps] == ["Topic", "Hash", "Bundle", "Owner"]
    assert "0x8616c3c4" in found.steps[1].detail
    assert "ownership znode" in found.steps[3].detail
    assert found.notes == ()


def test_a_bundle_that_nobody_owns_has_no_owner() -> None:
    found = lookup_topic(
        _snapshot(boundaries=QUARTERS, bundles=RANGES, owner=None), "acme/orders/t0"
    )
    assert found.owner is None
    assert found.is_owner_known
    assert "is unassigned" in found.steps[3].detail


def test_boundaries_alone_are_enough_for_the_bundle() -> None:
    found = lookup_topic(_snapshot(boundaries=QUARTERS, bundles=[]), "acme/orders/t0")
    assert found.bundle == "acme/orders/0x80000000_0xc0000000"
    assert found.owner is None
    assert not found.is_owner_known
    assert "unknown" in found.steps[3].detail


def test_without_boundaries_the_bundles_seen_decide() -> None:
    found = lookup_topic(_snapshot(boundaries=None, bundles=RANGES[2:]), "acme/orders/t0")
    assert found.bundle == "acme/orders/0x80000000_0xc0000000"
    assert "boundaries are unknown" in found.notes[0]


def test_a_position_that_no_known_bundle_holds_is_an_error_and_not_a_guess() -> None:
    with pytest.raises(IncompleteSnapshotError, match="0x8616c3c4"):
        lookup_topic(_snapshot(boundaries=None, bundles=RANGES[:1]), "acme/orders/t0")


def test_an_unknown_namespace_offers_the_near_one() -> None:
    with pytest.raises(UnknownNameError, match="acme/orders"):
        lookup_topic(_snapshot(boundaries=QUARTERS, bundles=RANGES), "acme/order/t0")


def test_a_partitioned_topic_is_named_as_such() -> None:
    found = lookup_topic(_snapshot(boundaries=QUARTERS, bundles=RANGES), "acme/orders/parts")
    assert any("partitioned" in note for note in found.notes)


def test_an_owner_that_left_is_named_as_such() -> None:
    snapshot = _snapshot(boundaries=QUARTERS, bundles=RANGES, owner="gone:1")
    found = lookup_topic(snapshot, "acme/orders/t0")
    assert found.owner_service_url is None
    assert any("not a registered broker" in note for note in found.notes)


def test_the_topics_of_a_generated_fleet_are_found_in_their_own_bundles() -> None:
    bundle = make_snapshot().bundles.column("bundle")[40].as_py()
    snapshot = make_snapshot(topics_of=bundle)
    for row in snapshot.topics.to_pylist():
        found = lookup_topic(snapshot, row["topic"])
        assert (found.bundle, found.hash) == (bundle, row["hash"])
