"""Policies as a snapshot reports them, and the snapshot as it would be with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from core.errors import InputError
from core.pulsar.policy_kinds import PolicyChange, PolicyKind, policy_kind
from core.snapshot import PulsarSnapshot

_COLUMNS: Mapping[str, str] = {
    "namespace_resource_group": "resource_group",
    "anti_affinity": "anti_affinity_group",
}
"""Kinds that are a column of the namespaces."""


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
    """Return one policy in its one form; ``None``: it is not set."""
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
    """Return a stored body in its one form, or as it is where it has none."""
    try:
        return kind.canonical(body)
    except InputError:
        return body
