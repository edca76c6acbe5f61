"""Generated Pegasus clusters of any size."""

from __future__ import annotations

import numpy as np

from core.pegasus.view import ClusterView


def make_view(
    tables: int, partitions: int, nodes: int, *, disks: int = 4, seed: int = 1
) -> ClusterView:
    """Return a healthy, uneven cluster with three replicas a partition.

    Every table prefers other nodes than the next one, the preferred by far.
    """
    rng = np.random.default_rng(seed)
    preference = rng.random((tables, nodes)) ** 2 + 1e-9
    draws = -np.log(rng.random((tables * partitions, nodes)))
    draws /= np.repeat(preference, partitions, axis=0)
    # the three smallest of exponential draws: without repetition, in proportion to preference
    members = np.argpartition(draws, 3, axis=1)[:, :3].astype(np.int32)
    return ClusterView(
        nodes=tuple(f"10.0.{node // 250}.{node % 250 + 1}:34801" for node in range(nodes)),
        disks=tuple(f"ssd{disk}" for disk in range(disks)),
        app_ids=np.arange(1, tables + 1, dtype=np.int32),
        app_names=tuple(f"table{table}" for table in range(tables)),
        max_replica_counts=np.full(tables, 3, dtype=np.int32),
        is_balanceable=np.ones(tables, dtype=np.bool_),
        first_rows=(np.arange(tables + 1) * partitions).astype(np.int32),
        members=members,
        member_disks=rng.integers(0, disks, members.shape).astype(np.int32),
        node_disks=(tuple(range(disks)),) * nodes,
    )
