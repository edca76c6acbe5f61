"""The moves of a candidate: nodes and disks before and after, tables, and the list of moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import pandas as pd
import streamlit as st

from core.pegasus.even.cost import copy_cost
from core.pegasus.view import ClusterView
from core.plan.options import CopyRate
from dashboard import state
from dashboard.app_pages.pegasus.balance import changes
from dashboard.charts.bars import before_after_bars
from dashboard.components import figures, tables, words
from dashboard.legible import option
from dashboard.presenters.pegasus import copies
from dashboard.queries.pegasus import balance as queries

if TYPE_CHECKING:
    from dashboard.components.pegasus.page import PegasusPage

ALL_TABLES: Final = "all tables"
_MOST_PX: Final = 320
_TAKEN: Final = "_balance_taken"


def quantity_choice() -> changes.By:
    """Draw the choice of the charted quantity, and return it."""
    return st.segmented_control(
        "Quantity",
        list(changes.QUANTITIES),
        default="primaries",
        required=True,
        key=state.QUANTITY,
        bind="query-params",
        label_visibility="collapsed",
    )


def draw_bars(
    before: ClusterView, after: ClusterView, basis: queries.BalanceBasis, by: changes.By
) -> None:
    """Draw nodes, or their disks, before and after."""
    data = changes.bars(before, after, basis, by)
    if len(before.nodes) > changes.MAX_BARS and by != "disks":
        st.caption(f"{changes.MAX_BARS} of {len(before.nodes):,} nodes, largest changes first.")
    figures.chart(
        before_after_bars(data),
        key="balance_before_after",
        alt=f"{by} by node before and after the changes",
    )


def round_choice(rounds: int) -> int:
    """Draw the choice of the number of rounds; return it, 1 or more."""
    if rounds <= 1:
        return rounds
    return int(
        st.number_input(
            f"Rounds, 1 to {rounds:,}",
            min_value=1,
            max_value=rounds,
            value=1,
            key=state.ROUND,
            bind="query-params",
            width=170,
        )
    )


def table_choice(view: ClusterView, listed: changes.PlanList) -> str:
    """Draw the choice of the table; return its name, empty for every table."""
    tables_ = {int(view.table_of_row[plan.row]) for plan in listed.plans}
    names = sorted(view.app_names[table] for table in tables_)
    named = state.text(state.TABLE)
    if named and named not in names:
        st.session_state.pop(state.TABLE, None)
        st.query_params.pop(state.TABLE, None)
    chosen = st.selectbox(
        "Table",
        [ALL_TABLES, *names],
        format_func=option,
        key=state.TABLE,
        bind="query-params",
        width=240,
        label_visibility="collapsed",
    )
    return "" if chosen in (None, ALL_TABLES) else str(chosen)


def choose_moves(
    page: PegasusPage, view: ClusterView, basis: queries.BalanceBasis, listed: changes.PlanList
) -> None:
    """Draw the moves with ticks; :func:`taken` returns the ticked ones, also behind another tab."""
    rows = changes.moves_frame(view, basis, listed)
    if len(listed.plans) > len(rows):
        st.caption(f"First {len(rows):,} of {len(listed.plans):,} shown.")
    columns: dict[str, Any] = {
        "partition": tables.words("Partition"),
        "table": tables.words("Table"),
        "kind": tables.words("Change"),
        "from": tables.words("From"),
        "to": tables.words("To"),
        "size_mb": tables.copied(),
        "round": tables.whole("Round"),
    }
    in_units, configured = tables.sized(rows, columns)
    event = tables.grid(
        in_units,
        hide_index=True,
        column_order=list(configured),
        column_config=configured,
        key="_balance_moves",
        on_select="rerun",
        selection_mode="multi-row",
        alt="Changes of the selected rounds",
        height=min(_MOST_PX, tables.height_of(len(rows))),
        row_height=tables.ROW_PX,
        placeholder="unknown",
    )
    ticked = cast("list[int]", cast("dict[str, Any]", event)["selection"]["rows"])
    state.note_ticked(is_any=bool(ticked))
    st.session_state[_TAKEN] = (listed, sorted(ticked))
    tables.downloads(
        rows, cluster=page.name, what="balance", moment=page.snapshot.manifest.taken_at
    )


def taken(listed: changes.PlanList) -> changes.PlanList:
    """Return the moves that are ticked, all where none is."""
    of, places = st.session_state.get(_TAKEN, (None, []))
    return listed.at(places) if places and of == listed else listed


def draw_reasons(view: ClusterView, listed: changes.PlanList, *, is_policy: bool) -> None:
    """Draw the reasons for the first changes: counts of both nodes, and the fair share."""
    rows = changes.reasons_frame(view, listed, is_policy=is_policy)
    if rows.empty:
        return
    columns = {
        "partition": tables.words("Partition"),
        "table": tables.words("Table"),
        "kind": tables.words("Change"),
        "from": tables.words("From"),
        "source_count": tables.whole("Source count", "Primaries or replicas before the change."),
        "to": tables.words("To"),
        "target_count": tables.whole(
            "Destination count", "Primaries or replicas before the change."
        ),
        "share": st.column_config.TextColumn(
            "Mean per node",
            help="Mean number of primaries of the table per node.",
            alignment="right",
        ),
        "because": tables.words("Reason"),
    }
    if not rows["share"].any():
        del columns["share"]
    tables.table(
        rows,
        columns,
        key="balance_reasons",
        alt="Changes with the counts of source and destination",
        height=min(_MOST_PX, tables.height_of(len(rows))),
    )


def draw_tables(
    before: ClusterView, after: ClusterView, basis: queries.BalanceBasis, listed: changes.PlanList
) -> None:
    """Draw the tables that change, with the least and the most of any node."""
    rows: pd.DataFrame = changes.tables_frame(before, after, basis, listed)
    tables.table(
        rows,
        {
            "table": tables.words("Table"),
            "changes": tables.whole("Changes"),
            "copied_mb": tables.copied(),
            "primary_before": tables.words("Primaries per node", "Min to max over the nodes."),
            "primary_after": tables.words("after"),
            "replica_before": tables.words("Replicas per node", "Min to max over the nodes."),
            "replica_after": tables.words("after "),
        },
        key="balance_tables",
        alt="Changed tables with primaries and replicas per node",
        height=min(_MOST_PX, tables.height_of(len(rows))),
    )


def draw_cost(
    before: ClusterView, basis: queries.BalanceBasis, listed: changes.PlanList, rate: CopyRate
) -> None:
    """Render the data volume, duration and disk space of the chosen changes."""
    cost = copy_cost(before, listed.plans, basis.sizes_mb)
    if not cost.copy_count:
        st.caption("Role changes only; no data is copied.")
        return
    took = copies.time_words(cost, basis, rate, is_in_turn=True)
    copied = copies.copied_words(cost.copy_count, cost.copy_mb, cost.unknown_count)
    st.caption(words.plain(f"{copied}: {took} at {rate.describe()}."))
    lacking, tightest = changes.headroom(before, basis, cost.received_mb)
    if lacking:
        st.warning(
            "\n".join(f"- {words.plain(one)}" for one in lacking), title="Not enough disk space"
        )
    elif tightest:
        st.caption(words.plain(tightest))
