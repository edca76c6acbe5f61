"""What a snapshot after a run shows: partitions that others moved, and the run's own effect."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from core.actions.events import ExternalMove, MeasuredNode, RunMeasured
from core.actions.model import RunId
from core.actions.views import RunView
from core.pegasus.ids import gpid_text
from core.pegasus.levels import FunctionLevel
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.base import PegasusStep
from core.snapshot.pegasus import PegasusSnapshot
from core.units import pluralize

_KEYS = ["app_id", "index"]
_MEMBERS = ["primary", "secondaries"]


def external_changes(
    view: RunView, earlier: PegasusSnapshot, later: PegasusSnapshot
) -> Iterator[ExternalMove]:
    """Yield the partitions that changed between two snapshots, except by the run.

    The replicas of a node that died count as one change. What the balancer did while the run
    itself had the level at lively is the run's own doing.
    """
    own = {gpid for step in view.steps if step.begun_at is not None for gpid in step.step.touched}
    alive = pc.field("is_alive")
    live = set(later.tables["nodes"].filter(alive)["node"].to_pylist())
    is_balancing = _was_lively(view, earlier.manifest.taken_at)
    lost: dict[str, list[ExternalMove]] = {}
    for row in changed_partitions(earlier, later).to_pylist():  # only what changed: few
        move = None if gpid_text(row["app_id"], row["index"]) in own else _change(row)
        if move is None:
            continue
        if move.source is not None and move.source not in live:
            lost.setdefault(move.source, []).append(move)
        elif not is_balancing:
            yield move
    for node, gone in lost.items():
        sentence = f"{node} is no longer alive: {pluralize(len(gone), 'partition')} lost it."
        yield ExternalMove(
            subject=gone[0].subject, source=node, destination=None, sentence=sentence
        )


def changed_partitions(earlier: PegasusSnapshot, later: PegasusSnapshot) -> pa.Table:
    """Return partitions of both whose ballot grew, with members before (``was_``) and now."""
    columns = [*_KEYS, "ballot", *_MEMBERS]
    before = earlier.tables["partitions"].select(columns)
    before = before.rename_columns([*_KEYS, "was_ballot", *(f"was_{name}" for name in _MEMBERS)])
    now = later.tables["partitions"].select(columns)
    # lists cannot go through a join: rows are found by their numbers
    numbered = before.select([*_KEYS, "was_ballot"]).append_column(
        "was_row", pa.array(range(before.num_rows), pa.int64())
    )
    found = now.select([*_KEYS, "ballot"]).append_column(
        "now_row", pa.array(range(now.num_rows), pa.int64())
    )
    joined = found.join(numbered, _KEYS, join_type="inner")
    joined = joined.filter(pc.not_equal(joined["ballot"], joined["was_ballot"])).sort_by("now_row")
    result = now.take(joined["now_row"])
    was = before.take(joined["was_row"])
    for name in _MEMBERS:
        result = result.append_column(f"was_{name}", was[f"was_{name}"])
    return result


def _change(row: dict[str, Any]) -> ExternalMove | None:
    """Return the membership change of a partition, or ``None``."""
    gpid = gpid_text(row["app_id"], row["index"])
    was, now = row["was_primary"], row["primary"]
    before = {was, *row["was_secondaries"]} - {None}
    after = {now, *row["secondaries"]} - {None}
    left, joined = sorted(before - after), sorted(after - before)
    if was != now:
        words = f"its primary changed from {was or 'none'} to {now or 'none'}"
        return _move(gpid, was, now, words)
    if not left and not joined:
        return None
    changes = [
        f"{', '.join(names)} {verb} it" for names, verb in ((left, "left"), (joined, "joined"))
    ]
    words = " and ".join(one for one, names in zip(changes, (left, joined), strict=True) if names)
    return _move(gpid, next(iter(left), None), next(iter(joined), None), words)


def _move(gpid: str, source: str | None, destination: str | None, words: str) -> ExternalMove:
    return ExternalMove(
        subject=gpid,
        source=source,
        destination=destination,
        sentence=f"Partition {gpid}: {words} during the run (external change).",
    )


def _was_lively(view: RunView, moment: datetime) -> bool:
    """Whether the run had the level at lively at that moment or later."""
    is_lively = False
    for step in view.steps:
        level = step.step.sets_level if isinstance(step.step, PegasusStep) else None
        if level is None or step.state != "DONE":
            continue
        if level is FunctionLevel.LIVELY:
            is_lively = True
        elif step.ended_at is not None and step.ended_at < moment:
            is_lively = False
    return is_lively


def measured(
    view: RunView, snapshot: PegasusSnapshot, disturbed_by: RunId | None = None
) -> RunMeasured:
    """Return the measurements of ``snapshot`` for the nodes that the run touched.

    Args:
        view: A run that has ended.
        snapshot: Taken some time after its end.
        disturbed_by: Another run of the cluster that began a step in between; ``None`` if none did.
    """
    return RunMeasured(
        snapshot_id=snapshot.snapshot_id,
        taken_at=snapshot.manifest.taken_at,
        usage_deviation=None,
        throughput_deviation=None,
        disturbed_by=disturbed_by,
        nodes=_measured_nodes(view, snapshot),
    )


def _measured_nodes(view: RunView, snapshot: PegasusSnapshot) -> tuple[MeasuredNode, ...]:
    """Count what the nodes that the plan spoke of lead and serve; all of them if it named none."""
    columns = PegasusFacts(snapshot).columns
    leads = columns.counts(primaries_only=True).sum(axis=0)
    serves = columns.counts(primaries_only=False).sum(axis=0)
    places = {node: place for place, node in enumerate(columns.nodes)}
    named = [item.node for item in view.plan.expected.nodes] or list(columns.nodes)
    return tuple(
        MeasuredNode(
            node=node, primaries=int(leads[places[node]]), replicas=int(serves[places[node]])
        )
        for node in dict.fromkeys(named)
        if node in places
    )
