"""Readings of the pages of Pegasus clusters: a saved snapshot and derived data, computed once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from core.errors import OpsError
from core.findings.finding import Finding
from core.findings.verdict import Verdict
from core.pegasus.rules.registry import pegasus_verdict
from core.pegasus.snapshot import STORED_LEVEL, PegasusFacts
from core.pegasus.summary import NodeSummary, TableSummary, summarize_nodes, summarize_tables
from core.pegasus.verdict import BalanceVerdict
from core.snapshot.pegasus import PegasusSnapshot, load_pegasus_snapshot
from core.snapshot.store import CachedSnapshot, SnapshotStore
from dashboard.presenters.moves import ObservedMove, moves_between
from dashboard.presenters.pegasus.fleet import PegasusSummary, pegasus_summary
from dashboard.presenters.pegasus.run_history import LevelMoment
from dashboard.queries.cache import cached

MAX_READINGS: Final = 4
MAX_SUMMARIES: Final = 512
MAX_PAIRS: Final = 4_000


class PegasusReading:
    """One saved snapshot with its derived data; every part is computed at first use."""

    def __init__(self, stored: CachedSnapshot) -> None:
        self.stored = stored

    @cached_property
    def snapshot(self) -> PegasusSnapshot:
        """The snapshot itself.

        Raises:
            SnapshotError: It is damaged, or was dropped meanwhile.
        """
        return load_pegasus_snapshot(self.stored.path)

    @cached_property
    def facts(self) -> PegasusFacts:
        """The snapshot in the form that the kernels take; its tables are read once."""
        return PegasusFacts(self.snapshot)

    @cached_property
    def verdict(self) -> BalanceVerdict:
        """Balanced, not balanced, or unknown."""
        return self.facts.verdict()

    @cached_property
    def cluster_verdict(self) -> Verdict:
        """The findings and the scope of the examination; computed once for every page."""
        return pegasus_verdict(self.facts, self.earlier)

    @cached_property
    def earlier(self) -> list[PegasusSnapshot]:
        """Saved snapshots before it, the newest last; read only where something may last."""
        table = self.snapshot.tables["partitions"]
        if not table["primary"].null_count:
            return []
        path = self.stored.path
        store = SnapshotStore(path.parents[1])
        found = []
        for one in store.before(path.parent.name, self.stored.taken_at):
            with suppress(OpsError):  # dropped meanwhile
                found.append(load_pegasus_snapshot(one.path))
        return found

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, worst first."""
        return self.cluster_verdict.findings

    @cached_property
    def nodes(self) -> list[NodeSummary]:
        """Every node in sums, by host and port."""
        return summarize_nodes(self.facts)

    @cached_property
    def tables(self) -> list[TableSummary]:
        """Every available table in sums, by id."""
        return summarize_tables(self.facts)


pegasus_reading = cached(PegasusReading, max_entries=MAX_READINGS)
"""The reading of a saved snapshot of a Pegasus cluster."""


def _summarised(stored: CachedSnapshot) -> PegasusSummary:
    one = pegasus_reading(stored)
    return pegasus_summary(one.facts, one.cluster_verdict, one.nodes)


cluster_summary = cached(_summarised, max_entries=MAX_SUMMARIES)
"""A Pegasus cluster's row of the overview, for a saved snapshot."""


def _primaries(stored: CachedSnapshot) -> pa.Table | None:
    """Partition (``app.index``) and primary; ``None`` when dropped meanwhile, or damaged."""
    columns = ["app_id", "index", "primary"]
    try:
        table = pq.read_table(stored.path / "partitions.parquet", columns=columns)
    except (OSError, pa.ArrowException):
        return None
    texts = [pc.cast(table[name], pa.string()) for name in columns[:2]]
    gpids = pc.binary_join_element_wise(*texts, ".")
    return pa.table({"bundle": gpids, "owner": table["primary"]})


_primary_tables = cached(_primaries, max_entries=2)


def _pair_moves(pair: tuple[CachedSnapshot, CachedSnapshot]) -> list[ObservedMove]:
    tables = [(entry.taken_at, _primary_tables(entry)) for entry in pair]
    return moves_between([(moment, table) for moment, table in tables if table is not None])


_moves = cached(_pair_moves, max_entries=MAX_PAIRS)


def primary_moves(entries: Sequence[CachedSnapshot]) -> list[ObservedMove]:
    """Return the changes of primary from each entry to the next, oldest first.

    Cost:
        Three columns a snapshot the first time; only the moves are stored.
    """
    return [move for pair in pairwise(entries) for move in _moves(pair)]


_LEADER: Final = "primary_meta_server"
_MAX_MOMENTS: Final = 1_000


def _read(stored: CachedSnapshot) -> LevelMoment | None:
    """Two settings of one saved snapshot; ``None`` when it was dropped meanwhile, or is damaged."""
    try:
        table = pq.read_table(stored.path / "settings.parquet", columns=["name", "value"])
    except (OSError, pa.ArrowException):
        return None
    settings = dict(zip(table["name"].to_pylist(), table["value"].to_pylist(), strict=True))
    return LevelMoment(stored.taken_at, settings.get(_LEADER), settings.get(STORED_LEVEL))


_moments = cached(_read, max_entries=_MAX_MOMENTS)


def moments(entries: Sequence[CachedSnapshot]) -> list[LevelMoment]:
    """Return the primary meta server and the stored settings of each snapshot, oldest first.

    Cost:
        A file of some kilobytes a snapshot the first time.
    """
    return [moment for entry in entries if (moment := _moments(entry)) is not None]
