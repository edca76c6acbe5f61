"""Foreign moves, what came of a run, and the run that is only rehearsed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
import pyarrow.compute as pc
import pytest
from actions_world import (
    BASE,
    BROKERS,
    MOVABLE,
    OWNERS,
    SHEDDING,
    Faults,
    Worker,
    World,
    plan_of,
    snapshot_of,
)

from connectors.worker.worker import is_to_be_measured
from core.actions import dry_run as stage
from core.actions.dry_run import Rehearsal, rehearse
from core.actions.events import ExternalMove
from core.actions.external_changes import MAX_NAMED
from core.actions.model import RunOptions
from core.plan.model import BrokerExpectation, Expected, sealed
from core.pulsar.plan.external_changes import by_lost_broker, external_changes
from core.pulsar.system import measured
from core.snapshot import PulsarSnapshot
from core.units import pluralize

FIRST, SECOND, THIRD, FOURTH = MOVABLE[:4]
QUICK = RunOptions(pace_per_min=600, verify_within_s=5.0)


def _elsewhere(bundle: str) -> str:
    return next(broker for broker in BROKERS[:3] if broker != OWNERS[bundle])


def _moves(world: World) -> list[tuple[str, str | None, str | None]]:
    found = [e for e in world.events(ExternalMove) if isinstance(e, ExternalMove)]
    return [(e.subject, e.source, e.destination) for e in found]


def test_what_others_move_during_a_run_is_told_once() -> None:
    world = World()
    world.ask(bundles=[FIRST, SECOND], options=QUICK)
    world.at(0.5, lambda: world.move(FOURTH, _elsewhere(FOURTH)))
    world.work()
    assert _moves(world) == [(FOURTH, OWNERS[FOURTH], _elsewhere(FOURTH))]


def test_a_bundle_that_others_move_on_after_its_step_is_told_from_where_the_step_left_it() -> None:
    world = World()
    world.ask(bundles=[FIRST, SECOND], destination=BROKERS[3], options=QUICK)
    world.at(1.0, lambda: world.move(FIRST, BROKERS[2]))
    world.work()
    assert _moves(world) == [(FIRST, BROKERS[3], BROKERS[2])]


@pytest.mark.parametrize(
    ("faults", "owner", "told"),
    [
        (Faults(is_looked_up=False), BROKERS[2], False),  # its next owner is the run's doing
        (Faults("late", after_s=999.0), BROKERS[2], False),  # unknown: may be its doing
        (Faults("refused"), BROKERS[3], True),
    ],
)
def test_only_what_the_run_cannot_have_done_is_foreign(faults, owner, told) -> None:
    world = World(faults={FIRST: faults})
    world.ask(bundles=[FIRST], options=QUICK)
    before = snapshot_of(world)
    world.work()
    world.move(FIRST, owner)
    found = list(external_changes(world.view, before, snapshot_of(world)))
    assert [move.destination for move in found] == ([owner] if told else [])


def test_a_step_without_a_last_look_is_where_it_was() -> None:
    world = World(faults={FIRST: Faults("not_sent")})
    world.on_cross = lambda where: where == "before send" and setattr(world, "is_dark", True)
    world.ask(bundles=[FIRST], options=QUICK)
    before = snapshot_of(world)
    world.work()
    world.move(FIRST, BROKERS[3])
    found = list(external_changes(world.view, before, snapshot_of(world)))
    assert [(move.source, move.destination) for move in found] == [(OWNERS[FIRST], BROKERS[3])]


def test_losing_and_finding_an_owner_read_as_what_they_are() -> None:
    world = World()
    world.ask()
    before = snapshot_of(world)
    world.move(FOURTH, None)
    world.pass_time(1.0)
    lost = snapshot_of(world)
    world.move(FOURTH, BROKERS[0])
    world.pass_time(1.0)
    first = next(external_changes(world.view, before, lost))
    second = next(external_changes(world.view, lost, snapshot_of(world)))
    assert f"{FOURTH} lost its owner {OWNERS[FOURTH]} during the run" in first.sentence
    assert f"{FOURTH} was assigned to {BROKERS[0]} during the run" in second.sentence


def test_a_lost_broker_fills_no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.actions.external_changes.MAX_NAMED", 3)
    assert MAX_NAMED == 20
    world = World()
    world.ask(bundles=[FIRST], options=QUICK)
    world.at(0.5, lambda: [world.move(name, None) for name in MOVABLE[2:10]])
    world.work()
    told = [e for e in world.events(ExternalMove) if isinstance(e, ExternalMove)]
    assert len(told) == 4
    assert told[-1].sentence.endswith("Also changed: 4 further bundles.")


def test_a_broker_that_left_is_told_once_with_what_it_took_along() -> None:
    world = World()
    world.ask()
    before = snapshot_of(world)
    lost = OWNERS[FOURTH]
    taken = [name for name in MOVABLE[3:] if OWNERS[name] == lost]
    for name in taken:
        world.move(name, None)
    world.pass_time(1.0)
    later = snapshot_of(world)
    rest = later.brokers.filter(pc.not_equal(later.brokers["broker"], lost))
    later = PulsarSnapshot(later.manifest, {**later.tables, "brokers": rest})
    told = list(by_lost_broker(external_changes(world.view, before, later), later))
    words = f"{lost} left the cluster: {pluralize(len(taken), 'bundle')} lost their owner."
    assert [move.sentence for move in told] == [words]


def test_a_snapshot_from_a_clock_set_back_is_not_compared() -> None:
    world = World()
    world.ask(bundles=[FIRST], options=QUICK)
    world.at(0.5, lambda: world.move(FOURTH, BROKERS[0]))
    world.at(0.5, lambda: setattr(world, "is_clock_back", True))
    world.work()
    assert _moves(world) == []


def _dark_at_the_second(world: World, where: str) -> None:
    if where == "before send":
        world.is_dark = True


def test_a_run_is_measured_some_time_after_its_end() -> None:
    world = World()
    plan = plan_of(world, [FIRST, SECOND], BROKERS[3])
    expected = Expected(brokers=(BrokerExpectation(broker=BROKERS[2]),))
    world.ask(plan=sealed(replace(plan, expected=expected)), options=QUICK)
    world.faults[SECOND] = Faults("not_sent")
    world.on_cross = lambda where: len(world.sends) == 1 and _dark_at_the_second(world, where)
    assert not is_to_be_measured(world.view, world.moment)
    world.work()
    view = world.view
    assert not is_to_be_measured(view, world.moment + timedelta(seconds=19))
    assert is_to_be_measured(view, world.moment + timedelta(seconds=21))
    assert not is_to_be_measured(view, world.moment + timedelta(days=1))
    event = measured(view, BASE)
    brokers = [item.broker for item in event.brokers]
    assert brokers[0] == BROKERS[2]
    assert {OWNERS[FIRST], BROKERS[3], OWNERS[SECOND]} <= set(brokers)
    assert event.snapshot_id == BASE.snapshot_id
    assert event.usage_deviation is not None
    assert not is_to_be_measured(replace(view, measured=event), world.moment)


def test_a_run_that_never_began_a_step_is_not_measured() -> None:
    world = World(is_read_only=True)
    world.ask()
    world.work()
    assert not is_to_be_measured(world.view, world.moment + timedelta(seconds=30))
    assert [item.broker for item in measured(world.view, BASE).brokers] == []


def _rehearsed(world: World, *, count: int = 3, spent: int = 0, pause: bool = True) -> Rehearsal:
    ports = Worker(world, "dry").ports
    plan = plan_of(world, MOVABLE[:count], BROKERS[3])
    predicted = tuple(
        msgspec.structs.replace(step, predicted={BROKERS[3]: 0.9, "b": 0.1}) for step in plan.steps
    )
    return rehearse(
        sealed(replace(plan, steps=predicted)),
        RunOptions(pause_balancer=pause),
        cluster=ports.cluster,
        clock=ports.clock,
        moves_spent=spent,
    )


def test_a_rehearsal_sends_nothing_and_tells_what_would_be_sent() -> None:
    world = World()
    found = _rehearsed(world)
    assert not world.sends
    assert not world.entries
    assert world.settings == {}
    assert (found.state, found.requests, found.refusal) == ("DONE", 3, None)
    assert found.settings == ((SHEDDING, "false"), (SHEDDING, None))
    assert [round(step.after_s) for step in found.steps] == [0, 6, 12]
    assert found.steps[0].sentence == (
        f"{FIRST} would be unloaded from {OWNERS[FIRST]}, {BROKERS[3]} requested; predicted on "
        f"{BROKERS[3]} (90%), b (10%)."
    )
    assert world.now_s < 2.0  # waiting costs no time


def test_a_rehearsal_on_a_read_only_cluster_says_that_the_run_would_be_refused() -> None:
    found = _rehearsed(World(is_read_only=True))
    assert found.state == "REFUSED"
    assert found.refusal is not None
    assert found.refusal.code == "read_only"
    assert "trimtab.toml" in found.refusal.hint
    assert (found.requests, found.settings) == (0, ())
    assert {(step.would_send, step.code) for step in found.steps} == {(False, "read_only")}
    assert found.steps[0].sentence.startswith(f"Not sent. If sent: {FIRST} would be unloaded")


def test_a_rehearsal_says_what_would_be_skipped() -> None:
    world = World(exclusions=("acme/*",))
    found = _rehearsed(world)
    assert (found.state, found.requests) == ("FAILED", 0)
    assert {step.code for step in found.steps} == {"excluded"}


def test_a_rehearsal_counts_the_moves_of_the_day() -> None:
    world = World(moves_per_day=10)
    found = _rehearsed(world, spent=8)
    assert [step.code for step in found.steps] == ["would_send", "would_send", "moves_per_day"]


def test_a_refused_rehearsal_reaches_no_step() -> None:
    world = World()
    plan = replace(plan_of(world, [FIRST]), reason="edited")
    ports = Worker(world, "dry").ports
    found = rehearse(plan, QUICK, cluster=ports.cluster, clock=ports.clock)
    assert found.refusal is not None
    assert found.refusal.code == "plan_changed"
    assert [step.code for step in found.steps] == ["not_reached"]


def test_a_rehearsal_has_no_patience_with_a_dark_cluster() -> None:
    world = World(is_dark=True)
    found = _rehearsed(world)
    assert found.state == "FAILED"
    assert {step.code for step in found.steps} == {"cluster_unreadable"}
    assert world.crossings.count("snapshot") == 2
    assert world.now_s < 2.0


def test_a_rehearsal_of_a_long_run_takes_one_snapshot() -> None:
    world = World()
    assert _rehearsed(world, count=12).requests == 11  # one is not allowed there
    assert world.crossings.count("snapshot") == 1


def test_the_stage_has_the_whole_world_on_it() -> None:
    world = World()
    world.ask()
    journal, lease = stage._MemoryJournal(3), stage._OwnLease()
    journal.append(world.entries[0].record)
    assert journal.open_runs("fleet") == [world.view.run_id]
    assert journal.open_runs("other") == []
    assert journal.moves_since("fleet", world.moment) == 3
    assert lease.acquire()
    assert lease.holder() == "rehearsal"
    lease.release()
    clock = stage._AcceleratedClock(Worker(world, "dry").ports.clock)
    clock.hold(5.0)
    assert clock.monotonic() == 5.0
    assert world.now_s == 0.0
