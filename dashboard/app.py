"""The entry file: the table of pages, and the boundary that catches what nobody expected."""

from __future__ import annotations

import logging
import uuid

import streamlit as st

from core.errors import OpsError
from dashboard import state
from dashboard.components import frame, words
from dashboard.components.logo import LOGO, MARK

_LOG = logging.getLogger("trimtab.pages")

PAGES = {
    "": [
        st.Page(
            "app_pages/fleet.py",
            title="Fleet overview",
            icon=":material/hub:",
            default=True,
            help="Every cluster in one row: balance, worst broker, findings, freshness.",
        ),
        st.Page(
            "app_pages/activity.py",
            title="Activity",
            icon=":material/history:",
            help="Who applied what, when and why, and what came of it: runs and the journal.",
        ),
        st.Page("app_pages/run.py", title="Run", url_path="run", visibility="hidden"),
    ],
    "Pulsar": [
        st.Page(
            "app_pages/brokers.py",
            title="Brokers",
            icon=":material/dns:",
            help="Load of every broker over time, its limiting resource and its place to the mean.",
        ),
        st.Page(
            "app_pages/bundles.py",
            title="Bundles",
            icon=":material/donut_small:",
            help="Every bundle: where the load is, by broker or namespace, and the hash ring.",
        ),
        st.Page(
            "app_pages/rebalance.py",
            title="Rebalance",
            icon=":material/balance:",
            help="What the cluster's balancer would do, what would be better, and doing it.",
        ),
        st.Page(
            "app_pages/unload.py",
            title="Unload preview",
            icon=":material/swap_horiz:",
            help="What would happen if bundles were unloaded: who takes them, and who notices.",
        ),
        st.Page(
            "app_pages/lookup.py",
            title="Placement & lookup",
            icon=":material/travel_explore:",
            help="Where a topic lives and why; where a bundle would be placed.",
        ),
        st.Page("app_pages/broker.py", title="Broker", url_path="broker", visibility="hidden"),
        st.Page("app_pages/bundle.py", title="Bundle", url_path="bundle", visibility="hidden"),
    ],
}

st.set_page_config(
    page_title="Trimtab",
    page_icon=MARK,
    layout="wide",
    initial_sidebar_state=210,
    menu_items={
        "About": "Trimtab keeps Apache Pulsar fleets in balance: see the load, preview a move, "
        "apply it, watch it, take it back."
    },
)

page = st.navigation(PAGES)
state.note_page(page.url_path or "fleet")
st.logo(LOGO, size="large")
try:
    frame.draw_header()
    page.run()
except OpsError as error:
    words.failed(error, what="This page cannot be shown")
except Exception:  # noqa: BLE001  # the one boundary: a person sees an id, the log the rest
    report_id = uuid.uuid4().hex[:10]
    _LOG.exception("page %s failed, report %s", page.url_path or "fleet", report_id)
    st.error(
        f"Report id `{report_id}`: the log of the dashboard has the details under it. "
        "Nothing was sent to a cluster by this page; a run under way goes on (see Activity).",
        title="This page met an error of ours",
        icon=":material/bug_report:",
    )
