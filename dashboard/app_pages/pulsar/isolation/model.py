"""Numbers and texts of the isolation page: who serves what, groups, domains, a change."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from core.findings.finding import Severity
from core.ids import host_of
from core.pulsar.anti_affinity import Collision, GroupSpread
from core.pulsar.bundle_counts import Ints
from core.pulsar.isolation import host_expression, without_port
from core.pulsar.plan.policy.impact import NamespaceChange, PolicyImpact
from core.pulsar.plan.preview import Preview, overloaded
from core.pulsar.policy_kinds import policy_kind
from core.pulsar.serving import ROLES, Serving, ServingRow
from core.units import format_ratio, is_whole, listed, pluralize
from dashboard.legible import searchable
from dashboard.presenters.figures import KeyFigure
from dashboard.presenters.pulsar.isolation_words import ROLE_WORDS, Violation, row_name

# -- as it is --------------------------------------------------------------------------------------

POLICIES: Final = "Policies"
GROUPS: Final = "Groups"
DOMAINS: Final = "Domains"
EDITOR: Final = "Edit policy"
FIXED: Final = ("policy", "namespaces", "bundles", "misplaced")
"""Columns of the matrix that are no brokers."""

ROLES_NOTE: Final = "Secondary: active below min_limit primaries. Shared: primary of no policy."
MAX_COLUMNS: Final = 40
_SEVERITIES: Final[tuple[tuple[Severity, str], ...]] = (
    ("error", "error"),
    ("warning", "warning"),
    ("info", "note"),
)
_NAMED_ROLES: Final = ("primary", "secondary", "standby", "shared")
UNREADABLE: Final = "unreadable"
"""What a cell of a policy shows that Trimtab cannot evaluate."""


def key_figures(
    serving: Serving, violations: Sequence[Violation], groups: int, domains: int
) -> list[KeyFigure]:
    """Return the figures of isolation and its violations.

    Args:
        serving: Who may serve what.
        violations: What is wrong now.
        groups: Anti-affinity groups.
        domains: Failure domains.
    """
    view = serving.view
    governed = sum(len(row.namespaces) for row in serving.rows if row.policy is not None)
    brokers = int(view.is_primary.any(axis=0).sum()) if view.policies else 0
    misplaced = int(serving.misplaced.size)
    severities = Counter(violation.severity for violation in violations)
    counts = [pluralize(severities[one], noun) for one, noun in _SEVERITIES if severities[one]]
    if severities["unknown"]:
        counts.append(f"{severities['unknown']} unknown")
    return [
        KeyFigure(
            label="Isolation policies",
            value=f"{len(view.policies):,}",
            note=f"for {pluralize(governed, 'namespace')}",
        ),
        KeyFigure(label="Isolated brokers", value=f"{brokers:,}", note=f"of {len(view.brokers):,}"),
        KeyFigure(
            label="Misplaced",
            value=pluralize(misplaced, "bundle"),
            status="warning" if misplaced else "ok",
            note="on brokers that are not allowed" if misplaced else "all on allowed brokers",
        ),
        KeyFigure(
            label="Findings",
            value=f"{len(violations):,}",
            note=", ".join(counts) or "none",
            status="bad"
            if severities["error"]
            else "warning"
            if severities["warning"]
            else ""
            if violations
            else "ok",
        ),
        KeyFigure(label="Anti-affinity groups", value=f"{groups:,}"),
        KeyFigure(label="Failure domains", value=f"{domains:,}"),
    ]


def class_names(serving: Serving) -> list[str]:
    """Return the labels of the matrix columns: brokers that are equal for all namespaces."""
    labels = [_class_label(serving, rows) for rows in serving.broker_classes]
    repeated = {label for label, count in Counter(labels).items() if count > 1}
    return [
        f"{label}: {serving.view.brokers[int(rows[0])]}…" if label in repeated else label
        for label, rows in zip(labels, serving.broker_classes, strict=True)
    ]


def _class_label(serving: Serving, rows: Ints) -> str:
    """Return a broker's name, or the number of brokers with the role that they have in common."""
    if rows.size == 1:
        return serving.view.brokers[int(rows[0])]
    roles = {ROLES[role] for role in serving.roles[:, rows[0]].tolist()} - {"none"}
    role = roles.pop() if len(roles) == 1 else ""
    noun = f"{role} brokers" if role in _NAMED_ROLES else "brokers"
    return f"{rows.size:,} {noun}"


def class_help(serving: Serving, name: str) -> str:
    """Return the brokers in a column of the matrix."""
    rows = serving.broker_classes[class_names(serving).index(name)]
    return listed([serving.view.brokers[at] for at in rows.tolist()], 12)


def matrix(serving: Serving, contains: str = "") -> pd.DataFrame:
    """Return the roles: a row a policy, a column a class of brokers.

    Args:
        serving: Who may serve what.
        contains: Only rows whose policy or a namespace, and columns of which a broker, has this;
            where nothing has it in one direction, that direction is whole.
    """
    rows = serving.rows
    shown = [at for at, row in enumerate(rows) if contains in row_name(row)] or [
        at for at, row in enumerate(rows) if any(contains in name for name in row.namespaces)
    ]
    shown = shown or list(range(len(rows)))
    classes = serving.broker_classes
    columns = [
        at
        for at, brokers in enumerate(classes)
        if any(contains in searchable(serving.view.brokers[row]) for row in brokers.tolist())
    ] or list(range(len(classes)))
    names = class_names(serving)
    table = pd.DataFrame(
        {
            "policy": [row_name(rows[at]) for at in shown],
            "namespaces": [_spaces(rows[at]) for at in shown],
            "bundles": pd.array([rows[at].bundles for at in shown], dtype="Int64"),
            "misplaced": pd.array([rows[at].misplaced for at in shown], dtype="Int64"),
        }
    )
    for at in columns[:MAX_COLUMNS]:
        broker = int(classes[at][0])
        table[names[at]] = [ROLE_WORDS[serving.role(row, broker)] for row in shown]
    unread = [name for name in serving.view.unreadable_policies if contains in name]
    return pd.concat([table, _unreadable(unread, table)], ignore_index=True) if unread else table


def _unreadable(names: Sequence[str], table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of unreadable policies: their namespaces are unknown."""
    cells: dict[str, list[Any]] = {name: [UNREADABLE] * len(names) for name in table.columns}
    counts = {name: [None] * len(names) for name in ("bundles", "misplaced")}
    return pd.DataFrame({**cells, "policy": list(names), **counts}).astype(
        {"bundles": "Int64", "misplaced": "Int64"}
    )


def matrix_note(serving: Serving) -> str:
    """Return the rule that groups brokers into columns."""
    classes = serving.broker_classes
    total = len(serving.view.brokers)
    text = (
        f"{pluralize(total, 'broker')} in {pluralize(len(classes), 'column')}: brokers with "
        "equal roles are grouped."
    )
    if len(classes) > MAX_COLUMNS:
        text += f" First {MAX_COLUMNS} shown; use the filter for the others."
    return text


def _spaces(row: ServingRow) -> str:
    return listed(row.namespaces, 2) if row.namespaces else "none"


def policy_facts(serving: Serving, name: str) -> dict[str, str]:
    """Return the facts about one policy, upstream's names next to plain words."""
    view = serving.view
    at = next(row for row, policy in enumerate(view.policies) if policy.name == name)
    row, policy = serving.rows[at], view.policies[at]
    by_role: dict[str, list[str]] = {}
    for broker, role in zip(view.brokers, serving.roles[at].tolist(), strict=True):
        if role:
            by_role.setdefault(ROLE_WORDS[ROLES[role]], []).append(broker)
    facts = {
        "Namespaces (namespaces)": ", ".join(policy.namespaces)
        + f": {pluralize(len(row.namespaces), 'namespace')} now",
        "Primary brokers (primary)": ", ".join(policy.primary),
        "Secondary brokers (secondary)": ", ".join(policy.secondary) or "none",
        "Min primaries (min_limit)": f"{policy.min_limit}, {row.primaries} available"
        + (": below the limit, secondaries active" if row.is_short else ""),
        "Usage threshold (usage_threshold)": f"{policy.usage_threshold}%, stored but not used by "
        "placement",
        "Unload scope (unload_scope)": policy.unload_scope or "default: changed",
    }
    return facts | {f"Brokers: {role}": listed(names, 6) for role, names in sorted(by_role.items())}


def groups_table(spread: GroupSpread, collisions: Sequence[Collision]) -> pd.DataFrame:
    """Return a row a member of an anti-affinity group, those that crowd marked."""
    crowded = {name for crowd in collisions for name in crowd.members}
    rows = [
        {
            "group": group,
            "namespace": member.namespace,
            "bundles": member.bundles,
            "brokers": listed(member.brokers, 3) or "no brokers",
            "domains": ", ".join(member.domains) or "none",
            "mark": "can be separated further" if member.namespace in crowded else "separated",
        }
        for group in spread.view.groups
        for member in spread.members(group)
    ]
    columns = ["group", "namespace", "bundles", "brokers", "domains", "mark"]
    return pd.DataFrame(rows, columns=columns)


def domains_table(serving: Serving, domains: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return a row a failure domain, with the load of its brokers."""
    view = serving.view
    total = float(view.broker_throughput.sum())
    rows = []
    for name, brokers in domains.items():
        at = [view.broker_index[broker] for broker in brokers if broker in view.broker_index]
        carried = float(view.broker_throughput[at].sum())
        rows.append(
            {
                "domain": name,
                "brokers": listed(brokers, 4) or "none",
                "count": len(brokers),
                "registered": len(at),
                "traffic": carried / 1e6,
                "share": carried / total * 100 if total else None,
            }
        )
    columns = ["domain", "brokers", "count", "registered", "traffic", "share"]
    return pd.DataFrame(rows, columns=columns)


# -- a change: forms to documents, before and after ------------------------------------------------

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
    return [without_port(expression) for expression in expressions]


def isolation_body(entered: Mapping[str, Any]) -> str:
    """Return the document of an isolation policy.

    Args:
        entered: ``namespaces``, ``primary``, ``secondary``, ``min_limit``, ``usage_threshold``
            and ``unload_scope``, blank: the default.
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
    body = json.dumps({"brokers": [broker.strip() for broker in brokers if broker.strip()]})
    return policy_kind("failure_domain").canonical(body)


def stored_fields(value: str | None) -> dict[str, Any]:
    """Return the initial values of a form of an isolation policy."""
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
    return int(text) if is_whole(text) else default


def namespace_table(impact: PolicyImpact) -> pd.DataFrame:
    """Return the candidates before and after, one row per namespace with changed candidates."""
    rows = [_namespace_row(change) for change in impact.changes[:MAX_ROWS]]
    columns = ["namespace", "before", "after", "added", "dropped"]
    columns += ["bundles", "misplaced", "staying"]
    return pd.DataFrame(rows, columns=columns)


def _namespace_row(namespace_change: NamespaceChange) -> dict[str, object]:
    before, after = set(namespace_change.before), set(namespace_change.after)
    return {
        "namespace": namespace_change.namespace,
        "before": listed(namespace_change.before, 2) or "no brokers",
        "after": listed(namespace_change.after, 2) or "no brokers",
        "added": len(after - before),
        "dropped": len(before - after),
        "bundles": namespace_change.bundles,
        "misplaced": len(namespace_change.misplaced),
        "staying": namespace_change.staying,
    }


def destinations(preview: Preview, limit: float) -> pd.DataFrame:
    """Return the expected losses and gains of each broker, those over the limit first.

    Rows are brokers that are touched: bundles now, leaving, expected to come; traffic and usage
    now and after.

    Args:
        preview: Where bundles are placed again.
        limit: The overload limit, usage 0..1.
    """
    over = {row["broker"] for row in overloaded(preview.before_after, limit)}
    table = preview.before_after.to_pandas()
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
            "limit": [
                f"▲ over {format_ratio(limit)}" if name in over else "" for name in table["broker"]
            ],
        }
    )
    order = np.lexsort((-rows["come"].to_numpy(), ~table["broker"].isin(over).to_numpy()))
    return rows.iloc[order].reset_index(drop=True)
