"""Clients that a change of limits affects: the present traffic and what would be let through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from core.planning.limits.groups import QUANTITIES, GroupUse, enforcement_words, group_uses
from core.planning.limits.namespaces import NamespaceUse, namespace_use
from core.planning.limits.rates import RATE_KINDS, RateLimit, rate_limits
from core.pulsar.plan.policy.state import with_policies
from core.pulsar.policy_kinds import DEFAULT_QUOTA_NAME, PolicyChange
from core.pulsar.settings import EffectiveSettings
from core.snapshot import PulsarSnapshot
from core.units import format_bytes_per_s, format_msgs_per_s, pluralize

_SHOWN = 3


def limit_effects(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, steps: Sequence[PolicyChange]
) -> list[str]:
    """Return sentences on whom the steps touch: groups, rates and quotas; others say nothing.

    Args:
        snapshot: The cluster.
        steps: Of one plan, in its order.
    """
    after = with_policies(snapshot, steps)
    use = namespace_use(after)
    return [
        *_groups(after, settings, use, steps),
        *_rates(after, use, steps),
        *_quotas(snapshot, steps),
    ]


def amount(value: float, unit: str) -> str:
    """Return a quantity for people: ``12.3k msg/s``, ``1.2 MB/s``."""
    if unit == "bytes/s":
        return format_bytes_per_s(value)
    return format_msgs_per_s(value).replace("msg/s", unit)


def _groups(
    after: PulsarSnapshot,
    settings: EffectiveSettings,
    use: NamespaceUse,
    steps: Sequence[PolicyChange],
) -> Iterator[str]:
    named = {step.name for step in steps if step.policy == "resource_group" and step.value}
    named |= {step.value or "" for step in steps if step.policy == "namespace_resource_group"}
    holds, _ = enforcement_words(settings)
    for group in group_uses(after, use):
        if group.name in named and group.is_defined:
            yield from _group(group, holds=holds)


def _group(group: GroupUse, *, holds: bool) -> Iterator[str]:
    if not group.namespaces:
        yield f"{group.name} limits no client: it has no namespaces."
        return
    who = f"{group.name} limits {pluralize(len(group.namespaces), 'namespace')}"
    who += f" ({_listed(group.namespaces)})"
    for key, kind in QUANTITIES.items():
        limit, used = group.limits[key], group.used[key]
        if limit < 0:
            continue
        text = f"{who} to {amount(limit, kind.unit)} of {kind.title}; now {amount(used, kind.unit)}"
        if not kind.is_enforced:
            yield f"{text}. Brokers compute this share and do not apply it."
        elif used > limit:
            back = amount(used - limit, kind.unit)
            when = "" if holds else " once brokers exchange usage"
            yield f"{text}: producers would be throttled by {back}{when}."
        else:
            yield f"{text}."


def _rates(
    after: PulsarSnapshot, use: NamespaceUse, steps: Sequence[PolicyChange]
) -> Iterator[str]:
    named = {(step.policy, step.name) for step in steps if step.policy in RATE_KINDS}
    for limit in rate_limits(after, use):
        if (limit.kind, limit.namespace) in named and limit.limit > 0:
            yield _rate(limit)
    for step in steps:
        if step.policy in RATE_KINDS and step.value is None:
            yield f"{step.name} would use the brokers' default, by default no limit."


def _rate(limit: RateLimit) -> str:
    text = (
        f"Each {limit.holder} of {limit.namespace} is limited to {amount(limit.limit, limit.unit)}"
    )
    if limit.live is None:
        return f"{text}; {limit.why}."
    live = f"their current total is {amount(limit.live, limit.unit)}"
    number = f"{pluralize(limit.max_holders, 'topic')}" if limit.holder == "topic" else ""
    over = f" over {number}" if number else ""
    mark = {"at its limit": "some would be throttled", "may be": "some may be throttled"}
    end = mark.get(limit.verdict, "no client is throttled")
    return f"{text}; {live}{over}: {end}, as {limit.why}."


def _quotas(snapshot: PulsarSnapshot, steps: Sequence[PolicyChange]) -> Iterator[str]:
    quotas = [step for step in steps if step.policy == "resource_quota"]
    own = [step.name for step in quotas if step.name != DEFAULT_QUOTA_NAME]
    if own and snapshot.manifest.load_manager == "extensible":
        yield "The extensible load manager ignores bundle quotas: this has no effect."
    elif own:
        yield (
            f"A leader uses the quota of {_listed(own)} as its load while no "
            "average of it is stored; no client is throttled, and brokers replace "
            "it when they measure."
        )
    if len(own) < len(quotas):
        yield (
            "The default quota is not used for bundles of the modular load manager; REST shows it."
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if names[_SHOWN:] else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
