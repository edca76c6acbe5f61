"""Policies as a snapshot reports them, and the snapshot as it would be with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from core.errors import InputError
from core.pulsar.policy_kinds import PolicyKind, policy_kind
from core.pulsar.steps.policy import SetPolicy
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


def with_policies(snapshot: PulsarSnapshot, steps: Sequence[SetPolicy]) -> PulsarSnapshot:
    """Return the snapshot with policies set and removed; owners stay where they are."""
    tables = dict(snapshot.tables)
    for step in steps:
        if policy_kind(step.policy).is_text:
            column = _COLUMNS[step.policy]
            tables["namespaces"] = _with_text(tables["namespaces"], column, step.name, step.value)
        else:
            tables["policies"] = _with_body(tables["policies"], step)
    return PulsarSnapshot.build(snapshot.manifest, tables)


def _with_text(namespaces: pa.Table, column: str, name: str, value: str | None) -> pa.Table:
    is_meant = pc.equal(namespaces["namespace"], name)
    changed = pc.if_else(is_meant, pa.scalar(value, pa.string()), namespaces[column])
    at = namespaces.schema.get_field_index(column)
    return namespaces.set_column(at, namespaces.schema.field(column), changed)


def _with_body(policies: pa.Table, step: SetPolicy) -> pa.Table:
    """Replace a body in its place, or add it behind the others of its kind."""
    rows = policies.to_pylist()
    at = next(
        (
            place
            for place, row in enumerate(rows)
            if (row["kind"], row["name"]) == (step.policy, step.name)
        ),
        None,
    )
    entry = {"kind": step.policy, "name": step.name, "body": step.value}
    if at is None and step.value is not None:
        behind = [place for place, row in enumerate(rows) if row["kind"] <= step.policy]
        rows.insert(behind[-1] + 1 if behind else 0, entry)
    elif at is not None:
        rows[at : at + 1] = [entry] if step.value is not None else []
    return pa.Table.from_pylist(rows, schema=policies.schema)


def _readable(kind: PolicyKind, body: str) -> str:
    """Return a stored body in its one form, or as it is where it has none."""
    try:
        return kind.canonical(body)
    except InputError:
        return body
