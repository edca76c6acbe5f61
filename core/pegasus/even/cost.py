"""What plans cost: bytes to copy, the time at the allowed rate, disk space during the copy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from core.pegasus.balance.model import BalancePlan, PlanKind
from core.pegasus.even.weights import Floats
from core.pegasus.view import ClusterView


@dataclass(frozen=True)
class CopyCost:
    """Copies of a list of plans.

    Attributes:
        copy_count: Replicas copied; role changes copy nothing.
        copy_mb: Megabytes in all, of replicas whose size is known.
        unknown_count: Copies of unknown size.
        received_mb: Shape ``(n_nodes,)``: also the disk space each node needs meanwhile: a copy is
            made before the old replica goes, and that one is deleted much later.
        sent_mb: Shape ``(n_nodes,)``: a learner learns from the primary, whoever gives.
    """

    copy_count: int
    copy_mb: float
    unknown_count: int
    received_mb: Floats
    sent_mb: Floats

    def seconds(self, rate_mb_per_s: float) -> tuple[float, float]:
        """Return the shortest and the longest time of the copying.

        Args:
            rate_mb_per_s: What one node may receive, and may send: the NFS rate times its disks.

        Returns:
            All nodes at once without ever waiting for each other; one copy after the other.
        """
        busiest = max(float(self.received_mb.max(initial=0)), float(self.sent_mb.max(initial=0)))
        return busiest / rate_mb_per_s, self.copy_mb / rate_mb_per_s


def copy_cost(view: ClusterView, plans: Iterable[BalancePlan], sizes_mb: Floats) -> CopyCost:
    """Return what plans cost.

    Args:
        view: The state before the first plan; at most one plan a partition.
        plans: Moves cost nothing.
        sizes_mb: Shape ``(n_partitions,)``; NaN: unknown.
    """
    received, sent = np.zeros(len(view.nodes)), np.zeros(len(view.nodes))
    copies = [plan for plan in plans if plan.kind is not PlanKind.MOVE_PRIMARY]
    unknown = 0
    for plan in copies:
        size_mb = float(sizes_mb[plan.row])
        if np.isnan(size_mb):
            unknown += 1
            continue
        received[plan.target] += size_mb
        sent[int(view.members[plan.row, 0])] += size_mb
    return CopyCost(len(copies), float(received.sum()), unknown, received, sent)
