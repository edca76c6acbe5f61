"""The result tables of a failure drill."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from core.table import Column, Table
from core.units import UNKNOWN

FAILURES: Final = Table(
    Column("failure", "Failure"),
    Column("kind", "Kind", "broker or domain."),
    Column("brokers", "Brokers", kind="count"),
    Column("bundles", "Bundles", kind="count"),
    Column("unassigned", "Unassigned", kind="count"),
    Column("clients", "Clients", "Producers and consumers.", "count"),
    Column("moved_bytes_per_s", "Traffic", kind="bytes_per_s"),
    Column("hot_brokers", "Hot", kind="count"),
    Column("newly_hot", "Newly hot", kind="count"),
    Column("hottest", "Hottest", none=UNKNOWN),
    Column("hottest_usage", "Max usage", kind="ratio", none=UNKNOWN),
    Column("pressed", "Largest increase", "Broker whose usage rises most.", none="no broker"),
    Column("pressed_before", "From", kind="ratio", none=UNKNOWN),
    Column("pressed_after", "To", kind="ratio", none=UNKNOWN),
    Column(
        "deviation",
        "Max deviation",
        "Largest distance of a broker's traffic from the mean of the remaining brokers.",
        "ratio",
        UNKNOWN,
    ),
    Column("groups_without_broker", "Groups without a broker", kind="count"),
    Column("groups_without_room", "Groups without capacity", kind="count"),
)
"""One row a failure, worst first. ``deviation``: share of the mean."""

HOT: Final = Table(
    Column("failure", "Failure"),
    Column("broker", "Broker"),
    Column("usage_before", "Before", kind="ratio", none=UNKNOWN),
    Column("usage_after", "After", kind="ratio", none=UNKNOWN),
    Column("bundles_gained", "Bundles gained", kind="count"),
    Column("gained_bytes_per_s", "Traffic gained", kind="bytes_per_s", none=UNKNOWN),
)
"""One row a broker that is above the threshold after a failure."""

GROUPS: Final = Table(
    Column("failure", "Failure"),
    Column("group", "Group"),
    Column("brokers_before", "Brokers before", kind="count"),
    Column("brokers_left", "Brokers left", kind="count"),
    Column("bundles", "Bundles", kind="count"),
    Column("unassigned", "Unassigned", kind="count"),
    Column("coolest_usage", "Min usage", kind="ratio", none=UNKNOWN),
    Column("has_room", "Capacity", kind="flag", words=("sufficient", "insufficient")),
)
"""One row a failure and isolation policy that lost a broker or a bundle by it. ``has_room``: every
bundle found a broker, and one of its brokers is below the threshold afterwards. Secondaries that
step in count as its brokers."""

SCHEMAS: Final = {"failures": FAILURES.schema, "hot": HOT.schema, "groups": GROUPS.schema}


def hurts(failures: pa.Table) -> pa.ChunkedArray:
    """Return failures that overload brokers or leave bundles or groups unassigned."""
    names = ("newly_hot", "unassigned", "groups_without_broker", "groups_without_room")
    found = pc.greater(failures[names[0]], 0)
    for name in names[1:]:
        found = pc.or_(found, pc.greater(failures[name], 0))
    return found
