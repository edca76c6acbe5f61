"""Policies as a snapshot reports them, and the snapshot as it would be with others.

A namespace that sets no storage policy follows the defaults of the brokers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from core.errors import InputError
from core.pulsar.policy_kinds import PolicyChange, PolicyKind, policy_kind
from core.schemas.pulsar import NAMESPACE_STORAGE
from core.snapshot import PulsarSnapshot

_COLUMNS: Mapping[str, str] = {
    "namespace_resource_group": "resource_group",
    "anti_affinity": "anti_affinity_group",
}
"""Kinds that are a column of the namespaces."""

Number = int | float


def policies_of(snapshot: PulsarSnapshot, policy: str) -> dict[str, str]:
    """Return every policy of a kind of a snapshot, name to value in its one form.

    Isolation policies keep their stored order, which counts.
    """
    kind = policy_kind(policy)
    if kind.is_text:
        column = _COLUMNS[policy]
        rows = snapshot.namespaces.select(["namespace", column]).to_pylist()
        return {row["namespace"]: row[column] for row in rows if row[column]}
    rows = snapshot.policies.filter(pc.equal(snapshot.policies["kind"], policy)).to_pylist()
    return {row["name"]: _readable(kind, row["body"]) for row in rows}


def stored_policy(snapshot: PulsarSnapshot, policy: str, name: str) -> str | None:
    """Return one policy in its normalized form, or ``None`` if not set."""
    return policies_of(snapshot, policy).get(name)


def with_policies(snapshot: PulsarSnapshot, changes: Sequence[PolicyChange]) -> PulsarSnapshot:
    """Return the snapshot with policies set and removed; owners stay where they are."""
    tables = dict(snapshot.tables)
    for change in changes:
        if policy_kind(change.policy).is_text:
            column = _COLUMNS[change.policy]
            tables["namespaces"] = _with_text(
                tables["namespaces"], column, change.name, change.value
            )
        else:
            tables["policies"] = _with_body(tables["policies"], change)
    return PulsarSnapshot.build(snapshot.manifest, tables)


def _with_text(namespaces: pa.Table, column: str, name: str, value: str | None) -> pa.Table:
    is_meant = pc.equal(namespaces["namespace"], name)
    changed = pc.if_else(is_meant, pa.scalar(value, pa.string()), namespaces[column])
    at = namespaces.schema.get_field_index(column)
    return namespaces.set_column(at, namespaces.schema.field(column), changed)


def _with_body(policies: pa.Table, change: PolicyChange) -> pa.Table:
    """Replace a body in its place, or add it behind the others of its kind."""
    rows = policies.to_pylist()
    at = next(
        (
            place
            for place, row in enumerate(rows)
            if (row["kind"], row["name"]) == (change.policy, change.name)
        ),
        None,
    )
    entry = {"kind": change.policy, "name": change.name, "body": change.value}
    if at is None and change.value is not None:
        behind = [place for place, row in enumerate(rows) if row["kind"] <= change.policy]
        rows.insert(behind[-1] + 1 if behind else 0, entry)
    elif at is not None:
        rows[at : at + 1] = [entry] if change.value is not None else []
    return pa.Table.from_pylist(rows, schema=policies.schema)


def _readable(kind: PolicyKind, body: str) -> str:
    """Return a stored body in its normalized form, else unchanged."""
    try:
        return kind.canonical(body)
    except InputError:
        return body


def storage_policies(snapshot: PulsarSnapshot, namespace: str) -> dict[str, Number]:
    """Return a namespace's own policies, by the broker setting that each replaces.

    Args:
        snapshot: The cluster; one taken before these were read has none.
        namespace: ``tenant/namespace``.
    Returns:
        Minutes, MB, seconds, bytes and copies, as the setting counts them; -1: without limit. What
        is not set, or is no number, lacks.
    Source:
        Pulsar ``Policies``, ``RetentionPolicies``, ``BacklogQuotaImpl``, ``PersistencePolicies``.
    """
    table = snapshot.policies
    is_meant = pc.and_(
        pc.equal(table["kind"], NAMESPACE_STORAGE), pc.equal(table["name"], namespace)
    )
    bodies = table.filter(is_meant)["body"].to_pylist()
    if not bodies:
        return {}
    policies = json.loads(bodies[0])
    return {key: value for key, value in _pairs(policies) if _is_number(value)}


def _pairs(policies: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    retention = _object(policies, "retention_policies")
    yield "defaultRetentionTimeInMinutes", retention.get("retentionTimeInMinutes")
    yield "defaultRetentionSizeInMB", retention.get("retentionSizeInMB")
    yield "ttlDurationDefaultInSeconds", policies.get("message_ttl_in_seconds")
    quota = _object(_object(policies, "backlog_quota_map"), "destination_storage")
    # ``limit`` is what releases before 2.8 wrote
    yield "backlogQuotaDefaultLimitBytes", quota.get("limitSize", quota.get("limit"))
    persistence = _object(policies, "persistence")
    yield "managedLedgerDefaultWriteQuorum", persistence.get("bookkeeperWriteQuorum")


def _object(policies: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = policies.get(name)
    return found if isinstance(found, dict) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
