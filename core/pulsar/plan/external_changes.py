"""Bundles that changed hands during a run, and not by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from core.actions.events import ExternalMove
from core.actions.external_changes import describe_move
from core.actions.views import RunView, StepView
from core.pulsar.steps.base import PulsarStep
from core.snapshot import PulsarSnapshot
from core.snapshot.diff import diff_snapshots
from core.units import pluralize


def by_lost_broker(moves: Iterable[ExternalMove], later: PulsarSnapshot) -> Iterator[ExternalMove]:
    """Yield owner losses with a broker as one change, and all other moves unchanged."""
    live = set(later.brokers["broker"].to_pylist())
    lost: dict[str, list[ExternalMove]] = {}
    for move in moves:
        if move.source is None or move.source in live:
            yield move
        else:
            lost.setdefault(move.source, []).append(move)
    for broker, gone in lost.items():
        sentence = f"{broker} left the cluster: {pluralize(len(gone), 'bundle')} lost their owner."
        yield ExternalMove(
            subject=gone[0].subject, source=broker, destination=None, sentence=sentence
        )


def external_changes(
    view: RunView, earlier: PulsarSnapshot, later: PulsarSnapshot
) -> Iterator[ExternalMove]:
    """Yield the owner changes between two snapshots, except those of the run."""
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
            yield describe_move(bundle, row["from_broker"], row["to_broker"])
    # the run's own bundles moved in any case: what counts is where their steps left them
    for bundle, holder in _owners(later, begun):
        left_with = _left_with(begun[bundle])
        if left_with is not None and holder != left_with:
            yield describe_move(bundle, left_with, holder)


def _owners(snapshot: PulsarSnapshot, bundles: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Yield ``(bundle, owner)`` of those bundles whose owner, or that there is none, was read."""
    table = snapshot.bundles
    wanted = pc.is_in(table["bundle"], value_set=pa.array(list(bundles), pa.string()))
    known = pc.and_(wanted, pc.is_valid(table["owner_source"]))
    for row in table.select(["bundle", "owner"]).filter(known).to_pylist():
        yield row["bundle"], row["owner"]


def _left_with(step: StepView) -> str | None:
    """Broker that the step left the bundle with; ``None`` where its next owner is its own doing."""
    result = step.result
    if result is None or result.state == "UNKNOWN":
        return None
    if result.after is not None:
        return result.after.holder
    return step.step.owner  # it never left
