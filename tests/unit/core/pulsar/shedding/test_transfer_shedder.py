"""TransferShedder on small clusters; the numbers of the first cases are the real class's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from extensible_world import NOON_MS, cluster

from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import (
    active_shedding_strategy,
    find_shedding_strategy,
    shed_rounds,
    strategy_rounds,
)
from core.pulsar.shedding.transfer_shedder import TransferShedder
from core.pulsar.view import LoadView

FIVE = {
    "1:80": (0.02, [1, 2]),
    "2:80": (0.04, [1, 3]),
    "3:80": (0.06, [2, 4]),
    "4:80": (0.80, [2, 6]),
    "5:80": (0.90, [2, 7]),
}


def rounds(
    view: LoadView, settings: EffectiveSettings, count: int = 4
) -> list[list[tuple[str, str | None]]]:
    found = strategy_rounds(TransferShedder(), view, settings)
    return [[(move.bundle, move.destination) for move in next(found).moves] for _ in range(count)]


def test_it_acts_on_the_fourth_uneven_round_as_the_real_class_does() -> None:
    view, settings = cluster(FIVE)
    found = rounds(view, settings, 5)
    assert found[:3] == [[], [], []]
    assert found[3] == [
        ("t/5/0x00000000_0x00000001", "1:80"),
        ("t/4/0x00000000_0x00000001", "2:80"),
    ]
    assert found[4] == []


def test_the_spread_that_is_left_is_told() -> None:
    view, settings = cluster(FIVE, loadBalancerSheddingConditionHitCountThreshold=0)
    decision = next(strategy_rounds(TransferShedder(), view, settings)).decision
    assert "from 39.8% to 24.4%" in decision.sentence
    shown = [trace.broker for trace in decision.trace]
    assert shown == [None, "5:80", "4:80", "3:80", "2:80", "1:80"]
    assert [trace.sheds for trace in decision.trace] == [True, True, True, False, False, False]


@pytest.mark.parametrize(
    ("loads", "acts"),
    [
        ({"a:1": 0.92} | {f"{name}:1": 0.61 for name in "bcdefg"}, True),
        ({"a:1": 0.90} | {f"{name}:1": 0.60 for name in "bcd"}, False),
    ],
)
def test_a_broker_over_the_limit_and_far_over_the_mean_is_relieved(
    loads: dict[str, float], *, acts: bool
) -> None:
    view, settings = cluster({name: (usage, [0.1] * 10) for name, usage in loads.items()})
    assert bool(rounds(view, settings)[3]) is acts


def test_no_transfer_means_no_destination_and_no_swap() -> None:
    view, settings = cluster(FIVE, loadBalancerTransferEnabled=False)
    assert {to for _, to in rounds(view, settings)[3]} == {None}


@pytest.mark.parametrize(("is_debug", "left"), [(False, "24%"), (True, "0%")])
def test_swapped_traffic_counts_in_debug_mode_only(left: str, *, is_debug: bool) -> None:
    # 6 MB/s go against 2.88: the net is just what levels the two, and without debug mode 6 counts
    loads = {"a:1": (1.0, [6, 6]), "b:1": (0.48, [2.88])}
    view, settings = cluster(
        loads,
        loadBalancerDebugModeEnabled=is_debug,
        loadBalancerSheddingConditionHitCountThreshold=0,
    )
    decision = next(strategy_rounds(TransferShedder(), view, settings)).decision
    assert [(move.broker, move.destination) for move in decision.moves] == [
        ("b:1", "a:1"),
        ("a:1", "b:1"),
    ]
    assert f"from 26% to {left}" in decision.sentence


def test_a_namespace_with_a_policy_stays_unless_it_is_allowed_to_move() -> None:
    view, settings = cluster(FIVE, groups=("t/5",))
    assert all("t/5/" not in bundle for bundle, _ in rounds(view, settings)[3])
    free, allowed = cluster(
        FIVE, groups=("t/5",), loadBalancerSheddingBundlesWithPoliciesEnabled=True
    )
    assert any("t/5/" in bundle for bundle, _ in rounds(free, allowed)[3])


def test_a_broker_without_a_record_stops_the_round_and_is_named() -> None:
    view, settings = cluster(FIVE, missing=("9:80",))
    decision = next(strategy_rounds(TransferShedder(), view, settings)).decision
    assert decision.reason == "no_load_data"
    assert "9:80" in decision.sentence


def test_records_of_brokers_that_are_gone_are_left_out() -> None:
    """Deviation TRANSFER-1: the real class counts them until they are withdrawn."""
    gone = {**FIVE, "9:80": (0.0, [1.0, 1.0])}
    view, settings = cluster(gone, unregistered=("9:80",))
    assert "9:80" not in view.brokers
    assert rounds(view, settings)[3] == rounds(*cluster(FIVE))[3]


def test_records_of_half_an_hour_ago_do_not_count() -> None:
    view, settings = cluster(FIVE, ages_s=dict.fromkeys(FIVE, 1900))
    decision = next(strategy_rounds(TransferShedder(), view, settings)).decision
    assert decision.reason == "outdated_data"


def test_after_a_transfer_the_whole_cluster_rests_until_new_records_come() -> None:
    view, settings = cluster(FIVE, loadBalancerSheddingConditionHitCountThreshold=0)
    found = shed_rounds(TransferShedder(), view, settings)
    first, second = next(found), next(found)
    assert first.destinations == {
        "t/5/0x00000000_0x00000001": {"1:80": 1.0},
        "t/4/0x00000000_0x00000001": {"2:80": 1.0},
    }
    assert second.decision.reason == "cool_down"


def test_a_rested_broker_may_give_again() -> None:
    view, settings = cluster(FIVE, loadBalancerSheddingConditionHitCountThreshold=0)
    shedder = TransferShedder()
    state = replace(shedder.initial_state(), gave_at_ms={"5:80": NOON_MS - 400_000})
    decision, after = shedder.decide(view, shedder.config(settings), state, frozenset())
    assert decision.moves
    assert after.gave_at_ms == {}


def test_bundles_in_their_grace_period_stay() -> None:
    view, settings = cluster(FIVE, loadBalancerSheddingConditionHitCountThreshold=0)
    recent = ["t/5/0x00000000_0x00000001"]
    done = next(strategy_rounds(TransferShedder(), view, settings, recently_unloaded=recent))
    assert recent[0] not in {move.bundle for move in done.moves}


def test_on_a_modular_cluster_the_answer_says_what_is_missing() -> None:
    view, settings = cluster(FIVE)
    modular = replace(view, extensible=None)
    decision = next(strategy_rounds(TransferShedder(), modular, settings)).decision
    assert (decision.reason, decision.moves) == ("unavailable", ())
    assert "trimtab capture" in decision.sentence


def test_a_round_without_moves_has_the_reason_of_the_real_class() -> None:
    view, settings = cluster(FIVE)
    waiting = next(strategy_rounds(TransferShedder(), view, settings)).decision
    assert (waiting.reason, "(HitCount)" in waiting.sentence) == ("hit_count", True)
    calm_loads = replace(view.extensible, usage=np.full(5, 0.5), throughput_ema=np.full(5, 1e6))
    calm = replace(view, extensible=calm_loads)
    even = next(strategy_rounds(TransferShedder(), calm, settings)).decision
    assert (even.reason, "(HitCount)" in even.sentence) == ("hit_count", True)
    nothing = replace(view, extensible=replace(view.extensible, has_load=np.zeros(5, np.bool_)))
    none = next(strategy_rounds(TransferShedder(), nothing, settings)).decision
    assert (none.reason, "(NoBrokers)" in none.sentence) == ("no_brokers", True)
    sole = {name: top[:1] for name, top in view.extensible.top.items()}
    at_once = {"loadBalancerSheddingConditionHitCountThreshold": 0}
    view, settings = cluster(FIVE, **at_once)
    few = replace(view, extensible=replace(view.extensible, top=sole))
    one = next(strategy_rounds(TransferShedder(), few, settings)).decision
    assert (one.reason, "(NoBundles)" in one.sentence) == ("no_bundles", True)


def test_the_extensible_manager_falls_back_to_it_from_every_other_class() -> None:
    _, settings = cluster(FIVE)
    assert active_shedding_strategy("extensible", settings).name == "TransferShedder"
    assert active_shedding_strategy("modular", settings).name == "ThresholdShedder"
    assert find_shedding_strategy("x.TransferShedder").name == "TransferShedder"
