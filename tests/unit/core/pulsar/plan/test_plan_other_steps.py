"""Plans of splits and of settings: what brokers take without a word is found first."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pyarrow as pa
import pytest
from fleet_builder import NOON, make_snapshot
from fleet_edit import with_settings

from core.errors import InputError, UnknownNameError
from core.plan.codec import dump_plan, load_plan
from core.plan.describe import done, tally, things, whether
from core.plan.model import Plan, Step, sealed
from core.plan.options import PlanOptions
from core.pulsar.plan.answer import plan_sentence
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.edit import PlanContext, dropped
from core.pulsar.plan.preview import preview_plan, project, rest_line
from core.pulsar.plan.setting import build_setting_plan
from core.pulsar.plan.split import FLOW, SPECIFIED, SplitSpec, build_split_plan
from core.pulsar.plan.verify import recheck
from core.pulsar.settings import SHEDDING_SWITCHES
from core.pulsar.steps.setting import SetDynamicSetting
from core.pulsar.steps.split import SplitBundle
from core.pulsar.steps.unload import UnloadBundle
from core.snapshot import PulsarSnapshot
from core.systems import STEPS

FLEET = make_snapshot(brokers=4, bundles=12, cluster="fleet")
BUNDLE = next(
    row["bundle"]
    for row in FLEET.bundles.to_pylist()
    if row["owner"] and row["bundle"].endswith("/0x00000000_0x55555555")
)
OWNER = next(row["owner"] for row in FLEET.bundles.to_pylist() if row["bundle"] == BUNDLE)
TERMS = PlanOptions(now=NOON, reason="too hot")
WHOLE = SplitSpec()


def with_column(fleet: PulsarSnapshot, table: str, name: str, values: list[object]):
    made = fleet.tables[table]
    field, at = made.schema.field(name), made.schema.get_field_index(name)
    changed = made.set_column(at, field, pa.array(values, field.type))
    return PulsarSnapshot(fleet.manifest, {**fleet.tables, table: changed})


def of_release(version: str) -> PulsarSnapshot:
    return PulsarSnapshot(replace(FLEET.manifest, release=version), FLEET.tables)


def codes(plan: Plan, severity: str) -> list[str]:
    return [item.code for item in plan.by_severity(severity)]


def split(wish: SplitSpec = WHOLE, fleet: PulsarSnapshot = FLEET, bundle: str = BUNDLE) -> Plan:
    return build_split_plan(fleet, [bundle], wish, TERMS)


def change(**wanted: str | None) -> Plan:
    return build_setting_plan(FLEET, wanted, TERMS)


# -- splits ----------------------------------------------------------------------------------------


def test_a_split_knows_where_it_cuts_and_that_it_is_final() -> None:
    plan = split()
    assert plan.steps == (
        SplitBundle(
            bundle=BUNDLE,
            owner=OWNER,
            algorithm="range_equally_divide",
            boundaries=(0x2AAAAAAA,),
            reason="too hot",
        ),
    )
    assert plan.applyable
    assert codes(plan, "warning") == ["split_assumed"]
    assert codes(plan, "info") == ["split_is_final"]
    assert "cannot be merged" in plan.diagnostics[1].sentence


@pytest.mark.parametrize(
    ("wish", "code", "says"),
    [
        (SplitSpec(algorithm=SPECIFIED, positions=(0,)), "split_without_effect", "No position"),
        (SplitSpec(algorithm=SPECIFIED, positions=(0x55555555,)), "split_without_effect", "No pos"),
        (SplitSpec(algorithm=FLOW), "split_positions_unknown", "REST does not offer it"),
    ],
)
def test_what_brokers_would_not_do_is_an_error(wish, code, says) -> None:
    plan = split(wish)
    assert plan.errored
    assert code in codes(plan, "error")
    assert any(says in item.sentence for item in plan.by_severity("error"))
    assert plan.steps == ()


def test_what_rest_cannot_be_asked_for_is_computed_and_asked_by_positions() -> None:
    names = make_snapshot().bundles["bundle"].to_pylist()
    fleet = make_snapshot(topics_of=names[5])
    limits = ("loadBalancerNamespaceBundleMaxMsgRate", "loadBalancerNamespaceBundleMaxTopics")
    rows = [row for row in fleet.settings.to_pylist() if row["name"] not in limits]
    rows += [{"broker": None, "name": limits[0], "value": "10", "origin": "dynamic"}]
    table = pa.Table.from_pylist(rows, schema=fleet.settings.schema)
    fleet = PulsarSnapshot(fleet.manifest, {**fleet.tables, "settings": table})
    (step,) = split(SplitSpec(algorithm=FLOW), fleet, names[5]).steps
    assert step.algorithm == SPECIFIED
    assert step.positions == step.boundaries
    assert len(step.positions) >= 1


def test_a_bundle_of_one_topic_is_never_cut() -> None:
    names = FLEET.bundles["bundle"].to_pylist()
    counts = FLEET.bundles["topic_count"].to_pylist()
    counts[names.index(BUNDLE)] = 1
    plan = split(fleet=with_column(FLEET, "bundles", "topic_count", counts))
    assert codes(plan, "error") == ["split_cannot_help"]
    assert "not have two topics" in plan.diagnostics[0].sentence


@pytest.mark.parametrize(
    ("bundle", "code"),
    [("acme/nowhere/0x00000000_0xffffffff", "unknown_bundle"), ("nothing", "unknown_bundle")],
)
def test_a_bundle_that_is_not_there_is_named(bundle, code) -> None:
    assert codes(split(bundle=bundle), "error") == [code]


def test_excluded_namespaces_are_not_cut() -> None:
    terms = replace(TERMS, exclusions=frozenset({"acme/*"}))
    plan = build_split_plan(FLEET, [BUNDLE], WHOLE, terms)
    assert codes(plan, "error") == ["excluded"]


def test_many_bundles_and_positions_do_not_go_together() -> None:
    wish = SplitSpec(algorithm=SPECIFIED, positions=(1,))
    with pytest.raises(InputError, match="Positions are specified for 2 bundles"):
        build_split_plan(FLEET, [BUNDLE, "other"], wish, TERMS)
    with pytest.raises(InputError, match="No bundle is specified"):
        build_split_plan(FLEET, [], WHOLE, TERMS)
    with pytest.raises(UnknownNameError, match="split algorithm"):
        split(SplitSpec(algorithm="range_equaly_divide"))


def test_a_split_is_rechecked_by_owner_and_by_use() -> None:
    plan = split(SplitSpec(is_unloaded=True))
    assert recheck(FLEET, plan, (), NOON) == {}
    elsewhere = sealed(
        replace(plan, steps=(msgspec.structs.replace(plan.steps[0], owner="gone:8080"),))
    )
    assert recheck(FLEET, elsewhere, (), NOON)[0].code == "moved_meanwhile"
    outside = msgspec.structs.replace(plan.steps[0], algorithm=SPECIFIED, positions=(0,))
    assert recheck(FLEET, sealed(replace(plan, steps=(outside,))), (), NOON)[0].code == (
        "split_without_effect"
    )
    for wrong in ({"algorithm": "in_half"}, {"algorithm": SPECIFIED, "positions": ()}):
        odd = msgspec.structs.replace(plan.steps[0], **wrong)
        found = recheck(FLEET, sealed(replace(plan, steps=(odd,))), (), NOON)
        assert found[0].code == "split_refused"


def test_the_preview_of_an_unloaded_split_counts_the_clients() -> None:
    for is_unloaded in (False, True):
        plan = split(SplitSpec(is_unloaded=is_unloaded))
        preview = preview_plan(FLEET, plan)
        assert preview.steps == ()
        (other,) = preview.others
        assert (other.clients is not None) == is_unloaded
        assert bool(preview.clients.clients) == is_unloaded
        assert plan.expected.clients == preview.clients.clients
        assert plan_sentence(preview) == other.sentence
        assert project(FLEET, plan).bundles.equals(FLEET.bundles)


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("loadBalancerBrokerThresholdShedderPercentage", "900", "setting_range"),
        ("loadBalancerBrokerThresholdShedderPercentage", "-1", "setting_range"),
        ("loadBalancerBrokerThresholdShedderPercentage", "abc", "setting_value"),
        ("loadBalancerBrokerThresholdShedderPercentage", "1.5", "setting_value"),
        ("loadBalancerHistoryResourcePercentage", "90", "setting_range"),
        ("loadBalancerHistoryResourcePercentage", "nan", "setting_value"),
        ("maxUnloadBundleNumPerShedding", "-2", "setting_range"),
        ("loadBalancerDebugModeEnabled", "maybe", "setting_value"),
        ("defaultNamespaceBundleSplitAlgorithm", "in_half", "setting_value"),
        ("defaultNamespaceBundleSplitAlgorithm", " ", "setting_value"),
        ("loadBalancerEnabled", "false", "setting_not_dynamic"),
    ],
)
def test_values_that_brokers_would_store_and_not_use_are_errors(key, value, code) -> None:
    plan = change(**{key: value})
    assert code in codes(plan, "error")
    assert plan.steps == ()
    assert not plan.applyable


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("loadBalancerBrokerThresholdShedderPercentage", " 17 ", "17"),
        ("loadBalancerDebugModeEnabled", "TRUE", "true"),
        ("loadBalancerSheddingExcludedNamespaces", "a/b, c/d", "a/b,c/d"),
        ("maxUnloadBundleNumPerShedding", "-1", "-1"),
        ("loadBalancerMsgRateDifferenceShedderThreshold", "250.5", "250.5"),
    ],
)
def test_a_value_is_kept_as_brokers_write_it(key, value, text) -> None:
    plan = change(**{key: value})
    assert not plan.errored, plan.diagnostics
    (step,) = plan.steps
    assert (step.key, step.before, step.value) == (key, None, text)


def test_what_is_felt_late_or_by_nobody_is_a_warning() -> None:
    plan = change(
        loadBalancerLoadSheddingStrategy="com.example.Nope",
        loadBalancerTransferEnabled="false",
    )
    assert set(codes(plan, "warning")) == {
        "setting_at_restart",
        "setting_class_unknown",
        "setting_not_read",
    }
    assert plan.applyable


def test_what_is_so_already_has_no_step() -> None:
    plan = change(loadBalancerSheddingEnabled="false", preferLaterVersions=None)
    assert codes(plan, "warning") == ["already_set", "already_set"]
    assert plan.steps == ()
    assert not plan.complete
    taken = change(loadBalancerSheddingEnabled=None)
    assert [(step.before, step.value) for step in taken.steps] == [("false", None)]


def test_an_unknown_key_names_its_neighbours() -> None:
    with pytest.raises(UnknownNameError) as caught:
        change(loadBalancerSheddingEnbled="true")
    assert "loadBalancerSheddingEnabled" in caught.value.hint
    with pytest.raises(InputError, match="No setting is specified"):
        change()


def test_a_threshold_of_shedding_that_is_off_is_named_as_without_effect() -> None:
    key, switch = "loadBalancerBrokerThresholdShedderPercentage", "loadBalancerSheddingEnabled"
    quiet = with_settings(FLEET, (None, switch, "false", "dynamic"))
    (found,) = build_setting_plan(quiet, {key: "17"}, TERMS).by_severity("warning")
    assert found.code == "shedding_off"
    assert found.sentence == f"Shedding is off ({switch} is false), so {key} changes nothing now."
    on = with_settings(FLEET)
    for fleet, wanted in ((on, {key: "17"}), (quiet, {key: "17", switch: "true"})):
        assert "shedding_off" not in codes(build_setting_plan(fleet, wanted, TERMS), "warning")
    overloaded = {"loadBalancerBrokerOverloadedThresholdPercentage": "90"}
    assert not build_setting_plan(quiet, overloaded, TERMS).by_severity("warning")


def test_a_setting_says_what_the_brokers_follow_until_now() -> None:
    key = "loadBalancerBrokerThresholdShedderPercentage"
    file = with_settings(FLEET, (None, key, "25", "file"))
    (step,) = build_setting_plan(file, {key: "17"}, TERMS).steps
    assert step.describe() == f"Set {key} to 17 (currently 25, not set dynamically)"


def test_a_setting_of_which_it_is_unknown_is_written_as_before_that_was_noted() -> None:
    plan = change(loadBalancerBrokerThresholdShedderPercentage="17")
    for running, is_written in ((msgspec.UNSET, False), ("10", True)):
        step = msgspec.structs.replace(plan.steps[0], running=running)
        made = sealed(replace(plan, steps=(step,)))
        assert (b"running" in dump_plan(made)) is is_written
        assert load_plan(dump_plan(made), STEPS) == made


def test_both_switches_and_all_thresholds_are_counted() -> None:
    one, other = "loadBalancerBrokerThresholdShedderPercentage", "maxUnloadPercentage"
    off = [(None, key, "false", "file") for key in SHEDDING_SWITCHES]
    (found,) = build_setting_plan(
        with_settings(FLEET, *off), {one: "17", other: "0.3"}, TERMS
    ).by_severity("warning")
    assert f"so {one} and 1 other change nothing now" in found.sentence
    assert all(f"{key} is false" in found.sentence for key in SHEDDING_SWITCHES)
    assert found.hint.endswith("to true in broker.conf.")


def test_a_setting_that_the_release_does_not_have_is_refused() -> None:
    key = "loadBalancerSheddingExcludedNamespaces"
    fleet = of_release("4.0.8")
    plan = build_setting_plan(fleet, {key: "acme/orders"}, TERMS)
    (error,) = plan.by_severity("error")
    assert error.code == "setting_unknown_in_release"
    assert f"Release 4.0.8 has no setting {key}." in error.sentence
    assert "Available in 4.0.11" in error.hint
    assert not plan.steps
    assert not plan.applyable
    newer = of_release("4.2.4")
    assert build_setting_plan(newer, {key: "acme/orders"}, TERMS).applyable


def test_a_setting_that_is_not_dynamic_in_the_release_is_refused() -> None:
    fleet = of_release("2.9.5")
    plan = build_setting_plan(fleet, {"loadBalancerSheddingGracePeriodMinutes": "10"}, TERMS)
    assert "setting_not_dynamic" in codes(plan, "error")
    assert "2.10" in plan.by_severity("error")[0].hint
    assert not plan.steps


def test_a_setting_is_rechecked_by_the_catalogue() -> None:
    plan = change(loadBalancerBrokerThresholdShedderPercentage="17")
    assert recheck(FLEET, plan, (), NOON) == {}
    for key, value, code in (
        ("loadBalancerBrokerThresholdShedderPercentage", "170", "setting_range"),
        ("loadBalancerEnabled", "false", "setting_not_dynamic"),
        ("made.up", "1", "setting_unknown"),
    ):
        other = sealed(replace(plan, steps=(SetDynamicSetting(key=key, value=value),)))
        assert recheck(FLEET, other, (), NOON)[0].code == code


# -- words and commands ----------------------------------------------------------------------------

CUT = SplitBundle(
    bundle="acme/x/0x00000000_0x80000000",
    owner="b1:8080",
    algorithm=SPECIFIED,
    positions=(256, 512),
    boundaries=(256, 512),
    is_unloaded=True,
)
SET = SetDynamicSetting(key="aKey", before="1", value="2 3")
UNSET = SetDynamicSetting(key="aKey", before="1")
MOVE = UnloadBundle(bundle="acme/x/0x00000000_0x80000000", owner="b1:8080", destination="b2:8080")


@pytest.mark.parametrize(
    ("step", "order", "under_way", "question"),
    [
        (
            MOVE,
            "Unload acme/x/0x00000000_0x80000000 from b1:8080, to b2:8080",
            "Unloading acme/x/0x00000000_0x80000000 from b1:8080",
            "whether acme/x/0x00000000_0x80000000 moved",
        ),
        (
            CUT,
            (
                "Split acme/x/0x00000000_0x80000000 on b1:8080 at 0x00000100, 0x00000200 "
                "and unload the parts"
            ),
            "Splitting acme/x/0x00000000_0x80000000 on b1:8080",
            "whether acme/x/0x00000000_0x80000000 was split",
        ),
        (SET, "Set aKey to 2 3 (currently 1)", "Setting aKey to 2 3", "whether aKey was changed"),
        (
            UNSET,
            "Remove aKey, which is 1 dynamically",
            "Removing the dynamic value 1 of aKey",
            "whether aKey was changed",
        ),
    ],
)
def test_each_kind_has_its_words(step: Step, order, under_way, question) -> None:
    assert step.describe() == order
    assert step.describe_progress() == under_way
    assert whether(step) == question
    assert step.describe_dry_run().startswith((step.subject, "The dynamic value 1 of aKey"))


def test_steps_are_counted_by_kind() -> None:
    assert tally([MOVE, CUT, SET, UNSET]) == "unload 1 bundle, split 1 bundle, change 2 settings"
    assert things([MOVE, CUT, SET]) == "2 bundles and 1 setting"
    assert (tally([]), things([])) == ("do nothing", "nothing")
    assert (done([MOVE]), done([CUT, CUT]), done([SET]), done([CUT, SET])) == (
        "moved",
        "split",
        "changed",
        "done",
    )


@pytest.mark.parametrize(
    ("step", "line", "rest"),
    [
        (
            CUT,
            (
                "pulsar-admin namespaces split-bundle acme/x -b 0x00000000_0x80000000 "
                "-san specified_positions_divide -sb 256,512 -u"
            ),
            (
                "curl -X PUT -L -H 'Content-Type: application/json' -d '[256, 512]' "
                "'http://b1:8080/admin/v2/namespaces/acme/x/0x00000000_0x80000000/split?unload=true&"
                "splitAlgorithmName=specified_positions_divide'"
            ),
        ),
        (
            SET,
            "pulsar-admin brokers update-dynamic-config --config aKey --value '2 3'",
            "curl -X POST -L http://localhost:8080/admin/v2/brokers/configuration/aKey/2%203",
        ),
        (
            UNSET,
            "pulsar-admin brokers delete-dynamic-config --config aKey",
            "curl -X DELETE -L http://localhost:8080/admin/v2/brokers/configuration/aKey",
        ),
    ],
)
def test_commands_do_by_hand_what_a_step_does(step: Step, line, rest) -> None:
    assert step.command_lines()[0] == line
    assert rest_line(step, None) == rest


def test_plan_files_hold_every_kind_and_one_of_an_unload_cannot_be_edited_into_another() -> None:
    base = build_unload_plan(FLEET, [BUNDLE], now=NOON)
    plan = sealed(replace(base, steps=(*base.steps, CUT, SET, UNSET)))
    again = load_plan(dump_plan(plan), STEPS)
    assert again == plan
    assert [step.kind for step in again.steps] == [
        "unload_bundle",
        "split_bundle",
        "set_dynamic_setting",
        "set_dynamic_setting",
    ]
    with pytest.raises(InputError, match="does more than unload bundles"):
        dropped(plan, [BUNDLE], PlanContext(snapshot=FLEET, now=NOON))
