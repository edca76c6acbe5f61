"""What became of a proposal for one partition, from what was seen before and what is seen now.

A proposal that was queued may be executed at any later tick, so "not yet" only ever follows from
"not any more" where something rules it out: another primary was chosen, or who had it queued leads
no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.pegasus.balance.model import ConfigType, PlanKind, ProposalAction
from core.pegasus.partition import PartitionConfig, membership
from core.pegasus.proposal import move_actions
from core.pegasus.reconfigure import reconcile

State = Literal["done", "elsewhere", "returned", "half_done", "waiting"]


@dataclass(frozen=True)
class TargetRoles:
    """Target roles of a proposal.

    Attributes:
        actions: What is proposed.
        source: Node that gives up its role; ``None`` if no node does.
        destination: Node that takes one; ``None`` if no node does.
        is_primary: The role is that of the primary, else that of a secondary.
        is_copy: The destination copies the data first; the source ends without a replica.
    """

    actions: tuple[ProposalAction, ...]
    source: str | None
    destination: str | None
    is_primary: bool
    is_copy: bool = False

    def is_reached(self, now: PartitionConfig) -> bool:
        """Return whether the roles are as requested, regardless of other changes."""
        if self.is_primary and now.primary != self.destination:
            return False
        if (
            not self.is_primary
            and self.destination is not None
            and self.destination not in now.secondaries
        ):
            return False
        leaves = self.is_copy or not self.is_primary
        return not (leaves and self.source is not None and self.source in now.members)


@dataclass(frozen=True)
class ProposalVerdict:
    """Outcome of a proposal.

    Attributes:
        state: ``done``; ``elsewhere``: the primary stepped down and another node was chosen;
            ``returned``: a replica was taken away and added again; ``half_done``: it never will be
            whole; ``waiting``: nothing or a part of it has happened, and the rest may.
        sentence: The same for people.
    """

    state: State
    sentence: str


def judge(wanted: TargetRoles, before: PartitionConfig, now: PartitionConfig) -> ProposalVerdict:
    """Return the result of a proposal.

    Args:
        wanted: What was proposed.
        before: The partition just before.
        now: As it is.
    """
    found = reconcile(before, wanted.actions, now)
    if found.state == "done" or (now.ballot > before.ballot and wanted.is_reached(now)):
        return ProposalVerdict("done", found.sentence)
    if found.state in ("not_begun", "under_way"):
        return ProposalVerdict("waiting", found.sentence)
    sentence = f"{found.sentence} Before: {membership(before)}."
    if wanted.is_primary and now.primary not in (None, wanted.source, wanted.destination):
        return ProposalVerdict("elsewhere", sentence)
    if _has_stepped_back(wanted, before, now):
        return ProposalVerdict("half_done", sentence)
    if _has_returned(wanted, before, now):
        return ProposalVerdict("returned", sentence)
    return ProposalVerdict("waiting", sentence)


def _has_stepped_back(wanted: TargetRoles, before: PartitionConfig, now: PartitionConfig) -> bool:
    """Return whether the destination of a move left the partition and cannot be primary."""
    if not wanted.is_primary or wanted.is_copy or wanted.destination in now.members:
        return False
    return now.primary is not None and now.ballot >= before.ballot + 2


def _has_returned(wanted: TargetRoles, before: PartitionConfig, now: PartitionConfig) -> bool:
    """Return whether a removed secondary was added again as the last one."""
    return (
        wanted.destination is None
        and now.ballot >= before.ballot + 2
        and bool(now.secondaries)
        and now.secondaries[-1] == wanted.source
        and set(now.members) == set(before.members)
    )


def wanted_of_move(
    kind: PlanKind, before: PartitionConfig, source: str, target: str
) -> TargetRoles:
    """Return the target roles of a move or a copy."""
    return TargetRoles(
        actions=move_actions(kind, before.primary or source, source, target),
        source=source,
        destination=target,
        is_primary=kind is not PlanKind.COPY_SECONDARY,
        is_copy=kind is not PlanKind.MOVE_PRIMARY,
    )


def wanted_of_change(change: ConfigType, before: PartitionConfig, node: str) -> TargetRoles:
    """Return the target roles of a single change."""
    is_primary = change is ConfigType.ASSIGN_PRIMARY
    is_taking = is_primary or change is ConfigType.ADD_SECONDARY
    target = node if is_primary else before.primary or node
    return TargetRoles(
        actions=(ProposalAction(change, target, node),),
        source=None if is_taking else node,
        destination=node if is_taking else None,
        is_primary=is_primary,
        is_copy=change is ConfigType.ADD_SECONDARY,
    )
