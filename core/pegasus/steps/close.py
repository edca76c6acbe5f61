"""Close replicas: everything Trimtab knows about this kind of step but how to send it.

The other half is :mod:`connectors.pegasus.actions.close`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from core.pegasus.steps.base import PegasusStep, PlanBuilder, ProjectedState
from core.step import Diagnostic, Executed, Inverse, Phrase
from core.units import pluralize


class CloseReplicas(PegasusStep, frozen=True, kw_only=True, tag="close_replicas"):
    """Close replicas on a node that are no members any more (``replica.kill_partition``).

    Attributes:
        node: Registered name.
        partitions: gpids.
    """

    phrase: ClassVar[Phrase] = Phrase("close replicas of", "node", "closed", "was closed", order=4)

    node: str
    partitions: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The node."""
        return self.node

    @property
    def owner(self) -> str | None:
        """The node."""
        return self.node

    @property
    def recorded_as(self) -> tuple[str, ...]:
        """The partitions."""
        return self.partitions

    # -- capabilities ---------------------------------------------------------------------------

    @property
    def touched(self) -> tuple[str, ...]:
        """The partitions."""
        return self.partitions

    @property
    def has_before_and_after(self) -> bool:
        """Nothing goes from or to the node."""
        return False

    def fails_waits(self, code: str) -> bool:
        """Return whether the node still serves a partition."""
        return code == "still_member"

    # -- text -----------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return ``Close 2 replicas on n1:34801``."""
        return f"Close {pluralize(len(self.partitions), 'replica')} on {self.node}"

    def describe_progress(self) -> str:
        """Return ``Closing 2 replicas on n1:34801``."""
        return f"Closing {pluralize(len(self.partitions), 'replica')} on {self.node}"

    def command_lines(self) -> tuple[str, ...]:
        """Return one remote command a replica."""
        return tuple(
            f"remote_command -l {self.node} replica.kill_partition {gpid.replace('.', ' ')}"
            for gpid in self.partitions
        )

    # -- precondition and inverse ---------------------------------------------------------------

    def check(self, state: ProjectedState) -> Diagnostic | None:
        """Check that the node is alive and a member of none of the partitions."""
        refusal = state.check_node(self.node)
        if refusal is not None:
            return refusal
        for gpid in self.partitions:
            config = state.config(gpid)
            if config is not None and self.node in config.members:
                return Diagnostic(
                    severity="error",
                    code="still_member",
                    sentence=f"{self.node} serves partition {gpid}: its replica is not closed.",
                    subject=gpid,
                    hint="Remove the node from the partition first.",
                )
        return None

    def add_to(self, plan: PlanBuilder) -> None:
        """Add it unchanged."""
        plan.append(self)

    def inverse(self, done: Executed, plan: PlanBuilder) -> Iterator[Inverse]:
        """Yield no inverse."""
        del done, plan
        yield Inverse(
            finding=Diagnostic(
                severity="warning",
                code="undo_closed",
                sentence=f"{self.node}: a plan cannot reopen closed replicas.",
                subject=self.node,
                hint="The guardian adds a replica there when one is missing.",
            )
        )
