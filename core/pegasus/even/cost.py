"""What plans cost: bytes to copy, the time at the allowed rate, disk space during the copy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from core.pegasus.balance.model import BalancePlan, PlanKind
from core.pegasus.copy_time import CopyTime, copy_time
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
        largest_mb: Of the largest copy.
    """

    copy_count: int
    copy_mb: float
    unknown_count: int
    received_mb: Floats
    sent_mb: Floats
    largest_mb: float

    def time(self, rate_mb_per_s: float, disks: int) -> CopyTime:
        """Return the duration of the copies.

        Args:
            rate_mb_per_s: What one disk may receive, and may send.
            disks: Of the node that has the fewest.
        """
        return copy_time(
            self.copy_mb,
            node_mb=[*self.received_mb.tolist(), *self.sent_mb.tolist()],
            largest_mb=self.largest_mb,
            rate_mb_per_s=rate_mb_per_s,
            disks=disks,
        )


def copy_cost(view: ClusterView, plans: Iterable[BalancePlan], sizes_mb: Floats) -> CopyCost:
    """Return the cost of plans.

    Args:
        view: The state before the first plan; at most one plan a partition.
        plans: Moves cost nothing.
        sizes_mb: Shape ``(n_partitions,)``; NaN: unknown.
    """
    received, sent = np.zeros(len(view.nodes)), np.zeros(len(view.nodes))
    copies = [plan for plan in plans if plan.kind is not PlanKind.MOVE_PRIMARY]
    unknown, largest_mb = 0, 0.0
    for plan in copies:
        size_mb = float(sizes_mb[plan.row])
        if np.isnan(size_mb):
            unknown += 1
            continue
        largest_mb = max(largest_mb, size_mb)
        received[plan.target] += size_mb
        sent[int(view.members[plan.row, 0])] += size_mb
    return CopyCost(len(copies), float(received.sum()), unknown, received, sent, largest_mb)
