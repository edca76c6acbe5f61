"""A change of isolation on its page: forms to documents, before and after, where bundles go."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from core.ids import host_of
from core.plan.policy_impact import NamespaceChange, PolicyImpact
from core.plan.policy_kinds import policy_kind
from core.plan.policy_moves import MAX_MOVES, PolicyOutlook
from core.plan.preview import Preview
from core.pulsar.isolation import host_expression, without_port
from core.units import counted
from dashboard.presenters.naming import listed

MAX_ROWS: Final = 300


def host_expressions(brokers: Sequence[str]) -> list[str]:
    """Return an expression for the host of each broker, as a policy needs it."""
    return [host_expression(one) for one in dict.fromkeys(map(host_of, brokers))]


def namespace_expressions(namespaces: Sequence[str]) -> list[str]:
    """Return expressions to choose from: whole tenants first, then each namespace."""
    tenants = sorted({name.partition("/")[0] for name in namespaces})
    return [f"{tenant}/.*" for tenant in tenants] + list(namespaces)


def without_ports(expressions: Sequence[str]) -> list[str]:
    """Return expressions without the port that placement never compares."""
    return [without_port(one) for one in expressions]


def isolation_body(entered: Mapping[str, Any]) -> str:
    """Return the document of an isolation policy.

    Args:
        entered: ``namespaces``, ``primary``, ``secondary``, ``min_limit``, ``usage_threshold``
            and ``unload_scope``, blank: not said.
    """
    body: dict[str, Any] = {
        key: [one.strip() for one in entered[key] if one.strip()]
        for key in ("namespaces", "primary", "secondary")
    }
    parameters = {key: str(entered[key]) for key in ("min_limit", "usage_threshold")}
    body["auto_failover_policy"] = {"policy_type": "min_available", "parameters": parameters}
    if entered.get("unload_scope"):
        body["unload_scope"] = entered["unload_scope"]
    return policy_kind("isolation").canonical(json.dumps(body))


def domain_body(brokers: Sequence[str]) -> str:
    """Return the document of a failure domain."""
    body = json.dumps({"brokers": [one.strip() for one in brokers if one.strip()]})
    return policy_kind("failure_domain").canonical(body)


def stored_fields(value: str | None) -> dict[str, Any]:
    """Return what a form of an isolation policy begins with."""
    body = json.loads(value) if value else {}
    parameters = (body.get("auto_failover_policy") or {}).get("parameters") or {}
    return {
        "namespaces": list(body.get("namespaces") or ()),
        "primary": list(body.get("primary") or ()),
        "secondary": list(body.get("secondary") or ()),
        "min_limit": _number(parameters.get("min_limit"), 1),
        "usage_threshold": _number(parameters.get("usage_threshold"), 100),
        "unload_scope": body.get("unload_scope") or "",
    }


def _number(value: object, default: int) -> int:
    text = str(value if value is not None else "")
    return int(text) if text.isdigit() else default


def impact_sentence(change: PolicyOutlook) -> str:
    """Return what the change does, in a sentence."""
    impact = change.impact
    if impact is None:
        return "Nothing would change."
    parts = [
        f"{counted(len(impact.changes), 'namespace')} would get other candidates",
        f"{counted(len(impact.misplaced), 'bundle')} would have to move",
    ]
    if impact.unloaded:
        parts.append(f"brokers unload {counted(len(impact.unloaded), 'bundle')} by themselves")
    if impact.without_brokers:
        parts.append(f"{listed(impact.without_brokers)} would have no broker at all")
    if impact.idle_brokers:
        parts.append(f"{listed(impact.idle_brokers)} could serve nothing")
    return "; ".join(parts) + "."


def namespace_table(impact: PolicyImpact) -> pd.DataFrame:
    """Return who may serve what before and after, a row a namespace whose candidates change."""
    rows = [_namespace_row(one) for one in impact.changes[:MAX_ROWS]]
    columns = ["namespace", "before", "after", "added", "dropped", "bundles", "misplaced"]
    return pd.DataFrame(rows, columns=columns)


def _namespace_row(one: NamespaceChange) -> dict[str, object]:
    before, after = set(one.before), set(one.after)
    return {
        "namespace": one.namespace,
        "before": listed(one.before, 2) or "nobody",
        "after": listed(one.after, 2) or "nobody",
        "added": len(after - before),
        "dropped": len(before - after),
        "bundles": one.bundles,
        "misplaced": len(one.misplaced),
    }


def destinations(course: Preview) -> pd.DataFrame:
    """Return what each broker is expected to lose and to get, those that get most first.

    Rows are brokers that are touched: bundles now, leaving, expected to come; traffic and usage
    now and after.
    """
    table = course.before_after.to_pandas()
    table = table[table["is_touched"]].copy()
    rows = pd.DataFrame(
        {
            "broker": table["broker"],
            "leave": table["departures"],
            "come": table["arrivals"],
            "before": table["throughput_bytes_per_s_before"] / 1e6,
            "after": table["throughput_bytes_per_s_after"].clip(lower=0.0) / 1e6 + 0.0,
            "usage_before": table["usage_ratio_before"] * 100,
            "usage_after": table["usage_ratio_after"] * 100,
        }
    )
    order = np.argsort(-rows["come"].to_numpy(), kind="stable")
    return rows.iloc[order].reset_index(drop=True)


def overload(course: Preview) -> str:
    """Return a warning about brokers that would get more than they can carry; blank: none."""
    rows = destinations(course)
    rows = rows[(rows["come"] > 0) & (rows["usage_after"] > 100)]
    if rows.empty:
        return ""
    worst = rows.loc[rows["usage_after"].idxmax()]
    return (
        f"{listed(rows['broker'].tolist())} would get more than "
        f"{'it' if len(rows) == 1 else 'they'} can carry ({worst['usage_after']:.0f} % at "
        f"{worst['broker']}): placement goes by the reports from before the unloads. Let more "
        "brokers serve these namespaces, or set unload_scope none and unload a few at a time."
    )


def course_note(change: PolicyOutlook) -> str:
    """Return what the expected destinations are about."""
    more = change.moving - MAX_MOVES
    text = (
        f"{counted(change.moving, 'bundle')} placed anew by the new policies: those that brokers "
        "unload when it is set, and those that the plan unloads."
    )
    if more > 0:
        text += f" Followed are the {MAX_MOVES} busiest; {more:,} more are not in these figures."
    return text
