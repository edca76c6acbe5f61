"""What the page of isolation shows: who may serve what, what is wrong, groups and domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd

from core.pulsar.serving import ROLES, Serving, ServingRow
from core.pulsar.spread import Crowd, Spread
from core.units import counted
from dashboard.presenters.isolation_words import ROLE_WORDS, Violation, row_name
from dashboard.presenters.naming import listed

VIEWS: Final = ("policies", "groups", "domains")
FIXED: Final = ("policy", "namespaces", "bundles", "misplaced")
"""Columns of the matrix that are no brokers."""

ROLES_NOTE: Final = (
    "primary: serves; secondary, stands by: would serve if fewer primaries than min_limit were "
    "there; secondary, serves: they are; shared: no policy has it as primary, so it serves what "
    "has no policy; no load report: placement passes it over."
)
MAX_COLUMNS: Final = 40


def answer(serving: Serving, violations: Sequence[Violation], groups: int, domains: int) -> str:
    """Return the page's one sentence."""
    view = serving.view
    if not view.policies:
        kept = "No isolation policy is set: every broker may serve every namespace"
    else:
        governed = sum(len(row.namespaces) for row in serving.rows[:-1])
        brokers = int(view.is_primary.any(axis=0).sum())
        kept = (
            f"{_policies(len(view.policies))} "
            f"{brokers} of {counted(len(view.brokers), 'broker')} for "
            f"{counted(governed, 'namespace')}"
        )
    parts = [
        kept,
        f"{counted(groups, 'anti-affinity group')}, {counted(domains, 'failure domain')}",
    ]
    wrong = int(serving.misplaced.size)
    serious = [one for one in violations if one.severity in ("error", "warning")]
    if wrong:
        parts.append(
            f"{counted(wrong, 'bundle')} {'lies' if wrong == 1 else 'lie'} where "
            f"{'it' if wrong == 1 else 'they'} may not"
        )
    elif serious:
        parts.append(f"{counted(len(serious), 'thing')} to mend")
    else:
        parts.append("no bundle lies where it may not")
    return "; ".join(parts) + "."


def _policies(count: int) -> str:
    return "1 isolation policy keeps" if count == 1 else f"{count:,} isolation policies keep"


def class_names(serving: Serving) -> list[str]:
    """Return what the columns of the matrix are called: brokers that are the same to all."""
    names = []
    for rows in serving.broker_classes:
        brokers = [serving.view.brokers[at] for at in rows.tolist()]
        names.append(brokers[0] if len(brokers) == 1 else f"{brokers[0]} + {len(brokers) - 1:,}")
    return names


def class_help(serving: Serving, name: str) -> str:
    """Return which brokers a column of the matrix stands for."""
    rows = serving.broker_classes[class_names(serving).index(name)]
    return listed([serving.view.brokers[at] for at in rows.tolist()], 12)


def matrix(serving: Serving, contains: str = "") -> pd.DataFrame:
    """Return a row a policy, a column a class of brokers, what each is to each.

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
        if any(contains in serving.view.brokers[row] for row in brokers.tolist())
    ] or list(range(len(classes)))
    names = class_names(serving)
    table = pd.DataFrame(
        {
            "policy": [row_name(rows[at]) for at in shown],
            "namespaces": [_spaces(rows[at]) for at in shown],
            "bundles": [rows[at].bundles for at in shown],
            "misplaced": [rows[at].misplaced for at in shown],
        }
    )
    for at in columns[:MAX_COLUMNS]:
        broker = int(classes[at][0])
        table[names[at]] = [ROLE_WORDS[serving.role(row, broker)] for row in shown]
    return table


def matrix_note(serving: Serving) -> str:
    """Return how brokers are gathered into columns."""
    classes = serving.broker_classes
    total = len(serving.view.brokers)
    text = (
        f"{counted(total, 'broker')} in {counted(len(classes), 'column')}: those that are the same "
        "to every policy stand together."
    )
    if len(classes) > MAX_COLUMNS:
        text += f" The first {MAX_COLUMNS} are shown; the filter finds the others."
    return text


def _spaces(row: ServingRow) -> str:
    return listed(row.namespaces, 2) if row.namespaces else "none"


def policy_facts(serving: Serving, name: str) -> dict[str, str]:
    """Return the facts about one policy, upstream's names beside plain words."""
    view = serving.view
    at = next(row for row, policy in enumerate(view.policies) if policy.name == name)
    row, policy = serving.rows[at], view.policies[at]
    by_role: dict[str, list[str]] = {}
    for broker, role in zip(view.brokers, serving.roles[at].tolist(), strict=True):
        if role:
            by_role.setdefault(ROLE_WORDS[ROLES[role]], []).append(broker)
    facts = {
        "Namespaces (namespaces)": ", ".join(policy.namespaces)
        + f": {counted(len(row.namespaces), 'namespace')} now",
        "Primary brokers (primary)": ", ".join(policy.primary),
        "Secondary brokers (secondary)": ", ".join(policy.secondary) or "none",
        "Fewest primaries (min_limit)": f"{policy.min_limit}, {row.primaries} there"
        + (": too few, secondaries serve" if row.is_short else ""),
        "Usage threshold (usage_threshold)": f"{policy.usage_threshold} %, stored; placement does "
        "not use it",
        "Unloads when set (unload_scope)": policy.unload_scope or "not said: changed",
    }
    return facts | {f"Brokers: {role}": listed(names, 6) for role, names in sorted(by_role.items())}


def groups_table(spread: Spread, crowds: Sequence[Crowd]) -> pd.DataFrame:
    """Return a row a member of an anti-affinity group, those that crowd marked."""
    crowded = {name for crowd in crowds for name in crowd.members}
    rows = [
        {
            "group": group,
            "namespace": member.namespace,
            "bundles": member.bundles,
            "brokers": listed(member.brokers, 3) or "nobody",
            "domains": ", ".join(member.domains) or "none",
            "mark": "could be further apart" if member.namespace in crowded else "as it should be",
        }
        for group in spread.view.groups
        for member in spread.members(group)
    ]
    columns = ["group", "namespace", "bundles", "brokers", "domains", "mark"]
    return pd.DataFrame(rows, columns=columns)


def domains_table(serving: Serving, domains: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return a row a failure domain, with what its brokers carry."""
    view = serving.view
    total = float(view.broker_throughput.sum())
    rows = []
    for name, brokers in domains.items():
        at = [view.broker_index[one] for one in brokers if one in view.broker_index]
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
