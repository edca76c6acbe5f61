"""The choice of an operation and its nodes, and the run in progress."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.actions.views import RunView
from core.errors import OpsError
from dashboard import services, state
from dashboard.app_pages.pegasus.maintenance import model
from dashboard.components import tables, words
from dashboard.components.activity import run_link
from dashboard.components.run_controls import controls, notice
from dashboard.presenters import runs as run_words
from dashboard.queries import runs
from dashboard.queries.pegasus.copies import measured_rate
from dashboard.queries.pegasus.plans import MaintenanceRequest

if TYPE_CHECKING:
    from dashboard.components.pegasus.page import PegasusPage

_LOOK_EVERY_S: Final = 2.0
_MOST_PX: Final = 320


def active_run(page: PegasusPage) -> RunView | None:
    """Return the run that has not ended, ``None``: there is none, or it cannot be read."""
    try:
        return runs.open_run(page.config, page.name)
    except OpsError as error:
        words.failed(error, what="Could not read the journal")
        return None


def draw_active_run(page: PegasusPage, run: RunView) -> None:
    """Draw the run in progress: its progress, its pending wait, and its controls."""
    with st.container(border=True):
        st.fragment(partial(_draw_run, page, run), run_every=state.ticking(_LOOK_EVERY_S))()


def _draw_run(page: PegasusPage, drawn: RunView) -> None:
    view = runs.find(page.config, drawn.run_id) or drawn
    if view.is_ended:
        st.rerun()
    now = services.now()
    st.markdown(f"**{words.plain(run_words.answer(view, now))}**")
    done = run_words.progress(view, now)
    st.progress(done.ratio, text=done.text)
    notice(page.config, view)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            f"Open run {view.run_id}",
            icon=":material/open_in_new:",
            on_click=run_link,
            args=(view.run_id,),
            key="_open_going",
        )
    controls(page.config, view)


def draw_nodes(page: PegasusPage) -> None:
    """Draw the nodes with their replicas."""
    rows = model.nodes_frame(page.facts)
    tables.table(
        rows,
        {
            "node": tables.words("Node"),
            "status": tables.words("Status"),
            "primaries": tables.whole("Primaries"),
            "replicas": tables.whole("Replicas"),
            "size_mb": tables.size("Size"),
            "free_mb": tables.size("Free"),
            "version": tables.words("Version"),
            "started": tables.words("Started"),
        },
        key="maintenance_nodes",
        alt="Nodes with replicas, dead nodes first",
        height=min(_MOST_PX, tables.height_of(len(rows))),
    )
    barred = model.barred_words(page.facts)
    if barred:
        st.caption(words.plain(barred))


def choose(page: PegasusPage) -> tuple[model.OperationDescription, MaintenanceRequest | None]:
    """Draw the choice of an operation, its nodes and its settings.

    Returns:
        The operation and the request; ``None`` until a node is selected.
    """
    labels = list(model.BY_LABEL)
    words.report_unknown("operation", state.unknown_in_address(state.PICK, labels), labels)
    label = st.segmented_control(
        "Operation",
        labels,
        default=model.OPERATIONS[0].label,
        required=True,
        key=state.PICK,
        bind="query-params",
        label_visibility="collapsed",
    )
    operation = model.BY_LABEL[label]
    st.caption(words.plain(operation.explained))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        nodes = _nodes(page, operation)
        rate = _rate(operation)
        limit = _max_under_replicated(operation)
        only = False
        if operation.name == "rebalance":
            only = st.toggle(
                "`only_move_primary`",
                key="only_move_primary",
                bind="query-params",
                help="During the run, primaries change roles and are not copied.",
            )
    if not nodes and operation.nodes in ("one", "some"):
        return operation, None
    return operation, MaintenanceRequest(
        stored=page.stored,
        operation=operation.name,
        nodes=nodes,
        rate_mb_per_s=rate,
        max_under_replicated=limit,
        only_move_primary=bool(only),
        exclusions=tuple(page.cluster.exclusions),
        copy_rate=measured_rate(page.config, page.name),
    )


def _nodes(page: PegasusPage, operation: model.OperationDescription) -> tuple[str, ...]:
    if operation.nodes == "none":
        return ()
    names = [node.name for node in page.facts.nodes]
    dead = {node.name for node in page.facts.nodes if not node.is_alive}
    words.report_unknown("node", state.unknown_in_address(state.NODE, names), names)
    chosen = st.multiselect(
        "Node" if operation.nodes == "one" else "Nodes (in order)",
        names,
        key=state.NODE,
        bind="query-params",
        format_func=lambda name: f"{name} (down)" if name in dead else str(name),
        placeholder="all alive nodes" if operation.nodes == "all" else "choose",
        select_all=operation.nodes == "all",
        wrap=True,
        width=560,
    )
    # the choice has no limit: other operations take many
    if operation.nodes == "one" and len(chosen) > 1:
        st.caption("One node at a time. Only the first is used.")
        return tuple(chosen[:1])
    return tuple(chosen)


def _rate(operation: model.OperationDescription) -> int | None:
    if operation.rate_mb_per_s is None:
        return None
    return int(
        st.number_input(
            "Copy rate (MB/s per disk, 0: no limit)",
            min_value=0,
            value=operation.rate_mb_per_s,
            key=f"rate_{operation.name}",
            bind="query-params",
            width=230,
            help="Limit of every replica server during the run; restored afterwards.",
        )
    )


def _max_under_replicated(operation: model.OperationDescription) -> int | None:
    if operation.max_under_replicated is None:
        return None
    return int(
        st.number_input(
            "Max under-replicated partitions",
            min_value=1,
            value=operation.max_under_replicated,
            key=f"under_replicated_{operation.name}",
            bind="query-params",
            width=230,
            help="Batch size of removed replicas; the next batch starts when all partitions are "
            "healthy.",
        )
    )
