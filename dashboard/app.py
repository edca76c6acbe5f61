"""The entry file: the table of pages, and the boundary that catches what was not expected."""

from __future__ import annotations

import logging
import uuid
from typing import Final

import streamlit as st

from core.errors import OpsError
from dashboard import state
from dashboard.components import frame, words
from dashboard.sitemap import SECTIONS, Entry

ROOT_PATH = "home"
"""The default page is served at the root only; its own name is left to a second, hidden entry, so
that the address of every page is its name."""

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


def _page(entry: Entry, *, is_default: bool) -> st.Page:
    """Return a page of the navigation, or one that only other pages open."""
    file = entry.file
    if not entry.answers:
        return st.Page(file, title=entry.title, url_path=entry.name, visibility="hidden")
    icon = f":material/{entry.icon}:"
    path = ROOT_PATH if is_default else entry.name
    return st.Page(
        file, title=entry.title, icon=icon, url_path=path, default=is_default, help=entry.answers
    )


PAGES = {
    section: [
        _page(entry, is_default=not section and rank == 0) for rank, entry in enumerate(entries)
    ]
    for section, entries in SECTIONS.items()
}
FIRST = SECTIONS[""][0]
PAGES[""].append(st.Page(FIRST.file, title=FIRST.title, url_path=FIRST.name, visibility="hidden"))

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
    frame.draw_header(page.url_path or "fleet")
    page.run()
except OpsError as error:
    words.failed(error, what="This page cannot be shown")
except Exception:  # noqa: BLE001  # the one boundary: a person sees an id, the log the rest
    report_id = uuid.uuid4().hex[:10]
    _LOG.exception("page %s failed, report %s", page.url_path or "fleet", report_id)
    st.error(
        f"Report id `{report_id}`: the log of the dashboard has the details under it. "
        "Nothing was sent to a cluster by this page; a run continues (see Activity).",
        title="This page met an error of ours",
        icon=":material/bug_report:",
    )
