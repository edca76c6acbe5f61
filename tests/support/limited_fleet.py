"""The generated fleet with policies and resource groups of its own."""

from __future__ import annotations

import json

import pyarrow as pa
from fleet_builder import make_snapshot

from core.snapshot import PulsarSnapshot

ORDERS, MAIL = "acme/orders", "acme/mail"


def limited(policies=(), groups=None, **options) -> PulsarSnapshot:
    """The generated fleet with policies ``(kind, name, body)`` and groups by namespace."""
    plain = make_snapshot(brokers=6, bundles=80, **options)
    rows = [
        *plain.policies.to_pylist(),
        *({"kind": kind, "name": name, "body": json.dumps(body)} for kind, name, body in policies),
    ]
    spaces = plain.namespaces.to_pylist()
    for row in spaces:
        row["resource_group"] = (groups or {}).get(row["namespace"])
    tables = {
        **plain.tables,
        "policies": pa.Table.from_pylist(rows, schema=plain.policies.schema),
        "namespaces": pa.Table.from_pylist(spaces, schema=plain.namespaces.schema),
    }
    return PulsarSnapshot.build(plain.manifest, tables)
