"""What a namespace's own policies say of its data: retention, time to live, quota, copies.

A namespace that sets none of them follows the defaults of the brokers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.compute as pc

from core.schemas.pulsar import NAMESPACE_STORAGE
from core.snapshot import PulsarSnapshot

Number = int | float


def storage_policies(snapshot: PulsarSnapshot, namespace: str) -> dict[str, Number]:
    """Return what a namespace sets itself, by the broker setting that it replaces.

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
