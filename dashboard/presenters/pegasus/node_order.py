"""The balancer's node order in sentences; the terminal loads no pandas."""

from __future__ import annotations

from collections.abc import Sequence

from core.pegasus.balance.node_order import LikelyPlan
from core.pegasus.order_learning import KnownOrders
from core.units import pluralize


def orders_sentence(orders: KnownOrders) -> str:
    """Return the source of the node order, as one sentence."""
    if not orders.rounds:
        return (
            "Node order unknown: no rounds observed under this leader. Ties are resolved in "
            "name order."
        )
    count = f"{len(orders.orders)}" if orders.is_complete else f"more than {len(orders.orders)}"
    fit = "1 order fits" if count == "1" else f"{count} orders fit"
    return (
        f"Node order inferred from {pluralize(orders.rounds, 'round')} of {orders.leader}: {fit}."
    )


def ties_sentence(plans: Sequence[LikelyPlan]) -> str:
    """Return the number of changes of the next round that depend on the node order."""
    sure = sum(plan.share == 1 for plan in plans)
    if sure == len(plans):
        return f"Next round: {pluralize(sure, 'change')}, 0 depend on ties."
    tied = pluralize(len(plans) - sure, "possible change")
    return f"Next round: {pluralize(sure, 'certain change')}, {tied} that depend on ties."
