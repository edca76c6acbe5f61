"""Reading the tiers: which periods they answer as well as the minutes, and their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.history.store.layout import DAY_MS, HOUR_MS, quoted
from core.history.store.reading import TimeRange
from core.history.tiers.local import ordered, tier_columns
from core.history.tiers.model import CLUSTER_KIND
from core.history.tiers.partitions import condition
from core.history.tiers.registry import HOURS, PROFILES, tier_tables
from core.snapshot.record import CLUSTER, TAKEN_AT, Kind

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore


def tier_clusters(store: HistoryStore) -> set[str]:
    """Return the clusters that have hours, also those of which no minute is left."""
    table = tier_tables(store).table(HOURS.name)
    return set() if table is None else {str(one[CLUSTER]) for one in table.partitions()}


def period_ms(kind: Kind) -> int:
    """Return the length of a period of a tier, ms."""
    return HOUR_MS if kind is HOURS else DAY_MS


def complete_periods(
    store: HistoryStore, kind: Kind, cluster: str, span: TimeRange, recorded: NDArray[np.int64]
) -> dict[int, tuple[str, int, int]]:
    """Return the periods in a time range that a tier answers as well as the minutes.

    Those are wholly in the range, and no snapshot of them is missing in the tier: neither one that
    came late nor one of the current day.

    Args:
        store: The history.
        kind: The tier.
        cluster: Its name.
        span: When.
        recorded: ``taken_at`` of the snapshots that the history still has in ``span``, ms.
    Returns:
        System, recorded minutes and snapshots by the start of the period, ms.
    Raises:
        HistoryError: The tier cannot be read.
    """
    size = period_ms(kind)
    starts, counts = np.unique(recorded // size * size, return_counts=True)
    snapshots = dict(zip(starts.tolist(), counts.tolist(), strict=True))
    columns = (TAKEN_AT, "system", "snapshots", "minutes_seen")
    of_cluster = condition(kind, cluster, span, f"kind = '{CLUSTER_KIND}'")
    rows = tier_tables(store).scan(kind, columns, of_cluster).to_pylist()
    return {
        row[TAKEN_AT]: (row["system"], row["minutes_seen"], row["snapshots"])
        for row in rows
        if (span.end is None or row[TAKEN_AT] + size - 1 <= span.end)
        and row["snapshots"] >= snapshots.get(row[TAKEN_AT], 0)
    }


def tier_loads(
    store: HistoryStore,
    kind: Kind,
    cluster: str,
    starts: Sequence[int],
    subject_kind: str,
    columns: Sequence[str],
) -> pa.Table:
    """Return the rows of one kind of subject in some periods.

    Args:
        store: The history.
        kind: The tier.
        cluster: Its name.
        starts: Of the periods, ms.
        subject_kind: ``broker`` ...
        columns: Of the tier.
    Returns:
        ``taken_at``, ``subject`` and ``columns``, by subject and time.
    Raises:
        HistoryError: The tier cannot be read.
    """
    names = (TAKEN_AT, "subject", *columns)
    if not starts:
        return (
            pa.schema([pa.field(TAKEN_AT, pa.int64()), *kind.columns]).empty_table().select(names)
        )
    span = TimeRange(min(starts), max(starts))
    of_kind = condition(kind, cluster, span, f"kind = '{subject_kind}'")
    rows = tier_tables(store).scan(kind, names, of_kind)
    rows = rows.filter(pc.is_in(rows[TAKEN_AT], value_set=pa.array(starts, pa.int64())))
    return rows.sort_by([("subject", "ascending"), (TAKEN_AT, "ascending")])


def exported(
    store: HistoryStore, kind: Kind, cluster: str, span: TimeRange, subject_kinds: Sequence[str]
) -> pa.Table:
    """Return the rows of a tier, by kind, subject and time.

    Args:
        store: The history.
        kind: The tier.
        cluster: Its name.
        span: Of the starts of the periods; profiles have none.
        subject_kinds: ``broker`` ...; empty: all.
    Returns:
        ``taken_at`` and the columns of the tier that have a value.
    Raises:
        HistoryError: The tier cannot be read.
    """
    if kind is PROFILES:  # of the last weeks as a whole
        span = TimeRange()
    names = ", ".join(quoted(one) for one in subject_kinds)
    predicate = condition(kind, cluster, span, *([f"kind IN ({names})"] if names else []))
    rows = ordered(tier_tables(store).scan(kind, tier_columns(kind).names, predicate))
    return rows.select([name for name in rows.column_names if rows[name].null_count < len(rows)])
