"""Columns of the list of Pegasus tables, a set for each of upstream's commands and countings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import streamlit as st

from dashboard.components import tables

Columns = dict[str, Any]


def table_columns(view: str, open_table: Callable[[str], None]) -> Columns:
    """Return the columns of one view; the name, which opens the table, is always first."""
    head = {
        "table": tables.opener("Table", f"_open_table_{view}", open_table),
        "app_id": tables.whole("Id"),
        "partitions": tables.whole("Partitions"),
        "replica_count": tables.whole("Replicas", "Wanted of every partition."),
    }
    return head | _VIEWS[view]()


def _overview() -> Columns:
    return {
        "worst": tables.words("Worst state", "Of the five states, with how many are in it."),
        "unhealthy": tables.whole("Unhealthy", "As `ls -d` counts."),
        "primary_gap": tables.whole("Gap", "Most less least primaries over the living nodes."),
        "reads": tables.whole("Reads/s", "Of primaries."),
        "writes": tables.whole("Writes/s", "Of primaries."),
        "size_all_mb": tables.whole("Size MB", "Of all replicas."),
        "marks": tables.words("Now"),
    }


def _ls() -> Columns:
    return {
        "fully_healthy": tables.whole("fully_healthy"),
        "unhealthy": tables.whole("unhealthy"),
        "write_unhealthy": tables.whole("write_unhealthy"),
        "read_unhealthy": tables.whole("read_unhealthy"),
        "created": st.column_config.DatetimeColumn("create_time (UTC)", format="YYYY-MM-DD HH:mm"),
    }


def _states() -> Columns:
    return {
        "state_dead": tables.whole("✖ dead"),
        "state_unreadable": tables.whole("✖ unreadable"),
        "state_unwritable": tables.whole("✖ unwritable"),
        "state_writable_ill": tables.whole("▲ degraded"),
        "state_healthy": tables.whole("● healthy"),
    }


def _guardian() -> Columns:
    return {
        "guardian_ill": tables.whole("Not healthy", "Balancing waits until there is none."),
        "primary_gap": tables.whole("Gap", "Most less least primaries over the living nodes."),
    }


def _app_stat() -> Columns:
    return {
        "reads": tables.whole("Reads/s", "GET, MGET, BGET and SCAN together."),
        "writes": tables.whole("Writes/s", "PUT, MPUT, DEL, MDEL, INCR, CAS and CAM together."),
        **operation_columns("size_primary_mb"),
    }


def operation_columns(size: str) -> Columns:
    """Return the columns of ``app_stat`` from GET on, in its order.

    Args:
        size: The column of the files' size.
    """
    return {
        **{name: _tenths(label, text) for name, (label, text) in _OPERATIONS.items()},
        "read_cu": _tenths("RCU/s", "Read capacity units: RCU."),
        "write_cu": _tenths("WCU/s", "Write capacity units: WCU."),
        **{name: _tenths(label, text) for name, (label, text) in _EVENTS.items()},
        size: tables.whole("Files MB", "Of the primaries: file_mb."),
        "sst_files": tables.whole("Files", "file_num."),
        "memtable_mb": _tenths("Memtables MB", "mem_tbl_mb."),
        "index_filter_mb": _tenths("Index MB", "Index and filter blocks: mem_idx_mb."),
        **{name: tables.percent(label, text) for name, (label, text) in _RATIOS.items()},
    }


def _tenths(label: str, help_text: str) -> Any:
    return st.column_config.NumberColumn(label, format="%,.1f", help=help_text)


_OPERATIONS: Final = {
    "get_rate": ("Get/s", "GET."),
    "multi_get_rate": ("Multi get/s", "MGET."),
    "batch_get_rate": ("Batch get/s", "BGET."),
    "put_rate": ("Put/s", "PUT."),
    "multi_put_rate": ("Multi put/s", "MPUT."),
    "remove_rate": ("Remove/s", "DEL."),
    "multi_remove_rate": ("Multi remove/s", "MDEL."),
    "incr_rate": ("Increment/s", "INCR."),
    "check_and_set_rate": ("Check and set/s", "CAS."),
    "check_and_mutate_rate": ("Check and mutate/s", "CAM."),
    "scan_rate": ("Scan/s", "SCAN."),
}
_EVENTS: Final = {
    "expired_rate": ("Expired/s", "Values read past their time: expire."),
    "filtered_rate": ("Filtered/s", "Values that a scan's filter left out: filter."),
    "abnormal_rate": ("Abnormal/s", "Reads that were too long or too large: abnormal."),
    "delayed_rate": ("Delayed/s", "Writes that throttling held up: delay."),
    "rejected_rate": ("Rejected/s", "Writes that throttling refused: reject."),
}
_SINCE: Final = "Since the replicas were opened; unknown while nothing was looked up."
_RATIOS: Final = {
    "cache_hit_ratio": ("Cache hits", f"Of lookups in the block cache: hit_rate. {_SINCE}"),
    "seek_negative_ratio": (
        "Seeks spared",
        f"That the bloom filter answered with no: seek_n_rate. {_SINCE}",
    ),
    "point_negative_ratio": (
        "Point lookups spared",
        f"That the bloom filter answered with no: point_n_rate. {_SINCE}",
    ),
    "point_fp_ratio": (
        "False positives",
        f"A yes of the bloom filter, and nothing was there: point_fp_rate. {_SINCE}",
    ),
}


def _app_disk() -> Columns:
    return {
        "size_primary_mb": tables.whole("Primaries MB", "disk_used_for_primary_replicas(MB)."),
        "size_all_mb": tables.whole("All replicas MB", "disk_used_for_all_replicas(MB)."),
        "sizes_known": tables.words("Sizes known", "Replicas of which a size was read."),
    }


_VIEWS: Final[dict[str, Callable[[], Columns]]] = {
    "overview": _overview,
    "ls -d": _ls,
    "five states": _states,
    "guardian": _guardian,
    "app_stat": _app_stat,
    "app_disk": _app_disk,
}
