"""When the meta server balances at all; the policies themselves do not ask."""

from __future__ import annotations

import numpy as np

from core.pegasus.health import Membership, guardian_healthy
from core.pegasus.view import ClusterView
from core.units import counted

_FEWEST_NODES = 3


def obstacles(view: ClusterView, *, min_live_node_count: int = _FEWEST_NODES) -> list[str]:
    """Return why the meta server would not balance in this state, one sentence each.

    Args:
        view: The state.
        min_live_node_count: ``min_live_node_count_for_unfreeze``.

    Source:
        Pegasus ``server_state::check_all_partitions``, ``greedy_load_balancer``.
    """
    found = []
    pending = np.zeros(view.partition_count, dtype=np.bool_)
    ill = int((~guardian_healthy(Membership.of(view), pending)).sum())
    if ill:
        found.append(
            f"{counted(ill, 'partition')} without exactly the wanted replicas: the meta server "
            "repairs first and balances then."
        )
    if len(view.nodes) < min_live_node_count:
        found.append(
            f"{counted(len(view.nodes), 'node')}: below {min_live_node_count} the level in force "
            "is freezed, and nothing happens."
        )
    if view.has_unknown_disk:
        found.append("The disk of some replica is unknown: nothing is planned until it is told.")
    return found
