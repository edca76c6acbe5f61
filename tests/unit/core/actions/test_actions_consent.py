"""The executor where people must agree, where times are closed, and where requests are forged."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from actions_world import MOVABLE, NO_OPTIONS, RUN, Worker, World, plan_of

from core.access import Access, Identity
from core.actions.approval import ApprovalRules, describe_approval
from core.actions.authority import Request, refusal_of, signed
from core.actions.events import (
    ControlRequested,
    Event,
    Record,
    RunClaimed,
    RunDecided,
    RunEnded,
    RunPaused,
    RunRefused,
    RunRequested,
    RunResumed,
    SettingRestored,
    SettingSaved,
    StepEnded,
    StepReopened,
    StepStarted,
    StepWaiting,
)
from core.actions.model import Observation, Refusal, StepResult
from core.actions.session import Session
from core.actions.windows import Window

ALWAYS = ApprovalRules(needed="always", within_min=30.0)


def asked(**world: object) -> World:
    found = World(**world)  # type: ignore[arg-type]  # fields of a world
    found.ask()
    return found


def test_a_run_waits_and_sends_nothing_until_another_person_approves() -> None:
    world = asked(approval=ALWAYS)
    assert world.work() == "QUEUED"
    assert world.sends == []
    assert world.holder is None
    world.decide(is_approved=True)
    assert world.outlive().state == "DONE"


def test_the_own_approval_of_who_requested_it_counts_for_nothing() -> None:
    world = asked(approval=ALWAYS)
    world.decide(is_approved=True, actor="alice")
    assert world.work() == "QUEUED"
    world.decide(is_approved=True)
    assert world.outlive().state == "DONE"


def test_a_rejected_run_is_refused_with_the_comment() -> None:
    world = asked(approval=ALWAYS)
    world.decide(is_approved=False, comment="after the release")
    assert world.work() == "REFUSED"
    assert world.view.refusal is not None
    assert world.view.refusal.code == "rejected"
    assert "after the release" in world.view.refusal.sentence
    world.decide(is_approved=True)
    assert world.work() == "REFUSED"


def test_a_run_that_nobody_approves_in_time_is_refused() -> None:
    world = asked(approval=ALWAYS)
    world.pass_time(30 * 60.0 + 1)
    assert world.work() == "REFUSED"
    assert world.view.refusal is not None
    assert world.view.refusal.code == "not_approved"


def test_an_approval_that_no_worker_uses_in_time_is_void() -> None:
    world = asked(approval=ALWAYS)
    assert describe_approval(world.view, ALWAYS) == ""
    world.decide(is_approved=True)
    by = world.moment + timedelta(minutes=30)
    assert f"{by:%H:%M} UTC" in describe_approval(world.view, ALWAYS)
    world.pass_time(30 * 60.0 + 1)
    assert world.work() == "REFUSED"
    assert describe_approval(world.view, ALWAYS) == ""
    assert world.view.refusal is not None
    assert world.view.refusal.code == "approval_expired"
    assert "30 minutes" in world.view.refusal.sentence
    assert world.sends == []


def test_a_run_that_waits_can_be_stopped() -> None:
    world = asked(approval=ALWAYS)
    world.control("stop")
    assert world.work() == "REFUSED"
    assert world.sends == []


def test_an_approved_plan_may_be_older_than_its_expiry_and_is_checked_again() -> None:
    world = asked(approval=ALWAYS)
    world.pass_time(20 * 60.0)  # its plan was good for ten minutes
    world.move_by_others(MOVABLE[0], None)
    world.decide(is_approved=True)
    view = world.outlive()
    assert view.is_ended
    assert [step.state for step in view.steps] == ["SKIPPED", "DONE", "DONE"]


def test_a_freeze_refuses_a_run_and_ends_one_before_its_next_step() -> None:
    world = asked()
    world.windows = (Window(kind="freeze", reason="quarter end"),)
    assert world.work() == "REFUSED"
    assert world.view.refusal is not None
    assert world.view.refusal.code == "frozen"
    world = asked()
    starts = world.moment + timedelta(seconds=8)
    world.windows = (Window(kind="freeze", starts=starts),)
    view = world.outlive()
    assert view.state == "FAILED"
    codes = [step.result.code for step in view.steps if step.state == "SKIPPED" and step.result]
    assert set(codes) == {"frozen"}
    assert codes


# -- requests that are not obeyed ------------------------------------------------------------------


def forged(kind: type) -> object:
    """Refuse every request of a kind."""

    def refusal_of(record: Record) -> Refusal | None:
        is_forged = isinstance(record.event, kind)
        return Refusal(code="not_signed", sentence="It is not signed.") if is_forged else None

    return refusal_of


def test_a_forged_run_is_refused_before_anything_is_sent() -> None:
    world = asked(refusal_of=forged(RunRequested))
    assert world.work() == "REFUSED"
    assert world.sends == []
    assert world.view.refusal is not None
    assert world.view.refusal.code == "not_signed"


@pytest.mark.parametrize("control", ["stop", "pause"])
def test_a_forged_control_changes_nothing(control) -> None:
    world = asked(refusal_of=forged(ControlRequested))
    world.control(control)
    world.work()
    assert len(world.sends) == 3
    assert world.events(ControlRequested)


def test_a_forged_approval_is_none() -> None:
    world = asked(
        approval=ALWAYS,
        refusal_of=lambda record: (
            Refusal(code="not_signed", sentence="It is not signed.")
            if record.actor == "mallory"
            else None
        ),
    )
    world.decide(is_approved=True, actor="mallory")
    assert world.work() == "QUEUED"
    assert world.sends == []


# -- entries of a writer of the database without the key ----------------------------

KEY = b"k" * 32


def sign(record: Record) -> Record:
    event = record.event
    if isinstance(event, Request):
        event = msgspec.structs.replace(event, identity=Identity(name=record.actor))
    return signed(msgspec.structs.replace(record, event=event), KEY)


def sealed(**world: object) -> World:
    return World(
        sign=sign,
        refusal_of=lambda record: refusal_of(record, KEY, Access()),
        **world,  # type: ignore[arg-type]  # fields of a world
    )


def forge(world: World, event: Event, actor: str = "mallory") -> None:
    world.put(Record(run_id=RUN, cluster="fleet", at=world.moment, actor=actor, event=event))


def codes_of(world: World) -> set[str]:
    return {step.result.code for step in world.view.steps if step.result}


def test_what_workers_write_is_taken_up_by_the_next_one() -> None:
    world = sealed()
    world.ask()
    assert world.outlive(deaths=(20, 40)).state == "DONE"


def test_a_forged_claim_is_no_approval() -> None:
    world = sealed(approval=ALWAYS)
    world.ask()
    forge(world, RunClaimed(worker="mallory", lease="none"))
    assert world.work() == "QUEUED"
    assert world.sends == []
    assert world.view.state == "QUEUED"
    assert world.view.forged == (2,)


def test_a_forged_claim_is_no_signature_of_the_request() -> None:
    world = sealed()
    plan = plan_of(world, MOVABLE[:3], None, 600.0)
    forge(world, RunRequested(plan=plan, options=NO_OPTIONS, reason="mine"))
    forge(world, RunClaimed(worker="mallory", lease="none"))
    assert world.outlive().state == "REFUSED"
    assert world.sends == []
    assert world.view.refusal is not None
    assert world.view.refusal.code == "not_signed"


def test_a_forged_value_from_before_the_run_is_not_restored() -> None:
    world = sealed(settings={"loadBalancerSheddingEnabled": "true"})
    world.ask()
    saved = SettingSaved(key="loadBalancerSheddingEnabled", before="evil", during="true")
    world.at(2.0, lambda: forge(world, saved, actor=world.view.worker))
    view = world.outlive()
    assert view.state == "DONE"
    assert len(view.forged) == 1
    assert world.settings == {"loadBalancerSheddingEnabled": "true"}
    assert view.settings == ()


FORGERIES = {
    "claim": RunClaimed(worker="mallory", lease="none"),
    "takeover": RunClaimed(worker="mallory", lease="none", is_takeover=True),
    "refusal": RunRefused(code="plan_expired", sentence="Too late."),
    "end": RunEnded(state="DONE", sentence="All done."),
    "pause": RunPaused(sentence="Paused."),
    "resume": RunResumed(sentence="Resumed."),
    "start": StepStarted(step=0, observed=Observation(exists=True)),
    "result": StepEnded(
        step=0, result=StepResult(state="DONE", code="landed", sentence="It landed.")
    ),
    "unknown result": StepEnded(
        step=9, result=StepResult(state="UNKNOWN", code="timed_out", sentence="Unknown.")
    ),
    "reopened step": StepReopened(step=0, sentence="Again."),
    "waiting step": StepWaiting(step=0, sentence="Waiting."),
    "saved setting": SettingSaved(key="k", before="evil", during="true"),
    "restored setting": SettingRestored(key="k", result="failed", sentence="Not yet."),
    "approval": RunDecided(is_approved=True),
    "rejection": RunDecided(is_approved=False),
    "stop": ControlRequested(control="stop"),
    "second request": None,
}


@pytest.mark.parametrize("at_s", [0.0, 2.0])
@pytest.mark.parametrize("name", FORGERIES)
def test_what_is_forged_neither_begins_nor_ends_a_run(name: str, at_s: float) -> None:
    """Whoever writes the database without the key changes nothing; the view names the entry."""
    world = sealed(approval=ALWAYS if at_s == 0.0 else ApprovalRules())
    world.ask()
    request = world.entries[0].record.event
    event = FORGERIES[name] or msgspec.structs.replace(request, reason="mine")
    if at_s:
        world.at(at_s, lambda: forge(world, event, actor=world.view.worker or "mallory"))
    else:
        forge(world, event)
        assert world.work() == "QUEUED"
        assert world.sends == []
        world.decide(is_approved=True)
    view = world.outlive()
    assert view.state == "DONE"
    assert len(world.sends) == 3
    assert len(view.forged) == 1


@pytest.mark.parametrize("copied", [RunRequested, RunClaimed, StepStarted, StepEnded])
def test_copies_of_genuine_entries_change_nothing(copied: type) -> None:
    """A signature holds once: who has no key can repeat what was signed, and nothing more."""
    world = sealed()
    world.ask()

    def repeat() -> None:
        entry = next(one for one in world.entries if isinstance(one.record.event, copied))
        world.put(entry.record)

    world.at(9.0, repeat)
    view = world.outlive()
    assert view.state == "DONE"
    assert len(world.sends) == 3
    assert len(view.forged) == 1


def test_a_copy_of_an_earlier_resume_does_not_resume() -> None:
    world = sealed()
    world.ask()
    world.control("resume")
    resume = world.entries[-1].record
    world.pass_time(1.0)
    world.control("pause")
    world.put(resume)
    session = Session(RUN, Worker(world, "w1").ports)
    assert session.view.control is not None
    assert session.view.control.control == "pause"


def test_a_signature_that_is_not_ascii_is_none() -> None:
    world = sealed()
    world.ask()
    record = world.entries[0].record
    event = msgspec.structs.replace(record.event, signature="\u00e9")
    found = refusal_of(msgspec.structs.replace(record, event=event), KEY, Access())
    assert found is not None
    assert found.code == "not_signed"
