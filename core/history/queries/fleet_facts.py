"""Facts of a fleet, cluster by day: how even it was, what moved, how much was recorded.

They come from the tier of days. Minutes outside a cluster's target follow from the histogram of its
deviation, so that a target that is configured later counts for the past, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from core.history.queries.tier_reader import TierReader
from core.history.tiers.model import BAND, BIN_BITS, CLUSTER_KIND, DEVIATION
from core.history.tiers.registry import DAYS

if TYPE_CHECKING:
    from core.history.store.reading import TimeRange
    from core.history.store.store import HistoryStore

FLEET_DAYS: Final = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("day", pa.int64(), nullable=False, metadata={"unit": "ms"}),
        pa.field("deviation_mean", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("deviation_max", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("deviation_p95", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("target", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("outside_minutes", pa.int64()),
        pa.field("deviation_minutes", pa.int64(), nullable=False),
        pa.field("moves", pa.int64(), nullable=False),
        pa.field("moves_by_trimtab", pa.int64(), nullable=False),
        pa.field("server_losses", pa.int64(), nullable=False),
        pa.field("minutes_seen", pa.int64(), nullable=False),
        pa.field("minutes_missing", pa.int64(), nullable=False),
    ]
)
"""One row a cluster and recorded day. ``outside_minutes``: of the ``deviation_minutes``, those with
more deviation than the cluster's target; at the target at most 3.1% off, exact for 20%. Null if no
deviation is known."""

_COLUMNS: Final = (
    *("deviation_mean", "deviation_max", "deviation_p95", "deviation_minutes"),
    *("deviation_bins", "deviation_counts", "outside_minutes"),
    *("moves", "moves_by_trimtab", "server_losses", "minutes_seen", "minutes_missing"),
)


def fleet_days(store: HistoryStore, targets: Mapping[str, float], span: TimeRange) -> pa.Table:
    """Return the facts of some clusters, by cluster and day.

    Args:
        store: The history.
        targets: Deviation that each cluster may have, ratio, by its name.
        span: When.
    Returns:
        Table of :data:`FLEET_DAYS`; a day that was not recorded has no row.
    Raises:
        HistoryError: The days cannot be read.
    """
    found = []
    for cluster, target in sorted(targets.items()):
        rows = TierReader(store, cluster).ask(
            f"SELECT taken_at, {', '.join(_COLUMNS)} FROM rows "  # noqa: S608  # names of ours
            f"WHERE kind = '{CLUSTER_KIND}' ORDER BY taken_at",
            DAYS,
            span,
        )
        for row in [] if rows is None else rows.to_pylist():
            bins, counts = row.pop("deviation_bins"), row.pop("deviation_counts")
            at = row.pop("taken_at")
            known = row["deviation_minutes"] or 0
            if not known:
                row["outside_minutes"] = None
            elif target != BAND:
                row["outside_minutes"] = minutes_above(target, bins, counts)
            counted = {
                name: row[name] or 0 for name in ("moves", "moves_by_trimtab", "server_losses")
            }
            found.append(
                {
                    **row,
                    **counted,
                    "cluster": cluster,
                    "day": at,
                    "target": target,
                    "deviation_minutes": known,
                }
            )
    return pa.Table.from_pylist(found, schema=FLEET_DAYS)


def minutes_above(ratio: float, bins: list[int], counts: list[int]) -> int:
    """Return the minutes of a histogram of deviations whose bin has its middle above a ratio."""
    limit = ratio * DEVIATION.scale
    return sum(count for b, count in zip(bins, counts, strict=True) if middle_of(b) > limit)


def middle_of(b: int) -> float:
    """Return the value in the middle of a bin, in whole numbers of its measure."""
    if b < 2 << BIN_BITS:
        return float(b)
    size = 1 << BIN_BITS
    shift = b // size - 1
    return float((b % size + size + 0.5) * 2**shift)
