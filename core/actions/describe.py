"""Describes the events of the journal, a sentence each, for pages and command line alike."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from core.actions.events import (
    ControlRequested,
    EntriesArchived,
    Entry,
    Event,
    ExternalMove,
    PurposeChecked,
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
from core.actions.model import Observation
from core.actions.views import RunView, StepView
from core.plan.describe import tally
from core.units import format_deviation, pluralize
from core.values import by_server

KINDS: Final[dict[str, str]] = {
    "RunRequested": "requested",
    "ControlRequested": "control requested",
    "RunDecided": "approval decided",
    "RunClaimed": "claimed",
    "RunRefused": "refused",
    "RunPaused": "paused",
    "RunResumed": "resumed",
    "StepWaiting": "step waiting",
    "StepStarted": "step started",
    "StepEnded": "step ended",
    "StepReopened": "step reopened",
    "SettingSaved": "setting saved",
    "SettingChanged": "setting changed",
    "SettingRestored": "setting restored",
    "ExternalMove": "external change",
    "PurposeChecked": "purpose checked",
    "RunEnded": "ended",
    "RunMeasured": "measured",
    "EntriesArchived": "archived",
}
"""Kind of an entry in the journal to the word for people (and for the URL)."""


EMPTY: Final = "empty"
"""What is said of a setting that has a value of no length, as a list without entries."""

_MAX_SERVERS: Final = 2
_MAX_HELD: Final = 3
_MAX_NAMED: Final = 5
_MAX_UNSERVED: Final = 3


def describe_value(value: str | None) -> str:
    """Return a value for people; one that differs by server is listed by server, in one line."""
    if value is None:
        return ""
    servers = by_server(value)
    if servers is None:
        return value
    if "items" in servers:  # partitions, each with its members: the sentence describes them
        return "see the description"
    if any(not isinstance(one, str) for one in json.loads(value).values()):  # a policy
        return ", ".join(f"{field} {text}" for field, text in servers.items())
    groups: dict[str, list[str]] = {}
    for server, text in sorted(servers.items()):
        groups.setdefault(text or EMPTY, []).append(server)
    if len(groups) == 1:
        return f"{next(iter(groups))} on all {pluralize(len(servers), 'server')}"
    return ", ".join(f"{text} on {_named(names)}" for text, names in groups.items())


def _named(servers: list[str]) -> str:
    if len(servers) > _MAX_SERVERS:
        return pluralize(len(servers), "server")
    return " and ".join(servers)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDescription:
    """An entry in words: what, why, before and after; empty where it has none."""

    what: str
    why: str = ""
    before: str = ""
    after: str = ""


def describe_forged_settings(keys: Collection[str]) -> str:
    """Return the sentence about settings that forged entries name; empty: they name none."""
    if not keys:
        return ""
    return (
        "Entries without this installation's signature record that the run changed "
        f"{', '.join(sorted(keys))}: nothing was restored. Check these settings manually."
    )


def describe_forged(seqs: Sequence[int], *, is_run_forged: bool = False) -> str:
    """Return the sentence about forged entries; empty: there are none.

    Args:
        seqs: Their places.
        is_run_forged: They are of a run whose request is one of them.
    """
    if not seqs:
        return ""
    named = ", ".join(f"{seq}" for seq in seqs[:_MAX_NAMED])
    more = f" and {len(seqs) - _MAX_NAMED:,} more" if len(seqs) > _MAX_NAMED else ""
    effect = "No worker executes this run." if is_run_forged else "No effect on the run."
    return (
        f"Not genuine: {pluralize(len(seqs), 'entry')} ({named}{more}), without this "
        "installation's signature or a copy of an earlier entry. Possible writers: an earlier "
        "version, an installation with another key, a user with write access to the database. "
        f"{effect}"
    )


def describe_void(entry: Entry, disregarded: Collection[int]) -> str:
    """Return the prefix of an entry that does not count, or "".

    Args:
        entry: Of a run.
        disregarded: See :attr:`core.actions.views.RunView.disregarded`.
    """
    if entry.forged:
        return "Not genuine: "
    is_void = entry.seq in disregarded
    return "Ignored, its worker had lost the run: " if is_void else ""


def describe_unserved(steps: Sequence[StepView]) -> str:
    """Return the unserved subjects: ``unassigned: 13 (a, b, c and 10 more)``, or ""."""
    by_word: dict[str, list[str]] = {}
    for step in steps:
        by_word.setdefault(step.unserved, []).append(step.step.subject)
    return ", ".join(count_named(word, names) for word, names in by_word.items())


def count_named(word: str, names: Sequence[str]) -> str:
    """Return a count with the first names of what was counted: ``unassigned: 2 (a, b)``."""
    more = len(names) - _MAX_UNSERVED
    named = ", ".join(names[:_MAX_UNSERVED]) + (f" and {more:,} more" if more > 0 else "")
    return f"{word}: {len(names):,} ({named})"


def waits_for(ahead: RunView) -> str:
    """Return the sentence about a run that is not begun while ``ahead`` is open."""
    return f"Waits for run {ahead.run_id} ({ahead.state.lower()}) on the same cluster."


def describe_open_run(view: RunView, more: str = "") -> str:
    """Return the effect of an open run on changes of its cluster, and the command to stop it.

    Args:
        more: Options that the command line needs besides.
    """
    return (
        f"Run {view.run_id} on {view.cluster} has not ended ({view.state.lower()}). A cluster "
        f"executes one run at a time; the next run waits. {describe_stop(view, more)}"
    )


def describe_stop(view: RunView, more: str = "") -> str:
    """Return the temporary settings of an open run, and how to stop it."""
    changed = [one for one in view.outstanding_settings if one.is_changed]
    temporary = [
        f"{one.key} at {describe_value(one.during) or EMPTY} (to be restored to "
        f"{_before(one.before)})"
        for one in reversed(changed[-_MAX_HELD:])
    ]
    held = f"Temporary settings: {', '.join(temporary)}. " if temporary else ""
    return f"{held}To stop it: `trimtab runs {view.run_id} --stop{more}`."


def _before(value: str | None) -> str:
    return "the previous value" if value is None else describe_value(value) or EMPTY


def why_nothing_lasts(view: RunView) -> str:
    """Return the reason a run has nothing to undo, or "".

    What it set for its time went back when it ended; what the meta server moved meanwhile by its
    own choice is no step of the run.
    """
    done = [one.step for one in view.steps if one.state == "DONE"]
    waits = [step.wait for step in done if step.wait is not None]
    if not done or view.outstanding_settings:
        return ""
    if any(step.temporary_value is None and step.wait is None for step in done):
        return ""
    is_back = all(one.result == "restored" for one in view.settings)
    head = (
        "The temporary settings were restored"
        if is_back
        else "The run records the final values of its temporary settings"
    )
    if any(wait.is_for_balance for wait in waits) or any(step.starts_balancer for step in done):
        return (
            f"{head}. Moves that the meta server made during the run are not steps of the "
            "run. An undo can leave or revert them."
        )
    return f"{head}; nothing else was changed."


def describe_event(event: Event) -> EventDescription:
    """Return an event in words."""
    match event:
        case RunRequested() | ControlRequested() | RunDecided() | EntriesArchived():
            return _describe_request(event)
        case (
            RunClaimed() | RunRefused() | RunPaused() | RunResumed() | RunEnded() | PurposeChecked()
        ):
            return _describe_run(event)
        case StepWaiting() | StepStarted() | StepEnded() | StepReopened():
            return _describe_step(event)
        case SettingSaved() | SettingChanged() | SettingRestored():
            return _describe_setting(event)
        case ExternalMove():
            return EventDescription(
                what=event.sentence,
                before=event.source or "unassigned",
                after=event.destination or "unassigned",
            )
        case RunMeasured():
            other = (
                f" Run {event.disturbed_by} changed the cluster in between."
                if event.disturbed_by
                else ""
            )
            lost = f" {count_named('Unassigned', event.unassigned)}." if event.unassigned else ""
            return EventDescription(
                what=f"Measured on snapshot {event.snapshot_id}.{lost}{other}",
                after=f"{pluralize(len(event.nodes), 'node')} checked"
                if event.nodes
                else f"max traffic deviation {format_deviation(event.throughput_deviation)}",
            )
        case _:
            assert_never(event)


def _describe_request(
    event: RunRequested | ControlRequested | RunDecided | EntriesArchived,
) -> EventDescription:
    match event:
        case RunRequested():
            what = f"Requested to {tally(event.plan.steps)}"
            undo = f", to undo run {event.undoes}" if event.undoes else ""
            names = ", ".join(step.subject for step in event.plan.steps[:3])
            return EventDescription(what=f"{what}{undo}: {names}.", why=event.reason)
        case ControlRequested():
            return EventDescription(what=f"Requested: {event.control} the run.", why=event.reason)
        case RunDecided():
            what = "Approved the run." if event.is_approved else "Rejected the run."
            return EventDescription(what=what, why=event.comment)
        case EntriesArchived():
            what = f"Moved entries {event.first} to {event.last} to {event.file}."
            return EventDescription(what=what, why=event.reason)


def _describe_run(
    event: RunClaimed | RunRefused | RunPaused | RunResumed | RunEnded | PurposeChecked,
) -> EventDescription:
    match event:
        case PurposeChecked():
            return EventDescription(what=describe_purpose(event))
        case RunPaused() | RunResumed():
            return EventDescription(what=event.sentence)
        case RunClaimed():
            again = " from a lost worker" if event.is_takeover else ""
            return EventDescription(
                what=f"{event.worker} claimed the run{again}; write lease: {event.lease}."
            )
        case RunRefused():
            return EventDescription(what=f"{event.sentence} {event.hint}".strip())
        case RunEnded():
            return EventDescription(what=event.sentence, after=event.state.lower())


def describe_purpose(checked: PurposeChecked) -> str:
    """Return ``Purpose: n1:34801 holds no replicas. Achieved: no. 13 replicas are still on n1``."""
    word = {True: "yes", False: "no", None: "unknown"}[checked.holds]
    return f"Purpose: {checked.purpose}. Achieved: {word}. {checked.sentence}".rstrip()


def _describe_step(
    event: StepWaiting | StepStarted | StepEnded | StepReopened,
) -> EventDescription:
    number = f"Step {event.step + 1}"
    if isinstance(event, StepReopened):
        return EventDescription(what=f"{number} reopened: {event.sentence}")
    if isinstance(event, StepWaiting):
        return EventDescription(what=f"{number} is waiting: {event.sentence}")
    if isinstance(event, StepStarted):
        return EventDescription(what=f"{number} started.", before=_seen(event.observed))
    late = " Reconciled later." if event.is_reconciled else ""
    return EventDescription(
        what=f"{number} {event.result.state.lower()}: {event.result.sentence}{late}",
        after=_seen(event.result.after),
    )


def _describe_setting(event: SettingSaved | SettingChanged | SettingRestored) -> EventDescription:
    match event:
        case SettingSaved():
            return EventDescription(
                what=event.sentence or f"{event.key} will be set temporarily.",
                before="not set" if event.before is None else describe_value(event.before) or EMPTY,
                after=describe_value(event.during) or EMPTY,
            )
        case SettingChanged():
            return EventDescription(what=f"{event.key} was set temporarily.")
        case SettingRestored():
            return EventDescription(what=event.sentence, after=event.result.replace("_", " "))


def _seen(seen: Observation | None) -> str:
    if seen is None:
        return ""
    if not seen.exists:
        return seen.detail or "gone"
    if seen.holder is None and seen.value is not None:
        return describe_value(seen.value) or EMPTY
    return seen.holder or "unassigned"
