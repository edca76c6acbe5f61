"""The shedding strategies: worked examples of the real classes, and scenarios people reported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from places import FIXTURES
from shedding_world import MB, Broker, Bundle, World, decide_through, even

from core.pulsar.java.maps import concurrent_order, spread_hashes
from core.pulsar.settings import effective_settings
from core.pulsar.shedding import shed_rounds
from core.pulsar.shedding.registry import find_shedding_strategy
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.pulsar.view import LoadView
from core.units import format_ratio

MIB = 1024.0 * 1024.0
DUMP = FIXTURES / "contracts" / "three-brokers.jsonl"


def _sources(world: World, strategy: str, rounds: int = 1) -> list[list[str]]:
    return [sorted(each.bundles_by_broker()) for each in world.decide(strategy, rounds=rounds)]


def _acting_rounds(worlds: Sequence[World]) -> list[int]:
    decisions = decide_through("AvgShedder", worlds)
    return [number for number, decision in enumerate(decisions, 1) if decision.moves]


# -- what the real classes were seen to do


def test_threshold_shedder_goes_on_shedding_for_six_rounds_after_the_load_is_gone() -> None:
    busy = [Bundle(100 * MIB), *even(10, 100 * MIB)]
    others = {"b": Broker(50, even(2, 50 * MIB)), "c": Broker(20, even(2, 20 * MIB))}
    before = World({"a": Broker(80, busy), **others})
    gone = World({"a": Broker(20, busy), **others})
    decisions = decide_through("ThresholdShedder", [before, *[gone] * 7])
    # 200 MiB/s times (0.8 - 0.5 - 0.1 + 0.05) is 50 MiB/s: the largest bundle alone, of 100
    assert decisions[0].bundles_by_broker() == {"a:8080": ["acme/orders/0x00000000_0x00010000"]}
    assert [bool(decision.moves) for decision in decisions] == [True] * 7 + [False]


def test_the_history_of_a_broker_falls_by_a_tenth_of_the_gap_in_each_round() -> None:
    others = {"b": Broker(50, even(2, 50 * MIB)), "c": Broker(20, even(2, 20 * MIB))}
    strategy = find_shedding_strategy("ThresholdShedder")
    state, seen = strategy.initial_state(), []
    for usage in (80, *[20] * 7):
        world = World({"a": Broker(usage, even(10, 100 * MIB)), **others})
        config = strategy.config(world.settings())
        _, state = strategy.decide(world.view(), config, state, frozenset())
        seen.append(round(state.smoothed_usage["a:8080"], 4))
    assert seen == pytest.approx(
        [0.8, 0.74, 0.686, 0.6374, 0.5937, 0.5543, 0.5189, 0.4870], abs=1e-4
    )


def test_lower_boundary_shedding_smooths_usage_twice_in_one_round() -> None:
    world = World({"a": Broker(60, even(4, 400 * MB)), "b": Broker(20, even(2, MB))})
    strategy = find_shedding_strategy("ThresholdShedder")
    seen = {}
    for is_tried in (False, True):
        settings = world.having(
            lowerBoundarySheddingEnabled=is_tried, loadBalancerBrokerThresholdShedderPercentage=50
        ).settings()
        config = strategy.config(settings)
        hot = World({"a": Broker(61, even(4, 400 * MB)), "b": Broker(20, even(2, MB))}).view()
        _, state = strategy.decide(hot, config, strategy.initial_state(), frozenset())
        _, state = strategy.decide(world.view(), config, state, frozenset())
        seen[is_tried] = state.smoothed_usage["a:8080"]
    assert seen[False] == pytest.approx(0.609)
    # twice in the first round changes nothing (a mean of itself), twice in the second does
    assert seen[True] == pytest.approx(0.6081)


@pytest.mark.parametrize(("is_tried", "smoothed"), [(True, 0.586), (False, 0.595)])
def test_a_history_of_605_falls_to_586_where_one_step_is_595(
    smoothed: float, *, is_tried: bool
) -> None:
    names = ("a", "b", "c")
    world = World({name: Broker(50.5, even(2, MB)) for name in names}).having(
        lowerBoundarySheddingEnabled=is_tried
    )
    strategy = find_shedding_strategy("ThresholdShedder")
    held = {f"{name}:8080": 0.605 for name in names}
    state = replace(strategy.initial_state(), smoothed_usage=held)
    _, state = strategy.decide(world.view(), strategy.config(world.settings()), state, frozenset())
    # 0.605 * 0.9 + 0.0505 = 0.595, and once more 0.586
    assert list(state.smoothed_usage.values()) == pytest.approx([smoothed] * 3, abs=1e-8)


def test_a_broker_far_below_the_average_makes_the_busiest_one_give_when_asked_for() -> None:
    brokers = {
        **{f"b{number}": Broker(60, even(10, 400 * MB)) for number in range(5)},
        "idle": Broker(1, even(2, MB)),
    }
    world = World(brokers)
    assert _sources(world, "ThresholdShedder") == [[]]
    (decision,) = world.having(lowerBoundarySheddingEnabled=True).decide("ThresholdShedder")
    assert decision.reason == "underloaded"
    assert len({move.broker for move in decision.moves}) == 1
    # half of ten percent of its throughput: 20 MB/s, and each bundle carries 40
    assert len(decision.moves) == 1


@pytest.mark.parametrize(
    ("scores", "acts_in"),
    [
        ([(80, 39)] * 3, [2]),
        ([(80, 65)] * 9, [8]),
        ([(80, 65)] * 4 + [(80, 66)] + [(80, 65)] * 9, [13]),
        ([(80, 39), (80, 65), (80, 39), (80, 39)], [4]),
    ],
    ids=["wide gap", "gap exactly on the low bound", "one round below starts anew", "mixed"],
)
def test_avg_shedder_waits_for_gaps_in_a_row(
    scores: Sequence[tuple[float, float]], acts_in: list[int]
) -> None:
    worlds = [
        World(
            {
                "a": Broker(high, even(20, 200 * MB, 200_000)),
                "b": Broker(low, even(2, 2 * MB, 2_000)),
            }
        )
        for high, low in scores
    ]
    assert _acting_rounds(worlds) == acts_in


def test_avg_shedder_pairs_the_busiest_with_the_idlest_and_leaves_the_middle_alone() -> None:
    levels = {"a": 90, "b": 80, "c": 50, "d": 30, "e": 10}
    world = World(
        {name: Broker(cpu, even(10, cpu * MB, cpu * 1000.0)) for name, cpu in levels.items()},
    )
    decision = world.decide("AvgShedder", rounds=2)[1]
    pairs = {(move.broker[0], (move.destination or "?")[0]) for move in decision.moves}
    assert pairs == {("a", "e"), ("b", "d")}


def test_a_broker_exactly_on_the_limit_is_overloaded() -> None:
    brokers = {"a": Broker(75, even(4, 40 * MB)), "b": Broker(10)}
    conf = {"loadBalancerBrokerOverloadedThresholdPercentage": 75}
    assert _sources(World(brokers, conf), "OverloadShedder") == [["a:8080"]]
    higher = World(brokers, {"loadBalancerBrokerOverloadedThresholdPercentage": 76})
    assert _sources(higher, "OverloadShedder") == [[]]


def test_overload_shedder_takes_as_many_bundles_as_the_excess_needs() -> None:
    world = World({"a": Broker(95, even(20, 200 * MB)), "b": Broker(10)})
    (decision,) = world.decide("OverloadShedder")
    # 200 MB/s times (95 - 85 + 5) percent is 30 MB/s: three bundles of 10, float32 asks for a bit
    assert len(decision.moves) in (3, 4)
    assert {move.broker for move in decision.moves} == {"a:8080"}


def test_a_broker_with_a_sole_bundle_keeps_it_whatever_its_load() -> None:
    world = World({"a": Broker(99, [Bundle(900 * MB, 9e5)]), "b": Broker(1)})
    for strategy in ("OverloadShedder", "ThresholdShedder", "UniformLoadShedder"):
        (decision,) = world.decide(strategy)
        assert not decision.moves
        assert decision.reason == "no_bundles", decision.sentence


# -- scenarios that people reported


def _settled(history: float) -> tuple[float, float]:
    """A pair of 90 and 10 percent, usage following its bundles, until nothing moves any more."""
    share = {"a": 90, "b": 10}
    strategy = find_shedding_strategy("ThresholdShedder")
    state = strategy.initial_state()
    for _ in range(40):
        world = World(
            {name: Broker(cpu, [Bundle(5 * MB)] * cpu) for name, cpu in share.items()},
            {"loadBalancerHistoryResourcePercentage": history},
        )
        decision, state = strategy.decide(
            world.view(), strategy.config(world.settings()), state, frozenset()
        )
        for move in decision.moves:
            other = "b" if move.broker.startswith("a") else "a"
            share[move.broker[0]] -= 1
            share[other] += 1
        if not decision.moves and state.smoothed_usage["a:8080"] < 0.6:
            break
    return share["a"], share["b"]


def test_a_pair_of_90_and_10_is_over_corrected_by_the_weight_of_history() -> None:
    after = _settled(0.9)
    assert after[0] < 20  # reported as 14 beside 86
    assert after[1] > 80


def test_a_pair_of_90_and_10_comes_to_rest_near_the_middle_without_history() -> None:
    after = _settled(0.0)
    assert 40 <= after[0] <= 60


def test_with_40_40_40_40_69_70_no_broker_is_good_enough_and_the_destination_is_drawn() -> None:
    levels = (40, 40, 40, 40, 69, 70)
    world = World(
        {f"b{n}": Broker(cpu, even(20, 10 * cpu * MB)) for n, cpu in enumerate(levels)},
        {
            "loadBalancerLoadPlacementStrategy": "LeastResourceUsageWithWeight",
            "loadBalancerDistributeBundlesEvenlyEnabled": False,
        },
    )
    strategy = find_shedding_strategy("ThresholdShedder")
    done = next(shed_rounds(strategy, world.view(), world.settings()))
    assert {move.broker for move in done.moves} == {"b4:8080", "b5:8080"}
    for move in done.moves:
        # 40 percent is not ten points under the average of 49.8: hot brokers are drawn as well
        assert done.destinations[move.bundle] == pytest.approx(
            {f"b{n}:8080": 1 / 6 for n in range(6)}
        )


def test_with_10_60_70_80_80_everything_goes_to_the_one_idle_broker() -> None:
    levels = (10, 60, 70, 80, 80)
    world = World(
        {f"b{n}": Broker(cpu, even(20, 10 * cpu * MB)) for n, cpu in enumerate(levels)},
        {
            "loadBalancerLoadPlacementStrategy": "LeastResourceUsageWithWeight",
            "loadBalancerDistributeBundlesEvenlyEnabled": False,
        },
    )
    strategy = find_shedding_strategy("ThresholdShedder")
    done = next(shed_rounds(strategy, world.view(), world.settings()))
    assert {"b3:8080", "b4:8080"} <= {move.broker for move in done.moves}
    assert all(found == {"b0:8080": 1.0} for found in done.destinations.values())
    moved = sum(10 * 80 * MB / 20 for _ in done.moves)
    assert moved > 10 * 10 * MB  # more than it carries itself


def test_with_600_messages_and_minimums_of_0_release_4_0_moves_everything() -> None:
    conf = {"minUnloadMessage": 0, "minUnloadMessageThroughput": 0}
    world = World(
        {"a": Broker(5, even(30, 600_000, 600)), "b": Broker(5, [Bundle(), Bundle()])}, conf
    )
    (new,) = world.decide("UniformLoadShedder")
    (old,) = replace(world, release="4.0.8").decide("UniformLoadShedder")
    assert len(old.moves) == 30
    assert len(new.moves) == 5  # a fifth of the gap: 119 msg/s in bundles of 20


def test_what_is_left_to_unload_is_a_whole_number_and_idle_bundles_go_too() -> None:
    # a fifth of the gap of 1099 is 219.8 and counts as 219: after 110, 109.6 is too much for 109
    loads = [110.0, 109.6, 100.5, 8.7, 0.0, *[96.525] * 8]
    brokers = {"a": Broker(5, [Bundle(0.0, rate) for rate in loads]), "b": Broker(5, even(2, 0, 2))}
    world = World(brokers, {"minUnloadMessage": 0})
    (decision,) = world.decide("UniformLoadShedder")
    moved = [int(move.bundle.rpartition("/")[2][2:6], 16) for move in decision.moves]
    # 100.5 takes 100 and leaves 9, so that 8.7 fits; what carries nothing always does
    assert moved == [0, 2, 3, 4]


@pytest.mark.parametrize("strategy", ["OverloadShedder", "ThresholdShedder"])
def test_one_bundle_leaves_even_where_none_carries_anything(strategy: str) -> None:
    world = World(
        {"a": Broker(95, even(3, 0.0)), "b": Broker(5, even(2, 0.0))},
        {"loadBalancerBundleUnloadMinThroughputThreshold": 0.0},
    )
    (decision,) = world.decide(strategy)
    assert len(decision.moves) == 1


def test_an_idle_broker_beside_one_at_10_percent_moves_only_the_uniform_shedder() -> None:
    world = World({"a": Broker(10, even(10, 100 * MB, 100_000)), "b": Broker(0)})
    (threshold,) = world.having(lowerBoundarySheddingEnabled=True).decide("ThresholdShedder")
    assert not threshold.moves
    assert format_ratio(0.15) in threshold.sentence
    assert not any(decision.moves for decision in world.decide("AvgShedder", rounds=12))
    (uniform,) = world.decide("UniformLoadShedder")
    assert {move.broker for move in uniform.moves} == {"a:8080"}


def test_bundles_of_the_brokers_themselves_and_recent_ones_never_move() -> None:
    own = [Bundle(90 * MB, 1e5, "pulsar/a:8080"), Bundle(90 * MB, 1e5, "sla-monitor/a:8080")]
    world = World(
        {"a": Broker(95, [*own, Bundle(30 * MB, 3e4), Bundle(20 * MB, 2e4)]), "b": Broker(1)},
        {"loadBalancerBundleUnloadMinThroughputThreshold": 0.0, "maxUnloadPercentage": 1.0},
    )
    recent, other = "acme/orders/0x00000000_0x00010000", "acme/orders/0x00010000_0x00020000"
    for strategy in ("OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "AvgShedder"):
        for decision in world.decide(strategy, recent, rounds=2):
            assert {move.bundle for move in decision.moves} <= {other}, strategy
    (decision,) = world.decide("OverloadShedder", recent)
    assert [move.bundle for move in decision.moves] == [other]


def test_a_bundle_without_averages_counts_by_its_last_statistics() -> None:
    world = World({"a": Broker(95, [Bundle(30 * MB), Bundle(20 * MB)]), "b": Broker(1)})
    snapshot = world.snapshot()
    assert world.decide("OverloadShedder")[0].moves
    columns = [name for name in snapshot.bundles.column_names if not name.startswith("short_")]
    tables = {**snapshot.tables, "bundles": snapshot.bundles.select(columns)}
    bare = type(snapshot).build(snapshot.manifest, tables)
    strategy = find_shedding_strategy("OverloadShedder")
    settings = world.settings(bare)
    view = type(world.view()).of(bare, settings)
    decision, _ = strategy.decide(
        view, strategy.config(settings), strategy.initial_state(), frozenset()
    )
    assert [move.bundle for move in decision.moves] == ["acme/orders/0x00000000_0x00010000"]


# -- what the ports do otherwise, or can only assume


def test_equal_bundles_come_in_the_order_of_java_s_maps() -> None:
    # SHED-1: within one bucket they stand as if they had come by name, whatever the order of rows
    world = World({"a": Broker(99, [Bundle(10 * MB)] * 40), "b": Broker(1)})
    (decision,) = world.having(loadBalancerBrokerOverloadedThresholdPercentage=10).decide(
        "OverloadShedder"
    )
    moved = [move.bundle for move in decision.moves]
    names = sorted(moved)
    assert len(names) > 30
    assert moved != names
    table = [spread & 63 for spread in spread_hashes(moved).tolist()]
    assert table == sorted(table)


def test_a_concurrent_map_turns_most_of_a_bucket_around_when_it_doubles() -> None:
    # 16 buckets hold 12 keys; at the twelfth they become 32
    same_bucket = np.array([1, 33, 65, 97, *range(2, 10)], np.int64)
    order = same_bucket[concurrent_order(same_bucket)].tolist()
    assert order == [1, 33, 65, 97, *range(2, 10)]  # all stay together: nothing is turned
    mixed = np.array([1, 33, 65, 17, 97, *range(2, 9)], np.int64)
    order = mixed[concurrent_order(mixed)].tolist()
    assert order[: order.index(2)] == [65, 33, 1, 97]
    assert order[-1] == 17


def test_a_bundle_counts_for_one_broker_only(tmp_path: Path) -> None:
    # SHED-2: right after a move two reports name it; the snapshot keeps one, the newer
    moved = "acme/orders/0x00000000_0x40000000"
    records = [json.loads(line) for line in DUMP.read_text().splitlines()]
    reports = [item["value"] for item in records if "brokers/10.1.0" in item["path"]]
    first, other = reports[:2]
    other["lastStats"][moved] = first["lastStats"][moved]
    other["bundles"] = [*other["bundles"], moved]
    other["lastUpdate"] = first["lastUpdate"] + 1_000
    path = tmp_path / "dump.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    snapshot = import_zk_dump(path, "test", datetime(2026, 1, 1, tzinfo=UTC))
    conf = {"loadBalancerBrokerOverloadedThresholdPercentage": 0}
    effective = effective_settings(snapshot, overrides=conf)
    strategy = find_shedding_strategy("OverloadShedder")
    decision, _ = strategy.decide(
        LoadView.of(snapshot, effective),
        strategy.config(effective),
        strategy.initial_state(),
        frozenset(),
    )
    assert [move.broker for move in decision.moves if move.bundle == moved] == ["10.1.0.2:8080"]
