"""Splits and settings through the executor: sent once, proven, taken back where that can be."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from actions_world import BASE, BROKERS, MOVABLE, RUN, SHEDDING, Faults, Worker, World, plan_of

from core.actions.apply import execute_run
from core.actions.describe import describe_event
from core.actions.dry_run import rehearse
from core.actions.events import ExternalMove
from core.actions.model import RunId, RunOptions
from core.actions.preconditions import is_begun
from core.actions.request import RunLimits, check_request
from core.actions.views import RunView
from core.errors import AlreadyAppliedError, PlanConflictError
from core.ids import parse_range
from core.plan.model import Plan, Step, sealed
from core.pulsar.plan.edit import PlanContext
from core.pulsar.plan.external_changes import external_changes
from core.pulsar.plan.undo import undo_plan
from core.pulsar.steps.policy import SetPolicy
from core.pulsar.steps.setting import SetDynamicSetting
from core.pulsar.steps.split import SplitBundle
from core.pulsar.steps.unload import UnloadBundle
from core.pulsar.system import measured

THRESHOLD = "loadBalancerBrokerThresholdShedderPercentage"
PATIENT = RunOptions(pace_per_min=600.0, max_failures=5)

LIMITS = RunLimits(pace_per_min=600.0, max_failures=1, max_steps=200, is_read_only=False)


def split_of(bundle: str = MOVABLE[0], *, is_unloaded: bool = False) -> SplitBundle:
    lower, upper = parse_range(bundle.rpartition("/")[2])
    middle = lower + (upper - lower) // 2
    return SplitBundle(
        bundle=bundle,
        owner=str(World().owners[bundle]),
        algorithm="range_equally_divide",
        boundaries=(middle,),
        is_unloaded=is_unloaded,
    )


def setting_of(value: str | None = "17", before: str | None = None) -> SetDynamicSetting:
    return SetDynamicSetting(key=THRESHOLD, before=before, value=value)


def plan_with(world: World, *steps: Step) -> Plan:
    return sealed(replace(plan_of(world, ()), steps=steps))


def carried(world: World, *steps: Step) -> RunView:
    world.ask(plan=plan_with(world, *steps), options=PATIENT)
    return world.outlive()


def plan_context(world: World) -> PlanContext:
    """The world a while later; its snapshot tells of the settings, too."""
    rows = [
        {"broker": None, "name": key, "value": value, "origin": "dynamic"}
        for key, value in world.settings.items()
    ]
    fleet = world.snapshot()
    table = type(fleet.settings).from_pylist(rows, schema=fleet.settings.schema)
    manifest = fleet.manifest
    entry = replace(manifest.tables["settings"], rows=len(rows))
    manifest = replace(manifest, tables={**manifest.tables, "settings": entry})
    return PlanContext(
        snapshot=type(fleet)(manifest, {**fleet.tables, "settings": table}), now=world.moment
    )


@pytest.mark.parametrize("is_unloaded", [False, True])
def test_a_split_is_done_once_its_parts_are_owned(is_unloaded) -> None:
    world = World()
    view = carried(world, split_of(is_unloaded=is_unloaded))
    (step,) = view.steps
    assert view.state == "DONE"
    assert step.result is not None
    assert step.result.code == "split"
    holder = BROKERS[0] if is_unloaded else step.step.owner
    assert step.result.sentence.count(f"at {holder}") == 2
    assert len(world.sends) == 1


def test_a_setting_is_done_once_every_broker_runs_it() -> None:
    world = World()
    view = carried(world, setting_of())
    assert view.state == "DONE"
    assert world.settings == {THRESHOLD: "17"}
    assert view.steps[0].result is not None
    assert "4 of 4 brokers use it" in view.steps[0].result.sentence


@pytest.mark.parametrize(
    ("step", "answer", "state", "code"),
    [
        (split_of(), "refused", "FAILED", "refused"),
        (split_of(), "lost", "DONE", "split"),
        (split_of(), "swallowed", "FAILED", "not_done"),
        (setting_of(), "refused", "FAILED", "refused"),
        (setting_of(), "lost", "DONE", "set"),
        (setting_of(), "swallowed", "FAILED", "not_done"),
    ],
)
def test_whatever_is_answered_the_cluster_tells_what_came_of_it(step, answer, state, code) -> None:
    world = World(faults={step.subject: Faults(answer=answer)})
    view = carried(world, step)
    assert view.steps[0].state == state
    assert view.steps[0].result is not None
    assert view.steps[0].result.code == code
    assert len(world.sends) == 1
    if code == "refused":
        assert view.steps[0].result.sentence.startswith(("Splitting acme/", "Setting loadB"))


@pytest.mark.parametrize("step", [split_of(), split_of(is_unloaded=True), setting_of()])
@pytest.mark.parametrize("answer", ["ok", "lost"])
def test_a_worker_may_die_anywhere_and_nothing_is_sent_twice(step, answer) -> None:
    for crossing in range(1, 36, 2):
        world = World(faults={step.subject: Faults(answer=answer)})
        world.ask(plan=plan_with(world, step), options=PATIENT)
        view = world.outlive(deaths=(crossing,))
        assert view.is_ended
        assert len(world.sends) <= 1
        is_there = step.subject in world.gone or world.settings.get(THRESHOLD) == "17"
        assert (view.steps[0].state == "DONE") == is_there, crossing


def test_a_setting_that_is_not_followed_has_failed_and_can_be_taken_back() -> None:
    world = World(stubborn={BROKERS[1]: "10"})
    view = carried(world, setting_of())
    result = view.steps[0].result
    assert result is not None
    assert (result.state, result.code) == ("FAILED", "not_followed")
    assert f"{BROKERS[1]} uses 10" in result.sentence
    plan = undo_plan(view, plan_context(world))
    assert [(step.before, step.value) for step in plan.steps] == [("17", None)]


def test_a_broker_that_does_not_answer_is_named() -> None:
    world = World(stubborn={BROKERS[1]: None})
    view = carried(world, setting_of())
    result = view.steps[0].result
    assert result is not None
    assert result.code == "set"
    assert "3 of 4 brokers use it" in result.sentence
    assert f"{BROKERS[1]} does not respond" in result.sentence


@pytest.mark.parametrize(
    ("stored", "code"), [("23", "changed_meanwhile"), ("17", "already_set"), ("17 ", "already_set")]
)
def test_a_setting_is_left_alone_when_it_is_not_what_the_plan_found(stored, code) -> None:
    world = World(settings={THRESHOLD: stored})
    view = carried(world, setting_of())
    assert view.steps[0].state == "SKIPPED"
    assert view.steps[0].result is not None
    assert view.steps[0].result.code == code
    assert world.settings == {THRESHOLD: stored}
    assert not world.sends


def test_a_bundle_that_moved_is_not_split() -> None:
    world = World()
    world.ask(plan=plan_with(world, split_of()), options=PATIENT)
    world.move_by_others(MOVABLE[0], next(b for b in BROKERS if b != world.owners[MOVABLE[0]]))
    view = world.outlive()
    assert view.steps[0].result is not None
    assert view.steps[0].result.code == "moved_meanwhile"
    assert not world.sends


def test_taking_back_restores_settings_and_says_that_splits_stay() -> None:
    world = World(settings={THRESHOLD: "12"})
    view = carried(world, setting_of("17", "12"), split_of())
    assert view.state == "DONE"
    plan = undo_plan(view, plan_context(world))
    assert [(step.key, step.before, step.value) for step in plan.steps] == [(THRESHOLD, "17", "12")]
    assert [item.code for item in plan.by_severity("warning")] == ["undo_split"]
    assert plan.complete is False
    world.settings[THRESHOLD] = "30"
    with pytest.raises(PlanConflictError, match="cannot be undone"):
        undo_plan(view, plan_context(world))
    world.settings[THRESHOLD] = "12"
    with pytest.raises(PlanConflictError, match="never merged again"):
        undo_plan(view, plan_context(world))


def test_bundles_and_settings_go_back_in_one_plan() -> None:
    world = World()
    bundle = next(name for name in MOVABLE if name.startswith("acme/orders/"))
    world.move(bundle, BROKERS[1])
    unload = plan_of(world, [bundle], BROKERS[2]).steps[0]
    view = carried(world, unload, setting_of())
    assert view.state == "DONE"
    plan = undo_plan(view, plan_context(world))
    assert [step.kind for step in plan.steps] == ["unload_bundle", "set_dynamic_setting"]
    assert plan.steps[1].value is None


def test_parts_that_were_unloaded_are_nobody_elses_moves() -> None:
    world = World()
    before = world.snapshot()
    view = carried(world, split_of(is_unloaded=True))
    assert not list(external_changes(view, before, world.snapshot()))
    assert world.events(ExternalMove) == []


def test_a_rehearsal_says_what_would_be_sent_and_sends_nothing() -> None:
    world = World(holder="dry")
    ports = Worker(world, "dry").ports
    plan = plan_with(world, split_of(is_unloaded=True), setting_of())
    found = rehearse(plan, PATIENT, cluster=ports.cluster, clock=ports.clock)
    assert [step.code for step in found.steps] == ["would_send", "would_send"]
    assert "parts unloaded" in found.steps[0].sentence
    assert "set to 17" in found.steps[1].sentence
    assert not world.sends


def test_the_request_names_each_kind() -> None:
    world = World()
    plan = plan_with(world, split_of(), setting_of())
    world.ask(plan=plan)
    words = describe_event(world.entries[0].record.event)
    assert words.what.startswith("Requested to split 1 bundle, change 1 setting: acme/")


def test_a_plan_that_changes_what_a_pause_puts_back_is_refused() -> None:
    world = World()
    step = SetDynamicSetting(key=SHEDDING, value="false")
    options = RunOptions(pace_per_min=600.0, pause_balancer=True)
    world.ask(plan=plan_with(world, step), options=options)
    assert world.work() == "REFUSED"
    assert "--pause-balancer" in world.view.sentence


def test_one_plan_is_one_run() -> None:
    world = World()
    plan = world.ask(plan=plan_with(world, setting_of()), options=PATIENT)
    with pytest.raises(AlreadyAppliedError, match=r"was already applied as run .* \(QUEUED\)"):
        check_request(plan, plan.cluster, LIMITS, plan.created_at, [world.view])
    done = world.outlive()
    assert is_begun(done)
    request = world.entries[0].record
    later = msgspec.structs.replace(request, run_id=RunId(f"{RUN[:-1]}2"))
    world.put(later)
    again = Worker(world, "w9")
    world.holder = "w9"

    assert execute_run(later.run_id, again.ports) == "REFUSED"
    refusal = world.entries[-1].record.event
    assert refusal.code == "already_applied"
    assert RUN in refusal.sentence


def test_a_run_that_was_stopped_before_it_began_leaves_its_plan_to_another() -> None:
    world = World()
    plan = world.ask(plan=plan_with(world, setting_of()), options=PATIENT)
    world.control("stop")
    view = world.outlive()
    assert view.state == "STOPPED"
    check_request(plan, plan.cluster, LIMITS, plan.created_at, [view])


def test_what_another_run_did_in_between_is_told_with_the_measurement() -> None:
    world = World()
    view = carried(world, setting_of())
    event = measured(view, BASE, RunId("another"))
    assert event.disturbed_by == "another"
    assert "Run another changed the cluster" in describe_event(event).what
    assert measured(view, BASE).disturbed_by is None
    assert view.ended_at is not None
    assert view.ended_at - world.moment < timedelta(seconds=1)


@pytest.mark.parametrize("answer", ["ok", "refused"])
def test_moves_are_checked_anew_when_a_policy_before_them_did_not_come(answer) -> None:
    world, name = World(), MOVABLE[0]
    limit = SetPolicy(
        policy="publish_rate",
        name=name.rpartition("/")[0],
        value='{"publishThrottlingRateInMsg":5,"publishThrottlingRateInByte":-1}',
    )
    world.faults[limit.subject] = Faults(answer=answer)
    view = carried(world, limit, UnloadBundle(bundle=name, owner=str(world.owners[name])))
    assert [step.state for step in view.steps] == ["DONE" if answer == "ok" else "FAILED", "DONE"]
    seen = [where for where in world.crossings if where in ("snapshot", "before send")]
    first, second = (at for at, where in enumerate(seen) if where == "before send")
    assert ("snapshot" in seen[first:second]) == (answer == "refused")
