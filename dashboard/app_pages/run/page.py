"""One run, live: how far, which step, who owns what now, predicted against what came."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from core.actions.views import RunView
from core.errors import OpsError
from dashboard import services, state
from dashboard.app_pages.run import view
from dashboard.app_pages.systems import OUTCOME
from dashboard.components import frame, words
from dashboard.components.systems import system_of_run
from dashboard.queries import runs
from dashboard.services import config_option

if TYPE_CHECKING:
    from dashboard.services import Config

LIVE_S, LATER_S = 1.0, 4.0
FEW_LINES, MOST_PX = 20, 480
MEASURED_WITHIN = timedelta(minutes=3)


def read(config: Config, run_id: str) -> RunView | None:
    """Return the run; say what is wrong and stop when it cannot be read."""
    try:
        return runs.find(config, run_id)
    except OpsError as error:
        words.failed(error, what="The journal cannot be read")
        st.stop()


def look_every_s(run: RunView) -> float | None:
    """Return how often to look again; ``None``: nothing will change any more."""
    if not run.is_ended:
        return LIVE_S
    ended = run.ended_at or run.requested_at
    is_awaited = run.measured is None and services.now() - ended < MEASURED_WITHIN
    return LATER_S if is_awaited and run.started_at is not None else None


def draw(config: Config, drawn: RunView) -> None:
    """Draw what changes while the run goes; draw the whole page when it ended or was measured."""
    run = read(config, drawn.run_id) or drawn
    if look_every_s(run) != look_every_s(drawn) or run.measured != drawn.measured:
        st.rerun()
    view.headline(config, run)
    view.steps(run)
    view.around(run)
    if not run.is_ended:
        with st.expander("Journal of this run", icon=":material/menu_book:"):
            view.journal(config, run)


config = frame.open_journal("Run")
run_id = state.text(state.RUN)
if not run_id:
    words.answer("Name a run, or open one from the Activity page.")
    st.button("Activity", icon=":material/history:", on_click=state.go, args=("activity",))
    st.stop()
found = read(config, run_id)
if found is None:
    words.answer(f"The journal knows no run {run_id}.")
    st.caption("Every requested run is on the Activity page.")
    st.button("Activity", icon=":material/history:", on_click=state.go, args=("activity",))
    st.stop()

st.fragment(partial(draw, config, found), run_every=look_every_s(found))()

OUTCOME[system_of_run(found).system.name](found)
view.related(config, found)
if found.is_ended:
    with st.expander("Journal of this run", icon=":material/menu_book:"):
        view.journal(config, found)

lines = [line for step in found.plan.steps for line in step.command_lines()]
if len(lines) > FEW_LINES:
    with st.expander(f"The same by hand: {len(lines):,} lines to copy", icon=":material/terminal:"):
        st.code("\n".join(lines), language="bash", height=MOST_PX)
else:
    words.section("The same by hand", "What this run sends, as lines to copy.")
    st.code("\n".join(lines), language="bash")
words.section("In a terminal", "Reads this run; it sends nothing.")
st.code(f"trimtab runs {found.run_id}{config_option(config)}", language="bash")
