"""Diagnose: why the load is uneven, and how much each fix improves it."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.app_pages.diagnose import over_time, view
from dashboard.app_pages.diagnose.system import DiagnoseSystem
from dashboard.components import frame
from dashboard.components.waiting import no_snapshot
from dashboard.systems import page_part

TABS = ("Now", "Over time")

context = frame.open_fleet("Diagnose")
page = context.page
if page is None:
    no_snapshot(context.config, context.choice)
    st.stop()
system: DiagnoseSystem = page_part(page.cluster.kind, "diagnose")
now, past = st.tabs(TABS, key=state.DIAGNOSED_TAB, on_change="rerun", bind="query-params")
if past.open:
    with past:
        over_time.draw(context, system)
else:
    with now:
        view.draw_now(page, system)
