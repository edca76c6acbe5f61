"""When the meta server balances at all; the policies themselves do not check."""

from __future__ import annotations

import numpy as np

from core.pegasus.balance.model import Policy
from core.pegasus.health import Membership, guardian_healthy
from core.pegasus.ids import parse_node
from core.pegasus.view import ClusterView, Flags
from core.units import pluralize

_FEWEST_NODES = 3
_MAX_NAMED = 4


def obstacles(view: ClusterView, *, min_live_node_count: int = _FEWEST_NODES) -> list[str]:
    """Return the reasons the meta server would not balance, one sentence each.

    Args:
        view: The state.
        min_live_node_count: ``min_live_node_count_for_unfreeze``.

    Source:
        Pegasus ``server_state::check_all_partitions``, ``greedy_load_balancer``.
    """
    found = []
    pending = np.zeros(view.partition_count, dtype=np.bool_)
    unhealthy = int((~guardian_healthy(Membership.of(view), pending)).sum())
    if unhealthy:
        found.append(
            f"{pluralize(unhealthy, 'partition')} without the configured number of "
            "replicas: the meta server repairs them before it balances."
        )
    if view.children:
        found.append(
            f"{', '.join(view.splitting_tables[:_MAX_NAMED])}: a partition split is in "
            f"progress, {pluralize(len(view.children), 'child partition')} not "
            "registered: the meta server balances no table until it is done."
        )
    if len(view.nodes) < min_live_node_count:
        found.append(
            f"{pluralize(len(view.nodes), 'node')}, fewer than {min_live_node_count}: the "
            "effective level is freezed, and nothing is balanced."
        )
    return found


def uncertain_tables(view: ClusterView, policy: Policy) -> Flags:
    """Return the tables of which a plan may pick other partitions than the meta server.

    Disks decide which of several partitions moves, never how many primaries move between which
    nodes. The cluster policy chooses over all tables at once: one unknown disk is in doubt for all.

    Args:
        view: The state.
        policy: The one that plans.

    Returns:
        Shape ``(n_tables,)``.
    """
    found = np.zeros(view.table_count, dtype=np.bool_)
    found[view.table_of_row[view.is_disk_unknown.any(axis=1)]] = True
    return np.full_like(found, found.any()) if policy == "cluster" else found


def disk_doubts(view: ClusterView, policy: Policy) -> list[str]:
    """Return the sentence about uncertainty from unknown disks, or ""."""
    if not view.has_unknown_disk:
        return []
    where = view.members[view.is_disk_unknown]
    nodes = sorted({view.nodes[node] for node in where.tolist()}, key=parse_node)
    tables = np.nonzero(uncertain_tables(view, policy))[0]
    names = ", ".join(view.app_names[table] for table in tables[:_MAX_NAMED])
    more = f" and {len(tables) - _MAX_NAMED} more" if len(tables) > _MAX_NAMED else ""
    on = ", ".join(nodes[:_MAX_NAMED]) + (" and others" if nodes[_MAX_NAMED:] else "")
    rest = "" if len(tables) == view.table_count else " Plans for other tables are exact."
    count = pluralize(len(where), "replica")
    sentence = (
        f"Disk unknown for {count} on {on}: the meta server may select other "
        f"partitions of {names}{more}.{rest}"
    )
    return [sentence]
