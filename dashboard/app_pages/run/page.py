"""One run, live: how far, which step, who owns what now, predicted vs. actual."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from core.actions.views import RunView
from core.errors import OpsError
from dashboard import services, state
from dashboard.app_pages.run import view
from dashboard.app_pages.run.system import OutcomeSystem
from dashboard.components import frame, words
from dashboard.components.systems import system_of_run
from dashboard.presenters import runs as presenter
from dashboard.queries import runs
from dashboard.systems import page_part

if TYPE_CHECKING:
    from dashboard.services import Config

LIVE_S, LATER_S = 1.0, 4.0
MEASURED_WITHIN = timedelta(minutes=3)


def read(config: Config, run_id: str) -> RunView | None:
    """Return the run; draw the error and stop if it cannot be read."""
    try:
        return runs.find(config, run_id)
    except OpsError as error:
        words.failed(error, what="Could not read the journal")
        st.stop()


def look_every_s(run: RunView) -> float | None:
    """Return the refresh interval, seconds; ``None`` if no change is expected."""
    if not run.is_ended:
        return LIVE_S
    ended = run.ended_at or run.requested_at
    is_awaited = run.measured is None and services.now() - ended < MEASURED_WITHIN
    return LATER_S if is_awaited and run.started_at is not None else None


def draw(config: Config, drawn: RunView) -> None:
    """Draw the run as it stands; draw the whole page again when it ended or was measured."""
    if state.text(state.RUN) != drawn.run_id:  # a link in here led to another run
        st.rerun()
    run = read(config, drawn.run_id) or drawn
    if look_every_s(run) != look_every_s(drawn) or run.measured != drawn.measured:
        st.rerun()
    outcome: OutcomeSystem = page_part(system_of_run(run).system.name, "run")
    view.headline(config, run, outcome)
    view.body(run, outcome)
    view.details(config, run, outcome)


config = frame.open_journal("Run")
run_id = state.text(state.RUN)
found = read(config, run_id) if run_id else None
if found is None:
    words.answer(f"Run {run_id} is not in the journal." if run_id else "Open a run from Runs.")
    st.button("Runs", icon=":material/history:", on_click=state.go, args=("activity",))
    st.stop()
words.title(f"Run {found.run_id}", presenter.subtitle(found))
st.fragment(partial(draw, config, found), run_every=look_every_s(found))()
