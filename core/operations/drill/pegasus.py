"""The failure drill of a Pegasus cluster: every node lost in turn.

For each: which partitions serve nothing or no writes any more, who leads in its place by the
guardian's rule, what the nodes that are left then serve, and whether their disks have room for the
replicas that are made again. Only the first minutes are simulated: copies come later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.errors import IncompleteSnapshotError, UnknownNameError
from core.operations.drill.request import DrillRequest
from core.operations.operation import Answer, Line, Listing
from core.pegasus.columns import PegasusColumns
from core.pegasus.health import min_2pc_count
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import minimum_2pc
from core.pegasus.view import NO_NODE, Flags
from core.progress import Progress
from core.table import Column, Table
from core.units import UNKNOWN, format_ratio, pluralize

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NODES: Final = Table(
    Column("node", "Failure"),
    Column("primaries", "Primaries", kind="count"),
    Column("replicas", "Replicas", kind="count"),
    Column("without_primary", "No primary", "Partitions that no node can lead.", "count"),
    Column("without_writes", "No writes", "Partitions with too few replicas to write.", "count"),
    Column("single", "One replica", "Partitions with one replica left.", "count"),
    Column("moved_rate", "Moved requests", kind="requests_per_s"),
    Column("taker", "Taken over by", "Node that takes most primaries.", none="no node"),
    Column("taken", "Primaries taken", kind="count"),
    Column("busiest", "Busiest", none="no node"),
    Column("busiest_rate", "Requests of the busiest", kind="requests_per_s", none=UNKNOWN),
    Column("deviation_before", "Above mean before", kind="ratio", none=UNKNOWN),
    Column("deviation_after", "Above mean", "Busiest node over the mean.", "ratio", UNKNOWN),
    Column("copied_mb", "Copied", kind="megabytes"),
    Column("room_mb", "Free", "On the disks of the remaining nodes.", "megabytes", UNKNOWN),
    Column("has_room", "Capacity", kind="flag", none=UNKNOWN, words=("sufficient", "insufficient")),
)
"""One row a node, worst first. ``without_primary``: partitions that no node can lead;
``without_writes``: led, yet by too few replicas for a write; ``single``: one replica left;
``taken``: primaries that the one node takes that takes most; rates are what primaries serve, reads
and writes; deviations: the busiest node over the mean; ``room_mb``: free on the disks of the nodes
that are left, null: unknown."""

_WORST_FIRST: Final = [
    ("without_primary", "descending"),
    ("without_writes", "descending"),
    ("single", "descending"),
    ("deviation_after", "descending"),
    ("node", "ascending"),
]


class NodeDrillJson(TypedDict):
    """The JSON of the answer.

    Attributes:
        answer: In words.
        nodes: The failures, worst first.
    """

    answer: str
    nodes: list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class NodeDrill(Answer):
    """The answer: in words, and the table of :data:`NODES`."""

    answer: str
    nodes: pa.Table

    def body(self) -> NodeDrillJson:
        """Return the JSON object."""
        return {"answer": self.answer, "nodes": self.nodes.to_pylist()}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables by name."""
        return {"nodes": self.nodes}

    def text(self, _: DrillRequest) -> Iterator[Line]:
        """Return the text for people."""
        yield self.answer
        yield ""
        columns = NODES.pick(
            *("node", "primaries", "without_primary", "without_writes", "single", "busiest"),
            "deviation_after",
        )
        yield Listing(self.nodes, columns)


@dataclass(frozen=True, eq=False)
class _Partitions:
    """Members of every partition, and what each serves.

    Attributes:
        columns: The snapshot.
        facts: The same.
        members: Shape ``(n_partitions, n_roles)``: node codes, the primary first where there is
            one; ``NO_NODE``: none.
        table: Table of each partition.
        needed: Replicas that a write needs.
        reads: Requests/s that its primary serves, reads and writes; 0 where unknown.
    """

    facts: PegasusFacts
    columns: PegasusColumns
    members: Ints
    has_primary: Flags
    table: Ints
    needed: Ints
    reads: Floats

    @classmethod
    def of(cls, facts: PegasusFacts) -> _Partitions:
        columns = facts.columns
        width = int(columns.part_index.max(initial=0)) + 1
        keys = columns.part_table.astype(np.int64) * width + columns.part_index
        order = np.argsort(keys, kind="stable")
        held = columns.rep_table.astype(np.int64) * width + columns.rep_index
        at = np.minimum(np.searchsorted(keys[order], held), max(keys.size - 1, 0))
        known = (keys[order][at] == held) if keys.size else np.zeros(held.size, np.bool_)
        row = np.where(known, order[at] if keys.size else 0, NO_NODE)
        chosen = np.flatnonzero(known & (columns.rep_node != NO_NODE))
        # the primary first, the secondaries as they are listed
        chosen = chosen[np.lexsort((chosen, ~columns.rep_is_primary[chosen], row[chosen]))]
        rows = row[chosen]
        place = np.arange(rows.size) - np.searchsorted(rows, rows)
        members = np.full((keys.size, int(place.max(initial=0)) + 1), NO_NODE, np.int64)
        members[rows, place] = columns.rep_node[chosen]
        leads = columns.rep_is_primary[chosen]
        served = np.nan_to_num(columns.measures["read_rate"][chosen])
        served = served + np.nan_to_num(columns.measures["write_rate"][chosen])
        reads = np.bincount(rows[leads], weights=served[leads], minlength=keys.size)
        configured = minimum_2pc(facts)
        wanted, which = np.unique(columns.part_wanted, return_inverse=True)
        needed = np.array([min_2pc_count(int(one), configured) for one in wanted], np.int64)
        return cls(
            facts=facts,
            columns=columns,
            members=members,
            has_primary=columns.part_primary != NO_NODE,
            table=columns.part_table.astype(np.int64),
            needed=needed[which] if wanted.size else np.zeros(0, np.int64),
            reads=np.asarray(reads, np.float64),
        )

    @cached_property
    def led(self) -> Ints:
        """Primaries per table and node."""
        return self.columns.counts(primaries_only=True)

    @cached_property
    def held(self) -> Ints:
        """Replicas per table and node."""
        return self.columns.counts(primaries_only=False)

    @cached_property
    def served(self) -> Floats:
        """Requests/s by node."""
        leaders = np.where(self.has_primary, self.members[:, 0], NO_NODE)
        known = leaders != NO_NODE
        sums = np.bincount(
            leaders[known], weights=self.reads[known], minlength=self.columns.node_count
        )
        return np.asarray(sums, np.float64)

    @cached_property
    def sizes(self) -> Floats:
        """MB of the replicas on each node; unknown ones count as none."""
        here = self.columns.rep_node != NO_NODE
        size = np.nan_to_num(self.columns.measures["size_mb"][here])
        sums = np.bincount(
            self.columns.rep_node[here], weights=size, minlength=self.columns.node_count
        )
        return np.asarray(sums, np.float64)

    @cached_property
    def room(self) -> Floats:
        """MB free on each node's disks; NaN where it reported none."""
        disks = self.facts.snapshot.tables["disks"]
        place = {name: at for at, name in enumerate(self.columns.nodes)}
        free = np.full(self.columns.node_count, np.nan)
        pairs = zip(disks["node"].to_pylist(), disks["available_mb"].to_pylist(), strict=True)
        for name, available in pairs:
            if name in place:
                free[place[name]] = np.nan_to_num(free[place[name]]) + available
        return free


def drill_nodes(facts: PegasusFacts, request: DrillRequest, progress: Progress) -> NodeDrill:
    """Simulate the failure of each live node.

    Args:
        facts: The snapshot.
        request: ``only`` names nodes; empty: all that are alive.
        progress: Called after each node.
    Raises:
        IncompleteSnapshotError: Partitions of some table were not read, or no node is alive.
        UnknownNameError: A name that no live node has.
        JobStoppedError: It was stopped.
    """
    names = nodes_of(facts, request.only)
    rows = []
    for number, name in enumerate(names):
        progress.step(number, len(names), "failure drill")
        rows.append(simulate_node_losses(facts, [name]))
    progress.step(len(names), len(names), "failure drill")
    nodes = pa.concat_tables([NODES.schema.empty_table(), *rows]).sort_by(_WORST_FIRST)
    return NodeDrill(_sentence(nodes), nodes)


def nodes_of(facts: PegasusFacts, only: Sequence[str] = ()) -> list[str]:
    """Return the nodes to lose.

    Raises:
        IncompleteSnapshotError: Partitions of some table were not read, or no node is alive.
        UnknownNameError: A name that no living node has.
    """
    columns = facts.columns
    alive = [name for name, up in zip(columns.nodes, columns.is_alive, strict=True) if up]
    for name in only:
        if name not in alive:
            raise UnknownNameError.of("live node", name, alive)
    if not alive or not columns.is_read.all():
        raise IncompleteSnapshotError(
            f"The snapshot of {facts.snapshot.manifest.cluster} lacks partitions or "
            "a live node: the effect of a failure is unknown.",
            hint="See its problems for what could not be read.",
        )
    return [name for name in alive if not only or name in only]


def refuses(nodes: pa.Table) -> pa.ChunkedArray:
    """Return the failures that leave partitions which refuse reads or writes."""
    return pc.or_(pc.greater(nodes["without_primary"], 0), pc.greater(nodes["without_writes"], 0))


def simulate_node_losses(facts: PegasusFacts, names: Sequence[str]) -> pa.Table:
    """Return rows of :data:`NODES` for some nodes, each lost by itself."""
    # cached next to the facts: all nodes of a cluster share it
    parts = facts.__dict__.get("drill partitions")
    if parts is None:
        parts = facts.__dict__["drill partitions"] = _Partitions.of(facts)
    place = {name: at for at, name in enumerate(parts.columns.nodes)}
    rows = [_lost(parts, place[name]) for name in names]
    return pa.Table.from_pylist(rows, schema=NODES.schema)


def _lost(parts: _Partitions, node: int) -> dict[str, object]:
    columns = parts.columns
    alive = columns.is_alive.copy()
    alive[node] = False
    touched = (parts.members == node).any(axis=1)
    left = ((parts.members != NO_NODE) & np.append(alive, False)[parts.members]).sum(axis=1)
    headless = touched & parts.has_primary & (parts.members[:, 0] == node)
    takers = _takers(parts, np.flatnonzero(headless), alive)
    taken = np.bincount(takers[takers >= 0], minlength=columns.node_count)
    leads = headless.copy()
    leads[np.flatnonzero(headless)[takers < 0]] = False
    lost = headless & ~leads
    is_led = touched & ~lost & parts.has_primary
    served = parts.served + np.bincount(
        takers[takers >= 0],
        weights=parts.reads[headless][takers >= 0],
        minlength=columns.node_count,
    )
    others = np.flatnonzero(alive)
    room = parts.room[others]
    copied = float(parts.sizes[node])
    is_known = bool(room.size) and bool(np.isfinite(room).all())
    busiest = int(others[served[others].argmax()]) if others.size else NO_NODE
    most = int(taken.argmax()) if taken.any() else NO_NODE
    return {
        "node": columns.nodes[node],
        "primaries": int(parts.led[:, node].sum()),
        "replicas": int(parts.held[:, node].sum()),
        "without_primary": int(lost.sum()),
        "without_writes": int((is_led & (left < parts.needed)).sum()),
        "single": int((is_led & (left == 1)).sum()),
        "moved_rate": float(parts.reads[headless].sum()),
        "taker": columns.nodes[most] if most >= 0 else None,
        "taken": int(taken.max(initial=0)),
        "busiest": columns.nodes[busiest] if busiest >= 0 else None,
        "busiest_rate": float(served[busiest]) if busiest >= 0 else None,
        "deviation_before": _over_mean(parts.served[columns.is_alive]),
        "deviation_after": _over_mean(served[others]),
        "copied_mb": copied,
        "room_mb": float(room.sum()) if is_known else None,
        "has_room": bool(room.sum() >= copied) if is_known else None,
    }


def _over_mean(values: Floats) -> float | None:
    mean = float(values.mean()) if values.size else 0.0
    return float(values.max() / mean - 1.0) if mean > 0 else None


def _takers(parts: _Partitions, rows: Ints, alive: Flags) -> Ints:
    """Return the next primary of each partition; ``NO_NODE`` if no secondary is alive.

    Source:
        Pegasus ``partition_guardian#on_missing_primary``: of the living secondaries the one with
        fewest primaries of the table, then replicas of it, then primaries, then replicas; what was
        promised to it counts.
    """
    led, held = parts.led.copy(), parts.held
    totals, all_held = led.sum(axis=0), held.sum(axis=0)
    ends = np.full(rows.size, NO_NODE, np.int64)
    for at, row in enumerate(rows.tolist()):
        table = int(parts.table[row])
        living = [one for one in parts.members[row, 1:].tolist() if one >= 0 and alive[one]]
        if not living:
            continue
        best = min(
            living,
            key=lambda one: (
                led[table, one],
                held[table, one],
                totals[one],
                all_held[one],
            ),  # used at once
        )
        led[table, best] += 1
        totals[best] += 1
        ends[at] = best
    return ends


def _sentence(failures: pa.Table) -> str:
    worst = failures.slice(0, 1).to_pylist()
    if not worst:
        return "Nothing was simulated."
    one = worst[0]
    count = failures.num_rows
    name = one["node"]
    if one["without_primary"] or one["without_writes"]:
        return (
            f"Worst of {pluralize(count, 'node')}: without {name}, "
            f"{pluralize(one['without_primary'], 'partition')} would have no "
            f"primary and {pluralize(one['without_writes'], 'partition')} would "
            "refuse writes."
        )
    after = format_ratio(one["deviation_after"])
    single = ""
    if one["single"]:
        single = f"{pluralize(one['single'], 'partition')} with one replica, and "
    return (
        f"Each of {pluralize(count, 'node')} can fail without a partition that "
        f"refuses reads or writes. Worst: without {name} {single}the busiest "
        f"node is {after} above the mean."
    )
