"""Sessions with ZooKeeper: whose they are, how old at least, and what hangs on each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from core.snapshot import PulsarSnapshot
from core.table import Column, Table
from core.units import UNKNOWN


def session_text(session_id: int | None) -> str | None:
    """Return a session as ZooKeeper's tools write it; ``None`` if none, or unknown."""
    return None if not session_id else f"0x{session_id & 0xFFFFFFFFFFFFFFFF:x}"


def session_words(session_id: int | None) -> str:
    """Return a session for people: ``not ephemeral`` for a znode that lives with none."""
    return session_text(session_id) or ("unknown" if session_id is None else "not ephemeral")


SESSION_COLUMNS: Final = Table(
    Column("broker", "Broker"),
    Column("session", "Session", "As ZooKeeper's own tools write it.", none=UNKNOWN),
    Column("session_id", "Session", kind="id", none=UNKNOWN, write=session_words),
    Column("is_registered", "Registered", "Its znode belongs to this session.", "flag", none="no"),
    Column("leads", "Leads", kind="flag", words=("yes", "")),
    Column("oldest_at", "Min age", "Since its oldest znode was created.", "moment", UNKNOWN),
    Column("bundles", "Bundles", "Unassigned if the session ends.", "count"),
    Column("clients", "Clients", kind="count", none=UNKNOWN),
    Column("throughput", "Traffic", kind="bytes_per_s", none=UNKNOWN),
    Column("orphaned", "Orphaned", kind="count"),
    Column("stale", "Stale", kind="count"),
)
SESSIONS: Final = SESSION_COLUMNS.schema
"""One row a broker and session, most traffic first; a broker without bundles has its row. Without
claims the session is null; ``is_registered`` is then whether it has a znode."""

_KEY: Final = ("broker", "session_id")


def sessions_of(
    snapshot: PulsarSnapshot, owned: pa.Table, states: Mapping[str, Collection[str]]
) -> pa.Table:
    """Return the table of :data:`SESSIONS`.

    Args:
        snapshot: Any.
        owned: Table of :data:`core.pulsar.owners.OWNED`.
        states: Names of the states that are counted as orphaned and as stale, in this order.
    """
    rows = [_of_bundles(_with_own_session(snapshot, owned), states), _of_claims(snapshot)]
    whole = pa.concat_tables(rows, promote_options="permissive").group_by(list(_KEY))
    table = whole.aggregate(
        [
            ("is_registered", "max"),
            ("leads", "max"),
            ("oldest_at", "min"),
            *((name, "sum") for name in ("bundles", "clients", "throughput", "orphaned", "stale")),
        ]
    )
    names = [
        name.removesuffix("_max").removesuffix("_min").removesuffix("_sum")
        for name in table.column_names
    ]
    table = table.rename_columns(names)
    texts = [session_text(one) for one in table["session_id"].to_pylist()]
    table = table.append_column("session", pa.array(texts, pa.string()))
    table = table.sort_by([("throughput", "descending"), ("broker", "ascending")])
    return table.select(SESSIONS.names).cast(SESSIONS)


def _with_own_session(snapshot: PulsarSnapshot, owned: pa.Table) -> pa.Table:
    """Take a bundle whose znode has no session to its owner's own."""
    sessions = _own_sessions(snapshot)
    at = pc.index_in(owned["owner"], value_set=pa.array([*sessions], pa.string()))
    own = pa.array([*sessions.values()], pa.int64()).take(at)
    filled = pc.coalesce(owned["session_id"], own)
    return owned.set_column(owned.schema.get_field_index("session_id"), "session_id", filled)


def _own_sessions(snapshot: PulsarSnapshot) -> dict[str, int]:
    """Return the session of each broker: of its registration, else of its leadership.

    Where neither is known it is that of its bundles, if they agree.
    """
    claims = snapshot.claims.filter(pc.is_valid(snapshot.claims["session_id"]))
    is_bundle = pc.equal(claims["subject_kind"], "bundle")
    ephemeral = pc.and_(is_bundle, pc.not_equal(claims["session_id"], 0))
    held = claims.filter(ephemeral).group_by("broker")
    held = held.aggregate([("session_id", "min"), ("session_id", "max")])
    held = held.filter(pc.equal(held["session_id_min"], held["session_id_max"]))
    own = claims.filter(pc.invert(is_bundle)).sort_by(
        [("subject_kind", "descending")]
    )  # "broker" after "leader", so that it counts
    return {
        **dict(zip(held["broker"].to_pylist(), held["session_id_min"].to_pylist(), strict=True)),
        **dict(zip(own["broker"].to_pylist(), own["session_id"].to_pylist(), strict=True)),
    }


def _of_bundles(owned: pa.Table, states: Mapping[str, Collection[str]]) -> pa.Table:
    held = owned.filter(pc.is_valid(owned["owner"]))
    size = held.num_rows
    flags = [
        pc.cast(pc.is_in(held["state"], value_set=pa.array(list(names))), pa.int64())
        for names in states.values()
    ]
    return pa.table(
        {
            "broker": held["owner"],
            "session_id": held["session_id"],
            "is_registered": pa.array([False] * size, pa.bool_()),
            "leads": pa.array([False] * size, pa.bool_()),
            "oldest_at": held["held_since"],
            "bundles": pa.array([1] * size, pa.int64()),
            "clients": held["clients"],
            "throughput": held["throughput"],
            "orphaned": flags[0],
            "stale": flags[1],
        }
    )


def _coalesced(first: int | None, second: int | None) -> int | None:
    return second if first is None else first


def _of_claims(snapshot: PulsarSnapshot) -> pa.Table:
    """Return a row for each broker's own znode and for the leader's; else by the brokers' table."""
    claims = snapshot.claims
    known_claims = claims.filter(
        pc.and_(pc.not_equal(claims["subject_kind"], "bundle"), pc.is_valid(claims["broker"]))
    )
    brokers, leads = snapshot.brokers["broker"], snapshot.brokers["is_leader"]
    sessions = _own_sessions(snapshot)
    known = set(known_claims["broker"].to_pylist())
    missing = [
        {"broker": name, "session_id": None, "is_registered": True, "leads": is_leader}
        for name, is_leader in zip(brokers.to_pylist(), leads.to_pylist(), strict=True)
        if name not in known
    ]
    own = [
        {
            "broker": row["broker"],
            "session_id": _coalesced(row["session_id"], sessions.get(row["broker"])),
            "is_registered": row["subject_kind"] == "broker",
            "leads": row["subject_kind"] == "leader",
            "oldest_at": row["created_at"],
        }
        for row in known_claims.to_pylist()
    ]
    schema = pa.schema(
        [SESSIONS.field(name) for name in (*_KEY, "is_registered", "leads", "oldest_at")]
    )
    table = pa.Table.from_pylist([*own, *missing], schema=schema)
    nothing = pa.array([0] * table.num_rows, pa.int64())
    for name in ("bundles", "orphaned", "stale"):
        table = table.append_column(name, nothing)
    return table.cast(pa.schema([pa.field(one.name, one.type) for one in table.schema]))
