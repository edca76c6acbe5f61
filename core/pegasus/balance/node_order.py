"""The balancer's own order of nodes, learned from the rounds that it made.

The meta server numbers the nodes in the iteration order of a hash map, and that number decides
between equally good nodes. Nothing reports it. But every round that was seen rules orders out: who
was drained first among equally full nodes is before or behind the others. So a set of *partial
orders* is stored, each a set of pairs "a is before b", and every round adds pairs to them:

- A chain of role changes names the predecessor of every node of the path. The search visits nodes
  by width, then by number, so the one on the path was the first of the possible ones to be visited.
- A copy takes the smallest number among the emptiest nodes and the largest among the fullest ones.
  Which copies were made is known, in which sequence is not: all sequences that fit are followed.

Where a round allows too many sequences it adds nothing: fewer pairs are never wrong. While few
orders are left, the policy itself replays them, which also separates what pairs cannot.

Source: Pegasus ``load_balance_policy``, ``app_balance_policy``, ``copy_replica_operation``; the map
is ``server_state::_nodes``, an ``std::unordered_map``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.pegasus.balance.app_policy import move_along
from core.pegasus.balance.copy_ops import CopyTask
from core.pegasus.balance.max_flow import UNLIMITED, FlowPath, Imbalance, capacities, find_flows
from core.pegasus.balance.model import BalanceOptions, PlanKind
from core.pegasus.balance.rounds import apply_plans, balance_round
from core.pegasus.ids import parse_node
from core.pegasus.view import NO_NODE, ClusterView
from core.units import pluralize

REPLAYED: Final = 120
"""Orders that are replayed at most: all of five nodes."""
LISTED: Final = 24
"""Orders that a snapshot keeps at most."""
MAX_ROUNDS_BETWEEN: Final = 12
"""Rounds between two snapshots that are looked for at most."""
_MAX_PARTIAL: Final = 32
_MAX_SEQUENCES: Final = 512
_REHASHED_ABOVE: Final = (13, 29, 59, 127, 257, 541, 1109)
"""Sizes above which libstdc++'s map moves to more buckets, which may reorder it: its prime list."""

_Before = NDArray[np.bool_]
"""Shape ``(n_nodes, n_nodes)``: ``[a, b]`` is true if a is before b; transitively closed."""
_Change = tuple[PlanKind, int, int]
"""Kind, source, target; by places in the order of names."""


@dataclass(frozen=True)
class NodeOrder:
    """Knowledge about a leader's node order.

    Attributes:
        nodes: Names in their own order.
        partial: The partial orders that fit every round seen; the true order fits one of them.
        rounds: Rounds that it was learned from.
        unexplained: Changes between two states that no order explains.
    """

    nodes: tuple[str, ...]
    partial: tuple[_Before, ...] = field(repr=False)
    rounds: int = 0
    unexplained: int = 0

    @classmethod
    def unknown(cls, nodes: Iterable[str]) -> NodeOrder:
        """Return the state in which any order is possible."""
        names = tuple(sorted(nodes, key=parse_node))
        return cls(names, (np.zeros((len(names), len(names)), dtype=np.bool_),))

    @classmethod
    def of_orders(
        cls, orders: Sequence[tuple[str, ...]], *, is_complete: bool, rounds: int, unexplained: int
    ) -> NodeOrder:
        """Return the knowledge from a list of orders of :meth:`orders` or :meth:`sample`.

        Args:
            orders: At least one.
            is_complete: They are all that fit; else only what they have in common is known.
            rounds: Rounds that they were learned from.
            unexplained: Changes that no order explained.
        """
        base = replace(cls.unknown(orders[0]), rounds=rounds, unexplained=unexplained)
        found = _of_orders(base, orders)
        if is_complete:
            return found
        return replace(base, partial=(np.logical_and.reduce(found.partial),))

    def sample(self, limit: int) -> list[tuple[str, ...]]:
        """Return some of very many orders: the first by names, then others, always the same."""
        rng = np.random.default_rng(len(self.nodes))
        found = dict.fromkeys(self.orders(1))
        for number in range(4 * limit):
            if len(found) >= limit:
                break
            before = self.partial[number % len(self.partial)]
            order = _random_extension(before, rng)
            found.setdefault(tuple(self.nodes[place] for place in order))
        return list(found)

    def orders(self, limit: int) -> list[tuple[str, ...]]:
        """Return the orders that fit, at most ``limit``, sorted by names."""
        found: dict[tuple[int, ...], None] = {}
        iterators = [_extensions(one) for one in self.partial]
        while iterators and len(found) < limit:
            for one in list(iterators):
                order = next(one, None)
                if order is None:
                    iterators.remove(one)
                elif len(found) < limit:
                    found.setdefault(order)
        return [tuple(self.nodes[place] for place in order) for order in sorted(found)]

    def of_nodes(self, nodes: Iterable[str]) -> NodeOrder:
        """Return the knowledge that remains when nodes join or leave.

        A node that goes leaves the others where they are; so does one that comes, unless the map
        moves to more buckets.
        """
        names = tuple(sorted(nodes, key=parse_node))
        if names == self.nodes:
            return self
        grows = len(names) > len(self.nodes)
        if grows and any(len(self.nodes) <= size < len(names) for size in _REHASHED_ABOVE):
            return NodeOrder.unknown(names)
        old = [place for place, name in enumerate(self.nodes) if name in names]
        new = [names.index(self.nodes[place]) for place in old]
        moved = []
        for one in self.partial:
            wider = np.zeros((len(names), len(names)), dtype=np.bool_)
            wider[np.ix_(new, new)] = one[np.ix_(old, old)]
            moved.append(wider)
        return replace(self, nodes=names, partial=_fewest(moved))


def learned(
    order: NodeOrder, before: ClusterView, after: ClusterView, options: BalanceOptions
) -> NodeOrder | None:
    """Return the knowledge after one more change of a cluster's state.

    Args:
        order: What was known before; its nodes are those of the views.
        before: A state in which the balancer was about to act.
        after: A later state of the same partitions.
        options: The policy and its switches, active throughout.

    Returns:
        ``None`` if no order explains the change as whole rounds: a round may be under way, or
        something else changed the cluster.
    """
    before, after = before.renumbered(order.nodes), after.renumbered(order.nodes)
    changes = changes_between(before, after)
    if changes is not None and not changes:
        return order
    if not np.array_equal(before.first_rows, after.first_rows):
        return None
    if changes is not None and (found := _after_one(order, before, after, options, changes)):
        return found
    return _after_several(order, before, after, options)


def _after_one(
    order: NodeOrder,
    before: ClusterView,
    after: ClusterView,
    options: BalanceOptions,
    changes: Mapping[int, _Change],
) -> NodeOrder | None:
    """Return the knowledge if the changes are one round, or ``None`` if impossible."""
    possible = _explain(before, changes, options, order.partial)
    if not possible:
        return None
    found = replace(order, partial=_fewest(possible), rounds=order.rounds + 1)
    candidates = found.orders(REPLAYED + 1)
    if len(candidates) > REPLAYED:
        return found
    exact = [one for one in candidates if _rounds_to(before, after, options, one, most=1)]
    if len(exact) == len(candidates):
        return found
    return _of_orders(found, exact) if exact else None


def _after_several(
    order: NodeOrder, before: ClusterView, after: ClusterView, options: BalanceOptions
) -> NodeOrder | None:
    """Return the knowledge if the changes are several rounds; only few orders can be replayed."""
    candidates = order.orders(REPLAYED + 1)
    if len(candidates) > REPLAYED:
        return None
    counts = {
        one: count
        for one in candidates
        if (count := _rounds_to(before, after, options, one, most=MAX_ROUNDS_BETWEEN))
    }
    if not counts:
        return None
    found = replace(order, rounds=order.rounds + min(counts.values()))
    return found if len(counts) == len(candidates) else _of_orders(found, list(counts))


def changes_between(before: ClusterView, after: ClusterView) -> dict[int, _Change] | None:
    """Return the balancer plan that would explain each changed row.

    Returns:
        By row; ``None`` if the states are of other tables, or a row changed otherwise.
    """
    if not np.array_equal(before.first_rows, after.first_rows):
        return None
    found: dict[int, _Change] = {}
    width = max(before.members.shape[1], after.members.shape[1])
    old_rows, new_rows = (_padded(one.members, width) for one in (before, after))
    for row in np.nonzero((old_rows != new_rows).any(axis=1))[0].tolist():
        old, new = ([n for n in one[row].tolist() if n != NO_NODE] for one in (old_rows, new_rows))
        if NO_NODE in (old_rows[row, 0], new_rows[row, 0]):
            return None
        if set(old) == set(new) and old[0] == new[0]:
            continue  # only the sequence of secondaries differs
        change = _change_of(old, new)
        if change is None:
            return None
        found[row] = change
    return found


def _change_of(old: Sequence[int], new: Sequence[int]) -> _Change | None:
    """Return the plan between two member lists, primary first, or ``None``."""
    gone, come = set(old) - set(new), set(new) - set(old)
    primaries = old[0], new[0]
    if not gone and not come:
        return PlanKind.MOVE_PRIMARY, *primaries
    if len(gone) != 1 or len(come) != 1:
        return None
    (source,), (target,) = gone, come
    if old[0] == new[0]:
        return PlanKind.COPY_SECONDARY, source, target
    return (PlanKind.COPY_PRIMARY, source, target) if primaries == (source, target) else None


def _padded(members: NDArray[np.int32], width: int) -> NDArray[np.int32]:
    missing = width - members.shape[1]
    return np.pad(members, ((0, 0), (0, missing)), constant_values=NO_NODE)


# -- one round, table by table --------------------------------------------------------------------


def _explain(
    view: ClusterView,
    changes: Mapping[int, _Change],
    options: BalanceOptions,
    partial: Sequence[_Before],
) -> list[_Before]:
    """Return the partial orders under which the app policy makes exactly the changes in a round."""
    if view.has_unknown_disk or options.policy == "cluster":
        return []
    of_table: dict[int, dict[int, _Change]] = {}
    for row, change in changes.items():
        of_table.setdefault(int(view.table_of_row[row]), {})[row] = change
    imbalance = Imbalance.of(view)
    considered = view.is_balanceable & ~np.isin(view.app_ids, list(options.ignored_app_ids))
    # secondaries are copied only in a round in which no table needs anything for its primaries
    is_copying = all(change[0] is PlanKind.COPY_SECONDARY for change in changes.values())
    of_primaries = {} if is_copying else of_table
    uneven = np.nonzero(imbalance.is_uneven & considered)[0]
    possible = _explain_primaries(view, imbalance, uneven, of_primaries, options, list(partial))
    if is_copying:
        if options.only_primary_balancer:
            return []
        tables = np.nonzero(considered)[0].tolist()
        possible = _explain_secondaries(view, imbalance, tables, of_table, options, possible)
    return [] if of_table else possible


def _explain_primaries(
    view: ClusterView,
    imbalance: Imbalance,
    uneven: NDArray[np.int64],
    of_table: dict[int, dict[int, _Change]],
    options: BalanceOptions,
    possible: list[_Before],
) -> list[_Before]:
    """Explain tables by their primaries; what is explained is taken out of ``of_table``."""
    for table, path in zip(uneven.tolist(), find_flows(view, imbalance, uneven), strict=True):
        seen = of_table.pop(table, {})
        if path is not None:
            possible = _explain_path(view, imbalance, table, path.amount, seen, possible)
        elif not options.only_move_primary:
            possible = _explain_copies(
                CopyTask.of_primaries(view, imbalance, table), seen, possible
            )
        elif seen:
            return []
        if not possible or (seen and options.balancer_in_turn):
            break
    return possible


def _explain_secondaries(
    view: ClusterView,
    imbalance: Imbalance,
    tables: Sequence[int],
    of_table: dict[int, dict[int, _Change]],
    options: BalanceOptions,
    possible: list[_Before],
) -> list[_Before]:
    """Explain tables by all of their replicas; see :func:`_explain_primaries`."""
    for table in tables:
        seen = of_table.pop(table, {})
        possible = _explain_copies(CopyTask.of_secondaries(view, imbalance, table), seen, possible)
        if not possible or (seen and options.balancer_in_turn):
            break
    return possible


def _explain_path(
    view: ClusterView,
    imbalance: Imbalance,
    table: int,
    amount: int,
    seen: Mapping[int, _Change],
    partial: list[_Before],
) -> list[_Before]:
    """Return the partial orders under which the search finds the path that the moves show."""
    nodes = _chain(seen)
    if nodes is None or len(seen) != amount * (len(nodes) - 1):
        return []
    planned = move_along(view, table, FlowPath(nodes, amount))
    if {plan.row: (plan.kind, plan.source, plan.target) for plan in planned} != dict(seen):
        return []
    (net,) = capacities(view, imbalance, np.array([table], dtype=np.int32))
    width = _widths(net)
    sink = len(net) - 1
    path = [0, *(node + 1 for node in nodes), sink]
    for previous, at in itertools.pairwise(path):
        offers = np.minimum(width, net[:, at])
        fitting = [one for one in range(sink) if one != at and offers[one] == width[at] > 0]
        if previous not in fitting:
            return []
        widest = [one for one in fitting if width[one] == max(width[place] for place in fitting)]
        if previous not in widest:
            return []
        if len(widest) > 1:
            partial = _visited_first(net, width, previous, widest, partial)
    return partial


def _visited_first(
    net: NDArray[np.int32],
    width: NDArray[np.int64],
    first: int,
    candidates: Sequence[int],
    partial: list[_Before],
) -> list[_Before]:
    """Return the partial orders under which the search visits one of equally wide nodes first.

    Nodes of one width are visited by their numbers as soon as they are reached: some from wider
    nodes, others only from nodes of the same width. Only nodes that lead to a candidate matter.

    Args:
        net: Capacities of the table.
        width: Of every index.
        first: The candidate that was visited first.
        candidates: All of the same width.
        partial: What is known.
    """
    level = int(width[first])
    wide_enough: NDArray[np.bool_] = np.greater_equal(net, level)
    early = np.logical_or.reduce(wide_enough[width > level], axis=0)
    same_width = wide_enough.copy()
    same_width[width != level] = False
    matters = _leading_to(candidates, early, same_width)
    layer: dict[frozenset[int], list[_Before]] = {frozenset(): partial}
    found: list[_Before] = []
    while layer:
        following: dict[frozenset[int], list[_Before]] = {}
        for visited, possible in layer.items():
            waiting = [
                one
                for one in matters - visited
                if early[one] or wide_enough[list(visited), one].any()
            ]
            for next_one in waiting:
                if next_one in candidates and next_one != first:
                    continue
                pairs = [(next_one - 1, one - 1) for one in waiting if one != next_one]
                grown = [one for base in possible if (one := _with(base, pairs)) is not None]
                if next_one == first:
                    found += grown
                elif grown:
                    later = visited | {next_one}
                    following[later] = list(_fewest(following.get(later, []) + grown))
        if sum(map(len, following.values())) > _MAX_SEQUENCES:
            return partial
        layer = following
    return list(_fewest(found))


def _leading_to(
    candidates: Sequence[int], early: NDArray[np.bool_], reaches: NDArray[np.bool_]
) -> set[int]:
    """Return the candidates, and the nodes of their width from which they may be reached."""
    found = set(candidates)
    open_ones = [one for one in candidates if not early[one]]
    while open_ones:
        at = open_ones.pop()
        new = set(np.nonzero(reaches[:, at])[0].tolist()) - found
        found |= new
        open_ones += [one for one in new if not early[one]]
    return found


def _chain(seen: Mapping[int, _Change]) -> tuple[int, ...] | None:
    """Return the nodes of the path that role changes form, from the one that gives."""
    if any(kind is not PlanKind.MOVE_PRIMARY for kind, _, _ in seen.values()) or not seen:
        return None
    follows: dict[int, int] = {}
    for _, source, target in seen.values():
        if follows.setdefault(source, target) != target:
            return None
    heads = set(follows) - set(follows.values())
    if len(heads) != 1:
        return None
    chain = [heads.pop()]
    while chain[-1] in follows and len(chain) <= len(follows):
        chain.append(follows[chain[-1]])
    return tuple(chain) if len(chain) == len(follows) + 1 else None


def _widths(net: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the largest bottleneck from the source to every index; ties do not matter for it."""
    width = np.zeros(len(net), dtype=np.int64)
    width[0] = UNLIMITED
    is_open = np.ones(len(net), dtype=np.bool_)
    while is_open.any():
        at = int(np.where(is_open, width, -1).argmax())
        is_open[at] = False
        width = np.where(is_open, np.maximum(width, np.minimum(width[at], net[at])), width)
    return width


def _explain_copies(
    task: CopyTask, seen: Mapping[int, _Change], partial: list[_Before]
) -> list[_Before]:
    """Return the partial orders under which the loop makes exactly the copies that were seen."""
    layer: dict[_Loop, list[_Before]] = {_Loop.start(task): list(partial)}
    ended: list[_Before] = []
    while layer:
        following: dict[_Loop, list[_Before]] = {}
        for loop, possible in layer.items():
            if loop.is_done(task):
                if len(loop.planned) == len(seen):
                    ended += possible
                continue
            for pairs, later in loop.steps(task, seen):
                grown = [one for base in possible if (one := _with(base, pairs)) is not None]
                if grown:
                    following[later] = list(_fewest(following.get(later, []) + grown))
        if sum(map(len, following.values())) > _MAX_SEQUENCES:
            return partial  # too many sequences fit: the round says nothing about this table
        layer = following
    return list(_fewest(ended))


@dataclass(frozen=True)
class _Loop:
    """A moment in the loop of copies: counts of the nodes still in the queue, rows planned."""

    counts: tuple[tuple[int, int], ...]
    planned: frozenset[int] = frozenset()

    @classmethod
    def start(cls, task: CopyTask) -> _Loop:
        return cls(tuple(enumerate(task.counts)))

    def is_done(self, task: CopyTask) -> bool:
        values = [count for _, count in self.counts]
        return len(values) < 2 or task.is_done(min(values), max(values))

    def steps(
        self, task: CopyTask, seen: Mapping[int, _Change]
    ) -> Iterator[tuple[list[tuple[int, int]], _Loop]]:
        """Give every next moment that fits what was seen, with the pairs that it takes."""
        values = [count for _, count in self.counts]
        fullest = [node for node, count in self.counts if count == max(values)]
        emptiest = [node for node, count in self.counts if count == min(values)]
        for source, target in itertools.product(fullest, emptiest):
            if source == target:
                continue
            pairs = [(one, source) for one in fullest if one != source]
            pairs += [(target, one) for one in emptiest if one != target]
            row = task.row_to_copy(source, target, self.planned)
            if row is None:
                yield (
                    pairs,
                    _Loop(tuple(one for one in self.counts if one[0] != source), self.planned),
                )
            elif seen.get(row) == (task.kind, source, target):
                step = {source: -1, target: 1}
                counts = tuple((node, count + step.get(node, 0)) for node, count in self.counts)
                yield pairs, _Loop(counts, self.planned | {row})


# -- partial orders -----------------------------------------------------------------------------


def _with(before: _Before, pairs: Iterable[tuple[int, int]]) -> _Before | None:
    """Return a partial order with more pairs, closed again; ``None`` if they contradict it."""
    found = before
    for first, second in pairs:
        if found[second, first] or first == second:
            return None
        if not found[first, second]:
            if found is before:
                found = before.copy()
            ahead = found[:, first].copy()
            ahead[first] = True
            behind = found[second].copy()
            behind[second] = True
            found |= ahead[:, None] & behind[None, :]
    return found


def _fewest(partial: Sequence[_Before]) -> tuple[_Before, ...]:
    """Return the same orders by fewer partial orders: one that another implies is dropped.

    More than a bounded number of them are joined to what they have in common, which allows more.
    """
    ordered = sorted(partial, key=lambda one: int(one.sum()))
    possible: list[_Before] = []
    for one in ordered:
        if not any((other <= one).all() for other in possible):
            possible.append(one)
    if len(possible) > _MAX_PARTIAL:
        return (np.logical_and.reduce(possible),)
    return tuple(possible)


def _extensions(before: _Before) -> Iterator[tuple[int, ...]]:
    """Give the orders that fit a partial one, lexicographically."""
    count = len(before)
    order: list[int] = []
    is_used = np.zeros(count, dtype=np.bool_)

    def rest() -> Iterator[tuple[int, ...]]:
        if len(order) == count:
            yield tuple(order)
            return
        for place in range(count):
            if not is_used[place] and not (before[:, place] & ~is_used).any():
                is_used[place] = True
                order.append(place)
                yield from rest()
                order.pop()
                is_used[place] = False

    return rest()


def _random_extension(before: _Before, rng: np.random.Generator) -> list[int]:
    order: list[int] = []
    is_left = np.ones(len(before), dtype=np.bool_)
    while is_left.any():
        free = np.nonzero(is_left & ~before[is_left].any(axis=0))[0]
        order.append(int(rng.choice(free)))
        is_left[order[-1]] = False
    return order


def _of_orders(base: NodeOrder, orders: Sequence[tuple[str, ...]]) -> NodeOrder:
    """Return the knowledge if only these orders remain; exact while they are few."""
    places = {name: place for place, name in enumerate(base.nodes)}
    found = []
    for order in orders:
        before = np.zeros((len(order), len(order)), dtype=np.bool_)
        for first, second in itertools.combinations(order, 2):
            before[places[first], places[second]] = True
        found.append(before)
    common = np.logical_and.reduce(found)
    allowed = list(itertools.islice(_extensions(common), len(orders) + 1))
    return replace(base, partial=(common,) if len(allowed) == len(orders) else _fewest(found))


# -- replay -------------------------------------------------------------------------------------


def _rounds_to(
    before: ClusterView,
    after: ClusterView,
    options: BalanceOptions,
    order: Sequence[str],
    *,
    most: int,
) -> int:
    """Return after how many rounds the policy has made one state of the other; 0: never."""
    state = before.renumbered(order)
    goal = roles(after.renumbered(order))
    for count in range(1, most + 1):
        plans = tuple(balance_round(state, options))
        if not plans:
            return 0
        state = apply_plans(state, plans)
        if np.array_equal(roles(state), goal):
            return count
    return 0


def roles(view: ClusterView) -> NDArray[np.int32]:
    """Return the members of every partition: primary, then others by descending code.

    Empty columns are left out, so that equal states have equal shapes.
    """
    rest = np.sort(view.members[:, 1:], axis=1)[:, ::-1]
    found = np.concatenate([view.members[:, :1], rest], axis=1)
    return found[:, (found != NO_NODE).any(axis=0)]


# -- prediction -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LikelyPlan:
    """A change that the next round makes under some of the orders that fit.

    Attributes:
        gpid: ``app.index``.
        kind: What happens.
        source: Node that gives.
        target: Node that takes.
        share: Of the orders that fit, 0 to 1.
    """

    gpid: str
    kind: PlanKind
    source: str
    target: str
    share: float


def likely_plans(
    view: ClusterView, options: BalanceOptions, orders: Sequence[Sequence[str]]
) -> list[LikelyPlan]:
    """Return every change of the next round under the orders, those sure first, then by gpid."""
    counts: dict[tuple[tuple[int, int], PlanKind, str, str], int] = {}
    for order in orders:
        state = view.renumbered(order)
        for plan in balance_round(state, options):
            key = (
                state.gpid(plan.row),
                plan.kind,
                state.nodes[plan.source],
                state.nodes[plan.target],
            )
            counts[key] = counts.get(key, 0) + 1
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return [
        LikelyPlan(f"{gpid[0]}.{gpid[1]}", kind, source, target, count / len(orders))
        for (gpid, kind, source, target), count in ordered
    ]


def ties_sentence(plans: Sequence[LikelyPlan]) -> str:
    """Return the number of changes of the next round that depend on the node order."""
    sure = sum(plan.share == 1 for plan in plans)
    if sure == len(plans):
        return f"Next round: {pluralize(sure, 'change')}, 0 depend on ties."
    tied = pluralize(len(plans) - sure, "possible change")
    return f"Next round: {pluralize(sure, 'certain change')}, {tied} that depend on ties."
