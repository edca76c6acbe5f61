"""Plans looked at again: what they foresee, what a fresh snapshot refuses, edits, and undoing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from fleet_builder import make_snapshot
from fleet_edit import edited, owned_by, with_manifest, with_policies, without
from journal_entries import RUN, begun, chain_of, claimed, ended, requested

from core.actions.events import RunEnded, StepEnded
from core.actions.runs import RunView, fold
from core.errors import InputError, PlanConflictError, UnknownNameError
from core.plan.codec import dump_plan, load_plan
from core.plan.model import Plan
from core.pulsar.measures import measure
from core.pulsar.plan.after_run import load_after_run
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.edit import PlanContext, dropped, retargeted
from core.pulsar.plan.policy.state import with_policies as set_policies
from core.pulsar.plan.preview import preview_plan
from core.pulsar.plan.undo import undo_plan
from core.pulsar.plan.verify import recheck
from core.pulsar.steps.policy import SetPolicy
from core.pulsar.steps.unload import MIN_PROBABILITY
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot
from core.systems import STEPS

HOT, COOL, IDLE = "10.1.0.11:8080", "10.1.0.5:8080", "10.1.0.9:8080"


@pytest.fixture(scope="module")
def fleet() -> PulsarSnapshot:
    return with_policies(make_snapshot())


@pytest.fixture(scope="module")
def hot(fleet) -> list[str]:
    return owned_by(fleet, HOT)[:3]


def planned(snapshot: PulsarSnapshot, bundles, **options) -> Plan:
    now = snapshot.manifest.taken_at + timedelta(seconds=20)
    return build_unload_plan(snapshot, bundles, now=now, **options)


def plan_context(snapshot: PulsarSnapshot, **more) -> PlanContext:
    now = snapshot.manifest.taken_at + timedelta(seconds=30)
    return PlanContext(snapshot=snapshot, now=now, **more)


def codes(plan: Plan) -> list[str]:
    return [item.code for item in plan.diagnostics]


# -- what a plan foresees --------------------------------------------------------------------------


def test_a_plan_foresees_where_its_bundles_land(fleet, hot) -> None:
    plan = planned(fleet, hot, destinations={hot[0]: COOL})
    assert plan.steps[0].predicted == {COOL: 1.0}
    assert plan.steps[0].likely == (COOL,)
    for step in plan.steps:
        assert sum(step.predicted.values()) <= 1.0 + 1e-9
        assert all(p >= MIN_PROBABILITY for p in step.predicted.values())
        assert list(step.predicted) == list(step.likely)


def test_what_it_foresees_survives_the_file_and_is_part_of_the_id(fleet, hot) -> None:
    plan = planned(fleet, hot)
    assert load_plan(dump_plan(plan), STEPS) == plan
    other = replace(
        plan, steps=(msgspec.structs.replace(plan.steps[0], predicted={}), *plan.steps[1:])
    )
    with pytest.raises(Exception, match="was changed after it was made"):
        load_plan(dump_plan(other), STEPS)


def test_the_touched_brokers_are_expected_before_and_after(fleet, hot) -> None:
    plan = planned(fleet, hot[:1], destination=IDLE)
    brokers = {item.broker: item for item in plan.expected.brokers}
    assert set(brokers) == {HOT, IDLE}
    assert brokers[HOT].throughput_after < brokers[HOT].throughput_before
    assert brokers[IDLE].throughput_after > brokers[IDLE].throughput_before
    moved = plan.expected.moved_bytes_per_s
    gained = brokers[IDLE].throughput_after - brokers[IDLE].throughput_before
    assert gained == pytest.approx(moved)


def test_each_bundle_may_have_a_destination_of_its_own(fleet, hot) -> None:
    plan = planned(fleet, hot, destination=IDLE, destinations={hot[1]: COOL})
    assert [step.destination for step in plan.steps] == [IDLE, COOL, IDLE]


def test_one_bad_destination_spoils_its_own_bundle_only(fleet, hot) -> None:
    plan = planned(fleet, hot, destinations={hot[1]: "10.9.9.9:8080"})
    assert [step.bundle for step in plan.steps] == [hot[0], hot[2]]
    assert plan.errored
    assert not plan.complete


def test_a_destination_for_a_bundle_that_stays_is_refused(fleet, hot) -> None:
    with pytest.raises(InputError, match="not unloaded"):
        planned(fleet, hot[:1], destinations={hot[1]: COOL})


# -- checked again ---------------------------------------------------------------------------------


def rechecked(snapshot: PulsarSnapshot, plan: Plan, exclusions=()) -> dict[int, str]:
    now = snapshot.manifest.taken_at + timedelta(seconds=5)
    return {index: item.code for index, item in recheck(snapshot, plan, exclusions, now).items()}


def test_nothing_is_refused_when_nothing_changed(fleet, hot) -> None:
    assert rechecked(fleet, planned(fleet, hot, destination=IDLE)) == {}


def test_a_bundle_that_moved_meanwhile_is_named_with_both_owners(fleet, hot) -> None:
    plan = planned(fleet, hot)
    later = edited(fleet, "bundles", {hot[1]: {"owner": COOL}})
    found = recheck(later, plan, (), later.manifest.taken_at)
    assert list(found) == [1]
    assert found[1].code == "moved_meanwhile"
    assert HOT in found[1].sentence
    assert COOL in found[1].sentence


def test_each_change_refuses_its_own_steps(fleet, hot) -> None:
    plan = planned(fleet, hot, destinations={hot[2]: IDLE})
    gone = without(fleet, "bundles", hot[0])
    unowned = edited(fleet, "bundles", {hot[0]: {"owner": None}})
    no_idle = without(fleet, "brokers", IDLE)
    unknown = edited(fleet, "bundles", {hot[0]: {"owner": None, "owner_source": None}})
    assert rechecked(gone, plan) == {0: "unknown_bundle"}
    assert rechecked(unowned, plan) == {0: "not_owned"}
    assert rechecked(unknown, plan) == {0: "owner_unknown"}
    assert rechecked(no_idle, plan) == {2: "destination_unknown"}
    namespace = hot[1].rpartition("/")[0]
    same = {index for index, name in enumerate(hot) if name.startswith(f"{namespace}/")}
    assert rechecked(fleet, plan, [namespace]) == dict.fromkeys(same, "excluded")
    assert rechecked(with_manifest(fleet, load_manager="simple"), plan) == dict.fromkeys(
        range(3), "load_manager_unsupported"
    )


def test_a_bundle_that_is_where_it_should_go_already_is_not_moved(fleet, hot) -> None:
    plan = planned(fleet, hot[:1], destination=IDLE)
    assert rechecked(edited(fleet, "bundles", {hot[0]: {"owner": IDLE}}), plan) == {
        0: "moved_meanwhile"
    }


def test_only_the_steps_asked_for_are_looked_at(fleet, hot) -> None:
    plan = planned(fleet, hot)
    later = edited(fleet, "bundles", {name: {"owner": COOL} for name in hot})
    assert list(recheck(later, plan, (), later.manifest.taken_at, steps=[2])) == [2]


# -- edited ----------------------------------------------------------------------------------------


def test_a_plan_without_a_step_is_another_plan(fleet, hot) -> None:
    plan = planned(fleet, hot, destinations={hot[2]: IDLE}, reason="too hot")
    less = dropped(plan, [hot[1]], plan_context(fleet))
    assert [step.bundle for step in less.steps] == [hot[0], hot[2]]
    assert less.steps[1].destination == IDLE
    assert less.derived_from == plan.plan_id
    assert less.plan_id != plan.plan_id
    assert less.reason == "too hot"
    assert less.applyable


def test_the_last_step_cannot_be_dropped(fleet, hot) -> None:
    with pytest.raises(InputError, match="no step left"):
        dropped(planned(fleet, hot), hot, plan_context(fleet))


def test_a_step_can_be_sent_elsewhere_or_anywhere(fleet, hot) -> None:
    plan = planned(fleet, hot, destination=IDLE)
    edit = retargeted(plan, {hot[0]: COOL, hot[1]: None}, plan_context(fleet))
    assert [step.destination for step in edit.steps] == [COOL, None, IDLE]
    assert edit.derived_from == plan.plan_id


@pytest.mark.parametrize(
    "edit", [lambda p, g: dropped(p, ["x/y/z"], g), lambda p, g: retargeted(p, {"x/y/z": None}, g)]
)
def test_a_bundle_that_the_plan_does_not_have_is_named(fleet, hot, edit) -> None:
    with pytest.raises(UnknownNameError, match="x/y/z"):
        edit(planned(fleet, hot), plan_context(fleet))


def test_an_edit_keeps_what_was_assumed(fleet, hot) -> None:
    plan = planned(
        fleet,
        hot,
        strategy="LeastResourceUsageWithWeight",
        overrides={"maxUnloadPercentage": 0.5},
        release="4.0",
        undoes="20261121-120000-abcdef",
    )
    edit = dropped(plan, [hot[0]], plan_context(fleet))
    assert edit.strategy == plan.strategy
    assert edit.undoes == plan.undoes


# -- taken back ------------------------------------------------------------------------------------

STOPPED = RunEnded(state="STOPPED", sentence="Stopped.")
SKIPPED = {"state": "SKIPPED", "code": "stopped", "broker": None}


def a_run(plan: Plan, *events, end=STOPPED) -> RunView:
    return fold(chain_of([requested(plan=plan), claimed(), *events, *([end] if end else [])]))


@pytest.fixture
def moved(fleet, hot):
    """A run that moved two bundles from HOT to IDLE and COOL, and skipped the third."""
    plan = planned(fleet, hot, destinations={hot[0]: IDLE, hot[1]: COOL})
    view = a_run(
        replace(plan, cluster="prod"),
        begun(0, HOT), ended(0, broker=IDLE),
        begun(1, HOT), ended(1, broker=COOL),
        ended(2, **SKIPPED),
    )  # fmt: skip
    places = {hot[0]: {"owner": IDLE}, hot[1]: {"owner": COOL}}
    after = with_manifest(edited(fleet, "bundles", places), cluster="prod")
    return view, after


def test_undoing_brings_back_what_was_done_last_step_first(moved, hot) -> None:
    view, after = moved
    plan = undo_plan(view, plan_context(after))
    assert [(step.bundle, step.owner, step.destination) for step in plan.steps] == [
        (hot[1], COOL, HOT),
        (hot[0], IDLE, HOT),
    ]
    assert plan.undoes == RUN
    assert plan.applyable
    assert plan.complete
    assert plan.reason == f"Undoes run {RUN}: too hot"
    assert load_plan(dump_plan(plan), STEPS) == plan


def reports(
    view: RunView, snapshot: PulsarSnapshot, seconds: float, *brokers: str
) -> PulsarSnapshot:
    """Return the snapshot with load reports so long after the last step of the run."""
    last = max(step.ended_at for step in view.steps if step.ended_at)
    at = int((last + timedelta(seconds=seconds)).timestamp() * 1000)
    return edited(snapshot, "brokers", {broker: {"reported_at": at} for broker in brokers})


def traffic(snapshot: PulsarSnapshot) -> dict[str, float]:
    rows = snapshot.brokers.to_pylist()
    return {
        one["broker"]: one["msg_throughput_in"] + one["msg_throughput_out"]
        for one in rows
        if one["msg_throughput_in"] is not None
    }


def test_load_that_is_not_reported_since_the_run_is_predicted(moved, fleet, hot) -> None:
    view, after = moved
    early = reports(view, after, -30, HOT, COOL, IDLE)
    plan = undo_plan(view, plan_context(early), start=fleet)
    found = load_after_run(view, early, fleet)
    assert set(found.brokers) == {HOT, COOL, IDLE}
    before, now = traffic(early), traffic(found.snapshot)
    amounts = {row["bundle"]: row for row in fleet.bundles.to_pylist()}
    carried = [
        amounts[name]["msg_throughput_in"] + amounts[name]["msg_throughput_out"] for name in hot[:2]
    ]
    assert now[IDLE] == pytest.approx(before[IDLE] + carried[0])
    assert now[COOL] == pytest.approx(before[COOL] + carried[1])
    assert now[HOT] == pytest.approx(before[HOT] - sum(carried))
    assert "load_predicted" in codes(plan)
    assert plan.snapshot_id == early.snapshot_id, "that was read"
    assert plan.complete, "what is predicted is still undone"
    # before and after the undo: the way back of the same load
    shown = preview_plan(found.snapshot, plan).before_after.to_pylist()
    hottest = next(row for row in shown if row["broker"] == HOT)
    assert hottest["throughput_bytes_per_s_before"] == pytest.approx(now[HOT])
    assert hottest["throughput_bytes_per_s_after"] == pytest.approx(before[HOT])
    assert plan.expected.throughput_deviation_before == pytest.approx(
        measure(found.snapshot).throughput.max_deviation_ratio
    )


def test_load_that_is_reported_since_the_run_counts_as_it_is(moved, fleet) -> None:
    view, after = moved
    late = reports(view, after, 60, HOT, COOL, IDLE)
    assert load_after_run(view, late, fleet).snapshot is late
    assert "load_predicted" not in codes(undo_plan(view, plan_context(late), start=fleet))
    half = reports(view, late, -30, IDLE)
    found = load_after_run(view, half, fleet)
    assert found.brokers == (IDLE,)
    assert traffic(found.snapshot)[HOT] == traffic(half)[HOT]
    assert traffic(found.snapshot)[IDLE] > traffic(half)[IDLE]


def test_load_of_a_bundle_that_no_report_has_is_that_of_the_start(moved, fleet, hot) -> None:
    view, after = moved
    early = reports(view, after, -30, HOT, COOL, IDLE)
    unreported = edited(
        early,
        "bundles",
        {hot[0]: {"reported_by": None, **dict.fromkeys(RATES)}},
    )
    with_start = load_after_run(view, unreported, fleet)
    assert traffic(with_start.snapshot)[IDLE] == pytest.approx(
        traffic(load_after_run(view, early).snapshot)[IDLE]
    )


def test_an_undo_proposes_no_other_destination_that_it_cannot_take(moved, fleet) -> None:
    view, after = moved
    full = edited(after, "brokers", {HOT: {"cpu_usage": 4_000.0, "cpu_ratio": 1.0}})
    plan = undo_plan(view, plan_context(full))
    [found] = [item for item in plan.diagnostics if item.code == "destination_overloaded"]
    assert found.hint == ""


def test_what_somebody_moved_since_stays(moved, hot) -> None:
    view, after = moved
    later = edited(after, "bundles", {hot[0]: {"owner": COOL}})
    plan = undo_plan(view, plan_context(later), reason="again")
    assert [step.bundle for step in plan.steps] == [hot[1]]
    assert "undo_moved_since" in codes(plan)
    assert plan.applyable
    assert not plan.complete
    assert plan.reason == "again"


def test_what_is_back_already_is_only_mentioned(moved, hot) -> None:
    view, after = moved
    later = edited(after, "bundles", {hot[0]: {"owner": HOT}})
    plan = undo_plan(view, plan_context(later))
    assert "undo_not_needed" in codes(plan)
    assert plan.complete
    assert plan.applyable


def test_an_owner_that_is_gone_cannot_take_anything_back(moved) -> None:
    view, after = moved
    with pytest.raises(PlanConflictError, match=r"be undone.* cannot be moved back to") as caught:
        undo_plan(view, plan_context(without(after, "brokers", HOT)))
    assert HOT in caught.value.message


@pytest.mark.parametrize(
    "change",
    [
        lambda snapshot, bundle: without(snapshot, "bundles", bundle),
        lambda snapshot, bundle: edited(snapshot, "bundles", {bundle: {"owner": None}}),
        lambda snapshot, bundle: edited(
            snapshot, "bundles", {bundle: {"owner": None, "owner_source": None}}
        ),
    ],
)
def test_a_bundle_that_is_gone_or_unowned_stays_out_of_the_plan(moved, hot, change) -> None:
    view, after = moved
    plan = undo_plan(view, plan_context(change(after, hot[0])))
    assert [step.bundle for step in plan.steps] == [hot[1]]
    assert "undo_refused" in codes(plan)
    assert plan.applyable


def test_an_excluded_namespace_is_not_touched_by_undoing_either(moved, hot) -> None:
    view, after = moved
    with pytest.raises(PlanConflictError, match="excluded"):
        undo_plan(view, plan_context(after, exclusions=["*/*"]))


def test_an_unknown_step_is_left_where_it_is(fleet, hot, moved) -> None:
    plan = replace(planned(fleet, hot[:2], destination=IDLE), cluster="prod")
    view = a_run(
        plan,
        begun(0, HOT), ended(0, "UNKNOWN", "timed_out", HOT),
        begun(1, HOT), ended(1, broker=COOL),
    )  # fmt: skip
    made = undo_plan(view, plan_context(moved[1]))
    assert [step.bundle for step in made.steps] == [hot[1]]
    assert "undo_unknown" in codes(made)


def test_a_bundle_left_with_nobody_is_taken_from_whoever_got_it(fleet, hot, moved) -> None:
    plan = replace(planned(fleet, hot[:1]), cluster="prod")
    view = a_run(plan, begun(0, HOT), ended(0, "DONE", "unassigned", None))
    (step,) = undo_plan(view, plan_context(moved[1])).steps
    assert (step.owner, step.destination) == (IDLE, HOT)


def test_a_bundle_whose_place_the_run_never_saw_stays(fleet, hot, moved) -> None:
    plan = replace(planned(fleet, hot[:2]), cluster="prod")
    blind = ended(0)
    blind = StepEnded(step=0, result=replace(blind.result, after=None))
    view = a_run(plan, begun(0, HOT), blind, begun(1, HOT), ended(1, broker=COOL))
    made = undo_plan(view, plan_context(moved[1]))
    assert [step.bundle for step in made.steps] == [hot[1]]
    assert "undo_moved_since" in codes(made)


def test_a_run_that_did_nothing_has_nothing_to_take_back(fleet, hot, moved) -> None:
    plan = replace(planned(fleet, hot[:1]), cluster="prod")
    with pytest.raises(PlanConflictError, match="It moved nothing"):
        undo_plan(a_run(plan, ended(0, **SKIPPED)), plan_context(moved[1]))


def test_a_run_that_has_not_ended_is_stopped_first(fleet, hot, moved) -> None:
    plan = replace(planned(fleet, hot[:1]), cluster="prod")
    view = a_run(plan, begun(0, HOT), end=None)
    with pytest.raises(PlanConflictError, match="before it ends") as caught:
        undo_plan(view, plan_context(moved[1]))
    assert "Stop it" in caught.value.hint


def test_a_run_is_undone_on_its_own_cluster(fleet, moved) -> None:
    with pytest.raises(PlanConflictError, match="was on prod"):
        undo_plan(moved[0], plan_context(fleet))


def test_undoing_an_undo_brings_it_forth_again(moved, hot, fleet) -> None:
    view, after = moved
    plan = undo_plan(view, plan_context(after))
    second = a_run(plan, begun(0, COOL), ended(0, broker=HOT), begun(1, IDLE), ended(1, broker=HOT))
    back = with_manifest(fleet, cluster="prod")
    again = undo_plan(second, plan_context(back))
    assert [(step.bundle, step.destination) for step in again.steps] == [
        (hot[0], IDLE),
        (hot[1], COOL),
    ]


def test_a_move_is_checked_as_the_plans_own_policies_will_have_left_the_cluster(fleet, hot) -> None:
    space, host = hot[0].rpartition("/")[0], HOT.partition(":")[0]
    body = {
        "namespaces": [space],
        "primary": [host.replace(".", "\\.")],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }
    text = msgspec.json.encode(body).decode()
    kept = set_policies(fleet, [SetPolicy(policy="isolation", name="kept", value=text)])
    away = SetPolicy(policy="isolation", name="kept", before=text, value=None)
    moves = planned(fleet, hot[:1], destinations={hot[0]: COOL})
    plan = replace(moves, steps=(away, *moves.steps))
    now = kept.manifest.taken_at + timedelta(seconds=30)
    assert recheck(kept, plan, (), now) == {}
    (refusal,) = recheck(kept, plan, (), now, steps=[1]).values()  # the policy stayed
    assert refusal.code == "destination_not_allowed"
    assert "'kept'" in refusal.sentence
