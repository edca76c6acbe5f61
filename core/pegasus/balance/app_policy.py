"""The app policy: table by table, primaries first, then replicas.

Source: Pegasus ``app_balance_policy`` and ``load_balance_policy`` (``balance_cluster`` false).
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from core.pegasus.balance.copy_ops import copy_primary, copy_secondary, tables_to_copy
from core.pegasus.balance.max_flow import FlowPath, Imbalance, find_flows
from core.pegasus.balance.model import BalanceOptions, BalancePlan, PlanKind
from core.pegasus.view import ClusterView


def balance_apps(view: ClusterView, options: BalanceOptions) -> list[BalancePlan]:
    """Return the plans of one round, in gpid order.

    A round moves or copies primaries of a table, never both; secondaries are considered only when
    no table needed anything for its primaries. A check looks at both, on the unchanged state.

    Args:
        view: The state. Unknown disks of a node count as one disk: which partitions move is then a
            guess (see :func:`core.pegasus.balance.preconditions.uncertain_tables`).
        options: The switches.

    Cost:
        One batched search over all uneven tables, then Python in proportion to the plans.
    """
    if not view.nodes:
        return []
    imbalance = Imbalance.of(view)
    is_one_by_one = options.balancer_in_turn and not options.is_check
    considered = view.is_balanceable & ~np.isin(view.app_ids, list(options.ignored_app_ids))
    uneven = np.nonzero(imbalance.is_uneven & considered)[0]
    step = 1 if is_one_by_one else max(len(uneven), 1)
    plans: list[BalancePlan] = []
    planned: set[int] = set()
    for start in range(0, len(uneven), step):
        batch = uneven[start : start + step]
        plans += balance_primaries(
            view, imbalance, batch, planned, only_move_primary=options.only_move_primary
        )
        if plans and is_one_by_one:
            break
    if options.only_primary_balancer or (plans and not options.is_check):
        return sorted(plans, key=lambda plan: plan.row)
    for table in tables_to_copy(view, imbalance):
        if considered[table]:
            plans += copy_secondary(view, imbalance, table, planned)
            if plans and is_one_by_one:
                break
    return sorted(plans, key=lambda plan: plan.row)


def balance_primaries(
    view: ClusterView,
    imbalance: Imbalance,
    tables: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    planned: set[int],
    *,
    only_move_primary: bool,
) -> list[BalancePlan]:
    """Return one round of primary moves for tables: one path each, or copies.

    Args:
        view: The state.
        imbalance: Its measures.
        tables: Places of the uneven tables.
        planned: Rows that have a plan; the new ones are added.
        only_move_primary: No copies.
    """
    plans: list[BalancePlan] = []
    for table, path in zip(tables.tolist(), find_flows(view, imbalance, tables), strict=True):
        if path is not None:
            moved = move_along(view, table, path)
            planned.update(plan.row for plan in moved)
            plans += moved
        elif not only_move_primary:
            plans += copy_primary(view, imbalance, table, planned)
    return plans


def move_along(view: ClusterView, table: int, path: FlowPath) -> list[BalancePlan]:
    """Return the moves of one path, hop by hop from its end.

    What a node sends away lowers its disk load before it is a destination; what it receives
    does not raise it, since each node's load is counted again when it is a source: as upstream.
    """
    rows = view.rows_of(table)
    on_path = np.isin(view.members[rows.start : rows.stop, 0], path.nodes)
    chosen = rows.start + np.flatnonzero(on_path)
    members = view.members[chosen].tolist()
    disks = view.member_disks[chosen].tolist()
    hops = list(zip(path.nodes[:-1], path.nodes[1:], strict=True))
    held: dict[int, list[int]] = {node: [] for node in path.nodes}
    for at, nodes in enumerate(members):
        held[nodes[0]].append(at)
    destination_load = _load(held[path.nodes[-1]], disks)
    plans = []
    for source, destination in reversed(hops):
        source_load = _load(held[source], disks)
        candidates = [
            (at, disks[at][0], disks[at][members[at].index(destination)])
            for at in held[source]
            if destination in members[at]
        ]
        picked = _pick(candidates, path.amount, source_load, destination_load)
        counts = len(held[source]), len(held[destination])
        plans += [
            BalancePlan(int(chosen[at]), PlanKind.MOVE_PRIMARY, source, destination, *counts)
            for at in picked
        ]
        destination_load = source_load
    return plans


def _load(held: list[int], disks: list[list[int]]) -> dict[int, int]:
    """Return primaries per disk, 0 for requested disks without any."""
    load: dict[int, int] = defaultdict(int)
    for at in held:
        load[disks[at][0]] += 1
    return load


def _pick(
    candidates: list[tuple[int, int, int]],
    amount: int,
    source_load: dict[int, int],
    destination_load: dict[int, int],
) -> list[int]:
    """Return the partitions to move: off the fullest disks, onto the emptiest ones."""
    picked = []
    for _ in range(amount):
        best = candidates[0]
        if len(candidates) > 1:
            best = max(candidates, key=lambda one: source_load[one[1]] - destination_load[one[2]])
        candidates.remove(best)
        at, given_from, taken_on = best
        source_load[given_from] -= 1
        destination_load[taken_on] += 1
        picked.append(at)
    return picked
