"""Replicas that are elsewhere than when a run began, by no step of it, and their way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from core.actions.undo import cannot_go_back, left_moved, not_in_plan
from core.actions.views import RunView
from core.errors import OpsError
from core.pegasus.ids import gpid_text
from core.pegasus.partition import PartitionConfig
from core.pegasus.plan.draft import Draft
from core.pegasus.plan.external_changes import changed_partitions
from core.pegasus.proposal import MOVE_KINDS, Move, propose_move
from core.snapshot.pegasus import PegasusSnapshot
from core.step import Diagnostic
from core.units import pluralize

_MAX_MOVES_OF_ONE = 16
"""More moves of one partition than any number of replicas needs."""


class FormerPartition(NamedTuple):
    """A partition with other members than when a run began.

    Attributes:
        gpid: ``app.index``.
        primary: Then; ``None`` if it had none.
        members: Then, the primary among them.
        has_other_primary: Its primary is another node now.
        joined: How many nodes have a replica now that had none.
    """

    gpid: str
    primary: str | None
    members: frozenset[str]
    has_other_primary: bool
    joined: int


def moved_since(
    view: RunView, start: PegasusSnapshot, now: PegasusSnapshot
) -> list[FormerPartition]:
    """Return the partitions with other members, or another primary, than when a run began.

    Args:
        view: The run; partitions of its own steps are left out, its undo is about them.
        start: A snapshot of when it began.
        now: A fresh one.
    """
    own = {gpid for one in view.steps if one.begun_at is not None for gpid in one.step.touched}
    found = []
    for row in changed_partitions(start, now).to_pylist():  # only what changed: few
        before = frozenset({row["was_primary"], *row["was_secondaries"]} - {None})
        after = frozenset({row["primary"], *row["secondaries"]} - {None})
        former = FormerPartition(
            gpid=gpid_text(row["app_id"], row["index"]),
            primary=row["was_primary"],
            members=before,
            has_other_primary=row["was_primary"] != row["primary"],
            joined=len(after - before),
        )
        if former.gpid not in own and (former.has_other_primary or before != after):
            found.append(former)
    return found


def describe_moved(moved: Sequence[FormerPartition]) -> str:
    """Return ``12 primaries moved and 41 replicas copied to other nodes``."""
    primaries = sum(one.has_other_primary for one in moved)
    replicas = sum(one.joined for one in moved)
    parts = []
    if primaries:
        parts.append(f"{'1 primary' if primaries == 1 else f'{primaries:,} primaries'} moved")
    if replicas:
        parts.append(f"{pluralize(replicas, 'replica')} copied to other nodes")
    return " and ".join(parts) or f"{pluralize(len(moved), 'partition')} lost a replica"


def add_moves_back(
    draft: Draft,
    view: RunView,
    moved: Sequence[FormerPartition],
    start: PegasusSnapshot,
    max_moves: int,
) -> list[Diagnostic]:
    """Add the moves that bring replicas back, and return what stays.

    Args:
        draft: The plan, with the level that its earlier steps leave.
        moved: Of :func:`moved_since`.
        start: The snapshot that they were found by.
        max_moves: Most moves; 0: none is asked for.
    """
    if not moved:
        return []
    text, at = describe_moved(moved), start.manifest.taken_at
    if not max_moves:
        return [left_moved(view.run_id, text, at)]
    before = len(draft.steps)
    refused: list[tuple[str, str]] = []
    left = 0
    for former in moved:
        try:
            left += not _bring_back(draft, former, before + max_moves)
        except OpsError as exc:
            refused.append((former.gpid, exc.message))
    return [
        left_moved(view.run_id, text, at, back=len(draft.steps) - before, is_asked=True),
        *cannot_go_back(refused, "partition"),
        *not_in_plan(left, "partition", max_moves),
    ]


def _bring_back(draft: Draft, former: FormerPartition, max_steps: int) -> bool:
    """Add the moves of one partition; return whether the plan had room for all of them.

    Raises:
        OpsError: One of them is refused; those before it are in the plan.
    """
    for _ in range(_MAX_MOVES_OF_ONE):
        config = draft.state.config(former.gpid)
        found = next_move(config, former)
        if found is None:
            break
        if len(draft.steps) >= max_steps:
            return False
        move, source, target = found
        draft.check_table(config)
        propose_move(draft.state.proposal_context(), config, MOVE_KINDS[move], source, target)
        draft.move(former.gpid, move, source, target)
    return True


def next_move(config: PartitionConfig, former: FormerPartition) -> tuple[Move, str, str] | None:
    """Return the move that brings a partition nearer to its former members; ``None`` if none does.

    A replica goes from a node that has joined to one that has left; the former primary leads again
    as soon as it is a member.

    Args:
        config: The partition now.
        former: Then.
    """
    if config.primary is None:
        return None
    joined = [node for node in config.members if node not in former.members]
    gone = sorted(former.members - set(config.members))
    first = former.primary
    if first in config.secondaries:
        return "move_pri", config.primary, str(first)
    if not gone or not joined:
        return None
    target = first if first in gone else gone[0]
    if config.primary in joined and target == first:
        return "copy_pri", config.primary, str(target)
    source = next((node for node in joined if node != config.primary), None)
    return None if source is None else ("copy_sec", source, str(target))
