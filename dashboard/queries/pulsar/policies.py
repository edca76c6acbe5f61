"""Limits and the plans that change policies, for the pages: each computed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.planning.limits.effects import limit_effects
from core.planning.limits.groups import GroupUse, SharedLimit, group_uses, period_of, shared_limit
from core.planning.limits.namespaces import NamespaceUse, namespace_use
from core.planning.limits.rates import RateLimit, rate_limits
from core.planning.limits.tenants import TenantUse, tenant_uses
from core.pulsar.plan.policy.build import DesiredPolicy
from core.pulsar.plan.policy.moves import change_policies
from core.pulsar.plan.preview import Preview, preview_plan
from core.pulsar.steps.base import policy_changes
from core.snapshot.store import CachedSnapshot
from dashboard import services
from dashboard.queries.cache import cached
from dashboard.queries.pulsar.snapshots import reading

_RENEW_AFTER_S: Final = 300


@dataclass(frozen=True, eq=False)
class ClusterLimits:
    """Limits of a cluster, next to its load.

    Attributes:
        use: By namespace.
        groups: Resource groups.
        rates: Rates of namespaces, worst first.
        tenants: Largest share of the traffic first.
    """

    use: NamespaceUse
    groups: tuple[GroupUse, ...]
    rates: tuple[RateLimit, ...]
    tenants: tuple[TenantUse, ...]


def _limits(stored: CachedSnapshot) -> ClusterLimits:
    snapshot = reading(stored).snapshot
    use = namespace_use(snapshot)
    return ClusterLimits(
        use,
        tuple(group_uses(snapshot, use)),
        tuple(rate_limits(snapshot, use)),
        tuple(tenant_uses(snapshot)),
    )


limits_of = cached(_limits, max_entries=4)
"""The limits of a saved snapshot."""


def _shared(key: tuple[CachedSnapshot, str, str]) -> SharedLimit:
    stored, name, quantity = key
    one = reading(stored)
    group = next(group for group in limits_of(stored).groups if group.name == name)
    return shared_limit(one.snapshot, group, quantity, period_s=period_of(one.settings))


shared_of = cached(_shared, max_entries=32)
"""How a limit falls to the brokers: snapshot, group, key of ``QUANTITIES``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRequest:
    """Policies to plan; equal requests on the same snapshot have the same answer.

    Attributes:
        stored: The snapshot.
        desired: In their order.
        exclusions: Namespaces that the configuration keeps out of plans.
    """

    stored: CachedSnapshot
    desired: tuple[DesiredPolicy, ...]
    exclusions: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class PolicyAnswer:
    """A plan of policies, looked at.

    Attributes:
        plan: The plan.
        preview: Its preview.
        effects: Whom changed limits touch, in sentences.
    """

    plan: Plan
    preview: Preview
    effects: tuple[str, ...]


def policy_preview(request: PolicyRequest) -> PolicyAnswer:
    """Return the plan that changes policies, looked at; made again before it expires.

    Raises:
        InputError: Nothing was named, or a value that is no document of its kind.
        UnknownNameError: A kind or a field that there is not.
    """
    return _policies((request, int(services.now().timestamp()) // _RENEW_AFTER_S))


def _planned(key: tuple[PolicyRequest, int]) -> PolicyAnswer:
    request, _ = key
    one = reading(request.stored)
    terms = PlanOptions(now=services.now(), exclusions=frozenset(request.exclusions))
    plan = change_policies(one.snapshot, request.desired, terms).plan
    steps = policy_changes(plan.steps)
    effects = limit_effects(one.snapshot, one.settings, steps)
    return PolicyAnswer(plan, preview_plan(one.snapshot, plan), tuple(effects))


_policies = cached(_planned, max_entries=32)
