"""The flow of primaries: which chain of role changes carries most from too full to too empty nodes.

All tables at once: a table is one slice of a stack of capacity matrices, and one step of the search
visits one node in every table. Upstream does the same table by table.

Source: Pegasus ``ford_fulkerson`` and ``load_balance_policy`` (``primary_balance``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.pegasus.view import NO_NODE, ClusterView, Flags, Ints

UNLIMITED: Final = np.iinfo(np.int32).max
TABLES_AT_ONCE: Final = 128
"""Tables searched together: bounds the memory, 128 x 102 x 102 x 4 bytes = 5 MB at 100 nodes."""


@dataclass(frozen=True)
class Imbalance:
    """Imbalance of the primaries of every table.

    Attributes:
        lows: Shape ``(n_tables,)``: floor(partitions / nodes).
        highs: Shape ``(n_tables,)``: ceil(partitions / nodes).
        higher_counts: Shape ``(n_tables,)``: nodes with more primaries than ``highs``.
        lower_counts: Shape ``(n_tables,)``: nodes with fewer than ``lows``.
    """

    lows: Ints
    highs: Ints
    higher_counts: Ints
    lower_counts: Ints

    @classmethod
    def of(cls, view: ClusterView) -> Imbalance:
        """Measure a view."""
        nodes = len(view.nodes)
        lows = view.partition_counts // nodes
        highs = -(-view.partition_counts // nodes)
        counts = view.primary_counts
        return cls(
            lows=lows.astype(np.int32),
            highs=highs.astype(np.int32),
            higher_counts=(counts > highs[:, None]).sum(axis=1, dtype=np.int32),
            lower_counts=(counts < lows[:, None]).sum(axis=1, dtype=np.int32),
        )

    @property
    def is_uneven(self) -> Flags:
        """Tables with something to do, shape ``(n_tables,)``."""
        return (self.higher_counts > 0) | (self.lower_counts > 0)


@dataclass(frozen=True)
class FlowPath:
    """One augmenting path.

    Attributes:
        nodes: Node codes from the node that gives to the one that takes, two or more.
        amount: Primaries that change hands on every hop: the bottleneck.
    """

    nodes: tuple[int, ...]
    amount: int


def capacities(view: ClusterView, imbalance: Imbalance, tables: Ints) -> Ints:
    """Return the capacity matrices of tables.

    Args:
        view: The state.
        imbalance: Its measures.
        tables: Shape ``(n,)``: places of tables, ascending.

    Returns:
        Shape ``(n, n_nodes + 2, n_nodes + 2)``: index 0 is the source, node code c is at
        c + 1, the last one is the sink. ``[t, i, j]`` is the number of primaries on i with a
        secondary on j; source and sink hold what is above ``low`` and what is missing.
    """
    count, nodes = len(tables), len(view.nodes)
    size = nodes + 2
    net = np.zeros((count, size, size), dtype=np.int32)
    primaries = view.primary_counts[tables]
    surplus = primaries - imbalance.lows[tables, None]
    net[:, 0, 1:-1] = np.maximum(surplus, 0)
    net[:, 1:-1, -1] = np.maximum(-surplus, 0)
    slot = np.full(view.table_count, NO_NODE, dtype=np.int64)
    slot[tables] = np.arange(count)
    slot_of_row = slot[view.table_of_row]
    wanted = np.nonzero((slot_of_row != NO_NODE) & (view.members[:, 0] != NO_NODE))[0]
    sources = view.members[wanted, 0].astype(np.int64)
    flat = net.reshape(-1)
    for role in range(1, view.members.shape[1]):
        destinations = view.members[wanted, role]
        is_there = destinations != NO_NODE
        at = (slot_of_row[wanted] * size + sources + 1) * size + destinations + 1
        np.add.at(flat, at[is_there], np.int32(1))  # of the same type: faster
    _widen_when_none_is_low(net, imbalance, tables)
    return net


def _widen_when_none_is_low(net: Ints, imbalance: Imbalance, tables: Ints) -> None:
    """Let nodes at ``low`` take one more where some are too full and none is too empty."""
    wide = (imbalance.higher_counts[tables] > 0) & (imbalance.lower_counts[tables] == 0)
    if not wide.any():
        return
    gives = net[wide, 0, 1:-1]
    net[wide, 0, 1:-1] = gives - (gives > 0)
    net[wide, 1:-1, -1] += gives <= 0


def widest_paths(net: Ints) -> list[FlowPath | None]:
    """Return the path with the largest bottleneck from source to sink of every table.

    Ties: among equally wide nodes the smallest index is visited first, and a predecessor is only
    replaced by a strictly wider one. The search of a table ends as soon as the sink is as wide as
    anything left, since nothing visited later could widen it.

    Args:
        net: As :func:`capacities` gives it.

    Returns:
        One a table, ``None`` where no path exists.

    Cost:
        At most ``n_nodes + 2`` steps, each O(n_tables * n_nodes).
    """
    tables, size, _ = net.shape
    found: list[FlowPath | None] = [None] * tables
    rows = np.arange(tables)
    width = np.zeros((tables, size), dtype=np.int32)
    width[:, 0] = UNLIMITED
    previous = np.full((tables, size), NO_NODE, dtype=np.int32)
    is_open = np.ones((tables, size), dtype=np.bool_)
    while len(rows):
        at = np.arange(len(rows))
        open_width = np.where(is_open, width, 0)
        chosen = open_width.argmax(axis=1)
        best = open_width[at, chosen]
        is_through = (best > 0) & (width[:, -1] == best)
        for place in np.nonzero(is_through)[0]:
            found[rows[place]] = _trace(previous[place].tolist(), int(best[place]))
        going = (best > 0) & ~is_through
        if not going.all():
            rows, width, previous = rows[going], width[going], previous[going]
            is_open, chosen, best = is_open[going], chosen[going], best[going]
            at = np.arange(len(rows))
        is_open[at, chosen] = False
        reach = np.minimum(net[rows, chosen], best[:, None])
        is_wider = is_open & (reach > width)
        np.copyto(width, reach, where=is_wider)
        np.copyto(previous, chosen[:, None].astype(np.int32), where=is_wider)
    return found


def _trace(previous: list[int], amount: int) -> FlowPath:
    nodes = []
    at = previous[-1]
    while at > 0:
        nodes.append(at - 1)
        at = previous[at]
    return FlowPath(tuple(reversed(nodes)), amount)


def find_flows(
    view: ClusterView, imbalance: Imbalance, tables: NDArray[np.int64]
) -> list[FlowPath | None]:
    """Return the widest path of each of the tables, a bounded number of them at a time."""
    found: list[FlowPath | None] = []
    for start in range(0, len(tables), TABLES_AT_ONCE):
        batch = tables[start : start + TABLES_AT_ONCE].astype(np.int32)
        found += widest_paths(capacities(view, imbalance, batch))
    return found
