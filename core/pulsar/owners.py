"""Who owns what: every bundle with the session it lives with, and what does not fit together.

A broker takes a bundle by creating an ephemeral znode, which lives as long as the broker's session
with ZooKeeper. A process that dies without closing its session leaves both behind, its own znode
and those of its bundles, until the session's time-out; whoever looks up a topic meanwhile is sent
to no broker. Only what two readings cannot both say is called double: a load report has what the
statistics of a minute ago held, so it is believed against the znode only when it is later.

An unload, and a split, disables the znode first and deletes it at their end: one that stops in
between leaves a bundle whose lookups are all refused.

Source:
    Pulsar ``OwnershipCache`` and ``ResourceLockImpl`` (the znodes of bundles), ``LockManagerImpl``
    (what becomes of them when a session ends), ``OwnedBundle#handleUnloadRequest`` (``disabled``),
    ``NamespaceService`` (heartbeat and SLA bundles), ``ServiceUnitStateChannelImpl`` (the
    extensible manager's states); ZooKeeper ``Stat.ephemeralOwner``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.pulsar.liveness import DEAD, REPORT_INTERVAL, UNREGISTERED, Liveness, liveness_of
from core.pulsar.liveness import SUSPECTED as SUSPECTED_DEAD
from core.pulsar.owner_sessions import session_words, sessions_of
from core.pulsar.settings import EffectiveSettings
from core.snapshot import PulsarSnapshot
from core.table import Column, Table
from core.units import UNKNOWN as UNKNOWN_TEXT
from core.units import datetime_to_ms, pluralize

REPORT_GRACE_MS: Final = 120_000
"""Two statistics periods (``statsUpdateFrequencyInSecs``, 60 s): so long a report may still name a
bundle that left."""

UNLOAD_MS: Final = 60_000
"""An unload ends within this, or its broker gives it up (``namespaceBundleUnloadingTimeoutMs``)."""

HELD: Final = "held"
REFUSED: Final = "refused"
MISBOUND: Final = "on the wrong broker"
UNLISTED: Final = "owner not registered"
SUSPECTED: Final = "owner suspected dead"
ORPHANED: Final = "orphaned"
STALE: Final = "stale session"
PERMANENT: Final = "not ephemeral"
DOUBLE: Final = "double"
MOVED: Final = "just moved"
CHANGING: Final = "changing hands"
STUCK: Final = "stuck"
OWNERLESS: Final = "ownerless, in use"
UNUSED: Final = "unused"
UNKNOWN: Final = "unknown"

WRONG: Final = (
    *(REFUSED, ORPHANED, DOUBLE, STUCK, SUSPECTED),
    *(STALE, PERMANENT, MISBOUND, UNLISTED, OWNERLESS),
)
"""States in which clients wait, or will; worst first."""

STATES: Final = (*WRONG, CHANGING, MOVED, UNKNOWN, HELD, UNUSED)
"""Worst first."""

_SERVED: Final = (HELD, MOVED, PERMANENT, MISBOUND, UNLISTED)
_NOT_SERVED: Final = (REFUSED, ORPHANED, STUCK, CHANGING, OWNERLESS, UNUSED)

BUNDLES: Final = Table(
    Column("bundle", "Bundle"),
    Column("namespace", "Namespace"),
    Column("state", "State"),
    Column("owner", "Owner", none="no broker"),
    Column("claimant", "Also claimed by", "Broker with the bundle in its load report.", none=""),
    Column("session_id", "Session", kind="id", none=UNKNOWN_TEXT, write=session_words),
    Column("held_since", "Owned for", "Since the creation of the znode.", "moment", UNKNOWN_TEXT),
    Column("is_served", "Served", kind="flag", none=UNKNOWN_TEXT),
    Column("since", "Not served for", "Since the state changed.", "moment", none=""),
    Column("unit_state", "Channel state", "In the extensible manager's channel.", none=""),
    Column("topic_count", "Topics", kind="count", none=UNKNOWN_TEXT),
    Column("clients", "Clients", "Producers and consumers.", "count", UNKNOWN_TEXT),
    Column("throughput", "Traffic", "As last reported.", "bytes_per_s", UNKNOWN_TEXT),
)
OWNED: Final = BUNDLES.schema
"""One row a bundle, in the snapshot's order. ``claimant``: another broker that claims it."""

_MEANINGS: Final = {
    HELD: "The owner is registered and owns the bundle with a valid session.",
    REFUSED: (
        "The owner disabled the bundle for an unload or a split that did not finish: "
        "every lookup is refused. A normal unload takes less than a minute."
    ),
    ORPHANED: "The recorded owner is dead or no longer registered: lookups reach no broker.",
    SUSPECTED: "The owner is registered but shows no activity.",
    MISBOUND: (
        "Heartbeat or SLA bundle of one broker, owned by another: "
        "the health check of that broker fails, and it may fail to start."
    ),
    UNLISTED: (
        "The owner is alive but lost its registration: it serves its bundles, "
        "but the leader ignores it. Never delete its ownership znodes: two "
        "brokers would serve the bundle."
    ),
    STALE: (
        "The znode belongs to a session that is not the owner's current one: "
        "it has ended, or will time out. Then the owner acquires it again, or "
        "the znode is removed."
    ),
    PERMANENT: (
        "The znode is not ephemeral: it outlives every broker, and no other "
        "broker can own the bundle until it is deleted."
    ),
    DOUBLE: (
        "Two brokers claim the bundle: the recorded owner, and another one with a "
        "newer report or state. Only the fencing of ledgers separates their "
        "writes."
    ),
    MOVED: "The owner changed after the last report of the previous broker.",
    CHANGING: "In transfer between two brokers.",
    STUCK: (
        "The transfer takes longer than the manager allows "
        "(loadBalancerInFlightServiceUnitStateWaitingTimeInMillis)."
    ),
    OWNERLESS: (
        "Unassigned, although the last report shows topics or traffic: clients "
        "wait or look the bundle up."
    ),
    UNUSED: "Unassigned and unused: the first lookup assigns the bundle.",
    UNKNOWN: "The owner could not be read.",
}

_IN_FLIGHT: Final = "loadBalancerInFlightServiceUnitStateWaitingTimeInMillis"
IN_TRANSFER: Final = ("Assigning", "Releasing", "Splitting")
_ENDED: Final = ("Deleted", "Disabled")
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ownership:
    """Owners of one snapshot.

    Attributes:
        bundles: Table of :data:`OWNED`.
        sessions: Table of :data:`core.pulsar.owner_sessions.SESSIONS`.
        counts: Bundles in each of :data:`STATES` that has some.
        sentence: In words.
        notes: What is not known.
        liveness: The verdicts on the owners.
    """

    bundles: pa.Table
    sessions: pa.Table
    counts: dict[str, int]
    sentence: str
    notes: tuple[str, ...]
    liveness: Liveness

    @property
    def wrong(self) -> pa.Table:
        """The bundles in one of :data:`WRONG`, the worst first, then by traffic."""
        return worst_first(self.bundles, WRONG)


UNSERVED: Final = (STUCK, ORPHANED)
"""States in which no broker serves a bundle, and that the balancer or a fix ends."""


def unserved_rows(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, states: tuple[str, ...] = UNSERVED
) -> Ints:
    """Return the rows of the bundles in some states, those bound to a broker excluded.

    Args:
        snapshot: Any.
        states: Of :data:`STATES`.
    Cost:
        O(bundles), in columns.
    """
    found = ownership_of(snapshot, settings).bundles["state"]
    is_in = _flags(pc.is_in(found, value_set=pa.array(states)))
    return np.flatnonzero(is_in & ~_flags(snapshot.bundles["is_broker_bound"]))


def meaning_of(state: str) -> str:
    """Return the meaning and effect of a state."""
    return _MEANINGS[state]


def worst_first(bundles: pa.Table, states: tuple[str, ...] = STATES) -> pa.Table:
    """Return the bundles in some states, by the order of these, then by traffic and name."""
    rank = pc.index_in(bundles["state"], value_set=pa.array(states))
    table = bundles.append_column("rank", rank).filter(pc.is_valid(rank))
    order = [("rank", "ascending"), ("throughput", "descending"), ("bundle", "ascending")]
    return table.sort_by(order).drop_columns(["rank"])


def ownership_of(snapshot: PulsarSnapshot, settings: EffectiveSettings) -> Ownership:
    """Return owners and inconsistencies; cached with the snapshot.

    Args:
        snapshot: Any; without claims (a cluster read through REST alone) sessions are unknown.
    Cost:
        O(bundles), in columns.
    """
    key = ("ownership", *(settings.number(one) for one in (_IN_FLIGHT, REPORT_INTERVAL)))
    made: Ownership = snapshot.derived.get(key, lambda: _ownership(snapshot, settings))
    return made


def _ownership(snapshot: PulsarSnapshot, settings: EffectiveSettings) -> Ownership:
    znodes = _znodes(snapshot, "bundle")
    bundles = snapshot.bundles
    units = _units(snapshot)
    liveness = liveness_of(snapshot, settings)
    at = pc.index_in(bundles["bundle"], value_set=znodes["subject"].combine_chunks())
    columns = {
        "bundle": bundles["bundle"],
        "namespace": bundles["namespace"],
        "owner": bundles["owner"],
        "claimant": _claimants(snapshot),
        "session_id": znodes["session_id"].take(at),
        "held_since": znodes["created_at"].take(at),
        "topic_count": bundles["topic_count"],
        "clients": pc.add(bundles["producer_count"], bundles["consumer_count"]),
        "throughput": pc.add(bundles["msg_throughput_in"], bundles["msg_throughput_out"]),
    }
    columns["unit_state"] = units["state"]
    disabled = znodes["is_disabled"].take(at), znodes["modified_at"].take(at)
    columns["state"] = _states(snapshot, columns, settings, units, liveness, disabled)
    columns["is_served"] = _served(columns["state"], units["state"])
    columns["since"] = _unserved_since(columns, units, liveness, disabled)
    table = pa.Table.from_pydict({name: columns[name] for name in OWNED.names}, schema=OWNED)
    found = pc.value_counts(table["state"]).to_pylist()
    by_state = {row["values"]: row["counts"] for row in found}
    counts = {state: by_state[state] for state in STATES if state in by_state}
    return Ownership(
        bundles=table,
        sessions=sessions_of(snapshot, table, {state: [state] for state in (ORPHANED, STALE)}),
        counts=counts,
        sentence=_sentence(snapshot, table, counts),
        notes=_notes(snapshot),
        liveness=liveness,
    )


def _znodes(snapshot: PulsarSnapshot, kind: str) -> pa.Table:
    claims = snapshot.claims
    of_kind = pc.equal(claims["subject_kind"], kind)
    return claims.filter(pc.and_(of_kind, pc.equal(claims["source"], "znode")))


def _flags(values: pa.ChunkedArray | pa.Array) -> Flags:
    return np.asarray(pc.fill_null(values, fill_value=False).to_numpy(zero_copy_only=False), bool)


def _claimants(snapshot: PulsarSnapshot) -> pa.ChunkedArray:
    """Return the broker that reports a bundle and does not own it: the later one of several."""
    bundles = snapshot.bundles
    differs = pc.and_(
        pc.is_valid(bundles["owner"]), pc.not_equal(bundles["reported_by"], bundles["owner"])
    )
    claimant = pc.if_else(differs, bundles["reported_by"], pa.scalar(None, pa.string()))
    twice = snapshot.claims.filter(pc.equal(snapshot.claims["source"], "report"))
    rows = pc.index_in(twice["subject"], value_set=bundles["bundle"].combine_chunks())
    others = _flags(pc.not_equal(twice["broker"], bundles["owner"].take(rows)))
    picked = np.full(bundles.num_rows, -1, np.int64)  # the last one that is not the owner
    picked[rows.filter(pa.array(others)).to_numpy()] = np.flatnonzero(others)
    second = twice["broker"].take(pa.array(picked, mask=picked < 0))
    return pa.chunked_array([pc.coalesce(second, claimant).combine_chunks()], pa.string())


def _later(reported: pa.ChunkedArray, created: pa.ChunkedArray) -> Flags:
    """Whether a report is so much later than the znode that it should include it."""
    return _flags(pc.greater(pc.subtract(reported, created), REPORT_GRACE_MS))


def _reported_at(snapshot: PulsarSnapshot, claimant: pa.ChunkedArray) -> pa.ChunkedArray:
    brokers = snapshot.brokers
    at = pc.index_in(claimant, value_set=brokers["broker"].combine_chunks())
    return brokers["reported_at"].take(at)


def _states(
    snapshot: PulsarSnapshot,
    columns: dict[str, pa.ChunkedArray],
    settings: EffectiveSettings,
    units: pa.Table,
    liveness: Liveness,
    disabled: tuple[pa.ChunkedArray, pa.ChunkedArray],
) -> pa.Array:
    bundles = snapshot.bundles
    is_owned = _flags(pc.is_valid(columns["owner"]))
    is_known = is_owned | _flags(pc.is_valid(bundles["owner_source"]))
    own = _znodes(snapshot, "broker")
    at = pc.index_in(columns["owner"], value_set=own["subject"].combine_chunks())
    own_session = own["session_id"].take(at)
    has_session = ~_flags(pc.equal(own_session, 0))  # else an earlier process may have left it
    session = columns["session_id"]
    is_claimed = _flags(pc.is_valid(columns["claimant"]))
    reported = _reported_at(snapshot, columns["claimant"])
    is_used = _flags(pc.greater(columns["topic_count"], 0)) | _flags(
        pc.greater(columns["throughput"], 0)
    )
    refused, unloading = _refused(snapshot, units, disabled)
    in_transfer, too_long, elsewhere = _channel(snapshot, columns["owner"], settings, units)
    dead, suspected, unlisted = _lost_owners(snapshot, columns["owner"], liveness)
    cases = (
        (UNKNOWN, ~is_known & ~refused),
        (REFUSED, refused),
        (STUCK, too_long),
        (CHANGING, in_transfer | unloading),
        (ORPHANED, is_owned & dead),
        (MISBOUND, is_owned & _misbound(snapshot)),
        (UNLISTED, is_owned & unlisted),
        (DOUBLE, elsewhere | (is_claimed & _later(reported, columns["held_since"]))),
        (SUSPECTED, is_owned & suspected),
        (PERMANENT, is_owned & _flags(pc.equal(session, 0))),
        (STALE, is_owned & _flags(pc.not_equal(session, own_session)) & has_session),
        (MOVED, is_claimed),
        (HELD, is_owned),
        (OWNERLESS, is_used),
    )
    picked = np.select([flags for _, flags in cases], np.arange(len(cases)), len(cases))
    return pa.array([*(name for name, _ in cases), UNUSED]).take(pa.array(picked))


def _units(snapshot: PulsarSnapshot) -> pa.Table:
    """Return the rows of the channel in the order of the bundles; nulls where there is none."""
    units = snapshot.unit_states
    at = pc.index_in(snapshot.bundles["bundle"], value_set=units["bundle"].combine_chunks())
    return units.select(["state", "broker", "changed_at"]).take(at)


def _age(snapshot: PulsarSnapshot, at_ms: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.subtract(datetime_to_ms(snapshot.manifest.taken_at), at_ms)


def _refused(
    snapshot: PulsarSnapshot, units: pa.Table, disabled: tuple[pa.ChunkedArray, pa.ChunkedArray]
) -> tuple[Flags, Flags]:
    """Return the refused bundles, and those being unloaded or split."""
    is_disabled, modified_at = disabled
    shut = _flags(is_disabled)
    is_fresh = _flags(pc.less_equal(_age(snapshot, modified_at), UNLOAD_MS))
    ended = _flags(pc.is_in(units["state"], value_set=pa.array(_ENDED)))
    just_ended = ended & _flags(pc.less_equal(_age(snapshot, units["changed_at"]), UNLOAD_MS))
    return (shut & ~is_fresh) | (ended & ~just_ended), (shut & is_fresh) | just_ended


def _channel(
    snapshot: PulsarSnapshot, owner: pa.ChunkedArray, settings: EffectiveSettings, units: pa.Table
) -> tuple[Flags, Flags, Flags]:
    """Return bundles in transfer, overdue, and owned elsewhere by the channel."""
    state = units["state"]
    in_transfer = _flags(pc.is_in(state, value_set=pa.array(IN_TRANSFER)))
    age = _age(snapshot, units["changed_at"])
    too_long = in_transfer & _flags(pc.greater(age, settings.number(_IN_FLIGHT)))
    elsewhere = _flags(pc.equal(state, "Owned")) & _flags(pc.not_equal(units["broker"], owner))
    return in_transfer, too_long, elsewhere


def _lost_owners(
    snapshot: PulsarSnapshot, owner: pa.ChunkedArray, liveness: Liveness
) -> tuple[Flags, Flags, Flags]:
    """Return bundles whose owner is dead, suspected, and alive but unregistered.

    Under the extensible manager a lookup goes by the registry, so that an owner that is not in it
    serves nothing, alive or not; the modular manager returns the address in the znode.
    """
    if not snapshot.brokers.num_rows:
        none = np.zeros(len(owner), bool)
        return none, none, none
    rows = liveness.rows
    at = pc.index_in(owner, value_set=pa.array([row.broker for row in rows], pa.string()))
    state = pa.array([row.state for row in rows], pa.string()).take(at)
    registered = _flags(pa.array([row.is_registered for row in rows], pa.bool_()).take(at))
    lives = _flags(pc.equal(state, UNREGISTERED))
    if snapshot.manifest.load_manager == "extensible":
        lives[:] = False
    is_dead = _flags(pc.equal(state, DEAD))
    dead = is_dead | (~registered & ~lives)
    return dead, registered & _flags(pc.equal(state, SUSPECTED_DEAD)), ~registered & lives


def _misbound(snapshot: PulsarSnapshot) -> Flags:
    """Return heartbeat and SLA bundles owned by a broker other than that in their name.

    A broker that is not registered lends its SLA bundle to others: that is as designed.
    """
    bundles = snapshot.bundles
    if not pc.any(bundles["is_broker_bound"]).as_py():
        return np.zeros(bundles.num_rows, bool)
    bound = pc.replace_substring_regex(bundles["namespace"], "^.*/", "")
    registered = pc.is_in(bound, value_set=snapshot.brokers["broker"].combine_chunks())
    hosts = [pc.replace_substring_regex(name, ":[0-9]+$", "") for name in (bound, bundles["owner"])]
    differs = pc.and_(
        pc.not_equal(bound, bundles["owner"]), pc.or_(registered, pc.not_equal(*hosts))
    )
    is_sla = pc.starts_with(bundles["namespace"], "sla-monitor/")
    is_wrong = pc.and_(differs, pc.or_(registered, pc.invert(is_sla)))
    return _flags(bundles["is_broker_bound"]) & _flags(is_wrong)


def _served(state: pa.Array, unit_state: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whether each bundle is served; a bundle that is being split still is."""
    splits = _flags(pc.equal(unit_state, "Splitting"))
    served = _flags(pc.is_in(state, value_set=pa.array(_SERVED)))
    not_served = _flags(pc.is_in(state, value_set=pa.array(_NOT_SERVED)))
    in_transfer = _flags(pc.is_in(state, value_set=pa.array((STUCK, CHANGING))))
    is_served = served | (splits & in_transfer)
    return pa.chunked_array([pa.array(is_served, mask=~(is_served | not_served))])


def _unserved_since(
    columns: dict[str, pa.ChunkedArray],
    units: pa.Table,
    liveness: Liveness,
    disabled: tuple[pa.ChunkedArray, pa.ChunkedArray],
) -> pa.ChunkedArray:
    """Return since when, ms: the change of its state, or its owner's last sign of life."""
    is_disabled, modified_at = disabled
    blank = pa.scalar(None, pa.int64())
    changed = pc.if_else(
        _flags(is_disabled),
        modified_at,
        pc.if_else(_flags(pc.is_valid(units["state"])), units["changed_at"], blank),
    )
    rows = liveness.rows
    at = pc.index_in(
        columns["owner"], value_set=pa.array([row.broker for row in rows], pa.string())
    )
    lost = pa.array([row.since for row in rows], pa.int64()).take(at)
    is_lost = _flags(pc.equal(columns["state"], ORPHANED))
    moment = pc.if_else(is_lost, lost, changed)
    return pc.if_else(_flags(pc.invert(columns["is_served"])), moment, blank)


_DESCRIPTIONS: Final = {
    REFUSED: "refused: disabled by an owner that did not finish",
    ORPHANED: "orphaned: the owner is dead or no longer registered",
    SUSPECTED: "owned by a broker that is suspected dead",
    MISBOUND: "bound to a broker other than their owner",
    UNLISTED: "owned by a broker that is alive but not registered",
    DOUBLE: "claimed by two brokers",
    STUCK: "stuck between two brokers",
    STALE: "owned with an invalid session",
    PERMANENT: "owned with a non-ephemeral znode",
    OWNERLESS: "unassigned but in use",
}


def _sentence(snapshot: PulsarSnapshot, bundles: pa.Table, counts: dict[str, int]) -> str:
    movable = bundles.filter(pc.invert(snapshot.bundles["is_broker_bound"]))
    owned = pc.count(movable["owner"]).as_py()
    owners = pc.count_distinct(movable["owner"]).as_py()
    bound = bundles.num_rows - movable.num_rows
    free = counts.get(OWNERLESS, 0) + counts.get(UNUSED, 0)
    head = (
        f"{pluralize(owners, 'broker')} {'owns' if owners == 1 else 'own'} "
        f"{pluralize(owned, 'bundle')}"
        + (f" and {bound:,} heartbeat/SLA" if bound else "")
        + (f", {free:,} unassigned" if free else "")
    )
    wrong = [f"{counts[state]:,} {_DESCRIPTIONS[state]}" for state in WRONG if state in counts]
    if wrong:
        return f"{head}. Wrong: {'; '.join(wrong)}."
    if counts.get(UNKNOWN):
        return f"{head}; owner unknown: {counts[UNKNOWN]:,}. No other problems."
    if not _has_sessions(snapshot):
        return (
            f"{head}; no owner is missing. Sessions are unknown, so stale sessions "
            "would not be detected."
        )
    kept = int(np.sum(_flags(pc.equal(_znodes(snapshot, "broker")["session_id"], 0))))
    sessions = (
        f"{pluralize(kept, 'registration')} without a session" if kept else "all sessions are valid"
    )
    return f"{head}; none is orphaned or claimed twice, {sessions}."


def _has_sessions(snapshot: PulsarSnapshot) -> bool:
    claims = snapshot.claims
    if snapshot.manifest.load_manager != "extensible":
        claims = claims.filter(pc.equal(claims["subject_kind"], "bundle"))
    return bool(pc.count(claims["session_id"]).as_py())


def _notes(snapshot: PulsarSnapshot) -> tuple[str, ...]:
    bound = pc.sum(snapshot.bundles["is_broker_bound"]).as_py() or 0
    own = (
        f"{pluralize(bound, 'bundle')} in these tables "
        f"{'belongs' if bound == 1 else 'belong'} to one broker each (heartbeat "
        "and SLA namespaces): no other broker can own them, no plan moves "
        "them, and other counts, such as the header, exclude them."
    )
    return (*_of_sessions(snapshot), *((own,) if bound else ()))


def _of_sessions(snapshot: PulsarSnapshot) -> tuple[str, ...]:
    if snapshot.manifest.load_manager == "extensible":
        what = (
            "The extensible load manager stores owners in its channel, not in "
            "znodes: only sessions of brokers are known, and orphans are "
            "reassigned automatically."
        )
        return (what,)
    if not _has_sessions(snapshot):
        what = (
            "Sessions require ZooKeeper: this snapshot was read over REST alone, "
            "or before sessions were recorded."
        )
        return (what,)
    what = (
        "ZooKeeper does not report the start of a session; it is at least as "
        "old as its oldest znode."
    )
    return (what,)
