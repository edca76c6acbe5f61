"""The balancer once more, step by step as it is written down: slow, plain, for comparison.

Nodes are numbers 1..N in their numbering, as in the description; nothing of the product is used but
the view that is read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from core.pegasus.ids import parse_node
from core.pegasus.view import NO_NODE, ClusterView

Plans = dict[int, tuple[str, int, int]]
"""Kind, source and target by row, nodes counted from 1."""


@dataclass
class Plain:
    """One state in plain lists."""

    view: ClusterView
    only_primary_balancer: bool = False
    only_move_primary: bool = False
    balancer_in_turn: bool = False
    checker: bool = False
    count: int = 10

    def __post_init__(self) -> None:
        self.n = len(self.view.nodes)
        self.roles: list[list[tuple[int, int]]] = [
            [(node + 1, disk) for node, disk in zip(nodes, disks, strict=True) if node != NO_NODE]
            for nodes, disks in zip(
                self.view.members.tolist(), self.view.member_disks.tolist(), strict=True
            )
        ]
        self.result: Plans = {}

    def rows(self, table: int) -> range:
        return self.view.rows_of(table)

    def primary(self, row: int) -> int:
        return self.roles[row][0][0]

    def serves(self, row: int) -> list[int]:
        return [node for node, _ in self.roles[row]]

    def disk(self, row: int, node: int) -> int:
        return next(disk for one, disk in self.roles[row] if one == node)

    def primaries(self, table: int, node: int) -> list[int]:
        return [row for row in self.rows(table) if self.primary(row) == node]

    # -- app policy ---------------------------------------------------------------------------

    def app_policy(self) -> Plans:
        tables = range(self.view.table_count)
        for table in tables:
            self.primary_balance(table, only_move=self.only_move_primary)
            if not self.checker and self.result and self.balancer_in_turn:
                break
        if (not self.checker and self.result) or self.only_primary_balancer:
            return self.result
        for table in tables:
            self.copy(table, "copy_secondary", have_less=False)
            if not self.checker and self.result and self.balancer_in_turn:
                break
        return self.result

    def primary_balance(self, table: int, *, only_move: bool) -> None:  # noqa: C901 - as it is written down
        partitions, size = len(self.rows(table)), self.n + 2
        low, high = partitions // self.n, -(-partitions // self.n)
        held = {v: len(self.primaries(table, v)) for v in range(1, self.n + 1)}
        higher = sum(one > high for one in held.values())
        lower = sum(one < low for one in held.values())
        if not higher and not lower:
            return
        net = [[0] * size for _ in range(size)]
        for v, one in held.items():
            if one > low:
                net[0][v] = one - low
            else:
                net[v][size - 1] = low - one
            for row in self.primaries(table, v):
                for s in self.serves(row)[1:]:
                    net[v][s] += 1
        if higher and not lower:
            for i in range(size):
                if net[0][i] > 0:
                    net[0][i] -= 1
                else:
                    net[i][size - 1] += 1
        flow, prev = self.search(net)
        if flow[-1]:
            self.move(table, prev, flow[-1])
        elif not only_move:
            self.copy(table, "copy_primary", have_less=lower != 0)

    @staticmethod
    def search(net: list[list[int]]) -> tuple[list[int], list[int]]:
        size = len(net)
        flow, prev, visited = [0] * size, [-1] * size, [False] * size
        flow[0] = 2**31 - 1
        while not visited[-1]:
            u, best = -1, 0
            for i in range(size):
                if not visited[i] and flow[i] > best:
                    u, best = i, flow[i]
            if u < 0:
                break
            visited[u] = True
            for w in range(size):
                m = min(flow[u], net[u][w])
                if not visited[w] and m > flow[w]:
                    flow[w], prev[w] = m, u
        return (flow if visited[-1] else [0]), prev

    def load(self, table: int, node: int) -> Counter[int]:
        return Counter(self.disk(row, node) for row in self.primaries(table, node))

    def move(self, table: int, prev: list[int], amount: int) -> None:
        current = prev[-1]
        load_cur = self.load(table, current)
        while prev[current] != 0:
            source, destination = prev[current], current
            load_prev = self.load(table, source)
            candidates = [
                row for row in self.primaries(table, source) if destination in self.serves(row)[1:]
            ]
            for _ in range(amount):
                best, limit = -1, -(10**9)
                for row in candidates:
                    gap = load_prev[self.disk(row, source)] - load_cur[self.disk(row, destination)]
                    if gap > limit:
                        best, limit = row, gap
                self.result[best] = ("move_primary", source, destination)
                load_prev[self.disk(best, source)] -= 1
                load_cur[self.disk(best, destination)] += 1
                candidates.remove(best)
            current, load_cur = source, load_prev

    def copy(self, table: int, kind: str, *, have_less: bool) -> None:  # noqa: C901 - as it is written down
        is_primary = kind == "copy_primary"
        low = len(self.rows(table)) // self.n
        mine: dict[int, list[int]] = {
            v: [
                row
                for row in self.rows(table)
                if (self.primary(row) == v if is_primary else v in self.serves(row))
            ]
            for v in range(1, self.n + 1)
        }
        count = {v: len(rows) for v, rows in mine.items()}
        load = {v: Counter(self.disk(row, v) for row in rows) for v, rows in mine.items()}
        queue = list(count)
        while len(queue) > 1:
            queue.sort(key=lambda v: (count[v], v))
            least, limit = queue[0], queue[-1]
            if is_primary:
                done = count[least] >= low if have_less else count[limit] - count[least] <= 1
            else:
                done = count[limit] <= low or count[limit] - count[least] <= 1
            if done:
                return
            chosen = None
            for row in mine[limit]:
                if row in self.result:
                    continue
                if not is_primary and (self.primary(row) == limit or least in self.serves(row)):
                    continue
                if chosen is None or load[limit][self.disk(row, limit)] > load[limit][chosen[1]]:
                    chosen = (row, self.disk(row, limit))
            if chosen is None:
                queue.remove(limit)
                continue
            self.result[chosen[0]] = (kind, limit, least)
            count[limit] -= 1
            count[least] += 1

    # -- cluster policy -----------------------------------------------------------------------

    def cluster_policy(self, *, intended_skew: bool = False) -> Plans:
        for table in range(self.view.table_count):
            self.primary_balance(table, only_move=True)
            if self.result:
                return self.result
        if self.n >= 3:
            for kind in ("copy_secondary", "copy_primary"):
                self.cluster_copy(kind, intended_skew=intended_skew)
                if self.result:
                    break
        return self.result

    def cluster_copy(self, kind: str, *, intended_skew: bool) -> None:  # noqa: C901, PLR0912 - as it is written down
        tables = range(self.view.table_count)
        state: dict[int, dict[int, str]] = {
            row: {
                node: ("copy_primary" if role == 0 else "copy_secondary")
                for role, (node, _) in enumerate(self.roles[row])
            }
            for table in tables
            for row in self.rows(table)
        }
        numbers = range(1, self.n + 1)
        cnt = {
            t: {v: sum(state[row].get(v) == kind for row in self.rows(t)) for v in numbers}
            for t in tables
        }
        tot = {v: sum(cnt[t][v] for t in tables) for v in numbers}
        disks: dict[tuple[int, int], set[int]] = {}
        for row, held in enumerate(self.roles):
            for node, disk in held:
                disks.setdefault((node, disk), set()).add(row)
        skew = {t: (spread(cnt[t]) if intended_skew else 1) for t in tables}
        by_host = sorted(numbers, key=lambda v: parse_node(self.view.nodes[v - 1]))
        while True:
            widest, server = max(skew.values()), spread(tot)
            if widest == 0 or (widest <= 1 and server <= 1):
                return
            found: Any = None
            for t in (t for t in tables if skew[t] == widest):
                a_min, a_max, c_min, c_max = *ends(cnt[t]), *ends(tot)
                i_min, i_max = a_min & c_min, a_max & c_max
                if spread(cnt[t]) <= 1 and not (i_min and i_max):
                    continue
                lists = [
                    (v, d, rows)
                    for v in by_host
                    if v in (i_max or a_max)
                    for d in range(len(self.view.disks))
                    if (
                        rows := [
                            row
                            for row in sorted(disks.get((v, d), ()))
                            if row in self.rows(t) and state[row].get(v) == kind
                        ]
                    )
                ]
                if not lists:
                    continue
                longest = max(len(rows) for _, _, rows in lists)
                v, d, rows = next(one for one in lists if len(one[2]) == longest)
                for target in (x for x in by_host if x in (i_min or a_min)):
                    for row in rows:
                        if row not in self.result and target not in state[row]:
                            found = found or (t, row, v, d, target)
                if found:
                    break
            if not found:
                return
            t, row, v, d, target = found
            self.result[row] = (kind, v, target)
            del state[row][v]
            state[row][target] = kind
            disks[v, d].discard(row)
            for counts in (cnt[t], tot):
                counts[v] -= 1
                counts[target] += 1
            skew[t] = spread(cnt[t])
            if len(self.result) >= self.count:
                return


def spread(counts: dict[int, int]) -> int:
    return max(counts.values()) - min(counts.values())


def ends(counts: dict[int, int]) -> tuple[set[int], set[int]]:
    least, limit = min(counts.values()), max(counts.values())
    return (
        {v for v, one in counts.items() if one == least},
        {v for v, one in counts.items() if one == limit},
    )
