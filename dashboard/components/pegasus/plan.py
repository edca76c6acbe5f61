"""A plan for a Pegasus cluster on a page: what to know, who changes, its steps, applying it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import streamlit as st

from core.pegasus.plan.preview import GUARDIANS_CHOICE, PegasusPreview, preview_pegasus
from core.plan.model import Plan
from dashboard import state
from dashboard.components import tables, words
from dashboard.components.applying import ApplyDialog, draw_choices
from dashboard.presenters.applying import remarks, step_lines
from dashboard.presenters.pegasus import plan as presenter
from dashboard.services import config_option

if TYPE_CHECKING:
    from dashboard.components.pegasus.page import PegasusPage

_ICONS: Final = {
    "error": ":material/error:",
    "warning": ":material/warning:",
    "info": ":material/info:",
}
_MOST_ROWS_PX: Final = 420


@dataclass(frozen=True, eq=False)
class PegasusDialog(ApplyDialog):
    """A plan for a Pegasus cluster that is about to be applied.

    Attributes:
        sentence: What the page says the plan would do.
    """

    example: ClassVar[str] = "db3:34801 gets a new disk tonight"

    sentence: str

    def draw_effects(self) -> None:
        """Draw the sentence, and the steps by kind."""
        st.markdown(words.plain(self.sentence))
        words.notes(step_lines(self.plan))


def in_dialog(made: Plan) -> Plan:
    """Return what an open dialog is about, else ``made``: behind the dialog stands the same."""
    dialog = state.open_dialog()
    return dialog.plan if isinstance(dialog, PegasusDialog) else made


def draw_remarks(plan: Plan) -> None:
    """Say what there is to know about the plan, worst first."""
    show = {"error": st.error, "warning": st.warning, "info": st.info}
    for severity, sentences in remarks(plan).items():
        mark = "- " if len(sentences) > 1 else ""
        show[severity](
            "\n".join(mark + words.coded(one) for one in sentences), icon=_ICONS[severity]
        )


def draw_plan(page: PegasusPage, plan: Plan) -> None:
    """Show a plan whole: what it does, what to know, nodes, steps, and what may be done with it."""
    preview = preview_pegasus(page.snapshot, plan)
    sentence = presenter.answer(plan, preview)
    st.markdown(f"**{words.plain(sentence)}**")
    draw_remarks(plan)
    if not plan.steps:
        return
    st.caption(words.plain(presenter.restored_words(preview)))
    draw_steps(preview)
    if not plan.by_severity("error"):  # nothing comes after a refusal
        draw_nodes(preview)
        draw_partitions(preview)
    draw_apply(page, plan, preview)


def draw_nodes(preview: PegasusPreview) -> None:
    """Show the nodes that lose or gain something."""
    rows = presenter.nodes_frame(preview)
    if rows.empty:
        return
    columns = {
        "node": tables.words("Node", pinned=True),
        "primaries_before": tables.whole("Primaries"),
        "primaries_after": tables.whole("after"),
        "replicas_before": tables.whole("Replicas"),
        "replicas_after": tables.whole(
            "about, after" if preview.is_guardians_choice else "after ",
            GUARDIANS_CHOICE if preview.is_guardians_choice else "",
        ),
        "received_mb": tables.whole("Received MB"),
        "free_before_mb": tables.whole("Free MB"),
        "free_after_mb": tables.whole("after  ", "Copies come before deletions."),
    }
    tables.table(
        rows,
        columns,
        key="plan_nodes",
        alt="Nodes that the plan touches, before and after",
        height=min(_MOST_ROWS_PX, tables.height_of(len(rows))),
    )
    if preview.is_guardians_choice:
        st.caption(words.plain(GUARDIANS_CHOICE))


def draw_steps(preview: PegasusPreview) -> None:
    """Show every step, in its order, with the shell line that does it by hand."""
    rows = presenter.steps_frame(preview)
    columns = {
        "no": st.column_config.NumberColumn("", format="%d", width=40, pinned=True),
        "sort": st.column_config.TextColumn("", width=110),
        "what": st.column_config.TextColumn("What", width=560),
    }
    if rows["note"].any():
        columns["note"] = st.column_config.TextColumn("What you do", width=320)
    if rows["copied_mb"].fillna(1).any():
        columns["copied_mb"] = tables.whole("Copied MB")
    columns["by_hand"] = st.column_config.TextColumn("The same by hand", width=420)
    tables.table(
        rows,
        columns,
        key="plan_steps",
        alt="Steps of the plan",
        height=min(_MOST_ROWS_PX, tables.height_of(len(rows))),
    )


def draw_partitions(preview: PegasusPreview) -> None:
    """Offer the partitions of every step, before and after."""
    rows = presenter.partitions_frame(preview)
    if rows.empty:
        return
    with st.expander(f"Partitions: {len(rows):,}", icon=":material/view_list:"):
        columns = {
            "no": st.column_config.NumberColumn("Step", format="%d", width=60),
            "partition": tables.words("Partition"),
            "table": tables.words("Table"),
            "primary_before": tables.words("Primary"),
            "primary_after": tables.words("after"),
            "secondaries_before": tables.words("Secondaries"),
            "secondaries_after": tables.words("after "),
            "ballot_after": st.column_config.NumberColumn("Ballot after", format="%d"),
        }
        tables.table(
            rows,
            columns,
            key="plan_partitions",
            alt="Partitions that the plan changes, before and after",
            height=min(_MOST_ROWS_PX, tables.height_of(len(rows))),
        )


def draw_apply(page: PegasusPage, plan: Plan, preview: PegasusPreview) -> None:
    """Draw what a person may do with the plan."""
    name = draw_choices(
        PegasusDialog(
            config=page.config,
            cluster=page.cluster,
            plan=plan,
            is_past=page.is_past,
            sentence=presenter.answer(plan, preview),
        ),
        page.now,
    )
    with st.expander("Do it by hand", icon=":material/terminal:"):
        st.caption("The first line applies the downloaded plan and keeps a journal.")
        line = (
            f'trimtab apply {name} --cluster {page.name} --reason "..."{config_option(page.config)}'
        )
        st.code(line, language="bash")
        st.caption("In Pegasus' own shell; these are not checked or recorded:")
        st.code(presenter.lines_by_hand(preview), language="bash")
