"""What a plan is expected to do: its sentences, the sum of its parts, and its signature."""

from __future__ import annotations

import json

import pytest
from msgspec import UNSET
from test_plan_model import a_plan

from core.plan.codec import dump_plan, signature_of
from core.plan.describe import done, expected_effect, tally, things, things_done
from core.plan.model import BrokerExpectation, Expected, combined
from core.pulsar.steps.split import SplitBundle
from core.pulsar.steps.unload import UnloadBundle

NAMES = ("acme/orders/0x00000000_0x40000000", "acme/orders/0x40000000_0x80000000")
UNLOAD, OTHER = (UnloadBundle(bundle=name, owner="b1:8080", reason="hot") for name in NAMES)
SPLIT = SplitBundle(
    bundle=NAMES[1], owner="b1:8080", algorithm="range_equally_divide", reason="large"
)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (1.2, 0.4, "from +120% to +40%"),
        (0.4, 1.2, "from +40% to +120%"),
        (0.4, 0.40001, "unchanged at +40%"),
    ],
)
def test_the_effect_names_both_deviations_unless_they_read_the_same(before, after, change) -> None:
    expected = Expected(
        moved_bytes_per_s=63.9e6,
        clients=80,
        throughput_deviation_before=before,
        throughput_deviation_after=after,
    )
    assert expected_effect(expected) == (
        f"Moves 63.9 MB/s; 80 clients reconnect; max traffic deviation {change}."
    )


@pytest.mark.parametrize("known", ["before", "after"])
def test_one_deviation_alone_is_no_change(known) -> None:
    expected = Expected(moved_bytes_per_s=1e6, **{f"throughput_deviation_{known}": 0.5})
    assert expected_effect(expected) == "Moves 1 MB/s; clients unknown."


def test_a_plan_that_moves_no_traffic_has_no_effect_to_name() -> None:
    assert expected_effect(Expected(moved_bytes_per_s=0.0, clients=0)) == ""
    assert expected_effect(Expected(moved_bytes_per_s=0.0, clients=3)).startswith("Moves ")


def test_steps_are_counted_by_their_kind() -> None:
    assert tally([SPLIT, UNLOAD, OTHER]) == "unload 2 bundles, split 1 bundle"
    assert tally([]) == "do nothing"
    assert things([UNLOAD, OTHER]) == "2 bundles"
    assert things([]) == "nothing"
    assert things_done([UNLOAD, OTHER]) == "2 bundles moved"
    assert things_done([SPLIT]) == "1 bundle split"
    assert things_done([UNLOAD, SPLIT]) == "2 steps done"
    assert done([UNLOAD, SPLIT]) == "done"


FIRST = Expected(
    usage_deviation_before=0.5,
    usage_deviation_after=0.3,
    moved_bytes_per_s=10.0,
    clients=2,
    topics=1,
    brokers=(BrokerExpectation(broker="b2"), BrokerExpectation(broker="b3")),
)
SECOND = Expected(
    usage_deviation_before=0.3,
    usage_deviation_after=0.2,
    moved_bytes_per_s=5.0,
    clients=3,
    topics=4,
    is_exact=False,
    brokers=(BrokerExpectation(broker="b1"), BrokerExpectation(broker="b3", usage_after=0.7)),
)


def test_parts_of_a_plan_are_added_and_end_as_the_last_one() -> None:
    both = combined(FIRST, SECOND)
    assert (both.moved_bytes_per_s, both.clients, both.topics) == (15.0, 5, 5)
    assert both.usage_deviation_after == 0.2
    assert not both.is_exact
    assert [one.broker for one in both.brokers] == ["b1", "b2", "b3"]
    assert both.brokers[2].usage_after == 0.7
    assert both.unloaded_by_cluster is UNSET


def test_a_part_without_deviations_leaves_those_of_the_other() -> None:
    both = combined(FIRST, Expected(clients=None, limited_clients=4))
    assert both.usage_deviation_after == 0.3
    assert both.clients is None
    assert both.limited_clients == 4
    more = combined(both, Expected(unloaded_by_cluster=2, limited_clients=None))
    assert (more.unloaded_by_cluster, more.limited_clients) == (2, None)


def test_the_signature_of_a_plan_file_is_text() -> None:
    content = json.loads(dump_plan(a_plan(), "cafe"))
    assert signature_of(json.dumps(content).encode()) == "cafe"
    (name,) = content.keys() - json.loads(dump_plan(a_plan())).keys()
    for value in (7, None, ["cafe"], "café"):
        assert signature_of(json.dumps(content | {name: value}).encode()) == ""
    assert signature_of(dump_plan(a_plan())) == ""
