"""Changing a replica: what is observed, sent and judged.

The other half is :mod:`core.pegasus.steps.change`.
"""

from __future__ import annotations

from connectors.pegasus.acting.proposing import (
    COPY_WITHIN_S,
    ROLES_WITHIN_S,
    PartitionAction,
    ProposalPort,
)
from connectors.pegasus.acting.verdict import TargetRoles, wanted_of_change
from core.pegasus.balance.model import ConfigType
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import Proposal, ProposalContext
from core.pegasus.steps.change import ChangeReplica


class ChangeAction(PartitionAction):
    """One ``propose`` of the shell, without force.

    Args:
        step: What to do.
        cluster: Where.
    """

    def __init__(self, step: ChangeReplica, cluster: ProposalPort) -> None:
        super().__init__(step.partition, cluster)
        self._step = step
        self._change = ConfigType[step.change]

    @property
    def timeout_s(self) -> float:
        """A minute for roles, longer for an addition, which copies."""
        return COPY_WITHIN_S if self._change is ConfigType.ADD_SECONDARY else ROLES_WITHIN_S

    def _wanted(self, before: PartitionConfig) -> TargetRoles:
        return wanted_of_change(self._change, before, self._step.node)

    def _has_role(self, now: PartitionConfig) -> bool:
        node = self._step.node
        if self._change is ConfigType.ASSIGN_PRIMARY:
            return now.primary is None
        is_taking = self._change is ConfigType.ADD_SECONDARY
        return node not in now.members if is_taking else node in now.secondaries

    def _built(self, context: ProposalContext, config: PartitionConfig) -> Proposal:
        return self._step.proposal(context, config)

    def _done(self) -> str:
        node, gpid = self._step.node, self._partition.gpid
        done = {
            ConfigType.ASSIGN_PRIMARY: f"{node} is the primary of {gpid}.",
            ConfigType.ADD_SECONDARY: f"{gpid} has a secondary on {node}.",
            ConfigType.DOWNGRADE_TO_INACTIVE: f"{node} no longer serves {gpid}.",
            ConfigType.REMOVE: f"The replica of {gpid} on {node} was removed.",
        }
        return done[self._change]
