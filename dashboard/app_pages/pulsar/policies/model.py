"""Numbers and texts of the policies page: groups, rates, quotas, tenants, the calculator."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from core.errors import InputError
from core.planning.advisors.share_steps import simulated_steps, usage_list, whole_limit
from core.planning.advisors.shares import ShareTimeline, shares
from core.planning.limits.effects import amount
from core.planning.limits.groups import (
    QUANTITIES,
    GroupUse,
    SharedLimit,
    enforcement_words,
)
from core.planning.limits.rates import RateLimit
from core.pulsar.policy_kinds import DEFAULT_QUOTA_NAME, policy_kind
from core.pulsar.settings import EffectiveSettings
from core.schemas.pulsar import RATES
from core.units import UNKNOWN, format_ratio, listed, pluralize
from dashboard.app_pages.pulsar.policies.charts import ShareTimelineData
from dashboard.presenters.figures import KeyFigure

if TYPE_CHECKING:
    from core.planning.limits.namespaces import NamespaceUse
    from core.planning.limits.tenants import Bound, TenantUse
    from dashboard.queries.pulsar.policies import ClusterLimits


# -- groups, rates, quotas, tenants ----------------------------------------------------------------

NAMESPACES: Final = "Namespaces"
GROUPS: Final = "Groups"
RATES_TAB: Final = "Rates"
QUOTAS: Final = "Quotas"
TENANTS: Final = "Tenants"
CALCULATOR: Final = "Calculator"
MAX_ROWS: Final = 2_000
MAX_BROKERS: Final = 50
NO_LIMIT: Final = "no limit"
_HOT: Final = 0.8
_GROUPED: Final = "group"
SHOWN: Final = ("all", "limited", "at limit", "no limit")
"""What the table of namespaces can be narrowed to."""


def key_figures(limits: ClusterLimits, settings: EffectiveSettings) -> list[KeyFigure]:
    """Return the figures of limits: namespaces at a limit, groups and their enforcement."""
    rated = {rate.namespace for rate in limits.rates if rate.limit > 0}
    attached = {name for group in limits.groups for name in group.namespaces}
    total, free = len(limits.use.namespaces), len(limits.use.namespaces) - len(rated | attached)
    holds, sentence = enforcement_words(settings)
    at = {rate.namespace for rate in limits.rates if rate.verdict == "at its limit"}
    open_rates = [rate for rate in limits.rates if rate.verdict in ("may be", "unknown")]
    maybe = {rate.namespace for rate in open_rates} - at

    def worst_first(namespace: str) -> float:
        return -max(rate.ratio or 0.0 for rate in open_rates if rate.namespace == namespace)

    worst = max(
        (
            (ratio, group.name)
            for group in limits.groups
            for key, kind in QUANTITIES.items()
            if kind.is_enforced and (ratio := group.ratio(key)) is not None
        ),
        default=None,
    )
    has_no_effect = bool(limits.groups) and not holds
    full = max(
        ((rate.ratio, rate.namespace) for rate in limits.rates if rate.ratio is not None),
        default=None,
    )
    return [
        KeyFigure(
            label="At limit",
            value=f"{len(at):,}",
            note=listed(sorted(at), 1)
            if at
            else f"may be: {listed(sorted(maybe, key=worst_first), 1)}"
            if maybe
            else "no namespace",
            status="warning" if at else "unknown" if maybe else "ok",
            help="Namespaces with a topic at its rate limit. May be: together the topics carry "
            "more than the limit of one; the load of each is unknown.",
        ),
        KeyFigure(
            label="Max use, mean of topics",
            value=format_ratio(full[0]) if full else UNKNOWN if rated else "none",
            note=full[1] if full else "use not reported" if rated else "no limits",
            status="" if full is None else "warning" if full[0] >= _HOT else "ok",
            help="Use of the limits of all topics of a namespace together. Single topics may be at "
            "their limit below 100%.",
        ),
        KeyFigure(
            label="Resource groups",
            value=f"{len(limits.groups):,}",
            note="no effect on this cluster"
            if has_no_effect
            else pluralize(len(attached), "namespace"),
            status="warning" if has_no_effect else "",
            help=sentence,
        ),
        KeyFigure(
            label="With rate limits", value=f"{len(rated):,}", note=f"of {total:,} namespaces"
        ),
        KeyFigure(label="Unlimited", value=f"{free:,}", note=f"of {total:,} namespaces"),
        KeyFigure(
            label="Max group use",
            value="none" if worst is None else format_ratio(worst[0]),
            note="no limits" if worst is None else worst[1],
            status="" if worst is None else "warning" if worst[0] >= _HOT else "ok",
        ),
    ]


# -- namespaces ------------------------------------------------------------------------------------

MARKS: Final = {
    "at its limit": "▲ at limit",
    "may be": "? may be at limit",
    "within": "● within",
    "unlimited": "◌ no limit",
    "unknown": "? unknown",
}
"""Verdict on a limit as it is written, the worst first."""


def limits_table(
    limits: ClusterLimits, *, is_enforced: bool, shown: str = "all", contains: str = ""
) -> pd.DataFrame:
    """Return one row a namespace: its use, and the limit that it is nearest to.

    Args:
        limits: Of the cluster.
        is_enforced: Whether limits of resource groups have an effect.
        shown: One of :data:`SHOWN`.
        contains: Part of the name, in any case.
    """
    own: dict[str, list[RateLimit]] = {}
    for limit in limits.rates:
        if limit.limit > 0:
            own.setdefault(limit.namespace, []).append(limit)
    groups = {group.name: group for group in limits.groups} if is_enforced else {}
    use, wanted = limits.use, contains.strip().lower()
    rows = []
    for at, name in enumerate(use.namespaces):
        state, words, ratio = _nearest(own.get(name, ()), groups.get(use.groups[at] or ""))
        is_shown = {
            "limited": state != MARKS["unlimited"],
            "at limit": state == MARKS["at its limit"],
            "no limit": state == MARKS["unlimited"],
        }
        if not is_shown.get(shown, True) or wanted not in name.lower():
            continue
        rows.append(
            {
                "namespace": name,
                "state": [state],
                "use": None if ratio is None else ratio * 100,
                "limit": words,
                **{rate: float(use.rate(rate)[at]) for rate in RATES[:2]},
                **{rate: float(use.rate(rate)[at]) / 1e6 for rate in RATES[2:]},
                "group": use.groups[at] or "",
                "topics": int(use.topics[at]),
                "bundles": int(use.bundles[at]),
            }
        )
    columns = ["namespace", "state", "use", "limit", *RATES, "group", "topics", "bundles"]
    table = pd.DataFrame(rows, columns=columns)
    traffic = table["msg_throughput_in"] + table["msg_throughput_out"]
    table = table.assign(use=table["use"].astype(float), order=traffic)
    table = table.sort_values(["use", "order"], ascending=False, kind="stable", na_position="last")
    return table.drop(columns="order")[:MAX_ROWS].reset_index(drop=True)


def _nearest(rates: Sequence[RateLimit], group: GroupUse | None) -> tuple[str, str, float | None]:
    """Return the state of a namespace, its nearest limit in words, and the use of that, a ratio."""
    found = [
        (rate.ratio, MARKS[rate.verdict], f"{_kind_words(rate)} {_each(rate)}") for rate in rates
    ]
    if group is not None:
        for key, quantity in QUANTITIES.items():
            ratio = group.ratio(key) if quantity.is_enforced else None
            if ratio is not None:
                state = MARKS["at its limit" if ratio >= 1 else "within"]
                limit = limit_words(group.limits[key], quantity.unit)
                found.append((ratio, state, f"{quantity.title} {limit}, {_GROUPED} {group.name}"))
    if not found:
        return MARKS["unlimited"], "", None
    order = list(MARKS.values())
    state = min((one[1] for one in found), key=order.index)
    ratio, _, words = max(found, key=lambda one: -1.0 if one[0] is None else one[0])
    return state, words, ratio


def _kind_words(limit: RateLimit) -> str:
    return policy_kind(limit.kind).title.removesuffix(" of namespace").removesuffix(" rate")


def _each(limit: RateLimit) -> str:
    return f"{amount(limit.limit, limit.unit)} per {limit.holder}"


# -- resource groups -------------------------------------------------------------------------------


def groups_table(groups: Sequence[GroupUse]) -> pd.DataFrame:
    """Return one row a group: limits, use and share of each limit."""
    rows = []
    for group in groups:
        row: dict[str, object] = {"group": group.name}
        row["namespaces"] = len(group.namespaces)
        row["members"] = listed(group.namespaces, 4) if group.namespaces else "no namespace"
        row["note"] = "" if group.is_defined else "referenced but not defined"
        for key, kind in QUANTITIES.items():
            row[f"{key}_limit"] = limit_words(group.limits[key], kind.unit)
            row[f"{key}_used"] = amount(group.used[key], kind.unit)
            ratio = group.ratio(key)
            row[f"{key}_ratio"] = None if ratio is None else ratio * 100
        rows.append(row)
    columns = ["group", "namespaces", "members", "note"]
    columns += [f"{key}_{part}" for key in QUANTITIES for part in ("limit", "used", "ratio")]
    return pd.DataFrame(rows, columns=columns)


def limit_words(limit: float, unit: str) -> str:
    """Return a limit for people."""
    return NO_LIMIT if limit < 0 else amount(limit, unit)


def shares_table(shared: SharedLimit) -> pd.DataFrame:
    """Return one row a broker that carries some of a group, busiest first."""
    unit = shared.quantity.unit
    order = np.argsort(-shared.used, kind="stable")[:MAX_BROKERS]
    order = order[shared.used[order] > 0]
    return pd.DataFrame(
        [
            {
                "broker": shared.brokers[row],
                "used": amount(float(shared.used[row]), unit),
                "upstream": limit_words(float(shared.upstream[row]), unit),
                "published": limit_words(float(shared.published[row]), unit),
                "mark": "▲ over" if shared.is_over[row] else "",
                "part": float(shared.used[row] / shared.used.sum() * 100),
            }
            for row in order.tolist()
        ],
        columns=["broker", "part", "used", "upstream", "published", "mark"],
    )


def shares_notes(shared: SharedLimit) -> list[str]:
    """Return the notes on the shares."""
    idle = int((shared.used <= 0).sum())
    notes = [
        (
            "Each broker computes its share of the limit from the last usage reports of all "
            "brokers. Upstream: ResourceQuotaCalculatorImpl (single precision, truncated, min "
            "1). PIP-82: "
            "the published formula."
        )
    ]
    if idle and shared.limit >= 0:
        notes.append(
            f"Brokers without use: {idle}. When such a broker gets a bundle, its share is "
            f"1 {shared.quantity.unit} until its next usage report."
        )
    if not shared.quantity.is_enforced:
        notes.append("Brokers compute dispatch shares but do not apply them.")
    return notes


# -- rates -----------------------------------------------------------------------------------------


def rates_table(rates: Sequence[RateLimit]) -> pd.DataFrame:
    """Return one row a limit, worst first; unlimited quantities are excluded."""
    rows = [
        {
            "namespace": rate.namespace,
            "kind": policy_kind(rate.kind).title.removesuffix(" of namespace"),
            "limit": _each(rate),
            "live": "not reported" if rate.live is None else amount(rate.live, rate.unit),
            "holders": rate.max_holders,
            "mean": None if rate.mean is None else amount(rate.mean, rate.unit),
            "state": MARKS[rate.verdict],
            "why": rate.why,
        }
        for rate in rates
        if rate.limit > 0
    ]
    columns = ["namespace", "kind", "limit", "live", "holders", "mean", "state", "why"]
    return pd.DataFrame(rows[:MAX_ROWS], columns=columns)


def namespace_facts(use: NamespaceUse, row: int) -> dict[str, str]:
    """Return the current load of a namespace."""
    rates = {name: float(use.rate(name)[row]) for name in RATES}
    facts = {
        "Published now": f"{amount(rates['msg_rate_in'], 'msg/s')}, "
        f"{amount(rates['msg_throughput_in'], 'bytes/s')}",
        "Dispatched now": f"{amount(rates['msg_rate_out'], 'msg/s')}, "
        f"{amount(rates['msg_throughput_out'], 'bytes/s')}",
        "Topics": f"{use.topics[row]:,} in {pluralize(int(use.bundles[row]), 'bundle')}",
        "Consumers": f"{use.consumers[row]:,}",
        "Resource group": use.groups[row] or "none",
    }
    if use.silent[row]:
        facts["Not reported"] = f"the traffic of {pluralize(int(use.silent[row]), 'bundle')}"
    return facts


# -- quotas ----------------------------------------------------------------------------------------


def quotas_table(quotas: Mapping[str, str], live: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row a quota, the default one first, next to the bundle's load.

    Args:
        quotas: Bundle or ``default`` to its document.
        live: Bundle to its rates.
    """
    rows = []
    for name in sorted(quotas, key=lambda one: (one != DEFAULT_QUOTA_NAME, one))[:MAX_ROWS]:
        try:
            quota = json.loads(quotas[name])
        except ValueError:
            quota = {}
        now = live.get(name, {})
        rows.append(
            {
                "bundle": name,
                "msg_in": quota.get("msgRateIn"),
                "msg_out": quota.get("msgRateOut"),
                "mb_in": _mega(quota.get("bandwidthIn")),
                "mb_out": _mega(quota.get("bandwidthOut")),
                "memory": quota.get("memory"),
                "dynamic": "yes" if quota.get("dynamic") else "no",
                "live_in": now.get("msg_rate_in"),
                "live_out": now.get("msg_rate_out"),
            }
        )
    columns = ["bundle", "msg_in", "msg_out", "mb_in", "mb_out", "memory", "dynamic"]
    return pd.DataFrame(rows, columns=[*columns, "live_in", "live_out"])


def _mega(value: object) -> float | None:
    return value / 1e6 if isinstance(value, int | float) else None


# -- tenants ---------------------------------------------------------------------------------------


def tenants_table(tenants: Sequence[TenantUse]) -> pd.DataFrame:
    """Return one row a tenant, the largest share of the traffic first."""
    rows = []
    for tenant in tenants[:MAX_ROWS]:
        msgs, size = tenant.bounds["publish_msgs"], tenant.bounds["publish_bytes"]
        rows.append(
            {
                "tenant": tenant.name,
                "share": tenant.share * 100,
                "namespaces": len(tenant.namespaces),
                "bundles": tenant.bundles,
                "topics": tenant.topics,
                **{name: tenant.rates[name] for name in RATES[:2]},
                **{name: tenant.rates[name] / 1e6 for name in RATES[2:]},
                "msgs_limit": bound_words(msgs, "msg/s"),
                "msgs_ratio": None if msgs.ratio is None else msgs.ratio * 100,
                "bytes_limit": bound_words(size, "bytes/s"),
                "bytes_ratio": None if size.ratio is None else size.ratio * 100,
                "groups": listed(tenant.groups) if tenant.groups else "",
                "unlimited": listed(msgs.unlimited) if msgs.unlimited else "",
                "silent": tenant.silent,
                "storage": None if tenant.storage_bytes is None else tenant.storage_bytes / 1e6,
            }
        )
    columns = ["tenant", "share", "namespaces", "bundles", "topics", *RATES]
    columns += ["msgs_limit", "msgs_ratio", "bytes_limit", "bytes_ratio", "groups", "unlimited"]
    return pd.DataFrame(rows, columns=[*columns, "silent", "storage"])


def idle_columns(rows: pd.DataFrame) -> list[str]:
    """Return the columns of limits that are empty: the answer says that nothing is limited."""
    found = []
    for key in ("msgs", "bytes"):
        if rows[f"{key}_limit"].str.startswith(NO_LIMIT).all():
            found.append(f"{key}_limit")
        if rows[f"{key}_ratio"].isna().all():
            found.append(f"{key}_ratio")
    return found


def namespaces_table(
    tenant: TenantUse, use: NamespaceUse, rates: Mapping[str, Sequence[RateLimit]]
) -> pd.DataFrame:
    """Return one row a namespace of a tenant, the busiest first."""
    places = {name: row for row, name in enumerate(use.namespaces)}
    rows = []
    for name in tenant.namespaces[:MAX_ROWS]:
        row = places[name]
        parts = [f"{_kind_words(one)} {_each(one)}" for one in rates.get(name, ()) if one.limit > 0]
        rows.append(
            {
                "namespace": name,
                **{rate: float(use.rate(rate)[row]) for rate in RATES[:2]},
                **{rate: float(use.rate(rate)[row]) / 1e6 for rate in RATES[2:]},
                "bundles": int(use.bundles[row]),
                "topics": int(use.topics[row]),
                "group": use.groups[row] or "",
                "limits": "; ".join(parts) or NO_LIMIT,
            }
        )
    rows.sort(key=lambda one: -float(str(one["msg_throughput_in"])))
    columns = ["namespace", *RATES, "bundles", "topics", "group", "limits"]
    return pd.DataFrame(rows, columns=columns)


def bound_words(bound: Bound, unit: str) -> str:
    """Return the sum of a tenant's limits as text."""
    if bound.limit is None:
        return f"{NO_LIMIT}: {pluralize(len(bound.unlimited), 'namespace')}"
    shared = f", shared: {listed(bound.shared_groups)}" if bound.shared_groups else ""
    return f"{amount(bound.limit, unit)}{shared}"


def tenants_answer(tenants: Sequence[TenantUse]) -> str:
    """Return the busiest tenant and the number of tenants without a publish limit."""
    if not tenants:
        return "No tenants with namespaces in this snapshot."
    first = tenants[0]
    free = [tenant for tenant in tenants if tenant.bounds["publish_msgs"].limit is None]
    return (
        f"Busiest tenant: {first.name}, {format_ratio(first.share)} of the traffic. "
        f"Tenants without a publish limit: {len(free)} of {len(tenants)}."
    )


# -- the calculator --------------------------------------------------------------------------------


def number(text: str, what: str) -> float:
    """Return a number that a person typed.

    Raises:
        InputError: It is none, or endless.
    """
    plain = text.replace(",", "").replace("_", "").strip()
    try:
        value = float(plain)
    except ValueError:
        raise InputError(f"{what} must be a number, not {text[:40]!r}.") from None
    if not math.isfinite(value):
        raise InputError(f"{what} must be a finite number, not {text[:40]!r}.")
    return value


def calculated(limit: str, usage: str) -> pd.DataFrame:
    """Return one row a broker: its use, and its share by both formulas.

    Raises:
        InputError: The limit or a usage is no number, or none that brokers can hold.
    """
    whole = whole_limit(number(limit, "The limit"))
    used = usage_list(usage)
    upstream = shares(whole, [float(math.floor(one)) for one in used])
    published = shares(whole, used, "published")
    return pd.DataFrame(
        {
            "broker": [f"broker {at}" for at in range(1, len(used) + 1)],
            "used": used,
            "upstream": upstream,
            "published": published,
            "room": [share - use for share, use in zip(published, used, strict=True)],
        }
    )


def calculated_answer(rows: pd.DataFrame, limit: str) -> str:
    """Return the sum of the shares and the number of throttled brokers."""
    if number(limit, "The limit") < 0:
        return "No limit, no throttling."
    together = float(rows["upstream"].sum())
    held = rows[rows["upstream"] < np.floor(rows["used"])]
    lost = float((held["used"] - held["upstream"]).sum())
    parts = f"Total of all brokers: {together:,.0f}/s"
    if held.empty:
        return f"{parts}; no throttling."
    return f"{parts}; {pluralize(len(held), 'broker')} throttling {lost:,.0f}/s."


def timeline_data(
    limit: str, steps: str, *, period: str, tolerance: str
) -> tuple[ShareTimelineData, ShareTimeline]:
    """Return the chart's numbers of a simulation, and the simulation.

    Raises:
        InputError: Any of it cannot be.
    """
    period_s = number(period, "The report interval")
    timeline, whole = simulated_steps(
        number(limit, "The limit"),
        steps,
        period_s=period_s,
        tolerance_percent=number(tolerance, "The tolerance"),
    )
    periods, brokers = timeline.wanted.shape
    first = np.full((1, brokers), np.nan if whole < 0 else float(whole))
    allowed = np.vstack([first, timeline.share[:-1]])
    return ShareTimelineData(
        seconds=np.arange(periods, dtype=np.float64) * period_s,
        brokers=[f"broker {at}" for at in range(1, brokers + 1)],
        wanted=timeline.wanted,
        used=timeline.used,
        share=np.where(np.isfinite(allowed), allowed, np.nan),
        reports=timeline.reports,
        limit=np.nan if whole < 0 else float(whole),
    ), timeline


def timeline_answer(data: ShareTimelineData, timeline: ShareTimeline) -> str:
    """Return the throttled traffic, the most throttled broker and the peak above the limit."""
    held_back = timeline.held_back
    wanted = float(timeline.wanted.sum())
    if not wanted:
        return "No demand."
    parts = f"Throttled: {format_ratio(float(held_back.sum()) / wanted)} of the demand"
    if held_back.any():
        worst = int(np.argmax(held_back.sum(axis=0)))
        parts += f", most on {data.brokers[worst]}"
    sums = timeline.used.sum(axis=1)
    over = sums > data.limit if np.isfinite(data.limit) else np.zeros(len(sums), np.bool_)
    if over.any():
        most = float(sums.max() / data.limit) if data.limit else math.inf
        parts += (
            f"; {pluralize(int(over.sum()), 'period')} above the limit (max {most:,.1f} times), "
            "because shares follow earlier reports"
        )
    silent = int((~timeline.reports).sum())
    if silent:
        parts += f"; {silent:,} of {pluralize(timeline.reports.size, 'report')} suppressed"
    return f"{parts}."


def timeline_table(data: ShareTimelineData, timeline: ShareTimeline) -> pd.DataFrame:
    """Return one row a period and broker, for downloads."""
    periods, brokers = timeline.wanted.shape
    names: Sequence[str] = data.brokers
    return pd.DataFrame(
        {
            "second": np.repeat(data.seconds, brokers),
            "broker": list(names) * periods,
            "wanted": timeline.wanted.ravel(),
            "got_through": timeline.used.ravel(),
            "allowed": data.share.ravel(),
            "reported": timeline.reports.ravel(),
        }
    )
