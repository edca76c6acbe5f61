"""A snapshot's replicas and partitions as integer-coded columns, for sums over very many of them.

:mod:`core.pegasus.view` has the same state for the balancer, which needs every table whole; here a
table whose partitions were not read is simply marked, and unknown numbers are NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.pegasus.health import (
    UNREGISTERED,
    ListedHealth,
    Membership,
    guardian_healthy,
    health_states,
    needed_replicas,
    refuses_writes,
    state_counts,
)
from core.pegasus.view import NO_NODE, Flags, Ints

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

NodeStatus = Literal["alive", "excluded", "drained", "not answering", "down"]
"""``excluded``: on the black list, it gets no new replica. ``drained``: empty since it gave up its
replicas while alive. ``not answering``: alive for the failure detector, but it did not answer
the capture. ``down``: given up by the failure detector."""

BLACK_LIST: Final = "assign_secondary_black_list"

MEASURES: Final = ("size_mb", "read_rate", "write_rate", "read_units", "write_units")


@dataclass(frozen=True, eq=False)
class PegasusColumns:
    """One snapshot, in columns.

    Attributes:
        nodes: Registered names, by host and port; a node is called by its place here.
        is_alive: Shape ``(n_nodes,)``: the failure detector's word.
        is_silent: Shape ``(n_nodes,)``: alive, but it did not answer the capture.
        is_excluded: Shape ``(n_nodes,)``: it is on the black list.
        is_emptied: Shape ``(n_nodes,)``: it gave up its replicas while it was alive.
        node_min_2pc: Shape ``(n_nodes,)``: ``mutation_2pc_min_replica_count`` of the server; -1:
            not reported.
        app_ids: Shape ``(n_tables,)``: available tables, ascending; called by their place here.
        app_names: The same tables.
        partition_counts: Shape ``(n_tables,)``: as the tables were created.
        max_replica_counts: Shape ``(n_tables,)``: wanted replicas.
        part_table: Shape ``(n_partitions,)``: the table of every partition that was read.
        part_index: Its index in the table.
        part_ballot: Its ballot.
        part_wanted: Its wanted replicas.
        part_primary: Its primary; ``NO_NODE`` without one.
        part_secondaries: How many secondaries it has.
        rep_table: Shape ``(n_replicas,)``: the table of every member.
        rep_index: The index of its partition.
        rep_node: Its node; ``NO_NODE`` if that is not listed.
        rep_is_primary: Whether it leads.
        measures: By name, shape ``(n_replicas,)``; NaN: unknown.
        partitions: The rows of the partitions themselves, in the order of ``part_table``.
    """

    nodes: tuple[str, ...]
    is_alive: Flags
    is_silent: Flags
    is_excluded: Flags
    is_emptied: Flags
    node_min_2pc: Ints
    app_ids: Counts
    app_names: tuple[str, ...]
    partition_counts: Counts
    max_replica_counts: Counts
    part_table: Ints
    part_index: Ints
    part_ballot: Counts
    part_wanted: Ints
    part_primary: Ints
    part_secondaries: Ints
    rep_table: Ints
    rep_index: Ints
    rep_node: Ints
    rep_is_primary: Flags
    measures: Mapping[str, Floats]
    partitions: pa.Table

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table]) -> PegasusColumns:
        """Code the tables of a snapshot; rows of tables that do not serve are left out."""
        nodes = tables["nodes"]
        listed = tables["tables"]
        listed = listed.filter(pc.equal(listed["status"], "available")).sort_by("app_id")
        parts = tables["partitions"]
        part_table = _coded(parts["app_id"], listed["app_id"])
        parts, part_table = parts.filter(pa.array(part_table >= 0)), part_table[part_table >= 0]
        held = tables["replicas"]
        rep_table = _coded(held["app_id"], listed["app_id"])
        held, rep_table = held.filter(pa.array(rep_table >= 0)), rep_table[rep_table >= 0]
        return cls(
            nodes=tuple(nodes["node"].to_pylist()),
            is_alive=np.asarray(nodes["is_alive"].to_numpy(), dtype=np.bool_),
            is_silent=_silent(nodes),
            is_excluded=_excluded(nodes, tables["settings"]),
            is_emptied=np.asarray(nodes["emptied_at"].is_valid().to_numpy(), dtype=np.bool_),
            node_min_2pc=pc.fill_null(nodes["min_2pc_replica_count"], -1)
            .to_numpy()
            .astype(np.int32),
            app_ids=listed["app_id"].to_numpy(),
            app_names=tuple(listed["name"].to_pylist()),
            partition_counts=listed["partition_count"].to_numpy(),
            max_replica_counts=listed["max_replica_count"].to_numpy(),
            part_table=part_table,
            part_index=parts["index"].to_numpy().astype(np.int32),
            part_ballot=parts["ballot"].to_numpy(),
            part_wanted=parts["max_replica_count"].to_numpy().astype(np.int32),
            part_primary=_coded(parts["primary"], nodes["node"], unlisted=len(nodes)),
            part_secondaries=pc.list_value_length(parts["secondaries"]).to_numpy().astype(np.int32),
            rep_table=rep_table,
            rep_index=held["index"].to_numpy().astype(np.int32),
            rep_node=_coded(held["node"], nodes["node"]),
            rep_is_primary=np.asarray(held["is_primary"].to_numpy(), dtype=np.bool_),
            measures={name: _floats(held[name]) for name in MEASURES},
            partitions=parts,
        )

    # -- places ---------------------------------------------------------------------------------

    @property
    def table_count(self) -> int:
        """Number of serving tables."""
        return len(self.app_ids)

    @property
    def node_count(self) -> int:
        """Number of known nodes, including dead ones."""
        return len(self.nodes)

    @cached_property
    def node_statuses(self) -> list[NodeStatus]:
        """The status of every node."""
        flags = (self.is_alive, self.is_silent, self.is_excluded, self.is_drained)
        rows = zip(*(one.tolist() for one in flags), strict=True)
        return [
            "not answering"
            if silent
            else "down"
            if not alive
            else "excluded"
            if excluded
            else "drained"
            if drained
            else "alive"
            for alive, silent, excluded, drained in rows
        ]

    @cached_property
    def is_drained(self) -> Flags:
        """Living nodes that were emptied and still are, shape ``(n_nodes,)``."""
        held = self.counts(primaries_only=False).sum(axis=0)
        return np.asarray(self.is_alive & self.is_emptied & (held == 0))

    @cached_property
    def is_compared(self) -> Flags:
        """Living nodes that are to carry load, shape ``(n_nodes,)``: means are over these.

        Excluded and drained nodes are empty on purpose; where no other is alive all count.
        """
        compared = self.is_alive & ~self.is_excluded & ~self.is_drained
        return np.asarray(compared if compared.any() else self.is_alive)

    @property
    def set_aside(self) -> list[str]:
        """Names of the nodes that are empty on purpose, or are being emptied."""
        return [*self.nodes_with("excluded"), *self.nodes_with("drained")]

    def deviations(self, *, primaries_only: bool) -> Floats:
        """Return the deviation of each compared node from the mean count, shape ``(n_nodes,)``.

        NaN: it is down or set aside, or there is nothing to count.
        """
        counts = self.counts(primaries_only=primaries_only).sum(axis=0).astype(np.float64)
        found = np.full(self.node_count, np.nan)
        mean = float(counts[self.is_compared].mean()) if self.is_compared.any() else 0.0
        if mean > 0:
            found[self.is_compared] = counts[self.is_compared] / mean - 1.0
        return found

    def max_deviation(self, *, primaries_only: bool) -> float | None:
        """Return the deviation that is largest either way, with its sign; ``None`` if unknown."""
        found = self.deviations(primaries_only=primaries_only)
        known = found[np.isfinite(found)]
        return float(known[np.abs(known).argmax()]) if known.size else None

    def nodes_with(self, status: NodeStatus) -> list[str]:
        """Return the names of the nodes with a status."""
        pairs = zip(self.nodes, self.node_statuses, strict=True)
        return [name for name, one in pairs if one == status]

    @cached_property
    def read_counts(self) -> Counts:
        """Partitions that were read, per table."""
        return np.bincount(self.part_table, minlength=self.table_count)

    @cached_property
    def is_read(self) -> Flags:
        """Tables with all of their partitions, shape ``(n_tables,)``."""
        return np.equal(self.read_counts, self.partition_counts)

    # -- health ---------------------------------------------------------------------------------

    @cached_property
    def membership(self) -> Membership:
        """Columns that determine health, one row per partition."""
        is_child = self.is_child
        return Membership(
            has_primary=self.part_primary != NO_NODE,
            secondary_counts=self.part_secondaries,
            max_replica_counts=self.part_wanted,
            tables=self.part_table,
            is_child=is_child if is_child.any() else None,
        )

    @cached_property
    def is_child(self) -> Flags:
        """Unregistered children of a partition split, shape ``(n_partitions,)``."""
        is_alone = (self.part_primary == NO_NODE) & (self.part_secondaries == 0)
        return np.asarray((self.part_ballot == UNREGISTERED) & is_alone)

    def refuses_writes(self, configured_min_2pc_count: int) -> Flags:
        """Return the partitions that refuse every write, shape ``(n_partitions,)``.

        Args:
            configured_min_2pc_count: The meta server's ``mutation_2pc_min_replica_count``, for
                primaries on servers that did not report their own.
        """
        return refuses_writes(self.membership, self.needed_replicas(configured_min_2pc_count))

    def needed_replicas(self, configured_min_2pc_count: int) -> Ints:
        """Return the replicas that a write to each partition needs, shape ``(n_partitions,)``.

        Args:
            configured_min_2pc_count: As for :meth:`refuses_writes`.
        """
        own = np.where(self.node_min_2pc < 0, configured_min_2pc_count, self.node_min_2pc)
        configured = np.full(len(self.part_table), configured_min_2pc_count, dtype=np.int32)
        is_led = (self.part_primary != NO_NODE) & (self.part_primary < self.node_count)
        configured[is_led] = own[self.part_primary[is_led]]
        return needed_replicas(self.part_wanted, configured)

    def states(self, configured_min_2pc_count: int) -> NDArray[np.int8]:
        """Return every partition's state, counting ``states``, shape ``(n_partitions,)``."""
        return health_states(self.membership, configured_min_2pc_count)

    def table_states(self, configured_min_2pc_count: int) -> Counts:
        """Return partitions per table and state, shape ``(n_tables, 6)``."""
        return state_counts(
            self.states(configured_min_2pc_count), self.part_table, self.table_count
        )

    @cached_property
    def listed(self) -> ListedHealth:
        """Counting ``listed``, a row a table."""
        return ListedHealth.of(self.membership, self.table_count)

    @cached_property
    def is_guardian_healthy(self) -> Flags:
        """Counting ``guardian``, pending proposals left out of account: they are not reported."""
        return guardian_healthy(self.membership, np.zeros(len(self.part_table), dtype=np.bool_))

    # -- sums -----------------------------------------------------------------------------------

    def per_table(self, name: str, *, primaries_only: bool) -> Floats:
        """Return a measure's sum per table; NaN where some replica or partition is unknown."""
        rows = self.rep_is_primary if primaries_only else np.ones(len(self.rep_table), np.bool_)
        sums = sums_by_place(self.rep_table[rows], self.measures[name][rows], self.table_count)
        return np.where(self.is_read, sums, np.nan)

    def per_node(self, name: str, *, primaries_only: bool) -> Floats:
        """Return a measure's sum per node; NaN where some replica of the node is unknown."""
        rows = self.rep_node != NO_NODE
        if primaries_only:
            rows &= self.rep_is_primary
        return sums_by_place(self.rep_node[rows], self.measures[name][rows], self.node_count)

    def counts(self, *, primaries_only: bool) -> Counts:
        """Return replicas per table and node, shape ``(n_tables, n_nodes)``."""
        rows = self.rep_node != NO_NODE
        if primaries_only:
            rows &= self.rep_is_primary
        size = self.table_count * self.node_count
        counts = np.bincount(self._cells(rows), minlength=size)
        return counts.reshape(self.table_count, self.node_count)

    def grid(self, name: str, *, primaries_only: bool) -> Floats:
        """Return a measure per table and node; NaN where some replica there is unknown."""
        rows = self.rep_node != NO_NODE
        if primaries_only:
            rows &= self.rep_is_primary
        size = self.table_count * self.node_count
        sums = sums_by_place(self._cells(rows), self.measures[name][rows], size)
        return sums.reshape(self.table_count, self.node_count)

    def _cells(self, rows: Flags) -> Counts:
        return self.rep_table[rows].astype(np.int64) * self.node_count + self.rep_node[rows]


def _coded(values: pa.ChunkedArray, names: pa.ChunkedArray, *, unlisted: int = -1) -> Ints:
    """Return the place of every value among the names; -1 for null, ``unlisted`` for others."""
    places = pc.index_in(values, value_set=names.combine_chunks())
    codes = pc.fill_null(places, unlisted).to_numpy().astype(np.int32)
    if unlisted != NO_NODE:
        codes[pc.is_null(values).to_numpy()] = NO_NODE
    return np.asarray(codes, dtype=np.int32)


def _silent(nodes: pa.Table) -> Flags:
    """Return the live nodes that did not answer."""
    answered = pc.fill_null(nodes["is_answering"], fill_value=True)
    return np.asarray(pc.and_not(nodes["is_alive"], answered).to_numpy(), dtype=np.bool_)


def _excluded(nodes: pa.Table, settings: pa.Table) -> Flags:
    """Return the nodes on the meta server's black list."""
    listed = settings.filter(pc.equal(settings["name"], BLACK_LIST))["value"].to_pylist()
    names = [name.strip() for one in listed for name in (one or "").split(",")]
    return np.asarray(pc.is_in(nodes["node"], value_set=pa.array(names, pa.string())).to_numpy())


def _floats(values: pa.ChunkedArray) -> Floats:
    return np.asarray(pc.fill_null(values, float("nan")).to_numpy(), dtype=np.float64)


def sums_by_place(places: Ints | Counts, values: Floats, size: int) -> Floats:
    """Add up by place; a place with one unknown value is unknown."""
    is_unknown = np.isnan(values)
    sums = np.bincount(places, weights=np.where(is_unknown, 0.0, values), minlength=size)
    has_unknown = np.bincount(places[is_unknown], minlength=size) > 0
    return np.where(has_unknown, np.nan, sums)
