"""Claims for a generated snapshot: every broker with one session, its znodes a day old."""

from __future__ import annotations

import pyarrow as pa
from fleet_edit import without

from core.schemas.pulsar import CLAIMS
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms

FIRST_SESSION = 0x1000_0000_0000
DAY_MS = 86_400_000


def claimed(snapshot: PulsarSnapshot, **bundle_sessions: int) -> PulsarSnapshot:
    """Give every owned bundle, broker and the leader a znode.

    Args:
        snapshot: Any.
        bundle_sessions: Bundle -> session of its znode, other than its owner's own.
    """
    brokers = snapshot.brokers["broker"].to_pylist()
    session = {name: FIRST_SESSION + row for row, name in enumerate(brokers)}
    created = datetime_to_ms(snapshot.manifest.taken_at) - DAY_MS
    rows = [_row("broker", name, name, session[name], created) for name in brokers]
    rows += [
        _row("bundle", bundle, owner, bundle_sessions.get(bundle, session.get(owner, 7)), created)
        for bundle, owner in zip(
            snapshot.bundles["bundle"].to_pylist(),
            snapshot.bundles["owner"].to_pylist(),
            strict=True,
        )
        if owner is not None
    ]
    leader = snapshot.manifest.leader
    if leader is not None:
        rows.append(_row("leader", "/loadbalance/leader", leader, session[leader], created))
    return with_claims(snapshot, rows)


def unheard(snapshot: PulsarSnapshot, broker: str) -> PulsarSnapshot:
    """Take a broker's registration and its sessions: it is gone, its ownership znodes stay."""
    rows = [row for row in snapshot.claims.to_pylist() if row["subject"] != broker]
    for row in rows:
        row["session_id"] = 0 if row["broker"] == broker else row["session_id"]
    return with_claims(without(snapshot, "brokers", broker), rows)


def with_claims(snapshot: PulsarSnapshot, rows: list[dict[str, object]]) -> PulsarSnapshot:
    """Replace the claims."""
    table = pa.Table.from_pylist(rows, schema=CLAIMS)
    keys = [(name, "ascending") for name in ("subject_kind", "subject", "source", "broker")]
    return PulsarSnapshot.build(
        snapshot.manifest, {**snapshot.tables, "claims": table.sort_by(keys)}
    )


def _row(
    kind: str, subject: str, broker: str, session_id: int, created_at: int
) -> dict[str, object]:
    return {
        "subject_kind": kind,
        "subject": subject,
        "source": "znode",
        "broker": broker,
        "session_id": session_id,
        "created_at": created_at,
    }
