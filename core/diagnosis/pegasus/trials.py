"""Changes, tried on one snapshot: each is simulated with the meta server's own balancer.

How even an outcome is: the number of replicas, and of primaries, on every living node. The
deviation is the max deviation of a node as a share of the mean, of the two countings the worse
one. Where one table is judged, only its replicas and primaries count; where one node is judged,
only that node's deviation.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from core.diagnosis.model import Effect, Outcome
from core.diagnosis.pegasus.repair import Repair, repaired, unhealthy_rows, with_nodes
from core.pegasus.balance.model import BalanceOptions, BalancePlan, PlanKind
from core.pegasus.balance.rounds import apply_plans, balance_round, pick_by_seed, pick_first
from core.pegasus.levels import FunctionLevel
from core.pegasus.view import NO_NODE, ClusterView, Flags, Ints

MAX_ROUNDS: Final = 2_000
"""Rounds after which a simulation counts as one that does not converge."""

DRAWS: Final = (1, 2)
"""Seeds of the draws among equal disks with which the cluster policy is tried besides the first
disk: it converges only if it does so with every one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Change of a trial; ``None`` and empty fields keep the current value.

    Attributes:
        level: The effective level.
        repair: What the guardian may do; ``None`` if unhealthy partitions stay as they are.
        is_ready: No table is being created or dropped, and every disk is known.
        options: Switches of the balancer, by name of :class:`BalanceOptions`.
        has_space: Every node takes replicas.
        tables: Ids of tables that are balanced though they are loading in bulk.
        splits: How often every partition is split in two.
        has_even_disks: Every table is spread evenly over the disks of each node.
        joined: Names of nodes that are alive and empty.
    """

    level: FunctionLevel | None = None
    repair: Repair | None = None
    is_ready: bool = False
    options: tuple[tuple[str, object], ...] = ()
    has_space: bool = False
    tables: tuple[int, ...] = ()
    splits: int = 0
    has_even_disks: bool = False
    joined: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[object, ...]:
        """Its identity."""
        repair = None if self.repair is None else self.repair.key
        return (
            self.level,
            repair,
            self.is_ready,
            tuple(sorted((name, str(value)) for name, value in self.options)),
            self.has_space,
            self.tables,
            self.splits,
            self.has_even_disks,
            self.joined,
        )

    def with_options(self, **options: object) -> Change:
        """Return the change with other switches as well."""
        return replace(self, options=tuple({**dict(self.options), **options}.items()))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Result of a change.

    Attributes:
        start: The state from which the balancer begins.
        end: The last state.
        moves: Changes of a replica or a role.
        returned: Of these, back to a node that had it before.
        converges: Nothing is left to do.
        rounds: Rounds with plans.
        missing: Partitions without exactly their replicas.
        moved_in: Shape ``(n_partitions,)``: the first round that moves each partition; 0: none.
    """

    start: ClusterView
    end: ClusterView
    moves: int
    returned: int
    converges: bool
    rounds: int
    missing: int
    moved_in: Ints


Measure = Callable[[ClusterView], float | None]
"""The deviation of a state; ``None`` if there is nothing to measure."""


@dataclass(frozen=True)
class BalancerInput:
    """Input of the balancer in the current cluster.

    Attributes:
        view: Its state, living nodes only.
        options: The switches of the balancer.
        level: The effective level.
        is_ready: No table is being created or dropped, and the meta server knows every disk.
        closed: Names of nodes that take no new replica: their disks are full.
    """

    view: ClusterView
    options: BalanceOptions
    level: FunctionLevel
    is_ready: bool = True
    closed: frozenset[str] = frozenset()


_DRAWN_VISITS: Final = 3
"""So often may draws lead back to one state."""


class TimeUpError(Exception):
    """The time for trials is over."""


@dataclass(eq=False)
class Trials:
    """Trials on one snapshot, each change tried once.

    Attributes:
        balancer_input: The cluster as it is.
        budget_s: Seconds after which no further change is tried.
        patient: Keys of changes that are tried to their end all the same.
        untried: Changes for which there was no time.
    """

    balancer_input: BalancerInput
    budget_s: float
    patient: set[tuple[object, ...]] = field(default_factory=lambda: {Change().key})
    untried: int = 0
    _trials: dict[tuple[object, ...], Trial] = field(default_factory=dict)
    _started: float = field(default_factory=time.perf_counter)

    @property
    def count(self) -> int:
        """Number of simulated changes, without the unchanged cluster."""
        return sum(key != Change().key for key in self._trials)

    def trial(self, change: Change) -> Trial:
        """Return the result of a change.

        Raises:
            TimeUpError: There was no time for it; the cluster as it is always has the time.
        """
        if change.key not in self._trials:
            is_free = change.key in self.patient
            if not is_free and self._is_over():
                self.untried += 1
                raise TimeUpError
            try:
                self._trials[change.key] = self._tried(change, is_patient=is_free)
            except TimeUpError:
                self.untried += 1
                raise
        return self._trials[change.key]

    def effect(self, before: Change, after: Change, measure: Measure) -> Effect:
        """Return the difference between two changes.

        Raises:
            TimeUpError: There was no time for one of them.
        """
        first, then = self.trial(before), self.trial(after)
        return Effect(before=outcome_of(first, measure), after=outcome_of(then, measure))

    def _is_over(self) -> bool:
        return time.perf_counter() - self._started > self.budget_s

    def _tried(self, change: Change, *, is_patient: bool) -> Trial:
        balancer_input = self.balancer_input
        level = balancer_input.level if change.level is None else change.level
        view = self._changed(change, level)
        missing = len(unhealthy_rows(view))
        is_ready = balancer_input.is_ready or change.is_ready
        if missing or not is_ready or level < FunctionLevel.LIVELY:
            return Trial(
                start=view,
                end=view,
                moves=0,
                returned=0,
                converges=True,
                rounds=0,
                missing=missing,
                moved_in=np.zeros(view.partition_count, dtype=np.int32),
            )
        view = replace(view, children=frozenset())  # they have registered by then
        options = replace(balancer_input.options, **dict(change.options))  # type: ignore[arg-type]
        closed = frozenset[str]() if change.has_space else balancer_input.closed
        first = self._simulated(view, options, closed, None, is_patient=is_patient)
        if options.policy == "cluster" and first.converges:
            for seed in DRAWS:
                drawn = self._simulated(view, options, closed, seed, is_patient=is_patient)
                if not drawn.converges:
                    return drawn
        return first

    def _changed(self, change: Change, level: FunctionLevel) -> ClusterView:
        view = with_nodes(self.balancer_input.view, change.joined)
        if change.repair is not None and level >= FunctionLevel.STEADY:
            view = repaired(view, change.repair)
        if change.tables:
            loading = np.isin(view.app_ids, change.tables)
            view = replace(view, is_balanceable=view.is_balanceable | loading)
        for _ in range(change.splits):
            view = split_in_two(view)
        return with_even_disks(view) if change.has_even_disks else view

    def _simulated(
        self,
        view: ClusterView,
        options: BalanceOptions,
        closed: frozenset[str],
        seed: int | None,
        *,
        is_patient: bool,
    ) -> Trial:
        pick = pick_first if seed is None else pick_by_seed(seed)
        shut = {code for code, name in enumerate(view.nodes) if name in closed}
        visits = _Visits(view)
        state, moves, rounds = view, 0, 0
        moved_in = np.zeros(view.partition_count, dtype=np.int32)
        seen = Counter([_digest(view)])
        converges = False
        while rounds < MAX_ROUNDS:
            plans = tuple(balance_round(state, options, pick))
            if not plans:
                converges = True
                break
            if not is_patient and self._is_over():
                raise TimeUpError
            after = apply_plans(state, tuple(one for one in plans if _is_possible(one, shut)))
            rounds += 1
            is_moved = (after.members != state.members).any(axis=1)
            moves += int(is_moved.sum())
            moved_in[is_moved & (moved_in == 0)] = rounds
            visits.add(plans, state, after)
            state = after
            digest = _digest(state)
            seen[digest] += 1
            # with draws an earlier state is no proof of a circle: the next draw may be another
            if seen[digest] > (1 if seed is None else _DRAWN_VISITS):
                break
        return Trial(
            start=view,
            end=state,
            moves=moves,
            returned=visits.returned,
            converges=converges,
            rounds=rounds,
            missing=0,
            moved_in=moved_in,
        )


def _is_possible(plan: BalancePlan, shut: set[int]) -> bool:
    """A node without a disk in state normal refuses the copy; a change of roles needs no space."""
    return plan.kind is PlanKind.MOVE_PRIMARY or plan.target not in shut


def _digest(view: ClusterView) -> bytes:
    digest = hashlib.blake2b(view.members.tobytes(), digest_size=16)
    digest.update(view.member_disks.tobytes())
    return digest.digest()


class _Visits:
    """Nodes that had the primary, and nodes that had a replica, per partition."""

    def __init__(self, view: ClusterView) -> None:
        shape = view.partition_count, len(view.nodes)
        self._led = np.zeros(shape, dtype=np.bool_)
        self._held = np.zeros(shape, dtype=np.bool_)
        self.returned = 0
        self._mark(view, np.arange(view.partition_count))

    def add(self, plans: tuple[BalancePlan, ...], before: ClusterView, after: ClusterView) -> None:
        """Count the moves back of a round."""
        rows = np.array([plan.row for plan in plans], dtype=np.int64)
        targets = np.array([plan.target for plan in plans], dtype=np.int64)
        leads = np.array([plan.kind is not PlanKind.COPY_SECONDARY for plan in plans])
        was_there = np.where(leads, self._led[rows, targets], self._held[rows, targets])
        is_done = (before.members[rows] != after.members[rows]).any(axis=1)
        self.returned += int((was_there & is_done).sum())
        self._mark(after, rows)

    def _mark(
        self, view: ClusterView, rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    ) -> None:
        for role in range(view.members.shape[1]):
            nodes = view.members[rows, role]
            known = nodes != NO_NODE
            self._held[rows[known], nodes[known]] = True
            if role == 0:
                self._led[rows[known], nodes[known]] = True


def split_in_two(view: ClusterView) -> ClusterView:
    """Return the state after a partition split of every table: each child where its parent is."""
    members, disks, first = [], [], [0]
    for table in range(view.table_count):
        rows = view.rows_of(table)
        for _ in range(2):  # children follow all parents: index + partition count
            members.append(view.members[rows.start : rows.stop])
            disks.append(view.member_disks[rows.start : rows.stop])
        first.append(first[-1] + 2 * len(rows))
    if not members:
        return view
    return replace(
        view,
        first_rows=np.array(first, dtype=np.int32),
        members=np.concatenate(members),
        member_disks=np.concatenate(disks),
    )


def with_even_disks(view: ClusterView) -> ClusterView:
    """Return the state with every node's replicas of a table on its disks in turn."""
    rows, roles = np.nonzero(view.members != NO_NODE)
    nodes = view.members[rows, roles]
    group = view.table_of_row[rows].astype(np.int64) * len(view.nodes) + nodes
    order = np.argsort(group, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - np.searchsorted(group[order], group[order])
    width = max((len(one) for one in view.node_disks), default=0)
    known = np.array([len(one) for one in view.node_disks], dtype=np.int64)
    listed = np.array(
        [[*one, *([NO_NODE] * (width - len(one)))] for one in view.node_disks], dtype=np.int32
    )
    disks = view.member_disks.copy()
    has_disks = known[nodes] > 0
    rows, roles, nodes, place = (
        rows[has_disks],
        roles[has_disks],
        nodes[has_disks],
        place[has_disks],
    )
    if rows.size:
        disks[rows, roles] = listed[nodes, place % known[nodes]]
    return view.with_members(view.members, disks)


def outcome_of(trial: Trial, measure: Measure) -> Outcome:
    """Return a trial evaluated by a measure."""
    return Outcome(
        moves=trial.moves,
        returned=trial.returned,
        deviation=measure(trial.end),
        converges=trial.converges,
        rounds=trial.rounds,
        missing=trial.missing,
    )


# -- measures -----------------------------------------------------------------------------------


def deviation_without(set_aside: Collection[str]) -> Measure:
    """Return the measure over all tables: of the node of max deviation, replicas or primaries.

    Args:
        set_aside: Nodes that are empty on purpose: they are not compared.
    """

    def measure(view: ClusterView) -> float | None:
        counts = view.replica_counts.sum(axis=0), view.primary_counts.sum(axis=0)
        compared = compared_nodes(view, set_aside)
        return _worst(*(one[compared] for one in counts))

    return measure


def compared_nodes(view: ClusterView, set_aside: Collection[str]) -> Flags:
    """Return the compared nodes, shape ``(n_nodes,)``; all if none would be."""
    found = np.array([name not in set_aside for name in view.nodes], np.bool_)
    return found if found.any() else ~found


def deviation_of_node(name: str) -> Measure:
    """Return the measure of one node: its own distance from the mean."""

    def measure(view: ClusterView) -> float | None:
        if name not in view.nodes:
            return 1.0  # it holds nothing
        at = view.nodes.index(name)
        counts = view.replica_counts.sum(axis=0), view.primary_counts.sum(axis=0)
        shares = [abs(one[at] - one.mean()) / one.mean() for one in counts if one.sum()]
        return float(max(shares)) if shares else None

    return measure


def deviation_of_table(app_id: int) -> Measure:
    """Return the max deviation of one table, of its replicas or primaries."""

    def measure(view: ClusterView) -> float | None:
        at = np.flatnonzero(view.app_ids == app_id)
        if not at.size:
            return None
        return _worst(view.replica_counts[at[0]], view.primary_counts[at[0]])

    return measure


def _worst(*counts: np.ndarray[tuple[int, ...], np.dtype[np.int32]]) -> float | None:
    shares = [float(np.abs(one - one.mean()).max() / one.mean()) for one in counts if one.sum()]
    return max(shares, default=None)
