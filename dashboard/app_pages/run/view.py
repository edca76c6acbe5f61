"""A run as it goes: headline, progress, controls, steps, what else moved, what was set."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from core.actions.views import RunView
from dashboard import services, state
from dashboard.components import tables, words
from dashboard.components.activity import run_link
from dashboard.components.run_controls import controls, next_moves, notice
from dashboard.components.systems import system_of_run
from dashboard.presenters import runs as presenter
from dashboard.presenters.journal import entries_frame
from dashboard.queries import runs
from dashboard.services.run_queue import run_ahead

if TYPE_CHECKING:
    from dashboard.services import Config


def headline(config: Config, view: RunView) -> None:
    """Show how the run stands, what is known about it, and what may be requested of it."""
    now = services.now()
    ahead = run_ahead(config, view)
    is_next = view.state == "QUEUED" and ahead is None
    if is_next and runs.worker(config, view.cluster).is_alive:
        words.answer(presenter.about_to_begin(view, now))
    else:
        words.answer(presenter.answer(view, now, ahead))
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        words.badge(presenter.state_badge(view))
        st.caption(words.plain(presenter.facts_line(view)))
    notice(config, view)
    done = presenter.progress(view, now)
    st.progress(done.ratio, text=done.text)
    _trouble(config, view)
    controls(config, view)
    next_moves(view)


def _trouble(config: Config, view: RunView) -> None:
    if view.damage:
        st.error(words.plain(view.damage), title="The journal of this run is damaged")
    if view.state == "REFUSED" and view.refusal is not None and view.refusal.hint:
        st.info(words.plain(view.refusal.hint), icon=":material/lightbulb:")
    worker = runs.worker(config, view.cluster)
    if not view.is_ended and not worker.is_alive:
        st.warning(
            f"{words.plain(worker.sentence)} {worker.remedy}",
            title="No worker executes this run",
            icon=":material/engineering:",
        )
    for setting in view.outstanding_settings:
        if view.is_ended or setting.result == "failed" or view.putting_back:
            st.warning(
                words.plain(setting.sentence or f"{setting.key} has not been put back yet."),
                title=f"{setting.key} is still {setting.during}",
                icon=":material/settings_alert:",
            )


def steps(view: RunView) -> None:
    """Show every step with its state, owners and what happened."""
    words.section("Steps", "Every value is read from the cluster.")
    rows = presenter.steps_frame(view, services.now())
    layout = system_of_run(view).steps_table
    columns = {
        "no": st.column_config.NumberColumn("", format="%d", width=36, pinned=True),
        "state": tables.words("State"),
        "before": st.column_config.TextColumn("From", width=layout.ends),
        "after": st.column_config.TextColumn("To", width=layout.ends),
        "sentence": st.column_config.TextColumn("What happened", width=layout.sentence),
        "bundle": tables.opener(
            "Subject", "_run_bundle", partial(_open_subject, view), is_pinned=False
        ),
        "predicted": st.column_config.TextColumn(
            "Predicted",
            width=110,
            help="Most likely landing of the plan. ✓ it came so; ≠ it landed elsewhere.",
        ),
        "elapsed_s": st.column_config.NumberColumn("Took", format="%.1f s", width=62),
    }
    if not any(rows["predicted"]):
        del columns["predicted"]
    if any(asked != "any" for asked in rows["asked"]):
        columns["asked"] = st.column_config.TextColumn("Asked for", width=layout.asked)
    row_px = tables.WRAPPED_PX + layout.row
    tables.grid(
        rows,
        hide_index=True,
        column_order=list(columns) if layout.order is None else layout.order(rows),
        column_config=columns,
        key="run_steps",
        alt="Steps of the run",
        height=min(560, tables.height_of(len(rows), row_px)),
        row_height=row_px,
        placeholder="",
    )
    words.notes(presenter.notable(view))
    if view.is_ended:
        tables.downloads(
            rows, cluster=view.cluster, what=f"run-{view.run_id}-steps", moment=view.requested_at
        )


def around(view: RunView) -> None:
    """Show what else changed during the run: moves of others, and settings of ours."""
    if view.external_changes:
        what = system_of_run(view).system.unit.capitalize()
        words.section("Moved by others", f"{what}s that changed hands meanwhile, and not by it.")
        words.notes([move.sentence for move in view.external_changes[:50]])
    if view.settings:
        words.section("Settings", "Changed for the time of the run.")
        tables.grid(
            presenter.settings_frame(view),
            hide_index=True,
            key="run_settings",
            alt="Settings that the run changed",
            row_height=tables.ROW_PX,
        )


def _open_subject(view: RunView, subject: str) -> None:
    """Open the page of what a step acts on, of the cluster that the run was on."""
    found = system_of_run(view).subject_page(view, subject)
    if found is not None:
        page, params = found
        st.session_state[state.CLUSTER] = view.cluster
        state.go(page, cluster=view.cluster, **params)


def journal(config: Config, view: RunView) -> None:
    """Show the run's entries in the journal."""
    rows = entries_frame(runs.entries_of(config, view.run_id), view.disregarded)
    tables.table(
        rows,
        {
            "seq": st.column_config.NumberColumn("No.", format="%d"),
            "at": st.column_config.DatetimeColumn("When (UTC)", format="HH:mm:ss.SSS"),
            "who": tables.words("Who"),
            "kind": tables.words("Entry"),
            "what": st.column_config.TextColumn("What", width=430),
            "before": st.column_config.TextColumn("Before", width=110),
            "after": st.column_config.TextColumn("After", width=110),
            "why": tables.words("Why"),
        },
        key="run_journal",
        alt="Entries of the run in the journal",
        height=min(420, tables.height_of(len(rows))),
    )
    tables.downloads(
        rows, cluster=view.cluster, what=f"run-{view.run_id}-journal", moment=view.requested_at
    )


def related(config: Config, view: RunView) -> None:
    """Show the runs that this one takes back, or that take it back."""
    other = runs.undone_by(config, view)
    links = [(view.undoes, "It takes back run")] if view.undoes else []
    if other is not None:
        links.append((other.run_id, "It was taken back by run"))
    for run_id, text in links:
        st.button(
            f"{text} {run_id}",
            icon=":material/undo:",
            type="tertiary",
            key=f"_related_{run_id}",
            on_click=run_link,
            args=(run_id,),
        )
