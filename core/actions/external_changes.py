"""What changed hands during a run, and not by it."""

from __future__ import annotations

from typing import Final

from core.actions.events import ExternalMove
from core.actions.session import Session
from core.actions.views import StepView
from core.errors import InvariantError
from core.system import Snapshot
from core.units import pluralize

MAX_NAMED: Final = 20
"""External changes recorded one by one per comparison; a lost broker moves hundreds at once."""

FURTHER: Final = " Also changed: "
"""In the sentence of the last one: what follows counts those that are not recorded."""


def note_external_changes(session: Session, fresh: Snapshot) -> None:
    """Compare with the session's snapshot, record the external changes."""
    earlier, session.snapshot = session.snapshot, fresh
    if earlier is None or earlier.manifest.taken_at > fresh.manifest.taken_at:
        return
    if type(earlier) is not type(fresh):
        raise InvariantError("The two snapshots of the run are of different systems.")
    system = session.ports.cluster.system
    found = list(system.external_changes(session.view, earlier, fresh))
    for move in found[:MAX_NAMED]:
        note(session, move)
    if len(found) > MAX_NAMED:
        rest = found[MAX_NAMED:]
        first = rest[0]
        others = pluralize(len(rest) - 1, f"further {system.unit}")
        session.record(
            ExternalMove(
                subject=first.subject,
                source=first.source,
                destination=first.destination,
                sentence=f"{first.sentence}{FURTHER}{others}.",
            )
        )


def note_moved_meanwhile(session: Session, step: StepView, holder: str | None) -> None:
    """Put on record that a step found its bundle with another owner than planned."""
    if holder != step.step.owner:  # else something other than its holder changed
        note(session, describe_move(step.step.subject, step.step.owner, holder))


def note(session: Session, move: ExternalMove) -> None:
    """Record an external change, once."""
    known = {
        (item.subject, item.source, item.destination) for item in session.view.external_changes
    }
    if (move.subject, move.source, move.destination) not in known:
        session.record(move)


def describe_move(bundle: str, source: str | None, destination: str | None) -> ExternalMove:
    """Return the record of what changed hands during a run, and not by it."""
    if source is None:
        what = f"was assigned to {destination}"
    elif destination is None:
        what = f"lost its owner {source}"
    else:
        what = f"moved from {source} to {destination}"
    return ExternalMove(
        subject=bundle,
        source=source,
        destination=destination,
        sentence=f"{bundle} {what} during the run, but not as one of its steps.",
    )
