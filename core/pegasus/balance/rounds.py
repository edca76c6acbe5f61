"""Rounds of the balancer one after the other, each on what the one before left."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.pegasus.balance.app_policy import balance_apps
from core.pegasus.balance.cluster_policy import balance_cluster
from core.pegasus.balance.model import BalanceOptions, BalancePlan, Pick, PlanKind
from core.pegasus.view import NO_NODE, ClusterView

MAX_ROUNDS: Final = 100_000
"""When to give up waiting for a balance that the real balancer would not reach either."""


@dataclass(frozen=True)
class BalanceRound:
    """One round.

    Attributes:
        before: The state it was decided on.
        plans: In gpid order; empty: nothing to do.
        after: The state when every plan was executed.
    """

    before: ClusterView
    plans: tuple[BalancePlan, ...]
    after: ClusterView


def pick_first(_count: int) -> int:
    """Choose the first of equal disks, where upstream draws one at random."""
    return 0


def pick_by_seed(seed: int) -> Pick:
    """Return a choice among equal disks that follows from a seed alone."""
    generator = np.random.default_rng(seed)

    def draw(count: int) -> int:
        return int(generator.integers(count))

    return draw


def balance_round(
    view: ClusterView, options: BalanceOptions, pick: Pick = pick_first
) -> list[BalancePlan]:
    """Return the plans of one round of the policy that the options name, in gpid order.

    While a partition split is in progress there are none for any table: an unregistered child is
    not healthy (``server_state::check_all_partitions``).
    """
    if view.children:
        return []
    if options.policy == "cluster":
        return balance_cluster(view, options, pick)
    return balance_apps(view, options)


def balance_rounds(
    view: ClusterView, options: BalanceOptions, pick: Pick = pick_first
) -> Iterator[BalanceRound]:
    """Give round after round, without end: from the balance on they are empty.

    Upstream starts the next round only when every plan of the one before is executed and every
    partition is healthy again; so is it here. A check changes nothing: every round is the same.
    """
    while True:
        plans = tuple(balance_round(view, options, pick))
        after = view if options.is_check else apply_plans(view, plans)
        yield BalanceRound(view, plans, after)
        view = after


def rounds_until_converged(
    view: ClusterView, options: BalanceOptions, pick: Pick = pick_first
) -> Iterator[BalanceRound]:
    """Give rounds up to, and with, the first empty one; a check is one round.

    The cluster policy may go in circles (PB-6); so a round that leads back to a state that was
    there before is the last one, too.
    """
    return until_converged(balance_rounds(view, options, pick), view, options)


def until_converged(
    rounds: Iterator[BalanceRound], view: ClusterView, options: BalanceOptions
) -> Iterator[BalanceRound]:
    """Give of endless rounds those of :func:`rounds_until_converged`, wherever they are decided.

    Args:
        rounds: From the start on.
        view: The start.
        options: By which they are decided.
    """
    seen = {_digest(view)}
    for count, done in enumerate(rounds, 1):
        yield done
        if not done.plans or options.is_check or count >= MAX_ROUNDS:
            return
        state = _digest(done.after)
        if state in seen:
            return
        seen.add(state)


def _digest(view: ClusterView) -> bytes:
    digest = hashlib.blake2b(view.members.tobytes(), digest_size=16)
    digest.update(view.member_disks.tobytes())
    return digest.digest()


@dataclass(frozen=True)
class BalanceRun:
    """Rounds to their end.

    Attributes:
        rounds: Those with plans.
        is_converged: Nothing is left to do; ``False``: it goes in circles, or was given up.
        after: The state at the end.
    """

    rounds: tuple[BalanceRound, ...]
    is_converged: bool
    after: ClusterView


def balance_until_done(
    view: ClusterView, options: BalanceOptions, pick: Pick = pick_first
) -> BalanceRun:
    """Return the balancer's rounds until convergence, if it converges."""
    done = list(rounds_until_converged(view, options, pick))
    rounds = tuple(one for one in done if one.plans)
    return BalanceRun(rounds, not done[-1].plans, done[-1].after)


def apply_plans(view: ClusterView, plans: tuple[BalancePlan, ...]) -> ClusterView:
    """Return the state after plans were executed, one by one in their order.

    A node chooses the disk of a new replica by itself: among its disks in configured order the one
    with fewest replicas of the table, of equal ones that with fewest of all. A copy onto a node
    that already serves the partition is what the guardian discards: nothing changes.

    Source:
        Pegasus ``replica_config`` (roles) and ``fs_manager`` ``find_best_dir_for_new_replica``.
    """
    if not plans:
        return view
    members, disks = view.members.copy(), view.member_disks.copy()
    room = (
        _DiskCounts(view) if any(one.kind is not PlanKind.MOVE_PRIMARY for one in plans) else None
    )
    for plan in plans:
        nodes, tags = members[plan.row].tolist(), disks[plan.row].tolist()
        roles = [(node, tag) for node, tag in zip(nodes, tags, strict=True) if node != NO_NODE]
        if plan.kind is PlanKind.MOVE_PRIMARY:
            changed = _swap(roles, plan)
        elif plan.target in nodes or room is None:
            continue
        else:
            disk = room.move(view.table_of_row[plan.row], plan, tags[nodes.index(plan.source)])
            changed = _replace(roles, plan, disk)
        members[plan.row] = NO_NODE
        disks[plan.row] = NO_NODE
        for role, (node, tag) in enumerate(changed):
            members[plan.row, role] = node
            disks[plan.row, role] = tag
    return view.with_members(members, disks)


def _swap(roles: list[tuple[int, int]], plan: BalancePlan) -> list[tuple[int, int]]:
    """The old primary becomes the last secondary; the new one leaves the secondaries."""
    new = next(one for one in roles if one[0] == plan.target)
    return [new, *(one for one in roles[1:] if one != new), roles[0]]


def _replace(roles: list[tuple[int, int]], plan: BalancePlan, disk: int) -> list[tuple[int, int]]:
    new = (plan.target, disk)
    rest = [one for one in roles if one[0] != plan.source]
    return [new, *rest] if plan.kind is PlanKind.COPY_PRIMARY else [*rest, new]


class _DiskCounts:
    """Replicas per disk while copies are executed, to know where the next one goes."""

    def __init__(self, view: ClusterView) -> None:
        self._node_disks = view.node_disks
        self._disks = max(len(view.disks), 1)
        self._nodes = len(view.nodes)
        rows, roles = np.nonzero(view.members != NO_NODE)
        places = view.members[rows, roles].astype(np.int64) * self._disks
        places += np.maximum(view.member_disks[rows, roles], 0)
        size = self._nodes * self._disks
        at = view.table_of_row[rows] * size + places
        self._of_table = np.bincount(at, minlength=view.table_count * size)
        self._of_all = np.bincount(places, minlength=size)

    def move(self, table: int, plan: BalancePlan, source_disk: int) -> int:
        """Book one copy and return the disk on which the target puts it."""
        if not self._node_disks[plan.target]:
            return NO_NODE  # it reported no disks
        size = self._nodes * self._disks
        base, start = int(table) * size, plan.target * self._disks
        disk = min(
            self._node_disks[plan.target],
            key=lambda one: (self._of_table[base + start + one], self._of_all[start + one]),
        )
        given = plan.source * self._disks + max(source_disk, 0)
        for place, step in ((start + disk, 1), (given, -1)):
            self._of_table[base + place] += step
            self._of_all[place] += step
        return disk
