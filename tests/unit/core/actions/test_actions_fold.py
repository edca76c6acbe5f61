"""A run is what its entries fold into; what cannot happen is refused with the entry's name."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from journal_entries import (
    NOON,
    ONE_OF_EACH,
    RUN,
    SHEDDING,
    begun,
    chain_of,
    claimed,
    ended,
    record_of,
    requested,
)

from core.actions.describe import KINDS, describe_event
from core.actions.events import (
    ControlRequested,
    Event,
    ExternalMove,
    RunEnded,
    RunMeasured,
    RunPaused,
    RunRefused,
    RunRequested,
    RunResumed,
    SettingChanged,
    SettingRestored,
    SettingSaved,
    StepEnded,
    StepStarted,
    StepWaiting,
)
from core.actions.model import Observation, RunId, StepResult
from core.actions.runs import RunView, fold, run_id_at
from core.errors import InvariantError

PAUSE, RESUME, STOP = (ControlRequested(control=word) for word in ("pause", "resume", "stop"))
PAUSED, RESUMED = RunPaused(sentence="Paused."), RunResumed(sentence="Going on.")
SAVED = SettingSaved(key=SHEDDING, before="true", during="false")
WAITING = StepWaiting(step=0, sentence="3 of 7 are left.")
CHANGED = SettingChanged(key=SHEDDING)
DONE = RunEnded(state="DONE", sentence="All done.")
MEASURED = ONE_OF_EACH[-1]


def restored(result: str) -> SettingRestored:
    return SettingRestored(key=SHEDDING, result=result, sentence=f"It is {result}.")  # type: ignore[arg-type]  # a word


def view_of(*events: Event) -> RunView:
    return fold(chain_of(events))


def test_a_requested_run_waits_with_every_step_pending() -> None:
    view = view_of(requested(3))
    assert view.state == "QUEUED"
    assert view.requested_by == "ann"
    assert view.counts == {"PENDING": 3}
    assert view.started_at is None
    assert not view.is_ended


def test_a_whole_run_is_told_step_by_step() -> None:
    view = view_of(requested(), claimed(), begun(0), ended(0), begun(1), ended(1), DONE, MEASURED)
    assert view.state == "DONE"
    assert view.sentence == "All done."
    assert view.counts == {"DONE": 2}
    assert view.steps[0].before is not None
    assert view.steps[0].before.holder == "b1:8080"
    assert view.steps[0].result is not None
    assert view.steps[0].result.after is not None
    assert view.steps[0].took_ms == 812.5
    assert view.steps[0].begun_at is not None
    assert view.ended_at is not None
    assert view.measured == MEASURED
    assert view.last_seq == 8


def test_folding_bit_by_bit_gives_the_same() -> None:
    entries = chain_of([requested(), claimed(), begun(0), PAUSE, ended(0), PAUSED, RESUME, RESUMED])
    view = None
    for entry in entries:
        view = fold([entry], onto=view)
    assert view == fold(entries)
    assert fold([], onto=view) == view


@pytest.mark.parametrize(
    ("events", "is_pending"),
    [
        ([requested(), PAUSE], True),
        ([requested(), claimed(), PAUSE], True),
        ([requested(), claimed(), PAUSE, PAUSED], False),
        ([requested(), claimed(), PAUSE, PAUSED, RESUME], True),
        ([requested(), claimed(), PAUSE, RESUME], False),
        ([requested(), claimed(), PAUSE, PAUSED, RESUME, RESUMED], False),
        ([requested(), claimed(), STOP], True),
        ([requested(0), claimed(), STOP, RunEnded(state="STOPPED", sentence="x")], False),
    ],
)
def test_a_wish_is_pending_until_it_is_followed(events, is_pending) -> None:
    assert view_of(*events).is_control_pending is is_pending


def test_a_setting_that_is_saved_twice_keeps_its_first_value() -> None:
    again = SettingSaved(key=SHEDDING, before="false", during="maybe")
    view = view_of(requested(), claimed(), SAVED, CHANGED, again)
    (setting,) = view.outstanding_settings
    assert (setting.before, setting.during) == ("true", "maybe")
    assert [setting.is_ours(value) for value in ("false", "maybe", "true", None)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_step_waits_until_it_is_begun() -> None:
    later = StepWaiting(step=0, sentence="1 of 7 is left.")
    view = view_of(requested(), claimed(), WAITING, later)
    assert view.steps[0].state == "PENDING"
    assert view.steps[0].waiting == "1 of 7 is left."
    assert view.steps[0].waiting_since == record_of(WAITING, second=3).at
    view = view_of(requested(), claimed(), WAITING, later, begun(0), ended(0))
    assert view.steps[0].waiting == ""
    assert view.steps[0].waiting_since is not None


def test_a_wish_that_comes_after_the_end_changes_nothing() -> None:
    view = view_of(requested(0), claimed(), DONE, STOP)
    assert view.control is None
    assert view.state == "DONE"


def test_a_refused_run_says_why() -> None:
    refusal = RunRefused(code="plan_expired", sentence="Too late.", hint="Again.")
    view = view_of(requested(), claimed(), refusal)
    assert view.state == "REFUSED"
    assert view.refusal is not None
    assert view.refusal.code == "plan_expired"
    assert view.is_ended


@pytest.mark.parametrize(
    ("events", "outstanding"),
    [
        ([SAVED], 1),
        ([SAVED, CHANGED], 1),
        ([SAVED, CHANGED, restored("failed")], 1),
        ([SAVED, CHANGED, restored("failed"), restored("restored")], 0),
        ([SAVED, CHANGED, restored("changed_by_others")], 0),
        ([SAVED, restored("restored"), SAVED], 1),
    ],
)
def test_a_setting_is_outstanding_until_it_is_put_back(events, outstanding) -> None:
    view = view_of(requested(), claimed(), *events)
    assert len(view.outstanding_settings) == outstanding
    assert [setting.key for setting in view.settings] == [SHEDDING]


def test_a_setting_can_be_put_back_after_the_end() -> None:
    view = view_of(requested(0), claimed(), SAVED, restored("failed"), DONE, restored("restored"))
    assert not view.outstanding_settings


def test_an_unknown_step_can_be_reconciled_after_the_end() -> None:
    events = (requested(1), claimed(), begun(0), ended(0, "UNKNOWN", "timed_out", None))
    failed = RunEnded(state="FAILED", sentence="Unknown.")
    view = view_of(*events, failed)
    assert [step.index for step in view.unresolved] == [0]
    later = view_of(*events, failed, ended(0, "DONE", is_reconciled=True))
    assert later.steps[0].is_reconciled
    assert not later.unresolved
    with pytest.raises(InvariantError, match="steps can only be reconciled"):
        view_of(*events, failed, ended(0, "DONE"))


def test_a_bundle_that_landed_elsewhere_offers_the_next_move() -> None:
    view = view_of(
        requested(2), claimed(), begun(0), ended(0, "DONE", "landed_elsewhere", "b9:8080")
    )
    (move,) = view.next_moves
    assert (move.owner, move.destination) == ("b9:8080", "b2:8080")
    assert move.bundle == view.steps[0].step.bundle


def test_a_bundle_that_came_back_offers_the_same_move_again() -> None:
    back = ended(0, "DONE", "returned", "b1:8080")
    (move,) = view_of(requested(2), claimed(), begun(0), back).next_moves
    assert (move.owner, move.destination) == ("b1:8080", "b2:8080")


def test_without_a_wanted_destination_there_is_no_next_move() -> None:
    event = requested(1)
    step = msgspec.structs.replace(event.plan.steps[0], destination=None)
    open_end = requested(plan=replace(event.plan, steps=(step,)))
    view = view_of(open_end, claimed(), begun(0), ended(0, "DONE", "landed_elsewhere", "b9:8080"))
    assert view.next_moves == ()


def test_a_takeover_counts_and_keeps_the_beginning() -> None:
    view = view_of(requested(), claimed(), claimed("host/2/2", is_takeover=True))
    assert view.takeovers == 1
    assert view.worker == "host/2/2"
    assert view.started_at == view_of(requested(), claimed()).started_at


def test_what_a_lost_worker_still_writes_does_not_count() -> None:
    entries = chain_of(
        [
            requested(1),
            claimed("old"),
            record_of(begun(0), actor="old", second=3),
            claimed("new", is_takeover=True),
            record_of(ended(0, "FAILED", "not_done", "b1:8080"), actor="new", second=5),
            record_of(ended(0, "DONE"), actor="old", second=6),
        ]
    )
    view = fold(entries)
    assert view.steps[0].state == "FAILED"
    assert view.disregarded == (6,)
    assert view.last_seq == 6


def test_a_claim_that_comes_after_the_end_changes_nothing() -> None:
    refusal = RunRefused(code="x", sentence="x")
    view = view_of(requested(), refusal, claimed("late"))
    assert view.state == "REFUSED"
    assert view.worker == ""


def test_external_changes_stay_in_order() -> None:
    moves = [
        ExternalMove(subject=name, source="b1", destination="b2", sentence=name) for name in "ab"
    ]
    assert view_of(requested(), claimed(), *moves).external_changes == tuple(moves)


CLAIMED_ONE = (requested(1), claimed())


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([], "without journal entries"),
        ([claimed()], "must begin with its request"),
        ([requested(), requested()], "requested only once"),
        ([requested(), begun(0)], "in state QUEUED cannot start a step"),
        ([requested(), ended(0, "SKIPPED")], "no worker has claimed"),
        ([*CLAIMED_ONE, ended(0, "DONE")], "cannot change from PENDING to DONE"),
        ([*CLAIMED_ONE, begun(0), begun(0)], "cannot change from RUNNING to RUNNING"),
        ([*CLAIMED_ONE, begun(0), ended(0), begun(0)], "cannot change from DONE to RUNNING"),
        ([*CLAIMED_ONE, begun(0), ended(0), ended(0, "FAILED")], "cannot change from DONE"),
        ([*CLAIMED_ONE, begun(7)], "no step 7"),
        ([*CLAIMED_ONE, begun(-1)], "no step -1"),
        ([*CLAIMED_ONE, PAUSED, begun(0)], "in state PAUSED cannot start a step"),
        ([requested(), PAUSED], "in state QUEUED cannot be paused"),
        ([*CLAIMED_ONE, RESUMED], "in state RUNNING cannot be resumed"),
        ([*CLAIMED_ONE, begun(0), DONE], "have no final state"),
        ([*CLAIMED_ONE, DONE], "have no final state"),
        (
            [requested(0), claimed(), RunEnded(state="PAUSED", sentence="x")],
            "PAUSED is not a final state",
        ),
        ([requested(0), claimed(), DONE, DONE], "the run is DONE"),
        ([requested(0), DONE], "the run is QUEUED"),
        ([*CLAIMED_ONE, MEASURED], "only after it ended"),
        ([*CLAIMED_ONE, begun(0), WAITING], "in state RUNNING cannot wait"),
        ([*CLAIMED_ONE, PAUSED, WAITING], "in state PAUSED cannot wait"),
        ([*CLAIMED_ONE, CHANGED], "was not saved"),
        ([*CLAIMED_ONE, SAVED, restored("restored"), restored("restored")], "was not saved"),
        ([requested(0), claimed(), DONE, SAVED], "in state DONE cannot change a setting"),
        (
            [*CLAIMED_ONE, begun(0), RunRefused(code="x", sentence="x")],
            "a started step cannot be refused",
        ),
        ([requested(0), claimed(), DONE, RunRefused(code="x", sentence="x")], "already DONE"),
    ],
)
def test_what_cannot_happen_is_refused(events, words) -> None:
    with pytest.raises(InvariantError, match=words):
        view_of(*events)


def test_entries_of_another_run_or_out_of_order_are_refused() -> None:
    entries = chain_of([requested(), claimed()])
    stranger = chain_of([requested(), record_of(claimed(), run_id=RunId("other"))])
    with pytest.raises(InvariantError, match="it does not belong to run"):
        fold(stranger)
    with pytest.raises(InvariantError, match="does not follow"):
        fold([entries[0], replace_seq(entries[1], 1)])


def replace_seq(entry, seq):
    return type(entry)(seq=seq, record=entry.record, previous=entry.previous, digest=entry.digest)


def test_run_ids_sort_by_time() -> None:
    assert run_id_at(NOON, "abcdef") == RUN


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: type(event).__name__)
def test_every_event_has_words(event) -> None:
    assert type(event).__name__ in KINDS
    assert describe_event(event).what


def test_a_measure_and_a_request_are_events_of_their_own() -> None:
    assert {type(event) for event in ONE_OF_EACH} >= {RunRequested, RunMeasured}
    assert len({type(event) for event in ONE_OF_EACH}) == len(ONE_OF_EACH) == len(KINDS)


@pytest.mark.parametrize(
    ("event", "before", "after"),
    [
        (begun(0), "b1:8080", ""),
        (ended(0, "DONE", "unassigned", None), "", "unassigned"),
        (StepEnded(step=0, result=StepResult(state="FAILED", code="x", sentence="x")), "", ""),
        (StepStarted(step=0, observed=Observation(exists=False)), "gone", ""),
        (StepStarted(step=0, observed=Observation(exists=True, value="false")), "false", ""),
        (SAVED, "true", "false"),
        (restored("changed_by_others"), "", "changed by others"),
        (
            ExternalMove(subject="b", source=None, destination="b2", sentence="x"),
            "unassigned",
            "b2",
        ),
        (DONE, "", "done"),
    ],
)
def test_words_say_what_was_before_and_after(event, before, after) -> None:
    words = describe_event(event)
    assert (words.before, words.after) == (before, after)


def test_words_say_who_asked_and_why() -> None:
    words = describe_event(requested(5, undoes=RUN, reason="wrong idea"))
    assert f"5 bundles, to undo run {RUN}" in words.what
    assert words.why == "wrong idea"
    assert "lost worker" in describe_event(claimed(is_takeover=True)).what
    assert "lost worker" not in describe_event(claimed()).what
    assert "Reconciled later" in describe_event(ended(0, is_reconciled=True)).what
