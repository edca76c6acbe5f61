"""A run whose unloaded bundles no broker serves pauses, says so, and is never done."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from actions_world import BROKERS, MOVABLE, RUN, Faults, Worker, World, snapshot_of

from core.actions.apply import reconcile_run
from core.actions.describe import describe_event
from core.actions.events import RunPaused, RunResumed, StepEnded
from core.actions.model import RunOptions
from core.actions.views import RunView
from core.errors import IncompleteSnapshotError, PlanConflictError
from core.pulsar.plan.edit import PlanContext
from core.pulsar.plan.undo import undo_plan
from core.pulsar.system import PULSAR, measured
from core.snapshot import PulsarSnapshot

FAST = RunOptions(pace_per_min=600, verify_within_s=1.0)
GONE = Faults(is_looked_up=False, topics=3)
PACES = {
    "10 a minute": replace(FAST, pace_per_min=10),
    "unlimited": replace(FAST, pace_per_min=100_000),
    "gradual": replace(FAST, is_gradual=True),
    "canary": replace(FAST, canary_s=10.0),
    "paused balancer": replace(FAST, pause_balancer=True),
}


def _world(options: RunOptions = FAST, count: int = 4) -> World:
    world = World()
    world.ask(bundles=MOVABLE[:count], options=options)
    return world


def _codes(view: RunView) -> list[str]:
    return [step.result.code if step.result else step.state for step in view.steps]


def _stop_at(world: World, seconds: float) -> None:
    world.at(seconds, lambda: world.control("stop"))


@pytest.mark.parametrize("options", PACES.values(), ids=PACES)
def test_a_run_pauses_at_the_first_bundle_that_nobody_serves(options: RunOptions) -> None:
    world = _world(options)
    world.faults[MOVABLE[0]] = GONE
    _stop_at(world, 300.0)
    assert world.work() == "STOPPED"
    assert _codes(world.view) == ["unassigned", "stopped", "stopped", "stopped"]
    assert [name for _, _, name in world.sends] == [MOVABLE[0]]
    (pause,) = world.events(RunPaused)
    assert isinstance(pause, RunPaused)
    assert pause.sentence.startswith(f"Unassigned: 1 ({MOVABLE[0]}); the run pauses at 1.")
    assert f"Unassigned: 1 ({MOVABLE[0]})" in world.view.sentence
    assert not world.view.outstanding_settings


def test_the_number_at_which_it_pauses_is_an_option() -> None:
    world = _world(replace(FAST, max_unassigned=3))
    for name in MOVABLE[:4]:
        world.faults[name] = GONE
    _stop_at(world, 300.0)
    assert world.work() == "STOPPED"
    assert _codes(world.view) == ["unassigned"] * 3 + ["stopped"]
    assert "0 of 4 steps done" in world.view.sentence
    assert "Unassigned: 3 (" in world.view.sentence
    assert "unknown" not in world.view.sentence


def test_it_goes_on_by_itself_when_the_clients_come_back_late() -> None:
    world = _world()
    world.faults[MOVABLE[0]] = Faults(after_s=60.0, topics=3)
    assert world.work() == "DONE"
    assert _codes(world.view) == ["landed"] * 4
    assert world.view.steps[0].is_reconciled
    (resumed,) = world.events(RunResumed)
    assert isinstance(resumed, RunResumed)
    assert "is gone" in resumed.sentence
    begun = [step.begun_at for step in world.view.steps]
    assert begun[0] is not None
    assert begun[1] is not None
    assert (begun[1] - begun[0]).total_seconds() > 60


def test_a_person_may_resume_over_it_and_is_stopped_by_the_next_one_only() -> None:
    world = _world()
    world.faults[MOVABLE[0]] = world.faults[MOVABLE[2]] = GONE
    world.at(60.0, lambda: world.control("resume"))
    _stop_at(world, 300.0)
    assert world.work() == "STOPPED"
    assert _codes(world.view) == ["unassigned", "landed", "unassigned", "stopped"]
    assert len(world.events(RunPaused)) == 2


def test_a_resumed_run_ends_as_failed_with_what_is_left_unassigned() -> None:
    world = _world()
    world.faults[MOVABLE[0]] = GONE
    world.at(60.0, lambda: world.control("resume"))
    assert world.work() == "FAILED"
    assert _codes(world.view) == ["unassigned", "landed", "landed", "landed"]
    assert f"Unassigned: 1 ({MOVABLE[0]}). 3 of 4 steps done" in world.view.sentence


def test_the_last_step_is_waited_for_and_the_run_fails() -> None:
    world = _world(count=1)
    world.faults[MOVABLE[0]] = GONE
    assert world.work() == "FAILED"
    assert not world.events(RunPaused)  # nothing is left to begin
    assert world.now_s > 60


def test_a_stop_while_the_last_bundle_is_unassigned_is_a_stop() -> None:
    world = _world(count=1)
    world.faults[MOVABLE[0]] = GONE
    _stop_at(world, 30.0)
    assert world.work() == "STOPPED"
    assert f"Unassigned: 1 ({MOVABLE[0]})" in world.view.sentence
    assert world.view.sentence.endswith("bob stopped the run at 12:00:30 UTC.")
    assert world.now_s < 40


def test_idle_bundles_pause_nothing() -> None:
    world = _world()
    for name in MOVABLE[:4]:
        world.faults[name] = Faults(is_looked_up=False, topics=0)
    assert world.work() == "DONE"
    assert _codes(world.view) == ["idle"] * 4
    assert "unassigned" not in world.view.sentence


def test_a_worker_that_takes_a_paused_run_over_pauses_too_and_looks() -> None:
    world = _world()
    world.faults[MOVABLE[0]] = GONE
    world.at(40.0, lambda: world.shutting_down.add("w1"))
    assert world.work("w1") == "PAUSED"
    world.at(world.now_s + 30, lambda: world.move(MOVABLE[0], BROKERS[1]))
    assert world.work("w2") == "DONE"
    assert world.view.steps[0].is_reconciled
    assert world.view.takeovers == 1


def test_what_is_served_after_the_end_is_reconciled() -> None:
    world = _world(count=1)
    world.faults[MOVABLE[0]] = GONE
    world.work()
    world.holder = "w9"
    assert reconcile_run(RUN, Worker(world, "w9").ports).steps[0].state == "UNKNOWN"
    world.move(MOVABLE[0], BROKERS[1])
    assert reconcile_run(RUN, Worker(world, "w9").ports).steps[0].state == "DONE"


def test_an_unserved_bundle_is_not_looked_at_all_the_time() -> None:
    """Where brokers report owners, each look asks all of them."""
    world = _world(count=2)
    world.faults[MOVABLE[0]] = GONE
    _stop_at(world, 600.0)
    world.work()
    paused_s = 600.0 - 20.0
    looks = world.crossings.count("look")
    assert looks < 60 + paused_s / 5.0 * 1.2


def test_the_measured_result_names_what_is_unassigned() -> None:
    world = _world(replace(FAST, max_unassigned=4))
    world.faults[MOVABLE[0]] = world.faults[MOVABLE[1]] = GONE
    world.faults[MOVABLE[2]] = Faults(is_looked_up=False, topics=0)
    world.work()
    found = measured(world.view, snapshot_of(world))
    assert found.unassigned == tuple(sorted(MOVABLE[:2]))
    assert "Unassigned: 2 (" in describe_event(found).what
    world.move(MOVABLE[0], BROKERS[1])
    assert measured(world.view, snapshot_of(world)).unassigned == (MOVABLE[1],)


def test_undo_of_an_unassigned_bundle_says_why_not_and_works_once_it_is_served() -> None:
    world = _world(count=1)
    world.faults[MOVABLE[0]] = GONE
    origin = world.owners[MOVABLE[0]]
    world.work()
    context = PlanContext(snapshot=snapshot_of(world), now=datetime.now(UTC))
    with pytest.raises(PlanConflictError, match="is unassigned"):
        undo_plan(world.view, context)
    elsewhere = next(name for name in BROKERS if name != origin)
    world.move(MOVABLE[0], elsewhere)
    plan = undo_plan(world.view, replace(context, snapshot=snapshot_of(world)))
    back = {step.subject: step.destination for step in plan.steps}
    assert back[MOVABLE[0]] == origin


def test_steps_of_an_unassigned_run_are_written_once() -> None:
    world = _world()
    world.faults[MOVABLE[0]] = GONE
    _stop_at(world, 300.0)
    world.work()
    ends = [e for e in world.events(StepEnded) if isinstance(e, StepEnded) and e.step == 0]
    assert len(ends) == 1
    assert len(world.events(RunPaused)) == 1


def test_a_bundle_that_loses_its_broker_after_its_step_is_read_at_the_end() -> None:
    world = _world(replace(FAST, pace_per_min=10), count=2)
    for name in MOVABLE[:2]:
        world.faults[name] = Faults(topics=3)
    world.at(5.0, lambda: world.move(MOVABLE[0], None))
    assert world.work() == "FAILED"
    assert _codes(world.view) == ["landed", "landed"]
    assert world.view.purpose is not None
    assert world.view.purpose.holds is False
    assert f"Unassigned: 1 ({MOVABLE[0]})." in world.view.sentence


def test_a_bundle_in_transfer_at_the_end_fails_nothing() -> None:
    world = _world(replace(FAST, pace_per_min=10), count=2)
    for name in MOVABLE[:2]:
        world.faults[name] = Faults(topics=3)
    world.at(5.0, lambda: world.move(MOVABLE[0], None))
    world.at(10.0, lambda: world.move(MOVABLE[0], BROKERS[1]))
    assert world.work() == "DONE"
    assert world.view.purpose is not None
    assert world.view.purpose.holds


def test_owners_that_were_not_read_leave_the_purpose_unknown() -> None:
    world = _world(count=1)
    world.faults[MOVABLE[0]] = Faults(topics=3)
    assert world.work() == "DONE"
    table = snapshot_of(world).bundles
    nothing = pa.nulls(table.num_rows, pa.string())
    names = ("owner", "owner_source")
    for name in names:
        field = table.schema.field(name)
        at = table.schema.get_field_index(name)
        table = table.set_column(at, field, nothing.cast(field.type))
    unread = PulsarSnapshot(
        snapshot_of(world).manifest, {**snapshot_of(world).tables, "bundles": table}
    )
    assert measured(world.view, unread).unassigned is None
    with pytest.raises(IncompleteSnapshotError):
        PULSAR.lacking(world.view, unread)


def test_a_run_that_was_stopped_before_it_did_anything_does_not_hold_its_purpose() -> None:
    world = _world(count=2)
    world.exclusions = ("acme/*", "globex/*")
    assert world.work() == "FAILED"
    assert world.view.purpose is not None
    assert world.view.purpose.holds is False
    assert "No step was done. 0 of 2 steps done" in world.view.sentence
