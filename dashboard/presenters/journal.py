"""The journal for people: each entry as a sentence, filters over runs and entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, assert_never

import pandas as pd

from core.actions.events import (
    ControlAsked,
    Entry,
    Event,
    ForeignMove,
    RunClaimed,
    RunEnded,
    RunMeasured,
    RunPaused,
    RunRefused,
    RunRequested,
    RunResumed,
    SettingChanged,
    SettingRestored,
    SettingSaved,
    StepBegun,
    StepEnded,
)
from core.actions.model import Observation
from core.actions.views import RunView
from core.units import counted, format_ratio

KINDS: Final[dict[str, str]] = {
    "RunRequested": "requested",
    "ControlAsked": "control asked",
    "RunClaimed": "taken up",
    "RunRefused": "refused",
    "RunPaused": "paused",
    "RunResumed": "resumed",
    "StepBegun": "step begun",
    "StepEnded": "step ended",
    "SettingSaved": "setting saved",
    "SettingChanged": "setting changed",
    "SettingRestored": "setting restored",
    "ForeignMove": "foreign move",
    "RunEnded": "ended",
    "RunMeasured": "measured",
}
"""Kind of an entry in the journal to the word for people (and for the URL)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An entry in words: what, why, before and after; empty where it has none."""

    what: str
    why: str = ""
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFilter:
    """What is asked of the journal; empty matches everything.

    Attributes:
        cluster: Name.
        person: Actor.
        state: State of a run (runs only).
        kind: Word of :data:`KINDS` (entries only).
        text: Part of anything that is shown.
        since: Not before this, aware UTC.
        until: Not after this, aware UTC.
    """

    cluster: str = ""
    person: str = ""
    state: str = ""
    kind: str = ""
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None


def told(event: Event) -> Told:
    """Return an event in words."""
    match event:
        case RunRequested() | ControlAsked() | RunClaimed() | RunRefused() | RunEnded():
            return _run_told(event)
        case RunPaused() | RunResumed():
            return Told(what=event.sentence)
        case StepBegun() | StepEnded():
            return _step_told(event)
        case SettingSaved() | SettingChanged() | SettingRestored():
            return _setting_told(event)
        case ForeignMove():
            return Told(
                what=event.sentence,
                before=event.source or "nobody",
                after=event.destination or "nobody",
            )
        case RunMeasured():
            return Told(
                what=f"Measured on snapshot {event.snapshot_id}.",
                after=f"busiest broker {format_ratio(event.throughput_deviation)} over the mean",
            )
        case _:
            assert_never(event)


def _run_told(event: RunRequested | ControlAsked | RunClaimed | RunRefused | RunEnded) -> Told:
    match event:
        case RunRequested():
            what = f"Asked to unload {counted(len(event.plan.steps), 'bundle')}"
            undo = f", to undo run {event.undoes}" if event.undoes else ""
            names = ", ".join(step.bundle for step in event.plan.steps[:3])
            return Told(what=f"{what}{undo}: {names}.", why=event.reason)
        case ControlAsked():
            return Told(what=f"Asked to {event.control} the run.", why=event.reason)
        case RunClaimed():
            again = " from a lost worker" if event.is_takeover else ""
            return Told(
                what=f"{event.worker} took the run up{again}; right to write: {event.lease}."
            )
        case RunRefused():
            return Told(what=f"{event.sentence} {event.hint}".strip())
        case RunEnded():
            return Told(what=event.sentence, after=event.state.lower())


def _step_told(event: StepBegun | StepEnded) -> Told:
    number = f"Step {event.step + 1}"
    if isinstance(event, StepBegun):
        return Told(what=f"{number} begun.", before=_seen(event.seen))
    late = " Settled later, by looking." if event.is_by_looking else ""
    return Told(
        what=f"{number} {event.ending.state.lower()}: {event.ending.sentence}{late}",
        after=_seen(event.ending.after),
    )


def _setting_told(event: SettingSaved | SettingChanged | SettingRestored) -> Told:
    match event:
        case SettingSaved():
            return Told(
                what=f"{event.key} will be set for the run.",
                before=event.before or "not set",
                after=event.during,
            )
        case SettingChanged():
            return Told(what=f"{event.key} was set for the run.")
        case SettingRestored():
            return Told(what=event.sentence, after=event.fate.replace("_", " "))


def _seen(seen: Observation | None) -> str:
    if seen is None:
        return ""
    if not seen.exists:
        return "gone"
    return seen.holder or seen.value or "nobody"


def entries_frame(entries: Iterable[Entry]) -> pd.DataFrame:
    """Return one row an entry, in the order given."""
    rows = []
    for entry in entries:
        record = entry.record
        words = told(record.event)
        rows.append(
            {
                "seq": entry.seq,
                "at": record.at,
                "who": record.actor,
                "cluster": record.cluster,
                "run": record.run_id,
                "kind": KINDS[type(record.event).__name__],
                "what": words.what,
                "why": words.why,
                "before": words.before,
                "after": words.after,
                "digest": entry.digest,
            }
        )
    return pd.DataFrame(
        rows,
        columns=[
            *("seq", "at", "who", "cluster", "run", "kind"),
            *("what", "why", "before", "after", "digest"),
        ],
    )


def matching_runs(views: Sequence[RunView], wanted: JournalFilter) -> list[RunView]:
    """Return the runs that match, the newest first."""
    text = wanted.text.casefold()
    found = [
        view
        for view in views
        if wanted.cluster in ("", view.cluster)
        and wanted.person in ("", view.requested_by)
        and wanted.state in ("", view.state.lower())
        and _is_within(view.requested_at, wanted)
        and (not text or text in _run_text(view))
    ]
    return sorted(found, key=lambda view: (view.requested_at, view.run_id), reverse=True)


def _run_text(view: RunView) -> str:
    names = " ".join(f"{step.step.bundle} {step.step.owner}" for step in view.steps)
    return f"{view.run_id} {view.plan.plan_id} {view.reason} {view.sentence} {names}".casefold()


def matching_rows(frame: pd.DataFrame, wanted: JournalFilter) -> pd.DataFrame:
    """Return the rows of :func:`entries_frame` that match, the newest first."""
    keep = pd.Series(data=True, index=frame.index)
    equals = (("cluster", wanted.cluster), ("who", wanted.person), ("kind", wanted.kind))
    for column, value in equals:
        if value:
            keep &= frame[column] == value
    if wanted.since is not None:
        keep &= frame["at"] >= wanted.since
    if wanted.until is not None:
        keep &= frame["at"] <= wanted.until
    if wanted.text:
        some = pd.Series(data=False, index=frame.index)
        for column in ("run", "what", "why", "before", "after"):
            some |= frame[column].str.contains(wanted.text, case=False, regex=False, na=False)
        keep &= some
    return frame[keep].sort_values("seq", ascending=False)


def _is_within(moment: datetime, wanted: JournalFilter) -> bool:
    if wanted.since is not None and moment < wanted.since:
        return False
    return wanted.until is None or moment <= wanted.until


def answer(views: Sequence[RunView], now: datetime) -> str:
    """Return the sentence that says what has been done of late."""
    if not views:
        return "Nothing has ever been applied from here: the journal is empty."
    day = [view for view in views if (now - view.requested_at).total_seconds() < 86_400]
    going = [view for view in views if not view.is_ended]
    moved = sum(view.counts.get("DONE", 0) for view in day)
    bad = sum(view.state in ("FAILED", "REFUSED") for view in day)
    head = (
        f"{counted(len(day), 'run')} in the last 24 hours moved {counted(moved, 'bundle')}"
        if day
        else f"No run in the last 24 hours; {len(views):,} in all"
    )
    trouble = f", {bad} failed or refused" if bad else ""
    now_words = f"; {len(going)} {'has' if len(going) == 1 else 'have'} not ended" if going else ""
    return f"{head}{trouble}{now_words}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The verdict on a journal's chain of hashes.

    Attributes:
        is_sound: Every entry is the one that was written, in its place.
        sentence: The same with its figures.
    """

    is_sound: bool
    sentence: str


def chain_of(entries: int, digest: str, damage: tuple[int, str] | None) -> Chain:
    """Return the verdict in words.

    Args:
        entries: Sound entries, from the first one on.
        digest: Hash of the last sound entry.
        damage: Place of the first damaged entry and what is wrong with it.
    """
    if damage is not None:
        seq, what = damage
        return Chain(
            is_sound=False,
            sentence=f"The chain breaks at entry {seq:,}: {what} The {entries:,} before are sound.",
        )
    count = "1 entry" if entries == 1 else f"{entries:,} entries"
    return Chain(is_sound=True, sentence=f"{count}, chain intact, newest digest {digest[:16]}")
