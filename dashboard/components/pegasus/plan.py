"""A plan for a Pegasus cluster on a page: what to know, who changes, its steps, applying it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import streamlit as st

from core.pegasus.plan.preview import GUARDIANS_CHOICE, PegasusPreview, preview_pegasus
from core.plan.model import Plan
from core.units import format_deviation, format_mb, pluralize
from dashboard import state
from dashboard.components import action_bar, applying, tables, words
from dashboard.components.applying import ApplyDialog
from dashboard.presenters.applying import remarks
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
_DIALOG_PX: Final = 240
_STEP_LETTERS: Final = 84
_LINE_LETTERS: Final = 60
"""Of a row whose texts are longer than that."""
_LINES: Final = "_plan_lines"
_LINES_PX: Final = 320
_MAX_LINES: Final = 12
TABS: Final = ("Steps", "Nodes", "Partitions", "Notes")
"""Parts of a plan."""


@dataclass(frozen=True, eq=False)
class PegasusDialog(ApplyDialog):
    """A plan for a Pegasus cluster that is about to be applied.

    Attributes:
        sentence: What the page says the plan would do.
        preview: What each step changes.
        effects: The figures of the bar that opened it.
    """

    example: ClassVar[str] = "db3:34801 gets a new disk tonight"

    sentence: str
    preview: PegasusPreview
    effects: Sequence[action_bar.PlanFigure]

    def draw_effects(self) -> None:
        """Draw the sentence, the figures of the bar, and the steps."""
        st.markdown(words.plain(self.sentence))
        with st.container(horizontal=True, gap="medium", key="dialog_effects"):
            action_bar.draw_effects(self.effects)
        rows = presenter.steps_frame(self.preview)
        columns = {
            "no": st.column_config.NumberColumn("", format="%d", width=40),
            "sort": st.column_config.TextColumn("Kind", width=100),
            "what": st.column_config.TextColumn("Step", width=430),
        }
        if rows["copied_mb"].fillna(1).any():
            columns["copied_mb"] = tables.copied()
        tables.table(
            rows,
            columns,
            key="_apply_steps",
            alt="Steps of the plan",
            height=min(_DIALOG_PX, tables.height_of(len(rows))),
        )
        restored = presenter.restored_words(self.preview)
        if restored:
            st.caption(words.plain(restored))


def in_dialog(made: Plan) -> Plan:
    """Return the plan in the open dialog, else ``made``: the page behind shows the same."""
    dialog = state.open_dialog()
    return dialog.plan if isinstance(dialog, PegasusDialog) else made


def draw_remarks(plan: Plan, severities: Collection[str] = tuple(_ICONS)) -> None:
    """Render the remarks about the plan, worst first."""
    show = {"error": st.error, "warning": st.warning, "info": st.info}
    for severity, sentences in remarks(plan).items():
        if severity in severities:
            mark = "- " if len(sentences) > 1 else ""
            show[severity](
                "\n".join(mark + words.coded(sentence) for sentence in sentences),
                icon=_ICONS[severity],
            )


def draw_plan(page: PegasusPage, plan: Plan, *, key: str, command: str) -> None:
    """Draw a plan: its effects, its remarks, its parts in tabs, and the action bar.

    Args:
        key: Of the bar.
        command: Of the command line, which prepares the same plan.
    """
    preview = preview_pegasus(page.snapshot, plan)
    st.markdown(words.plain(presenter.answer(plan, preview)))
    draw_remarks(plan, ("error", "warning"))
    if not plan.steps:
        draw_remarks(plan, ("info",))
        return
    steps, nodes, partitions, notes = st.tabs(TABS, key=f"_{key}_plan", on_change="rerun")
    if steps.open:
        with steps:
            draw_steps(preview)
            st.caption(words.plain(presenter.restored_words(preview)))
    if nodes.open:
        with nodes:
            draw_nodes(plan, preview)
    if partitions.open:
        with partitions:
            draw_partitions(preview)
    if notes.open:
        with notes:
            draw_remarks(plan, ("info",))
    draw_bar(page, plan, preview, key=key, command=command)


def draw_nodes(plan: Plan, preview: PegasusPreview) -> None:
    """Show the nodes that lose or gain something."""
    rows = presenter.nodes_frame(preview)
    if rows.empty or plan.by_severity("error"):  # nothing comes after a refusal
        st.caption("No changes to nodes.")
        return
    columns = {
        "node": tables.words("Node"),
        "primaries_before": tables.whole("Primaries"),
        "primaries_after": tables.whole("after"),
        "replicas_before": tables.whole("Replicas"),
        "replicas_after": tables.whole(
            "estimate, after" if preview.is_guardians_choice else "after ",
            GUARDIANS_CHOICE if preview.is_guardians_choice else "",
        ),
        "received_mb": tables.size("Received"),
        "free_before_mb": tables.size("Free"),
        "free_after_mb": tables.size("Free after", "Copies precede deletions."),
    }
    tables.table(
        rows,
        columns,
        key="plan_nodes",
        alt="Affected nodes, before and after",
        height=min(_MOST_ROWS_PX, tables.height_of(len(rows))),
    )
    if preview.is_guardians_choice:
        st.caption(words.plain(GUARDIANS_CHOICE))


def draw_steps(preview: PegasusPreview) -> None:
    """Show every step, in its order, with the shell line that does it by hand."""
    rows = presenter.steps_frame(preview)
    columns = {
        "no": st.column_config.NumberColumn("", format="%d", width=40, pinned=True),
        "sort": st.column_config.TextColumn("Kind", width=110),
        "what": st.column_config.TextColumn("Step", width=560),
    }
    if rows["note"].any():
        columns["note"] = st.column_config.TextColumn("Manual action", width=320)
    if rows["copied_mb"].fillna(1).any():
        columns["copied_mb"] = tables.copied()
    columns["by_hand"] = st.column_config.TextColumn("Shell command", width=420)
    is_long = (rows["what"].str.len() > _STEP_LETTERS) | (rows["by_hand"].str.len() > _LINE_LETTERS)
    row_px = tables.WRAPPED_ROW_PX if is_long.any() else tables.ROW_PX
    tables.table(
        rows,
        columns,
        key="plan_steps",
        alt="Steps of the plan",
        height=min(_MOST_ROWS_PX, tables.height_of(len(rows), row_px)),
        row_px=row_px,
    )


def draw_partitions(preview: PegasusPreview) -> None:
    """Show the partitions of every step, before and after."""
    rows = presenter.partitions_frame(preview)
    if rows.empty:
        st.caption("No partition-level steps.")
        return
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
        alt="Affected partitions, before and after",
        height=min(_MOST_ROWS_PX, tables.height_of(len(rows))),
    )


def effects_of(
    page: PegasusPage, plan: Plan, preview: PegasusPreview, part: str = ""
) -> list[action_bar.PlanFigure]:
    """Return the effect of a plan in at most four figures.

    Args:
        part: Which part of all changes the plan has: ``round 1 of 9``; empty: they are all.
    """
    moved = sum(step.step.moved_primaries for step in preview.steps)
    copied = sum(step.step.copied_replicas for step in preview.steps)
    taken = sum(step.step.removed_replicas for step in preview.steps)
    restored = len(preview.restored)
    found = [
        action_bar.PlanFigure(
            label="Plan steps",
            value=f"{len(plan.steps):,}",
            note=part or (f"{pluralize(restored, 'setting')} restored" if restored else "one run"),
        )
    ]
    if moved:
        found.append(
            action_bar.PlanFigure(
                label="Primaries moved", value=f"{moved:,}", note="no data copied"
            )
        )
    if copied or taken:
        found.append(
            action_bar.PlanFigure(
                label="Replicas copied" if copied else "Replicas removed",
                value=f"{copied or taken:,}",
                note=f"{format_mb(preview.copied_mb)} copied",
            )
        )
    if plan.expected.nodes and not plan.by_severity("error"):
        found.append(deviation_effect(*presenter.deviations(page.facts, preview)))
    return found


def deviation_effect(
    before: float | None, after: float | None, note: str = "max deviation"
) -> action_bar.PlanFigure:
    """Return the max deviation of primaries, now and after."""
    return action_bar.PlanFigure(
        label="Primaries",
        value=f"{format_deviation(before)} → {format_deviation(after)}",
        note=note,
    )


def draw_bar(
    page: PegasusPage,
    plan: Plan,
    preview: PegasusPreview,
    *,
    key: str,
    effects: Sequence[action_bar.PlanFigure] = (),
    label: str = "",
    command: str = "",
    part: str = "",
) -> None:
    """Draw the action bar of a plan, and the dialogs that it opens.

    Args:
        preview: What it would do.
        key: Of the bar.
        effects: Its figures; empty: by :func:`effects_of`.
        label: Of the button that applies it; empty: ``Apply plan…``.
        command: Of the command line, which prepares the same plan; empty: there is none.
        part: As of :func:`effects_of`.
    """
    effects = effects or effects_of(page, plan, preview, part)
    dialog = PegasusDialog(
        config=page.config,
        cluster=page.cluster,
        plan=plan,
        is_past=page.is_past,
        sentence=presenter.answer(plan, preview),
        preview=preview,
        effects=effects,
    )
    apply = applying.apply_action(dialog)
    action_bar.show(
        effects,
        [
            action_bar.Button(
                label="Shell lines", icon=":material/terminal:", on_click=_show_lines, key="_lines"
            ),
            replace(apply, label=label) if label else apply,
        ],
        key=key,
    )
    applying.draw_dialog()
    if st.session_state.get(_LINES) == state.page():
        st.dialog("Shell lines", width="large", on_dismiss=_hide_lines)(
            partial(_draw_lines, page, dialog, preview, command)
        )()


def _show_lines() -> None:
    st.session_state[_LINES] = state.page()
    state.set_dialog_open(is_open=True)


def _hide_lines() -> None:
    st.session_state.pop(_LINES, None)
    state.set_dialog_open(is_open=False)


def _draw_lines(
    page: PegasusPage, dialog: PegasusDialog, preview: PegasusPreview, command: str
) -> None:
    """Draw the lines that prepare and apply the same plan, then those of Pegasus' own shell."""
    if command:
        st.code(command, language="bash", wrap_lines=True)
    name = applying.draw_download(dialog)
    line = f'trimtab apply {name} --reason "..."{config_option(page.config)}'
    st.code(line, language="bash", wrap_lines=True)
    st.caption("Pegasus shell (without checks and journal):")
    lines = presenter.lines_by_hand(preview)
    is_long = lines.count("\n") > _MAX_LINES
    st.code(lines, language="bash", height=_LINES_PX if is_long else "content")
