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
        "state_writable_ill": tables.whole("▲ writable, ill"),
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
        "read_cu": tables.whole("RCU/s", "Read capacity units a second."),
        "write_cu": tables.whole("WCU/s", "Write capacity units a second."),
        "size_primary_mb": tables.whole("file_mb", "Files of the primaries."),
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
