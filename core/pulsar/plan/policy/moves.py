"""Policies and the unloads that go with them: what is misplaced afterwards, and its destinations.

Brokers unload by themselves what :mod:`core.pulsar.plan.policy.unload_scope` returns; every other
misplaced bundle stays where it is until a step unloads it. The plan sets the policies first, so
that the leader places what is unloaded after them by the new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from core.plan.model import BrokerExpectation, Diagnostic, Expected, Plan, combined, sealed
from core.plan.options import PlanOptions, in_order
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.policy.build import DesiredPolicy, build_policy_plan
from core.pulsar.plan.policy.impact import PolicyImpact, policy_impact
from core.pulsar.plan.policy.state import with_policies
from core.pulsar.plan.preview import (
    OVER_LIMIT,
    Preview,
    describe_usage,
    overload_limit,
    overloaded,
    preview_plan,
)
from core.pulsar.policy_kinds import PolicyChange
from core.pulsar.settings import effective_settings
from core.pulsar.steps.base import policy_changes
from core.snapshot import PulsarSnapshot
from core.units import format_ratio

_MAX_NAMED: Final = 3

MAX_MOVES = 200
"""Unloads that one plan carries, and moves whose destinations are predicted; the busiest first."""


@dataclass(frozen=True, eq=False)
class PolicyOutlook:
    """A change of policies, seen through.

    Attributes:
        plan: What would be applied.
        impact: Who may serve what before and after; ``None`` if there is nothing to set.
        preview: What is placed again by the new policies, unloaded by brokers or by the plan, and
            where it is expected; not to be applied. ``None`` if nothing moves, or it is refused.
        moving: How many bundles are placed again; the preview has :data:`MAX_MOVES` of them.
    """

    plan: Plan
    impact: PolicyImpact | None
    preview: Preview | None
    moving: int = 0


def change_policies(
    snapshot: PulsarSnapshot,
    desired: Sequence[DesiredPolicy],
    terms: PlanOptions,
    *,
    with_unloads: bool = False,
) -> PolicyOutlook:
    """Plan a change of policies, and see through what it does.

    Args:
        snapshot: The cluster.
        desired: What shall be.
        terms: When, why and how long.
        with_unloads: Whether the plan also unloads what would be misplaced and stay so.
    Raises:
        InputError: Nothing was named, or a value that is no document of its kind.
        UnknownNameError: A kind or a field that there is not.
    """
    plan = build_policy_plan(snapshot, desired, terms)
    changes = policy_changes(plan.steps)
    if not changes:
        return PolicyOutlook(plan, None, None)
    impact = policy_impact(snapshot, effective_settings(snapshot), changes)
    if plan.errored:
        return PolicyOutlook(plan, impact, None)
    astray = impact.astray if with_unloads else ()
    if astray:
        plan = _with_unloads(snapshot, plan, changes, astray, terms)
    moving = [*impact.unloaded, *astray]
    preview = _placement_preview(snapshot, changes, moving, terms)
    plan = _with_expectation(snapshot, plan, impact, preview)
    return PolicyOutlook(plan, impact, preview, len(moving))


def _with_expectation(
    snapshot: PulsarSnapshot, plan: Plan, impact: PolicyImpact, preview: Preview | None
) -> Plan:
    """Return the plan with all that it touches: what brokers unload by themselves is no step."""
    brokers = Expected(
        moved_bytes_per_s=impact.clients.throughput_bytes_per_s,
        clients=impact.clients.clients,
        topics=impact.clients.topics,
        unloaded_by_cluster=len(impact.unloaded) or UNSET,
        limited_clients=UNSET if impact.limited is None else impact.limited.clients,
    )
    expected = combined(plan.expected, brokers)
    found = list(plan.diagnostics)
    if preview is not None:
        after = preview.measures_after
        expected = replace(
            expected,
            usage_deviation_after=after.usage.max_deviation_ratio,
            throughput_deviation_after=after.throughput.max_deviation_ratio,
            is_exact=preview.is_exact,
            brokers=_touched(preview),
        )
        found += _over_limit(preview, overload_limit(effective_settings(snapshot)))
    return sealed(replace(plan, expected=expected, diagnostics=in_order(found)))


def _touched(preview: Preview) -> tuple[BrokerExpectation, ...]:
    rows = preview.before_after.filter(pc.field("is_touched")).sort_by("broker").to_pylist()
    return tuple(
        BrokerExpectation(
            broker=row["broker"],
            usage_before=row["usage_ratio_before"],
            usage_after=row["usage_ratio_after"],
            throughput_before=row["throughput_bytes_per_s_before"],
            throughput_after=row["throughput_bytes_per_s_after"],
        )
        for row in rows
    )


def _over_limit(preview: Preview, limit: float) -> list[Diagnostic]:
    """Name the brokers that are expected over the overload limit once bundles are placed again."""
    rows = overloaded(preview.before_after, limit)
    if not rows:
        return []
    named = ", ".join(describe_usage(row) for row in rows[:_MAX_NAMED])
    more = f" and {len(rows) - _MAX_NAMED:,} more brokers" if len(rows) > _MAX_NAMED else ""
    return [
        Diagnostic(
            severity="warning",
            code=OVER_LIMIT,
            sentence=f"Above the overload limit of {format_ratio(limit)} after bundles are "
            f"placed again: {named}{more}.",
            subject=rows[0]["broker"],
            hint="Allow more brokers for these namespaces, or set unload_scope none and "
            "unload a few bundles at a time.",
        )
    ]


def _with_unloads(
    snapshot: PulsarSnapshot,
    plan: Plan,
    changes: Sequence[PolicyChange],
    bundles: Sequence[str],
    terms: PlanOptions,
) -> Plan:
    """Return the plan with unloads behind the policies, placed as these would have it."""
    chosen = busiest(snapshot, bundles)
    moves = build_unload_plan(
        with_policies(snapshot, changes),
        chosen,
        now=terms.now,
        reason=terms.reason,
        lifetime_s=terms.lifetime_s,
        exclusions=terms.exclusions,
    )
    left = len(bundles) - len(chosen)
    policies = [one for one in plan.diagnostics if one.code != "isolation_astray"]  # now unloaded
    found = [*policies, *moves.diagnostics, *_left_over(left)]
    errored = plan.errored or moves.errored
    return sealed(
        replace(
            plan,
            steps=(*plan.steps, *moves.steps),
            expected=moves.expected,
            diagnostics=in_order(found),
            complete=plan.complete and moves.complete and not left,
            errored=errored,
            applyable=not errored,
        )
    )


def _left_over(left: int) -> list[Diagnostic]:
    if not left:
        return []
    return [
        Diagnostic(
            severity="warning",
            code="too_many_moves",
            sentence=f"A plan unloads the {MAX_MOVES} busiest bundles; {left:,} more are "
            "misplaced.",
            subject="",
            hint="Apply it, and unload the rest with the next plan.",
        )
    ]


def _placement_preview(
    snapshot: PulsarSnapshot,
    changes: Sequence[PolicyChange],
    bundles: Sequence[str],
    terms: PlanOptions,
) -> Preview | None:
    """Place what is unloaded by the new policies, one after the other, the busiest first."""
    if not bundles:
        return None
    after = with_policies(snapshot, changes)
    plan = build_unload_plan(after, busiest(snapshot, bundles), now=terms.now)
    return preview_plan(after, plan) if plan.steps else None


def busiest(snapshot: PulsarSnapshot, bundles: Sequence[str], limit: int = MAX_MOVES) -> list[str]:
    """Return those of the bundles with most traffic, at most so many, the busiest first."""
    if len(bundles) <= limit:
        return list(bundles)
    table = snapshot.bundles.select(["bundle", "msg_throughput_in", "msg_throughput_out"])
    table = table.filter(pc.is_in(table["bundle"], pa.array(bundles, pa.string())))
    total = pc.add(
        pc.fill_null(table["msg_throughput_in"], 0.0),
        pc.fill_null(table["msg_throughput_out"], 0.0),
    )
    picks = pc.select_k_unstable(
        table.append_column("total", total), limit, [("total", "descending")]
    )
    names: list[str] = table["bundle"].take(picks).to_pylist()
    return names
