"""The tables that a failure drill is answered with."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

FAILURES: Final = pa.schema(
    [
        pa.field("failure", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),  # broker | domain
        pa.field("brokers", pa.int64(), nullable=False),
        pa.field("bundles", pa.int64(), nullable=False),
        pa.field("unassigned", pa.int64(), nullable=False),
        pa.field("clients", pa.int64(), nullable=False),
        pa.field("moved_bytes_per_s", pa.float64(), metadata={"unit": "bytes/s"}, nullable=False),
        pa.field("hot_brokers", pa.int64(), nullable=False),
        pa.field("newly_hot", pa.int64(), nullable=False),
        pa.field("hottest", pa.string()),
        pa.field("hottest_usage", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("pressed", pa.string()),  # whose usage the loss raises most
        pa.field("pressed_before", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("pressed_after", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("deviation", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("groups_without_broker", pa.int64(), nullable=False),
        pa.field("groups_without_room", pa.int64(), nullable=False),
    ]
)
"""One row a failure, worst first. ``deviation``: max deviation of a broker's traffic from the mean
of the remaining ones, share of it."""

HOT: Final = pa.schema(
    [
        pa.field("failure", pa.string(), nullable=False),
        pa.field("broker", pa.string(), nullable=False),
        pa.field("usage_before", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("usage_after", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("bundles_gained", pa.int64(), nullable=False),
        pa.field("gained_bytes_per_s", pa.float64(), metadata={"unit": "bytes/s"}),
    ]
)
"""One row a broker that is above the threshold after a failure."""

GROUPS: Final = pa.schema(
    [
        pa.field("failure", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("brokers_before", pa.int64(), nullable=False),
        pa.field("brokers_left", pa.int64(), nullable=False),
        pa.field("bundles", pa.int64(), nullable=False),
        pa.field("unassigned", pa.int64(), nullable=False),
        pa.field("coolest_usage", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("has_room", pa.bool_(), nullable=False),
    ]
)
"""One row a failure and isolation policy that lost a broker or a bundle by it. ``has_room``: every
bundle found a broker, and one of its brokers is below the threshold afterwards. Secondaries that
step in count as its brokers."""

TABLES: Final = {"failures": FAILURES, "hot": HOT, "groups": GROUPS}


def hurts(failures: pa.Table) -> pa.ChunkedArray:
    """Return failures that overload brokers or leave bundles or groups unassigned."""
    names = ("newly_hot", "unassigned", "groups_without_broker", "groups_without_room")
    found = pc.greater(failures[names[0]], 0)
    for name in names[1:]:
        found = pc.or_(found, pc.greater(failures[name], 0))
    return found
