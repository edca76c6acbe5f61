"""What every step on a Pegasus cluster has besides: checks on a projected state, an inverse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple, Protocol, Self

from core.pegasus.balance.model import ProposalAction
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import Change, Move, ProposalContext
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.partition import Partition
from core.step import Diagnostic, Executed, Inverse, ResultFlags, Step, StepBase

NodeGoal = Literal["no_primaries", "no_replicas", "gone", "restarted"]


class ProjectedState(Protocol):
    """The cluster as the pending steps before will have made it."""

    def store_level(self, level: FunctionLevel) -> None:
        """Take the level for stored; the effective one may be lower."""
        ...

    @property
    def level(self) -> FunctionLevel | None:
        """The effective level; ``None`` if unknown."""
        ...

    def proposal_context(self) -> ProposalContext:
        """Return the context of proposal checks."""
        ...

    def has_table(self, name: str) -> bool:
        """Return whether a table of that name exists."""
        ...

    def check_node(self, node: str) -> Diagnostic | None:
        """Return the reason a node is excluded: not registered, or not alive."""
        ...

    def config(self, gpid: str) -> PartitionConfig | None:
        """Return a partition after the plan, or ``None`` if not read."""
        ...

    def config_as_read(self, gpid: str) -> PartitionConfig | None:
        """Return the current partition, or ``None`` if not read."""
        ...

    def advance(self, config: PartitionConfig, actions: Sequence[ProposalAction]) -> None:
        """Take the actions for done."""
        ...


class DraftState(Protocol):
    """The cluster as the steps of a plan so far leave it."""

    def config(self, gpid: str) -> PartitionConfig:
        """Return a partition; raise UnknownNameError if it is gone."""
        ...

    def partition(self, config: PartitionConfig) -> Partition:
        """Return a partition as a step holds it."""
        ...

    def proposal_context(self) -> ProposalContext:
        """Return the context of proposal checks."""
        ...

    def advance(self, config: PartitionConfig, actions: Sequence[ProposalAction]) -> None:
        """Take the actions for done."""
        ...


class PlanBuilder(Protocol):
    """A plan that is being made; what is added is checked on the cluster as the plan leaves it."""

    @property
    def facts(self) -> PegasusFacts:
        """The fresh snapshot."""
        ...

    @property
    def state(self) -> DraftState:
        """The cluster as the steps so far leave it."""
        ...

    def check_table(self, config: PartitionConfig) -> None:
        """Raise GuardRefusedError if the partition's table is excluded."""
        ...

    def set_level(self, level: FunctionLevel, *, is_restored: bool = False) -> None:
        """Add the step that sets the function level."""
        ...

    def set_setting(
        self, key: str, value: str, *, server: str | None = None, is_restored: bool = False
    ) -> None:
        """Add the step that changes a setting of servers; raise OpsError if it is refused."""
        ...

    def move(self, gpid: str, move: Move, source: str, target: str) -> None:
        """Add a move or a copy of a replica."""
        ...

    def change(self, gpid: str, change: Change, node: str) -> None:
        """Add a single change of a partition."""
        ...

    def append(self, step: PegasusStep) -> None:
        """Add a step whose parts were checked one by one."""
        ...


class Role(NamedTuple):
    """Required role of a node; ``is_primary`` is false for a secondary."""

    node: str
    is_primary: bool


class PegasusStep(StepBase, frozen=True, kw_only=True):
    """One step on a Pegasus cluster."""

    result_flags: ClassVar[Mapping[str, ResultFlags]] = {
        **Step.result_flags,
        "already_there": ResultFlags(is_needless=True),
        "landed_elsewhere": ResultFlags(differs="moved elsewhere than requested"),
        "returned": ResultFlags(differs="returned to the previous node"),
        "moved_meanwhile": ResultFlags(is_external_change=True),
        "unknown_partition": ResultFlags(is_doubtful=True),
    }

    @property
    def sets_level(self) -> FunctionLevel | None:
        """Function level that it stores, or ``None`` if it does not change the level."""
        return None

    @property
    def is_done_in_parts(self) -> bool:
        """Whether a failed step may be done in part; its inverse is then computed part by part."""
        return False

    @property
    def ends_repaired(self) -> bool:
        """Whether every partition has its replicas when it is done."""
        return False

    @property
    def ends_with_node_back(self) -> bool:
        """Whether a node that had left serves again when it is done."""
        return False

    @property
    def moved_primaries(self) -> int:
        """Primaries that it moves without a copy."""
        return 0

    @property
    def removed_replicas(self) -> int:
        """Replicas of different partitions that it takes away together."""
        return 0

    # -- what it is for -------------------------------------------------------------------------

    @property
    def node_goal(self) -> tuple[str, NodeGoal] | None:
        """A node, and what shall hold of it for good; ``None`` if the step is for no such state."""
        return None

    @property
    def roles(self) -> Mapping[str, Role]:
        """Required roles when it is done, by gpid."""
        return {}

    @property
    def result_goal(self) -> str:
        """Goal that only its result shows, a clause, or ""."""
        return ""

    def is_undone(self, config: PartitionConfig) -> bool:
        """Return whether the node serves the partition again after the step removed it."""
        del config
        return False

    def value_in(self, facts: PegasusFacts) -> str | None:
        """Return the value of its setting in a snapshot, or ``None`` if none or unknown."""
        del facts
        return None

    def describe_dry_run(self, holder: str | None = None) -> str:
        """Return its description in the conditional."""
        del holder
        order = self.describe()
        return f"Would be done: {order[0].lower()}{order[1:]}."

    @classmethod
    def summarize(cls, steps: Sequence[Self]) -> str:
        """Return the clause about a plan's steps of this kind, ``sets the level to lively``.

        Empty for kinds whose replicas are counted in the sentence about the plan.
        """
        del steps
        return ""

    def check(self, state: ProjectedState) -> Diagnostic | None:
        """Return its refusal, or ``None`` after adding it to ``state``."""
        raise NotImplementedError

    def add_to(self, plan: PlanBuilder) -> None:
        """Add it to a plan, with its precondition as of now.

        Raises:
            OpsError: It is refused.
        """
        raise NotImplementedError

    def inverse(self, done: Executed, plan: PlanBuilder) -> Iterator[Inverse]:
        """Yield its inverse; each step is added to the plan before the next one is made."""
        raise NotImplementedError
