"""Change a replica: everything Trimtab knows about this kind of step but how to send it.

The other half is :mod:`connectors.pegasus.actions.change`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final, Self

from core.errors import UnknownNameError
from core.pegasus.balance.model import ConfigType
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import Change, Proposal, ProposalContext, propose_change
from core.pegasus.steps.base import PlanBuilder, ProjectedState, Role
from core.pegasus.steps.partition import Partition
from core.pegasus.steps.proposal import (
    ProposalStep,
    moved_since,
    needless,
    refusal_of,
    stays,
)
from core.step import Diagnostic, Executed, Inverse, Phrase
from core.units import pluralize

_VERBS: Final[Mapping[Change, tuple[str, str]]] = {
    "ASSIGN_PRIMARY": ("Make {node} the primary of", "Making {node} the primary of"),
    "ADD_SECONDARY": ("Add a secondary on {node} to", "Adding a secondary on {node} to"),
    "DOWNGRADE_TO_INACTIVE": ("Take {node} out of", "Taking {node} out of"),
    "REMOVE": ("Remove the replica on {node} from", "Removing the replica on {node} from"),
}

_COUNTED_AS: Final[Mapping[Change, Phrase]] = {
    "ASSIGN_PRIMARY": Phrase("assign", "primary", "assigned", "was assigned", order=2),
    "ADD_SECONDARY": Phrase("add", "secondary", "added", "was added", order=2),
}
"""Of the other changes, a replica is removed."""


class ChangeReplica(ProposalStep, frozen=True, kw_only=True, tag="change_replica"):
    """One single safe change of a partition, as ``propose`` of the shell without force.

    Attributes:
        partition: As it was when the plan was made.
        change: Upstream's word without ``CT_``.
        node: Registered name of the node that becomes or ceases to be a member.
    """

    phrase: ClassVar[Phrase] = Phrase("remove", "replica", "removed", "was removed", order=2)

    partition: Partition
    change: Change
    node: str

    @property
    def subject(self) -> str:
        """The partition's gpid."""
        return self.partition.gpid

    @property
    def scopes(self) -> tuple[str, ...]:
        """The table."""
        return (self.partition.table,)

    @property
    def owner(self) -> str | None:
        """The partition's primary."""
        return self.partition.primary

    @property
    def destination(self) -> str | None:
        """The node, where it becomes a member."""
        return self.node if self.change in ("ASSIGN_PRIMARY", "ADD_SECONDARY") else None

    # -- capabilities ---------------------------------------------------------------------------

    @property
    def counted_as(self) -> Phrase:
        """By its change."""
        return _COUNTED_AS.get(self.change, self.phrase)

    @property
    def proposed(self) -> tuple[Partition, ...]:
        """The partition."""
        return (self.partition,)

    def nodes_of(self, gpid: str | None = None) -> tuple[str, ...]:
        """Return the node."""
        del gpid
        return (self.node,)

    @property
    def roles(self) -> Mapping[str, Role]:
        """The node, where it becomes a member."""
        if self.destination is None:
            return {}
        return {self.partition.gpid: Role(self.node, self.change == "ASSIGN_PRIMARY")}

    @property
    def result_goal(self) -> str:
        """That the node was taken out: the guardian may add it again."""
        if self.destination is not None:
            return ""
        return f"{self.node} was removed from {self.partition.gpid}"

    @property
    def copied_mb(self) -> float | None:
        """Unknown, where a secondary is added."""
        return None if self.change == "ADD_SECONDARY" else 0.0

    @property
    def not_undone(self) -> str:
        """That data is copied, or deleted, a second time."""
        if self.change == "ADD_SECONDARY":
            return "The node deletes the copy of an added replica later, if at all."
        if self.change == "ASSIGN_PRIMARY":
            return ""
        return "A replica that is added again copies its data again."

    # -- text -----------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return ``Add a secondary on n4:34801 to 2.3 (temp)``."""
        return f"{_VERBS[self.change][0].format(node=self.node)} {self._describe_partition()}"

    def describe_progress(self) -> str:
        """Return ``Adding a secondary on n4:34801 to 2.3 (temp)``."""
        return f"{_VERBS[self.change][1].format(node=self.node)} {self._describe_partition()}"

    def _describe_partition(self) -> str:
        return f"{self.partition.gpid} ({self.partition.table})"

    @classmethod
    def summarize(cls, steps: Sequence[Self]) -> str:
        """Return ``changes 2 partitions``."""
        return f"changes {pluralize(len(steps), 'partition')}"

    def command_lines(self) -> tuple[str, ...]:
        """Return the ``propose`` line of the shell."""
        return (propose_line(self.partition, self.change, self.node),)

    # -- precondition, effect and inverse -------------------------------------------------------

    def proposal(self, context: ProposalContext, config: PartitionConfig) -> Proposal:
        """Return the change."""
        return propose_change(context, config, ConfigType[self.change], self.node)

    def check(self, state: ProjectedState) -> Diagnostic | None:
        """Check the node and the partition's roles."""
        return self.check_partition(state, self.partition)

    def add_to(self, plan: PlanBuilder) -> None:
        """Add it with the partition as of now."""
        plan.change(self.partition.gpid, self.change, self.node)

    def inverse(self, done: Executed, plan: PlanBuilder) -> Iterator[Inverse]:
        """Yield the removal of what was added, or the addition of what was removed."""
        del done
        gpid, node = self.partition.gpid, self.node
        try:
            config = plan.state.config(gpid)
        except UnknownNameError as exc:
            yield stays("undo_gone", gpid, exc.message, exc.hint)
            return
        if self.change == "ASSIGN_PRIMARY":
            sentence = f"{gpid} keeps its primary {config.primary}: it had none before."
            yield stays("undo_assigned", gpid, sentence)
        elif self.change != "ADD_SECONDARY":
            yield add_again(plan, self.partition, config, node)
        elif node not in config.members:
            yield moved_since(config, f"without {node}")
        else:
            refusal = _refusal(plan, config, ConfigType.REMOVE, node)
            back = ChangeReplica(partition=self.partition, change="REMOVE", node=node)
            yield refusal or Inverse(back)


def propose_line(partition: Partition, change: str, node: str) -> str:
    """Return the ``propose`` line of Pegasus' shell."""
    target = node if change == "ASSIGN_PRIMARY" else partition.primary or ""
    words = ["propose", "-g", partition.gpid, "-p", change, "-t", target, "-n", node]
    return shlex.join(words)


def add_again(plan: PlanBuilder, planned: Partition, config: PartitionConfig, node: str) -> Inverse:
    """Return the step that adds a replica which a step took away.

    Args:
        plan: What it is added to.
        planned: The partition before the run.
        config: The partition now.
        node: Where the replica was.
    """
    gpid = config.gpid
    if node in config.members:
        return needless(gpid, f"{node} already serves {gpid}.")
    refusal = _refusal(plan, config, ConfigType.ADD_SECONDARY, node)
    if refusal is None:
        return Inverse(ChangeReplica(partition=planned, change="ADD_SECONDARY", node=node))
    is_full = config.replica_count >= config.max_replica_count
    return Inverse(finding=refusal.finding, is_compensated=is_full)


def _refusal(
    plan: PlanBuilder, config: PartitionConfig, change: ConfigType, node: str
) -> Inverse | None:
    def propose() -> None:
        plan.check_table(config)
        propose_change(plan.state.proposal_context(), config, change, node)

    return refusal_of(config.gpid, propose)
