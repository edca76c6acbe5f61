"""The journal of runs as events of the history: every finished step and every turn of a run, once.

Entries are read on from where the recorded ones end: each event keeps the place of its entry in the
journal, and is committed together with the minute that it belongs to. So whatever is killed when,
the next recorder goes on exactly behind the last event that counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from connectors.recording.attribution import BY_US, RunChange, run_changes_of
from core.actions.events import (
    ControlRequested,
    Entry,
    RunClaimed,
    RunDecided,
    RunEnded,
    RunPaused,
    RunRefused,
    RunRequested,
    RunResumed,
    SettingChanged,
    SettingRestored,
    StepEnded,
)
from core.actions.model import FINAL_STEPS, Observation, RunId
from core.actions.ports import Journal
from core.actions.runs import fold
from core.actions.views import RunView
from core.errors import OpsError
from core.units import datetime_to_ms

_BATCH: Final = 500
_RETAINED_MS: Final = 3_600_000
"""How long an ended run is remembered: its last steps may show in a later snapshot."""


class RunSteps:
    """The journal of one cluster, read on minute by minute.

    Args:
        journal: Where runs are on record.
        cluster: Trimtab's name of the cluster.
        position: Place of the last entry that is an event of the history already; 0: none is.
        since: Where none is: entries before this moment (ms) are older than the history.
        setting_subjects: Returns the subjects that a setting of a run has in events; see
            :class:`core.snapshot.record.SystemRecord`.
    """

    def __init__(
        self,
        journal: Journal,
        cluster: str,
        position: int,
        since: int,
        setting_subjects: Callable[[str], Sequence[str]],
    ) -> None:
        self._setting_subjects = setting_subjects
        self._journal = journal
        self._cluster = cluster
        self._position = position
        self._since = 0 if position else since
        self._views: dict[RunId, RunView] = {}
        self._settings: list[RunChange] = []
        self._pending: list[dict[str, Any]] = []

    def read(self) -> None:
        """Read what is new in the journal.

        Raises:
            RemoteError: It cannot be read; it is tried again next time.
        """
        entries = self._journal.entries(after=self._position, limit=_BATCH)
        while entries:
            for entry in entries:
                if entry.record.cluster == self._cluster:
                    self._take(entry)
                self._position = entry.seq
            self._forget(self._since)
            entries = self._journal.entries(after=self._position, limit=_BATCH)

    def pending(self) -> list[dict[str, Any]]:
        """Return the events that no committed minute holds, without ``taken_at``."""
        return list(self._pending)

    def committed(self, count: int) -> None:
        """Note that the first ``count`` of :meth:`presult` are in the history now."""
        del self._pending[:count]

    def run_changes(self, since: int) -> list[RunChange]:
        """Return the changes by runs after a moment (ms)."""
        known = [
            run_change
            for view in self._views.values()
            if not view.is_request_forged
            for run_change in run_changes_of(view, since)
        ]
        self._settings = [
            run_change
            for run_change in self._settings
            if run_change.begun_at >= since - _RETAINED_MS
        ]
        self._forget(since)
        return known + self._settings

    def _forget(self, since: int) -> None:
        for run_id, view in list(self._views.items()):
            ended_at = view.ended_at
            if ended_at is not None and datetime_to_ms(ended_at) < since - _RETAINED_MS:
                del self._views[run_id]

    def _take(self, entry: Entry) -> None:
        run_id = entry.record.run_id
        try:
            view = self._grown(entry)
        except OpsError:  # a run whose entries do not fit: `runs --verify` reports it
            self._views.pop(run_id, None)
            return
        self._views[run_id] = view
        if view.is_request_forged or entry.seq in view.disregarded:
            return
        self._note_setting(entry, view)
        if datetime_to_ms(entry.record.at) >= self._since:
            self._pending += _events_of(entry, view)

    def _grown(self, entry: Entry) -> RunView:
        known = self._views.get(entry.record.run_id)
        if known is None and not isinstance(entry.record.event, RunRequested):
            before = self._journal.entries(run_id=entry.record.run_id)
            known = fold([one for one in before if one.seq < entry.seq])
        return fold([entry], known)

    def _note_setting(self, entry: Entry, view: RunView) -> None:
        """Keep in mind that a setting was changed, or put back, for the time of a run."""
        event = entry.record.event
        if not isinstance(event, SettingChanged | SettingRestored):
            return
        at = datetime_to_ms(entry.record.at)
        # it was sent before this was written: how long before is unknown, seconds at most
        self._settings += [
            RunChange(
                subject=subject,
                begun_at=at - 60_000,
                ended_at=at,
                run_id=view.run_id,
                actor=view.requested_by,
                reason=view.reason,
            )
            for subject in self._setting_subjects(event.key)
        ]


def _events_of(entry: Entry, view: RunView) -> Iterator[dict[str, Any]]:
    """Yield the events of one entry: none of what only prepares something."""
    event, actor = entry.record.event, entry.record.actor
    common = {"by": BY_US, "run_id": str(view.run_id), "reason": view.reason}
    if isinstance(event, StepEnded):
        if event.result.state in FINAL_STEPS:
            yield common | _step(entry, event, view)
        return
    if isinstance(event, SettingChanged | SettingRestored):
        yield common | _setting(entry, event, view)
        return
    turn = _turn(event)
    if turn is None:
        return
    after, sentence = turn
    details = {"sentence": sentence, "steps": len(view.steps), "plan_id": str(view.plan.plan_id)}
    if view.undoes:
        details["undoes"] = str(view.undoes)
    yield common | {
        "kind": "run",
        "subject": str(view.run_id),
        "before": None,
        "after": after,
        "actor": actor,
        "details": _details(entry, details),
    }


def _turn(event: object) -> tuple[str, str] | None:
    """Return the word and the sentence of a run event, or ``None``."""
    match event:
        case RunRequested():
            found = "QUEUED", event.reason
        case RunClaimed():
            found = "RUNNING", f"{event.worker} executes the run."
        case ControlRequested():
            found = f"{event.control} requested", event.reason
        case RunDecided():
            found = "APPROVED" if event.is_approved else "REJECTED", event.comment
        case RunPaused() | RunResumed() | RunRefused():
            found = _TURNS[type(event)], event.sentence
        case RunEnded():
            found = event.state, event.sentence
        case _:
            return None
    return found


_TURNS: Final[Mapping[type, str]] = {
    RunPaused: "PAUSED",
    RunResumed: "RESUMED",
    RunRefused: "REFUSED",
}


def _step(entry: Entry, event: StepEnded, view: RunView) -> dict[str, Any]:
    seen = view.steps[event.step]
    step, result = seen.step, event.result
    details = {
        "index": event.step,
        "step": step.kind,
        "what": step.describe(),
        "state": result.state,
        "code": result.code,
        "sentence": result.sentence,
        "took_ms": event.took_ms,
        "begun_at": None if seen.begun_at is None else datetime_to_ms(seen.begun_at),
    }
    return {
        "kind": "step",
        "subject": step.subject,
        "before": _state_of(seen.before) or step.owner,
        "after": _state_of(result.after),
        "actor": view.requested_by,
        "details": _details(entry, details),
    }


def _state_of(seen: Observation | None) -> str | None:
    if seen is None:
        return None
    return seen.holder if seen.holder is not None else seen.value


def _setting(
    entry: Entry, event: SettingChanged | SettingRestored, view: RunView
) -> dict[str, Any]:
    setting = next((one for one in view.settings if one.key == event.key), None)
    before, during = (setting.before, setting.during) if setting else (None, None)
    is_back = isinstance(event, SettingRestored)
    details = {
        "step": "setting_of_run",
        "state": event.result if isinstance(event, SettingRestored) else "changed",
        "sentence": event.sentence if isinstance(event, SettingRestored) else "",
    }
    return {
        "kind": "step",
        "subject": event.key,
        "before": during if is_back else before,
        "after": before if is_back else during,
        "actor": view.requested_by,
        "details": _details(entry, details),
    }


def _details(entry: Entry, more: Mapping[str, object]) -> str:
    found = {"seq": entry.seq, "at": datetime_to_ms(entry.record.at)} | dict(more)
    return json.dumps(found, sort_keys=True, allow_nan=False)


def last_place(details: Sequence[str | None]) -> int:
    """Return the highest place in the journal that events name in their details; 0: none does."""
    places = [0]
    for text in details:
        try:
            found = json.loads(text or "{}")
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and isinstance(found.get("seq"), int):
            places.append(found["seq"])
    return max(places)
