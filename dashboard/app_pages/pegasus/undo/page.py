"""Undo: the plan that takes a run on a Pegasus cluster back."""

from __future__ import annotations

import streamlit as st

from core.errors import NothingToUndoError, OpsError
from dashboard import state
from dashboard.app_pages.pegasus.undo.queries import count_moved, undo_plan_of
from dashboard.components import frame, words
from dashboard.components.activity import run_link
from dashboard.components.pegasus import plan as pegasus_plan
from dashboard.components.pegasus.page import PegasusPage
from dashboard.components.undo import draw_left, is_too_early, request_of
from dashboard.queries import runs
from dashboard.services import config_option

page = frame.open_page("Undo", PegasusPage)
run_id = state.text(state.UNDO)
if not run_id:
    words.answer("Select the run to undo under Runs.")
    st.button("Open Runs", icon=":material/history:", on_click=state.go, args=("activity",))
    st.stop()
st.button(
    f"Open run {words.plain(run_id)}",
    icon=":material/history:",
    type="tertiary",
    on_click=run_link,
    args=(run_id,),
    key="_undone_run",
)
try:
    view = runs.find(page.config, run_id)
    if view is None:
        words.answer(f"Run {run_id} is not in the journal.")
        st.stop()
    if is_too_early(page, view):
        st.stop()
    request = request_of(page, view, count_moved, "partition")
    plan = undo_plan_of(request)
except NothingToUndoError as error:
    st.info(words.plain(f"{error.message} {error.hint}".strip()), icon=":material/info:")
    st.stop()
except OpsError as error:
    words.failed(error, what="Could not plan the undo")
    st.stop()
words.title(f"Undo run {run_id}", view.reason)
plan = pegasus_plan.in_dialog(plan)
draw_left(plan)
moves = " --with-moves" if request.max_moves else ""
pegasus_plan.draw_plan(
    page,
    plan,
    key="undo",
    command=f"trimtab undo {run_id}{moves}{config_option(page.config)}",
)
