"""Bundles (and partitions) that changed hands during a run, and not by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from core.actions.events import ForeignMove
from core.actions.session import Session
from core.actions.views import RunView, StepView
from core.errors import InvariantError
from core.pegasus.plan.external_changes import foreign_changes
from core.pulsar.steps.base import PulsarStep
from core.snapshot import AnySnapshot, PegasusSnapshot, PulsarSnapshot
from core.snapshot.diff import diff_snapshots
from core.units import counted

MOST_NAMED: Final = 20
"""Foreign moves written down one by one per comparison; a lost broker moves hundreds at once."""


def note_foreign_moves(session: Session, fresh: AnySnapshot) -> None:
    """Compare with the session's snapshot, put foreign moves on record and keep the fresh one."""
    earlier, session.snapshot = session.snapshot, fresh
    if earlier is None or earlier.manifest.taken_at > fresh.manifest.taken_at:
        return
    if isinstance(fresh, PulsarSnapshot) and isinstance(earlier, PulsarSnapshot):
        thing = "bundle"
        found = list(by_lost_broker(foreign_moves(session.view, earlier, fresh), fresh))
    elif isinstance(fresh, PegasusSnapshot) and isinstance(earlier, PegasusSnapshot):
        thing = "partition"
        found = list(foreign_changes(session.view, earlier, fresh))
    else:
        raise InvariantError("Two snapshots of one run are of different systems.")
    for move in found[:MOST_NAMED]:
        note(session, move)
    if len(found) > MOST_NAMED:
        rest = found[MOST_NAMED:]
        first = rest[0]
        session.record(
            ForeignMove(
                bundle=first.bundle,
                source=first.source,
                destination=first.destination,
                sentence=f"{first.sentence} So did {counted(len(rest) - 1, f'further {thing}')}.",
            )
        )


def by_lost_broker(moves: Iterable[ForeignMove], later: PulsarSnapshot) -> Iterator[ForeignMove]:
    """Tell what lost its owner with its broker as one; yield all other moves as they are."""
    live = set(later.brokers["broker"].to_pylist())
    lost: dict[str, list[ForeignMove]] = {}
    for move in moves:
        if move.source is None or move.source in live:
            yield move
        else:
            lost.setdefault(move.source, []).append(move)
    for broker, gone in lost.items():
        sentence = f"{broker} left the cluster: {counted(len(gone), 'bundle')} lost their owner."
        yield ForeignMove(bundle=gone[0].bundle, source=broker, destination=None, sentence=sentence)


def note_moved_meanwhile(session: Session, step: StepView, holder: str | None) -> None:
    """Put on record that a step found its bundle with another owner than planned."""
    if holder != step.step.owner:  # else it changed in another way than by its holder
        note(session, _move(step.step.subject, step.step.owner, holder))


def note(session: Session, move: ForeignMove) -> None:
    """Put a foreign move on record, once."""
    known = {(item.bundle, item.source, item.destination) for item in session.view.foreign_moves}
    if (move.bundle, move.source, move.destination) not in known:
        session.record(move)


def foreign_moves(
    view: RunView, earlier: PulsarSnapshot, later: PulsarSnapshot
) -> Iterator[ForeignMove]:
    """Yield what changed hands from one snapshot to the next and is not the run's own doing."""
    begun = {
        step.step.subject: step
        for step in view.steps
        if step.begun_at is not None and step.step.namespace is not None
    }
    own = (step.step for step in begun.values() if isinstance(step.step, PulsarStep))
    unloaded = [step for step in own if step.unloads]
    for row in diff_snapshots(earlier, later).moved.to_pylist():  # only what moved: few
        bundle = row["bundle"]
        if bundle not in begun and not any(step.covers(bundle) for step in unloaded):
            yield _move(bundle, row["from_broker"], row["to_broker"])
    # the run's own bundles moved in any case: what counts is where their steps left them
    for bundle, holder in _owners(later, begun):
        left_with = _left_with(begun[bundle])
        if left_with is not None and holder != left_with:
            yield _move(bundle, left_with, holder)


def _owners(snapshot: PulsarSnapshot, bundles: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Yield ``(bundle, owner)`` of those bundles whose owner, or that there is none, was read."""
    table = snapshot.bundles
    wanted = pc.is_in(table["bundle"], value_set=pa.array(list(bundles), pa.string()))
    known = pc.and_(wanted, pc.is_valid(table["owner_source"]))
    for row in table.select(["bundle", "owner"]).filter(known).to_pylist():
        yield row["bundle"], row["owner"]


def _left_with(step: StepView) -> str | None:
    """Broker that the step left the bundle with; ``None`` where its next owner is its own doing."""
    ending = step.ending
    if ending is None or ending.state == "UNKNOWN":
        return None
    if ending.after is not None:
        return ending.after.holder
    return step.step.owner  # it never left


def _move(bundle: str, source: str | None, destination: str | None) -> ForeignMove:
    if source is None:
        what = f"was taken up by {destination}"
    elif destination is None:
        what = f"lost its owner {source}"
    else:
        what = f"went from {source} to {destination}"
    return ForeignMove(
        bundle=bundle,
        source=source,
        destination=destination,
        sentence=f"{bundle} {what} during the run, and not by it.",
    )
