"""Nodes and disks of a Pegasus cluster, and one node: its disks, its share of every table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from dashboard import state
from dashboard.app_pages.pegasus.cluster import model
from dashboard.components import choice, frame, long_term, tables
from dashboard.components.pegasus.run_history import past_of
from dashboard.presenters.pegasus import cluster

if TYPE_CHECKING:
    import pandas as pd

    from dashboard.components.pegasus.page import PegasusPage


def follow_address() -> None:
    """Open the tab of the object in an address or click, unless a tab was named or clicked."""
    is_first = model.TAB not in st.session_state
    at = st.query_params.get(model.TAB, "") if is_first else st.session_state[model.TAB]
    followed = None if is_first else st.session_state.get(_FOLLOWED)
    values = {key: state.text(key) for key in model.TAB_OF}
    named = model.tab_to_open(at, values, followed)
    if named:
        st.session_state[model.TAB] = named
    st.session_state[_FOLLOWED] = model.TabState(named or at or model.TABS[0], values)


def choose(node: str) -> None:
    """Look at another node; for callbacks."""
    st.session_state[state.NODE] = node


def all_nodes(page: PegasusPage, trends: cluster.NodeTrends) -> None:
    """Draw the table of the nodes, and the chosen one.

    Args:
        trends: The hours before the snapshot.
    """
    rows = cluster.nodes_frame(page.facts)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        view = st.segmented_control(
            "Columns",
            list(cluster.NODE_VIEWS),
            default="overview",
            required=True,
            key=state.VIEW,
            bind="query-params",
            label_visibility="collapsed",
        )
        st.caption(cluster.NODE_VIEWS[view or "overview"], width="content")
    target = page.facts.target_ratio
    columns = node_columns(view or "overview", choose)
    shown = rows.assign(**_pictures(rows, trends, columns, target))
    tables.table(
        shown,
        {name: column for name, column in columns.items() if name in shown},
        key=f"pegasus_nodes_{view}",
        alt="Nodes with replicas, load and disks, dead nodes first",
        height=min(_MOST_PX, tables.height_of(len(rows))),
    )
    tables.downloads(rows, cluster=page.name, what="nodes", moment=page.stored.taken_at)
    _one_node(page)


def _pictures(
    rows: pd.DataFrame, trends: cluster.NodeTrends, columns: Columns, target_ratio: float
) -> dict[str, Sequence[Any]]:
    """Return the bars and sparklines that the columns show, as far as there are any."""
    found: dict[str, Sequence[Any]] = {
        f"{name}_bar": tables.deviation_bars(rows[f"{name}_deviation"] / 100, target_ratio)
        for name in ("primaries", "replicas")
        if f"{name}_bar" in columns
    }
    if "trend" in columns and trends.of_node:
        found["trend"] = cluster.node_trends(trends, rows["node"].tolist())
    return found


def all_disks(page: PegasusPage) -> None:
    """Draw the disks of all nodes, the fullest first."""
    rows = model.disks_frame(page.facts)
    if rows.empty:
        st.caption(":material/help: No node reported its disks.")
        return
    tables.table(
        rows,
        {"node": tables.opener("Node", "_node_of_disk", choose), **_DISK_COLUMNS},
        key="pegasus_disks",
        alt="Disks of all nodes with replicas, fullest first",
        height=min(_MOST_PX, tables.height_of(len(rows))),
    )
    tables.downloads(rows, cluster=page.name, what="disks", moment=page.stored.taken_at)


def _one_node(page: PegasusPage) -> None:
    """Draw the chosen node; only the choice while none is."""
    node = choice.selected(
        "Node",
        ["", *page.facts.columns.nodes],
        key=state.NODE,
        format_func=lambda name: name or "Select a node",
        has_label=False,
    )
    if not node:
        return
    long_term.link("node", node)
    _server(page, node)
    left, right = frame.columns([0.5, 0.5], key="pegasus_node")
    with left:
        _disks(page, node)
    with right:
        _tables(page, node)
    past_of(page, node, key="node")


def _server(page: PegasusPage, node: str) -> None:
    """Draw the facts of one server only: its address, its version, its copy rate."""
    rows = cluster.nodes_frame(page.facts)
    rows = rows[rows["node"] == node]
    tables.table(rows, _SERVER_COLUMNS, key="node_server", alt=f"Server of {node}")


def _disks(page: PegasusPage, node: str) -> None:
    rows = model.disks_frame(page.facts, node)
    if rows.empty:
        st.caption(":material/help: Disks unknown: the node did not respond.")
    else:
        tables.table(rows, _DISK_COLUMNS, key="node_disks", alt=f"Disks of {node}")
    st.code(f"remote_command -l {node} server-info", language="bash")


def _tables(page: PegasusPage, node: str) -> None:
    rows = model.carried_frame(page.facts, node)
    if rows.empty:
        st.caption(":material/inbox: No replicas of the tables that were read.")
        return
    tables.table(
        rows,
        {
            "table": tables.opener("Table", "_table_of_node", _open_table),
            "primaries": tables.whole("Primaries"),
            "even": st.column_config.NumberColumn(
                "Mean per node", format="%.1f", help="Mean number of primaries per alive node."
            ),
            "secondaries": tables.whole("Secondaries"),
            "size_mb": tables.size("Size", "Size of all replicas."),
            "reads": tables.whole("Reads/s", "Primaries only."),
            "writes": tables.whole("Writes/s", "Primaries only."),
        },
        key="node_tables",
        alt=f"Tables with replicas on {node}",
        height=min(420, tables.height_of(len(rows))),
    )


def _open_table(table: str) -> None:
    state.go("pegasus_tables", table=table)


_FOLLOWED: Final = "_followed"
_SERVER_COLUMNS: Final = {
    "status": tables.words("Status"),
    "version": tables.words("Version"),
    "address": tables.words("Address"),
    "learning": tables.whole("Learning", "Replicas being copied: learning_replicas."),
    "copy_limit": tables.words("Receive limit", "nfs.max_copy_rate_megabytes_per_disk."),
    "send_limit": tables.words("Send limit", "nfs.max_send_rate_megabytes_per_disk."),
    "read_cu": tables.whole("RCU/s", "Read capacity units: read_cu."),
    "write_cu": tables.whole("WCU/s", "Write capacity units: write_cu."),
    "started": tables.words("Started", "Start time reported by the server process."),
}
_MOST_PX: Final = 330
_DISK_COLUMNS: Final = {
    "disk": tables.words("Disk"),
    "free_pct": tables.percent("Free"),
    "available_mb": tables.size("Available"),
    "capacity_mb": tables.size("Capacity"),
    "primaries": tables.whole("Primaries"),
    "secondaries": tables.whole("Secondaries"),
    "directory": tables.words("Directory"),
}
Columns = dict[str, Any]


def node_columns(view: str, open_node: Callable[[str], None]) -> Columns:
    """Return the columns of one view; the name, which opens the node, is always first."""
    head = {
        "node": tables.opener("Node", f"_open_node_{view}", open_node),
        "status": tables.words("Status"),
    }
    return head | _VIEWS[view]()


def _overview() -> Columns:
    counts, room = _counts(), _room()
    return {
        **_deviation("primaries"),
        "trend": tables.sparkline("Requests", "Reads and writes/s, last 6 h."),
        "replicas": counts["replicas"],
        "primaries": counts["primaries"],
        "size_mb": tables.size("Data", "Size of the files of all replicas."),
        "reads": tables.whole("Reads/s", "get, multi_get, batch_get and scan, of all replicas."),
        "writes": tables.whole("Writes/s", "All writes, all replicas."),
        "fullest_free_pct": room["fullest_free_pct"],
        "disk_free_pct": room["disk_free_pct"],
        "memory_mb": tables.size("Memory", "Resident: memused_res_mb, res_mem_mb."),
    }


def _deviation(name: str) -> Columns:
    """Return the deviation of one count from the mean, as a bar and as a number."""
    return {
        f"{name}_bar": tables.deviation(f"{name.capitalize()} vs mean", "Grey: target band."),
        f"{name}_deviation": tables.signed_percent(
            "Deviation", f"{name.capitalize()} vs. mean of the alive nodes.", width_px=80
        ),
    }


def _counts() -> Columns:
    return {
        "replicas": tables.whole(
            "Replicas", "replica_count, from the meta server's configuration."
        ),
        "primaries": tables.whole("Primaries", "primary_count."),
        "secondaries": tables.whole("Secondaries", "secondary_count."),
    }


def _room() -> Columns:
    return {
        "disk_free_pct": tables.percent("Disk free", "All disks: disk_avl_total_ratio."),
        "fullest_free_pct": tables.percent("Min disk free", "Fullest disk: disk_avl_min_ratio."),
    }


def _details() -> Columns:
    return {
        **_counts(),
        **_deviation("primaries"),
        **_deviation("replicas"),
        "version": tables.words("Version"),
        "address": tables.words("Address"),
    }


def _usage() -> Columns:
    return {
        "memory_mb": tables.size("Memory", "Resident: memused_res_mb."),
        "block_cache_mb": tables.size("Block cache", "RocksDB block cache: block_cache_mb."),
        "write_buffer_mb": tables.size(
            "Write buffers", "Total of the RocksDB write buffer manager: wbm_total_mb."
        ),
        "write_buffer_mutable_mb": tables.size("Mutable", "Mutable write buffers: wbm_mutable_mb."),
        "memtable_mb": tables.size("Memtables", "All replicas: mem_tbl_mb."),
        "index_filter_mb": tables.size(
            "Index", "Index and filter blocks, all replicas: mem_idx_mb."
        ),
        **_room(),
    }


def _queries() -> Columns:
    return {
        "get_rate": _tenths("Get/s", "All replicas: get_qps."),
        "multi_get_rate": _tenths("Multi get/s", "mget_qps."),
        "batch_get_rate": _tenths("Batch get/s", "bget_qps."),
        "read_cu": tables.whole("RCU/s", "Read capacity units: read_cu."),
        "put_rate": _tenths("Put/s", "put_qps."),
        "multi_put_rate": _tenths("Multi put/s", "mput_qps."),
        "write_cu": tables.whole("WCU/s", "Write capacity units: write_cu."),
    }


def _latency() -> Columns:
    return {
        "get_p99_ms": _hundredths("Get p99 (ms)", f"get_p99(ms). {_PROFILER}"),
        "multi_get_p99_ms": _hundredths("Multi get p99 (ms)", f"mget_p99(ms). {_PROFILER}"),
        "batch_get_p99_ms": _hundredths("Batch get p99 (ms)", f"bget_p99(ms). {_PROFILER}"),
        "put_p99_ms": _hundredths("Put p99 (ms)", f"put_p99(ms). {_PROFILER}"),
        "multi_put_p99_ms": _hundredths("Multi put p99 (ms)", f"mput_p99(ms). {_PROFILER}"),
    }


def _server_stat() -> Columns:
    return {
        "virtual_memory_mb": tables.size("Virtual", "virt_mem_mb."),
        "memory_mb": tables.size("Resident", "res_mem_mb."),
        "total_replicas": tables.whole("Total", f"total_replicas. {_OWN}"),
        "opening_replicas": tables.whole("Opening", "opening_replicas."),
        "closing_replicas": tables.whole("Closing", "closing_replicas."),
        "inactive_replicas": tables.whole("Inactive", "inactive_replicas."),
        "error_replicas": tables.whole("In error", "error_replicas."),
        "primary_replicas": tables.whole("Primary", "primary_replicas."),
        "secondary_replicas": tables.whole("Secondary", "secondary_replicas."),
        "learning": tables.whole("Learning", "learning_replicas."),
        "splitting_replicas": tables.whole("Splitting", "splitting_replicas."),
    }


def _tenths(label: str, help_text: str) -> Any:
    return st.column_config.NumberColumn(label, format="%,.1f", help=help_text)


def _hundredths(label: str, help_text: str) -> Any:
    return st.column_config.NumberColumn(label, format="%,.2f", help=help_text)


_PROFILER: Final = "From the server's profiler; unknown if disabled."
_OWN: Final = "Counted by the server, possibly newer than the meta server's count."
_VIEWS: Final[dict[str, Callable[[], Columns]]] = {
    "overview": _overview,
    "nodes -d": _details,
    "nodes -u": _usage,
    "nodes -q": _queries,
    "latency": _latency,
    "server_stat": _server_stat,
}
