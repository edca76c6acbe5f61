"""Maintenance: take nodes out of service and back, one step after another."""

from __future__ import annotations

import streamlit as st

from core.errors import InputError
from dashboard.app_pages.pegasus.maintenance import model, view
from dashboard.components import figures, frame, words
from dashboard.components.pegasus import plan as pegasus_plan
from dashboard.components.pegasus.page import PegasusPage
from dashboard.presenters.pegasus import cluster
from dashboard.queries.pegasus.plans import maintenance_plan_of
from dashboard.services import config_option

page = frame.open_page("Maintenance", PegasusPage)
run = view.active_run(page)
words.title("Maintenance", cluster.subtitle(page.facts))
figures.key_figures(cluster.key_figures(page.facts), key="maintenance")
if sentence := model.answer(page.facts, run):
    words.answer(sentence)
if run is not None:
    view.draw_active_run(page, run)
operation, request = view.choose(page)
if request is None:
    st.caption(":material/touch_app: Select a node to show the steps.")
    view.draw_nodes(page)
    st.stop()
try:
    with st.spinner("Planning"):
        plan = maintenance_plan_of(request)
except InputError as error:
    words.failed(error, what="Could not create a plan")
    st.stop()
line = model.command(
    operation, page.name, request.nodes, request.rate_mb_per_s, request.max_under_replicated
)
pegasus_plan.draw_plan(
    page,
    pegasus_plan.in_dialog(plan),
    key="maintenance",
    command=f"{line}{config_option(page.config)}",
)
with st.expander("Nodes of the cluster", icon=":material/dns:"):
    view.draw_nodes(page)
