"""Why brokers and bundles are shed, who leads, which settings go together: small clusters."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from fleet_builder import make_snapshot
from shedding_world import MB, Broker, Bundle, World

from core.errors import UnknownNameError
from core.pulsar.explain import Explanation
from core.pulsar.leader.facts import SeenMove, Sighting, leader_facts
from core.pulsar.presets import PRESETS, differences, find_preset, upstream_words
from core.pulsar.rules.combinations import combinations
from core.pulsar.setting_values import parse_upstream_value, typed_value
from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings, effective_settings
from core.pulsar.split import find_bundles_to_split
from core.pulsar.split.watch import WATCH, split_watch
from core.pulsar.view import LoadView

IMPL = "org.apache.pulsar.broker.loadbalance.impl."
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
THRESHOLD = "loadBalancerBrokerThresholdShedderPercentage"


def explanation(snapshot, recently_unloaded=(), **overrides):
    settings = effective_settings(snapshot, overrides=overrides)
    return Explanation(
        view=LoadView.of(snapshot, settings),
        settings=settings,
        settings_of=lambda more: effective_settings(snapshot, overrides={**overrides, **more}),
        recently_unloaded=recently_unloaded,
    )


@pytest.fixture(scope="module")
def fleet():
    return make_snapshot()


# -- brokers ---------------------------------------------------------------------------------------


def test_broker_over_the_line_is_said_to_shed_what_the_strategy_picks(fleet):
    found = explanation(fleet, loadBalancerSheddingEnabled=True)
    for broker, bundles in found.decision.bundles_by_broker().items():
        reason = found.of_broker(broker)
        assert [*reason.bundles, *(name for name, _ in reason.skipped)] == bundles
        assert reason.sheds
        assert all(gate.is_open for gate in reason.gates)


def test_broker_under_the_line_names_its_last_gate_and_the_distance(fleet):
    found = explanation(fleet, loadBalancerSheddingEnabled=True)
    calm = next(trace.broker for trace in reversed(found.ranked()) if not trace.sheds)
    reason = found.of_broker(calm)
    assert not reason.sheds
    assert not reason.gates[-1].is_open
    assert reason.gates[-1].distance > 0


def test_switched_off_cluster_is_told_as_if_it_were_on(fleet):
    off = explanation(fleet)
    assert off.off == "loadBalancerSheddingEnabled"
    sentence = off.of_broker(off.decision.moves[0].broker).sentence
    assert sentence.count("would shed") == 1
    assert "sheds" not in sentence, "the number is given once"
    on = explanation(fleet, loadBalancerSheddingEnabled=True)
    assert on.off == ""
    assert on.decision.moves == off.decision.moves


def test_every_turning_point_turns_the_verdict_when_tried(fleet):
    found = explanation(fleet, loadBalancerSheddingEnabled=True)
    trace = next(trace for trace in found.ranked() if not trace.sheds)
    points = list(found.turning_points(trace.broker))
    assert points
    for point in points:
        value = typed_value(SETTING_BY_KEY[point.key], point.needed)
        tried = explanation(fleet, loadBalancerSheddingEnabled=True, **{point.key: value})
        sheds = any(move.broker == trace.broker for move in tried.decision.moves)
        assert sheds is point.sheds


# -- bundles ---------------------------------------------------------------------------------------


def test_picked_bundle_gets_over_every_hurdle_and_has_somewhere_to_go(fleet):
    found = explanation(fleet, loadBalancerSheddingEnabled=True)
    reason = found.of_bundle(found.decision.moves[0].bundle)
    assert reason.leaves
    assert all(condition.is_met for condition in reason.conditions)
    assert sum(reason.destinations.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("case", ["heartbeat", "resting", "excluded", "calm broker", "not picked"])
def test_bundle_that_stays_names_the_hurdle_that_keeps_it(fleet, case):
    found = explanation(fleet, loadBalancerSheddingEnabled=True)
    picked = found.decision.moves[0].bundle
    if case == "heartbeat":
        bundle, last = "pulsar/10.1.0.1:8080/0x00000000_0xffffffff", "may move"
    elif case == "resting":
        bundle, last = picked, "rested"
        found = explanation(fleet, [picked], loadBalancerSheddingEnabled=True)
    elif case == "excluded":
        bundle, last = picked, "namespace can be shed"
        found = explanation(
            fleet,
            loadBalancerSheddingEnabled=True,
            loadBalancerSheddingExcludedNamespaces=[picked.rpartition("/")[0]],
        )
    else:
        gives = {move.broker for move in found.decision.moves}
        chosen = {move.bundle for move in found.decision.moves}
        is_giver = case == "not picked"
        rows = fleet.bundles.to_pylist()
        bundle = next(
            row["bundle"]
            for row in rows
            if (row["reported_by"] in gives) is is_giver
            and row["bundle"] not in chosen
            and not row["is_broker_bound"]
        )
        last = "picked" if is_giver else "on a broker that sheds"
    reason = found.of_bundle(bundle)
    assert not reason.leaves
    assert reason.conditions[-1].name == last
    assert not reason.conditions[-1].is_met
    assert all(condition.is_met for condition in reason.conditions[:-1])


def held_back():
    """A broker that is to shed, and policies that let nobody else have its bundles."""
    body = {
        "namespaces": ["acme/orders"],
        "primary": ["a"],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }
    other = [Bundle(30 * MB, 3e4, "acme/audit"), Bundle(20 * MB, 2e4, "acme/audit")]
    return World(
        {"a": Broker(90, [Bundle(50 * MB, 5e4), *other]), "b": Broker(10), "c": Broker(20)},
        isolation={"orders": json.dumps(body)},
    ).snapshot()


def test_broker_whose_picks_are_all_held_back_stays_in_every_word():
    found = explanation(held_back())
    reason = found.of_broker("a:8080")
    assert not reason.sheds
    assert reason.sentence == (
        "a:8080 stays: 1 bundle selected, none unloaded by the load manager: "
        "isolation policy 'orders' allows no broker but a:8080."
    )
    assert not reason.gates[-1].is_open
    assert all(gate.is_open for gate in reason.gates[:-1])
    assert found.sentence.startswith("Nothing to unload: 1 bundle selected")
    assert "Isolation" in reason.otherwise
    points = list(found.turning_points("a:8080"))
    assert points, "a larger amount takes a bundle along that may go"
    assert all(point.sheds for point in points)
    for point in points:
        tried = explanation(held_back(), **{point.key: tried_value(point)})
        assert tried.of_broker("a:8080").sheds


def tried_value(point):
    return typed_value(SETTING_BY_KEY[point.key], point.needed)


@pytest.mark.parametrize("where", ["picked", "on the same broker", "elsewhere"])
def test_what_is_told_of_a_bundle_turns_the_verdict_on_it_when_tried(fleet, where):
    found = explanation(fleet, loadBalancerSheddingEnabled=True)
    first = found.decision.moves[0]
    chosen = {move.bundle for move in found.decision.moves}
    bundle = first.bundle
    if where != "picked":
        bundle = next(
            row["bundle"]
            for row in fleet.bundles.to_pylist()
            if (row["reported_by"] == first.broker) is (where == "on the same broker")
            and row["bundle"] not in chosen
            and not row["is_broker_bound"]
        )
    points = list(found.bundle_turning_points(bundle))
    reason = found.of_bundle(bundle)
    assert points or where != "picked"
    assert reason.otherwise
    for point in points:
        assert point.sheds is not reason.leaves
        more = {"loadBalancerSheddingEnabled": True, point.key: tried_value(point)}
        assert explanation(fleet, **more).of_bundle(bundle).leaves is point.sheds, point


def test_excluded_namespace_is_told_to_be_what_keeps_a_bundle(fleet):
    on = {"loadBalancerSheddingEnabled": True}
    picked = explanation(fleet, **on).decision.moves[0].bundle
    key = "loadBalancerSheddingExcludedNamespaces"
    kept = explanation(fleet, **on, **{key: [picked.rpartition("/")[0], "acme/else"]})
    (point,) = kept.bundle_turning_points(picked)
    assert (point.key, point.needed, point.sheds) == (key, ("acme/else",), True)
    assert explanation(fleet, **on, **{key: ["acme/else"]}).of_bundle(picked).leaves


def test_hurdles_of_a_bundle_carry_numbers_where_there_are_any(fleet):
    found = explanation(fleet, loadBalancerSheddingEnabled=True)
    for row in fleet.bundles.to_pylist():
        for condition in found.of_bundle(row["bundle"]).conditions:
            if condition.distance is None:
                assert condition.measured is None
                continue
            assert condition.unit
            assert condition.distance <= 0 if condition.is_met else condition.distance >= 0, (
                condition
            )
            if condition.name in ("on a broker that sheds", "picked"):
                assert condition.distance == pytest.approx(condition.threshold - condition.measured)


def test_bundle_that_rests_or_never_moves_is_told_what_would_have_to_change(fleet):
    on = {"loadBalancerSheddingEnabled": True}
    picked = explanation(fleet, **on).decision.moves[0].bundle
    resting = explanation(fleet, [picked], **on)
    assert list(resting.bundle_turning_points(picked)) == []
    assert "period of 30" in resting.of_bundle(picked).otherwise
    heartbeat = "pulsar/10.1.0.1:8080/0x00000000_0xffffffff"
    assert list(resting.bundle_turning_points(heartbeat)) == []
    assert "This cannot be changed" in resting.of_bundle(heartbeat).otherwise


def test_unknown_bundle_is_an_error_with_near_names(fleet):
    with pytest.raises(UnknownNameError):
        explanation(fleet).of_bundle("acme/orders/0x00000000_0x00000001")


def test_lonely_broker_is_explained_too():
    world = World(brokers={"a": Broker(90, [Bundle(50 * MB), Bundle(10 * MB)])})
    found = explanation(world.snapshot())
    assert not found.of_broker(found.view.brokers[0]).sheds


# -- splits ----------------------------------------------------------------------------------------


def test_bundles_that_are_split_next_stand_first_in_the_watch(fleet):
    settings = effective_settings(fleet)
    watch = split_watch(fleet, settings, limit=1_000)
    assert watch.schema.equals(WATCH)
    over = {row["bundle"] for row in watch.to_pylist() if (row["ratio"] or 0) > 1}
    assert {choice.bundle for choice in find_bundles_to_split(fleet, settings)[0]} <= over
    ratios = [row["ratio"] for row in watch.to_pylist() if row["ratio"] is not None]
    assert ratios == sorted(ratios, reverse=True)
    assert not any(row["namespace"].startswith("pulsar/") for row in watch.to_pylist())


def test_limit_that_is_switched_off_is_never_the_nearest(fleet):
    settings = effective_settings(fleet, overrides={"loadBalancerNamespaceBundleMaxSessions": -1})
    assert "sessions" not in set(split_watch(fleet, settings)["nearest"].to_pylist())


# -- the leader ------------------------------------------------------------------------------------


def sighting(minute, leader="a:1", stored=1):
    return Sighting(NOON + timedelta(minutes=minute), leader, stored)


def facts_of(sightings, moves=(), own=None, manager="modular"):
    return leader_facts(
        sightings,
        moves,
        EffectiveSettings.defaults("4.2"),
        load_manager=manager,
        own_moves=own,
    )


def test_lead_begins_where_another_broker_led_before():
    facts = facts_of([sighting(0, "b:1"), sighting(1), sighting(2)])
    assert (facts.leader, facts.before) == ("a:1", "b:1")
    assert facts.since == NOON + timedelta(minutes=1)
    assert not facts.is_longer
    assert "after b:1" in facts.sentence


def test_lead_as_long_as_anything_is_kept_is_said_to_be_longer():
    facts = facts_of([sighting(0), sighting(9)])
    assert facts.is_longer
    assert "at least 9 min" in facts.sentence


def test_last_write_lies_between_the_snapshots_where_the_averages_changed():
    facts = facts_of([sighting(0), sighting(1, stored=2), sighting(2, stored=2)])
    writing = facts.timers[1]
    assert (writing.after, writing.before) == (NOON, NOON + timedelta(minutes=1))
    assert writing.due_before == NOON + timedelta(minutes=16)


def test_bundle_moved_since_the_leader_leads_rests_for_the_grace_period():
    moved = SeenMove(NOON + timedelta(minutes=5), "x/y/0x0_0x1", "a:1", "b:1")
    early = SeenMove(NOON - timedelta(minutes=5), "x/y/0x1_0x2", "a:1", "b:1")
    facts = facts_of([sighting(0), sighting(10)], [early, moved])
    assert [one.bundle for one in facts.resting] == ["x/y/0x0_0x1"]
    assert facts.resting[0].until == NOON + timedelta(minutes=35)


@pytest.mark.parametrize(
    ("late", "left", "own"),
    [(45, "a:1", None), (10, None, None), (10, "a:1", {"x/y/0x0_0x1": [NOON]})],
    ids=["rested enough", "had no owner", "moved by a run of ours"],
)
def test_bundle_does_not_rest(late, left, own):
    moved = SeenMove(NOON + timedelta(minutes=5), "x/y/0x0_0x1", left, "b:1")
    assert facts_of([sighting(0), sighting(late)], [moved], own).resting == ()


@pytest.mark.parametrize("sightings", [[], [sighting(0, None, None)]], ids=["none", "nobody leads"])
def test_unknown_leader_is_said_to_be_unknown(sightings):
    facts = facts_of(sightings)
    assert facts.leader is None
    assert facts.sentence


def test_extensible_manager_keeps_no_list_and_writes_no_averages():
    facts = facts_of([sighting(0), sighting(1, stored=2)], manager="extensible")
    assert [timer.name for timer in facts.timers] == ["shedding round"]
    assert facts.resting == ()


# -- settings --------------------------------------------------------------------------------------


def codes(manager="modular", **overrides):
    settings = EffectiveSettings.defaults("4.2", overrides)
    return {item.code for item in combinations(settings, manager)}


@pytest.mark.parametrize(
    ("code", "overrides"),
    [
        ("measures_differ", {}),
        ("unpaired_avg_shedder", {"loadBalancerLoadSheddingStrategy": IMPL + "AvgShedder"}),
        ("no_shedding", {"loadBalancerSheddingEnabled": False}),
        ("similar_keys", {"loadBalancerBandwithInResourceWeight": 0.5}),
        ("short_grace", {"loadBalancerSheddingGracePeriodMinutes": 1}),
        (
            "no_minimum",
            {
                "loadBalancerLoadSheddingStrategy": IMPL + "UniformLoadShedder",
                "minUnloadMessage": 0,
                "minUnloadMessageThroughput": 0,
            },
        ),
        (
            "overshoot",
            {
                "loadBalancerLoadSheddingStrategy": IMPL + "UniformLoadShedder",
                "maxUnloadPercentage": 0.8,
            },
        ),
        (
            "zero_weights",
            {
                "loadBalancerCPUResourceWeight": 0,
                "loadBalancerBandwidthInResourceWeight": 0,
                "loadBalancerBandwidthOutResourceWeight": 0,
            },
        ),
    ],
)
def test_combination_is_noticed(code, overrides):
    assert code in codes(**overrides)


@pytest.mark.parametrize(
    ("release", "half", "said"),
    [
        ("4.0", "loadBalancerLoadPlacementStrategy", "a broker of 4.0 does not start"),
        ("4.2", "loadBalancerLoadPlacementStrategy", "a broker of 4.2 does not start"),
        ("5.0", "loadBalancerLoadPlacementStrategy", "places by LeastLongTermMessageRate"),
        ("4.2", "loadBalancerLoadSheddingStrategy", "Its plan is not used"),
    ],
)
def test_half_a_pair_says_what_it_comes_to(release, half, said):
    other = {
        "loadBalancerLoadPlacementStrategy": "loadBalancerLoadSheddingStrategy",
        "loadBalancerLoadSheddingStrategy": "loadBalancerLoadPlacementStrategy",
    }[half]
    of = {
        "loadBalancerLoadPlacementStrategy": IMPL + "LeastLongTermMessageRate",
        "loadBalancerLoadSheddingStrategy": IMPL + "ThresholdShedder",
    }
    pair = {half: IMPL + "AvgShedder", other: of[other]}
    found = combinations(EffectiveSettings.defaults(release, pair), "modular")
    (one,) = [item for item in found if item.code == "unpaired_avg_shedder"]
    assert said in one.text


def test_shedding_and_placement_by_one_measure_is_no_finding():
    pair = {
        "loadBalancerLoadSheddingStrategy": IMPL + "ThresholdShedder",
        "loadBalancerLoadPlacementStrategy": IMPL + "LeastResourceUsageWithWeight",
    }
    assert not codes(**pair) & {"measures_differ", "unpaired_avg_shedder"}


def test_pairs_of_the_modular_manager_are_not_judged_on_the_extensible_one():
    assert "measures_differ" not in codes("extensible")


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_preset_names_settings_that_exist_with_values_that_brokers_read(preset):
    for key, value in preset.values.items():
        setting = SETTING_BY_KEY[key]
        typed = typed_value(setting, value)
        assert parse_upstream_value(setting, upstream_words(typed)) == typed


def test_defaults_of_its_own_release_change_nothing():
    settings = EffectiveSettings.defaults("4.2")
    assert list(differences(find_preset("defaults-4.2"), settings)) == []
    changed = {one.setting.key for one in differences(find_preset("even-rates"), settings)}
    assert "loadBalancerLoadSheddingStrategy" in changed
    assert "loadBalancerEnabled" not in changed


def test_bundle_that_we_moved_long_before_rests_when_the_leader_sheds_it():
    moved = SeenMove(NOON + timedelta(minutes=20), "x/y/0x0_0x1", "a:1", "b:1")
    own = {"x/y/0x0_0x1": [NOON + timedelta(minutes=1)]}
    assert facts_of([sighting(0), sighting(25)], [moved], own).resting != ()
