"""Input and output of the balancer."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from core.pegasus.view import ClusterView

Policy = Literal["app", "cluster"]
Pick = Callable[[int], int]
"""Chooses one of ``n`` equal disks: takes n >= 1, gives 0 .. n - 1."""


class PlanKind(enum.IntEnum):
    """Upstream ``balancer_request_type``."""

    MOVE_PRIMARY = 0
    COPY_PRIMARY = 1
    COPY_SECONDARY = 2

    @property
    def word(self) -> str:
        """The name upstream: ``move_primary``."""
        return self.name.lower()


class ConfigType(enum.IntEnum):
    """Upstream ``config_type``: how a proposal changes a partition's configuration."""

    INVALID = 0
    ASSIGN_PRIMARY = 1
    UPGRADE_TO_PRIMARY = 2
    ADD_SECONDARY = 3
    UPGRADE_TO_SECONDARY = 4
    DOWNGRADE_TO_SECONDARY = 5
    DOWNGRADE_TO_INACTIVE = 6
    REMOVE = 7
    ADD_SECONDARY_FOR_LB = 8
    PRIMARY_FORCE_UPDATE_BALLOT = 9
    DROP_PARTITION = 10
    REGISTER_CHILD = 11


BALLOT_STEPS: Final = {
    PlanKind.MOVE_PRIMARY: 2,
    PlanKind.COPY_PRIMARY: 4,
    PlanKind.COPY_SECONDARY: 2,
}
"""How much a partition's ballot grows when every action of a plan succeeds."""


@dataclass(frozen=True)
class BalanceOptions:
    """The switches of the balancer, by their upstream names.

    Attributes:
        policy: ``balance_cluster`` false: ``app``; true: ``cluster``.
        only_primary_balancer: Secondaries are never copied (app policy).
        only_move_primary: Primaries are moved, never copied (app policy; does not stop the copying
            of secondaries).
        balancer_in_turn: One table a round (app policy).
        is_check: Count what could be done on the unchanged state, as at level steady.
        balance_op_count_per_round: The most plans of a round (copies of the cluster policy only).
        ignored_app_ids: ``meta.lb.ignored_app_list``; the cluster policy never looks at it.
        intended_skew: Start the cluster policy with the true skew of every table instead of 1.
            Upstream reads a map that it has just given away (quirk PB-1).
    """

    policy: Policy = "app"
    only_primary_balancer: bool = False
    only_move_primary: bool = False
    balancer_in_turn: bool = False
    is_check: bool = False
    balance_op_count_per_round: int = 10
    ignored_app_ids: frozenset[int] = frozenset()
    intended_skew: bool = False


@dataclass(frozen=True, slots=True)
class BalancePlan:
    """One partition's change: at most one a partition and round.

    Attributes:
        row: Row of the partition in the view.
        kind: What happens.
        source: Code of the node that gives.
        target: Code of the node that takes.
        source_count: What the source held of the table when it was chosen: primaries, or all
            replicas where a secondary is copied (cluster policy: of the role).
        target_count: The same of the target.
    """

    row: int
    kind: PlanKind
    source: int
    target: int
    source_count: int
    target_count: int


@dataclass(frozen=True, slots=True)
class ProposalAction:
    """One step of a plan as the meta server sends it.

    Attributes:
        type: How the configuration changes.
        target: Node that gets the command.
        node: Node whose role changes.
    """

    type: ConfigType
    target: str
    node: str


def actions_of(view: ClusterView, plan: BalancePlan) -> tuple[ProposalAction, ...]:
    """Return the actions of a plan, in the order of their execution.

    Source:
        ``load_balance_policy`` ``generate_balancer_request``.
    """
    source, target = view.nodes[plan.source], view.nodes[plan.target]
    if plan.kind is PlanKind.COPY_SECONDARY:
        primary = view.nodes[int(view.members[plan.row, 0])]
        return (
            ProposalAction(ConfigType.ADD_SECONDARY_FOR_LB, primary, target),
            ProposalAction(ConfigType.REMOVE, primary, source),
        )
    move = (
        ProposalAction(ConfigType.DOWNGRADE_TO_SECONDARY, source, source),
        ProposalAction(ConfigType.UPGRADE_TO_PRIMARY, target, target),
    )
    if plan.kind is PlanKind.MOVE_PRIMARY:
        return move
    return (
        ProposalAction(ConfigType.ADD_SECONDARY_FOR_LB, source, target),
        *move,
        ProposalAction(ConfigType.REMOVE, target, source),
    )


def reason_of(view: ClusterView, plan: BalancePlan) -> str:
    """Return one sentence: why the balancer plans this."""
    table = int(view.table_of_row[plan.row])
    partitions, nodes = int(view.partition_counts[table]), len(view.nodes)
    what = "replicas" if plan.kind is PlanKind.COPY_SECONDARY else "primaries"
    held = (
        f"{view.nodes[plan.source]} has {plan.source_count} {what} of table "
        f"{view.app_names[table]}, {view.nodes[plan.target]} has {plan.target_count}"
    )
    if plan.kind is PlanKind.MOVE_PRIMARY:
        share = f"{partitions // nodes} to {-(-partitions // nodes)}"
        return (
            f"{held}; an even share is {share}. The target already has a secondary: roles "
            "change, nothing is copied."
        )
    if plan.kind is PlanKind.COPY_PRIMARY:
        return f"{held}; no chain of role changes reaches the target, so the replica is copied."
    return f"{held}; the secondary is copied to balance them."
