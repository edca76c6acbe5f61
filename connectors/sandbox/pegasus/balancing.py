"""The balancer of the sandbox: the kernels of ``core.pegasus`` on the sandbox's own books."""

from __future__ import annotations

from collections import Counter

from connectors.sandbox.pegasus.state import ClusterState
from core.pegasus.assemble import view_of_answers
from core.pegasus.balance.model import (
    BalanceOptions,
    BalancePlan,
    Pick,
    PlanKind,
    ProposalAction,
    actions_of,
)
from core.pegasus.balance.rounds import balance_round
from core.pegasus.guardian import GuardedNode
from core.pegasus.levels import FunctionLevel, effective_level
from core.pegasus.verdict import OperationCounts
from core.pegasus.view import ClusterView


def active_level(state: ClusterState) -> FunctionLevel:
    """Return the effective level; one outside the five counts as the next lower of them."""
    stored = max(
        (level for level in FunctionLevel if level <= state.stored_level),
        default=FunctionLevel.STOPPED,
    )
    alive = sum(node.is_alive for node in state.nodes.values())
    return effective_level(
        stored,
        alive_count=alive,
        dead_count=len(state.nodes) - alive,
        min_live_node_count=state.settings.min_live_node_count_for_unfreeze,
        live_percentage=state.settings.live_percentage,
    )


def view_of_state(state: ClusterState) -> ClusterView:
    """Return the state as columns, nodes in the balancer's own order."""
    held = {name for each in state.partitions.values() for name in each.config.members}
    order = [name for name in state.numbering if state.nodes[name].is_alive or name in held]
    return view_of_answers(
        [node.entry for node in state.nodes.values()],
        {
            table: [partition.config for partition in state.of_table(app_id)]
            for app_id, table in state.tables.items()
        },
        {name: state.serving_disks(name) for name in order},
        numbering=order,
    )


def options_of_state(state: ClusterState, *, is_check: bool) -> BalanceOptions:
    """Return the active switches."""
    settings = state.settings
    return BalanceOptions(
        policy="cluster" if settings.balance_cluster else "app",
        only_primary_balancer=settings.only_primary_balancer,
        only_move_primary=settings.only_move_primary,
        balancer_in_turn=settings.balancer_in_turn,
        is_check=is_check,
        balance_op_count_per_round=settings.balance_op_count_per_round,
        ignored_app_ids=frozenset(settings.ignored_app_ids),
    )


def plan_round(
    state: ClusterState, pick: Pick, *, is_check: bool
) -> list[tuple[tuple[int, int], PlanKind, tuple[ProposalAction, ...]]] | None:
    """Return the balancer's plan: gpid, kind and actions, in gpid order.

    ``None`` if some server has not reported its replica yet, so nothing is planned.
    """
    view = view_of_state(state)
    if view.has_unknown_disk:
        return None
    plans: list[BalancePlan] = balance_round(view, options_of_state(state, is_check=is_check), pick)
    return [(view.gpid(plan.row), plan.kind, actions_of(view, plan)) for plan in plans]


def count_kinds(kinds: list[PlanKind]) -> OperationCounts:
    """Return the counts of one list of plans."""
    found = Counter(kinds)
    return OperationCounts(
        len(kinds),
        found[PlanKind.MOVE_PRIMARY],
        found[PlanKind.COPY_PRIMARY],
        found[PlanKind.COPY_SECONDARY],
    )


class Promises:
    """Replicas and promises of nodes in this tick, as the guardian counts them."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._seen: list[GuardedNode] | None = None
        self._primaries: Counter[tuple[str, int]] = Counter()
        self._replicas: Counter[tuple[str, int]] = Counter()
        for partition in state.partitions.values():
            config = partition.config
            if config.primary is not None:
                self._primaries[config.primary, config.app_id] += 1
            self._replicas.update((name, config.app_id) for name in config.members)

    def book(self, node: str, app_id: int, *, primary: int = 0, replica: int = 0) -> None:
        """Count what was just promised."""
        self._primaries[node, app_id] += primary
        self._replicas[node, app_id] += replica
        self._seen = None

    def guarded(self) -> list[GuardedNode]:
        """Return the nodes as the guardian sees them now."""
        if self._seen is None:
            self._seen = [self._guarded(name) for name in self._state.nodes]
        return self._seen

    def _guarded(self, name: str) -> GuardedNode:
        node = self._state.nodes[name]
        primaries = {app: self._primaries[name, app] for app in self._state.tables}
        replicas = {app: self._replicas[name, app] for app in self._state.tables}
        return GuardedNode(
            name=name,
            is_alive=node.is_alive,
            has_collected_replicas=node.has_collected,
            table_primaries=primaries,
            table_partitions=replicas,
            primary_count=sum(primaries.values()),
            partition_count=sum(replicas.values()),
        )
