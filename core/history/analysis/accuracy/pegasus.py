"""The shadow of the Pegasus balancer: what the level ``lively`` would do on each snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from core.errors import OpsError
from core.history.analysis.accuracy.shadow import SHADOW, is_due, rows_of
from core.pegasus.balance.model import BalanceOptions, BalancePlan, Policy
from core.pegasus.balance.node_order import LikelyPlan, likely_plans
from core.pegasus.balance.preconditions import disk_doubts, obstacles
from core.pegasus.balance.rounds import balance_round
from core.pegasus.levels import FunctionLevel
from core.pegasus.order_learning import known_orders
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.view import ClusterView
from core.snapshot.pegasus import PegasusSnapshot
from core.units import datetime_to_ms

POLICIES: Final[tuple[Policy, ...]] = ("app", "cluster")
"""Names of the policies that can be requested besides the effective one."""

_MINUTE_MS: Final = 60_000
_ALL_ORDERS_UP_TO: Final = 20_000
"""Partitions up to which the round is computed under every node order that is known to fit."""


@dataclass
class PegasusShadow:
    """Rounds of the balancer's policy on live snapshots; the balancer remembers nothing.

    Attributes:
        others: Policies besides the effective one: ``app``, ``cluster``.
    """

    others: Sequence[str] = ()
    _decided_at: int | None = None
    _is_on: bool = False
    _failures: dict[str, str] = field(default_factory=dict)

    def remember(self, moved: Mapping[str, int]) -> None:
        """Do nothing: the balancer has no grace period."""

    def decide(self, snapshot: PegasusSnapshot, moved: Collection[str] = ()) -> pa.Table:  # noqa: ARG002 - the balancer has no grace period
        """Return each policy's next moves, once a minute; see ``Shadow``.

        Once the level is lively the balancer begins at once, and so does its shadow.
        """
        taken_at = datetime_to_ms(snapshot.manifest.taken_at)
        facts = PegasusFacts(snapshot)
        is_on = facts.effective_level is FunctionLevel.LIVELY
        is_new, self._is_on = is_on and not self._is_on, is_on
        if not is_new and not is_due(taken_at, self._decided_at, _MINUTE_MS):
            return SHADOW.empty_table()
        self._decided_at = taken_at
        common: dict[str, Any] = {
            "taken_at": taken_at,
            "is_switched_on": is_on,
        }
        try:
            options, _ = facts.options()
            view = facts.view()
        except (OpsError, ValueError) as exc:
            return self._failed(common | {"strategy": "configured", "is_configured": True}, exc)
        policies = [one for one in POLICIES if one == options.policy or one in self.others]
        parts = []
        for policy in policies:
            head = common | {"strategy": policy, "is_configured": policy == options.policy}
            parts.append(self._round(head, facts, view, replace(options, policy=policy)))
        return pa.concat_tables(parts)

    def _round(
        self,
        head: dict[str, Any],
        facts: PegasusFacts,
        view: ClusterView,
        options: BalanceOptions,
    ) -> pa.Table:
        known = known_orders(facts, view.nodes)
        view = view.renumbered(known.orders[0])
        # a guess at the partitions is no prediction to be measured
        why_not = [*obstacles(view), *disk_doubts(view, options.policy)]
        if why_not:
            text = {"label": "skip", "reason": "not_ready", "sentence": why_not[0]}
            return rows_of([head | text])
        try:
            plans = balance_round(view, options)
            orders = known.orders if view.partition_count <= _ALL_ORDERS_UP_TO else known.orders[:4]
            likely = likely_plans(view, options, orders) if plans else []
        except OpsError as exc:
            return self._failed(head, exc)
        self._failures.pop(head["strategy"], None)
        if not plans:
            text = {"label": "skip", "reason": "balanced", "sentence": "Nothing to do."}
            return rows_of([head | text])
        return rows_of([head | row for row in _rows(view, plans, likely)])

    def _failed(self, head: dict[str, Any], exc: OpsError | ValueError) -> pa.Table:
        """Return the row of a round that could not be; once, until the reason is another one."""
        sentence, strategy = str(exc), str(head["strategy"])
        if self._failures.get(strategy) == sentence:
            return SHADOW.empty_table()
        self._failures[strategy] = sentence
        code = exc.code if isinstance(exc, OpsError) else "unreadable"
        return rows_of([head | {"label": "failure", "reason": code, "sentence": sentence}])


def _rows(
    view: ClusterView, plans: Sequence[BalancePlan], likely: Sequence[LikelyPlan]
) -> list[dict[str, Any]]:
    shares = {(one.gpid, one.kind, one.source, one.target): one.share for one in likely}
    kinds = Counter(plan.kind.word for plan in plans)
    sentence = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) + "."
    return [
        {
            "label": "success",
            "reason": plan.kind.word,
            "sentence": sentence,
            "position": position,
            "broker": view.nodes[plan.source],
            "bundle": view.gpid_text(plan.row),
            "destination": view.nodes[plan.target],
            "probability": shares[
                view.gpid_text(plan.row),
                plan.kind,
                view.nodes[plan.source],
                view.nodes[plan.target],
            ],
        }
        for position, plan in enumerate(plans)
    ]
