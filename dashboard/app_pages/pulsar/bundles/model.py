"""Numbers and texts of the Bundles page: the headline, the filter, a page of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from core.units import format_bytes_per_s, format_ratio
from dashboard.charts.ring import NOT_OWNED
from dashboard.presenters.pulsar.bundles import MAX_GROUPS, GroupBy, rows_of

SORTS: Final = {
    "traffic": "throughput",
    "rate": "msg_rate",
    "topics": "topic_count",
    "clients": "clients",
    "name": "bundle",
}
"""Word in the URL to column; names ascend, numbers descend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFilter:
    """Which bundles are requested.

    Attributes:
        contains: Part of the bundle name, any case.
        owner: Broker id, :data:`NOT_OWNED`, or empty for all.
        namespace: Whole namespace name, or empty for all.
        sort: Key of :data:`SORTS`.
        limit: Rows of the answer.
    """

    contains: str = ""
    owner: str = ""
    namespace: str = ""
    sort: str = "traffic"
    limit: int = 500


@dataclass(frozen=True, eq=False)
class BundlePage:
    """The requested rows.

    Attributes:
        rows: At most ``limit`` of them, sorted.
        matching: How many there are.
        total: How many the filter looked at.
    """

    rows: pd.DataFrame
    matching: int
    total: int


def filtered(bundles: pa.Table, wanted: BundleFilter) -> pa.Table:
    """Return the rows of ``bundles`` that the filter asks for, in their order."""
    table = bundles
    if wanted.namespace:
        table = table.filter(pc.equal(table["namespace"], wanted.namespace))
    if wanted.owner == NOT_OWNED:
        is_unowned = pc.and_(pc.is_null(table["owner"]), pc.is_valid(table["owner_source"]))
        table = table.filter(is_unowned)
    elif wanted.owner:
        table = table.filter(pc.fill_null(pc.equal(table["owner"], wanted.owner), False))  # noqa: FBT003  # Arrow's own signature
    if wanted.contains:
        mask = pc.match_substring(table["bundle"], wanted.contains, ignore_case=True)
        table = table.filter(mask)
    return table


def bundle_page(bundles: pa.Table, wanted: BundleFilter) -> BundlePage:
    """Return the table's page.

    Args:
        bundles: Bundles with ``throughput`` and ``msg_rate``.
        wanted: Filter, order and limit; applied here, not in the browser.
    Cost:
        O(bundles) in Arrow, O(limit) in Python.
    """
    table = filtered(bundles, wanted)
    clients = pc.add(table["producer_count"], table["consumer_count"])
    table = table.append_column("clients", clients)
    column = SORTS.get(wanted.sort, "throughput")
    order = "ascending" if column == "bundle" else "descending"
    matching = table.num_rows
    picks = pc.select_k_unstable(table, min(wanted.limit, matching), [(column, order)])
    return BundlePage(rows_of(table.take(picks)), matching, bundles.num_rows)


def answer(bundles: pa.Table) -> str:
    """Return the sentence that says where the load is, over bundles that can move."""
    total = bundles.num_rows
    if total == 0:
        return "No bundle that can move is known from this snapshot."
    load = np.nan_to_num(np.array(bundles["throughput"].cast(pa.float64())))
    unsure = pc.and_(pc.is_null(bundles["owner"]), pc.is_null(bundles["owner_source"]))
    unclear = int(pc.sum(unsure).as_py() or 0)
    unassigned = int(bundles["owner"].null_count) - unclear
    carried = float(load.sum())
    if carried <= 0:
        head = f"None of the {total:,} bundles reports traffic"
    else:
        ranked = np.sort(load)[::-1]
        half = int(np.searchsorted(np.cumsum(ranked), carried / 2)) + 1
        head = (
            f"{half:,} of {total:,} bundles carry half of the {format_bytes_per_s(carried)}; "
            f"the hottest carries {format_ratio(ranked[0] / carried)}"
        )
    tails = [f"{unassigned:,} unassigned"] if unassigned else []
    tails += [f"the owner of {unclear:,} of them is unknown"] if unclear else []
    return f"{head}; {', '.join(tails) or 'every bundle has an owner'}."


def treemap_note(bundles: pa.Table, group_by: GroupBy) -> str:
    """Return what the treemap draws, and what it leaves out."""
    total = pc.count_distinct(bundles[group_by]).as_py()
    if total <= MAX_GROUPS:
        return "Area is traffic (in plus out); a click opens a group."
    noun = "brokers" if group_by == "owner" else "namespaces"
    return f"Area is traffic (in plus out). The {MAX_GROUPS} busiest of {total:,} {noun} are drawn."
