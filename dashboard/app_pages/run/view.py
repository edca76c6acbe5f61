"""A run as it goes: figures, controls, steps, the outcome, and its journal in tabs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.actions.describe import describe_forged
from core.actions.external_changes import FURTHER
from core.actions.undo import not_brought_back
from core.actions.views import RunView
from core.plan.describe import things
from dashboard import services, state
from dashboard.components import figures, frame, tables, words
from dashboard.components.activity import journal_table, run_link
from dashboard.components.run_controls import controls, next_moves, notice
from dashboard.components.systems import system_of_run
from dashboard.presenters import runs as presenter
from dashboard.presenters.journal import entries_frame
from dashboard.presenters.run_steps import purpose_words
from dashboard.queries import runs
from dashboard.services import config_option
from dashboard.services.run_queue import preceding_run

if TYPE_CHECKING:
    import pandas as pd

    from dashboard.app_pages.run.system import OutcomeSystem
    from dashboard.services import Config

TABS: Final = ("Outcome", "Journal", "Commands", "Related")
"""Labels of the tabs: an address names them."""

_TABLE_PX: Final = 420
_CODE_PX: Final = 480


def headline(config: Config, view: RunView, outcome: OutcomeSystem) -> None:
    """Draw the figures of the run, its state, and its controls."""
    now = services.now()
    figures.key_figures(
        [*presenter.run_figures(view, now), *outcome.figures(view)],
        key="run",
    )
    ahead = preceding_run(config, view)
    is_waiting = services.awaits_approval(config, view)
    is_next = view.state == "QUEUED" and ahead is None and not is_waiting
    if is_waiting:
        sentence = f"Waits for approval: {things(view.plan.steps)} on {view.cluster}."
    elif is_next and runs.worker(config, view.cluster).is_alive:
        sentence = presenter.about_to_begin(view)
    else:
        sentence = presenter.answer(view, now, ahead)
    words.answer(sentence)
    if purpose := purpose_words(view):
        st.caption(words.plain(purpose))
    with st.container(horizontal=True, vertical_alignment="center"):
        controls(config, view)
        _related_runs(config, view)
        outcome.draw_links(view)
    if not view.is_ended:
        done = presenter.progress(view, now)
        st.progress(done.ratio, text=done.text)
    notice(config, view)
    if left := not_brought_back(view.plan):
        words.section("Not reverted", "Changes that this undo does not revert.")
        words.notes(left)
    _trouble(config, view)
    next_moves(view)


def body(view: RunView, outcome: OutcomeSystem) -> None:
    """Show the steps, and next to them the outcome, or the step that is selected."""
    is_predicted = outcome.is_predicted(view)
    selected = _selected(view)
    place = None
    left = st.container()
    if is_predicted or selected is not None:
        left, place = frame.columns([0.65, 0.35], key="run")
    with left:
        _steps(view)
    if place is None:
        return
    with place:
        if selected is not None:
            _panel(view, selected)
        if is_predicted:
            words.section("Predicted vs. actual")
            outcome.draw_chart(view)


def details(config: Config, view: RunView, outcome: OutcomeSystem) -> None:
    """Show the tabs; each is computed when it is opened."""
    labels = TABS if outcome.is_predicted(view) else TABS[1:]
    tabs = dict(
        zip(
            labels,
            st.tabs(labels, key=state.VIEW, on_change="rerun", bind="query-params"),
            strict=True,
        )
    )
    if "Outcome" in tabs and tabs["Outcome"].open:
        with tabs["Outcome"]:
            outcome.draw_table(view)
    if tabs["Journal"].open:
        with tabs["Journal"]:
            _journal(config, view)
    if tabs["Commands"].open:
        with tabs["Commands"]:
            _by_hand(config, view)
    if tabs["Related"].open:
        with tabs["Related"]:
            _related(view)


def _trouble(config: Config, view: RunView) -> None:
    if view.damage:
        st.error(words.plain(view.damage), title="Journal entries of this run are damaged")
    if sentence := describe_forged(view.forged, is_run_forged=view.is_request_forged):
        st.warning(words.plain(sentence), title="Not signed", icon=":material/gpp_maybe:")
    if view.state == "REFUSED" and view.refusal is not None and view.refusal.hint:
        st.info(words.plain(view.refusal.hint), icon=":material/lightbulb:")
    if sentence := services.approval(config, view):
        st.info(words.plain(sentence), icon=":material/how_to_reg:")
    worker = runs.worker(config, view.cluster)
    if not view.is_ended and not worker.is_alive:
        st.warning(
            f"{words.plain(worker.sentence)} {worker.remedy}",
            title="No worker for this run",
            icon=":material/engineering:",
        )
    for setting in view.outstanding_settings:
        if view.is_ended or setting.result == "failed" or view.putting_back:
            st.warning(
                words.plain(setting.sentence or f"{setting.key} is not restored yet."),
                title=f"{setting.key} is still {setting.during}",
                icon=":material/settings_alert:",
            )


_STEPS: Final = "run_steps"
"""In the last change of many that came together: how many it stands for."""
_AGREED: Final = len("✓ 99.9%")
"""Of a landing that was predicted."""


def _selected(view: RunView) -> int | None:
    """Return the step whose row is selected."""
    held = st.session_state.get(_STEPS, {})
    rows = [row for row in held.get("selection", {}).get("rows", ()) if row < len(view.steps)]
    return rows[0] if rows else None


def _steps(view: RunView) -> None:
    """Show every step with its state, owners and result."""
    words.section("Steps", "Select a step for details.")
    rows = presenter.steps_frame(view, services.now())
    tables.table(
        rows,
        _columns(view, rows),
        key=_STEPS,
        alt="Steps of the run",
        height=min(_TABLE_PX, tables.height_of(len(rows))),
        missing="",
        selection="single-row",
    )
    words.notes(presenter.notable(view))
    if view.is_ended:
        tables.downloads(
            rows, cluster=view.cluster, what=f"run-{view.run_id}-steps", moment=view.requested_at
        )


def _columns(view: RunView, rows: pd.DataFrame) -> dict[str, tables.Column]:
    layout = system_of_run(view).steps_table
    columns = {
        "no": st.column_config.NumberColumn("", format="%d", width=36, pinned=True),
        "state": tables.words("State"),
        "result": tables.words("Result"),
        "bundle": tables.opener(
            "Subject", "_run_bundle", partial(_open_subject, view), is_pinned=False
        ),
        "asked": st.column_config.TextColumn("Requested destination", width=layout.asked),
        "before": st.column_config.TextColumn("From", width=layout.ends),
        "after": st.column_config.TextColumn("To", width=layout.ends),
        "predicted": st.column_config.TextColumn(
            "Predicted",
            width=86 if rows["predicted"].str.len().max() <= _AGREED else 150,
            help="Most probable destination and its probability. ✓ actual destination; ≠ different "
            "destination.",
        ),
        "elapsed_s": st.column_config.NumberColumn("Duration", format="%.1f s", width=62),
    }
    if not any(rows["predicted"]):
        del columns["predicted"]
    if set(rows["result"]) <= {"", "landed"}:  # the state says it
        del columns["result"]
    is_needless = all(  # the columns of the values have it
        step.step.setting or asked in ("any", to)
        for step, asked, to in zip(view.steps, rows["asked"], rows["after"], strict=True)
    )
    if is_needless:
        del columns["asked"]
    order = list(columns) if layout.order is None else layout.order(rows)
    return {name: columns[name] for name in order if name in columns}


def _panel(view: RunView, index: int) -> None:
    """Render the events of one step in full."""
    step = view.steps[index]
    with st.container(border=True, key="run_step_panel"):
        st.markdown(f"**{words.plain(f'Step {index + 1}: {step.step.describe()}')}**")
        st.caption(words.plain(presenter.step_words(step)))
        text = presenter.what_happened(step)
        if text:
            st.markdown(words.coded(text))


def _open_subject(view: RunView, subject: str) -> None:
    """Open the page of a step's subject, on the cluster of the run."""
    subject_page = system_of_run(view).subject_page(view, subject)
    if subject_page is not None:
        page, params = subject_page
        st.session_state[state.CLUSTER] = view.cluster
        state.go(page, cluster=view.cluster, **params)


def _journal(config: Config, view: RunView) -> None:
    """Show the run's entries in the journal."""
    rows = entries_frame(runs.entries_of(config, view.run_id), view.disregarded)
    journal_table(rows, key="run_journal", is_of_one_run=True)
    tables.downloads(
        rows, cluster=view.cluster, what=f"run-{view.run_id}-journal", moment=view.requested_at
    )


def _by_hand(config: Config, view: RunView) -> None:
    """Render the commands of the run and the command that shows it, as lines to copy."""
    lines = [line for step in view.plan.steps for line in step.command_lines()]
    st.caption(f"Commands of this run ({len(lines)}).")
    code = "\n".join(lines)
    st.code(code, language="bash", height=_CODE_PX if len(lines) > 20 else "content")
    st.caption("Show this run in a terminal:")
    st.code(f"trimtab runs {view.run_id}{config_option(config)}", language="bash")


def _related(view: RunView) -> None:
    """Render other changes during the run: moves of others, and settings of ours."""
    if not view.external_changes and not view.settings:
        st.caption("No external changes during the run.")
    if view.external_changes:
        what = system_of_run(view).system.unit.capitalize()
        words.section("External changes", f"{what}s moved by others during the run.")
        tables.table(
            presenter.external_frame(view),
            {
                "subject": tables.words(what),
                "from": tables.words("From"),
                "to": tables.words("To"),
            },
            key="run_external",
            alt="External moves during the run",
            height=min(_TABLE_PX, tables.height_of(len(view.external_changes))),
        )
        words.notes(
            [change.sentence for change in view.external_changes if FURTHER in change.sentence]
        )
    if view.settings:
        words.section("Temporary settings")
        tables.grid(
            presenter.settings_frame(view),
            hide_index=True,
            key="run_settings",
            alt="Settings changed by the run",
            row_height=tables.ROW_PX,
        )


def _related_runs(config: Config, view: RunView) -> None:
    """Show the runs that this one undoes, or that undo it."""
    other = runs.undone_by(config, view)
    links = [(view.undoes, "Undo of run")] if view.undoes else []
    if other is not None:
        links.append((other.run_id, "Undone by run" if other.state == "DONE" else "Undo: run"))
    for run_id, text in links:
        st.button(
            f"{text} {run_id}",
            icon=":material/undo:",
            type="tertiary",
            key=f"_related_{run_id}",
            on_click=run_link,
            args=(run_id,),
        )
