"""Data of the Ownership page, computed once per snapshot."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from core.history.queries.sql import Period
from core.operations.drill.broker_failure import BrokerFailure, broker_failure_effects
from core.operations.owners import OPERATION, Owners, OwnersRequest
from core.pulsar.leaders import LeaderChange, LeaderHistory, leader_history
from core.snapshot import PulsarSnapshot
from core.snapshot.store import CachedSnapshot
from core.units import ms_to_datetime
from dashboard.queries.answers import answer_of
from dashboard.queries.cache import cached
from dashboard.queries.history import ClusterHistory, history_of
from dashboard.queries.pulsar.snapshots import reading

if TYPE_CHECKING:
    from dashboard.services import Cluster, Config

_LEADER: Final = ("leader",)
_MOST: Final = 500


def owners(stored: CachedSnapshot) -> Owners:
    """Return the owners of a saved snapshot."""
    return answer_of(stored, OPERATION, OwnersRequest())


def _died(key: tuple[CachedSnapshot, str]) -> BrokerFailure:
    stored, broker = key
    one = reading(stored)
    return broker_failure_effects(one.snapshot, one.settings, broker)


broker_failure = cached(_died, max_entries=32)
"""Effects of a broker failure: snapshot, broker id."""


def _recorded(
    key: tuple[ClusterHistory, datetime],
) -> tuple[list[LeaderChange], tuple[datetime, datetime] | None]:
    history, until = key
    span = history.span()
    if span is None or span[0] > until:
        return [], None
    period = Period(span[0], min(span[1], until))
    rows = history.events().events(period, kinds=_LEADER, limit=_MOST).to_pylist()
    changes = [
        LeaderChange(ms_to_datetime(row["taken_at"]), row["before"] or None, row["after"] or None)
        for row in rows
    ]
    return changes, (period.start, period.end)


_changes = cached(_recorded, max_entries=16)


def leader_created_at(snapshot: PulsarSnapshot) -> datetime | None:
    """Return the creation time of the leader's znode; ``None`` if unknown."""
    claims = snapshot.claims
    found = claims.filter(pc.equal(claims["subject_kind"], "leader"))["created_at"].to_pylist()
    return ms_to_datetime(found[0]) if found and found[0] else None


def leaders(config: Config, cluster: Cluster, stored: CachedSnapshot) -> LeaderHistory:
    """Return the leaders and their terms up to a saved snapshot.

    Raises:
        SnapshotError: The history cannot be read.
    """
    snapshot = reading(stored).snapshot
    changes, span = _changes((history_of(config, cluster), stored.taken_at))
    return leader_history(snapshot.manifest.leader, leader_created_at(snapshot), changes, span)
