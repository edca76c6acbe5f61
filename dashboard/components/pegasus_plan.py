"""A plan for a Pegasus cluster on a page: what to know, who changes, its steps, applying it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.plan.codec import dump_plan
from core.plan.model import Plan
from dashboard import state
from dashboard.cli_config import words_of
from dashboard.components import tables, words
from dashboard.components.applying import Ask, apply_button
from dashboard.presenters import pegasus_plan as presenter
from dashboard.presenters.applying import expiry_words
from dashboard.presenters.naming import file_name
from dashboard.presenters.unload import remarks

if TYPE_CHECKING:
    from dashboard.components.frame import PegasusPage

_ICONS: Final = {
    "error": ":material/error:",
    "warning": ":material/warning:",
    "info": ":material/info:",
}
_MOST_ROWS_PX: Final = 420


def in_dialog(made: Plan) -> Plan:
    """Return what an open dialog is about, else ``made``: behind the dialog stands the same."""
    ask = state.asking()
    return ask.plan if isinstance(ask, Ask) and ask.preview is None else made


def draw_remarks(plan: Plan) -> None:
    """Say what there is to know about the plan, worst first."""
    show = {"error": st.error, "warning": st.warning, "info": st.info}
    for severity, sentences in remarks(plan).items():
        mark = "- " if len(sentences) > 1 else ""
        show[severity](
            "\n".join(mark + words.plain(one) for one in sentences), icon=_ICONS[severity]
        )


def draw_nodes(plan: Plan) -> None:
    """Show the nodes that lose or gain a role."""
    rows = presenter.nodes_frame(plan)
    if rows.empty:
        return
    tables.table(
        rows,
        {
            "node": tables.words("Node", pinned=True),
            "primaries_before": tables.whole("Primaries"),
            "primaries_after": tables.whole("after"),
            "replicas_before": tables.whole("Replicas"),
            "replicas_after": tables.whole("after "),
        },
        key="plan_nodes",
        alt="Nodes that the plan touches, before and after",
        height=min(_MOST_ROWS_PX, tables.height_of(len(rows))),
    )


def draw_steps(plan: Plan) -> None:
    """Show every step, in its order, with the shell line that does it by hand."""
    rows = presenter.steps_frame(plan)
    columns = {
        "no": st.column_config.NumberColumn("", format="%d", width=40, pinned=True),
        "sort": st.column_config.TextColumn("", width=110),
        "what": st.column_config.TextColumn("What", width=560),
        "copied_mb": tables.whole("Copied MB"),
        "by_hand": st.column_config.TextColumn("The same by hand", width=420),
    }
    if not rows["copied_mb"].fillna(1).any():
        columns.pop("copied_mb")
    tables.table(
        rows,
        columns,
        key="plan_steps",
        alt="Steps of the plan",
        height=min(_MOST_ROWS_PX, tables.height_of(len(rows))),
    )


def draw_apply(page: PegasusPage, plan: Plan, *, sentence: str) -> None:
    """Draw what a person may do with the plan; ``sentence`` says what it would do."""
    words.section(
        "Apply it", "A worker carries out exactly this plan, step by step, and checks each."
    )
    name = file_name(page.name, f"plan-{plan.short_id}", plan.created_at, "json")
    with st.container(horizontal=True, vertical_alignment="center"):
        apply_button(
            Ask(
                config=page.config,
                cluster=page.cluster,
                plan=plan,
                preview=None,
                is_past=page.is_past,
                is_shedding=False,
                sentence=sentence,
            )
        )
        st.download_button(
            "Download the plan",
            data=dump_plan(plan),
            file_name=name,
            mime="application/json",
            icon=":material/download:",
            on_click="ignore",
        )
    st.caption(expiry_words(plan, page.now))
    with st.expander("Do it by hand", icon=":material/terminal:"):
        st.caption("The first line applies the downloaded plan and keeps a journal.")
        line = f'trimtab apply {name} --cluster {page.name} --reason "..."{words_of(page.config)}'
        st.code(line, language="bash")
        st.caption("In Pegasus' own shell; nobody checks or remembers those:")
        st.code(presenter.lines_by_hand(plan), language="bash")
