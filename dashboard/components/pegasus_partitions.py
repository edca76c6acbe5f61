"""Parts of the page of Pegasus tables: the matrix of one table, partitions, lost ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.pegasus.outlook import Outlook
from core.units import counted
from dashboard import state
from dashboard.charts.pegasus_grid import partition_matrix, table_grid
from dashboard.components import choice, figures, tables, words
from dashboard.components.pegasus_past import past_of
from dashboard.components.pegasus_table_columns import operation_columns
from dashboard.presenters import pegasus_partitions as presenter
from dashboard.presenters import pegasus_tables

if TYPE_CHECKING:
    import pandas as pd

    from dashboard.components.frame import PegasusPage

_GRID: Final = "grid"
_STRETCH: Final = "stretch"
_COLUMNS: Final = "columns"
_MAX_LOST: Final = 5
_REASON_PX: Final = tables.WRAPPED_PX
"""A row with lines of a reason: lower ones are not wrapped."""


def choose(table: str) -> None:
    """Open another table; for callbacks."""
    st.session_state[state.TABLE] = table
    st.session_state[state.PARTITION] = ""
    st.session_state.pop(_STRETCH, None)


def tables_by_node(page: PegasusPage) -> None:
    """Draw a measure by table and node."""
    words.section("Tables by node")
    measure = choice.segmented(
        "Measure",
        list(pegasus_tables.GRID_MEASURES),
        default="primaries",
        key=_GRID,
        say=lambda key: pegasus_tables.GRID_MEASURES[key][0],
    )
    data = pegasus_tables.grid(page.facts, measure)
    st.caption(pegasus_tables.grid_note(data))
    figures.chart(
        table_grid(data),
        key="pegasus_grid",
        alt=f"{data.label} by table and node; most uneven: {data.rows[0] if data.rows else 'none'}",
    )


def members_of(page: PegasusPage, table: str) -> None:
    """Draw who holds which partition of a table."""
    columns = page.facts.columns
    count = int(columns.partition_counts[columns.app_names.index(table)])
    stretches = presenter.windows(count)
    words.section(
        f"Members of {table}", "P primary, s secondary; a last row, if any, what is missing."
    )
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
    data = presenter.matrix(page.facts, table, window if window in stretches else stretches[0])
    figures.chart(partition_matrix(data), key="pegasus_matrix", alt=presenter.matrix_sentence(data))


def partition_list(page: PegasusPage, table: str) -> None:
    """Draw partitions, unhealthy first: of the chosen table, or the unhealthy ones of all."""
    facts = page.facts
    if table:
        index = state.text(state.PARTITION)
        rows = presenter.rows_of_table(facts.columns, table, index)
        rows = presenter.worst_first(facts, rows)
        head = f"Partition {index} of {table}" if index else f"Partitions of {table}"
        note = ""
    else:
        rows = presenter.unhealthy_rows(facts)
        head, note = "Partitions that are not healthy", "Of every table, the worst first."
    words.section(head, note)
    if not len(rows):
        st.caption(
            ":material/help: There is no such partition, or it was not read."
            if table
            else ":material/check_circle: None: the guardian has nothing to do."
        )
        _shell(table, [])
        return
    shown, found = presenter.partitions_frame(facts, rows)
    is_single = bool(table) and len(rows) == 1
    if len(rows) > len(shown):
        st.caption(f"{len(shown):,} of {len(rows):,} are shown.")
    if (_chosen_columns() if table else "members") == "members":
        _partition_table(shown, of_one_table=bool(table))
    else:
        _operation_table(shown, table)
    tables.downloads(
        shown,
        cluster=page.name,
        what=f"partitions-of-{table}" if table else "unhealthy-partitions",
        moment=page.shelved.taken_at,
    )
    if is_single:
        past_of(page, str(shown["gpid"][0]), key="partition")
    lost = presenter.lost(found)
    if lost:
        _lost(lost)
    _shell(table, [one.config.gpid for one in lost])


def _chosen_columns() -> str:
    view = st.segmented_control(
        "Columns of partitions",
        list(presenter.VIEWS),
        default="members",
        required=True,
        key=_COLUMNS,
        bind="query-params",
        label_visibility="collapsed",
    )
    st.caption(presenter.VIEWS[view or "members"])
    return view or "members"


def _operation_table(rows: pd.DataFrame, table: str) -> None:
    tables.table(
        rows,
        {
            "gpid": tables.words("Partition", pinned=True),
            "primary": tables.words("Primary"),
            **operation_columns("size_mb"),
        },
        key="pegasus_operations",
        alt=f"Partitions of {table} with their operations, unhealthy first",
        height=min(520, tables.height_of(len(rows))),
    )


def _partition_table(rows: pd.DataFrame, *, of_one_table: bool) -> None:
    columns = {
        "gpid": tables.words("Partition", pinned=True),
        "table": tables.opener("Table", "_partition_table", choose, is_pinned=False),
        "state": tables.words("State", "Counting of the meta server's metrics: five states."),
        "guardian": tables.words("Guardian", "Healthy, ill or dead: what the guardian calls."),
        "replicas": tables.words("Replicas", "Held of wanted."),
        "next": tables.words("Next cure", "What the guardian sends next; later: after its wait."),
        "reason": st.column_config.TextColumn("Why", width=430),
        "primary": tables.words("Primary"),
        "secondaries": st.column_config.TextColumn("Secondaries", width=230),
        "last_drops": st.column_config.TextColumn(
            "Last drops", width=170, help="Nodes that left, the latest last."
        ),
        "ballot": tables.whole("Ballot", "Grows with every change of the configuration."),
        "size_mb": tables.whole("Size MB", "Of the primary."),
        "read_rate": tables.whole("Reads/s", "Of the primary."),
        "write_rate": tables.whole("Writes/s", "Of the primary."),
    }
    if of_one_table:
        del columns["table"]
    row_px = _REASON_PX
    if not rows["reason"].any():
        del columns["next"], columns["reason"]
        row_px = tables.ROW_PX
    tables.grid(
        rows,
        hide_index=True,
        column_order=list(columns),
        column_config=columns,
        key="pegasus_partitions",
        alt="Partitions with state, members and the guardian's next cure, unhealthy first",
        height=min(520, tables.height_of(len(rows), row_px)),
        row_height=row_px,
        placeholder="",
    )


def _lost(lost: Sequence[Outlook]) -> None:
    words.section(
        f"{counted(len(lost), 'partition')} without any replica",
        "Who held it, who should lead it again, and why.",
    )
    for one in lost[:_MAX_LOST]:
        with st.container(border=True):
            st.markdown(f"**{one.config.gpid}**")
            words.notes(presenter.lost_sentences(one))
            if one.dropped:
                tables.table(
                    presenter.dropped_frame(one.dropped),
                    {
                        "node": tables.words("Former member"),
                        "dropped_at": st.column_config.DatetimeColumn(
                            "Dropped (UTC)", format="YYYY-MM-DD HH:mm:ss"
                        ),
                        "alive": tables.words("Alive"),
                        "collected": tables.words("Collected", "It reported its replicas."),
                        "ballot": tables.whole("Ballot"),
                        "committed": tables.whole("Committed", "Last committed decree."),
                        "prepared": tables.whole("Prepared", "Last prepared decree."),
                    },
                    key=f"lost_{one.config.gpid}",
                    alt=f"Former members of {one.config.gpid}",
                )
    if len(lost) > _MAX_LOST:
        st.caption(f"{len(lost) - _MAX_LOST:,} more: see the reasons in the list above.")


def _shell(table: str, lost: Sequence[str]) -> None:
    with st.expander("The same in Pegasus' shell", icon=":material/terminal:"):
        st.code("\n".join(presenter.shell_lines(table, lost)), language="bash")
