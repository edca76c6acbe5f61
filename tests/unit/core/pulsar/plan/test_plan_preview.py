"""The preview: destinations, before and after, clients, commands; and the projection under it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from math import ceil, floor

import msgspec
import numpy as np
import pyarrow.compute as pc
import pytest
from fleet_builder import make_snapshot
from fleet_edit import edited, every, owned_by, with_policies, with_settings

from core.errors import InvariantError, PlanConflictError, UnknownNameError
from core.plan.model import sealed
from core.pulsar.load_transfer import (
    _check_conserved,
    carried_by,
    load_moved,
    shift_of,
    usage_per_byte,
)
from core.pulsar.measures import measure
from core.pulsar.plan.answer import plan_sentence
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.clients import client_impact
from core.pulsar.plan.preview import (
    BEFORE_AFTER,
    QUANTITIES,
    Preview,
    _check_counts,
    preview_plan,
    project,
    rest_line,
)
from core.pulsar.rules.registry import assess
from core.pulsar.steps.unload import UnloadBundle
from core.snapshot import PulsarSnapshot
from core.units import format_ratio

HOT, COOL, IDLE = "10.1.0.11:8080", "10.1.0.5:8080", "10.1.0.9:8080"


@pytest.fixture(scope="module")
def fleet() -> PulsarSnapshot:
    return with_policies(make_snapshot())


@pytest.fixture(scope="module")
def even(fleet) -> PulsarSnapshot:
    """All brokers look alike, so that every placement is a draw."""
    rates = {f"{prefix}msg_rate_{way}": 100.0 for prefix in ("", "long_") for way in ("in", "out")}
    usage = {"cpu_usage": 80.0, "bandwidth_in_usage": 0.0, "bandwidth_out_usage": 0.0}
    flat = every(fleet, "brokers", rates | usage)
    flat = every(flat, "namespaces", {"anti_affinity_group": None})
    quiet = {f"long_msg_rate_{way}": 0.0 for way in ("in", "out")}
    return every(flat, "bundles", quiet)


EVEN = {"loadBalancerDistributeBundlesEvenlyEnabled": False}


def previewed(snapshot: PulsarSnapshot, *bundles: str, **options) -> Preview:
    now = snapshot.manifest.taken_at + timedelta(seconds=20)
    return preview_plan(snapshot, build_unload_plan(snapshot, bundles, now=now, **options))


def rows_by_broker(preview: Preview) -> dict[str, dict]:
    return {row["broker"]: row for row in preview.before_after.to_pylist()}


def test_the_table_has_its_declared_schema_and_every_broker(fleet) -> None:
    preview = previewed(fleet, owned_by(fleet, HOT)[0])
    assert preview.before_after.schema == BEFORE_AFTER
    assert preview.before_after["broker"].to_pylist() == fleet.brokers["broker"].to_pylist()


def test_the_bundle_s_load_leaves_the_owner_and_arrives_at_the_destination(fleet) -> None:
    bundle = owned_by(fleet, HOT)[0]
    row = next(row for row in fleet.bundles.to_pylist() if row["bundle"] == bundle)
    rows = rows_by_broker(previewed(fleet, bundle, destination=IDLE))
    moved = row["msg_throughput_in"] + row["msg_throughput_out"]
    for broker, sign in ((HOT, -1), (IDLE, 1)):
        got = rows[broker]
        change = got["throughput_bytes_per_s_after"] - got["throughput_bytes_per_s_before"]
        assert change == pytest.approx(sign * moved)
        assert got["bundle_count_after"] - got["bundle_count_before"] == sign
        assert got["is_touched"]
    assert rows[HOT]["departures"] == 1
    assert rows[IDLE]["arrivals"] == 1
    assert rows[HOT]["usage_ratio_after"] < rows[HOT]["usage_ratio_before"]
    assert rows[IDLE]["usage_ratio_after"] > rows[IDLE]["usage_ratio_before"]


def test_untouched_brokers_stay_as_they_are(fleet) -> None:
    rows = rows_by_broker(previewed(fleet, owned_by(fleet, HOT)[0], destination=IDLE))
    got = rows[COOL]
    assert not got["is_touched"]
    for name in ("usage_ratio", *QUANTITIES):
        assert len({got[f"{name}_{moment}"] for moment in ("before", "after", "low", "high")}) == 1


@pytest.mark.parametrize("destination", [None, IDLE])
def test_totals_are_conserved(fleet, destination) -> None:
    preview = previewed(fleet, *owned_by(fleet, HOT)[:5], destination=destination)
    for name in QUANTITIES:
        before = pc.sum(preview.before_after[f"{name}_before"]).as_py()
        assert pc.sum(preview.before_after[f"{name}_after"]).as_py() == pytest.approx(before)


def test_the_projection_agrees_with_the_table(fleet) -> None:
    now = fleet.manifest.taken_at
    plan = build_unload_plan(fleet, owned_by(fleet, HOT)[:4], now=now)
    preview, after = preview_plan(fleet, plan), project(fleet, plan)
    assert preview.is_exact
    assert len(preview.scenarios) == 1
    expected = preview.before_after["throughput_bytes_per_s_after"].to_pylist()
    assert measure(after).throughput.values.tolist() == pytest.approx(expected)
    expected = preview.before_after["usage_ratio_after"].to_pylist()
    assert measure(after).usage.values.tolist() == pytest.approx(expected, abs=1e-6)
    assert measure(after).bundle_count.values.tolist() == pytest.approx(
        preview.before_after["bundle_count_after"].to_pylist()
    )


def test_health_runs_on_the_projection_unchanged(fleet) -> None:
    plan = build_unload_plan(
        fleet, owned_by(fleet, HOT)[:3], destination=IDLE, now=fleet.manifest.taken_at
    )
    before = {(item.code, item.subject) for item in assess(fleet)}
    after = {(item.code, item.subject) for item in assess(project(fleet, plan))}
    assert ("idle_broker", IDLE) in before - after
    assert ("broker_overloaded", HOT) in before - after


def test_the_most_even_preview_is_measured_with_the_same_measures(fleet) -> None:
    preview = previewed(fleet, *owned_by(fleet, HOT)[:4], destination=IDLE)
    before = preview.measures_before.throughput.max_deviation_ratio
    after = preview.measures_after.throughput.max_deviation_ratio
    assert before is not None
    assert after is not None
    assert after < before


def test_a_draw_is_carried_through_two_steps(even) -> None:
    bundles = owned_by(even, HOT)[:2]
    preview = previewed(even, *bundles, overrides=EVEN)
    assert preview.is_exact
    assert sum(scenario.probability for scenario in preview.scenarios) == pytest.approx(1)
    for step in preview.steps:
        assert sum(step.placement.distribution.values()) == pytest.approx(1)
    brokers = even.brokers.num_rows
    assert len(preview.steps[0].placement.distribution) == brokers
    # the bundles carry no long-term rate, so the second draw is as free as the first
    assert len(preview.scenarios) == brokers**2
    rows = rows_by_broker(preview)
    assert rows[COOL]["arrivals"] == pytest.approx(2 / brokers)
    assert rows[COOL]["bundle_count_high"] - rows[COOL]["bundle_count_low"] == 2


def test_what_was_placed_is_remembered_by_the_next_step(even) -> None:
    heavy = {f"long_msg_rate_{way}": 1_000.0 for way in ("in", "out")}
    bundles = owned_by(even, HOT)[:2]
    changed = edited(even, "bundles", dict.fromkeys(bundles, heavy))
    changed = every(changed, "brokers", {"long_msg_rate_in": 500.0, "long_msg_rate_out": 500.0})
    preview = previewed(changed, *bundles, overrides=EVEN)
    for scenario in preview.scenarios:
        assert scenario.destinations[0] != scenario.destinations[1]


def test_too_many_outcomes_are_sampled_and_said(even) -> None:
    preview = previewed(even, *owned_by(even, HOT)[:4], overrides=EVEN)
    assert not preview.is_exact
    assert any("sampled" in note for note in preview.notes)
    assert sum(scenario.probability for scenario in preview.scenarios) == pytest.approx(1)
    for name in QUANTITIES:
        before = pc.sum(preview.before_after[f"{name}_before"]).as_py()
        assert pc.sum(preview.before_after[f"{name}_after"]).as_py() == pytest.approx(before)


def test_sampling_is_the_same_every_time(even) -> None:
    bundles = owned_by(even, HOT)[:4]
    one, other = (previewed(even, *bundles, overrides=EVEN) for _ in range(2))
    assert one.scenarios == other.scenarios


def test_a_plan_is_previewed_on_its_own_snapshot_only(fleet) -> None:
    plan = build_unload_plan(fleet, owned_by(fleet, HOT)[:1], now=fleet.manifest.taken_at)
    with pytest.raises(PlanConflictError, match=plan.snapshot_id):
        preview_plan(make_snapshot(minutes_ago=1), plan)


def test_load_leaves_where_the_reports_still_count_it(fleet) -> None:
    bundle = owned_by(fleet, HOT)[0]
    moved = edited(fleet, "bundles", {bundle: {"owner": COOL}})
    rows = rows_by_broker(previewed(moved, bundle, destination=IDLE))
    assert rows[HOT]["throughput_bytes_per_s_after"] < rows[HOT]["throughput_bytes_per_s_before"]
    assert rows[COOL]["throughput_bytes_per_s_after"] == pytest.approx(
        rows[COOL]["throughput_bytes_per_s_before"]
    )
    assert rows[COOL]["bundle_count_after"] == rows[COOL]["bundle_count_before"] - 1


def test_an_unknown_load_stays_unknown(fleet) -> None:
    nothing = {
        name: None
        for name in fleet.brokers.schema.names
        if name.endswith(("_usage", "_limit", "_ratio")) or name.startswith("msg_throughput")
    }
    blind = edited(fleet, "brokers", {IDLE: nothing})
    rows = rows_by_broker(previewed(blind, owned_by(fleet, HOT)[0], destination=IDLE))
    assert rows[IDLE]["usage_ratio_after"] is None
    assert rows[IDLE]["throughput_bytes_per_s_after"] is None
    assert rows[IDLE]["bundle_count_after"] == 1


def test_bundles_without_statistics_are_named(fleet) -> None:
    bundle = owned_by(fleet, HOT)[0]
    blind = edited(
        fleet,
        "bundles",
        {bundle: {f"msg_throughput_{way}": None for way in ("in", "out")}},
    )
    preview = previewed(blind, bundle, destination=IDLE)
    assert any(bundle in note for note in preview.notes)
    assert preview.clients.throughput_bytes_per_s is None


def test_clients_are_added_up_and_unknown_stays_unknown(fleet) -> None:
    bundles = owned_by(fleet, HOT)[:2]
    preview = previewed(fleet, *bundles, destination=IDLE)
    rows = {row["bundle"]: row for row in fleet.bundles.to_pylist()}
    assert preview.clients.producers == sum(rows[name]["producer_count"] for name in bundles)
    assert preview.clients.topics == sum(rows[name]["topic_count"] for name in bundles)
    assert [step.clients.bundles for step in preview.steps] == [1, 1]
    blind = edited(fleet, "bundles", {bundles[0]: {"consumer_count": None}})
    impact = previewed(blind, *bundles, destination=IDLE).clients
    assert impact.clients is None
    assert impact.producers is not None
    assert "unknown" in impact.sentence()


def test_no_bundle_costs_nothing(fleet) -> None:
    impact = client_impact(fleet.bundles, [])
    assert impact.clients == 0
    assert "0 clients reconnect" in impact.sentence()


def test_the_equivalent_commands_can_be_pasted() -> None:
    step = UnloadBundle(
        bundle="acme/orders/0x00000000_0x40000000", owner="b1:8080", destination="b2:8080"
    )
    assert step.command_lines()[0] == (
        "pulsar-admin namespaces unload acme/orders -b 0x00000000_0x40000000 -d b2:8080"
    )
    assert rest_line(step, "http://b1:8080/") == (
        "curl -X PUT -L 'http://b1:8080/admin/v2/namespaces/acme/orders/0x00000000_0x40000000/"
        "unload?destinationBroker=b2:8080'"
    )
    plain = UnloadBundle(bundle="acme/orders/0x00000000_0x40000000", owner="b1:8080")
    assert plain.command_lines()[0].endswith("-b 0x00000000_0x40000000")
    assert rest_line(plain, None).startswith("curl -X PUT -L http://b1:8080/admin/v2/")


def test_the_settings_of_the_plan_decide_the_preview(fleet) -> None:
    bundle = owned_by(fleet, HOT)[0]
    preview = previewed(fleet, bundle, strategy="RoundRobinBrokerSelector", overrides=EVEN)
    assert preview.steps[0].placement.strategy == "RoundRobinBrokerSelector"
    assert len(preview.steps[0].placement.distribution) == fleet.brokers.num_rows


def test_a_broker_that_comes_over_the_overload_limit_is_named_with_its_figures(fleet) -> None:
    bundle = owned_by(fleet, HOT)[0]
    row = rows_by_broker(previewed(fleet, bundle, destination=COOL))[COOL]
    before, after = 100 * row["usage_ratio_before"], 100 * row["usage_ratio_after"]
    assert before < floor(after)
    limits = {"loadBalancerBrokerOverloadedThresholdPercentage": floor(after)}
    (sentence,) = previewed(fleet, bundle, destination=COOL, overrides=limits).overloads
    assert sentence.startswith(f"{COOL} is expected at {format_ratio(row['usage_ratio_after'])} (")
    assert sentence.endswith(
        "limit of " + format_ratio(floor(after) / 100) + ". Choose another broker."
    )
    undo = previewed(fleet, bundle, destination=COOL, overrides=limits, undoes="r-1")
    (sentence,) = undo.overloads
    assert sentence.endswith("The undo overloads it again.")
    for limit in (floor(before), ceil(after)):  # over it before, and not over it at all
        limits = {"loadBalancerBrokerOverloadedThresholdPercentage": limit}
        assert not previewed(fleet, bundle, destination=COOL, overrides=limits).overloads


def test_a_strategy_that_is_not_there_yet_is_said_not_guessed(fleet) -> None:
    other = "com.example.OwnStrategy"
    changed = with_settings(
        fleet,
        (None, "loadBalancerLoadPlacementStrategy", other, "file"),
        (None, "loadBalancerLoadSheddingStrategy", other, "file"),
    )
    preview = previewed(changed, owned_by(fleet, HOT)[0])
    assert preview.steps[0].placement.distribution == {}
    assert "is unknown" in plan_sentence(preview)
    assert any("no known destination" in note for note in preview.notes)


def test_one_sentence_says_what_it_does_and_what_it_costs(fleet) -> None:
    better = plan_sentence(previewed(fleet, *owned_by(fleet, HOT)[:2], destination=IDLE))
    assert better.startswith("Unloading 2 bundles (")
    assert f"max traffic deviation from +166% ({HOT}) to " in better
    worse = plan_sentence(previewed(fleet, *owned_by(fleet, COOL)[:2], destination=HOT))
    assert "1 of" not in worse
    assert "max traffic deviation from" in worse
    nothing = previewed(fleet, "pulsar/10.1.0.1:8080/0x00000000_0xffffffff")
    assert plan_sentence(nothing).startswith("No effect")


@pytest.mark.parametrize(
    ("usage", "throughput", "slope"),
    [
        ((30.0, 50.0, 70.0), (10.0, 20.0, 30.0), 2.0),  # a base of 10 and 2 for each
        ((25.0, 25.0, 25.0), (10.0, 20.0, 30.0), 0.0),  # traffic does not cost anything visible
        ((30.0, 50.0, 70.0, 400.0, 90.0), (10.0, 20.0, 30.0, 15.0, 40.0), 2.0),  # one is noisy
        ((70.0, 50.0, 30.0), (10.0, 20.0, 30.0), 0.0),  # never negative
        ((30.0, 50.0), (10.0, 20.0), None),
        ((30.0, 50.0, 70.0), (10.0, 10.0, 10.0), None),
        ((30.0, float("nan"), 70.0, 90.0), (10.0, 20.0, 30.0, 40.0), 2.0),
    ],
)
def test_what_traffic_costs_is_read_from_the_fleet(usage, throughput, slope) -> None:
    found = usage_per_byte(np.array(usage), np.array(throughput))
    assert found == (None if slope is None else pytest.approx(slope, rel=0.05))


def test_many_brokers_are_thinned_out() -> None:
    throughput = np.arange(1.0, 3_001.0)
    assert usage_per_byte(10.0 + 2.0 * throughput, throughput) == pytest.approx(2.0)


def test_a_broker_s_base_load_stays_where_it_is(fleet) -> None:
    busy = every(fleet, "brokers", {"cpu_usage": 400.0, "bandwidth_in_usage": 0.0})
    busy = every(busy, "brokers", {"bandwidth_out_usage": 0.0})
    rows = rows_by_broker(previewed(busy, owned_by(busy, HOT)[0], destination=IDLE))
    assert rows[HOT]["usage_ratio_after"] == pytest.approx(0.5)
    assert rows[IDLE]["usage_ratio_after"] == pytest.approx(0.5)


def test_the_sentence_says_what_is_unknown(fleet) -> None:
    bundle = owned_by(fleet, HOT)[0]
    nothing = {f"msg_throughput_{way}": None for way in ("in", "out")}
    blind = edited(fleet, "bundles", {bundle: nothing | {"consumer_count": None}})
    blind = every(blind, "brokers", nothing)
    said = plan_sentence(previewed(blind, bundle, destination=IDLE))
    assert "an unknown number" in said
    assert "is unknown" in said


def test_a_move_between_cool_brokers_leaves_the_hottest_where_it_is(fleet) -> None:
    bundle = owned_by(fleet, COOL)[-1]
    said = plan_sentence(previewed(fleet, bundle, destination=IDLE))
    assert "deviation unchanged at +166%" in said


def test_load_that_appears_or_vanishes_is_a_bug_of_ours(fleet) -> None:
    row = fleet.bundles["bundle"].to_pylist().index(owned_by(fleet, HOT)[0])
    carried = carried_by(fleet, np.array([row]))
    _, delta = load_moved(carried, np.array([0]))
    nothing = np.zeros_like(carried.amounts)
    _check_conserved(carried, delta[None], nothing)
    with pytest.raises(InvariantError, match="does not conserve"):
        _check_conserved(carried, delta[None] + 1e9, nothing)


def test_bundles_counted_in_two_ways_must_agree(fleet) -> None:
    row = fleet.bundles["bundle"].to_pylist().index(owned_by(fleet, HOT)[0])
    carried = carried_by(fleet, np.array([row]))
    rows = {name: at for at, name in enumerate(fleet.brokers["broker"].to_pylist())}
    shift = shift_of(carried, np.array([[rows[IDLE]]]), np.ones(1), [{IDLE: 1.0}], rows)
    with pytest.raises(InvariantError, match="counts bundles differently"):
        _check_counts(fleet, fleet, shift)


def test_an_owner_without_a_row_brings_its_load_from_nowhere(fleet) -> None:
    bundle = owned_by(fleet, HOT)[0]
    gone = edited(fleet, "bundles", {bundle: {"owner": "gone:8080", "reported_by": None}})
    carried = carried_by(gone, np.array([gone.bundles["bundle"].to_pylist().index(bundle)]))
    touched, delta = load_moved(carried, np.array([-1]))
    assert touched.size == delta.size == 0


def test_a_plan_that_names_strangers_is_refused(fleet) -> None:
    plan = build_unload_plan(fleet, owned_by(fleet, HOT)[:1], now=fleet.manifest.taken_at)
    strange = sealed(
        replace(plan, steps=(msgspec.structs.replace(plan.steps[0], destination="gone:8080"),))
    )
    with pytest.raises(UnknownNameError, match="gone:8080"):
        preview_plan(fleet, strange)
