"""Maintenance: take nodes out of service and back, one step after another."""

from __future__ import annotations

import streamlit as st

from core.errors import InputError
from dashboard.app_pages.pegasus.maintenance import model, view
from dashboard.components import frame, words
from dashboard.components.pegasus import plan as pegasus_plan
from dashboard.components.pegasus.page import PegasusPage
from dashboard.queries.pegasus.plans import wizard_plan_of
from dashboard.services import config_option

page = frame.open_page("Maintenance", PegasusPage)
run = view.going(page)
words.answer(model.answer(page.facts, run))
if run is not None:
    view.draw_going(page, run)
view.draw_nodes(page)

words.section("What is to be done", "Nothing is touched before you apply the plan below.")
wizard, request = view.choose(page)
if request is None:
    st.info("Choose a node to see the steps.", icon=":material/touch_app:")
    st.stop()
words.section("Checks and steps", "What would refuse, every step with its waits, what is put back.")
try:
    with st.spinner("Planning"):
        plan = wizard_plan_of(request)
except InputError as error:
    words.failed(error, what="This cannot be planned")
    st.stop()
if plan.applyable:
    st.markdown(":material/check: Nothing in the snapshot forbids it; each step looks again.")
pegasus_plan.draw_plan(page, pegasus_plan.in_dialog(plan))

words.section("In a terminal", f"Prepares the same plan as {wizard.script} of Pegasus.")
line = model.command(
    wizard, page.name, request.nodes, request.rate_mb_per_s, request.max_under_replicated
)
st.code(f"{line}{config_option(page.config)}", language="bash")
