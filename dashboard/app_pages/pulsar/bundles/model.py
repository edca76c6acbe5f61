"""Numbers and texts of the Bundles page: the headline, the filter, a page of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from core.pulsar.measures import BundleCounts
from core.units import format_bytes_per_s, format_ratio, pluralize
from dashboard.charts.ring import NOT_OWNED
from dashboard.presenters.figures import KeyFigure
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
class BundleTableFilter:
    """Filter of the bundles.

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
    matching: BundleCounts
    total: BundleCounts

    @property
    def text(self) -> str:
        """For example ``100 rows · 60 bundles match · 600 bundles, 32 unassigned in all``."""
        is_filtered = self.matching != self.total
        return " · ".join(
            [
                pluralize(len(self.rows), "row"),
                *([f"{self.matching.text} match"] if is_filtered else []),
                f"{self.total.text} in all",
            ]
        )


def filtered(bundles: pa.Table, bundle_filter: BundleTableFilter) -> pa.Table:
    """Return the rows of ``bundles`` that the filter asks for, in their order."""
    table = bundles
    if bundle_filter.namespace:
        table = table.filter(pc.equal(table["namespace"], bundle_filter.namespace))
    if bundle_filter.owner == NOT_OWNED:
        is_unowned = pc.and_(pc.is_null(table["owner"]), pc.is_valid(table["owner_source"]))
        table = table.filter(is_unowned)
    elif bundle_filter.owner:
        is_owned = pc.fill_null(pc.equal(table["owner"], bundle_filter.owner), False)  # noqa: FBT003  # Arrow's own signature
        table = table.filter(is_owned)
    if bundle_filter.contains:
        mask = pc.match_substring(table["bundle"], bundle_filter.contains, ignore_case=True)
        table = table.filter(mask)
    return table


def bundle_page(bundles: pa.Table, bundle_filter: BundleTableFilter) -> BundlePage:
    """Return the table's page.

    Args:
        bundles: Bundles with ``throughput`` and ``msg_rate``.
        bundle_filter: Filter, order and limit; applied here, not in the browser.
    Cost:
        O(bundles) in Arrow, O(limit) in Python.
    """
    table = filtered(bundles, bundle_filter)
    clients = pc.add(table["producer_count"], table["consumer_count"])
    table = table.append_column("clients", clients)
    column = SORTS.get(bundle_filter.sort, "throughput")
    order = "ascending" if column == "bundle" else "descending"
    size = min(bundle_filter.limit, table.num_rows)
    picks = pc.select_k_unstable(table, size, [(column, order)])
    rows = rows_of(table.take(picks))
    return BundlePage(rows, BundleCounts.of(table), BundleCounts.of(bundles))


@dataclass(frozen=True, eq=False)
class Load:
    """Distribution of the traffic over bundles that can move.

    Attributes:
        counts: Bundles.
        carried: Traffic of all, bytes/s.
        half: So many of the hottest carry half of it; 0: none reports traffic.
        hottest: Name and traffic of the hottest; ``None``: none reports traffic.
        clients: Producers and consumers; ``None``: unknown.
    """

    counts: BundleCounts
    carried: float
    half: int
    hottest: tuple[str, float] | None
    clients: int | None


def load_of(bundles: pa.Table) -> Load:
    """Return the distribution of the traffic.

    Args:
        bundles: Those that can move, with ``throughput``.
    """
    load = np.nan_to_num(np.array(bundles["throughput"].cast(pa.float64())))
    carried = float(load.sum())
    ranked = np.sort(load)[::-1]
    has_load = carried > 0
    sides = [pc.sum(bundles[f"{side}_count"]).as_py() for side in ("producer", "consumer")]
    top = int(load.argmax()) if has_load else 0
    return Load(
        counts=BundleCounts.of(bundles),
        carried=carried,
        half=int(np.searchsorted(np.cumsum(ranked), carried / 2)) + 1 if has_load else 0,
        hottest=(bundles["bundle"][top].as_py(), float(load[top])) if has_load else None,
        clients=None if None in sides else int(sum(sides)),
    )


def subtitle(load: Load) -> str:
    """Return the number of bundles and the distribution of the traffic."""
    half = f"{load.half:,} with half of the traffic" if load.half else "no traffic reported"
    return f"{load.counts.text} · {half}"


def key_figures(load: Load, mean_broker: float | None, trend: Sequence[float]) -> list[KeyFigure]:
    """Return the figures at the top.

    Args:
        load: Where the traffic is.
        mean_broker: Traffic of a broker on average, bytes/s; ``None``: unknown.
        trend: Traffic of all over the last hours, oldest first.
    """
    name, most = load.hottest or ("", 0.0)
    is_too_hot = mean_broker is not None and most > mean_broker
    return [
        KeyFigure(
            label="Traffic",
            value=format_bytes_per_s(load.carried),
            note="in + out",
            trend=trend,
        ),
        KeyFigure(
            label="Hottest bundle",
            value=format_ratio(most / load.carried) if load.carried else "unknown",
            note=format_bytes_per_s(most),
            status="warning" if is_too_hot else "",
            help=f"{name}: share of the traffic of all bundles; mean per broker: "
            f"{format_bytes_per_s(mean_broker)}."
            if name
            else "",
        ),
        KeyFigure(
            label="Half of the traffic",
            value=pluralize(load.half, "bundle"),
            note=f"of {load.counts.assigned:,} assigned",
        ),
        KeyFigure(
            label="Unassigned",
            value=f"{load.counts.unassigned:,}",
            note=f"{load.counts.unclear:,} unknown" if load.counts.unclear else "without an owner",
            status="unknown" if load.counts.unclear else "",
            help="Bundles without an owner; the next lookup assigns them.",
        ),
        KeyFigure(
            label="Clients",
            value="unknown" if load.clients is None else f"{load.clients:,}",
            note="producers, consumers",
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSelection:
    """Total load of the selected bundles.

    Attributes:
        bundles: Their names.
        traffic: Bytes/s.
        clients: Producers and consumers.
        share: Of the traffic of all bundles; ``None``: unknown.
        owners: Brokers that they leave.
    """

    bundles: tuple[str, ...]
    traffic: float
    clients: float
    share: float | None
    owners: int


def picked(rows: pd.DataFrame, at: Sequence[int], carried: float) -> BundleSelection:
    """Return the sums over some rows of the table."""
    some = rows.iloc[list(at)]
    traffic = float(some["throughput"].sum()) * 1e6
    return BundleSelection(
        bundles=tuple(some["bundle"]),
        traffic=traffic,
        clients=float((some["producers"] + some["consumers"]).sum()),
        share=traffic / carried if carried else None,
        owners=int(some["owner"].nunique()),
    )


def treemap_note(bundles: pa.Table, group_by: GroupBy) -> str:
    """Return the note about bundles omitted from the treemap; empty if none."""
    total = pc.count_distinct(bundles[group_by]).as_py()
    if total <= MAX_GROUPS:
        return ""
    noun = "brokers" if group_by == "owner" else "namespaces"
    return f"{MAX_GROUPS} busiest of {total:,} {noun}"
