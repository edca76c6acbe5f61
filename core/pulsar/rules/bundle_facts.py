"""What the health rules read of bundles: counts, and the few rows that a finding shows.

Bundles are many; whoever holds them answers these questions: a table in memory here, or Spark where
no process holds all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.arrays import Floats, column_values, row_of
from core.ids import FULL_UPPER
from core.pulsar.quotas import known_sum
from core.pulsar.split.algorithms import SplitLimits
from core.snapshot import PulsarSnapshot

SHOWN: Final = 10
"""Bundles that one finding names."""

UNKNOWN_TOPICS: Final = 2
STORM_EMPTY: Final = 8
STORM_NARROW: Final = 16
RING: Final = FULL_UPPER + 1
"""Positions of the ring that the bundles of a namespace share."""


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Some rows out of many.

    Attributes:
        rows: The first of them.
        count: All of them.
    """

    rows: pa.Table
    count: int

    @classmethod
    def all_of(cls, rows: pa.Table) -> RowSelection:
        """Return all rows."""
        return cls(rows, rows.num_rows)

    @property
    def unlisted(self) -> int:
        """Number of unlisted rows."""
        return self.count - int(self.rows.num_rows)


@dataclass(frozen=True, slots=True)
class MisplacedBundles:
    """Namespaces whose bundles are owned where they should not be.

    Attributes:
        rows: Columns ``namespace``, ``owner``, ``bundles``, sorted by the first two: all such rows
            of the first namespaces.
        unlisted: Further namespaces.
    """

    rows: pa.Table
    unlisted: int = 0


@dataclass(frozen=True, slots=True)
class ForeignBundles:
    """Bundles of some namespaces on some brokers.

    Attributes:
        rows: The first :data:`SHOWN`; columns ``namespace``, ``owner``, ``bundles``, sorted by the
            first two.
        bundles: How many there are.
        namespaces: Theirs, in order.
        owners: Theirs, in order.
    """

    rows: pa.Table
    bundles: int
    namespaces: Sequence[str]
    owners: Sequence[str]


@dataclass(frozen=True, slots=True)
class UnassignedBundles:
    """Bundles without an owner, in the order of the snapshot's rows.

    Attributes:
        unclear: Whose owner could not be read.
        busy: That a report names, or that carry traffic.
        quiet: Without clients.
    """

    unclear: RowSelection
    busy: RowSelection
    quiet: RowSelection


class BundleFacts(Protocol):
    """The bundles that can move: heartbeat and SLA bundles excluded."""

    @property
    def count(self) -> int:
        """Number of rows."""
        ...

    def hot(self, ceiling: float) -> RowSelection:
        """Return those with more bytes/s, the hottest first, of equal ones the first in row order.

        Columns ``bundle``, ``owner``, ``topic_count``, ``throughput`` (bytes/s in + out).
        """
        ...

    def alone(self, floor: float) -> RowSelection:
        """Return namespaces of one bundle with more bytes/s, the busiest first.

        Columns ``namespace``, ``throughput`` (bytes/s), ``rate`` (msgs/s), in + out.
        """
        ...

    def near_limit(self, least: float, below: float) -> RowSelection:
        """Return namespaces with at least ``least`` and fewer than ``below`` bundles, most first.

        Columns ``namespace``, ``bundles``.
        """
        ...

    def over(
        self,
        limits: SplitLimits,
        *,
        topics: tuple[int, int],
        namespaces: Sequence[str] | None = None,
    ) -> RowSelection:
        """Return those above a limit of splits, the largest excess first.

        Columns as :func:`over_schema` has them: rates as the next check compares them, but for
        quotas; ``excess`` the largest share of a limit.

        Args:
            limits: Above which a bundle is split.
            topics: Fewest and most topics; an unknown count is several.
            namespaces: Only theirs; ``None`` for all.
        """
        ...

    def storms(self) -> RowSelection:
        """Return namespaces that were split again and again around one bundle, the hottest first.

        Those with :data:`STORM_EMPTY` bundles or more without topics or messages, half of all at
        least, whose busiest bundle is :data:`STORM_NARROW` times narrower than an even share.
        Columns as :func:`storm_schema` has them.
        """
        ...

    def with_entries(self) -> PulsarSnapshot:
        """Return the cluster with the bundles whose ownership entries can be judged here.

        A table in memory has all of them, heartbeat and SLA bundles included; else those alone.
        """
        ...

    def unowned(self) -> UnassignedBundles:
        """Return those without an owner; columns ``bundle``, ``owner``, ``reported_by``."""
        ...

    def moved(self) -> RowSelection:
        """Return those that another broker than the owner reports; the same columns."""
        ...

    def owned_namespaces(self) -> Sequence[str]:
        """Return namespaces with an owned bundle, in order."""
        ...

    def misplaced(
        self, policy: Mapping[str, str], allowed: Mapping[str, AbstractSet[str]]
    ) -> MisplacedBundles:
        """Return the misplaced bundles.

        Args:
            policy: The policy of each namespace that has one.
            allowed: Brokers that each policy allows.
        """
        ...

    def foreign_bundles(self, namespaces: Sequence[str], owners: Sequence[str]) -> ForeignBundles:
        """Return the bundles of some namespaces on some brokers."""
        ...

    def owners_of(self, namespaces: Sequence[str]) -> pa.Table:
        """Return each pair of a namespace and a broker that owns a bundle of it.

        Columns ``namespace``, ``owner``; in no order.
        """
        ...


@dataclass(frozen=True, eq=False)
class BundleTable:
    """Bundles of a snapshot in memory; every row is listed."""

    snapshot: PulsarSnapshot

    @cached_property
    def _movable(self) -> pa.Table:
        bundles = self.snapshot.bundles
        return bundles.filter(pc.invert(bundles["is_broker_bound"]))

    @cached_property
    def _throughput(self) -> pa.ChunkedArray:
        return pc.add(self._movable["msg_throughput_in"], self._movable["msg_throughput_out"])

    @cached_property
    def _owned(self) -> pa.Table:
        pairs = self._movable.select(["namespace", "owner"])
        return pairs.filter(pc.is_valid(pairs["owner"]))

    @property
    def count(self) -> int:
        """Movable rows."""
        return int(self._movable.num_rows)

    def hot(self, ceiling: float) -> RowSelection:
        """Sort those above the ceiling."""
        values = np.asarray(self._throughput.to_numpy(), np.float64)
        rows = np.flatnonzero(np.nan_to_num(values) > ceiling)
        rows = rows[np.argsort(-values[rows], kind="stable")]
        found = self._movable.select(["bundle", "owner", "topic_count"]).take(pa.array(rows))
        return RowSelection.all_of(found.append_column("throughput", pa.array(values[rows])))

    def alone(self, floor: float) -> RowSelection:
        """Sum up namespaces."""
        rate = pc.add(self._movable["msg_rate_in"], self._movable["msg_rate_out"])
        table = pa.table(
            {"namespace": self._movable["namespace"], "throughput": self._throughput, "rate": rate}
        )
        # one thread: groups are in the order in which they are met, which decides ties
        groups = table.group_by("namespace", use_threads=False).aggregate(
            [("throughput", "sum"), ("rate", "sum"), ("namespace", "count")]
        )
        single = pc.and_(
            pc.equal(groups["namespace_count"], 1),
            pc.greater(pc.fill_null(groups["throughput_sum"], 0.0), floor),
        )
        found = groups.filter(single).sort_by([("throughput_sum", "descending")])
        named = found.select(["namespace", "throughput_sum", "rate_sum"])
        return RowSelection.all_of(named.rename_columns(["namespace", "throughput", "rate"]))

    def near_limit(self, least: float, below: float) -> RowSelection:
        """Count by namespace."""
        counts = self._counts
        near = pc.and_(
            pc.greater_equal(counts["bundles"], least), pc.less(counts["bundles"], below)
        )
        return RowSelection.all_of(counts.filter(near).sort_by([("bundles", "descending")]))

    def over(
        self,
        limits: SplitLimits,
        *,
        topics: tuple[int, int],
        namespaces: Sequence[str] | None = None,
    ) -> RowSelection:
        """Compare columns."""
        bundles = self.snapshot.bundles
        rate, flow = (self._compared(kind) for kind in ("msg_rate", "msg_throughput"))
        count = np.nan_to_num(column_values(bundles, "topic_count"), nan=UNKNOWN_TOPICS)
        sessions = np.nan_to_num(
            column_values(bundles, "producer_count") + column_values(bundles, "consumer_count")
        )
        shares = [
            count / max(limits.topics, 1),
            rate / max(limits.msgs_per_s, 1),
            flow / max(limits.bytes_per_s, 1),
        ]
        if limits.sessions > 0:
            shares.append(sessions / limits.sessions)
        excess = np.max(shares, axis=0)
        bound = np.asarray(bundles["is_broker_bound"], bool)
        chosen = (excess > 1) & ~bound & (count >= topics[0]) & (count <= topics[1])
        if namespaces is not None:
            wanted = pc.is_in(bundles["namespace"], pa.array(namespaces, pa.string()))
            chosen &= np.asarray(wanted, bool)
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(-excess[rows], kind="stable")]
        found = bundles.select(["namespace", "bundle", "owner", "topic_count"]).take(pa.array(rows))
        for name, values in (("rate", rate), ("throughput", flow), ("excess", excess)):
            found = found.append_column(name, pa.array(values[rows]))
        return RowSelection.all_of(found.cast(over_schema()))

    def _compared(self, kind: str) -> Floats:
        """Return in + out as the next check has it, without the quotas that begin an average."""
        bundles = self.snapshot.bundles
        rate = known_sum(bundles, f"{kind}_in", f"{kind}_out")
        if self.snapshot.manifest.load_manager != "extensible":
            held = known_sum(bundles, f"long_{kind}_in", f"long_{kind}_out")
            rate = np.where(np.isnan(held), rate, held)
        return np.nan_to_num(rate)

    def storms(self) -> RowSelection:
        """Count by namespace, and look for the busiest bundle of those that remain."""
        return self._storms

    @cached_property
    def _storms(self) -> RowSelection:
        bundles = self._movable
        parts = [pc.fill_null(bundles[f"msg_rate_{way}"], 0.0) for way in ("in", "out")]
        rate = np.nan_to_num(np.asarray(pc.add(*parts), np.float64))
        topics = np.asarray(pc.fill_null(bundles["topic_count"], 0))
        table = pa.table(
            {
                "namespace": bundles["namespace"],
                "empty": pa.array(((rate == 0) & (topics == 0)).astype(np.int64)),
            }
        )
        groups = table.group_by("namespace", use_threads=False).aggregate(
            [("empty", "sum"), ("namespace", "count")]
        )
        many = pc.and_(
            pc.greater_equal(groups["empty_sum"], STORM_EMPTY),
            pc.greater_equal(pc.multiply(groups["empty_sum"], 2), groups["namespace_count"]),
        )
        names = groups.filter(many)["namespace"]
        near = np.flatnonzero(np.asarray(pc.is_in(bundles["namespace"], names.combine_chunks())))
        near = near[np.argsort(-rate[near], kind="stable")]
        rows = bundles.select(["namespace", "bundle", "owner", "topic_count"]).take(pa.array(near))
        spaces = rows["namespace"].to_numpy(zero_copy_only=False)
        firsts = np.sort(np.unique(spaces, return_index=True)[1])
        width = np.asarray(pc.subtract(bundles["upper"], bundles["lower"]))[near][firsts]
        at = row_of(groups["namespace"], rows["namespace"].take(pa.array(firsts)))
        count = np.asarray(groups["namespace_count"])[at]
        narrow = (width * count * STORM_NARROW < RING) & (rate[near][firsts] > 0)
        found = rows.take(pa.array(firsts[narrow]))
        flow = np.nan_to_num(np.asarray(self._throughput, np.float64))[near][firsts][narrow]
        for name, values in (
            ("rate", rate[near][firsts][narrow]),
            ("throughput", flow),
            ("bundles", count[narrow]),
            ("empty", np.asarray(groups["empty_sum"])[at][narrow]),
        ):
            found = found.append_column(name, pa.array(values))
        return RowSelection.all_of(found.cast(storm_schema()))

    @cached_property
    def _counts(self) -> pa.Table:
        by_namespace = self._movable.select(["namespace"]).group_by("namespace", use_threads=False)
        counts = by_namespace.aggregate([("namespace", "count")])
        return counts.select(["namespace", "namespace_count"]).rename_columns(
            ["namespace", "bundles"]
        )

    def with_entries(self) -> PulsarSnapshot:
        """All of it."""
        return self.snapshot

    def unowned(self) -> UnassignedBundles:
        """Look for null owners."""
        unowned = self._movable.filter(pc.is_null(self._movable["owner"]))
        known_owner = unowned.filter(pc.is_valid(unowned["owner_source"]))
        rate = pc.add(
            pc.fill_null(known_owner["msg_rate_in"], 0.0),
            pc.fill_null(known_owner["msg_rate_out"], 0.0),
        )
        busy = pc.or_(pc.is_valid(known_owner["reported_by"]), pc.greater(rate, 0.0))
        return UnassignedBundles(
            _first(unowned.filter(pc.is_null(unowned["owner_source"]))),
            _first(known_owner.filter(busy)),
            _first(known_owner.filter(pc.invert(busy))),
        )

    def moved(self) -> RowSelection:
        """Compare owner and reporter."""
        bundles = self._movable
        differs = pc.not_equal(bundles["owner"], bundles["reported_by"])
        return _first(bundles.filter(pc.fill_null(differs, pa.scalar(value=False))))

    def owned_namespaces(self) -> Sequence[str]:
        """Return them sorted."""
        names: list[str] = pc.unique(self._owned["namespace"]).sort().to_pylist()
        return names

    def misplaced(
        self, policy: Mapping[str, str], allowed: Mapping[str, AbstractSet[str]]
    ) -> MisplacedBundles:
        """Count pairs and leave out the allowed ones."""
        rows = self._pairs(list(policy)).to_pylist()
        wrong = [row for row in rows if row["owner"] not in allowed[policy[row["namespace"]]]]
        found = pa.Table.from_pylist(wrong, schema=pairs_schema())
        return MisplacedBundles(found.sort_by([("namespace", "ascending"), ("owner", "ascending")]))

    def _pairs(self, namespaces: Sequence[str]) -> pa.Table:
        """Count bundles by namespace and owner, in no order."""
        wanted = pc.is_in(self._owned["namespace"], pa.array(namespaces, pa.string()))
        by_pair = self._owned.filter(wanted).group_by(["namespace", "owner"])
        counts = by_pair.aggregate([("owner", "count")])
        return counts.select(["namespace", "owner", "owner_count"]).rename_columns(
            pairs_schema().names
        )

    def foreign_bundles(self, namespaces: Sequence[str], owners: Sequence[str]) -> ForeignBundles:
        """Count pairs."""
        pairs = self._pairs(namespaces)
        here = pairs.filter(pc.is_in(pairs["owner"], pa.array(owners, pa.string())))
        rows = here.sort_by([("namespace", "ascending"), ("owner", "ascending")])
        return ForeignBundles(
            rows.slice(0, SHOWN),
            int(pc.sum(rows["bundles"]).as_py() or 0),
            pc.unique(rows["namespace"]).to_pylist(),
            pc.unique(rows["owner"]).sort().to_pylist(),
        )

    def owners_of(self, namespaces: Sequence[str]) -> pa.Table:
        """Return distinct pairs."""
        wanted = pa.array(list(namespaces), pa.string())
        chosen = self._owned.filter(pc.is_in(self._owned["namespace"], wanted))
        return chosen.group_by(["namespace", "owner"]).aggregate([])


def over_schema() -> pa.Schema:
    """Return the schema of bundles above a limit of splits; rates in + out."""
    return pa.schema(
        [
            *((name, pa.string()) for name in ("namespace", "bundle", "owner")),
            ("topic_count", pa.int64()),
            *((name, pa.float64()) for name in ("rate", "throughput", "excess")),
        ]
    )


def storm_schema() -> pa.Schema:
    """Return the schema of namespaces with a split storm, of each the busiest bundle."""
    return pa.schema(
        [
            *((name, pa.string()) for name in ("namespace", "bundle", "owner")),
            ("topic_count", pa.int64()),
            *((name, pa.float64()) for name in ("rate", "throughput")),
            *((name, pa.int64()) for name in ("bundles", "empty")),
        ]
    )


def pairs_schema() -> pa.Schema:
    """Return the schema of counted pairs of namespace and owner."""
    return pa.schema([("namespace", pa.string()), ("owner", pa.string()), ("bundles", pa.int64())])


def _first(rows: pa.Table) -> RowSelection:
    shown = rows.slice(0, SHOWN).select(["bundle", "owner", "reported_by"])
    return RowSelection(shown, rows.num_rows)
