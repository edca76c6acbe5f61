"""Moving a replica: what is observed, sent and judged.

The other half is :mod:`core.pegasus.steps.move`.
"""

from __future__ import annotations

from connectors.pegasus.acting.proposing import (
    ROLES_WITHIN_S,
    PartitionAction,
    ProposalPort,
    copy_timeout_s,
)
from connectors.pegasus.acting.verdict import TargetRoles, wanted_of_move
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import MOVE_KINDS, Proposal, ProposalContext
from core.pegasus.steps.move import MoveReplica


class MoveAction(PartitionAction):
    """One ``balance`` of the shell: roles change, or a replica is copied from node to node.

    Args:
        step: What to do.
        cluster: Where.
    """

    def __init__(self, step: MoveReplica, cluster: ProposalPort) -> None:
        super().__init__(step.partition, cluster)
        self._step = step

    @property
    def timeout_s(self) -> float:
        """A minute for roles; for a copy as long as it takes at a slow rate."""
        if self._step.move == "move_pri":
            return ROLES_WITHIN_S
        return copy_timeout_s(self._step.size_mb)

    def _wanted(self, before: PartitionConfig) -> TargetRoles:
        step = self._step
        return wanted_of_move(MOVE_KINDS[step.move], before, step.source, step.target)

    def _has_role(self, now: PartitionConfig) -> bool:
        step = self._step
        if step.move == "copy_sec":
            return step.source in now.secondaries and step.target not in now.members
        if step.move == "move_pri":
            return now.primary == step.source and step.target in now.secondaries
        return now.primary == step.source and step.target not in now.members

    def _built(self, context: ProposalContext, config: PartitionConfig) -> Proposal:
        return self._step.proposal(context, config)

    def _done(self) -> str:
        step, gpid = self._step, self._partition.gpid
        if step.move == "copy_sec":
            return f"A secondary of {gpid} moved from {step.source} to {step.target}, as requested."
        return f"The primary of {gpid} moved from {step.source} to {step.target}, as requested."
