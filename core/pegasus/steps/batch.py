"""Empty a node in a batch: everything Trimtab knows about this kind of step but how to send it.

The other half is :mod:`connectors.pegasus.actions.batch`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import msgspec

from core.errors import OpsError, UnknownNameError
from core.pegasus.balance.model import ConfigType, PlanKind
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import Proposal, ProposalContext, propose_change, propose_move
from core.pegasus.steps.base import PegasusStep, PlanBuilder, ProjectedState, Role
from core.pegasus.steps.change import add_again, propose_line
from core.pegasus.steps.partition import Partition
from core.pegasus.steps.proposal import ProposalStep, moved_since, stays
from core.step import Diagnostic, Executed, Inverse, Phrase, ResultFlags
from core.units import pluralize


class PartitionProposal(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of many; ``target``: its new primary, ``None`` for none."""

    partition: Partition
    target: str | None = None


class ProposeMany(ProposalStep, frozen=True, kw_only=True, tag="propose_many"):
    """The same for many partitions of one node, all proposed together and awaited together.

    Attributes:
        node: Registered name of the node that gives up primaries or replicas.
        verb: ``move_pri`` (each to its ``target``) or ``DOWNGRADE_TO_INACTIVE`` of secondaries.
        items: The partitions.
    """

    phrase: ClassVar[Phrase] = Phrase(
        "drain", "node", "drained", "was drained", order=3, is_by_subject=True
    )
    result_flags: ClassVar[Mapping[str, ResultFlags]] = {
        **PegasusStep.result_flags,
        "lost_with_leader": ResultFlags(is_repeatable=True),
        "not_sent": ResultFlags(is_repeatable=True),
        "table_gone": ResultFlags(is_needless=True),  # the node has nothing of it
    }

    node: str
    verb: Literal["move_pri", "DOWNGRADE_TO_INACTIVE"]
    items: tuple[PartitionProposal, ...]

    @property
    def subject(self) -> str:
        """The node."""
        return self.node

    @property
    def scopes(self) -> tuple[str, ...]:
        """The tables."""
        return tuple(dict.fromkeys(item.partition.table for item in self.items))

    @property
    def owner(self) -> str | None:
        """The node."""
        return self.node

    @property
    def recorded_as(self) -> tuple[str, ...]:
        """The partitions."""
        return self.touched

    # -- capabilities ---------------------------------------------------------------------------

    @property
    def proposed(self) -> tuple[Partition, ...]:
        """The partitions."""
        return tuple(item.partition for item in self.items)

    def nodes_of(self, gpid: str | None = None) -> tuple[str, ...]:
        """Return the node, and who becomes a primary."""
        targets = (
            item.target
            for item in self.items
            if item.target is not None and gpid in (None, item.partition.gpid)
        )
        return self.node, *targets

    @property
    def has_before_and_after(self) -> bool:
        """Nothing goes from or to the node as a whole."""
        return False

    @property
    def is_done_in_parts(self) -> bool:
        """Each partition is proposed by itself."""
        return True

    @property
    def emptied_node(self) -> str | None:
        """The node."""
        return self.node

    @property
    def roles(self) -> Mapping[str, Role]:
        """The new primaries, where roles change."""
        return {
            item.partition.gpid: Role(item.target, is_primary=True)
            for item in self.items
            if item.target is not None
        }

    def is_undone(self, config: PartitionConfig) -> bool:
        """Return whether the node is again primary, or member, of the partition."""
        if self.verb == "move_pri":
            return config.primary == self.node
        return self.node in config.members

    @property
    def moved_primaries(self) -> int:
        """All of them, where roles change."""
        return len(self.items) if self.verb == "move_pri" else 0

    @property
    def removed_replicas(self) -> int:
        """All of them, where replicas are taken away."""
        return 0 if self.verb == "move_pri" else len(self.items)

    def fails_waits(self, code: str) -> bool:
        """Return that the node is not drained."""
        del code
        return True

    @property
    def not_undone(self) -> str:
        """Changes by the guardian when replicas were removed from the node."""
        if self.verb == "move_pri":
            return "Clients followed moved primaries; the undo makes them look these up again."
        return "Replicas that the guardian added elsewhere for a drained node stay there."

    # -- text -----------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return ``Move 12 primaries off n1:34801``, or ``Take n1:34801 out of 12 partitions``."""
        return self._describe("Move", "Take")

    def describe_progress(self) -> str:
        """Return the same with ``Moving`` or ``Taking``."""
        return self._describe("Moving", "Taking")

    def _describe(self, move: str, take: str) -> str:
        number = len(self.items)
        if self.verb == "move_pri":
            primaries = "1 primary" if number == 1 else f"{number:,} primaries"
            return f"{move} {primaries} off {self.node}"
        return f"{take} {self.node} out of {pluralize(number, 'partition')}"

    def command_lines(self) -> tuple[str, ...]:
        """Return one line of the shell a partition."""
        return tuple(self._line(item) for item in self.items)

    def _line(self, item: PartitionProposal) -> str:
        if self.verb != "move_pri":
            return propose_line(item.partition, self.verb, self.node)
        words = ["balance", "-g", item.partition.gpid, "-p", "move_pri"]
        return shlex.join([*words, "-f", self.node, "-t", item.target or ""])

    # -- precondition, effect and inverse -------------------------------------------------------

    def proposal(self, context: ProposalContext, config: PartitionConfig) -> Proposal:
        """Return the proposal for one of its partitions."""
        if self.verb != "move_pri":
            return propose_change(context, config, ConfigType[self.verb], self.node)
        targets = (item.target or "" for item in self.items if item.partition.gpid == config.gpid)
        return propose_move(context, config, PlanKind.MOVE_PRIMARY, self.node, next(targets, ""))

    def check(self, state: ProjectedState) -> Diagnostic | None:
        """Check each partition; what is left of it is still worth doing."""
        problems = [self.check_partition(state, one) for one in self.proposed]
        return next(iter(problems), None) if all(problems) else None

    def add_to(self, plan: PlanBuilder) -> None:
        """Add it unchanged: its partitions were checked one by one."""
        plan.append(self)

    def inverse(self, done: Executed, plan: PlanBuilder) -> Iterator[Inverse]:
        """Yield the inverse of each partition: batches of primaries, or replicas one by one."""
        del done
        yield from self._moves_back(plan) if self.verb == "move_pri" else self._additions(plan)

    def _additions(self, plan: PlanBuilder) -> Iterator[Inverse]:
        for item in reversed(self.items):
            gpid = item.partition.gpid
            try:
                config = plan.state.config(gpid)
            except UnknownNameError as exc:
                yield stays("undo_gone", gpid, exc.message, exc.hint)
            else:
                yield add_again(plan, item.partition, config, self.node)

    def _moves_back(self, plan: PlanBuilder) -> Iterator[Inverse]:
        back: dict[str, list[PartitionProposal]] = {}
        for item in self.items:
            found = self._move_back(plan, item)
            if isinstance(found, Inverse):
                yield found
            elif found is not None and item.target is not None:
                back.setdefault(item.target, []).append(found)
        for node, items in back.items():
            yield Inverse(ProposeMany(node=node, verb="move_pri", items=tuple(items)))

    def _move_back(
        self, plan: PlanBuilder, item: PartitionProposal
    ) -> PartitionProposal | Inverse | None:
        """Return the inverse of one move, and take it for done; or why there is none."""
        state, gpid, target, node = plan.state, item.partition.gpid, item.target, self.node
        try:
            config = state.config(gpid)
        except UnknownNameError as exc:
            return stays("undo_gone", gpid, exc.message, exc.hint)
        if target is None:
            return None
        if config.primary != target:
            return moved_since(config, node if config.primary == node else None)
        try:
            plan.check_table(config)
            found = propose_move(
                state.proposal_context(), config, PlanKind.MOVE_PRIMARY, target, node
            )
        except OpsError as exc:
            return stays("undo_refused", gpid, exc.message, exc.hint)
        back = PartitionProposal(partition=state.partition(config), target=node)
        state.advance(config, found.actions)
        return back
