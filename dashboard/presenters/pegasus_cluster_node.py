"""What the page shows of one Pegasus node: its disks and what it carries of every table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from core.pegasus.snapshot import PegasusFacts


def disks_frame(facts: PegasusFacts, node: str) -> pd.DataFrame:
    """Return one row a disk of the node, with what lies on it; none: the node did not tell."""
    told = facts.snapshot.tables
    disks = told["disks"].filter(pc.equal(told["disks"]["node"], node)).to_pandas()
    held = told["replicas"].filter(pc.equal(told["replicas"]["node"], node)).to_pandas()
    led = held[held["is_primary"]].groupby("disk").size()
    every = held.groupby("disk").size()
    capacity = disks["capacity_mb"].astype(float)
    replicas = disks["disk"].map(every).fillna(0)
    primaries = disks["disk"].map(led).fillna(0)
    return pd.DataFrame(
        {
            "disk": disks["disk"],
            "directory": disks["directory"],
            "capacity_mb": capacity,
            "available_mb": disks["available_mb"].astype(float),
            "free_pct": disks["available_mb"] / capacity.where(capacity > 0) * 100,
            "primaries": primaries,
            "secondaries": replicas - primaries,
        }
    )


def carried_frame(facts: PegasusFacts, node: str) -> pd.DataFrame:
    """Return one row a table of which the node has replicas, most primaries first."""
    columns = facts.columns
    at = columns.nodes.index(node)
    held = columns.counts(primaries_only=False)[:, at]
    led = columns.counts(primaries_only=True)[:, at]
    rows = np.nonzero(held)[0]
    rows = rows[np.lexsort((rows, -held[rows], -led[rows]))]
    living = max(int(columns.is_alive.sum()), 1)
    share = columns.partition_counts[rows] / living
    return pd.DataFrame(
        {
            "table": [columns.app_names[row] for row in rows],
            "primaries": led[rows],
            "even": share,
            "secondaries": (held - led)[rows],
            "size_mb": columns.grid("size_mb", primaries_only=False)[rows, at],
            "reads": columns.grid("read_rate", primaries_only=True)[rows, at],
            "writes": columns.grid("write_rate", primaries_only=True)[rows, at],
        }
    )
