"""The node order of the leading meta server, learned from one snapshot after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from core.errors import OpsError
from core.pegasus.balance.model import BalanceOptions
from core.pegasus.balance.node_order import LISTED, NodeOrder, learned
from core.pegasus.levels import FunctionLevel
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.view import ClusterView
from core.schemas.pegasus import NODE_ORDERS
from core.snapshot.pegasus import PegasusSnapshot
from core.units import pluralize

_PATIENCE: Final = 8
"""Whole states that may pass until a change counts as unexplained: a round may be under way."""


@dataclass
class OrderLearner:
    """Learns the order from the snapshots of one cluster, in the order of their times.

    The order belongs to one process of the leading meta server: another leader, or the same one
    started again, begins from nothing.

    Attributes:
        order: What is known; ``None`` before the first whole state.
    """

    order: NodeOrder | None = None
    _leader: tuple[str, str | None] | None = None
    _anchor: ClusterView | None = None
    _was_lively: bool = False
    _missed: int = 0

    def recall(self, snapshot: PegasusSnapshot) -> None:
        """Take over what an earlier snapshot holds, for instance after a restart of the reader."""
        rows = snapshot.tables["node_orders"].to_pylist()
        if not rows or self.order is not None:
            return
        first = rows[0]
        self._leader = first["leader"], first["since"]
        self.order = NodeOrder.of_orders(
            [tuple(row["nodes"]) for row in rows],
            is_complete=first["is_complete"],
            rounds=first["rounds"],
            unexplained=first["unexplained"],
        )

    def observe(self, snapshot: PegasusSnapshot, since: str | None) -> PegasusSnapshot:
        """Return the snapshot with what is known of the order.

        Args:
            snapshot: The newest one.
            since: When the leader's process started, in its own words; ``None`` if unknown.
        """
        leader = snapshot.manifest.leader
        if leader is None:
            return snapshot
        if self._leader != (leader, since):
            self.order, self._anchor, self._missed = None, None, 0
            self._leader = leader, since
        facts = PegasusFacts(snapshot)
        try:
            view, (options, _) = facts.view(), facts.options()
        except (OpsError, ValueError):
            return self._with_order(snapshot)
        known = self.order or NodeOrder.unknown(view.nodes)
        if known.nodes != view.nodes:
            known, self._anchor = known.of_nodes(view.nodes), None
        self.order = known
        is_steady = facts.columns.is_guardian_healthy.all() and not view.children
        if is_steady and not view.has_unknown_disk:
            is_lively = facts.effective_level is FunctionLevel.LIVELY
            self._learn(known, view, options, acted=is_lively or self._was_lively)
            self._was_lively = is_lively
        return self._with_order(snapshot)

    def _learn(
        self, known: NodeOrder, view: ClusterView, options: BalanceOptions, *, acted: bool
    ) -> None:
        """Learn from the change since the last explained state, and begin from this one if done."""
        if self._anchor is None or not acted:
            self._anchor, self._missed = view, 0
            return
        found = learned(known, self._anchor, view, options)
        if found is not None:
            self.order, self._anchor, self._missed = found, view, 0
            return
        self._missed += 1
        if self._missed > _PATIENCE:
            self.order = replace(known, unexplained=known.unexplained + 1)
            self._anchor, self._missed = view, 0

    def _with_order(self, snapshot: PegasusSnapshot) -> PegasusSnapshot:
        if self.order is None or not self.order.rounds or self._leader is None:
            return snapshot
        orders = self.order.orders(LISTED + 1)
        is_complete = len(orders) <= LISTED
        leader, since = self._leader
        rows: list[dict[str, Any]] = [
            {
                "leader": leader,
                "since": since,
                "rounds": self.order.rounds,
                "unexplained": self.order.unexplained,
                "is_complete": is_complete,
                "position": position,
                "nodes": list(order),
            }
            for position, order in enumerate(orders if is_complete else self.order.sample(LISTED))
        ]
        table = pa.Table.from_pylist(rows, schema=NODE_ORDERS)
        return PegasusSnapshot.build(snapshot.manifest, {**snapshot.tables, "node_orders": table})


@dataclass(frozen=True)
class KnownOrders:
    """The orders of nodes that a snapshot allows.

    Attributes:
        orders: The first one is used where a single one is needed.
        rounds: Rounds that they were learned from; 0: nothing is known, they are a sample.
        is_complete: They are all that fit.
        leader: Whose order it is; ``None`` if unknown.
    """

    orders: tuple[tuple[str, ...], ...]
    rounds: int
    is_complete: bool
    leader: str | None

    @property
    def sentence(self) -> str:
        """The source of the node order."""
        if not self.rounds:
            return (
                "Node order unknown: no rounds observed under this leader. Ties are resolved in "
                "name order."
            )
        count = f"{len(self.orders)}" if self.is_complete else f"more than {len(self.orders)}"
        fit = "1 order fits" if count == "1" else f"{count} orders fit"
        return (
            f"Node order inferred from {pluralize(self.rounds, 'round')} of {self.leader}: {fit}."
        )


def known_orders(facts: PegasusFacts, nodes: Sequence[str]) -> KnownOrders:
    """Return the orders that a snapshot allows for the nodes of its view.

    Args:
        facts: The snapshot.
        nodes: Nodes of its view.
    """
    rows = facts.rows("node_orders")
    if rows and set(rows[0]["nodes"]) == set(nodes):
        first = rows[0]
        orders = tuple(tuple(row["nodes"]) for row in rows)
        return KnownOrders(orders, first["rounds"], first["is_complete"], first["leader"])
    unknown = NodeOrder.unknown(nodes)
    orders = tuple(unknown.orders(LISTED + 1))
    if len(orders) <= LISTED:
        return KnownOrders(orders, 0, is_complete=True, leader=None)
    return KnownOrders(tuple(unknown.sample(LISTED)), 0, is_complete=False, leader=None)
