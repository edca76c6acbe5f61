"""Unload plans: what is checked, and what a refusal says."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fleet_builder import make_snapshot
from fleet_edit import (
    edited,
    every,
    owned_by,
    with_manifest,
    with_policies,
    with_settings,
    without,
)

from core.errors import InputError, UnknownNameError
from core.plan.codec import dump_plan, load_plan
from core.plan.model import Plan
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.settings import effective_settings
from core.pulsar.snapshot.znodes.assemble import EXTENSIBLE_LACKS
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.systems import STEPS

HOT, COOL, IDLE = "10.1.0.11:8080", "10.1.0.5:8080", "10.1.0.9:8080"
EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"


@pytest.fixture(scope="module")
def fleet() -> PulsarSnapshot:
    return with_policies(make_snapshot())


@pytest.fixture(scope="module")
def hottest(fleet) -> str:
    return owned_by(fleet, HOT)[0]


def planned(snapshot: PulsarSnapshot, *bundles: str, **options) -> Plan:
    now = snapshot.manifest.taken_at + timedelta(seconds=20)
    return build_unload_plan(snapshot, bundles, now=now, **options)


def codes(plan: Plan) -> list[str]:
    return [item.code for item in plan.diagnostics]


def sentence(plan: Plan, code: str) -> str:
    return next(item.sentence for item in plan.diagnostics if item.code == code)


def test_a_plan_without_destination_is_applyable(fleet, hottest) -> None:
    plan = planned(fleet, hottest, reason="too hot")
    assert plan.applyable
    assert plan.complete
    assert not plan.errored
    assert plan.steps[0].owner == HOT
    assert plan.steps[0].destination is None
    assert plan.steps[0].reason == "too hot"
    assert plan.strategy.name == "LeastLongTermMessageRate"


def test_a_plan_expires_ten_minutes_after_it_was_made(fleet, hottest) -> None:
    plan = planned(fleet, hottest)
    assert plan.expires_at - plan.created_at == timedelta(minutes=10)


def test_the_same_question_gives_the_same_id(fleet, hottest) -> None:
    assert planned(fleet, hottest).plan_id == planned(fleet, hottest).plan_id


def test_a_plan_with_overrides_survives_its_file(fleet, hottest) -> None:
    overrides = {
        "loadBalancerSheddingExcludedNamespaces": ("a/b", "c/d"),
        "maxUnloadPercentage": 1.0,
    }
    plan = planned(fleet, hottest, overrides=overrides)
    assert load_plan(dump_plan(plan), STEPS) == plan


def test_bundles_keep_their_order_and_count_once(fleet) -> None:
    bundles = owned_by(fleet, HOT)[:3]
    plan = planned(fleet, *bundles, bundles[0])
    assert [step.bundle for step in plan.steps] == bundles
    assert plan.complete


def test_no_bundle_at_all_is_an_input_error(fleet) -> None:
    with pytest.raises(InputError):
        planned(fleet)


def test_an_unknown_strategy_offers_near_names(fleet, hottest) -> None:
    with pytest.raises(UnknownNameError, match="LeastLongTermMessageRate"):
        planned(fleet, hottest, strategy="LeastLongTermMessageRates")


def test_a_given_destination_is_taken_with_its_hint_note(fleet, hottest) -> None:
    plan = planned(fleet, hottest, destination=IDLE)
    assert plan.applyable
    assert plan.steps[0].destination == IDLE
    assert "destination_is_hint" in codes(plan)


def test_an_undo_warns_that_the_hint_may_be_lost(fleet, hottest) -> None:
    plan = planned(fleet, hottest, destination=IDLE, undoes="20261121-120000-abcdef")
    (said,) = [item for item in plan.diagnostics if item.code == "destination_is_hint"]
    assert said.severity == "warning"
    assert "may not restore" in said.sentence


def test_an_unknown_bundle_offers_near_names(fleet, hottest) -> None:
    plan = planned(fleet, hottest[:-1] + ("0" if hottest[-1] != "0" else "1"))
    assert plan.errored
    assert not plan.applyable
    assert codes(plan) == ["unknown_bundle"]
    assert hottest in plan.diagnostics[0].hint


def test_an_unknown_namespace_is_named(fleet) -> None:
    plan = planned(fleet, "acme/ordes/0x00000000_0x40000000")
    assert "'acme/ordes' is unknown" in sentence(plan, "unknown_bundle")
    assert "acme/orders" in plan.diagnostics[0].hint


def test_what_is_no_bundle_name_is_told_its_form(fleet) -> None:
    plan = planned(fleet, "rubbish")
    assert codes(plan) == ["unknown_bundle"]
    assert plan.diagnostics[0].sentence == "'rubbish' is not a bundle name."
    assert "tenant/namespace/0x" in plan.diagnostics[0].hint


def test_a_split_bundle_names_its_parts(fleet) -> None:
    rows = [row for row in fleet.bundles.to_pylist() if row["namespace"] == "acme/orders"][:2]
    parent = f"acme/orders/0x{rows[0]['lower']:08x}_0x{rows[1]['upper']:08x}"
    plan = planned(fleet, parent)
    assert codes(plan) == ["bundle_split"]
    assert rows[1]["bundle"] in plan.diagnostics[0].sentence


def test_a_heartbeat_bundle_is_never_moved(fleet) -> None:
    plan = planned(fleet, f"pulsar/{HOT}/0x00000000_0xffffffff")
    assert codes(plan) == ["broker_bound"]
    assert plan.errored


def test_an_unowned_bundle_has_nothing_to_unload(fleet, hottest) -> None:
    plan = planned(edited(fleet, "bundles", {hottest: {"owner": None}}), hottest)
    assert codes(plan) == ["not_owned"]
    assert not plan.errored
    assert not plan.applyable
    assert not plan.complete


def test_an_unknown_owner_is_an_error(fleet, hottest) -> None:
    changed = edited(fleet, "bundles", {hottest: {"owner": None, "owner_source": None}})
    assert codes(planned(changed, hottest)) == ["owner_unknown"]


def test_an_owner_that_is_gone_is_an_error(fleet, hottest) -> None:
    assert codes(planned(without(fleet, "brokers", HOT), hottest)) == ["owner_gone"]


def test_one_bad_bundle_forbids_the_whole_plan_but_the_others_are_shown(fleet, hottest) -> None:
    plan = planned(fleet, hottest, "acme/nope/0x00000000_0x40000000")
    assert len(plan.steps) == 1
    assert not plan.complete
    assert not plan.applyable


def test_an_unknown_destination_offers_near_names(fleet, hottest) -> None:
    plan = planned(fleet, hottest, destination="10.1.0.99:8080")
    assert codes(plan) == ["destination_unknown"]
    assert "10.1.0.9:8080" in plan.diagnostics[0].hint
    assert plan.steps == ()


def test_a_destination_that_no_name_is_near_offers_the_coolest_brokers(fleet, hottest) -> None:
    settings = effective_settings(fleet)
    view = LoadView.of(fleet, settings)
    coolest = [view.brokers[row] for row in view.usage.argsort()[:3]]
    hint = planned(fleet, hottest, destination="nobody").diagnostics[0].hint
    assert hint.startswith(f"Choose an active broker; the least busy: {coolest[0]} (")
    assert all(name in hint for name in coolest)
    assert "Did you mean" not in hint


def test_a_destination_that_has_left_is_not_taken_for_a_slip(fleet, hottest) -> None:
    back = planned(without(fleet, "brokers", IDLE), hottest, destination=IDLE, undoes="a-run")
    assert back.diagnostics[0].code == "destination_unknown"
    assert back.diagnostics[0].hint.startswith("Choose an active broker")


def test_a_destination_without_a_report_is_refused(fleet, hottest) -> None:
    nothing = {
        name: None
        for name in fleet.brokers.schema.names
        if name.endswith(("_usage", "_limit", "_ratio")) or name.startswith("msg_")
    }
    plan = planned(edited(fleet, "brokers", {IDLE: nothing}), hottest, destination=IDLE)
    assert codes(plan) == ["destination_unreported"]
    assert plan.steps == ()


def test_the_owner_is_no_destination(fleet, hottest) -> None:
    plan = planned(fleet, hottest, destination=HOT)
    assert "destination_is_owner" in codes(plan)
    assert plan.errored


ISOLATED = (
    '{"namespaces":["acme/.*"],"primary":["10\\\\.1\\\\.0\\\\.(10|11)"],"secondary":[],'
    '"auto_failover_policy":{"policy_type":"min_available",'
    '"parameters":{"min_limit":"1","usage_threshold":"80"}}}'
)


def test_isolation_forbids_a_destination_outside_its_brokers(fleet) -> None:
    isolated = with_policies(fleet, ("isolation", "acme-own", ISOLATED))
    bundle = next(name for name in owned_by(isolated, HOT) if name.startswith("acme/"))
    plan = planned(isolated, bundle, destination=IDLE)
    assert "destination_not_allowed" in codes(plan)
    assert "acme-own" in sentence(plan, "destination_not_allowed")
    assert planned(isolated, bundle, destination="10.1.0.10:8080").applyable


def test_isolation_keeps_strangers_off_its_brokers(fleet) -> None:
    isolated = with_policies(fleet, ("isolation", "acme-own", ISOLATED))
    bundle = next(name for name in owned_by(isolated, COOL) if name.startswith("globex/"))
    plan = planned(isolated, bundle, destination="10.1.0.10:8080")
    assert "destination_not_allowed" in codes(plan)


def test_nobody_eligible_is_an_error(fleet, hottest) -> None:
    nobody = ISOLATED.replace("acme/.*", hottest.rpartition("/")[0]).replace("(10|11)", "250")
    plan = planned(with_policies(fleet, ("isolation", "lost", nobody)), hottest)
    assert "no_eligible_broker" in codes(plan)
    assert plan.errored


def test_another_load_manager_is_no_destination(fleet, hottest) -> None:
    changed = edited(fleet, "brokers", {IDLE: {"load_manager": EXTENSIBLE}})
    assert "destination_load_manager" in codes(planned(changed, hottest, destination=IDLE))


def test_an_older_version_is_no_destination_when_later_ones_are_preferred(fleet, hottest) -> None:
    changed = edited(fleet, "brokers", {COOL: {"version": "4.0.8"}})
    wanted = {"preferLaterVersions": True}
    assert "destination_version" in codes(
        planned(changed, hottest, destination=COOL, overrides=wanted)
    )
    assert "destination_version" not in codes(planned(changed, hottest, destination=COOL))
    idle = planned(changed, hottest, destination=IDLE, overrides=wanted)
    assert "destination_version" not in codes(idle)


def test_anti_affinity_forbids_a_broker_that_serves_the_group(fleet) -> None:
    namespaces = fleet.namespaces.to_pylist()
    pair = [row["namespace"] for row in namespaces if row["anti_affinity_group"] == "pair"]
    one, other = pair
    mine = [row["bundle"] for row in fleet.bundles.to_pylist() if row["namespace"] == one]
    kept = {name: {"owner": HOT, "reported_by": HOT} for name in mine}
    theirs = [row["bundle"] for row in fleet.bundles.to_pylist() if row["namespace"] == other]
    kept |= {name: {"owner": COOL, "reported_by": COOL} for name in theirs}
    changed = edited(fleet, "bundles", kept)
    refused = planned(changed, mine[0], destination=COOL)
    assert "destination_anti_affinity" in codes(refused)
    assert refused.errored
    assert planned(changed, mine[0], destination=IDLE).applyable


def test_an_overloaded_destination_is_a_warning(fleet) -> None:
    plan = planned(fleet, owned_by(fleet, COOL)[0], destination=HOT)
    assert "destination_overloaded" in codes(plan)
    assert plan.applyable


def test_an_excluded_namespace_is_a_warning_or_an_error(fleet, hottest) -> None:
    namespace = hottest.rpartition("/")[0]
    shed = {"loadBalancerSheddingExcludedNamespaces": (namespace,)}
    warned = planned(fleet, hottest, overrides=shed)
    assert "excluded_from_shedding" in codes(warned)
    assert warned.applyable
    tenant = namespace.partition("/")[0]
    assert "excluded" in codes(planned(fleet, hottest, exclusions=[f"{tenant}/*"]))


def test_an_old_report_and_an_old_snapshot_are_warnings(fleet, hottest) -> None:
    long_ago = edited(fleet, "brokers", {HOT: {"reported_at": 1_000}})
    assert "stale_report" in codes(planned(long_ago, hottest))
    late = fleet.manifest.taken_at + timedelta(minutes=20)
    assert "stale_snapshot" in codes(build_unload_plan(fleet, [hottest], now=late))


def test_a_bundle_that_would_come_back_is_said(fleet) -> None:
    alone = edited(fleet, "brokers", {})
    for broker in alone.brokers["broker"].to_pylist():
        if broker not in (HOT, IDLE):
            alone = without(alone, "brokers", broker)
    plan = planned(without(alone, "brokers", IDLE), owned_by(fleet, HOT)[0])
    assert "may_return" in codes(plan)
    assert "100%" in sentence(plan, "may_return")


def test_placement_of_the_extensible_manager_is_unknown_not_refused(fleet, hottest) -> None:
    changed = with_manifest(
        every(fleet, "brokers", {"load_manager": EXTENSIBLE}),
        load_manager="extensible",
        unavailable=(EXTENSIBLE_LACKS,),
    )
    plan = planned(changed, hottest)
    assert "placement_unknown" in codes(plan)
    assert plan.applyable


def test_a_destination_under_the_extensible_manager_is_not_checked_and_that_is_said(
    fleet, hottest
) -> None:
    unread = {name: None for name in fleet.brokers.schema.names if name.startswith("msg_")}
    unread |= {name: None for name in fleet.brokers.schema.names if name.endswith("_usage")}
    changed = with_manifest(
        every(fleet, "brokers", {"load_manager": EXTENSIBLE, **unread}),
        load_manager="extensible",
        unavailable=(EXTENSIBLE_LACKS,),
    )
    plan = planned(changed, hottest, destination=IDLE)
    assert codes(plan) == ["destination_unchecked"]
    assert plan.applyable


def test_isolation_is_checked_under_a_strategy_that_is_not_there_yet(fleet) -> None:
    other = "com.example.OwnStrategy"
    isolated = with_settings(
        with_policies(fleet, ("isolation", "acme-own", ISOLATED)),
        (None, "loadBalancerLoadPlacementStrategy", other, "file"),
        (None, "loadBalancerLoadSheddingStrategy", other, "file"),
    )
    bundle = next(name for name in owned_by(isolated, HOT) if name.startswith("acme/"))
    assert "destination_not_allowed" in codes(planned(isolated, bundle, destination=IDLE))
    open_end = planned(isolated, bundle)
    assert "placement_unknown" in codes(open_end)
    assert open_end.expected.throughput_deviation_after is None


def test_the_legacy_manager_is_refused(fleet, hottest) -> None:
    plan = planned(with_manifest(fleet, load_manager="simple"), hottest)
    assert "load_manager_unsupported" in codes(plan)
    assert plan.errored


def test_diagnostics_stand_worst_first(fleet, hottest) -> None:
    late = fleet.manifest.taken_at + timedelta(hours=1)
    plan = build_unload_plan(fleet, [hottest, "x/y/0x00000000_0x10000000"], now=late)
    order = ["error", "warning", "info"]
    ranks = [order.index(item.severity) for item in plan.diagnostics]
    assert ranks == sorted(ranks)


def test_dynamic_settings_of_the_cluster_count(fleet, hottest) -> None:
    namespace = hottest.rpartition("/")[0]
    changed = with_settings(
        fleet, (None, "loadBalancerSheddingExcludedNamespaces", namespace, "dynamic")
    )
    assert "excluded_from_shedding" in codes(planned(changed, hottest))


def test_a_name_that_is_no_range_is_unknown(fleet) -> None:
    plan = planned(fleet, "acme/orders/everything")
    assert codes(plan) == ["unknown_bundle"]


def test_a_destination_with_many_topics_is_a_warning(fleet, hottest) -> None:
    full = edited(fleet, "brokers", {COOL: {"topic_count": 60_000}})
    plan = planned(full, hottest, destination=COOL)
    assert "60,000 topics" in sentence(plan, "destination_topics")
    assert plan.applyable


def test_a_broker_that_a_plan_empties_may_get_bundles_again(fleet) -> None:
    warned = planned(fleet, *owned_by(fleet, HOT))
    assert "broker_emptied" in codes(warned)
    assert f"{HOT} ends with the lowest load of all brokers" in sentence(warned, "broker_emptied")
    elsewhere = planned(fleet, *owned_by(fleet, HOT), destination=COOL)
    assert "broker_emptied" not in codes(elsewhere)
    assert "broker_emptied" not in codes(planned(fleet, *owned_by(fleet, HOT)[:2]))
