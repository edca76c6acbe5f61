"""Parts of the page of Pegasus tables: the matrix of one table, partitions, lost ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.pegasus.outlook import Outlook
from core.units import pluralize
from dashboard import state
from dashboard.app_pages.pegasus.tables import model
from dashboard.app_pages.pegasus.tables.charts import partition_matrix, table_grid
from dashboard.components import choice, figures, tables, words
from dashboard.components.pegasus.run_history import past_of

if TYPE_CHECKING:
    import pandas as pd

    from dashboard.components.pegasus.page import PegasusPage

SHOWN: Final = "_table_shown"
"""In the session: the table that was drawn last."""

_GRID: Final = "grid"
_STRETCH: Final = "stretch"
_COLUMNS: Final = "columns"
_MAX_LOST: Final = 5
_ROWS: Final = (100, 500, 2_000)
_MOST_PX: Final = 420


def choose(table: str) -> None:
    """Open another table; for callbacks."""
    st.session_state[state.TABLE] = table
    st.session_state[state.PARTITION] = ""
    st.session_state.pop(_STRETCH, None)


def tables_by_node(page: PegasusPage) -> None:
    """Draw a measure by table and node."""
    measure = choice.segmented(
        "Measure",
        list(model.GRID_MEASURES),
        default="primaries",
        key=_GRID,
        format_func=lambda key: model.GRID_MEASURES[key][0],
    )
    data = model.grid(page.facts, measure)
    st.caption(model.grid_note(data))
    figures.chart(
        table_grid(data),
        key="pegasus_grid",
        alt=f"{data.label} by table and node; largest gap: {data.rows[0] if data.rows else 'none'}",
    )


def members_of(page: PegasusPage, table: str) -> None:
    """Draw the members of a table's partitions."""
    columns = page.facts.columns
    count = int(columns.partition_counts[columns.app_names.index(table)])
    stretches = model.windows(count)
    st.caption("P: primary, s: secondary; the last row shows missing replicas.")
    window = stretches[0]
    if len(stretches) > 1:
        window = (
            st.segmented_control(
                "Partitions",
                stretches,
                default=stretches[0],
                required=True,
                key=_STRETCH,
                label_visibility="collapsed",
            )
            or window
        )
    data = model.matrix(page.facts, table, window if window in stretches else stretches[0])
    figures.chart(partition_matrix(data), key="pegasus_matrix", alt=model.matrix_sentence(data))


def all_tables(page: PegasusPage) -> None:
    """Draw the list of tables with its filters; a click opens a table."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        view = st.segmented_control(
            "Columns",
            list(model.VIEWS),
            default="overview",
            required=True,
            key=state.VIEW,
            bind="query-params",
        )
        contains = st.text_input(
            "Name or ID",
            key=state.CONTAINS,
            bind="query-params",
            live=tables.TYPING_PAUSE,
            width=160,
        )
        only = st.selectbox("Filter", model.ONLY, key=state.ONLY, bind="query-params", width=120)
        sort = st.selectbox(
            "Order", list(model.SORTS), key=state.SORT, bind="query-params", width=120
        )
        limit = st.selectbox("Rows", _ROWS, key=state.SHOW, bind="query-params", width=90)
    table_page = model.table_page(
        model.tables_frame(page.facts),
        model.TableFilter(
            contains=contains or "",
            only=only or "all",
            sort=sort or "unhealthy",
            limit=int(limit or _ROWS[0]),
        ),
    )
    st.caption(
        words.coded(
            f"{model.VIEWS[view or 'overview']} {len(table_page.rows):,} of "
            f"{table_page.matching:,} "
            f"matching tables shown ({table_page.total:,} total)."
        )
    )
    tables.table(
        table_page.rows,
        _used(table_columns(view or "overview", choose), table_page.rows),
        key=f"pegasus_tables_{view}",
        alt="Tables that match the filter",
        height=min(_MOST_PX, tables.height_of(max(len(table_page.rows), 1))),
    )
    tables.downloads(table_page.rows, cluster=page.name, what="tables", moment=page.stored.taken_at)


def _used(columns: Columns, rows: pd.DataFrame) -> Columns:
    """Return the columns without the marks, where no table has one."""
    return columns if rows["marks"].any() else {k: v for k, v in columns.items() if k != "marks"}


def partition_list(page: PegasusPage, table: str) -> None:
    """Draw partitions, unhealthy first: of the chosen table, or the unhealthy ones of all."""
    facts = page.facts
    if table:
        index = state.text(state.PARTITION)
        rows = model.rows_of_table(facts.columns, table, index)
        rows = model.worst_first(facts, rows)
    else:
        rows = model.unhealthy_rows(facts)
    if not len(rows):
        st.caption(
            ":material/help: Unknown partition, or partition not read."
            if table
            else ":material/check_circle: None: no pending guardian actions."
        )
        _shell(table, [])
        return
    shown, found = model.partitions_frame(facts, rows)
    is_single = bool(table) and len(rows) == 1
    if len(rows) > len(shown):
        st.caption(f"{len(shown):,} of {len(rows):,} shown.")
    if (_chosen_columns() if table else "members") == "members":
        _partition_table(shown, of_one_table=bool(table))
    else:
        _operation_table(shown, table)
    tables.downloads(
        shown,
        cluster=page.name,
        what=f"partitions-of-{table}" if table else "unhealthy-partitions",
        moment=page.stored.taken_at,
    )
    if is_single:
        past_of(page, str(shown["gpid"][0]), key="partition")
    lost = model.lost(found)
    if lost:
        _lost(lost)
    _shell(table, [one.config.gpid for one in lost])


def _chosen_columns() -> str:
    view = st.segmented_control(
        "Columns of partitions",
        list(model.PARTITION_VIEWS),
        default="members",
        required=True,
        key=_COLUMNS,
        bind="query-params",
        label_visibility="collapsed",
    )
    st.caption(model.PARTITION_VIEWS[view or "members"])
    return view or "members"


def _operation_table(rows: pd.DataFrame, table: str) -> None:
    tables.table(
        rows,
        {
            "gpid": tables.words("Partition"),
            "primary": tables.words("Primary"),
            **operation_columns("size_mb"),
        },
        key="pegasus_operations",
        alt=f"Partitions of {table} with operations, unhealthy first",
        height=min(_MOST_PX, tables.height_of(len(rows))),
    )


def _partition_table(rows: pd.DataFrame, *, of_one_table: bool) -> None:
    columns = {
        "gpid": tables.words("Partition"),
        "table": tables.opener("Table", "_partition_table", choose, is_pinned=False),
        "state": tables.words("State", "Five states as in the meta server's metrics."),
        "guardian": tables.words(
            "Guardian", "Healthy, unhealthy or dead, as counted by the guardian."
        ),
        "replicas": tables.words("Replicas", "Actual of expected."),
        "next": tables.words("Next action", "Next guardian action; later: after its delay."),
        "primary": tables.words("Primary"),
        "secondaries": st.column_config.TextColumn("Secondaries", width=230),
        "last_drops": st.column_config.TextColumn(
            "Last drops", width=170, help="Removed nodes, latest last."
        ),
        "ballot": tables.whole("Ballot", "Increases with each configuration change."),
        "size_mb": tables.size("Size", "Primary only."),
        "read_rate": tables.whole("Reads/s", "Primary only."),
        "write_rate": tables.whole("Writes/s", "Primary only."),
    }
    if of_one_table:
        del columns["table"]
    is_reasoned = bool(rows["reason"].any())
    if not is_reasoned:
        del columns["next"]
    picked = tables.table(
        rows,
        columns,
        key="pegasus_partitions",
        alt="Partitions with state, members and next guardian action, unhealthy first",
        height=min(_MOST_PX, tables.height_of(len(rows))),
        missing="",
        selection="single-row" if is_reasoned else None,
    )
    if is_reasoned:
        row = rows.iloc[picked[0] if picked else 0]
        st.caption(words.plain(f"{row['gpid']}: {row['reason'] or 'no action.'}"))


def _lost(lost: Sequence[Outlook]) -> None:
    words.section(
        f"{pluralize(len(lost), 'partition')} without any replica",
        "Former members, recommended primary and reason.",
    )
    for one in lost[:_MAX_LOST]:
        with st.container(border=True):
            st.markdown(f"**{one.config.gpid}**")
            words.notes(model.lost_sentences(one))
            if one.dropped:
                tables.table(
                    model.dropped_frame(one.dropped),
                    {
                        "node": tables.words("Former member"),
                        "dropped_at": st.column_config.DatetimeColumn(
                            "Dropped (UTC)", format="YYYY-MM-DD HH:mm:ss"
                        ),
                        "alive": tables.words("Alive"),
                        "collected": tables.words("Collected", "Replica list was read."),
                        "ballot": tables.whole("Ballot"),
                        "committed": tables.whole("Committed", "Last committed decree."),
                        "prepared": tables.whole("Prepared", "Last prepared decree."),
                    },
                    key=f"lost_{one.config.gpid}",
                    alt=f"Former members of {one.config.gpid}",
                )
    if len(lost) > _MAX_LOST:
        st.caption(f"{len(lost) - _MAX_LOST:,} more in the list above.")


def _shell(table: str, lost: Sequence[str]) -> None:
    with st.expander("Pegasus shell", icon=":material/terminal:"):
        st.code("\n".join(model.shell_lines(table, lost)), language="bash")


Columns = dict[str, Any]


def table_columns(view: str, open_table: Callable[[str], None]) -> Columns:
    """Return the columns of one view; the name, which opens the table, is always first."""
    head = {
        "table": tables.opener("Table", f"_open_table_{view}", open_table),
        "app_id": tables.whole("ID"),
        "partitions": tables.whole("Partitions"),
        "replica_count": tables.whole("Replicas", "Expected per partition."),
    }
    return head | _VIEWS[view]()


def _overview() -> Columns:
    return {
        "worst": tables.words(
            "Worst state", "Worst of the five states and its number of partitions."
        ),
        "unhealthy": tables.whole("Unhealthy", "As in `ls -d`."),
        "unwritable": tables.whole(
            "Unwritable", "Partitions that accept no writes; not shown by `ls -d`."
        ),
        "primary_gap": tables.whole(
            "Primaries gap", "Max minus min primaries over the alive nodes."
        ),
        "reads": tables.whole("Reads/s", "Primaries only."),
        "writes": tables.whole("Writes/s", "Primaries only."),
        "size_all_mb": tables.size("Size", "All replicas."),
        "marks": tables.words("Actions"),
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
        "guardian_ill": tables.whole("Not healthy", "Balancing requires 0."),
        "primary_gap": tables.whole(
            "Primaries gap", "Max minus min primaries over the alive nodes."
        ),
    }


def _app_stat() -> Columns:
    return {
        "reads": tables.whole("Reads/s", "Sum of GET, MGET, BGET and SCAN."),
        "writes": tables.whole("Writes/s", "Sum of PUT, MPUT, DEL, MDEL, INCR, CAS and CAM."),
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
        size: tables.size("Files", "Primaries only: file_mb."),
        "sst_files": tables.whole("Files", "file_num."),
        "memtable_mb": tables.size("Memtables", "mem_tbl_mb."),
        "index_filter_mb": tables.size("Index", "Index and filter blocks: mem_idx_mb."),
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
    "expired_rate": ("Expired/s", "Reads of expired values: expire."),
    "filtered_rate": ("Filtered/s", "Values excluded by scan filters: filter."),
    "abnormal_rate": ("Abnormal/s", "Reads above the time or size limit: abnormal."),
    "delayed_rate": ("Delayed/s", "Writes delayed by throttling: delay."),
    "rejected_rate": ("Rejected/s", "Writes rejected by throttling: reject."),
}
_SINCE: Final = "Since the replicas were opened; unknown without lookups."
_RATIOS: Final = {
    "cache_hit_ratio": ("Cache hits", f"Block cache hit rate: hit_rate. {_SINCE}"),
    "seek_negative_ratio": (
        "Seeks avoided",
        f"Seeks avoided by the bloom filter: seek_n_rate. {_SINCE}",
    ),
    "point_negative_ratio": (
        "Point lookups avoided",
        f"Point lookups avoided by the bloom filter: point_n_rate. {_SINCE}",
    ),
    "point_fp_ratio": (
        "False positives",
        f"False positives of the bloom filter: point_fp_rate. {_SINCE}",
    ),
}


def _app_disk() -> Columns:
    return {
        "size_primary_mb": tables.size("Primaries", "disk_used_for_primary_replicas(MB)."),
        "size_all_mb": tables.size("All replicas", "disk_used_for_all_replicas(MB)."),
        "sizes_known": tables.words("Sizes known", "Replicas with known size."),
    }


_VIEWS: Final[dict[str, Callable[[], Columns]]] = {
    "overview": _overview,
    "ls -d": _ls,
    "five states": _states,
    "guardian": _guardian,
    "app_stat": _app_stat,
    "app_disk": _app_disk,
}
