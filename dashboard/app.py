"""The entry file: the navigation, and the boundary that catches what was not expected."""

from __future__ import annotations

import logging
import uuid
from typing import Final

import streamlit as st

from core.errors import OpsError
from dashboard import state
from dashboard.components import frame, identity, navigation, unknown_params, words

_LOG = logging.getLogger("trimtab.pages")

LOGO: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 132 32" width="132" height="32">'
    '<g fill="none" stroke="#2b8aa3" stroke-width="2.4" stroke-linecap="round" '
    'stroke-linejoin="round">'
    '<path d="M4 21 L26 21"/><path d="M4 21 L15 6 L26 21"/><path d="M15 6 L15 21"/>'
    '<path d="M20 27 L28 23.5"/></g>'
    '<text x="38" y="22" font-family="Helvetica, Arial, DejaVu Sans, sans-serif" '
    'font-size="20" font-weight="600" letter-spacing="0.2" fill="#2b8aa3">Trimtab</text></svg>'
)
"""A sail over its water line, with the small tab that steers it."""

MARK: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" width="32" height="32">'
    '<g fill="none" stroke="#2b8aa3" stroke-width="2.8" stroke-linecap="round" '
    'stroke-linejoin="round"><path d="M4 21 L26 21"/><path d="M4 21 L15 6 L26 21"/>'
    '<path d="M15 6 L15 21"/><path d="M20 27 L28 23.5"/></g></svg>'
)
"""The mark alone, for the browser's tab."""


st.set_page_config(
    page_title=words.tab_title(),
    page_icon=MARK,
    layout="wide",
    initial_sidebar_state=210,
)

if identity.needs_sign_in():
    st.stop()
page = st.navigation(navigation.pages(), expanded=True)  # the sidebar has more below it
state.note_page(page.url_path or "fleet")
identity.bind_to_log(page.url_path or "fleet")
st.logo(LOGO, size="large")
try:
    identity.draw_identity()
    frame.draw_header(page.url_path or "fleet")
    unknown_params.draw_page()
    page.run()
except OpsError as error:
    words.failed(error, what="This page failed to load")
except Exception:  # noqa: BLE001  # the one boundary: a person sees an id, the log the rest
    report_id = uuid.uuid4().hex[:10]
    _LOG.exception("page %s failed, report %s", page.url_path or "fleet", report_id)
    st.error(
        f"Report ID `{report_id}`. See the dashboard log for details. No request was sent to a "
        "cluster; active runs continue (see Runs).",
        title="Internal error",
        icon=":material/bug_report:",
    )
