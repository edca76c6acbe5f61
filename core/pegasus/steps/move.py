"""Move a replica: everything Trimtab knows about this kind of step but how to send it.

The other half is :mod:`connectors.pegasus.actions.move`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from core.errors import UnknownNameError
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import MOVE_KINDS, Move, Proposal, ProposalContext, propose_move
from core.pegasus.steps.base import PlanBuilder, ProjectedState, Role
from core.pegasus.steps.partition import Partition
from core.pegasus.steps.proposal import ProposalStep, moved_since, refusal_of, stays
from core.step import Diagnostic, Executed, Inverse, Phrase

_VERBS: Final[Mapping[Move, tuple[str, str]]] = {
    "move_pri": ("Move the primary of", "Moving the primary of"),
    "copy_pri": ("Copy the primary of", "Copying the primary of"),
    "copy_sec": ("Copy a secondary of", "Copying a secondary of"),
}

_MOVED_PRIMARY: Final = Phrase("move", "primary", "moved", "moved", order=1)


class MoveReplica(ProposalStep, frozen=True, kw_only=True, tag="move_replica"):
    """Move a primary, or copy a replica from one node to another, as ``balance`` of the shell.

    Attributes:
        partition: As it was when the plan was made.
        move: ``move_pri`` (roles change, no data moves), ``copy_pri`` or ``copy_sec``.
        source: Registered name of the node that gives.
        target: Registered name of the node that takes.
        size_mb: What is copied; ``None`` if unknown, 0: nothing.
    """

    phrase: ClassVar[Phrase] = Phrase("copy", "replica", "copied", "was copied", order=1)

    partition: Partition
    move: Move
    source: str
    target: str
    size_mb: float | None = None

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
        """The node that gives."""
        return self.source

    @property
    def destination(self) -> str | None:
        """The node that takes."""
        return self.target

    # -- capabilities ---------------------------------------------------------------------------

    @property
    def counted_as(self) -> Phrase:
        """A moved primary, where only roles change; else a copied replica."""
        return _MOVED_PRIMARY if self.move == "move_pri" else self.phrase

    @property
    def proposed(self) -> tuple[Partition, ...]:
        """The partition."""
        return (self.partition,)

    def nodes_of(self, gpid: str | None = None) -> tuple[str, ...]:
        """Return both nodes."""
        del gpid
        return self.source, self.target

    @property
    def roles(self) -> Mapping[str, Role]:
        """The target."""
        return {self.partition.gpid: Role(self.target, self.move != "copy_sec")}

    @property
    def copied_mb(self) -> float | None:
        """Its size."""
        return self.size_mb

    @property
    def moved_primaries(self) -> int:
        """One, where it only changes roles."""
        return int(self.move == "move_pri")

    @property
    def copied_replicas(self) -> int:
        """One, where it copies."""
        return int(self.move != "move_pri")

    @property
    def not_undone(self) -> str:
        """That data is copied a second time."""
        if self.move == "move_pri":
            return "Clients followed a moved primary; the undo makes them look it up again."
        return "The undo copies the data of moved replicas again."

    # -- text -----------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return ``Move the primary of 2.3 (temp) from n1:34801 to n2:34801``."""
        return f"{_VERBS[self.move][0]} {self._describe_route()}"

    def describe_progress(self) -> str:
        """Return ``Moving the primary of 2.3 (temp) from n1:34801 to n2:34801``."""
        return f"{_VERBS[self.move][1]} {self._describe_route()}"

    def _describe_route(self) -> str:
        name = f"{self.partition.gpid} ({self.partition.table})"
        return f"{name} from {self.source} to {self.target}"

    def command_lines(self) -> tuple[str, ...]:
        """Return the ``balance`` line of the shell."""
        words = ["balance", "-g", self.partition.gpid, "-p", self.move]
        return (shlex.join([*words, "-f", self.source, "-t", self.target]),)

    # -- precondition, effect and inverse -------------------------------------------------------

    def proposal(self, context: ProposalContext, config: PartitionConfig) -> Proposal:
        """Return the move."""
        return propose_move(context, config, MOVE_KINDS[self.move], self.source, self.target)

    def check(self, state: ProjectedState) -> Diagnostic | None:
        """Check both nodes and their roles."""
        return self.check_partition(state, self.partition)

    def add_to(self, plan: PlanBuilder) -> None:
        """Add it with the partition as of now."""
        plan.move(self.partition.gpid, self.move, self.source, self.target)

    def inverse(self, done: Executed, plan: PlanBuilder) -> Iterator[Inverse]:
        """Yield the move back, unless the partition was changed since."""
        del done
        gpid, source, target = self.partition.gpid, self.source, self.target
        try:
            config = plan.state.config(gpid)
        except UnknownNameError as exc:
            yield stays("undo_gone", gpid, exc.message, exc.hint)
            return
        held = config.secondaries if self.move == "copy_sec" else (config.primary,)
        if target not in held:
            yield moved_since(config, source if source in held else None)
            return

        def propose() -> None:
            plan.check_table(config)
            propose_move(
                plan.state.proposal_context(), config, MOVE_KINDS[self.move], target, source
            )

        yield refusal_of(gpid, propose) or Inverse(
            MoveReplica(
                partition=self.partition, move=self.move, source=self.target, target=self.source
            )
        )
