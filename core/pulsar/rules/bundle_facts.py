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

from core.snapshot import PulsarSnapshot

SHOWN: Final = 10
"""Bundles that one finding names."""


@dataclass(frozen=True, slots=True)
class Picked:
    """Some rows out of many.

    Attributes:
        rows: The first of them.
        count: All of them.
    """

    rows: pa.Table
    count: int

    @classmethod
    def all_of(cls, rows: pa.Table) -> Picked:
        """Return all rows."""
        return cls(rows, rows.num_rows)

    @property
    def unlisted(self) -> int:
        """How many are not among the rows."""
        return self.count - int(self.rows.num_rows)


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Namespaces whose bundles are owned where they should not be.

    Attributes:
        rows: Columns ``namespace``, ``owner``, ``bundles``, sorted by the first two: all such rows
            of the first namespaces.
        unlisted: Further namespaces.
    """

    rows: pa.Table
    unlisted: int = 0


@dataclass(frozen=True, slots=True)
class Guests:
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
class Unowned:
    """Bundles without an owner, in the order of the snapshot's rows.

    Attributes:
        unclear: Whose owner could not be read.
        busy: That a report names, or that carry traffic.
        quiet: Without clients.
    """

    unclear: Picked
    busy: Picked
    quiet: Picked


class BundleFacts(Protocol):
    """The bundles that can move: heartbeat and SLA bundles excluded."""

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    def hot(self, ceiling: float) -> Picked:
        """Return those with more bytes/s, the hottest first, of equal ones the first in row order.

        Columns ``bundle``, ``owner``, ``topic_count``, ``throughput`` (bytes/s in + out).
        """
        ...

    def alone(self, floor: float) -> Picked:
        """Return namespaces of one bundle with more bytes/s, the busiest first.

        Columns ``namespace``, ``throughput`` (bytes/s), ``rate`` (msgs/s), in + out.
        """
        ...

    def near_limit(self, least: float, below: float) -> Picked:
        """Return namespaces with at least ``least`` and fewer than ``below`` bundles, most first.

        Columns ``namespace``, ``bundles``.
        """
        ...

    def unowned(self) -> Unowned:
        """Return those without an owner; columns ``bundle``, ``owner``, ``reported_by``."""
        ...

    def moved(self) -> Picked:
        """Return those that another broker than the owner reports; the same columns."""
        ...

    def owned_namespaces(self) -> Sequence[str]:
        """Return namespaces with an owned bundle, in order."""
        ...

    def misplaced(
        self, policy: Mapping[str, str], allowed: Mapping[str, AbstractSet[str]]
    ) -> Misplaced:
        """Return where bundles are owned that should not be there.

        Args:
            policy: The policy of each namespace that has one.
            allowed: Brokers that each policy allows.
        """
        ...

    def guests(self, namespaces: Sequence[str], owners: Sequence[str]) -> Guests:
        """Return what some brokers own of some namespaces."""
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

    def hot(self, ceiling: float) -> Picked:
        """Sort those above the ceiling."""
        values = np.asarray(self._throughput.to_numpy(), np.float64)
        rows = np.flatnonzero(np.nan_to_num(values) > ceiling)
        rows = rows[np.argsort(-values[rows], kind="stable")]
        found = self._movable.select(["bundle", "owner", "topic_count"]).take(pa.array(rows))
        return Picked.all_of(found.append_column("throughput", pa.array(values[rows])))

    def alone(self, floor: float) -> Picked:
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
        return Picked.all_of(named.rename_columns(["namespace", "throughput", "rate"]))

    def near_limit(self, least: float, below: float) -> Picked:
        """Count by namespace."""
        counts = self._counts
        near = pc.and_(
            pc.greater_equal(counts["bundles"], least), pc.less(counts["bundles"], below)
        )
        return Picked.all_of(counts.filter(near).sort_by([("bundles", "descending")]))

    @cached_property
    def _counts(self) -> pa.Table:
        by_namespace = self._movable.select(["namespace"]).group_by("namespace", use_threads=False)
        counts = by_namespace.aggregate([("namespace", "count")])
        return counts.select(["namespace", "namespace_count"]).rename_columns(
            ["namespace", "bundles"]
        )

    def unowned(self) -> Unowned:
        """Look for null owners."""
        unowned = self._movable.filter(pc.is_null(self._movable["owner"]))
        known_owner = unowned.filter(pc.is_valid(unowned["owner_source"]))
        rate = pc.add(
            pc.fill_null(known_owner["msg_rate_in"], 0.0),
            pc.fill_null(known_owner["msg_rate_out"], 0.0),
        )
        busy = pc.or_(pc.is_valid(known_owner["reported_by"]), pc.greater(rate, 0.0))
        return Unowned(
            _first(unowned.filter(pc.is_null(unowned["owner_source"]))),
            _first(known_owner.filter(busy)),
            _first(known_owner.filter(pc.invert(busy))),
        )

    def moved(self) -> Picked:
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
    ) -> Misplaced:
        """Count pairs and leave out the allowed ones."""
        rows = self._pairs(list(policy)).to_pylist()
        wrong = [row for row in rows if row["owner"] not in allowed[policy[row["namespace"]]]]
        found = pa.Table.from_pylist(wrong, schema=pairs_schema())
        return Misplaced(found.sort_by([("namespace", "ascending"), ("owner", "ascending")]))

    def _pairs(self, namespaces: Sequence[str]) -> pa.Table:
        """Count bundles by namespace and owner, in no order."""
        wanted = pc.is_in(self._owned["namespace"], pa.array(namespaces, pa.string()))
        by_pair = self._owned.filter(wanted).group_by(["namespace", "owner"])
        counts = by_pair.aggregate([("owner", "count")])
        return counts.select(["namespace", "owner", "owner_count"]).rename_columns(
            pairs_schema().names
        )

    def guests(self, namespaces: Sequence[str], owners: Sequence[str]) -> Guests:
        """Count pairs."""
        pairs = self._pairs(namespaces)
        here = pairs.filter(pc.is_in(pairs["owner"], pa.array(owners, pa.string())))
        rows = here.sort_by([("namespace", "ascending"), ("owner", "ascending")])
        return Guests(
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


def pairs_schema() -> pa.Schema:
    """Return the schema of counted pairs of namespace and owner."""
    return pa.schema([("namespace", pa.string()), ("owner", pa.string()), ("bundles", pa.int64())])


def _first(rows: pa.Table) -> Picked:
    shown = rows.slice(0, SHOWN).select(["bundle", "owner", "reported_by"])
    return Picked(shown, rows.num_rows)
