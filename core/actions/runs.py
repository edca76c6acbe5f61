"""What is known of a run: its journal entries, folded into one view.

Every reader (pages, command line, worker) folds the same entries and so says the same. What never
happens in a sound run raises an ``InvariantError``, which names the entry. What a worker writes
after another one has claimed the run does not count: it has lost the run and is about to notice.
Neither does a forged entry of a run that was requested with this installation's signature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from core.access import Identity, is_same_person
from core.actions.events import (
    ControlRequested,
    EntriesArchived,
    Entry,
    ExternalMove,
    PurposeChecked,
    Record,
    RunClaimed,
    RunDecided,
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
    StepReopened,
    StepStarted,
    StepWaiting,
)
from core.actions.model import FINAL_STEPS, Refusal, RunId, moved
from core.actions.views import ControlRequest, Decision, RunView, SettingView, StepView
from core.errors import InvariantError

__all__ = ["ControlRequest", "RunView", "SettingView", "StepView", "fold", "run_id_at"]


def run_id_at(moment: datetime, salt: str) -> RunId:
    """Return the id of a run that is requested at ``moment`` (aware UTC): sortable by time.

    Args:
        moment: When.
        salt: Six hexadecimal digits, drawn by the caller, that distinguish runs of one second.
    """
    return RunId(f"{moment:%Y%m%d-%H%M%S}-{salt}")


def fold(entries: Iterable[Entry], onto: RunView | None = None) -> RunView:
    """Return the state of a run.

    Args:
        entries: Entries of one run in order, from its request on; with ``onto``: those after it.
        onto: What was known before.
    Raises:
        InvariantError: No entries at all, entries of several runs, out of order or damaged, or
            something that never happens: a step that goes where none can, an end with open steps.
    """
    view = onto
    for entry in entries:
        if entry.damage:
            raise InvariantError(
                f"Entry {entry.seq} of the journal was altered: {entry.damage}",
                hint="Check the journal with `trimtab runs --verify` and restore it from a copy.",
            )
        view = _begun(entry) if view is None else _grown(view, entry)
    if view is None:
        raise InvariantError("A run without journal entries cannot be reconstructed.")
    return view


def _begun(entry: Entry) -> RunView:
    record, event = entry.record, entry.record.event
    if not isinstance(event, RunRequested):
        raise _illegal(entry, "a run must begin with its request")
    return RunView(
        run_id=record.run_id,
        cluster=record.cluster,
        plan=event.plan,
        options=event.options,
        reason=event.reason,
        requested_by=record.actor,
        requester=_author(record, event.identity),
        requested_at=record.at,
        undoes=event.undoes,
        steps=tuple(
            StepView(index=index, step=step) for index, step in enumerate(event.plan.steps)
        ),
        last_seq=entry.seq,
        last_at=record.at,
        forged=(entry.seq,) if entry.forged else (),
        is_request_forged=bool(entry.forged),
    )


def _author(record: Record, identity: Identity | None) -> Identity:
    """Return the author of a request; earlier versions recorded only the name."""
    return identity or Identity(name=record.actor)


def _grown(view: RunView, entry: Entry) -> RunView:
    record = entry.record
    if record.run_id != view.run_id or record.cluster != view.cluster:
        raise _illegal(entry, f"it does not belong to run {view.run_id} on {view.cluster}")
    if entry.seq <= view.last_seq:
        raise _illegal(entry, f"it does not follow entry {view.last_seq}")
    if entry.forged:
        view = replace(view, forged=(*view.forged, entry.seq))
        if not view.is_request_forged or view.refusal is not None:
            return _disregarded(view, entry)
    fold_event = _FOLDS.get(type(record.event))
    if fold_event is None:
        is_archive = isinstance(record.event, EntriesArchived)
        raise _illegal(
            entry,
            "an archive entry belongs to no run"
            if is_archive
            else "a run can be requested only once",
        )
    is_answer = view.is_request_forged and not entry.forged  # a worker of ours refuses it
    if _is_void(view, record) and not is_answer:
        return _disregarded(view, entry)
    try:
        grown = fold_event(view, record, record.event)
    except InvariantError as exc:
        raise _illegal(entry, exc.message.rstrip(".")) from exc
    return replace(grown, last_seq=entry.seq, last_at=record.at)


def _disregarded(view: RunView, entry: Entry) -> RunView:
    seqs = (*view.disregarded, entry.seq)
    return replace(view, disregarded=seqs, last_seq=entry.seq, last_at=entry.record.at)


def _is_void(view: RunView, record: Record) -> bool:
    """Whether its worker had lost the run because another one had claimed it.

    A worker that slept through the end of its lease finds that claim when it reads back what it
    wrote, and stops before it sends anything; the steps are the other one's. After the end, whoever
    later reads may reconcile a step that is still unknown.
    """
    event = record.event
    if isinstance(event, _BY_ANYONE):
        return False
    if view.worker in ("", record.actor):
        return False
    if not (view.is_ended and isinstance(event, StepEnded) and event.is_reconciled):
        return True
    return event.step not in {step.index for step in view.steps if step.state == "UNKNOWN"}


def _illegal(entry: Entry, why: str) -> InvariantError:
    kind = type(entry.record.event).__name__
    return InvariantError(
        f"Entry {entry.seq} of the journal ({kind} of run {entry.record.run_id}) is invalid: "
        f"{why}.",
        hint="Check the journal with `trimtab runs --verify`.",
    )


def _require(holds: bool, why: str) -> None:  # noqa: FBT001 - a condition and its sentence
    if not holds:
        raise InvariantError(why)


# -- one function an event -------------------------------------------------------------------------


def _control(view: RunView, record: Record, event: ControlRequested) -> RunView:
    request = ControlRequest(
        control=event.control,
        requested_by=record.actor,
        requested_at=record.at,
        reason=event.reason,
    )
    if view.is_ended:
        return view
    over = view.resumed_over
    if event.control == "resume":
        over = tuple(step.index for step in view.unserved)
    return replace(view, control=request, resumed_over=over)


def _decided(view: RunView, record: Record, event: RunDecided) -> RunView:
    if view.is_ended or view.decision is not None:  # the first word counts
        return view
    if is_same_person(_author(record, event.identity), view.requester):
        return view  # no person approves their own request
    decision = Decision(
        is_approved=event.is_approved,
        decided_by=record.actor,
        decided_at=record.at,
        comment=event.comment,
    )
    return replace(view, decision=decision)


def _claimed(view: RunView, record: Record, event: RunClaimed) -> RunView:
    if view.is_ended:  # it came too late: another worker had ended the run meanwhile
        return view
    view = replace(view, worker=event.worker, lease=event.lease)
    if view.started_at is not None:
        return replace(view, takeovers=view.takeovers + event.is_takeover)
    return replace(
        view,
        state="RUNNING",
        started_at=record.at,
        sentence=f"{event.worker} executes the run.",
    )


def _refused(view: RunView, record: Record, event: RunRefused) -> RunView:
    _require(not view.is_ended, f"the run is already {view.state}")
    is_begun = any(step.begun_at for step in view.steps) and not view.is_request_forged
    _require(not is_begun, "a run with a started step cannot be refused")
    return replace(
        view,
        state="REFUSED",
        sentence=event.sentence,
        refusal=Refusal(code=event.code, sentence=event.sentence, hint=event.hint),
        ended_at=record.at,
    )


def _paused(view: RunView, _record: Record, event: RunPaused) -> RunView:
    _require(view.state in ("RUNNING", "PAUSED"), f"a run in state {view.state} cannot be paused")
    return replace(view, state="PAUSED", sentence=event.sentence)


def _resumed(view: RunView, _record: Record, event: RunResumed) -> RunView:
    _require(view.state == "PAUSED", f"a run in state {view.state} cannot be resumed")
    return replace(view, state="RUNNING", sentence=event.sentence)


def _step_waiting(view: RunView, record: Record, event: StepWaiting) -> RunView:
    _require(view.state == "RUNNING", f"a run in state {view.state} cannot wait")

    def waiting(step: StepView) -> StepView:
        _require(step.state == "PENDING", f"a step in state {step.state} cannot wait")
        since = step.waiting_since or record.at
        return replace(step, waiting=event.sentence, waiting_since=since)

    return _with_step(view, event.step, waiting)


def _step_begun(view: RunView, record: Record, event: StepStarted) -> RunView:
    _require(view.state == "RUNNING", f"a run in state {view.state} cannot start a step")
    return _with_step(
        view,
        event.step,
        lambda step: replace(
            step,
            state=moved(step.state, "RUNNING"),
            before=event.observed,
            begun_at=record.at,
            waiting="",
        ),
    )


def _step_ended(view: RunView, record: Record, event: StepEnded) -> RunView:
    _require(view.started_at is not None, "no worker has claimed the run")
    if view.is_ended:
        _require(event.is_reconciled, "after the end of a run, steps can only be reconciled")

    def ended(step: StepView) -> StepView:
        took = step.took_ms if event.took_ms is None else event.took_ms
        return replace(
            step,
            state=moved(step.state, event.result.state),
            result=event.result,
            ended_at=record.at,
            took_ms=took,
            is_reconciled=event.is_reconciled,
            waiting="",
        )

    return _with_step(view, event.step, ended)


def _step_reopened(view: RunView, _record: Record, event: StepReopened) -> RunView:
    _require(
        view.state in ("RUNNING", "PAUSED"), f"a run in state {view.state} cannot reopen a step"
    )

    def reopened(step: StepView) -> StepView:
        _require(step.state in FINAL_STEPS, f"a step in state {step.state} cannot be reopened")
        return replace(
            step,
            state="PENDING",
            before=None,
            result=None,
            ended_at=None,
            took_ms=None,
            is_reconciled=False,
            waiting="",
            waiting_since=None,
            reopened=(*step.reopened, event.sentence),
        )

    view = _with_step(view, event.step, reopened)
    # what is pending behind it waits from now on
    later = (
        replace(step, waiting="", waiting_since=None) if step.state == "PENDING" else step
        for step in view.steps[event.step :]
    )
    return replace(view, steps=(*view.steps[: event.step], *later))


def _with_step(view: RunView, index: int, change: Callable[[StepView], StepView]) -> RunView:
    _require(0 <= index < len(view.steps), f"the plan has no step {index}")
    steps = (*view.steps[:index], change(view.steps[index]), *view.steps[index + 1 :])
    return replace(view, steps=steps)


def _saved(view: RunView, _record: Record, event: SettingSaved) -> RunView:
    _require(
        view.state in ("RUNNING", "PAUSED"), f"a run in state {view.state} cannot change a setting"
    )
    why_again = (event.sentence,) if event.sentence else ()
    saved = next((item for item in view.outstanding_settings if item.key == event.key), None)
    if saved is not None:  # what it was at first is what it goes back to
        earlier = tuple(dict.fromkeys((*saved.earlier, saved.during)))
        again = replace(
            saved,
            during=event.during,
            earlier=earlier,
            is_changed=False,
            result=None,
            set_again=(*saved.set_again, *why_again),
        )
        settings = tuple(again if item.key == event.key else item for item in view.settings)
        return replace(view, settings=settings)
    setting = SettingView(
        key=event.key, before=event.before, during=event.during, set_again=why_again
    )
    others = tuple(setting for setting in view.settings if setting.key != event.key)
    return replace(view, settings=(*others, setting))


def _changed(view: RunView, _record: Record, event: SettingChanged) -> RunView:
    return _with_setting(view, event.key, lambda setting: replace(setting, is_changed=True))


def _restored(view: RunView, _record: Record, event: SettingRestored) -> RunView:
    view = _with_setting(
        view,
        event.key,
        lambda setting: replace(setting, result=event.result, sentence=event.sentence),
    )
    return replace(view, sentence=view.putting_back or view.sentence)


def _with_setting(view: RunView, key: str, change: Callable[[SettingView], SettingView]) -> RunView:
    _require(
        any(setting.key == key for setting in view.outstanding_settings), f"{key} was not saved"
    )
    settings = tuple(
        change(setting) if setting.key == key else setting for setting in view.settings
    )
    return replace(view, settings=settings)


def _external_change(view: RunView, _record: Record, event: ExternalMove) -> RunView:
    return replace(view, external_changes=(*view.external_changes, event))


def _purpose_checked(view: RunView, _record: Record, event: PurposeChecked) -> RunView:
    _require(not view.is_ended, "a purpose must be checked before the run ends")
    return replace(view, purpose=event)


def _ended(view: RunView, record: Record, event: RunEnded) -> RunView:
    _require(view.state in ("RUNNING", "PAUSED"), f"the run is {view.state}")
    _require(event.state in ("DONE", "STOPPED", "FAILED"), f"{event.state} is not a final state")
    is_open = [view.index for view in view.steps if view.state not in FINAL_STEPS | {"UNKNOWN"}]
    _require(not is_open, f"steps {is_open} have no final state")
    return replace(view, state=event.state, sentence=event.sentence, ended_at=record.at)


def _measured(view: RunView, _record: Record, event: RunMeasured) -> RunView:
    _require(view.is_ended, "a run can be measured only after it ended")
    return replace(view, measured=event)


_BY_ANYONE: Final = (ControlRequested, RunDecided, RunClaimed, RunMeasured)
"""Events that need no claim on the run."""

_FOLDS: Final[Mapping[type, Callable[[RunView, Record, Any], RunView]]] = {
    ControlRequested: _control,
    RunDecided: _decided,
    RunClaimed: _claimed,
    RunRefused: _refused,
    RunPaused: _paused,
    RunResumed: _resumed,
    StepWaiting: _step_waiting,
    StepStarted: _step_begun,
    StepEnded: _step_ended,
    StepReopened: _step_reopened,
    SettingSaved: _saved,
    SettingChanged: _changed,
    SettingRestored: _restored,
    ExternalMove: _external_change,
    PurposeChecked: _purpose_checked,
    RunEnded: _ended,
    RunMeasured: _measured,
}
