"""Readings of the pages of Pulsar clusters: a saved snapshot and derived data, computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from core.facts import NOTHING_ASSUMED
from core.findings.finding import Finding
from core.findings.verdict import Verdict
from core.pulsar.facts import PulsarFacts
from core.pulsar.measures import uncounted_bundles
from core.pulsar.rules.verdict import verdict_of
from core.schemas import PULSAR_TABLES
from core.schemas.pulsar import RATES, RESOURCES
from core.snapshot import PulsarSnapshot
from core.snapshot.store import CachedSnapshot, SnapshotStore, load_snapshot
from core.units import by_name
from dashboard.presenters.moves import ObservedMove, moves_between
from dashboard.presenters.pulsar.bundles import namespaces_by_load
from dashboard.presenters.pulsar.fleet import ClusterSummary, summary
from dashboard.queries.cache import cached
from dashboard.queries.snapshots import saved_snapshots, thinned, within

MAX_READINGS: Final = 4
_RECENT: Final = timedelta(minutes=10)
_RECENT_POINTS: Final = 10
_METRICS_LAG: Final = timedelta(minutes=2)
"""So long a former owner may still expose the rates of a bundle."""
MAX_TABLES: Final = 400
MAX_SUMMARIES: Final = 512
MAX_OFFERED: Final = 100
MAX_PAIRS: Final = 4_000


class Reading(PulsarFacts):
    """One saved snapshot with its derived data; every part is computed at first use."""

    def __init__(self, stored: CachedSnapshot) -> None:
        self.stored = stored
        self.assumed = NOTHING_ASSUMED
        self.earlier = ()

    @property
    def snapshot(self) -> PulsarSnapshot:
        """The snapshot itself.

        Raises:
            SnapshotError: It is damaged, or was dropped meanwhile.
        """
        return self._loaded

    @cached_property
    def _loaded(self) -> PulsarSnapshot:
        return load_snapshot(self.stored.path)

    @cached_property
    def cluster_verdict(self) -> Verdict:
        """The findings and the scope of the examination; computed once for every page."""
        return verdict_of(self.snapshot, earlier=self.earlier_brokers, moved=self._just_moved())

    def _entries(self, span: timedelta) -> list[CachedSnapshot]:
        """Return the saved snapshots of a span up to this one, oldest first."""
        path = self.stored.path
        saved = saved_snapshots(SnapshotStore(path.parent.parent), path.parent.name)
        return within(saved.entries, self.stored.taken_at, span)

    def _just_moved(self) -> frozenset[str]:
        """Return the bundles whose owner changed since their metrics may have been read."""
        entries = self._entries(_METRICS_LAG)
        if self.snapshot.bundle_metrics.num_rows == 0 or len(entries) < 2:
            return frozenset()
        return frozenset(move.bundle for move in moves_seen([entries[0], self.stored]))

    @cached_property
    def earlier_brokers(self) -> list[pa.Table]:
        """Brokers of the saved snapshots of the minutes before it, oldest first."""
        recent = thinned(self._entries(_RECENT), _RECENT_POINTS)
        return [table for at, table in broker_history(recent) if at < self.stored.taken_at]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, worst first."""
        return self.cluster_verdict.findings

    @cached_property
    def bundles(self) -> pa.Table:
        """The bundles with ``throughput`` and ``msg_rate`` (in plus out) added."""
        table = self.snapshot.bundles
        for name, part in (("throughput", "msg_throughput"), ("msg_rate", "msg_rate")):
            for prefix in ("", "short_", "long_"):
                total = pc.add(table[f"{prefix}{part}_in"], table[f"{prefix}{part}_out"])
                table = table.append_column(f"{prefix}{name}", total)
        return table

    @cached_property
    def brokers(self) -> list[str]:
        """Names of the brokers, numbers in them compared as numbers."""
        return by_name(self.snapshot.brokers["broker"].to_pylist())

    @cached_property
    def namespaces(self) -> list[str]:
        """Names of the namespaces, the one with most traffic first."""
        return namespaces_by_load(self.movable)

    @cached_property
    def movable(self) -> pa.Table:
        """:attr:`bundles` without those that belong to one broker (heartbeat, SLA)."""
        return self.bundles.filter(pc.invert(self.bundles["is_broker_bound"]))

    @cached_property
    def uncounted(self) -> Mapping[str, int]:
        """The number of bundles excluded from the cluster's counts, by reason."""
        return uncounted_bundles(self.snapshot)

    @cached_property
    def hottest(self) -> list[str]:
        """Names of the bundles with most traffic, at most :data:`MAX_OFFERED`, hottest first."""
        table = self.movable
        size = min(MAX_OFFERED, table.num_rows)
        picks = pc.select_k_unstable(table, size, [("throughput", "descending")])
        names: list[str] = table["bundle"].take(picks).to_pylist()
        return names


reading = cached(Reading, max_entries=MAX_READINGS)
"""The reading of a saved snapshot."""


def _summarised(stored: CachedSnapshot) -> ClusterSummary:
    one = reading(stored)
    return summary(one.snapshot, one.measures, one.cluster_verdict, one.settings)


cluster_summary = cached(_summarised, max_entries=MAX_SUMMARIES)
"""A cluster's row of the overview, for a saved snapshot."""

BROKER_COLUMNS: Final = (
    "broker",
    *(f"{resource}_{part}" for resource in RESOURCES for part in ("usage", "limit", "ratio")),
    *RATES,
    "bundle_count",
)


_UNREADABLE: Final = (OSError, pa.ArrowException)


def _broker_columns(stored: CachedSnapshot) -> pa.Table | None:
    """Broker loads of one saved snapshot; ``None`` when it was dropped meanwhile or is damaged."""
    try:
        table = pq.read_table(
            stored.path / "brokers.parquet", columns=[*BROKER_COLUMNS, "emptied_at"]
        )
    except _UNREADABLE:
        return None
    return table.cast(
        pa.schema([PULSAR_TABLES["brokers"].field(name) for name in table.schema.names])
    )


_broker_tables = cached(_broker_columns, max_entries=MAX_TABLES)


def broker_history(entries: Sequence[CachedSnapshot]) -> list[tuple[datetime, pa.Table]]:
    """Return broker loads of each entry that is still saved, in the order given."""
    tables = [(entry.taken_at, _broker_tables(entry)) for entry in entries]
    return [(moment, table) for moment, table in tables if table is not None]


_BUNDLE_HISTORY: Final = (
    *("bundle", "namespace", "lower", "upper", "owner", "owner_source"),
    *RATES,
)


def bundle_history(entries: Sequence[CachedSnapshot], namespace: str, lower: int) -> pa.Table:
    """Return the rows of the bundles of a namespace that begin at ``lower``, with ``taken_at``.

    Cost:
        One small file a snapshot, with the row groups that cannot hold the bundle left out.
    """
    parts: list[pa.Table] = []
    for entry in entries:
        try:
            part = pq.read_table(
                entry.path / "bundles.parquet",
                columns=list(_BUNDLE_HISTORY),
                filters=[("namespace", "=", namespace), ("lower", "=", lower)],
            )
        except _UNREADABLE:
            continue
        moments = pa.array([entry.taken_at] * part.num_rows, pa.timestamp("ms", tz="UTC"))
        parts.append(part.append_column("taken_at", moments))
    return pa.concat_tables(parts) if parts else pa.table({})


def _owners(stored: CachedSnapshot) -> pa.Table | None:
    """Bundles whose owner, or that they have none, is known: an unknown owner is no move."""
    columns = ["bundle", "owner", "owner_source"]
    try:
        table = pq.read_table(stored.path / "bundles.parquet", columns=columns)
    except _UNREADABLE:
        return None
    known = pc.or_(pc.is_valid(table["owner"]), pc.is_valid(table["owner_source"]))
    return table.filter(known).select(["bundle", "owner"])


_owner_tables = cached(_owners, max_entries=2)


def _pair_moves(pair: tuple[CachedSnapshot, CachedSnapshot]) -> list[ObservedMove]:
    tables = [(entry.taken_at, _owner_tables(entry)) for entry in pair]
    return moves_between([(moment, table) for moment, table in tables if table is not None])


_moves = cached(_pair_moves, max_entries=MAX_PAIRS)


def moves_seen(entries: Sequence[CachedSnapshot]) -> list[ObservedMove]:
    """Return the changes of owner from each entry to the next, oldest first.

    Cost:
        Two columns a snapshot the first time; only the moves are stored.
    """
    return [move for pair in pairwise(entries) for move in _moves(pair)]


def _traffic(key: tuple[CachedSnapshot, tuple[str, ...]]) -> dict[str, float]:
    """Traffic in plus out of some bundles, bytes/s; those that are unknown are left out."""
    stored, names = key
    columns = ["bundle", "msg_throughput_in", "msg_throughput_out"]
    try:
        table = pq.read_table(
            stored.path / "bundles.parquet", columns=columns, filters=[("bundle", "in", names)]
        )
    except _UNREADABLE:
        return {}
    total = pc.add(*(table[name] for name in columns[1:]))
    pairs = zip(table["bundle"].to_pylist(), total.to_pylist(), strict=True)
    return {name: value for name, value in pairs if value is not None}


_bundle_traffic = cached(_traffic, max_entries=MAX_TABLES)


def bundle_trends(
    entries: Sequence[CachedSnapshot], names: Sequence[str]
) -> dict[str, list[float]]:
    """Return the traffic of some bundles over the saved snapshots, MB/s, oldest first.

    Args:
        entries: Oldest first.
        names: Of at most some dozens of bundles.
    Cost:
        Three columns a snapshot the first time for these names.
    """
    wanted = tuple(sorted(names))
    trends: dict[str, list[float]] = {name: [] for name in names}
    for entry in entries:
        for name, value in _bundle_traffic((entry, wanted)).items():
            trends[name].append(value / 1e6)
    return trends
