"""What Trimtab's own steps change, so that a change that was seen is known to be theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.actions.views import RunView, StepView
from core.ids import is_part
from core.units import datetime_to_ms

LEVEL: Final = "level"
BY_US: Final = "trimtab"
BY_CLUSTER: Final = "cluster"

ATTRIBUTED: Final = frozenset({"move", "split", "setting", "level", "primary", "replica"})
"""Kinds of events that either a step or the cluster itself caused."""

_PLACES: Final = frozenset({"move", "primary"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """One thing that a run changed, or is changing.

    Attributes:
        subject: Bundle, partition or key.
        begun_at: Its intent was on record, ms.
        ended_at: When its result was known, ms; ``None`` if not yet.
        landed: Who held the subject then; ``None`` if unknown or not held.
        is_split: The subject's parts are changed as well.
        run_id: Of which run.
        actor: Who requested it.
        reason: Why.
    """

    subject: str
    begun_at: int
    ended_at: int | None = None
    landed: str | None = None
    is_split: bool = False
    run_id: str
    actor: str
    reason: str

    def explains(self, event: Mapping[str, Any], since: int, until: int) -> bool:
        """Return whether an event between two moments (ms) belongs to this change.

        Args:
            event: Row of kind ``events``.
            since: Of the reading before, with a margin: a step may have ended while it went on.
            until: Of the reading that shows the event.
        """
        if self.begun_at > until or (self.ended_at is not None and self.ended_at < since):
            return False
        if not self._is_about(event):
            return False
        is_place = event["kind"] in _PLACES and not self.is_split
        return not is_place or self.landed is None or self.landed == event["after"]

    def _is_about(self, event: Mapping[str, Any]) -> bool:
        subject = event["subject"]
        if event["kind"] == LEVEL:
            return self.subject == LEVEL
        return subject == self.subject or (self.is_split and is_part(subject, self.subject))


def run_changes_of(view: RunView, since: int) -> list[RunChange]:
    """Return a run's changes after a moment (ms), in the order of its steps."""
    found = []
    for step in view.steps:
        if step.begun_at is None:
            continue
        ended_at = None if step.ended_at is None else datetime_to_ms(step.ended_at)
        if ended_at is not None and ended_at < since:
            continue
        found += [_run_change(view, step, subject, ended_at) for subject in step.step.recorded_as]
    return found


def _run_change(view: RunView, step: StepView, subject: str, ended_at: int | None) -> RunChange:
    after = step.result.after if step.result else None
    is_held = step.step.subject == subject and after is not None
    return RunChange(
        subject=subject,
        begun_at=0 if step.begun_at is None else datetime_to_ms(step.begun_at),
        ended_at=ended_at,
        landed=after.holder if is_held and after is not None else None,
        is_split=step.step.has_parts,
        run_id=view.run_id,
        actor=view.requested_by,
        reason=view.reason,
    )


def attributed(
    events: Iterable[Mapping[str, Any]], run_changes: Sequence[RunChange], since: int, until: int
) -> list[dict[str, Any]]:
    """Return the events with who caused them: a run, named, or the cluster.

    Args:
        events: Rows of kind ``events`` found by comparing two readings.
        run_changes: What runs did lately.
        since: Of the earlier reading, ms, with a margin.
        until: Of the later one, ms.
    """
    by_subject: dict[str, list[RunChange]] = {}
    for run_change in run_changes:
        by_subject.setdefault(run_change.subject, []).append(run_change)
    splits = [run_change for run_change in run_changes if run_change.is_split]
    found = []
    for event in events:
        if event["kind"] not in ATTRIBUTED or event["by"] not in (None, "", BY_CLUSTER):
            found.append(dict(event))
            continue
        name = LEVEL if event["kind"] == LEVEL else event["subject"]
        near = [*by_subject.get(name, ()), *splits]
        cause = next((one for one in reversed(near) if one.explains(event, since, until)), None)
        found.append(dict(event) | _cause(cause))
    return found


def _cause(run_change: RunChange | None) -> dict[str, str]:
    if run_change is None:
        return {"by": BY_CLUSTER}
    return {
        "by": BY_US,
        "run_id": run_change.run_id,
        "actor": run_change.actor,
        "reason": run_change.reason,
    }
